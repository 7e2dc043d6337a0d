"""Images copied to a folder of the node that reads them, so that a run does not measure storage that nodes share.

    stage/resnetx-3f9a0c52d1e7/n01440764/n01440764_10026.JPEG
    stage/resnetx-3f9a0c52d1e7.lock

The name has a digest of what was copied, and by whom: the root, and each file's name, size and time of change. So what
has changed goes into another folder, and no job touches a copy that another one reads. All images are copied, as the
shuffled order gives every rank other ones in every pass. Whoever copies holds the lock, and the next one finds the copy
complete. A file has its name only once all of it is there, so that a copy that was cut short is gone on with.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from resnetx.errors import ConfigError
from resnetx.host import flock, node_name
from resnetx.inputs import folders
from resnetx.units import si

T = TypeVar("T")
R = TypeVar("R")

COPIERS = 8  # threads: files of 100 kB on shared storage take as long to open as to read


@dataclass(frozen=True)
class Staged:
    """What is in a stage, and what it took to have it there."""

    folder: Path  # in place of the root
    images: int
    size_bytes: int  # of all images
    copied_bytes: int  # of them now; 0: all were there
    list_s: float  # to look at all files of the root
    wait_s: float  # for another job that copied
    copy_s: float  # to look at those of the stage, and to copy what was not there


@dataclass(frozen=True)
class _File:
    name: str  # "class/name"
    size_bytes: int
    changed_ns: int


def copied(root: Path, stage: Path) -> Staged:
    """Copies the images of `root` that are not in the stage yet; a `ConfigError` where that cannot be done."""
    started = time.monotonic()
    files = _listed(root)
    listed = time.monotonic()
    folder = stage / f"resnetx-{_digest(root, files)}"
    with _only_one(stage, folder):
        locked = time.monotonic()
        missing = [file for file in files if not _is_there(folder / file.name, file)]
        copied_bytes = sum(file.size_bytes for file in missing)
        if missing:
            _copy(missing, root, folder, stage)
        _check_no_others(folder, files)
        copy_s = time.monotonic() - locked
    size_bytes = sum(file.size_bytes for file in files)
    return Staged(folder, len(files), size_bytes, copied_bytes, listed - started, locked - listed, copy_s)


def check(root: Path, stage: Path) -> None:
    """Refuses a stage among the images that are copied."""
    if stage.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"input.stage={stage}: in input.root={root}, where copies would be images, too; use a folder of the node"
        )


def _listed(root: Path) -> list[_File]:
    def looked_at(name: str) -> _File:
        try:
            found = (root / name).stat()
        except OSError as error:
            raise ConfigError(f"{root / name}: cannot be read ({error.strerror}); restore or delete it") from None
        return _File(name, found.st_size, found.st_mtime_ns)

    return _each(looked_at, folders.read(root).files)


def _digest(root: Path, files: Sequence[_File]) -> str:
    digest = hashlib.sha256(os.fsencode(f"{os.getuid()}\0{root.resolve()}"))
    for file in files:
        digest.update(os.fsencode(f"\0{file.name}\0{file.size_bytes}\0{file.changed_ns}"))
    return digest.hexdigest()[:12]


@contextmanager
def _only_one(stage: Path, folder: Path) -> Iterator[None]:
    """Keeps all others from copying into the folder; the lock ends with the process that holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _refused(stage, f"cannot be written ({error.strerror})") from None
    try:
        _lock(lock, stage)
        yield
    finally:
        os.close(lock)


def _lock(file: int, stage: Path) -> None:
    try:
        flock(file)
    except OSError as error:
        raise _refused(stage, f"has no file locks ({error.strerror}), which keep jobs apart,") from None


def _is_there(path: Path, file: _File) -> bool:
    try:
        return path.stat().st_size == file.size_bytes
    except OSError:
        return False


def _copy(files: Sequence[_File], root: Path, folder: Path, stage: Path) -> None:
    needed, free = sum(file.size_bytes for file in files), shutil.disk_usage(stage).free
    if needed > free:
        raise _refused(stage, f"{si(needed, 'B')} of images do not fit into the {si(free, 'B')} that are free")

    def copy(file: _File) -> None:
        source, target = root / file.name, folder / file.name
        partial = target.with_name(f".{target.name}.partial")  # hidden: no pipeline takes it for an image
        try:
            shutil.copyfile(source, partial)
            if (size := partial.stat().st_size) != file.size_bytes:
                raise ConfigError(f"{source}: changed while it was copied ({size} bytes of {file.size_bytes})")
            partial.replace(target)
        except OSError as error:
            raise _refused(stage, f"{source.name} cannot be copied there ({error.strerror})") from None
        finally:
            partial.unlink(missing_ok=True)

    try:
        for name in {file.name.partition("/")[0] for file in files}:
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise _refused(stage, f"cannot be written ({error.strerror})") from None
    _each(copy, files)


def _check_no_others(folder: Path, files: Sequence[_File]) -> None:
    """A file that came from elsewhere would be read as an image."""
    classes = folders.class_folders(folder)
    there = {f"{name}/{image}" for name in classes for image in folders.image_names(folder / name)}
    if others := sorted(there - {file.name for file in files}):
        raise ConfigError(f"{folder}: has images that input.root does not have, e.g. {others[0]}; delete this folder")


def _each(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`do` of every item, several at once; what is left is given up at the first error."""
    with ThreadPoolExecutor(COPIERS) as pool:
        try:
            return list(pool.map(do, items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _refused(stage: Path, why: str) -> ConfigError:
    return ConfigError(f"input.stage={stage}: {why} on {node_name()}; make room there, or choose another folder")
