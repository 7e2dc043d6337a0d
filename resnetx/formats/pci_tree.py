"""What is plugged in where: CPUs (NUMA nodes) and below them bridges, GPUs, network cards and drives.

NCCL's XML, hwloc's and the kernel's /sys all describe a machine so. Figures that a source does not state are None.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

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
    return ":".join(ids) if all(re.fullmatch(r"[0-9a-f]{4}", each) for each in ids) else ""


def generation_of(speed: str) -> int | None:
    """The generation of PCI Express by the rate of a lane, as "8 GT/s" or "16.0 GT/s PCIe"."""
    match = re.match(r"\s*(\d{1,3}(?:\.\d{1,2})?)\s*GT/s", speed)
    return _GENERATIONS.get(float(match[1])) if match else None


def lanes_of(width: str) -> int | None:
    """The lanes of a link; None where it has none (the kernel says 0 or 255 of what is no link)."""
    return int(width) if re.fullmatch(r"\d{1,3}", width) and 1 <= int(width) <= MOST_LANES else None
