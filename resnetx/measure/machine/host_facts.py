"""The host of a run, by the kernel's files: its system, container, CPUs, storage and network.

References: proc(5), Linux ABI documentation of /sys.
"""

import os
import platform
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from resnetx.host import cores, cpu_numbers, kernel_file, kernel_text, memory_bytes, node_name
from resnetx.measure.launch import slurm
from resnetx.record import Storage, Unknown, known


@dataclass(frozen=True)
class Host:
    """The kernel's part of `record.Environment`."""

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
