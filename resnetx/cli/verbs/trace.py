"""`trace`: layer times of workloads on one device, at every per-GPU batch that their points need."""

import random
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from resnetx import bounds
from resnetx.choices import NoExchange
from resnetx.cli import show
from resnetx.cli.compose import compose, points_of
from resnetx.cli.tables import show_trace
from resnetx.cli.verbs.sweep import execute, one_for_all, requests_of, skip
from resnetx.cli.verbs.trace_import import imported
from resnetx.cli.verbs.train import announce_variables, obstacle_to, run_file, show_tracked
from resnetx.config import RunSettings, check
from resnetx.errors import ConfigError
from resnetx.host import cores, node_name
from resnetx.loading import is_folder
from resnetx.measure.study import trackers
from resnetx.measure.study.sweep import PlannedRun, check_known_code, check_same_machine, locked, split_settled
from resnetx.record import RunFolder, StudyFolder
from resnetx.record.trace import Trace
from resnetx.request import Request
from resnetx.traces.checks import refuse_unsound
from resnetx.traces.files import export
from resnetx.traces.runs import read_all, subject

ITERATIONS = 100  # watched ones of every batch, where `iterations` is not set


@dataclass(frozen=True)
class _Asked:
    """The runs that a command line asks for, on this machine."""

    runs: list[PlannedRun]
    settings: RunSettings
    folder: Path  # of all traces of this node

    @property
    def folders(self) -> list[Path]:
        """The folder of each trace, in the order in which they were asked for."""
        return list(dict.fromkeys(run.folder.path.parent for run in self.runs))


def trace_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Runs what is not there yet, and shows the traces; or imports a file of another program."""
    show.begin(options)
    if getattr(options, "import"):
        _show(options, [imported(paths, overrides)])
        return 0
    if paths:
        raise ConfigError(
            f"{paths[0]}: `resnetx trace` measures; to take over a file that others measured, add --import"
        )
    asked = _asked(overrides)
    if all(run.obstacle for run in asked.runs):
        raise ConfigError(asked.runs[0].obstacle)
    trackers.check(asked.settings.tracker)
    announce_variables(run.task.request for run in asked.runs)
    check_known_code(asked.settings.dirty)
    with locked(StudyFolder(asked.folder)):
        kept, left = split_settled(asked.runs, show.skipped)
        check_same_machine(kept)
        if kept:
            show.say(f"reused: {len(kept)} of {len(asked.runs)} runs", show.err)
        skip([run for run in left if run.obstacle])
        able = [run for run in left if not run.obstacle]
        random.Random(asked.runs[0].task.request.seed).shuffle(able)  # a drifting machine then favours no batch
        execute("trace", asked.folder, asked.settings, kept, able)
    for folder in dict.fromkeys(run.folder.path.parent for run in able):
        show_tracked(asked.settings.tracker, "", folder)
    traces = [refuse_unsound(trace) for folder in asked.folders if is_folder(folder) for trace in read_all(folder)]
    _show(options, traces)
    _export(traces)
    return _status(asked, traces)


def _show(options: Namespace, traces: list[Trace]) -> None:
    if options.json:
        show.json_lines(traces)
    else:
        for trace in traces:
            show_trace.trace(trace)


def _export(traces: list[Trace]) -> None:
    for trace in traces:
        try:
            written = export(trace, Path(trace.source))
        except OSError as error:
            raise ConfigError(f"results: {trace.source} cannot be written ({error.strerror})") from None
        names = ", ".join(file.name for file in written)
        show.line(f"six columns, and a timeline for Perfetto: {names} in {trace.source}", show.err)


def _status(asked: _Asked, traces: list[Trace]) -> int:
    """1 where something that could run has no record of having gone well."""
    missing = [run for run in asked.runs if not run.obstacle and (run.settled is None or run.settled.outcome != "ok")]
    if missing:
        show.say(f"{len(missing)} run{'s' * (len(missing) > 1)} failed; the first: {missing[0].folder.path}", show.err)
    return 1 if missing or not traces else 0


# ---- what to run ----------------------------------------------------------------------------------------------------


def _asked(overrides: list[str]) -> _Asked:
    _, points = points_of(overrides)
    trees = [compose(point) for point in points]
    settings, iterations = one_for_all(trees), _iterations([tree["iterations"] for tree in trees])
    folder = Path(settings.results) / node_name() / "trace"
    requests: dict[str, Request] = {}
    for point in requests_of(trees):
        check(point)
        for request in (*layered(point, iterations), *together(point, iterations)):
            requests[request.key] = request
    return _Asked([_planned(each, settings, folder) for each in requests.values()], settings, folder)


def _iterations(of_points: list[Any]) -> int:
    given = of_points[0]
    if other := [each for each in of_points if each != given]:
        raise ConfigError(f"iterations={[given, other[0]]}: one number for all that is traced; give it one value")
    if given is None:
        return ITERATIONS
    if not isinstance(given, int) or isinstance(given, bool):
        raise ConfigError(f"iterations={given}: expected a number of watched iterations")
    bounds.check({"iterations": given})
    return given


def layered(point: Request, iterations: int) -> list[Request]:
    """The runs that time the layers of a point: one rank with each share of its batch that a rank has."""
    steps = min(point.steps, iterations)
    return [
        msgspec.structs.replace(
            point,
            measure="layers",
            batch_size=share,
            gpus=1,
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
    if point.gpus == 1 or isinstance(point.strategy, NoExchange) or point.gpus > _ranks_here():
        return []
    return [msgspec.structs.replace(point, measure="phases", steps=iterations, windows=1)]


def _ranks_here() -> int:
    """GPUs of this machine; without any, the cores, of which every rank needs one of its own."""
    from resnetx.measure.machine.visible_gpus import gpus_here

    return gpus_here() or cores()


def _planned(request: Request, settings: RunSettings, folder: Path) -> PlannedRun:
    of = subject(request)
    place = folder / f"{of.model_slug}_{of.image_size}_{of.precision}_{of.key}" / request.slug
    task = run_file(request, settings, None)
    return PlannedRun(
        task, RunFolder(place), obstacle_to(request, settings.oversubscribe), frozenset({request.key}), None
    )
