"""What a set of repeated measurements says (pure; plain floats in and out)."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """The median of `n` repeats, and the range they span: with few repeats no interval is honest."""

    median: float
    low: float
    high: float
    n: int


def summarize(samples: Sequence[float]) -> Summary:
    """Median and range of at least one sample, in the samples' unit."""
    assert samples, "a summary needs at least one sample"
    return Summary(statistics.median(samples), min(samples), max(samples), len(samples))
