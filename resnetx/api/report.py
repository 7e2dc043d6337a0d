"""A page, figures and tables of studies, of benches, or of steerings."""

import getpass
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import msgspec

from resnetx import progress, record
from resnetx.api.drawings import note_undrawn
from resnetx.api.stored import (
    MeasuredStudy,
    Stored,
    bench_files,
    counted,
    listed,
    loaded_study,
    out_and_baseline,
    paths_by_kind,
    stored,
)
from resnetx.compose import asked
from resnetx.errors import ConfigError, FileError
from resnetx.interconnect.systems.rearranged import steered
from resnetx.interconnect.systems.system import described
from resnetx.loading import is_file, is_folder
from resnetx.measure.launch.scratch import write
from resnetx.record import BenchRecord, RunFolder, RunRecord, StudyFolder, StudyRecord
from resnetx.record.publishable import Names, published
from resnetx.record.steering import Steering
from resnetx.reporting.study.results import Results
from resnetx.settings import keywords
from resnetx.settings.files import given_path

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import AnyChart


def report(*studies: keywords.Text | MeasuredStudy, **settings: Unpack[keywords.ReportKeywords]) -> Path:
    """Writes the report of studies, in folders or as loaded, or of benches or steerings in folders; returns the page.

    Figures and tables are files beside it. A page is of one kind: folders that hold several are refused.
    """
    if not studies:
        raise ConfigError("report: no study given; expected folders written by `resnetx sweep`, e.g. results/")
    given = asked("report", settings)
    target = given.pop("publish", None)
    out, baseline = out_and_baseline(given)
    paths = [given_path(study) for study in studies if not isinstance(study, MeasuredStudy)]
    below = {path: stored(path) for path in paths}
    found = [each for each_of in below.values() for each in each_of]
    found += [Stored("study", study.folder) for study in studies if isinstance(study, MeasuredStudy)]
    kind = _the_kind(found, paths)
    for path, records in below.items():
        if not any(each.kind == kind for each in records):
            raise ConfigError(f"{path}: contains no {kind}; the other paths are of {counted(_of(kind, found))}")
    if target:
        copied = publish([_folder_of(study) for study in studies], str(target))
        return report(copied, **{"out": copied / "report", **given})
    if kind == "steering":
        return _steerings(_of(kind, found), out or _beside(paths[0], _of(kind, found)), baseline)
    if kind == "bench":
        return _benches(_of(kind, found), out or _beside(paths[0], _of(kind, found)), baseline)
    known = {study.folder.resolve(): study.results for study in studies if isinstance(study, MeasuredStudy)}
    return _studies(_of(kind, found), known, out, baseline)


def _of(kind: str, found: Sequence[Stored]) -> list[Stored]:
    return [each for each in found if each.kind == kind]


def _the_kind(found: Sequence[Stored], paths: Sequence[Path]) -> str:
    """The one kind of record that a page can be of; of several, a refusal that names them and what to type."""
    kinds = [kind for kind in _PAGES if _of(kind, found)]
    others = [each for each in found if each.kind not in _PAGES]
    itself = {each.kind for each in found if each.path in paths and each.kind in kinds}
    if len(kinds) > 1 and len(itself) == 1 and all(any(each.path == path for each in found) for path in paths):
        kinds = list(itself)  # what lies below a record that was given is not what was asked for
        aside = [each for each in found if each.kind not in kinds]
        progress.skipped(f"{counted(aside)} below: {listed([each.path for each in aside])}; report them by themselves")
        return kinds[0]
    if len(kinds) > 1:
        lines = [
            f"`resnetx report {listed(words, ' ')}`" for kind, words in paths_by_kind(found, paths) if kind in kinds
        ]
        without = f"; there is no page yet of the {counted(others)}" if others else ""
        raise ConfigError(
            f"report: {counted(each for each in found if each.kind in kinds)} given, and a page is of one kind: type "
            f"{' or '.join(lines)}{without}"
        )
    if kinds:
        if others:
            paths_of = [each.path for each in others]
            progress.skipped(f"{counted(others)}, of which there is no page yet: {listed(paths_of)}")
        return kinds[0]
    if not others:
        if not is_folder(paths[0]) and not is_file(paths[0]):
            raise ConfigError(
                f"{paths[0]}: no such folder; expected one written by `resnetx sweep`, `bench` or `steer`"
            )
        raise ConfigError(
            f"{paths[0]}: contains no study, bench or steering; expected a folder written by `resnetx sweep`, `bench` "
            "or `steer`"
        )
    first = others[0]
    shown = _SHOWN_BY.get(first.kind, _LOADED).format(path=first.path)
    article = "an" if first.kind[0] in "aeiou" else "a"
    more = f" (nor of {counted(others[1:])} more)" if others[1:] else ""
    raise ConfigError(f"{first.path}: it is {article} {first.kind}, of which there is no page yet{more}; {shown}")


_PAGES = ("study", "bench", "steering")
_LOADED = 'resnetx.load("{path}") in Python has its rows'
_SHOWN_BY = {
    "prediction": "`resnetx explain {path}` shows where its time goes",
    "system comparison": "`resnetx compare {path}` shows it, and its figures and tables are files there",
    "accuracy": "`resnetx compare` of the prediction and the study shows it, and its figure is a file there",
    "comparison": "`resnetx compare` of the two studies shows it",
    "bench comparison": "`resnetx compare` of the two benches shows it, and its figures are files there",
    "checked papers": "`resnetx compare papers=...` shows it",
    "score": "`resnetx compare score=...` shows it, and its tables are files there",
    "run": 'report the folder of the study that it is part of; resnetx.load("{path}") in Python has its rows',
    "trace": "`resnetx predict {path} systems=[...]` predicts from it",
}


def _beside(path: Path, found: Sequence[Stored]) -> Path:
    """Where a page goes unless `out` says: into a folder of several records, but beside the folder of one."""
    own = path if is_folder(path) else path.parent
    if all(own != each.path for each in found) and is_folder(path):
        return path / "report"
    return own.parent / "report" / own.name


def _studies(studies: Sequence[Stored], known: Mapping[Path, Results], out: Path | None, baseline: int | None) -> Path:
    """The page of studies, of which some are `known`; where `out` does not say, in the folder of the first one."""
    from resnetx.reporting.pages import study as page

    found = {study.path.resolve(): StudyFolder(study.path) for study in studies}
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


def _steerings(steerings: Sequence[Stored], folder: Path, baseline: int | None) -> Path:
    """The page of steerings."""
    from resnetx.reporting.pages import study as page

    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for studies; steerings have no speed-ups")
    with progress.waiting("reading records and drawing"):
        found = [record.read(each.file, Steering) for each in steerings]
        try:
            written = page.write_steering(found, [_graphs(each) for each in found], folder)
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


def _benches(benches: Sequence[Stored], folder: Path, baseline: int | None) -> Path:
    """The page of benches."""
    from resnetx.reporting.pages import study as page

    if baseline is not None:
        raise ConfigError(f"baseline={baseline}: only for studies; benches have no speed-ups")
    with progress.waiting("reading records and drawing"):
        records = [record.read(each.file, BenchRecord) for each in benches]
        try:
            written = page.write_benches(records, folder)
        except OSError as error:
            raise ConfigError(f"out={folder}: cannot be written ({error.strerror}); give another folder") from None
    note_undrawn()
    return written


# A copy of studies and benches that can be published, without what names the machine, its users and its files.


def publish(paths: Sequence[Path], target: str | Path) -> Path:
    """Writes the records of all studies and benches in some folders into a new one; returns it.

    Only records are copied: neither logs nor run files. Each can be read, compared and reported as the original.
    """
    folder = refuse_taken(target)
    studies = [StudyFolder(file.parent) for path in paths for file in sorted(path.rglob(StudyFolder(path).study.name))]
    benches = [file for path in paths for file in bench_files(path)]
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
    yield from ((file, BenchRecord) for file in benches)


def _publish_study(study: StudyFolder, folder: Path, names: Names) -> None:
    with _skipping_unreadable():
        found = published(record.read(study.study, StudyRecord), names)
        target = StudyFolder(_new(folder / names.without(study.path.name)))
        write(target.study, found)
        for run in study.runs():
            with _skipping_unreadable():
                ran = published(record.read(run.record, RunRecord), names)
                write(target.run(ran.request.slug, ran.repeat).record, ran)


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
