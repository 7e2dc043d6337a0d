"""Bench records: collectives timed over sizes on one set of devices, or imported from nccl-tests."""

from typing import Annotated, Literal

import msgspec

from resnetx.record.run import Device, Environment, Outcome, Transport, Warning


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    pass


class BenchRequest(_Part, frozen=True, forbid_unknown_fields=True):
    """What one process group is asked to time."""

    collectives: list[str]  # "allreduce", "broadcast"
    sizes_bytes: list[int]  # of the whole array, as nccl-tests counts them, ascending; a multiple of 16 each
    gpus: int
    devices: list[int] | None  # GPU ids, one per rank; None: the first ones
    env: dict[str, str]
    threads: int
    warmup: int  # operations of each size before those that are timed
    iterations: int  # timed operations of each size
    seed: int  # of the order of sizes and of the data


class BenchFile(_Part, frozen=True):
    """`run.json` of a bench: all that a worker needs."""

    kind: Literal["bench"]
    schema: int
    request: BenchRequest
    timeout_s: float


class BenchPoint(_Part, frozen=True):
    """One collective at one size."""

    collective: str
    size_bytes: int  # of the whole array
    times_s: list[float]  # of each operation, the slowest rank's; an imported mean is a list of one
    wrong: int | None  # elements that were not what they should be, over all ranks, in a check behind the timing
    # CPU seconds (all threads, user and system) that a rank spends for each second of the operation; what computing
    # loses to it on CPU ranks. null on GPUs.
    cpu_share: float | None


class BenchRecord(_Part, frozen=True):
    """`record.json` of a bench."""

    kind: Literal["bench"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    request: BenchRequest | None  # null: imported
    source: str  # "measured", or the file that it was imported from
    outcome: Outcome
    reason: str
    stderr_end: str
    started_at: str | None
    duration_s: float | None
    world_size: int | None
    library: str | None  # "gloo (torch 2.15.0)", "NCCL 2.27.3", "nccl-tests"
    points: list[BenchPoint]  # in the order in which they were timed
    transport: Transport | None
    devices: list[Device] | None
    warnings: list[Warning]
    environment: Environment | None
    unknown: dict[str, str]  # path of a null field -> why it is not known
