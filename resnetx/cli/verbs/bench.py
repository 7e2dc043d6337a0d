"""`bench`: times collectives, over sizes and over what workloads send; or imports what nccl-tests measured."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from resnetx import bounds, packages
from resnetx.cli import show
from resnetx.cli.compose import chosen, compose, points_of, settings
from resnetx.cli.tables.show_bench import bench
from resnetx.cli.verbs.train import announce_variables, run_folder, too_many_ranks
from resnetx.config import check, check_ranks, request_from, run_settings_from, sizes_from, threads_share, variables
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import measured
from resnetx.interconnect.collective import COLLECTIVES
from resnetx.record import QUEUES, SCHEMA, BenchFile, BenchRecord, BenchRequest, RunFolder, Unknown, seal_tree
from resnetx.record.limits import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request

WORKLOADS = ("study", "model", "image_size", "precision", "strategy")  # what decides on the messages of a workload
# From where only latency counts in large steps, and then doubling up to where only bandwidth does.
SIZES = [8, 64, 512, 2**12, 2**15, *(2**power for power in range(16, 29))]

ITERATIONS = 20  # timed ones of every size, where `iterations` is not set


class Asked(msgspec.Struct, frozen=True, kw_only=True):
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


def bench_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Measures, one process group after the other; status 1 where one failed or elements were wrong."""
    show.begin(options)
    workloads = [word for word in overrides if any(map(_names_workload, chosen([word])))]
    own = {key: value for key, value in chosen(overrides).items() if not _names_workload(key)}
    asked = settings(own, Asked, listed=("collective", "size", "gpus"))
    if getattr(options, "import"):
        return _import(options, paths, asked, [*own, *workloads])
    if paths:
        raise ConfigError(f"{paths[0]}: `resnetx bench` measures; to take over a file of nccl-tests, add --import")
    sizes = sizes_from(asked.size) if "size" in own else SIZES
    requests = _requests(asked, {*sizes, *_payloads(workloads)})
    for request in requests:
        if obstacle := obstacle_to_bench(request, asked.oversubscribe):
            raise ConfigError(obstacle)
    announce_variables(requests)
    timeout_s = run_settings_from(compose(own)).timeout
    ended = [_measure(options, request, asked, timeout_s) for request in requests]
    return 0 if all(map(_went_well, ended)) else 1


def _names_workload(key: str) -> bool:
    return key.partition(".")[0] in WORKLOADS


def _measure(options: Namespace, request: BenchRequest, asked: Asked, timeout_s: float) -> BenchRecord:
    """One process group, in processes of its own."""
    from resnetx.measure.launch import launcher

    task = BenchFile(
        kind="bench", schema=SCHEMA, request=request, timeout_s=timeout_s, oversubscribe=asked.oversubscribe
    )
    folder = run_folder(Path(asked.results), "bench", request.slug)
    what = f"{', '.join(request.collectives)} on gpus={request.gpus}, {len(request.sizes_bytes)} sizes"
    with show.waiting(what, folder.path):
        ended = launcher.execute(task, folder)
    _show(options, ended, folder)
    return ended


def _show(options: Namespace, ended: BenchRecord, folder: RunFolder) -> None:
    if options.json:
        show.json_lines([ended])
    else:
        bench(ended, folder)


def _went_well(ended: BenchRecord) -> bool:
    return ended.outcome == "ok" and not any(point.wrong for point in ended.points)


# ---- what is asked --------------------------------------------------------------------------------------------------


def _requests(asked: Asked, sizes: Iterable[int]) -> list[BenchRequest]:
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


def _collectives(asked: Asked) -> list[str]:
    return list(dict.fromkeys(name or "allreduce" for name in asked.collective))


def _payloads(words: list[str]) -> set[int]:
    """The size of every message that the workloads of these words send, in bytes; none where no workload is named."""
    if not words:
        return set()
    from resnetx import workloads
    from resnetx.workloads.buckets import messages

    found: set[int] = set()
    for request in _workloads(words):
        table = workloads.table(request.model, request.image_size)
        found |= {message.size_bytes for message in messages(table, request.strategy, request.precision)}
    return found


def _workloads(words: list[str]) -> list[Request]:
    """The workloads of a study or of settings, as requests of one rank: their messages are those of any number."""
    _, points = points_of(words)
    named = [{key: value for key, value in point.items() if _names_workload(key)} for point in points]
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
        return (
            "registered=true: it registers memory with NCCL, and this machine shows no GPU: gloo has none to register"
        )
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


# ---- what others measured -------------------------------------------------------------------------------------------


def _import(options: Namespace, paths: list[Path], asked: Asked, given: list[str]) -> int:
    """Makes a bench record of a file of nccl-tests."""
    if len(paths) != 1:
        raise ConfigError(f"--import: expected one file of nccl-tests, got {len(paths)}")
    if unread := [key for key in given if key not in ("collective", "gpus", "results")]:
        raise ConfigError(f"{unread[0]}: nothing is measured with --import; it reads collective, gpus and results")
    points = measured.read_nccl_tests(str(paths[0]), _imported_collective(asked), f"--import {paths[0]}")
    ended = _imported(paths[0], points, asked)
    folder = run_folder(Path(asked.results), "bench", paths[0].stem, node="imported")
    from resnetx.measure.launch.results_folder import write

    write(folder.record, ended)
    _show(options, ended, folder)
    return 0 if _went_well(ended) else 1


def _imported_collective(asked: Asked) -> str | None:
    if not asked.collective or not asked.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    name, *others = asked.collective
    if others:
        raise ConfigError(f"collective={asked.collective}: a file of nccl-tests holds one")
    if name is not None and name not in COLLECTIVES:
        raise unknown_name("collective", name, COLLECTIVES, "collective")
    return name


def _imported(file: Path, found: measured.Measured, asked: Asked) -> BenchRecord:
    """The record of a file's points; what the file does not tell is unknown."""
    collective = found.collective or asked.collective[0]
    if collective not in COLLECTIVES:
        said = f"it holds {found.collective}" if found.collective else "it does not say of which collective it is"
        raise ConfigError(f"--import {file}: {said}; expected collective= one of {', '.join(COLLECTIVES)}")
    untold = Unknown("nccl-tests does not tell")
    imported = Unknown(f"imported from {file.name}")
    ranks = found.gpus or asked.gpus[0]
    tree: dict[str, Any] = {
        **dict.fromkeys(BenchRecord.__struct_fields__, imported),
        "kind": "bench",
        "schema": SCHEMA,
        "source": found.source,
        "outcome": "ok",
        "reason": "",
        "failures": [],
        "stderr_end": "",
        "world_size": ranks or Unknown("the file lists no ranks, and gpus= was not given"),
        "library": "nccl-tests",
        "points": [
            {
                "collective": collective,
                "size_bytes": int(point.size_bytes),
                "times_s": [point.time_s],
                "wrong": untold if point.wrong is None else point.wrong,
                "cpu_share": untold,
                "computing_lost": untold,
                "queued_s": Unknown("`times_s` is the mean of a queue, as nccl-tests times them"),
            }
            for point in found.points
        ],
        "skipped": [],
        "warnings": [],
        "unknown": {},
    }
    sealed: BenchRecord = seal_tree(tree, BenchRecord)
    return sealed
