"""Fits what scaling costs to published rates, and counts how far off predictions of unseen systems are.

    python -m resnetx.literature.scaling_fit        writes results/published/scaling-errors.yaml, and prints each rate

Two figures are fitted to rates on one node (`scaling_errors`), by the least sum of |ln(predicted / measured)|, which a
few odd rates do not move, each rate counting alike; then, to the rates of programs whose samples differ in size, how
much the steps of these vary; and to those of several nodes, those of transformers, too, how much longer their steps
are, each cluster counting alike. Each rate is then predicted with the figures that all other systems give (of several
nodes: all other clusters). The errors of these predictions, by kind of case and over the doublings of the number of
GPUs, make the intervals; and each interval is counted with the errors of other systems' other programs alone. Rates
that are open between two ends count in neither.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import msgspec
import numpy as np

from resnetx.literature import transformers
from resnetx.literature.rivals import median_efficiencies
from resnetx.literature.scaling_check import Floats, ScalingCase, cases, strong_cases, untold_cases
from resnetx.literature.training_rates import any_memory
from resnetx.literature.transformers import TransformerCase
from resnetx.prediction.host_step import PARALLEL_s
from resnetx.prediction.open_points import may_be_one_flow
from resnetx.prediction.roofline import HALF, generation
from resnetx.prediction.scaling import (
    ANY,
    FEWEST_POINTS,
    FILE,
    LEVEL,
    NO_PEERS,
    ONE_NODE,
    KindError,
    ScalingErrors,
    growth,
    is_steady,
    is_typical,
)
from resnetx.prediction.scenario import SHOWN_BY, Point, ScalingCosts

# What is searched: variation to 5 %, in steps of 0.05 %, and host load to 50 % in steps of 1 %.
_VARIATION, _LOAD = np.arange(101) / 2000, np.arange(51) / 100
_UNEVEN = np.arange(61) / 200  # to 30 %, in steps of 0.5 %
_BETWEEN = np.arange(17) / 400  # to 4 %, in steps of 0.25 %
_FEWEST_PROGRAMS = 3  # of a kind by which it is counted how wide intervals must be
_DIGITS = 5


@dataclass(frozen=True)
class JudgedScaling:
    """One rate, predicted without its system."""

    case: ScalingCase
    costs: ScalingCosts
    predicted: float  # images/s
    others: tuple[float, float] = (0.0, 0.0)  # how much shorter and longer it may be by all other parts; logarithms

    @property
    def error(self) -> float:
        return self.predicted / self.case.measured - 1

    @property
    def log_error(self) -> float:
        return self.case.log_error(self.predicted)

    @property
    def linear_error(self) -> float:
        return self.case.log_error(self.case.linear)

    @property
    def growth(self) -> float:
        """That bounds go with; of a case with other rates of its series, none."""
        return 1.0 if self.case.known else growth(*self.case.kind[1:], self.case.gpus)


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
    return JudgedScaling(case, costs, case.point.batch_size / iteration.time_s, iteration.but_for_scaling)


def judged_calibrated(rows: Iterable[JudgedScaling]) -> list[JudgedScaling]:
    """The rates whose series has others on as many nodes (one, several), each predicted with all its others given."""
    others = (replace(row, case=row.case.by_others()) for row in rows)
    return [
        _judged(row.case, row.costs) for row in others if row.case.calibrates and not row.case.is_refused(row.costs)
    ]


# ---- errors by kind

Group = tuple[str, str, str]  # exchange, nodes, input: of a `Kind`, or "any"


def kinds(rows: Sequence[JudgedScaling], widened: dict[str, float]) -> list[KindError]:
    """The errors of each kind of case, then of coarser groups; the last is all of them."""
    found = list(dict.fromkeys(_group(row) for row in rows))
    coarser: list[Group] = [(ANY, nodes, ANY) for nodes in dict.fromkeys(nodes for _, nodes, _ in found)]
    return [_kind_error(rows, group, widened) for group in (*found, *coarser, (ANY, ANY, ANY))]


def _group(row: JudgedScaling) -> Group:
    exchange, nodes, feed = row.case.kind
    return exchange, nodes, feed


def _of_group(rows: Iterable[JudgedScaling], group: Group) -> list[JudgedScaling]:
    return [row for row in rows if all(wanted in (ANY, own) for wanted, own in zip(group, row.case.kind, strict=True))]


def _kind_error(everything: Sequence[JudgedScaling], group: Group, by_nodes: dict[str, float]) -> KindError:
    rows = _of_group(everything, group)
    widened = by_nodes[ONE_NODE if group[1] == ONE_NODE and group[2] != "loader" else ANY]
    systems = {row.case.left_out for row in rows}
    return _errors_of(
        group,
        rows,
        _bounds(rows),
        widened,
        len(systems),
        [_excess(row, everything) <= widened for row in rows] if len(systems) > 1 else None,
    )


def _errors_of(
    group: Group,
    rows: Sequence[JudgedScaling | TransformerCase],
    bounds: tuple[float, float],
    widened: float,
    systems: int,
    held: Sequence[bool] | None,
) -> KindError:
    errors, (faster, slower) = [row.log_error for row in rows], bounds
    return KindError(
        exchange=group[0],
        nodes=group[1],
        input=group[2],
        points=len(rows),
        systems=systems,
        mean=_rounded(np.abs(errors).mean()),
        worst=_rounded(np.abs(errors).max()),
        bias=_rounded(np.mean(errors)),
        linear=_rounded(np.abs([row.linear_error for row in rows]).mean()),
        slower=_rounded(slower * widened),
        faster=_rounded(faster * widened),
        held=None if held is None else _rounded(np.mean(held)),
    )


def _of_transformers(
    without: dict[str, ScalingCosts], everything: Sequence[JudgedScaling], widened: float
) -> KindError:
    """Of transformers of one node; a system is left out with its rates.

    Two systems show little of a third: no bounds are narrower than those of all that is trained on one node, and they
    are widened as of any kind.
    """
    rows = [case for case in transformers.judged(without) if case.of.nodes(case.gpus) == ONE_NODE]
    systems, one_node = [any_memory(row.of.system) for row in rows], _of_group(everything, (ANY, ONE_NODE, ANY))

    def bounds(left_out: str = "") -> tuple[float, float]:
        own = _bounds([row for row, system in zip(rows, systems, strict=True) if system != left_out])
        faster, slower = _bounds([row for row in one_node if row.case.system != left_out])
        return max(own[0], faster), max(own[1], slower)

    without_own = {system: bounds(system) for system in {*systems}}
    held = [_beyond(row, without_own[system]) <= widened for row, system in zip(rows, systems, strict=True)]
    return _errors_of(("allreduce", ONE_NODE, "transformers"), rows, bounds(), widened, len(without_own), held)


def _bounds(rows: Iterable[JudgedScaling | TransformerCase]) -> tuple[float, float]:
    """What times fall short of the predicted ones by, and exceed them by, in one of twenty cases; logarithms.

    On `REFERENCE` GPUs, with which those of other numbers go by their `growth`.
    Neither is less than a third of the other: of few cases, all may lie on one side.
    """
    errors = [row.log_error / row.growth for row in rows]
    outside = (1 - LEVEL) / 2
    faster, slower = max(0.0, -float(np.quantile(errors, outside))), max(0.0, float(np.quantile(errors, 1 - outside)))
    return max(faster, slower / 3), max(slower, faster / 3)


def _excess(row: JudgedScaling, everything: Sequence[JudgedScaling]) -> float:
    """How many times as wide the bounds without a rate's system and program must be for its interval to hold it."""
    program = row.case.series.source
    others = [
        other for other in everything if not row.case.leaves_out(other.case) and other.case.series.source != program
    ]
    alike = _of_group(others, _group(row))
    as_many = _of_group(others, (ANY, row.case.kind[1], ANY))
    return _beyond(row, _bounds(alike if len(alike) >= FEWEST_POINTS else as_many or others))


def _beyond(row: JudgedScaling | TransformerCase, bounds: tuple[float, float]) -> float:
    """How many times as wide these must be."""
    side = int(row.log_error > 0)
    return math.sqrt(max(0.0, row.log_error**2 - row.others[side] ** 2)) / (bounds[side] * row.growth)


def widening(rows: Sequence[JudgedScaling]) -> dict[str, float]:
    """How many times as wide bounds must be for nine of ten intervals to hold a rate of an unseen system and program.

    On one node where nothing is decoded, and everywhere: loaders of one system say little of another's, which widens
    theirs alone. An interval has the errors of all parts. Of kinds that enough programs show: the bounds of fewer are
    those of one.
    """
    programs: dict[Group, set[str]] = {}
    for row in rows:
        programs.setdefault(_group(row), set()).add(row.case.series.source)
    counted = [(row, _excess(row, rows)) for row in rows if len(programs[_group(row)]) >= _FEWEST_PROGRAMS]
    inside = [excess for row, excess in counted if row.case.kind[1] == ONE_NODE and row.case.kind[2] != "loader"]
    by_nodes = {ONE_NODE: inside, ANY: [excess for _, excess in counted]}
    return {nodes: max(1.0, _rounded(np.quantile(excesses, LEVEL))) for nodes, excesses in by_nodes.items()}


def fit_and_errors(rows: Iterable[ScalingCase]) -> tuple[ScalingErrors, list[JudgedScaling]]:
    """What the file says, and the rates that it is made from."""
    chosen = list(rows)
    of_one_node = _of_one_node(chosen)
    farther = _errors_between(chosen, of_one_node)
    everything = judged(chosen, farther)
    predicted = [row for row in everything if not row.case.is_open]
    calibrated = judged_calibrated(everything)
    widened, costs = widening(predicted), _with_between(of_one_node, farther)
    without = {row.case.left_out: row.costs for row in everything}
    without |= {machines: _with_between(costs, farther, machines) for machines, _ in farther if machines not in without}
    by_nodes = {
        nodes: [row for row in calibrated if row.case.nodes == nodes]
        for nodes in dict.fromkeys(row.case.nodes for row in calibrated)
    }
    by_nodes[NO_PEERS] = [_judged(case, costs) for case in untold_cases(SHOWN_BY)]
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
        widened=widened,
        kinds=kinds(predicted, widened),
        transformers=_of_transformers(without, predicted, widened[ANY]),
        calibrated=[
            msgspec.structs.replace(_kind_error(own, (ANY, ANY, ANY), widened), nodes=nodes)
            for nodes, own in by_nodes.items()
        ],
    )
    return errors, predicted


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
