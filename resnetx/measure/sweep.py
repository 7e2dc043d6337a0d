"""Sweep: a study, run after run, each a fresh process; finished runs are kept when it is started again.

The order is random but seeded: a machine that warms up or is shared by the hour then favours no point.
"""

import fcntl
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resnetx import record
from resnetx.config import ConfigError
from resnetx.measure import launch
from resnetx.record import RecordError, RunFile, RunFolder, RunRecord


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep. `obstacle`: why it cannot run here; "" where it can."""

    task: RunFile
    folder: RunFolder
    obstacle: str

    @property
    def finished(self) -> RunRecord | None:
        """Its record from an earlier start of the same sweep, if that run went well."""
        if not self.folder.record.is_file():
            return None
        try:
            found: RunRecord = record.read(self.folder.record, RunRecord)
        except RecordError:
            return None
        same = (
            found.request == self.task.request and found.workload and found.workload.convention == self.task.convention
        )
        return found if found.outcome == "ok" and same else None


def plan(points: list[tuple[RunFile, str]], repeats: int, folder: Path, seed: int) -> list[PlannedRun]:
    """The runs of a study in the order in which they are to be executed; `points` carry the obstacle of each."""
    runs = []
    shuffle = random.Random(seed).shuffle
    for repeat in range(1, repeats + 1):
        turn = list(points)
        shuffle(turn)
        for task, obstacle in turn:
            if obstacle and repeat > 1:
                continue  # one record says that a point cannot run
            name = f"{task.request.slug}_r{repeat}"
            runs.append(PlannedRun(RunFile(**_repeated(task, repeat)), RunFolder(folder / name), obstacle))
    return runs


def _repeated(task: RunFile, repeat: int) -> dict[str, object]:
    return {field: getattr(task, field) for field in task.__struct_fields__} | {"repeat": repeat}


def sweep(runs: list[PlannedRun], done: Callable[[PlannedRun, RunRecord, bool], None]) -> list[RunRecord]:
    """Executes what is not finished, and returns all records in the order of `runs`.

    `done` is called for each run with its record, and whether that was kept from an earlier start.
    """
    records = []
    for run in runs:
        kept = run.finished
        records.append(kept or _execute(run))
        done(run, records[-1], kept is not None)
    return records


def _execute(run: PlannedRun) -> RunRecord:
    return launch.skip(run.task, run.folder, run.obstacle) if run.obstacle else launch.execute(run.task, run.folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder for this sweep alone: two sweeps in it would count each other's runs."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another sweep is at work in {folder}: wait for it, or set results=FOLDER to another folder"
            ) from None
        yield
