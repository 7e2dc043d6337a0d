"""The runs of a study: which there are, which an earlier start has settled, and one after another, each a process.

The order is random but seeded: a machine that warms up or is shared by the hour then favours no point.
"""

import math
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.choices import Model
from resnetx.errors import ConfigError
from resnetx.host import flock
from resnetx.loading import is_file
from resnetx.measure.held_clock import held
from resnetx.measure.launch import launcher, not_writable, preloaded, slurm
from resnetx.measure.launch.launcher import UNFINISHED
from resnetx.measure.machine import has_changes, identity, revision, same_code
from resnetx.record import (
    BenchFile,
    BenchRecord,
    RecordError,
    RunFile,
    RunFolder,
    RunRecord,
    RunSummary,
    StudyFolder,
    StudyRecord,
    TaskRecord,
)
from resnetx.record.tasks import Stop
from resnetx.request import WINDOW_S, Request, TwinName
from resnetx.statistics import summarize

Tell = Callable[[str], object]  # called with a sentence for the user


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep, or one of its benches. `obstacle`: why it cannot run here; "" where it can."""

    task: RunFile | BenchFile
    folder: RunFolder
    obstacle: str
    points: frozenset[str]  # keys of its point, or of the points whose twin it is; of a bench its own
    twin: TwinName | None  # None: the point itself, or a bench
    repeat: int = 1

    @property
    def key(self) -> str:
        return self.task.request.key

    def earlier(self) -> TaskRecord | None:
        """Its record from an earlier start, None if it has none; a `RecordError` if that cannot be read."""
        if not is_file(self.folder.record):
            return None
        return record.read(self.folder.record, self.task.record_type)

    @property
    def settled(self) -> TaskRecord | None:
        """Its record from an earlier start of the same sweep, if running it again would tell nothing new."""
        try:
            return self.settled_by(self.earlier())
        except RecordError:
            return None

    def settled_by(self, earlier: TaskRecord | None) -> TaskRecord | None:
        """An earlier record, if running it again would tell nothing new."""
        if earlier is None or earlier.request != self.task.request:
            return None
        if earlier.outcome == "ok":  # also where it could not run now: a folder or a GPU may be missing for a moment
            return earlier
        given_s = earlier.timeout_s if isinstance(earlier, RunRecord) else 0.0
        endless = earlier.outcome == "timeout" and given_s >= self.task.timeout_s
        return earlier if not self.obstacle and (earlier.outcome == "oom" or endless) else None


def planned_runs(
    points: Iterable[tuple[RunFile, str]],
    *,
    repeats: int,
    twins: int,
    folder: StudyFolder,
    seed: int,
    solo: bool = False,
    benches: Iterable[tuple[BenchFile, str]] = (),
) -> list[PlannedRun]:
    """The runs of a study in the order in which they are to be executed; `points` carry the obstacle of each.

    `solo`: with that control, too. `benches` run as often as points, and between them.

    Twins that points share, and twins that are points themselves, run as often as the
    most demanding needs them.
    """
    planned: dict[str, tuple[PlannedRun, int]] = {}

    def add(task: RunFile, obstacle: str, point: str, twin: TwinName | None, count: int) -> None:
        known, before = planned.get(task.request.key, (None, 0))
        points = frozenset({point}) | (known.points if known else frozenset())
        name = twin if known is None or known.twin else None  # what is a point somewhere is no twin
        run = PlannedRun(task, folder.run(task.request.slug, 1), obstacle, points, name)
        planned[run.key] = (run, max(count, before))

    for task, obstacle in points:
        add(task, obstacle, task.request.key, None, 1 if obstacle else repeats)  # one record says that it cannot run
        if not obstacle and twins:
            for name, request in (task.request.controls if solo else task.request.twins).items():
                add(msgspec.structs.replace(task, request=request), "", task.request.key, name, twins)

    for bench, obstacle in benches:
        key, where = bench.request.key, folder.bench(bench.request, 1)
        planned[key] = (PlannedRun(bench, where, obstacle, frozenset({key}), None), 1 if obstacle else repeats)

    shuffle = random.Random(seed).shuffle
    runs = []
    for repeat in range(1, max((count for _, count in planned.values()), default=0) + 1):
        turn = [run for run, count in planned.values() if count >= repeat]
        shuffle(turn)
        runs += [_repeated(run, repeat) for run in turn]
    return runs


def _repeated(run: PlannedRun, repeat: int) -> PlannedRun:
    slug = run.folder.path.name.removesuffix("_r1")  # of the request, whose key takes a while
    there = RunFolder(run.folder.path.with_name(f"{slug}_r{repeat}"))
    if isinstance(run.task, BenchFile):
        return replace(run, repeat=repeat, folder=there)
    return replace(run, repeat=repeat, task=msgspec.structs.replace(run.task, repeat=repeat), folder=there)


def split_settled(
    runs: Iterable[PlannedRun], unreadable: Tell = lambda _: None
) -> tuple[list[TaskRecord], list[PlannedRun]]:
    """What an earlier start has settled, and the runs that are left.

    A record that cannot be read settles nothing: `unreadable` is called with a sentence about it. A record of a newer
    resnetx is an error, as it would be overwritten.
    """
    settled_records: list[TaskRecord] = []
    unsettled: list[PlannedRun] = []
    for run in runs:
        try:
            settled = run.settled_by(run.earlier())
        except RecordError as error:
            unreadable(f"{error}; this run is measured again")
            settled = None
        if settled:
            settled_records.append(settled)
        else:
            unsettled.append(run)
    return settled_records, unsettled


# The definition of a study in its folder: what is asked for continues the study that is there, or is refused.


def definition(folder: StudyFolder, asked: StudyRecord, unreadable: Tell = lambda _: None) -> StudyRecord:
    """The record for the study in this folder, which must be the one that is asked for.

    A study may grow, and part of it may be asked for; points of another definition would be mistaken for its own.
    `unreadable` is called with a sentence where the folder's record cannot be read.
    """
    known = _known(folder, unreadable)
    if known is None:
        return asked
    old, new = [{point.key: point for point in study.points} for study in (known, asked)]
    if not (old.keys() <= new.keys() or new.keys() <= old.keys()):
        raise ConfigError(
            f"{folder.path} contains another study of this name: {_difference(known.points, asked.points)}; set "
            "results=FOLDER to measure this one elsewhere" + _same_threads(known.points, asked.points)
        )
    if known.convention != asked.convention:
        raise ConfigError(
            f"{folder.path} was measured with convention={known.convention}; for the counts by {asked.convention}, use "
            f"`resnetx describe convention={asked.convention}`"
        )
    benches = {bench.key: bench for study in (known, asked) for bench in study.benches}
    requests, stops = list({**old, **new}.values()), known.stops
    return msgspec.structs.replace(asked, points=requests, benches=list(benches.values()), stops=stops)


def _known(folder: StudyFolder, unreadable: Tell) -> StudyRecord | None:
    """The record of the study in this folder, None if there is none that can be read."""
    if not is_file(folder.study):
        return None
    try:
        return record.read(folder.study, StudyRecord)
    except RecordError as error:
        unreadable(f"{error}; kept as {_kept(folder).name}")
        return None


def keep_unreadable(folder: StudyFolder) -> None:
    """Renames a study's record that cannot be read, so that the new one does not overwrite it."""
    if is_file(folder.study) and _known(folder, lambda _: None) is None:
        with suppress(OSError):  # what cannot be renamed cannot be written either, which writing says
            folder.study.rename(_kept(folder))


def _kept(folder: StudyFolder) -> Path:
    return folder.study.with_suffix(".unreadable")


def _difference(old: list[Request], new: list[Request]) -> str:
    """In what the points of two definitions differ: the settings, each with the values of both."""
    differences = []
    for key in old[0].settings | new[0].settings:
        before, now = ({str(point.settings.get(key)) for point in points} for points in (old, new))
        if before != now:
            differences.append(f"{key}={_listed(before)} before, {_listed(now)} now")
    return "; ".join(differences) or "its cases combine the same settings differently"


def _same_threads(old: list[Request], new: list[Request]) -> str:
    """The remedy where nothing but the largest GPU count, and with it the default of `threads`, is another one."""
    (before, *_), (now, *_) = ({point.threads for point in points} for points in (old, new))
    return f", or threads={before} to continue it" if before != now else ""


def _listed(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else f"[{','.join(sorted(values))}]"


# Whether a study may continue here: the machine, the software and the code are those of its finished runs.


def check_same_machine(kept: Iterable[TaskRecord]) -> None:
    """Refuses to continue a study where other software or hardware is than its finished runs had.

    They would not be repeats of each other.
    """
    now = identity()
    for run in kept:
        if run.environment is None:
            continue
        was = {name: getattr(run.environment, name) for name in now} | {
            "gpus": ", ".join(gpu.name for gpu in run.environment.gpus or []) or None
        }
        for name, value in now.items():
            if not (_same_revision if name == "git_revision" else _alike)(was[name], value):
                raise ConfigError(
                    f"this study was started with {name} {was[name]}, and here is {value}: runs would not be repeats "
                    f"of each other; continue with {name} {was[name]}, or set results=FOLDER to start a new study"
                )


def _same_revision(before: str | None, now: str | None) -> bool:
    return before == now if before is None or now is None else same_code(before, now)


def _alike(before: str | None, now: str | None) -> bool:
    """Whether two versions or names are the same; one may leave out its build ("2.15.0" and "2.15.0+cu130")."""
    if before is None or now is None:
        return before == now
    parts = [value.partition("+") for value in (before, now)]
    return parts[0][0] == parts[1][0] and (parts[0][2] == parts[1][2] or not all(part[2] for part in parts))


def check_known_code(dirty: bool) -> None:
    """Refuses to measure with code that no commit has, unless that is asked for: no record could say what ran."""
    if not dirty and has_changes(found := revision()):
        raise ConfigError(
            f"this checkout of resnetx has uncommitted changes ({found}), so that records could not name the code "
            "that ran; commit them, or set dirty=true"
        )


# What ended earlier starts of a study, as the runs say that it cut short.
#
# Such a run is measured again, and its record replaced: the study's own record keeps what was there.

UNTRACED = "killed without a trace"  # where a record was left as it was begun, and Slurm does not know the job any more


def stops(runs: Iterable[PlannedRun]) -> Iterator[Stop]:
    """The jobs that ended during one of these runs, by the records that they left."""
    for run in runs:
        try:
            earlier = run.earlier()
        except RecordError:
            continue
        if earlier and earlier.job and (why := _why(earlier)):
            began = earlier.started_at or ""
            yield Stop(run=run.folder.path.name, started_at=began, job=earlier.job.id, ended=why)


def _why(earlier: TaskRecord) -> str:
    """Why a job ended during a run; "" where it went on behind it."""
    assert earlier.job is not None, "a run of a job"
    if earlier.job.ended:
        return earlier.job.ended
    return (slurm.cause_of_job(earlier.job.id) or UNTRACED) if earlier.reason == UNFINISHED else ""


# ---- run after run --------------------------------------------------------------------------------------------------
# What is finished is kept when a study is started again. A point that finds no memory, or no end, is not tried again;
# nor are its twins.

FAILURES = 2  # of one point or twin, after which it is given up

# Chooses the next of the remaining runs, or None to leave them undone, by the records of the runs that have ended.
ChooseRun = Callable[[list[PlannedRun], list[TaskRecord]], PlannedRun | None]


def in_order(remaining: list[PlannedRun], _: list[TaskRecord]) -> PlannedRun | None:
    """The next run of the plan."""
    return remaining[0]


@preloaded.kept()
def sweep(
    runs: list[PlannedRun],
    kept: list[TaskRecord],
    done: Callable[[PlannedRun, TaskRecord | None], None],
    choose: ChooseRun = in_order,
    remaining_s: Callable[[], float] = lambda: math.inf,
) -> list[PlannedRun]:
    """Executes runs, which can all run here, one by one; returns those that `choose` leaves undone.

    `kept`: the records of an earlier start. `done` is called for each run with its record, or with None where a run
    became pointless, because the point has been given up. No run gets more time than remains.
    """
    left, ended = list(runs), list(kept)
    while left and (run := choose(left, ended)):
        left.remove(run)
        if given_up(run, ended):
            done(run, None)
            continue
        limit_s = max(1.0, min(run.task.timeout_s, remaining_s()))
        task = msgspec.structs.replace(run.task, timeout_s=limit_s)
        with held(task.request) as clock:
            if isinstance(task, RunFile):
                ended.append(launcher.execute(task, run.folder))
            else:
                bench = launcher.supervise(task, run.folder, look_up=clock.look if clock else lambda: None)
                ended.append(clock.noted(bench) if clock else bench)
        done(run, ended[-1])
    return left


def key_of(record: TaskRecord) -> str:
    """Of what was asked for."""
    if isinstance(record, RunRecord):
        return record.request_key
    return record.request.key if record.request else ""


def given_up(run: PlannedRun, ended: Iterable[TaskRecord]) -> bool:
    """Whether this run, or every point whose twin it is, has shown that another try would end in the same way."""
    return pointless(run, hopeless(ended))


def hopeless(ended: Iterable[TaskRecord]) -> set[str]:
    """The keys of what has shown that another try would end in the same way."""
    outcomes = Counter((key_of(record), record.outcome) for record in ended)
    tries = {"oom": 1, "timeout": 1, "failed": FAILURES}
    return {key for (key, outcome), count in outcomes.items() if count >= tries.get(outcome, math.inf)}


def pointless(run: PlannedRun, hopeless: set[str]) -> bool:
    """Whether this run, or every point whose twin it is, is among the keys that are `hopeless`."""
    return run.key in hopeless or run.points <= hopeless


@contextmanager
def locked(folder: StudyFolder) -> Iterator[None]:
    """Holds the folder for this sweep alone: two sweeps in it would count each other's runs."""
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        opened = folder.lock.open("w")
    except OSError as error:
        raise not_writable(folder.path, error) from None
    with opened as lock:
        if not flock(lock, wait=False):
            raise ConfigError(
                f"another sweep is running in {folder.path}: wait for it, or set results=FOLDER to another folder"
            )
        yield


# A sweep with a time budget: the most informative run comes next, and no run starts that would not end in time.
#
# First every point and every bench once, then every twin once, then what has the widest spread of all points and twins,
# again and again, and benches again behind them.


class Budget:
    """Chooses runs (a `ChooseRun`) until the time is spent.

    `estimate`: seconds that a run of a request may take, before any has been seen.
    """

    def __init__(
        self, seconds: float, estimate: Callable[[PlannedRun], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._estimate = estimate

    def __call__(self, remaining: list[PlannedRun], ended: list[TaskRecord]) -> PlannedRun | None:
        """The next run, or None where none of those that are left would end in time."""
        seen: dict[str, list[TaskRecord]] = defaultdict(list)
        for done in ended:
            seen[key_of(done)].append(done)
        remaining_s = self.remaining_s()
        lost = hopeless(ended)
        # What has been given up costs nothing, and is told at once.
        able = [run for run in remaining if pointless(run, lost) or self._expected_s(run, seen[run.key]) <= remaining_s]
        return min(able, key=lambda run: self._rank(run, seen[run.key]), default=None)  # the first of equals

    def remaining_s(self) -> float:
        """Seconds until the budget is spent."""
        return self._end - self._clock()

    def _expected_s(self, run: PlannedRun, before: list[TaskRecord]) -> float:
        return statistics.fmean(record.duration_s or 0.0 for record in before) if before else self._estimate(run)

    def _rank(self, run: PlannedRun, before: list[TaskRecord]) -> tuple[int, float]:
        """Small is first: points before twins, and wide before narrow."""
        if not before:
            return (0 if run.twin is None else 1, 0.0)
        if isinstance(run.task, BenchFile):
            return (3, len(before))
        rates = [record.images_per_s for record in before if isinstance(record, RunRecord) and record.images_per_s]
        return (2, -summarize(rates).spread if rates else 0.0)


# How long runs will take, from what runs on this machine took.
#
# Best is a run of the same request; else the training rate (FLOP/s) and start-up time of other runs here; else an
# assumption, reported as such.

BACKWARD = 3  # a training step is about three forward passes
# For a machine on which nothing has run. The first run pays the imports, which later ones share (`preloaded`): on two
# cores of a Xeon its start-up took 12 s, and that of later ones (torchrun, DDP, DALI) takes some 2 s.
# Rates of ResNet/8 in fp32, of one rank: 122 GFLOP/s on one core of that Xeon; the GPU's is a guess.
ASSUMED_START_UP_S, ASSUMED_IMPORTS_S = 2.0, 10.0
ASSUMED_RATE = {"cpu": 1.2e11, "gpu": 1e13}
ASSUMED_SIZE_S = 1.0  # of a size of a bench: a guess, as the GPU's rate is


@dataclass(frozen=True)
class Estimator:
    """Seconds of a run on this machine. `basis` says what the answers rest on."""

    basis: str
    durations_s: dict[str, float]  # of requests and benches that have run
    start_up_s: float
    rates: dict[str, float]  # kind of model -> FLOP/s of one rank; "": of any
    imports_s: float = 0.0  # of the first run, unless the start-up has them

    def of_runs(self, runs: Sequence[PlannedRun]) -> float:
        """Of several, one after the other."""
        return sum(map(self.of_run, runs)) + self.imports_s * bool(runs)

    def of_run(self, run: PlannedRun) -> float:
        """Of one that is planned; of a bench that has not run it is a guess."""
        if isinstance(run.task, RunFile):
            return self(run.task.request)
        request = run.task.request
        timed = len(request.collectives) * len(request.sizes_bytes) + len(request.copies) * len(
            request.copy_sizes_bytes
        )
        return self.durations_s.get(run.key, self.start_up_s + ASSUMED_SIZE_S * timed)

    def __call__(self, request: Request) -> float:
        if request.key in self.durations_s:
            return self.durations_s[request.key]
        rate = self.rates.get(request.model.kind, self.rates[""])
        return self.start_up_s + _training_s(request, _step_flops(request) / request.gpus / rate)


def estimator(past: Iterable[RunSummary], on_gpus: bool, benches: Iterable[BenchRecord] = ()) -> Estimator:
    """An estimator from the runs that this machine has on record."""
    durations: dict[str, list[float]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    start_ups = []
    for bench in benches:
        if bench.outcome == "ok" and bench.duration_s:
            durations[key_of(bench)].append(bench.duration_s)
    for run in past:
        if not run.images_per_s:
            continue
        durations[run.key].append(run.duration_s)
        if run.request.measure == "step":
            step_s = run.request.batch_size / run.images_per_s
            start_ups.append(run.duration_s - _training_s(run.request, step_s))
            for kind in (run.request.model.kind, ""):
                rates[kind].append(_step_flops(run.request) / run.request.gpus / step_s)
    durations_s = {key: statistics.median(values) for key, values in durations.items()}
    if not start_ups:
        assumed = ASSUMED_RATE["gpu" if on_gpus else "cpu"]
        basis = "assumed, as no runs of this machine are recorded yet"
        return Estimator(basis, durations_s, ASSUMED_START_UP_S, {"": assumed}, ASSUMED_IMPORTS_S)
    return Estimator(
        f"from {sum(map(len, durations.values()))} runs on this machine",
        durations_s,
        max(0.0, statistics.median(start_ups)),
        {kind: statistics.median(values) for kind, values in rates.items()},
    )


def _training_s(request: Request, step_s: float) -> float:
    """Seconds of the warm-up and the windows."""
    return request.warmup * step_s + request.windows * max(WINDOW_S, request.steps * step_s)


def _step_flops(request: Request) -> float:
    return BACKWARD * request.batch_size * _flops_per_image(request.model, request.image_size)


@cache
def _flops_per_image(model: Model, image_size: int) -> int:
    from resnetx import workloads
    from resnetx.workloads.counts import flops_per_image

    return flops_per_image(workloads.table(model, image_size))
