"""Bench records: collectives and pair copies timed over sizes on one set of devices, or imported."""

import hashlib
from collections.abc import Iterable
from statistics import median
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec

from resnetx.choices import Lab
from resnetx.copies import Direction
from resnetx.launching import Launch, TransportName, Way
from resnetx.operations import OPERATIONS, Place
from resnetx.patterns import Scaling
from resnetx.record.machine import Device, Environment, HostLoad, Job, LockedClock, OtherNode, Transport, unit_of
from resnetx.record.sealing import SCHEMA, Failure, Outcome, RecordPart, Unknown, Warning, timestamp
from resnetx.request import leave_out_defaults
from resnetx.table import Record, Tabular, row
from resnetx.units import Unit

# ---- copies ---------------------------------------------------------------------------------------------------------
# Pair copies: what was copied from where to where, how long it took, and by which path.
#
# A cell is one kind of copy between one source and one target at one size. A GPU, or the rank of a CPU run, is its
# number among the bench's devices; memory of a host is "host", or "numa0" where it is bound to a NUMA node; a disk is
# "storage".

Endpoint = Literal["device", "pinned", "pageable"]  # memory that a copy between hosts starts from and ends in
Verdict = Literal["as expected", "low", "above the link", "not judged"]
# Which GPU issues a copy: the one that sends, or the one that receives; "": not said.
Access = Literal["", "write", "read"]
Engine = Literal["", "copy engine", "SM", "TMA"]  # of a GPU, that copies; "": not said
CopyEnd = int | str
Times = Annotated[list[Annotated[float, msgspec.Meta(gt=0)]], msgspec.Meta(min_length=1)]


class CopyFamily(NamedTuple):
    """What copies that can be compared with each other have in common."""

    copy: str
    direction: Direction
    endpoint: Endpoint
    access: Access
    engine: Engine

    @property
    def words(self) -> str:
        """For a person: "device copies, one way, reads by SMs"."""
        return f"{self.copy} copies, {self.direction.replace('-', ' ')}{self.issued}"

    @property
    def issued(self) -> str:
        """How copies are issued, as it goes on in a list: ", reads by SMs"; "": not said."""
        engine = {"": "", "copy engine": "by copy engines", "SM": "by SMs", "TMA": "by TMA"}[self.engine]
        access = f"{self.access}s" if self.access else ""
        words = " ".join(word for word in (access, engine) if word)
        return f", {words}" if words else ""

    @property
    def slug(self) -> str:
        """For names of files: "device_one-way_device_read_sm"."""
        return "_".join(word.lower().replace(" ", "-") for word in self if word)


class Pair(RecordPart, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A copy that ran at the same time as another."""

    source: CopyEnd
    target: CopyEnd


class CopyCell(
    RecordPart,
    frozen=True,
    kw_only=True,
    rename={"source": "from", "target": "to", "pair_class": "class"},
):
    """One kind of copy between one pair at one size."""

    copy: str  # its entry in `resnetx.operations`: "device", "relay", "to-host"
    source: CopyEnd
    target: CopyEnd
    through: int | None = None  # the GPU that relays; null: none
    size_bytes: Annotated[int, msgspec.Meta(ge=1)]  # in one direction
    direction: Direction  # both ways at once: both copies of `size_bytes` have ended
    endpoint: Endpoint
    access: Access = ""
    engine: Engine = ""
    together: list[Pair] = msgspec.field(default_factory=list)  # what ran at the same time; []: nothing did
    time_s: Times  # of one copy, of each timing
    wrong: int | None  # bytes that were not what they should be, in a check behind the timing
    path: str | None  # what it went over, as far as evidence says: "nvlink", "pcie", "host", "socket", "shared memory"
    evidence: list[str]  # for the path: peer state, byte counters, interface
    expected_s: float | None  # what the described topology allows; null: none described
    # Within which it is as expected: of collectives what 90 % of published times are within, of copies all. []: nothing
    # is described, or how far off that is is not known; records from before it was kept lack it.
    expected_interval_s: list[float] = msgspec.field(default_factory=list)
    verdict: Verdict  # of the median time beside `expected_s`
    causes: list[str] = msgspec.field(default_factory=list)  # to check where it is low, the likeliest first
    pair_class: str | None  # pairs that behave alike: "one NVLink", "same switch"; null: not classified

    @property
    def family(self) -> CopyFamily:
        """What it can be compared with."""
        return CopyFamily(self.copy, self.direction, self.endpoint, self.access, self.engine)


def families(cells: Iterable[CopyCell]) -> dict[CopyFamily, list[CopyCell]]:
    """The cells that ran alone, by what they can be compared with."""
    found: dict[CopyFamily, list[CopyCell]] = {}
    for cell in cells:
        if cell.time_s and not cell.together:
            found.setdefault(cell.family, []).append(cell)
    return found


# ---- bench ----------------------------------------------------------------------------------------------------------
# Bench records: collectives and pair copies timed over sizes on one set of devices, or imported from nccl-tests.

DType = Literal["fp32", "bf16", "fp16"]
# One operation until the host sees its end; one of a queue, without a barrier between them; one of a CUDA graph.
Timing = Literal["blocking", "back-to-back", "graph"]
ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
QUEUES = 5  # of operations of each size on GPUs...
LARGE_BYTES, QUEUES_OF_LARGE = 2**27, 2  # ...and of such that take long, and differ little
QUEUE_LENGTH = 20  # operations of a row, a queue, a graph: the default of nccl-tests (-n, README.md)
# On GPUs, operations of one size are timed for so long, by themselves and again in queues, but at least so many: nine
# collectives on eight GPUs that reach each other through two sockets are to take less than a minute.
TIMED_s, LEAST_TIMED, LEAST_LENGTH = 0.3, 5, 4
NOT_DESCRIBED = Unknown("no system is described that it could stand beside (systems=)")


class BenchRequest(RecordPart, frozen=True, forbid_unknown_fields=True):
    """What one process group is asked to time."""

    collectives: list[str]  # "allreduce", "broadcast"; []: copies alone
    sizes_bytes: list[int]  # of the whole array, as nccl-tests counts them, ascending; see `array_bytes`
    gpus: int
    devices: list[int] | None  # GPU ids, one per rank; None: the first ones
    env: dict[str, str]
    threads: int
    warmup: int  # operations of each size before those that are timed
    iterations: int  # timed operations of each size
    seed: int  # of the order in which sizes are timed
    registered: bool = False  # the array lies in memory that is registered with NCCL (user buffer registration)
    # Settings added later: their defaults are what earlier benches used.
    copies: list[str] = msgspec.field(
        default_factory=list
    )  # kinds of pair copies: "device", "to-host" (`resnetx.operations`)
    copy_sizes_bytes: list[int] = msgspec.field(default_factory=list)  # in one direction, ascending
    directions: list[Direction] = msgspec.field(default_factory=lambda: ["one-way"])
    endpoint: Endpoint | None = None  # None: what the kind of copy has by itself
    through: int | None = None  # the GPU that relays
    numa: int | None = None  # the NUMA node that memory of the host lies on; None: wherever the system puts it
    transport: TransportName = "auto"
    interface: str | None = None  # the network interface of sockets; None: loopback on one node, else the library's own
    lab: Lab | None = None  # ranks are in namespaces that are joined as a described system is; None: on this machine
    place: Place | None = None  # of results; None: what each collective has
    dtype: DType = "fp32"  # of the array
    timing: Timing | None = None  # what `times_s` are of; None: blocking, and on GPUs queues besides
    algorithm: str | None = None  # of NCCL: forced, "auto": its own choice, which is recorded; None: not asked for
    protocol: str | None = None  # likewise
    nodes: int = 1  # that the ranks are on, as many on each
    gpudirect: bool | None = None  # whether network cards reach GPU memory between nodes; None: as NCCL decides
    clock: int | None = None  # MHz that the GPUs are locked at meanwhile; None: they are left as they are
    patterns: list[str] = msgspec.field(default_factory=list)  # of applications: "halo" (`resnetx.patterns`)
    pattern_sizes_bytes: list[int] = msgspec.field(default_factory=list)  # of their problem; []: each pattern's own
    scalings: list[Scaling] = msgspec.field(default_factory=lambda: ["strong"])  # of that problem
    compute_s: float | None = None  # of the whole problem on one rank; None: each pattern's own

    @property
    def way(self) -> Way:
        """What is asked of the exchange between ranks."""
        return Way(self.transport, self.interface, self.gpudirect)

    @property
    def key(self) -> str:
        """Eight hexadecimal digits that differ between any two different requests."""
        given = msgspec.to_builtins(self, order="deterministic")
        leave_out_defaults(given, type(self))
        return hashlib.sha256(msgspec.json.encode(given)).hexdigest()[:8]

    @property
    def slug(self) -> str:
        """A readable name for folders: "allreduce-broadcast_g2", "device_g4", "allreduce_g8_registered"."""
        transport = "" if self.transport == "auto" else f"_{self.transport}"
        transport += {None: "", True: "_gdr", False: "_no-gdr"}[self.gpudirect]
        names = "-".join([*self.collectives, *self.copies, *self.patterns])
        others = [self.algorithm, self.protocol, self.place, self.timing, self.dtype if self.dtype != "fp32" else None]
        more = "".join(f"_{each.lower()}" for each in others if each)
        nodes = f"_n{self.nodes}" * (self.nodes > 1)
        return f"{names}_g{self.gpus}{nodes}{transport}{more}" + "_registered" * self.registered


class BenchFile(RecordPart, frozen=True):
    """`run.json` of a bench; `torchrun ... -m resnetx.collectives run.json` repeats the bench by hand."""

    kind: Literal["bench"]
    schema: int
    request: BenchRequest
    timeout_s: float
    oversubscribe: bool = False  # more ranks than GPUs may run, or without GPUs than cores
    launch: Launch | None = None  # how ranks are started; None: by one torchrun, on this node

    verb: ClassVar[str] = "bench"
    entry_module: ClassVar[str] = "resnetx.collectives"  # the module that torchrun starts in each rank

    @property
    def record_type(self) -> "type[BenchRecord]":
        return BenchRecord

    def opening(self, started: float) -> dict[str, Any]:
        """What its record has before anything has run. `started`: seconds since the epoch."""
        return {
            "kind": "bench",
            "schema": SCHEMA,
            "request": self.request,
            "source": "measured",
            "started_at": timestamp(started),
            "world_size": self.request.gpus,
        }


class BenchPoint(RecordPart, frozen=True):
    """One collective at one size."""

    collective: str
    size_bytes: int  # of the whole array, as it was used
    times_s: Times  # of each operation, the slowest rank's; an imported mean is a list of one
    wrong: int | None  # elements that were not what they should be, over all ranks, in a check behind the timing
    # CPU seconds (all threads, user and system) that a rank spends for each second of the operation; what computing
    # loses to it on CPU ranks. null on GPUs.
    cpu_share: float | None
    # Seconds of computing that a rank loses for each second that the operation takes alone, when it runs beside. Of
    # allreduce only, from some size on. Predictions take it into account on CPUs.
    computing_lost: float | None = None
    # Seconds of one operation among `queue_length` that follow each other on GPUs, the slowest rank's; of each queue.
    # They lack what `times_s` have: the host's time to start an operation, and to notice its end. null on CPUs.
    queued_s: Times | None = None
    expected_s: float | None = None  # what the described topology allows; null: none described
    # Within which it is as expected: of collectives what 90 % of published times are within, of copies all. []: nothing
    # is described, or how far off that is is not known; records from before it was kept lack it.
    expected_interval_s: list[float] = msgspec.field(default_factory=list)
    verdict: Verdict = "not judged"  # of the median time beside `expected_s`
    causes: list[str] = msgspec.field(default_factory=list)  # to check where it is low, the likeliest first
    queue_length: int = QUEUE_LENGTH  # operations of each queue of this size: fewer where each takes long
    emulated: str = ""  # the operation that the library makes it of; "": it has it
    algorithm: str | None = None  # of NCCL, as its log says: "RING"
    protocol: str | None = None  # likewise: "LL128"


class PatternPoint(RecordPart, frozen=True):
    """One pattern of an application, at one size of its problem."""

    pattern: str
    scaling: Scaling
    size_bytes: int  # of the problem; weak: of each rank's part of it
    compute_s: float  # that each rank waits in an iteration, in place of computing
    sent_bytes: int  # over the rounds of an iteration: what its busiest rank sends or receives, whichever is more
    times_s: Times  # of each iteration, the slowest rank's
    communication_s: Times  # of the same rank: the part of it that it did not wait
    wrong: int  # bytes received that were not what they should be, over all ranks, in a check behind the timing

    @property
    def what(self) -> str:
        """In words."""
        return f"{self.pattern}, {self.scaling} scaling"

    @property
    def share(self) -> float:
        """Of an iteration that is communication."""
        return median(self.communication_s) / median(self.times_s)

    @property
    def bandwidth_Bps(self) -> float | None:
        """Of the busiest rank of each round, in one direction; None: nothing is sent."""
        return self.sent_bytes / median(self.communication_s) if self.sent_bytes else None

    def speedup(self, ranks: int) -> float:
        """Over one rank, which sends nothing, and waits as the slowest rank did: on a busy host longer than asked."""
        return ranks * (1 - self.share)


class SkippedArray(msgspec.Struct, frozen=True):
    """A collective, or a pattern, at a size that was not measured."""

    collective: str
    size_bytes: int
    reason: str


WRONG_ELEMENTS = "wrong-elements"  # the code of a warning: an imported table says that results were wrong
TEST_FAILED = "test-failed"  # of an imported one: that the program ended before its last size


class BenchRecord(Tabular, RecordPart, frozen=True, kw_only=True):
    """`record.json` of a bench."""

    kind: Literal["bench"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    request: BenchRequest | None  # null: imported
    source: str  # "measured", or the file that it was imported from
    outcome: Outcome
    reason: str  # "" where the outcome is ok
    failures: list[Failure]
    stderr_end: str
    started_at: str | None  # UTC, ISO 8601
    duration_s: float | None
    world_size: int | None
    library: str | None  # "gloo (torch 2.15.0)", "NCCL 2.27.3", "nccl-tests"
    crowding: float | None = None  # how many times as long computing takes while all CPU ranks compute, not one
    queue_length: int | None = None  # operations of each queue, unless its point has fewer; null on CPUs
    points: list[BenchPoint]  # in the order in which they were timed
    cells: list[CopyCell] = msgspec.field(default_factory=list)  # of pair copies, in the same order
    patterns: list[PatternPoint] = msgspec.field(default_factory=list)
    skipped: list[SkippedArray] = msgspec.field(default_factory=list)  # sizes that found no memory
    transport: Transport | None
    devices: list[Device] | None
    host_load: HostLoad | None  # from the first to the last operation
    clock: LockedClock | None = None  # that GPUs were locked at meanwhile; records from before it could be lack it
    warnings: list[Warning]
    environment: Environment | None
    other_nodes: list[OtherNode] | None = None  # records from before it was gathered lack it
    job: Job | None = None  # that it was part of; records from before it was asked lack it
    unknown: dict[str, str]  # path of a null field -> why it is not known

    @property
    def unit(self) -> Unit:
        """What its ranks were (in the lab: stand for); of an imported one that names no device, by the library."""
        if self.request is not None and self.request.lab is not None:
            return "GPU"
        if not self.devices and (self.library or "").startswith("gloo"):
            return "rank"
        return unit_of(self.devices or ())

    def rows(self) -> list[Record]:
        """A row for each size of a collective, copy and pattern."""
        return [row(each) for each in (*self.points, *self.cells, *self.patterns)]


class Counts(NamedTuple):
    """How often operations of one size are timed on GPUs."""

    iterations: int  # by themselves, or in rows
    queues: int
    queue_length: int


def counts(size_bytes: int, operation_s: float, iterations: int, row: int = 1) -> Counts:
    """Fewer of those that take long, whose times differ little; `iterations` of `row` operations are asked for."""
    alone, queued = (int(TIMED_s / (each * operation_s)) for each in (row, 1))
    length = min(QUEUE_LENGTH, max(LEAST_LENGTH, queued // QUEUES_OF_LARGE))
    most = QUEUES_OF_LARGE if size_bytes >= LARGE_BYTES else QUEUES
    return Counts(
        iterations=min(iterations, max(LEAST_TIMED, alone)),
        queues=min(most, max(QUEUES_OF_LARGE, queued // length)),
        queue_length=length,
    )


def array_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """The array that is used when `size_bytes` are asked for: rounded up so that each rank has a multiple of 16 bytes.

    As libraries move 16 bytes at once. An array of less than 16 bytes is a few whole fp32 elements, as in nccl-tests,
    whose smallest size is 8; only where every rank has a part of the array, each part has 16 bytes all the same.
    """
    grain = 16 * ranks if OPERATIONS[collective].in_parts else 16 if size_bytes > 16 else 4
    return -(-size_bytes // grain) * grain
