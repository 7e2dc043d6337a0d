"""What the verbs that measure share: the file and the folder of a run, and what is said of its variables and copies."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryFile
from typing import Any, Generic

from resnetx import progress
from resnetx.config import RunSettings
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.launching import Launch
from resnetx.loading import is_folder
from resnetx.measure.launch import not_writable, taken
from resnetx.measure.trackers import TrackedCopies
from resnetx.prediction.traced_step import replayed_step
from resnetx.record import (
    SCHEMA,
    BenchRecord,
    BenchRequest,
    Ended,
    ReplayedStep,
    RunFile,
    RunFolder,
    RunRecord,
    TaskFile,
    TaskRecord,
)
from resnetx.request import Request
from resnetx.settings import setting_types
from resnetx.settings.table import TABLE
from resnetx.settings.verbs import group_of
from resnetx.study import Point
from resnetx.units import duration, si
from resnetx.variables import check_file_variables, opening, unlisted


@dataclass(frozen=True)
class KeptRecord(Generic[Ended]):
    """A record, and the folder that holds it."""

    record: Ended
    folder: RunFolder


def run_file(request: Request, settings: RunSettings, name: str | None) -> RunFile:
    """The run file of a request; `name`: of its study, if it has one."""
    return RunFile(
        schema=SCHEMA,
        request=request,
        study=name,
        repeat=1,
        timeout_s=settings.timeout,
        convention=settings.convention,
        tracker=settings.tracker,
        oversubscribe=settings.oversubscribe,
        replay=_replayed(request, request.share(0)),
        replay_fewer=_replayed(request, request.share(request.gpus - 1)) if request.split == "uneven" else None,
        launch=settings.launch,
    )


def _replayed(request: Request, images: int) -> ReplayedStep | None:
    """What a rank with so many images waits out; None where it computes."""
    if request.replay is None:
        return None
    from resnetx import workloads

    return replayed_step(request, workloads.table(request.model, request.image_size), images)


def fed(given: Point) -> Point:
    """The settings with synthetic input where nobody says what is read, and the usual folder of images is not there."""
    usual = Path(TABLE["input.root"].default)
    silent = (
        "study" in given
        or given.get("measure") == "input"
        or given.get("model") == "python"  # which makes its own batches
        or any(group_of(key) in ("input", "launcher") for key in given)
    )
    if silent or is_folder(usual):
        return given
    return {**given, "input": "synthetic"}


def note_fed(given: Point, read: Point) -> None:
    """Says that input is synthetic where nobody has asked for that, once all else is checked."""
    if read.get("input") != given.get("input"):
        usual = TABLE["input.root"].default
        progress.note(f"No images in {usual}: synthetic input is used (`resnetx images` makes files)")


def page(folders: Sequence[Path], out: Any) -> None:
    """Writes a page of what was measured to the folder that `out=` names, if it names one, and a single record."""
    if out is None:
        return
    from resnetx.api.report import report
    from resnetx.api.stored import stored

    if len(found := [entry for folder in folders for entry in stored(folder)]) == 1 and found[0].kind != "study":
        target = Path(str(out)) / found[0].file.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(found[0].file, target)
        except OSError as error:
            raise ConfigError(f"out={out}: cannot be written ({error.strerror}); give another folder") from None
    try:
        progress.command(f"page: {report(*folders, out=out)}")
    except ConfigError as error:
        kept = " ".join(map(str, folders))
        raise ConfigError(f"{error}; what was measured is kept: resnetx report {kept} out=FOLDER") from None


def refuse_unwritable(out: Any) -> None:
    """Refuses a folder of `out=` that cannot be written, before anything is measured for it."""
    if out is None:
        return
    folder = Path(str(out))
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
        with TemporaryFile(dir=there, buffering=0) as file:
            file.write(b"0")
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be written ({error.strerror}); give another folder") from None


def machine_name(launch: Launch | None) -> str:
    """The folder of results of what measures: this node, or a cluster, whose jobs differ in nodes."""
    from resnetx.measure.launch import slurm

    if launch is None:
        return node_name()
    of_slurm = launch.launcher == "slurm" or slurm.inside()  # a job may start mpirun, too
    return launch.site.name or (slurm.cluster_name() if of_slurm else None) or node_name()


def run_folder(results: Path, verb: str, slug: str, node: str | None = None) -> RunFolder:
    """A new folder for a run that belongs to no study; `node`: where it ran, unless it is this one."""
    return RunFolder(new_folder(results / (node or node_name()) / verb, slug))


def announce(requests: Iterable[Request | BenchRequest], out: Any) -> None:
    """Says which variables may load other code into ranks, as no file could, and which let other hosts reach ranks.

    And that a run waits, where another one is in the lab. Refuses `out` where no page could be written in the end.
    """
    refuse_unwritable(out)
    every = list(requests)
    if any(request.lab for request in every) and taken():
        progress.note("another run is in the lab of this machine; this one waits for its end")
    asked = dict.fromkeys(pair for request in every for pair in {**request.way.gloo, **request.env}.items())
    for name in unlisted(dict.fromkeys(name for name, _ in asked)):
        progress.note(f"env.{name}: set in every rank; may load code or write files", warning=True)
    for name, value in opening(asked):
        progress.note(f"env.{name}={value}: ranks listen there, and accept any connection", warning=True)


def note_copies(copies: TrackedCopies, complaint: str, folder: Path) -> None:
    """What became of the copies for a tracker, of the runs in a folder."""
    if complaint:
        progress.note(complaint)
    if command := copies.upload_command(folder):
        progress.command(f"logged offline; upload with: {command}")


def check_file(task: TaskFile[TaskRecord], path: Path, check_request: Callable[[], None]) -> None:
    """Refuses a run file that asks for what the command line would refuse: it may be written by hand, or by others."""
    try:
        setting_types.check({"timeout": task.timeout_s})
        check_request()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if code := getattr(getattr(task.request, "model", None), "code", ""):
        raise ConfigError(
            f"{path}: names code to run, {code}, and only what you name yourself is run; give the settings of "
            f"the run, with model=python model.file={code}"
        )
    new = {name for name, value in task.request.env.items() if os.environ.get(name) != value}
    check_file_variables(new, str(path))  # which only whoever starts the run may set; the shell's may be repeated


# New folders in the results folder, one for each command, named after the time.


def new_folder(parent: Path, label: str = "") -> Path:
    """Makes a new folder: "20260131T235959123_LABEL", UTC to the millisecond.

    If another command started in the same millisecond, or the clock was set back, it is "20260131T235959123-2_LABEL".
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
    names = (stamp + f"-{attempt}" * (attempt > 1) + f"_{label}" * bool(label) for attempt in count(1))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return next(folder for folder in (parent / name for name in names) if _made(folder))
    except OSError as error:
        raise not_writable(parent, error) from None


def _made(folder: Path) -> bool:
    """Makes the folder, unless it is there."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


# One run in one line: its point, and how fast it was or why it has no figures.


def run_line(record: TaskRecord, twin: str | None = None) -> str:
    """One run in one line; `twin`: which of its point's twins it is."""
    if isinstance(record, BenchRecord):
        return _bench_line(record)
    point = run_words(record, twin)
    if record.images_per_s is None or record.iterations_per_s is None:
        return f"{point}: {record.outcome}: {record.reason}"
    rate = f"{si(record.images_per_s)} {record.request.model.samples}/s, {si(record.iterations_per_s)} iterations/s"
    return f"{point}: {rate} ({duration(record.duration_s)} in all)"


def run_words(record: RunRecord, twin: str | None = None) -> str:
    """What a run was of; `twin`: which of its case's controls it is."""
    request = record.request
    point = f"{request.model.label}, batch {request.batch_size}, {request.precision}, gpus={request.gpus}"
    if record.devices and record.devices[0].name == "CPU":  # whose rate they decide
        point += f", threads={request.threads}"
    if request.measure == "layers":
        point += ", layer by layer"
    elif request.strategy.kind != "bucket" and twin != "alone":
        point += f", strategy={request.strategy.kind}"
    point += "".join(f", {word}" for word in request.unusual)
    point += "".join(f", {name}={value}" for name, value in request.env.items())
    point += f", devices={request.devices}" * bool(request.devices) + f", control run {twin}" * bool(twin)
    return point


def _bench_line(record: BenchRecord) -> str:
    assert record.request, "a bench that was run here"
    request = record.request
    names = ", ".join([*request.collectives, *request.patterns, *(f"copy={name}" for name in request.copies)])
    what = f"bench of {names}, gpus={record.request.gpus}"
    if record.outcome != "ok":
        return f"{what}: {record.outcome}: {record.reason}"
    times = len(record.points) + len(record.cells)
    return f"{what}: {times} medians ({duration(record.duration_s or 0.0)} in all)"
