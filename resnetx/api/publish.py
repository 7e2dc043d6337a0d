"""A copy of studies and benches that can be published, without what names the machine, its users and its files."""

import getpass
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec

from resnetx import progress, record
from resnetx.api.benches import bench_files
from resnetx.errors import ConfigError, FileError
from resnetx.measure.launch.results_folder import write
from resnetx.record import BenchRecord, RunFolder, RunRecord, StudyFolder, StudyRecord
from resnetx.record.published import Names, published
from resnetx.settings.files import given_path


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
