"""The PCI tree of this host by the kernel's files: GPUs and network cards below bridges, host bridges and NUMA nodes.

    /sys/bus/pci/devices/0000:06:00.0 -> /sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0/0000:04:08.0/0000:06:00.0

A switch shows as a bridge for each of its ports; a bridge with one way down is left out, so that one remains of each
switch. A network interface that is no PCI device, as in a container, hangs below the first CPU.

Reference: Linux, Documentation/ABI/testing/sysfs-bus-pci and sysfs-class-net.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resnetx.formats.pci_tree import Kind, PciNode, PciTree, generation_of, is_address, kind_of, lanes_of
from resnetx.host import cpu_numbers, kernel_file, kernel_text
from resnetx.measure.machine.host_facts import cpu_name

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
    start = next((place for place, part in enumerate(above) if _HOST_BRIDGE.fullmatch(part)), None)
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
        same = [each for each in ahead if deeper and (each.root, *each.bridges[: depth + 1]) == way] or [first]
        ahead = [each for each in ahead if each not in same]
        found = list(_nested(same, depth + 1)) if deeper else [_leaf(first)]
        if len(found) == 1:
            yield found[0] if depth else replace(found[0], root=first.root)
        else:
            yield _bridge(first, depth, found)


def _bridge(below: PciDevice, depth: int, found: list[PciNode]) -> PciNode:
    """The bridge that several devices share."""
    address = below.bridges[depth]
    folder = kernel_file("sys/bus/pci/devices") / address
    return PciNode(
        "bridge",
        address,
        generation_of(kernel_text(folder / "max_link_speed")),
        lanes_of(kernel_text(folder / "current_link_width")),
        root=below.root if depth == 0 else "",
        children=tuple(found),
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
