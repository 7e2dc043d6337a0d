"""A study as it was measured: its points, each with its runs and the runs of its twins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from resnetx import record
from resnetx.errors import ConfigError, FileError
from resnetx.loading import is_file, is_folder
from resnetx.record import RunSummary, RunSummaryReader, StudyFolder, StudyRecord
from resnetx.request import Request, TwinName


@dataclass(frozen=True)
class MeasuredPoint:
    """One point of a study with its runs and those of its twins. A point that has not run has none."""

    request: Request
    runs: list[RunSummary]
    twins: dict[TwinName, list[RunSummary]]

    @property
    def good_runs(self) -> list[RunSummary]:
        return [run for run in self.runs if run.rates]


@dataclass(frozen=True)
class Results:
    """All that a study's folder holds."""

    study: StudyRecord
    folder: Path
    points: list[MeasuredPoint]
    skipped: list[str]  # a sentence for each file that is not a record, or whose run another one holds

    def __repr__(self) -> str:
        runs = sum(1 for _ in self.runs)
        return f"Results of study {self.study.name}: {len(self.points)} cases, {runs} runs, in {self.folder}"

    @property
    def runs(self) -> Iterator[RunSummary]:
        """Every run of every point and twin, each once: points may share twins."""
        lists = (runs for point in self.points for runs in (point.runs, *point.twins.values()))
        yield from {run.folder: run for runs in lists for run in runs}.values()


def find(path: Path) -> list[StudyFolder]:
    """The studies in a folder, which may be one itself."""
    if is_file(path):
        raise ConfigError(f"{path}: a file; expected a folder that `resnetx sweep` has made")
    folders = [StudyFolder(file.parent) for file in sorted(path.rglob(StudyFolder(path).study.name))]
    if not folders:
        if not is_folder(path):
            raise ConfigError(f"{path}: no such folder; expected a folder written by `resnetx sweep`")
        raise ConfigError(f"{path}: contains no study; expected a folder written by `resnetx sweep`")
    return folders


def load(folder: StudyFolder) -> Results:
    """A study from its folder; a record that cannot be read, or is a copy of another, is skipped with a sentence."""
    study = record.read(folder.study, StudyRecord)
    summaries: list[RunSummary] = []
    skipped, read_summary = [], RunSummaryReader()
    for run in folder.runs():
        try:
            summaries.append(read_summary(run))
        except FileError as error:
            skipped.append(str(error))
    runs, copies = _without_copies(summaries, folder)
    return Results(study, folder.path, list(points(study.points, runs)), skipped + copies)


def _without_copies(
    summaries: Iterable[RunSummary], folder: StudyFolder
) -> tuple[dict[str, list[RunSummary]], list[str]]:
    """The runs by the key of their request, and a sentence for each further record of a run.

    Of several the one counts that lies where `sweep` puts it: a copy may be older.
    """
    found: dict[tuple[str, int], list[RunSummary]] = defaultdict(list)
    for run in summaries:
        found[run.key, run.repeat].append(run)
    kept, copies = [], []
    for same in found.values():
        if len(same) > 1:  # where a run belongs takes longer to tell than to read it
            same.sort(key=lambda run: run.folder != folder.run(run.request.slug, run.repeat).path)
        first, *others = same
        kept.append(first)
        copies += [
            f"{run.folder}: not counted, as {first.folder.name} holds run {run.repeat} of this case" for run in others
        ]
    runs: dict[str, list[RunSummary]] = defaultdict(list)
    for run in sorted(kept, key=lambda run: run.folder):
        runs[run.key].append(run)
    return runs, copies


def points(requests: Iterable[Request], runs: dict[str, list[RunSummary]]) -> Iterator[MeasuredPoint]:
    """The points of the requests; `runs` by the key of their request."""
    for request in requests:
        twins = {name: runs.get(twin.key, []) for name, twin in request.controls.items()}
        yield MeasuredPoint(request, runs.get(request.key, []), twins)


def study_labels(studies: Sequence[Results]) -> list[str]:
    """What tells studies apart: their node, their name, or both, else their folder; "" for a study that is alone."""
    if len(studies) == 1:
        return [""]
    for parts in (["node"], ["name"], ["node", "name"]):
        labels = [" ".join(getattr(results.study, part) for part in parts) for results in studies]
        if len(set(labels)) == len(labels):
            return labels
    return [str(results.folder) for results in studies]
