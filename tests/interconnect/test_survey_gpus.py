"""Which part each GPU of a survey is: by its name, PCI id or architecture; by its links only where nothing names it."""

import re
from pathlib import Path

import pytest

from resnetx.errors import ConfigError
from resnetx.interconnect.survey.gpus import pci_table
from resnetx.interconnect.survey.survey import PartSettings, entries, joined
from resnetx.interconnect.survey.survey_sources import survey_of
from resnetx.interconnect.survey.system_text import written_system
from resnetx.interconnect.systems import paths, system
from resnetx.loading import File
from resnetx.prediction import roofline
from tests.interconnect.topo_texts import topo

FILE = File(Path("nccl.xml"), "a text", 2**20)


@pytest.fixture
def made(tmp_path):
    """The system of some texts, and what was found and not known."""

    def of(*texts, devices=None, **settings):
        survey = joined([survey_of(FILE, text, devices) for text in texts])
        written = written_system(survey, PartSettings(**settings), None, "")
        (tmp_path / "made.yaml").write_text(written.text)
        return system.load(str(tmp_path / "made.yaml")), written

    return of


def xml(*gpus, below=""):
    """NCCL's topology of GPUs, each {attribute of its <pci>: value} and what stands in its <gpu>."""
    devices = [
        f'<pci busid="0000:{number + 1:02x}:00.0" class="{given.get("cls", "0x030000")}" '
        f'vendor="{given.get("vendor", "0x10de")}" device="{given.get("device", "")}" '
        f'link_speed="{given.get("speed", "16.0 GT/s PCIe")}" link_width="16">'
        f'<gpu dev="{number}" {given.get("gpu", "")}>{given.get("inside", "")}</gpu></pci>'
        for number, given in enumerate(gpus)
    ]
    cpu = 'arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49"'
    return f'<system version="1"><cpu numaid="0" {cpu}>{"".join(devices)}{below}</cpu></system>'


AMD = {"vendor": "0x1002", "cls": "0x038000"}


@pytest.mark.parametrize(
    ("gpu", "part"),
    [
        ({"device": "0x2684", "gpu": 'sm="89"'}, "rtx-4090"),
        ({"device": "0x2204", "gpu": 'sm="86"'}, "rtx-3090"),
        ({"device": "0x2b85", "gpu": 'sm="120"', "speed": "32.0 GT/s PCIe"}, "rtx-5090"),
        ({"device": "0x2230", "gpu": 'sm="86"'}, "rtx-a6000"),
        ({"device": "0x20b5", "gpu": 'sm="80"'}, "a100-pcie-80gb"),
        ({"device": "0x1eb8", "gpu": 'sm="75"', "speed": "8.0 GT/s PCIe"}, "t4-16gb"),
        ({"device": "0x2237", "gpu": 'sm="86"'}, "a10g-24gb"),
        ({"device": "0x2329", "gpu": 'sm="90"', "speed": "32.0 GT/s PCIe"}, "h20-96gb"),
        ({"device": "0x27b8", "gpu": 'sm="89"'}, "l4-24gb"),
        ({**AMD, "device": "0x740f", "gpu": 'sm="104" gcn="910"'}, "mi210-64gb"),
        ({**AMD, "device": "0x74a1", "gpu": 'sm="94" gcn="gfx942"', "speed": "32.0 GT/s PCIe"}, "mi300x-192gb"),
        ({**AMD, "device": "0x74a5", "gpu": 'gcn="gfx942"', "speed": "32.0 GT/s PCIe"}, "mi325x-256gb"),
        ({**AMD, "gpu": 'gcn="908"'}, "mi100-32gb"),  # files of RCCL before it wrote ids; the only GPU of gfx908
    ],
)
def test_the_pci_id_or_the_architecture_names_the_gpu(made, gpu, part):
    machine, written = made(xml(gpu, gpu))
    assert [each.part_name for each in machine.gpus] == [part] * 2
    assert not any("the GPU" in said for said in written.unknown)


@pytest.mark.parametrize(
    ("gpu", "about"),
    [
        ({"device": "0x2205", "gpu": 'sm="86"'}, "NVIDIA GeForce RTX 3080 Ti 20GB (sm_86), not described"),
        ({"device": "0xffff", "gpu": 'sm="89"'}, "NVIDIA GPU of PCI id 10de:ffff (sm_89), not described"),
        ({"gpu": 'sm="90"'}, "NVIDIA GPU (sm_90), not described"),
        ({**AMD, "device": "0x75a3", "gpu": 'gcn="gfx950"'}, "AMD Instinct MI355X (gfx950), not described"),
        ({**AMD, "gpu": 'sm="90" gcn="910"'}, "AMD GPU (gfx90a), not described"),
        ({**AMD, "device": "0xffff", "gpu": 'sm="90"'}, "AMD GPU of PCI id 1002:ffff, not described"),  # no sm
        ({"vendor": "0x1d94", "device": "0x54b7", "gpu": 'gcn="906"'},
         "Hygon GPU of PCI id 1d94:54b7 (gfx906), not described"),
    ],
)  # fmt: skip
def test_a_gpu_that_is_not_described_has_its_name_and_no_figures_of_another(made, gpu, about):
    machine, written = made(xml(gpu, gpu))
    part = machine.gpu_part(0)
    assert part.about == about
    for figure in (part.fp32_FLOPps, part.memory_bytes, part.memory_Bps, part.clock_Hz):
        assert figure.stated is None
    with pytest.raises(ConfigError, match=r"the rate of fp32 of .*: not described; state it under parts"):
        roofline.peak_FLOPps(part, "fp32")
    assert any("is not described: its rates and its memory are null" in said for said in written.unknown)
    assert paths.pair_matrix(machine).bandwidth_Bps[0][0] is None  # but what links give is known
    assert paths.pair_matrix(machine).bandwidth_Bps[0][1] > 1e9


@pytest.mark.parametrize(
    ("text", "capability"),
    [(xml({**AMD, "device": "0xffff"}), 1.1), (xml({"device": "0xffff", "gpu": 'sm="89"'}), 8.9)],
)
def test_no_gpu_gets_the_numbers_of_another_vendor(made, text, capability):
    assert made(text)[0].gpu_part(0).compute_capability.value == capability


@pytest.mark.parametrize(
    ("few", "most", "kind", "taken"), [("OK", "CNS", "host", "none"), ("CNS", "OK", "pcie", "peers")]
)
def test_where_some_pairs_of_a_cpu_are_peers_and_others_not_most_decide(made, few, most, kind, taken):
    cells = [["X" if a == b else few if {a, b} == {2, 3} else most for b in range(4)] for a in range(4)]
    rows = [f" GPU{a}\t" + "\t".join(row) for a, row in enumerate(cells)]
    machine, written = made("\n".join(["$ nvidia-smi topo -p2p r", " \tGPU0\tGPU1\tGPU2\tGPU3", *rows]))
    assert paths.copy_path(machine, 0, 1).kind == kind
    said = f"why some pairs of one CPU are peers and others not: all are taken for {taken}, as most are (assumed)"
    assert said in written.unknown


def test_where_half_of_the_pairs_of_cpus_are_peers_they_are_taken_for_peers(made):
    matrix = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
    for a in range(4):
        near = ["X" if a == b else "PHB" if a // 2 == b // 2 else "SYS" for b in range(4)]
        matrix += "\t".join([f"GPU{a}", *near, f"{a // 2 * 8}-{a // 2 * 8 + 7}"]) + "\n"
    rows = ["\t".join([f"GPU{a}", *["X" if a == b else "OK" if {a, b} == {0, 1} else "CNS" for b in range(4)]])
            for a in range(4)]  # fmt: skip
    machine, written = made("\n".join([matrix, "$ nvidia-smi topo -p2p r", "\tGPU0\tGPU1\tGPU2\tGPU3", *rows]))
    assert [paths.copy_path(machine, *pair).kind for pair in [(0, 1), (2, 3), (0, 2)]] == ["pcie", "pcie", "host"]
    said = "why some pairs of one CPU are peers and others not: all are taken for peers, as half are (assumed)"
    assert said in written.unknown


def test_a_cpu_of_which_the_maker_alone_is_stated_gets_no_figures_of_another_makers(made):
    text = xml({"device": "0x2684", "gpu": 'sm="89"'}).replace("AuthenticAMD", "GenuineIntel")
    _, written = made(re.sub(r' (familyid|modelid)="\d+"', "", text))
    assert any(said.startswith("the CPU: Intel CPU is a family of several; its figures are assumed, as xeon-")
               for said in written.unknown)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "part"),
    [("Arcturus GL-XL [AMD Instinct MI100]", "mi100-32gb"), ("Aldebaran/MI200 [Instinct MI210]", "mi210-64gb"),
     ("A100-SXM4-80GB", "a100-sxm4-80gb"), ("GeForce RTX 4090", "rtx-4090"), ("NVIDIA Tesla T4", "t4-16gb")],
)  # fmt: skip
def test_names_are_known_in_the_forms_that_drivers_and_lists_have(made, name, part):
    machine, _ = made(topo("X NODE\nNODE X", ["0-9"] * 2) + f"\nGPU 0: {name} (UUID: a)\nGPU 1: {name} (UUID: b)\n")
    assert [gpu.part_name for gpu in machine.gpus] == [part] * 2


def test_a_device_without_a_class_is_a_gpu_by_its_id(made):
    devices = "".join(
        f'<pci busid="0000:0{n}:00.0" vendor="0x{vendor}" device="0x{device}"/>'
        for n, (vendor, device) in enumerate([("10de", "2237"), ("10de", "2237"), ("1d0f", "efa1")])
    )
    machine, _ = made(f'<system version="1"><cpu numaid="0">{devices}</cpu></system>', devices=2)
    assert [gpu.part_name for gpu in machine.gpus] == ["a10g-24gb"] * 2


def test_an_id_of_two_gpus_has_assumed_figures(made):
    gpu = {**AMD, "device": "0x740c", "gpu": 'gcn="910"'}
    machine, written = made(xml(gpu, gpu))
    assert machine.gpu_part(0).about == "AMD Instinct MI250X/MI250, with the figures of mi250x-gcd"
    assert machine.gpu_part(0).memory_Bps.provenance == "assumed"
    assert any("is also that of MI250" in said for said in written.unknown)


def test_amd_links_are_never_nvlinks(made):
    inside = '<xgmi target="0000:0{}:00.0" count="1" tclass="0x038000"/>'
    gpus = [{**AMD, "gpu": 'gcn="906"', "inside": inside.format(other)} for other in (2, 1)]
    machine, _ = made(xml(*gpus))
    (link,) = [link for link in machine.links if {link.a, link.b} == {"gpu0", "gpu1"}]
    assert link.part_name == "xgmi-mi100"
    assert paths.connectivity(machine)[0][1] == "XGMI1"


def test_a_gpu_that_nothing_names_keeps_the_link_that_is_stated(made):
    inside = '<nvlink target="0000:c3:00.0" count="12" tclass="0x068000"/>'
    gpu = {"speed": "32.0 GT/s PCIe", "inside": inside}  # as many NVLinks as an A100, which has PCIe 4.0
    assert {link.part_name for link in made(xml(gpu, gpu))[0].links if link.b == "cpu0"} == {"pcie5"}


def test_a_link_above_what_the_gpu_has_is_not_taken(made):
    gpu = {**AMD, "device": "0x740f", "gpu": 'gcn="910"', "speed": "32.0 GT/s PCIe"}
    machine, written = made(xml(gpu, gpu))
    assert {link.part_name for link in machine.links} == {"pcie4"}
    assert "why mi210-64gb shows PCIe 5.0: it has 4.0, which is taken" in written.unknown


WLAN = """<pci busid="0009:01:00.0" class="0x028000" link_speed="5.0 GT/s PCIe" link_width="1"><nic>
<net name="wlan0" speed="10000"/></nic></pci><nic><net name="tun0" speed="10000"/></nic>"""


def test_c2c_is_the_way_to_the_cpu_and_wlan_is_no_card_of_a_cluster(made):
    inside = '<c2c bw="43125" count="8"/>'
    gpu = {"device": "0x2e12", "gpu": 'sm="121"', "speed": "2.5 GT/s PCIe", "inside": inside}
    machine, written = made(xml(gpu, below=WLAN))
    assert machine.gpus[0].part_name == "gb10"
    (link,) = machine.links
    assert (link.wire.about, link.wire.bandwidth_Bps.value) == ("NVLink-C2C, 8 links of 43.12 GB/s", 345e9)
    assert not [each for each in machine.components if each.kind == "nic"]
    assert any(said.startswith("wlan0, tun0: left out") for said in written.unknown)
    assert any("2.5 GT/s, as when idle" in said for said in written.unknown)
    assert not any("no link_speed" in said for said in written.unknown)


def test_a_link_without_a_rate_is_said(made):
    known, unknown = {"device": "0x2684", "gpu": 'sm="89"'}, {"device": "0x2684", "speed": "Unknown speed"}
    assert "PCIe of 1 of 2 GPUs: their link_speed has no rate (0000:02:00.0)" in made(xml(known, unknown))[1].unknown
    assert "PCIe: the file has no link_speed, or none with a rate" in made(xml(unknown, unknown))[1].unknown
    assert not any("link_speed" in said for said in made(xml(known, known))[1].unknown)


def test_an_idle_gpu_keeps_the_link_that_its_part_has(made):
    gpu = {"device": "0x2684", "gpu": 'sm="89"', "speed": "2.5 GT/s PCIe"}
    machine, _ = made(xml(gpu, gpu))
    assert {link.part_name for link in machine.links} == {"pcie4"}


# ---- bridges


def pairs(count, word, far="SYS"):
    rows = [[word if a // 2 == b // 2 else far for b in range(count)] for a in range(count)]
    return "\n".join(" ".join("X" if a == b else cell for b, cell in enumerate(row)) for a, row in enumerate(rows))


@pytest.mark.parametrize(
    ("count", "word", "base"),
    [(8, "NV12", "a100-pcie-80gb"), (4, "NV4", "rtx-3090"), (4, "NV2", "rtx2080"), (2, "NV4", "rtx-3090"),
     (4, "NV18", "h100-nvl-94gb")],
)  # fmt: skip
def test_nvlinks_to_one_other_and_pcie_to_the_rest_are_the_bridge_of_a_card(made, count, word, base):
    machine, written = made(topo(pairs(count, word, "NODE"), ["0-9"] * count))
    assert any(f"as {base} ({word} to one other and PCIe to the rest" in said for said in written.unknown)
    assert machine.gpu_part(0).bus == entries("gpus")[base]["bus"]
    assert not written.findings


@pytest.mark.parametrize(
    "names", ["", "\n".join(f"GPU {n}: NVIDIA GeForce RTX 3090 (UUID: GPU-{n})" for n in range(2))]
)
def test_a_missing_link_of_a_bridge_is_found(made, names):
    text = topo(pairs(2, "NV3"), ["0-9"] * 2) + names
    machine, written = made(text)
    unless = "" if names else ", unless these are V100 of a POWER9 host"
    assert written.findings == (f"GPU0 to GPU1: 3 of the 4 links of their NVLink bridge are up, 1 is down{unless}",)
    assert "# found: GPU0 to GPU1" in written.text
    assert paths.connectivity(machine)[0][1] == "NV3"


# ---- nvidia-smi nvlink -s


def status(gpu, rates, name="Tesla V100-SXM2-32GB"):
    links = [f"\t Link {n}: {f'{rate} GB/s' if rate else '<inactive>'}" for n, rate in enumerate(rates)]
    return "\n".join([f"GPU {gpu}: {name} (UUID: GPU-{gpu})", *links])


def test_links_that_are_up_and_their_rates_are_part_of_the_system(made):
    text = topo("X NV2 NV2\nNV2 X NV2\nNV2 NV2 X", ["0-9"] * 3)
    machine, written = made(text, status(1, [25.781, 25.781, 25.781, None, 25.781, None]))
    assert [gpu.part_name for gpu in machine.gpus] == ["v100-sxm2-32gb"] * 3
    assert written.findings == ("GPU1: 2 of 6 NVLinks are inactive: 3, 5",)
    assert "the names of 2 GPUs: not said; Tesla V100-SXM2-32GB is assumed, as the others are" in written.unknown
    sources = {link.name: link.source for link in machine.links}
    assert sources["gpu0-gpu1"] == "nvidia-smi nvlink -s: 25.781 GB/s a link"


def test_slow_links_and_other_numbers_of_links_are_found(made):
    text = topo("X NV2\nNV2 X", ["0-9"] * 2)
    _, written = made(text, status(0, [12.5, 12.5, 12.5]))
    assert written.findings == (
        "GPU0: 3 of its NVLinks are up, by nvidia-smi nvlink -s; the wiring has 2",
        "GPU0: an NVLink runs at 12.5 GB/s, of 25",
    )


def test_links_into_a_switch_are_those_that_are_up(made):
    text = topo("\n".join(" ".join("X" if a == b else "NV18" for b in range(4)) for a in range(4)), ["0-9"] * 4)
    up = "\n".join(
        status(gpu, [26.562] * 18 if gpu else [26.562] * 17 + [None], "NVIDIA H100 80GB HBM3") for gpu in range(4)
    )
    machine, written = made(text + "\n" + up)
    lanes = {link.a: link.lanes for link in machine.links if link.b == "nvswitch0"}
    assert lanes == {"gpu0": 17, "gpu1": 18, "gpu2": 18, "gpu3": 18}
    assert written.findings == ("GPU0: 1 of 18 NVLinks are inactive: 17",)


def test_links_that_the_matrix_does_not_have_are_found(made):
    none = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
    none += "NVML: Unable to retrieve NVLink information as all links are inActive"
    up = status(1, [26.562] * 18, "NVIDIA H100 80GB HBM3")
    _, written = made(topo("X SYS\nSYS X", ["0-9"] * 2), f"{none}\n{up}")
    assert written.findings == (
        "GPU0: no NVLink is active, by nvidia-smi nvlink -s",
        "GPU1: 18 NVLinks are up, by nvidia-smi nvlink -s; the wiring shows none",
    )


@pytest.mark.parametrize("name", ["", "NVIDIA H100 80GB HBM3"])
def test_a_gpu_with_fewer_links_into_the_switches_is_found(made, name):
    cells = "\n".join(
        " ".join("X" if a == b else "NV17" if 2 in (a, b) else "NV18" for b in range(4)) for a in range(4)
    )
    names = "".join(f"\nGPU {gpu}: {name} (UUID: GPU-{gpu})" for gpu in range(4) if name)
    _, written = made(topo(cells, ["0-9"] * 4) + names)
    assert written.findings == ("GPU2: 17 of 18 NVLinks into the switches are up",)
    assert not made(topo(cells.replace("NV17", "NV18"), ["0-9"] * 4) + names)[1].findings
    if name:
        slow = made(topo(cells.replace("NV18", "NV17"), ["0-9"] * 4) + names)[1].findings
        assert len(slow) == 4, "fewer than the part has"


# ---- Grace


def test_gpus_that_are_numa_nodes_of_the_host_are_beside_grace(made):
    def text(numa_ids):
        rows = [f"GPU{a}\t" + "\t".join("X" if a == b else "NV18" for b in range(4)) for a in range(4)]
        fields = [f"{72 * (a // 2)}-{72 * (a // 2) + 71}\t{a // 2}\t{numa_ids[a]}" for a in range(4)]
        head = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
        return "\n".join([head, *(f"{row}\t{field}" for row, field in zip(rows, fields, strict=True))])

    machine, written = made(text([2, 10, 18, 26]))
    assert {link.part_name for link in machine.links if link.a.startswith("gpu") and link.b.startswith("cpu")} == {
        "c2c"
    }
    assert {part.part_name for part in machine.components if part.kind == "switch"} == {"nvswitch4"}
    assert {part.part_name for part in machine.components if part.kind == "cpu"} == {"grace"}
    assert any("as gb200-186gb (NVLink-C2C, several to a CPU)" in said for said in written.unknown)
    head, *rows = text([2, 10, 18, 26]).splitlines()  # network cards near no CPU are no CPUs without GPUs
    cards = [
        head.replace("GPU3", "GPU3\tNIC0\tNIC1"),
        *(row.replace("\t0-", "\tSYS\tSYS\t0-").replace("\t72-", "\tSYS\tSYS\t72-") for row in rows),
    ]
    cards += [f"NIC{a}\tSYS\tSYS\tSYS\tSYS\t" + "\t".join("X" if a == b else "SYS" for b in range(2)) for a in range(2)]
    assert any("as gb200-186gb (NVLink-C2C, several to a CPU)" in said for said in made("\n".join(cards))[1].unknown)
    named = "".join(f"\nGPU {gpu}: NVIDIA GB200 (UUID: GPU-{gpu})" for gpu in range(4))
    machine, _ = made(text([2, 10, 18, 26]) + named)
    assert {part.part_name for part in machine.gpus} == {"gb200-186gb"}
    machine, _ = made(text(["N/A"] * 4) + named)  # by the GPU alone
    assert {part.part_name for part in machine.components if part.kind == "cpu"} == {"arm-cpu"}
    by_memory = text(["N/A"] * 4).replace("71\t0\t", "71\t0,2-17\t").replace("143\t1\t", "143\t1,18-33\t")
    assert {part.part_name for part in made(by_memory)[0].components if part.kind == "cpu"} == {"grace"}
    plain, _ = made(text(["N/A"] * 4))
    assert {link.part_name for link in plain.links if link.a.startswith("gpu") and link.b.startswith("cpu")} == {
        "pcie5"
    }
    assert {part.part_name for part in plain.components if part.kind == "switch"} == {"nvswitch3"}


# ---- AMD's links


def showtopo(count, joined):
    def table(title, cell):
        rows = [f"GPU{a} " + " ".join("0" if a == b else cell(a, b) for b in range(count)) for a in range(count)]
        return [f"==== {title} between two GPUs ====", " ".join(f"GPU{a}" for a in range(count)), *rows, ""]

    kinds = table("Link Type", lambda a, b: "XGMI" if joined(a, b) else "PCIE")
    return "\n".join([*table("Weight", lambda a, b: "15" if joined(a, b) else "40"), *kinds])


@pytest.mark.parametrize(
    ("count", "joined", "base", "why"),
    [
        (4, lambda a, b: False, "mi210-64gb", "no XGMI: a card on PCIe"),
        (4, lambda a, b: a // 2 == b // 2, "mi210-64gb", "XGMI to 1 other"),
        (8, lambda a, b: a // 4 == b // 4, "mi210-64gb", "XGMI to 3 others"),
        (8, lambda a, b: abs(a - b) in (1, 7), "mi250x-gcd", "XGMI to 2 others"),
        (8, lambda a, b: True, "mi300x-192gb", "XGMI to 7 others"),
    ],
)
def test_amd_cards_that_bridges_join_are_no_modules(made, count, joined, base, why):
    _, written = made(showtopo(count, joined))
    assert any(f"as {base} ({why})" in said for said in written.unknown)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ([status(3, [25.781, None])], r"\(GPU3: 1 of 2 .*\), not where they lead; expected nvidia-smi topo -m"),
        (["GPU 0: Tesla T4 (UUID: x)\n\t Link 0: Replay Errors: 0"], "other switches.*nvidia-smi nvlink -s"),
        (["GPU 0: Tesla T4 (UUID: x)\n\t Link 0, P2P is supported: true"], "other switches.*nvidia-smi nvlink -s"),
        (["\t Link 0: 25.781 GB/s"], "a link without its GPU"),
        ([topo("X NV2\nNV2 X", ["0-9"] * 2), status(3, [25.781])], "up to GPU3.*expected files of one machine"),
        (["<nvidia_smi_log><gpu/></nvidia_smi_log>"], "-q -x: GPUs without their wiring; expected nvidia-smi topo -m"),
        (["=====NVSMI LOG=====\nGPU 00000000:07:00.0\n    Product Name      : NVIDIA A40\n"], "names of GPUs alone"),
    ],
)  # fmt: skip
def test_other_texts_of_nvidia_smi_are_refused_with_the_right_switch(made, texts, sentence):
    with pytest.raises(ConfigError, match=sentence):
        made(*texts)


TABLE = """| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4 |
|   0  NVIDIA A40                     Off |   00000000:01:00.0 Off |                    0 |
|   1  NVIDIA A40                     Off |   00000000:41:00.0 Off |                    0 |
"""
QUERY = """==============NVSMI LOG==============
GPU 00000000:01:00.0
    Product Name                          : NVIDIA A40
GPU 00000000:41:00.0
    Product Name                          : NVIDIA A40
"""


@pytest.mark.parametrize("names", [TABLE, QUERY])
def test_names_are_read_from_whatever_nvidia_smi_prints_them_in(made, names):
    machine, _ = made(topo("X NODE\nNODE X", ["0-9"] * 2), names)
    assert [gpu.part_name for gpu in machine.gpus] == ["a40-48gb"] * 2


# ---- a part of one's own


PART = """rtx-3080-10gb:
  about: NVIDIA GeForce RTX 3080 10 GB
  bus: pcie4
  compute_capability: [8.6, datasheet, NVIDIA CUDA C programming guide]
  fp32_TFLOPps: [29.8, datasheet, the card's page]
  memory_GB: [10, datasheet, the card's page]
"""


@pytest.mark.parametrize(
    ("name", "part"),
    [("a10", "a10-24gb"), ("a10g", "a10g-24gb"), ("a40", "a40-48gb"), ("t4", "t4-16gb"), ("rtx-3090", "rtx-3090"),
     ("gh200", "gh200-96gb"), ("mi210", "mi210-64gb"), ("a100-pcie-80gb", "a100-pcie-80gb")],
)  # fmt: skip
def test_the_gpus_that_people_ask_for_have_parts(made, name, part):
    machine, _ = made(topo("X NODE\nNODE X", ["0-9"] * 2), gpu=name)
    assert machine.gpus[0].part_name == part


def test_a_gpu_may_be_a_part_of_ones_own(made, tmp_path):
    (tmp_path / "gpu.yaml").write_text(PART)
    machine, _ = made(topo("X NODE\nNODE X", ["0-9"] * 2), gpu=str(tmp_path / "gpu.yaml"))
    part = machine.gpu_part(0)
    assert (machine.gpus[0].part_name, part.memory_bytes.value, part.fp32_FLOPps.value) == (
        "rtx-3080-10gb",
        10e9,
        29.8e12,
    )
    with pytest.raises(ConfigError, match=r"the rate of memory of rtx-3080-10gb: gpu\.yaml does not state it"):
        _ = part.memory_Bps.value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PART + PART.replace("3080", "3070"), "2 parts; expected one GPU by its name"),
        (PART.replace("fp32_TFLOPps", "fp32"), "unknown field"),
        ("rtx: 5\n", "expected a group of settings"),
        (PART.replace("[10,", "[-10,"), "expected more than 0"),
    ],
)
def test_a_part_that_is_none_is_refused(made, tmp_path, text, sentence):
    (tmp_path / "gpu.yaml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        made(topo("X NODE\nNODE X", ["0-9"] * 2), gpu=str(tmp_path / "gpu.yaml"))


# ---- the table of PCI ids


def test_every_device_of_the_table_is_of_a_known_architecture_and_part():
    table = pci_table()
    for device, gpu in table.devices.items():
        vendor = {"10de": "NVIDIA", "1002": "AMD"}[device.partition(":")[0]]
        assert gpu.name.startswith(vendor), device
        assert gpu.arch in table.architectures, device
        assert not gpu.part or gpu.part in entries("gpus"), device
        assert ("gfx" in gpu.arch) == (vendor == "AMD"), device
    links = {link for arch in table.architectures.values() for link in (arch.bus, arch.peer_link) if link}
    assert links <= set(entries("links"))


def test_a_gpu_without_links_among_others_that_have_some_is_a_finding(made):
    linked = {
        "device": "0x31c2",
        "gpu": 'sm="103"',
        "inside": '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>',
    }
    apart = {**linked, "inside": ""}
    assert "GPU1: no NVLink is up, and others have 18" in made(xml(linked, apart, linked))[1].findings
    display = {"device": "0x1eb8", "gpu": 'sm="75"'}
    assert not made(xml(linked, display, linked))[1].findings
    words = "X NV18 SYS NV18\nNV18 X SYS NV18\nSYS SYS X SYS\nNV18 NV18 SYS X"
    (found,) = made(topo(words, ["0-31"] * 4))[1].findings
    assert found == "GPU2: no NVLink is up, and others have 18, unless it is of another kind"
    pairs = "X NV4 SYS SYS SYS\nNV4 X SYS SYS SYS\nSYS SYS X SYS SYS\nSYS SYS SYS X NV4\nSYS SYS SYS NV4 X"
    assert not made(topo(pairs, ["0-31"] * 5))[1].findings  # an odd card has no other to be joined to
    pairs = pairs.replace("\n", " SYS\n") + " SYS\nSYS SYS SYS SYS SYS X"
    assert len(made(topo(pairs, ["0-31"] * 6))[1].findings) == 2


def test_two_grace_cpus_are_joined_by_no_link_of_another_maker(made):
    machine, _ = made(topo("X NV18\nNV18 X", ["0-71", "72-143"]), cpu="grace")
    assert [link.part_name for link in machine.links if link.wire.family == "smp"] == ["c2c-grace"]


@pytest.mark.parametrize(("peers", "part"), [(3, "mi100-32gb"), (2, "AMD GPU (gfx906 or gfx908), not described")])
def test_the_rate_of_xgmi_in_a_log_tells_the_architecture(made, peers, part):
    gpus = [1000 * place for place in range(1, peers + 2)]
    lines = ["=== System : maxBw 24.0 totalBw 72.0 ===", "CPU/0 (1/2/-1)"]
    for one in gpus:
        lines.append(f"+ PCI[24.0] - GPU/{one} (0)")
        lines += [f"              + XGMI[24.0] - GPU/{other}" for other in gpus if other != one]
    machine, _ = made("\n".join(f"a:1:1 [0] NCCL INFO {line}" for line in [*lines, "====="]))
    gpu = machine.gpus[0]
    assert part in (gpu.part_name, machine.gpu_part(0).about)
    assert {link.part_name for link in machine.links if link.wire.family == "nvlink"} == {"xgmi-mi100"}


def test_what_nvidia_smi_says_of_links_behind_a_name_is_no_part_of_it(made):
    verdict = "NVML: Unable to retrieve NVLink information as all links are inActive"
    listed = "".join(f"GPU {gpu}: NVIDIA RTX A4000 (UUID: GPU-{gpu}) {verdict}\n" for gpu in range(2))
    _, written = made(topo("X PHB\nPHB X", ["0-31"] * 2), listed)
    assert written.text.count("NVIDIA RTX A4000 (sm_86), not described")
    assert [said for said in written.findings if "no NVLink is active" in said] == [
        f"GPU{gpu}: no NVLink is active, by nvidia-smi nvlink -s" for gpu in range(2)
    ]


@pytest.mark.parametrize(
    ("name", "figures", "said"),
    [
        ("Tesla V100-SXM2...", "v100-sxm2-16gb", "cut off, as of v100-sxm2-16gb and v100-sxm2-32gb"),
        ("NVIDIA GeForce RTX 4090...", "rtx-4090", ""),
    ],
)
def test_a_name_that_nvidia_smi_cut_off_is_of_a_gpu_that_begins_so(made, name, figures, said):
    smi = "".join(f"|   {gpu}  {name}  On   | 00000000:0{gpu + 1}:00.0 Off |  0 |\n" for gpu in range(2))
    machine, written = made(smi + topo("X NODE\nNODE X", ["0-9"] * 2))
    assert {gpu.part_name for gpu in machine.gpus} == ({"tesla-v100-sxm2"} if said else {figures})
    assert not said or machine.gpu_part(0).memory_bytes.value == 16e9
    assert any(said in unknown for unknown in written.unknown)
    whole = "".join(f"GPU {gpu}: Tesla V100-SXM2-32GB (UUID: GPU-{gpu})\n" for gpu in range(2))
    assert {gpu.part_name for gpu in made(smi + topo("X NODE\nNODE X", ["0-9"] * 2), whole)[0].gpus} == {
        "v100-sxm2-32gb"
    }
