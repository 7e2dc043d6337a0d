"""What a paper states of its systems beside what a prediction says of the same: hits and misses alike.

The statements are data, `results/published/tallent2017.yaml`; `claim_checks` has the few kinds of checks that they
need, `claim_items` what they are checked on. The paper names no library generation, so each statement is checked with
every library that was predicted, and with every other setting that makes a grid of its own. What decides a statement
that misses is searched for by `resnetx.api.explain`, and kept (`explanations`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import msgspec

from resnetx.config import CONFIGS
from resnetx.loading import own_yaml
from resnetx.record.system_comparison import CheckedClaim, CollectivePoint, CopyPoint, SystemPoint
from resnetx.reporting.systems.claim import Claim, Items
from resnetx.reporting.systems.claim_case import ClaimCase
from resnetx.reporting.systems.claim_checks import CHECKS
from resnetx.reporting.systems.claim_items import (
    COPIES,
    WORKLOADS,
    Item,
    of_collectives,
    of_copies,
    of_points,
    of_workloads,
)

# A wheel carries `results/published` beside `configs`.
PUBLISHED = CONFIGS.parent / "results" / "published"

WITHOUT_SETTINGS = (WORKLOADS, COPIES)  # kinds of items that no library and no strategy changes


Value = str | int | float | list[str] | dict[str, float]  # of a setting


class PaperSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that the paper's own comparison was made with, and where it says so."""

    value: Value
    why: str


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way in which something may have been that the paper leaves open: settings of the command line."""

    about: str
    settings: dict[str, Value]


class Assumption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the paper leaves open, and the ways in which it may have been."""

    about: str
    options: dict[str, Option]
    only_with: dict[str, list[str]] = {}  # options of another assumption, without which this one changes nothing


class LeftOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement that is not checked."""

    section: str
    says: str
    why: str


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of published statements says."""

    systems: list[str]
    study: str
    settings: dict[str, PaperSetting]
    assumptions: dict[str, Assumption]
    tolerance: float
    claims: list[Claim]
    left_out: list[LeftOut]


def check_claims(
    points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint] = (), copies: Sequence[CopyPoint] = ()
) -> list[CheckedClaim]:
    """Every statement of the paper, for every variant of the points; none unless its systems are among them."""
    stated = published("tallent2017")
    there = {side.system for point in points for side in point.sides}
    if not there.issuperset(stated.systems):
        return []
    copied = [copy for copy in copies if copy.system in stated.systems]
    items = [
        *of_points(points, stated.systems),
        *of_workloads(points),
        *of_collectives(collectives),
        *of_copies(copied),
    ]
    variants = _by_variant(items)
    return [checked for claim in stated.claims for checked in _checked(claim, variants, stated.tolerance)]


def _by_variant(items: Iterable[Item]) -> dict[str, Items]:
    """Variant -> the items of each kind: its own, and those that no setting changes."""
    kinds: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        kinds[item.variant][item.of].append(item)
    unchanged = {kind: kinds[kind][kind] for kind in WITHOUT_SETTINGS if kind in kinds}
    return {variant: {**unchanged, **own} for variant, own in kinds.items()}


@cache
def published(name: str) -> Claims:
    """A file of statements that comes with resnetx."""
    stated: Claims = own_yaml(PUBLISHED / f"{name}.yaml", Claims)
    return stated


def _checked(claim: Claim, variants: Mapping[str, Items], tolerance: float) -> Iterator[CheckedClaim]:
    """One statement, in every variant that has items of its kind."""
    for variant, items in variants.items():
        if claim.of in items and (claim.of not in WITHOUT_SETTINGS or claim.of == variant):
            yield from CHECKS[claim.check](ClaimCase(claim, variant, items, claim.tolerance or tolerance))
