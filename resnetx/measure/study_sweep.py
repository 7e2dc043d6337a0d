"""Sweep: a study, run after run, each a fresh process; what is finished is kept when it is started again.

A point that finds no memory, or no end, is not tried again; nor are its twins.
"""

import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import msgspec

from resnetx.choices import Model
from resnetx.errors import ConfigError
from resnetx.host import flock
from resnetx.measure.held_clock import held
from resnetx.measure.launch import launcher
from resnetx.measure.launch.scratch import not_writable
from resnetx.measure.study_runs import PlannedRun
from resnetx.record import BenchFile, BenchRecord, RunFile, RunRecord, RunSummary, StudyFolder, TaskRecord
from resnetx.request import WINDOW_S, Request
from resnetx.statistics import summarize

FAILURES = 2  # of one point or twin, after which it is given up

# Chooses the next of the remaining runs, or None to leave them undone, by the records of the runs that have ended.
ChooseRun = Callable[[list[PlannedRun], list[TaskRecord]], PlannedRun | None]


def in_order(remaining: list[PlannedRun], _: list[TaskRecord]) -> PlannedRun | None:
    """The next run of the plan."""
    return remaining[0]


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
    """Chooses runs (a `sweep.Choice`) until the time is spent.

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
        for record in ended:
            seen[key_of(record)].append(record)
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
# For a machine on which nothing has run. Start-up: this tool on two cores of a Xeon (imports, torchrun, DDP, DALI).
# Rates of ResNet/8 in fp32, of one rank: 122 GFLOP/s on one core of that Xeon; the GPU's is a guess.
ASSUMED_START_UP_S = 12.0
ASSUMED_RATE = {"cpu": 1.2e11, "gpu": 1e13}
ASSUMED_SIZE_S = 1.0  # of a size of a bench: a guess, as the GPU's rate is


@dataclass(frozen=True)
class Estimator:
    """Seconds of a run on this machine. `basis` says what the answers rest on."""

    basis: str
    durations_s: dict[str, float]  # of requests and benches that have run
    start_up_s: float
    rates: dict[str, float]  # kind of model -> FLOP/s of one rank; "": of any

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
        return Estimator(basis, durations_s, ASSUMED_START_UP_S, {"": assumed})
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
