"""Host load: real busy processes, of this run and not, and literal readings."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resnetx.measure.machine.host_facts import CpuTimes, cpu_times, host_load
from resnetx.record import HostLoad, Unknown
from tests.patience import until

SPIN = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"


def load_beside(busy) -> HostLoad:
    """The host's load over a moment in which the context manager `busy` holds."""
    with busy:
        time.sleep(0.3)  # until it spins
        before = cpu_times()
        time.sleep(1.2)  # over a hundred ticks of 10 ms, on one CPU
        return host_load(before, cpu_times())


class Foreign:
    """A busy process that does not descend from this one: its parent ends, and the kernel gives it another."""

    def __enter__(self):
        shell = f"{sys.executable} -c '{SPIN}' >/dev/null 2>&1 & echo $!"
        self.pid = int(subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout)

    def __exit__(self, *_):
        os.kill(self.pid, 9)


class Child:
    """A busy process of this run."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", SPIN])
        return self

    def used_ticks(self) -> int:
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return int(user) + int(system)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_busy_process_of_somebody_else_is_foreign_load():
    load = load_beside(Foreign())
    assert load.foreign > 0.1 / os.cpu_count()  # a tenth of one CPU, however busy the host is otherwise
    assert load.busy >= load.foreign


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_busy_child_is_load_but_not_foreign():
    """However little of a busy host it gets."""
    with Child() as child:
        before, start = cpu_times(), child.used_ticks()
        until(
            lambda: child.used_ticks() - start >= 50 and isinstance(host_load(before, cpu_times()), HostLoad),
            "half a second of CPU time",
        )
        used, after = child.used_ticks() - start, cpu_times()
    load = host_load(before, after)
    own = (load.busy - load.foreign) * (after.total - before.total)
    assert own > used / 2, "the kernel's counters of CPUs and of processes differ by a few ticks"


RANK = """
import sys
from resnetx.measure.machine.host_facts import run_pids
print("ready", flush=True)
sys.stdin.readline()
print(*run_pids(), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_other_ranks_of_the_launcher_are_of_this_run():
    """As torchrun and the lab start them: LOCAL_RANK says that the parent is the launcher."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK],
            env={**os.environ, "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        assert rank.stdout.readline() == "ready\n"
    for rank in ranks:
        rank.stdin.write("\n")
        rank.stdin.flush()
        counted = {int(pid) for pid in rank.stdout.readline().split()}
        assert {os.getpid(), *(each.pid for each in ranks)} <= counted
    for rank in ranks:
        rank.communicate("\n")


@pytest.mark.parametrize(
    ("before", "after", "interrupts", "foreign"),
    [
        # A child used 10 more ticks and ended; its parent used 2, and waited for it.
        ({(1, 100): (10, 0), (2, 200): (50, 0)}, {(1, 100): (12, 60)}, 8, 0.20),
        ({(1, 100): (10, 0), (2, 200): (50, 0)}, {(1, 100): (12, 0)}, 0, 0.38),  # nobody waited: nothing is taken off
        ({(1, 100): (90, 0)}, {(1, 300): (5, 0)}, 0, 0.35),  # a process id that is used again is another process
    ],
)
def test_a_child_that_ends_in_between_counts_for_what_it_used_in_between(before, after, interrupts, foreign):
    first = CpuTimes(total=0, busy=0, interrupts=0, run=before)
    second = CpuTimes(total=100, busy=40, interrupts=interrupts, run=after)
    assert host_load(first, second) == HostLoad(busy=0.40, foreign=foreign)


def test_a_moment_too_short_for_the_kernel_has_no_load():
    before = CpuTimes(total=100, busy=40, interrupts=0, run={})
    after = CpuTimes(total=103, busy=42, interrupts=0, run={})
    assert isinstance(host_load(before, after), Unknown)
