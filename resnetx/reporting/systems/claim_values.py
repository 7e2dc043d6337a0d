"""Checks of figures: near the stated one (`value`), or within bounds (`bound`)."""

import statistics
from collections.abc import Iterator, Sequence

from resnetx.record.system_comparison import CheckedClaim, Estimate, Outcome
from resnetx.reporting.systems.claim import Claim
from resnetx.reporting.systems.claim_case import ClaimCase, taken
from resnetx.reporting.systems.claim_items import Item

# An advantage (a ratio less 1) of at least and at most so many times the stated one says the same.
LEAST_ADVANTAGE, MOST_ADVANTAGE = 0.5, 2.0


def value(case: ClaimCase) -> Iterator[CheckedClaim]:
    """A figure of ours beside the stated one; or as many as are stated."""
    claim, figures = case.claim, case.figures()
    if len(figures) < claim.needs:
        yield case.not_predicted(len(figures))
    elif claim.stated_by:
        yield _listed(case, figures)
    elif claim.take == "each":
        for item, figure in figures:
            yield _figure(case, figure, item.words, item)
    else:
        note = f"{claim.take} of {len(figures)} {'sizes' if figures[0][0].size_bytes else 'points'}"
        figure = taken([figure for _, figure in figures], claim.take)
        yield _figure(case, figure, claim.where.words, note=note * (len(figures) > 1))


def _figure(case: ClaimCase, ours: Estimate, where: str, item: Item | None = None, note: str = "") -> CheckedClaim:
    claim = case.claim
    assert claim.stated is not None, f"{claim.id}: a check of kind value needs what is stated"
    outcome: Outcome = "hit" if _hits(claim, ours.value, case.tolerance) else "miss"
    alternative = f"{getattr(item, claim.unstated)}" if item and claim.unstated else ""
    return case.checked(where, outcome, note, ours=ours, alternative=alternative)


def _hits(claim: Claim, ours: float, tolerance: float) -> bool:
    """Within the tolerance; the ratio of two systems also says who is ahead, and by about as much."""
    stated = claim.stated
    assert stated is not None, "only statements with a figure"
    near = abs(ours / stated - 1) <= tolerance
    if not claim.over or stated == 1:
        return near
    return near and LEAST_ADVANTAGE <= (ours - 1) / (stated - 1) <= MOST_ADVANTAGE


def _listed(case: ClaimCase, figures: Sequence[tuple[Item, Estimate]]) -> CheckedClaim:
    """A figure is stated for each value of a field: all of them have to be there, and near."""
    claim = case.claim
    assert claim.along, f"{claim.id}: stated_by needs what it is along"
    ours = {getattr(item, claim.along): figure.value for item, figure in figures}
    near = [abs(ours[key] / stated - 1) <= case.tolerance for key, stated in claim.stated_by.items() if key in ours]
    if len(near) < len(claim.stated_by):
        return case.not_predicted(len(near))
    note = f"{sum(near)} of {len(near)} figures within {case.tolerance:.0%}"
    return case.checked(claim.where.words, "hit" if all(near) else "miss", note, share=statistics.fmean(near))


def bound(case: ClaimCase) -> Iterator[CheckedClaim]:
    """Every figure, or the one that is taken of them, lies within bounds."""
    claim, figures = case.claim, case.figures()
    if len(figures) < claim.needs:
        yield case.not_predicted(len(figures))
    elif claim.take == "each":
        yield _all_of(case, [_within(claim, figure) for _, figure in figures])
    else:
        figure = taken([figure for _, figure in figures], claim.take)
        inside = _within(claim, figure)
        outcome: Outcome = "open" if inside is None else "hit" if inside else "miss"
        yield case.checked(
            claim.where.words, outcome, f"{claim.take} of {len(figures)} ({_bounds(claim)})", ours=figure
        )


def _within(claim: Claim, figure: Estimate) -> bool | None:
    """None: a part of the interval is inside, a part outside."""
    low = -float("inf") if claim.at_least is None else claim.at_least
    high = float("inf") if claim.at_most is None else claim.at_most
    if low <= figure.low and figure.high <= high:
        return True
    return False if figure.high < low or figure.low > high else None


def _bounds(claim: Claim) -> str:
    ends = ((claim.at_least, "at least"), (claim.at_most, "at most"))
    return ", ".join(f"{words} {end:g}" for end, words in ends if end is not None)


def _all_of(case: ClaimCase, inside: Sequence[bool | None]) -> CheckedClaim:
    outcome: Outcome = "miss" if False in inside else "open" if None in inside else "hit"
    note = f"{inside.count(True)} of {len(inside)}" + f", {inside.count(None)} open" * (None in inside)
    note += f" ({_bounds(case.claim)})"
    return case.checked(case.claim.where.words, outcome, note, share=inside.count(True) / len(inside))
