"""The nodes of a run: what each of them is, how busy it was, and whether they are alike.

All ranks wait for the slowest one, so a second node matters as much as the one of rank 0. The first rank of every node
looks at it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from resnetx.host import cores
from resnetx.interconnect.lab_network import LabNetwork
from resnetx.measure.launch.torchrun import lab_network, ranks_here
from resnetx.measure.machine.environment import environment
from resnetx.measure.rank.distributed import Ranks
from resnetx.packages import hip_version
from resnetx.record import Device, Environment, GpuProcess, HostLoad, OtherNode, Unknown, Warning, if_known, known

# What makes ranks of one run differ in speed, or in what they compute.
_ALIKE = ("cpu", "cpus_usable", "driver", "torch", "cuda", "hip", "cudnn", "nccl", "dali", "resnetx", "git_revision")


def machines(storage: Path | None, ranks: Ranks) -> dict[int, Environment]:
    """The machines of all nodes, each by the first rank there, on every rank; `storage`: where the images are.

    They are yet to be sealed.

    No rank goes on before all machines are known: what runs next would load them.
    """
    mine = environment(storage) if ranks.local_rank == 0 else None
    return {rank: found for rank, found in enumerate(ranks.gather(mine)) if found is not None}


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
    first, *others = machines.values()
    found = []
    for other in others:
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
