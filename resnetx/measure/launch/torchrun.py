"""What a rank learns from those who started it: torchrun's environment variables, and some of our own."""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from resnetx.interconnect.systems.lab import LabNetwork, read_network
from resnetx.record import RunFolder

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
