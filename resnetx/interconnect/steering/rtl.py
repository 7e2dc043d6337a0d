"""RTL, the relative transmission latency: traffic over bandwidth units, by pair, by source GPU, and in total.

Matrices are [i][j]: from GPU j to GPU i, as in the paper (section 2.2). "An aggregate RTL for each GPU is calculated by
summing the RTLs from the appropriate column": column j has what GPU j sends.
"""

import math
from collections.abc import Sequence

Traffic = Sequence[Sequence[float]]  # [to][from]: bytes, or any multiple of them
Units = tuple[tuple[int, ...], ...]  # [to][from]: bandwidth units
Rows = tuple[tuple[float, ...], ...]


def normalised(traffic: Traffic) -> Rows:
    """Traffic over the largest of any pair, as the paper states it; without any traffic, as it is."""
    largest = max(map(max, traffic))
    return tuple(tuple(each / largest if largest else 0.0 for each in row) for row in traffic)


def pair_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> Rows:
    """RTL of each pair; 0 where nothing is sent, infinite where something is and no link is there."""
    return tuple(
        tuple((sent / count if count else math.inf) if sent else 0.0 for sent, count in zip(row, counts, strict=True))
        for row, counts in zip(traffic, units, strict=True)
    )


def source_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """The aggregate of each GPU: its column, over all that it sends to."""
    return tuple(map(sum, zip(*pair_rtl(traffic, units), strict=True)))


def total_rtl(traffic: Traffic, units: Sequence[Sequence[int]]) -> float:
    return sum(source_rtl(traffic, units))


def slowest_pair(traffic: Traffic, units: Sequence[Sequence[int]]) -> float:
    """The largest RTL of a pair: what the exchange takes if all links carry their traffic at once."""
    return max(map(max, pair_rtl(traffic, units)))


def received(units: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The units that end at each GPU: the receivers that it needs."""
    return tuple(map(sum, units))
