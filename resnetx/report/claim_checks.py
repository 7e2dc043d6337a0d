"""The kinds of checks that published claims need, each a function of a claim and the points that it speaks of."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Literal

import msgspec

from resnetx.record.system_comparison import CheckedClaim, Outcome

Check = Literal["value", "ratio", "ahead", "falls", "missing"]
Along = Literal["workload", "batch_size", "gpus"]

# Base units in one of a claim's.
_UNITS = {"": 1.0, "iterations/s": 1.0, "act./param.": 1.0, "MB": 1e6, "GiB/s": 2.0**30}
_TAKE: dict[str, Callable[[Sequence[float]], float]] = {"min": min, "max": max, "mean": statistics.fmean}


@dataclass(frozen=True)
class Item:
    """What checks read of one point, or of one collective of one size."""

    of: str  # "points", or the collective
    variant: str
    words: str
    workload: str
    batch_size: int | None
    gpus: int
    size_bytes: int | None
    values: dict[str, dict[str, float]]  # quantity, system -> value in base units
    missing: set[str]  # systems whose memory it does not fit
    systems: set[str]  # on which it was asked for
    open: bool  # whether who is ahead is open, or the two are level


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which points a claim speaks of; what is not given, any."""

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
        gpus = f"{', '.join(map(str, self.gpus))} GPUs" * bool(self.gpus)
        size = f"{'-'.join(f'{each:g}' for each in self.size_MB)} MB" * bool(self.size_MB)
        return ", ".join(filter(None, [self.workload.replace("/*", "/x").strip("*"), batch, gpus, size]))


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sentence of a paper, as the check of a kind; the head of the file explains the fields."""

    id: str
    section: str
    says: str
    reading: str = ""
    check: Check
    of: Literal["points", "allreduce", "broadcast"] = "points"
    where: Where = Where()
    quantity: Literal["iterations_per_s", "intensity_per_gpu", "gradient_bytes", "algbw", "outcome"]
    unit: Literal["", "iterations/s", "act./param.", "MB", "GiB/s"] = ""
    system: str = ""
    over: str = ""
    take: Literal["each", "min", "max", "mean"] = "each"
    needs: int = 1  # points, or steps between points; of fewer nothing is said
    along: Along | None = None
    order: list[int | str] = []
    stated: float | None = None
    at_least: float = 0
    at_most: float = 1

    def value(self, item: Item) -> float | None:
        """What is checked of one point: a value in the claim's unit, or the ratio of two systems."""
        values = item.values.get(self.quantity, {})
        if not self.over:
            return values[self.system] / _UNITS[self.unit] if self.system in values else None
        return values[self.system] / values[self.over] if {self.system, self.over} <= values.keys() else None


def _figures(claim: Claim, variant: str, items: Iterable[Item], tolerance: float) -> Iterator[CheckedClaim]:
    """Checks of kind value and ratio: a figure of ours beside the stated one."""
    assert claim.stated is not None, f"{claim.id}: a check of kind {claim.check} needs what is stated"
    found = [(item, value) for item in items if (value := claim.value(item)) is not None]
    if len(found) < claim.needs:
        yield _made(claim, variant, claim.where.words, None, "not predicted", tolerance, _too_few(claim, len(found)))
    elif claim.take == "each":
        for item, value in found:
            yield _made(claim, variant, item.words, value, _hit(claim, value, tolerance), tolerance)
    else:
        value = _TAKE[claim.take]([each for _, each in found])
        note = f"{claim.take} of {len(found)} {'sizes' if found[0][0].size_bytes else 'points'}"
        yield _made(claim, variant, claim.where.words, value, _hit(claim, value, tolerance), tolerance, note)


def _hit(claim: Claim, ours: float, tolerance: float) -> Outcome:
    """Within the tolerance; a ratio also on the same side of 1, or it says that the other system is ahead."""
    stated = claim.stated
    assert stated is not None, "only claims with a figure"
    same_side = not claim.over or stated == 1 or (ours > 1) == (stated > 1)
    return "hit" if same_side and abs(ours / stated - 1) <= tolerance else "miss"


def _ahead(claim: Claim, variant: str, items: Iterable[Item], _: float) -> Iterator[CheckedClaim]:
    """In how many of the points a system is ahead of another."""
    found = [(item, value) for item in items if (value := claim.value(item)) is not None]
    yield _share(claim, variant, [value > 1 for _, value in found], "points", [item.open for item, _ in found])


def _falls(claim: Claim, variant: str, items: Iterable[Item], _: float) -> Iterator[CheckedClaim]:
    """In how many steps along a field, all else alike, the ratio of two systems falls."""
    assert claim.along, f"{claim.id}: a check of kind falls needs what it is along"
    lines: dict[tuple[object, ...], dict[object, float]] = defaultdict(dict)
    for item in items:
        fixed = tuple(getattr(item, name) for name in ("workload", "batch_size", "gpus") if name != claim.along)
        if (value := claim.value(item)) is not None:
            lines[fixed][getattr(item, claim.along)] = value
    steps = [
        (line[before], line[after])
        for line in lines.values()
        for before, after in pairwise(each for each in claim.order if each in line)
    ]
    yield _share(claim, variant, [after < before for before, after in steps], "steps")


def _missing(claim: Claim, variant: str, items: Iterable[Item], _: float) -> Iterator[CheckedClaim]:
    """How many of the points do not fit in memory on any of the systems."""
    yield _share(claim, variant, [item.missing == item.systems for item in items], "points")


def _share(
    claim: Claim, variant: str, agreeing: Sequence[bool], of: str, undecided: Sequence[bool] = ()
) -> CheckedClaim:
    """The share of points that agree. It is open where the undecided ones could turn the outcome either way."""
    count, doubtful = len(agreeing), sum(undecided)
    if count < claim.needs:
        return _made(claim, variant, claim.where.words, None, "not predicted", None, _too_few(claim, count))
    certain = sum(agreeing) - sum(agrees for agrees, open_ in zip(agreeing, undecided, strict=False) if open_)
    least, most = certain / count, (certain + doubtful) / count
    outcome: Outcome = "open"
    if claim.at_least <= least and most <= claim.at_most:
        outcome = "hit"
    elif most < claim.at_least or least > claim.at_most:
        outcome = "miss"
    note = f"{sum(agreeing)} of {count} {of}" + f", {doubtful} open or level" * bool(doubtful)
    return _made(claim, variant, claim.where.words, statistics.fmean(agreeing), outcome, None, note)


def _too_few(claim: Claim, found: int) -> str:
    return f"{found} of {claim.needs} points" if found else ""


def _made(
    claim: Claim,
    variant: str,
    where: str,
    ours: float | None,
    outcome: Outcome,
    tolerance: float | None,
    note: str = "",
) -> CheckedClaim:
    return CheckedClaim(
        claim=claim.id,
        section=claim.section,
        says=claim.says,
        reading=claim.reading,
        variant=variant,
        where=where,
        quantity=f"{claim.system} / {claim.over}" if claim.over else claim.quantity,
        unit=claim.unit,
        stated=claim.stated,
        ours=ours,
        difference=None if ours is None or claim.stated is None else ours / claim.stated - 1,
        tolerance=tolerance,
        outcome=outcome,
        note=note,
    )


CHECKS: dict[Check, Callable[[Claim, str, Iterable[Item], float], Iterator[CheckedClaim]]] = {
    "value": _figures,
    "ratio": _figures,
    "ahead": _ahead,
    "falls": _falls,
    "missing": _missing,
}
