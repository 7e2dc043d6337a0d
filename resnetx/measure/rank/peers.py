"""Whether this rank's GPU can exchange data as it is asked to: peers, and NVLink.

CUDA tells which GPUs can reach each other's memory (cudaDeviceCanAccessPeer), but not how. NVML tells whether NVLinks
are up; where they are, peers use them, and neither NCCL nor CUDA can be told not to.
"""

from collections.abc import Iterable
from typing import Any

import torch

from resnetx.errors import ConfigError
from resnetx.measure.machine.nvml import active_nvlinks, found_by, open_nvml
from resnetx.packages import hip_version
from resnetx.record import Unknown
from resnetx.transports import Way


def check(way: Way, device: torch.device, here: Iterable[int]) -> None:
    """Refuses transports that this GPU does not have to the others of its node that take part (`here`)."""
    if way.transport not in ("peer", "pcie"):
        return
    if others := not_peers(device.index, here):
        raise ConfigError(
            f"transport={way.transport}: GPU {device.index} cannot reach the memory of GPU "
            f"{', '.join(map(str, others))} (`nvidia-smi topo -p2p r` says why); use devices= that can, or "
            "transport=host"
        )
    if way.transport == "pcie" and has_nvlink(device):
        raise ConfigError(
            "transport=pcie: GPUs with NVLink reach each other over it, and nothing but the driver can change that "
            "(its option NVreg_NvLinkDisable=1); use transport=peer or host"
        )


def not_peers(gpu: int, others: Iterable[int]) -> list[int]:
    """Which other GPUs' memory a GPU cannot reach."""
    return [other for other in others if other != gpu and not torch.cuda.can_device_access_peer(gpu, other)]


def has_nvlink(device: torch.device, module: Any = None) -> bool:
    """Whether NVLinks of a GPU are up; False where nobody knows. `module`: a stand-in for pynvml."""
    if hip_version():
        return False
    nvml = open_nvml(module)
    if isinstance(nvml, Unknown):
        return False
    gpu = found_by(str(torch.cuda.get_device_properties(device).uuid), nvml)
    links = gpu if isinstance(gpu, Unknown) else active_nvlinks(nvml, gpu.handle)
    return not isinstance(links, Unknown) and bool(links)
