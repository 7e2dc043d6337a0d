"""The scratch folder of a run: temporary files of all its processes, and locks that show which of them live.

The kernel releases a lock when its holder ends, however it ends. What a launcher that was killed has left behind is
recognised by its lock, and removed when the next run starts.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resnetx.errors import ConfigError
from resnetx.host import flock

PREFIX = "resnetx-run-"
_LAUNCHER = "launcher.lock"  # held by the launcher as long as it lives
_RANKS = "ranks.lock"  # shared by all ranks
DYING_S = 10.0  # that ranks may take to die once they are killed, while the kernel frees what they hold


@contextmanager
def scratch() -> Iterator[Path]:
    """A new folder, readable by this user alone, that is removed at the end: by the next run, if by nobody before."""
    remove_abandoned()
    path, lock = _make()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)  # ranks that the kernel is still ending may write to it
        os.close(lock)


def remove_abandoned() -> None:
    """Removes the scratch folders of this user's launchers that are dead."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is being made or removed, or its file system has no locks
            if path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            lock = os.open(path / _LAUNCHER, os.O_RDWR)
            try:
                flock(lock, wait=False)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _make() -> tuple[Path, int]:
    """A new folder with the lock that this process holds on it."""
    while True:
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX))
            lock = os.open(path / _LAUNCHER, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(
                f"TMPDIR: the temporary folder cannot be written ({error}); make room there, or set TMPDIR to another"
            ) from None
        with suppress(OSError):  # a file system without locks: nobody can take this one then
            flock(lock)
        if path.exists():  # else another launcher found it before it was locked, and took it for abandoned
            return path, lock
        os.close(lock)


def show_life(path: Path) -> None:
    """Marks this rank as alive until its end, for `wait_for_ranks`."""
    with suppress(OSError):
        flock(os.open(path / _RANKS, os.O_RDWR | os.O_CREAT, 0o600), shared=True)


def wait_for_ranks(path: Path, limit_s: float = DYING_S) -> None:
    """Waits until no rank lives: one that was killed may be writing its last file for a moment, and hold a GPU."""
    end = time.monotonic() + limit_s
    with suppress(OSError):
        lock = os.open(path / _RANKS, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not _free(lock) and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.close(lock)


def _free(lock: int) -> bool:
    try:
        flock(lock, wait=False)
    except BlockingIOError:
        return False
    return True
