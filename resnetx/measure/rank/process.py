"""One rank's process: how it keeps its memory, and what it used (time to start, memory, bytes from storage)."""

import ctypes
import resource
import sys
import time
from pathlib import Path
from typing import Literal

import torch

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.measure.launch import hang
from resnetx.measure.launch.torchrun import Moment
from resnetx.record import DeviceMemory, Unknown
from resnetx.units import size_text


def keep_freed_memory() -> None:
    """Lets glibc keep freed memory for the next step, where it would give every large tensor back to the kernel.

    On a CPU, activations are freed and allocated again in every step; faulting their pages in anew cost 24 % of a step
    of ResNet/8 at batch 16, and 12 % of AlexNet's at batch 32 (one core of a Xeon, fp32). On GPUs, PyTorch has a cache.
    """
    M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # other C libraries have no such setting
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, -1)


def limit_memory(limit_bytes: int | None, device: torch.device) -> None:
    """Makes PyTorch raise its out-of-memory error where it would allocate more on this GPU; None: no limit.

    So a GPU stands for one with less memory. What others allocate (NCCL, DALI, the context) does not count.
    """
    if limit_bytes is None:
        return
    total = torch.cuda.get_device_properties(device).total_memory
    if limit_bytes > total:
        raise ConfigError(
            f"memory_limit={size_text(limit_bytes)}: this GPU has {size_text(total)}; use no more than it has"
        )
    torch.cuda.set_per_process_memory_fraction(limit_bytes / total, device)


StartUpPart = Literal["imports_s", "process_group_s", "model_s", "input_s", "first_step_s"]
_BEHIND: dict[StartUpPart, str] = {  # what begins where a part ends
    "process_group_s": "building the model",
    "model_s": "opening its input",
    "input_s": "preparing its first step",
    "first_step_s": "its warm-up",
}


class StartUpTimer:
    """Splits the time before the first window into the parts of `record.StartUp`."""

    def __init__(self, started: Moment) -> None:
        now = time.monotonic()
        hang.begin("joining the process group", believed_s=hang.UNCERTAIN_S)
        self._laps: dict[StartUpPart, float] = {"imports_s": now - started.monotonic_s}
        self._last = now

    def lap(self, name: StartUpPart) -> None:
        now = time.monotonic()
        hang.begin(_BEHIND[name])
        self._laps[name] = now - self._last
        self._last = now

    def skip(self) -> None:
        """Leaves the time since the latest lap out of every part."""
        self._last = time.monotonic()

    def parts(self, rank: int) -> record.StartUp:
        laps = self._laps
        return record.StartUp(
            rank=rank,
            imports_s=laps["imports_s"],
            process_group_s=laps["process_group_s"],
            model_s=laps["model_s"],
            input_s=laps["input_s"],
            first_step_s=laps["first_step_s"],
        )


def peak_memory_bytes(device: torch.device) -> int:
    """The most that was allocated on the GPU; on a CPU, the largest resident set."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def device_memory(device: torch.device, rank: int) -> DeviceMemory | Unknown:
    """What this rank takes of its GPU."""
    if device.type != "cuda":
        return Unknown("a CPU rank has no device beside its host")
    free, total = torch.cuda.mem_get_info(device)
    return DeviceMemory(
        rank=rank,
        allocated_bytes=torch.cuda.max_memory_allocated(device),
        reserved_bytes=torch.cuda.max_memory_reserved(device),
        used_bytes=total - free,
        total_bytes=total,
    )


def bytes_read() -> int | Unknown:
    """Bytes that this process fetched from storage so far (Linux counts them per process)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("read_bytes:")))
    except (OSError, StopIteration):
        return Unknown("this system does not count a process's reads")


def difference(after: int | Unknown, before: int | Unknown) -> int | Unknown:
    if isinstance(after, Unknown) or isinstance(before, Unknown):
        return after if isinstance(after, Unknown) else before
    return after - before
