"""One run or bench as a child process: start torchrun, wait, and make sure that a record tells how it ended.

Whatever happens to the child (an exception, a kill, a hang, no memory left), one `record.json` says so, and no process
is left: the kernel kills torchrun with this process, and every rank with torchrun (`worker.die_with_parent`).
"""

import ctypes
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, overload

import msgspec

from resnetx import packages, record
from resnetx.errors import ConfigError
from resnetx.measure.torchrun import FOLDER_VARIABLE
from resnetx.record import BenchFile, BenchRecord, Failure, RecordError, RunFile, RunFolder, RunRecord, Task, TaskRecord

STDERR_END = 4000  # characters of stderr that a record keeps


def command(task: Task, folder: RunFolder) -> list[str]:
    """The torchrun command line of a run; with its run file it repeats the run by hand."""
    return [
        "torchrun",
        "--standalone",
        "--local-addr=127.0.0.1",  # the host's own name may resolve to no address of this host
        "--max-restarts=0",
        f"--nproc-per-node={task.request.gpus}",
        "-m",
        "resnetx.train",
        str(folder.run),
    ]


def command_line(task: Task, folder: RunFolder) -> str:
    """The same as a shell takes it."""
    return shlex.join(command(task, folder))


@overload
def execute(task: RunFile, folder: RunFolder) -> RunRecord: ...
@overload
def execute(task: BenchFile, folder: RunFolder) -> BenchRecord: ...
def execute(task: Task, folder: RunFolder) -> TaskRecord:
    """Runs the task to its end, whatever that is, and returns its record, which is then on disk."""
    started = time.time()
    begin(task, folder, started)
    oom_kills = _oom_kills()
    try:
        exit_status = _wait(task, folder)
    except OSError as error:  # no torchrun, or no room for its output
        ended = record.cut_short(task, started, "failed", f"torchrun could not be started: {error}")
        write(folder.record, ended)
        return ended
    except BaseException as stop:  # Ctrl-C and termination too: the child is dead by now
        write(
            folder.record, record.cut_short(task, started, "failed", f"interrupted ({type(stop).__name__.lstrip('_')})")
        )
        raise
    ended = _conclude(task, folder, started, exit_status, _oom_kills() - oom_kills)
    write(folder.record, ended)
    return ended


def skip(task: RunFile, folder: RunFolder, reason: str) -> RunRecord:
    """Writes, and returns, the record of a run that cannot take place here."""
    skipped = record.cut_short(task, time.time(), "skipped", reason, **_counted(task))
    write(folder.run, task)
    write(folder.record, skipped)
    return skipped


def begin(task: Task, folder: RunFolder, started: float) -> None:
    """Writes the run file, and a record that holds if nobody lives to write the true one."""
    for stale in folder.failures():
        stale.unlink()
    write(folder.run, task)
    unfinished = "the run has not reported its end: it is still running, or it was killed"
    write(folder.record, record.cut_short(task, started, "failed", unfinished))


def write(path: Path, content: Any) -> None:
    """Writes a record, or says in one sentence why that cannot be done."""
    try:
        record.write(path, content)
    except OSError as error:
        raise not_writable(path, error) from None


def not_writable(path: Path, error: OSError) -> ConfigError:
    """The sentence for a place in the results folder that cannot be written."""
    return ConfigError(f"results: cannot write {path} ({error.strerror}); make room or allow it, or set results=FOLDER")


def _wait(task: Task, folder: RunFolder) -> int | None:
    """The exit status of torchrun, or None where the time limit ended it."""
    environment = {
        **os.environ,
        **task.request.env,
        "OMP_NUM_THREADS": str(task.request.threads),  # torchrun sets 1, but only when it starts more than one rank
        FOLDER_VARIABLE: str(folder.path),
        "PYTHONUNBUFFERED": "1",
    }
    with (
        # For what a killed torchrun cannot clean up; its ranks may still be dying when this is.
        tempfile.TemporaryDirectory(prefix="resnetx-", ignore_cleanup_errors=True) as scratch,
        folder.stdout.open("wb") as stdout,
        folder.stderr.open("wb") as stderr,
    ):
        environment["TMPDIR"] = scratch
        child = subprocess.Popen(
            [_torchrun(), *command(task, folder)[1:]],
            stdout=stdout,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the child at once
            preexec_fn=_die_with_parent(),
        )
        try:
            return child.wait(task.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            child.kill()
            child.wait()


def _torchrun() -> str:
    beside = Path(sys.executable).with_name("torchrun")
    return str(beside) if beside.is_file() else "torchrun"


def _die_with_parent() -> Callable[[], None] | None:
    """For the child, between fork and exec: the kernel shall kill it when this process dies."""
    if sys.platform != "linux":
        return None
    prctl, launcher = ctypes.CDLL(None).prctl, os.getpid()  # looked up before the fork

    def ask_kernel() -> None:
        prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # it died before the kernel was asked
            os._exit(1)

    return ask_kernel


# ---- how it ended ---------------------------------------------------------------------------------------------------


def _conclude(task: Task, folder: RunFolder, started: float, exit_status: int | None, oom_kills: int) -> TaskRecord:
    failures = _failures(folder)
    if exit_status == 0:
        try:
            ended: TaskRecord = record.read(folder.record, record.record_kind(task))
        except RecordError as error:
            return record.cut_short(task, started, "failed", str(error))
        if ended.outcome == "ok":  # the rank does not see how long torchrun took around it
            return msgspec.structs.replace(ended, stderr_end=_end(folder.stderr), duration_s=time.time() - started)
    outcome, reason = _cause(task, failures, exit_status, oom_kills)
    known = {"failures": failures, "stderr_end": _end(folder.stderr), "duration_s": time.time() - started}
    write(folder.record, record.cut_short(task, started, outcome, reason, **known))  # counting may take its time
    return record.cut_short(task, started, outcome, reason, **known, **_counted(task))


def _cause(task: Task, failures: list[Failure], exit_status: int | None, oom_kills: int) -> tuple[record.Outcome, str]:
    """What ended a run that did not go well: the complaints of ranks that lost their peer come last."""
    if exit_status is None:
        return "timeout", f"not finished after timeout={task.timeout_s:g} seconds"
    if cause := next((failure for failure in failures if failure.kind != "peer"), None):
        return "oom" if cause.kind == "oom" else "failed", f"rank {cause.rank}: {cause.message}"
    if silent := sorted(set(range(task.request.gpus)) - {failure.rank for failure in failures}):
        if oom_kills > 0:
            return "oom", "the kernel's out-of-memory killer ended a rank"
        ranks = ", ".join(map(str, silent))
        return "failed", f"rank {ranks} ended without a word: killed by a signal, or crashed in native code"
    if failures:
        return "failed", f"rank {failures[0].rank}: {failures[0].message}"
    return "failed", f"torchrun ended with status {exit_status}"


def _failures(folder: RunFolder) -> list[Failure]:
    """What the ranks said of their own failures, the first one first; their files are folded into the record."""
    found = []
    for path in folder.failures():
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=Failure))
        except msgspec.DecodeError:
            continue  # the rank died while it wrote
        path.unlink()
    return sorted(found, key=lambda failure: failure.time_s)


def _counted(task: Task) -> dict[str, Any]:
    """The workload of a run that did not tell it: a point that found no memory has its place in intensity space too."""
    if isinstance(task, BenchFile):
        return {}
    from resnetx import workloads

    request = task.request
    try:
        counted = workloads.workload(request.model, request.image_size, request.batch_size, task.convention)
    except ConfigError as error:
        return {"workload": record.Unknown(str(error))}
    except ModuleNotFoundError as error:
        if sentence := packages.missing(error):
            return {"workload": record.Unknown(sentence)}
        raise
    return {"workload": counted}


def _end(path: Path) -> str:
    """The last lines of a log, whole lines only."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - STDERR_END))
        text = file.read().decode(errors="replace")
    return text if size <= STDERR_END else text.partition("\n")[2]


def _oom_kills() -> int:
    """Processes that the kernel's out-of-memory killer has ended since boot; 0 where it does not count them."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
