"""NCCL's topology file: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads, of RCCL, too.

    system > cpu (a NUMA node) > pci ... pci > gpu > nvlink target="0000:8a:00.0" count="2" tclass="0x030200"
                                             > nic > net name="mlx5_0" speed="100000"

Files that clouds provide have part of it: PCI devices alone, often without their kinds, and no NVLink.

Reference: NVIDIA/nccl, src/graph/xml.cc and topo.cc.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn
from xml.parsers import expat

from resnetx.errors import FileError
from resnetx.loading import File

# ---- pci tree -------------------------------------------------------------------------------------------------------
# What is plugged in where: CPUs (NUMA nodes) and below them bridges, GPUs, network cards and drives.
#
# NCCL's XML, hwloc's and the kernel's /sys all describe a machine so. Figures that a source does not state are None.

Kind = Literal["cpu", "bridge", "gpu", "nic", "storage", "unclassed"]

# Classes of the PCI Code and ID Assignment Specification: base class and subclass.
_CLASSES: dict[str, Kind] = {
    "0300": "gpu",  # VGA
    "0302": "gpu",  # 3D controller: NVIDIA's without a display
    "0380": "gpu",  # display controller: AMD Instinct before MI300
    "1200": "gpu",  # processing accelerator: AMD Instinct MI300
    "0200": "nic",  # Ethernet
    "0207": "nic",  # InfiniBand
    "0280": "nic",
    "0604": "bridge",  # PCI-to-PCI
    "0680": "bridge",  # NVSwitch, where it shows
    "0108": "storage",  # NVMe
}
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s of a lane -> generation of PCI Express
MOST_LANES = 32


@dataclass(frozen=True)
class NvlinkEnd:
    """NVLinks, or XGMI links, of one GPU to one far end."""

    target: str  # bus id
    count: int
    to_switch: bool = False
    to_cpu: bool = False
    xgmi: bool = False  # AMD's


@dataclass(frozen=True)
class C2c:
    """NVLink-C2C of a GPU to its CPU."""

    Bps: float | None = None  # each way, of all links; None: not stated
    links: int | None = None


@dataclass(frozen=True)
class PciNode:
    """One component with what hangs below it."""

    kind: Kind
    name: str  # bus id; of a CPU the number of its NUMA node
    generation: int | None = None  # of its link towards the CPU
    lanes: int | None = None
    product: str = ""  # "" where it is not stated
    index: int | None = None  # a GPU's number, where the source numbers them
    speed_Bps: float | None = None  # of a network card, each way
    label: str = ""  # mlx5_0, eth0
    nvlinks: tuple[NvlinkEnd, ...] | None = None  # None: not stated
    device: str = ""  # vendor and device id: "10de:2684"
    arch: str = ""  # of a GPU: "sm_89", "gfx90a"
    c2c: C2c | None = None  # of a GPU: its links to the CPU beside PCIe
    host: str = ""  # of a CPU: which of several hosts
    root: str = ""  # of what hangs below a CPU: by which of its host bridges
    children: tuple["PciNode", ...] = field(default=())

    def below(self) -> Iterator["PciNode"]:
        """It and all that is below it."""
        ahead = [self]
        while ahead:
            node = ahead.pop()
            yield node
            ahead += reversed(node.children)


@dataclass(frozen=True)
class PciTree:
    """A machine."""

    source: str  # "NCCL's XML"
    cpus: tuple[PciNode, ...]
    notes: tuple[str, ...] = ()  # what the source does not say

    def of_kind(self, kind: Kind) -> list[PciNode]:
        return [node for cpu in self.cpus for node in cpu.below() if node.kind == kind]


def is_address(text: str) -> bool:
    """Whether a text is the address of a PCI device: 0000:06:00.0."""
    return bool(re.fullmatch(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}\.[0-9A-Fa-f]", text))


def kind_of(pci_class: str) -> Kind | None:
    """The kind of a device by its class ("0x030200", "0302"); None for what is none of ours."""
    digits = pci_class.strip().lower().removeprefix("0x")
    if len(digits) < 4 or not re.fullmatch(r"[0-9a-f]{4,8}", digits):
        return None
    return _CLASSES.get(digits[:4] if len(digits) in (4, 6) else digits.zfill(6)[:4])


def device_id(vendor: str, device: str) -> str:
    """Vendor and device as "10de:2684", of "0x10de" and "0x2684"; "" where they are no ids."""
    ids = [text.strip().lower().removeprefix("0x") for text in (vendor, device)]
    return ":".join(ids) if all(re.fullmatch(r"[0-9a-f]{4}", number) for number in ids) else ""


def generation_of(speed: str) -> int | None:
    """The generation of PCI Express by the rate of a lane, as "8 GT/s" or "16.0 GT/s PCIe"."""
    match = re.match(r"\s*(\d{1,3}(?:\.\d{1,2})?)\s*GT/s", speed)
    return _GENERATIONS.get(float(match[1])) if match else None


def lanes_of(width: str) -> int | None:
    """The lanes of a link; None where it has none (the kernel says 0 or 255 of what is no link)."""
    return int(width) if re.fullmatch(r"\d{1,3}", width) and 1 <= int(width) <= MOST_LANES else None


# ---- topology xml ---------------------------------------------------------------------------------------------------

# XML as a tree of elements, within bounds: of entities, depth, elements and attributes.
#
# A document that declares an entity is refused, so that a few lines of it cannot become gigabytes; nothing outside the
# document is ever read. hwloc names a DTD, which stays unread, too.
#
# Reference: Python, XML vulnerabilities.

XML_BYTES = 2**22
MAX_DEPTH = 64  # NCCL's own limit is below: a PCIe tree of as many bridges is none
MAX_ELEMENTS = 2**15
MAX_ATTRIBUTES = 64  # of one element


@dataclass
class Element:
    """One element, with the line that it begins on."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list["Element"] = field(default_factory=list)

    def get(self, name: str, otherwise: str = "") -> str:
        return self.attributes.get(name, otherwise)


_TOP = re.compile(r"^[ \t]{0,80}<(?:\?xml|!DOCTYPE|(?:system|graphs|topology|nvidia_smi_log)\b)", re.MULTILINE)
_END = re.compile(r"</(?:system|graphs|topology|nvidia_smi_log)>")


def has_topology(text: str) -> bool:
    """Whether a text has XML of a topology in it, which needs no characters unescaped."""
    return _TOP.search(text) is not None


def looks_like_xml(text: str) -> bool:
    """Whether a text begins as XML does, or has a topology in it: copies have a command or prose above it."""
    return _inside(text).startswith("<")


def parse_xml(file: File, text: str) -> Element:
    """The outermost element of a document."""
    return _Builder(file).tree(text)


def _inside(text: str) -> str:
    """The document of a text, without what stands around it."""
    if top := _TOP.search(text):
        ends = [end.end() for end in _END.finditer(text)]
        text = text[top.start() : ends[-1] if ends else None]
    lines = ["" if line.strip().startswith("```") else line for line in text.split("\n")]
    return "\n".join(lines).lstrip()


class _Builder:
    """Builds the tree of one document while expat reads it."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.open: list[Element] = []
        self.top: Element | None = None
        self.count = 0
        self.above = 0  # lines of the text above the document
        self.parser = parser = expat.ParserCreate()
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.EntityDeclHandler = self._refuse_entity
        parser.UnparsedEntityDeclHandler = self._refuse_entity
        parser.ExternalEntityRefHandler = self._refuse_entity

    def tree(self, text: str) -> Element:
        top = _TOP.search(text)
        self.above = text.count("\n", 0, top.start() if top else len(text) - len(text.lstrip("\n\r \t")))
        try:
            self.parser.Parse(_inside(text).encode(), True)
        except expat.ExpatError as error:
            raise self.file.error(
                f"truncated or not XML ({expat.ErrorString(error.code)})", self.above + error.lineno
            ) from None
        except UnicodeEncodeError:
            raise self.file.error("not XML: it has characters that are none") from None
        assert self.top is not None, "expat accepts no document without an element"
        return self.top

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.above + self.parser.CurrentLineNumber
        self.count += 1
        if len(self.open) >= MAX_DEPTH:
            raise self._error(f"elements nested more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise self._error(f"more than {MAX_ELEMENTS:,} elements")
        if len(attributes) > MAX_ATTRIBUTES:
            raise self._error(f"an element with more than {MAX_ATTRIBUTES} attributes")
        element = Element(tag, attributes, line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.top = element
        self.open.append(element)

    def _end(self, _: str) -> None:
        self.open.pop()

    def _refuse_entity(self, *_: object) -> NoReturn:
        raise self._error("it declares entities, which are not read; a topology has none")

    def _error(self, sentence: str) -> FileError:
        return self.file.error(sentence, self.above + self.parser.CurrentLineNumber)


MOST_LINKS = 64  # of one GPU to one end
_NVSWITCH, _CPU = "0x068000", "0x068001"  # tclass, by xml.h
_INTEL = {  # model of family 6 (Linux, arch/x86/include/asm/intel-family.h)
    63: "Haswell",
    79: "Broadwell",
    85: "Skylake or Cascade Lake",
    106: "Ice Lake",
    143: "Sapphire Rapids",
    207: "Emerald Rapids",
}


def parse_nccl(file: File, top: Element) -> PciTree:
    """The machine of a topology; refuses NCCL's other files, and one without GPUs."""
    if top.tag == "graphs":
        raise file.error(
            "graphs of NCCL (NCCL_GRAPH_DUMP_FILE); expected its topology, of NCCL_TOPO_DUMP_FILE", top.line
        )
    if top.tag != "system":
        raise file.error(f"<{top.tag}>: expected <system>, as NCCL_TOPO_DUMP_FILE writes it", top.line)
    tops = [child for child in top.children if child.tag in ("cpu", "pci")]
    if not tops:
        raise file.error("a topology without <cpu>", top.line)
    hosts = list(dict.fromkeys(child.get("host_hash") for child in tops if child.tag == "cpu"))
    cpus = [_cpu(file, child, _prefix(hosts, child)) for child in tops if child.tag == "cpu"]
    loose = tuple(node for child in tops if child.tag == "pci" and (node := _pci(file, child, "")))
    if loose:
        cpus.append(PciNode("cpu", str(len(cpus)), children=loose))
    tree = PciTree("NCCL's XML", tuple(cpus))
    if not tree.of_kind("gpu") and not tree.of_kind("unclassed"):
        raise file.error("a topology without GPUs", top.line)
    return replace(tree, notes=tuple(_unsaid(tree)))


def _prefix(hosts: list[str], cpu: Element) -> str:
    """What tells the addresses of several hosts apart, as those of an NVLink rack: digits before their domain."""
    number = hosts.index(cpu.get("host_hash"))
    return f"{number:x}" if number else ""


def _cpu(file: File, element: Element, prefix: str) -> PciNode:
    found = (_pci(file, child, prefix) if child.tag == "pci" else _socket_card(child) for child in element.children)
    children = tuple(node for node in found if node)
    numa = element.get("numaid", "0")
    if not re.fullmatch(r"-?\d{1,5}", numa):
        raise file.error(f"numaid={numa}: expected the number of a NUMA node", element.line)
    return PciNode("cpu", numa, product=_product(element), host=element.get("host_hash"), children=children)


def _socket_card(element: Element) -> PciNode | None:
    """A network interface that is no PCI device: <nic> below a CPU; None of any other element."""
    nets = [net for net in element.children if element.tag == "nic" and net.tag == "net"]
    if not nets:
        return None
    name = nets[0].get("name")[:64]
    return PciNode("nic", name, speed_Bps=_speed_Bps(nets), label=name)


def _product(element: Element) -> str:
    """The CPU by its vendor and model: a generation, of which there are many products."""
    vendor, family, model = (element.get(name) for name in ("vendor", "familyid", "modelid"))
    if vendor == "GenuineIntel" and model.isdigit():
        generation = _INTEL.get(int(model[:6]), "")
        return f"Intel CPU, family {family[:6]} model {model[:6]}" + f" ({generation})" * bool(generation)
    maker = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}.get(vendor, vendor[:40])
    if maker and not model:  # written by hand
        return f"{maker} CPU"
    if not maker:
        return {"arm64": "Arm CPU", "ppc64": "POWER CPU"}.get(element.get("arch"), "")
    return f"{maker} CPU, family {family[:6]} model {model[:6]}"


def _pci(file: File, element: Element, prefix: str) -> PciNode | None:
    """A PCI device with what is below it; None of one that has no part in moving data, as a bridge to nothing."""
    bus = element.get("busid")
    if not is_address(bus):
        raise file.error(f"busid={bus}: expected the address of a PCI device, as 0000:06:00.0", element.line)
    children = tuple(node for child in element.children if child.tag == "pci" and (node := _pci(file, child, prefix)))
    gpu = next((child for child in element.children if child.tag == "gpu"), None)
    nets = [net for child in element.children if child.tag == "nic" for net in child.children if net.tag == "net"]
    kind = _kind(element, gpu is not None, bool(nets), bool(children))
    if kind is None or (kind == "bridge" and not children):
        return None
    return PciNode(
        kind=kind,
        name=prefix + bus.lower(),
        generation=generation_of(element.get("link_speed")),
        lanes=lanes_of(element.get("link_width")),
        index=_number(gpu.get("dev")) if gpu else None,
        device=device_id(element.get("vendor"), element.get("device")),
        arch=_arch(gpu) if gpu else "",
        c2c=_c2c(gpu) if gpu else None,
        speed_Bps=_speed_Bps(nets),
        label=nets[0].get("name")[:64] if nets else "",
        nvlinks=None if gpu is None else _nvlinks(file, gpu, prefix),
        children=children if kind == "bridge" else (),
    )


def _arch(gpu: Element) -> str:
    """The architecture of a GPU. RCCL writes `gcn` of AMD's, as a name or 910 for gfx90a, beside a count in `sm`."""
    if gcn := gpu.get("gcn").lower().partition(":")[0].removeprefix("gfx"):
        return f"gfx{ {'910': '90a'}.get(gcn, gcn) }" if re.fullmatch(r"[0-9a-f]{3,4}", gcn) else ""
    return f"sm_{gpu.get('sm')}" if re.fullmatch(r"\d{2,3}", gpu.get("sm")) else ""


def _c2c(gpu: Element) -> C2c | None:
    """Its links to the CPU; the file has MB/s of each (topo.cc, ncclTopoAddC2c)."""
    links = [
        (_number(element.get("bw")), _number(element.get("count", "1")))
        for element in gpu.children
        if element.tag == "c2c"
    ]
    known = [(MBps, count) for MBps, count in links if MBps and count and count <= MOST_LINKS]
    if not known:
        return C2c() if links else None
    return C2c(sum(MBps * count for MBps, count in known) * 1e6, sum(count for _, count in known))


def _kind(element: Element, is_gpu: bool, is_nic: bool, has_children: bool) -> Kind | None:
    if is_gpu:
        return "gpu"
    if is_nic:
        return "nic"
    if has_children:
        return "bridge"
    return kind_of(element.get("class")) if element.get("class") else "unclassed"


def _speed_Bps(nets: list[Element]) -> float | None:
    """Of all ports of a card, which NCCL states in Mb/s."""
    speeds = [number for net in nets if (number := _number(net.get("speed")))]
    return sum(speeds) * 1e6 / 8 if speeds else None


def _nvlinks(file: File, gpu: Element, prefix: str) -> tuple[NvlinkEnd, ...] | None:
    """NVLinks, or XGMI links, which RCCL writes alike; None where the file has none of the GPU."""
    ends = []
    for link in gpu.children:
        if link.tag in ("nvlink", "xgmi"):
            count = _number(link.get("count", "1"))
            if count is None or not 1 <= count <= MOST_LINKS:
                said = f"count={link.get('count')[:40]}"
                raise file.error(f"{said}: expected 1 to {MOST_LINKS} links", link.line)
            target, tclass = prefix + link.get("target").lower()[:40], link.get("tclass")
            ends.append(NvlinkEnd(target, count, tclass == _NVSWITCH, tclass == _CPU, link.tag == "xgmi"))
    return tuple(ends) or None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _unsaid(tree: PciTree) -> list[str]:
    notes = []
    gpus = tree.of_kind("gpu")
    if gpus and all(gpu.nvlinks is None for gpu in gpus):
        if all(gpu.arch.startswith("gfx") for gpu in gpus):
            notes.append("XGMI: the file has no <xgmi>; rocm-smi --showtopo has it")
        else:
            notes.append("NVLink: the file has no <nvlink> (files of clouds leave it out); nvidia-smi topo -m has it")
    if all(gpu.generation is None and gpu.c2c is None for gpu in gpus or tree.of_kind("unclassed")):
        notes.append("PCIe: the file has no link_speed, or none with a rate")
    elif unsaid := [gpu.name for gpu in gpus if gpu.generation is None and gpu.c2c is None]:
        notes.append(
            f"PCIe of {len(unsaid)} of {len(gpus)} GPUs: their link_speed has no rate ({', '.join(unsaid[:4])})"
        )
    return notes


# hwloc's XML, as `lstopo --of xml` writes it: NUMA nodes, the PCI tree, and what the system calls its devices.
#
#     topology > object Machine > object Package ... object NUMANode
#                               > object Bridge (host) > object Bridge (PCI) > object PCIDev > object OSDev
#
# Version 1 nests devices below a NUMA node, version 2 beside it, below the object whose CPUs are as near.
#
# Reference: hwloc documentation, "Importing and exporting topologies from/to XML files"; hwloc2.dtd.

_PACKAGES = ("Package", "Socket")
# GB/s of a link, which hwloc writes in place of its lanes and generation: those of 16 lanes.
_GBps_x16 = {4.0: 1, 8.0: 2, 15.75: 3, 31.51: 4, 63.02: 5, 126.03: 6}


def parse_hwloc(file: File, top: Element) -> PciTree:
    """The machine of a topology."""
    if top.tag != "topology":
        raise file.error(f"<{top.tag}>: expected <topology>, as lstopo --of xml writes it", top.line)
    machine = next((child for child in top.children if child.tag == "object"), None)
    if machine is None:
        raise file.error("a topology without objects", top.line)
    cpus: dict[str, PciNode] = {}
    _walk(machine, "0", "", cpus)
    if not any(node.kind in ("gpu", "nic") for cpu in cpus.values() for node in cpu.below()):
        raise file.error("a topology without PCI devices; expected one of lstopo --of xml --whole-io", top.line)
    notes = ("NVLink: hwloc describes PCIe; nvidia-smi topo -m has NVLink",)
    return PciTree("hwloc's XML", tuple(cpus.values()), notes)


def _walk(element: Element, numa: str, product: str, cpus: dict[str, PciNode]) -> None:
    """Collects NUMA nodes, and the devices below each object with the nearest of them."""
    numa = next((each.get("os_index", numa) for each in element.children if each.get("type") == "NUMANode"), numa)
    if element.get("type") == "NUMANode":
        numa = element.get("os_index", numa)
    if element.get("type") in _PACKAGES:
        product = _info(element, "CPUModel") or product
    cpu = cpus.setdefault(numa, PciNode("cpu", numa, product=product))
    if product and not cpu.product:
        cpu = cpus[numa] = replace(cpu, product=product)
    for child in element.children:
        if child.get("type") == "Bridge":
            root = f"{len(cpus[numa].children)}" if not child.get("pci_busid") else ""  # a host bridge
            nodes = tuple(replace(node, root=root) for node in _devices(child))
            cpus[numa] = replace(cpus[numa], children=(*cpus[numa].children, *nodes))
        elif child.tag == "object":
            _walk(child, numa, product, cpus)


def _devices(element: Element) -> tuple[PciNode, ...]:
    """What a bridge leads to: of a host bridge its children, of a bridge with one way down what is at its end."""
    below = tuple(node for child in element.children for node in _device(child))
    is_pci = is_address(element.get("pci_busid")) and element.get("pci_type").startswith("0604")
    if not is_pci or len(below) < 2:
        return below
    return (PciNode("bridge", element.get("pci_busid").lower(), *_link(element), children=below),)


def _device(element: Element) -> tuple[PciNode, ...]:
    if element.get("type") == "Bridge":
        return _devices(element)
    kind = kind_of(element.get("pci_type")[:4])
    if (
        element.get("type") != "PCIDev"
        or not is_address(element.get("pci_busid"))
        or kind not in ("gpu", "nic", "storage")
    ):
        return ()
    named = [child for child in element.children if child.get("type") == "OSDev"]
    label = next(
        (
            candidate.get("name")[:64]
            for candidate in named
            if re.match(r"mlx|eth|en|ib|hfi|bnxt", candidate.get("name"))
        ),
        "",
    )
    product = next((_info(candidate, "GPUModel") for candidate in named if _info(candidate, "GPUModel")), "")
    if kind == "gpu" and not named and not re.search(r"\[(10de|1002):", element.get("pci_type")):
        return ()  # the display of a server's management controller
    ids = re.search(r"\[(\w{4}):(\w{4})\]", element.get("pci_type"))
    device = device_id(*ids.groups()) if ids else ""
    return (PciNode(kind, element.get("pci_busid").lower(), *_link(element), product, label=label, device=device),)


def _link(element: Element) -> tuple[int | None, int | None]:
    """Generation and lanes by the rate of a link, where one pair of them alone gives it."""
    said = element.get("pci_link_speed")
    if not re.fullmatch(r"\d{1,4}(\.\d{1,6})?", said) or not float(said):
        return None, None
    fits = [(generation, lanes) for x16, generation in _GBps_x16.items() for lanes in (1, 2, 4, 8, 16, MOST_LANES)
            if abs(float(said) / (x16 * lanes / 16) - 1) < 0.01]  # fmt: skip
    sixteen = [pair for pair in fits if pair[1] == 16]
    if len(fits) == 1 or sixteen:  # of two that give one rate, GPUs and cards in servers have 16 lanes
        return (sixteen or fits)[0]
    return None, None


def _info(element: Element, name: str) -> str:
    return next((each.get("value")[:100] for each in element.children
                 if each.tag == "info" and each.get("name") == name), "")  # fmt: skip
