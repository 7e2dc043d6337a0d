"""Times collectives, over sizes and over what workloads send; or imports what nccl-tests measured."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Unpack

import msgspec

from resnetx import bounds, packages, progress
from resnetx.api.obstacles import too_many_ranks
from resnetx.api.runs import Kept, announce_variables, run_folder
from resnetx.config import (
    check,
    check_ranks,
    given_path,
    request_from,
    run_settings_from,
    sizes_from,
    threads_share,
    variables,
)
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collective import COLLECTIVES
from resnetx.interconnect.measured import telling_times
from resnetx.operations import OPERATIONS
from resnetx.record import QUEUES, SCHEMA, BenchFile, BenchRecord, BenchRequest
from resnetx.record.limits import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.compose import asked, compose, points_of, struct_of
from resnetx.settings.verbs import group_of
from resnetx.study import Point
from resnetx.table import Record, Records

WORKLOADS = ("study", "model", "image_size", "precision", "strategy")  # what decides on the messages of a workload
# From where only latency counts in large steps, and then doubling up to where only bandwidth does.
SIZES = [8, 64, 512, 2**12, 2**15, *(2**power for power in range(16, 29))]

ITERATIONS = 20  # timed ones of every size, where `iterations` is not set


class BenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that this verb reads, apart from those that name workloads."""

    collective: list[str | None]
    size: list[int | str]
    gpus: list[int | None]
    devices: list[int] | None
    env: dict[str, str | int | float]
    threads: int | None
    warmup: int
    iterations: int | None
    seed: int
    timeout: float | str
    results: str
    oversubscribe: bool
    registered: bool


class Benches(Records[BenchRecord]):
    """What benches measured, one record for each number of ranks."""

    def rows(self) -> list[Record]:
        """A row for each collective and size; bandwidths are those of nccl-tests, of the time that tells of them."""
        return [row for record in self for row in _rows(record)]


def _rows(record: BenchRecord) -> Iterator[Record]:
    for name in dict.fromkeys(point.collective for point in record.points):
        points = [point for point in record.points if point.collective == name]
        for point, times_s in zip(points, telling_times(points), strict=True):
            algbw_Bps = point.size_bytes / median(times_s)
            factor = OPERATIONS[name].bus_factor(record.world_size) if record.world_size else None
            yield {
                "collective": name,
                "gpus": record.world_size,
                "size_bytes": point.size_bytes,
                "time_s": median(point.times_s),
                "algbw_Bps": algbw_Bps,
                "busbw_Bps": None if factor is None else algbw_Bps * factor,
                "wrong": point.wrong,
            }


def bench(file: keywords.Text | None = None, **settings: Unpack[keywords.BenchKeywords]) -> Benches:
    """Times collectives, one process group after the other; or imports `file`, of nccl-tests, instead."""
    if file is not None:
        from resnetx.api.bench_import import import_bench

        return Benches([import_bench(given_path(file), settings).record])
    return Benches(kept.record for kept in execute(settings))


def execute(settings: Mapping[str, object]) -> Iterator[Kept[BenchRecord]]:
    """Measures with each number of ranks, in processes of their own; refuses what cannot run before any has begun."""
    given = asked("bench", settings)
    own, workloads_asked = split(given)
    wanted = struct_of(own, BenchSettings, listed=("collective", "size", "gpus"))
    sizes = sizes_from(wanted.size) if "size" in own else SIZES
    requests = _requests(wanted, {*sizes, *_payloads(workloads_asked)})
    for request in requests:
        if obstacle := obstacle_to_bench(request, wanted.oversubscribe):
            raise ConfigError(obstacle)
    announce_variables(requests)
    timeout_s = run_settings_from(compose(own)).timeout
    return (_measured(request, wanted, timeout_s) for request in requests)


def split(given: Point) -> tuple[Point, Point]:
    """The settings of the bench itself, and those that name workloads."""
    of_workloads = {key: value for key, value in given.items() if group_of(key) in WORKLOADS}
    return {key: value for key, value in given.items() if key not in of_workloads}, of_workloads


def _measured(request: BenchRequest, wanted: BenchSettings, timeout_s: float) -> Kept[BenchRecord]:
    """One process group, in processes of its own."""
    from resnetx.measure.launch import launcher

    task = BenchFile(
        kind="bench", schema=SCHEMA, request=request, timeout_s=timeout_s, oversubscribe=wanted.oversubscribe
    )
    folder = run_folder(Path(wanted.results), "bench", request.slug)
    what = f"{', '.join(request.collectives)} on gpus={request.gpus}, {len(request.sizes_bytes)} sizes"
    with progress.waiting(what, folder.path):
        return Kept(launcher.supervise(task, folder), folder)


# ---- what is asked --------------------------------------------------------------------------------------------------


def _requests(asked: BenchSettings, sizes: Iterable[int]) -> list[BenchRequest]:
    """One request for each number of ranks."""
    for key, given in {"gpus": asked.gpus, "collective": asked.collective}.items():
        if not given:
            raise ConfigError(f"{key}=[]: expected at least one value")
    counts = [_ranks(count, asked.devices) for count in asked.gpus]
    names = _collectives(asked)
    return [
        BenchRequest(
            collectives=names,
            sizes_bytes=sorted(sizes),
            gpus=count,
            devices=asked.devices,
            env=variables(asked.env),
            threads=threads_share(max(counts)) if asked.threads is None else asked.threads,
            warmup=asked.warmup,
            iterations=ITERATIONS if asked.iterations is None else asked.iterations,
            seed=asked.seed,
            registered=asked.registered,
        )
        for count in dict.fromkeys(counts)
    ]


def _ranks(count: int | None, devices: list[int] | None) -> int:
    if count is None:
        return 2 if devices is None else len(devices)
    return count


def _collectives(asked: BenchSettings) -> list[str]:
    return list(dict.fromkeys(name or "allreduce" for name in asked.collective))


def _payloads(workloads_asked: Point) -> set[int]:
    """The size of every message that these workloads send, in bytes; none where no workload is named."""
    if not workloads_asked:
        return set()
    from resnetx import workloads
    from resnetx.workloads.buckets import messages

    found: set[int] = set()
    for request in _workloads(workloads_asked):
        table = workloads.table(request.model, request.image_size)
        found |= {message.size_bytes for message in messages(table, request.strategy, request.precision)}
    return found


def _workloads(workloads_asked: Point) -> list[Request]:
    """The workloads of a study or of settings, as requests of one rank: their messages are those of any number."""
    _, points = points_of(workloads_asked)
    named = [{key: value for key, value in point.items() if group_of(key) in WORKLOADS} for point in points]
    requests = [request_from(compose(point)) for place, point in enumerate(named) if point not in named[:place]]
    for request in requests:
        check(request)
    return requests


def obstacle_to_bench(request: BenchRequest, oversubscribe: bool, here: int | None = None) -> str:
    """Why a bench cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: all of them.
    """
    try:
        check_bench(request)
    except ConfigError as error:
        return str(error)
    from resnetx.measure.machine.visible_gpus import gpus_here

    if request.registered and not gpus_here():
        return "registered=true: registers GPU memory with NCCL, but this machine has no GPU; leave it out"
    missing = packages.not_unix() or packages.obstacle("torch")
    return missing or too_many_ranks(request.gpus, request.devices, oversubscribe, here)


def check_bench(r: BenchRequest) -> None:
    """Refuses what can run on no machine."""
    for name in r.collectives:
        if name not in COLLECTIVES:
            raise unknown_name("collective", name, COLLECTIVES, "collective")
    if not (r.collectives and r.sizes_bytes):
        raise ConfigError("size=[]: expected at least one size, or a workload whose messages are sizes (model=alexnet)")
    if r.gpus == 1:
        raise ConfigError("gpus=1: one rank has no peer; use gpus=2 or more")
    bounds.check({**msgspec.to_builtins(r), "size": r.sizes_bytes})
    check_ranks(r.gpus, r.devices, r.env)
    times = len(r.collectives) * len(r.sizes_bytes) * (r.iterations + QUEUES)
    if times * MEASURED_BYTES > MAX_BYTES:
        raise ConfigError(f"iterations={r.iterations}: a record of {times:,} times would be {too_large('bench')}")
