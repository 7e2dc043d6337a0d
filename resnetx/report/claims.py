"""What a paper states of its systems beside what a prediction says of the same: hits and misses alike.

The claims are data, `results/published/tallent2017.yaml`; `claim_checks` has the few kinds of checks that they need.
The paper names no library generation, so each claim is checked with every library that was predicted, and with every
other setting that makes a grid of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import msgspec

from resnetx.config import CONFIGS
from resnetx.loading import own_yaml
from resnetx.record.system_comparison import CheckedClaim, CollectivePoint, SystemPoint
from resnetx.report.claim_checks import CHECKS, Claim, Item
from resnetx.report.margins import lead, over

# A wheel carries `results/published` beside `configs`.
PUBLISHED = CONFIGS.parent / "results" / "published"

OF_WORKLOADS = {"intensity_per_gpu", "gradient_bytes"}  # quantities that are one for all libraries and strategies


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of published claims says."""

    systems: list[str]
    settings: dict[str, str]  # that its own comparison was made with, as words of the command line
    tolerance: float
    claims: list[Claim]


def check_claims(points: Sequence[SystemPoint], collectives: Sequence[CollectivePoint] = ()) -> list[CheckedClaim]:
    """Every claim of the paper, for every variant of the points; none unless its systems are among them."""
    stated = published("tallent2017")
    there = {side.system for point in points for side in point.sides}
    if not there.issuperset(stated.systems):
        return []
    items = [*_of_points(points, stated.systems), *_of_collectives(collectives)]
    return [found for claim in stated.claims for found in _checked(claim, items, stated.tolerance)]


@cache
def published(name: str) -> Claims:
    """A file of claims that comes with resnetx."""
    found: Claims = own_yaml(PUBLISHED / f"{name}.yaml", Claims)
    return found


def _checked(claim: Claim, items: Iterable[Item], tolerance: float) -> Iterator[CheckedClaim]:
    """One claim, in every variant that has points of its kind."""
    variants: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.of == claim.of:
            variants[item.variant] += [item] * claim.where.holds(item)
    if claim.quantity in OF_WORKLOADS:
        variants = dict([("workloads", found) for found in variants.values()][:1])
    for variant, found in variants.items():
        yield from CHECKS[claim.check](claim, variant, found, tolerance)


def _of_points(points: Iterable[SystemPoint], systems: Sequence[str]) -> Iterator[Item]:
    for point in points:
        sides = [side for side in point.sides if side.system in systems]
        rates = {side.system: side.iterations_per_s.value for side in sides if side.iterations_per_s}
        both = {side.system for side in sides}
        intensity = {} if point.intensity_per_gpu is None else dict.fromkeys(both, point.intensity_per_gpu)
        margin = over(point, *systems)
        yield Item(
            of="points",
            variant=", ".join(filter(None, [point.library, point.variant])),
            words=f"{point.workload}, batch {point.batch_size}, {point.gpus} GPU{'s' * (point.gpus > 1)}",
            workload=point.workload,
            batch_size=point.batch_size,
            gpus=point.gpus,
            size_bytes=None,
            values={
                "iterations_per_s": rates,
                "intensity_per_gpu": intensity,
                "gradient_bytes": dict.fromkeys(both, float(point.gradient_bytes)),
            },
            missing={side.system for side in sides if side.outcome == "oom"},
            systems=both,
            open=margin is not None and lead(margin) != "ahead",
        )


def _of_collectives(collectives: Iterable[CollectivePoint]) -> Iterator[Item]:
    """Each size once, with the rates of all systems."""
    rates: dict[tuple[str, str, int, int], dict[str, float]] = defaultdict(dict)
    for each in collectives:
        rates[each.collective, each.library, each.gpus, each.size_bytes][each.system] = each.algbw_Bps
    for (collective, library, gpus, size_bytes), found in rates.items():
        yield Item(
            of=collective,
            variant=library,
            words=f"{collective}, {gpus} GPUs",
            workload="",
            batch_size=None,
            gpus=gpus,
            size_bytes=size_bytes,
            values={"algbw": found},
            missing=set(),
            systems=set(found),
            open=False,
        )
