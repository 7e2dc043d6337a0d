"""`sweep`: measures a study, or shows how it would."""

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resnetx import __version__
from resnetx.cli import show
from resnetx.cli.compose import compose, points_of
from resnetx.cli.tables import show_run
from resnetx.cli.verbs.train import announce_variables, obstacle_to, run_file, show_tracked
from resnetx.config import Request, RunSettings, request_from, run_settings_from
from resnetx.errors import ConfigError, FileError
from resnetx.host import node_name
from resnetx.measure.launch import launcher
from resnetx.measure.launch.executor import one_node
from resnetx.measure.launch.results_folder import write
from resnetx.measure.rank.record_size import too_large_record
from resnetx.measure.study import trackers
from resnetx.measure.study.budget import Budget
from resnetx.measure.study.estimate import Estimator, estimator
from resnetx.measure.study.sweep import (
    PlannedRun,
    check_known_code,
    check_same_machine,
    definition,
    keep_unreadable,
    locked,
    plan,
    split_settled,
    sweep,
)
from resnetx.record import SCHEMA, RunFile, RunRecord, RunSummary, StudyFolder, StudyRecord
from resnetx.units import duration

if TYPE_CHECKING:
    from resnetx.reporting.study.points import StudyPoint


@dataclass(frozen=True)
class _Asked:
    """A study as the command line asks for it, on this machine."""

    record: StudyRecord
    tasks: list[tuple[RunFile, str]]  # of the points, with the obstacle to each
    settings: RunSettings
    folder: StudyFolder

    def plan(self) -> list[PlannedRun]:
        repeats, twins = self.settings.repeats, self.settings.twins
        seed = self.tasks[0][0].request.seed
        return plan(self.tasks, repeats=repeats, twins=twins, folder=self.folder, seed=seed)


def sweep_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Runs a study, or shows how it would."""
    show.begin(options)
    asked = _asked(overrides)
    if options.dry_run:
        _show_plan(asked)
        return 0
    obstacles = [obstacle for _, obstacle in asked.tasks]
    if all(obstacles):
        raise ConfigError(obstacles[0])
    trackers.check(asked.settings.tracker)
    announce_variables(task.request for task, _ in asked.tasks)
    with locked(asked.folder):
        kept, left = split_settled(asked.plan(), show.skipped)
        if left:
            check_known_code(asked.settings.dirty)
        check_same_machine(kept)
        known = definition(asked.folder, asked.record, show.skipped)
        keep_unreadable(asked.folder)
        write(asked.folder.study, known)
        if kept:
            show.say(f"reused: {len(kept)} of {len(kept) + len(left)} runs", show.err)
        skip([run for run in left if run.obstacle])
        budget = Budget(asked.settings.budget, _past(asked)) if asked.settings.budget is not None else None
        able = [run for run in left if not run.obstacle]
        ended = execute(asked.record.name, asked.folder.path, asked.settings, kept, able, budget)
    return _conclude(options, asked, ended)


def _asked(overrides: list[str]) -> _Asked:
    named, points = points_of(overrides)
    trees = [compose(point) for point in points]
    settings = one_for_all(trees)
    if any(tree["measure"] == "equality" for tree in trees):
        raise ConfigError("measure=equality: it has no rate to sweep; `resnetx verify` shows it, one point at a time")
    requests = {request.key: request for request in requests_of(trees)}
    name = named.name if named else "sweep-" + _digits(requests)
    tasks = [
        (task, obstacle_to(task.request, settings.oversubscribe) or _obstacle_to_twins(task.request, settings.twins))
        for task in (run_file(each, settings, name) for each in requests.values())
    ]
    record = StudyRecord(
        kind="study",
        schema=SCHEMA,
        name=name,
        about=named.about if named else "",
        node=node_name(),
        points=list(requests.values()),
        repeats=settings.repeats,
        twins=settings.twins,
        baseline=settings.baseline,
        convention=settings.convention,
        resnetx=__version__,
    )
    return _Asked(record, tasks, settings, StudyFolder(Path(settings.results) / node_name() / name))


def _obstacle_to_twins(request: Request, twins: int) -> str:
    """Why the twins of a point could not be recorded, in one sentence; "" where they can."""
    found = request.twins.values() if twins else []
    return next(filter(None, map(too_large_record, found)), "")


def one_for_all(trees: list[dict[str, Any]]) -> RunSettings:
    """How the runs of all points are kept."""
    settings, *others = {run_settings_from(tree) for tree in trees}
    if others:
        raise ConfigError(
            "repeats, twins, budget, baseline, timeout, results, convention, tracker, oversubscribe and dirty are one "
            "for a whole sweep: give each one value"
        )
    return settings


def requests_of(trees: list[dict[str, Any]]) -> list[Request]:
    """The requests of all points; threads that are left open are shared out for the one with the most ranks."""
    most = max(request_from(tree).gpus for tree in trees)
    return [request_from(tree, most) for tree in trees]


def _digits(keys: dict[str, Request]) -> str:
    """Tells grids from the command line apart, as they have no name."""
    return f"{sum(int(key, 16) for key in keys) % 2**32:08x}"


def skip(runs: list[PlannedRun]) -> None:
    """Names the points that cannot run here, and leaves a record of each."""
    for obstacle, count in Counter(run.obstacle for run in runs).items():
        show.say(f"skipped, {count} point{'s' * (count > 1)}: {obstacle}", show.err, indent=2)
    for run in runs:
        launcher.skip(run.task, run.folder, run.obstacle)


def execute(
    name: str,
    where: Path,
    settings: RunSettings,
    kept: list[RunRecord],
    left: list[PlannedRun],
    budget: Budget | None = None,
) -> list[RunRecord]:
    """Runs what is left, says of each run what came of it, and returns the records.

    `name`, `where`: of all of them, beside the progress.
    """
    total, started = len(left), time.monotonic()
    ended: list[RunRecord | None] = []
    warned: set[str] = set()
    with show.progress(name, total, where) as advance:

        def done(run: PlannedRun, record: RunRecord | None) -> None:
            ended.append(record)
            told = []
            if record:
                remaining_s = (time.monotonic() - started) / len(ended) * (total - len(ended))
                expected = f", about {duration(remaining_s)} left" * (len(ended) < total and not show.err.is_terminal)
                told += [f"[{len(ended)}/{total}{expected}] {show_run.run_line(record, run.twin)}"]
                new = [each for each in record.warnings if each.code not in warned]  # the table counts the others
                told += [f"  warning: {each.message}; {each.remedy}" for each in new]
                warned.update(each.code for each in new)
                told += [trackers.track(settings.tracker, record, run.folder, run.twin)]
            advance(1, "\n".join(filter(None, told)))

        undone = sweep(left, kept, done, budget, budget.remaining_s) if budget else sweep(left, kept, done)
    if settings.budget is not None and budget and undone:
        show.say(f"budget={duration(settings.budget)}: {_left_undone(undone)}", show.err)
    if dropped := ended.count(None):
        show.say(f"{dropped} runs were left out: their points ran out of memory or time, or failed", show.err)
    return [record for record in ended if record]


def _left_undone(undone: list[PlannedRun]) -> str:
    """What a budget had no room for."""
    counts = Counter(run.twin or "point" for run in undone if run.task.repeat > 1 or run.twin)
    first = sum(run.task.repeat == 1 and not run.twin for run in undone)
    parts = [f"points without any run: {first}"] * bool(first)
    parts += [
        f"{'repeats' if what == 'point' else f'runs of the twin {what}'}: {count}" for what, count in counts.items()
    ]
    return f"left undone ({', '.join(parts)}); start it again to go on"


def _conclude(options: Namespace, asked: _Asked, ended: Sequence[RunRecord]) -> int:
    """Shows what the study says now that these runs have ended; status 1 where a run went wrong."""
    from resnetx.reporting.study.points import study_points
    from resnetx.reporting.study.results import load

    results = load(asked.folder)
    for sentence in results.skipped:
        show.skipped(sentence)
    wanted = {point.key for point in asked.record.points}
    points = study_points([results], asked.settings.baseline, wanted)
    if options.json:
        show.json_lines(point.result for point in points)
    else:
        from resnetx.cli.tables import show_study

        show_study.scaling(f"Study {asked.record.name} on {asked.record.node}. {asked.record.about}".rstrip(), points)
        if any(runs for point in results.points for runs in point.twins.values()):
            show.say()
            show_study.limits(points)
        show.line(f"figures and a page: resnetx report {asked.folder.path}")
    if ended:
        _track(asked, points, ended)
    asked_for = {
        key for point in asked.record.points for key in (point.key, *(twin.key for twin in point.twins.values()))
    }
    bad = [run for run in results.runs if run.key in asked_for and run.outcome in ("failed", "timeout", "oom")]
    if bad:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(run.outcome for run in bad).items())
        show.say(f"{counts}; the first: {bad[0].folder}: {bad[0].reason}", show.err)
    return 1 if bad else 0


def _track(asked: _Asked, points: "Sequence[StudyPoint]", ended: Sequence[RunRecord]) -> None:
    """Logs the study as a whole, and says how to upload what was logged offline."""
    from resnetx.reporting.study.export import points_table

    study, folder = asked.record, asked.folder.path
    definition = {name: getattr(study, name) for name in ("repeats", "twins", "baseline", "convention", "resnetx")}
    finished = trackers.Finished(
        name=study.name,
        about=study.about,
        node=study.node,
        definition=definition,
        points=points_table(points).records(),
        lines=[point.line_words for point in points],
        environment=next((run.environment for run in ended if run.environment), None),
    )
    show_tracked(asked.settings.tracker, trackers.conclude(asked.settings.tracker, finished, folder), folder)


# ---- the plan -------------------------------------------------------------------------------------------------------


def _show_plan(asked: _Asked) -> None:
    """The commands of a sweep, the time that they may take, and what cannot run."""
    definition(asked.folder, asked.record, show.skipped)
    kept, left = split_settled(asked.plan(), show.skipped)
    able = [run for run in left if not run.obstacle]
    twins = sum(run.twin is not None for run in able)
    show.line(
        f"# {len(asked.tasks)} points, {len(able)} runs ({twins} of twins)" + f", {len(kept)} more kept" * bool(kept)
    )
    if able:
        estimate = _past(asked)
        seconds = sum(estimate(run.task.request) for run in able)
        show.line(f"# about {duration(seconds)} ({estimate.basis})")
    if asked.settings.budget is not None:
        show.line(f"# budget={duration(asked.settings.budget)}: runs are chosen as results come in, until it is spent")
    for obstacle, count in Counter(obstacle for _, obstacle in asked.tasks if obstacle).items():
        show.line(f"# {count} of {len(asked.tasks)} points cannot run here: {obstacle}")
    if left:
        show.line("# What `resnetx sweep` starts, once it has written each run.json:")
    for run in left:
        show.line("# " * bool(run.obstacle) + one_node(run.task, run.folder).line)


def _past(asked: _Asked) -> Estimator:
    """What runs on this machine took, by all the studies in the results folder that can be read."""
    from resnetx.measure.machine.visible_gpus import gpus_here
    from resnetx.reporting.study.results import load

    runs: list[RunSummary] = []
    for study in asked.folder.path.parent.glob(f"*/{asked.folder.study.name}"):
        with suppress(FileError):
            runs += load(StudyFolder(study.parent)).runs
    return estimator(runs, on_gpus=gpus_here() > 0)
