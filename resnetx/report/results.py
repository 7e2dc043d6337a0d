"""A study as it was measured: its points, each with its runs and the runs of its twins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from resnetx import record
from resnetx.config import ConfigError, Request, TwinName
from resnetx.record import Brief, BriefReader, RecordError, StudyFolder, StudyRecord


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
    aside: list[str]  # a sentence for each file that is no record

    @property
    def runs(self) -> Iterator[Brief]:
        """Every run of every point and twin."""
        for point in self.points:
            yield from point.runs
            for twins in point.twins.values():
                yield from twins


def find(path: Path) -> list[StudyFolder]:
    """The studies in a folder, which may be one itself."""
    found = [StudyFolder(file.parent) for file in sorted(path.rglob(StudyFolder(path).study.name))]
    if not found:
        raise ConfigError(f"{path}: no study below it; expected a folder that `resnetx sweep` has made")
    return found


def load(folder: StudyFolder) -> Results:
    """A study from its folder; a run whose record cannot be read is set aside with a sentence."""
    study: StudyRecord = record.read(folder.study, StudyRecord)
    runs: dict[str, list[Brief]] = defaultdict(list)
    aside, reader = [], BriefReader()
    for run in folder.runs():
        try:
            brief = reader(run)
        except RecordError as error:
            aside.append(str(error))
        else:
            runs[brief.key].append(brief)
    return Results(study, folder.path, list(points(study.points, runs)), aside)


def points(requests: Iterable[Request], runs: dict[str, list[Brief]]) -> Iterator[Point]:
    """The points of the requests; `runs` by the key of their request."""
    for request in requests:
        twins = {name: runs.get(twin.key, []) for name, twin in request.twins.items()}
        yield Point(request, runs.get(request.key, []), twins)
