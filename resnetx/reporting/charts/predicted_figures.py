"""Figures of predictions: speed-up over GPUs, and where the time of each of them goes.

The first has the form of Shi et al. 2018, Fig. 2 to 4: a panel for each workload, a line for each system, framework or
whatever else differs, dotted the ideal. The second has a bar for each number of GPUs, whose parts sum to the step.
"""

from collections.abc import Sequence

import altair as alt
import msgspec

from resnetx.record.prediction import PartName, PredictedPoint
from resnetx.reporting.charts.figure import (
    COLUMN,
    INK,
    PART_COLOURS,
    QUIET,
    SYSTEMS,
    AnyChart,
    Figure,
    gpus_axis,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
)
from resnetx.reporting.predicted_answer import PARTS, PredictedCurve, identity, predicted_curves
from resnetx.reporting.table import table_of

MOST_POINTS = 2000  # of which figures are drawn: of more, no panel shows what the table does not
HEIGHT = 110
_COLOURS: dict[PartName, str] = {
    "useful": "#1f6f8b",
    "communication": "#e4572e",
    "smaller batches": "#c3c9d0",
    "launching": "#e2c6d8",
    "waiting": "#6b747d",
    "input": "#7b5ea7",
    "host": PART_COLOURS["host"],
    "unexplained": INK,
}


class SpeedupMark(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted point."""

    panel: str  # workload and batch
    line: str  # what else tells it from others
    gpus: int
    images_per_s: float
    speedup: float  # over `baseline_gpus`
    speedup_low: float
    speedup_high: float
    ideal: float
    baseline_gpus: int


class PartBar(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the step of a predicted point."""

    panel: str
    gpus: int
    part: str
    share: float
    place: int  # in the order of all bars


def prediction_figures(points: Sequence[PredictedPoint]) -> list[Figure]:
    """The figures that there is something to show in."""
    if len(points) > MOST_POINTS:
        return []
    curves = predicted_curves(points)
    lines = [name for name in identity(curves) if name not in ("workload", "batch")]
    found = []
    if marks := [mark for curve in curves for mark in _marks(curve, lines)]:
        found.append(_speedups(marks))
    if bars := [bar for curve in curves for bar in _bars(curve, lines)]:
        found.append(_parts(bars))
    return found


def _marks(curve: PredictedCurve, lines: Sequence[str]) -> list[SpeedupMark]:
    able = [point for point in curve.able if point.speedup and point.baseline_gpus]
    if len(able) < 2:
        return []
    return [_mark(point, _panel(curve), _line(curve, lines)) for point in able]


def _panel(curve: PredictedCurve) -> str:
    return f"{curve.workload}, batch {curve.batch}"


def _line(curve: PredictedCurve, lines: Sequence[str]) -> str:
    return ", ".join(getattr(curve, name) for name in lines) or curve.system


def _mark(point: PredictedPoint, panel: str, line: str) -> SpeedupMark:
    assert point.speedup and point.baseline_gpus and point.images_per_s, "only points with a speed-up"
    low, high = point.speedup_interval or (point.speedup, point.speedup)
    return SpeedupMark(
        panel=panel,
        line=line,
        gpus=point.gpus,
        images_per_s=point.images_per_s,
        speedup=point.speedup,
        speedup_low=low,
        speedup_high=high,
        ideal=point.gpus / point.baseline_gpus,
        baseline_gpus=point.baseline_gpus,
    )


def _bars(curve: PredictedCurve, lines: Sequence[str]) -> list[PartBar]:
    words = ", ".join(filter(None, [_panel(curve), _line(curve, lines)]))
    return [
        PartBar(panel=words, gpus=point.gpus, part=part.name, share=part.share, place=list(_COLOURS).index(part.name))
        for point in curve.able
        for part in point.parts
        if part.share > 0
    ]


# ---- drawn


def _speedups(marks: Sequence[SpeedupMark]) -> Figure:
    panels, lines = (list(dict.fromkeys(getattr(mark, name) for mark in marks)) for name in ("panel", "line"))
    columns = min(len(panels), 3)
    colours = [SYSTEMS[place % len(SYSTEMS)] for place in range(len(lines))]
    legend = legend_of(lines, symbolType="stroke", symbolStrokeWidth=1.5)
    colour = alt.Color("line:N", scale=alt.Scale(domain=lines, range=colours), legend=legend)
    ends = [value for mark in marks for value in (mark.speedup_low, mark.speedup_high, mark.ideal)]
    domain = [min(ends) / 1.1, max(ends) * 1.1]
    ticks = log_ticks(domain, 2)

    def panel(chart: alt.Chart, left: bool, last: bool) -> AnyChart:
        scale = alt.Scale(type="log", base=2, domain=domain, nice=False)
        y = alt.Y("speedup:Q", title="speed-up" if left else None, scale=scale, axis=si_axis(ticks, left))
        chart = chart.properties(width=(COLUMN - 30 - 8 * columns) // columns, height=HEIGHT)
        chart = chart.encode(x=gpus_axis((mark.gpus for mark in marks), last))
        ideal = chart.mark_line(strokeWidth=0.6, stroke=QUIET, strokeDash=[0.6, 1.8]).encode(y=alt.Y("ideal:Q"))
        whisker = chart.mark_rule(strokeWidth=0.8, opacity=0.5)
        whisker = whisker.encode(y=alt.Y("speedup_low:Q"), y2=alt.Y2("speedup_high:Q"), color=colour)
        line = chart.mark_line(strokeWidth=1.1).encode(y=y, color=colour)
        dots = chart.mark_point(filled=True, size=14, opacity=1).encode(
            y=y, color=colour, tooltip=["line:N", "gpus:Q", alt.Tooltip("speedup:Q", format=".3g"), "images_per_s:Q"]
        )
        return layered([ideal, line, whisker, dots], chart)

    over = {mark.baseline_gpus for mark in marks}
    base = "one GPU" if over == {1} else "the fewest GPUs that can run it"
    return Figure(
        name="speedups",
        title=f"Predicted speed-up over {base}",
        caption="Whiskers: what nine of ten measurements should lie within. Dotted: ideal. After Shi et al. 2018, "
        "Fig. 2 to 4.",
        table=table_of(marks),
        chart=panel_grid(table_of(marks), "panel", panels, columns, panel),
    )


def _parts(bars: Sequence[PartBar]) -> Figure:
    panels, gpus = list(dict.fromkeys(bar.panel for bar in bars)), sorted({bar.gpus for bar in bars})
    columns = min(len(panels), 3)
    shown = [name for name in _COLOURS if any(bar.part == name for bar in bars)]
    scale = alt.Scale(domain=shown, range=[_COLOURS[name] for name in shown])
    words = " : ".join(f"datum.value == '{name}' ? '{PARTS[name]}'" for name in shown)
    legend = legend_of([PARTS[name] for name in shown], symbolType="square", labelExpr=f"{words} : ''")

    def panel(chart: alt.Chart, left: bool, last: bool) -> alt.Chart:
        x = alt.X("gpus:O", title="GPUs" if last else None, scale=alt.Scale(domain=gpus), axis=alt.Axis(labelAngle=0))
        y = alt.Y(
            "share:Q",
            title="share of the step" if left else None,
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", values=[0, 0.5, 1], labels=left, ticks=left),
        )
        bars = chart.properties(width=(COLUMN - 40 - 8 * columns) // columns, height=80).mark_bar()
        encoded: alt.Chart = bars.encode(
            x=x,
            y=y,
            color=alt.Color("part:N", scale=scale, legend=legend),
            order=alt.Order("place:Q"),
            tooltip=["gpus:O", "part:N", alt.Tooltip("share:Q", format=".1%")],
        )
        return encoded

    return Figure(
        name="parts",
        title="Where the time of each GPU goes",
        caption="Parts of the predicted step. Useful: what linear scaling leaves of the step that speed-ups are over.",
        table=table_of(bars),
        chart=panel_grid(table_of(bars), "panel", panels, columns, panel),
    )
