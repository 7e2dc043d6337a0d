"""NCCL's topology file: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads, of RCCL, too.

    system > cpu (a NUMA node) > pci ... pci > gpu > nvlink target="0000:8a:00.0" count="2" tclass="0x030200"
                                             > nic > net name="mlx5_0" speed="100000"

Files that clouds provide have part of it: PCI devices alone, often without their kinds, and no NVLink.

Reference: NVIDIA/nccl, src/graph/xml.cc and topo.cc.
"""

import re
from dataclasses import replace

from resnetx.formats.bounded_xml import Element
from resnetx.formats.pci_tree import (
    C2c,
    Kind,
    NvlinkEnd,
    PciNode,
    PciTree,
    device_id,
    generation_of,
    is_address,
    kind_of,
    lanes_of,
)
from resnetx.loading import File

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


def parse(file: File, top: Element) -> PciTree:
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
    maker = {"AuthenticAMD": "AMD", "HygonGenuine": "Hygon"}.get(vendor, vendor[:40])
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
    links = [(_number(each.get("bw")), _number(each.get("count", "1"))) for each in gpu.children if each.tag == "c2c"]
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
