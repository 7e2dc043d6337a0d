"""The machine at hand as a survey: the driver's GPUs and links, the kernel's PCI tree, NUMA nodes and network cards.

    survey, devices = survey_here()

The tree of PCIe is the kernel's, or that of NCCL_TOPO_FILE, which clouds set since their virtual machines hide the true
one; or hwloc's, where neither shows PCI devices. NVLinks, distances and peers are the driver's (NVML, AMD SMI). Without
a GPU, ranks on the cores of the host take their place.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from resnetx import progress
from resnetx.formats import nvidia_smi_topo
from resnetx.formats.device_matrix import RocmTopo
from resnetx.host import cores, kernel_file
from resnetx.interconnect.survey.matrix import of_nvidia_smi, of_rocm_smi
from resnetx.interconnect.survey.reading import of_tree, read_survey, survey_of
from resnetx.interconnect.survey.survey import Pair, SeenNode, Survey, joined
from resnetx.loading import File, is_file
from resnetx.measure.machine import amd
from resnetx.measure.machine.nvidia import Nvml, graphics_here, open_nvml
from resnetx.measure.machine.pci_devices import PciDevice, card_links, gpu_links, pci_devices, pci_tree
from resnetx.packages import hip_version
from resnetx.record import Gpu, Unknown
from resnetx.record.topology import DeviceLink

RANK = "CPU"  # the product name of the part that stands for a rank on cores
MOST_RANKS = 64  # that a machine without GPUs is described with
_VIRTUAL = "var/run/nvidia-topologyd/virtualTopology.xml"  # where NCCL looks, too (NVIDIA/nccl, src/graph/topo.cc)
_LSTOPO = ("lstopo-no-graphics", "lstopo")
_LSTOPO_s = 60
_READ = 0  # nvmlGpuP2PCapsIndex_t; pynvml's NVML_P2P_CAPS_INDEX_READ is a tuple by mistake (13.580)


def survey_here(ranks: int | None = None, module: Any = None) -> tuple[Survey, list[DeviceLink]]:
    """The survey, and the links of GPUs and cards with their errors; `ranks`: how many, without GPUs."""
    graphics = graphics_here(module)
    devices = pci_devices()
    if isinstance(graphics.gpus, Unknown) or not graphics.gpus:
        why = graphics.gpus if isinstance(graphics.gpus, Unknown) else "the driver shows none"
        return _without_gpus(devices, ranks, why), card_links(devices)
    gpus = sorted(graphics.gpus, key=lambda gpu: gpu.pci_bus_id)  # NVML's order; AMD SMI has its own
    links = [*gpu_links(gpus, module), *card_links(devices)]
    return joined(_surveys(gpus, graphics.topology, devices, module)), links


def _surveys(gpus: Sequence[Gpu], topology: str | Unknown, devices: Sequence[PciDevice], module: Any) -> list[Survey]:
    """What each source says, the one that is to win first."""
    surveys = list(filter(None, [_by_nccl(len(gpus)), _tree(gpus, devices) or _by_hwloc()]))
    if hip_version():
        surveys.append(_amd(gpus, module))
    elif not isinstance(topology, Unknown):
        said = nvidia_smi_topo.parse(File(Path("NVML"), "NVML's wiring", 0), topology)
        wired = of_nvidia_smi(said)
        named = tuple(_named(node, gpus) for node in wired.nodes)
        surveys.append(replace(wired, source="NVML", nodes=named, peers=_peers(gpus, module)))
    return surveys


def _by_nccl(count: int) -> Survey | None:
    """The topology that NCCL is given; None where there is none, or one of other GPUs."""
    virtual = kernel_file(_VIRTUAL)
    file = os.environ.get("NCCL_TOPO_FILE") or (str(virtual) if is_file(virtual) else "")
    if not file:
        return None
    survey = read_survey(Path(file), count)
    if len(survey.gpus) == count:
        return survey
    progress.note(f"NCCL's topology {file} has {len(survey.gpus)} GPUs, of {count} here; it is left out")
    return None


def _tree(gpus: Sequence[Gpu], devices: Sequence[PciDevice]) -> Survey | None:
    """The kernel's tree; None where it does not show all GPUs, as in some containers."""
    places = {gpu.pci_bus_id[4:] for gpu in gpus}  # NVML writes four digits more
    shown = [device for device in devices if device.kind != "gpu" or device.address in places]
    if sum(device.kind == "gpu" for device in shown) < len(gpus):
        return None
    survey = of_tree(pci_tree(shown))
    return replace(survey, nodes=tuple(_named(node, gpus) for node in survey.nodes))


def _named(node: SeenNode, gpus: Sequence[Gpu]) -> SeenNode:
    """A GPU with the driver's name and link; both are in the order of their addresses."""
    if node.kind != "gpu":
        return node
    gpu = gpus[int(node.name[3:])]
    return replace(
        node,
        label=f"GPU{gpu.index}",
        bus=gpu.pci_bus_id,
        product=gpu.name,
        generation=gpu.pcie_generation_max or node.generation,
        lanes=gpu.pcie_width or node.lanes,
    )


def _by_hwloc() -> Survey | None:
    """hwloc's tree, where it is installed and shows devices."""
    program = next(filter(None, map(shutil.which, _LSTOPO)), None)
    if program is None:
        return None
    try:
        ended = subprocess.run(
            [program, "--of", "xml", "--whole-io"], capture_output=True, text=True, timeout=_LSTOPO_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    file = File(Path(program), "the XML of lstopo", 0)
    return survey_of(file, ended.stdout) if "PCIDev" in ended.stdout else None


def _peers(gpus: Sequence[Gpu], module: Any) -> dict[Pair, bool]:
    """Which pairs may read and write each other's memory; empty where the driver does not tell."""
    nvml = open_nvml(module)
    if isinstance(nvml, Unknown):
        return {}
    handles = [nvml.ask("nvmlDeviceGetHandleByIndex", gpu.index) for gpu in gpus]
    pairs = [(a, b) for a in range(len(gpus)) for b in range(len(gpus)) if a != b]
    found = {(a, b): _may(nvml, handles[a], handles[b]) for a, b in pairs}
    return {pair: may for pair, may in found.items() if may is not None}


def _may(nvml: Nvml, one: Any, other: Any) -> bool | None:
    names = nvml.module
    states = [nvml.ask("nvmlDeviceGetP2PStatus", one, other, kind) for kind in (_READ, names.NVML_P2P_CAPS_INDEX_WRITE)]
    if any(isinstance(state, Unknown) or state == names.NVML_P2P_STATUS_UNKNOWN for state in states):
        return None
    return all(state == names.NVML_P2P_STATUS_OK for state in states)


def _amd(gpus: Sequence[Gpu], module: Any) -> Survey:
    """AMD's GPUs by AMD SMI: which of them XGMI joins."""
    names = {gpu.pci_bus_id[4:]: f"GPU{index}" for index, gpu in enumerate(gpus)}
    pairs = [sorted((names[a], names[b]), key=lambda name: int(name[3:])) for a, b in amd.direct_links(module)]
    said = RocmTopo(
        gpus=tuple(names.values()),
        direct=frozenset((one, other) for one, other in pairs),
        affinity={},
        names={index: gpu.name for index, gpu in enumerate(gpus)},
        notes=("how many XGMI links join two GPUs: AMD SMI does not tell",),
    )
    return replace(of_rocm_smi(said), source="AMD SMI")


def _without_gpus(devices: Sequence[PciDevice], ranks: int | None, why: str) -> Survey:
    """CPUs and network cards, with ranks on cores in place of GPUs."""
    tree = of_tree(pci_tree([device for device in devices if device.kind == "nic"]))
    count = ranks or min(cores(), MOST_RANKS)
    nodes = [SeenNode("gpu", f"gpu{rank}", tree.cpus[rank * len(tree.cpus) // count].name, product=RANK)
           for rank in range(count)]  # fmt: skip
    cards = [f"{card.label or card.bus}: the speed of this network card is not known"
             for card in tree.of_kind("nic") if card.speed_Bps is None]  # fmt: skip
    unknown = (f"GPUs: there are none ({why}); {count} ranks on cores take their place", *tree.unknown, *cards)
    return replace(tree, nodes=(*nodes, *tree.nodes), unknown=unknown)
