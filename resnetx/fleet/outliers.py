"""The runs that stand out, as outliers with their causes: nodes, then switches and pairs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from resnetx.fleet.measured import UNKNOWN, NodeFacts, causes
from resnetx.record import if_known
from resnetx.record.check import Cause, CheckedRun, Outlier, Remark
from resnetx.units import duration, si

# Slow pairs of nodes: is it the card of one node, a switch that they share, or can it not be told?
#
# A switch is blamed where every pair that was tried over it is slow, several nodes below it take part, and some other
# pair is not slow. A node is blamed where each of its pairs is slow, two at least. What is left are pairs.

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
    return [".".join(parts[: index + 1]) for index in range(len(parts))]


def _way(pair: Pair, switches: Mapping[str, str | None]) -> set[str]:
    """The switches between two nodes: up to the lowest that they share."""
    one, other = (_path(switches.get(node)) for node in pair)
    shared = [switch for switch in one if switch in other]
    return (set(one) | set(other)) - set(shared[:-1])


Against = Literal["run", "fleet", "description"]


def against(run: CheckedRun) -> list[Against]:
    """What a run stands out against; [] where it does not."""
    time_s, limit_s = if_known(run.time_s), if_known(run.limit_s)
    if time_s is None:
        return ["run"]
    beside_fleet: list[Against] = ["fleet"] if limit_s is not None and time_s > limit_s else []
    beside_description: list[Against] = ["description"] if run.verdict == "low" else []
    return [*beside_fleet, *beside_description]


def found(run: CheckedRun) -> str:
    """What a run measured beside what it is compared with, in one sentence."""
    time_s, median_s, limit_s = (if_known(value) for value in (run.time_s, run.median_s, run.limit_s))
    expected_s, most_s = if_known(run.expected_s), if_known(run.most_s)
    if time_s is None:
        return f"{run.outcome}: {run.reason}"
    said = [seconds_text(time_s)]
    if "fleet" in against(run) and median_s and limit_s:
        over = f"{time_s / median_s - 1:.0%} over the fleet's median of {seconds_text(median_s)}"
        said.append(f"{over} (limit {seconds_text(limit_s)})")
    if run.verdict == "low" and expected_s:
        most = f" ({seconds_text(most_s)} at most)" if most_s else ""
        said.append(f"the description allows {seconds_text(expected_s)}{most}")
    return ", ".join(said)


def seconds_text(time_s: float) -> str:
    """A time as screens have it."""
    if time_s < 1e-3:
        return f"{time_s * 1e6:.3g} us"
    return f"{time_s * 1e3:.3g} ms" if time_s < 1 else duration(time_s) if time_s >= 10 else f"{si(time_s, 's')}"


def outliers(
    runs: Sequence[CheckedRun], fleet: Sequence[NodeFacts], wanted_gpus: int | None = None
) -> tuple[list[Outlier], list[Remark]]:
    """What stands out; and what is odd about nodes that do not.

    `wanted_gpus`: that each node should have, by the description or the site file; None: as most others.
    """
    causes_of = {node.node: causes(node, fleet, wanted_gpus) for node in fleet}
    switches = {node.node: node.machine.switch if node.machine else None for node in fleet}
    every = [*_nodes(runs, causes_of), *_pairs(runs, causes_of, switches)]
    named = {node for outlier in every for node in outlier.nodes}
    odd = [(name, cause) for name, own in causes_of.items() if name not in named for cause in own]
    return every, [Remark(name, cause) for name, cause in odd]


def _nodes(runs: Sequence[CheckedRun], causes_of: Mapping[str, Sequence[Cause]]) -> Iterator[Outlier]:
    """Nodes whose own runs stand out, or that lack GPUs: these run, and as fast, on what is left."""
    named = set()
    for run in runs:
        if run.measure != "pair" and (stands := against(run)):
            (node,) = run.nodes
            named.add(node)
            yield _outlier("node", node, [node], run.measure, stands, found(run), causes_of.get(node, ()))
    for node, own in causes_of.items():
        lacking = [cause for cause in own if cause.kind == "missing GPUs"]
        if lacking and node not in named:
            yield _outlier("node", node, [node], "all-reduce", ["run"], lacking[0].evidence, own)


def _pairs(
    runs: Sequence[CheckedRun], causes_of: Mapping[str, Sequence[Cause]], switches: Mapping[str, str | None]
) -> Iterator[Outlier]:
    """What slow pairs have in common, or each by itself."""
    of_pairs = {_pair(run): run for run in runs if run.measure == "pair"}
    slow = [pair for pair, run in of_pairs.items() if against(run)]
    for each in blamed(list(of_pairs), slow, switches):
        own = [of_pairs[pair] for pair in each.pairs]
        stands: list[Against] = [which for which in _AGAINST if any(which in against(run) for run in own)]
        yield _blamed(each, stands, own, causes_of, len(of_pairs))


_AGAINST: tuple[Against, ...] = ("run", "fleet", "description")


def _blamed(
    each: Blamed,
    stands: list[Against],
    own: Sequence[CheckedRun],
    causes_of: Mapping[str, Sequence[Cause]],
    tried: int,
) -> Outlier:
    worst = max(own, key=lambda run: if_known(run.time_s) or float("inf"))
    text = found(worst) if len(own) == 1 else f"{len(own)} pairs; {' - '.join(worst.nodes)}: {found(worst)}"
    if each.switch is not None:
        evidence = f"all {len(own)} pairs tried over it are slow, and not all of the {tried - len(own)} others"
        return _outlier("switch", each.switch, each.nodes, "pair", stands, text, [Cause("switch", evidence)])
    if each.node is not None:
        others = [node for node in each.nodes if node != each.node]
        evidence = f"slow with each node that it was tried with: {', '.join(others)}"
        card = Cause("network card", evidence)
        return _outlier("node", each.node, [each.node], "pair", stands, text, [card, *causes_of.get(each.node, ())])
    (pair,) = each.pairs
    named = [Cause(cause.kind, f"{node}: {cause.evidence}") for node in pair for cause in causes_of.get(node, ())]
    return _outlier("pair", " - ".join(pair), list(pair), "pair", stands, text, named)


def _pair(run: CheckedRun) -> Pair:
    one, other = run.nodes
    return one, other


def _outlier(
    what: Literal["node", "pair", "switch"],
    name: str,
    nodes: list[str],
    measure: Literal["all-reduce", "training", "pair"],
    stands: list[Against],
    text: str,
    why: Sequence[Cause],
) -> Outlier:
    return Outlier(
        what=what, name=name, nodes=nodes, measure=measure, against=stands, found=text, causes=list(why) or [UNKNOWN]
    )
