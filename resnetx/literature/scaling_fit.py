"""Fits what scaling costs to published rates, and counts how far off predictions of unseen systems are.

    python -m resnetx.literature.scaling_fit        writes results/published/scaling-errors.yaml, and prints each rate

Two figures are fitted to rates on one node (`scaling_errors`), by the least sum of |ln(predicted / measured)|, which a
few odd rates do not move, each rate counting alike; then, to the rates of programs whose samples differ in size, how
much the steps of these vary; and to those of several nodes, those of transformers, too, how much longer their steps
are, each cluster counting alike. Each rate is then predicted with the figures that all other systems give (of several
nodes: all other clusters). The errors of these predictions, over what ranks are predicted to cost each other, make the
intervals, of whatever kind; and each interval is counted with the errors of other systems' other programs alone. Rates
that are open between two ends count in neither.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import exp, hypot

import msgspec
import numpy as np

from resnetx.literature import transformers
from resnetx.literature.rivals import interval_score, median_efficiencies, quantiles
from resnetx.literature.scaling_check import Floats, ScalingCase, cases, strong_cases, untold_cases
from resnetx.literature.training_rates import any_memory
from resnetx.literature.transformers import TransformerCase
from resnetx.prediction.host_step import PARALLEL_s
from resnetx.prediction.iteration import Iteration
from resnetx.prediction.open_points import may_be_one_flow
from resnetx.prediction.roofline import HALF, generation
from resnetx.prediction.scaling import (
    ANY,
    FILE,
    NO_PEERS,
    ONE_NODE,
    KindError,
    ScalingErrors,
    ScalingSpread,
    is_steady,
    is_typical,
    ranks_cost,
)
from resnetx.prediction.scenario import SHOWN_BY, Point, ScalingCosts

# What is searched: variation to 5 %, in steps of 0.05 %, and host load to 50 % in steps of 1 %.
_VARIATION, _LOAD = np.arange(101) / 2000, np.arange(51) / 100
_UNEVEN = np.arange(61) / 200  # to 30 %, in steps of 0.5 %
_BETWEEN = np.arange(17) / 400  # to 4 %, in steps of 0.25 %
_DIGITS = 5


@dataclass(frozen=True)
class JudgedScaling:
    """One rate, predicted without its system."""

    case: ScalingCase
    costs: ScalingCosts
    predicted: float  # images/s
    iteration: Iteration

    @property
    def error(self) -> float:
        return self.predicted / self.case.measured - 1

    @property
    def log_error(self) -> float:
        return self.case.log_error(self.predicted)

    @property
    def linear_error(self) -> float:
        return self.case.log_error(self.case.linear)


def fit(chosen: Sequence[ScalingCase]) -> ScalingCosts:
    """The figures with the least sum of absolute errors over rates that are not open."""
    costs = _of_one_node(chosen)
    return _with_between(costs, _errors_between(chosen, costs))


def _of_one_node(chosen: Sequence[ScalingCase]) -> ScalingCosts:
    return _with_uneven(_with_typical(_best(_on_one_node(chosen)), chosen), chosen)


def _on_one_node(chosen: Iterable[ScalingCase]) -> list[ScalingCase]:
    """Those that the two figures are fitted to."""
    return [case for case in _predicted(chosen) if not _is_uneven(case) and not is_typical(case.kind)]


def _predicted(chosen: Iterable[ScalingCase]) -> list[ScalingCase]:
    """Those of one node that are not open."""
    return [case for case in chosen if case.kind[1] == ONE_NODE and not case.is_open]


def _is_uneven(case: ScalingCase) -> bool:
    return case.kind[2] == "uneven"


def _with_uneven(costs: ScalingCosts, chosen: Iterable[ScalingCase]) -> ScalingCosts:
    """With how much steps vary whose samples differ in size, by the same rule, on GPUs of either age."""
    uneven, load = [case for case in _predicted(chosen) if _is_uneven(case)], np.full(len(_UNEVEN), costs.host_load)

    def of_age(steady: bool, alike: float) -> float:
        own = [case for case in uneven if is_steady(case.point) == steady]
        errors = [np.abs(np.log(case.nearly(_UNEVEN, load) / case.measured)) for case in own]
        return float(_UNEVEN[int(np.sum(errors, axis=0).argmin())]) if own else alike

    return replace(costs, uneven=of_age(False, costs.variation), uneven_steady=of_age(True, costs.steady))


def _with_typical(costs: ScalingCosts, chosen: Sequence[ScalingCase]) -> ScalingCosts:
    """With the median efficiency of all rates, as the rival has it, of numbers of GPUs that several are of."""
    rates = Counter(case.gpus for case in chosen)
    known = ((gpus, share) for gpus, share in median_efficiencies(chosen).items() if rates[gpus] > 1)
    return replace(costs, typical=tuple((gpus, round(share, _DIGITS)) for gpus, share in known))


Farther = tuple[str, Floats]  # of a rate of several nodes: its cluster, and its error by each of `_BETWEEN`


def _errors_between(chosen: Iterable[ScalingCase], costs: ScalingCosts) -> list[Farther]:
    """Of rates of several nodes whose network is known; their steps go on a line between no loss and most."""
    ends = [replace(costs, between=float(each)) for each in (_BETWEEN[0], _BETWEEN[-1])]
    images = (
        (case.machines, [case.measured / case.predicted(each) for each in ends])
        for case in chosen
        if case.nodes != ONE_NODE and not (case.is_open or may_be_one_flow(case.point) or is_typical(case.kind))
    )
    return [
        (machines, np.abs(np.log(np.interp(_BETWEEN, (_BETWEEN[0], _BETWEEN[-1]), over))))
        for machines, over in [*images, *transformers.steps_between_nodes(ends)]
    ]


def _with_between(costs: ScalingCosts, errors: Iterable[Farther], without: str = "") -> ScalingCosts:
    """With the loss between nodes that has the least error in the mean of all clusters but one."""
    clusters: dict[str, list[Floats]] = {}
    for machines, by_loss in errors:
        if machines != without:
            clusters.setdefault(machines, []).append(by_loss)
    means = np.mean([np.mean(own, axis=0) for own in clusters.values()], axis=0)
    return replace(costs, between=float(_BETWEEN[int(means.argmin())]))


def _errors(chosen: Iterable[ScalingCase]) -> Floats:
    """The absolute logarithmic error of each rate by each variation and each load of the host."""
    pairs = [pair.ravel() for pair in np.meshgrid(_VARIATION, _LOAD, indexing="ij")]
    errors = np.array([np.abs(np.log(case.nearly(*pairs) / case.measured)) for case in chosen])
    return errors.reshape(-1, len(_VARIATION), len(_LOAD))


def _best(chosen: Sequence[ScalingCase], errors: Floats | None = None) -> ScalingCosts:
    """One load for all of these, and a variation for GPUs of either age."""
    errors, steady = _errors(chosen) if errors is None else errors, np.array([is_steady(case.point) for case in chosen])
    of_age = [errors[own].sum(axis=0) for own in (~steady, steady)]
    load = int(sum(sums.min(axis=0) for sums in of_age).argmin())
    older, newer = (float(_VARIATION[sums[:, load].argmin()]) for sums in of_age)
    return ScalingCosts(older, float(_LOAD[load]), PARALLEL_s, steady=newer)


def judged(chosen: Sequence[ScalingCase], farther: Sequence[Farther]) -> list[JudgedScaling]:
    """Each rate, predicted by a fit to the rates of all other systems; in the order of `chosen`."""
    inside = _on_one_node(chosen)
    errors, costs = _errors(inside), {}
    for case in chosen:
        if case.left_out not in costs:
            others = [not case.leaves_out(other) for other in inside]
            kept = [other for other in chosen if not case.leaves_out(other)]
            best = _best([*compress(inside, others)], errors[others])
            own = _with_uneven(_with_typical(best, kept), kept)
            costs[case.left_out] = _with_between(own, farther, case.machines)
    return [_judged(case, costs[case.left_out]) for case in chosen]


def _judged(case: ScalingCase, costs: ScalingCosts) -> JudgedScaling:
    iteration = case.iteration(costs)
    return JudgedScaling(case, costs, case.point.batch_size / iteration.time_s, iteration)


def judged_calibrated(rows: Iterable[JudgedScaling]) -> list[JudgedScaling]:
    """The rates whose series has others on as many nodes (one, several), each predicted with all its others given."""
    others = (replace(row, case=row.case.by_others()) for row in rows)
    return [
        _judged(row.case, row.costs) for row in others if row.case.calibrates and not row.case.is_refused(row.costs)
    ]


# ---- errors by kind, and intervals

Group = tuple[str, str, str]  # exchange, nodes, input: of a `ScalingKind`, or "any"


@dataclass(frozen=True)
class Missed:
    """How far off a prediction is, and what its interval has; logarithms."""

    group: Group
    system: str
    machines: str
    program: str
    error: float  # above 0: it took longer than predicted
    linear_error: float
    cost: float  # `ranks_cost`
    others: tuple[float, float]  # how much shorter and longer it may be by all but scaling

    @property
    def left_out(self) -> str:
        return self.system if self.group[1] == ONE_NODE else self.machines

    def interval(self, spread: ScalingSpread) -> tuple[float, float]:
        """What the error should lie within."""
        own, (shorter, longer) = spread.times(self.cost), self.others
        return -hypot(own.faster, shorter), hypot(own.slower, longer)


def _missed(row: JudgedScaling) -> Missed:
    case = row.case
    where = case.kind, case.system, case.machines, case.series.source
    return _of(row, row.iteration, *where, known=bool(case.known))


def _missed_transformer(case: TransformerCase) -> Missed:
    group, of = ("allreduce", case.of.nodes(case.gpus), "transformers"), case.of
    return _of(case, case.iteration, group, any_memory(of.system), of.machines, of.source)


def _of(
    row: JudgedScaling | TransformerCase, iteration: Iteration, group: Group, system: str, machines: str, program: str,
    known: bool = False,
) -> Missed:  # fmt: skip
    cost = ranks_cost(iteration.point, iteration.steps[0], nodes_known=known)
    others = iteration.but_for_scaling
    return Missed(group, system, machines, program, row.log_error, row.linear_error, cost, others)


def spread_of(rows: Iterable[Missed]) -> ScalingSpread:
    """Neither side is less than a third of the other: of few, all may lie on one."""
    low, high = quantiles(row.error / row.cost for row in rows)
    faster, slower = max(0.0, -low), max(0.0, high)
    return ScalingSpread(_rounded(max(slower, faster / 3)), _rounded(max(faster, slower / 3)))


def kind_errors(rows: Sequence[Missed], groups: Iterable[Group], everything: Sequence[Missed]) -> list[KindError]:
    """Those of each group; intervals are of the spread of `everything` but a row's system and program."""
    spreads: dict[tuple[str, str], ScalingSpread] = {}

    def unseen(row: Missed) -> ScalingSpread:
        at = row.left_out, row.program
        if at not in spreads:
            spreads[at] = spread_of(
                other
                for other in everything
                if row.left_out not in (other.system, other.machines) and other.program != row.program
            )
        return spreads[at]

    return [_kind_error(group, _of_group(rows, group), unseen) for group in groups]


def _of_group(rows: Iterable[Missed], group: Group) -> list[Missed]:
    return [row for row in rows if all(wanted in (ANY, own) for wanted, own in zip(group, row.group, strict=True))]


def _kind_error(group: Group, rows: Sequence[Missed], unseen: Callable[[Missed], ScalingSpread]) -> KindError:
    errors = np.array([row.error for row in rows])
    low, high = np.array([row.interval(unseen(row)) for row in rows]).T
    scores = [interval_score(*map(exp, each)) for each in zip(low, high, errors, strict=True)]
    return KindError(
        exchange=group[0],
        nodes=group[1],
        input=group[2],
        points=len(rows),
        systems=len({row.left_out for row in rows}),
        mean=_rounded(np.abs(errors).mean()),
        worst=_rounded(np.abs(errors).max()),
        bias=_rounded(errors.mean()),
        linear=_rounded(np.abs([row.linear_error for row in rows]).mean()),
        held=_rounded(np.mean((low <= errors) & (errors <= high))),
        half=_rounded((high - low).mean() / 2),
        score=_rounded(np.mean(scores)),
    )


def fit_and_errors(rows: Iterable[ScalingCase]) -> tuple[ScalingErrors, list[JudgedScaling]]:
    """What the file says, and the rates that it is made from."""
    chosen = list(rows)
    of_one_node = _of_one_node(chosen)
    farther = _errors_between(chosen, of_one_node)
    everything = judged(chosen, farther)
    predicted = [row for row in everything if not row.case.is_open]
    costs = _with_between(of_one_node, farther)
    without = {row.case.left_out: row.costs for row in everything}
    without |= {machines: _with_between(costs, farther, machines) for machines, _ in farther if machines not in without}
    images = [*map(_missed, predicted)]
    language = [*map(_missed_transformer, transformers.judged(without))]
    known = [_by_nodes(row) for row in judged_calibrated(everything)]
    no_peers = [replace(_missed(_judged(case, costs)), group=(ANY, NO_PEERS, ANY)) for case in untold_cases(SHOWN_BY)]
    found = dict.fromkeys(row.group for row in images)
    coarser: list[Group] = [(ANY, nodes, ANY) for nodes in dict.fromkeys(nodes for _, nodes, _ in found)]
    rated = [*images, *language]
    errors = ScalingErrors(
        costs=costs,
        points=len(_on_one_node(chosen)),
        systems=len({case.system for case in _on_one_node(chosen)}),
        without=without,
        half={
            generation(point.deployment.system.gpu_part(0))
            for point in [*(case.point for case in chosen), *(case.point for case in strong_cases())]
            if _is_half_over_nodes(point)
        },
        half_transformers={
            of.generation for of in transformers.series() if of.precision in HALF and of.cluster is not None
        },
        farther=len(farther),
        clusters=len({machines for machines, _ in farther}),
        spread=spread_of(rated),
        spread_calibrated=spread_of(known),
        spread_no_peers=spread_of(no_peers),
        kinds=kind_errors(images, (*found, *coarser, (ANY, ANY, ANY)), rated),
        transformers=kind_errors(language, dict.fromkeys(row.group for row in language), rated),
        calibrated=[
            *kind_errors(known, dict.fromkeys(row.group for row in known), known),
            *kind_errors(no_peers, [(ANY, NO_PEERS, ANY)], no_peers),
        ],
    )
    return errors, predicted


def _by_nodes(row: JudgedScaling) -> Missed:
    """Of whatever kind on as many nodes: one, or several."""
    return replace(_missed(row), group=(ANY, row.case.nodes, ANY))


def _is_half_over_nodes(point: Point) -> bool:
    return len(point.ranks_of_nodes) > 1 and point.workload.precision in HALF


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _DIGITS)


# ---- the command


def _text(errors: ScalingErrors) -> str:
    import yaml

    head = (
        "# Fitted to scaling.yaml by `python -m resnetx.literature.scaling_fit`, which writes this file: do not edit.\n"
    )
    return head + yaml.safe_dump(msgspec.to_builtins(errors, order="deterministic"), sort_keys=False)


def main() -> None:
    errors, rows = fit_and_errors(cases())
    FILE.write_text(_text(errors))
    for row in rows:
        case = row.case
        where = f"{case.series.source}, {case.series.what}, {case.gpus} GPUs of {case.series.system}"
        rates = f"measured {case.measured:,.0f} images/s, predicted {row.predicted:,.0f} ({row.error:+.1%})"
        print(f"{where}: {rates}, linear {case.linear:,.0f}")
    for error in errors.kinds:
        print(error)
    print(errors.costs)


if __name__ == "__main__":
    main()
