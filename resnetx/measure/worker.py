"""A rank's life around the measurement: it dies with its parent, and says why when it fails.

Loads no torch by itself, so that a failure to load torch is reported like any other.
"""

import ctypes
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Literal

from resnetx import packages, record
from resnetx.errors import ConfigError
from resnetx.measure.torchrun import FOLDER_VARIABLE, launched_folder, rank
from resnetx.record import BenchFile, Failure, RunFolder, Task, TaskRecord

# How torch on a CPU, the CUDA runtime, cuDNN, cuBLAS, NCCL and DALI say that there is no memory left.
NO_MEMORY = "DefaultCPUAllocator|out of memory|ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA allocation failed"


def die_with_parent() -> None:
    """Makes the kernel kill this process when the one that started it dies.

    torchrun gives every rank a session of its own, so killing a process group, or torchrun with SIGKILL, would leave
    the ranks running. Linux only; elsewhere torchrun's own clean-up has to do.
    """
    if sys.platform != "linux":
        return
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if _orphaned():
        os.kill(os.getpid(), signal.SIGKILL)


def _orphaned() -> bool:
    """Whether torchrun died before the kernel was asked: the parent is then not one that carries this run's mark."""
    folder = launched_folder()
    if folder is None:  # by hand, any process may be the parent
        return False
    try:
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return True
    return f"{FOLDER_VARIABLE}={folder.path}".encode() not in variables


def explain_termination() -> None:
    """Makes this rank say so when torchrun ends it, as torchrun does with all ranks when one of them is lost.

    A rank that says nothing is then the one that was lost. The main thread may be deep in a collective, where no signal
    handler of Python runs: a thread of its own waits for the signal.
    """
    folder = launched_folder()
    if folder is None:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        message = "ended by torchrun, because another rank was lost"
        failure = Failure(rank=rank(), kind="peer", time_s=time.time(), message=message, traceback="")
        with suppress(OSError):  # a full disk, say: there is nobody left to tell
            record.write(folder.failure(failure.rank), failure)
        os._exit(1)

    threading.Thread(target=wait, name="resnetx-sigterm", daemon=True).start()


def serve(task: Task, folder: RunFolder | None, started: float) -> TaskRecord | None:
    """Runs this rank of the task; rank 0 returns the record, which is then on disk.

    `folder`: None in the ranks that do not know it, as only rank 0 does in a run started by hand. A failure is left
    there, and ends the process: status 2 for a mistake of the user's, else 1.
    """
    try:
        ended = _run(task, started)
        if ended is not None:
            assert folder is not None, "rank 0 has no folder"
            record.write(folder.record, ended)
        return ended
    except Exception as error:
        failure = _failure(error)
        if failure.kind != "config":
            print(failure.traceback, file=sys.stderr, flush=True)
        elif failure.rank == 0:  # all ranks make the same mistake
            print(f"resnetx: {failure.message}", file=sys.stderr, flush=True)
        if folder is not None:
            _leave(failure, task, folder, started)
        # Not sys.exit: destroying communicators and pipelines would wait for ranks that will never answer.
        os._exit(2 if failure.kind == "config" else 1)


def _run(task: Task, started: float) -> TaskRecord | None:
    if isinstance(task, BenchFile):
        from resnetx.measure import collectives

        return collectives.run(task, started)
    from resnetx.measure.rank import run

    return run(task, started)


def _failure(error: Exception) -> Failure:
    if isinstance(error, ModuleNotFoundError) and (sentence := packages.missing(error)):
        error = ConfigError(sentence)
    kind = _kind(error)
    return Failure(
        rank=rank(),
        kind=kind,
        time_s=time.time(),
        message=f"{'' if kind == 'config' else type(error).__name__ + ': '}{_first_line(str(error))}",
        traceback=traceback.format_exc(),
    )


def _kind(error: Exception) -> Literal["oom", "config", "peer", "error"]:
    """What an exception means. torch's own types are known by name, as torch may be what failed to load."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, ConfigError):
        return "config"
    if isinstance(error, MemoryError) or name == "OutOfMemoryError" or re.search(NO_MEMORY, text, re.IGNORECASE):
        return "oom"
    if name in ("DistBackendError", "DistNetworkError", "DistStoreError") or re.search("gloo.*(peer|onnection)", text):
        return "peer"
    return "error"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _leave(failure: Failure, task: Task, folder: RunFolder, started: float) -> None:
    try:
        if launched_folder():
            record.write(folder.failure(failure.rank), failure)
        else:
            outcome: record.Outcome = "oom" if failure.kind == "oom" else "failed"
            record.write(folder.record, record.cut_short(task, started, outcome, failure.message, failures=[failure]))
    except OSError as error:
        print(f"{folder.path}: {error.strerror}", file=sys.stderr, flush=True)
