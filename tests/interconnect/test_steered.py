"""Systems whose links between GPUs are others, and their files."""

import re

import pytest
from msgspec.structs import replace

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.system_text import system_text
from resnetx.interconnect.systems import paths, system
from resnetx.interconnect.systems.changed_systems import connectivity, photonic, steered, unit, with_switch
from resnetx.interconnect.systems.graph import SourcedValue

DGX1 = system.load("dgx1-v100")


def moved_unit(units, sender, old, new):
    """The matrix with one unit of a GPU sent to another one."""
    rows = [list(row) for row in units]
    rows[old][sender] -= 1
    rows[new][sender] += 1
    return rows


UNITS = moved_unit(connectivity(DGX1), 0, 3, 1)  # of two from GPU 0 to 3, one goes to 1, which had one


def written(made, folder):
    """Writes a system and gives its path."""
    path = folder / f"{made.name}.yaml"
    path.write_text(system_text(made, ["for a test"]))
    return str(path)


@pytest.mark.parametrize(("name", "each", "GBps"), [("dgx1-v100", 6, 25), ("dgx1-p100", 4, 20)])
def test_a_dgx1_has_so_many_units_a_gpu(name, each, GBps):
    units = connectivity(system.load(name))
    assert {sum(row) for row in units} == {sum(column) for column in zip(*units, strict=True)} == {each}
    assert unit(system.load(name)).bandwidth_Bps == GBps * 1e9


@pytest.mark.parametrize("name", ["dgx-a100", "gx8"])
def test_gpus_behind_switches_have_nothing_to_steer(name):
    with pytest.raises(ConfigError, match=f"{name}: no link joins two of its GPUs directly"):
        connectivity(system.load(name))


def test_the_own_units_of_a_system_give_it_back():
    same = steered(DGX1, connectivity(DGX1), "nothing")
    assert {(link.a, link.b, link.lanes, link.lanes_back) for link in same.links} == {
        (link.a, link.b, link.lanes, link.lanes_back) for link in DGX1.links
    }
    assert paths.pair_matrix(same) == paths.pair_matrix(DGX1)


def test_a_moved_unit_is_bandwidth_in_its_direction_alone():
    before, after = paths.pair_matrix(DGX1), paths.pair_matrix(steered(DGX1, UNITS, "a test"))
    changed = {
        (a, b): after.bandwidth_Bps[a][b] / before.bandwidth_Bps[a][b]
        for a in range(8)
        for b in range(8)
        if after.bandwidth_Bps[a][b] != before.bandwidth_Bps[a][b]
    }
    assert changed == {(0, 3): 0.5, (0, 1): 2.0}
    assert paths.connectivity(steered(DGX1, UNITS, "a test"))[0][:4] == ["X", "NV2", "NV1", "NV1"]


def test_a_steered_system_reads_back_from_its_file(tmp_path):
    made = steered(with_switch(DGX1, "sip-mems-64"), UNITS, 'a "test"')
    again = system.described(written(made, tmp_path))
    assert again == made
    assert connectivity(again) == tuple(map(tuple, UNITS))
    assert photonic(again) == photonic(made) is not None
    assert {link.source for link in made.links if link.through} == {'assumed: steered for a "test", from dgx1-v100'}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(system.names()))
def test_every_system_reads_back_from_what_is_written_of_it(name, tmp_path):
    described = system.described(name)
    assert system.described(written(described, tmp_path)) == described


def test_parts_of_its_own_are_written_with_a_system(tmp_path):
    text = (system.CONFIGS / "system" / "dgx1-v100.yaml").read_text().replace("link: nvlink2", "link: mine")
    wire = "{about: x, family: nvlink, bandwidth_Bps: [0.1e10, assumed, x], copy_GBps: [0.7, assumed, x], "
    text += f"parts:\n  links:\n    mine: {wire}latency_us: [0.3, assumed, x]}}\n"
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("link: mine, lanes: 2}", "link: mine, copy_GBps: [0.3, measured, y], peer: false}"))
    own = system.described(str(path))
    again = tmp_path / "again"
    again.mkdir()
    assert system.described(written(own, again)) == own


REFUSED = {
    "rows": (lambda units: units[:7], "units: expected 8 rows of 8"),
    "itself": (lambda units: [[1, *units[0][1:]], *units[1:]], "units: expected none from a GPU to itself"),
    "none": (lambda units: [[0] * 8 for _ in units], "units: none at all; expected at least one"),
    "negative": (lambda units: [[0, -1, *units[0][2:]], *units[1:]], "no negative number"),
    "too many": (lambda units: [[0, 9, *units[0][2:]], *units[1:]], "units: GPU 1 sends with 14; expected at most 6"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_units_that_a_system_cannot_have_are_refused(case):
    change, said = REFUSED[case]
    with pytest.raises(ConfigError, match=re.escape(said)):
        steered(DGX1, change([list(row) for row in UNITS]), "a test")


def test_a_switch_has_to_be_known_and_large_enough():
    with pytest.raises(
        ConfigError, match="switch=sip-mems-6: no photonic switch has that name; did you mean sip-mems-64"
    ):
        with_switch(DGX1, "sip-mems-6")
    with pytest.raises(ConfigError, match="the GPUs of dgx1-v100 are joined by a photonic switch already"):
        with_switch(with_switch(DGX1, "calient-s320"), "sip-mems-64")


def test_links_half_of_which_go_through_a_switch_are_not_steered():
    switched = with_switch(DGX1, "sip-mems-64")
    half = [replace(link, through="") if link.a == "gpu0" else link for link in switched.links]
    with pytest.raises(ConfigError, match="some go through a photonic switch and others do not"):
        connectivity(replace(switched, links=tuple(half)))


def test_a_steered_system_may_not_take_more_ports_than_its_switch_has():
    switched = with_switch(DGX1, "sip-mems-64")
    small = replace(photonic(switched), ports=SourcedValue(47, "assumed", "a test"))
    fewer = tuple(replace(each, part=small) if each.kind == "photonic" else each for each in switched.components)
    with pytest.raises(ConfigError, match="48 units in all, and its photonic switch has 47 ports"):
        steered(replace(switched, components=fewer), UNITS, "a test")
