"""Published sizes and times of a machine as the calibration of its plans: between them, the model follows their ratio.

    with_published(plan(load("dgx-a100"), "allgather")).cost(3 * 2**20)

A ladder is of one system, library and collective, on so many GPUs: the first ones, in one node. Its error is that of
each size predicted from the others or, where several publications have measured it, of each from the others.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from math import exp, log
from statistics import fmean, quantiles

from resnetx.interconnect.calibration import LEVEL
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.published import PublishedTime, times

FEWEST_SIZES = 6
BEYOND = 2.0  # a ladder holds for sizes up to this factor below its smallest; above its largest, for all


@dataclass(frozen=True)
class Ladder:
    """How much longer than modelled sizes take; it stands where a fitted `Calibration` does."""

    source: str
    points: int
    sizes_bytes: tuple[int, ...]  # rising
    log_ratios: tuple[float, ...]  # of measured over modelled time
    held_out_error: float
    held_out_q90: float

    def covers(self, size_bytes: float) -> bool:
        """Whether sizes like this were measured."""
        return size_bytes * BEYOND >= self.sizes_bytes[0]

    def at(self, size_bytes: float) -> tuple[float, float]:
        """(factor on the fixed time, factor on the bandwidth), as a `Calibration` has them."""
        ratio = exp(_between(self.sizes_bytes, self.log_ratios, size_bytes)) if self.covers(size_bytes) else 1.0
        return ratio, 1 / ratio


def with_published(plan: CollectivePlan) -> CollectivePlan:
    """The plan, calibrated by the ladder of such plans if one is published."""
    found = ladder(plan)
    return plan if found is None else replace(plan, calibration=found)


def ladder(plan: CollectivePlan) -> Ladder | None:
    """The ladder of the first GPUs of this system's one node, of an uncalibrated plan; None: none is published."""
    if plan.system.nodes > 1 or plan.devices != tuple(range(len(plan.devices))):
        return None
    points = _points(plan.system.name, plan.library, plan.collective, len(plan.devices))
    if len({point.size_bytes for point in points}) < FEWEST_SIZES:
        return None
    ratios = [(point.size_bytes, log(point.time_s / plan.cost(point.size_bytes).time_s)) for point in points]
    sizes_bytes, log_ratios = _by_size(ratios)
    errors = _held_out(points, ratios)
    publications = dict.fromkeys(point.entry.publication for point in points)
    return Ladder(
        f"published times of {', '.join(publications)}",
        len(points),
        sizes_bytes,
        log_ratios,
        fmean(errors),
        quantiles(errors, n=round(1 / (1 - LEVEL)), method="inclusive")[-1],
    )


@cache
def _points(system: str, library: str, collective: str, gpus: int) -> tuple[PublishedTime, ...]:
    wanted = (system, None, library, collective, gpus)
    return tuple(sorted((each for each in times() if each.plan_key == wanted), key=lambda each: each.size_bytes))


def _by_size(ratios: Sequence[tuple[int, float]]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Each size once, with the mean of what was measured of it."""
    means = {size: fmean(log_ratio for _, log_ratio in same) for size, same in groupby(sorted(ratios), lambda x: x[0])}
    return tuple(means), tuple(means.values())


def _held_out(points: Sequence[PublishedTime], ratios: Sequence[tuple[int, float]]) -> list[float]:
    """Relative errors: of each publication from the others, or of each size between the smallest and the largest."""
    publications = [point.entry.publication for point in points]
    sizes = [size for size, _ in ratios]
    held: list[object] = list(publications if len(set(publications)) > 1 else sizes)
    errors = []
    for own, (size, log_ratio) in zip(held, ratios, strict=True):
        rest = _by_size([ratio for other, ratio in zip(held, ratios, strict=True) if other != own])
        if rest[0][0] <= size <= rest[0][-1]:
            errors.append(abs(exp(_between(*rest, size) - log_ratio) - 1))
    return errors


def _between(sizes_bytes: Sequence[int], values: Sequence[float], size_bytes: float) -> float:
    """Interpolated over the logarithm of the size; beyond the ends, the value there."""
    after = bisect_right(sizes_bytes, size_bytes)
    if after in (0, len(sizes_bytes)):
        return values[max(0, after - 1)]
    low, high = sizes_bytes[after - 1], sizes_bytes[after]
    share = log(size_bytes / low) / log(high / low)
    return values[after - 1] + share * (values[after] - values[after - 1])
