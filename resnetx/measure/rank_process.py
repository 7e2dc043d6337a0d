"""A rank's life around the measurement: it dies with its parent, says that it has finished, and why when it fails.

A process that leaves with status 0 before that, as by `os._exit(0)` in somebody's code, looks to torchrun like one that
is done: the others would wait for it until their time limit, and be blamed. So each rank has an attendant (`attend`), a
process that only waits for its end, and that it tells when it has finished.

Loads no torch by itself, so that a failure to load torch is reported like any other.
"""

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from resnetx import packages, record
from resnetx.errors import ConfigError, shortened
from resnetx.host import dying_with, kernel_text
from resnetx.measure.launch import (
    FOLDER_VARIABLE,
    LAUNCHER_VARIABLE,
    Moment,
    ending,
    hang,
    launched_folder,
    launched_scratch,
    launcher_pid,
    local_rank,
    rank,
    show_beginning,
    show_life,
    slurm,
    variables_of,
    write_measured,
)
from resnetx.measure.launch.ending import FailureKind, failure, no_memory, sentence
from resnetx.record import Ended, Failure, RunFolder, TaskFile

if TYPE_CHECKING:
    from resnetx.measure.machine.pci_devices import ErrorWatch

LOST_PEER = "gloo.*([Pp]eer|[Cc]onnection|[Bb]roken pipe|[Tt]imed out|timeout)"  # how gloo says it, in any of its files
_SAYING_S = 0.5  # torchrun asks the rank, too, which may be writing that down


def die_with_parent() -> None:
    """Makes the kernel kill this process when the one that started it dies.

    torchrun gives every rank a session of its own, so killing a process group, or torchrun with SIGKILL, would leave
    the ranks running. Linux only; elsewhere torchrun's own clean-up has to do. Until it is dead, its launcher waits.
    """
    if scratch := launched_scratch():
        show_beginning(scratch, local_rank())
        show_life(scratch)
    dying_with(os.getppid())()
    if _orphaned():
        os.kill(os.getpid(), signal.SIGKILL)


def _orphaned() -> bool:
    """Whether torchrun died before the kernel was asked: the parent is then not one that carries this run's mark."""
    folder = launched_folder()
    if folder is None:  # by hand, any process may be the parent
        return False
    try:
        return variables_of(os.getppid()).get(FOLDER_VARIABLE.encode()) != str(folder.path).encode()
    except OSError:
        return True


class _Attendant:
    """The rank's end of the pipe to its attendant; None where it has none."""

    told: int | None = None


def attend() -> None:
    """Splits this process in two: it returns in the rank, and its attendant ends when the rank does, as the rank does.

    Of a rank that leaves with status 0 and has not told that it has finished, the attendant says so, and ends with
    status 1, at which torchrun ends the others. To be called before anything starts a thread. A rank has no attendant
    where neither torchrun nor the lab started it, or the system cannot wait for signals (macOS).
    """
    die_with_parent()
    if "LOCAL_RANK" not in os.environ or not hasattr(signal, "sigwaitinfo"):
        hang.begin_notes()
        return
    os.environ[LAUNCHER_VARIABLE] = str(os.getppid())
    told, _Attendant.told = os.pipe()
    attendant, awaited = os.getpid(), {signal.SIGCHLD, *_ends()}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    sys.stdout.flush()
    sys.stderr.flush()
    if process := os.fork():
        os.set_blocking(told, False)  # a process that the rank has left behind may hold the other end
        watch = _watch_of_gpus()
        _end_as(_end_of(process, awaited, watch), told, watch)
    dying_with(attendant)()
    os.close(told)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    hang.begin_notes()


def _tell_finished() -> None:
    if _Attendant.told is not None:
        os.write(_Attendant.told, b"finished")


def _watch_of_gpus() -> "ErrorWatch | None":
    """What hears of errors of this node's GPUs, in the attendant of its first rank, which lives on where that dies."""
    folder = launched_folder()
    if folder is None or local_rank() != 0:
        return None
    with suppress(Exception):  # of a driver that is broken: the rank will say more of it
        from resnetx.measure.machine.pci_devices import ErrorWatch  # here, as ranks themselves need none of it

        return ErrorWatch(folder.gpu_errors(rank()))
    return None


def _finish(watch: "ErrorWatch | None") -> None:
    if watch:
        with suppress(Exception):
            watch.finish()


def _end_of(process: int, awaited: set[signal.Signals], watch: "ErrorWatch | None") -> int:
    """The exit status of the rank, below 0 where a signal ended it; who asks its attendant to end means the rank."""
    while True:
        asked = signal.sigwaitinfo(awaited)
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if asked.si_signo != signal.SIGCHLD:
            _report(_asked_to_end(asked))
            _finish(watch)
            signal.sigtimedwait({signal.SIGCHLD}, _SAYING_S)
            os.kill(process, signal.SIGKILL)
            os._exit(1)


def _end_as(status: int, told: int, watch: "ErrorWatch | None") -> NoReturn:
    """Ends the attendant of a rank that has ended with this status."""
    if status != 0:
        _finish(watch)
    if status == 0 and not _has_told(told):
        left = failure("error", "left with exit status 0 before it had finished, as by exit() in the code that it runs")
        print(f"resnetx: rank {left.rank} {left.message}", file=sys.stderr, flush=True)
        _report(left)
        os._exit(1)
    if status < 0:  # torchrun names the signal
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # the rank's will do
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
    os._exit(abs(status))


def _has_told(told: int) -> bool:
    with suppress(BlockingIOError):
        return bool(os.read(told, 1))
    return False


def explain_termination() -> None:
    """Makes this rank report that it was asked to end, as torchrun asks all ranks when one of them is lost.

    A rank that reports nothing is then the one that was lost. The main thread may be deep in a collective, where no
    signal handler of Python runs: a thread of its own waits for the signal. It also says where the rank is, when the
    launcher asks because nothing progresses (`hang`).
    """
    if launched_folder() is None:
        return
    awaited = {*_ends(), hang.QUESTION}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)

    def wait() -> None:
        while (sent := signal.sigwaitinfo(awaited)).si_signo == hang.QUESTION:
            hang.answer()
        _report(_asked_to_end(sent))
        os._exit(1)

    threading.Thread(target=wait, name="resnetx-sigterm", daemon=True).start()


def _ends() -> set[signal.Signals]:
    """The signals that ask a process to end, but for one that is ignored from the start, as by nohup."""
    return {number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN}


def _asked_to_end(by: "signal.struct_siginfo") -> Failure:
    """What a rank says that was sent a signal."""
    if by.si_pid == launcher_pid():
        return failure("peer", "ended by torchrun, because another rank was lost")
    name = kernel_text(f"proc/{by.si_pid}/comm")
    # Slurm ends the whole step with it, where a task on another node has failed.
    kind: FailureKind = "peer" if name.startswith("slurmstepd") else "error"
    number = signal.Signals(by.si_signo).name
    return failure(kind, f"ended ({number}) by process {by.si_pid}" + f" ({name})" * bool(name))


def _report(own: Failure) -> None:
    """Leaves a failure in the folder of a launched run."""
    if folder := launched_folder():
        with suppress(OSError):  # a full disk, say: there is nobody left to tell
            record.write(folder.failure(own.rank), own)


def serve(
    task: TaskFile[Ended],
    measure: Callable[[], Ended | None],
    folder: RunFolder | None,
    started: Moment,
    recorded: Callable[[], None],
) -> Ended | None:
    """Runs this rank of the task; rank 0 returns the record, which is then on disk.

    `measure`: does what the task asks of this rank; in rank 0 it returns the record. `folder`: None in the ranks that
    do not know it, as only rank 0 does in a run started by hand. `started`: when this process did. `recorded`: lets the
    other ranks go on once rank 0 calls it. A failure is left in the folder, and ends the process: status 2 for a
    mistake of the user's, else 1.
    """
    try:
        ended = measure()
        if ended is not None:
            assert folder is not None, "rank 0 has no folder"
            write_measured(folder.record, ended)
        recorded()
        _tell_finished()
        return ended
    except (Exception, SystemExit) as error:
        print(ending.warnings_left(), end="", file=sys.stderr, flush=True)
        own = _failure(error, smaller="size" if task.verb == "bench" else "batch_size")
        if own.kind != "config":
            print(own.traceback, file=sys.stderr, flush=True)
        elif own.rank == 0:  # all ranks make the same mistake
            print(f"resnetx: {own.message}", file=sys.stderr, flush=True)
        if folder is not None:
            _leave(own, task, folder, started)
        # Not sys.exit: destroying communicators and pipelines would wait for ranks that will never answer.
        os._exit(2 if own.kind == "config" else 1)


def _failure(error: Exception | SystemExit, smaller: str = "") -> Failure:
    if isinstance(error, SystemExit):
        return failure("error", f"left by exit({error.code}) before it had finished", traceback.format_exc())
    if isinstance(error, ModuleNotFoundError) and (missing := packages.missing(error)):
        error = ConfigError(missing)
    kind = _kind(error)
    message = shortened(str(error)) if kind == "config" else sentence(error, smaller)
    return failure(kind, message, traceback.format_exc())


def _kind(error: Exception) -> FailureKind:
    """What an exception means. torch's own types are known by name, as torch may be what failed to load."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, ConfigError):
        return "config"
    if isinstance(error, MemoryError) or name == "OutOfMemoryError" or no_memory(text):
        return "oom"
    if name in ("DistBackendError", "DistNetworkError", "DistStoreError") or re.search(LOST_PEER, text):
        return "peer"
    return "error"


def _leave(own: Failure, task: TaskFile[Ended], folder: RunFolder, started: Moment) -> None:
    """Keeps the failure where it is looked for: in a file of its own, or by hand in the record.

    By hand only rank 0 has a folder, and its own failures come before it has written what was measured.
    """
    try:
        if launched_folder():
            record.write(folder.failure(own.rank), own)
            return
        outcome: record.Outcome = "oom" if own.kind == "oom" else "failed"
        known = {"failures": [own], "duration_s": started.elapsed_s, "job": record.known(slurm.job())}
        record.write(folder.record, record.cut_short(task, started.epoch_s, outcome, own.message, **known))
    except OSError as error:
        print(f"{folder.path}: {error.strerror}", file=sys.stderr, flush=True)
