"""One run or bench as a child process: start it, wait, and make sure that a record tells how it ended.

Whatever happens to the child (an exception, a kill, a hang, no memory left), one `record.json` says so, and no process
is left: the kernel kills torchrun with this process, and every rank with torchrun (`rank_process.die_with_parent`). The
record of a finished measurement is never replaced by that of a failure. How ranks are started is in `executor`, what
their end means in `ending`.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from resnetx import record
from resnetx.host import Child, dying_with, exit_status
from resnetx.measure.launch import (
    DYING_S,
    FOLDER_VARIABLE,
    SCRATCH_VARIABLE,
    STARTED_VARIABLE,
    TURN_VARIABLE,
    Moment,
    Unbegun,
    ending,
    scratch,
    set_aside,
    slurm,
    wait_for_ranks,
    wait_for_turn,
    write,
    write_measured,
)
from resnetx.measure.launch.ending import Ending
from resnetx.measure.launch.executor import Executor, executor_of
from resnetx.measure.launch.hang import HangError, HangWatch, stopped
from resnetx.measure.launch.preloaded import forked
from resnetx.record import (
    Ended,
    Job,
    RecordError,
    RunFile,
    RunFolder,
    RunRecord,
    TaskFile,
    TaskRecord,
    Unknown,
    Workload,
)
from resnetx.variables import hide_in, with_hidden

LookUp = Callable[[], None]  # raises where a run is to be interrupted, of a launcher in a thread, which gets no signals
UNFINISHED = "the run has not reported its end: it is still running, or it was killed"


def execute(task: RunFile, folder: RunFolder, executor: Executor | None = None) -> RunRecord:
    """Executes a run, and counts its workload where it did not get to that; its record is then on disk."""
    ended = supervise(task, folder, executor)
    return ended if ended.outcome == "ok" else _with_counts(task, folder, ended)


def supervise(
    task: TaskFile[Ended], folder: RunFolder, executor: Executor | None = None, look_up: LookUp = lambda: None
) -> Ended:
    """Executes a task to its end, whatever that is, and returns its record, which is then on disk.

    In the lab it waits for its turn first: that is no time of the run, which has no record before it begins.
    """
    with _turn(task, look_up) as turn, scratch() as private:
        started, oom_kills = Moment.now(), _oom_kills()
        begin(task, folder, started)
        try:
            end = Ending(status=_wait(task, folder, private, started, executor, look_up, turn))
        except HangError as hang:
            end = Ending(stopped="timeout", reason=str(hang))
        except OSError as error:
            end = Ending(stopped="failed", reason=f"torchrun could not be started: {error}")
        except BaseException as stop:  # Ctrl-C and termination, as a rule; the child is dead by now
            _settle_interrupted(task, folder, private, started, stop)
            raise
        try:
            end = ending.read(end, folder, private, _oom_kills() > oom_kills)
            return _settle(task, folder, private, started, end)
        except Exception:
            raise
        except BaseException as stop:  # what ended the child may end this process a moment later
            _settle_interrupted(task, folder, private, started, stop)
            raise


@contextmanager
def _turn(task: TaskFile[Ended], look_up: LookUp) -> Iterator[tuple[int, ...]]:
    """The open files that say whose turn it is in the lab; none elsewhere."""
    if task.request.lab is None:
        yield ()
        return
    lock = wait_for_turn(look_up)
    try:
        yield (lock,)
    finally:
        os.close(lock)


def skip(task: TaskFile[Ended], folder: RunFolder, reason: str) -> Ended:
    """Writes, and returns, the record of a task that cannot take place here."""
    known: dict[str, Any] = {"workload": _counted(task)} if isinstance(task, RunFile) else {}
    skipped = record.cut_short(task, Moment.now().epoch_s, "skipped", reason, job=record.known(slurm.job()), **known)
    write(folder.run, task)
    write(folder.record, skipped)
    return skipped


def begin(task: TaskFile[Ended], folder: RunFolder, started: Moment) -> None:
    """Writes the run file, and a record that holds if nobody lives to write the true one."""
    for stale in folder.leftovers():
        stale.unlink()
    write(folder.run, _without_secrets(task))
    job = record.known(slurm.job())
    write(folder.record, record.cut_short(task, started.epoch_s, "failed", UNFINISHED, job=job))


def _without_secrets(task: TaskFile[Ended]) -> TaskFile[Ended]:
    """The task as its file has it: of a site's variables, which the launcher sets, it has values of those that tune."""
    if task.launch is None:
        return task
    site = msgspec.structs.replace(task.launch.site, environment=with_hidden(task.launch.site.environment))
    changed: TaskFile[Ended] = msgspec.structs.replace(task, launch=msgspec.structs.replace(task.launch, site=site))  # type: ignore[type-var]  # of a struct
    return changed


# ---- the child ------------------------------------------------------------------------------------------------------


def _wait(
    task: TaskFile[TaskRecord],
    folder: RunFolder,
    private: Path,
    started: Moment,
    executor: Executor | None,
    look_up: LookUp,
    turn: tuple[int, ...],
) -> int:
    """The exit status of the child, below 0 where a signal ended it. However this ends, no process is left.

    `turn`: open files that the child inherits, and the ranks of it.
    """
    command = (executor or executor_of(task))(task, folder, private)
    told = _told(task, folder, private, started) | command.variables
    told |= {TURN_VARIABLE: str(turn[0])} if turn else {}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}  # torchrun's options
    limit_s = time.monotonic() + task.timeout_s

    def wait() -> None:
        look_up()
        if time.monotonic() > limit_s:
            raise TimeoutError("its imports take longer than the run may")

    with folder.stdout.open("wb") as stdout, folder.stderr.open("wb") as stderr:
        child = forked(command, inherited | told, (stdout, stderr), wait) or subprocess.Popen(
            command.carrying(told),
            stdout=stdout,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            env=inherited | told,
            pass_fds=turn,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the child at once
            preexec_fn=dying_with(os.getpid(), command.gently),
        )
        unbegun = Unbegun(child.pid, private, task.request.gpus // task.request.nodes)
        hang = HangWatch(folder, task.request.gpus)

        def look() -> None:
            look_up()
            if task.request.lab is None:  # where links may be shaped to any rate
                hang.look()
            if _is_torchrun(task) and (left := unbegun.left()) is not None:
                ending.report_unbegun(left, folder)
                child.kill()

        try:
            return exit_status(child, max(0.0, limit_s - time.monotonic()), look)
        except subprocess.TimeoutExpired:
            late = f"not finished after timeout={task.timeout_s:g} seconds"
            said = stopped(child.pid, folder, task.request.gpus)
            raise HangError(f"{said}; {late}" if said else late) from None
        except HangError as hangs:
            if said := stopped(child.pid, folder, task.request.gpus):
                raise HangError(f"{said}; {hangs.how_long}") from None
            raise
        finally:
            _end(child, command.gently)
            wait_for_ranks(private)
            for log in (folder.stdout, folder.stderr):
                hide_in(log)


def _is_torchrun(task: TaskFile[TaskRecord]) -> bool:
    """Whether the child is the parent of this node's ranks."""
    return task.request.lab is None if task.launch is None else task.launch.launcher == "torchrun"


def _end(child: Child, gently: bool) -> None:
    """Ends the child, at once or within some seconds in which it ends what it started on other nodes."""
    if gently:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            exit_status(child, DYING_S)
    child.kill()
    exit_status(child)


def _told(task: TaskFile[TaskRecord], folder: RunFolder, private: Path, started: Moment) -> dict[str, str]:
    """The variables that the launcher sets for a run."""
    return {
        **task.request.env,
        "OMP_NUM_THREADS": str(task.request.threads),  # torchrun sets 1, but only when it starts more than one rank
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(private),
        ending.ERROR_FILE_VARIABLE: str(ending.error_file(private)),
        FOLDER_VARIABLE: str(folder.path),
        SCRATCH_VARIABLE: str(private),
        STARTED_VARIABLE: repr(started.epoch_s),
    }


def _oom_kills() -> int:
    """Processes that the kernel's out-of-memory killer has ended since boot; 0 where it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


# ---- the record -----------------------------------------------------------------------------------------------------


def _settle(task: TaskFile[Ended], folder: RunFolder, private: Path, started: Moment, end: Ending) -> Ended:
    """Writes, and returns, the final record: the one that rank 0 wrote, where it has finished its measurement."""
    known = {"stderr_end": end.stderr_end, "duration_s": started.elapsed_s}  # a rank sees neither
    measured = _measured(task, folder, private, started)
    if measured is not None:
        late = [*measured.warnings, *ending.late(end, task.request.gpus)]
        settled = msgspec.structs.replace(measured, warnings=late, **known)
        write_measured(folder.record, settled)
    else:
        outcome, reason = ending.cause(end, task.request.gpus)
        known["job"] = _job(end)
        settled = record.cut_short(task, started.epoch_s, outcome, reason, failures=end.failures, **known)
        write(folder.record, settled)
    for read in folder.notes():
        read.unlink()
    return settled


def _settle_interrupted(
    task: TaskFile[Ended], folder: RunFolder, private: Path, started: Moment, stop: BaseException
) -> None:
    end = ending.interrupted(stop, slurm.cause_of_signal())
    _settle(task, folder, private, started, ending.read(end, folder, private))


def _job(end: Ending) -> Job | None:
    """The job that this run was part of, and why it ended, where that ended the run."""
    job = slurm.job()
    if isinstance(job, Unknown) or not end.by_slurm:
        return record.known(job)
    return msgspec.structs.replace(job, ended=end.by_slurm)


def _measured(task: TaskFile[Ended], folder: RunFolder, private: Path, started: Moment) -> Ended | None:
    """The record of this run's finished measurement, which rank 0 writes once all ranks have sent it theirs."""
    for path in (folder.record, *set_aside(private)):
        try:
            ended = record.read(path, task.record_type)
        except RecordError:
            continue
        if ended.outcome == "ok" and ended.started_at == record.timestamp(started.epoch_s):
            return ended
    return None


def _with_counts(task: RunFile, folder: RunFolder, ended: RunRecord) -> RunRecord:
    """The record with its workload: a point that found no memory has its place in intensity space, too.

    Counting may take a moment, so the record is on disk without it before.
    """
    workload = _counted(task)
    unknown = {path: why for path, why in ended.unknown.items() if path != "workload"}
    if isinstance(workload, Unknown):
        unknown["workload"] = str(workload)
    counted = None if isinstance(workload, Unknown) else workload
    ended = msgspec.structs.replace(ended, workload=counted, unknown=unknown)
    write(folder.record, ended)
    return ended


def _counted(task: RunFile) -> Workload | Unknown:
    """The workload of a run that did not get to counting it."""
    request = task.request
    try:
        from resnetx import workloads

        return workloads.workload(request.model, request.image_size, request.batch_size, task.convention)
    except Exception as error:  # what ended the run may end this: no memory, say, or a torch that cannot be loaded
        return Unknown(f"it could not be counted: {ending.sentence(error)}")
