"""The device of a rank: which one it is, and how records describe it."""

from typing import Any

import torch

from resnetx.errors import ConfigError
from resnetx.host import cpus_text, node_name
from resnetx.measure.launch.torchrun import local_rank, rank, ranks_here, world_size
from resnetx.measure.machine.capability import check_kernels
from resnetx.measure.machine.nvml import full_uuid
from resnetx.measure.machine.visible_gpus import gpus_here, hidden_by_mistake
from resnetx.packages import hip_version
from resnetx.record import Device, Unknown, known


def choose_device(devices: list[int] | None, oversubscribe: bool = False) -> torch.device:
    """The device of this rank: `devices[local rank]`, or the local rank's own; CPU where no GPU is.

    `oversubscribe`: where ranks are more than GPUs, the GPUs are dealt out in turn.
    """
    if not torch.cuda.is_available():
        if mistake := hidden_by_mistake():
            raise ConfigError(mistake)
        if present := gpus_here():
            build = "ROCm" if hip_version() else f"CUDA {torch.version.cuda}"
            raise ConfigError(
                f"this machine has {present} GPUs that torch {torch.__version__} cannot use (a driver too old for "
                f"{build}, no right to open them, or a build without CUDA): see `resnetx doctor`; to use CPUs all the "
                "same, set CUDA_VISIBLE_DEVICES=-1"
            )
        return torch.device("cpu")
    present = torch.cuda.device_count()
    chosen = (devices or list(range(ranks_here())))[local_rank()]
    if oversubscribe and devices is None:
        chosen %= present
    if chosen >= present:
        raise ConfigError(
            f"gpus={world_size()}: rank {rank()} needs GPU {chosen} of {node_name()}, which shows {present}; "
            "lower gpus, or change devices"
        )
    device = torch.device("cuda", chosen)
    check_kernels(device)
    return device


def describe_device(device: torch.device) -> Device:
    """Where this rank runs, as its record has it once it is sealed."""
    cpus = known(cpus_text() or Unknown("this system does not tell"))
    if device.type != "cuda":
        no_gpu = known(Unknown("a CPU rank has no GPU"))
        return Device(
            rank=rank(),
            node=node_name(),
            index=local_rank(),
            name="CPU",
            uuid=no_gpu,
            pci_bus_id=no_gpu,
            cpus=cpus,
        )
    properties = torch.cuda.get_device_properties(device)
    address = pci_address(device)
    bus = f"0000{address}" if address else Unknown(f"torch {torch.__version__} does not tell it")  # as NVML writes it
    uuid = Unknown("HIP's UUIDs are not those of AMD SMI") if hip_version() else full_uuid(str(properties.uuid))
    return Device(
        rank=rank(),
        node=node_name(),
        index=device.index,
        name=properties.name,
        uuid=known(uuid),
        pci_bus_id=known(bus),
        cpus=cpus,
    )


def pci_address(device: torch.device) -> str:
    """The PCI address of a GPU, as the kernel writes it; "" where torch does not tell."""
    properties: Any = torch.cuda.get_device_properties(device)
    try:
        return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:  # torch 2.7
        return ""
