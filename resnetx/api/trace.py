"""Layer times of workloads on one device, at every per-GPU batch that their points need; or imports a file of them."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import msgspec

from resnetx import progress
from resnetx.api.answers import shown_traces
from resnetx.api.doctor import obstacle_to, obstacle_to_launch
from resnetx.api.measuring import announce, fed, machine_name, note_copies, note_fed, page, run_file
from resnetx.api.sweep import one_for_all, requests_of, run_planned, skip
from resnetx.choices import NoExchange
from resnetx.compose import asked, compose, points_of
from resnetx.config import RunSettings, check
from resnetx.errors import ConfigError
from resnetx.host import cores
from resnetx.loading import is_folder
from resnetx.measure import trackers
from resnetx.measure.study_runs import PlannedRun, check_known_code, check_same_machine, locked, split_settled
from resnetx.record import RunFolder, StudyFolder
from resnetx.record.traces import Trace
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.files import given_path
from resnetx.table import Answer, Record, Records
from resnetx.traces import read_all, refuse_unsound, subject
from resnetx.traces.trace_files import export

ITERATIONS = 100  # instrumented ones of every batch, where `iterations` is not set
OF_IMPORTS = ("device", "workload")  # settings that say what a file does not


@dataclass(frozen=True)
class AskedTraces:
    """The runs that are asked for, on this machine."""

    runs: list[PlannedRun]
    settings: RunSettings
    folder: Path  # of all traces of this node

    @property
    def folders(self) -> list[Path]:
        """The folder of each trace, in the order in which they were asked for."""
        return list(dict.fromkeys(run.folder.path.parent for run in self.runs))

    @property
    def failed(self) -> list[PlannedRun]:
        """The runs that could run here, and have no record of having gone well."""
        able = [run for run in self.runs if not run.obstacle]
        return [run for run in able if run.settled is None or run.settled.outcome != "ok"]


class Traces(Records[Trace]):
    """Traces, each of one workload on one device."""

    def answer(self) -> Answer:
        """What each says of a step, and its batches, as `trace` shows them."""
        return shown_traces(list(self))

    def rows(self) -> list[Record]:
        """A row for each layer of each batch: medians over the iterations."""
        return [row for trace in self for row in trace.rows()]


def trace(
    file: keywords.Text | Sequence[keywords.Text] | None = None, **settings: Unpack[keywords.TraceKeywords]
) -> Traces:
    """Times a workload layer by layer on one device; what is on disk already is not run again.

    `file`: imports a PyTorch profile, or a text of six columns, instead of measuring; several, a folder or a pattern:
    the profiles of all ranks of a job.
    """
    if file is not None:
        from resnetx.api.bench_settings import import_trace

        paths = [file] if isinstance(file, str | PathLike) else file
        return Traces([import_trace([given_path(path) for path in paths], settings)[0]])
    return execute(settings)[0]


def execute(settings: Mapping[str, object]) -> tuple[Traces, list[PlannedRun]]:
    """Runs what is not there yet. Returns the traces, each exported beside its runs, and the runs that failed."""
    wanted = traces_of(settings)
    if obstacle := obstacle_to_launch(wanted.settings.launch, runs=len(wanted.runs)):
        raise ConfigError(obstacle)
    if all(run.obstacle for run in wanted.runs):
        raise ConfigError(wanted.runs[0].obstacle)
    trackers.check(wanted.settings.tracker)
    announce((run.task.request for run in wanted.runs), settings.get("out"))
    check_known_code(wanted.settings.dirty)
    _run(wanted)
    folders = filter(is_folder, wanted.folders)
    traces = Traces(refuse_unsound(trace) for folder in folders for trace in read_all(folder))
    for each in traces:
        try:
            written = export(each, Path(each.source))
        except OSError as error:
            raise ConfigError(f"results: {each.source} cannot be written ({error.strerror})") from None
        names = ", ".join(file.name for file in written)
        progress.command(f"six columns, and a timeline for Perfetto: {names} in {each.source}")
    if traces:
        page([Path(each.source) for each in traces], settings.get("out"))
    return traces, wanted.failed


def _run(traces: AskedTraces) -> None:
    with locked(StudyFolder(traces.folder)):
        kept, left = split_settled(traces.runs, progress.skipped)
        check_same_machine(kept)
        if kept:
            progress.note(f"reused: {len(kept)} of {len(traces.runs)} runs")
        skip([run for run in left if run.obstacle])
        able = [run for run in left if not run.obstacle]
        random.Random(traces.runs[0].task.request.seed).shuffle(able)  # a drifting machine then favours no batch
        copies = trackers.TrackedCopies(traces.settings.tracker)
        run_planned("trace", traces.folder, traces.settings, kept, able, copies)
    for folder in dict.fromkeys(run.folder.path.parent for run in able):
        note_copies(copies, "", folder)


# ---- what to run ----------------------------------------------------------------------------------------------------


def traces_of(settings: Mapping[str, object]) -> AskedTraces:
    """The runs that are asked for."""
    given = asked("trace", settings)
    for key in given:
        if key in OF_IMPORTS:
            raise ConfigError(f"{key}={given[key]}: only describes an imported file; add --import and the file")
    read = fed(given)
    _, points = points_of(read)
    trees = [compose(point) for point in points]
    run, iterations = one_for_all(trees), _iterations([tree["iterations"] for tree in trees])
    folder = Path(run.results) / machine_name(run.launch) / "trace"
    requests: dict[str, Request] = {}
    for point in requests_of(trees):
        check(point)
        for request in (*layered(point, iterations), *together(point, iterations)):
            requests[request.key] = request
    note_fed(given, read)
    return AskedTraces([_planned(each, run, folder) for each in requests.values()], run, folder)


def _iterations(of_points: list[Any]) -> int:
    given = of_points[0]
    if other := [each for each in of_points if each != given]:
        raise ConfigError(f"iterations={[given, other[0]]}: applies to all traces; give one value")
    if given is None:
        return ITERATIONS
    if not isinstance(given, int) or isinstance(given, bool):
        raise ConfigError(f"iterations={given}: expected a number of profiled iterations")
    setting_types.check({"iterations": given})
    return given


def layered(point: Request, iterations: int) -> list[Request]:
    """The runs that time the layers of a point: one rank with each part of its batch that a rank takes at once."""
    steps = min(point.steps, iterations)
    return [
        msgspec.structs.replace(
            point,
            measure="layers",
            batch_size=share // point.accumulate,
            accumulate=1,
            checkpointing=False,
            gpus=1,
            nodes=1,
            devices=point.devices and point.devices[:1],
            strategy=NoExchange(),  # one rank has nobody to exchange gradients with
            scaling="strong",
            split="even",
            steps=steps,
            windows=-(-iterations // steps),
        )
        for share in sorted({point.share(0), point.share(point.gpus - 1)})
    ]


def together(point: Request, iterations: int) -> list[Request]:
    """The run that times the messages of a point, if it has some and this machine has its ranks.

    All its steps are in one window, as the times of messages are kept for one.
    """
    if point.gpus == 1 or isinstance(point.strategy, NoExchange) or point.gpus // point.nodes > _ranks_here():
        return []
    return [msgspec.structs.replace(point, measure="phases", steps=iterations, windows=1)]


def _ranks_here() -> int:
    """GPUs of this machine; without any, the cores, of which every rank needs one of its own."""
    from resnetx.measure.machine.nvidia import gpus_here

    return gpus_here() or cores()


def _planned(request: Request, settings: RunSettings, folder: Path) -> PlannedRun:
    of = subject(request)
    path = folder / f"{of.model_slug}_{of.image_size}_{of.precision}_{of.key}" / request.slug
    task = run_file(request, settings, None)
    return PlannedRun(
        task, RunFolder(path), obstacle_to(request, settings.oversubscribe), frozenset({request.key}), None
    )
