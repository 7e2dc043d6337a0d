"""Measured studies: their points with rates, speed-ups and what limits them."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.record import RunSummary, StudyFolder
from resnetx.reporting.study import export, results
from resnetx.reporting.study.answer import shown_study
from resnetx.reporting.study.points import StudyPoint, study_points
from resnetx.reporting.study.results import Results
from resnetx.table import Answer, Record, Tabular


@dataclass(frozen=True, repr=False)
class MeasuredStudy(Tabular):
    """A study as it is on disk. Its rows are those of `points.csv` in a report (`resnetx.reporting.study.export`)."""

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
        return export.points_table(self.points).records()


def measured_study(
    folder: StudyFolder, baseline: int | None = None, only: Collection[str] | None = None
) -> MeasuredStudy:
    """The study in a folder. `baseline`: GPUs that speed-ups are over; `only`: keys of the points that are wanted."""
    loaded = loaded_study(folder)
    return MeasuredStudy(loaded, study_points([loaded], baseline, only))


def loaded_study(folder: StudyFolder) -> Results:
    """The results in a folder; says which of its files are skipped."""
    loaded = results.load(folder)
    for sentence in loaded.skipped:
        progress.skipped(sentence)
    return loaded


def only_study(path: Path) -> StudyFolder:
    """The one study in a folder, which may be the study itself."""
    found = results.find(path)
    if len(found) > 1:
        names = ", ".join(str(folder.path.relative_to(path)) for folder in found)
        raise ConfigError(f"{path}: contains {len(found)} studies; give the folder of one of them: {names}")
    return found[0]
