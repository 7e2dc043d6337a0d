"""What is stored at a path: every record of resnetx there, by its kind, so that no verb drops one in silence.

    stored(Path("results/cpu-2core"))       # [Stored("bench", ...), ..., Stored("study", .../quickstart)]

A record lies in a folder of its own, which is what verbs take. Runs of a study, and what a check has measured, are
parts of it.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec

from resnetx import packages, progress, record
from resnetx.api import drawings
from resnetx.errors import ConfigError, FileError
from resnetx.loading import is_file, is_folder
from resnetx.record import FILES, BenchRecord, RunFolder, RunSummary, StudyFolder, record_file
from resnetx.record.prediction import Prediction, digest
from resnetx.reporting import csv_tables, study_scaling
from resnetx.reporting.study_points import StudyPoint, shown_study, study_points
from resnetx.reporting.study_scaling import Results
from resnetx.settings import setting_types
from resnetx.study import Point
from resnetx.table import Answer, Record, Tabular

_PLURALS = {"study": "studies", "bench": "benches", "accuracy": "accuracies", "checked papers": "checked papers"}
_MOST_NAMED = 5  # paths, in a sentence


@dataclass(frozen=True)
class Stored:
    """A record: its kind, and the path that verbs take: its folder, or the file that was given."""

    kind: str
    path: Path

    @property
    def file(self) -> Path:
        """The file of the record."""
        if not is_folder(self.path):
            return self.path
        if self.kind == "study":
            return StudyFolder(self.path).study
        return record_file(self.kind, self.path) if self.kind in FILES else RunFolder(self.path).record


def stored(path: Path) -> list[Stored]:
    """The records at a path, a file or a folder, and in all folders below; says which files below cannot be read."""
    if not is_folder(path):
        kind = _kind(path, given=True) if is_file(path) else ""
        return [Stored(kind, path.parent if kind == "study" else path)] if kind else []
    found: list[Stored] = []
    for name, folders, files in os.walk(path):
        own = own_records(Path(name), files)
        found += own
        kinds = {entry.kind for entry in own}
        if "check" in kinds:
            folders.clear()
        elif "study" in kinds:
            folders[:] = [folder for folder in folders if not (Path(name, folder) / RunFolder(Path()).record).exists()]
        folders.sort()
    return found


def own_records(folder: Path, files: Collection[str]) -> list[Stored]:
    """The records of a folder itself, of which these are the files."""
    found = [Stored(kind, folder) for kind, name in FILES.items() if name in files]
    if StudyFolder(folder).study.name in files:
        found.append(Stored("study", folder))
    if (file := RunFolder(folder).record).name in files and (kind := _kind(file)):
        found.append(Stored(kind, folder))
    return found


def _kind(file: Path, given: bool = False) -> str:
    """What a file says that it is; "" where it cannot be read, which is said unless this very file was `given`."""
    try:
        kind = record.read(file, record.RecordKind, "a record of resnetx")
    except FileError as error:
        if not given:
            progress.skipped(str(error))
        return ""
    return kind.kind


# ---- in words


def counted(found: Iterable[Stored]) -> str:
    """ "5 benches and 1 study"."""
    kinds = [entry.kind for entry in found]
    words = [
        f"{kinds.count(kind)} {kind if kinds.count(kind) == 1 else _PLURALS.get(kind, f'{kind}s')}"
        for kind in dict.fromkeys(kinds)
    ]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def paths_by_kind(found: Sequence[Stored], given: Collection[Path]) -> Iterator[tuple[str, list[str]]]:
    """(kind, the paths to give for all of it): folders that hold nothing else, as high as the given paths."""
    for kind, each_of in groupby(sorted(found, key=lambda each: each.kind), key=lambda each: each.kind):
        yield kind, list(dict.fromkeys(str(_highest(entry, found, given)) for entry in each_of))


def listed(paths: Sequence[Path | str], between: str = ", ") -> str:
    """The first of some paths, and how many more there are."""
    more = f" and {len(paths) - _MOST_NAMED} more" * (len(paths) > _MOST_NAMED)
    return between.join(map(str, paths[:_MOST_NAMED])) + more


def _highest(own: Stored, found: Sequence[Stored], paths: Collection[Path]) -> Path:
    path = own.path
    while path not in paths and path.parent != path:
        beside = {entry.kind for entry in found if path.parent in (entry.path, *entry.path.parents)}
        if beside != {own.kind}:
            break
        path = path.parent
    return path


# Measured studies: their points with rates, speed-ups and what limits them.


@dataclass(frozen=True, repr=False)
class MeasuredStudy(Tabular):
    """A study as it is on disk. Its rows are those of `points.csv` in a report (`resnetx.reporting.csv_tables`)."""

    results: Results
    points: list[StudyPoint]

    @property
    def name(self) -> str:
        """Of the study."""
        return self.results.study.name

    @property
    def folder(self) -> Path:
        """That holds all its runs."""
        return self.results.folder

    @property
    def failed(self) -> list[RunSummary]:
        """Runs of these points and their twins that failed, took too long or had too little memory."""
        requests = [point.result.request for point in self.points]
        keys = {key for request in requests for key in (request.key, *(twin.key for twin in request.controls.values()))}
        return [run for run in self.results.runs if run.key in keys and run.outcome in ("failed", "timeout", "oom")]

    def answer(self) -> Answer:
        """How far its workloads scale, as `sweep` shows it."""
        return shown_study(self.points, self.results.study.node)

    def rows(self) -> list[Record]:
        """A row for each point."""
        return list(map(csv_tables.point_row, self.points))


def measured_study(
    folder: StudyFolder, baseline: int | None = None, only: Collection[str] | None = None
) -> MeasuredStudy:
    """The study in a folder. `baseline`: GPUs that speed-ups are over; `only`: keys of the points that are wanted."""
    loaded = loaded_study(folder)
    return MeasuredStudy(loaded, study_points([loaded], baseline, only))


def loaded_study(folder: StudyFolder) -> Results:
    """The results in a folder; says which of its files are skipped."""
    loaded = study_scaling.load(folder)
    for sentence in loaded.skipped:
        progress.skipped(sentence)
    return loaded


def only_study(path: Path) -> StudyFolder:
    """The one study in a folder, which may be the study itself."""
    folders = study_scaling.find(path)
    if len(folders) > 1:
        names = ", ".join(str(folder.path.relative_to(path)) for folder in folders)
        raise ConfigError(f"{path}: contains {len(folders)} studies; give the folder of one of them: {names}")
    return folders[0]


# Stored predictions: `prediction.json`, and of many points `points.parquet` beside it.


def refuse_unwritable(points: int) -> None:
    """Refuses to store so many points where nothing can write their file; asked before they are predicted."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    if points > points_file.MANY_POINTS and (why := packages.obstacle("pyarrow")):
        raise ConfigError(f"out=: {points:,} cases are kept in {points_file.NAME}, and {why}")


def store(made: Prediction, folder: Path) -> Prediction:
    """Writes a prediction to the folder that `out=` names; as it is stored, with all its points."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    if len(made.points) <= points_file.MANY_POINTS:
        made = msgspec.structs.replace(made, points_file=msgspec.UNSET)
        drawings.store_record(folder, record_file("prediction", folder), made)
        (folder / points_file.NAME).unlink(missing_ok=True)  # of a larger prediction that was here before
        return made
    refuse_unwritable(len(made.points))
    with drawings.writing(folder):
        stored = points_file.write_points(folder, made)
    stored = msgspec.structs.replace(stored, digest=digest(stored))
    drawings.store_record(folder, record_file("prediction", folder), stored)
    progress.command(f"points: {folder / points_file.NAME}")
    return msgspec.structs.replace(stored, points=made.points, unknown=made.unknown)


def read(path: Path) -> Prediction:
    """The prediction at a path, or in a folder, with all its points; or a sentence saying why there is none."""
    from resnetx.record import points_file  # with what reads pages of Parquet

    file = record_file("prediction", path) if is_folder(path) else path
    prediction = record.read(file, Prediction)
    if prediction.points_file is not msgspec.UNSET and (why := packages.obstacle("pyarrow")):
        raise ConfigError(f"{file}: its cases are in {points_file.NAME}, and {why}")
    return points_file.read_points(file.parent, prediction)


# Bench records on disk: one file, one folder, or a folder of several.


def bench_files(path: Path) -> list[Path]:
    """The files of the benches at a path: itself, or those of its folder and of all below, unless that is a study's."""
    found = stored(path)
    if Stored("study", path) in found:
        return []
    return [entry.file for entry in found if entry.kind == "bench"]


def read_benches(path: Path) -> list[BenchRecord]:
    """The records of the benches at a path."""
    return [record.read(file, BenchRecord) for file in bench_files(path)]


def out_and_baseline(given: Point) -> tuple[Path | None, int | None]:
    """The settings where studies are read: the folder to write into, and the GPUs that speed-ups are over."""
    for key in given.keys() - {"out", "baseline"}:
        raise ConfigError(f"{key}={given[key]}: only with systems=[...]; studies are compared with out= and baseline=")
    out, baseline = given.get("out"), given.get("baseline")
    if baseline is not None and (not isinstance(baseline, int) or isinstance(baseline, bool)):
        raise ConfigError(f"baseline={baseline}: expected a number of GPUs")
    setting_types.check({"baseline": baseline})
    return Path(str(out)) if out else None, baseline
