"""The best units for a problem, and what finding them took."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from resnetx.interconnect.steering.division import SAME, evaluations, exhaustive, greedy
from resnetx.interconnect.steering.problem import SteeringProblem
from resnetx.interconnect.steering.receivers import within_receivers
from resnetx.interconnect.steering.rtl import Units, received, total_rtl

Method = Literal["exhaustive", "greedy", "linear program"]
MOST_EVALUATIONS = 100_000  # RTLs of all GPUs that the exhaustive search may calculate: a tenth of a second


@dataclass(frozen=True)
class Steered:
    """Units [to][from], by which method, and the RTLs that it calculated; null: the solver counts none."""

    units: Units
    method: Method
    evaluations: int | None


def best(problem: SteeringProblem, receivers: Sequence[int] | None = None) -> Steered:
    """The units with the least total RTL; what is built, where nothing is better.

    `receivers`: the most units that each GPU can receive; unless given, as many as are sent to it, as in the paper.
    """
    if receivers is not None:
        return Steered(
            _unless_as_good(problem, within_receivers(problem, receivers), receivers), "linear program", None
        )
    sources = problem.sources
    few = sum(evaluations(len(each.targets), each.units) for each in sources) <= MOST_EVALUATIONS
    divisions = {each: (exhaustive if few else greedy)(each) for each in sources}
    columns = {each.gpu: dict(zip(each.targets, found.units, strict=True)) for each, found in divisions.items()}
    evaluated = sum(found.evaluations for found in divisions.values())
    return Steered(problem.with_columns(columns), "exhaustive" if few else "greedy", evaluated)


def _unless_as_good(problem: SteeringProblem, found: Units, receivers: Sequence[int]) -> Units:
    """The units as they are built where they keep the limits and no others are better."""
    kept = all(count <= limit for count, limit in zip(received(problem.built), receivers, strict=True))
    linked = all(
        count for row, counts in zip(problem.traffic, problem.built, strict=True)
        for sent, count in zip(row, counts, strict=True) if sent
    )  # fmt: skip
    if not (kept and linked):
        return found
    before, after = (total_rtl(problem.traffic, units) for units in (problem.built, found))
    return found if after < before * (1 - SAME) else problem.built


def receivers_added(problem: SteeringProblem, units: Units) -> tuple[int, ...]:
    """The receivers that each GPU needs beyond those it has."""
    return tuple(max(0, after - before) for before, after in zip(received(problem.built), received(units), strict=True))
