"""The kinds of checks that published statements need, each a function of a statement and the items that it speaks of.

Predictions have intervals, and a check knows them: where the errors of predictions could turn an outcome either way, it
is open. `results/published/tallent2017.yaml` explains the kinds.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

import msgspec

from resnetx.literature.claim_items import NO_SYSTEM, Item, scaled
from resnetx.record.comparisons import CheckedClaim, Estimate, Outcome
from resnetx.reporting.compared_systems import LEVEL, lead, quotient
from resnetx.units import size_text

# One statement of a paper as data: which figures it speaks of, and what it says of them.
#
# `results/published/tallent2017.yaml` explains the fields, `li2019.yaml` those of papers with cases of their own.

Check = Literal["value", "bound", "ahead", "apart", "is", "falls", "bends"]
PointField = Literal["workload", "batch_size", "gpus"]
Take = Literal["each", "min", "max", "mean", "geomean"]
ItemKind = Literal[
    "points", "workloads", "copies", "traffic", "allreduce", "allgather", "broadcast", "reduce", "reduce_scatter"
]
Unit = Literal[
    "", "share", "iterations/s", "act./param.", "M", "MB", "us", "s", "GB/s", "GiB/s", "of 16 GB/s", "of 20 GB/s"
]  # fmt: skip

Items = Mapping[str, Sequence[Item]]  # kind -> items


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which items a statement speaks of; what is not given, any."""

    workload: str = "*"  # with * for any letters
    batch_size: list[int] = []
    gpus: list[int] = []
    size_MB: list[float] = []  # from, to

    def holds(self, item: Item) -> bool:
        low, high = self.size_MB or (0, float("inf"))
        return (
            fnmatchcase(item.workload, self.workload)
            and (not self.batch_size or item.batch_size in self.batch_size)
            and (not self.gpus or item.gpus in self.gpus)
            and (item.size_bytes is None or low * 1e6 <= item.size_bytes <= high * 1e6)
        )

    @property
    def words(self) -> str:
        batch = f"batch {' or '.join(map(str, self.batch_size))}" * bool(self.batch_size)
        gpus = f"{', '.join(map(str, self.gpus))} GPU{'s' * (self.gpus != [1])}" * bool(self.gpus)
        return ", ".join(filter(None, [self.workload.replace("/*", "/x").strip("*"), batch, gpus, self._size]))

    @property
    def _size(self) -> str:
        """The size, where the range holds one that is predicted (a power of two from 4 on), else the range."""
        if not self.size_MB:
            return ""
        low, high = (round(1e6 * size_MB) for size_MB in self.size_MB)
        powers = [
            2**power for power in range(max(2, low.bit_length() - 1), high.bit_length()) if low <= 2**power <= high
        ]
        if len(powers) == 1:
            return size_text(powers[0])
        return (
            f"up to {size_text(high)}"
            if not low
            else f"{'-'.join(f'{end:g}' for end in dict.fromkeys(self.size_MB))} MB"
        )


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which figures are read: a quantity of items of one kind, on one system or as the ratio of two."""

    of: ItemKind = "points"
    where: Where = Where()
    quantity: str
    system: str = NO_SYSTEM  # or the case; of copies the pair, too: "gx8 0-4", "v100-nvlink 0-4-7" by way of GPU 4
    over: str = ""
    take: Take = "each"

    def figure(self, item: Item) -> Estimate | None:
        """What is read of one item, in base units; None where it has no such figure."""
        if self.over:
            return item.ratio(self.quantity, self.system, self.over)
        return item.values.get(self.quantity, {}).get(self.system)

    @property
    def places(self) -> list[str]:
        """The systems or cases that it reads."""
        return [place for place in (self.system, self.over) if place]

    def there(self, items: Items) -> list[Item]:
        """The items that it speaks of."""
        return [item for item in items.get(self.of, ()) if self.where.holds(item)]

    def figures(self, items: Items) -> list[tuple[Item, Estimate]]:
        """What is read of all items that have it."""
        return [(item, estimate) for item in self.there(items) if (estimate := self.figure(item)) is not None]


class Claim(Selection, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One statement of a paper, as the check of a kind; the head of the file explains the fields."""

    id: str
    section: str
    says: str
    reading: str = ""
    check: Check
    unit: Unit = ""
    against: Selection | None = None
    needs: int = 1  # items, or steps between items; of fewer nothing is said
    along: PointField | None = None
    order: list[int | str] = []
    stated: float | None = None
    stated_by: dict[str | int, float] = {}
    unstated: PointField | None = None
    tolerance: float | None = None  # null: the file's
    at_least: float | None = None
    at_most: float | None = None
    given: bool = False
    seen: bool | None = None  # null: as the file says
    because: str = ""
    repeats: str = ""  # the statement of which this one is the arithmetic, or other words: shown, but not counted again


# One statement in one variant of the settings: what is read of the predictions, and the record of its outcome.

# Base units in one of a statement's.
_UNITS: dict[Unit, float] = {
    "": 1.0,
    "share": 1.0,
    "iterations/s": 1.0,
    "act./param.": 1.0,
    "M": 1e6,
    "MB": 1e6,
    "us": 1e-6,
    "s": 1.0,
    "GB/s": 1e9,
    "GiB/s": 2.0**30,
    "of 16 GB/s": 16e9,
    "of 20 GB/s": 20e9,
}


@dataclass(frozen=True)
class ClaimCase:
    """A statement, in one variant of the settings."""

    claim: Claim
    variant: str
    items: Items  # of this variant, and of the kinds that no setting changes
    tolerance: float
    paper: str = ""
    seen: bool | None = None

    def figures(self) -> list[tuple[Item, Estimate]]:
        """What the statement speaks of: in its unit, or over what it is held against."""
        claim = self.claim
        figures = claim.figures(self.items)
        if claim.against is None:
            return [(item, scaled(value, 1 / _UNITS[claim.unit])) for item, value in figures]
        estimates = [value for _, value in claim.against.figures(self.items)]
        if not estimates:
            return []
        below = taken(estimates, claim.against.take)
        return [(item, quotient(value, below)) for item, value in figures]

    def not_predicted(self, count: int) -> CheckedClaim:
        """There are too few figures, `count` of them; open where points are."""
        if opened := sum(item.is_open for item in self.claim.there(self.items)):
            note = f"{opened} case{'s' * (opened > 1)} known only between two ends: nothing determines them"
            return self.checked(self.claim.where.words, "open", note)
        too_few = f"{count} of {self.claim.needs} points" if count else ""
        return self.checked(self.claim.where.words, "not predicted", too_few)

    def checked(
        self,
        where: str,
        outcome: Outcome,
        note: str = "",
        *,
        ours: Estimate | None = None,
        share: float | None = None,
        alternative: str = "",
    ) -> CheckedClaim:
        """The record of an outcome, with the figure or the share that it goes by."""
        claim = self.claim
        value = share if ours is None else ours.value
        return CheckedClaim(
            claim=claim.id,
            section=claim.section,
            says=claim.says,
            reading=claim.reading,
            variant=self.variant,
            where=where,
            alternative=alternative,
            quantity=f"{claim.system} / {claim.over}" if claim.over else claim.quantity,
            unit=claim.unit if share is None else "share",
            stated=claim.stated,
            ours=value,
            ours_low=ours.low if ours and ours.low < ours.high else None,
            ours_high=ours.high if ours and ours.low < ours.high else None,
            difference=None if value is None or claim.stated is None else value / claim.stated - 1,
            tolerance=self.tolerance if claim.check == "value" else None,
            outcome="given" if claim.given and outcome == "hit" else outcome,
            note=note,
            cause=claim.because if outcome == "miss" else "",
            paper=self.paper,
            seen=self.seen,
            repeats=claim.repeats,
        )


def taken(values: Sequence[Estimate], take: Take) -> Estimate:
    """The one figure that is taken of several."""
    if take in ("mean", "geomean"):
        mean = statistics.fmean if take == "mean" else statistics.geometric_mean
        return Estimate(
            value=mean([estimate.value for estimate in values]),
            low=mean([estimate.low for estimate in values]),
            high=mean([estimate.high for estimate in values]),
        )
    assert take != "each" or len(values) == 1, "several figures, and none is taken of them"
    return (min if take == "min" else max)(values, key=lambda estimate: estimate.value)


# Checks of shares: in how many items a system is ahead, two are apart, something is so, a figure falls, or a curve
# bends.

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
    note = f"{sum(agreeing)} of {count} {of}" + f", {doubtful} without a difference shown" * bool(doubtful)
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


# Checks of figures: near the stated one (`value`), or within bounds (`bound`).
#
# Of a figure with an interval the whole interval has to agree for a hit, and none of it for a miss.

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
    outcome = _value_outcome([_between(low, high, ours)])
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
    return case.checked(claim.where.words, _value_outcome(near), note, share=near.count(True) / len(near))


def bound(case: ClaimCase) -> Iterator[CheckedClaim]:
    """Every figure, or the one that is taken of them, lies within bounds."""
    claim, figures = case.claim, case.figures()
    if len(figures) < claim.needs:
        yield case.not_predicted(len(figures))
    elif claim.take == "each" and claim.unstated:
        for item, figure in figures:
            yield case.checked(
                item.words,
                _value_outcome([_within(claim, figure)]),
                _bounds(claim),
                ours=figure,
                alternative=f"{getattr(item, claim.unstated)}",
            )
    elif claim.take == "each" and len(figures) > 1:
        yield _all_of(case, [_within(claim, figure) for _, figure in figures])
    else:
        figure = taken([figure for _, figure in figures], claim.take)
        outcome = _value_outcome([_within(claim, figure)])
        note = f"{claim.take} of {len(figures)} ({_bounds(claim)})" if len(figures) > 1 else _bounds(claim)
        yield case.checked(claim.where.words, outcome, note, ours=figure)


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
    return case.checked(case.claim.where.words, _value_outcome(inside), note, share=inside.count(True) / len(inside))


def _value_outcome(inside: Sequence[bool | None]) -> Outcome:
    """Of figures that all have to agree."""
    return "miss" if False in inside else "open" if None in inside else "hit"


CHECKS: Mapping[Check, Callable[[ClaimCase], Iterator[CheckedClaim]]] = {
    "value": value,
    "bound": bound,
    "ahead": ahead,
    "apart": apart,
    "is": is_so,
    "falls": falls,
    "bends": bends,
}
