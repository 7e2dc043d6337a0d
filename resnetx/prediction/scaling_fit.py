"""Fits what scaling costs to published rates, and counts how far off predictions of unseen publishers are.

    python -m resnetx.prediction.scaling_fit        writes results/published/scaling-errors.yaml, and prints each rate

Two figures are fitted to rates on one node (`scaling_errors`), by the least sum of |ln(predicted / measured)|, which a
few odd rates do not move. Each rate is then predicted with the figures that the rates of all other publishers give. The
errors of these predictions, by kind of case, make the intervals; and each interval is counted with the errors of other
publishers alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import msgspec
import numpy as np

from resnetx.prediction.host_step import PARALLEL_s
from resnetx.prediction.scaling_check import Floats, ScalingCase, cases
from resnetx.prediction.scaling_errors import ANY, FEWEST_POINTS, FILE, LEVEL, KindError, ScalingErrors
from resnetx.prediction.scenario import ScalingCosts

# What is searched: variation to 5 %, in steps of 0.05 %, and host load to 50 % in steps of 1 %.
_GRID = [ScalingCosts(variation / 2000, load / 100, PARALLEL_s) for variation, load in product(range(101), range(51))]
_FEWEST_PUBLISHERS = 4  # of a kind by which it is counted how wide intervals must be
_DIGITS = 5


@dataclass(frozen=True)
class Judged:
    """One rate, predicted without its publisher."""

    case: ScalingCase
    costs: ScalingCosts
    predicted: float  # images/s

    @property
    def error(self) -> float:
        return self.predicted / self.case.measured - 1

    @property
    def log_error(self) -> float:
        return self.case.log_error(self.predicted)


def fit(chosen: Sequence[ScalingCase]) -> ScalingCosts:
    """The figures with the least sum of absolute errors over rates on one node."""
    return _best(_errors(_on_one_node(chosen)))


def _on_one_node(chosen: Iterable[ScalingCase]) -> list[ScalingCase]:
    return [case for case in chosen if case.kind.nodes == "one node"]


def _errors(chosen: Sequence[ScalingCase]) -> Floats:
    """The absolute logarithmic error of each rate (rows), with each pair of figures of the grid (columns)."""
    variation, host_load = np.array([[costs.variation, costs.host_load] for costs in _GRID]).T
    return np.array([np.abs(np.log(case.nearly(variation, host_load) / case.measured)) for case in chosen])


def _best(errors: Floats) -> ScalingCosts:
    return _GRID[int(errors.sum(axis=0).argmin())]


def judged(chosen: Sequence[ScalingCase]) -> list[Judged]:
    """Each rate, predicted by a fit to the rates of all other publishers."""
    inside = _on_one_node(chosen)
    errors, publishers = _errors(inside), np.array([case.publisher for case in inside])
    found = []
    for publisher in dict.fromkeys(case.publisher for case in chosen):
        costs = _best(errors[publishers != publisher])
        own = (case for case in chosen if case.publisher == publisher)
        found += [Judged(case, costs, case.predicted(costs)) for case in own]
    return found


def judged_calibrated(rows: Iterable[Judged]) -> list[Judged]:
    """The rates whose series has others on as many nodes (one, several), each predicted with all its others given."""
    others = (replace(row, case=row.case.by_others()) for row in rows)
    return [replace(row, predicted=row.case.predicted(row.costs)) for row in others if row.case.calibrates]


# ---- errors by kind

Group = tuple[str, str, str]  # exchange, nodes, input: of a `Kind`, or "any"


def kinds(rows: Sequence[Judged], widened: float) -> list[KindError]:
    """The errors of each kind of case, then of coarser groups; the last is all of them."""
    found = list(dict.fromkeys(_group(row) for row in rows))
    coarser: list[Group] = [(ANY, nodes, ANY) for nodes in dict.fromkeys(nodes for _, nodes, _ in found)]
    return [_kind_error(rows, group, widened) for group in (*found, *coarser, (ANY, ANY, ANY))]


def _group(row: Judged) -> Group:
    exchange, nodes, feed = row.case.kind
    return exchange, nodes, feed


def _of_group(rows: Iterable[Judged], group: Group) -> list[Judged]:
    return [row for row in rows if all(wanted in (ANY, own) for wanted, own in zip(group, row.case.kind, strict=True))]


def _kind_error(everything: Sequence[Judged], group: Group, widened: float) -> KindError:
    rows = _of_group(everything, group)
    errors, linear = [row.log_error for row in rows], [row.case.log_error(row.case.linear) for row in rows]
    faster, slower = _bounds(rows)
    publishers = {row.case.publisher for row in rows}
    held = [_excess(row, everything) <= widened for row in rows] if len(publishers) > 1 else None
    return KindError(
        exchange=group[0],
        nodes=group[1],
        input=group[2],
        points=len(rows),
        publishers=len(publishers),
        mean=_rounded(np.abs(errors).mean()),
        worst=_rounded(np.abs(errors).max()),
        bias=_rounded(np.mean(errors)),
        linear=_rounded(np.abs(linear).mean()),
        slower=_rounded(slower * widened),
        faster=_rounded(faster * widened),
        held=None if held is None else _rounded(np.mean(held)),
    )


def _bounds(rows: Sequence[Judged]) -> tuple[float, float]:
    """What times fall short of the predicted ones by, and exceed them by, in one of twenty cases; logarithms.

    Neither is less than a third of the other: of few cases, all may lie on one side.
    """
    errors = [row.log_error for row in rows]
    outside = (1 - LEVEL) / 2
    faster, slower = max(0.0, -float(np.quantile(errors, outside))), max(0.0, float(np.quantile(errors, 1 - outside)))
    return max(faster, slower / 3), max(slower, faster / 3)


def _excess(row: Judged, everything: Sequence[Judged]) -> float:
    """How many times as wide an interval that is made without a rate's publisher must be to hold that rate."""
    others = [other for other in everything if other.case.publisher != row.case.publisher]
    alike = _of_group(others, _group(row))
    faster, slower = _bounds(alike if len(alike) >= FEWEST_POINTS else others)
    return row.log_error / slower if row.log_error > 0 else -row.log_error / faster


def widening(rows: Sequence[Judged]) -> float:
    """How many times as wide bounds must be for nine of ten rates of an unseen publisher to lie within; 1 or more.

    Of kinds that enough publishers have measured: the bounds of fewer are those of one or two.
    """
    publishers: dict[Group, set[str]] = {}
    for row in rows:
        publishers.setdefault(_group(row), set()).add(row.case.publisher)
    counted = [_excess(row, rows) for row in rows if len(publishers[_group(row)]) >= _FEWEST_PUBLISHERS]
    return max(1.0, float(np.quantile(counted, LEVEL)))


def fit_and_errors(rows: Iterable[ScalingCase]) -> tuple[ScalingErrors, list[Judged]]:
    """What the file says, and the rates that it is made from."""
    chosen = list(rows)
    predicted = judged(chosen)
    calibrated = judged_calibrated(predicted)
    publishers = {case.publisher for case in chosen}
    widened = widening(predicted)
    errors = ScalingErrors(
        costs=fit(chosen),
        points=sum(case.kind.nodes == "one node" for case in chosen),
        publishers=len(publishers),
        without={row.case.publisher: row.costs for row in predicted},
        widened=_rounded(widened),
        kinds=kinds(predicted, widened),
        calibrated=[
            _kind_error(calibrated, (ANY, nodes, ANY), widened)
            for nodes in dict.fromkeys(row.case.kind.nodes for row in calibrated)
        ],
    )
    return errors, predicted


def _rounded(value: float | np.floating) -> float:
    return round(float(value), _DIGITS)


# ---- the command


def _text(errors: ScalingErrors) -> str:
    import yaml

    head = (
        "# Fitted to scaling.yaml by `python -m resnetx.prediction.scaling_fit`, which writes this file: do not edit.\n"
    )
    return head + yaml.safe_dump(msgspec.to_builtins(errors), sort_keys=False)


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
