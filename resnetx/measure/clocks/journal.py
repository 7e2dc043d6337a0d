"""The clocks that GPUs had before a process locked them: written before the first lock, deleted at the end.

A process that is killed (`kill -9`, no memory left) cannot put clocks back. The next one finds this file, which is held
by a kernel lock as long as its writer lives. It is in /run: only root, who alone may lock clocks, can write there, and
it is gone after a restart, as are locked clocks.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError, FileError
from resnetx.host import flock
from resnetx.loading import File, read_json

PATH = Path("/run/resnetx-clocks.json")
_BYTES = 2**16  # some hundred GPUs


class Before(msgspec.Struct, frozen=True):
    """One GPU, and the clock that it was locked at; None: at none that was seen."""

    gpu: int  # NVML's number of it, which is that of nvidia-smi
    clock_MHz: int | None


class Journal:
    """This process's own note. Where the file cannot be written, nothing is noted."""

    def __init__(self) -> None:
        self._file: int | None = None

    def write(self, before: Sequence[Before]) -> None:
        """Notes what to put back; the lock on the file is kept until `close`."""
        with suppress(OSError):
            if self._file is None:
                self._file = _locked(os.open(PATH, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644))
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, msgspec.json.encode(before), 0)

    def close(self, *, everything_back: bool) -> None:
        """Ends the note: it goes where all clocks are back, and stays for the next process where they are not."""
        if self._file is None:
            return
        if everything_back:
            clear()
        os.close(self._file)
        self._file = None


def _locked(file: int) -> int:
    """The same file, which is closed again where another process has just locked it: that one's note stays."""
    try:
        flock(file, wait=False)
    except OSError:
        os.close(file)
        raise
    return file


def clear() -> None:
    """Takes the note away: all clocks are back."""
    with suppress(OSError):
        PATH.unlink()


def left_behind() -> list[Before]:
    """What a process that is no more has not put back; nothing while its writer lives."""
    return [] if _writer_lives() else _noted()


def refuse_company() -> None:
    """Refuses to touch clocks while another process has some of them locked."""
    if _writer_lives():
        raise ConfigError("clock: another process of resnetx has locked the clocks of this machine; wait until it ends")


def _writer_lives() -> bool:
    with suppress(OSError):
        file = os.open(PATH, os.O_RDONLY)
        try:
            flock(file, shared=True, wait=False)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
    return False


def _noted() -> list[Before]:
    try:
        notes: list[Before] = read_json(File(PATH, "a note of clocks", _BYTES), list[Before])
    except FileError:
        return []
    return notes


def command(before: Sequence[Before]) -> str:
    """What puts clocks back, as a line for a shell."""
    clocks = dict.fromkeys(each.clock_MHz for each in before)
    return " && ".join(
        _command(clock_MHz, [each.gpu for each in before if each.clock_MHz == clock_MHz]) for clock_MHz in clocks
    )


def _command(clock_MHz: int | None, gpus: Sequence[int]) -> str:
    what = "--reset-gpu-clocks" if clock_MHz is None else f"--lock-gpu-clocks={clock_MHz},{clock_MHz}"
    return f"sudo nvidia-smi --id={','.join(map(str, gpus))} {what}"
