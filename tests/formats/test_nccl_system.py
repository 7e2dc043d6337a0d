"""The tree of a machine in NCCL's debug log. Forms of lines: NCCL, src/graph/topo.cc, of several versions."""

from pathlib import Path

import pytest

from resnetx.errors import FileError
from resnetx.formats import nccl_system
from resnetx.formats.topology_xml import NvlinkEnd
from resnetx.interconnect.survey.survey_sources import read_survey
from resnetx.loading import File

FILE = File(Path("nccl.log"), "a log", 2**20)
PREFIX = "node1:4254:4327 [5] NCCL INFO "


def log(*lines, prefix=PREFIX):
    return "\n".join(prefix + line for line in lines)


def below(rate, name, *children):
    """A line of a component and those below it, indented to where its name begins."""
    head = f"+ {rate} - "
    return [head + name, *(" " * len(head) + line for child in children for line in child)]


def node(cpu, *children):
    return [cpu, *(line for child in children for line in child)]


HEAD = "=== System : maxBw 48.0 totalBw 370.8 ==="
H200 = log(
    HEAD,
    *node(
        "CPU/0-0 (1/2/-1)",
        ["+ SYS[16.0] - CPU/0-1"],
        below(
            "PCI[0.2]",
            "PCI/0-65000 (104c823200000000)",
            below("PCI[48.0]", "NIC/0-67000", ["+ NET[50.0] - NET/0-c (0/0/1/50.000000)"]),
            below("PCI[48.0]", "GPU/0-68000 (8)", ["+ NVL[370.8] - NVS/0-0"]),
        ),
    ),
    *node(
        "CPU/0-1 (1/2/-1)",
        ["+ SYS[16.0] - CPU/0-0"],
        below("PCI[48.0]", "GPU/0-a8000 (9)", ["+ NVL[370.8] - NVS/0-0"]),
    ),
    "==========================================",
)
# NCCL 2.8 of eight A100, and a GeForce pair with a bridge of four links.
OLD = log(
    "=== System : maxWidth 252.0 totalWidth 252.0 ===",
    *node(
        "CPU/0 (1/1/2)",
        below("PCI[24.0]", "PCI/1000", below("PCI[24.0]", "GPU/E000 (0)", ["+ NVL[252.0] - NVS/0"])),
        below("PCI[24.0]", "GPU/F000 (1)", ["+ NVL[252.0] - NVS/0"]),
    ),
)
BRIDGE = log(
    "=== System : maxBw 48.0 totalBw 48.0 ===",
    *node(
        "CPU/FFFFFFFFFFFFFFFF (1/2/-1)",
        below("PCI[12.0]", "GPU/1000 (0)", ["+ NVL[48.0] - GPU/2000"]),
        below("PCI[6.0]", "GPU/2000 (1)", ["+ NVL[48.0] - GPU/1000"]),
    ),
)


def tree(text):
    return nccl_system.parse(FILE, text).tree


def test_the_tree_has_addresses_links_rates_and_cards():
    made = tree(H200 + "\n" + PREFIX + "NET/IB : Using " + " ".join(f"[{n}]mlx5_{n}:1/IB" for n in range(13)))
    assert [(cpu.name, cpu.product) for cpu in made.cpus] == [("0", "AMD CPU"), ("1", "AMD CPU")]
    (switch,) = made.of_kind("bridge")
    assert (switch.name, switch.generation, switch.lanes) == ("0000:65:00.0", 1, 1)  # PCI[0.2]
    first, second = made.of_kind("gpu")
    assert (first.name, first.index, first.generation, first.lanes, first.arch) == ("0000:68:00.0", 8, 5, 16, "sm_90")
    assert first.nvlinks == (NvlinkEnd("0000:00:00.0", 18, to_switch=True),)
    assert second.name == "0000:a8:00.0"
    (card,) = made.of_kind("nic")
    assert (card.name, card.speed_Bps, card.label) == ("0000:67:00.0", 50e9, "mlx5_12")  # NET/0-c


def test_a_card_has_the_rate_that_is_not_rounded():
    (card,) = tree(H200.replace("NET[50.0]", "NET[3.1]").replace("/50.000000", "/3.125000")).of_kind("nic")
    assert card.speed_Bps == 3.125e9


@pytest.mark.parametrize(
    ("text", "arch", "links", "pcie"),
    [(OLD, "sm_80", [12, 12], [(4, 16), (4, 16)]), (BRIDGE, "sm_86", [4, 4], [(3, 16), (3, 8)])],
)
def test_older_forms_and_what_the_rates_stand_for(text, arch, links, pcie):
    gpus = tree(text).of_kind("gpu")
    assert [gpu.arch for gpu in gpus] == [arch] * 2
    assert [end.count for gpu in gpus for end in gpu.nvlinks] == links
    assert [(gpu.generation, gpu.lanes) for gpu in gpus] == pcie


def pair(pcie, nvlink, closed=True):
    ends = [
        below(f"PCI[{pcie}]", f"GPU/{a} (0)", [f"+ NVL[{nvlink}] - GPU/{b}"]) for a, b in ((1000, 2000), (2000, 1000))
    ]
    return log(HEAD, *node("CPU/0 (1/2/-1)", *ends), *["====="] * closed)


@pytest.mark.parametrize(
    ("pcie", "nvlink", "arch", "links"),
    [
        ("24.0", "80.0", "sm_80", 4),  # V100 has no PCIe 4
        ("12.0", "80.0", "sm_70", 4),
        ("12.0", "40.0", "sm_70 or sm_75", 2),
        ("48.0", "80.0", "sm_90", 4),
        ("12.0", "36.0", "sm_60", 2),
        ("24.0", "36.0", "sm_86", 3),
        ("96.0", "80.0", "", 4),  # none of these
    ],
)
def test_no_architecture_is_taken_whose_pcie_is_older_than_the_one_that_is_seen(pcie, nvlink, arch, links):
    gpus = tree(pair(pcie, nvlink)).of_kind("gpu")
    assert {(gpu.arch, gpu.nvlinks[0].count) for gpu in gpus} == {(arch, links)}


def test_a_tree_may_be_indented_less_than_it_was():
    lines = {"              + NET": "     + NET", "              + NVL": "     + NVL", "             + PCI": "  + PCI"}
    text = H200
    for before, after in lines.items():
        text = text.replace(before, after)
    assert text.count("  + PCI") == 2
    assert nccl_system.parse(FILE, text).tree == nccl_system.parse(FILE, H200).tree


def test_a_tree_without_its_last_line_may_be_cut_off():
    said = "whether the machine has more: no line ends the tree (=====), so that the log may be cut off"
    assert said not in tree(pair("24.0", "80.0")).notes
    assert said in tree(pair("24.0", "80.0", closed=False)).notes
    two = pair("24.0", "80.0", closed=False) + "\n" + pair("24.0", "80.0").replace("[5]", "[6]")
    assert said not in tree(two).notes, "another rank of the host has all"


def test_what_other_hosts_have_otherwise_is_a_finding(tmp_path):
    path = tmp_path / "nccl.log"
    path.write_text(pair("24.0", "80.0") + "\n" + pair("0.2", "80.0").replace("node1", "node2"))
    (said,) = (each for each in read_survey(path).findings if each.startswith("node2: "))
    assert said == (
        "node2: GPUs: 2 of PCIe 1.0 x1 and 4 NVLinks; the first host: GPUs: 2 of PCIe 4.0 x16 and 4 NVLinks"
    )
    path.write_text(pair("24.0", "80.0") + "\n" + pair("24.0", "80.0").replace("node1", "node2"))
    assert not any(each.startswith("node2") for each in read_survey(path).findings)
    path.write_text(pair("24.0", "80.0") + "\n" + pair("24.0", "81.7").replace("node1", "node2"))
    assert "node2: its tree cannot be read" in read_survey(path).findings


def test_amd_links_and_the_links_to_a_cpu():
    amd = log(HEAD, *node("CPU/0 (1/2/-1)", below("PCI[24.0]", "GPU/1000 (0)", ["+ XGMI[72.0] - GPU/2000"]),
                          below("PCI[24.0]", "GPU/2000 (1)", ["+ XGMI[72.0] - GPU/1000"])))  # fmt: skip
    assert [(gpu.arch, gpu.nvlinks[0].count, gpu.nvlinks[0].xgmi) for gpu in tree(amd).of_kind("gpu")] == [
        ("gfx90a", 2, True)
    ] * 2
    grace = log(HEAD, *node("CPU/0-0 (3/-1/-1)", ["+ C2C[345.0] - GPU/0-1000"],
                            below("PCI[3.0]", "GPU/0-1000 (0)", ["+ C2C[345.0] - CPU/0-0"])))  # fmt: skip
    (gpu,) = tree(grace).of_kind("gpu")
    assert (gpu.c2c.Bps, tree(grace).cpus[0].product) == (345e9, "Arm CPU")


@pytest.mark.parametrize(
    "prefix", ["0: " + PREFIX, "[1,0]<stdout>: " + PREFIX, "[2026-01-01 00:00:00] " + PREFIX, "(w pid=7) " + PREFIX, ""]
)
def test_what_stands_in_front_of_nccls_own_prefix_does_not_matter(prefix):
    assert [gpu.name for gpu in tree(H200.replace(PREFIX, prefix)).of_kind("gpu")] == ["0000:68:00.0", "0000:a8:00.0"]


def test_ranks_that_write_at_once_are_taken_apart_and_one_host_of_several_is_taken():
    other = H200.replace("[5]", "[6]").splitlines()
    mixed = "\n".join(line for pair in zip(H200.splitlines(), other, strict=True) for line in pair)
    assert tree(mixed).cpus == tree(H200).cpus
    notes = tree(H200 + "\n" + OLD.replace("node1", "node2")).notes
    assert "the other hosts: the log has the trees of 2, of which the first is taken" in notes


PLAIN = log(
    "NCCL version 2.21.5+cuda12.4",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.1.0.1<0>",
    "Channel 00/02 :    0   1   2   3",
    "Channel 01/02 :    0   3   2   1",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
    "Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct",
)


def test_what_else_a_log_tells_is_among_its_findings():
    assert nccl_system.parse(FILE, PLAIN + "\n" + H200).findings == (
        "NCCL 2.21.5",
        "2 rings, the first 0 1 2 3",
        "connections by P2P/CUMEM (1), SHM/direct/direct (1)",
        "network: IB by mlx5_0, mlx5_1",
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PLAIN, r"without the tree of the machine \(NCCL 2.21.5; 2 rings.*NCCL_TOPO_DUMP_FILE=nccl.xml.*INIT,GRAPH"),
        (log("Bootstrap : Using eth0:10.0.0.1<0>"), "no rings or connections either.*NCCL_TOPO_DUMP_FILE"),
        ("\n".join(PREFIX + line.removeprefix(PREFIX).lstrip() for line in H200.splitlines()), "lost the blanks"),
        (log(HEAD, "+ PCI[48.0] - GPU/0-68000 (8)"), "does not begin with a CPU"),
        (log(HEAD, "CPU/0-0 (1/2/-1)", "+ SYS[16.0] - CPU/0-1"), "has no GPU"),
        (H200.replace("370.8", "33.3"), r"NVL\[33.3\]: no number of links"),
    ],
)
def test_logs_that_make_no_machine_are_refused_with_what_to_set(text, sentence):
    with pytest.raises(FileError, match=sentence):
        nccl_system.parse(FILE, text)


def test_a_tree_that_is_nested_without_end_is_refused():
    lines = ["CPU/0-0"]
    for depth in range(70):
        lines.append(" " * 14 * depth + f"+ PCI[24.0] - PCI/0-{depth + 1:x}000")
    with pytest.raises(FileError, match="nested more than 64 deep"):
        nccl_system.parse(FILE, log(HEAD, *lines))
