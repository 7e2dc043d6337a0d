"""Systems from what other programs say of machines: wiring, parts, and what is not known."""

import html
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.survey import PartSettings, joined
from resnetx.interconnect.survey.survey_sources import survey_of
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems import paths, system
from resnetx.loading import File
from tests.formats.test_nccl_system import H200 as LOG
from tests.formats.test_rocm_smi_topo import TEXT as ROCM
from tests.formats.test_topology_xml import HWLOC, NCCL
from tests.interconnect.topo_texts import DGX1_P100, MACHINES, topo

FILE = File(Path("topo.txt"), "a text", 2**20)


def full(count, word):
    return "\n".join(" ".join("X" if a == b else word for b in range(count)) for a in range(count))


@pytest.fixture
def made(tmp_path):
    """The system of some texts, and what is not known of it."""

    def of(*texts, library=None, gpus=None, **settings):
        survey = joined([survey_of(FILE, text, gpus) for text in texts])
        written = written_system(survey, PartSettings(**settings), library, "")
        (tmp_path / "made.yaml").write_text(written.text)
        return system.load(str(tmp_path / "made.yaml")), written

    return of


def kinds(machine, kind):
    return [component for component in machine.components if component.kind == kind]


def before_each_line(begin):
    return lambda text: "".join(f"{begin}{line}\n" for line in text.splitlines())


def with_numbers(text):
    return "".join(f"{number:4} {line}\n" for number, line in enumerate(text.splitlines(), 1))


# What launchers, log shippers, mail and web pages make of a text.
PASTED = {
    "srun --label": before_each_line("0: "),
    "torchrun": before_each_line("[rank0]: "),
    "mpirun --tag-output": before_each_line("[1,0]<stdout>:"),
    "kubectl": before_each_line("[pod/x/main] "),
    "timestamps": before_each_line("2026-01-31T03:04:05.678Z "),
    "quoted": before_each_line("> "),
    "quoted and escaped": lambda text: before_each_line("&gt; ")(html.escape(text)),
    "numbers of lines": with_numbers,
    "an issue": lambda text: f"<details><summary>it</summary>\n\n```\n$ cat it\n{text}```\n</details>\nWhy?\n",
    "a page": lambda text: f"<pre>{html.escape(text)}</pre>\n",
}


@pytest.mark.parametrize("form", PASTED)
@pytest.mark.parametrize("text", [DGX1_P100, NCCL, ROCM], ids=["nvidia-smi", "xml", "rocm-smi"])
def test_every_pasted_form_makes_the_same_system(made, text, form):
    pasted, plain = (made(each)[1].text for each in (PASTED[form](text), text))
    assert pasted == plain


def test_a_line_of_a_document_with_prose_above_is_named_as_the_file_has_it(made):
    with pytest.raises(ConfigError, match=r"topo.txt, line 4: busid=x"):
        made('It is:\n\n<system version="1"><cpu numaid="0">\n<pci busid="x"/></cpu></system>\n')


# ---- wiring


@pytest.mark.parametrize("name", MACHINES)
def test_systems_made_from_text_alone_are_wired_as_the_published_ones(made, name):
    text, settings = MACHINES[name]
    machine, _ = made(text, **settings)
    shipped = system.load(name)
    assert paths.connectivity(machine) == paths.connectivity(shipped)
    assert paths.peers(machine) == paths.peers(shipped)
    assert [gpu.part_name for gpu in machine.gpus] == [gpu.part_name for gpu in shipped.gpus]


def test_a_dgx_1_made_from_text_costs_what_the_published_one_does(made):
    text, settings = MACHINES["dgx1-p100"]
    machine, shipped = made(text, library="nccl2", **settings)[0], system.load("dgx1-p100")
    assert len(kinds(machine, "switch")) == len(kinds(shipped, "switch")) == 4
    for matrix in ("bandwidth_Bps", "duplex_Bps", "latency_s"):
        assert getattr(paths.pair_matrix(machine), matrix) == getattr(paths.pair_matrix(shipped), matrix)


def test_host_bridges_of_one_cpu_are_told_apart(made):
    text = topo("X PIX NODE SYS\nPIX X NODE SYS\nNODE NODE X SYS\nSYS SYS SYS X", ["0-9"] * 3 + ["10-19"])
    machine, _ = made(text, gpu="l40s")
    rows = paths.connectivity(machine)
    assert (rows[0], rows[2][3]) == (["X", "PIX", "NODE", "SYS"], "SYS")


@pytest.mark.parametrize(
    ("count", "word", "switches"),
    [(8, "NV18", 1), (8, "NV12", 1), (16, "NV6", 1), (4, "NV4", 0), (4, "NV6", 0), (2, "NV12", 0)],
)
def test_more_nvlinks_than_a_gpu_has_go_through_a_switch(made, count, word, switches):
    machine, _ = made(topo(full(count, word), ["0-9"] * count))
    assert len(kinds(machine, "switch")) == switches
    assert all(
        cell == word for a, row in enumerate(paths.connectivity(machine)) for b, cell in enumerate(row) if a != b
    )


def test_a_named_gpu_tells_how_many_nvlinks_there_can_be(made):
    text = topo(full(3, "NV6"), ["0-9"] * 3)  # three V100 of a DGX-2: twelve links each, of six
    assert not kinds(made(text)[0], "switch")
    survey = survey_of(FILE, text, nvlinks=6)
    assert survey.switched == {0: 6, 1: 6, 2: 6}


def test_gpus_without_any_affinity_are_on_the_fewest_cpus_that_distances_allow(made):
    text = "\n".join(line.rpartition("\t")[0] for line in DGX1_P100.split("\n\n")[0].splitlines()[:9])
    text = "\n".join("\t".join(line.split("\t")[:9]) for line in text.splitlines())  # no network cards either
    machine, written = made(text, gpu="p100")
    assert len(kinds(machine, "cpu")) == 2
    assert "the CPUs of GPUs: the fewest that the distances allow are assumed" in written.unknown


def test_distances_that_no_tree_has_are_refused(made):
    with pytest.raises(ConfigError, match="the matrix contradicts itself: GPU1 and GPU2 are PIX, which is nearer than"):
        made(topo("X PIX SYS\nPIX X PIX\nSYS PIX X", ["0-9"] * 3))


def test_a_card_where_it_cannot_be_is_said_and_gpus_keep_their_distance(made):
    text = topo("X SYS\nSYS X", ["0-9", "10-19"], ["NIC0"], "PIX PIX X")
    machine, written = made(text)
    assert paths.connectivity(machine)[0][1] == "SYS"
    assert any(said.startswith("where network cards are: GPU1 and NIC0 are PIX") for said in written.unknown)


NEAR = ["PIX", "PXB", "PHB", "NODE", "SYS"]


@st.composite
def trees(draw):
    """The words between GPUs of some machine: each pair meets at the highest level at which their numbers part."""
    places = draw(
        st.lists(st.tuples(*[st.integers(0, 1)] * 4, st.integers(0, 99)), min_size=2, max_size=8, unique=True)
    )

    def word(a, b):
        level = next(place for place in range(5) if a[place] != b[place])
        return NEAR[4 - level]

    return [["X" if a == b else word(a, b) for b in places] for a in places]


@pytest.mark.slow
@given(trees(), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_any_tree_is_found_again_from_its_distances(tmp_path_factory, rows, random):
    """Also with blanks for tabs and rows in any order."""
    header, *lines = topo("\n".join(map(" ".join, rows)), ["N/A"] * len(rows)).split("\n\n")[0].splitlines()
    random.shuffle(lines)
    text = "\n".join([header, *lines])
    survey = survey_of(FILE, random.choice([text, text.expandtabs(8)]))
    path = tmp_path_factory.mktemp("tree") / "tree.yaml"
    path.write_text(written_system(survey, PartSettings(), None, "").text)
    assert paths.connectivity(system.load(str(path))) == rows


# ---- trees


def test_the_xml_of_nccl_becomes_a_system(made):
    machine, _ = made(NCCL, gpu="p100")
    assert [link.lanes for link in machine.links if {link.a, link.b} == {"gpu0", "gpu1"}] == [1]
    assert paths.connectivity(machine)[0] == ["X", "NV1", "SYS"]
    assert next(link.wire.about for link in machine.links if link.b == "pcie0") == "PCI Express 3.0"
    (card,) = kinds(machine, "nic")
    assert card.part.bandwidth_Bps.value == 12.5e9


def test_devices_without_a_class_are_gpus_as_far_as_is_said(made):
    pci = "".join(f'<pci busid="0000:00:{place:02x}.0"/>' for place in (0x1A, 0x1B, 0x15))
    text = f'<system><cpu numaid="0">{pci}</cpu></system>'
    machine, written = made(text, gpus=2)
    assert (len(machine.gpus), len(kinds(machine, "nic"))) == (2, 1)
    assert any("the first 2 are taken for GPUs (assumed)" in said for said in written.unknown)
    assert len(made(text)[0].gpus) == 3
    with pytest.raises(ConfigError, match="gpus=4: expected 0 to 3"):
        made(text, gpus=4)


def test_several_files_of_one_machine_are_joined(made):
    text = topo("X NV2 SYS\nNV2 X SYS\nSYS SYS X", ["0-9", "0-9", "10-19"])
    named = "\n".join(f"GPU {gpu}: Tesla V100-SXM2-16GB (UUID: GPU-{gpu})" for gpu in range(3))
    peers = " \tGPU0\tGPU1\tGPU2\nGPU0\tX\tOK\tNS\nGPU1\tOK\tX\tNS\nGPU2\tNS\tNS\tX\n"
    plain = NCCL.replace("<nvlink", "<other").replace("</nvlink", "</other")
    machine, written = made(named, text, plain, peers)
    assert {gpu.part_name for gpu in machine.gpus} == {"v100-sxm2-16gb"}
    assert paths.connectivity(machine)[0] == ["X", "NV2", "SYS"]
    assert kinds(machine, "switch")[0].name == "pcie0"  # by the XML
    assert not any(said.startswith(("NVLink: ", "who are peers")) for said in written.unknown)
    with pytest.raises(
        ConfigError,
        match=r"hwloc's XML \(topo.txt\) has 2 GPUs, NCCL's XML \(topo.txt\) 3: expected files of one machine",
    ):
        made(NCCL, HWLOC)
    with pytest.raises(ConfigError, match="names of GPUs alone"):
        made(named)


@pytest.mark.parametrize(
    ("asked", "cells", "peers"),
    [
        ("p", "OK NS", {(0, 1): True, (1, 2): False}),  # over PCIe; the pair 0, 2 has an NVLink
        ("n", "OK NS", {(0, 1): True}),
        ("a", "OK NS", {}),
        ("r", "OK NS", {(0, 1): True, (1, 2): False, (0, 2): False}),
    ],
)
def test_what_was_asked_for_tells_which_pairs_are_peers(asked, cells, peers):
    first, other = cells.split()
    text = (
        topo("X PHB NV2\nPHB X PHB\nNV2 PHB X", ["0-9"] * 3) + f"\n$ nvidia-smi topo -p2p {asked}\n\tGPU0\tGPU1\tGPU2\n"
    )
    text += f"GPU0\tX\t{first}\t{other}\nGPU1\t{first}\tX\t{other}\nGPU2\t{other}\t{other}\tX\n"
    found = survey_of(FILE, text).peers
    assert {pair: may for pair, may in found.items() if pair[0] < pair[1]} == peers


def test_nvlinks_that_a_file_leads_back_to_their_own_gpu_are_said():
    one = '<system version="1"><cpu numaid="0"><pci busid="0001:00:00.0" class="0x030200"><gpu dev="0">'
    one += '<nvlink target="0001:00:00.0" count="12" tclass="0x030200"/></gpu></pci></cpu></system>'
    unknown = survey_of(FILE, one).unknown
    assert "where NVLinks of gpu0 lead: the source says to gpu0 itself" in unknown


def test_the_xml_of_hwloc_becomes_a_system(made):
    machine, written = made(HWLOC)
    assert paths.connectivity(machine) == [["X", "PIX"], ["PIX", "X"]]
    assert {cpu.part_name for cpu in kinds(machine, "cpu")} == {"xeon-e5-2698v4", "cpu-not-named"}
    assert any(said.startswith("NVLink: hwloc") for said in written.unknown)


def test_amd_gpus_are_joined_by_xgmi(made):
    machine, written = made(ROCM, gpu="mi250x")
    assert paths.connectivity(machine)[0] == ["X", "XGMI1", "SYS", "SYS"]
    assert "rocm-smi does not say how many XGMI links join two GPUs" in written.unknown
    assumed, _ = made(ROCM)
    assert assumed.gpus[0].part.fp32_FLOPps.provenance == "assumed"


# ---- peers


PEERS = "\n".join(
    ["\t".join(["", *(f"GPU{gpu}" for gpu in range(4))])]
    + [
        "\t".join([f"GPU{a}", *("X" if a == b else "OK" if a // 2 == b // 2 else "NS" for b in range(4))])
        for a in range(4)
    ]
)
FOUR = topo("X PIX PHB SYS\nPIX X PHB SYS\nPHB PHB X SYS\nSYS SYS SYS X", ["0-9"] * 3 + ["10-19"])


def peer_text(of):
    rows = ["\t".join([f"GPU{a}", *("X" if a == b else of(a, b) for b in range(4))]) for a in range(4)]
    return "\n".join(["\t".join(["", *(f"GPU{gpu}" for gpu in range(4))]), *rows])


@pytest.mark.parametrize("reach", ["none", "switch", "cpu", "all"])
def test_peers_are_those_that_nvidia_smi_names(made, reach):
    pairs = {
        "none": set(),
        "switch": {(0, 1)},
        "cpu": set(combinations(range(3), 2)),
        "all": set(combinations(range(4), 2)),
    }
    text = peer_text(lambda a, b: "OK" if (min(a, b), max(a, b)) in pairs[reach] else "TNS")
    # The CPU: neither said, refused, nor allowed by its part. The GPU: of drivers that allow it, and not.
    for cpu, gpu in product((None, "xeon-e5-2698v4", "xeon-e5-2690v3"), ("gtx1080ti", "rtx-4090")):
        machine, _ = made(FOUR, text, gpu=gpu, cpu=cpu)
        rows = paths.peers(machine)
        assert {pair for pair in combinations(range(4), 2) if rows[pair[0]][pair[1]]} == pairs[reach]
        assert paths.connectivity(machine)[0] == ["X", "PIX", "PHB", "SYS"]  # wires are not who may use them


@pytest.mark.parametrize(
    ("matrix", "names", "joined"),
    [
        ("X PIX\nPIX X", "NVIDIA GeForce RTX 4090", False), ("X PIX\nPIX X", "NVIDIA GeForce RTX 3080", False),
        ("X NV4\nNV4 X", "NVIDIA GeForce RTX 3090", True), ("X PIX\nPIX X", "NVIDIA L40S", True),
    ],
)  # fmt: skip
def test_geforces_are_no_peers_over_pcie_unless_it_is_said(made, matrix, names, joined):
    named = "\n".join(f"GPU {gpu}: {names} (UUID: GPU-{gpu}{'0' * 31})" for gpu in range(2))
    said = "\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX"
    machine, written = made(topo(matrix, ["0-9"] * 2), named)
    assert paths.are_peers(machine, 0, 1) is joined
    assert paths.are_peers(made(topo(matrix, ["0-9"] * 2), named, said)[0], 0, 1)
    refused = [line for line in written.unknown if line.endswith("none, as drivers of GeForces refuse it")]
    assert len(refused) == (0 if "L40S" in names else 1)


# ---- parts and what is assumed


def test_what_no_source_says_is_assumed_with_the_reason(made):
    machine, written = made(topo("X PIX\nPIX X", ["0-9"] * 2))
    gpu = machine.gpus[0].part
    assert gpu.about.startswith("a GPU that no source names")
    assert {gpu.fp32_FLOPps.provenance, gpu.memory_bytes.provenance, gpu.clock_Hz.provenance} == {"assumed"}
    assert "no source names the GPU" in gpu.fp32_FLOPps.source
    assert gpu.product_names == ()
    assert {link.source for link in machine.links if "gpu0" in (link.a, link.b)} == {
        "assumed: the generation and 16 lanes"
    }
    assert written.text.count("# not known: ") == len(written.unknown) > 2


def test_settings_and_sources_name_parts(made):
    text = topo("X PIX\nPIX X", ["0-9"] * 2, ["NIC0"], "PHB PHB X")
    machine, written = made(text, gpu="l40s", cpu="epyc-7742", nic="connectx-6-hdr", pcie=4)
    named = {component.part_name for component in machine.components}
    assert named == {"l40s-48gb", "epyc-7742", "connectx-6-hdr", "pcie4-switch"}
    assert {link.part_name for link in machine.links} == {"pcie4"}
    assert not any(said.startswith(("the GPU", "the CPU", "the generation", "the speed")) for said in written.unknown)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"gpu": "v100"}, "gpu=v100: several names begin with it; expected one of v100-sxm2-16gb, v100"),
        ({"gpu": "p200"}, "gpu=p200: no gpu has that name"),
        ({"gpu": "l40s"}, "gpu=l40s: it has no NVLink, but nvidia-smi topo -m (topo.txt) shows NVLinks"),
        ({"cpu": "epyc"}, "cpu=epyc: several names begin with it; expected one of epyc-7513, epyc-7742"),
    ],
)
def test_a_part_that_is_not_known_is_refused(made, settings, sentence):
    with pytest.raises(ConfigError) as refused:
        made(DGX1_P100, **settings)
    assert str(refused.value).startswith(sentence)


def test_a_beginning_is_enough_where_the_links_tell_the_rest(made):
    assert made(topo(full(8, "NV18"), ["0-9"] * 8), gpu="h100")[0].gpus[0].part_name == "h100-sxm5-80gb"
    assert made(topo(full(2, "SYS"), ["0-9", "10-19"]), gpu="p100")[0].gpus[0].part_name == "p100-pcie-16gb"
    with pytest.raises(ConfigError, match="gpu=h100: several"):  # a bridge of 12 may join cards as well
        made(topo(full(2, "NV12"), ["0-9"] * 2), gpu="h100")
    with pytest.raises(ConfigError, match="gpu=p100: several"):  # hwloc tells nothing of NVLink
        made(HWLOC, gpu="p100")


def test_a_gpu_with_a_name_of_its_own_keeps_it(made):
    named = 'GPU 0: NVIDIA "RTX" 9090 (UUID: GPU-1)\n\tGPU0\tCPU Affinity\nGPU0\t X \t0-9\n'
    machine, _ = made(named)
    assert machine.gpus[0].part_name == "nvidia-rtx-9090"
    assert 'NVIDIA "RTX" 9090' in machine.gpus[0].part.about


def test_the_tree_of_nccls_log_becomes_a_system_and_a_slow_switch_is_found(made):
    machine, written = made(LOG)
    assert [gpu.part.about for gpu in machine.gpus] == ["NVIDIA GPU (sm_90), not described"] * 2
    assert {(link.part_name, link.lanes) for link in machine.links if link.b == "nvswitch0"} == {("nvlink4", 18)}
    assert [card.part.bandwidth_Bps.value for card in kinds(machine, "nic")] == [50e9]
    (slow,) = written.findings
    assert slow.startswith(
        "the switch 0000:65:00.0 reaches the CPU at 0.25 GB/s (PCI[0.2] in NCCL's log), what is below it at 63: "
    )
    assert made(LOG.replace("PCI[0.2]", "PCI[48.0]"))[1].findings == ()
