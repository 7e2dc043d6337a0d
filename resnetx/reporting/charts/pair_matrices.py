"""Heat maps of pair copies: a square for each ordered pair, rows send (Li et al. 2019, Fig. 5 to 13)."""

from collections.abc import Sequence
from statistics import median

import altair as alt
import msgspec

from resnetx.record.copies import CopyCell
from resnetx.reporting.charts.figure import COLUMN, AnyChart, Figure, layered, styled
from resnetx.reporting.charts.styles import INK, PAPER
from resnetx.reporting.table import table_of
from resnetx.units import size_text

FEWEST_PLACES = 3  # of two, a table of four figures says as much
MEASURED = "The median of each pair."
_MOST_LABELLED = 10  # GPUs, of which each square has its figure written in it
_SMALL_BYTES = 4096  # up to here, the time of a copy is a latency


class PairMark(msgspec.Struct, frozen=True, kw_only=True):
    """One square."""

    source: str
    target: str
    size_bytes: int
    time_us: float
    GBps: float  # both directions summed
    pair_class: str
    verdict: str


def matrices(cells: Sequence[CopyCell], name: str, what: str, origin: str = MEASURED) -> list[Figure]:
    """Latency at the smallest size, and bandwidth at the largest one. `name`: of the files; `what`: the title."""
    cells = [cell for cell in cells if cell.source != cell.target]
    sizes = sorted({cell.size_bytes for cell in cells})
    if len(_places(cells)) < FEWEST_PLACES:
        return []
    found = []
    if sizes[0] <= _SMALL_BYTES:
        found.append(_matrix(cells, sizes[0], f"{name}_latency", what, origin, latency=True))
    if sizes[-1] > _SMALL_BYTES:
        found.append(_matrix(cells, sizes[-1], f"{name}_bandwidth", what, origin, latency=False))
    return found


def _places(cells: Sequence[CopyCell]) -> list[str]:
    ends = {end for cell in cells for end in (cell.source, cell.target)}
    numbers = sorted(end for end in ends if isinstance(end, int))
    return [*map(str, numbers), *sorted(end for end in ends if isinstance(end, str))]


def mark(cell: CopyCell) -> PairMark:
    """A cell as a square."""
    time_s = median(cell.time_s)
    moved = cell.size_bytes * (2 if cell.direction == "both-ways" else 1)
    return PairMark(
        source=str(cell.source),
        target=str(cell.target),
        size_bytes=cell.size_bytes,
        time_us=time_s * 1e6,
        GBps=moved / time_s / 1e9,
        pair_class=cell.pair_class or "",
        verdict=cell.verdict,
    )


def _matrix(cells: Sequence[CopyCell], size: int, name: str, what: str, origin: str, latency: bool) -> Figure:
    marks = [mark(cell) for cell in cells if cell.size_bytes == size]
    quantity, unit = ("latency", "us") if latency else ("bandwidth", "GB/s")
    title = f"{what}: {quantity} at {size_text(size)}"
    caption = f"Rows send, columns receive; {unit}. {origin} Copies within one GPU are left out."
    chart = styled(_squares(marks, _places(cells), "time_us" if latency else "GBps", unit), {"pairs": _records(marks)})
    return Figure(name=name, title=title, caption=caption, table=table_of(marks, PairMark), chart=chart)


def _records(marks: Sequence[PairMark]) -> list[dict[str, str | int | float | bool | None]]:
    return [msgspec.to_builtins(each) for each in marks]


def _squares(marks: Sequence[PairMark], places: Sequence[str], field: str, unit: str) -> AnyChart:
    values = [float(getattr(each, field)) for each in marks]
    side = COLUMN - 75
    base = alt.Chart(alt.NamedData("pairs")).encode(
        x=alt.X("target:N", sort=list(places), title="to", axis=alt.Axis(orient="top", labelAngle=0, grid=False)),
        y=alt.Y("source:N", sort=list(places), title="from", axis=alt.Axis(grid=False)),
    )
    # Slow is dark in both: the eye is led to what may be wrong.
    scale = alt.Scale(scheme="viridis", reverse=field == "time_us", domain=[min(values), max(values)], nice=False)
    squares = base.mark_rect(stroke=PAPER, strokeWidth=0.5).encode(
        color=alt.Color(f"{field}:Q", scale=scale, legend=alt.Legend(title=unit, gradientLength=side - 20)),
        tooltip=[
            alt.Tooltip("source:N"),
            alt.Tooltip("target:N"),
            alt.Tooltip(f"{field}:Q", format=".4g"),
            alt.Tooltip("pair_class:N"),
            alt.Tooltip("verdict:N"),
        ],
    )
    if len(places) > _MOST_LABELLED:
        alone: alt.Chart = squares.properties(width=side, height=side)
        return alone
    middle = (min(values) + max(values)) / 2
    bright = f"datum.{field} {'<' if field == 'time_us' else '>'} {middle}"
    ink = alt.condition(bright, alt.value(INK), alt.value(PAPER))
    words = base.mark_text(fontSize=6).encode(text=alt.Text(f"{field}:Q", format=".3~r"), color=ink)
    return layered([squares, words], base).properties(width=side, height=side)
