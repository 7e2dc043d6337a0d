"""What the runs of a check measured, and which of them stand out, with their causes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar, get_args

import msgspec

from resnetx.interconnect.collectives.measured import telling_times
from resnetx.record import BenchRecord, Environment, Gpu, RunRecord, Unknown, Warning, if_known, known
from resnetx.record.bench_record import Verdict
from resnetx.record.prediction import PredictedPoint
from resnetx.record.topologies import Cause, CauseKind, CheckedRun, Measure, Outlier, Remark
from resnetx.units import duration, si

# ---- measured -------------------------------------------------------------------------------------------------------
# What runs of a check measured, each beside the fleet's median and the description of the system.
#
# A run stands out beside the fleet where it takes longer than the median of all runs of its kind by more than `SPREADS`
# robust standard deviations, and by more than `FLOOR` of the median. The deviation is 1.4826 times the median absolute
# deviation: of normal times it is the standard deviation, and a few slow nodes change it little (Rousseeuw & Croux,
# 1993). How often a fleet without a fault then has an outlier is in docs/check.md, and counted by tests/reporting.

LEAST = 3  # runs of one kind, below which nothing tells who is the slow one
SPREADS = 5.0
FLOOR = 0.10
_DEVIATION = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
TOO_FEW = Unknown(f"fewer than {LEAST} runs of this kind: there is no fleet to compare with")
NO_TIME = Unknown("the run did not end well")


@dataclass(frozen=True)
class Tried:
    """One run of a check, with its record."""

    measure: Measure
    nodes: tuple[str, ...]
    record: BenchRecord | RunRecord
    folder: Path
    round: int = 0


@dataclass(frozen=True)
class FleetLimit:
    """What a fleet allows a run of one kind."""

    median_s: float
    limit_s: float


def fleet_limit(times_s: Sequence[float]) -> FleetLimit | None:
    """The limit that follows from the times of all runs of one kind; None: they are too few."""
    if len(times_s) < LEAST:
        return None
    middle_s = median(times_s)
    deviation_s = _DEVIATION * median(abs(time_s - middle_s) for time_s in times_s)
    return FleetLimit(middle_s, middle_s + max(SPREADS * deviation_s, FLOOR * middle_s))


def time_of(record: BenchRecord | RunRecord) -> float | None:
    """Seconds of one all-reduce, or of one training step; None where the run did not end well."""
    if fault_of(record):
        return None
    if isinstance(record, BenchRecord):
        (times_s, *_) = telling_times(record.points)
        return median(times_s)
    return 1 / record.iterations_per_s if record.iterations_per_s else None


def fault_of(record: BenchRecord | RunRecord) -> str:
    """Why a run gives no time; "" where it does. Wrong sums are a fault, however fast they were."""
    if record.outcome != "ok":
        return record.reason
    if isinstance(record, RunRecord):
        return "" if record.iterations_per_s else "it has no rate"
    if wrong := sum(point.wrong or 0 for point in record.points):
        return f"{wrong} elements of its sums were wrong"
    return "" if record.points else "no size of it found memory"


def environment_of(tried: Sequence[Tried]) -> dict[str, Environment]:
    """The machine of each node that a run of its own told of: the latest."""
    return {
        each.nodes[0]: each.record.environment for each in tried if len(each.nodes) == 1 and each.record.environment
    }


# ---- runs beside the description and the fleet ----------------------------------------------------------------------


def checked(tried: Sequence[Tried], predicted: PredictedPoint | None, no_prediction: str) -> list[CheckedRun]:
    """All runs with what is allowed; `predicted`: the training point on one node, or why there is none."""
    machines = environment_of(tried)
    described = [_described(each, _kind(each, machines), predicted, no_prediction) for each in tried]
    times_s: dict[tuple[Measure, str], list[float]] = defaultdict(list)
    for run in described:
        if (time_s := if_known(run.time_s)) is not None:
            times_s[run.measure, run.kind].append(time_s)
    limits = {key: fleet_limit(seconds) for key, seconds in times_s.items()}
    return [_beside_fleet(run, limits.get((run.measure, run.kind))) for run in described]


def _kind(each: Tried, machines: Mapping[str, Environment]) -> str:
    """Runs of one kind are compared: nodes with the same processors, and pairs as far apart."""
    environments = [machines[node] for node in each.nodes if node in machines]
    names = sorted({_processors(machine) for machine in environments})
    if each.measure != "pair" or len(environments) < 2:
        return " and ".join(names)
    switches = {machine.switch for machine in environments}
    apart = "" if None in switches else ", below one switch" if len(switches) == 1 else ", across switches"
    return " and ".join(names) + apart


def _processors(machine: Environment) -> str:
    return ", ".join(sorted({gpu.name for gpu in machine.gpus or []})) or machine.cpu


def _described(each: Tried, kind: str, predicted: PredictedPoint | None, no_prediction: str) -> CheckedRun:
    """A run beside its description, yet without the fleet."""
    time_s, fault, why = time_of(each.record), fault_of(each.record), Unknown(no_prediction)
    expected_s: float | Unknown = why
    most_s: float | Unknown = why
    verdict: Verdict = "not judged"
    if isinstance(each.record, BenchRecord):
        most_s = Unknown("the verdict allows for the error of the model of collectives")
        if each.record.points and each.record.points[0].expected_s is not None:
            expected_s, verdict = each.record.points[0].expected_s, each.record.points[0].verdict
    elif predicted is not None and predicted.iteration_s is not None and predicted.interval_s is not None:
        expected_s, (least_s, most_s) = predicted.iteration_s, predicted.interval_s
        if time_s is not None:
            verdict = "low" if time_s > most_s else "above the link" if time_s < least_s else "as expected"
    return CheckedRun(
        measure=each.measure,
        nodes=list(each.nodes),
        round=each.round,
        kind=kind,
        outcome="failed" if fault and each.record.outcome == "ok" else each.record.outcome,
        reason=fault,
        time_s=known(NO_TIME if time_s is None else time_s),
        expected_s=known(expected_s),
        most_s=known(most_s),
        verdict=verdict if time_s is not None else "not judged",
        median_s=known(TOO_FEW),
        limit_s=known(TOO_FEW),
        folder=each.folder.name,
    )


def _beside_fleet(run: CheckedRun, limit: FleetLimit | None) -> CheckedRun:
    if limit is None:
        return run
    return msgspec.structs.replace(run, median_s=limit.median_s, limit_s=limit.limit_s)


# Why a node may be slow, by what its records have: each cause with its evidence and figures.
#
# What is odd about a node is told by its own maximum (lanes of a link), by counters that should stand at nought, by the
# warnings of its runs, or by what most other nodes have.

CLOCK_SPREAD = 0.02  # of the fleet's median clock, below which a node's is no cause
_OF_WARNINGS: dict[str, CauseKind] = {
    "throttled": "clock",
    "uneven-clocks": "clock",
    "link-errors": "link errors",
    "foreign-load": "foreign load",
    "shared-gpus": "foreign load",
}
_SOFTWARE = ("driver", "torch", "cuda", "hip", "nccl", "resnetx", "git_revision")
UNKNOWN = Cause("unknown", "nothing in its records explains it")

T = TypeVar("T")


@dataclass(frozen=True)
class NodeFacts:
    """What the runs of one node tell of it."""

    node: str
    machine: Environment | None  # None: no run got as far as to look
    warnings: tuple[Warning, ...] = ()
    clock_Hz: float | None = None  # of its slowest GPU: the median while it trained

    @property
    def gpus(self) -> list[Gpu]:
        return (self.machine.gpus if self.machine else None) or []


def facts_of(node: str, records: Sequence[BenchRecord | RunRecord]) -> NodeFacts:
    """What the records of a node's own runs tell."""
    machines = [record.environment for record in records if record.environment]
    warnings = {warning.message: warning for record in records for warning in record.warnings}
    return NodeFacts(node, machines[-1] if machines else None, tuple(warnings.values()), _clock_Hz(records))


def _clock_Hz(records: Sequence[BenchRecord | RunRecord]) -> float | None:
    samples = [gpu_sample for run in records if isinstance(run, RunRecord) for gpu_sample in run.gpu_samples or []]
    return min((median(sample.sm_clock_Hz) for sample in samples if sample and sample.sm_clock_Hz), default=None)


def causes(node: NodeFacts, fleet: Sequence[NodeFacts], wanted_gpus: int | None = None) -> list[Cause]:
    """What is odd about a node, the likeliest first; `wanted_gpus`: that it should have, where that is known."""
    found = [cause for judge in (_memory, _links, _nvlinks, _clock, _software) for cause in judge(node, fleet)]
    found += _missing_gpus(node, fleet, wanted_gpus)
    found += [
        Cause(_OF_WARNINGS[warning.code], warning.message) for warning in node.warnings if warning.code in _OF_WARNINGS
    ]
    order = get_args(CauseKind)
    return sorted(found, key=lambda cause: order.index(cause.kind))


def usual(values: Sequence[T | None]) -> T | None:
    """What more than half of at least three have; None where there is no such value."""
    if len(values) < 3:
        return None
    ((value, count),) = Counter(values).most_common(1)
    return value if 2 * count > len(values) else None


# ---- one kind of cause after the other ------------------------------------------------------------------------------


def _missing_gpus(node: NodeFacts, fleet: Sequence[NodeFacts], wanted: int | None) -> Iterator[Cause]:
    if node.machine is None:
        return
    due = wanted if wanted is not None else usual([len(facts.gpus) for facts in fleet if facts.machine])
    if due is not None and len(node.gpus) < due:
        whose = "the description and the site file name" if wanted is not None else "most nodes have"
        yield Cause("missing GPUs", f"its driver shows {len(node.gpus)} GPUs, {whose} {due}")


def _memory(node: NodeFacts, _: Sequence[NodeFacts]) -> Iterator[Cause]:
    for gpu in node.gpus:
        if (health := gpu.memory_health) is None:
            continue
        said = [
            f"{health.ecc_uncorrected} memory errors that ECC could not correct" * bool(health.ecc_uncorrected),
            f"{health.remapped_rows} remapped rows" * bool(health.remapped_rows),
            "a row that waits for a reset to be remapped" * bool(health.remapping_pending),
            "no spare row left, so that it is to be replaced" * bool(health.remapping_failed),
        ]
        if any(said):
            yield Cause("memory errors", f"GPU {gpu.index}: {', '.join(filter(None, said))}")


def _links(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    """A GPU at rest lowers the generation of its link: only that of others at the same moment tells something."""
    now = _usual_of_gpus(fleet, lambda gpu: gpu.pcie_generation)
    most = _usual_of_gpus(fleet, lambda gpu: gpu.pcie_generation_max)
    for gpu in node.gpus:
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            yield Cause("link width", f"GPU {gpu.index}: {gpu.pcie_width} of {gpu.pcie_width_max} lanes of PCIe are up")
        if most and gpu.pcie_generation_max and gpu.pcie_generation_max < most:
            text = f"GPU {gpu.index}: PCIe generation {gpu.pcie_generation_max} at most, of most GPUs {most}"
            yield Cause("link width", text)
        elif now and gpu.pcie_generation and gpu.pcie_generation < now:
            text = f"GPU {gpu.index}: PCIe generation {gpu.pcie_generation}, while most GPUs had {now}"
            yield Cause("link width", text)


def _nvlinks(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    due = _usual_of_gpus(fleet, lambda gpu: gpu.nvlinks_active)
    for gpu in node.gpus:
        if due and gpu.nvlinks_active is not None and gpu.nvlinks_active < due:
            yield Cause("NVLink", f"GPU {gpu.index}: {gpu.nvlinks_active} NVLinks are up, of most GPUs {due}")


def _usual_of_gpus(fleet: Sequence[NodeFacts], fact: Callable[[Gpu], int | None]) -> int | None:
    return usual([fact(gpu) for facts in fleet for gpu in facts.gpus])


def _clock(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    clocks_Hz = [facts.clock_Hz for facts in fleet if facts.clock_Hz]
    if node.clock_Hz and len(clocks_Hz) >= 3 and node.clock_Hz < (1 - CLOCK_SPREAD) * median(clocks_Hz):
        text = f"its slowest GPU ran at {node.clock_Hz / 1e6:.0f} MHz, the fleet's median is "
        yield Cause("clock", text + f"{median(clocks_Hz) / 1e6:.0f} MHz")
    governor = usual([facts.machine.cpu_governor for facts in fleet if facts.machine])
    if node.machine and governor and node.machine.cpu_governor not in (None, governor):
        yield Cause("clock", f"its CPU governor is {node.machine.cpu_governor}, of most nodes {governor}")


def _software(node: NodeFacts, fleet: Sequence[NodeFacts]) -> Iterator[Cause]:
    for name in _SOFTWARE if node.machine else ():
        due, own = (
            usual([getattr(facts.machine, name) for facts in fleet if facts.machine]),
            getattr(node.machine, name),
        )
        if due is not None and own != due:
            yield Cause("software", f"its {name.replace('_', ' ')} is {own or 'not known'}, of most nodes {due}")


# ---- outliers -------------------------------------------------------------------------------------------------------
# The runs that stand out, as outliers with their causes: nodes, then switches and pairs.

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
    for node, node_causes in causes_of.items():
        lacking = [cause for cause in node_causes if cause.kind == "missing GPUs"]
        if lacking and node not in named:
            yield _outlier("node", node, [node], "all-reduce", ["run"], lacking[0].evidence, node_causes)


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
