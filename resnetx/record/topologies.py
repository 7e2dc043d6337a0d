"""The records of machines: described ones (`topology`), their links rearranged (`steer`), and a check of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.bench_record import Verdict
from resnetx.record.sealing import Outcome, RecordPart, RunFolder, record_file
from resnetx.table import Record, Tabular, row

# ---- topology -------------------------------------------------------------------------------------------------------
# What `topology` says of described systems; its `--json` prints these, one object per line.


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
    time_s: float | None  # null: open
    algbw_Bps: float | None
    busbw_Bps: float | None
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
    open: str = ""  # the command, or "launch_mode=", the setting, that determines the time; "": it is determined


class GpuChoice(RecordPart, frozen=True):
    """Some GPUs of a system, and the bus bandwidth of a collective on them."""

    system: str
    collective: str
    library: str
    size_bytes: int
    devices: list[int]
    busbw_Bps: float
    interval_Bps: list[float] | None  # what 90 % lie within; null: not known
    limiting_link: str
    command: str  # for a shell, that lets a program see these GPUs only; "": there is none


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


# ---- steering -------------------------------------------------------------------------------------------------------
# The record of bandwidth steering: the traffic, the links before and after, and what that does to RTL and training.
#
# Matrices are [to][from], as in Anderson et al. 2018. RTL (relative transmission latency) is normalised traffic over
# bandwidth units.

IterationTime = Annotated[float, msgspec.Meta(gt=0)]


class SteeredGpu(RecordPart, frozen=True, kw_only=True):
    """One GPU, as the source of what it sends, and as a receiver."""

    gpu: int
    rtl_before: float | None  # of all that it sends; null: some of it has no link
    rtl_after: float
    units_moved: int  # of those that it sends with
    receivers_before: int  # units that end at it
    receivers_after: int


class SteeredPhase(RecordPart, frozen=True, kw_only=True):
    """One phase of an application, with the configuration for all of them and with its own."""

    name: str
    traffic: list[list[float]]  # over the largest of this phase
    connectivity: list[list[int]]  # its own
    rtl_shared: float
    rtl_own: float
    duration_s: float | None  # of its transmission with the shared configuration; null: not stated
    break_even_s: float | None  # from when on its own configuration is worth setting; null: never, or no time is known
    gain_s: float | None  # of setting it, each time; below 0: it costs more than it saves


class Steering(Tabular, RecordPart, frozen=True, kw_only=True):
    """`steering.json`."""

    kind: Literal["steering"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    resnetx: str  # version
    settings: dict[str, str]  # that were asked for, in words
    system: str
    described_by: str  # the name or the file that it was described by
    switch: str | None  # the photonic switch between the GPUs; null: none is described
    unit_Bps: float  # of one bandwidth unit, as large copies get it
    devices: list[int]
    workload: str | None
    traffic_of: str  # where the traffic is from, in a sentence
    traffic: list[list[float]]  # over the largest of any pair
    largest_pair_bytes: float | None  # null: its amounts are not those of bytes
    left_out: float  # share of all traffic between GPUs that no link can carry: it is staged in the host
    method: Literal["exhaustive", "greedy", "linear program"]
    rtl_evaluations: int | None  # that the search calculated
    rtl_before: float | None  # null: some traffic has no link as the system is built
    rtl_after: float
    rtl_saved: float | None  # share of the total
    connectivity_before: list[list[int]]
    connectivity_after: list[list[int]]
    receivers_limit: list[int] | None  # of each GPU; null: none
    receivers_added: int  # by the GPU that needs most beyond what it has
    gpus: list[SteeredGpu]
    exchange_s_before: float | None  # of the links' traffic, all pairs at once
    exchange_s_after: float | None
    iteration_s_before: IterationTime | None  # as predicted on the system, and on the steered one
    iteration_s_after: IterationTime | None
    iteration_of: str | None  # what is trained and how gradients are exchanged in it
    collective_before: str | None  # what all-reduces of its gradients run by
    collective_after: str | None
    phases: list[SteeredPhase]  # [] where all is one phase
    reconfiguration_s: float | None
    steered_file: str | None  # the steered system; null: not written
    unknown: dict[str, str]  # path of a null field -> why it is not known

    def __post_init__(self) -> None:
        gpus = len(self.traffic)
        matrices: list[Sequence[Sequence[float]]] = [
            self.traffic,
            self.connectivity_before,
            self.connectivity_after,
        ]
        matrices += [matrix for phase in self.phases for matrix in (phase.traffic, phase.connectivity)]
        if not gpus or any(len(matrix) != gpus or any(len(row) != gpus for row in matrix) for matrix in matrices):
            raise ValueError(f"matrices of other numbers of GPUs than {gpus}")

    def rows(self) -> list[Record]:
        """A row for each GPU."""
        return [row(gpu) for gpu in self.gpus]


# ---- node check -----------------------------------------------------------------------------------------------------
# The record of a check of nodes: what each node and pair of nodes measured, which stand out, and why, most likely.
#
# The runs that it is made of have records of their own, in folders beside it.

Measure = Literal["all-reduce", "training", "pair"]
CauseKind = Literal[
    "missing GPUs",
    "memory errors",
    "link width",
    "NVLink",
    "link errors",
    "clock",
    "foreign load",
    "software",
    "network card",
    "switch",
    "unknown",
]


@dataclass(frozen=True)
class CheckFolder:
    """The names in the folder of a check; nothing else in resnetx spells them."""

    path: Path

    @property
    def check(self) -> Path:
        return record_file("check", self.path)

    def run(self, measure: Measure, nodes: Sequence[str]) -> RunFolder:
        return RunFolder(self.path / "_".join([measure, *nodes]))


class Cause(RecordPart, frozen=True):
    """What may have made a node slow."""

    kind: CauseKind
    evidence: str  # a sentence with its figures


class CheckedRun(RecordPart, frozen=True, kw_only=True):
    """One run of the check, on one node or on a pair of nodes."""

    measure: Measure
    nodes: list[str]
    round: int  # of pairs, from 1; 0: of single nodes, all at the same time
    kind: str  # of what it is compared with: processors and GPUs, and of pairs whether one switch joins them
    outcome: Outcome
    reason: str  # "" where the outcome is ok
    time_s: float | None  # of one all-reduce (the median), or of one iteration; null: the run did not end well
    expected_s: float | None  # what the description allows
    most_s: float | None  # by its interval; null: not described, or not known for this
    verdict: Verdict  # of `time_s` beside the description; of training "low" where it is over `most_s`
    median_s: float | None  # of the fleet: all runs of this kind; null: fewer than three
    limit_s: float | None  # that follows from it
    folder: str  # of its record


class Outlier(RecordPart, frozen=True, kw_only=True):
    """A node, a pair of nodes or a switch that stands out."""

    what: Literal["node", "pair", "switch"]
    name: str  # "node7", "node3 - node7", "spine.leaf2"
    nodes: list[str]
    measure: Measure
    against: list[Literal["run", "fleet", "description"]]  # run: it failed, or had no GPUs
    found: str  # a sentence with its figures
    causes: list[Cause]  # the likeliest first; of kind unknown where nothing explains it


class Remark(RecordPart, frozen=True):
    """Something that was seen on a node which is no outlier."""

    node: str
    cause: Cause


class Check(Tabular, RecordPart, frozen=True, kw_only=True):
    """`check.json`."""

    kind: Literal["check"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    resnetx: str  # version
    started_at: str  # UTC, ISO 8601
    duration_s: float
    settings: dict[str, str]  # that were asked for, in words
    nodes: list[str]
    gpus: int  # ranks on each node
    size_bytes: int  # of the all-reduces
    workload: str  # of the training point
    batch_size: int  # of the training point, on each node
    system: str | None  # the description that it is judged by; null: none
    budget_s: float
    spreads: float  # robust standard deviations beyond the fleet's median that are allowed...
    floor: float  # ...and the share of it that always is
    runs: list[CheckedRun]
    outliers: list[Outlier]
    remarks: list[Remark]
    left_out: list[str]  # a sentence for each thing that was not tried
    pairs: int  # that there are
    pairs_tried: int
    unknown: dict[str, str]  # path of a null field -> why it is not known

    @property
    def healthy(self) -> bool:
        """Whether nothing stands out."""
        return not self.outliers

    @property
    def outlying_nodes(self) -> list[str]:
        """Nodes that stand out by themselves, or are below a switch that does; not those of single slow pairs."""
        named = {node for outlier in self.outliers if outlier.what != "pair" for node in outlier.nodes}
        return [node for node in self.nodes if node in named]

    def rows(self) -> list[Record]:
        """A row for each run."""
        return [{"nodes": " - ".join(run.nodes), **row(run, leave_out=("nodes",))} for run in self.runs]
