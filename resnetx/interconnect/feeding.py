"""What feeds the GPUs: storage, and copies from host memory, of all GPUs that train at once."""

from collections import Counter
from collections.abc import Sequence

from resnetx.interconnect import paths
from resnetx.interconnect.graph import System
from resnetx.interconnect.parts import Storage
from resnetx.interconnect.sharing import fair_shares


def from_host_Bps(system: System, devices: Sequence[int]) -> float | None:
    """The rate of the slowest of copies from host memory to each of `devices` at once; None: no CPU is described."""
    flows = [paths.host_flow(system, device) for device in devices]
    found = [flow for flow in flows if flow is not None]
    return min(share_Bps for share_Bps, _ in fair_shares(system, found)) if len(found) == len(devices) else None


def storage_Bps(system: System, devices: Sequence[int]) -> float | None:
    """What each of `devices` gets of its node's storage when all of them read; None: no storage is described."""
    readers = Counter(system.gpus[device].node for device in devices)
    rates_Bps = dict.fromkeys(readers, 0.0)
    for component in system.components:
        if isinstance(component.part, Storage) and component.node in rates_Bps:
            rates_Bps[component.node] += component.part.bandwidth_Bps.value
    return min(rates_Bps[node] / count for node, count in readers.items()) or None
