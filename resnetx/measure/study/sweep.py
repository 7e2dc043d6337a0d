"""Sweep: a study, run after run, each a fresh process; what is finished is kept when it is started again.

A point that finds no memory, or no end, is not tried again; nor are its twins.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from resnetx.errors import ConfigError
from resnetx.host import flock
from resnetx.measure.clocks.held import held
from resnetx.measure.launch import launcher
from resnetx.measure.launch.results_folder import not_writable
from resnetx.measure.study.plan import PlannedRun
from resnetx.record import RunRecord, StudyFolder

FAILURES = 2  # of one point or twin, after which it is given up

# Chooses the next of the remaining runs, or None to leave them undone, by the records of the runs that have ended.
ChooseRun = Callable[[list[PlannedRun], list[RunRecord]], PlannedRun | None]


def in_order(remaining: list[PlannedRun], _: list[RunRecord]) -> PlannedRun | None:
    """The next run of the plan."""
    return remaining[0]


def sweep(
    runs: list[PlannedRun],
    kept: list[RunRecord],
    done: Callable[[PlannedRun, RunRecord | None], None],
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
        with held(run.task.request):
            ended.append(launcher.execute(msgspec.structs.replace(run.task, timeout_s=limit_s), run.folder))
        done(run, ended[-1])
    return left


def given_up(run: PlannedRun, ended: Iterable[RunRecord]) -> bool:
    """Whether this run, or every point whose twin it is, has shown that another try would end in the same way."""
    return pointless(run, hopeless(ended))


def hopeless(ended: Iterable[RunRecord]) -> set[str]:
    """The keys of what has shown that another try would end in the same way."""
    outcomes = Counter((run.request_key, run.outcome) for run in ended)
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
        try:
            flock(lock, wait=False)
        except BlockingIOError:
            raise ConfigError(
                f"another sweep is running in {folder.path}: wait for it, or set results=FOLDER to another folder"
            ) from None
        yield
