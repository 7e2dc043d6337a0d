"""The runs of a study: which there are, in which order, and which of them an earlier start has settled.

The order is random but seeded: a machine that warms up or is shared by the hour then favours no point.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.loading import is_file
from resnetx.measure.launch import slurm
from resnetx.measure.launch.launcher import UNFINISHED
from resnetx.measure.machine.environment import has_changes, identity, revision, same_code
from resnetx.record import (
    BenchFile,
    RecordError,
    RunFile,
    RunFolder,
    RunRecord,
    StudyFolder,
    StudyRecord,
    TaskRecord,
)
from resnetx.record.tasks import Stop
from resnetx.request import Request, TwinName

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
        found: TaskRecord = record.read(self.folder.record, self.task.record_type)
        return found

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
        study_record: StudyRecord = record.read(folder.study, StudyRecord)
        return study_record
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
    return "; ".join(differences) or "its points combine the same settings differently"


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
