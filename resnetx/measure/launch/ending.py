"""What the end of a run means: what ended it, judged by everything that its processes left behind.

A failure of one rank makes the others fail, and torchrun end them; what matters is which came first. Ranks report their
own failures in files (`rank_process`). How a rank that could not do that ended, only torchrun knows, its parent, and it
prints it on stderr.
"""

import os
import re
import signal
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from resnetx.errors import FileError, shortened
from resnetx.formats import logs
from resnetx.host import node_name
from resnetx.loading import File, read_json
from resnetx.measure.launch import Moment, rank, slurm
from resnetx.record import MAX_BYTES, Failure, Outcome, RunFolder, Warning, write
from resnetx.units import si

# ---- nccl log -------------------------------------------------------------------------------------------------------
# NCCL's log, in a file of each rank: the only place in which it says which way each connection goes, and where it
# complains. Loads no torch, as the launcher reads the logs of ranks that were killed.
# Reference: NCCL User Guide, "Environment Variables" (NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE).

_PREFIX = "resnetx-nccl-"
_MOST_WARNINGS = 20  # lines of one rank that are kept: the first ones, as others follow from them
_LINE = 500  # characters

_logs: list[Path] = []  # of this process


def new_log() -> Path | None:
    """An empty file for this rank's log; None where the user has asked for a log of his own."""
    if any(name in os.environ for name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")):
        return None
    handle, name = tempfile.mkstemp(prefix=f"{_PREFIX}{os.getpid()}-", suffix=".log")
    os.close(handle)
    _logs.append(Path(name))
    return _logs[-1]


def variables(log: Path, choices: bool = False) -> dict[str, str]:
    """What makes NCCL write into the log, while a communicator is made.

    `choices`: also, for every operation, its algorithm and protocol, which takes the host a few us each.
    """
    parts = "INIT,P2P,NVLS" + ",TUNING" * choices
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": parts, "NCCL_DEBUG_FILE": str(log)}


def taken(log: Path | None) -> str:
    """What is in the log, which is then gone; "" where there is none."""
    if log is None:
        return ""
    try:
        text = log.read_text(errors="replace")
        log.unlink()
    except OSError:
        return ""
    return text


def warnings_left(folder: Path | None = None) -> str:
    """What NCCL warned of in the logs that ranks left in a folder, a line each; the logs are then gone.

    None: the logs that this process has made. A folder that others can write into is not searched: what has the name
    of a log there may be anything.
    """
    logs = sorted(folder.glob(f"{_PREFIX}*.log")) if folder else _logs
    lines = [line for log in logs for line in _warnings(taken(log))]
    return "".join(f"{line}\n" for line in lines)


def _warnings(log: str) -> list[str]:
    found = [line.strip()[:_LINE] for line in log.splitlines() if "NCCL WARN" in line]
    return list(dict.fromkeys(found))[:_MOST_WARNINGS]


def channel_lines(log: str) -> list[tuple[str, str]]:
    """(transport, line) for each connection of NCCL's first channel, and for NVLink SHARP, as its INFO log names them.

    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" gives ("P2P/CUMEM", the line).
    """
    found = {}
    for line in log.splitlines():
        text = line.partition("NCCL INFO ")[2]
        if text.startswith("Channel 00") and " via " in text:
            found[text] = text.rpartition(" via ")[2].split()[0]
        elif text.startswith(("Connected NVLS", "NVLS comm ")):  # the former between nodes, the latter on one, too
            found[text] = "NVLS"
    return [(via, text) for text, via in sorted(found.items())]


# "AllReduce: 4096 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}"; before NCCL 2.24 numbers, and no function.
_CHOICE = re.compile(r"NCCL INFO (?:(\w+): )?\s*(\d+) Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")  # nccl_common.h
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


@dataclass(frozen=True)
class NcclChoice:
    """What NCCL ran an operation by."""

    function: str  # "AllReduce"; "" where the log does not name it
    size_bytes: int
    algorithm: str
    protocol: str


def choices(log: str) -> list[NcclChoice]:
    """The algorithm and protocol of every operation in a log, each once."""
    found = [
        NcclChoice(
            function or "",
            int(size),
            _name(algorithm, _ALGORITHMS),
            _name(protocol, _PROTOCOLS),
        )
        for function, size, algorithm, protocol in _CHOICE.findall(log)
    ]
    return list(dict.fromkeys(found))


def _name(word: str, known: tuple[str, ...]) -> str:
    """A name as it is; a number as the name that it stands for."""
    if not word.isdecimal():
        return word.upper()
    return known[int(word)] if int(word) < len(known) else word


# ---- ending ---------------------------------------------------------------------------------------------------------

# How libraries say that there is no memory left, on a GPU, on the host, or in the address space of a process.
#
# The sentences are those that torch 2.15, CUDA 13, NCCL, DALI, glibc, OpenBLAS and libgomp print; those of the host
# were seen by running under `ulimit -v`.

_SENTENCES = re.compile(
    r"out of memory|ALLOC(ATION)?_FAILED|cudaErrorMemoryAllocation|CUDA allocation failed"
    # cuDNN's trials of its algorithms (`torch.backends.cudnn.benchmark`) found none whose workspace could be allocated.
    r"|FIND was unable to find an engine"
    r"|DefaultCPUAllocator|std::bad_alloc|\bMemoryError\b"
    r"|cannot allocate memory(?! in static TLS)|failed to map segment|memory allocation (still )?failed",
    re.IGNORECASE,
)
# They mean it where the address space is limited: a thread needs some for its stack, oneDNN for its code. Where it is
# not, threads are too many, or oneDNN is mistaken.
_SENTENCES_UNDER_A_LIMIT = re.compile(
    r"resource temporarily unavailable|can't start new thread|thread creation failed|pthread_create failed"
    r"|could not create a (primitive|memory object)",
    re.IGNORECASE,
)


def no_memory(text: str) -> bool:
    """Whether a message says that no memory was left; processes here have the limits of those it came from."""
    return bool(_SENTENCES.search(text) or (_limited() and _SENTENCES_UNDER_A_LIMIT.search(text)))


def _limited() -> bool:
    """Whether a limit is set on the address space (`ulimit -v`) or the data (`ulimit -d`) of this process."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limits
        return False
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return any(limit != resource.RLIM_INFINITY for limit in limits)


STDERR_END = 4000  # characters of stderr that a record keeps
_STDERR_READ = 2**18  # bytes of stderr that are searched for torchrun's report, which has some 300 for each rank
_SENTENCE = 500  # characters of a message of others that a record repeats
ERROR_FILE_VARIABLE = "TORCHELASTIC_ERROR_FILE"  # where torchrun writes the exception that ended it


@dataclass(frozen=True)
class Ending:
    """The end of a run's processes."""

    status: int = 1  # of torchrun, below 0 where a signal ended it; means nothing where the launcher stopped it
    stopped: Outcome | None = None  # the launcher stopped it, with this outcome
    reason: str = ""  # of the launcher
    failures: list[Failure] = field(default_factory=list)  # that ranks reported, the first one first
    stderr: str = ""  # its end, without torchrun's report, and what NCCL warned of
    rank_statuses: dict[int, int] = field(default_factory=dict)  # of ranks that failed, as torchrun or the lab has them
    torchrun_error: str = ""  # the exception that ended torchrun, where ranks did not
    by_slurm: str = ""  # why Slurm ended it: "time limit"; "" where it did not
    gpu_errors: list[str] = field(default_factory=list)  # that NVML told of while the run was on
    oom_kill: bool = False  # the kernel's out-of-memory killer ended a process of this host meanwhile

    @property
    def stderr_end(self) -> str:
        """The last lines of stderr, whole lines only."""
        return self.stderr if len(self.stderr) <= STDERR_END else self.stderr[-STDERR_END:].partition("\n")[2]


_REFUSED = re.compile(r"DefaultCPUAllocator: .* (\d+) bytes")  # as torch says that the host has no memory


def sentence(error: BaseException, smaller: str = "") -> str:
    """An exception in one line of bounded length; `smaller`: the setting that asks for less of the host's memory."""
    text = str(error).strip().partition("\n")[0]
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if refused := _REFUSED.search(text):
        advice = f"; use a smaller {smaller}" * bool(smaller)
        told = f"out of memory: {si(int(refused[1]), 'B')} at once{advice} ({told})"
    return shortened(told, _SENTENCE)


def interrupted(stop: BaseException, by_slurm: str) -> Ending:
    """The ending of a run whose launcher was told to end; `by_slurm`: why, where Slurm told it."""
    reason = f"{slurm.ENDED}: {by_slurm}" if by_slurm else f"interrupted ({sentence(stop).lstrip('_')})"
    return Ending(stopped="failed", reason=reason, by_slurm=by_slurm)


FailureKind = Literal["oom", "config", "peer", "error"]
_TRACEBACK_END = 8000  # characters of a traceback that a record keeps: its end, where the failure is


def failure(kind: FailureKind, message: str, trace: str = "", of_rank: int | None = None) -> Failure:
    """What went wrong now, on this node; `of_rank`: in which rank, None: in this process's own."""
    now = Moment.now()
    return Failure(
        rank=rank() if of_rank is None else of_rank,
        node=node_name(),
        kind=kind,
        time_s=now.epoch_s,
        monotonic_s=now.monotonic_s,
        message=message,
        traceback=trace[-_TRACEBACK_END:],
    )


def report_unbegun(rank: int, folder: RunFolder) -> None:
    """Says for a rank that it has left with status 0 before it could say anything."""
    with suppress(OSError):  # a full disk, say
        write(folder.failure(rank), failure("error", "left with exit status 0 before it had begun", of_rank=rank))


# ---- what is left behind --------------------------------------------------------------------------------------------


def error_file(private: Path) -> Path:
    """Where torchrun shall write the exception that ends it, in the scratch folder of a run."""
    return private / "torchrun-error.json"


def statuses_file(private: Path) -> Path:
    """Where the lab leaves the exit statuses of ranks that failed, as {"1": -9}."""
    return private / "statuses.json"


def read(end: Ending, folder: RunFolder, private: Path, oom_kill: bool = False) -> Ending:
    """The ending with all that is found in the folder of the run, and in its scratch folder."""
    stderr, report = _split(_tail(folder.stderr))
    # What GPUs have reported, each once, with how often where that is more.
    lines = [line for path in folder.all_gpu_errors() for line in _tail(path).splitlines()]
    return replace(
        end,
        failures=_failures(folder),
        stderr=stderr + warnings_left(private),
        rank_statuses={int(rank): int(status) for rank, status in _RANK_STATUS.findall(report)} or _statuses(private),
        torchrun_error=_torchrun_error(error_file(private)),
        by_slurm=end.by_slurm or ("" if end.stopped else slurm.cause_of_step(stderr)),
        gpu_errors=[line + f" {count} times" * (count > 1) for line, count in Counter(lines).items()],
        oom_kill=oom_kill,
    )


def _statuses(private: Path) -> dict[int, int]:
    try:
        return read_json(File(statuses_file(private), "statuses of ranks", MAX_BYTES), dict[int, int])
    except FileError:
        return {}


_RANK_STATUS = re.compile(r"^\s*rank\s*: (\d+) \(.*\n\s*exitcode\s*: (-?\d+) ", re.MULTILINE)


_TRACEBACK = "Traceback (most recent call last):\n"


def _split(stderr: str) -> tuple[str, str]:
    """stderr without torchrun's report on the ranks that failed; and that report, "" if there is none."""
    first, *tracebacks = stderr.split(_TRACEBACK)
    reports = [index for index, text in enumerate(tracebacks) if "ChildFailedError:" in text]
    if not reports:
        return stderr, ""
    report = tracebacks.pop(reports[-1])  # behind it, torchrun on other nodes may tell that it was ended
    return _TRACEBACK.join([first, *tracebacks]), report


def _tail(path: Path) -> str:
    """The end of a log; "" where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _STDERR_READ))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _failures(folder: RunFolder) -> list[Failure]:
    """What the ranks reported, the first one first."""
    found = []
    for path in folder.failures():
        try:
            found.append(read_json(File(path, "a rank's failure", MAX_BYTES), Failure))
        except FileError:
            continue  # the rank died while it wrote
    one_clock = len({failure.node for failure in found}) <= 1  # that nobody sets; nodes share only the time of day
    return sorted(found, key=lambda failure: failure.monotonic_s if one_clock else failure.time_s)


def _torchrun_error(path: Path) -> str:
    """The exception that ended torchrun: {"message": {"message": "RendezvousTimeoutError: ...", ...}}."""
    try:
        written = read_json(File(path, "torchrun's error", MAX_BYTES), dict[str, dict[str, Any]])
        return shortened(str(written["message"]["message"]), _SENTENCE)
    except (FileError, KeyError):
        return ""


# ---- what it means --------------------------------------------------------------------------------------------------

Cause = tuple[Outcome, str]


def cause(end: Ending, ranks: int) -> Cause:
    """What ended a run of so many ranks before it had measured all: outcome and reason, and what GPUs have reported."""
    outcome, reason = _cause(end, ranks)
    return outcome, "; ".join([reason, *end.gpu_errors])


def _cause(end: Ending, ranks: int) -> Cause:
    if end.stopped is not None:
        return end.stopped, end.reason
    if end.by_slurm:
        return "failed", f"{slurm.ENDED}: {end.by_slurm}"
    for judge in _JUDGES:
        if found := judge(end, ranks):
            return found
    if end.failures:  # nothing but ranks that lost others
        return "failed", f"rank {end.failures[0].rank}: {end.failures[0].message}"
    return "failed", f"torchrun exited with status {end.status}"


def late(end: Ending, ranks: int) -> list[Warning]:
    """What went wrong after the measurement was finished; its figures are complete."""
    if end.stopped is None and end.status == 0:
        return []
    _, reason = cause(end, ranks)
    message = f"after the measurement, while its processes were shutting down: {reason}"
    return [Warning(code="shutdown", message=message, remedy="the figures are complete; for the rest see stderr.log")]


def _signal_to_torchrun(end: Ending, _: int) -> Cause | None:
    """torchrun was asked to end, and ended all ranks, which report no more than that.

    Of several nodes, also where a rank on another one was lost: srun then ends torchrun on all.
    """
    if match := re.match(r"SignalException: .*got signal: (\d+)", end.torchrun_error):
        return "failed", f"torchrun was ended ({_signal_name(int(match[1]))})"
    return None


def _failed_rank(end: Ending, _: int) -> Cause | None:
    """A rank has reported what was wrong with itself; complaints of ranks that lost another do not count."""
    for failure in end.failures:
        if failure.kind != "peer":
            return "oom" if failure.kind == "oom" else "failed", f"rank {failure.rank}: {failure.message}"
    return None


def _waiting_ranks(end: Ending, ranks: int) -> Cause | None:
    """NCCL's watchdog has ended ranks that waited in a collective for others, none of which was killed or crashed.

    The watchdog ends its process by SIGABRT; torchrun then ends the others.
    """
    others = {signal.SIGABRT, signal.SIGTERM}
    waiting = logs.waiting(end.stderr)
    if not waiting or any(status < 0 and -status not in others for status in _unreported(end).values()):
        return None
    return "failed", f"NCCL timed out: {logs.waited(waiting, range(ranks))}"


def _killed_torchrun(end: Ending, _: int) -> Cause | None:
    """torchrun was killed, and the kernel killed all ranks with it."""
    if end.status >= 0:
        return None
    if end.status == -signal.SIGKILL and end.oom_kill:
        return "oom", "the kernel's out-of-memory killer ended torchrun"
    return "failed", f"torchrun {_ended_by(-end.status)} ({_signal_name(-end.status)})"


def _killed_ranks(end: Ending, _: int) -> Cause | None:
    """Signals ended ranks, from outside or for a crash; SIGTERM is what torchrun then ends the others with."""
    signals = {rank: -status for rank, status in _unreported(end).items() if status < 0}
    first = {rank: number for rank, number in signals.items() if number != signal.SIGTERM}
    if not first and len(signals) == len(_unreported(end)):  # else one has exited by itself
        first = signals
    if not first:
        return None
    if end.oom_kill and signal.SIGKILL in first.values():
        return "oom", f"the kernel's out-of-memory killer ended {logs.named(first)}"
    if signal.SIGKILL not in first.values() and (line := _memory_line(end)):
        return "oom", f"{logs.named(first)} crashed: {line}"
    told = {rank: f": {error}" for rank, error in logs.errors(end.stderr).items()}
    signalled = [
        f"rank {rank} {_ended_by(number)} ({_signal_name(number)}){told.get(rank, '')}"
        for rank, number in sorted(first.items())
    ]
    return "failed", ", ".join(signalled)


def _failed_torchrun(end: Ending, _: int) -> Cause | None:
    """torchrun failed by itself: it could not be loaded, say, or was asked for what it does not do."""
    if end.failures or end.rank_statuses or end.status == 0 or "ChildFailedError" in end.stderr:
        return None
    line = end.torchrun_error or _last_line(end.stderr)
    starter = "srun" if line.startswith("srun: ") else "torchrun"  # it says so, where it could start no torchrun
    reason = f"{starter} exited with status {end.status}" + f": {line}" * bool(line)
    return "oom" if no_memory(line) else "failed", reason


def _silent_ranks(end: Ending, ranks: int) -> Cause | None:
    """Ranks that exited and reported nothing, as native code does that gives up."""
    statuses = {rank: status for rank, status in _unreported(end).items() if status > 0}
    silent = set(statuses) or (
        set() if end.rank_statuses else set(range(ranks)) - {failure.rank for failure in end.failures}
    )
    if not silent:
        return None
    if line := _memory_line(end):
        return "oom", f"{logs.named(silent)} exited: {line}"
    status = f" with status {', '.join(sorted({str(status) for status in statuses.values()}))}" * bool(statuses)
    last = _last_line(end.stderr)
    told = f"; the last line of stderr: {last}" * bool(last)
    return "failed", f"{logs.named(silent)} exited silently{status}{told}"


def _unreported(end: Ending) -> dict[int, int]:
    """The exit statuses of ranks that failed and did not say why."""
    reported = {failure.rank for failure in end.failures}
    return {rank: status for rank, status in end.rank_statuses.items() if rank not in reported}


def _memory_line(end: Ending) -> str:
    """The line on stderr that says that there was no memory; "" where none does."""
    found = next((line.strip() for line in reversed(end.stderr.splitlines()) if no_memory(line)), "")
    return shortened(found, _SENTENCE)


def _last_line(text: str) -> str:
    """The last line that names an exception, else the last one: native code may log something behind it."""
    lines = [line.strip() for line in text.strip().splitlines()] or [""]
    return shortened(next(filter(_EXCEPTION.match, reversed(lines)), lines[-1]), _SENTENCE)


_EXCEPTION = re.compile(r"[\w.]*(Error|Exception)\b: ")


def _ended_by(number: int) -> str:
    if number == signal.SIGKILL:
        return "was killed"
    return "was ended" if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) else "crashed"


def _signal_name(number: int) -> str:
    """SIGKILL, of 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_JUDGES = (
    _failed_rank,
    _waiting_ranks,
    _killed_ranks,
    _signal_to_torchrun,
    _killed_torchrun,
    _failed_torchrun,
    _silent_ranks,
)  # the first one that finds a cause
