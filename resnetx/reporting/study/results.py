"""A study as it was measured: its points, each with its runs and the runs of its twins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from resnetx import record
from resnetx.errors import ConfigError, FileError
from resnetx.loading import is_file
from resnetx.record import Brief, BriefReader, StudyFolder, StudyRecord
from resnetx.request import Request, TwinName


@dataclass(frozen=True)
class Point:
    """One point of a study. A point that has not run has no runs."""

    request: Request
    runs: list[Brief]
    twins: dict[TwinName, list[Brief]]

    @property
    def good(self) -> list[Brief]:
        return [run for run in self.runs if run.rates]


@dataclass(frozen=True)
class Results:
    """All that a study's folder holds."""

    study: StudyRecord
    folder: Path
    points: list[Point]
    aside: list[str]  # a sentence for each file that is no record, or that of a run which another one holds

    @property
    def runs(self) -> Iterator[Brief]:
        """Every run of every point and twin, each once: points may share twins."""
        lists = (runs for point in self.points for runs in (point.runs, *point.twins.values()))
        yield from {run.folder: run for runs in lists for run in runs}.values()


def find(path: Path) -> list[StudyFolder]:
    """The studies in a folder, which may be one itself."""
    if is_file(path):
        raise ConfigError(f"{path}: a file; expected a folder that `resnetx sweep` has made")
    found = [StudyFolder(file.parent) for file in sorted(path.rglob(StudyFolder(path).study.name))]
    if not found:
        raise ConfigError(f"{path}: contains no study; expected a folder written by `resnetx sweep`")
    return found


def load(folder: StudyFolder) -> Results:
    """A study from its folder; a record that cannot be read, or is a copy of another, is skipped with a sentence."""
    study: StudyRecord = record.read(folder.study, StudyRecord)
    briefs: list[Brief] = []
    aside, reader = [], BriefReader()
    for run in folder.runs():
        try:
            briefs.append(reader(run))
        except FileError as error:
            aside.append(str(error))
    runs, copies = _apart(briefs, folder)
    return Results(study, folder.path, list(points(study.points, runs)), aside + copies)


def _apart(briefs: Iterable[Brief], folder: StudyFolder) -> tuple[dict[str, list[Brief]], list[str]]:
    """The runs by the key of their request, and a sentence for each further record of a run.

    Of several the one counts that lies where `sweep` puts it: a copy may be older.
    """
    kept: dict[tuple[str, int], Brief] = {}
    copies = []
    for brief in sorted(briefs, key=lambda each: each.folder != folder.run(each.request.slug, each.repeat).path):
        first = kept.setdefault((brief.key, brief.repeat), brief)
        if first is not brief:
            copies.append(f"{brief.folder}: not counted, as {first.folder.name} holds run {brief.repeat} of this point")
    runs: dict[str, list[Brief]] = defaultdict(list)
    for brief in sorted(kept.values(), key=lambda each: each.folder):
        runs[brief.key].append(brief)
    return runs, copies


def points(requests: Iterable[Request], runs: dict[str, list[Brief]]) -> Iterator[Point]:
    """The points of the requests; `runs` by the key of their request."""
    for request in requests:
        twins = {name: runs.get(twin.key, []) for name, twin in request.twins.items()}
        yield Point(request, runs.get(request.key, []), twins)
