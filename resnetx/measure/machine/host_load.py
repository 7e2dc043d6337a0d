"""How busy the host's CPUs were between two moments, and how much of that was not this run's.

The kernel counts CPU time since boot, for the whole host and for each process. `cpu_times` reads both, `host_load`
takes the difference of two readings. This run's processes are those that descend from its launcher.

References: proc_stat(5), proc_pid_stat(5).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from resnetx.measure.launch.torchrun import launcher_pid
from resnetx.record import HostLoad, Unknown

_LEAST_TICKS = 100  # of all CPUs together: with fewer, a single tick is more than a hundredth

_PROC = Path("/proc")

_Process = tuple[int, int]  # id and time of start: ids are used again
_Ticks = tuple[int, int]  # used by the process itself, and by those of its children that have ended


@dataclass(frozen=True)
class CpuTimes:
    """CPU time since boot, in clock ticks: of the whole host, and of every process of this run."""

    total: int
    busy: int  # not idle: also time spent on interrupts, and time that a hypervisor gave to others
    interrupts: int
    run: dict[_Process, _Ticks]


def cpu_times() -> CpuTimes | Unknown:
    try:
        line = (_PROC / "stat").read_text().partition("\n")[0]
    except OSError:
        return Unknown("this system has no /proc/stat")
    user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) for ticks in line.split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return CpuTimes(busy + idle + iowait, busy, irq + softirq, _run_times())


def host_load(before: CpuTimes | Unknown, after: CpuTimes | Unknown) -> HostLoad | Unknown:
    """Shares of all CPUs of the host: busy at all, and busy for processes that are not of this run.

    Interrupts are not counted: they are mostly the run's own network traffic. In a container, too, the kernel counts
    for the whole host, including other containers and CPUs that this container may not use.
    """
    if isinstance(before, Unknown):
        return before
    if isinstance(after, Unknown):
        return after
    total = after.total - before.total
    if total < _LEAST_TICKS:
        return Unknown("the windows were too short for the kernel's clock, which ticks every 10 ms on each CPU")
    busy = after.busy - before.busy
    others = busy - (after.interrupts - before.interrupts) - _ticks_of_run(before.run, after.run)
    # The kernel updates its counters CPU by CPU, so that small differences can leave the range.
    return HostLoad(busy=min(max(busy / total, 0.0), 1.0), foreign=min(max(others / total, 0.0), 1.0))


def _ticks_of_run(before: Mapping[_Process, _Ticks], after: Mapping[_Process, _Ticks]) -> int:
    """CPU time that the processes of the run used between two readings.

    A process that ends hands its whole time to its parent's children, so what it had used before is taken off there.
    """
    none = (0, 0)
    own = sum(ticks - before.get(process, none)[0] for process, (ticks, _) in after.items())
    ended = sum(ticks - before.get(process, none)[1] for process, (_, ticks) in after.items())
    earlier = sum(sum(ticks) for process, ticks in before.items() if process not in after)
    return own + max(0, ended - earlier)


def _launcher_pid() -> int:
    """The process that all others of this run on this host descend from: torchrun, or the lab; this one without."""
    return launcher_pid() if "LOCAL_RANK" in os.environ else os.getpid()


def run_pids() -> set[int]:
    """The processes of this run on this host."""
    return {pid for pid, _ in _run_times()}


def _run_times() -> dict[_Process, _Ticks]:
    """The processes that descend from the launcher, and the launcher itself."""
    every: dict[int, tuple[_Process, _Ticks]] = {}
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (fields := _stat(folder)):
            pid, parent = int(folder.name), int(fields[1])
            own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            every[pid] = ((pid, int(fields[19])), (own, ended))
            children.setdefault(parent, []).append(pid)
    of_run = [_launcher_pid()]
    for pid in of_run:  # grows while it is read: descendants of descendants
        of_run += children.get(pid, [])
    return dict(every[pid] for pid in of_run if pid in every)


def _stat(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat from the state on (the third in the manual); none where the process has ended."""
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
