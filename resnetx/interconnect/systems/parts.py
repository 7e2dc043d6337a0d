"""Parts of systems: GPUs, CPUs, switches, NICs, storage, links and networks, each figure with its source.

The tables are `configs/system/parts/*.yaml`; a system file may add parts of its own. A figure is written
`[value, provenance, source]`, in the unit that its key names; here everything is in base units.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from resnetx.errors import ConfigError

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


class SourcedValue(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One number and where it comes from. A GPU may have figures that no source states: null, with the reason."""

    stated: float | None
    provenance: Provenance
    source: str

    @property
    def value(self) -> float:
        """The number; refuses where it is needed and no source states it."""
        if self.stated is None:
            raise ConfigError(self.source)
        return self.stated


class _Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    may_be_null: ClassVar[frozenset[str]] = frozenset()  # figures that may be null with a reason: `SourcedValue`

    about: str


class GpuSpec(_Spec, frozen=True, kw_only=True):
    """A GPU. Peaks are dense (no sparsity); null: it has no such unit, or no source states it."""

    kind: ClassVar[str] = "gpu"
    may_be_null: ClassVar[frozenset[str]] = frozenset({"fp32_FLOPps", "memory_bytes", "memory_Bps", "clock_Hz"})

    product_names: tuple[str, ...] = ()  # as its driver names it; "CPU": no GPU, but a rank on cores of the host
    chip: str = ""  # "GP100": forms of one chip compute alike at one clock and memory rate; "": the part's own
    bus: str = ""  # the kind of its link to the host; "": not stated
    peer_link: str = ""  # the kind of link that it reaches other GPUs by; "": it has none, or none is stated
    peer_links: int = 0  # how many of these it has
    compute_capability: SourcedValue
    fp32_FLOPps: SourcedValue
    tf32_FLOPps: SourcedValue | None = None
    fp16_FLOPps: SourcedValue | None = None
    bf16_FLOPps: SourcedValue | None = None
    memory_bytes: SourcedValue
    memory_Bps: SourcedValue
    clock_Hz: SourcedValue  # sustained (boost) clock of the multiprocessors
    copy_s: SourcedValue  # what a copy costs that crosses no link: launch and completion


class CpuSpec(_Spec, frozen=True, kw_only=True):
    """A CPU with its memory and its PCIe root: where traffic goes that may not go from GPU to GPU directly."""

    kind: ClassVar[str] = "cpu"
    cores: SourcedValue | None = None  # of one socket; null: not stated
    # One copy staged through this CPU's memory: one alone, and two at once in opposite directions, summed.
    staging_Bps: SourcedValue
    staging_duplex_Bps: SourcedValue | None = None  # null: twice the one-way rate
    staging_s: SourcedValue  # a small staged copy, whole
    peer_Bps: SourcedValue | None = None  # GPU-to-GPU traffic through its PCIe root; null: refused, so staged


class SwitchSpec(_Spec, frozen=True, kw_only=True):
    """A PCIe switch or an NVSwitch: forwards between all its ports at their full rate."""

    kind: ClassVar[str] = "switch"
    latency_s: SourcedValue
    reduces: bool = False  # adds up and multicasts inside (NVLink SHARP), which `nvls` needs


class NicSpec(_Spec, frozen=True, kw_only=True):
    """A network card."""

    kind: ClassVar[str] = "nic"
    bandwidth_Bps: SourcedValue  # per direction


class PhotonicSpec(_Spec, frozen=True, kw_only=True):
    """An optical circuit switch. Each lane through it takes one port in and one port out, and waits for nothing."""

    kind: ClassVar[str] = "photonic"
    ports: SourcedValue  # in, and as many out
    reconfiguration_s: SourcedValue  # until all its circuits are others


class StorageSpec(_Spec, frozen=True, kw_only=True):
    """What training images are read from."""

    kind: ClassVar[str] = "storage"
    bandwidth_Bps: SourcedValue  # sequential reading
    shared: bool = False  # by all nodes of a cluster, as a file server is; else each node has its own


class WireSpec(_Spec, frozen=True, kw_only=True):
    """One kind of link. All figures are of ONE lane (an NVLink link counts as one lane, PCIe x16 has 16)."""

    family: Family
    bandwidth_Bps: SourcedValue  # per direction, as the datasheet states it
    copy_Bps: SourcedValue  # per direction, what one large copy reaches (with the other direction idle)
    duplex_Bps: SourcedValue | None = None  # two copies in opposite directions, summed; null: twice `copy_Bps`
    latency_s: SourcedValue  # what crossing it adds to a small copy
    # Per direction, what the GPUs' kernels get; null: as copies, but on NVLink in smaller packets (NVLINK_KERNELS).
    kernel_Bps: SourcedValue | None = None
    peer: bool = True  # may GPU-to-GPU traffic cross?
    word: str = "NV"  # of links between GPUs: what the matrix of connectivity calls them, before the number of lanes

    @property
    def peer_name(self) -> str:
        """What links between GPUs of this kind are called."""
        return "NVLink" if self.word == "NV" else self.word


class NetworkSpec(_Spec, frozen=True, kw_only=True):
    """What joins nodes: one port of a NIC to one non-blocking fabric."""

    bandwidth_Bps: SourcedValue  # per port and direction
    copy_Bps: SourcedValue  # what one large message reaches
    latency_s: SourcedValue  # one-way, small message
    gpu_direct: bool  # may NICs read GPU memory? If not, through the host


ComponentSpec = GpuSpec | CpuSpec | SwitchSpec | PhotonicSpec | NicSpec | StorageSpec
COMPONENTS: dict[str, type[ComponentSpec]] = {
    kind.kind: kind for kind in (GpuSpec, CpuSpec, SwitchSpec, PhotonicSpec, NicSpec, StorageSpec)
}
TABLES: dict[str, type[msgspec.Struct]] = {
    "gpus": GpuSpec,
    "cpus": CpuSpec,
    "switches": SwitchSpec,
    "photonics": PhotonicSpec,
    "nics": NicSpec,
    "storage": StorageSpec,
    "links": WireSpec,
    "networks": NetworkSpec,
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
