"""Links with more lanes one way than the other: in files, paths, shares, rings, costs and the lab."""

import re
from itertools import combinations, permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import rings
from resnetx.interconnect.collectives.plan import plan
from resnetx.interconnect.collectives.traffic import lab_plan, star
from resnetx.interconnect.pairs.costs import pair_cost
from resnetx.interconnect.survey.survey import PaperMachine, planned
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.changed_systems import with_bandwidth
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.interconnect.systems.paths import fair_shares
from resnetx.request import Lab
from tests.interconnect.conftest import NVLINK

LANE_Bps = NVLINK.copy_Bps.value
KERNEL_Bps = Link("a", "b", "nvlink", NVLINK, 1, "a test").kernel_Bps


@pytest.fixture(scope="module")
def directed(machine):
    """Makes a machine with so many lanes [from][to]."""

    def make(lanes) -> System:
        size = len(lanes)
        bare = machine({}, names=range(size))
        links = [
            Link(f"gpu{a}", f"gpu{b}", "nvlink", NVLINK, lanes[a][b], "a test", lanes_back=lanes[b][a])
            for a, b in combinations(range(size), 2)
            if lanes[a][b] or lanes[b][a]
        ]
        return msgspec.structs.replace(bare, links=(*bare.links, *links))

    return make


RING_OF_THREE = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]  # 0 to 1 to 2 to 0


# ---- files ----------------------------------------------------------------------------------------------------------

FILE = """\
about: three GPUs and a CPU
wiring: a test
library: nccl2
components:
  gpu0..2: {gpu: v100-sxm2-16gb, at: [0, 0], step: [1, 0]}
  cpu0: {cpu: xeon-e5-2698v4, at: [1, 1]}
  ocs0: {photonic: sip-mems-64, at: [1, -1]}
links:
  - {between: [gpu0..2, cpu0], link: pcie3, lanes: 16}
  - {between: [gpu0, gpu1], link: nvlink2}
  - {one_way: [gpu1, gpu0], link: nvlink2, lanes: 2}
  - {one_way: [gpu2, gpu0..1], link: nvlink2, lanes: 3, through: ocs0}
"""


@pytest.fixture
def loaded(tmp_path):
    """Reads a text as a system; gives its path, too."""

    def load(text, **settings):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return system.load(str(path), **settings)

    return load


def test_lanes_one_way_add_to_those_both_ways(loaded):
    links = {(link.a, link.b): link for link in loaded(FILE).links if link.part_name == "nvlink2"}
    assert {ends: (link.lanes, link.lanes_back, link.through) for ends, link in links.items()} == {
        ("gpu0", "gpu1"): (1, 3, ""),
        ("gpu0", "gpu2"): (0, 3, "ocs0"),
        ("gpu1", "gpu2"): (0, 3, "ocs0"),
    }


def test_as_many_lanes_one_way_as_the_other_are_an_ordinary_link(loaded):
    ways = ["one_way: [gpu0, gpu1]", "one_way: [gpu1, gpu0]"]
    both = FILE.replace("  - {one_way: [gpu1, gpu0], link: nvlink2, lanes: 2}\n", "")
    stated = both.replace("  - {between: [gpu0, gpu1], link: nvlink2}\n", "@")
    assert loaded(stated.replace("@", "".join(f"  - {{{way}, link: nvlink2}}\n" for way in ways))) == loaded(both)


REFUSED = {
    "no GPU": (
        "between: [gpu0..2, cpu0], link: pcie3",
        "one_way: [gpu0, cpu0], link: pcie3",
        9,
        "gpu0 and cpu0 are not both GPUs",
    ),
    "twice": (
        "one_way: [gpu1, gpu0], link: nvlink2, lanes: 2",
        "one_way: [gpu2, gpu0], link: nvlink2",
        12,
        "linked twice",
    ),
    "both words": ("{one_way: [gpu1", "{between: [gpu0, gpu2], one_way: [gpu1", 11, "expected one of `between`"),
    "itself": ("[gpu2, gpu0..1]", "[gpu2, gpu0..2]", 12, "gpu2 is linked to itself"),
    "other rate": ("nvlink2, lanes: 2", "nvlink2, copy_GBps: [1, assumed, x]", 11, "expected the same in both"),
    "no switch": ("through: ocs0", "through: ocs1", 12, "no component is called ocs1"),
    "a CPU": ("through: ocs0", "through: cpu0", 12, "through=cpu0: a cpu; expected a photonic switch"),
    "link into a switch": (
        "[gpu0, gpu1], link",
        "[gpu0, ocs0], link",
        10,
        "ocs0 is a photonic switch, which ends no link",
    ),
    "nothing through": (", through: ocs0", "", 8, "nothing connects ocs0 to the rest"),
    "too many circuits": ("lanes: 3, through", "lanes: 33, through", 8, "66 lanes go through ocs0, counted one way"),
    "unknown kind": ("photonic: sip-mems-64", "photonic: sip-mems-32", 7, "no photonic has that name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_lanes_are_refused_with_the_line(loaded, case):
    before, after, line, said = REFUSED[case]
    assert before in FILE
    with pytest.raises(ConfigError, match=re.escape(said)) as refusal:
        loaded(FILE.replace(before, after, 1))
    assert f", line {line}: " in str(refusal.value)


def test_every_node_of_several_has_the_same_directions(loaded):
    nic = "  nic0: {nic: connectx-4-edr}\nlinks:\n  - {between: [nic0, cpu0], link: pcie3, lanes: 8}\n"
    several = loaded(FILE.replace("links:\n", nic), nodes=2, network="edr100")
    assert [[paths.nvlink_lanes(several, a, b) for b in (3, 4, 5)] for a in (3, 4, 5)] == [
        [0, 1, 0],
        [3, 0, 0],
        [3, 3, 0],
    ]
    (link, _), *_ = [each for each in several.neighbours["node1.gpu2"] if each[1] == "node1.gpu0"]
    assert several.component(link.through).kind == "photonic"


# ---- paths and shares -----------------------------------------------------------------------------------------------


def test_a_copy_takes_a_link_in_its_direction_alone(directed):
    ring = directed(RING_OF_THREE)
    assert paths.copy_path(ring, 0, 1).names == ["gpu0", "gpu1"]
    assert paths.copy_path(ring, 0, 1).bandwidth_Bps == LANE_Bps
    assert [paths.copy_path(ring, a, b).kind for a, b in ((1, 0), (0, 2))] == ["pcie", "host"]
    assert paths.peers(ring) == [[True, True, False], [True, True, True], [True, False, True]]
    assert paths.connectivity(ring) == [["X", "NV1", "SYS"], ["PIX", "X", "NV1"], ["NV1", "SYS", "X"]]
    relayed, direct = paths.routes(ring, 0, 2)
    assert (relayed.kind, relayed.names, direct.kind) == ("relay", ["gpu0", "gpu1", "gpu2"], "host")
    assert relayed.duplex_Bps < 2 * relayed.bandwidth_Bps  # the way back is not over these lanes


def test_opposite_copies_have_lanes_of_their_own(directed):
    pair = directed([[0, 3], [1, 0]])
    out, back = paths.flow(pair, 0, 1), paths.flow(pair, 1, 0)
    assert fair_shares(pair, [out, back]) == [(3 * LANE_Bps, "gpu0 to gpu1"), (LANE_Bps, "gpu1 to gpu0")]
    assert [share for share, _ in fair_shares(pair, [out, out, back])] == pytest.approx(
        [1.5 * LANE_Bps] * 2 + [LANE_Bps]
    )
    path = paths.copy_path(pair, 0, 1)
    assert (path.bandwidth_Bps, path.duplex_Bps) == (3 * LANE_Bps, 2 * LANE_Bps)  # until the slower one has ended
    assert pair_cost(path, 2**30).both_ways_s >= 2**30 / LANE_Bps


def test_what_both_directions_share_is_shared_by_lanes_that_have_one_back(loaded):
    text = FILE.replace("link: nvlink2", "link: nvlink1")
    (link,) = [link for link in loaded(text).links if (link.a, link.b) == ("gpu0", "gpu1")]
    one = link.wire.duplex_Bps.value
    assert link.duplex_Bps == one + 2 * link.wire.copy_Bps.value


def test_faster_links_keep_their_directions(loaded):
    faster = with_bandwidth(loaded(FILE), {"nvlink2": 2})
    assert paths.copy_path(faster, 1, 0).bandwidth_Bps == 2 * paths.copy_path(loaded(FILE), 1, 0).bandwidth_Bps
    assert paths.nvlink_lanes(faster, 0, 2) == 0


def test_a_new_machine_is_not_made_like_a_steered_one(loaded):
    with pytest.raises(ConfigError, match="like=mine: its GPUs are joined as a photonic switch was set"):
        planned(loaded(FILE), PaperMachine())


# ---- rings ----------------------------------------------------------------------------------------------------------


def test_three_gpus_in_a_directed_ring_have_one_ring_that_way(directed):
    assert rings.pack_rings(RING_OF_THREE) == [(0, 1, 2)]
    assert rings.pack_chains(RING_OF_THREE) == []  # a chain needs the way back
    found = plan(directed(RING_OF_THREE), "allreduce", library="nccl2")
    assert [ring.order for ring in found.rings] == [(0, 1, 2)]
    turned = plan(directed([list(row) for row in zip(*RING_OF_THREE, strict=True)]), "allreduce", library="nccl2")
    assert [ring.order for ring in turned.rings] == [(0, 2, 1)]


@pytest.mark.parametrize("lanes", [1, 2])
def test_an_allreduce_on_it_costs_what_the_formula_says(directed, lanes):
    counts = [[lanes * count for count in row] for row in RING_OF_THREE]
    found = plan(directed(counts), "allreduce", library="nccl2.4")
    (simple,) = [each for each in found.algorithms if each.protocol == "Simple"]
    assert simple.s_per_byte == pytest.approx(2 * 2 / 3 / (lanes * KERNEL_Bps))
    size = 2**30
    assert found.cost(size).time_s == pytest.approx(simple.fixed_s + size * 4 / 3 / (lanes * KERNEL_Bps))


def test_a_ring_that_no_lane_closes_goes_over_the_bus(directed):
    found = plan(directed([[0, 1, 0], [0, 0, 1], [0, 0, 0]]), "allreduce", library="nccl2")
    assert "No ring of NVLink lanes visits all 3 GPUs: gpu0 has fewer than two NVLink neighbours" in found.notes[0]
    found = plan(directed([[0, 1, 1], [0, 0, 1], [0, 1, 0]]), "allreduce", library="nccl2")
    assert "gpu0 has NVLink lanes to them only" in found.notes[0]


def test_the_gpu_that_receives_least_is_named_as_the_limit(directed):
    found = plan(directed([[0, 1, 2], [2, 0, 1], [1, 2, 0]]), "allreduce", library="nccl2")
    assert len(found.rings) == 3
    found = plan(directed([[0, 1, 2], [3, 0, 1], [3, 0, 0]]), "allreduce", library="nccl2")
    assert found.cost(2**30).limiting_link.startswith("gpu1: 1 NVLink lane from gpu0")


def test_nccl_1_takes_nvlink_among_mutual_peers_alone(directed):
    both_ways = directed([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    one_way_less = directed([[0, 1, 1], [1, 0, 1], [0, 1, 0]])
    found = [plan(each, "allreduce", library="nccl1").lanes for each in (both_ways, one_way_less)]
    assert found == [[[0, 1, 1], [1, 0, 1], [1, 1, 0]], None]


@pytest.mark.slow
def test_the_bound_of_many_gpus_is_what_passes_the_one_with_fewest_lanes_in():
    lanes = [[int(a != b) for b in range(10)] for a in range(10)]
    for row in lanes[1:]:
        row[0] = 0
    lanes[1][0] = 2
    assert rings.fractional(lanes) == rings.fewest_lanes(lanes) == 2


@st.composite
def meshes(draw, largest=5, lanes=2, even=False):
    size = draw(st.integers(2, largest))
    counts = [[0] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        counts[a][b] = draw(st.integers(0, lanes))
        counts[b][a] = counts[a][b] if even else draw(st.integers(0, lanes))
    return counts


def most_rings(lanes):
    """The largest packing, by trying all."""
    size = len(lanes)
    orders = [(0, *rest) for rest in permutations(range(1, size))]

    def most(left, first):
        best = 0
        for place in range(first, len(orders)):
            steps = rings.directions(orders[place])
            if all(left[a][b] for a, b in steps):
                after = [list(row) for row in left]
                for a, b in steps:
                    after[a][b] -= 1
                best = max(best, 1 + most(after, place))
        return best

    return most(lanes, 0)


@pytest.mark.slow
@given(meshes())
@settings(max_examples=60)
def test_rings_use_lanes_in_their_direction_and_no_more_than_there_are(lanes):
    left = [list(row) for row in lanes]
    found = rings.pack_rings(lanes)
    for order in found:
        assert sorted(order) == list(range(len(lanes)))
        for a, b in rings.directions(order):
            left[a][b] -= 1
    assert min(map(min, left)) >= 0
    assert len(found) <= rings.fractional(lanes) + 1e-9 <= rings.fewest_lanes(lanes) + 2e-9


@pytest.mark.slow
@given(meshes(largest=4))
@settings(max_examples=40)
def test_no_packing_of_rings_is_larger(lanes):
    assert len(rings.pack_rings(lanes)) == most_rings(lanes)


@pytest.mark.slow
@given(meshes(largest=4))
@settings(max_examples=30)
def test_all_lanes_turned_round_carry_as_many_rings(lanes):
    turned = [list(row) for row in zip(*lanes, strict=True)]
    assert len(rings.pack_rings(turned)) == len(rings.pack_rings(lanes))
    assert rings.pack_chains(turned) == rings.pack_chains(lanes)


@pytest.mark.slow
@given(meshes(largest=4, even=True))
@settings(max_examples=15)
def test_lanes_that_are_alike_both_ways_say_what_an_ordinary_link_says(machine, directed, lanes):
    ordinary = machine({(a, b): lanes[a][b] for a, b in combinations(range(len(lanes)), 2)}, names=range(len(lanes)))
    stated = directed(lanes)
    assert paths.pair_matrix(stated) == paths.pair_matrix(ordinary)
    assert paths.connectivity(stated) == paths.connectivity(ordinary)
    one, other = (plan(each, "allreduce", library="nccl2") for each in (stated, ordinary))
    assert (one.rings, one.chains, one.algorithms, one.notes) == (
        other.rings,
        other.chains,
        other.algorithms,
        other.notes,
    )


# ---- the lab --------------------------------------------------------------------------------------------------------


def test_the_lab_shapes_each_direction(directed):
    network = lab_network(directed([[0, 3, 0], [1, 0, 0], [2, 0, 0]]), None, 3, 100)
    assert [link.describe() for link in network.links if {link.a, link.b} <= set(network.ranks)] == [
        "0.600 GB/s, 0.200 GB/s back",
        "0.400 GB/s, no copies back",
    ]
    (last,) = [link for link in network.links if "gpu2" in (link.a, link.b) and link.back_Bps == 0]
    assert (last.a, last.from_Bps("gpu2"), last.from_Bps("gpu0")) == ("gpu2", 2 * LANE_Bps / 100, 0)


def test_a_ring_of_processes_in_the_lab_is_as_fast_as_its_slowest_direction(directed):
    lab = Lab(system="x", scale=100, transport="auto")
    even, uneven = (lab_plan(directed(lanes), lab, range(2)) for lanes in ([[0, 3], [3, 0]], [[0, 3], [1, 0]]))
    assert even.rings[0].bandwidth_Bps == pytest.approx(3 * uneven.rings[0].bandwidth_Bps)


# ---- copies to one server, and at the same time ---------------------------------------------------------------------


def test_copies_to_a_server_and_back_take_what_each_direction_has(directed):
    found = star(directed([[0, 2, 0], [1, 0, 0], [1, 0, 0]]), range(3), on_host=False)
    assert found.inward.bandwidth_Bps == LANE_Bps
    assert {(flow.steps[0][0], flow.steps[-1][1]) for flow in found.outward.flows} == {
        ("gpu0", "gpu1"),
        ("gpu0", "gpu2"),
    }
    assert found.outward.limit.endswith("staged in cpu0") or found.outward.limit.endswith("staged in cpu1")
    assert found.outward.fixed_s > found.inward.fixed_s  # one of them goes through the host


def test_a_copy_through_the_host_has_its_opposite_on_the_lanes_there_are(directed):
    lonely = directed([[0, 0, 0], [1, 0, 0], [1, 0, 0]])
    path = paths.copy_path(lonely, 0, 2)
    assert path.kind == "host"
    assert path.duplex_Bps == 2 * path.bandwidth_Bps  # nothing of the host is shared with the copy over NVLink
