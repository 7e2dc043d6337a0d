"""Drawings of systems: what is where, and that nothing is drawn through something else."""

import math
import re
from functools import cache
from itertools import combinations, pairwise

import msgspec
import pytest

from resnetx.interconnect.systems import changed_systems, system
from resnetx.interconnect.systems.system import names
from resnetx.reporting.charts import topology
from resnetx.reporting.charts.figure import draw, specification
from resnetx.reporting.charts.topology import Walk


def drawing(chart, *kinds):
    """The rows of what is drawn of some kinds."""
    return [row for row in specification(chart)["datasets"]["all"] if row["kind"] in kinds]


def lines(rows):
    """The rows of points as polylines."""
    found = {}
    for row in rows:
        found.setdefault(row["line"], []).append((row["x"], row["y"]))
    return found


def filled(points):
    """Points in close sequence along a polyline."""
    for (x0, y0), (x1, y1) in pairwise(points):
        yield from ((x0 + t / 40 * (x1 - x0), y0 + t / 40 * (y1 - y0)) for t in range(41))


@cache
def single(name):
    """A system as one node, and its drawing."""
    machine = system.load(name, nodes=1)
    return machine, topology.graph(machine).chart


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_component_and_every_link_is_drawn(name):
    machine, chart = single(name)
    assert len(drawing(chart, "box")) == len(machine.components)
    gpus = {row["label"] for row in drawing(chart, "word")} & {str(gpu) for gpu in range(len(machine.gpus))}
    assert len(gpus) == len(machine.gpus)
    drawn = {line.partition(".")[0] for line in lines(drawing(chart, "link", "lanes", "ring"))}
    assert len(drawn) == len(machine.links)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_no_link_runs_through_a_component_that_it_does_not_join(name):
    machine, chart = single(name)
    boxes = {((row["x"] + row["x2"]) / 2, (row["y"] + row["y2"]) / 2): row for row in drawing(chart, "box")}
    where = {component.name: (component.x, component.y) for component in machine.components}
    for line, points in lines(drawing(chart, "link", "lanes", "ring")).items():
        link = machine.links[int(line.partition(".")[0])]
        ends = where[link.a], where[link.b]
        others = [box for at, box in boxes.items() if not any(at == pytest.approx(end) for end in ends)]
        for x, y in filled(points):
            assert not any(box["x"] < x < box["x2"] and box["y"] < y < box["y2"] for box in others), link.name


@pytest.mark.slow
def test_boxes_do_not_overlap():
    for name in names():
        rows = drawing(single(name)[1], "box")
        for a, b in combinations(rows, 2):
            assert a["x2"] <= b["x"] or b["x2"] <= a["x"] or a["y2"] <= b["y"] or b["y2"] <= a["y"], (name, a, b)


@pytest.mark.slow
def test_two_links_are_two_lines_and_many_are_one_thick_line():
    mesh, switched_drawing = system.load("dgx1-v100"), topology.graph(system.load("dgx-h100")).chart
    strands = lines(drawing(topology.graph(mesh).chart, "link"))
    doubled = [number for number, link in enumerate(mesh.links) if link.wire.family == "nvlink" and link.lanes == 2]
    assert len(doubled) == 8
    assert all({f"{number}.0", f"{number}.1"} <= strands.keys() for number in doubled)
    widths = {float(width) for width in re.findall(r'stroke-width="([\d.]+)"', draw(switched_drawing).svg)}
    assert max(widths) > 6  # pixels: 18 lanes; legends and frames stay below 4


def test_a_cube_mesh_looks_like_a_cube():
    """Two planes, one above the other and of the same shape, joined by upright edges."""
    at = {component.name: (component.x, component.y) for component in system.load("dgx1-p100").components}
    shifts = {
        (round(at[f"gpu{gpu}"][0] - at[f"gpu{gpu + 4}"][0], 6), round(at[f"gpu{gpu}"][1] - at[f"gpu{gpu + 4}"][1], 6))
        for gpu in range(4)
    }
    assert len(shifts) == 1
    ((aside, up),) = shifts
    assert aside == 0
    assert up > 0


@pytest.mark.parametrize("name", ["gx8", "dual-root-1080ti", "single-root-1080ti", "pcie-gen5"])
def test_a_pcie_tree_has_its_cpus_above_its_switches_above_its_gpus(name):
    machine = system.load(name)
    height = {component.name: component.y for component in machine.components}
    rank = {"gpu": 0, "switch": 1, "cpu": 2}
    for link in machine.links:
        low, high = sorted(
            (machine.component(link.a), machine.component(link.b)), key=lambda end: rank.get(end.kind, 3)
        )
        if high.kind in rank and low.kind != high.kind:
            assert height[low.name] < height[high.name], link.name


def test_rings_lie_beside_each_other_and_point_along_their_way():
    machine = system.load("dgx1-v100")
    order = [f"gpu{gpu}" for gpu in (0, 3, 2, 1, 5, 6, 7, 4)]
    chart = topology.graph(machine, [Walk("out", order), Walk("back", order[::-1])]).chart
    ways = lines(drawing(chart, "ring"))
    assert len(ways) == 16
    first = [(row["x"], row["y"]) for row in drawing(chart, "link", "lanes", "ring") if row.get("line") == "out.0"]
    back = [
        (row["x"], row["y"]) for row in drawing(chart, "link", "lanes", "ring") if row.get("line") == "back.6"
    ]  # 3 to 0
    gaps = {round(math.dist(a, b), 3) for a, b in zip(first, reversed(back), strict=True)}
    assert len(gaps) == 1  # parallel all along
    assert gaps.pop() > 0.05
    heads = drawing(chart, "ring head", "lane head")
    assert len(heads) == 16
    head = heads[0]
    assert head["angle"] == pytest.approx(90)  # from GPU 0 to GPU 3 is to the right


def test_gpus_that_take_no_part_are_pale():
    machine = system.load("dgx1-p100")
    chart = topology.graph(machine, [Walk("ring", ["gpu0", "gpu1", "gpu2", "gpu3"])]).chart
    boxes, words = drawing(chart, "box"), drawing(chart, "word")
    fills = {word["label"]: box["fill"] for box, word in zip(boxes, words, strict=True) if word["label"].isdigit()}
    assert len({fills[str(gpu)] for gpu in range(4)}) == 1
    assert len({fills[str(gpu)] for gpu in range(4, 8)}) == 1
    assert fills["0"] != fills["4"]


def test_a_chain_is_not_closed():
    machine = system.load("dgx1-p100")
    chart = topology.graph(machine, [Walk("chain", ["gpu0", "gpu1", "gpu2"], closed=False)]).chart
    assert len(lines(drawing(chart, "ring"))) == 2


@pytest.mark.slow
def test_the_legend_tells_the_rate_of_every_kind_of_link():
    text = draw(topology.graph(system.load("dgx1-p100")).chart).svg
    assert text.startswith("<svg")
    for words in ("NVLink 1: 20.0 GB/s each way, per link", "PCI Express 3.0: x16 15.8 GB/s", "2 links 38.4 GB/s"):
        assert words in text


@pytest.mark.parametrize("name", ["gx8", "dgx-a100"])
def test_a_file_without_places_is_laid_out_in_rows_by_kind(name):
    placed = system.load(name)
    piled = msgspec.structs.replace(
        placed, components=tuple(msgspec.structs.replace(each, x=0, y=0) for each in placed.components)
    )
    rows = drawing(topology.graph(piled).chart, "box")
    for a, b in combinations(rows, 2):
        assert a["x2"] <= b["x"] or b["x2"] <= a["x"] or a["y2"] <= b["y"] or b["y2"] <= a["y"]
    heights = {row["label"]: row["y"] for row in drawing(topology.graph(piled).chart, "word")}
    assert heights["0"] < heights["PCIe"] < heights["CPU 0"]


def test_of_many_nodes_one_can_be_drawn():
    one = topology.first_node(system.load("dgx-h100", nodes=16, network="ndr400", nics=8))
    assert len(one.gpus) == 8
    assert not any(link.wire.family == "network" for link in one.links)
    assert len(drawing(topology.graph(one).chart, "box")) == len(system.load("dgx-h100").components)


# ---- directions -----------------------------------------------------------------------------------------------------


def with_units(machine, **units):
    """A DGX-1 with V100 with other units: gpu0_gpu1=2 from the first to the second."""
    rows = [list(row) for row in changed_systems.connectivity(machine)]
    for ends, count in units.items():
        sender, to = (int(end.removeprefix("gpu")) for end in ends.split("_"))
        rows[to][sender] = count
    return changed_systems.steered(machine, rows, "a test")


@pytest.fixture(scope="module")
def steered_dgx1():
    return with_units(system.load("dgx1-v100"), gpu0_gpu3=1, gpu0_gpu1=2, gpu5_gpu1=0, gpu5_gpu6=4)


@pytest.mark.slow
def test_a_link_with_more_lanes_one_way_is_an_arrow_each_way_with_its_number(steered_dgx1):
    chart = topology.graph(steered_dgx1).chart
    assert sorted(row["label"] for row in drawing(chart, "number")) == ["1", "1", "2", "2", "2", "2", "4"]
    ways = {line for line in lines(drawing(chart, "link", "lanes", "ring")) if " to " in line}
    assert ways == {
        *(f"gpu{a} to gpu{b}" for a, b in ((0, 1), (1, 0), (0, 3), (3, 0), (1, 5), (5, 6), (6, 5))),
    }
    assert len(drawing(chart, "ring head", "lane head")) == len(ways)  # heads


@pytest.mark.slow
def test_arrows_of_both_directions_lie_side_by_side_and_point_the_right_way(steered_dgx1):
    chart = topology.graph(steered_dgx1).chart
    found = lines(drawing(chart, "link", "lanes", "ring"))
    out, back = found["gpu5 to gpu6"], found["gpu6 to gpu5"]
    assert out[0][0] < out[-1][0] and back[0][0] > back[-1][0]  # GPU 5 is drawn left of GPU 6
    assert out[0][1] < back[0][1]  # each on the right of its way
    angles = {
        round(row["angle"]) % 360
        for row in drawing(chart, "ring head", "lane head")
        if row["y"] == pytest.approx(out[0][1], abs=1e-3)
    }
    assert angles == {90}


@pytest.mark.slow
def test_rings_over_arrows_leave_their_numbers_out(steered_dgx1):
    ring = Walk("ring", ["gpu0", "gpu1", "gpu2", "gpu3"])
    assert not drawing(topology.graph(steered_dgx1, [ring]).chart, "number")


@pytest.mark.slow
def test_before_and_after_stand_side_by_side_with_what_changes_in_colour(steered_dgx1):
    figure = topology.side_by_side(system.load("dgx1-v100"), steered_dgx1)
    panels = "before: dgx1-v100", "after: dgx1-v100-steered"
    assert tuple(specification(figure.chart)["facet"]["sort"]) == panels
    before, after = (
        {row["line"]: (row["fill"], row["width"]) for row in drawing(figure.chart, "lanes") if row["panel"] == panel}
        for panel in panels
    )
    assert (len(before), len(after)) == (32, 31)  # of 4 peers of each GPU, one has no unit left
    changed = {way: colour for way, (colour, _) in before.items() if colour != topology.STAYS}
    assert changed == {
        "gpu0 to gpu3": topology.LOSES,
        "gpu5 to gpu1": topology.LOSES,
        "gpu0 to gpu1": topology.GAINS,
        "gpu5 to gpu6": topology.GAINS,
    }
    assert after["gpu5 to gpu6"][1] > before["gpu5 to gpu6"][1]
