"""Measured collectives that correct a plan: factors on its fixed time and on its bandwidth, by bands of sizes.

    calibrate(plan(system, devices=[0, 1, 2, 3]), read("all_reduce_perf.txt"))        # in collective.py
    bands(read("results/node1/bench/.../record.json", "allreduce"))                   # without any plan

The factors are ratios to the uncalibrated plan, so a calibration made on four GPUs also corrects a plan for eight. How
good it is, is said by its held-out error: every point predicted from all the others.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from resnetx.errors import ConfigError
from resnetx.interconnect.measured import MeasuredCollective, MeasuredSize

MOST_BANDS = 3
ROUNDING = 1e-6  # a share of the time that is no more than the rounding of a fit
Floats = NDArray[np.float64]
MOST_POINTS = 120  # that are fitted: it takes 0.5 s
LEVEL = 0.9
LEAST_POINTS = 3  # of a band; two would fit it exactly, and no error could be held out


@dataclass(frozen=True)
class Calibration:
    """Factors on a plan's fixed time and on its bandwidth, in bands of sizes."""

    source: str
    points: int
    from_bytes: tuple[float, ...]  # where each band begins; the first also holds for smaller sizes
    latency: tuple[float, ...]
    efficiency: tuple[float, ...]
    held_out_error: float  # mean relative error of each point, predicted from the others; nan with two points
    held_out_q90: float  # that 90 % of these errors are within

    def covers(self, size_bytes: float) -> bool:
        """Whether its error holds for a size: always, as its bands reach over all."""
        return True

    def at(self, size_bytes: float) -> tuple[float, float]:
        """(factor on the fixed time, factor on the bandwidth) of the band that holds a size."""
        band = max(0, bisect_right(self.from_bytes, size_bytes) - 1)
        return self.latency[band], self.efficiency[band]


@dataclass(frozen=True)
class PlannedTime:
    """What an uncalibrated plan says of one point: the time that no byte costs, and the time of its bytes."""

    point: MeasuredSize
    fixed_s: float
    moving_s: float


@dataclass(frozen=True)
class Band:
    """What measured points say by themselves, from one size on: time = latency + size / bandwidth."""

    from_bytes: float
    latency_s: float
    bandwidth_Bps: float  # algbw of a size without end


# ---- fitting


def fit(source: str, parts: Sequence[PlannedTime]) -> Calibration:
    """The calibration with the smallest held-out error, in one to three bands of at least three points each."""
    if len({part.point.size_bytes for part in parts}) < 2:
        raise ConfigError(
            f"calibration={source}: {len(parts)} sizes; expected at least two to fit latency and efficiency"
        )
    ordered = _thinned(sorted(parts, key=lambda each: each.point.size_bytes))
    errors = cache(lambda start, end: _held_out_errors(ordered[start:end]))  # splits have bands in common

    def held_out(cuts: Sequence[int]) -> list[float]:
        return [error for band in pairwise(cuts) for error in errors(*band)]

    def held_out_error(cuts: Sequence[int]) -> float:
        return float(np.mean(held_out(cuts)))

    best = min(_splits(len(ordered)), key=held_out_error)
    factors = [_factors(ordered[start:end]) for start, end in pairwise(best)]
    return Calibration(
        source=source,
        points=len(ordered),
        from_bytes=(
            0.0,
            *((ordered[cut - 1].point.size_bytes * ordered[cut].point.size_bytes) ** 0.5 for cut in best[1:-1]),
        ),
        latency=tuple(latency for latency, _ in factors),
        efficiency=tuple(1 / slowness for _, slowness in factors),
        held_out_error=held_out_error(best),
        held_out_q90=float(np.quantile(held_out(best), LEVEL)),
    )


def _thinned(ordered: list[PlannedTime]) -> list[PlannedTime]:
    """Evenly chosen sizes where there are more than it takes, as every cut into bands is tried."""
    if len(ordered) <= MOST_POINTS:
        return ordered
    return [ordered[round(place * (len(ordered) - 1) / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]


def bands(measured: MeasuredCollective) -> tuple[list[Band], float]:
    """Latency and bandwidth by bands of sizes, without a plan, and the held-out error (nan: too few points)."""
    fastest_s = min(point.time_s for point in measured.points)
    highest_Bps = max(point.size_bytes / point.time_s for point in measured.points)
    parts = [PlannedTime(point, fastest_s, point.size_bytes / highest_Bps) for point in measured.points]
    calibration = fit(measured.source, parts)
    return [
        Band(start, latency * fastest_s, efficiency * highest_Bps)
        for start, latency, efficiency in zip(
            calibration.from_bytes, calibration.latency, calibration.efficiency, strict=True
        )
    ], calibration.held_out_error


def _splits(points: int) -> Iterator[tuple[int, ...]]:
    """All cuts of so many points into bands, as places with both ends; fewest bands first."""
    yield (0, points)
    inner = range(LEAST_POINTS, points - LEAST_POINTS + 1)
    for count in range(1, MOST_BANDS):
        for cuts in combinations(inner, count):
            if all(after - before >= LEAST_POINTS for before, after in pairwise(cuts)):
                yield (0, *cuts, points)


def _factors(band: Sequence[PlannedTime]) -> tuple[float, float]:
    """(factor on the fixed time, factor on the time of bytes) with the least relative squared error, none negative."""
    fixed, moving = _relative(band)
    latency, slowness = _solved(_sums(fixed, moving).sum(axis=1, keepdims=True), moving.max(keepdims=True))
    return float(latency[0]), float(slowness[0])


def _held_out_errors(band: Sequence[PlannedTime]) -> list[float]:
    """The relative error of each point of a band, predicted from the others; nan with two points."""
    if len(band) < LEAST_POINTS:
        return [float("nan")]
    fixed, moving = _relative(band)
    each = _sums(fixed, moving)
    largest = np.where(np.arange(len(band)) == moving.argmax(), np.partition(moving, -2)[-2], moving.max())
    latency, slowness = _solved(each.sum(axis=1, keepdims=True) - each, largest)
    errors: list[float] = np.abs(fixed * latency + moving * slowness - 1).tolist()
    return errors


def _relative(band: Sequence[PlannedTime]) -> tuple[Floats, Floats]:
    """The fixed time of each point and the time of its bytes, as shares of its measured time."""
    measured_s = np.array([each.point.time_s for each in band])
    fixed_s, moving_s = (np.array([getattr(each, name) for each in band]) for name in ("fixed_s", "moving_s"))
    return fixed_s / measured_s, moving_s / measured_s


def _sums(fixed: Floats, moving: Floats) -> Floats:
    """What each point adds to the normal equations of latency x fixed + slowness x moving = 1."""
    return np.stack([fixed * fixed, fixed * moving, moving * moving, fixed, moving])


def _solved(sums: Floats, largest: Floats) -> tuple[Floats, Floats]:
    """(latency, slowness) of normal equations, for any number of them; `largest`: share of bytes in a point's time."""
    ff, fm, mm, f, m = sums
    determinant = ff * mm - fm * fm
    separable = determinant > ROUNDING**2 * ff * mm  # else all points have one size, and both factors are one
    safe = np.where(separable, determinant, 1.0)
    both = (f + m) / (ff + 2 * fm + mm)
    latency = np.where(separable, (f * mm - m * fm) / safe, both)
    slowness = np.where(separable, (m * ff - f * fm) / safe, both)
    negative = latency < 0
    latency, slowness = np.where(negative, 0.0, latency), np.where(negative, m / mm, slowness)
    # Where sizes are so small that bytes take no time, their rate stays the plan's.
    small = slowness * largest < ROUNDING
    return np.where(small, np.maximum(0.0, (f - fm) / ff), latency), np.where(small, 1.0, slowness)
