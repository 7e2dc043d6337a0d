"""Locks the clocks of GPUs, and puts back what was there: at the end, on Ctrl-C, on SIGTERM, SIGHUP and exceptions.

    with locking(nvml, {0: handle}) as lock:
        lock.lock(1545)

The driver knows whether a clock is locked and does not tell: who has seen that one was (`held_clock`) notes it, and it
is locked again at the end. Against a kill there is the note in `journal`.

References: NVML API reference (nvmlDeviceSetGpuLockedClocks: Volta or newer, root only, until the driver is reloaded).
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from resnetx.errors import ConfigError, FileError
from resnetx.host import flock
from resnetx.loading import File, read_json
from resnetx.measure.machine.nvidia import Nvml
from resnetx.record import Gpu, Unknown

# The clocks that GPUs had before a process locked them: written before the first lock, deleted at the end.
#
# A process that is killed (`kill -9`, no memory left) cannot put clocks back. The next one finds this file, which is
# held by a kernel lock as long as its writer lives. It is in /run: only root, who alone may lock clocks, can write
# there, and it is gone after a restart, as are locked clocks.

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
                file = os.open(PATH, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
                if not flock(file, wait=False):  # another process has just locked it: that one's note stays
                    os.close(file)
                    return
                self._file = file
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
            return not flock(file, shared=True, wait=False)
        finally:
            os.close(file)
    return False


def _noted() -> list[Before]:
    try:
        return read_json(File(PATH, "a note of clocks", _BYTES), list[Before])
    except FileError:
        return []


def command(before: Sequence[Before]) -> str:
    """What puts clocks back, as a line for a shell."""
    clocks = dict.fromkeys(each.clock_MHz for each in before)
    return " && ".join(
        _command(clock_MHz, [each.gpu for each in before if each.clock_MHz == clock_MHz]) for clock_MHz in clocks
    )


def _command(clock_MHz: int | None, gpus: Sequence[int]) -> str:
    what = "--reset-gpu-clocks" if clock_MHz is None else f"--lock-gpu-clocks={clock_MHz},{clock_MHz}"
    return f"sudo nvidia-smi --id={','.join(map(str, gpus))} {what}"


_VOLTA = 7  # major compute capability of the first GPUs whose clocks can be locked


def lockable(gpu: Gpu) -> bool:
    """Whether the clock of a GPU, as `graphics_here` has it, can be locked at all; True where that is not known."""
    version = gpu.compute_capability
    return isinstance(version, Unknown) or int(version.partition(".")[0]) >= _VOLTA


class NotPermittedError(ConfigError):
    """The driver lets only root lock clocks."""


class Lock:
    """The clocks of some GPUs, by NVML's number of each."""

    def __init__(self, nvml: Nvml, handles: Mapping[int, Any]) -> None:
        self._nvml = nvml
        self._handles = handles
        self._journal = Journal()
        # What each is locked at when all is over, as it was before; None: at nothing.
        self.before: dict[int, int | None] = dict.fromkeys(handles)
        self._changed: dict[int, None] = {}  # GPUs whose clock may have been changed, in that order

    def lock(self, clock_MHz: int) -> None:
        """Locks all of the GPUs at a clock that they support."""
        self._set_all(clock_MHz)

    def unlock(self) -> None:
        """Lets all of the GPUs boost."""
        self._set_all(None)

    def _set_all(self, clock_MHz: int | None) -> None:
        """Sets the clock of all GPUs (None: unlocks them), once their clocks before are in the journal."""
        self._journal.write([Before(gpu, before_MHz) for gpu, before_MHz in self.before.items()])
        for gpu, handle in self._handles.items():
            fresh = gpu not in self._changed
            self._changed[gpu] = None  # before it is: a signal may come in between
            try:
                _set(self._nvml, handle, gpu, clock_MHz)
            except ConfigError:
                if fresh:
                    del self._changed[gpu]
                raise

    def restore(self) -> None:
        """Puts back what was there on every GPU that was changed; one that fails does not keep the others from it."""
        failed: dict[Before, ConfigError] = {}
        for gpu in self._changed:
            try:
                _set(self._nvml, self._handles[gpu], gpu, self.before[gpu])
            except ConfigError as error:
                failed[Before(gpu, self.before[gpu])] = error
        self._journal.close(everything_back=not failed)
        if failed:
            why = next(iter(failed.values()))
            raise ConfigError(f"{why}; clocks stay locked until you reset them: {command([*failed])}")


@contextmanager
def locking(nvml: Nvml, handles: Mapping[int, Any]) -> Iterator[Lock]:
    """A `Lock` whose GPUs have what they had before when the block ends, however it ends."""
    lock = Lock(nvml, handles)
    try:
        yield lock
    finally:
        with _undisturbed():
            lock.restore()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that would end the block wait for its end: a second Ctrl-C, say."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def put_back(nvml: Nvml, before: Sequence[Before]) -> None:
    """Puts back what a process that was killed has left locked."""
    for each in before:
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", each.gpu)
        if not isinstance(handle, Unknown):  # a GPU that is gone has no clock
            _set(nvml, handle, each.gpu, each.clock_MHz)
    clear()


def _set(nvml: Nvml, handle: Any, gpu: int, clock_MHz: int | None) -> None:
    """Locks one GPU at a clock; None: at none."""
    names = nvml.module
    try:
        if clock_MHz is None:
            names.nvmlDeviceResetGpuLockedClocks(handle)
        else:
            names.nvmlDeviceSetGpuLockedClocks(handle, clock_MHz, clock_MHz)
    except names.NVMLError as error:
        what = f"GPU {gpu}: its clock cannot be locked or unlocked ({error})"
        if error.value == names.NVML_ERROR_NO_PERMISSION:
            raise NotPermittedError(f"{what}: this needs root; use sudo") from None
        if error.value in (names.NVML_ERROR_NOT_SUPPORTED, names.NVML_ERROR_FUNCTION_NOT_FOUND):
            raise ConfigError(f"{what}: that needs Volta or newer, and driver R415 or newer") from None
        raise ConfigError(what) from None
