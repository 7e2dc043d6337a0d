"""Slow pairs of nodes: is it the card of one node, a switch that they share, or can it not be told?

A switch is blamed where every pair that was tried over it is slow, several nodes below it take part, and some other
pair is not slow. A node is blamed where each of its pairs is slow, two at least. What is left are pairs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]


@dataclass(frozen=True)
class Blamed:
    """What slow pairs have in common."""

    switch: str | None  # "spine.leaf2"
    node: str | None
    pairs: list[Pair]  # those that it explains

    @property
    def nodes(self) -> list[str]:
        return sorted({node for pair in self.pairs for node in pair})


def blamed(tried: Sequence[Pair], slow: Sequence[Pair], switches: Mapping[str, str | None]) -> list[Blamed]:
    """The switches and nodes that explain slow pairs, then the pairs that nothing explains.

    `switches`: of each node those above it, as Slurm's topology has them: "spine.leaf2".
    """
    left, found = list(slow), []
    while left and (next_one := _next(tried, slow, left, switches)):
        found.append(next_one)
        left = [pair for pair in left if pair not in next_one.pairs]
    return [*found, *(Blamed(None, None, [pair]) for pair in left)]


def _next(
    tried: Sequence[Pair], slow: Sequence[Pair], left: Sequence[Pair], switches: Mapping[str, str | None]
) -> Blamed | None:
    """What explains most of the slow pairs that are left: a switch rather than a node, the lowest switch of several."""
    over = {switch: [pair for pair in tried if switch in _way(pair, switches)] for switch in _all_switches(switches)}
    bad = {switch: pairs for switch, pairs in over.items() if _explains(switch, pairs, tried, slow, switches)}
    open_ = {switch: pairs for switch, pairs in bad.items() if any(pair in left for pair in pairs)}
    if open_:
        switch = max(open_, key=lambda each: (len(open_[each]), each.count("."), each))
        return Blamed(switch, None, open_[switch])
    nodes = sorted({node for pair in left for node in pair})
    own = {node: [pair for pair in tried if node in pair] for node in nodes}
    card = {node: pairs for node, pairs in own.items() if len(pairs) > 1 and all(pair in slow for pair in pairs)}
    if not card:
        return None
    node = max(card, key=lambda each: sum(pair in left for pair in card[each]))
    return Blamed(None, node, [pair for pair in card[node] if pair in left])


def _explains(
    switch: str,
    over: Sequence[Pair],
    tried: Sequence[Pair],
    slow: Sequence[Pair],
    switches: Mapping[str, str | None],
) -> bool:
    """Whether a switch is what its pairs are slow by, and no single node of them is."""
    below = {node for pair in over for node in pair if switch in _path(switches.get(node))}
    of_one_node = any(all(node in pair for pair in over) for node in below)
    others_are_fast = any(pair not in slow for pair in tried if pair not in over)
    return (
        len(over) > 1 and len(below) > 1 and all(pair in slow for pair in over) and others_are_fast and not of_one_node
    )


def _all_switches(switches: Mapping[str, str | None]) -> list[str]:
    return sorted({switch for address in switches.values() for switch in _path(address)})


def _path(address: str | None) -> list[str]:
    """The switches of an address from the top on, each with those above it: "spine", "spine.leaf2"."""
    parts = (address or "").split(".") if address else []
    return [".".join(parts[: place + 1]) for place in range(len(parts))]


def _way(pair: Pair, switches: Mapping[str, str | None]) -> set[str]:
    """The switches between two nodes: up to the lowest that they share."""
    one, other = (_path(switches.get(node)) for node in pair)
    shared = [switch for switch in one if switch in other]
    return (set(one) | set(other)) - set(shared[:-1])
