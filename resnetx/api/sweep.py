"""Runs a study: every point in fresh processes, again and again."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Unpack

import msgspec

from resnetx import __version__, progress
from resnetx.api import largest
from resnetx.api.bench import benches_beside, beside_description
from resnetx.api.doctor import obstacle_to, obstacle_to_launch, pointless_transports, too_large_record
from resnetx.api.measuring import announce, fed, machine_name, note_copies, note_fed, page, run_file, run_line
from resnetx.api.report import publish, refuse_taken
from resnetx.api.stored import MeasuredStudy, measured_study
from resnetx.compose import asked, compose, points_of
from resnetx.config import RunSettings, check, request_from, run_settings_from
from resnetx.errors import ConfigError, FileError
from resnetx.host import cores_read_once
from resnetx.launching import Launch
from resnetx.measure import trackers
from resnetx.measure.launch import launcher, slurm, write
from resnetx.measure.launch.executor import job_script
from resnetx.measure.study_runs import (
    Budget,
    Estimator,
    PlannedRun,
    check_known_code,
    check_same_machine,
    definition,
    estimator,
    keep_unreadable,
    locked,
    planned_runs,
    split_settled,
    stops,
)
from resnetx.measure.study_runs import sweep as run_all
from resnetx.record import (
    SCHEMA,
    BenchFile,
    BenchRecord,
    BenchRequest,
    RunFile,
    RunRecord,
    RunSummary,
    StudyFolder,
    StudyRecord,
    TaskRecord,
    read,
)
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.setting_types import written
from resnetx.study import Point
from resnetx.table import Answer, Cell, Column, Record, Tabular, as_shown, fields
from resnetx.units import duration

MANY = 500  # points; their progress is shown


@dataclass(frozen=True)
class AskedStudy:
    """A study as it is asked for, on this machine."""

    record: StudyRecord
    tasks: list[tuple[RunFile, str]]  # of the points, with the obstacle to each
    settings: RunSettings
    folder: StudyFolder
    benches: list[tuple[BenchFile, str]] = field(default_factory=list)  # likewise

    def plan(self) -> list[PlannedRun]:
        """Every run, in a random order that the seed decides."""
        return self._planned

    @cached_property
    def _planned(self) -> list[PlannedRun]:
        repeats, twins = self.settings.repeats, self.settings.twins
        seed = self.tasks[0][0].request.seed
        return planned_runs(
            self.tasks,
            repeats=repeats,
            twins=twins,
            folder=self.folder,
            seed=seed,
            solo=self.settings.controls == "all",
            benches=self.benches,
        )


def sweep(**settings: Unpack[keywords.SweepKeywords]) -> MeasuredStudy:
    """Runs a study, or the points of any settings that are lists; what is on disk already is not run again."""
    return execute(study_of(settings))


def study_of(settings: Mapping[str, object]) -> AskedStudy:
    """The study that is asked for."""
    with cores_read_once():
        return _study_of(settings)


def _study_of(settings: Mapping[str, object]) -> AskedStudy:
    given = asked("sweep", settings)
    read = fed(given)
    named, points = points_of(read)
    trees = [compose(point) for point in points]
    run_settings = one_for_all(trees)
    if any(tree["measure"] == "equality" for tree in trees):
        raise ConfigError("measure=equality: has no rate to sweep; use `resnetx verify` for one case")
    how = largest.found(trees, given)
    made = requests_of(trees)
    requests = {request.key: request for request in made}
    largest_of = {request.key: batch for request, batch in zip(made, how, strict=True)}
    transports = dict.fromkeys(str(tree["transport"]) for tree in trees)
    here = not in_a_job_to_come(run_settings.launch)
    if pointless := pointless_transports(list(requests.values()), transports, here):
        raise ConfigError(pointless)
    # Digits tell grids from the command line apart, as they have no name.
    name = named.name if named else f"sweep-{sum(int(key, 16) for key in requests) % 2**32:08x}"
    tasks: list[tuple[RunFile, str]] = []
    with progress.counting("checking cases", len(requests)) if len(requests) > MANY else nullcontext() as advance:
        for request in requests.values():
            obstacle = obstacle_to(request, run_settings.oversubscribe)
            obstacle = obstacle or _obstacle_to_twins(request, run_settings.twins)
            task = msgspec.structs.replace(run_file(request, run_settings, name), largest_batch=largest_of[request.key])
            tasks.append((task, obstacle))
            if advance:
                advance(1)
    counts = sorted({request.gpus for request in requests.values()} - {1})
    benches = list(benches_beside(named.benches, given, counts)) if named and counts else []
    note_fed(given, read)
    machine = machine_name(run_settings.launch)
    record = StudyRecord(
        kind="study",
        schema=SCHEMA,
        name=name,
        about=named.about if named else "",
        node=machine,
        points=list(requests.values()),
        **fields(run_settings, "repeats", "twins", "baseline", "convention"),
        resnetx=__version__,
        benches=[bench.request for bench, _ in benches],
    )
    return AskedStudy(record, tasks, run_settings, StudyFolder(Path(run_settings.results) / machine / name), benches)


def execute(study: AskedStudy) -> MeasuredStudy:
    """Runs what is not there yet; returns the points that are asked for."""
    target = study.settings.publish
    if target:
        refuse_taken(target)
    copies = trackers.TrackedCopies(study.settings.tracker)
    ended = _run(study, copies)
    found = measured_study(study.folder, study.settings.baseline, {point.key for point in study.record.points})
    if ended:
        _track(study, found, ended, copies)
    if target:
        progress.command(f"a copy that names no machine, user or path: {publish([study.folder.path], target)}")
    page([study.folder.path], study.settings.out)
    return found


def _run(study: AskedStudy, copies: trackers.TrackedCopies) -> list[RunRecord]:
    """The records of the runs that have ended now."""
    if obstacle := obstacle_to_launch(study.settings.launch, runs=len(study.plan())):
        raise ConfigError(obstacle)
    obstacles = [obstacle for _, obstacle in study.tasks]
    if all(obstacles):
        raise ConfigError(obstacles[0])
    trackers.check(study.settings.tracker)
    requests: list[Request | BenchRequest] = [
        *(task.request for task, _ in study.tasks),
        *(bench.request for bench, _ in study.benches),
    ]
    announce(requests, study.settings.out)
    with locked(study.folder):
        kept, left = split_settled(study.plan(), progress.skipped)
        ends = list(stops(left))
        if left:
            check_known_code(study.settings.dirty)
        check_same_machine(kept)
        study_record = definition(study.folder, study.record, progress.skipped)
        keep_unreadable(study.folder)
        write(study.folder.study, msgspec.structs.replace(study_record, stops=[*study_record.stops, *ends]))
        for stop in ends:
            progress.note(f"job {stop.job} ended in {stop.run}: {stop.ended}; it is measured again")
        if kept:
            progress.note(f"reused: {len(kept)} of {len(kept) + len(left)} runs")
        skip([run for run in left if run.obstacle])
        given_s = study.settings.budget
        budget = Budget(given_s, estimator_of(study).of_run) if given_s is not None else None
        able = [run for run in left if not run.obstacle]
        ended = run_planned(study.record.name, study.folder.path, study.settings, kept, able, copies, budget)
        return [record for record in ended if isinstance(record, RunRecord)]


def refuse_impossible(study: AskedStudy) -> None:
    """Refuses a study of which no machine could run a case, as its batches do not divide."""
    mistake = ""
    for task, _ in study.tasks:
        try:
            check(task.request)
        except ConfigError as error:
            mistake = mistake or str(error)
        else:
            return
    if mistake:
        raise ConfigError(mistake)


def _obstacle_to_twins(request: Request, twins: int) -> str:
    """Why the twins of a point could not be recorded, in one sentence; "" where they can."""
    requests = request.twins.values() if twins else []
    return next(filter(None, map(too_large_record, requests)), "")


def one_for_all(trees: list[dict[str, Any]]) -> RunSettings:
    """How the runs of all points are kept."""
    settings, *others = map(run_settings_from, trees)
    if any(other != settings for other in others):
        raise ConfigError(
            "repeats, twins, budget, baseline, timeout, results, convention, tracker, oversubscribe, dirty, publish "
            "and the launcher with its nodes apply to the whole sweep: give one value for each"
        )
    return settings


def requests_of(trees: list[dict[str, Any]]) -> list[Request]:
    """The requests of all points; threads that are left open are shared out for the one with the most ranks.

    Or for as many as this machine has GPUs, so that a study of some of them can be compared with one of all.
    """
    from resnetx.measure.machine.nvidia import gpus_here

    present = gpus_here()
    requests = [request_from(tree, present=present) for tree in trees]
    most = max(request.gpus for request in requests)
    return [
        request if request.gpus == most else request_from(tree, most, present)
        for tree, request in zip(trees, requests, strict=True)
    ]


def skip(runs: list[PlannedRun]) -> None:
    """Names the points that cannot run here, and leaves a record of each."""
    for obstacle, count in Counter(run.obstacle for run in runs).items():
        progress.note(f"skipped, {count} case{'s' * (count > 1)}: {obstacle}", indent=2)
    for run in runs:
        launcher.skip(run.task, run.folder, run.obstacle)


def run_planned(
    name: str,
    where: Path,
    settings: RunSettings,
    kept: list[TaskRecord],
    left: list[PlannedRun],
    copies: trackers.TrackedCopies,
    budget: Budget | None = None,
) -> list[TaskRecord]:
    """Runs what is left, says of each run what came of it, and returns the records.

    `name`, `where`: of all of them, beside the progress.
    """
    total, started = len(left), time.monotonic()
    ended: list[TaskRecord | None] = []
    warned: set[str] = set()
    with progress.counting(name, total, where) as advance:

        def done(run: PlannedRun, record: TaskRecord | None) -> None:
            record = beside_description(record, run.folder) if isinstance(record, BenchRecord) else record
            ended.append(record)
            told = []
            if record:
                remaining_s = (time.monotonic() - started) / len(ended) * (total - len(ended))
                expected = f", about {duration(remaining_s)} left" * (len(ended) < total and not progress.shows_time())
                told += [f"[{len(ended)}/{total}{expected}] {run_line(record, run.twin)}"]
                new = [
                    warning for warning in record.warnings if warning.code not in warned
                ]  # the table counts the others
                told += [f"  warning: {warning.message}; {warning.remedy}" for warning in new]
                warned.update(warning.code for warning in new)
                told += [copies.track(record, run.folder, run.twin)] if isinstance(record, RunRecord) else []
            first, *others = [*filter(None, told)] or [""]
            advance(1, first)
            for each in others:
                advance(0, each.strip())

        undone = run_all(left, kept, done, budget, budget.remaining_s) if budget else run_all(left, kept, done)
    if settings.budget is not None and budget and undone:
        progress.note(f"budget={duration(settings.budget)}: {_left_undone(undone)}")
    if dropped := ended.count(None):
        progress.note(f"{dropped} runs were left out: their cases ran out of memory or time, or failed")
    return [record for record in ended if record]


def _left_undone(undone: list[PlannedRun]) -> str:
    """What a budget had no room for."""
    benches = sum(isinstance(run.task, BenchFile) for run in undone)
    undone = [run for run in undone if isinstance(run.task, RunFile)]
    counts = Counter(run.twin or "point" for run in undone if run.repeat > 1 or run.twin)
    first = sum(run.repeat == 1 and not run.twin for run in undone)
    parts = [f"cases without any run: {first}"] * bool(first) + [f"benches: {benches}"] * bool(benches)
    parts += [f"{'repeats' if what == 'point' else f'control runs {what}'}: {count}" for what, count in counts.items()]
    return f"not run ({', '.join(parts)}); start it again to continue"


def _track(study: AskedStudy, found: MeasuredStudy, ended: Sequence[RunRecord], copies: trackers.TrackedCopies) -> None:
    """Logs the study as a whole, and says how to upload what was logged offline."""
    record, folder = study.record, study.folder.path
    definition = {name: getattr(record, name) for name in ("repeats", "twins", "baseline", "convention", "resnetx")}
    finished = trackers.Finished(
        name=record.name,
        about=record.about,
        node=record.node,
        definition=definition,
        points=found.rows(),
        lines=[point.line_words for point in found.points],
        environment=next((run.environment for run in ended if run.environment), None),
    )
    note_copies(copies, copies.conclude(finished, folder), folder)


def estimator_of(study: AskedStudy) -> Estimator:
    """What runs on this machine took, by all the studies in the results folder that can be read."""
    from resnetx.measure.machine.nvidia import gpus_here
    from resnetx.reporting.study_scaling import load

    runs: list[RunSummary] = []
    benches: list[BenchRecord] = []
    for file in study.folder.path.parent.glob(f"*/{study.folder.study.name}"):
        with suppress(FileError):
            runs += load(StudyFolder(file.parent)).runs
            benches += [read(bench.record, BenchRecord) for bench in StudyFolder(file.parent).benches()]
    return estimator(runs, on_gpus=gpus_here() > 0, benches=benches)


# A verb that measures, as a job of Slurm: submitted outside of a job, and run there by the same command.


def in_a_job_to_come(launch: Launch | None) -> bool:
    """Whether ranks run on nodes of a job of Slurm that is yet to be submitted."""
    return launch is not None and launch.launcher == "slurm" and not slurm.inside()


def submission(
    verb: str, given: Point, launch: Launch | None, results: str | Path, most_gpus: int, more: Sequence[str] = ()
) -> tuple[str, Path] | None:
    """The script of the job that runs a verb with these settings, and the folder of its log; None: it runs right here.

    `most_gpus`: of any of its runs; `more`: further words of the command.
    """
    if launch is None or not in_a_job_to_come(launch):
        return None
    per_node, own = -(-most_gpus // launch.nodes), launch.site.gpus_per_node
    if own is not None and per_node > own:
        raise ConfigError(
            f"gpus={most_gpus} on nodes={launch.nodes}: {per_node} on each node, which have {own} by the site file "
            f"(gpus_per_node); use nodes={-(-most_gpus // own)} or fewer gpus"
        )
    if not launch.site.exclusive and not any("cpus-per-" in option for option in launch.site.options):
        progress.note(
            "exclusive: false: Slurm may give all ranks of a node one CPU; ask for more in the site file, as "
            "options: [cpus-per-task=32]",
            warning=True,
        )
    logs = Path(results).absolute() / machine_name(launch) / "jobs"
    return job_script(verb, [*more, *written(given)], launch, logs), logs


# ---- plan -----------------------------------------------------------------------------------------------------------
# What a sweep would run, without running it.


@dataclass(frozen=True, repr=False)
class Plan(Tabular):
    """What a sweep would run."""

    points: int
    able: int  # points that can run here
    reused: int  # runs that are there already
    left: list[PlannedRun]  # the others
    obstacles: Mapping[str, int]  # why points cannot run here, and how many
    duration_s: float  # of those that can, estimated
    basis: str  # of the estimate
    budget_s: float | None

    def answer(self) -> Answer:
        """How many runs of what it would take, and for how long, as `sweep --dry-run` says; a row for each kind."""
        kinds = Counter(
            tuple(_row(run).get("twin" if name == "control" else name) for name in _KIND) for run in self.left
        )
        columns: list[Column[tuple[tuple[Cell, ...], int]]] = [
            *(Column(name.replace("_", " "), partial(_kind_cell, index)) for index, name in enumerate(_KIND)),
            Column(">runs", lambda kind: f"{kind[1]}"),
        ]
        sentences = [f"{self.sentence}."] if self.able else []
        return Answer([*sentences, *self.obstacle_words], as_shown(columns, sorted(kinds.items(), key=str)))

    @property
    def able_runs(self) -> list[PlannedRun]:
        """Those that are left and can run here."""
        return [run for run in self.left if not run.obstacle]

    @property
    def cases(self) -> str:
        return f"{self.points} case{'s' * (self.points != 1)}"

    @property
    def sentence(self) -> str:
        """What would run here, and for how long."""
        able = self.able_runs
        controls = sum(run.twin is not None for run in able)
        reused = f", {self.reused} more are there already" * bool(self.reused)
        takes = f", about {duration(self.duration_s)} ({self.basis})" * bool(able)
        benches = sum(isinstance(run.task, BenchFile) for run in able)
        beside = f" and {benches} of them benches" * bool(benches)
        runs = f"{len(able)} run{'s' * (len(able) != 1)} of {self.cases}"
        return f"{runs}, {controls} of them control runs{beside}{reused}{takes}"

    @property
    def obstacle_words(self) -> list[str]:
        """What cannot run here, and why."""
        if self.able:
            return [f"{count} of {self.cases} cannot run here: {why}" for why, count in self.obstacles.items()]
        several = len(self.obstacles) > 1
        why = "; ".join(f"({count}) {obstacle}" if several else obstacle for obstacle, count in self.obstacles.items())
        return [f"None of {self.cases} can run here: {why}"]

    def rows(self) -> list[Record]:
        """A row for each run that is left, in their order. `obstacle`: why it cannot run here."""
        return [_row(run) for run in self.left]


# What tells kinds of runs apart.
_KIND = ("workload", "batch_size", "gpus", "precision", "strategy", "input", "measure", "control")


def _kind_cell(index: int, kind: tuple[tuple[Cell, ...], int]) -> str:
    value = kind[0][index]
    return "" if value is None else str(value)


def plan(**settings: Unpack[keywords.SweepKeywords]) -> Plan:
    """What `sweep` would run with these settings, and for how long; nothing is run or written."""
    return planned(study_of(settings))


def planned(study: AskedStudy) -> Plan:
    """What running the study would run."""
    refuse_impossible(study)
    definition(study.folder, study.record, progress.skipped)
    kept, left = split_settled(study.plan(), progress.skipped)
    estimate = estimator_of(study)
    return Plan(
        points=len(study.tasks),
        able=sum(not obstacle for _, obstacle in study.tasks),
        reused=len(kept),
        left=left,
        obstacles=Counter(obstacle for _, obstacle in [*study.tasks, *study.benches] if obstacle),
        duration_s=estimate.of_runs([run for run in left if not run.obstacle]),
        basis=estimate.basis,
        budget_s=study.settings.budget,
    )


def _row(run: PlannedRun) -> Record:
    request = run.task.request
    there = {"folder": str(run.folder.path), "obstacle": run.obstacle or None}
    if isinstance(request, BenchRequest):
        return {"workload": None, "gpus": request.gpus, "measure": "bench", **there}
    return {
        "workload": request.model.label,
        "batch_size": request.batch_size,
        "gpus": request.gpus,
        "precision": request.precision,
        "strategy": request.strategy.kind,
        "input": request.input.kind,
        "measure": request.measure,
        "twin": run.twin,
        **there,
    }
