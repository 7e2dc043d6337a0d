"""Figures of predictions: speed-up over GPUs, and where the time of each of them goes.

The first has the form of Shi et al. 2018, Fig. 2 to 4: a panel for each workload, a line for each system, framework or
whatever else differs, dotted the ideal. The second has a bar for each number of GPUs, whose parts sum to the step.
"""

from collections.abc import Sequence

from resnetx.record.machine import how_many
from resnetx.record.prediction import PartName, PredictedPoint
from resnetx.reporting.charts.figure import INK, PART_COLOURS, QUIET, Figure
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure
from resnetx.reporting.charts.system_rates import dash_looks, system_looks
from resnetx.reporting.predicted_answer import PARTS, PredictedCurve, identity, predicted_curves
from resnetx.table import Record, Table
from resnetx.units import si, to_interval

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


def prediction_figures(points: Sequence[PredictedPoint]) -> list[Figure]:
    """The figures that there is something to show in."""
    if len(points) > MOST_POINTS:
        return []
    curves = predicted_curves(points)
    lines = [name for name in identity(curves) if name not in ("workload", "batch")]
    figures = []
    if marks := [mark for curve in curves for mark in _marks(curve, lines)]:
        figures.append(_speedups(marks))
    if bars := [bar for curve in curves for bar in _bars(curve, lines)]:
        figures.append(_parts(bars))
    return figures


def _marks(curve: PredictedCurve, lines: Sequence[str]) -> list[Record]:
    able = [point for point in curve.able if point.speedup and point.baseline_gpus]
    if len(able) < 2:
        return []
    others = [name for name in lines if name != "system"]
    line = {"line": curve.system, "kind": ", ".join(getattr(curve, name) for name in others)}
    if "system" not in lines and others:
        line = {"line": line["kind"], "kind": ""}
    return [{"panel": _panel(curve), **line, **_figures_of(point)} for point in able]


def _panel(curve: PredictedCurve) -> str:
    return f"{curve.workload}, batch {curve.batch}"


def _figures_of(point: PredictedPoint) -> Record:
    assert point.speedup and point.baseline_gpus and point.images_per_s, "only points with a speed-up"
    low, high = point.speedup_interval or (point.speedup, point.speedup)
    value, least, most = to_interval(point.speedup, low, high) if low < high else (f"{point.speedup:.3g}", "", "")
    ends = f" ({least} to {most})" if least else ""
    return {
        "gpus": point.gpus,
        "images_per_s": point.images_per_s,
        "speedup": point.speedup,  # over `baseline_gpus`
        "speedup_low": low,
        "speedup_high": high,
        "ideal": point.gpus / point.baseline_gpus,
        "baseline_gpus": point.baseline_gpus,
        "description": f"{how_many(point.gpus, 'GPU')}: {value} times{ends}, {si(point.images_per_s)} images/s",
    }


def _bars(curve: PredictedCurve, lines: Sequence[str]) -> list[Record]:
    words = ", ".join(filter(None, [_panel(curve), ", ".join(getattr(curve, name) for name in lines) or curve.system]))
    return [
        {"panel": words, "gpus": point.gpus, "part": PARTS[part.name], "share": part.share,
         "place": list(_COLOURS).index(part.name),
         "description": f"{how_many(point.gpus, 'GPU')}: {PARTS[part.name]} {part.share:.1%} of the step"}
        for point in curve.able
        for part in point.parts
        if part.share > 0
    ]  # fmt: skip


# ---- drawn


def _speedups(marks: Sequence[Record]) -> Figure:
    lines, kinds = (list(dict.fromkeys(str(mark[name]) for mark in marks)) for name in ("line", "kind"))
    plot = Plot(
        x=Axis("gpus", "GPUs", "log2", ticks=sorted({int(str(mark["gpus"])) for mark in marks})),
        y=Axis("speedup", "speed-up", "log2", "si"),
        marks=(
            Mark("line", column="ideal", colour=QUIET, look={"strokeDash": [0.6, 1.8], "strokeWidth": 0.8}),
            Mark("line"),
            Mark("whiskers"),
            Mark("dots"),
        ),
        colour=Scale("line", system_looks(lines)),
        dash=Scale("kind", dash_looks(kinds)) if len(kinds) > 1 else None,
        detail=("line", "kind"),
        panel="panel",
        columns=3,
        height=HEIGHT,
        chart_only=("description",),
    )
    over = {mark["baseline_gpus"] for mark in marks}
    base = "one GPU" if over == {1} else "the fewest GPUs that can run it"
    caption = "Whiskers: what nine of ten measurements should lie within. Dotted: ideal. After Shi et al. 2018."
    return figure("speedups", f"Predicted speed-up over {base}", caption, _table(marks), plot)


def _parts(bars: Sequence[Record]) -> Figure:
    there = {bar["part"] for bar in bars}
    shown = {PARTS[name]: colour for name, colour in _COLOURS.items() if PARTS[name] in there}
    plot = Plot(
        x=Axis("gpus", "GPUs", "steps", order=sorted({int(str(bar["gpus"])) for bar in bars})),
        y=Axis("share", "share of the step", labels="percent", ticks=(0, 0.5, 1), domain=(0, 1)),
        marks=(Mark("bars"),),
        colour=Scale("part", shown),
        stacked="place",
        panel="panel",
        columns=3,
        height=80,
        chart_only=("place", "description"),
    )
    caption = "Parts of the predicted step. Useful: what linear scaling leaves of the step that speed-ups are over."
    return figure("parts", "Where the time of each GPU goes", caption, _table(bars), plot)


def _table(rows: Sequence[Record]) -> Table:
    columns = list(rows[0])
    return Table(columns, [[row[column] for column in columns] for row in rows])
