"""One statement in one variant of the settings: what is read of the predictions, and the record of its outcome."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.record.system_comparison import CheckedClaim, Estimate, Outcome
from resnetx.reporting.systems.claim import Claim, Items, Take, Unit
from resnetx.reporting.systems.claim_items import Item, scaled
from resnetx.reporting.systems.rate_ratios import quotient

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
        others = [value for _, value in claim.against.figures(self.items)]
        if not others:
            return []
        below = taken(others, claim.against.take)
        return [(item, quotient(value, below)) for item, value in figures]

    def not_predicted(self, count: int) -> CheckedClaim:
        """There are too few figures, `count` of them; open where points are."""
        if opened := sum(item.is_open for item in self.claim.there(self.items)):
            note = f"{opened} open point{'s' * (opened > 1)}: nothing determines them"
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
