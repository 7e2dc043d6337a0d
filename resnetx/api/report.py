"""A page, figures and tables of studies, of benches, or of steerings."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from resnetx import progress, record
from resnetx.api.benches import bench_files, read_benches
from resnetx.api.compare import out_and_baseline
from resnetx.api.drawings import note_undrawn
from resnetx.api.publish import publish
from resnetx.api.studies import MeasuredStudy, loaded_study
from resnetx.config import given_path
from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.steered import steered
from resnetx.interconnect.system import described
from resnetx.loading import is_file, is_folder
from resnetx.record import StudyFolder
from resnetx.record.steering import Steering, steering_file
from resnetx.settings import keywords
from resnetx.settings.compose import asked

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import AnyChart


def report(*studies: keywords.Text | MeasuredStudy, **settings: Unpack[keywords.ReportKeywords]) -> Path:
    """Writes the report of studies, in folders or as loaded, or of benches or steerings in folders; returns the page.

    Figures and tables are files beside it.
    """
    from resnetx.reporting.pages import study as page

    if not studies:
        raise ConfigError("report: no study given; expected folders written by `resnetx sweep`, e.g. results/")
    given = asked("report", settings)
    if target := given.pop("publish", None):
        copied = publish([_folder_of(study) for study in studies], str(target))
        return report(copied, **{"out": copied / "report", **given})
    out, baseline = out_and_baseline(given)
    paths = [given_path(study) for study in studies if not isinstance(study, MeasuredStudy)]
    if steerings := [path for path in paths if steering_of(path)]:
        if len(steerings) < len(studies):
            raise ConfigError(
                f"{steerings[0]} is a steering; report studies, benches and steerings one after the other"
            )
        return _steerings(steerings, out, baseline)
    if benches := [path for path in paths if bench_files(path)]:
        if len(paths) < len(studies):
            raise ConfigError(f"{benches[0]} has benches; report studies and benches one after the other")
        return _benches(paths, benches, out, baseline)
    found = {folder.path.resolve(): folder for study in studies for folder in _folders(study)}
    known = {study.folder.resolve(): study.results for study in studies if isinstance(study, MeasuredStudy)}
    loaded, unreadable = [], []
    with progress.waiting("reading records and drawing"):
        for path, folder_of in found.items():
            try:
                loaded.append(known.get(path) or loaded_study(folder_of))
            except FileError as error:
                unreadable.append(str(error))
                progress.skipped(str(error))
        if not loaded:
            raise ConfigError("report: none of the given studies can be read; expected at least one")
        folder = out or StudyFolder(loaded[0].folder).report
        try:
            written = page.write(loaded, folder, baseline, unreadable)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    note_undrawn()
    return written


def _folder_of(study: keywords.Text | MeasuredStudy) -> Path:
    return study.folder if isinstance(study, MeasuredStudy) else given_path(study)


def _folders(study: keywords.Text | MeasuredStudy) -> list[StudyFolder]:
    """The study itself, or all that are in a folder."""
    from resnetx.reporting.study import results

    return [StudyFolder(study.folder)] if isinstance(study, MeasuredStudy) else list(results.find(given_path(study)))


def steering_of(path: Path) -> Path | None:
    """The record of a steering at a path; None where there is none."""
    file = steering_file(path) if is_folder(path) else path
    return file if file.name == steering_file(path).name and is_file(file) else None


def _steerings(paths: Sequence[Path], out: Path | None, baseline: int | None) -> Path:
    """The page of steerings; where `out` does not say, in a folder beside the first record."""
    from resnetx.reporting.pages import steering as page

    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for studies; steerings have no speed-ups")
    files = [file for path in paths if (file := steering_of(path))]
    folder = out or files[0].parent / "report"
    with progress.waiting("reading records and drawing"):
        found = [record.read(file, Steering) for file in files]
        try:
            written = page.write(found, [_graphs(each) for each in found], folder)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    note_undrawn()
    return written


def _graphs(made: Steering) -> "AnyChart | None":
    """The links before and after, of a system that is still described where it was."""
    from resnetx.reporting.charts.steering import side_by_side

    try:
        before = described(made.described_by).system
        after = steered(before, made.connectivity_after, made.workload or "a traffic")
    except ConfigError as error:
        progress.skipped(f"{made.described_by}: its links are not drawn: {error}")
        return None
    return side_by_side(before, after)


def _benches(paths: Sequence[Path], benches: Sequence[Path], out: Path | None, baseline: int | None) -> Path:
    """The page of benches; where `out` does not say, in a folder beside the first record."""
    from resnetx.reporting.pages import benches as page

    if others := [path for path in paths if path not in benches]:
        raise ConfigError(f"{others[0]}: {benches[0]} has benches; report studies and benches one after the other")
    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for studies; benches have no speed-ups")
    folder = out or bench_files(benches[0])[0].parent / "report"
    with progress.waiting("reading records and drawing"):
        records = [record for path in benches for record in read_benches(path)]
        try:
            written = page.write(records, folder)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    note_undrawn()
    return written
