"""Margins of one predicted rate over another, and whether they show who is ahead.

The interval comes from those of the two rates as if their errors were independent: logarithms of the ends, added in
squares. Errors that both have in common, as of one trace of compute, make it wider than it is.
"""

import math

from resnetx.record.system_comparison import Estimate, Lead, Side, SystemPoint

SAME = 1e-9  # relative: rates this close come of the same figures, added in another order


def ratio(above: Estimate, below: Estimate) -> Estimate:
    """One rate over another."""
    value = above.value / below.value
    up = math.hypot(math.log(above.high / above.value), math.log(below.value / below.low))
    down = math.hypot(math.log(above.value / above.low), math.log(below.high / below.value))
    return Estimate(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def lead(margin: Estimate) -> Lead:
    """Whether a margin of one system over another shows who is ahead."""
    if abs(margin.value - 1) < SAME:
        return "level"
    return "open" if margin.low <= 1 <= margin.high else "ahead"


def side(point: SystemPoint, system: str) -> Side | None:
    """A point on one system; None where it was not predicted there."""
    return next((each for each in point.sides if each.system == system), None)


def over(point: SystemPoint, a: str, b: str) -> Estimate | None:
    """The rate on system `a` over that on system `b`; None where either has none."""
    above, below = side(point, a), side(point, b)
    if not (above and below and above.iterations_per_s and below.iterations_per_s):
        return None
    return ratio(above.iterations_per_s, below.iterations_per_s)
