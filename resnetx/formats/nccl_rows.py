"""Rows of nccl-tests, and what they say of themselves: each has a time, an algbw and a busbw, which have to agree.

size / time is algbw, within the digits that are printed, or the columns are not those that they are taken for. busbw /
algbw is a factor of the collective and of the number of ranks, so that it tells one where the other is known. size over
count and type is the number of ranks where each of them has a part of the array. Until June 2020 gathering and
scattering counted (n - 1) / n of their bytes as algbw, with a busbw that is the same.

Source: NVIDIA/nccl-tests, src/*.cu (GetBw, GetCollByteCount; commit ec1b5e2 of 2020-06-19 for the change).
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from resnetx.operations import OPERATIONS, Operation

MOST_RANKS = 2**20
TYPE_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "int64": 8, "uint64": 8, "half": 2,
    "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
}  # fmt: skip
# Errors that its older versions take for rounding, of one addition; of any other type none (DeltaMaxValue).
_ROUNDING = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
_NUMBER = re.compile(r"\d{1,18}(?:\.(?P<digits>\d{0,18}))?(?:e(?P<power>[+-]?\d{1,2}))?")
_SLACK = 1e-9  # relative: of the arithmetic here
_UNTIL_2020 = ("allgather", "reduce_scatter")


@dataclass(frozen=True)
class Interval:
    """Where a value lies."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        return self.low * (1 - _SLACK) <= value <= self.high * (1 + _SLACK)

    def within(self, other: "Interval") -> "Interval":
        """What both have; empty where `low` is above `high`."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    @property
    def empty(self) -> bool:
        return self.low > self.high * (1 + _SLACK)

    @property
    def text(self) -> str:
        return f"{(self.low + self.high) / 2:.4g}"


ANY = Interval(0.0, math.inf)


@dataclass(frozen=True)
class Printed:
    """A number as it is printed: it was rounded to its last digit."""

    value: float
    rounded: float  # half of its last digit

    def times(self, unit: float) -> "Printed":
        return Printed(self.value * unit, self.rounded * unit)

    @property
    def interval(self) -> Interval:
        return Interval(max(0.0, self.value - self.rounded), self.value + self.rounded)


def printed(word: str) -> Printed | None:
    """A number that is not negative; None for what is none."""
    if (match := _NUMBER.fullmatch(word)) is None:
        return None
    last = int(match["power"] or 0) - len(match["digits"] or "")
    value = float(word)
    return Printed(value, 0.5 * 10.0**last) if math.isfinite(value) else None


@dataclass(frozen=True)
class Half:
    """One row out of place, or in place."""

    time: Printed  # s
    algbw: Printed | None  # B/s; None: it has none
    busbw: Printed | None
    wrong: int | None = None  # elements that were not what they should be; None: not counted
    error: float | None = None  # the largest, in versions that do not count

    def over_time(self, size_bytes: int) -> Interval:
        """algbw over size / time."""
        if self.algbw is None:
            return ANY
        rate, time = self.algbw.interval, self.time.interval
        return Interval(rate.low * time.low / size_bytes, rate.high * time.high / size_bytes)

    @property
    def factor(self) -> Interval:
        """busbw / algbw."""
        if self.algbw is None or self.busbw is None:
            return ANY
        bus, alg = self.busbw.interval, self.algbw.interval
        return Interval(bus.low / alg.high if alg.high else 0.0, bus.high / alg.low if alg.low else math.inf)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    where: str  # "line 12"
    size_bytes: int
    count: int | None = None  # of elements
    type: str | None = None
    redop: str | None = None  # "none", "sum", ...; None: no such column, or blank
    root: int | None = None  # -1: it has none
    out: Half | None = None
    inside: Half | None = None  # in place

    @property
    def halves(self) -> list[Half]:
        """Those that were measured; out of place first."""
        return [half for half in (self.out, self.inside) if half is not None]

    @property
    def over_time(self) -> Interval:
        return _both(half.over_time(self.size_bytes) for half in self.halves)

    @property
    def factor(self) -> Interval:
        return _both(half.factor for half in self.halves)

    @property
    def wrong(self) -> int | None:
        """Elements, out of place and in place; None: not counted."""
        counted = [half.wrong for half in self.halves if half.wrong is not None]
        return sum(counted) if counted else None

    def rounded_badly(self, ranks: int) -> bool:
        """Whether its largest error is above what its version takes for rounding."""
        most = _ROUNDING.get(self.type or "", 0.0) * max(1, ranks - 1)
        return any(half.error is not None and half.error > most for half in self.halves)

    @property
    def parts(self) -> int | None:
        """How many parts of `count` elements the array has; None: not to be told."""
        each = (self.count or 0) * TYPE_BYTES.get(self.type or "", 0)
        return self.size_bytes // each if each and self.size_bytes % each == 0 else None

    @property
    def disagreement(self) -> str:
        """The half that does not agree with itself, in words; "" where both do."""
        for half in self.halves:
            if half.algbw is not None and not half.over_time(self.size_bytes).has(1):
                rate_GBps = self.size_bytes / half.time.value / 1e9 if half.time.value else math.inf
                return (
                    f"{self.where}: {self.size_bytes} B in {half.time.value * 1e6:g} us are {rate_GBps:,.4g} GB/s, and "
                    f"its algbw is {half.algbw.value / 1e9:g}"
                )
        return "" if not self.over_time.empty else f"{self.where}: its two halves do not agree"


def _both(intervals: Iterable[Interval]) -> Interval:
    found = ANY
    for interval in intervals:
        found = found.within(interval)
    return found


@dataclass(frozen=True)
class RowReading:
    """What a table's own figures say: its factor, its parts, and which rows disagree with themselves."""

    rows: tuple[Row, ...]  # that agree
    refused: tuple[str, ...]  # the others, in words
    over_time: Interval  # of algbw over size / time, until 2020; (1, 1) since
    factor: Interval  # of busbw over algbw
    parts: int | None

    def ranks_of(self, name: str) -> Interval | None:
        """The numbers of ranks on which a collective has these figures; None: on none."""
        operation = OPERATIONS[name]
        interval = Interval(2, MOST_RANKS).within(self._by_factor(operation))
        if self.parts is not None and operation.in_parts:
            interval = interval.within(Interval(self.parts, self.parts))
        elif self.parts not in (None, 1):
            return None
        return None if interval.empty else interval

    def _by_factor(self, operation: Operation) -> Interval:
        if self.over_time.high < 1:  # until 2020
            of = OPERATIONS["allgather"].bus_factor if operation.name in _UNTIL_2020 else None
            return Interval(1, 0) if of is None else _inverse(of, self.over_time)
        return _inverse(operation.bus_factor, self.factor)

    @property
    def candidates(self) -> list[str]:
        """The collectives that it may be of: by its figures, then by what its columns of operators and roots hold."""
        fitting = [name for name in OPERATIONS if self.ranks_of(name) is not None]
        hinted = [name for name in fitting if all(_may_be(OPERATIONS[name], row) for row in self.rows)]
        return hinted or fitting

    @property
    def alone(self) -> bool:
        """Whether there was one rank: nothing crossed any link, and its busbw is 0."""
        return self.factor.high < 0.1


_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def _may_be(operation: Operation, row: Row) -> bool:
    if row.root is not None and (row.root >= 0) != (operation.name in _ROOTED):
        return False
    if row.redop in (None, "none"):
        return row.redop is None or not operation.adds
    return operation.adds or operation.name == "sendrecv"  # which repeats itself for each operator


def _inverse(rising: Callable[[int], float], values: Interval) -> Interval:
    """The numbers of ranks whose factor is among the values; of a factor that never changes: all or none."""
    ranks = range(2, MOST_RANKS)
    low = bisect_left(ranks, values.low * (1 - _SLACK), key=rising)
    high = bisect_right(ranks, values.high * (1 + _SLACK), key=rising)
    return Interval(ranks[low], ranks[high - 1]) if low < high else Interval(1, 0)


def reading(rows: Sequence[Row], counts_parts: bool) -> RowReading:
    """What the rows of one table say; `counts_parts`: whether their count is that of a part, as it is since 2017."""
    kept, over_time, refused = list(rows), Interval(1, 1), []
    bad = [row for row in rows if row.disagreement]
    if bad:
        older = _both(row.over_time for row in rows)
        same = not older.empty and older.high < 1 and _both(row.factor for row in rows).has(1)
        if same and not _inverse(OPERATIONS["allgather"].bus_factor, older).empty:
            over_time = older
        else:
            kept, refused = [row for row in rows if not row.disagreement], [row.disagreement for row in bad]
    factor = ANY
    for row in list(kept):
        if (both := factor.within(row.factor)).empty:
            kept.remove(row)
            what = "busbw / algbw is not that of the rows above"
            refused.append(f"{row.where}: its {what} ({row.factor.text} and {factor.text})")
        else:
            factor = both
    parts = {row.parts for row in kept if row.size_bytes} if counts_parts else set()
    return RowReading(tuple(kept), tuple(refused), over_time, factor, parts.pop() if len(parts) == 1 else None)


def telling(rows: Sequence[Row]) -> bool:
    """Whether any row has an algbw with digits enough to show that its columns are what they are taken for."""
    halves = chain.from_iterable(row.halves for row in rows)
    return any(half.algbw is not None and half.algbw.value > 50 * half.algbw.rounded for half in halves)
