"""How nodes are joined for a collective: one ring through every network card that the library drives.

Which cards those are is a fact of the library and of the system (`Rails`). NCCL takes for a GPU the cards that are
nearest to it by PCIe (net.cu of 2.0 to 2.3 and the search of 2.4 and later both begin with the best distance), so one
GPU of a node with a card for every two GPUs drives one card. Gloo and sockets use one interface.

A step between nodes costs what the library needs to hand data to its proxy and what the network needs to deliver it
(`Hop.network_s` + `NetworkSpec.latency_s`, as the later tuning.cc adds `latencyInter`).

Measured: SummitDev, one GPU a node, 2 to 8 nodes (Li et al. 2019, Fig. 30): all-reduces of 8 bytes take 12 us and 8 us
a step; a broadcast of 8 bytes grows by 1.5 us a node, as the operations of a queue follow each other down the chain.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resnetx.interconnect.collectives.rings import Hop
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import (
    Provenance,
    Rails,
    SourcedValue,
    StorageSpec,
    System,
    by_node,
    unlike_nodes,
)
from resnetx.interconnect.systems.paths import fair_shares
from resnetx.operations import Operation
from resnetx.units import in_GBps

# tuning.cc, getAlgoTime: an all-reduce of several nodes by a ring (protocol Simple) has its fixed time times so much,
# by compute capability, from so many bytes a rank and ring on. It is "the plateau effect of ring" there.
PLATEAU = ((8.0, 1.4), (0.0, 1.9))
PLATEAU_FROM_BYTES = 64

Groups = Sequence[tuple[int, ...]]  # GPU ids, node by node


@dataclass(frozen=True)
class Plateau:
    """What an operation costs more from some size on."""

    from_bytes: float
    extra_s: float

    def at(self, size_bytes: float) -> float:
        return self.extra_s if size_bytes >= self.from_bytes else 0.0


def plateau(fixed_s: float, ranks: int, channels: int, compute_capability: float) -> Plateau:
    """Of an all-reduce by a ring over several nodes; `fixed_s`: what its smallest sizes take, without the launch."""
    factor = next(factor for least, factor in PLATEAU if compute_capability >= least)
    return Plateau(PLATEAU_FROM_BYTES * ranks * channels, (factor - 1) * fixed_s)


@dataclass(frozen=True)
class NodeNetwork:
    """What the network carries of the rings of several nodes."""

    bandwidth_Bps: float
    latency_s: float  # one way, of a small message
    rings: int  # one a card
    limit: str
    note: str

    def crossing_s(self, hop: Hop) -> float:
        """One step from node to node."""
        return hop.network_s + self.latency_s

    def crossings_s(self, hop: Hop, count: int, handovers: int, operation: Operation) -> float:
        """`count` steps from node to node; along a chain, only the first is waited for in full."""
        if operation.along_a_chain:
            return self.crossing_s(hop) + (count - 1) * self.latency_s
        return handovers * count * self.crossing_s(hop)


def join_nodes(
    system: System, groups: Sequence[tuple[int, ...]], operation: Operation, rails: Rails | None = None
) -> NodeNetwork:
    """Rates between nodes, from two of them: nodes are alike, and the fabric blocks nothing.

    `rails`: the library's; None: NCCL's own choice, unless the system's file says what it drives there.
    """
    rails = rails or system.rails
    near, far = _two_nodes(system, groups, rails)
    count = min(len(near), len(far))
    one_way = operation.along_a_chain and len(groups) == 2  # else every node sends and receives at once
    flows = [
        paths.network_flow(system, sender, card, far_card, receiver)
        for senders, receivers in ([(near, far)] if one_way else [(near, far), (far, near)])
        for (card, sender), (far_card, receiver) in zip(senders[:count], receivers[:count], strict=True)
    ]
    slowest_Bps, limit = min(fair_shares(system, flows, kernels=True))
    latency_s = sum(link.wire.latency_s.value for _, _, link in flows[0].steps if link.wire.family == "network")
    staged = ", staged in host memory" if flows[0].staged else ""
    note = f"Between {len(groups)} nodes: {count} ring{'s' * (count > 1)} over {system.network}, one a card{staged}."
    return NodeNetwork(slowest_Bps * count, latency_s, count, limit, note)


def _two_nodes(system: System, groups: Sequence[tuple[int, ...]], rails: Rails) -> list[list[tuple[str, int]]]:
    """The cards of the first node and of that with the fewest, each with the GPU where its ring ends."""
    per_node = len(system.gpus) // system.nodes
    unlike = {tuple(device % per_node for device in group): group for group in reversed(groups[1:])}
    others = [_ends(system, group, _cards(system, group, rails)) for group in unlike.values()]
    return [_ends(system, groups[0], _cards(system, groups[0], rails)), min(reversed(others), key=len)]


def _ends(system: System, group: tuple[int, ...], cards: Sequence[str]) -> list[tuple[str, int]]:
    """Each card with the GPU where its ring ends: the nearest, and of equally near ones that with the fewest cards."""
    used = dict.fromkeys(group, 0)
    joined = []
    for card in cards:
        gpu = min(group, key=lambda device: (paths.links_to(system, device, card), used[device], device))
        used[gpu] += 1
        joined.append((card, gpu))
    return joined


def nearest_cards(system: System, device: int) -> list[str]:
    """The cards that the library drives for one GPU."""
    return _cards(system, (device,), system.rails)


def cards_read_gpus(system: System) -> bool:
    """Whether nothing between a GPU and the network is staged in host memory."""
    gpu, port = system.gpus[0], next(link.wire for link, _ in system.counted_links() if link.wire.family == "network")
    return port.peer and not any(paths.to_card(system, gpu.name, card)[1] for card in nearest_cards(system, 0))


def _cards(system: System, group: tuple[int, ...], rails: Rails) -> list[str]:
    """The network cards of a node that are plugged in and that the library drives for these GPUs."""
    plugged = system.cards(system.node_of(group[0]))
    if rails == "all":
        return list(plugged)
    nearest: set[str] = set()
    for device in group:
        distances = {card: paths.distance_to(system, device, card) for card in plugged}
        nearest |= {card for card, distance in distances.items() if distance == min(distances.values())}
    driven = [card for card in plugged if card in nearest]
    return driven[:1] if rails == "one" else driven


# What feeds the GPUs: storage, and copies from host memory, of all GPUs that train at once.
#
# Every node has its own storage, unless a part says that it is `shared`: a file server is one link for all of them.


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
        f"{link.part_name} at {in_GBps(link.copy_Bps)}": link.wire.copy_Bps
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
    return f"{name} at {in_GBps(part.bandwidth_Bps.value)}{whose}"


def _supply(rate_Bps: float, figures: Mapping[str, SourcedValue]) -> Supply:
    through, weakest = min(figures.items(), key=lambda named: _WEAKEST.index(named[1].provenance))
    return Supply(rate_Bps, weakest.provenance, weakest.source, through)
