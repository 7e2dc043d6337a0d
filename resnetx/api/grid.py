"""Predictions by the million: streamed to a table on disk, of which the answer is kept, and no point.

    resnetx predict systems=dgx1-p100,gx8,... model.x=1..32 batch_size=64,128,... clock=... out=grid

`grid.parquet` has a row for each point, in base units; pandas, Polars and DuckDB read it. `grid.json` has the answer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from resnetx import __version__, packages, progress
from resnetx.api import drawings
from resnetx.errors import ConfigError
from resnetx.prediction.predict import GRID_POINTS, Columns, Curve, GridRow, grid_columns
from resnetx.record.sealing import RecordPart, whole
from resnetx.table import Record, Tabular, row
from resnetx.units import with_interval

if TYPE_CHECKING:
    import pyarrow

NAME = "grid.parquet"


class GridPoint(RecordPart, frozen=True):
    """A point of the grid that the answer names."""

    words: str  # what it is
    gpus: int
    images_per_s: float
    speedup: float
    speedup_interval: list[float]
    baseline_gpus: int


class PredictedGrid(Tabular, RecordPart, frozen=True, kw_only=True):
    """`grid.json`: what a grid of predictions answers, and where its points are."""

    kind: Literal["prediction grid"]
    schema: int
    resnetx: str  # version
    settings: dict[str, str]  # that were asked for, in words
    conclusion: str  # what it answers
    file: str  # of the points
    points: int
    outcomes: dict[str, int]  # ok, oom, refused, open -> points
    least: GridPoint | None  # that gains least over its baseline, of those on most GPUs of their curve; null: none can
    most: GridPoint | None
    fastest_in: dict[str, int]  # system -> of how many cases it is the fastest; {}: one system, or not counted

    def rows(self) -> list[Record]:
        """The two points that the answer names."""
        return [row(point) for point in (self.least, self.most) if point is not None]


def stream(curves: Sequence[Curve], folder: Path | None, words: str) -> PredictedGrid:
    """Predicts all points, writes them as they come, and keeps what the answer is made of."""
    total = sum(len(curve.placements) for curve in curves)
    if folder is None:
        raise ConfigError(f"{total:,} cases: more than {GRID_POINTS:,} are kept in a table on disk; give out=FOLDER")
    if why := packages.obstacle("pyarrow"):
        raise ConfigError(f"out=: {total:,} cases are kept in {NAME}, and {why}")
    tally = _Tally()
    with progress.counting("predictions", total, folder) as advance:
        for columns in _written(folder / NAME, grid_columns(curves)):
            tally.add(columns)
            advance(len(columns["gpus"]))
    grid = tally.answer(folder / NAME, words)
    drawings.store_record(folder, folder / "grid.json", grid)
    progress.command(f"points: {folder / NAME}")
    return grid


def _written(path: Path, shares: Iterator[Columns]) -> Iterator[Columns]:
    """Each share, once it is written; the file has its name when all are."""
    from pyarrow import parquet

    with drawings.writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary, parquet.ParquetWriter(temporary, _schema(), compression="zstd") as writer:
            for columns in shares:
                writer.write_table(_table(columns))
                yield columns


def _schema() -> "pyarrow.Schema":
    import pyarrow

    kinds = {int: pyarrow.int64(), int | None: pyarrow.int64(), float | None: pyarrow.float64()}
    fields = GridRow.__annotations__.items()
    return pyarrow.schema([(name, kinds.get(kind, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())))
                           for name, kind in fields])  # fmt: skip


def _table(columns: Columns) -> "pyarrow.Table":
    import pyarrow

    return pyarrow.table([pyarrow.array(columns[field.name], type=field.type) for field in _schema()], schema=_schema())


class _Tally:
    """What is kept of points that have passed."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.curve: tuple[Any, ...] | None = None  # that the last row is of
        self.last: GridRow | None = None  # of that curve, on most GPUs
        self.least: GridRow | None = None
        self.most: GridRow | None = None
        self.fastest: dict[int, tuple[float, str]] = {}  # case -> rate and system
        self.systems: set[str] = set()

    def add(self, columns: Columns) -> None:
        """The rows of a share, in their order."""
        self.outcomes.update(map(str, columns["outcome"]))
        for values in zip(*columns.values(), strict=True):
            each = GridRow(*values)
            curve = (*each[:2], *each[3:8])
            if curve != self.curve:
                self._end_curve()
                self.curve, self.last = curve, None
            if each.speedup is None or each.images_per_s is None:
                continue
            if self.last is None or each.gpus > self.last.gpus:
                self.last = each
            self.systems.add(each.system)
            case = hash((*each[:5], each.varied))  # each system with its own library, or with its best
            if each.images_per_s > self.fastest.get(case, (0.0, ""))[0]:
                self.fastest[case] = each.images_per_s, each.system

    def _end_curve(self) -> None:
        row = self.last
        if row is None or row.speedup is None or row.gpus == row.baseline_gpus:
            return
        gain = _gain(row)
        self.least = row if self.least is None or gain < _gain(self.least) else self.least
        self.most = row if self.most is None or gain > _gain(self.most) else self.most

    def answer(self, file: Path, words: str) -> PredictedGrid:
        """The record of what has passed."""
        self._end_curve()
        several = len(self.systems) > 1
        leaders = Counter(system for _, system in self.fastest.values()) if several else Counter()
        least, most = (None if each is None else _point(each) for each in (self.least, self.most))
        points, able = sum(self.outcomes.values()), self.outcomes["ok"]
        sentence = f"Predicted: {able:,} of {points:,} cases can run"
        if least and most:
            sentence += f"; speed-ups from {_told(least)} to {_told(most)}"
        if leaders:
            ((system, count),) = leaders.most_common(1)
            sentence += f"; {system} is the fastest in {count:,} of {len(self.fastest):,} cases"
        return PredictedGrid(
            kind="prediction grid",
            schema=1,
            resnetx=__version__,
            settings={"words": words},
            conclusion=f"{sentence}.",
            file=file.name,
            points=points,
            outcomes=dict(self.outcomes),
            least=least,
            most=most,
            fastest_in=dict(leaders.most_common()),
        )


def _gain(row: GridRow) -> float:
    return (row.speedup or 0.0) * (row.baseline_gpus or 1)


def _point(row: GridRow) -> GridPoint:
    assert row.speedup and row.images_per_s and row.baseline_gpus, "only rows that have a speed-up"
    batch = f"batch {row.batch_size}"
    words = ", ".join(
        filter(None, [row.workload, batch, row.precision, row.varied, f"{row.gpus} GPUs of {row.system}"])
    )
    ends = [row.speedup_low or row.speedup, row.speedup_high or row.speedup]
    return GridPoint(words, row.gpus, row.images_per_s, row.speedup, ends, row.baseline_gpus)


def _told(point: GridPoint) -> str:
    low, high = point.speedup_interval
    over = f" over {point.baseline_gpus} GPUs" if point.baseline_gpus > 1 else ""
    return f"{with_interval(point.speedup, low, high, ' times')}{over} ({point.words})"
