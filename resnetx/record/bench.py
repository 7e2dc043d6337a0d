"""Bench records: collectives timed over sizes on one set of devices, or imported from nccl-tests."""

from typing import Annotated, ClassVar, Literal, TypedDict

import msgspec

from resnetx.operations import OPERATIONS
from resnetx.record.base import SCHEMA, RecordPart, timestamp
from resnetx.record.machine import Device, Environment, OtherNode
from resnetx.record.outcome import Failure, Outcome, Warning
from resnetx.record.readings import HostLoad
from resnetx.record.run import Transport

QUEUES = 5  # of operations of each size on GPUs


class BenchRequest(RecordPart, frozen=True, forbid_unknown_fields=True):
    """What one process group is asked to time."""

    collectives: list[str]  # "allreduce", "broadcast"
    sizes_bytes: list[int]  # of the whole array, as nccl-tests counts them, ascending; see `array_bytes`
    gpus: int
    devices: list[int] | None  # GPU ids, one per rank; None: the first ones
    env: dict[str, str]
    threads: int
    warmup: int  # operations of each size before those that are timed
    iterations: int  # timed operations of each size
    seed: int  # of the order in which sizes are timed
    registered: bool = False  # the array lies in memory that is registered with NCCL (user buffer registration)

    @property
    def slug(self) -> str:
        """A readable name for folders: "allreduce-broadcast_g2", "allreduce_g8_registered"."""
        return f"{'-'.join(self.collectives)}_g{self.gpus}" + "_registered" * self.registered


class BenchFile(RecordPart, frozen=True):
    """`run.json` of a bench; `torchrun ... -m resnetx.collectives run.json` repeats the bench by hand."""

    kind: Literal["bench"]
    schema: int
    request: BenchRequest
    timeout_s: float
    oversubscribe: bool = False  # more ranks than GPUs may run, or without GPUs than cores

    verb: ClassVar[str] = "bench"
    entry_module: ClassVar[str] = "resnetx.collectives"  # the module that torchrun starts in each rank

    @property
    def record_type(self) -> "type[BenchRecord]":
        return BenchRecord

    def opening(self, started: float) -> "BenchOpening":
        """What its record has before anything has run. `started`: seconds since the epoch."""
        return {
            "kind": "bench",
            "schema": SCHEMA,
            "request": self.request,
            "source": "measured",
            "started_at": timestamp(started),
            "world_size": self.request.gpus,
        }


class BenchOpening(TypedDict):
    """The fields of a bench record that are known before anything has run."""

    kind: Literal["bench"]
    schema: int
    request: BenchRequest
    source: str
    started_at: str
    world_size: int


class BenchPoint(RecordPart, frozen=True):
    """One collective at one size."""

    collective: str
    size_bytes: int  # of the whole array, as it was used
    times_s: list[float]  # of each operation, the slowest rank's; an imported mean is a list of one
    wrong: int | None  # elements that were not what they should be, over all ranks, in a check behind the timing
    # CPU seconds (all threads, user and system) that a rank spends for each second of the operation; what computing
    # loses to it on CPU ranks. null on GPUs.
    cpu_share: float | None
    # Seconds of computing that a rank loses for each second that the operation takes alone, when it runs beside. Of
    # allreduce only, from some size on. Predictions take it into account on CPUs.
    computing_lost: float | None = None
    # Seconds of one operation among `queue_length` that follow each other on GPUs, the slowest rank's; of each queue.
    # They lack what `times_s` have: the host's time to start an operation, and to notice its end. null on CPUs.
    queued_s: list[float] | None = None


class SkippedArray(msgspec.Struct, frozen=True):
    """A collective at a size that was not measured."""

    collective: str
    size_bytes: int
    reason: str


class BenchRecord(RecordPart, frozen=True, kw_only=True):
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
    queue_length: int | None = None  # operations of each queue that `queued_s` is of; null on CPUs
    points: list[BenchPoint]  # in the order in which they were timed
    skipped: list[SkippedArray] = msgspec.field(default_factory=list)  # sizes that found no memory
    transport: Transport | None
    devices: list[Device] | None
    host_load: HostLoad | None  # from the first to the last operation
    warnings: list[Warning]
    environment: Environment | None
    other_nodes: list[OtherNode] | None = None  # records from before it was gathered lack it
    unknown: dict[str, str]  # path of a null field -> why it is not known


def array_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """The array that is used when `size_bytes` are asked for: rounded up so that each rank has a multiple of 16 bytes.

    As libraries move 16 bytes at once. An array of less than 16 bytes is a few whole fp32 elements, as in nccl-tests,
    whose smallest size is 8; only where every rank has a part of the array, each part has 16 bytes all the same.
    """
    grain = 16 * ranks if OPERATIONS[collective].in_parts else 16 if size_bytes > 16 else 4
    return -(-size_bytes // grain) * grain
