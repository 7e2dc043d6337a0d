"""The resources of the host that this process may use, and the host's name.

A process may be restricted to some of the CPUs, and its control groups (a container, a Slurm job, a systemd service)
limit CPU time and memory, by the kernel's files; on a system without them no limits are known.

References: sched_getaffinity(2), cgroups(7), Linux documentation of both versions' cpu and memory controllers.
"""

import atexit
import ctypes
import math
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

_ROOT = Path("/")
_known_cores: ContextVar[int | None] = ContextVar("known_cores", default=None)


def node_name() -> str:
    """The node's own name; under Slurm its node name, as several `slurmd` may share a host."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return re.sub(r"[^A-Za-z0-9._-]+|^[.-]+", "-", name)  # it names a folder


class Child(Protocol):
    """A child process, as a `Popen` has it."""

    pid: int
    args: Any
    returncode: Any

    def kill(self) -> None: ...

    def terminate(self) -> None: ...


def exit_status(child: Child, timeout_s: float | None = None, look_up: Callable[[], None] = lambda: None) -> int:
    """Waits until a child has ended; its exit status, below 0 where a signal ended it. Raises `TimeoutExpired`.

    `look_up`: called between looks at the child; what it raises ends the waiting, of a thread that gets no signals.

    In place of `Popen.wait`, which takes a lock for each look at the child: an exception that a signal handler raises
    between taking and keeping it leaves it locked, and whoever waits next waits for ever (seen with CPython 3.11).
    """
    limit = math.inf if timeout_s is None else time.monotonic() + timeout_s
    pause_s = 0.0005
    while child.returncode is None:
        if (status := _reaped(child.pid)) is not None:
            child.returncode = status
        elif time.monotonic() >= limit:
            raise subprocess.TimeoutExpired(child.args, timeout_s or 0)
        else:
            look_up()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)
    return int(child.returncode)


def _reaped(pid: int) -> int | None:
    """The exit status of a child that has ended; None: it runs."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # an exception came between this call and the keeping of its result
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if ended else None


def dying_with(parent: int, gently: bool = False) -> Callable[[], None]:
    """What a child of the process `parent` calls so that the kernel ends it when that one dies, however it dies.

    By SIGKILL; `gently`: by SIGTERM, at which it may end what it has started elsewhere.

    Linux only; elsewhere it does nothing. Safe between fork and exec, as it resolves no symbols there.
    """
    if sys.platform != "linux":
        return lambda: None
    prctl, set_death_signal = ctypes.CDLL(None).prctl, 1  # PR_SET_PDEATHSIG of linux/prctl.h
    death = signal.SIGTERM if gently else signal.SIGKILL

    def ask_kernel() -> None:
        prctl(set_death_signal, death, 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel was asked
            os.kill(os.getpid(), signal.SIGKILL)

    return ask_kernel


@contextmanager
def interrupts_held() -> Iterator[None]:
    """While the block lasts, processes that start are deaf to Ctrl-C for good; this one hears it behind the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_module(name: str, words: list[str]) -> None:
    """Does what `python -m NAME WORDS` does."""
    sys.argv = [name, *words]
    sys.modules.pop(name, None)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def end_after(act: Callable[..., None], *words: Any) -> NoReturn:
    """Does something, and ends this process as Python would, but for taking down what it has loaded."""
    status = 1
    try:
        act(*words)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # also on a full disk: it must not go on as the process that it is a fork of
            os._exit(status)


def visible_cores() -> int:
    """CPUs that this process may run on, even if it may use only a part of their time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_numbers(text: str) -> set[int]:
    """The numbers in a list as the kernel writes it: "0-2,8" is 0, 1, 2 and 8."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def cpus_text() -> str:
    """The CPUs that this process may run on, as the kernel writes it: "0-2,8"; "" if the system does not report it."""
    if not hasattr(os, "sched_getaffinity"):
        return ""
    numbers = sorted(os.sched_getaffinity(0))
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def cores() -> int:
    """CPUs that this process may keep busy: those it may run on, or fewer where a control group limits its time."""
    if (known := _known_cores.get()) is not None:
        return known
    quotas = [quota for group in _control_groups("cpu") if (quota := _cpu_quota(group))]
    return max(1, int(min([visible_cores(), *quotas])))


@contextmanager
def cores_read_once() -> Iterator[None]:
    """While the block lasts, `cores` is what it is now: asked for each of 10,000 points it took 10 s."""
    token = _known_cores.set(cores())
    try:
        yield
    finally:
        _known_cores.reset(token)


def memory_bytes() -> int:
    """The host's memory, or less where a control group limits it: the page cache counts there, too."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    return min([*limits, *(limit for _, limit in _memory_limits())])


def free_memory_bytes() -> int:
    """Free memory of the host, or of a control group if that is less; the page cache counts as free."""
    free = [int(line.split()[1]) * 1024 for line in _lines("proc/meminfo") if line.startswith("MemAvailable:")]
    for group, limit in _memory_limits():
        used = kernel_text(group / "memory.current") or kernel_text(group / "memory.usage_in_bytes")
        files = [line.split()[1] for line in _lines(group / "memory.stat") if re.match("(in)?active_file ", line)]
        free += [limit - int(used) + sum(map(int, files))] if used.isdigit() else []
    return max(0, min(free, default=memory_bytes()))


def _memory_limits() -> Iterator[tuple[Path, int]]:
    """The control groups that limit memory, each with its limit."""
    for group in _control_groups("memory"):
        limit = kernel_text(group / "memory.max") or kernel_text(group / "memory.limit_in_bytes")
        if limit.isdigit():
            yield group, int(limit)


def _lines(path: str | Path) -> list[str]:
    return kernel_text(path).splitlines()


def _cpu_quota(group: Path) -> float | None:
    """CPUs whose whole time a control group may use; None without a limit, which is "max" or -1."""
    both = kernel_text(group / "cpu.max")  # version 2: "150000 100000"
    if not both:
        both = f"{kernel_text(group / 'cpu.cfs_quota_us')} {kernel_text(group / 'cpu.cfs_period_us')}"
    quota, _, period = both.partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _control_groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups that limit `controller`, inner ones first; either version's."""
    for line in kernel_text("proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = kernel_file("sys/fs/cgroup") / (controller if controllers else "")
        # In a container the path may be the host's, and lead nowhere: its own group is then the mount itself.
        group = Path(path.lstrip("/"))
        yield from (mount / folder for folder in (group, *group.parents))


# ---- the kernel's locks ---------------------------------------------------------------------------------------------


def flock(file: int | IO[Any], *, shared: bool = False, wait: bool = True) -> bool:
    """Takes the kernel's lock on an open file, which ends with the process that holds it. Windows has none.

    False, without `wait`, where another process holds it; an `OSError` on a file system without locks.
    """
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB * (not wait))
    except BlockingIOError:
        return False
    return True


# ---- the kernel's files ---------------------------------------------------------------------------------------------


def kernel_file(path: str | Path) -> Path:
    """A file or folder of the kernel, by its path without the leading slash."""
    return _ROOT / path


def kernel_text(path: str | Path) -> str:
    """The content of a file of the kernel; "" if it is missing or has no value."""
    try:
        return kernel_file(path).read_text(errors="replace").strip()
    except OSError:
        return ""
