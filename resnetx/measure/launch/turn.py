"""One run in the lab at a time on a machine: real-time ranks of two would keep each other from the cores.

What says that a run is there is the kernel's lock on a file, which ends with the last process that holds it open: the
launcher, the process that builds the network, and the ranks that it forks. So nothing has to be cleaned up, however a
run ends. The file is in a folder that only its owner can write into, so that nobody else can take a turn, or put
another file in its place: the lab needs root, and the folder is root's.

A run waits for its turn before its time begins to count, and has no record before that.

Reference: flock(2).
"""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.host import flock

FOLDER = Path("/run/resnetx")  # of this machine, or of a container, until it is started anew (file-hierarchy(7))
_NAME = "lab.lock"
_BETWEEN_s = 0.1


def taken(folder: Path | None = None) -> bool:
    """Whether a run is in the lab now, so that another one would wait."""
    try:
        lock = os.open((folder or FOLDER) / _NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # none has been there yet, or it is not for us to know
        return False
    try:
        return not _locked(lock)
    finally:
        os.close(lock)


def wait_for_turn(look_up: Callable[[], None] = lambda: None, folder: Path | None = None) -> int:
    """Waits until no other run is in the lab; this one is until this open file, and what inherits it, is closed.

    `look_up`: called between looks; what it raises ends the waiting.
    """
    lock = _opened(folder or FOLDER)
    try:
        waited = False
        while not _locked(lock):
            if not waited:
                progress.note("waiting for another run in the lab of this machine to end")
                waited = True
            look_up()
            time.sleep(_BETWEEN_s)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _locked(lock: int) -> bool:
    try:
        flock(lock, wait=False)
    except BlockingIOError:
        return False
    return True


def _opened(folder: Path) -> int:
    """The lock's file, made where there is none; refused where others than its owner could have put it there."""
    path = folder / _NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_others(folder, folder.lstat(), stat.S_ISDIR)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ConfigError(f"the lab's lock {path}: {error.strerror}; make {folder} a folder of root's") from None
    try:
        _refuse_others(path, os.fstat(lock), stat.S_ISREG)
    except ConfigError:
        os.close(lock)
        raise
    return lock


def _refuse_others(path: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Refuses a file or folder that is of another kind, of another user, or that others can write."""
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"the lab's lock: {path} is not this user's own (user {os.geteuid()}), or others can write it; remove it"
        )
