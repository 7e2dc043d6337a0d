"""Parts of systems: GPUs, CPUs, switches, NICs, storage, links and networks, each figure with its source.

The tables are `configs/system/parts/*.yaml`; a system file may add parts of its own. A figure is written
`[value, provenance, source]`, in the unit that its key names; here everything is in base units.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

Provenance = Literal["datasheet", "measured", "assumed"]
Family = Literal["nvlink", "pcie", "smp", "network"]

# Copy engines fill NVLink packets of 256 bytes, kernels' stores those of 128, and each packet has a header of 16: so
# NCCL's author (NVIDIA/nccl-tests, issue 149, 2023), and the packet format in Foley & Danskin, IEEE Micro 37(2), 2017.
NVLINK_KERNELS = (128 / (128 + 16)) / (256 / (256 + 16))

# Suffix of a key in a file -> suffix here, and the factor between them.
UNITS = {
    "_GBps": ("_Bps", 1e9),
    "_GB": ("_bytes", 1e9),
    "_us": ("_s", 1e-6),
    "_MHz": ("_Hz", 1e6),
    "_TFLOPps": ("_FLOPps", 1e12),
}


class Figure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One number and where it comes from."""

    value: float
    provenance: Provenance
    source: str


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    about: str


class Gpu(_Part, frozen=True, kw_only=True):
    """A GPU. Peaks are dense (no sparsity); null: it has no such unit, or no source states it."""

    kind: ClassVar[str] = "gpu"
    product_names: tuple[str, ...] = ()  # as its driver names it; "CPU": no GPU, but a rank on cores of the host
    chip: str = ""  # "GP100": forms of one chip compute alike at one clock and memory rate; "": the part's own
    compute_capability: Figure
    fp32_FLOPps: Figure
    tf32_FLOPps: Figure | None = None
    fp16_FLOPps: Figure | None = None
    bf16_FLOPps: Figure | None = None
    memory_bytes: Figure
    memory_Bps: Figure
    clock_Hz: Figure  # sustained (boost) clock of the multiprocessors
    copy_s: Figure  # what a copy costs that crosses no link: launch and completion


class Cpu(_Part, frozen=True, kw_only=True):
    """A CPU with its memory and its PCIe root: where traffic goes that may not go from GPU to GPU directly."""

    kind: ClassVar[str] = "cpu"
    # One copy staged through this CPU's memory: one alone, and two at once in opposite directions, summed.
    staging_Bps: Figure
    staging_duplex_Bps: Figure | None = None  # null: twice the one-way rate
    staging_s: Figure  # a small staged copy, whole
    peer_Bps: Figure | None = None  # GPU-to-GPU traffic through its PCIe root; null: refused, so staged


class Switch(_Part, frozen=True, kw_only=True):
    """A PCIe switch or an NVSwitch: forwards between all its ports at their full rate."""

    kind: ClassVar[str] = "switch"
    latency_s: Figure
    reduces: bool = False  # adds up and multicasts inside (NVLink SHARP), which `nvls` needs


class Nic(_Part, frozen=True, kw_only=True):
    """A network card."""

    kind: ClassVar[str] = "nic"
    bandwidth_Bps: Figure  # per direction


class Storage(_Part, frozen=True, kw_only=True):
    """What training images are read from."""

    kind: ClassVar[str] = "storage"
    bandwidth_Bps: Figure  # sequential reading


class Wire(_Part, frozen=True, kw_only=True):
    """One kind of link. All figures are of ONE lane (an NVLink link counts as one lane, PCIe x16 has 16)."""

    family: Family
    bandwidth_Bps: Figure  # per direction, as the datasheet states it
    copy_Bps: Figure  # per direction, what one large copy reaches (with the other direction idle)
    duplex_Bps: Figure | None = None  # two copies in opposite directions, summed; null: twice `copy_Bps`
    latency_s: Figure  # what crossing it adds to a small copy
    # Per direction, what the GPUs' kernels get; null: as copies, but on NVLink in smaller packets (NVLINK_KERNELS).
    kernel_Bps: Figure | None = None
    peer: bool = True  # may GPU-to-GPU traffic cross?


class Network(_Part, frozen=True, kw_only=True):
    """What joins nodes: one port of a NIC to one non-blocking fabric."""

    bandwidth_Bps: Figure  # per port and direction
    copy_Bps: Figure  # what one large message reaches
    latency_s: Figure  # one-way, small message
    gpu_direct: bool  # may NICs read GPU memory? If not, through the host


Part = Gpu | Cpu | Switch | Nic | Storage
COMPONENTS: dict[str, type[Part]] = {kind.kind: kind for kind in (Gpu, Cpu, Switch, Nic, Storage)}
TABLES: dict[str, type[msgspec.Struct]] = {
    "gpus": Gpu,
    "cpus": Cpu,
    "switches": Switch,
    "nics": Nic,
    "storage": Storage,
    "links": Wire,
    "networks": Network,
}


def in_base_units(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A part as its file states it, but in base units: `latency_us: [4, ...]` becomes `latency_s: [4e-6, ...]`."""
    converted: dict[str, Any] = {}
    for key, value in tree.items():
        for suffix, (base, factor) in UNITS.items():
            if str(key).endswith(suffix):
                key = key.removesuffix(suffix) + base
                if isinstance(value, list) and value and type(value[0]) in (int, float):  # a bool is left to be refused
                    value = [value[0] * factor, *value[1:]]
                break
        converted[key] = value
    return converted
