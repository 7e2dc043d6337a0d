"""The machine and the software of a run, as far as they can change a figure.

`environment` makes a `record.Environment`. Its parts can be asked for on their own: `machine` needs nothing but the
kernel's files, `software` loads torch, `graphics_here` (of `nvidia`) asks NVML. What cannot be known here is an
`Unknown` with its reason.

References: proc(5), Linux ABI documentation of /sys.
"""

import ctypes
import importlib.metadata
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import resnetx
from resnetx.host import cores, cpu_numbers, kernel_file, kernel_text, memory_bytes, node_name
from resnetx.measure.launch.executor import NO_STORE
from resnetx.measure.machine.nvidia import Graphics, graphics_here
from resnetx.measure.machine.revision import revision
from resnetx.packages import hip_version
from resnetx.record import Environment, Storage, Unknown, known
from resnetx.variables import is_secret


def environment(storage_path: Path | None, nvml: Any = None) -> Environment:
    """The machine and the software. `storage_path`: where the images are; `nvml` stands in for pynvml."""
    return environment_of(machine(storage_path), software(), graphics_here(nvml))


def environment_of(host: "Host", installed: "Software", graphics: Graphics) -> Environment:
    """What a record has of these; yet to be sealed."""
    return Environment(
        node=host.node,
        system=host.system,
        container=known(host.container),
        python=installed.python,
        resnetx=installed.resnetx,
        git_revision=known(installed.git_revision),
        torch=installed.torch,
        torchvision=known(installed.torchvision),
        cuda=known(installed.cuda),
        hip=known(installed.hip),
        cudnn=known(installed.cudnn),
        nccl=known(installed.nccl),
        driver=known(graphics.driver),
        dali=known(installed.dali),
        cpu=host.cpu,
        cpu_sockets=known(host.cpu_sockets),
        cpu_cores=known(host.cpu_cores),
        cpus_usable=host.cpus_usable,
        cpu_governor=known(host.cpu_governor),
        numa_nodes=known(host.numa_nodes),
        host_memory_bytes=host.host_memory_bytes,
        storage=known(host.storage),
        network=host.network,
        gpus=known(graphics.gpus),
        gpu_processes=known(graphics.gpu_processes),
        topology=known(graphics.topology),
        topology_fingerprint=known(graphics.topology_fingerprint),
        threads=installed.threads,
        variables=installed.variables,
    )


# ---- the machine ----------------------------------------------------------------------------------------------------


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


def machine(storage_path: Path | None) -> Host:
    """The host and what this process may use of it."""
    sockets, cpu_cores, nodes = _cpu_counts()
    return Host(
        node=node_name(),
        system=_system(),
        container=_container(),
        cpu=_cpu_name(),
        cpu_sockets=sockets,
        cpu_cores=cpu_cores,
        numa_nodes=nodes,
        cpus_usable=cores(),
        cpu_governor=_governor(),
        host_memory_bytes=memory_bytes(),
        storage=Unknown("the run reads no images") if storage_path is None else _storage(storage_path),
        network=[*_interfaces(), *_infiniband_ports()],
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
    found = [runtime for runtime, left in marks.items() if left]
    others = os.environ.get("container")  # noqa: SIM112 (systemd's convention, which LXC, nspawn and others follow)
    return next(iter(found), others) or Unknown("no sign of a container was found")


def _cpu_name() -> str:
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
    found = sorted({kernel_text(path) for path in policies})
    return ", ".join(found) or Unknown("the kernel does not control the CPUs' frequency (usual in a virtual machine)")


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
    found = []
    for folder in sorted(kernel_file("sys/class/net").glob("*")):
        # A "veth" is the host's end of a container's interface.
        if kernel_text(folder / "operstate") == "up" and not folder.name.startswith("veth"):
            speed_Mbps = kernel_text(folder / "speed")
            found.append(folder.name + (f" {int(speed_Mbps) / 1000:g} Gb/s" if speed_Mbps.isdigit() else ""))
    return found


def _infiniband_ports() -> list[str]:
    """Ports of InfiniBand and RoCE adapters that are up: "mlx5_0 port 1 400 Gb/s (4X NDR)"."""
    ports = sorted(kernel_file("sys/class/infiniband").glob("*/ports/*"))
    return [
        f"{port.parts[-3]} port {port.name} {kernel_text(port / 'rate').replace('Gb/sec', 'Gb/s')}"
        for port in ports
        if "ACTIVE" in kernel_text(port / "state")
    ]


# ---- the software ---------------------------------------------------------------------------------------------------

# What torch, NCCL, ROCm's libraries, gloo, the OpenMP and BLAS libraries, DALI and the loader of libraries read.
_VARIABLES = re.compile(
    r"(NCCL|GLOO|UCX|FI|OFI|CUDA|CUDNN|CUBLAS|OMP|GOMP|KMP|MKL|DNNL|ONEDNN|OPENBLAS|ATEN|TORCH|PYTORCH|DALI|MALLOC)_.+"
    r"|(RCCL|HIP|HIPBLASLT|HSA|ROCR|ROCBLAS|MIOPEN)_.+"
    r"|NVIDIA_(TF32_OVERRIDE|VISIBLE_DEVICES)|LD_PRELOAD"
)
SECRET = "(set, not recorded)"  # instead of a secret value


@dataclass(frozen=True)
class Software:
    """The part of `record.Environment` that is installed or set."""

    python: str
    resnetx: str
    git_revision: str | Unknown
    torch: str
    torchvision: str | Unknown
    cuda: str | Unknown
    hip: str | Unknown
    cudnn: str | Unknown
    nccl: str | Unknown
    dali: str | Unknown
    threads: dict[str, int]
    variables: dict[str, str]


def software() -> Software:
    """Versions, thread pools and the environment variables that libraries read. Loads torch."""
    import torch

    return Software(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        resnetx=resnetx.__version__,
        git_revision=revision(),
        torch=str(torch.__version__),
        torchvision=_torchvision_version(),
        cuda=torch.version.cuda or Unknown("this torch was built without CUDA"),
        hip=hip_version() or Unknown("this torch was built without ROCm"),
        cudnn=_cudnn_version(),
        nccl=nccl_version(),
        dali=_dali_version(),
        threads={"intraop": torch.get_num_threads(), "interop": torch.get_num_interop_threads()},
        variables={
            name: SECRET if is_secret(name) else value
            for name, value in sorted(os.environ.items())
            if _VARIABLES.fullmatch(name) and name != NO_STORE  # which changes no figure
        },
    )


def identity(nvml: Any = None) -> dict[str, str | None]:
    """What must not change within a study, by the fields of `record.Environment`; None where something is not here.

    Loads no torch. GPUs are their names.
    """
    try:
        torch: str | None = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = None
    graphics = graphics_here(nvml)
    gpus = [] if isinstance(graphics.gpus, Unknown) else graphics.gpus
    found = {
        "cpu": _cpu_name(),
        "gpus": ", ".join(gpu.name for gpu in gpus) or None,
        "driver": graphics.driver,
        "resnetx": resnetx.__version__,
        "git_revision": revision(),
        "torch": torch,
        "torchvision": _torchvision_version(),
        "dali": _dali_version(),
    }
    return {name: None if isinstance(version, Unknown) else version for name, version in found.items()}


def _torchvision_version() -> str | Unknown:
    try:
        return importlib.metadata.version("torchvision")
    except importlib.metadata.PackageNotFoundError:
        return Unknown("torchvision is not installed")


def _dali_version() -> str | Unknown:
    """DALI's, whose package name ends in the CUDA version that it was built for."""
    for distribution in importlib.metadata.distributions():
        if re.fullmatch(r"nvidia-dali-(nightly-|weekly-)?cuda\d+", distribution.name):
            return distribution.version
    return Unknown("DALI is not installed")


def _cudnn_version() -> str | Unknown:
    """The version in use; without a GPU the one that torch was built for, as loading cuDNN costs 50 MB."""
    import torch

    if not torch.cuda.is_available():
        built_for = re.search(r"CUDNN_VERSION=([\d.]+)", torch.__config__.show())
        return built_for[1] if built_for else Unknown("this torch was built without cuDNN")
    number = torch.backends.cudnn.version()
    if number is None:
        return Unknown("this torch was built without cuDNN")
    if hip_version():  # whose number this is then
        return Unknown(f"torch for ROCm uses MIOpen instead: version number {number}")
    major = 10_000 if number >= 90_000 else 1_000  # 90100 is 9.1.0, 8902 is 8.9.2
    return f"{number // major}.{number % major // 100}.{number % 100}"


def nccl_version() -> str | Unknown:
    """The version of the NCCL that is loaded: another package, or LD_PRELOAD, may replace the one torch was built with.

    With ROCm it is RCCL, which counts its versions as NCCL does. Loads torch.
    """
    import torch

    try:
        built_for = ".".join(map(str, torch.cuda.nccl.version()))
    except AttributeError:
        return Unknown("this torch was built without NCCL")
    try:
        library = "librccl.so.1" if hip_version() else "libnccl.so.2"
        loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return built_for  # it is part of torch's own library
    code = ctypes.c_int()
    loaded.ncclGetVersion(ctypes.byref(code))
    major = 10_000 if code.value >= 10_000 else 1_000  # 22909 is 2.29.9, 2804 is 2.8.4
    return f"{code.value // major}.{code.value % major // 100}.{code.value % 100}"
