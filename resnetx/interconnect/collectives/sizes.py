"""What measured sizes say by themselves: time = latency + size / bandwidth, in up to three bands of sizes.

    found, held_out_error = bands(read("results/node1/bench/.../record.json", "allreduce"))

Protocols of a library change with the size, so one latency and one bandwidth rarely fit all. The bands are those with
the smallest held-out error: every point predicted from the others of its band.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import MeasuredCollective, MeasuredSize, telling_times
from resnetx.record import BenchRecord
from resnetx.record.bench_record import CopyCell, families

MOST_BANDS = 3
ROUNDING = 1e-6  # a share of the time that is no more than the rounding of a fit
Floats = NDArray[np.float64]
MOST_POINTS = 120  # that are fitted: it takes 0.5 s
LEAST_POINTS = 3  # of a band; two would fit it exactly, and no error could be held out


@dataclass(frozen=True)
class Band:
    """From one size on: time = latency + size / bandwidth."""

    from_bytes: float  # the first also holds for smaller sizes
    latency_s: float
    bandwidth_Bps: float  # algbw of a size without end


def bands(measured: MeasuredCollective) -> tuple[list[Band], float]:
    """The bands with the smallest held-out error, of at least three points each, and that error (nan: two points)."""
    if len({point.size_bytes for point in measured.points}) < 2:
        raise ConfigError(
            f"{measured.source}: {len(measured.points)} sizes; expected at least two to fit latency and bandwidth"
        )
    points = _thinned(sorted(measured.points, key=lambda point: point.size_bytes))
    fastest_s = min(point.time_s for point in points)
    highest_Bps = max(point.size_bytes / point.time_s for point in points)
    fixed = np.array([fastest_s / point.time_s for point in points])
    moving = np.array([point.size_bytes / highest_Bps / point.time_s for point in points])
    # splits have bands in common
    errors = cache(lambda start, end: _held_out_errors(fixed[start:end], moving[start:end]))

    def held_out_error(cuts: Sequence[int]) -> float:
        return float(np.mean([error for band in pairwise(cuts) for error in errors(*band)]))

    best = min(_splits(len(points)), key=held_out_error)
    found = []
    for start, end in pairwise(best):
        latency, slowness = _factors(fixed[start:end], moving[start:end])
        begins = (points[start - 1].size_bytes * points[start].size_bytes) ** 0.5 if start else 0.0
        found.append(Band(begins, latency * fastest_s, highest_Bps / slowness))
    return found, held_out_error(best)


def _thinned(ordered: list[MeasuredSize]) -> list[MeasuredSize]:
    """Evenly chosen sizes where there are more than it takes, as every cut into bands is tried."""
    if len(ordered) <= MOST_POINTS:
        return ordered
    return [ordered[round(index * (len(ordered) - 1) / (MOST_POINTS - 1))] for index in range(MOST_POINTS)]


def _splits(points: int) -> Iterator[tuple[int, ...]]:
    """All cuts of so many points into bands, as places with both ends; fewest bands first."""
    yield (0, points)
    inner = range(LEAST_POINTS, points - LEAST_POINTS + 1)
    for count in range(1, MOST_BANDS):
        for cuts in combinations(inner, count):
            if all(after - before >= LEAST_POINTS for before, after in pairwise(cuts)):
                yield (0, *cuts, points)


def _factors(fixed: Floats, moving: Floats) -> tuple[float, float]:
    """(factor on the fixed time, factor on the time of bytes) with the least relative squared error, none negative."""
    latency, slowness = _solved(_sums(fixed, moving).sum(axis=1, keepdims=True), moving.max(keepdims=True))
    return float(latency[0]), float(slowness[0])


def _held_out_errors(fixed: Floats, moving: Floats) -> list[float]:
    """The relative error of each point of a band, predicted from the others; nan with two points."""
    if len(fixed) < LEAST_POINTS:
        return [float("nan")]
    each = _sums(fixed, moving)
    largest = np.where(np.arange(len(moving)) == moving.argmax(), np.partition(moving, -2)[-2], moving.max())
    latency, slowness = _solved(each.sum(axis=1, keepdims=True) - each, largest)
    errors: list[float] = np.abs(fixed * latency + moving * slowness - 1).tolist()
    return errors


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


# Where latency ends and bandwidth begins: the knees of times over size, of collectives and of classes of pairs.
#
#     knees({8: 10e-6, 1024: 10e-6, 2**20: 66e-6, 2**28: 14.5e-3})
#
# The floor is the time of the smallest size. It ends where a time is `RAISED` above it. The sizes of half and of 90 %
# of the highest bandwidth (Hockney's n1/2) are where the measured bandwidth first reaches them, on straight lines of
# the logarithms between two sizes. What lies below the smallest or beyond the largest size measured is not known.
#
# References: Hockney & Jesshope 1981 for n1/2; Li et al. 2019, Fig. 15 to 17.

RAISED = 1.25  # times the floor: above what medians of small sizes differ by (Tartan: within 5 %)
FEWEST = 4  # sizes


@dataclass(frozen=True)
class Knees:
    """Of one line of times over size. None: not within the sizes that were measured."""

    floor_s: float
    floor_ends_bytes: float | None
    half_bytes: float | None  # where half of the highest bandwidth is reached
    ninety_bytes: float | None
    highest_Bps: float


def knees(times_s: Mapping[int, float]) -> Knees | None:
    """The knees of times by size; None of fewer than `FEWEST` sizes."""
    sizes = sorted(times_s)
    if len(sizes) < FEWEST:
        return None
    rates = {size: size / times_s[size] for size in sizes}
    highest = max(rates.values())
    floor_s = times_s[sizes[0]]
    return Knees(
        floor_s=floor_s,
        floor_ends_bytes=_reached(sizes, [times_s[size] for size in sizes], RAISED * floor_s),
        half_bytes=_reached(sizes, [rates[size] for size in sizes], 0.5 * highest),
        ninety_bytes=_reached(sizes, [rates[size] for size in sizes], 0.9 * highest),
        highest_Bps=highest,
    )


def _reached(sizes: Sequence[int], values: Sequence[float], level: float) -> float | None:
    """The size at which the values first rise to a level; None where they begin above it, or never do."""
    for (below, low), (above, high) in pairwise(zip(sizes, values, strict=True)):
        if low < level <= high:
            share = math.log(level / low) / math.log(high / low)
            return math.exp(math.log(below) + share * math.log(above / below))
    return None


def of_record(record: BenchRecord) -> Iterator[tuple[str, Knees]]:
    """(what, its knees) of each collective, and of the copies of each class that pairs have at the largest size.

    Results that are wrong are left out: their times mean nothing.
    """
    right = [point for point in record.points if not point.wrong]
    for name in dict.fromkeys(point.collective for point in right):
        points = [point for point in right if point.collective == name]
        timed = zip(points, telling_times(points), strict=True)
        if fitted := knees({point.size_bytes: median(times_s) for point, times_s in timed}):
            yield name, fitted
    for family, cells in families([cell for cell in record.cells if not cell.wrong]).items():
        for pair_class, times_s in _by_class(cells).items():
            if fitted := knees(times_s):
                yield f"{family.words}, {family.endpoint} memory, {pair_class}", fitted


def _by_class(cells: Sequence[CopyCell]) -> dict[str, dict[int, float]]:
    largest = max(cell.size_bytes for cell in cells)
    classes = {(cell.source, cell.target): cell.pair_class for cell in cells if cell.size_bytes == largest}
    times: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        if name := classes.get((cell.source, cell.target)):
            times.setdefault(name, {}).setdefault(cell.size_bytes, []).append(median(cell.time_s))
    return {name: {size: median(found) for size, found in at.items()} for name, at in times.items()}
