"""What is stored at a path: every record of resnetx there, by its kind, so that no verb drops one in silence.

    stored(Path("results/cpu-2core"))       # [Stored("bench", ...), ..., Stored("study", .../quickstart)]

A record lies in a folder of its own, which is what verbs take. Runs of a study, and what a check has measured, are
parts of it.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec

from resnetx import progress, record
from resnetx.errors import FileError
from resnetx.loading import is_file, is_folder
from resnetx.record import RunFolder, StudyFolder
from resnetx.record.accuracy import accuracy_file
from resnetx.record.bench_comparison import bench_comparison_file
from resnetx.record.check import check_file
from resnetx.record.checked_papers import checked_papers_file
from resnetx.record.comparison import comparison_file
from resnetx.record.prediction import prediction_file
from resnetx.record.score import score_file
from resnetx.record.steering import steering_file
from resnetx.record.system_comparison import system_comparison_file

_FILES: dict[str, Callable[[Path], Path]] = {
    "check": check_file,
    "prediction": prediction_file,
    "system comparison": system_comparison_file,
    "comparison": comparison_file,
    "accuracy": accuracy_file,
    "checked papers": checked_papers_file,
    "score": score_file,
    "steering": steering_file,
    "bench comparison": bench_comparison_file,
}
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
        return _FILES[self.kind](self.path) if self.kind in _FILES else RunFolder(self.path).record


def stored(path: Path) -> list[Stored]:
    """The records at a path, a file or a folder, and in all folders below; says which files below cannot be read."""
    if not is_folder(path):
        kind = _kind(path, given=True) if is_file(path) else ""
        return [Stored(kind, path.parent if kind == "study" else path)] if kind else []
    found: list[Stored] = []
    for name, folders, files in os.walk(path):
        own = own_records(Path(name), files)
        found += own
        kinds = {each.kind for each in own}
        if "check" in kinds:
            folders.clear()
        elif "study" in kinds:
            folders[:] = [each for each in folders if not (Path(name, each) / RunFolder(Path()).record).exists()]
        folders.sort()
    return found


def own_records(folder: Path, files: Collection[str]) -> list[Stored]:
    """The records of a folder itself, of which these are the files."""
    found = [Stored(kind, folder) for kind, file_of in _FILES.items() if file_of(folder).name in files]
    if StudyFolder(folder).study.name in files:
        found.append(Stored("study", folder))
    if (file := RunFolder(folder).record).name in files and (kind := _kind(file)):
        found.append(Stored(kind, folder))
    return found


class _Kind(msgspec.Struct):
    kind: str = ""


def _kind(file: Path, given: bool = False) -> str:
    """What a file says that it is; "" where it cannot be read, which is said unless this very file was `given`."""
    try:
        found: _Kind = record.read(file, _Kind, "a record of resnetx")
    except FileError as error:
        if not given:
            progress.skipped(str(error))
        return ""
    return found.kind


# ---- in words


def counted(found: Iterable[Stored]) -> str:
    """ "5 benches and 1 study"."""
    kinds = [each.kind for each in found]
    words = [
        f"{kinds.count(kind)} {kind if kinds.count(kind) == 1 else _PLURALS.get(kind, f'{kind}s')}"
        for kind in dict.fromkeys(kinds)
    ]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def paths_by_kind(found: Sequence[Stored], given: Collection[Path]) -> Iterator[tuple[str, list[str]]]:
    """(kind, the paths to give for all of it): folders that hold nothing else, as high as the given paths."""
    for kind, each_of in groupby(sorted(found, key=lambda each: each.kind), key=lambda each: each.kind):
        yield kind, list(dict.fromkeys(str(_highest(each, found, given)) for each in each_of))


def listed(paths: Sequence[Path | str], between: str = ", ") -> str:
    """The first of some paths, and how many more there are."""
    more = f" and {len(paths) - _MOST_NAMED} more" * (len(paths) > _MOST_NAMED)
    return between.join(map(str, paths[:_MOST_NAMED])) + more


def _highest(own: Stored, found: Sequence[Stored], given: Collection[Path]) -> Path:
    path = own.path
    while path not in given and path.parent != path:
        beside = {each.kind for each in found if path.parent in (each.path, *each.path.parents)}
        if beside != {own.kind}:
            break
        path = path.parent
    return path
