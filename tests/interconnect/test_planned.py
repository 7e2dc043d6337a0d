"""Machines on paper: like a described one, with other numbers of GPUs, switches and CPUs."""

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.survey import PaperMachine, PartSettings, planned
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems import paths, system


@pytest.fixture
def made(tmp_path):
    """The system of a plan, and what is assumed in it."""

    def of(name, cpu=None, gpu=None, **wanted):
        like = system.load(name)
        survey = planned(like, PaperMachine(gpu=gpu, cpu=cpu, **wanted))
        cpus = [each.part_name for each in like.components if each.kind == "cpu"]
        parts = PartSettings(gpu=gpu or like.gpus[0].part_name, cpu=cpu or cpus[0])
        (tmp_path / "made.yaml").write_text(written_system(survey, parts, like.library, "").text)
        return system.load(str(tmp_path / "made.yaml")), survey

    return of


@pytest.mark.parametrize(
    "name",
    ["pcie-gen5", "dgx1-p100", "dgx-h100", "gx8", "dual-root-1080ti", "summit", "mi300x", "gce-k80x8", "cpu-host"],
)
def test_nothing_but_like_is_the_same_machine(made, name):
    machine, survey = made(name)
    shipped = system.load(name)
    assert paths.connectivity(machine) == paths.connectivity(shipped)
    assert paths.peers(machine) == paths.peers(shipped)
    assert survey.source == f"assumed: on paper, like {name}"
    assert {link.source.partition(":")[0] for link in machine.links} == {"assumed"}


def test_gpus_are_shared_out_over_switches_and_these_over_cpus(made):
    machine, survey = made("pcie-gen5", gpus=8, switches=2, sockets=2, uplink="gen4x8", cards=2)
    row = paths.connectivity(machine)[0]
    assert row == ["X", "PIX", "PIX", "PIX", "SYS", "SYS", "SYS", "SYS"]
    (uplink,) = {(link.part_name, link.lanes) for link in machine.links if {link.a, link.b} == {"pcie0", "cpu0"}}
    assert uplink == ("pcie4", 8)
    assert sum(component.kind == "nic" for component in machine.components) == 4
    assert not any(said.startswith(("the number", "network cards", "the links of switches")) for said in survey.unknown)
    flat, _ = made("pcie-gen5", switches=0)
    assert paths.connectivity(flat)[0] == ["X", *["PHB"] * 3, *["SYS"] * 4]


@pytest.mark.parametrize(
    ("gpus", "wanted", "switches", "sockets"),
    [
        (2, {}, 1, 1),  # as two of a switch there
        (6, {}, 2, 2),
        (10, {}, 2, 2),
        (5, {}, 1, 1),
        (12, {}, 6, 2),
        (8, {"switches": 1}, 1, 1),
        (2, {"sockets": 2}, 2, 2),
    ],
)
def test_any_number_of_gpus_is_shared_out_evenly_where_nobody_says_how(made, gpus, wanted, switches, sockets):
    machine, survey = made("pcie-gen5", gpus=gpus, **wanted)
    kinds = [component.kind for component in machine.components]
    assert (kinds.count("gpu"), kinds.count("switch"), kinds.count("cpu")) == (gpus, switches, sockets)
    assert any(said.startswith("the number of PCIe switches") for said in survey.unknown) == ("switches" not in wanted)


def test_geforces_on_paper_are_no_peers_like_whatever_they_are(made):
    assert paths.are_peers(made("pcie-gen5", gpus=4)[0], 0, 1)
    machine, survey = made("pcie-gen5", gpus=4, gpu="rtx-4090")
    assert not paths.are_peers(machine, 0, 1)
    assert "the CPU: as pcie-gen5 (assumed); cpu=NAME names another" in survey.unknown


def test_a_fabric_of_switches_grows_and_another_gpu_brings_its_own_links(made):
    machine, _ = made("dgx-h100", gpus=16)
    assert set(paths.connectivity(machine)[0]) == {"X", "NV18"}
    machine, survey = made("dgx-h100", gpu="l40s-48gb")
    assert "NV18" not in paths.connectivity(machine)[0]
    assert "NVLinks: l40s-48gb has none, so there are none" in survey.unknown
    assert len(made("gb200-nvl72", gpus=8)[0].gpus) == 8


@pytest.mark.parametrize(
    ("name", "wanted", "sentence"),
    [
        ("dgx1-p100", {"gpus": 16}, "gpus=16: dgx1-p100 links its 8 GPUs directly to each other"),
        ("pcie-gen5", {"switches": 3}, "switches=3: 8 GPUs cannot be shared out evenly over them"),
        ("pcie-gen5", {"switches": 4, "sockets": 3}, "sockets=3: 4 switches cannot be shared out evenly over them"),
        ("pcie-gen5", {"sockets": 3}, "sockets=3: 8 GPUs cannot be shared out evenly over them"),
        ("pcie-gen5", {"switches": 1, "sockets": 2}, "sockets=2: 1 switch cannot be shared out evenly over them"),
        ("pcie-gen5", {"uplink": "x16"}, "uplink=x16: expected a generation and lanes, as gen5x16"),
        ("pcie-gen5", {"uplink": "gen9x16"}, "uplink=gen9x16: expected"),
        ("pcie-gen5", {"gpus": 8000}, "expected at most 4,096"),
        ("k80-10gbe", {}, "several nodes; expected a system of one"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(made, name, wanted, sentence):
    with pytest.raises(ConfigError) as refused:
        made(name, **wanted)
    assert sentence in str(refused.value)
