"""Collectives over sizes: one rank times them, checks what they make, and (rank 0) puts the record together.

    launch/local.sh 2 RUN.json

As nccl-tests does it, with these differences: every operation is timed by itself, between two synchronisations and
behind a barrier, and counts with the slowest rank's time (nccl-tests times many in a row and divides, so that its small
sizes come out shorter by what it takes to start and to notice one); sizes come in random order; all is in place.
"""

import random
from collections.abc import Sequence
from itertools import product
from statistics import median
from typing import Any

import torch

from resnetx.measure import distributed, exact, nodes
from resnetx.measure.beside import LEAST_BYTES, computing_lost, crowding
from resnetx.measure.clock import timed_with_cpu
from resnetx.measure.distributed import Ranks
from resnetx.measure.host_load import cpu_times, host_load
from resnetx.measure.moment import Moment
from resnetx.measure.process import keep_freed_memory
from resnetx.measure.reading_warnings import foreign_load
from resnetx.measure.torchrun import run_started
from resnetx.record import (
    BenchFile,
    BenchRecord,
    BenchRequest,
    HostLoad,
    Unknown,
    Warning,
    array_bytes,
    bench_opening,
    seal,
)

_ELEMENT_BYTES = 4  # fp32, as gradients


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
        points = measure(request, ranks)
        loads = ranks.gather(host_load(before, cpu_times()))
        devices = ranks.gather(distributed.describe_device(ranks))
        logs = ranks.gather(ranks.nccl_log())
        if not ranks.first:
            return None
        fields = {
            "crowding": crowd,
            "points": points,
            **nodes.described(machines, loads),
            "devices": devices,
            "transport": distributed.transport(ranks, logs),
            "library": _library(ranks, machines[0]),
            "warnings": [
                *nodes.oversubscribed(ranks),
                *_disturbed(loads),
                *nodes.warnings(machines, devices),
            ],
        }
        return _record(task, fields, started)


def measure(request: BenchRequest, ranks: Ranks) -> list[dict[str, Any]]:
    """Every collective at every size, in an order that is random and the same on all ranks: `BenchPoint`s as dicts."""
    pairs = product(request.collectives, request.sizes_bytes)
    points = list(dict.fromkeys((name, array_bytes(name, size, ranks.world_size)) for name, size in pairs))
    random.Random(request.seed).shuffle(points)
    # One array for all: written to, so that the kernel gives it pages of its own, and zero, so that sums stay finite.
    largest = max(size_bytes for _, size_bytes in points)
    buffer = torch.empty(largest // _ELEMENT_BYTES, device=ranks.device).zero_()
    return [_point(name, buffer[: size_bytes // _ELEMENT_BYTES], request, ranks) for name, size_bytes in points]


def _point(name: str, array: torch.Tensor, request: BenchRequest, ranks: Ranks) -> dict[str, Any]:
    """Times one collective on one array, then checks it."""
    array.zero_()
    operation = ranks.collective(name, array)
    for _ in range(request.warmup):
        operation()
    seen = [timed_with_cpu(operation, ranks.device, ranks.barrier) for _ in range(request.iterations)]
    every = ranks.gather(seen)
    lost = _computing_lost(name, array, median(wall for wall, _ in every[0]), ranks)
    exact.fill(array, name, ranks)
    operation()
    wrong = ranks.gather(exact.wrong_elements(array, name, ranks))
    return {
        "collective": name,
        "size_bytes": len(array) * _ELEMENT_BYTES,
        "times_s": [max(wall for wall, _ in of_ranks) for of_ranks in zip(*every, strict=True)],
        "wrong": sum(wrong),
        "cpu_share": _cpu_share(every, ranks),
        "computing_lost": lost,
    }


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
    return float(ranks.gather(crowding(ranks))[0])


def _computing_lost(name: str, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float | Unknown:
    """What computing loses to the collective beside it, the mean of the ranks."""
    if ranks.device.type == "cuda" or name != "allreduce" or array.nbytes < LEAST_BYTES:
        return Unknown(f"measured of allreduce on CPU ranks, from {LEAST_BYTES} bytes on")
    array.zero_()
    shares = ranks.gather(computing_lost(ranks.send, array, alone_s, ranks))
    return sum(shares) / len(shares)


# ---- the record -----------------------------------------------------------------------------------------------------


def _library(ranks: Ranks, machine: nodes.Machine) -> str:
    name = distributed.backend(ranks.device)
    return f"gloo (torch {torch.__version__})" if name == "gloo" else f"{name.upper()} {machine['nccl']}"


def _disturbed(loads: Sequence[dict[str, float] | Unknown]) -> list[Warning]:
    return foreign_load([HostLoad(**load) for load in loads if not isinstance(load, Unknown)])


def _record(task: BenchFile, fields: dict[str, Any], started: Moment) -> BenchRecord:
    """The record of a bench that went well."""
    plain = {"outcome": "ok", "reason": "", "failures": [], "stderr_end": "", "unknown": {}}
    begun = bench_opening(task, run_started(started).epoch_s)
    record: BenchRecord = seal({**begun, **plain, **fields, "duration_s": started.elapsed_s}, BenchRecord)
    return record
