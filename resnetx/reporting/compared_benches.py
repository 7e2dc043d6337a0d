"""Two benches side by side: how much faster B is than A at each size, where that turns, and what else differs.

STH (2017) compares two servers pair by pair, Tallent et al. 2017 (sections 4.1 and 4.2) collectives by size, with the
mean over the payloads of their workloads. Sizes are compared that both have; nothing is interpolated.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from resnetx import __version__
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.record import SCHEMA, BenchRecord
from resnetx.record.bench_record import CopyCell, CopyEnd
from resnetx.record.comparisons import BenchComparison, BenchCrossing, BenchMean, BenchRatio, ComparedBench
from resnetx.reporting.explain_benches import bench_differences
from resnetx.table import Answer, Column, as_shown
from resnetx.units import GBps, size_text

GIB = 2**30
PAYLOADS_BYTES = (500_000, 6_000_000)  # of ResNet/x's gradients (Tallent et al. 2017, Fig. 10 and 11)


@dataclass(frozen=True, order=True)
class _Key:
    """What is the same in both: an operation, and where."""

    what: str
    gpus: int = 0  # 0: a copy
    pair: tuple[CopyEnd, CopyEnd] | None = None
    pair_class: str = ""

    @property
    def line(self) -> tuple[str, int | None, str | None]:
        return self.what, self.gpus or None, self.pair_class or None


TimesBySize = dict[_Key, dict[int, float]]  # by size in bytes: seconds


def compare_benches(
    a: tuple[Path, Sequence[BenchRecord]],
    b: tuple[Path, Sequence[BenchRecord]],
    band_bytes: tuple[int, int] = PAYLOADS_BYTES,
) -> BenchComparison:
    """B over A. `band_bytes`: the payloads that means are over."""
    (path_a, records_a), (path_b, records_b) = a, b
    of_collectives = _both(_collectives(records_a), _collectives(records_b))
    of_cells = _both(_cells(records_a), _cells(records_b))
    of_classes = _both(_classes(records_a), _classes(records_b))
    lines = {**of_collectives, **of_classes}
    all_a, all_b = ({**_collectives(records), **_cells(records)} for records in (records_a, records_b))
    return BenchComparison(
        kind="bench comparison",
        schema=SCHEMA,
        resnetx=__version__,
        a=_bench(path_a, records_a),
        b=_bench(path_b, records_b),
        band_bytes=list(band_bytes),
        collectives=_ratios(of_collectives),
        cells=_ratios(of_cells),
        classes=_ratios(of_classes),
        crossings=[crossing for key, both in lines.items() for crossing in _crossings(key, both)],
        means=[mean for key, both in lines.items() for mean in _mean(key, both, band_bytes)],
        only_in_one=[*_unmatched("A", all_a, all_b), *_unmatched("B", all_b, all_a)],
        machines=bench_differences(records_a, records_b),
    )


def _bench(path: Path, records: Sequence[BenchRecord]) -> ComparedBench:
    return ComparedBench(
        path=str(path),
        sources=list(dict.fromkeys(record.source for record in records)),
        libraries=list(dict.fromkeys(record.library for record in records if record.library)),
        gpus=sorted({record.world_size for record in records if record.world_size}),
    )


# ---- what was measured


def _collectives(records: Iterable[BenchRecord]) -> TimesBySize:
    found: TimesBySize = {}
    for record in records:
        for name in dict.fromkeys(point.collective for point in record.points):
            points = [point for point in record.points if point.collective == name]
            for point, times_s in zip(points, telling_times(points), strict=True):
                found.setdefault(_Key(name, record.world_size or 0), {})[point.size_bytes] = median(times_s)
        for pattern in record.patterns:
            found.setdefault(_Key(pattern.what, record.world_size or 0), {})[pattern.size_bytes] = median(
                pattern.times_s
            )
    return found


def _cells(records: Iterable[BenchRecord]) -> TimesBySize:
    found: TimesBySize = {}
    for cell in _alone(records):
        key = _Key(_family(cell), pair=(cell.source, cell.target))
        at = found.setdefault(key, {})
        at[cell.size_bytes] = min(median(cell.time_s), at.get(cell.size_bytes, math.inf))
    return found


def _classes(records: Iterable[BenchRecord]) -> TimesBySize:
    times: dict[_Key, dict[int, list[float]]] = {}
    for cell in _alone(records):
        if cell.pair_class:
            at = times.setdefault(_Key(_family(cell), pair_class=cell.pair_class), {})
            at.setdefault(cell.size_bytes, []).append(median(cell.time_s))
    return {key: {size: median(found) for size, found in at.items()} for key, at in times.items()}


def _alone(records: Iterable[BenchRecord]) -> Iterator[CopyCell]:
    return (cell for record in records for cell in record.cells if cell.time_s and not cell.together)


def _family(cell: CopyCell) -> str:
    return f"{cell.family.words}, {cell.endpoint} memory"


# ---- one beside the other


Both = Mapping[int, tuple[float, float]]  # by size, ascending: seconds in A and in B


def _both(a: TimesBySize, b: TimesBySize) -> dict[_Key, Both]:
    shared = {key: sorted(a[key].keys() & b[key].keys()) for key in a if key in b}
    return {key: {size: (a[key][size], b[key][size]) for size in sizes} for key, sizes in shared.items() if sizes}


def _ratios(found: Mapping[_Key, Both]) -> list[BenchRatio]:
    return [_one(key, size, *times_s) for key, both in found.items() for size, times_s in both.items()]


def _one(key: _Key, size: int, a_s: float, b_s: float) -> BenchRatio:
    moved = size * (2 if ", both ways," in key.what else 1)
    what, gpus, pair_class = key.line
    return BenchRatio(
        what=what,
        gpus=gpus,
        source=key.pair[0] if key.pair else None,
        target=key.pair[1] if key.pair else None,
        pair_class=pair_class,
        size_bytes=size,
        a_s=a_s,
        b_s=b_s,
        a_GiBps=moved / a_s / GIB,
        b_GiBps=moved / b_s / GIB,
        ratio=a_s / b_s,
    )


def _crossings(key: _Key, both: Both) -> Iterator[BenchCrossing]:
    """Sizes between which the lead changes; where both are level, nobody leads."""
    what, gpus, pair_class = key.line
    leads = [(size, math.log(a_s / b_s)) for size, (a_s, b_s) in both.items() if a_s / b_s != 1]
    for (below, first), (above, second) in pairwise(leads):
        if (first > 0) != (second > 0):
            share = first / (first - second)
            yield BenchCrossing(
                what=what,
                gpus=gpus,
                pair_class=pair_class,
                above_bytes=below,
                below_bytes=above,
                at_bytes=math.exp(math.log(below) + share * math.log(above / below)),
                ahead_above="B" if second > 0 else "A",
            )


def _mean(key: _Key, both: Both, band_bytes: tuple[int, int]) -> Iterator[BenchMean]:
    within = [a_s / b_s for size, (a_s, b_s) in both.items() if band_bytes[0] <= size <= band_bytes[1]]
    if within:
        what, gpus, pair_class = key.line
        mean = math.exp(sum(map(math.log, within)) / len(within))
        yield BenchMean(what=what, gpus=gpus, pair_class=pair_class, sizes=len(within), ratio=mean)


def _unmatched(letter: str, own: TimesBySize, other: TimesBySize) -> Iterator[str]:
    """What one of the two has alone, an operation once."""
    missing: dict[str, int] = {}
    for key, sizes in own.items():
        if alone := len(sizes.keys() - other.get(key, {}).keys()):
            words = key.what + (f" on {key.gpus} ranks" if key.gpus else "")
            missing[words] = missing.get(words, 0) + alone
    return (f"{letter}: {words}, {count} figures" for words, count in missing.items())


# ---- the answer -----------------------------------------------------------------------------------------------------


def benches_answer(found: BenchComparison) -> list[str]:
    """By how much bench B is faster than bench A, in the operation where they are furthest apart."""
    if not (lines := ratio_lines(found)):
        return ["The two have no operation at the same size, so that nothing can be compared."]
    if all(ratio.ratio == 1 for line in lines for ratio in line.ratios):
        return [f"A and B hold the same figures: each of {len(lines)} operations takes exactly as long in both."]
    first, band = lines[0], found.band_bytes
    means = {(mean.what, mean.gpus, mean.pair_class): mean for mean in found.means}
    one = first.ratios[0]
    if mean := means.get((one.what, one.gpus, one.pair_class)):
        value, sizes, count = mean.ratio, sizes_text(band), mean.sizes
    else:
        value, sizes, count = first.mean, sizes_text([each.size_bytes for each in first.ratios]), len(first.ratios)
    what = f"{first.what}{f' ({first.where})' * bool(first.where)}"
    over = f", the geometric mean of {count} sizes" * (count > 1)
    apart = f"; the furthest apart of {len(lines)} operations" * (len(lines) > 1)
    at = f"from {sizes}" if " to " in sizes else f"at {sizes}"
    return [
        f"{what}: B is {value:.2f} times as fast as A {at}{over}{apart}.",
        *(
            f"{crossing.what}{f' ({crossing.gpus} ranks)' if crossing.gpus else ''}: {crossing.ahead_above} is ahead "
            f"from about {size_text(round(crossing.at_bytes))} on."
            for crossing in found.crossings
            if (crossing.what, crossing.gpus, crossing.pair_class) == (one.what, one.gpus, one.pair_class)
        ),
    ]


def shown_comparison(found: BenchComparison) -> Answer:
    """The answer, and each operation."""
    return Answer(benches_answer(found), as_shown(LINE_RATIOS, ratio_lines(found)))


# ---- columns --------------------------------------------------------------------------------------------------------

RATIOS: list[Column[BenchRatio]] = [
    Column(">size", lambda ratio: size_text(ratio.size_bytes)),
    Column(">B / A", lambda ratio: f"{ratio.ratio:.3f}", help="of speed, above 1 B is faster."),
    Column(">A us", lambda ratio: f"{ratio.a_s * 1e6:,.1f}"),
    Column(">B us", lambda ratio: f"{ratio.b_s * 1e6:,.1f}"),
    Column(">A GB/s", lambda ratio: _rate(ratio.size_bytes, ratio.a_s), help="size / time."),
    Column(">B GB/s", lambda ratio: _rate(ratio.size_bytes, ratio.b_s)),
]


def _rate(size_bytes: int, time_s: float) -> str:
    return GBps(size_bytes / time_s) if time_s else "?"


class LineRatios(NamedTuple):
    """An operation on a number of GPUs, or a copy within a class of pairs or between two places, over sizes."""

    what: str
    where: str
    ratios: Sequence[BenchRatio]

    @property
    def mean(self) -> float:
        """The geometric mean."""
        return math.exp(fmean(math.log(ratio.ratio) for ratio in self.ratios))

    @property
    def median(self) -> float:
        return median(ratio.ratio for ratio in self.ratios)


def ratio_lines(found: BenchComparison) -> list[LineRatios]:
    """The operations and classes of pairs that both have, the furthest apart first; else their pairs."""
    lines = lines_of([*found.collectives, *found.classes] or found.cells)
    return sorted(lines, key=lambda line: -abs(log(line.mean)))


def lines_of(ratios: Iterable[BenchRatio]) -> list[LineRatios]:
    """The ratios by operation and place, in their order."""
    lines: dict[tuple[str, str], list[BenchRatio]] = {}
    for ratio in ratios:
        pair = "" if ratio.source is None else f"{ratio.source} to {ratio.target}"
        where = f"{ratio.gpus} ranks" if ratio.gpus else ratio.pair_class or pair
        lines.setdefault((ratio.what, where), []).append(ratio)
    return [LineRatios(*key, own) for key, own in lines.items()]


LINE_RATIOS: list[Column[LineRatios]] = [
    Column("~what", lambda line: line.what),
    Column("where", lambda line: line.where),
    Column("sizes", lambda line: sizes_text([ratio.size_bytes for ratio in line.ratios])),
    Column(">B / A", lambda line: f"{line.mean:.3g}"),
    Column(">least", lambda line: f"{min(ratio.ratio for ratio in line.ratios):.3g}", 5),
    Column(">most", lambda line: f"{max(ratio.ratio for ratio in line.ratios):.3g}", 5),
]


def sizes_text(sizes_bytes: Sequence[int]) -> str:
    """ "256 KiB to 4 MiB"."""
    return " to ".join(dict.fromkeys(size_text(size) for size in (min(sizes_bytes), max(sizes_bytes))))


PAIR_RATIOS: list[Column[LineRatios]] = [
    Column("copies", lambda pair: pair.what),
    Column(">from", lambda pair: f"{pair.ratios[0].source}"),
    Column(">to", lambda pair: f"{pair.ratios[0].target}"),
    Column(">B / A", lambda pair: f"{pair.median:.3f}", help="the median over sizes."),
    Column(">least", lambda pair: f"{min(ratio.ratio for ratio in pair.ratios):.3f}"),
    Column(">most", lambda pair: f"{max(ratio.ratio for ratio in pair.ratios):.3f}"),
]
