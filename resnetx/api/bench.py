"""Times collectives, pair copies and patterns of applications; or imports what nccl-tests measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from statistics import median
from typing import Unpack

import msgspec

from resnetx import copies, packages, patterns, progress
from resnetx.api import bench_settings
from resnetx.api.bench_settings import BenchSettings, import_bench
from resnetx.api.doctor import obstacle_in_lab, obstacle_to_clock, obstacle_to_launch, obstacle_to_way, too_many_ranks
from resnetx.api.measuring import KeptRecord, announce, machine_name, page, run_folder
from resnetx.compose import asked, compose, points_of, struct_of
from resnetx.config import (
    check,
    check_gpudirect,
    check_ranks,
    check_way,
    lab_from,
    locked_MHz,
    request_from,
    run_settings_from,
    sizes_from,
    threads_share,
    variables,
)
from resnetx.errors import ConfigError, shortened, unknown_name
from resnetx.formats.nccl_tests import encoded
from resnetx.interconnect.collectives import bench_reading
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.interconnect.systems.system import System
from resnetx.launching import Launch, Way, check_nodes, nodes_of, of_ranks, ranks_per_node
from resnetx.loading import is_folder
from resnetx.measure.study_runs import check_known_code
from resnetx.operations import OPERATIONS
from resnetx.record import QUEUES, SCHEMA, BenchFile, BenchRecord, BenchRequest, RunFolder, read
from resnetx.record.sealing import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.files import given_path
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of, reads
from resnetx.study import Point, points
from resnetx.table import Answer, Record, Records, fields

WORKLOADS = ("study", "model", "image_size", "precision", "strategy")  # what decides on the messages of a workload
# From where only latency counts in large steps, and then doubling up to where only bandwidth does.
SIZES = [8, 64, 512, 2**12, 2**15, *(2**power for power in range(16, 29))]

ITERATIONS = 20  # timed ones of every size, where `iterations` is not set


class Benches(Records[BenchRecord]):
    """What benches measured, one record for each number of ranks."""

    def answer(self) -> Answer:
        """How fast collectives are, as `bench` shows it."""
        from resnetx.reporting.bench_conclusions import shown_benches

        return shown_benches(list(self))

    def rows(self) -> list[Record]:
        """A row for each collective and size, copy and pattern; bandwidths of collectives are those of nccl-tests."""
        return [
            row
            for record in self
            for row in (*_rows(record), *bench_settings.rows(record), *bench_settings.pattern_rows(record))
        ]


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
                "effective_GiBps": algbw_Bps / 2**30,  # payload over time, as Tallent et al. 2017 draw it
                "busbw_Bps": None if factor is None else algbw_Bps * factor,
                "wrong": point.wrong,
                "expected_s": point.expected_s,
                "expected_low_s": min(point.expected_interval_s, default=None),
                "expected_high_s": max(point.expected_interval_s, default=None),
                "verdict": point.verdict,
                "causes": "; ".join(point.causes),
            }


def bench(file: keywords.Text | None = None, **settings: Unpack[keywords.BenchKeywords]) -> Benches:
    """Times collectives, copies and patterns, one process group after the other; or imports `file` instead."""
    if file is not None:
        return Benches([import_bench(given_path(file), settings).record])
    return Benches(kept.record for kept in execute(settings))


@dataclass(frozen=True)
class AskedBenches:
    """The benches that are asked for, one for each number of ranks."""

    tasks: list[BenchFile]
    wanted: BenchSettings
    machines: Mapping[int, System | None]  # by the number of its nodes: what measures, as it is described

    def folder(self, task: BenchFile) -> RunFolder:
        """A new folder for one of them."""
        return run_folder(Path(self.wanted.results), "bench", task.request.slug, machine_name(task.launch))


def benches_of(settings: Mapping[str, object]) -> AskedBenches:
    """What is asked for; refuses what no machine could run."""
    given = asked("bench", settings)
    own, workloads_asked = split(given)
    wanted = struct_of({**VERBS["bench"].own, **own}, BenchSettings)
    check_known_code(wanted.dirty)
    none = wanted.size in ([], ["none"])  # as where messages of a workload are all that is timed
    sizes = None if "size" not in own else [] if none else sizes_from(wanted.size)
    run = run_settings_from(compose(own))
    requests = _requests(wanted, sizes, _payloads(workloads_asked), run.launch)
    bench_settings.refuse_unused(own, requests[0])
    if not requests[0].collectives:
        what = "pattern=" if requests[0].patterns else "copy="
        for key, value in workloads_asked.items():
            raise ConfigError(f"{key}={value}: {what} has messages of its own; leave {key} out, or add collective=")
        if sizes == [] and not requests[0].copies:
            raise ConfigError("size=none: a pattern needs the size of its problem; leave size out for its own")
    tasks = [
        BenchFile(
            kind="bench",
            schema=SCHEMA,
            request=request,
            timeout_s=run.timeout,
            oversubscribe=wanted.oversubscribe,
            launch=run.launch,
        )
        for request in requests
    ]
    on_nodes = {request.nodes for request in requests}
    machines = {nodes: wanted.system(nodes if nodes > 1 else None) for nodes in sorted(on_nodes)}
    return AskedBenches(tasks, wanted, machines)


def execute(settings: Mapping[str, object]) -> Iterator[KeptRecord[BenchRecord]]:
    """Measures with each number of ranks, in processes of their own; refuses what cannot run before any has begun."""
    benches = benches_of(settings)
    requests = [task.request for task in benches.tasks]
    for task in benches.tasks:
        if obstacle := obstacle_to_launch(task.launch, len(benches.tasks)) or obstacle_to_bench(
            task.request, task.oversubscribe
        ):
            raise ConfigError(obstacle)
    announce(requests, benches.wanted.out)
    for request in requests:
        bench_settings.announce_timing(request)
        bench_settings.announce_copies(request)
    return _all_measured(benches)


def _all_measured(benches: AskedBenches) -> Iterator[KeptRecord[BenchRecord]]:
    folders = []
    for task in benches.tasks:
        kept = _measured(task, benches)
        folders.append(kept.folder.path)
        yield kept
    page(folders, benches.wanted.out)


def split(given: Point) -> tuple[Point, Point]:
    """The settings of the bench itself, and those that name workloads."""
    names = {*tagged("workload")} - {*VERBS["bench"].fields()}
    of_workloads = {key: value for key, value in given.items() if group_of(key) in names}
    return {key: value for key, value in given.items() if key not in of_workloads}, of_workloads


def _measured(task: BenchFile, benches: AskedBenches) -> KeptRecord[BenchRecord]:
    """One process group, in processes of its own; what it measured beside what its topology allows."""
    from resnetx.measure.held_clock import held
    from resnetx.measure.launch import launcher

    request = task.request
    others = [*(f"copy={name}" for name in request.copies), *(f"pattern={name}" for name in request.patterns)]
    sizes = request.sizes_bytes or request.copy_sizes_bytes or request.pattern_sizes_bytes or [0]
    counted = f"{len(sizes)} size{'s' * (len(sizes) > 1)}"
    what = f"{', '.join([*request.collectives, *others])} on gpus={request.gpus}, {counted}"
    with held(request) as clock:
        folder = benches.folder(task)
        with progress.waiting(what, folder.path):
            record = launcher.supervise(task, folder, look_up=clock.look if clock else lambda: None)
    noted = clock.noted(record) if clock else record
    return KeptRecord(beside_description(noted, folder, benches.machines[request.nodes]), folder)


def beside_description(record: BenchRecord, folder: RunFolder, machine: System | None = None) -> BenchRecord:
    """The record in a folder with what the description of its machine allows, and as it is kept."""
    from resnetx.measure.launch import write

    read = bench_reading.with_readings(record, machine, record.request.transport if record.request else "auto")
    write(folder.record, read)
    return read


# ---- benches of a study ---------------------------------------------------------------------------------------------

_NOT_OF_PLACES = {*tagged("workload"), "warmup", "gpus", "out", "results"}  # of a study, but not of its benches


def benches_beside(wanted: Sequence[Point], given: Point, counts: Sequence[int]) -> Iterator[tuple[BenchFile, str]]:
    """The benches of a study with the obstacle to each, where its points run: by the settings that say so.

    Collectives run on each of the numbers of ranks that its points have, copies on the most of them.
    """
    names = VERBS["bench"].settings
    where = {key: value for key, value in given.items() if reads(names, key) and group_of(key) not in _NOT_OF_PLACES}
    seen: set[str] = set()
    for asked_bench in wanted:
        for point in points(None, where):
            ranks = counts[-1:] if "copy" in asked_bench else counts
            gpus = {} if point.get("devices") else {"gpus": list(ranks)}
            for task in benches_of({**point, **asked_bench, **gpus}).tasks:
                if task.request.key not in seen:
                    seen.add(task.request.key)
                    yield task, obstacle_to_bench(task.request, task.oversubscribe)


# ---- what is asked --------------------------------------------------------------------------------------------------


def _requests(
    settings: BenchSettings, sizes: list[int] | None, payloads: set[int], launch: Launch | None
) -> list[BenchRequest]:
    """One request for each number of ranks; `sizes`: those that were asked for."""
    lists = {
        "gpus": settings.gpus,
        "collective": settings.collective,
        "copy": settings.copy,
        "pattern": settings.pattern,
    }
    lists |= {"direction": settings.direction, "scaling": settings.scaling}
    for key, given in lists.items():
        if not given:
            raise ConfigError(f"{key}=[]: expected at least one value")
    usual = 2 if settings.devices is None else len(settings.devices)
    counts = [usual if count is None else count for count in settings.gpus]
    per_node = ranks_per_node(launch, max(counts))
    kinds = [name for name in dict.fromkeys(settings.copy) if name is not None]
    modelled = [name for name in dict.fromkeys(settings.pattern) if name is not None]
    names = [name for name in dict.fromkeys(settings.collective) if name is not None]
    names = names or ["allreduce"] * (not kinds and not modelled)
    env = variables(settings.env)
    if launch:
        env = of_ranks(launch, env, _settled(settings))
    on_nodes = {count: nodes_of(count, per_node) for count in counts}
    several, clock = max(on_nodes.values()) > 1, locked_MHz(settings.clock, launch)
    return [
        BenchRequest(
            collectives=names,
            sizes_bytes=sorted({*(SIZES if sizes is None else sizes), *payloads}) if names else [],
            gpus=count,
            **fields(settings, "devices", "warmup", "seed", "registered", "endpoint", "through", "numa"),
            **fields(settings, "transport", "interface", "place", "dtype", "timing", "algorithm", "protocol"),
            env=env,
            threads=threads_share(per_node) if settings.threads is None else settings.threads,
            iterations=ITERATIONS if settings.iterations is None else settings.iterations,
            lab=lab_from(msgspec.structs.asdict(settings.lab)),
            copies=kinds,
            copy_sizes_bytes=sorted({*(copies.SIZES_BYTES if sizes is None else sizes), *payloads}) if kinds else [],
            directions=list(dict.fromkeys(settings.direction)),
            nodes=on_nodes[count],
            gpudirect=settings.gpudirect if on_nodes[count] > 1 or not several else None,
            clock=clock,
            patterns=modelled,
            pattern_sizes_bytes=sorted(set(sizes or [])) if modelled else [],
            scalings=list(dict.fromkeys(settings.scaling)),
            compute_s=None if settings.compute is None else setting_types.seconds_of("compute", settings.compute),
        )
        for count in dict.fromkeys(counts)
    ]


def _settled(settings: BenchSettings) -> list[str]:
    """The variables that settings of a bench set."""
    way = Way(settings.transport, settings.interface, settings.gpudirect)
    forced = {"NCCL_ALGO": settings.algorithm, "NCCL_PROTO": settings.protocol}
    return [*way.variables, *(name for name, value in forced.items() if value is not None)]


def _payloads(workloads_asked: Point) -> set[int]:
    """The size of every message that these workloads send, in bytes; none where no workload is named."""
    if not workloads_asked:
        return set()
    from resnetx import workloads
    from resnetx.workloads.counts import messages

    found: set[int] = set()
    for request in _workloads(workloads_asked):
        table = workloads.table(request.model, request.image_size)
        found |= {message.size_bytes for message in messages(table, request.strategy, request.precision)}
    return found


def _workloads(workloads_asked: Point) -> list[Request]:
    """The workloads of a study or of settings, as requests of one rank: their messages are those of any number."""
    _, points = points_of(workloads_asked)
    named = [{key: value for key, value in point.items() if group_of(key) in tagged("workload")} for point in points]
    requests = [request_from(compose(point)) for index, point in enumerate(named) if point not in named[:index]]
    for request in requests:
        check(request)
    return requests


def obstacle_to_bench(request: BenchRequest, oversubscribe: bool, here: int | None = None) -> str:
    """Why a bench cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: as many as on each of its nodes.
    """
    try:
        check_bench(request)
        here = request.gpus // request.nodes if here is None else here
    except ConfigError as error:
        return str(error)
    from resnetx.measure.machine.nvidia import gpus_here

    if request.lab is not None:
        if request.nodes > 1:
            return f"nodes={request.nodes} with lab.system: the lab is on one node; leave one of them out"
        if request.copies and (request.collectives or request.patterns):
            return "copy= with others: in the lab they are scheduled in different ways; ask for them one by one"
        if "host-stream" in request.patterns:
            return "pattern=host-stream: the lab has links between GPUs, and none to memory of the host; leave it out"
        return obstacle_in_lab(request.lab, request.gpus, request.devices, request.way) or packages.obstacle("torch")
    if obstacle := bench_settings.copies_obstacle(request, gpus_here(), here == request.gpus):
        return obstacle
    if obstacle := obstacle_to_way(
        request.way, gpus_here(), shared_memory=not (request.collectives or request.patterns)
    ):
        return obstacle
    if obstacle := bench_settings.timing_obstacle(request, gpus_here()):
        return obstacle
    if obstacle := obstacle_to_clock(request.clock, request.devices or range(request.gpus)):
        return obstacle
    if request.registered and not gpus_here():
        return "registered=true: registers GPU memory with NCCL, but this machine has no GPU; leave it out"
    missing = packages.not_unix() or packages.obstacle("torch")
    return missing or too_many_ranks(request.gpus, request.devices, oversubscribe, here)


def check_bench(r: BenchRequest) -> None:
    """Refuses what can run on no machine."""
    for name in r.collectives:
        if name not in OPERATIONS:
            raise unknown_name("collective", name, tuple(OPERATIONS), "collective")
    bench_settings.check_timing(r)
    for name in r.patterns:
        patterns.load(name)
    if not (r.sizes_bytes if r.collectives else r.copy_sizes_bytes) and (r.collectives or r.copies):
        raise ConfigError("size=[]: expected at least one size, or a workload whose messages are sizes (model=alexnet)")
    if r.gpus == 1 and r.collectives:
        raise ConfigError("gpus=1: one rank has no peer; use gpus=2 or more")
    setting_types.check(
        {**msgspec.to_builtins(r), "size": [*r.sizes_bytes, *r.copy_sizes_bytes, *r.pattern_sizes_bytes]}
    )
    check_ranks(r.gpus, r.devices, r.env)
    check_nodes(r.gpus, r.nodes, r.devices)
    check_way(r.way, r.env)
    check_gpudirect(r.way, r.nodes)
    bench_settings.check_copies(r)
    times = len(r.collectives) * len(r.sizes_bytes) * (r.iterations + QUEUES)
    times += 2 * len(r.patterns) * len(r.scalings) * max(1, len(r.pattern_sizes_bytes)) * r.iterations
    if times * MEASURED_BYTES > MAX_BYTES:
        raise ConfigError(f"iterations={r.iterations}: a record of {times:,} times would be {too_large('bench')}")


# Exports a bench as the JSON of nccl-tests, for programs that read that.


def export_bench(bench: str | PathLike[str]) -> list[Path]:
    """Writes one file for each collective into the folder of the record, and returns their paths."""
    path = given_path(bench)
    folder = RunFolder(path if is_folder(path) else path.parent)
    record = read(folder.record if is_folder(path) else path, BenchRecord)
    names = list(dict.fromkeys(point.collective for point in record.points))
    if not names:
        raise ConfigError(f"--export {path}: holds no collectives; nccl-tests has no other results")
    if others := [name for name in names if name not in OPERATIONS]:
        raise ConfigError(
            f"--export {path}: {shortened(others[0])!r}: no collective that is known; known are {', '.join(OPERATIONS)}"
        )
    written = []
    for name in names:
        times_s = telling_times([point for point in record.points if point.collective == name])
        written.append(folder.nccl_tests(name))
        try:
            written[-1].write_bytes(encoded(record, name, times_s))
        except OSError as error:
            raise ConfigError(
                f"--export: cannot write {written[-1]} ({error.strerror}); free space or make it writable"
            ) from None
    return written
