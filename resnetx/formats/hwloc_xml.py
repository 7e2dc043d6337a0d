"""hwloc's XML, as `lstopo --of xml` writes it: NUMA nodes, the PCI tree, and what the system calls its devices.

    topology > object Machine > object Package ... object NUMANode
                              > object Bridge (host) > object Bridge (PCI) > object PCIDev > object OSDev

Version 1 nests devices below a NUMA node, version 2 beside it, below the object whose CPUs are as near.

Reference: hwloc documentation, "Importing and exporting topologies from/to XML files"; hwloc2.dtd.
"""

import re
from dataclasses import replace

from resnetx.formats.bounded_xml import Element
from resnetx.formats.pci_tree import MOST_LANES, PciNode, PciTree, device_id, is_address, kind_of
from resnetx.loading import File

_PACKAGES = ("Package", "Socket")
# GB/s of a link, which hwloc writes in place of its lanes and generation: those of 16 lanes.
_GBps_x16 = {4.0: 1, 8.0: 2, 15.75: 3, 31.51: 4, 63.02: 5, 126.03: 6}


def parse(file: File, top: Element) -> PciTree:
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
            found = tuple(replace(node, root=root) for node in _devices(child))
            cpus[numa] = replace(cpus[numa], children=(*cpus[numa].children, *found))
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
    label = next((each.get("name")[:64] for each in named if re.match(r"mlx|eth|en|ib|hfi|bnxt", each.get("name"))), "")
    product = next((_info(each, "GPUModel") for each in named if _info(each, "GPUModel")), "")
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
