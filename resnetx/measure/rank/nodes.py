"""The nodes of a run: what each of them is, how busy it was, and whether they are alike.

All ranks wait for the slowest one, so a second node matters as much as the one of rank 0. The first rank of every node
looks at it.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from resnetx.choices import Folders
from resnetx.host import cores, cpu_numbers, kernel_file, kernel_text
from resnetx.interconnect.systems.lab_network import LabNetwork
from resnetx.measure.launch import lab_network, ranks_here
from resnetx.measure.machine import environment
from resnetx.measure.rank.device import pci_address
from resnetx.measure.rank.distributed import Ranks
from resnetx.packages import hip_version
from resnetx.record import Device, Environment, GpuProcess, HostLoad, OtherNode, Unknown, Warning, if_known, known
from resnetx.request import Request

# What makes ranks of one run differ in speed, or in what they compute.
_ALIKE = ("cpu", "cpus_usable", "driver", "torch", "cuda", "hip", "cudnn", "nccl", "dali", "resnetx", "git_revision")


def machines(storage: Path | None, ranks: Ranks) -> dict[int, Environment]:
    """The machines of all nodes, each by the first rank there, on every rank; `storage`: where the images are.

    They are yet to be sealed.

    No rank goes on before all machines are known: what runs next would load them.
    """
    mine = environment(storage) if ranks.local_rank == 0 else None
    return {rank: machine for rank, machine in enumerate(ranks.gather(mine)) if machine is not None}


def other_nodes(machines: Mapping[int, Environment], loads: Sequence[HostLoad | Unknown]) -> list[OtherNode]:
    """The nodes apart from rank 0's; `loads`: one for each rank."""
    return [
        OtherNode(rank=rank, environment=machine, host_load=known(loads[rank]))
        for rank, machine in machines.items()
        if rank
    ]


def oversubscribed(ranks: Ranks, threads: int = 1) -> list[Warning]:
    """A warning where the ranks of this node, with so many threads each, take turns on its cores or GPUs."""
    here, present = ranks_here(), cores()
    if ranks.sharing:
        gpus = torch.cuda.device_count()
        message = f"{here} ranks take turns on {gpus} GPU{'s' * (gpus > 1)}: times say nothing of as many GPUs"
    elif ranks.device.type == "cpu" and here * threads > present:
        busy = f"{here} ranks" + f" with {threads} threads each" * (threads > 1)
        message = f"{busy} take turns on {present} core{'s' * (present > 1)}: times are those of the scheduler, too"
    else:
        return []
    return [Warning(code="oversubscribed", message=message, remedy="lower gpus" + " or threads" * (threads > 1))]


def warnings(machines: Mapping[int, Environment], devices: Sequence[Device]) -> list[Warning]:
    """What makes the figures of a run on these nodes less trustworthy; `devices`: one for each rank."""
    return [*unlike(machines), *busy_gpus(machines, devices), *overdriven(lab_network(), cores())]


FORWARDED_Bps = (
    0.5e9  # that one core moves through namespaces, of payload: 8 Gbit/s were kept on two (results/lab/truth)
)


def overdriven(network: LabNetwork | None, present: int) -> list[Warning]:
    """A warning where the links of the lab carry more than this host's cores move: then these are what is measured."""
    if network is None or not network.links:
        return []
    wanted_Bps = len(network.ranks) * max(max(link.rate_Bps, link.back_Bps or 0) for link in network.links)
    share = wanted_Bps / (FORWARDED_Bps * present)
    if share <= 1.1:
        return []
    message = (
        f"the lab's links carry up to {share:.1f} times what {present} cores move: times may be those of the cores"
    )
    return [Warning(code="overdriven", message=message, remedy=f"raise lab.scale to {network.scale * share:.0f}")]


def unlike(machines: Mapping[int, Environment]) -> list[Warning]:
    """A warning for each node that differs from rank 0's in what decides on its speed."""
    first, *environments = machines.values()
    found = []
    for other in environments:
        differing = [name for name in _ALIKE if getattr(first, name) != getattr(other, name)]
        if _gpus(first) != _gpus(other):
            differing.append("gpus")
        if differing:
            differences = ", ".join(f"{name} {_told(name, other)} (there {_told(name, first)})" for name in differing)
            found.append(
                Warning(
                    code="unlike-nodes",
                    message=f"{other.node} differs from {first.node}: {differences}",
                    remedy="use nodes of one kind, with the same software",
                )
            )
    return found


def busy_gpus(machines: Mapping[int, Environment], devices: Sequence[Device]) -> list[Warning]:
    """A warning where processes of others were on the GPUs of this run when it began; `devices`: one for each rank."""
    found = []
    for machine in machines.values():
        here = [device for device in devices if device.node == machine.node]
        # Also by their places: where MIG divides a GPU, the UUID of a device is that of an instance.
        used = {name for device in here for name in (device.uuid, device.pci_bus_id)}
        ours = {gpu.index for gpu in if_known(machine.gpus) or [] if used & {gpu.uuid, gpu.pci_bus_id}}
        processes = if_known(machine.gpu_processes) or []
        if others := [_named(process) for process in processes if process.gpu in ours]:
            message = f"other processes were on this run's GPUs of {machine.node}: {', '.join(others)}"
            lists = "amd-smi process" if hip_version() else "nvidia-smi"
            remedy = f"end them ({lists} lists them), or choose other GPUs: devices=0,1,..."
            found.append(Warning(code="shared-gpus", message=message, remedy=remedy))
    return found


def _named(process: GpuProcess) -> str:
    """ "python (4711)"."""
    name = if_known(process.name)
    return f"process {process.pid}" if name is None else f"{name} ({process.pid})"


def _gpus(machine: Environment) -> list[str]:
    return [gpu.name for gpu in if_known(machine.gpus) or []]


def _told(name: str, machine: Environment) -> str:
    if name == "gpus":
        return ", ".join(_gpus(machine)) or "none"
    value = if_known(getattr(machine, name))
    return "unknown" if value is None else str(value)


# Keeps a rank to the CPUs next to its GPU: what it decodes and copies then lies in memory that the GPU reaches first.
#
# On a host with several NUMA nodes a batch on the wrong one crosses the link between the sockets on its way. A rank
# stays where it is allowed to be where those CPUs would be too few for the threads of all ranks that share them, as
# where all GPUs are at one socket: half of the CPUs would then idle. Each GPU of the machine counts as one with a rank:
# so that a rank alone is where it would be as one of many.
#
# torchrun has `--numa-binding` for this. It takes a GPU's number to be the rank's, which `devices` changes, needs the
# program numactl, and fails where there is no GPU: so each rank does it by itself.
#
# References: sched_setaffinity(2); set_mempolicy(2); Linux documentation of /sys/bus/pci (local_cpulist);
# torch/numa/binding.py.


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
    # Whether so many ranks with so many busy threads each find a CPU for every thread.
    if mine and mine < allowed and near.count(mine) * _threads(request) <= len(mine):
        _move(allowed, mine)


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
