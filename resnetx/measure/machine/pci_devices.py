"""The PCI tree of this host by the kernel's files: GPUs and network cards below bridges, host bridges and NUMA nodes.

    /sys/bus/pci/devices/0000:06:00.0 -> /sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:08.0/0000:06:00.0

A switch shows as a bridge for each of its ports; a bridge with one way down is left out, so that one remains of each
switch. A network interface that is no PCI device, as in a container, hangs below the first CPU.

Reference: Linux, Documentation/ABI/testing/sysfs-bus-pci and sysfs-class-net.
"""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from resnetx import progress
from resnetx.formats import smi_topo
from resnetx.formats.smi_topo import RocmTopo
from resnetx.formats.topology_xml import Kind, PciNode, PciTree, generation_of, is_address, kind_of, lanes_of
from resnetx.host import cores, cpu_numbers, kernel_file, kernel_text
from resnetx.interconnect.survey.survey import Pair, SeenNode, Survey, joined
from resnetx.interconnect.survey.survey_sources import of_nvidia_smi, of_rocm_smi, of_tree, read_survey, survey_of
from resnetx.loading import File, is_file
from resnetx.measure.machine import amd
from resnetx.measure.machine.host_facts import cpu_name
from resnetx.measure.machine.nvidia import Nvml, active_nvlinks, graphics_here, open_nvml, uuids_here
from resnetx.packages import hip_version
from resnetx.record import Gpu, Unknown, known
from resnetx.record.sealing import seal
from resnetx.record.topologies import DeviceLink, NvlinkErrors

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_GPU_VENDORS = ("0x10de", "0x1002")  # NVIDIA, AMD: the displays of servers' management controllers are no GPUs


@dataclass(frozen=True)
class PciDevice:
    """One GPU or network card."""

    kind: Kind
    address: str
    numa: int
    root: str  # pci0000:00, its host bridge
    bridges: tuple[str, ...]  # addresses, from the host bridge on
    label: str  # mlx5_0, eth0
    generation: int | None  # now
    generation_max: int | None
    lanes: int | None
    lanes_max: int | None
    speed_Bps: float | None


def pci_devices() -> list[PciDevice]:
    """The GPUs and network cards that the kernel shows, by their addresses."""
    folders = sorted(kernel_file("sys/bus/pci/devices").glob("*"))
    return [device for folder in folders if (device := _device(folder))]


def pci_tree(devices: Sequence[PciDevice]) -> PciTree:
    """NUMA nodes with CPUs, and these devices below them."""
    nodes = sorted(cpu_numbers(kernel_text("sys/devices/system/node/has_cpu")) or {0})
    product = cpu_name()
    cpus = []
    for node in nodes:
        own = [device for device in devices if device.numa == node or (device.numa not in nodes and node == nodes[0])]
        cpus.append(PciNode("cpu", str(node), product=product, children=tuple(_nested(own, depth=0))))
    if not any(device.kind == "nic" for device in devices) and (others := list(_other_interfaces())):
        cpus[0] = replace(cpus[0], children=(*cpus[0].children, *others))
    return PciTree("the PCI tree of /sys", tuple(cpus))


def _device(folder: Path) -> PciDevice | None:
    kind = kind_of(kernel_text(folder / "class"))
    is_gpu = kind == "gpu" and kernel_text(folder / "vendor") in _GPU_VENDORS
    if not (is_gpu or kind == "nic"):
        return None
    above = folder.resolve().parts
    start = next((index for index, part in enumerate(above) if _HOST_BRIDGE.fullmatch(part)), None)
    chain = [part for part in above[start + 1 : -1] if is_address(part)] if start is not None else []
    label, speed_Bps = _interface(folder)
    return PciDevice(
        kind="gpu" if is_gpu else "nic",
        address=folder.name,
        numa=_number(folder / "numa_node"),
        root=above[start] if start is not None else "",
        bridges=tuple(chain),
        label=label,
        generation=generation_of(kernel_text(folder / "current_link_speed")),
        generation_max=generation_of(kernel_text(folder / "max_link_speed")),
        lanes=lanes_of(kernel_text(folder / "current_link_width")),
        lanes_max=lanes_of(kernel_text(folder / "max_link_width")),
        speed_Bps=speed_Bps,
    )


def _number(path: Path) -> int:
    text = kernel_text(path)
    return int(text) if re.fullmatch(r"-?\d{1,6}", text) else -1


def _interface(folder: Path) -> tuple[str, float | None]:
    """(name, B/s) of a card: InfiniBand's if it has one; virtio's are a folder deeper."""
    for verbs in sorted(folder.glob("infiniband/*")):
        rates = [re.match(r"(\d{1,5}(?:\.\d)?) Gb/sec", kernel_text(port / "rate")) for port in verbs.glob("ports/*")]
        known = [float(rate[1]) * 1e9 / 8 for rate in rates if rate]
        return verbs.name, sum(known) or None
    for net in sorted([*folder.glob("net/*"), *folder.glob("virtio*/net/*")]):
        return net.name, _speed_Bps(net)
    return "", None


def _speed_Bps(net: Path) -> float | None:
    """Of a network interface; the kernel says -1 of one that has no speed, and fails of one that is down."""
    mega = _number(net / "speed")
    return mega * 1e6 / 8 if mega > 0 else None


def _other_interfaces() -> Iterator[PciNode]:
    """Interfaces that are up and lead out, though no PCI device is behind them."""
    for folder in sorted(kernel_file("sys/class/net").glob("*")):
        loopback = kernel_text(folder / "type") == "772"  # ARPHRD_LOOPBACK
        if not loopback and kernel_text(folder / "operstate") == "up" and (speed_Bps := _speed_Bps(folder)):
            yield PciNode("nic", folder.name, label=folder.name, speed_Bps=speed_Bps)


def _nested(devices: Sequence[PciDevice], depth: int) -> Iterator[PciNode]:
    """Devices with the bridges that several of them share, from a depth of their ways on."""
    ahead = list(devices)
    while ahead:
        first = ahead[0]
        way = (first.root, *first.bridges[: depth + 1])
        deeper = len(first.bridges) > depth
        same = [device for device in ahead if deeper and (device.root, *device.bridges[: depth + 1]) == way] or [first]
        ahead = [device for device in ahead if device not in same]
        nodes = list(_nested(same, depth + 1)) if deeper else [_leaf(first)]
        if len(nodes) == 1:
            yield nodes[0] if depth else replace(nodes[0], root=first.root)
        else:
            yield _bridge(first, depth, nodes)


def _bridge(below: PciDevice, depth: int, nodes: list[PciNode]) -> PciNode:
    """The bridge that several devices share."""
    address = below.bridges[depth]
    folder = kernel_file("sys/bus/pci/devices") / address
    return PciNode(
        "bridge",
        address,
        generation_of(kernel_text(folder / "max_link_speed")),
        lanes_of(kernel_text(folder / "current_link_width")),
        root=below.root if depth == 0 else "",
        children=tuple(nodes),
    )


def _leaf(device: PciDevice) -> PciNode:
    """A device with its link as it can be: at rest it is slower."""
    return PciNode(
        device.kind,
        device.address,
        device.generation_max or device.generation,
        device.lanes or device.lanes_max,
        speed_Bps=device.speed_Bps,
        label=device.label,
    )


# Links of GPUs and network cards now against what is possible, and the errors that they have counted (NVML: replays of
# PCIe; of each NVLink failed checksums and resends). A GPU at rest lowers its generation.
# References: NVML API reference, nvmlDeviceGetPcieReplayCounter, nvmlDeviceGetNvLinkErrorCounter and nvmlEventSetWait;
# NVIDIA, Xid Errors (docs.nvidia.com/deploy/xid-errors).

MOST_NVLINKS_LISTED = 64


def gpu_links(gpus: Sequence[Gpu], module: Any = None) -> list[DeviceLink]:
    """One for each GPU; `module` stands in for pynvml."""
    counted = _by_amd_smi(module) if hip_version() else _by_nvml(module)
    return [_gpu_link(index, gpu, *counted(gpu)) for index, gpu in enumerate(gpus)]


def card_links(devices: Sequence[PciDevice]) -> list[DeviceLink]:
    """One for each network card that is a PCI device."""
    cards = [device for device in devices if device.kind == "nic"]
    return [_card_link(index, card) for index, card in enumerate(cards)]


Counted = Callable[[Gpu], tuple[Any, Any]]  # (replays of PCIe, errors of each NVLink) of a GPU


def _by_amd_smi(module: Any) -> Counted:
    replays, why = amd.pcie_replays(module), Unknown("AMD SMI does not tell it of this GPU")
    no_links = Unknown("AMD GPUs have no NVLink, and AMD SMI counts no errors of a link of XGMI")
    return lambda gpu: (replays.get(gpu.pci_bus_id[4:], why), no_links)


def _by_nvml(module: Any) -> Counted:
    nvml = open_nvml(module)

    def counted(gpu: Gpu) -> tuple[Any, Any]:
        handle = nvml if isinstance(nvml, Unknown) else nvml.ask("nvmlDeviceGetHandleByIndex", gpu.index)
        if isinstance(nvml, Unknown) or isinstance(handle, Unknown):
            return handle, handle
        return nvml.ask("nvmlDeviceGetPcieReplayCounter", handle), _nvlink_errors(nvml, handle)

    return counted


def _gpu_link(index: int, gpu: Gpu, replays: Any, links: Any) -> DeviceLink:
    return _device_link(
        Unknown("the driver does not tell it of this GPU"),
        device=f"gpu{index}",
        name=gpu.name,
        pci_bus_id=gpu.pci_bus_id,
        pcie_generation=gpu.pcie_generation,
        pcie_generation_max=gpu.pcie_generation_max,
        pcie_width=gpu.pcie_width,
        pcie_width_max=gpu.pcie_width_max,
        pcie_replays=replays,
        speed_Bps=Unknown("a GPU is no network card"),
        nvlinks=links,
    )


def _card_link(index: int, card: PciDevice) -> DeviceLink:
    return _device_link(
        Unknown("the kernel does not tell it of this card"),
        device=f"nic{index}",
        name=card.label,
        pci_bus_id=card.address,
        pcie_generation=card.generation,
        pcie_generation_max=card.generation_max,
        pcie_width=card.lanes,
        pcie_width_max=card.lanes_max,
        pcie_replays=Unknown("the kernel counts no replays"),
        speed_Bps=card.speed_Bps or Unknown("it is down, or has no speed (a virtual card)"),
        nvlinks=Unknown("a network card has no NVLink"),
    )


def _device_link(why: Unknown, **facts: Any) -> DeviceLink:
    """`why`: what of it is None is not known."""
    known_or_why: dict[str, Any] = {name: why if fact is None else fact for name, fact in facts.items()}
    return seal(DeviceLink(**known_or_why, unknown={}))


def _nvlink_errors(nvml: Nvml, handle: Any) -> list[Any] | Unknown:
    """Of each NVLink that is up."""
    links = active_nvlinks(nvml, handle)
    if isinstance(links, Unknown):
        return links
    names = nvml.module
    kinds = [names.NVML_NVLINK_ERROR_DL_CRC_FLIT, names.NVML_NVLINK_ERROR_DL_CRC_DATA,
             names.NVML_NVLINK_ERROR_DL_REPLAY, names.NVML_NVLINK_ERROR_DL_RECOVERY]  # fmt: skip
    return [
        NvlinkErrors(link, *(known(nvml.ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, kind)) for kind in kinds))
        for link in links[:MOST_NVLINKS_LISTED]
    ]


# ---- while a run is on ----------------------------------------------------------------------------------------------

_XIDS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "GPU stopped processing",
    48: "double-bit ECC error",
    64: "row remapping failure",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP RPC timeout",
}
_CLEAN_UP = 45  # of a process that was killed, or that failed for another error: it explains nothing
_LAST_WAIT_MS = 200  # the driver may report an error a moment after it has ended a process
_WAIT_MS = 60_000
_MOST_TOLD = 8


class ErrorWatch:
    """Errors of this node's GPUs while a run is on, kept in a file as they are reported, one a line.

    Critical ones (Xid) are events, for which a thread waits without asking the GPU; those of NVLinks are counters, read
    at the start and by `finish`. GPUs are numbered as by nvidia-smi, and are those that the run can see: another job
    may use them, too. Where no NVIDIA driver answers, it does nothing.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._told = path, 0
        self._lock = threading.Lock()
        self._gpus: list[tuple[Any, Any]] = []  # number, handle
        uuids = [] if hip_version() else uuids_here()
        nvml = open_nvml() if uuids else Unknown("no GPU")
        if isinstance(nvml, Unknown):
            return
        self._nvml = nvml
        handles = [nvml.ask("nvmlDeviceGetHandleByUUID", uuid) for uuid in uuids if not uuid.startswith("MIG-")]
        found = [handle for handle in handles if not isinstance(handle, Unknown)]
        self._gpus = [(nvml.ask("nvmlDeviceGetIndex", handle), handle) for handle in found]
        self._before = [self._link_errors(handle) for _, handle in self._gpus]
        self._events = nvml.ask("nvmlEventSetCreate")
        if isinstance(self._events, Unknown):
            return
        xid = nvml.module.nvmlEventTypeXidCriticalError
        for _, handle in self._gpus:
            nvml.ask("nvmlDeviceRegisterEvents", handle, xid, self._events)
        threading.Thread(target=self._listen, name="resnetx-gpu-errors", daemon=True).start()

    def finish(self) -> None:
        """Tells what NVLinks have counted; to be called once, when a rank of the run has failed."""
        if not self._gpus:
            return
        if not isinstance(self._events, Unknown):
            for _ in range(_MOST_TOLD):  # until none comes for a while, in which the thread tells what it has taken
                if not self._take(_LAST_WAIT_MS):
                    break
        for (number, handle), before in zip(self._gpus, self._before, strict=True):
            if (count := self._link_errors(handle) - before) > 0:
                self._tell(f"GPU {number} counted {count} NVLink errors")

    def _listen(self) -> None:
        while self._take(_WAIT_MS) is not None:
            pass

    def _take(self, wait_ms: int) -> bool | None:
        """Waits for one event and tells it; False where none came, null where waiting makes no sense any more."""
        names = self._nvml.module
        try:
            event = names.nvmlEventSetWait_v2(self._events, wait_ms)
        except names.NVMLError as error:
            return False if error.value == names.NVML_ERROR_TIMEOUT else None
        if event.eventData != _CLEAN_UP:
            number = self._nvml.ask("nvmlDeviceGetIndex", event.device)
            meaning = _XIDS.get(event.eventData)
            self._tell(f"GPU {number} reported Xid {event.eventData}" + (f" ({meaning})" if meaning else ""))
        return True

    def _link_errors(self, handle: Any) -> int:
        links = _nvlink_errors(self._nvml, handle)
        if isinstance(links, Unknown):
            return 0
        return sum(
            count or 0 for link in links for count in (link.crc_flit, link.crc_data, link.replays, link.recoveries)
        )

    def _tell(self, line: str) -> None:
        with self._lock:
            self._told += 1
            if self._told <= _MOST_TOLD:
                with self._path.open("a") as file:
                    file.write(line + "\n")


# ---- this machine ---------------------------------------------------------------------------------------------------
# The machine at hand as a survey: the driver's GPUs and links, the kernel's PCI tree, NUMA nodes and network cards.
#
#     survey, devices = survey_here()
#
# The tree of PCIe is the kernel's, or that of NCCL_TOPO_FILE, which clouds set since their virtual machines hide the
# true one; or hwloc's, where neither shows PCI devices. NVLinks, distances and peers are the driver's (NVML, AMD SMI).
# Without a GPU, ranks on the cores of the host take their place.

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
        said = smi_topo.parse(File(Path("NVML"), "NVML's wiring", 0), topology)
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
