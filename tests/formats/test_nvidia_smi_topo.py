"""Reading what nvidia-smi topo prints, in the forms that people paste."""

from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.formats import smi_topo
from resnetx.loading import File
from tests.interconnect.topo_texts import DGX1_P100, DGX1_V100, DUAL_ROOT

FILE = File(Path("topo.txt"), "a text", 2**20)
PAIR = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-19\nGPU1\tPIX\t X \t0-19\n"


def topo(text):
    found = smi_topo.parse(FILE, text).topo
    assert found is not None
    return found


ESC = "\x1b[4m"


def broken(text: str, width: int) -> str:
    """As a terminal of this width shows it, and copies it."""
    lines = text.expandtabs(8).splitlines()
    return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)) + "\n"


FORMS = {
    "broken at 80 columns": broken(DGX1_V100, 80),
    "broken within words": broken(DGX1_V100, 66),
    "labels in two words": DGX1_V100.replace("GPU", "GPU "),
    "small letters": DGX1_V100.replace("NV", "nv").replace(" SYS ", " sys "),
    "blanks for tabs": DGX1_V100.expandtabs(9),
    "Windows line ends": DGX1_V100.replace("\n", "\r\n"),
    "a prompt above, a fence around": f"```text\n[me@box ~]$ nvidia-smi topo -m\n{DGX1_V100}```\n",
    "quoted": "".join(f"> {line}\n" for line in DGX1_V100.splitlines()),
    "underlined": DGX1_V100.replace("\tGPU", f"\t{ESC}GPU", 8).replace("Affinity", "Affinity\x1b[0m"),
    "underlined, its escapes lost": DGX1_V100.replace("\tGPU", "\t[4mGPU", 8).replace("Affinity", "Affinity[0m"),
    "glued header": DGX1_V100.replace("\tGPU", "GPU", 8).replace("GPU7\tmlx5_0", "GPU7mlx5_0", 1),
    "the last card and the field behind it glued": DGX1_V100.replace("mlx5_3\tCPU", "mlx5_3CPU", 1),
    "title": f"GPU Topology:\n{DGX1_V100}",
    "below the report of an environment": f"GPU 0: H100\nGPU 0 Compute Capability: 9.0\nNVIDIA Topology:\n{DGX1_V100}",
    "behind its command": f"nvidia-smi topo -m            {DGX1_V100.lstrip()}",
    "wrapped header": DGX1_V100.replace("\tmlx5_1", "\n\tmlx5_1", 1).replace("CPU Affinity", "CPU\nAffinity", 1),
    "wrapped rows": DGX1_V100.replace(" SYS \t SYS \t SYS \t PIX", " SYS \t SYS \t SYS \n\t PIX"),
    "labels with names": DGX1_V100.replace("\nGPU3\t", "\nGPU3 (Tesla V100-SXM2)\t"),
    "table of Markdown": DUAL_ROOT.replace("\t", " | "),
    "reordered": "\n".join(sorted(DGX1_V100.split("\n\nLegend")[0].splitlines()[1:], reverse=True)).join(
        [DGX1_V100.splitlines()[0] + "\n", "\n"]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_text_says_the_same(form):
    plain = topo(DUAL_ROOT if "Markdown" in form else DGX1_V100)
    found = topo(FORMS[form])
    assert (found.gpus, found.words, found.affinity, found.notes) == (plain.gpus, plain.words, plain.affinity, ())
    assert set(found.cards) == set(plain.cards)


def test_words_of_old_drivers_are_those_of_today():
    found = topo(DGX1_P100)
    assert found.words["GPU0", "GPU5"] == "SYS"
    assert found.words["mlx5_1", "GPU2"] == found.words["GPU2", "mlx5_1"] == "PIX"
    assert found.affinity["GPU7"] == "CPUs 20-39,60-79"
    assert topo(PAIR.replace("PIX", "PSB")).words["GPU0", "GPU1"] == "PIX"


def test_numa_nodes_win_over_cpus_and_the_legend_names_cards():
    text = (
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tSYS\tPHB\t0-9\t0\t\tN/A\nGPU1\tSYS\t X \tSYS\tN/A\tN/A\t\tN/A\nNIC0\tPHB\tSYS\t X\n"
        "\nNIC Legend:\n\n  NIC0: mlx5_bond_0\n"
    )
    found = topo(text)
    assert found.affinity == {"GPU0": "NUMA 0"}
    assert found.card_names == {"NIC0": "mlx5_bond_0"}
    assert (found.gpus, found.cards) == (("GPU0", "GPU1"), ("NIC0",))


def test_a_text_that_is_cut_off_says_what_it_still_can():
    lines = DUAL_ROOT.splitlines()
    found = topo("\n".join([*lines[:7], lines[7][:14]]))  # rows of six GPUs, and a bit of the seventh
    assert len(found.gpus) == 8
    assert found.words["GPU0", "GPU7"] == "SYS"  # by the row of GPU 0
    assert ("GPU6", "GPU7") not in found.words
    assert found.notes == (
        "GPU7 has no row: the text may be cut off",
        "how near these are is not said: GPU6-GPU7",
    )


@pytest.mark.parametrize("cut", ["GPU0 X NV12 NV1", "GPU0 X NV12 NV12 NV1"])
def test_the_last_word_of_a_text_that_is_cut_off_may_be_half_of_one(cut):
    found = topo(f"     GPU0 GPU1 GPU2 GPU3 CPU Affinity\n{cut}")
    assert set(found.words.values()) == {"NV12"}
    assert found.notes[-1].startswith("how near these are is not said: GPU0-GPU")


def test_columns_that_are_cut_off_are_found_in_rows():
    lines = [line.expandtabs(8)[:56] for line in DUAL_ROOT.splitlines()[:9]]  # columns of six GPUs, rows of eight
    found = topo("\n".join(lines))
    assert (len(found.gpus), found.words["GPU0", "GPU7"], found.words["GPU6", "GPU5"]) == (8, "SYS", "PHB")
    assert found.notes == ("how near these are is not said: GPU6-GPU7",)


def test_without_a_header_columns_are_in_the_order_of_rows():
    found = topo("\n".join(DUAL_ROOT.splitlines()[1:9]))
    assert found.words == topo(DUAL_ROOT).words
    assert found.affinity["GPU4"] == "CPUs 12-23" if found.affinity else found.notes
    assert "no header" in found.notes[0]


def test_peers_are_read_with_what_they_were_asked_for():
    text = "$ nvidia-smi topo -p2p n\n \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tTNS\tX\t\n\nLegend:\n  OK = Status Ok\n"
    (matrix,) = smi_topo.parse(FILE, text).peers
    assert matrix.capability == "n"
    assert matrix.peers == {("GPU0", "GPU1"): True, ("GPU1", "GPU0"): False}
    unknown = smi_topo.parse(FILE, text.replace("TNS", "U").replace(" n\n", "\n", 1)).peers[0]
    assert (unknown.capability, unknown.peers) == ("", {("GPU0", "GPU1"): True})


@pytest.mark.parametrize(
    "above", ["(base) me@box:~/a b# nvidia-smi topo -p2p p", "$ nvidia-smi topo -m\nother capabilities (topo -p2p p)"]
)
def test_what_peers_were_asked_for_stands_behind_any_prompt_or_in_a_title(above):
    (matrix,) = smi_topo.parse(FILE, f"{above}\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n").peers
    assert matrix.capability == "p"


def test_a_numa_node_is_not_taken_for_a_cpu_where_the_cpus_are_blank():
    head = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    found = topo(f"{head}GPU0\t X \tNODE\t0-35\t1\t\tN/A\nGPU1\tNODE\t X \t\t1\t\tN/A\n")
    assert found.affinity == {"GPU0": "NUMA 1", "GPU1": "NUMA 1"}


def test_a_matrix_of_pci_alone_says_that_it_leaves_nvlink_out():
    (note,) = topo(f"$ nvidia-smi topo -mp\n{PAIR}").notes
    assert note == "NVLink: topo -mp leaves it out; nvidia-smi topo -m has it"
    whole = "$ nvidia-smi topo -m\n" + PAIR.replace("PIX", "NV2")
    of_pci = f"$ nvidia-smi topo -mp\n{PAIR}"
    for both in (whole + of_pci, of_pci + whole):
        assert (topo(both).words["GPU0", "GPU1"], topo(both).notes) == ("NV2", ())


def test_a_line_may_name_several_gpus():
    found = smi_topo.parse(FILE, f"GPU 0,1: NVIDIA GB200\nGPU 0,1 Compute Capability: 10.0\nTopology:\n{PAIR}")
    assert found.names == {0: "NVIDIA GB200", 1: "NVIDIA GB200"}


def test_lspci_beside_the_matrix_names_the_gpus():
    card = (
        "{}:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
    )
    new = "{}:00.0 3D controller: NVIDIA Corporation Device [10de:2330] (rev a1)\n01:00.1 Audio device: NVIDIA\n"
    rtx = "GeForce RTX 3090"
    assert smi_topo.parse(FILE, PAIR + card.format("01") * 2 + card.format("0000:02")).names == {0: rtx, 1: rtx}
    for others in (new.format("01") + card.format("02"), "".join(map(card.format, ("01", "02", "03")))):
        assert smi_topo.parse(FILE, PAIR + others).names == {}  # one that lspci does not know, or which two of three
    with pytest.raises(ConfigError, match="no line of it is a row of nvidia-smi topo"):
        smi_topo.parse(FILE, card.format("01"))


@pytest.mark.parametrize("command", ["-m", "-mp"])
def test_a_second_matrix_of_one_kind_or_of_another_machine_is_refused(command):
    other = "$ nvidia-smi topo -mp\n\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tPIX\nGPU1\tPIX\tX\tPIX\nGPU2\tPIX\tPIX\tX\n"
    with pytest.raises(ConfigError, match="two matrices of nvidia-smi topo -m"):
        topo(f"$ nvidia-smi topo {command}\n{PAIR}{other}")


def test_links_of_a_gpu_whose_lines_are_not_all_there_are_not_counted():
    rate = "\t Link {}: 25 GB/s\n".format
    gpu = "GPU {}: NVIDIA A100-SXM4-80GB (UUID: x)\n".format
    elided = gpu(0) + rate(0) + "\t [...]\n" + rate(11)
    cut = gpu(1) + "".join(map(rate, range(12))) + gpu(2) + rate(0) + "......\n"
    errors = gpu(1) + "\t Link 0: Replay Errors: 0\n"  # of nvidia-smi nvlink -e
    ports = smi_topo.parse(FILE, elided + cut + errors).ports
    assert {gpu: len(each.up) for gpu, each in ports.items()} == {1: 12}


def test_one_text_may_have_names_distances_and_peers():
    text = f"GPU 0: Tesla P100-SXM2-16GB (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n\n{PAIR}\n"
    text += "nvidia-smi topo -p2p r\n\tGPU0\tGPU1\nGPU0\tX\tGNS\nGPU1\tGNS\tX\n"
    found = smi_topo.parse(FILE, text)
    assert found.names == {0: "Tesla P100-SXM2-16GB", 1: "NVIDIA H200"}
    assert found.topo is not None and found.topo.words["GPU0", "GPU1"] == "PIX"
    assert found.peers[0].peers["GPU0", "GPU1"] is False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no line of it is a row of nvidia-smi topo -m or -p2p"),
        (PAIR.replace("\tPIX\t0", "\tPXX\t0"), "topo.txt, line 2: PXX is no word of nvidia-smi topo -m"),
        (PAIR.replace("GPU1\tPIX", "GPU1\tSYS"), "line 3: the matrix contradicts itself: GPU0 to GPU1 is PIX, but"),
        (PAIR.replace("GPU1\tPIX\t X ", "GPU1\tX\tPIX"), "line 3: the row of GPU1 says X in the column of GPU0"),
        (PAIR.replace("GPU1\tPIX\t X ", "GPU0\t X \tPIX"), "line 3: GPU0 has two rows in one matrix"),
        (PAIR.replace("\t X \tPIX", "\tY\tPIX"), "line 2: GPU0 to itself is Y; expected X"),
        ("GPU0 Tesla P100: X\n", "GPU0 to itself is Tesla"),
        (PAIR.replace("\tGPU1\tCPU", "\tGPU0\tCPU"), "GPU0 has two columns"),
        (PAIR + PAIR, "two matrices of nvidia-smi topo -m"),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tKO\tX\n", "line 3: KO is no state of nvidia-smi topo -p2p"),
    ],
)
def test_garbage_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ConfigError) as refused:
        smi_topo.parse(FILE, text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def glued(rows, places):
    """A matrix of GPUs and cards as a terminal prints it that leaves no blank behind some columns."""
    gpus = len(rows)
    cards = len(rows[0]) - gpus
    header = [*(f"GPU{n}" for n in range(gpus)), *(f"NIC{n}" for n in range(cards)), "CPU Affinity", "NUMA Affinity"]
    lines = ["\t" + "\t".join(header)]
    for number, row in enumerate(rows):
        cells = "".join(cell + ("" if place in places else "\t") for place, cell in enumerate(row))
        lines.append(f"GPU{number}\t{cells}\t0-55,112-167\t0\tN/A")
    return "\n".join(lines)


NEAR_CARDS = [
    ["X", "NV18", "PIX", "NODE", "NODE", "SYS", "SYS"],
    ["NV18", "X", "NODE", "PIX", "PIX", "SYS", "SYS"],
]


@pytest.mark.parametrize("places", [{3}, {5}, {2, 5}, {2, 3}, {1}, {0}])
def test_cells_that_stand_together_are_divided_as_the_columns_say(places):
    found = topo(glued(NEAR_CARDS, places))
    apart = topo(glued(NEAR_CARDS, set()))
    assert found == apart
    assert found.words["GPU0", "NIC2"] == "NODE"


def test_a_last_cell_may_stand_together_with_the_cpus_behind_it():
    text = glued(NEAR_CARDS, {6}).replace("SYS\t0-55", "SYS0-55")
    assert topo(text) == topo(glued(NEAR_CARDS, set()))


def test_cells_that_no_division_brings_into_their_columns_are_refused():
    text = glued(NEAR_CARDS, {3}).replace("SYS\t\t0-55", "SYS\tSYS\t0-55")
    with pytest.raises(ConfigError, match=r"NODENODE is several cells without a blank.*more cells than its 7 columns"):
        topo(text)
