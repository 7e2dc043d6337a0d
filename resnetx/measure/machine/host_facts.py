"""The host of a run, by the kernel's files: its system, container, CPUs, storage and network.

References: proc(5), Linux ABI documentation of /sys.
"""

import os
import platform
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from resnetx.host import cores, cpu_numbers, kernel_file, kernel_text, memory_bytes, node_name
from resnetx.measure.launch import launcher_pid, slurm
from resnetx.record import HostLoad, Storage, Unknown, known


@dataclass(frozen=True)
class Host:
    """The kernel's part of `record.Environment`, by the names of its fields."""

    node: str
    system: str
    container: str | Unknown
    cpu: str
    cpu_sockets: int | Unknown
    cpu_cores: int | Unknown
    numa_nodes: int | Unknown
    cpus_usable: int
    cpu_governor: str | Unknown
    host_memory_bytes: int
    storage: Storage | Unknown
    network: list[str]
    host: str  # its name, which `node` is not under Slurm
    switch: str | Unknown


def machine(storage_path: Path | None) -> Host:
    """The host and what this process may use of it."""
    sockets, cpu_cores, nodes = _cpu_counts()
    return Host(
        node=node_name(),
        system=_system(),
        container=_container(),
        cpu=cpu_name(),
        cpu_sockets=sockets,
        cpu_cores=cpu_cores,
        numa_nodes=nodes,
        cpus_usable=cores(),
        cpu_governor=_governor(),
        host_memory_bytes=memory_bytes(),
        storage=Unknown("the run reads no images") if storage_path is None else _storage(storage_path),
        network=[*_interfaces(), *_infiniband_ports()],
        host=socket.gethostname(),
        switch=slurm.switches(),
    )


def _system() -> str:
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        distribution = platform.platform()
    return f"{platform.system()} {platform.release()} {platform.machine()}, {distribution}"


def _container() -> str | Unknown:
    """The container runtime, recognised by files and variables that each sets."""
    marks = {
        "apptainer": kernel_file(".singularity.d").exists() or "APPTAINER_NAME" in os.environ,
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ,
        "podman": kernel_file("run/.containerenv").exists(),
        "docker": kernel_file(".dockerenv").exists(),
    }
    runtimes = [runtime for runtime, present in marks.items() if present]
    others = os.environ.get("container")  # noqa: SIM112 (systemd's convention, which LXC, nspawn and others follow)
    return next(iter(runtimes), others) or Unknown("no sign of a container was found")


def cpu_name() -> str:
    facts: dict[str, str] = {}
    for line in kernel_text("proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    if name := facts.get("model name") or facts.get("cpu"):  # x86, or POWER
        return name
    if "CPU part" in facts:  # Arm names its cores by number only
        return f"{platform.machine()} implementer {facts.get('CPU implementer')} part {facts['CPU part']}"
    return platform.processor() or platform.machine()


def _cpu_counts() -> tuple[int | Unknown, int | Unknown, int | Unknown]:
    """Sockets, cores and NUMA nodes."""
    topologies = list(kernel_file("sys/devices/system/cpu").glob("cpu[0-9]*/topology"))
    if not topologies:
        why = Unknown("this system does not describe its CPUs under /sys")
        return why, why, why
    with_cpus = cpu_numbers(kernel_text("sys/devices/system/node/has_cpu"))  # a GPU's memory can be a node, too
    sockets = len({kernel_text(folder / "physical_package_id") for folder in topologies})
    cpu_cores = len({kernel_text(folder / "thread_siblings_list") for folder in topologies})
    return sockets, cpu_cores, len(with_cpus) or Unknown("the kernel was built without NUMA")


def _governor() -> str | Unknown:
    policies = kernel_file("sys/devices/system/cpu/cpufreq").glob("policy*/scaling_governor")
    governors = sorted({kernel_text(path) for path in policies})
    return ", ".join(governors) or Unknown(
        "the kernel does not control the CPUs' frequency (usual in a virtual machine)"
    )


def _storage(path: Path) -> Storage | Unknown:
    """The file system of `path`, from the mount that holds it."""
    real = path.resolve()
    if not real.exists():
        return Unknown(f"{path} does not exist")
    mounts = [line.split() for line in kernel_text("proc/self/mountinfo").splitlines()]
    holding = [fields for fields in mounts if real.is_relative_to(_unescaped(fields[4]))]
    if not holding:
        return Unknown("this system has no /proc/self/mountinfo")
    # The deepest mount point counts, and of several on the same one the last.
    mount = max(reversed(holding), key=lambda fields: len(Path(fields[4]).parts))
    filesystem, device = mount[mount.index("-") + 1 :][:2]
    rotational = known(_rotational(mount[2]))
    return Storage(path=str(path), filesystem=filesystem, device=device, rotational=rotational)


def _unescaped(mount_point: str) -> str:
    """mountinfo writes spaces and the like as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount_point)


def _rotational(device_number: str) -> bool | Unknown:
    device = kernel_file("sys/dev/block") / device_number
    # A partition has no queue of its own: the disk is the folder above it.
    for folder in (device.resolve(), device.resolve().parent):
        if flag := kernel_text(folder / "queue/rotational"):
            return flag == "1"
    return Unknown("not a disk of this host")


def _interfaces() -> list[str]:
    """Network interfaces that are up, with their speed where the kernel knows it: "eth0 100 Gb/s"."""
    interfaces = []
    for folder in sorted(kernel_file("sys/class/net").glob("*")):
        # A "veth" is the host's end of a container's interface.
        if kernel_text(folder / "operstate") == "up" and not folder.name.startswith("veth"):
            speed_Mbps = kernel_text(folder / "speed")
            interfaces.append(folder.name + (f" {int(speed_Mbps) / 1000:g} Gb/s" if speed_Mbps.isdigit() else ""))
    return interfaces


def _infiniband_ports() -> list[str]:
    """Ports of InfiniBand and RoCE adapters that are up: "mlx5_0 port 1 400 Gb/s (4X NDR)"."""
    ports = sorted(kernel_file("sys/class/infiniband").glob("*/ports/*"))
    return [
        f"{port.parts[-3]} port {port.name} {kernel_text(port / 'rate').replace('Gb/sec', 'Gb/s')}"
        for port in ports
        if "ACTIVE" in kernel_text(port / "state")
    ]


# How busy the host's CPUs were between two moments, and how much of that was not this run's.
#
# The kernel counts CPU time since boot, for the whole host and for each process. `cpu_times` reads both, `host_load`
# takes the difference of two readings. This run's processes are those that descend from its launcher.
#
# References: proc_stat(5), proc_pid_stat(5).

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
    # All of them descend from torchrun or the lab; without either, this process is the run.
    of_run = [launcher_pid() if "LOCAL_RANK" in os.environ else os.getpid()]
    for pid in of_run:  # grows while it is read: descendants of descendants
        of_run += children.get(pid, [])
    return dict(every[pid] for pid in of_run if pid in every)


def _stat(folder: Path) -> list[str]:
    """The fields of /proc/PID/stat from the state on (the third in the manual); none where the process has ended."""
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


# The GPUs of a host as its driver numbers them, whether or not this process may use them.


@dataclass(frozen=True)
class HostGpus:
    """UUIDs, by the driver's numbers of GPUs; "" where one cannot be had."""

    uuids: tuple[str, ...]
    instances: tuple[tuple[str, ...], ...] = ()  # of each GPU that NVIDIA's MIG divides; () where it is whole

    @property
    def divided(self) -> bool:
        """Whether there is no whole GPU: CUDA then shows one instance to a process, and no more."""
        return bool(self.uuids) and len(self.instances) == len(self.uuids) and all(self.instances)

    def named(self, name: str) -> str | None:
        """The UUID that a number or the beginning of a UUID stands for; None where it is none, or more than one."""
        if name.isdecimal():
            return self.uuids[int(name)] or name if int(name) < len(self.uuids) else None
        known = [uuid for uuid in (*self.uuids, *(each for instance in self.instances for each in instance)) if uuid]
        fitting = [uuid for uuid in known if uuid.startswith(name)] if name.startswith(("GPU-", "MIG-")) else []
        return fitting[0] if len(fitting) == 1 else None
