"""A page, figures and tables of anything that is stored, in any mixture; and figures of what the library returns."""

import getpass
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import msgspec

from resnetx import progress, record
from resnetx.api import drawings
from resnetx.api import stored as predictions
from resnetx.api.drawings import kept_answer, note_undrawn
from resnetx.api.stored import (
    MeasuredStudy,
    Stored,
    bench_files,
    counted,
    loaded_study,
    out_and_baseline,
    stored,
)
from resnetx.compose import asked
from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.systems.system import System, names
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, RunFolder, RunRecord, StudyFolder, StudyRecord
from resnetx.record.comparisons import Accuracy, SystemComparison
from resnetx.record.literature import Score
from resnetx.record.prediction import Prediction
from resnetx.record.publishable import Names, published
from resnetx.record.topologies import Check, Steering
from resnetx.record.traces import Trace, observations
from resnetx.reporting.study_points import study_points
from resnetx.reporting.study_scaling import Results
from resnetx.settings import keywords
from resnetx.settings.files import given_path

if TYPE_CHECKING:  # imported where they are needed: a study of thousands of runs has a page within seconds
    from resnetx.api.describe import Workloads
    from resnetx.reporting.charts.figure import AnyChart, Figure
    from resnetx.reporting.page import Part


def report(*results: keywords.Text | MeasuredStudy, **settings: Unpack[keywords.ReportKeywords]) -> Path:
    """Writes the report of results in folders, or of studies as loaded; returns the page.

    Conclusions stand first, then figures and tables, which are files beside it, too. Any mixture of records has one
    page; studies alone have the fuller one, with every run, which they have in a folder of their own beside others.
    """
    return written_report(results, settings)[0]


def written_report(results: Sequence[keywords.Text | MeasuredStudy], settings: Mapping[str, Any]) -> tuple[Path, str]:
    """Writes the report; returns its page, and what it shows: "5 benches and 1 study"."""
    if not results:
        raise ConfigError("report: nothing given; expected folders written by `resnetx sweep`, `bench` or the like")
    given = asked("report", settings)
    target = given.pop("publish", None)
    out, baseline = out_and_baseline(given)
    paths = [given_path(result) for result in results if not isinstance(result, MeasuredStudy)]
    records = {path: stored(path) for path in paths if is_folder(path)}
    answers = {path: kept_answer(path) for path, found in records.items() if not found}
    left_out = list(filter(None, answers.values()))
    if left_out and len(left_out) == len(results):
        raise ConfigError(f"{left_out[0]}; expected what was measured or predicted, or a system")
    for sentence in left_out:
        progress.skipped(sentence)
    paths = [path for path in paths if not answers.get(path)]  # no page of others takes in an answer alone
    found, systems = _found(paths, records)
    found += [Stored("study", study.folder) for study in results if isinstance(study, MeasuredStudy)]
    if target:
        folders = [result.folder if isinstance(result, MeasuredStudy) else given_path(result) for result in results]
        copied = publish(folders, str(target))
        return written_report([copied], {"out": copied / "report", **given})
    known = {study.folder.resolve(): study.results for study in results if isinstance(study, MeasuredStudy)}
    studies = [entry for entry in found if entry.kind == "study"]
    if baseline is not None and not studies:
        raise ConfigError(f"baseline={baseline}: only for studies; {_plural(found)} have no speed-ups")
    answered = len(left_out)
    if len(studies) == len(found) and not systems:
        page = _studies(studies, known, out, baseline, left_out)
    else:
        folder = out or (_beside(paths[0], found) if found else Path("report"))
        page = _of_all(found, systems, known, folder, baseline, left_out)
    unread = len(left_out) - answered
    lacking = f", but for {unread} that could not be read" * bool(unread)
    return page, counted([*found, *(Stored("system", Path(system.name)) for system in systems)]) + lacking


def _plural(found: Sequence[Stored]) -> str:
    return counted([found[0], found[0]]).removeprefix("2 ") if found else "systems"


def _found(paths: Sequence[Path], in_folders: Mapping[Path, list[Stored]]) -> tuple[list[Stored], list[System]]:
    """All records at the paths, each once, and the systems that paths are files or names of."""
    found: dict[Path, Stored] = {}
    systems: list[System] = []
    for path in paths:
        machine = _system(path)
        records = [] if machine else in_folders[path] if path in in_folders else stored(path)
        if machine:
            systems.append(machine)
        elif not records:
            raise ConfigError(_nothing_at(path))
        found |= {entry.file.resolve(): entry for entry in map(_whole, records)}
    return list(found.values()), systems


def _whole(entry: Stored) -> Stored:
    """What a rank of a job has seen is a part of what all of them have."""
    return Stored("observed job", entry.file.parent.parent) if entry.kind == "observation" else entry


def _system(path: Path) -> System | None:
    named = str(path) in names() and not is_folder(path)
    if not named and not (path.suffix in (".yaml", ".yml") and is_file(path)):
        return None
    from resnetx.api.systems import load_system

    return load_system(str(path))


def _nothing_at(path: Path) -> str:
    expected = "expected one written by `resnetx sweep`, `bench`, `predict` or the like"
    if not is_folder(path) and not is_file(path):
        return f"{path}: no such folder; {expected}, or a system"
    return f"{path}: contains no record of resnetx; {expected}"


# In this order: what compares comes before what is compared, what was measured before what was predicted.
_ORDER = (
    "system comparison", "comparison", "bench comparison", "accuracy", "checked papers", "score", "check", "study",
    "run", "bench", "observed job", "trace", "prediction", "steering",
)  # fmt: skip


def _of_all(
    found: Sequence[Stored],
    systems: Sequence[System],
    results: Mapping[Path, Results],
    folder: Path,
    baseline: int | None,
    left_out: list[str],
) -> Path:
    """The page of any mixture. `left_out`: what was given and is no record, a sentence each; it takes in more."""
    from resnetx.api import pages
    from resnetx.api.load import read_record
    from resnetx.traces import read_all

    parts: list[Part] = []
    by_kind = sorted(found, key=lambda each: _ORDER.index(each.kind) if each.kind in _ORDER else len(_ORDER))
    predicted = {entry.path: entry for entry in found if entry.kind == "prediction"}
    compared = {entry.path for entry in found if entry.kind == "system comparison"}
    benches: list[BenchRecord] = []
    traced: set[Path] = set()  # folders of runs that were timed layer by layer: those of a trace lie side by side
    with progress.waiting("reading records and drawing"):
        for entry in by_kind:
            if entry.kind == "prediction" and entry.path in compared:
                continue  # a part of the comparison that was made of it
            try:
                if entry.kind == "study":
                    below = f"studies/{len(parts) + 1}-{entry.path.name}"
                    parts.append(_study(entry, results, folder, below, baseline))
                elif entry.kind == "bench":
                    benches.append(record.read(entry.file, BenchRecord))
                elif entry.kind == "system comparison":
                    prediction = predictions.read(entry.path) if entry.path in predicted else None
                    parts.append(pages.of_comparison(record.read(entry.file, SystemComparison), prediction))
                elif entry.kind == "observed job":
                    parts.append(pages.of_job(observations(entry.path), str(entry.path)))
                else:
                    found_record = read_record(entry.file)
                    if not (isinstance(found_record, RunRecord) and found_record.request.measure == "layers"):
                        parts.append(pages.part_of(found_record, str(entry.path)))
                    elif entry.path.parent not in traced:
                        traced.add(entry.path.parent)
                        parts += [pages.part_of(trace, str(entry.path.parent)) for trace in read_all(entry.path.parent)]
            except FileError as error:
                left_out.append(str(error))
                progress.skipped(str(error))
        if benches:
            parts.append(pages.of_benches(benches))
        parts += map(pages.part_of, systems)
    if not parts:
        raise ConfigError("report: none of the given records can be read; expected at least one")
    return pages.store_page(parts, folder, counted(found) if len(parts) > 1 and found and not traced else "", left_out)


def _study(study: Stored, known: Mapping[Path, Results], folder: Path, below: str, baseline: int | None) -> "Part":
    """A study beside others: its figures, and its own page in a folder below."""
    from resnetx.api import pages
    from resnetx.reporting import page
    from resnetx.reporting.charts.studies import figures

    results = known.get(study.path.resolve()) or loaded_study(StudyFolder(study.path))
    measured = MeasuredStudy(results, study_points([results], baseline))
    page.write([results], folder / below, baseline)
    return pages.of_study(measured, figures(measured.points), f"{below}/index.html")


def _beside(path: Path, found: Sequence[Stored]) -> Path:
    """Where a page goes unless `out` says: into a folder of several records, but beside the folder of one."""
    own = path if is_folder(path) else path.parent
    if all(own != entry.path for entry in found) and is_folder(path):
        return path / "report"
    return own.parent / "report" / own.name


def _studies(
    studies: Sequence[Stored],
    results: Mapping[Path, Results],
    out: Path | None,
    baseline: int | None,
    unreadable: list[str],
) -> Path:
    """The page of studies, of which some are `known`; where `out` does not say, in the folder of the first one."""
    from resnetx.reporting import page

    folders = {study.path.resolve(): StudyFolder(study.path) for study in studies}
    loaded = []
    with progress.waiting("reading records and drawing"):
        for path, folder_of in folders.items():
            try:
                loaded.append(results.get(path) or loaded_study(folder_of))
            except FileError as error:
                unreadable.append(str(error))
                progress.skipped(str(error))
        if not loaded:
            raise ConfigError("report: none of the given studies can be read; expected at least one")
        folder = out or StudyFolder(loaded[0].folder).report
        with drawings.writing(folder, "; give another folder"):
            written = page.write(loaded, folder, baseline, unreadable)
    note_undrawn()
    return written


# A copy of studies and benches that can be published, without what names the machine, its users and its files.


def publish(paths: Sequence[Path], target: str | Path) -> Path:
    """Writes the records of all studies and benches in some folders into a new one; returns it.

    Only records are copied: neither logs nor run files. Each can be read, compared and reported as the original.
    """
    from resnetx.measure.launch import write

    folder = refuse_taken(target)
    studies = [StudyFolder(file.parent) for path in paths for file in sorted(path.rglob(StudyFolder(path).study.name))]
    beside = {bench.record for study in studies for bench in study.benches()}
    benches = [file for path in paths for file in bench_files(path) if file not in beside]
    if not studies and not benches:
        raise ConfigError(f"publish={target}: {paths[0]} contains no study and no bench")
    names = _names(studies, benches)
    for study in studies:
        _publish_study(study, folder, names)
    for file in benches:
        with _skipping_unreadable():
            found = published(record.read(file, BenchRecord), names)
            slug = found.request.slug if found.request else "imported"
            write(RunFolder(_new(folder / "bench" / slug)).record, found)
    return folder


def refuse_taken(target: str | Path) -> Path:
    """The folder for a copy; refuses one in which something is."""
    folder = given_path(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"publish={target}: exists, and is no empty folder; give a new one")
    return folder


def _names(studies: Sequence[StudyFolder], benches: Sequence[Path]) -> Names:
    """All that is replaced: what the records name, and this user and host."""
    names = Names()
    for read, kind in _files(studies, benches):
        with suppress(FileError):
            names.gather(msgspec.to_builtins(record.read(read, kind)))
    with suppress(OSError, KeyError):  # a user without a name
        names.add("user", getpass.getuser())
    names.add("node", platform.node())
    names.add("user", Path.home().name)
    return names


def _files(studies: Sequence[StudyFolder], benches: Sequence[Path]) -> Iterator[tuple[Path, type]]:
    for study in studies:
        yield study.study, StudyRecord
        yield from ((run.record, RunRecord) for run in study.runs())
        yield from ((bench.record, BenchRecord) for bench in study.benches())
    yield from ((file, BenchRecord) for file in benches)


def _publish_study(study: StudyFolder, folder: Path, names: Names) -> None:
    from resnetx.measure.launch import write

    with _skipping_unreadable():
        found = published(record.read(study.study, StudyRecord), names)
        target = StudyFolder(_new(folder / names.without(study.path.name)))
        write(target.study, found)
        for run in study.runs():
            with _skipping_unreadable():
                ran = published(record.read(run.record, RunRecord), names)
                write(target.run(ran.request.slug, ran.repeat).record, ran)
        for bench in study.benches():
            with _skipping_unreadable():
                timed = published(record.read(bench.record, BenchRecord), names)
                write(target.path / bench.record.relative_to(study.path), timed)


@contextmanager
def _skipping_unreadable() -> Iterator[None]:
    try:
        yield
    except FileError as error:
        progress.skipped(str(error))


def _new(folder: Path) -> Path:
    """The folder, or one beside it where another study or bench of its name is published, too."""
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return folder if not folder.exists() else next(name for name in names if not name.exists())


HasFigures: TypeAlias = """(
    MeasuredStudy | BenchRecord | SystemComparison | Accuracy | Prediction | Steering | Workloads | System
    | Trace | Check | Score
)"""


def figures(of: HasFigures) -> "dict[str, AnyChart]":
    """Figures by name, as Altair charts: a notebook shows them, and `chart.save("it.html")` keeps one.

    Of a study, of a bench, of a comparison of systems (`compare(systems=...)`), of predictions, also beside a study, of
    workloads (`describe`), of a trace, of a check, of a score, of a steering, or of a system (`load("mine.yaml")`): its
    links. Timelines of predictions that were made with `timeline=True`.
    One with nothing to show has none.
    """
    return {figure.name: figure.chart for figure in _figures(of)}


def _figures(of: HasFigures) -> "Iterator[Figure]":
    from resnetx.api.describe import Workloads
    from resnetx.reporting.charts.benches import figures as bench_figures
    from resnetx.reporting.charts.predictions import accuracy_figure, prediction_figures, score_figures, timelines
    from resnetx.reporting.charts.records import check_figures, counted_figures, trace_figures
    from resnetx.reporting.charts.studies import figures as study_figures
    from resnetx.reporting.charts.systems import system_figures
    from resnetx.reporting.charts.topology import matrices

    match of:
        case System():
            yield drawings.of_system(of)
        case BenchRecord():
            yield from bench_figures([of])
        case MeasuredStudy():
            yield from study_figures(of.points)
        case SystemComparison():
            yield from system_figures(of)
        case Trace():
            yield from trace_figures(of)
        case Check():
            yield from check_figures(of)
        case Score():
            yield from score_figures(of)
        case Steering():
            yield matrices(of)
        case Workloads():
            yield from counted_figures(of, of.gpus)
        case Prediction():
            yield from prediction_figures(of.points)
            yield from timelines([point for point in of.points if point.timeline])
        case Accuracy() if any(point.error is not None for point in of.points):
            yield accuracy_figure(of)
        case Accuracy():
            return
        case _:
            raise ConfigError(f"figures of a {type(of).__name__}: expected a study, systems compared, or the like")
