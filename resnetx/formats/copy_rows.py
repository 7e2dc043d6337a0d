"""Pair copies as programs of others report them: the form that all their readers give."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.record.copies import Direction, Endpoint, Place
from resnetx.record.limits import LONGEST_s, SHORTEST_s

STAGED = "staged"  # between GPUs with peer access off, through host memory
MOST_PLACES = 1024  # GPUs of a matrix
MOST_BYTES = 2**40  # of a copy


@dataclass(frozen=True)
class CopyRow:
    """One figure of a pair, as a time."""

    copy: str  # "device", "staged", "to-host", "from-host", "local"
    source: Place
    target: Place
    size_bytes: int
    time_s: float
    evidence: tuple[str, ...]
    direction: Direction = "one-way"
    endpoint: Endpoint = "device"
    path: str | None = None

    @property
    def usable(self) -> bool:
        """Whether the figures are ones that a machine measures."""
        return 0 < self.size_bytes <= MOST_BYTES and SHORTEST_s <= self.time_s <= LONGEST_s


@dataclass(frozen=True)
class CollectiveRow:
    """One figure of a collective, as a time."""

    collective: str
    size_bytes: int  # of the whole array
    time_s: float


@dataclass(frozen=True)
class CopyTable:
    """What a file says."""

    program: str  # with its version: "nvbandwidth v0.8"
    gpus: int | None
    rows: tuple[CopyRow, ...] = ()
    collectives: tuple[CollectiveRow, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out or assumed


def matrix_rows(lines: Sequence[str]) -> Iterator[list[float]]:
    """The rows of a printed matrix, each without the number that it begins with; ends before what is none.

    What is no number ("N/A") is NaN.
    """
    for place, line in enumerate(lines):
        words = line.split()
        if len(words) < 2 or words[0] != str(place) or place >= MOST_PLACES:
            return
        yield [number(word) for word in words[1 : MOST_PLACES + 1]]


def number(word: str) -> float:
    """A number; NaN for what is none."""
    try:
        value = float(word)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def seconds(size_bytes: float, rate_GBps: float) -> float:
    """The time of so many bytes at a rate; NaN where there is none."""
    return size_bytes / (rate_GBps * 1e9) if rate_GBps > 0 else math.nan
