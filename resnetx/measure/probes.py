"""Probes of what runs need, each in a process of its own."""

import importlib
import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

from resnetx.errors import shortened
from resnetx.host import dying_with, interrupts_held
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure.machine import nccl_version
from resnetx.measure.machine.host_facts import Host
from resnetx.measure.machine.nvidia import Graphics, cuda_of_driver, open_nvml
from resnetx.packages import KNOWN, hip_version, install, rocm_torch
from resnetx.record import Unknown

# ---- apart ----------------------------------------------------------------------------------------------------------
# Runs probes one after the other, each in a process of its own with a limit: one that crashes or hangs is a finding.
#
#     apart({"torch": partial(torch_probe, graphics)})        # {"torch": ("ok", "torch 2.15.0 ...", "")}
#
# A fresh Python imports what several probes need, once, and forks for each of them: so a program that has used torch,
# and has threads, is not forked. Where it is lost over the import, each probe imports for itself, and is lost by
# itself.

T = TypeVar("T")

LIMIT_S = 30.0  # CUDA takes some seconds to start on eight GPUs, a library some to load
_IMPORT_S = 120.0  # for torch from a slow file system


@dataclass(frozen=True)
class Lost:
    """A probe that has no result; `why`, after its name: "crashed (SIGSEGV)"."""

    why: str
    late: bool = False  # it did not end


@dataclass(frozen=True)
class _Asked:
    """What the fresh Python is asked."""

    probes: Sequence[tuple[str, Callable[[], object], float]]  # names, what to call, and seconds that each may take
    imports: tuple[str, ...]


def apart(
    probes: Mapping[str, Callable[[], T]], limits_s: Mapping[str, float] | None = None, imports: tuple[str, ...] = ()
) -> dict[str, T | Lost]:
    """The results of probes by their names; they and their results can be pickled, and they raise nothing.

    `limits_s`: of those that may take another time than `LIMIT_S`.
    """
    limits_s = limits_s or {}
    named = [(name, probe, limits_s.get(name, LIMIT_S)) for name, probe in probes.items()]
    found = _asked(_Asked(named, imports))
    if imports and (left := [probe for probe in named if probe[0] not in found]):
        found |= _asked(_Asked(left, ()))
    return {name: found.get(name, Lost("could not be tried")) for name, _, _ in named}


def _asked(asked: _Asked) -> dict[str, Any]:
    """The results that a fresh Python gives before it ends, or is lost over an import."""
    limit_s = _IMPORT_S + sum(limit_s for _, _, limit_s in asked.probes)
    with interrupts_held():
        python = subprocess.Popen(
            [sys.executable, "-P", "-c", "from resnetx.measure.probes import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=dying_with(os.getpid()),
        )
    try:
        content, _ = python.communicate(pickle.dumps(asked), limit_s)
    except subprocess.TimeoutExpired as late:
        content = late.output or b""
    finally:
        python.kill()
        python.wait()
    found: dict[str, Any] = {}
    results = io.BytesIO(content)
    with suppress(EOFError, pickle.UnpicklingError):  # its end, or where it was cut off
        while True:
            name, result = pickle.load(results)
            found[name] = result
    return found


# ---- the fresh Python -----------------------------------------------------------------------------------------------


def main() -> None:
    """Answers what is asked on standard input."""
    asked: _Asked = pickle.load(sys.stdin.buffer)
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print is no result
    for name in asked.imports:
        with suppress(Exception):  # the probe that needs it says so
            importlib.import_module(name)
    for name, probe, limit_s in asked.probes:
        pickle.dump((name, at_once([probe], limit_s)[0]), results)


def at_once(probes: Sequence[Callable[[], T]], limit_s: float = LIMIT_S) -> list[T | Lost]:
    """What each probe returns in a fork of this process, and what became of the fork where it returns nothing."""
    begun = [_begun(probe) for probe in probes]
    end = time.monotonic() + limit_s
    return [_ended(process, reader, end, limit_s) for process, reader in begun]


def _begun(probe: Callable[[], object]) -> tuple[int, int]:
    """A fork that runs a probe, and the pipe from which its result is read."""
    reader, writer = os.pipe()
    parent = os.getpid()
    if not (process := os.fork()):
        _answer(probe, writer, parent)
    os.close(writer)
    return process, reader


def _ended(process: int, reader: int, end: float, limit_s: float) -> Any:
    """The result of a fork, which is dead then; `end`: of its time, by the monotonic clock."""
    content, late = b"", False
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            if late := not select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                os.kill(process, signal.SIGKILL)
                break
            if not (part := pipe.read(2**16)):
                break
            content += part
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if late:
        return Lost(f"did not end within {limit_s:g} s", late=True)
    if status < 0:
        return Lost(f"crashed ({signal.Signals(-status).name})")
    return pickle.loads(content) if content else Lost(f"left with exit status {status}")


def _answer(probe: Callable[[], object], writer: int, parent: int) -> NoReturn:
    """Ends this process without the destructors of libraries, some of which crash, once the result is written."""
    try:
        dying_with(parent)()
        with os.fdopen(writer, "wb", closefd=False) as pipe:
            pickle.dump(probe(), pipe)
        os._exit(0)
    finally:  # whatever was raised: this process is no second server
        os._exit(1)


# Findings about this machine, and the verdicts of probes that they are made of.

State = Literal["ok", "limited", "missing"]
ProbeResult = tuple[State, str, str]  # (state, what, fix): a finding without its topic


@dataclass(frozen=True, repr=False)
class Finding:
    """One thing that was examined. `fix`: the command or setting that improves it; "" if there is none."""

    topic: str
    state: State
    what: str
    fix: str

    def __repr__(self) -> str:
        return f"{self.topic}: {self.state}: {self.what}" + f"; fix: {self.fix}" * bool(self.fix)

    @property
    def needed(self) -> bool:
        """Whether no run works without it."""
        return self.topic in ("torch", "gloo", "results", "Slurm", "nodes")


def ok(what: str) -> ProbeResult:
    return "ok", what, ""


def limited(what: str, fix: str = "") -> ProbeResult:
    return "limited", what, fix


def missing(what: str, fix: str = "") -> ProbeResult:
    return "missing", what, fix


# ---- probes ---------------------------------------------------------------------------------------------------------
# Whether the heavy libraries work here: each does a small task that runs need, in a process of its own, and whatever it
# raises, a crash or a hang is a finding.

_RANKS_S = 20.0  # for ranks to start CUDA and NCCL, to meet, and to reduce a tensor
_JPEG_SHAPE = (48, 64, 3)  # height, width, channels

_NO_CUDA = "cuInitChecked()"  # in DALI 2.4's error when CUDA does not start

_PIP = "python -m pip install --force-reinstall"
_REINSTALL = {
    "torch": f"{_PIP} torch torchvision",
    "torchvision": f"{_PIP} torch torchvision",
    "DALI": f"{_PIP} nvidia-dali-cuda130",
}
_WITHOUT_DALI = "input=torchvision works without it"
_NOT_FOR_AMD = "DALI supports NVIDIA GPUs only, and this torch is built for AMD: use input=torchvision"


def reinstall(topic: str) -> str:
    """The command that reinstalls a broken library; "" if there is none."""
    if hip_version() and topic in ("torch", "torchvision"):
        return rocm_torch()
    return _REINSTALL.get(topic, "")


def torch_probe(graphics: Graphics) -> ProbeResult:
    import torch

    from resnetx.measure.rank.device import better_torch, chip_from, unfit

    hip = hip_version()
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"AMD GPUs (HIP {hip})" if hip else "CPUs only"
    what = f"torch {torch.__version__}, built for {build}"
    if isinstance(graphics.gpus, Unknown):
        return ok(what)
    for gpu in graphics.gpus:
        version = gpu.compute_capability
        if version and not isinstance(version, Unknown) and (why := unfit(gpu.name, chip_from(version))):
            return missing(f"{what}: {why.partition(':')[0]}", better_torch(chip_from(version)))
    if torch.version.cuda and (driver := cuda_of_driver()) and driver[0] < int(torch.version.cuda.partition(".")[0]):
        return missing(*_older_stack(f"{what}; driver {graphics.driver} runs CUDA", driver, graphics))
    if torch.cuda.is_available():
        seen = torch.cuda.device_count()
        return ok(f"{what}; it finds {seen} GPU{'s' * (seen > 1)}")
    shown = len(graphics.gpus)
    what += f"; it finds none of the {shown} GPUs" if shown > 1 else "; it does not find the GPU"
    what += " that the driver shows"
    if hip:
        return limited(what, "ls -l /dev/kfd /dev/dri   (then join the groups that own them)")
    if not torch.version.cuda:
        return limited(what, reinstall("torch"))
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return limited(f"{what} (CUDA_VISIBLE_DEVICES is set)", "unset CUDA_VISIBLE_DEVICES")
    return limited(f"{what} (driver {graphics.driver})", "nvidia-smi   (then reboot, if it shows errors)")


# Drivers run programs of their own major version of CUDA and of older ones, from these on (CUDA Compatibility guide,
# "Minor Version Compatibility"). Kernels of the older stack end with Hopper, 9.0 (torch 2.7.1+cu126, get_arch_list()).
_DRIVERS = {12: "R525", 13: "R580"}
_OLDER_STACK_CUDA, _OLDER_STACK_LAST_CHIP = 12, (9, 0)


def _older_stack(what: str, driver: tuple[int, int], graphics: Graphics) -> tuple[str, str]:
    """What an older driver means for this torch, and the command that installs another torch, or the driver to get."""
    import torch

    from resnetx.measure.rank.device import chip_from

    needed = str(torch.version.cuda)
    least = _DRIVERS.get(int(needed.partition(".")[0]), "a newer one")
    said = f"{what} up to {driver[0]}.{driver[1]}, and this torch needs {least} or newer"
    versions = [] if isinstance(graphics.gpus, Unknown) else [gpu.compute_capability for gpu in graphics.gpus]
    chips = [chip_from(version) for version in versions if version and not isinstance(version, Unknown)]
    newer = any(isinstance(chip, tuple) and chip > _OLDER_STACK_LAST_CHIP for chip in chips)
    if driver[0] < _OLDER_STACK_CUDA or newer:
        return said, f"update the NVIDIA driver to {least} or newer"
    return f"{said}: the older stack runs on it", install("cuda12")


def nccl_probe(graphics: Graphics) -> ProbeResult:
    import torch
    import torch.distributed

    if not torch.distributed.is_nccl_available():
        verdict = limited if isinstance(graphics.gpus, Unknown) else missing
        return verdict("this torch was built without NCCL", reinstall("torch"))
    name = f"{'RCCL' if hip_version() else 'NCCL'} {nccl_version()}"
    if not torch.cuda.is_available():
        return limited(f"{name} is installed, but torch finds no GPU")
    ones = torch.ones(4, device="cuda")
    torch.cuda.nccl.all_reduce([ones])
    assert ones.sum().item() == 4, f"an all-reduce over one GPU made {ones.tolist()} of ones"
    return ok(f"{name}; reduced a tensor on one GPU")


def nccl_pairs_probe(graphics: Graphics) -> ProbeResult:
    """A rank of its own on each GPU, as in a run; where that fails, on each two of them. Leaves CUDA as it was here."""
    import torch.distributed

    if isinstance(graphics.gpus, Unknown) or not torch.distributed.is_nccl_available():
        return limited("no GPU: there is nothing to connect")
    gpus = at_once([torch.cuda.device_count])[0]
    if isinstance(gpus, Lost):
        return missing(f"CUDA {gpus.why} when it was to count GPUs")
    if gpus < 2:
        return limited(f"torch finds {gpus or 'no'} GPU: there is nothing to connect")
    (why,) = failures([range(gpus)], "nccl")
    if not why:
        return ok(f"{gpus} ranks, one on each GPU, reduced a tensor")
    pairs = failed_pairs(gpus, "nccl")
    what = f"ranks on all {gpus} GPUs did not reduce a tensor: {why}"
    if not pairs:
        return missing(f"{what}; those on each two of them did", f"{_ALL_REDUCE} gpus={gpus} env.NCCL_DEBUG=INFO")
    shown = ", ".join(f"{one} and {other}" for one, other in [*pairs][:_PAIRS_SHOWN])
    more = f" and {len(pairs) - _PAIRS_SHOWN} pairs more" * (len(pairs) > _PAIRS_SHOWN)
    (one, other), why = next(iter(pairs.items()))
    what += f"; of two, those on GPUs {shown}{more} did not either ({why})"
    return missing(what, f"{_ALL_REDUCE} devices={one},{other} env.NCCL_P2P_DISABLE=1   {_PEERS}")


_PAIRS_SHOWN = 4
_ALL_REDUCE = "resnetx bench collective=allreduce"
_PEERS = "(if that works, peer access does not: PCIe ACS, IOMMU, NVLink)"


def failed_pairs(count: int, backend: str) -> dict[tuple[int, int], str]:
    """The pairs of so many devices whose ranks fail, with the reason."""
    found: dict[tuple[int, int], str] = {}
    for pairs in rounds(count):
        found |= {pair: why for pair, why in zip(pairs, failures(pairs, backend), strict=True) if why}
    return dict(sorted(found.items()))


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """All pairs of so many devices, in rounds in which each device is in one pair at most, to be tried at once.

    By the circle method of round-robin tournaments: one stays where it is, the others turn (R. Lucas, "Récréations
    mathématiques", 1883).
    """
    around = [*range(count), *([-1] if count % 2 else [])]  # -1: its partner rests
    found = []
    for _ in range(len(around) - 1):
        half = len(around) // 2
        pairs = zip(around[:half], reversed(around[half:]), strict=True)
        found.append([(min(pair), max(pair)) for pair in pairs if -1 not in pair])
        around = [around[0], around[-1], *around[1:-1]]
    return found


def failures(groups: Sequence[Sequence[int]], backend: str) -> list[str]:
    """Of each group of devices, why ranks on them did not reduce a tensor; "" where they did. All groups at once."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            partial(_reduced, backend, f"{folder}/{number}", len(group), rank, device)
            for number, group in enumerate(groups)
            for rank, device in enumerate(group)
        ]
        results = iter(at_once(ranks, _RANKS_S))
        return [_failure(group, [next(results) for _ in group]) for group in groups]


def _failure(devices: Sequence[int], results: Sequence[str | Lost]) -> str:
    """What became of the ranks of a group; those that wait for a rank that is lost are late, and not the cause."""
    for device, result in zip(devices, results, strict=True):
        if isinstance(result, Lost) and not result.late:
            return f"the rank on GPU {device} {result.why}"
    for device, result in zip(devices, results, strict=True):
        if isinstance(result, str) and result:
            return f"the rank on GPU {device}: {result}"
    return next((f"their ranks {result.why}" for result in results if isinstance(result, Lost)), "")


def _reduced(backend: str, meeting: str, count: int, rank: int, device: int) -> str:
    """One rank, on a device; "" where it could reduce a tensor with the others."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    os.environ.setdefault(NCCL_BACKEND_VARIABLE, FIRST_NCCL_BACKEND)  # as runs have it
    try:
        on = torch.device("cuda", device) if backend == "nccl" else torch.device("cpu")
        if on.type == "cuda":
            torch.cuda.set_device(on)
        dist.init_process_group(backend, store=FileStore(meeting, count), rank=rank, world_size=count)
        ones = torch.ones(2**20, device=on)
        dist.all_reduce(ones)
        right = bool((ones == count).all().item())
        return "" if right else f"an all-reduce over {count} ranks made {ones[0].item():g} of ones"
    except Exception as error:
        return shortened(str(error).strip().partition("\n")[0] or type(error).__name__)


def gloo_probe(host: Host) -> ProbeResult:
    import torch
    import torch.distributed as dist

    if not dist.is_gloo_available():
        return missing("this torch was built without gloo", reinstall("torch"))
    from torch._C._distributed_c10d import HashStore

    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        ones = torch.ones(4)
        dist.all_reduce(ones)
    finally:
        dist.destroy_process_group()
    assert ones.sum().item() == 4, f"an all-reduce over one rank made {ones.tolist()} of ones"
    what = "reduced a tensor over one rank"
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = "nothing"
    if address.startswith("127.") or address == "nothing":
        interface = next((words.split()[0] for words in host.network), "INTERFACE")
        what += f"; but {name} resolves to {address}, so runs over several nodes must name their interface"
        return limited(what, f"export GLOO_SOCKET_IFNAME={interface}")
    return ok(what)


def _jpeg() -> bytes:
    from PIL import Image

    height, width, _ = _JPEG_SHAPE
    file = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(file, "JPEG")
    return file.getvalue()


def dali_probe() -> ProbeResult:
    if hip_version():
        return limited(_NOT_FOR_AMD)
    try:
        import nvidia.dali
    except ModuleNotFoundError:
        dali = KNOWN["nvidia.dali"]
        if not dali.offered:
            return limited(f"DALI is not installed (resnetx installs it on {dali.only_on} only): {_WITHOUT_DALI}")
        return missing(f"DALI is not installed: {_WITHOUT_DALI}", dali.command)
    _decode_with_dali(None)
    return ok(f"DALI {nvidia.dali.__version__}; decoded a JPEG on the CPU")


def dali_gpu_probe(graphics: Graphics) -> ProbeResult:
    if isinstance(graphics.gpus, Unknown):
        return limited("no GPU: DALI decodes on the CPU")
    if hip_version():
        return limited(_NOT_FOR_AMD)
    try:
        _decode_with_dali(0)
    except RuntimeError as error:
        if _NO_CUDA in str(error):
            return missing("CUDA does not start for DALI here")
        raise
    nvml = open_nvml()
    assert not isinstance(nvml, Unknown), nvml
    engine = nvml.ask("nvmlDeviceGetJpgUtilization", nvml.ask("nvmlDeviceGetHandleByIndex", 0))
    hardware = "no hardware JPEG decoder" if isinstance(engine, Unknown) else "a hardware JPEG decoder"
    return ok(f"decoded a JPEG; the GPU has {hardware}")


def _decode_with_dali(device_id: int | None) -> None:
    import numpy as np
    from nvidia.dali import Pipeline, fn

    encoded = np.frombuffer(_jpeg(), np.uint8)

    ready = Pipeline(batch_size=1, num_threads=1, device_id=device_id)
    with ready:
        source = fn.external_source(source=lambda: [encoded])
        ready.set_outputs(fn.decoders.image(source, device="cpu" if device_id is None else "mixed"))
    ready.build()
    (shape,) = ready.run()[0].shape()
    assert tuple(shape) == _JPEG_SHAPE, f"DALI decoded a JPEG of {_JPEG_SHAPE} to {shape}"


def torchvision_probe() -> ProbeResult:
    import torch
    import torchvision
    from torchvision.io import decode_jpeg

    height, width, channels = _JPEG_SHAPE
    image = decode_jpeg(torch.frombuffer(bytearray(_jpeg()), dtype=torch.uint8))
    assert tuple(image.shape) == (channels, height, width), f"torchvision decoded a JPEG to {tuple(image.shape)}"
    return ok(f"torchvision {torchvision.__version__}; decoded a JPEG")
