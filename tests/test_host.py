"""The host: what may be used of it, told by the files of machines with limits and without."""

import os
import signal
import subprocess
import sys

import pytest

from resnetx import host
from resnetx.host import exit_status


def test_the_slurm_node_name_comes_before_the_host_name(monkeypatch):
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    assert host.node_name() == os.uname().nodename
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    assert host.node_name() == "node7"


def test_a_process_may_not_use_more_than_it_can_see():
    assert 1 <= host.cores() <= host.visible_cores() <= os.cpu_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process")
def test_a_pinned_process_sees_the_cpus_that_it_is_pinned_to():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert host.visible_cores() == host.cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


# ---- files of other machines ----------------------------------------------------------------------------------------

MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def other_machine(kernel_files, monkeypatch):
    """A machine with eight CPUs, whose files it writes."""
    monkeypatch.setattr(host, "visible_cores", lambda: 8)
    return kernel_files


def test_free_memory_is_what_the_tightest_limit_leaves_and_the_page_cache_is_free(other_machine):
    other_machine({"proc/meminfo": "MemTotal: 900 kB\nMemAvailable:   600 kB"})
    assert host.free_memory_bytes() == 600 * 1024
    other_machine({
        "proc/self/cgroup": "0::/pod",
        "sys/fs/cgroup/pod/memory.max": "5000",
        "sys/fs/cgroup/pod/memory.current": "4500",
        "sys/fs/cgroup/pod/memory.stat": "anon 4000\nfile 500\ninactive_file 300\nactive_file 100",
    })  # fmt: skip
    assert host.free_memory_bytes() == 5000 - 4500 + 400


def test_without_the_kernels_files_all_memory_counts_as_free(other_machine):
    assert host.free_memory_bytes() == host.memory_bytes() == MEMORY


CGROUP_2 = {
    "proc/self/cgroup": "0::/pod/train",
    "sys/fs/cgroup/pod/train/cpu.max": "max 100000",
    "sys/fs/cgroup/pod/cpu.max": "350000 100000",
    "sys/fs/cgroup/cpu.max": "600000 100000",
    "sys/fs/cgroup/pod/memory.max": "1048576",
}
CGROUP_1 = {
    "proc/self/cgroup": "4:memory:/docker/f00\n1:cpu,cpuacct:/docker/f00",  # the host's paths: not seen in here
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "350000",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576",
}


@pytest.mark.parametrize("files", [CGROUP_2, CGROUP_1], ids=["version 2", "version 1"])
def test_a_control_group_limits_cpus_and_memory(other_machine, files):
    other_machine(files)
    assert host.cores() == 3
    assert host.memory_bytes() == 2**20


def test_a_quota_of_less_than_one_cpu_leaves_one(other_machine):
    other_machine({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"})
    assert host.cores() == 1


UNLIMITED = {
    "version 2": {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "max"},
    "version 1": {"proc/self/cgroup": "1:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"},
    "no control groups": {},
}


@pytest.mark.parametrize("files", UNLIMITED.values(), ids=UNLIMITED)
def test_without_a_limit_all_of_the_host_is_usable(other_machine, files):
    other_machine(files)
    assert host.cores() == 8
    assert host.memory_bytes() == MEMORY


def test_a_child_is_waited_for_also_where_an_interrupted_wait_left_its_lock_behind():
    child = subprocess.Popen(["sleep", "60"])
    child._waitpid_lock.acquire()  # as an exception of a signal handler leaves it, in the wrong moment
    with pytest.raises(subprocess.TimeoutExpired):
        exit_status(child, 0.01)
    child.kill()
    assert exit_status(child) == -signal.SIGKILL
    assert exit_status(child) == child.returncode


def test_a_child_that_was_reaped_unseen_has_ended():
    child = subprocess.Popen(["true"])
    os.waitpid(child.pid, 0)
    assert exit_status(child) == -signal.SIGKILL


def test_cores_are_read_once_where_many_points_ask(monkeypatch):
    read = []
    monkeypatch.setattr(host, "_control_groups", lambda controller: read.append(controller) or [])
    with host.cores_read_once():
        assert host.cores() == host.cores() >= 1
    assert read == ["cpu"]
    host.cores()
    assert read == ["cpu", "cpu"]


def test_a_lock_is_taken_by_one_open_file_at_a_time_and_is_free_once_that_is_closed(tmp_path):
    file = tmp_path / "lock"
    with file.open("w") as one, file.open("w") as other:
        assert host.flock(one, wait=False)
        assert not host.flock(other, wait=False)
        one.close()
        assert host.flock(other, wait=False)


def test_a_process_that_starts_while_interrupts_are_held_is_deaf_to_them_and_this_one_hears_behind():
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('lived')"
    with pytest.raises(KeyboardInterrupt), host.interrupts_held():
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        signal.raise_signal(signal.SIGINT)
    assert (child.returncode, child.stdout, child.stderr) == (0, "lived\n", "")
