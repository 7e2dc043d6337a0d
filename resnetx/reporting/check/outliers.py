"""The runs that stand out, as outliers with their causes: nodes, then switches and pairs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from resnetx.record import if_known
from resnetx.record.check import Cause, CheckedRun, Outlier, Remark
from resnetx.reporting.check.causes import UNKNOWN, NodeFacts, causes
from resnetx.reporting.check.pairs import Blamed, Pair, blamed
from resnetx.units import duration, si

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
    named = {node for each in every for node in each.nodes}
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
