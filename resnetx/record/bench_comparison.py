"""The record of two benches compared: bench B over bench A, at every size that both have.

Ratios are of speed, B over A: above 1, B is faster. Effective bandwidth is payload over time in GiB/s (2**30 bytes), as
Tallent et al. 2017 draw it; of copies both ways at once, the payload of both directions.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from resnetx.record.base import RecordPart
from resnetx.record.comparison import Difference, Letter
from resnetx.record.copies import Place
from resnetx.table import Record, Tabular, row


def bench_comparison_file(folder: Path) -> Path:
    """Where the comparison of a folder is; nothing else in resnetx spells its name."""
    return folder / "bench_comparison.json"


class ComparedBench(RecordPart, frozen=True):
    """One of the two."""

    path: str
    sources: list[str]  # "measured", or the files that were imported
    libraries: list[str]
    gpus: list[int]  # of its benches


class BenchRatio(RecordPart, frozen=True):
    """The same operation at the same size in both."""

    what: str  # "allreduce", "device copies, one way, reads by SMs, device memory"
    gpus: int | None  # of a collective; null: a copy
    source: Place | None  # of a copy; null: a collective, or all pairs of a class
    target: Place | None
    pair_class: str | None  # null: a collective, or not classified alike in both
    size_bytes: int
    a_s: float  # median
    b_s: float
    a_GiBps: float
    b_GiBps: float
    ratio: float  # of speed, B over A


class BenchCrossing(RecordPart, frozen=True):
    """Two neighbouring sizes between which the other bench takes the lead."""

    what: str
    gpus: int | None
    pair_class: str | None
    above_bytes: int
    below_bytes: int
    at_bytes: float  # on a straight line of the logarithms
    ahead_above: Letter  # who is faster with larger sizes


class BenchMean(RecordPart, frozen=True):
    """The geometric mean of the ratios within the band of payloads."""

    what: str
    gpus: int | None
    pair_class: str | None
    sizes: int
    ratio: float


class BenchComparison(Tabular, RecordPart, frozen=True):
    """`bench_comparison.json`."""

    kind: Literal["bench comparison"]
    schema: int
    resnetx: str  # version
    a: ComparedBench
    b: ComparedBench
    band_bytes: Annotated[list[int], msgspec.Meta(min_length=2, max_length=2)]  # least and most payload of the means
    collectives: list[BenchRatio]
    cells: list[BenchRatio]
    classes: list[BenchRatio]
    crossings: list[BenchCrossing]
    means: list[BenchMean]
    only_in_one: list[str]  # what has no counterpart, in words
    machines: list[Difference]  # environments that differ

    def rows(self) -> list[Record]:
        """A row for each collective and cell that is in both."""
        return [row(each) for each in (*self.collectives, *self.cells)]
