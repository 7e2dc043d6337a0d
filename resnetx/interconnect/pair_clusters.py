"""Groups among the times of pairs at one size: a gap counts beside the spread on its sides, and has to come back.

Sorted logarithms of times are split where the gap is wide in units of the spread within both sides, then each side
again. How wide it has to be, is what one group of pure noise reaches in 1 % of cases (Student's t of 3 degrees of
freedom, as times have long tails), drawn for as many values.

Any set of values may have a gap. That it is one between classes of pairs shows elsewhere: in the opposite direction, at
other sizes, or in pairs with the same source or target. `repeats` compares how much alike these are with what shuffled
values give.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FALSE_SPLITS = 0.01  # of groups of pure noise
FALSE_REPEATS = 0.05  # of shuffled values
FEWEST = 4  # values: of three, none has a gap between two and two
LEAST_SPREAD = 0.003  # relative: matrices are printed to two digits behind the point
LEAST_GAP = 0.02  # relative: nobody chooses GPUs by less
MANY = 24  # from so many values on, a group has at least `LEAST_OF_MANY`; below, two
LEAST_OF_MANY = 4
_DRAWN = 2000
_MOST_DRAWN = 64  # values: with more of them, gaps of noise are narrower
_SHUFFLES = 200
_SEED = 2017
_TAILS = 3


def groups(logs: Sequence[float]) -> list[list[int]]:
    """The places of the values, group by group, the smallest values first; one group where no gap is wide."""
    order = [int(place) for place in np.argsort(logs, kind="stable")]
    values = np.asarray(logs, dtype=float)[order]
    return [order[start:end] for start, end in _split(values, 0, len(order))]


def _split(values: Floats, start: int, end: int) -> list[tuple[int, int]]:
    width, at = widest(values[start:end])
    if width < critical(end - start) or values[start + at] - values[start + at - 1] < LEAST_GAP:
        return [(start, end)]
    return [*_split(values, start, start + at), *_split(values, start + at, end)]


def widest(ordered: Floats) -> tuple[float, int]:
    """The widest gap of ascending values in units of the spread beside it, and the place behind it; (0, 0): none."""
    least = _least(len(ordered))
    places = range(least, len(ordered) - least + 1)
    scores = [(gap(ordered[:at], ordered[at:]), at) for at in places]
    return max(scores, default=(0.0, 0))


def gap(below: Floats, above: Floats) -> float:
    """The gap between two groups of ascending values in units of their spread: the mean distance from their medians."""
    apart = np.concatenate([np.abs(below - np.median(below)), np.abs(above - np.median(above))])
    freedom = max(1, len(apart) - 2)
    return float((above[0] - below[-1]) / max(apart.sum() / freedom, LEAST_SPREAD))


def _least(count: int) -> int:
    return LEAST_OF_MANY if count >= MANY else 2


def critical(count: int) -> float:
    """How wide the widest gap of pure noise is in one of a hundred cases."""
    return _critical(min(count, _MOST_DRAWN)) if count >= FEWEST else np.inf


@cache
def _critical(count: int) -> float:
    drawn = np.sort(np.random.default_rng(_SEED).standard_t(_TAILS, (_DRAWN, count)), axis=1)
    least = _least(count)
    widths = np.zeros(_DRAWN)
    for at in range(least, count - least + 1):
        below, above = drawn[:, :at], drawn[:, at:]
        apart = _distances(below) + _distances(above)
        widths = np.maximum(widths, (above[:, 0] - below[:, -1]) / (apart / max(1, count - 2)))
    return float(np.quantile(widths, 1 - FALSE_SPLITS))


def _distances(rows: Floats) -> Any:
    return np.abs(rows - np.median(rows, axis=1, keepdims=True)).sum(axis=1)


# ---- what comes back


def repeats(ranks: Floats, sources: Sequence[int], targets: Sequence[int], mirror: Sequence[int]) -> bool:
    """Whether values are more alike where they should be than shuffled ones are.

    `ranks`: a row for each size, a column for each pair. `sources`, `targets`: a number for each pair's; `mirror`: the
    column of the opposite pair, -1 where there is none. True where nothing is there to compare with.
    """
    alike = _Alike(ranks.shape, sources, targets, mirror)
    seen = alike.measures(ranks)
    if not len(seen):
        return True
    random = np.random.default_rng(_SEED)
    shuffled = np.array([alike.measures(random.permuted(ranks, axis=1)) for _ in range(_SHUFFLES)])
    middle, width = shuffled.mean(axis=0), shuffled.std(axis=0) + 1e-12
    highest = ((shuffled - middle) / width).max(axis=1)
    return bool((np.sum(highest >= ((seen - middle) / width).max() - 1e-9) + 1) / (_SHUFFLES + 1) <= FALSE_REPEATS)


class _Alike:
    """How alike opposite pairs, other sizes, and pairs of one source or target are; each only where there are any."""

    def __init__(
        self, shape: tuple[int, ...], sources: Sequence[int], targets: Sequence[int], mirror: Sequence[int]
    ) -> None:
        self.sizes, count = shape
        self.opposite = [(place, other) for place, other in enumerate(mirror) if other >= 0]
        self.ends = [_one_hot(end) for end in (sources, targets) if 1 < len(set(end)) < count]

    def measures(self, ranks: Floats) -> Floats:
        """Each the more alike, the higher."""
        found = []
        if self.opposite:
            here, there = np.array(self.opposite).T
            found.append(-float(np.abs(ranks[:, here] - ranks[:, there]).mean()))
        if self.sizes > 1:
            found.append(-float(np.mean([np.abs(a - b).mean() for a, b in pairwise(ranks)])))
        found += [float(((ranks @ end / end.sum(axis=0)) ** 2 @ end.sum(axis=0)).sum()) for end in self.ends]
        return np.array(found)


def _one_hot(ends: Sequence[int]) -> Floats:
    names = sorted(set(ends))
    return np.array([[float(end == name) for name in names] for end in ends])


def ranks_of(logs: Floats) -> Floats:
    """Each row's values as places from -1 to 1; equal values share theirs."""
    count = logs.shape[1]
    below = (logs[:, :, None] > logs[:, None, :]).sum(axis=2)
    above = (logs[:, :, None] < logs[:, None, :]).sum(axis=2)
    placed: Floats = (below - above) / max(1, count - 1)
    return placed
