"""The runs of a study: which there are, in which order, and which of them an earlier start has settled.

The order is random but seeded: a machine that warms up or is shared by the hour then favours no point.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import msgspec

from resnetx import record
from resnetx.loading import is_file
from resnetx.record import RecordError, RunFile, RunFolder, RunRecord, StudyFolder
from resnetx.request import TwinName

Tell = Callable[[str], object]  # called with a sentence for the user


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep. `obstacle`: why it cannot run here; "" where it can."""

    task: RunFile
    folder: RunFolder
    obstacle: str
    points: frozenset[str]  # keys of its point, or of the points whose twin it is
    twin: TwinName | None  # None: the point itself

    @property
    def key(self) -> str:
        return self.task.request.key

    def earlier(self) -> RunRecord | None:
        """Its record from an earlier start, None if it has none; a `RecordError` if that cannot be read."""
        if not is_file(self.folder.record):
            return None
        found: RunRecord = record.read(self.folder.record, RunRecord)
        return found

    @property
    def settled(self) -> RunRecord | None:
        """Its record from an earlier start of the same sweep, if running it again would tell nothing new."""
        try:
            return self.settled_by(self.earlier())
        except RecordError:
            return None

    def settled_by(self, earlier: RunRecord | None) -> RunRecord | None:
        """An earlier record, if running it again would tell nothing new."""
        if earlier is None or earlier.request != self.task.request:
            return None
        if earlier.outcome == "ok":  # also where it could not run now: a folder or a GPU may be missing for a moment
            return earlier
        endless = earlier.outcome == "timeout" and earlier.timeout_s >= self.task.timeout_s
        return earlier if not self.obstacle and (earlier.outcome == "oom" or endless) else None


def plan(
    points: Iterable[tuple[RunFile, str]],
    *,
    repeats: int,
    twins: int,
    folder: StudyFolder,
    seed: int,
    solo: bool = False,
) -> list[PlannedRun]:
    """The runs of a study in the order in which they are to be executed; `points` carry the obstacle of each.

    `solo`: with that control, too. Twins that points share, and twins that are points themselves, run as often as the
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

    shuffle = random.Random(seed).shuffle
    runs = []
    for repeat in range(1, max((count for _, count in planned.values()), default=0) + 1):
        turn = [run for run, count in planned.values() if count >= repeat]
        shuffle(turn)
        runs += [_repeated(run, repeat, folder) for run in turn]
    return runs


def _repeated(run: PlannedRun, repeat: int, folder: StudyFolder) -> PlannedRun:
    task = msgspec.structs.replace(run.task, repeat=repeat)
    slug = run.folder.path.name.removesuffix("_r1")  # of the request, whose key takes a while
    return replace(run, task=task, folder=folder.run(slug, repeat))


def split_settled(
    runs: Iterable[PlannedRun], unreadable: Tell = lambda _: None
) -> tuple[list[RunRecord], list[PlannedRun]]:
    """What an earlier start has settled, and the runs that are left.

    A record that cannot be read settles nothing: `unreadable` is called with a sentence about it. A record of a newer
    resnetx is an error, as it would be overwritten.
    """
    settled_records, unsettled = [], []
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
