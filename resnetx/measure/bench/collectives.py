"""Collectives over sizes: one rank times them, checks what they make, and (rank 0) puts the record together.

    torchrun --nproc-per-node=2 -m resnetx.collectives RUN.json

As nccl-tests does it, with these differences: every operation is timed by itself, between two synchronisations and
behind a barrier, and counts with the slowest rank's time; sizes come in random order; all is in place. So it takes the
host's time to start one and to notice its end, which a step that trains on GPUs does not wait for: there, the host
queues messages ahead. So operations on GPUs are also timed in queues, as nccl-tests does it, by the device's clock
(`device_time`), and plans are calibrated by these.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median

import torch

from resnetx.measure.bench import buffers, checks, interference, nccl_interference
from resnetx.measure.bench.buffers import ELEMENT_BYTES
from resnetx.measure.launch.moment import Moment
from resnetx.measure.launch.torchrun import run_started
from resnetx.measure.machine.host_load import cpu_times, host_load
from resnetx.measure.machine.sensor_warnings import foreign_load
from resnetx.measure.rank import distributed, nodes
from resnetx.measure.rank.clock import timed_with_cpu
from resnetx.measure.rank.device import describe_device
from resnetx.measure.rank.device_time import timed_on_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.process import keep_freed_memory
from resnetx.record import (
    QUEUES,
    BenchFile,
    BenchPoint,
    BenchRecord,
    BenchRequest,
    Environment,
    HostLoad,
    SkippedArray,
    Unknown,
    Warning,
    array_bytes,
    known,
    seal,
)

QUEUE_LENGTH = 20  # operations of a queue on GPUs: the default of nccl-tests (-n, README.md)
_NO_QUEUE = Unknown("CPU ranks have no queue: each operation has ended when its call returns")


def run(task: BenchFile, started: Moment) -> BenchRecord | None:
    """Executes one rank of the bench; rank 0 returns the record. `started`: when this process began."""
    request = task.request
    torch.set_num_threads(request.threads)
    if not torch.cuda.is_available():
        keep_freed_memory()  # as training ranks do: gloo, too, allocates and frees what it works in
    with distributed.joined(request.gpus, request.devices, task.timeout_s, oversubscribe=task.oversubscribe) as ranks:
        machines = nodes.machines(None, ranks)
        before = cpu_times()
        crowd = _crowding(ranks)
        timed = measure(request, ranks)
        loads = ranks.gather(host_load(before, cpu_times()))
        devices = ranks.gather(describe_device(ranks))
        logs = ranks.gather(ranks.nccl_log())
        if not ranks.first:
            return None
        return seal(
            BenchRecord(
                **task.opening(run_started(started).epoch_s),
                outcome="ok",
                reason="",
                failures=[],
                stderr_end="",
                duration_s=started.elapsed_s,
                library=_library(ranks, machines[0]),
                crowding=known(crowd),
                queue_length=known(_queue_length(ranks)),
                points=timed.points,
                skipped=timed.skipped,
                transport=distributed.transport(ranks, logs),
                devices=devices,
                host_load=known(loads[0]),
                warnings=[
                    *nodes.oversubscribed(ranks),
                    *_disturbed(loads),
                    *nodes.warnings(machines, devices),
                ],
                environment=machines[0],
                other_nodes=nodes.other_nodes(machines, loads),
                unknown={},
            )
        )


@dataclass(frozen=True)
class Timed:
    """What was asked for, timed."""

    points: list[BenchPoint]  # in the order in which they were timed
    skipped: list[SkippedArray]


def measure(request: BenchRequest, ranks: Ranks) -> Timed:
    """Every collective at every size, in an order that is random and the same on all ranks."""
    pairs = product(request.collectives, request.sizes_bytes)
    asked = dict.fromkeys((name, array_bytes(name, size, ranks.world_size)) for name, size in pairs)
    arrays, skipped = buffers.fitting(asked, ranks)
    if not arrays:
        raise MemoryError(f"{skipped[0].reason}; ask for smaller sizes with size=")
    random.Random(request.seed).shuffle(arrays)
    buffer, _pool = buffers.allocated(max(size_bytes for _, size_bytes in arrays), request.registered, ranks)
    points = [_point(name, buffer[: size_bytes // ELEMENT_BYTES], request, ranks) for name, size_bytes in arrays]
    return Timed(points, skipped)


def _point(name: str, array: torch.Tensor, request: BenchRequest, ranks: Ranks) -> BenchPoint:
    """Times one collective on one array, then checks it."""
    array.zero_()
    operation = ranks.collective(name, array)
    for _ in range(request.warmup):
        operation()
    seen = [timed_with_cpu(operation, ranks.device, ranks.barrier) for _ in range(request.iterations)]
    every = ranks.gather(seen)
    queued_s = _queued_s(operation, ranks)
    lost = _computing_lost(name, array, queued_s, every, ranks)
    checks.fill(array, name, ranks)
    operation()
    wrong = ranks.gather(checks.wrong_elements(array, name, ranks))
    return BenchPoint(
        collective=name,
        size_bytes=len(array) * ELEMENT_BYTES,
        times_s=[max(wall for wall, _ in of_ranks) for of_ranks in zip(*every, strict=True)],
        wrong=sum(wrong),
        cpu_share=known(_cpu_share(every, ranks)),
        computing_lost=known(lost),
        queued_s=known(queued_s),
    )


def _queue_length(ranks: Ranks) -> int | Unknown:
    return QUEUE_LENGTH if ranks.device.type == "cuda" else _NO_QUEUE


def _queued_s(operation: Callable[[], object], ranks: Ranks) -> list[float] | Unknown:
    """Seconds of one operation of each queue, the slowest rank's."""
    if ranks.device.type != "cuda":
        return _NO_QUEUE
    points = []
    for _ in range(QUEUES):
        queue_s = timed_on_device(operation, QUEUE_LENGTH, ranks.device, everywhere=ranks.everywhere)
        if isinstance(queue_s, Unknown):  # on all ranks alike
            return queue_s
        points.append(max(ranks.gather(queue_s)) / QUEUE_LENGTH)
    return points


def _cpu_share(every: Sequence[Sequence[tuple[float, float]]], ranks: Ranks) -> float | Unknown:
    """CPU seconds over seconds while the operation runs, the mean of the ranks."""
    if ranks.device.type == "cuda":
        return Unknown("on GPUs, collectives take no CPU time that computing needs")
    shares = [sum(cpu for _, cpu in times) / sum(wall for wall, _ in times) for times in every]
    return sum(shares) / len(shares)


def _crowding(ranks: Ranks) -> float | Unknown:
    """What ranks on the cores of one host lose to each other."""
    if ranks.device.type == "cuda":
        return Unknown("GPUs do not compute on the cores of a host")
    return float(ranks.gather(interference.crowding(ranks))[0])


def _computing_lost(
    name: str,
    array: torch.Tensor,
    queued_s: list[float] | Unknown,
    every: Sequence[Sequence[tuple[float, float]]],
    ranks: Ranks,
) -> float | Unknown:
    """What computing loses to the collective beside it, the mean of the ranks."""
    of_device = nccl_interference if ranks.device.type == "cuda" else interference
    if name != "allreduce" or array.nbytes < of_device.LEAST_BYTES:
        return Unknown(f"measured of allreduce, from {of_device.LEAST_BYTES} bytes on")
    if of_device is nccl_interference and isinstance(queued_s, Unknown):
        return queued_s
    alone_s = median((wall for wall, _ in every[0]) if isinstance(queued_s, Unknown) else queued_s)
    array.zero_()
    shares: list[float] = []
    for share in ranks.gather(of_device.computing_lost(ranks.send, array, alone_s, ranks)):
        if isinstance(share, Unknown):
            return share
        shares.append(share)
    return sum(shares) / len(shares)


def _library(ranks: Ranks, machine: Environment) -> str:
    name = distributed.backend(ranks.device)
    return f"gloo (torch {torch.__version__})" if name == "gloo" else f"{name.upper()} {machine.nccl}"


def _disturbed(loads: Sequence[HostLoad | Unknown]) -> list[Warning]:
    return foreign_load([load for load in loads if not isinstance(load, Unknown)])
