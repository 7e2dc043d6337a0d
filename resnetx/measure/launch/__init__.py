"""How the ranks of a run are started, supervised and ended; here is what its processes know of each other.

A rank learns from variables who started it. The scratch folder of a run has temporary files of all its processes, and
locks that show which of them live.

What a launcher that was killed has left behind is recognised by its lock, and removed when the next run starts.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from resnetx import progress, record
from resnetx.errors import ConfigError
from resnetx.host import flock
from resnetx.interconnect.systems.lab_network import LabNetwork, read_network
from resnetx.record import RunFolder, TaskRecord

# ---- torchrun -------------------------------------------------------------------------------------------------------
# What a rank learns from those who started it: torchrun's environment variables, and some of our own.

# When something began: for people by the wall clock, for durations by a clock that nobody sets.


@dataclass(frozen=True)
class Moment:
    """A moment of this host. `monotonic_s` is the same for all its processes, and means nothing on another host."""

    epoch_s: float  # since 1970; a clock that is set back makes a later moment look earlier
    monotonic_s: float  # since the host was booted

    @classmethod
    def now(cls) -> "Moment":
        return cls(time.time(), time.monotonic())

    @property
    def elapsed_s(self) -> float:
        """Seconds since then, whatever happened to the wall clock."""
        return time.monotonic() - self.monotonic_s


# What `launcher` tells the ranks that it starts.
FOLDER_VARIABLE = "RESNETX_RUN_FOLDER"
STARTED_VARIABLE = "RESNETX_RUN_STARTED"  # seconds since the epoch
SCRATCH_VARIABLE = "RESNETX_RUN_SCRATCH"
LAB_VARIABLE = "RESNETX_LAB_NETWORK"  # the file that describes the network of the lab
TURN_VARIABLE = "RESNETX_RUN_TURN"  # the open file by which a run has its turn in the lab
# What a rank's attendant (`rank_process.attend`) tells it: the process that started both.
LAUNCHER_VARIABLE = "RESNETX_RUN_LAUNCHER"


def world_size() -> int:
    """Number of ranks that torchrun started; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """This process's number among all ranks."""
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """This process's number among the ranks of its node."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def ranks_here() -> int:
    """Number of ranks on this node; 1 without torchrun."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def refuse_half_started() -> None:
    """Refuses a rank whose variables are no numbers, or that has some of them only: others would wait for it, or it."""
    whole = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    then = "start ranks with torchrun ... -m resnetx.train, or unset RANK and WORLD_SIZE for a single one"
    for name in (*whole, "MASTER_PORT"):
        if not (value := os.environ.get(name, "0")).isdecimal():
            raise ConfigError(f"{name}={value}: expected a whole number, as torchrun sets it; {then}")
    meeting = () if private_folder() else ("MASTER_ADDR", "MASTER_PORT")
    lacking = [name for name in (*whole, *meeting) if name not in os.environ]
    if world_size() > 1 and lacking:
        raise ConfigError(f"WORLD_SIZE={world_size()}: set, but not {', '.join(lacking)}; {then}")
    if rank() >= world_size():
        raise ConfigError(f"RANK={rank()}: expected less than WORLD_SIZE={world_size()}; {then}")


def on_one_node() -> bool:
    """Whether all ranks are on this node."""
    return ranks_here() == world_size()


def launcher_pid() -> int:
    """The process that started this rank: torchrun, or the lab. Its parent may be its attendant."""
    return int(os.environ.get(LAUNCHER_VARIABLE, os.getppid()))


def private_folder() -> Path | None:
    """A folder that torchrun made for the ranks of this node, in one that only this user can enter.

    None without torchrun, or where it was told to keep no logs.
    """
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # LOGS/RUN/attempt_0/RANK/error.json
    return Path(error_file).parents[1] if error_file else None


def has_open_store() -> bool:
    """Whether torchrun serves a key-value store for the ranks, which it does on all network interfaces."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


# ---- what `launcher` says -------------------------------------------------------------------------------------------


def launched_folder() -> RunFolder | None:
    """The folder that `launcher` prepared for this run and looks into afterwards; None in a run started by hand."""
    path = os.environ.get(FOLDER_VARIABLE)
    return RunFolder(Path(path)) if path else None


def launched_scratch() -> Path | None:
    """The folder for temporary files that `launcher` made for this run; None in a run started by hand."""
    path = os.environ.get(SCRATCH_VARIABLE)
    return Path(path) if path else None


def lab_network() -> LabNetwork | None:
    """The network of the lab that this rank is in; None outside of the lab."""
    path = os.environ.get(LAB_VARIABLE)
    return read_network(Path(path)) if path else None


def run_started(rank_started: Moment) -> Moment:
    """When the run began: what its record says, and how the launcher recognises the record as this run's.

    By hand it began with this rank. The duration is always counted from there: the launcher may be on another host.
    """
    started = os.environ.get(STARTED_VARIABLE)
    return replace(rank_started, epoch_s=float(started)) if started else rank_started


# ---- scratch --------------------------------------------------------------------------------------------------------

PREFIX = "resnetx-run-"
_LAUNCHER = "launcher.lock"  # held by the launcher as long as it lives
_RANKS = "ranks.lock"  # shared by all ranks
BETWEEN_LOOKS_S = 0.5  # at what torchrun has started: a look takes some 0.1 ms
GOING_ON_S = 5.0  # torchrun starts all ranks of a node within moments, and looks ten times a second for their ends
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
                if flock(lock, wait=False):
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


def show_beginning(path: Path, local_rank: int) -> None:
    """Marks a rank of this node as begun, for `Unbegun`."""
    with suppress(OSError):
        _begun(path, local_rank).touch()


def _begun(path: Path, local_rank: int) -> Path:
    return path / f"begun-{local_rank}"


class Unbegun:
    """Watches for ranks of this node that end before they have begun: where with status 0, torchrun goes on.

    Those that have begun have an attendant (`rank_process.attend`). Linux only; elsewhere it sees none.
    """

    def __init__(self, torchrun: int, path: Path, ranks: int) -> None:
        self._torchrun, self._path, self._count = torchrun, path, ranks
        self._ranks: dict[int, tuple[int, int]] = {}  # local and global, of the processes that torchrun has started
        self._missing: dict[int, float] = {}  # since when, by local rank
        self._next_look = 0.0

    def left(self) -> int | None:
        """A rank that is not there, `GOING_ON_S` after others were: with another status torchrun would have ended."""
        now = time.monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + BETWEEN_LOOKS_S
        living = children(self._torchrun)
        for process in living - self._ranks.keys():
            if told := _ranks_of(process):
                self._ranks[process] = told
        if not self._ranks:
            return None
        there = {local for process, (local, _) in self._ranks.items() if process in living}
        for local in range(self._count):
            if local in there or _begun(self._path, local).exists():
                self._missing.pop(local, None)
            else:
                self._missing.setdefault(local, now)
        local, of_all = next(iter(self._ranks.values()))
        first = of_all - local  # ranks of a node follow each other
        return next((first + each for each, since in self._missing.items() if now > since + GOING_ON_S), None)

    def none_has_begun(self) -> bool:
        """Whether no rank of this node has begun."""
        return not any(_begun(self._path, local).exists() for local in range(self._count))


def children(process: int) -> set[int]:
    """The processes that a process has started and that live; Linux only."""
    found: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found |= set(map(int, task.read_text().split()))
    return found


def variables_of(process: int) -> dict[bytes, bytes]:
    """The environment variables that a process was started with; an `OSError` where it has ended."""
    content = Path(f"/proc/{process}/environ").read_bytes()
    return dict(variable.partition(b"=")[::2] for variable in content.split(b"\0"))


def _ranks_of(process: int) -> tuple[int, int] | None:
    """The local and the global rank that torchrun has told a process; None: none, or not yet."""
    with suppress(OSError, KeyError):
        variables = variables_of(process)
        return int(variables[b"LOCAL_RANK"]), int(variables[b"RANK"])
    return None


def wait_for_ranks(path: Path, limit_s: float = DYING_S) -> None:
    """Waits until no rank lives: one that was killed may be writing its last file for a moment, and hold a GPU."""
    end = time.monotonic() + limit_s
    with suppress(OSError):
        lock = os.open(path / _RANKS, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not flock(lock, wait=False) and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.close(lock)


# Writes records into the results folder, or says in one sentence why that cannot be done.

_ASIDE = "resnetx-record-"  # begins the name of a record that found no place in the results folder


def write(path: Path, content: Any) -> None:
    """Writes a record."""
    try:
        record.write(path, content)
    except OSError as error:
        raise not_writable(path, error) from None


def write_measured(path: Path, measured: TaskRecord) -> None:
    """Writes the record of a finished measurement: into the temporary folder, where `path` cannot be written."""
    try:
        record.write(path, measured)
    except OSError as error:
        refused = not_writable(path, error)
        try:
            handle, name = tempfile.mkstemp(prefix=_ASIDE, suffix=".json")
            os.close(handle)
            record.write(Path(name), measured)
        except OSError:
            raise refused from None
        raise ConfigError(f"{refused}; the run is finished, and its record is {name}") from None


def set_aside(folder: Path) -> Iterator[Path]:
    """The records that found no place in the results folder, in the temporary folder of a run."""
    return folder.glob(f"{_ASIDE}*.json")


def not_writable(path: Path, error: OSError) -> ConfigError:
    """The sentence for a place in the results folder that cannot be written."""
    return ConfigError(
        f"results: cannot write {path} ({error.strerror}); free space or make it writable, or set results=FOLDER"
    )


# One run in the lab at a time on a machine: real-time ranks of two would keep each other from the cores.
#
# What says that a run is there is the kernel's lock on a file, which ends with the last process that holds it open: the
# launcher, the process that builds the network, and the ranks that it forks. So nothing has to be cleaned up, however a
# run ends. The file is in a folder that only its owner can write into, so that nobody else can take a turn, or put
# another file in its place: the lab needs root, and the folder is root's.
#
# A run waits for its turn before its time begins to count, and has no record before that.
#
# Reference: flock(2).

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
        return not flock(lock, wait=False)
    finally:
        os.close(lock)


def wait_for_turn(look_up: Callable[[], None] = lambda: None, folder: Path | None = None) -> int:
    """Waits until no other run is in the lab; this one is until this open file, and what inherits it, is closed.

    `look_up`: called between looks; what it raises ends the waiting.
    """
    lock = _opened(folder or FOLDER)
    try:
        waited = False
        while not flock(lock, wait=False):
            if not waited:
                progress.note("waiting for another run in the lab of this machine to end")
                waited = True
            look_up()
            time.sleep(_BETWEEN_s)
    except BaseException:
        os.close(lock)
        raise
    return lock


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
