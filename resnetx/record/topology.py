"""What `topology` says of described systems; its `--json` prints these, one object per line."""

import msgspec

from resnetx.record.files import RecordPart


class KnownSystem(RecordPart, frozen=True):
    """A system that comes with resnetx."""

    system: str
    about: str


class SystemLinks(RecordPart, frozen=True):
    """Who is linked to whom in a system, and what copies between its GPUs get; matrices are [from][to]."""

    system: str
    about: str
    library: str  # generation of the collective library
    gpus: list[str]  # kinds of GPUs, in the order of their ids
    connectivity: list[list[str]]  # as `nvidia-smi topo -m` has it
    peers: list[list[bool]]
    transport: str
    kind: list[list[str]]
    bandwidth_Bps: list[list[float | None]]  # one way; null within a GPU whose memory no source describes
    duplex_Bps: list[list[float | None]]  # both ways at once
    latency_s: list[list[float]]


class PairAtSize(RecordPart, frozen=True, rename={"source": "from", "target": "to"}):
    """What a copy of one size from one GPU to another is predicted to take."""

    source: int
    target: int
    latency_s: float  # of a small copy
    time_s: float  # of a copy of this size
    bandwidth_Bps: float  # size / time
    bidirectional_Bps: float  # with a copy of this size the other way at once, summed
    transport: str  # what it goes over: "nvlink", "pcie", "host", "network"
    limiting_link: str  # of a large copy
    pair_class: str = msgspec.field(name="class")  # "one NVLink", "same switch"
    error: float  # relative, of the time: the mean, as measured
    error_q90: float  # that 90 % were within


class PairCosts(RecordPart, frozen=True):
    """Every ordered pair of GPUs of a system, at one size."""

    system: str
    transport: str  # as it was asked for
    size_bytes: int
    pairs: list[PairAtSize]
    error_source: str


class Route(RecordPart, frozen=True):
    """One path between two GPUs that an application can choose."""

    system: str
    source: int
    target: int
    kind: str
    names: list[str]  # of the components that it passes through
    bandwidth_Bps: float
    duplex_Bps: float
    latency_s: float
    limiting_link: str


class CollectiveCost(RecordPart, frozen=True):
    """What one collective of one size costs."""

    system: str
    collective: str
    devices: list[int]
    library: str
    transport: str
    size_bytes: int
    time_s: float
    algbw_Bps: float
    busbw_Bps: float
    algorithm: str
    rings: list[list[int]]
    ring_Bps: list[float]
    limiting_link: str
    calibration: str | None  # file or published times that refined it; null: none
    explanation: list[str]
    error: float | None = None  # |ln(predicted / measured)|: the mean, as measured; null: not known
    error_q90: float | None = None  # that 90 % were within
    error_source: str | None = None  # of what, or why it is not known
    launch_mode: str | None = None  # process-per-gpu, one-process; null: not told
    interval_s: list[float] | None = None  # that 90 % lie within; of machines never measured, as wide as on all others


class GpuChoice(RecordPart, frozen=True):
    """Some GPUs of a system, and the bus bandwidth of a collective on them."""

    system: str
    collective: str
    library: str
    size_bytes: int
    devices: list[int]
    busbw_Bps: float
    limiting_link: str
    command: str  # for a shell, that lets a program see these GPUs only


class NvlinkErrors(RecordPart, frozen=True):
    """What an NVLink has counted since the driver was loaded, or the counters reset."""

    link: int
    crc_flit: int | None  # errors of checksums, of flow control
    crc_data: int | None  # the same, of data
    replays: int | None
    recoveries: int | None


class DeviceLink(RecordPart, frozen=True):
    """A GPU or a network card of the machine at hand: its link now against what is possible, and its errors."""

    device: str  # gpu0, nic1: as the system calls it
    name: str
    pci_bus_id: str | None
    pcie_generation: int | None  # now: a GPU at rest lowers it
    pcie_generation_max: int | None
    pcie_width: int | None
    pcie_width_max: int | None
    pcie_replays: int | None
    speed_Bps: float | None  # of a network card, each way
    nvlinks: list[NvlinkErrors] | None
    unknown: dict[str, str]  # a null field -> why


class FoundSystem(RecordPart, frozen=True):
    """A system that was read from files or from the machine at hand, or made for one on paper."""

    links: SystemLinks
    findings: list[str]  # what the sources say that deserves a look: links that are down, or slower than they could be
    unknown: list[str]  # what the sources do not say, and what is assumed for it
    file: str | None  # where it was written; null: nowhere
    text: str  # the system's file
    devices: list[DeviceLink]  # of the machine at hand


TopologyRecord = KnownSystem | SystemLinks | PairCosts | Route | CollectiveCost | GpuChoice
