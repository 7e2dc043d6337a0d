"""Checks of figures: near the stated one (`value`), or within bounds (`bound`).

Of a figure with an interval the whole interval has to agree for a hit, and none of it for a miss.
"""

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
    low, high = _near(claim, case.tolerance)
    outcome = _outcome([_between(low, high, ours)])
    if outcome == "open":
        note = ", ".join(filter(None, [note, f"its interval reaches beyond {low:.3g} to {high:.3g}"]))
    alternative = f"{getattr(item, claim.unstated)}" if item and claim.unstated else ""
    return case.checked(where, outcome, note, ours=ours, alternative=alternative)


def _near(claim: Claim, tolerance: float) -> tuple[float, float]:
    """Within the tolerance; the ratio of two systems also says who is ahead, and by about as much."""
    stated = claim.stated
    assert stated is not None, f"{claim.id}: a check of kind value needs what is stated"
    low, high = _around(stated, tolerance)
    if not claim.over or stated == 1:
        return low, high
    least, most = sorted(1 + times * (stated - 1) for times in (LEAST_ADVANTAGE, MOST_ADVANTAGE))
    return max(low, least), min(high, most)


def _around(stated: float, tolerance: float) -> tuple[float, float]:
    return stated * (1 - tolerance), stated * (1 + tolerance)


def _listed(case: ClaimCase, figures: Sequence[tuple[Item, Estimate]]) -> CheckedClaim:
    """A figure is stated for each value of a field: all of them have to be there, and near."""
    claim = case.claim
    assert claim.along, f"{claim.id}: stated_by needs what it is along"
    ours = {getattr(item, claim.along): figure for item, figure in figures}
    there = {key: stated for key, stated in claim.stated_by.items() if key in ours}
    near = [_between(*_around(stated, case.tolerance), ours[key]) for key, stated in there.items()]
    if len(near) < len(claim.stated_by):
        return case.not_predicted(len(near))
    note = f"{near.count(True)} of {len(near)} figures within {case.tolerance:.0%}"
    note += f", {near.count(None)} open" * (None in near)
    return case.checked(claim.where.words, _outcome(near), note, share=near.count(True) / len(near))


def bound(case: ClaimCase) -> Iterator[CheckedClaim]:
    """Every figure, or the one that is taken of them, lies within bounds."""
    claim, figures = case.claim, case.figures()
    if len(figures) < claim.needs:
        yield case.not_predicted(len(figures))
    elif claim.take == "each" and claim.unstated:
        for item, figure in figures:
            yield case.checked(
                item.words,
                _outcome([_within(claim, figure)]),
                _bounds(claim),
                ours=figure,
                alternative=f"{getattr(item, claim.unstated)}",
            )
    elif claim.take == "each":
        yield _all_of(case, [_within(claim, figure) for _, figure in figures])
    else:
        figure = taken([figure for _, figure in figures], claim.take)
        outcome = _outcome([_within(claim, figure)])
        yield case.checked(
            claim.where.words, outcome, f"{claim.take} of {len(figures)} ({_bounds(claim)})", ours=figure
        )


def _within(claim: Claim, figure: Estimate) -> bool | None:
    low = -float("inf") if claim.at_least is None else claim.at_least
    high = float("inf") if claim.at_most is None else claim.at_most
    return _between(low, high, figure)


def _between(low: float, high: float, figure: Estimate) -> bool | None:
    """Whether all of its interval is there; None: a part is, a part is not."""
    if low <= figure.low and figure.high <= high:
        return True
    return False if figure.high < low or figure.low > high else None


def _bounds(claim: Claim) -> str:
    ends = ((claim.at_least, "at least"), (claim.at_most, "at most"))
    return ", ".join(f"{words} {end:g}" for end, words in ends if end is not None)


def _all_of(case: ClaimCase, inside: Sequence[bool | None]) -> CheckedClaim:
    note = f"{inside.count(True)} of {len(inside)}" + f", {inside.count(None)} open" * (None in inside)
    note += f" ({_bounds(case.claim)})"
    return case.checked(case.claim.where.words, _outcome(inside), note, share=inside.count(True) / len(inside))


def _outcome(inside: Sequence[bool | None]) -> Outcome:
    """Of figures that all have to agree."""
    return "miss" if False in inside else "open" if None in inside else "hit"
