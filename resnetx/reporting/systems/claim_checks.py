"""The kinds of checks that published statements need, each a function of a statement and the items that it speaks of.

Predictions have intervals, and a check knows them: where the errors of predictions could turn an outcome either way, it
is open. `results/published/tallent2017.yaml` explains the kinds and the fields.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

import msgspec

from resnetx.record.system_comparison import CheckedClaim, Estimate, Outcome
from resnetx.reporting.systems.claim_items import NO_SYSTEM, Item
from resnetx.reporting.systems.rate_ratios import LEVEL, lead, quotient

Check = Literal["value", "bound", "ahead", "apart", "is", "falls"]
Field = Literal["workload", "batch_size", "gpus"]
Take = Literal["each", "min", "max", "mean"]
Kind = Literal["points", "workloads", "copies", "allreduce", "broadcast"]
Unit = Literal["", "share", "iterations/s", "act./param.", "M", "MB", "GiB/s", "of 16 GB/s", "of 20 GB/s"]

Items = Mapping[str, Sequence[Item]]  # kind -> items

# Base units in one of a statement's.
_UNITS: dict[Unit, float] = {
    "": 1.0,
    "share": 1.0,
    "iterations/s": 1.0,
    "act./param.": 1.0,
    "M": 1e6,
    "MB": 1e6,
    "GiB/s": 2.0**30,
    "of 16 GB/s": 16e9,
    "of 20 GB/s": 20e9,
}
# An advantage (a ratio less 1) of at least and at most so many times the stated one says the same.
LEAST_ADVANTAGE, MOST_ADVANTAGE = 0.5, 2.0


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
        size = f"{'-'.join(f'{each:g}' for each in dict.fromkeys(self.size_MB))} MB" * bool(self.size_MB)
        return ", ".join(filter(None, [self.workload.replace("/*", "/x").strip("*"), batch, gpus, size]))


class Selection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which figures are read: a quantity of items of one kind, on one system or as the ratio of two."""

    of: Kind = "points"
    where: Where = Where()
    quantity: str
    system: str = NO_SYSTEM  # of copies the pair, too: "gx8 0-4"
    over: str = ""
    take: Take = "each"

    def figure(self, item: Item) -> Estimate | None:
        """What is read of one item, in base units; None where it has no such figure."""
        if self.over:
            return item.ratio(self.quantity, self.system, self.over)
        return item.values.get(self.quantity, {}).get(self.system)

    def there(self, items: Items) -> list[Item]:
        """The items that it speaks of."""
        return [item for item in items.get(self.of, ()) if self.where.holds(item)]

    def figures(self, items: Items) -> list[tuple[Item, Estimate]]:
        """What is read of all items that have it."""
        return [(item, found) for item in self.there(items) if (found := self.figure(item)) is not None]


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
    along: Field | None = None
    order: list[int | str] = []
    stated: float | None = None
    stated_by: dict[str | int, float] = {}
    unstated: Field | None = None
    tolerance: float | None = None  # null: the file's
    at_least: float | None = None
    at_most: float | None = None
    given: bool = False
    because: str = ""


@dataclass(frozen=True)
class Asked:
    """A statement, in one variant of the settings."""

    claim: Claim
    variant: str
    items: Items  # of this variant, and of the kinds that no setting changes
    tolerance: float

    def figures(self) -> list[tuple[Item, Estimate]]:
        """What the statement speaks of: in its unit, or over what it is held against."""
        claim = self.claim
        found = claim.figures(self.items)
        if claim.against is None:
            return [(item, _scaled(value, 1 / _UNITS[claim.unit])) for item, value in found]
        others = [value for _, value in claim.against.figures(self.items)]
        return [(item, quotient(value, _taken(others, claim.against.take))) for item, value in found] if others else []


def _scaled(value: Estimate, factor: float) -> Estimate:
    return Estimate(value=value.value * factor, low=value.low * factor, high=value.high * factor)


def _taken(values: Sequence[Estimate], take: Take) -> Estimate:
    if take == "mean":
        low, high = (statistics.fmean(getattr(each, end) for each in values) for end in ("low", "high"))
        return Estimate(value=statistics.fmean(each.value for each in values), low=low, high=high)
    assert take != "each" or len(values) == 1, "several figures, and none is taken of them"
    return (min if take == "min" else max)(values, key=lambda each: each.value)


# ---- figures --------------------------------------------------------------------------------------------------------


def _value(asked: Asked) -> Iterator[CheckedClaim]:
    """A figure of ours beside the stated one; or as many as are stated."""
    claim, found = asked.claim, asked.figures()
    if len(found) < claim.needs:
        yield _not_predicted(asked, len(found))
    elif claim.stated_by:
        yield _listed(asked, found)
    elif claim.take == "each":
        for item, value in found:
            yield _figure(asked, value, item.words, item)
    else:
        note = f"{claim.take} of {len(found)} {'sizes' if found[0][0].size_bytes else 'points'}"
        value = _taken([each for _, each in found], claim.take)
        yield _figure(asked, value, claim.where.words, note=note * (len(found) > 1))


def _figure(asked: Asked, ours: Estimate, where: str, item: Item | None = None, note: str = "") -> CheckedClaim:
    claim = asked.claim
    assert claim.stated is not None, f"{claim.id}: a check of kind value needs what is stated"
    outcome: Outcome = "hit" if _hits(claim, ours.value, asked.tolerance) else "miss"
    alternative = f"{getattr(item, claim.unstated)}" if item and claim.unstated else ""
    return _made(asked, where, outcome, note, ours=ours, alternative=alternative)


def _hits(claim: Claim, ours: float, tolerance: float) -> bool:
    """Within the tolerance; the ratio of two systems also says who is ahead, and by about as much."""
    stated = claim.stated
    assert stated is not None, "only statements with a figure"
    near = abs(ours / stated - 1) <= tolerance
    if not claim.over or stated == 1:
        return near
    return near and LEAST_ADVANTAGE <= (ours - 1) / (stated - 1) <= MOST_ADVANTAGE


def _listed(asked: Asked, found: Sequence[tuple[Item, Estimate]]) -> CheckedClaim:
    """A figure is stated for each value of a field: all of them have to be there, and near."""
    claim = asked.claim
    assert claim.along, f"{claim.id}: stated_by needs what it is along"
    ours = {getattr(item, claim.along): value.value for item, value in found}
    near = [abs(ours[key] / stated - 1) <= asked.tolerance for key, stated in claim.stated_by.items() if key in ours]
    if len(near) < len(claim.stated_by):
        return _not_predicted(asked, len(near))
    note = f"{sum(near)} of {len(near)} figures within {asked.tolerance:.0%}"
    return _made(asked, claim.where.words, "hit" if all(near) else "miss", note, share=statistics.fmean(near))


def _bound(asked: Asked) -> Iterator[CheckedClaim]:
    """Every figure, or the one that is taken of them, lies within bounds."""
    claim, found = asked.claim, asked.figures()
    if len(found) < claim.needs:
        yield _not_predicted(asked, len(found))
    elif claim.take == "each":
        yield _all_of(asked, [_within(claim, value) for _, value in found])
    else:
        value = _taken([each for _, each in found], claim.take)
        inside = _within(claim, value)
        outcome: Outcome = "open" if inside is None else "hit" if inside else "miss"
        yield _made(asked, claim.where.words, outcome, f"{claim.take} of {len(found)} ({_bounds(claim)})", ours=value)


def _within(claim: Claim, value: Estimate) -> bool | None:
    """None: a part of the interval is inside, a part outside."""
    low = -float("inf") if claim.at_least is None else claim.at_least
    high = float("inf") if claim.at_most is None else claim.at_most
    if low <= value.low and value.high <= high:
        return True
    return False if value.high < low or value.low > high else None


def _bounds(claim: Claim) -> str:
    ends = ((claim.at_least, "at least"), (claim.at_most, "at most"))
    return ", ".join(f"{words} {end:g}" for end, words in ends if end is not None)


def _all_of(asked: Asked, inside: Sequence[bool | None]) -> CheckedClaim:
    outcome: Outcome = "miss" if False in inside else "open" if None in inside else "hit"
    note = f"{inside.count(True)} of {len(inside)}" + f", {inside.count(None)} open" * (None in inside)
    note += f" ({_bounds(asked.claim)})"
    return _made(asked, asked.claim.where.words, outcome, note, share=inside.count(True) / len(inside))


# ---- shares ---------------------------------------------------------------------------------------------------------


def _ahead(asked: Asked) -> Iterator[CheckedClaim]:
    """In how many of the items a system is ahead of another."""
    found = [(ratio.value > 1, lead(ratio) != "ahead") for _, ratio in asked.figures()]
    yield _share(asked, [agrees for agrees, _ in found], "points", [undecided for _, undecided in found])


def _apart(asked: Asked) -> Iterator[CheckedClaim]:
    """In how many of the items two systems are not level."""
    found = [lead(ratio) for _, ratio in asked.figures()]
    yield _share(asked, [each != "level" for each in found], "points", [each == "open" for each in found])


def _is(asked: Asked) -> Iterator[CheckedClaim]:
    """Of how many of the items something is so: on one system, or without one on all that they were asked for on."""
    claim = asked.claim
    having = [found for item in claim.there(asked.items) if (found := item.values.get(claim.quantity))]
    if claim.system:
        agreeing = [bool(found[claim.system].value) for found in having if claim.system in found]
    else:
        agreeing = [all(each.value for each in found.values()) for found in having]
    yield _share(asked, agreeing, "points")


def _falls(asked: Asked) -> Iterator[CheckedClaim]:
    """In how many steps along a field, all else alike, a figure falls."""
    claim = asked.claim
    assert claim.along, f"{claim.id}: a check of kind falls needs what it is along"
    lines: dict[tuple[object, ...], dict[object, Estimate]] = defaultdict(dict)
    for item, value in asked.figures():
        fixed = tuple(getattr(item, name) for name in ("workload", "batch_size", "gpus") if name != claim.along)
        lines[fixed][getattr(item, claim.along)] = value
    steps = [
        (line[before], line[after])
        for line in lines.values()
        for before, after in pairwise(each for each in claim.order if each in line)
    ]
    falling = [after.value < before.value for before, after in steps]
    yield _share(asked, falling, "steps", [_undecided(before, after) for before, after in steps])


def _undecided(before: Estimate, after: Estimate) -> bool:
    """Whether a step is too small to tell, or both ends could be one figure as far as the errors go."""
    level = abs(after.value / before.value - 1) < LEVEL
    return level or (before.low <= after.high and after.low <= before.high)


def _share(asked: Asked, agreeing: Sequence[bool], of: str, undecided: Sequence[bool] = ()) -> CheckedClaim:
    """The share of items that agree. It is open where the undecided ones could turn the outcome either way."""
    claim, count, doubtful = asked.claim, len(agreeing), sum(undecided)
    if count < claim.needs:
        return _not_predicted(asked, count)
    least_share, most_share = claim.at_least or 0.0, 1.0 if claim.at_most is None else claim.at_most
    wanted = [f"at least {least_share:.0%}"] * (claim.at_least is not None)
    wanted += [f"at most {most_share:.0%}"] * (claim.at_most is not None)
    certain = sum(agreeing) - sum(agrees for agrees, open_ in zip(agreeing, undecided, strict=False) if open_)
    least, most = certain / count, (certain + doubtful) / count
    outcome: Outcome = "open"
    if least_share <= least and most <= most_share:
        outcome = "hit"
    elif most < least_share or least > most_share:
        outcome = "miss"
    note = (
        f"{sum(agreeing)} of {count} {of}" + f", {doubtful} open or level" * bool(doubtful) + f" ({', '.join(wanted)})"
    )
    return _made(asked, claim.where.words, outcome, note, share=statistics.fmean(agreeing))


# ---- what comes of it -----------------------------------------------------------------------------------------------


def _not_predicted(asked: Asked, found: int) -> CheckedClaim:
    too_few = f"{found} of {asked.claim.needs} points" if found else ""
    return _made(asked, asked.claim.where.words, "not predicted", too_few)


def _made(
    asked: Asked,
    where: str,
    outcome: Outcome,
    note: str = "",
    *,
    ours: Estimate | None = None,
    share: float | None = None,
    alternative: str = "",
) -> CheckedClaim:
    claim = asked.claim
    value = share if ours is None else ours.value
    figured = claim.check == "value"
    return CheckedClaim(
        claim=claim.id,
        section=claim.section,
        says=claim.says,
        reading=claim.reading,
        variant=asked.variant,
        where=where,
        alternative=alternative,
        quantity=f"{claim.system} / {claim.over}" if claim.over else claim.quantity,
        unit=claim.unit if share is None else "share",
        stated=claim.stated,
        ours=value,
        ours_low=ours.low if ours and ours.low < ours.high else None,
        ours_high=ours.high if ours and ours.low < ours.high else None,
        difference=None if value is None or claim.stated is None else value / claim.stated - 1,
        tolerance=asked.tolerance if figured else None,
        outcome="given" if claim.given and outcome == "hit" else outcome,
        note=note,
        cause=claim.because if outcome == "miss" else "",
    )


CHECKS: Mapping[Check, Callable[[Asked], Iterator[CheckedClaim]]] = {
    "value": _value,
    "bound": _bound,
    "ahead": _ahead,
    "apart": _apart,
    "is": _is,
    "falls": _falls,
}
