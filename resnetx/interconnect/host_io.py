"""What feeds the GPUs: storage, and copies from host memory, of all GPUs that train at once.

Every node has its own storage, unless a part says that it is `shared`: a file server is one link for all of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resnetx.interconnect import paths
from resnetx.interconnect.graph import System
from resnetx.interconnect.internode import by_node, unlike_nodes
from resnetx.interconnect.max_min import fair_shares
from resnetx.interconnect.parts import Provenance, SourcedValue, StorageSpec
from resnetx.units import si


@dataclass(frozen=True)
class Supply:
    """The rate that each GPU gets while all of them read, and the weakest of its sources."""

    rate_Bps: float
    provenance: Provenance
    source: str
    through: str  # "ssd-raid4 at 2.00 GB/s"


_WEAKEST: tuple[Provenance, ...] = ("assumed", "datasheet", "measured")


def from_host(system: System, devices: Sequence[int]) -> Supply | None:
    """The slowest of copies from host memory to each of `devices` at once; None: no CPU is described."""
    unlike = [device for group in unlike_nodes(system, by_node(system, devices)) for device in group]
    flows = [paths.host_flow(system, device) for device in unlike]  # nodes share nothing up to their hosts
    known = [flow for flow in flows if flow is not None]
    if len(known) < len(flows):
        return None
    wires = {
        f"{link.part_name} at {si(link.copy_Bps, 'B/s')}": link.wire.copy_Bps
        for flow in known
        for _, _, link in flow.steps
    }
    return _supply(min(share_Bps for share_Bps, _ in fair_shares(system, known)), wires)


def from_storage(system: System, devices: Sequence[int]) -> Supply | None:
    """What each of `devices` gets of all storage when all of them read; None: no storage is described.

    Each node reads its own; what is shared is one for all nodes, though every node's description has it.
    """
    readers = Counter(map(system.node_of, devices))
    own_Bps = shared_Bps = 0.0
    figures: dict[str, SourcedValue] = {}
    for component in system.in_node(system.node_of(devices[0])):  # nodes are alike
        if isinstance(part := component.part, StorageSpec):
            figures[_rated(component.part_name, part, system.nodes)] = part.bandwidth_Bps
            own_Bps += 0.0 if part.shared else part.bandwidth_Bps.value
            shared_Bps += part.bandwidth_Bps.value if part.shared else 0.0
    rate_Bps = own_Bps / max(readers.values()) + shared_Bps / len(devices)
    return _supply(rate_Bps, figures) if rate_Bps else None


def _rated(name: str, part: StorageSpec, nodes: int) -> str:
    whose = ", one for all nodes" if part.shared and nodes > 1 else ""
    return f"{name} at {si(part.bandwidth_Bps.value, 'B/s')}{whose}"


def _supply(rate_Bps: float, figures: Mapping[str, SourcedValue]) -> Supply:
    through, weakest = min(figures.items(), key=lambda named: _WEAKEST.index(named[1].provenance))
    return Supply(rate_Bps, weakest.provenance, weakest.source, through)
