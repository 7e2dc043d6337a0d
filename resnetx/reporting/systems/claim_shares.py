"""Checks of shares: in how many items a system is ahead, two are apart, something is so, a figure falls, or a curve
bends."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from resnetx.record.system_comparison import CheckedClaim, Estimate, Outcome
from resnetx.reporting.systems.claim import Claim, PointField
from resnetx.reporting.systems.claim_case import ClaimCase
from resnetx.reporting.systems.claim_items import Item
from resnetx.reporting.systems.rate_ratios import LEVEL, lead, quotient

BEND = 0.9  # a step that gains so many times what the one before it gained, or less, is a knee of the curve

_FIELDS: tuple[PointField, ...] = ("workload", "batch_size", "gpus")


def ahead(case: ClaimCase) -> Iterator[CheckedClaim]:
    """In how many of the items a system is ahead of another."""
    ratios = [ratio for _, ratio in case.figures()]
    undecided = [lead(ratio) != "ahead" for ratio in ratios]
    yield _share(case, [ratio.value > 1 for ratio in ratios], "points", undecided)


def apart(case: ClaimCase) -> Iterator[CheckedClaim]:
    """In how many of the items two systems are not level."""
    leads = [lead(ratio) for _, ratio in case.figures()]
    undecided = [lead == "open" for lead in leads]
    yield _share(case, [lead != "level" for lead in leads], "points", undecided)


def is_so(case: ClaimCase) -> Iterator[CheckedClaim]:
    """Of how many of the items something is so: on one system, or without one on all that they were asked for on."""
    claim = case.claim
    values = [by_system for item in claim.there(case.items) if (by_system := item.values.get(claim.quantity))]
    if claim.system:
        agreeing = [bool(by_system[claim.system].value) for by_system in values if claim.system in by_system]
    else:
        agreeing = [all(estimate.value for estimate in by_system.values()) for by_system in values]
    yield _share(case, agreeing, "points")


# ---- along a field --------------------------------------------------------------------------------------------------


def falls(case: ClaimCase) -> Iterator[CheckedClaim]:
    """In how many steps along a field, all else alike, a figure falls."""
    steps = [step for curve in _curves(case) for step in pairwise(curve)]
    falling = [after.value < before.value for before, after in steps]
    undecided = [_undecided(before, after) for before, after in steps]
    yield _share(case, falling, "steps", undecided)


def bends(case: ClaimCase) -> Iterator[CheckedClaim]:
    """In how many curves along a field the last step gains less than the one before it, by a tenth at least."""
    gained = [_gained(*curve[-3:]) for curve in _curves(case) if len(curve) >= 3]
    undecided = [gain.low <= BEND < gain.high for gain in gained]
    yield _share(case, [gain.value <= BEND for gain in gained], "curves", undecided)


def _gained(first: Estimate, second: Estimate, third: Estimate) -> Estimate:
    """What the last of two steps gains, over what the first one does."""
    twice = Estimate(value=second.value**2, low=second.low**2, high=second.high**2)
    inverse = Estimate(value=1 / first.value, low=1 / first.high, high=1 / first.low)
    return quotient(quotient(third, inverse), twice)


def _curves(case: ClaimCase) -> Iterator[list[Estimate]]:
    """The figures in the order of the statement's field; one curve for all items that differ in that field alone."""
    along, order = case.claim.along, case.claim.order
    assert along, f"{case.claim.id}: a check of kind falls needs what it is along"
    curves: dict[tuple[object, ...], dict[object, Estimate]] = defaultdict(dict)
    for item, figure in case.figures():
        curves[_all_else(item, along)][getattr(item, along)] = figure
    for curve in curves.values():
        yield [curve[place] for place in order if place in curve]


def _all_else(item: Item, along: PointField) -> tuple[object, ...]:
    return tuple(getattr(item, field) for field in _FIELDS if field != along)


def _undecided(before: Estimate, after: Estimate) -> bool:
    """Whether a step is too small to tell, or both ends could be one figure as far as the errors go."""
    level = abs(after.value / before.value - 1) < LEVEL
    return level or (before.low <= after.high and after.low <= before.high)


# ---- shares ---------------------------------------------------------------------------------------------------------


def _share(case: ClaimCase, agreeing: Sequence[bool], of: str, undecided: Sequence[bool] = ()) -> CheckedClaim:
    """The share of items that agree. It is open where the undecided ones could turn the outcome either way."""
    count, doubtful = len(agreeing), sum(undecided)
    if count < case.claim.needs:
        return case.not_predicted(count)
    certain = sum(agreeing) - sum(agrees for agrees, open_ in zip(agreeing, undecided, strict=False) if open_)
    outcome = _outcome(case.claim, certain / count, (certain + doubtful) / count)
    note = f"{sum(agreeing)} of {count} {of}" + f", {doubtful} open or level" * bool(doubtful)
    note += f" ({', '.join(_wanted(case.claim))})"
    return case.checked(case.claim.where.words, outcome, note, share=statistics.fmean(agreeing))


def _outcome(claim: Claim, least: float, most: float) -> Outcome:
    """Of a share that lies between two."""
    at_least, at_most = claim.at_least or 0.0, 1.0 if claim.at_most is None else claim.at_most
    if at_least <= least and most <= at_most:
        return "hit"
    return "miss" if most < at_least or least > at_most else "open"


def _wanted(claim: Claim) -> Iterator[str]:
    if claim.at_least is not None:
        yield f"at least {claim.at_least:.0%}"
    if claim.at_most is not None:
        yield f"at most {claim.at_most:.0%}"
