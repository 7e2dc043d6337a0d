"""What this machine can run, what it lacks, and the command that fixes it.

Every finding comes from a test: a tensor is reduced, a JPEG is decoded, an unnamed temporary file is written in the
results folder. A probe that fails, crashes or hangs is a finding, too: each has a process of its own.
"""

import os
import platform
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from resnetx import packages
from resnetx.errors import ConfigError
from resnetx.host import kernel_file, kernel_text, visible_cores
from resnetx.launching import Launch
from resnetx.measure import locked_clock
from resnetx.measure.launch import slurm
from resnetx.measure.launch.executor import TEMPLATES
from resnetx.measure.locked_clock import lockable
from resnetx.measure.machine import amd
from resnetx.measure.machine.host_facts import Host, machine
from resnetx.measure.machine.nvidia import Graphics, fabric_not_ready, graphics_here, no_graphics
from resnetx.measure.machine.readings import lock_clocks
from resnetx.measure.probes import (
    Finding,
    Lost,
    ProbeResult,
    apart,
    dali_gpu_probe,
    dali_probe,
    gloo_probe,
    limited,
    missing,
    nccl_pairs_probe,
    nccl_probe,
    ok,
    reinstall,
    torch_probe,
    torchvision_probe,
)
from resnetx.record import Gpu, Unknown, if_known

_GiB = 2**30
_SHARED_MEMORY_BYTES = _GiB  # the default of a container is 64 MiB, which a few loader processes or NCCL ranks fill
_FREE_BYTES = _GiB  # a record takes some 10 kB, the logs of a tracker more
PAIRS = "NCCL between GPUs"
_PAIRS_S = 180.0  # for a try over all GPUs, and one of each of seven rounds of pairs, as eight GPUs have
_AFTER_A_LOSS = {  # commands that show more
    "NCCL": "sudo dmesg --ctime | grep -i -E 'nvrm|xid'   (what the driver says of it)",
    PAIRS: "resnetx bench collective=allreduce env.NCCL_DEBUG=INFO",
    "DALI on the GPU": "input.decoder=cpu",
}
_AMPERE = 8  # major compute capability
# Ten pairs, each of one publisher and GPU, in results/published/figures.csv (NVIDIA, Lambda, DLPerf).
_HALF = "published trainings of ResNet-50 were 2.2 to 3.6 times as fast in half precision as in fp32 on a V100"
_COUNTING_S = 1.0  # time for counting images: enough for some 100,000


def examine(results: Path, input_root: Path) -> list[Finding]:
    """Findings about this machine. Changes nothing; takes some seconds to load torch, torchvision and DALI."""
    host = machine(input_root)
    graphics = _driver()
    probes: dict[str, Callable[[], ProbeResult]] = {
        "system": partial(_system, host),
        "packages": _packages,
        "GPU": partial(_gpu, host, graphics),
        "torch": partial(torch_probe, graphics),
        "NCCL": partial(nccl_probe, graphics),
        PAIRS: partial(nccl_pairs_probe, graphics),
        "gloo": partial(gloo_probe, host),
        "DALI": dali_probe,
        "DALI on the GPU": partial(dali_gpu_probe, graphics),
        "torchvision": torchvision_probe,
        "CPUs": partial(_cpus, host),
        "bf16": partial(_bf16, graphics),
        "clocks": partial(_clocks, host, graphics),
        "shared memory": partial(_shared_memory, host),
        "results": partial(_results, results),
        "images": partial(_images, input_root),
        "wandb": _wandb,
    }
    found = apart(
        {topic: partial(_tried, topic, probe) for topic, probe in probes.items()}, {PAIRS: _PAIRS_S}, ("torch",)
    )
    return [_lost(topic, finding.why) if isinstance(finding, Lost) else finding for topic, finding in found.items()]


def _lost(topic: str, why: str) -> Finding:
    """A probe whose process crashed or hung."""
    return Finding(topic, "missing", f"its probe {why}", reinstall(topic) or _AFTER_A_LOSS.get(topic, ""))


def _tried(topic: str, probe: Callable[[], ProbeResult]) -> Finding:
    try:
        return Finding(topic, *probe())
    except Exception as error:  # a broken installation may raise anything
        if isinstance(error, ModuleNotFoundError) and (package := packages.package_of(error)):
            return Finding(topic, "missing", f"{package.name} is not installed", package.command)
        reason = str(error).strip().partition("\n")[0]
        return Finding(topic, "missing", f"{type(error).__name__}: {reason}", reinstall(topic))


# ---- system, GPU ----------------------------------------------------------------------------------------------------


def _system(host: Host) -> ProbeResult:
    where = "" if isinstance(host.container, Unknown) else f", in {host.container}"
    what = f"Python {platform.python_version()}; {host.system}{where}"
    if platform.system() == "Linux":
        return ok(what)
    return limited(f"{what}: DALI and most readings of the machine need Linux")


def _packages() -> ProbeResult:
    useful = packages.useful()
    absent = [package for module, package in useful.items() if not packages.installed(module)]
    if not absent:
        return ok(f"all {len(useful)} packages that resnetx uses are installed")
    what = ", ".join(f"{package.name} (needed {package.needed})" for package in absent)
    verdict = missing if any(package.extra in (packages.CORE, packages.TRAIN) for package in absent) else limited
    return verdict(f"not installed: {what}", packages.install(*(package.extra for package in absent)))


def _driver() -> Graphics:
    """The driver's data on GPUs, which a broken driver keeps from the examination, but not from ending."""
    graphics = apart({"driver": _graphics})["driver"]
    if isinstance(graphics, Lost):
        return no_graphics(Unknown(f"a query of the NVIDIA driver {graphics.why}"))
    return graphics


def _graphics() -> Graphics:
    """The driver's data on GPUs; unknown without the package that queries it."""
    try:
        return graphics_here()
    except ModuleNotFoundError as error:
        return no_graphics(Unknown(packages.missing(error) or str(error)))


NVIDIA, AMD = "0x10de", "0x1002"  # PCI vendor ids
_OF_A_DRIVER = ("version mismatch", "Insufficient Permissions")  # NVML errors that only occur with a driver


def _gpu(host: Host, graphics: Graphics) -> ProbeResult:
    gpus, processes = graphics.gpus, graphics.gpu_processes
    if isinstance(gpus, Unknown):
        cards, of_amd = _cards(NVIDIA), _cards(AMD)
        is_driver = any(sign in gpus for sign in _OF_A_DRIVER)
        if packages.hip_version() or (of_amd and not cards and not is_driver):
            return amd_verdict(host.container, of_amd, str(gpus))
        if not cards and not is_driver:
            return limited("no NVIDIA GPU on the PCI bus: ranks run on CPUs, over gloo")
        where = f"GPUs at {', '.join(cards)}, but " if cards else ""
        return missing(where + gpus, _give_gpus(host.container, str(gpus)))
    models = ", ".join(f"{count} x {name}" for name, count in Counter(gpu.name for gpu in gpus).items())
    what = f"{models}; driver {graphics.driver}; wiring {graphics.topology_fingerprint}"
    if packages.hip_version():
        return limited(f"{what}; resnetx has not been tested on AMD GPUs yet")
    if waiting := fabric_not_ready():
        fix = "sudo systemctl start nvidia-fabricmanager   (same version as the driver)"
        return missing(f"{what}; the NVLink fabric is not ready on {len(waiting)} of them, so CUDA does not start", fix)
    if any(gpu.mig is True for gpu in gpus):
        fix = "sudo nvidia-smi --multi-instance-gpu=0"
        return limited(f"{what}; MIG is on, and NCCL cannot connect its instances", fix)
    if not isinstance(processes, Unknown) and processes:
        fix = "nvidia-smi --query-compute-apps=pid,name --format=csv   (then stop them)"
        many = f"{len(processes)} other processes run" if len(processes) > 1 else "another process runs"
        return limited(f"{what}; {many} on them", fix)
    return ok(what)


def _cards(vendor: str) -> list[str]:
    """PCI addresses of a vendor's display controllers (class 03) and accelerators (12) that the kernel sees."""
    devices = sorted(kernel_file("sys/bus/pci/devices").glob("*"))
    return [
        device.name
        for device in devices
        if kernel_text(device / "vendor") == vendor and kernel_text(device / "class")[:4] in ("0x03", "0x12")
    ]


def _give_gpus(container: str | Unknown, why: str) -> str:
    """The command that makes the GPU driver respond here; `why`: NVML's error."""
    mismatch, no_permission = _OF_A_DRIVER
    if mismatch in why:
        return "sudo reboot   (the driver was updated while it was loaded)"
    if no_permission in why:
        return "ls -l /dev/nvidia*   (then join the group that owns them)"
    with_gpus = {
        "docker": "docker run --gpus all ...",
        "podman": "podman run --device nvidia.com/gpu=all ...",
        "apptainer": "apptainer exec --nv ...",
        "kubernetes": "kubectl run ... with nvidia.com/gpu in the pod's resource limits",
    }
    if container in with_gpus:
        return with_gpus[container]
    return "sudo ubuntu-drivers install" if shutil.which("ubuntu-drivers") else "sudo apt install nvidia-driver"


# ---- images ----------------------------------------------------------------------------------------------------------


def _images(root: Path) -> ProbeResult:
    from resnetx.inputs import folders

    end = time.monotonic() + _COUNTING_S
    try:
        classes, images, counted = folders.class_folders(root), 0, 0
        while counted < len(classes) and time.monotonic() < end:
            images += len(folders.image_names(root / classes[counted]))
            counted += 1
    except ConfigError as error:
        return missing(str(error).partition(";")[0], f"resnetx images {root}")
    if not images and "train" in classes:
        return missing(f"{root} has no class folders with JPEG files", f"input.root={root}/train")
    if not images:
        return missing(f"the class folders of {root} contain no JPEG files", f"resnetx images {root}")
    at_least = "" if counted == len(classes) else "over "
    return ok(f"{root}: {len(classes)} classes, {at_least}{images} images")


# ---- CPUs and memory ------------------------------------------------------------------------------------------------


def _cpus(host: Host) -> ProbeResult:
    usable = host.cpus_usable
    what = f"{usable} CPUs usable; {host.cpu}, {_count(host.cpu_sockets, 'socket')}, "
    what += f"{_count(host.cpu_cores, 'core')}, {host.host_memory_bytes / _GiB:.1f} GiB of memory"
    if usable < visible_cores():
        fix = f"raise the limit (docker run --cpus), or keep gpus x threads within it: threads={usable} for one rank"
        return limited(f"{what}; a control group limits their time ({visible_cores()} are visible)", fix)
    if usable < 2:
        return limited(f"{what}; two ranks share one CPU")
    return ok(what)


def _count(number: int | Unknown, noun: str) -> str:
    return f"{noun}s unknown" if isinstance(number, Unknown) else f"{number} {noun}{'s' if number != 1 else ''}"


def _bf16(graphics: Graphics) -> ProbeResult:
    """Whether half precision is worth it: on GPUs the default fp32, which is the paper's, leaves tensor cores idle."""
    if not isinstance(graphics.gpus, Unknown) and graphics.gpus:
        versions = [gpu.compute_capability for gpu in graphics.gpus]
        if all(isinstance(version, Unknown) or int(version.partition(".")[0]) >= _AMPERE for version in versions):
            return ok(f"GPUs have it, and precision=fp32 is the default: {_HALF}; set precision=bf16")
        return ok(f"the GPUs are older than Ampere and have none; precision=fp16 applies from Volta on: {_HALF}")
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", kernel_text("proc/cpuinfo"), re.MULTILINE)
    if flags is None:
        return limited("the CPUs' instruction set is not known here: precision=bf16 may be emulated")
    known = set(flags[1].split())
    useful = sorted(known & {"amx_bf16", "amx_tile", "avx512_bf16", "bf16"})
    if useful:
        return ok(f"the CPU has {', '.join(useful)}")
    what = "the CPU has no bf16 instructions (AMX, AVX512-BF16): precision=bf16 is emulated, and slower than fp32"
    return limited(what, "precision=fp32")


def _clocks(host: Host, graphics: Graphics) -> ProbeResult:
    """Whether clocks may vary: those of the GPUs, or without GPUs those of the CPUs."""
    governor, gpus = host.cpu_governor, graphics.gpus
    if not isinstance(gpus, Unknown):
        return _gpu_clocks(gpus)
    if isinstance(governor, Unknown):
        return limited(f"CPU clocks are not known: {governor}")
    if governor == "performance":
        return ok("the CPU governor is performance")
    fix = "sudo cpupower frequency-set --governor performance"
    return limited(f"the CPU governor is {governor}: clocks follow the load", fix)


def _gpu_clocks(gpus: list[Gpu]) -> ProbeResult:
    """NVML cannot report locked clocks; the journal lists those that a killed `doctor clock=...` has left."""
    if locked := locked_clock.left_behind():
        named = ", ".join(str(each.gpu) for each in locked)
        what = f"the clocks of GPUs {named} are still locked by a `resnetx doctor` that was killed"
        return limited(what, locked_clock.command(locked))
    top_Hz = if_known(gpus[0].sm_clock_max_Hz)
    up_to = "" if top_Hz is None else f" up to {top_Hz / 1e6:.0f} MHz"
    what = f"GPUs boost{up_to}, as temperature and power allow: to compare machines, lock a clock that all sustain"
    if packages.hip_version():
        if top_Hz is None:
            return limited(what)
        return limited(what, f"{lock_clocks(top_Hz / 1e6)}   (undo: sudo amd-smi reset --perf-determinism --gpu all)")
    if any(gpu.mig is True for gpu in gpus):
        return limited(f"{what}; not possible with MIG on")
    if not lockable(gpus[0]):
        what += "; before Volta, set an application clock (nvidia-smi -q -d SUPPORTED_CLOCKS lists them)"
        return limited(what, "sudo nvidia-smi --applications-clocks=MEMORY,GRAPHICS")
    return limited(what, 'sudo "$(command -v resnetx)" doctor clock=find   (restores them after)')


def _shared_memory(host: Host) -> ProbeResult:
    """Whether shared memory is large enough for DataLoader processes and NCCL."""
    folder = Path("/dev/shm")
    if not folder.is_dir() and platform.system() != "Linux":
        return limited(f"the size of shared memory is only known on Linux ({folder})")
    if not folder.is_dir():
        return missing(f"{folder} does not exist", f"sudo mount -t tmpfs tmpfs {folder}")
    free = shutil.disk_usage(folder).free
    what = f"{folder} has {free / _GiB:.2f} GiB free"
    if free >= _SHARED_MEMORY_BYTES:
        return ok(what)
    larger = {"docker": "docker run --shm-size=8g ...", "podman": "podman run --shm-size=8g ..."}
    fix = larger.get(host.container, f"sudo mount -o remount,size=8G {folder}")
    return limited(f"{what}: DataLoader processes and NCCL can fill it", fix)


# ---- results, trackers ------------------------------------------------------------------------------------


def _results(folder: Path) -> ProbeResult:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    elsewhere = "results=FOLDER   (a writable folder)"
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        return missing(f"cannot write to {there}: {error.strerror}", elsewhere)
    free = shutil.disk_usage(there).free
    what = f"{folder} is writable; {free / _GiB:.1f} GiB free"
    return ok(what) if free >= _FREE_BYTES else limited(what, elsewhere)


def _wandb() -> ProbeResult:
    try:
        name = f"wandb {version('wandb')}"
    except PackageNotFoundError:
        return limited("wandb is not installed (tracker=wandb needs it)", packages.KNOWN["wandb"].command)
    if mode := os.environ.get("WANDB_MODE"):
        return ok(f"{name}; WANDB_MODE={mode}")
    if os.environ.get("WANDB_API_KEY"):
        return ok(f"{name}; a key is set: tracker=wandb logs online")
    return limited(f"{name}; no key: tracker=wandb logs offline", "export WANDB_API_KEY=...")


# The verdict on AMD GPUs that AMD SMI does not show: which step of their set-up fails.
#
# The steps: a card on the PCI bus, the kernel's driver, permission to open its device, a PyTorch built for ROCm.

_DEVICE = "dev/kfd"  # the compute device of ROCm
_IN_CONTAINER = {  # how to give a container the GPUs
    "docker": "docker run --device=/dev/kfd --device=/dev/dri ...",
    "podman": "podman run --device=/dev/kfd --device=/dev/dri ...",
    "apptainer": "apptainer exec --rocm ...",
    "kubernetes": "kubectl run ... with amd.com/gpu in the pod's resource limits",
}


def amd_verdict(container: str | Unknown, cards: list[str], why: str) -> ProbeResult:
    """`cards`: PCI addresses of AMD GPUs; `why`: AMD SMI shows none."""
    hip = packages.hip_version()
    if not cards:
        return limited("torch is built for AMD GPUs, but none is on the PCI bus: ranks run on CPUs, over gloo")
    what = f"AMD GPUs at {', '.join(cards)}"
    if hip is None:
        return limited(f"{what}, but torch is not built for them: ranks run on CPUs, over gloo", packages.rocm_torch())
    driver = amd.driver_version()
    if isinstance(driver, Unknown):
        return missing(f"{what}, but {driver}", "sudo modprobe amdgpu")
    device = kernel_file(_DEVICE)
    if not device.exists():
        return missing(f"{what}, but {device} is missing", _IN_CONTAINER.get(str(container), "sudo modprobe amdgpu"))
    if not os.access(device, os.R_OK | os.W_OK):
        return missing(f"{what}, but you cannot open {device}", "sudo usermod --append --groups render,video $USER")
    what = f"{what}; {len(amd.present().uuids)} of them can compute; driver {driver}; HIP {hip}"
    return limited(f"{what}; sensors and wiring are not known: {why}", packages.KNOWN["amdsmi"].command)


# What a job of Slurm needs: its commands, an answer, nodes in order, and what the site file names.

COMMANDS = ("sbatch", "srun", "scontrol", "sinfo")


def examine_cluster(launch: Launch) -> list[Finding]:
    """Findings about launcher=slurm from here, with this site file."""
    lacking = [name for name in COMMANDS if not shutil.which(name)]
    if lacking:
        what = f"no {', '.join(lacking)} here: start resnetx on a login node of the cluster"
        return [Finding("Slurm", *missing(what, "apt-get install slurm-client   (with the cluster's slurm.conf)"))]
    version, cluster = slurm.said(["sbatch", "--version"]).strip() or "sbatch", slurm.cluster_name()
    if cluster is None:
        return [Finding("Slurm", *missing(f"{version}, but slurmctld does not answer", "scontrol ping"))]
    probes = {"nodes": _nodes(launch), "site": _site(launch), "container": _container(launch)}
    where = "inside a job" if slurm.inside() else "outside of a job: runs are submitted with sbatch"
    found = {"Slurm": ok(f"{version}, cluster {cluster}; {where}"), **probes}
    return [Finding(topic, *probe) for topic, probe in found.items()]


def _nodes(launch: Launch) -> ProbeResult:
    """Whether enough nodes are in order, of the site's partition, or of the one that jobs get by default."""
    partition = launch.site.partition or slurm.default_partition()
    nodes = slurm.partition_nodes(partition)
    if not nodes:
        return missing(
            f"Slurm has no partition {partition}", "sinfo --summarize   (then set partition in the site file)"
        )
    states = Counter(node.state for node in nodes)
    what = f"partition {partition}: " + ", ".join(f"{count} {state}" for state, count in states.items())
    lost = [f"{node}" for node in nodes if not node.usable]
    usable = sum(node.usable for node in nodes)
    if usable < launch.nodes:
        return missing("; ".join([f"{what}; nodes={launch.nodes} would wait", *lost[:4]]), "sinfo --list-reasons")
    if (own := launch.site.gpus_per_node) and not any("gpu:" in node.resources for node in nodes):
        return missing(f"{what}; none of them has GPUs for Slurm, and gpus_per_node={own}", "sinfo --Format=nodes,gres")
    return limited("; ".join([what, *lost[:4]])) if lost else ok(what)


def _site(launch: Launch) -> ProbeResult:
    """What a job is asked for, where that is worth a word."""
    site = launch.site
    if site.partition is None and site.interface is None:
        return limited("no site file: the default partition, and interfaces as the libraries choose", "site=site.yaml")
    if site.interface is None:
        return limited("no interface: gloo takes that of the host's name, NCCL the first one", "interface: ib0")
    return ok(f"ranks meet on {site.interface}, by torchrun's {site.rendezvous}")


def _container(launch: Launch) -> ProbeResult:
    container = launch.site.container
    if container is None:
        return ok("ranks run outside of containers, with the Python of this command")
    if not (TEMPLATES / "container.sh").is_file():
        return missing(f"{TEMPLATES / 'container.sh'} is not there", "pip install --force-reinstall resnetx")
    if not shutil.which(container.kind):
        return limited(f"no {container.kind} here; it may be on the nodes alone", f"srun which {container.kind}")
    return ok(f"{container.kind} starts {container.image}")
