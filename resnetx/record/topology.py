"""What `topology` says of described systems; its `--json` prints these, one object per line."""

from resnetx.record.base import RecordPart


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
    bandwidth_Bps: list[list[float]]  # one way
    duplex_Bps: list[list[float]]  # both ways at once
    latency_s: list[list[float]]


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
    error: float | None = None  # relative, of the time: the mean, as measured; null: an older record
    error_q90: float | None = None  # that 90 % were within
    error_source: str | None = None  # of what


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


TopologyRecord = KnownSystem | SystemLinks | Route | CollectiveCost | GpuChoice
