"""Keeps a rank to the CPUs next to its GPU: what it decodes and copies then lies in memory that the GPU reaches first.

On a host with several NUMA nodes a batch on the wrong one crosses the link between the sockets on its way. A rank stays
where it is allowed to be where those CPUs would be too few for the threads of all ranks that share them, as where all
GPUs are at one socket: half of the CPUs would then idle. Each GPU of the machine counts as one with a rank: so that a
rank alone is where it would be as one of many.

torchrun has `--numa-binding` for this. It takes a GPU's number to be the rank's, which `devices` changes, needs the
program numactl, and fails where there is no GPU: so each rank does it by itself.

References: sched_setaffinity(2); set_mempolicy(2); Linux documentation of /sys/bus/pci (local_cpulist);
torch/numa/binding.py.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from resnetx.choices import Folders
from resnetx.host import cpu_numbers, kernel_file, kernel_text
from resnetx.measure.launch.torchrun import ranks_here
from resnetx.measure.rank.device import pci_address
from resnetx.measure.rank.distributed import Ranks
from resnetx.request import Request


def bind(request: Request, ranks: Ranks) -> None:
    """Keeps this process, with the threads that it has and will have, to the CPUs near its GPU, if they suffice.

    To be called before input pipelines start. What became of it is `cpus` of the rank's device in the record.
    """
    if ranks.device.type != "cuda" or not hasattr(os, "sched_setaffinity"):
        return
    present = torch.cuda.device_count()
    here = [rank % present for rank in range(max(present, ranks_here()))]  # oversubscribed ones take turns
    near = [nearby(pci_address(torch.device("cuda", device))) for device in here]
    mine = nearby(pci_address(ranks.device))
    allowed = os.sched_getaffinity(0)
    if mine < allowed and suffice(mine, near.count(mine), _threads(request)):
        _move(allowed, mine)


def suffice(cpus: set[int], ranks: int, threads: int) -> bool:
    """Whether so many ranks with so many busy threads each find a CPU for every thread."""
    return bool(cpus) and ranks * threads <= len(cpus)


def _threads(request: Request) -> int:
    """Threads of a rank that are busy at a time: those that decode, or on the GPU's behalf one or few."""
    return max(request.threads, request.input.threads) if isinstance(request.input, Folders) else request.threads


def nearby(pci_address: str) -> set[int]:
    """The CPUs next to a PCI device that this process may use; none where the kernel does not tell."""
    if not pci_address:
        return set()
    text = kernel_text(kernel_file("sys/bus/pci/devices") / pci_address / "local_cpulist")
    return cpu_numbers(text) & os.sched_getaffinity(0)


def _move(before: set[int], after: set[int]) -> None:
    """Also the threads that run already, but for those that a library has given a place of its own, as NCCL does."""
    for task in Path("/proc/self/task").iterdir():
        thread = int(task.name)
        try:
            if os.sched_getaffinity(thread) == before:
                os.sched_setaffinity(thread, after)
        except ProcessLookupError:  # it has ended
            continue


# ---- memory ---------------------------------------------------------------------------------------------------------

_DEFAULT, _BIND = 0, 2  # MPOL_DEFAULT and MPOL_BIND of linux/mempolicy.h
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # the number of the system call


@contextmanager
def memory_on(node: int | None) -> Iterator[None]:
    """Pages that this thread is the first to touch lie on a NUMA node; None: wherever the system puts them."""
    if node is None:
        yield
        return
    _set_policy(_BIND, 1 << node)
    try:
        yield
    finally:
        _set_policy(_DEFAULT, 0)


def obstacle_to(node: int) -> str:
    """Why memory cannot be bound to a NUMA node here, in the end of a sentence; "" where it can."""
    if sys.platform != "linux" or platform.machine() not in _SET_MEMPOLICY:
        return "memory is bound to NUMA nodes on Linux (x86-64, Arm) only"
    present = sorted(cpu_numbers(kernel_text("sys/devices/system/node/has_memory") or "0"))
    return "" if node in present else f"this host has memory on NUMA node{'s' * (len(present) > 1)} {_numbers(present)}"


def _set_policy(mode: int, nodes: int) -> None:
    words = nodes.bit_length() // 64 + 1
    mask = (ctypes.c_ulong * words)(*((nodes >> 64 * word) & (2**64 - 1) for word in range(words)))
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel reads one bit less than it is told (set_mempolicy(2), notes).
    if libc.syscall(_SET_MEMPOLICY[platform.machine()], mode, mask, ctypes.c_ulong(64 * words + 1)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _numbers(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
