"""Where latency ends and bandwidth begins: the knees of times over size, of collectives and of classes of pairs.

    knees({8: 10e-6, 1024: 10e-6, 2**20: 66e-6, 2**28: 14.5e-3})

The floor is the time of the smallest size. It ends where a time is `RAISED` above it. The sizes of half and of 90 % of
the highest bandwidth (Hockney's n1/2) are where the measured bandwidth first reaches them, on straight lines of the
logarithms between two sizes. What lies below the smallest or beyond the largest size measured is not known.

References: Hockney & Jesshope 1981 for n1/2; Li et al. 2019, Fig. 15 to 17.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from resnetx.interconnect.measured import telling_times
from resnetx.record import BenchRecord
from resnetx.record.copies import CopyCell, families

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
    """(what, its knees) of each collective, and of the copies of each class that pairs have at the largest size."""
    for name in dict.fromkeys(point.collective for point in record.points):
        points = [point for point in record.points if point.collective == name]
        timed = zip(points, telling_times(points), strict=True)
        if found := knees({point.size_bytes: median(times_s) for point, times_s in timed}):
            yield name, found
    for family, cells in families(record.cells).items():
        for pair_class, times_s in _by_class(cells).items():
            if found := knees(times_s):
                yield f"{family.words}, {family.endpoint} memory, {pair_class}", found


def _by_class(cells: Sequence[CopyCell]) -> dict[str, dict[int, float]]:
    largest = max(cell.size_bytes for cell in cells)
    classes = {(cell.source, cell.target): cell.pair_class for cell in cells if cell.size_bytes == largest}
    times: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        if name := classes.get((cell.source, cell.target)):
            times.setdefault(name, {}).setdefault(cell.size_bytes, []).append(median(cell.time_s))
    return {name: {size: median(found) for size, found in at.items()} for name, at in times.items()}
