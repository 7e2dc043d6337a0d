"""How one GPU divides its units among those that it sends to: the paper's search, and the greedy one.

Both minimise the sum of traffic / units over the targets, with at least one unit for each. Of equal divisions they take
the one that moves the fewest links.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.interconnect.steering.problem import Source

SAME = 1e-12  # relative: RTLs that differ by less are the same


@dataclass(frozen=True)
class Division:
    """Units for each target of a source, and how many RTLs or gains were calculated to find them."""

    units: tuple[int, ...]
    evaluations: int


def evaluations(targets: int, units: int) -> int:
    """The RTLs that the exhaustive search calculates for one GPU: c x C(k - 1, k - c), section 2.2."""
    return targets * math.comb(units - 1, units - targets)


def exhaustive(source: Source) -> Division:
    """Every division of the units, as in the paper."""
    best, least, moved, evaluated = source.built, math.inf, 0, 0
    for units in _divisions(len(source.targets), source.units):
        rtl = sum(sent / count for sent, count in zip(source.sent, units, strict=True))
        evaluated += len(units)
        moves = sum(abs(count - built) for count, built in zip(units, source.built, strict=True))
        if rtl < least * (1 - SAME) or (rtl <= least * (1 + SAME) and moves < moved):
            best, least, moved = units, min(rtl, least), moves
    return Division(best, evaluated)


def _divisions(targets: int, units: int) -> Iterator[tuple[int, ...]]:
    """Every way to write `units` as a sum of so many numbers of at least 1."""
    if targets == 1:
        yield (units,)
        return
    for first in range(1, units - targets + 2):
        for rest in _divisions(targets - 1, units - first):
            yield (first, *rest)


def greedy(source: Source) -> Division:
    """One unit for each target, and each of the others to where it saves most; docs/steer.md proves it optimal."""
    units = [1] * len(source.targets)
    heap = [_gain(source, units, place) for place in range(len(units))]
    heapq.heapify(heap)
    evaluated = len(heap)
    for _ in range(source.units - len(units)):
        place = heap[0][2]
        units[place] += 1
        heapq.heapreplace(heap, _gain(source, units, place))
        evaluated += 1
    return Division(tuple(units), evaluated)


def _gain(source: Source, units: Sequence[int], place: int) -> tuple[float, bool, int]:
    """What the next unit saves, as a heap sorts it: most first; of equal gains, that of a link which is there."""
    count = units[place]
    return -source.sent[place] / (count * (count + 1)), count >= source.built[place], place
