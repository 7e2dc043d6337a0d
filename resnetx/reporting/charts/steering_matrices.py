"""Figures of a steering: its traffic and the units before and after as heat maps (Anderson et al. 2018, Fig. 2).

Rows receive and columns send, as in the paper.
"""

from collections.abc import Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.steering import Steering
from resnetx.reporting.charts.figure import COLUMN, AnyChart, Figure, layered, styled
from resnetx.reporting.charts.styles import INK, PAPER
from resnetx.reporting.table import table_of

_MOST_LABELLED = 10  # GPUs, of which each square has its figure written in it
_PANELS = 3
_LEAST_WRITTEN = 0.005  # less is written as nothing: two decimals fit a square


class SteeringMark(msgspec.Struct, frozen=True, kw_only=True):
    """One square of a panel."""

    panel: str
    target: int  # receives
    source: int  # sends
    value: float


def matrices(made: Steering) -> Figure:
    """The traffic, over its largest pair, and the bandwidth units before and after, side by side."""
    saved = "" if made.rtl_saved is None else f": total RTL {made.rtl_saved:.1%} less"
    panels: dict[str, Sequence[Sequence[float]]] = {
        "traffic": made.traffic,
        "units as built": made.connectivity_before,
        "units steered": made.connectivity_after,
    }
    marks = {name: list(_marks(name, matrix)) for name, matrix in panels.items()}
    most = max(each.value for name, found in marks.items() if name != "traffic" for each in found)
    charts = [
        _squares(name, 1 if name == "traffic" else most, len(made.traffic), place == 0)
        for place, name in enumerate(panels)
    ]
    tables = {name: [msgspec.to_builtins(each) for each in found] for name, found in marks.items()}
    return Figure(
        name="steering",
        title=f"{made.system}{saved}",
        caption="Rows receive, columns send. Traffic is over the largest of any pair; a unit is a lane one way.",
        table=table_of([each for found in marks.values() for each in found], SteeringMark),
        chart=styled(alt.hconcat(*charts, spacing=6).resolve_scale(color="independent"), tables),
    )


def _marks(name: str, matrix: Sequence[Sequence[float]]) -> Iterator[SteeringMark]:
    for target, row in enumerate(matrix):
        for source, value in enumerate(row):
            yield SteeringMark(panel=name, target=target, source=source, value=value)


def _squares(name: str, largest: float, gpus: int, leftmost: bool) -> AnyChart:
    side = (COLUMN - 30) // _PANELS
    base = alt.Chart(alt.NamedData(name), title=name).encode(
        x=alt.X("source:O", title="from", axis=alt.Axis(orient="bottom", labelAngle=0, grid=False)),
        y=alt.Y("target:O", title="to" if leftmost else None, axis=alt.Axis(grid=False, labels=leftmost)),
    )
    scale = alt.Scale(scheme="viridis", domain=[0, largest], nice=False)
    squares = base.mark_rect(stroke=PAPER, strokeWidth=0.5).encode(
        color=alt.Color("value:Q", scale=scale, legend=None),
        tooltip=[alt.Tooltip("target:O"), alt.Tooltip("source:O"), alt.Tooltip("value:Q", format=".3g")],
    )
    if gpus > _MOST_LABELLED:
        alone: alt.Chart = squares.properties(width=side, height=side)
        return alone
    ink = alt.condition(f"datum.value > {largest / 2}", alt.value(INK), alt.value(PAPER))
    shown = base.transform_filter(f"datum.value >= {_LEAST_WRITTEN}")
    words = shown.mark_text(fontSize=4.5).encode(text=alt.Text("value:Q", format=".2~f"), color=ink)
    return layered([squares, words], base).properties(width=side, height=side)
