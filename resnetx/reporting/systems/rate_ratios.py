"""Margins of one system over another at a point, and whether they show who is ahead.

The interval of a margin comes from those of the two predictions. Errors that are independent of each other are added
in squares, as logarithms. What both systems get from one source is no reason for doubt: where compute comes from the
same trace or roofline and both have like GPUs (one chip, at one clock and memory rate), its error lengthens both
iterations, and only the difference of what it does to either is left. What remains of an interval without that is the
error of messages, of input and of what scaling costs, which are taken as independent from system to system.
"""

import math
from dataclasses import dataclass

from resnetx.record.system_comparison import Estimate, Lead, SystemPoint, SystemSide
from resnetx.reporting.systems.simple_model import equal_gpus

LEVEL = 0.005  # relative: rates closer than this are level; two runs on one machine differ by about as much


def side(point: SystemPoint, system: str) -> SystemSide | None:
    """A point on one system; None where it was not predicted there."""
    return next((each for each in point.sides if each.system == system), None)


def over(point: SystemPoint, a: str, b: str) -> Estimate | None:
    """The rate on system `a` over that on system `b`; None where either has none."""
    above, below = side(point, a), side(point, b)
    if not (above and below and above.iterations_per_s and below.iterations_per_s):
        return None
    return ratio(above, below)


def ratio(above: SystemSide, below: SystemSide) -> Estimate:
    """The rate of one side over that of another; both have one."""
    assert above.iterations_per_s and below.iterations_per_s, "only sides that can run have a ratio"
    if not _one_source(above, below):
        return quotient(above.iterations_per_s, below.iterations_per_s)
    ours, theirs = _doubt(above), _doubt(below)
    shifts = (ours.compute_up - theirs.compute_up, theirs.compute_down - ours.compute_down)
    up = math.hypot(ours.rest_up, theirs.rest_down, max(0.0, *shifts))
    down = math.hypot(ours.rest_down, theirs.rest_up, min(0.0, *shifts))
    value = above.iterations_per_s.value / below.iterations_per_s.value
    return Estimate(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def quotient(above: Estimate, below: Estimate) -> Estimate:
    """One estimate over another whose error is independent of its own."""
    (up, down), (their_up, their_down) = _ends(above), _ends(below)
    value = above.value / below.value
    low, high = math.exp(-math.hypot(down, their_up)), math.exp(math.hypot(up, their_down))
    return Estimate(value=value, low=value * low, high=value * high)


def lead(margin: Estimate) -> Lead:
    """Whether a margin of one system over another shows who is ahead."""
    if abs(margin.value - 1) < LEVEL:
        return "level"
    return "open" if margin.low <= 1 <= margin.high else "ahead"


@dataclass(frozen=True)
class _Doubt:
    """By how much a rate may be higher or lower, as logarithms: in all, and by the error of compute alone."""

    up: float
    down: float
    compute_up: float = 0.0
    compute_down: float = 0.0

    @property
    def rest_up(self) -> float:
        return math.sqrt(max(0.0, self.up**2 - self.compute_up**2))

    @property
    def rest_down(self) -> float:
        return math.sqrt(max(0.0, self.down**2 - self.compute_down**2))


def _doubt(side: SystemSide) -> _Doubt:
    assert side.iterations_per_s, "only sides that have a rate"
    return _Doubt(*_ends(side.iterations_per_s), *(_ends(side.by_compute) if side.by_compute else ()))


def _ends(rate: Estimate) -> tuple[float, float]:
    return math.log(rate.high / rate.value), math.log(rate.value / rate.low)


def _one_source(a: SystemSide, b: SystemSide) -> bool:
    """Whether both compute on like GPUs, and what they take is from one trace or one roofline."""
    if a.compute_source is None or not equal_gpus(a, b):
        return False
    return (a.compute_source, a.compute_where, a.compute_error) == (b.compute_source, b.compute_where, b.compute_error)
