"""How nodes are joined for a collective: one ring through every network card that is used."""

from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.interconnect import paths
from resnetx.interconnect.graph import System
from resnetx.interconnect.max_min import fair_shares


@dataclass(frozen=True)
class NodeNetwork:
    """What the network carries of the rings of several nodes."""

    bandwidth_Bps: float
    limit: str
    note: str


def by_node(system: System, devices: Sequence[int]) -> list[tuple[int, ...]]:
    """The devices of each node."""
    nodes: dict[int, list[int]] = {}
    for device in devices:
        nodes.setdefault(system.node_of(device), []).append(device)
    return [tuple(group) for group in nodes.values()]


def unlike_nodes(system: System, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """One group of every kind: nodes are alike, so that the same ids within a node are the same to look at."""
    per_node = len(system.gpus) // system.nodes
    return list({tuple(device % per_node for device in group): group for group in reversed(groups)}.values())


def join_nodes(system: System, groups: Sequence[tuple[int, ...]]) -> NodeNetwork:
    """Rates between nodes, from the first two: nodes are alike, and the fabric blocks nothing."""
    cards = [system.cards(system.node_of(group[0])) for group in groups[:2]]
    ends = [_ends(system, group, own) for group, own in zip(groups[:2], cards, strict=True)]
    flows = [
        paths.network_flow(system, sender, card, far_card, receiver)
        for near, far in ((0, 1), (1, 0))
        for (card, sender), (far_card, receiver) in zip(ends[near], ends[far], strict=True)
    ]
    slowest_Bps, limit = min(fair_shares(system, flows, kernels=True))
    count = len(cards[0])
    staged = ", staged in host memory" if flows[0].staged else ""
    note = f"Between {len(groups)} nodes: {count} ring{'s' * (count > 1)} over {system.network}, one a card{staged}."
    return NodeNetwork(slowest_Bps * count, limit, note)


def _ends(system: System, group: tuple[int, ...], cards: Sequence[str]) -> list[tuple[str, int]]:
    """Each card with the GPU where its ring ends: the nearest, and of equally near ones that with the fewest cards."""
    used = dict.fromkeys(group, 0)
    joined = []
    for card in cards:
        gpu = min(group, key=lambda device: (paths.links_to(system, device, card), used[device], device))
        used[gpu] += 1
        joined.append((card, gpu))
    return joined
