"""The figure of who leads: the margin of one system over another at each point, over intensity."""

import math
from collections.abc import Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.system_comparison import Estimate, SystemPoint
from resnetx.reporting.charts.figure import COLUMN, AnyChart, Figure, layered, legend_of, log_ticks, panel_grid, si_axis
from resnetx.reporting.charts.styles import BASELINE, INK, PAPER, QUIET, SYSTEMS
from resnetx.reporting.charts.system_encodings import point_words
from resnetx.reporting.systems.rate_ratios import lead, over
from resnetx.reporting.table import table_of

INTENSITY = "activations_per_parameter_per_gpu"


class _MarginRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch_size: int
    gpus: int
    variant: str
    library: str
    activations_per_parameter_per_gpu: float
    margin: Estimate
    lead: str


class _MarginMark(_MarginRow, frozen=True, kw_only=True):
    panel: str
    description: str


def margins_over_intensity(points: Sequence[SystemPoint], a: str, b: str) -> Figure:
    """The margin of system `a` over system `b`; points on one GPU send nothing and are left out."""
    marks = [mark for point in points if (mark := _mark(point, a, b))]
    panels = list(dict.fromkeys(mark.panel for mark in marks))
    ends = [end for mark in marks for end in (mark.margin.low, mark.margin.high)]
    domain = [min(0.99, *ends) / 1.01, max(1.01, *ends) * 1.01]
    intensities = [mark.activations_per_parameter_per_gpu for mark in marks]
    x_domain = [min(intensities) / 1.5, max(intensities) * 1.5]
    columns = min(2, len(panels))
    fill, shape = _fill(a, b), _shape(sorted({mark.gpus for mark in marks}))

    def panel(chart: alt.Chart, left: bool, last: bool) -> AnyChart:
        chart = chart.properties(width=(COLUMN - 34 - 8 * columns) // columns, height=120)
        x = alt.X(
            f"{INTENSITY}:Q",
            title="activations/parameter/GPU" if last else None,
            scale=alt.Scale(type="log", domain=x_domain, nice=False),
            axis=si_axis(log_ticks(x_domain, 10), last),
        )
        y = alt.Y(
            "margin:Q",
            title=f"{a} over {b}" if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(values=_ticks(domain), labelExpr="format(datum.value - 1, '+.0%')", labels=left),
        )
        return layered(_layers(chart, x, y, fill, shape), chart)

    return Figure(
        name="lead",
        title=f"{a} over {b}, by work over communication",
        caption="How much faster, over intensity; whiskers: its interval. White: the interval holds no difference; "
        "light blue: less than half a percent. Points on one GPU send nothing and are left out.",
        table=table_of(marks, _MarginRow),
        chart=panel_grid(table_of(marks), "panel", panels, columns, panel),
    )


def _mark(point: SystemPoint, a: str, b: str) -> _MarginMark | None:
    margin = over(point, a, b)
    if margin is None or not point.intensity_per_gpu or point.gpus == 1:
        return None
    kind = lead(margin) if lead(margin) != "ahead" else f"{a if margin.value > 1 else b} ahead"
    ends = f"{margin.low - 1:+.1%} to {margin.high - 1:+.1%}"
    return _MarginMark(
        workload=point.workload,
        batch_size=point.batch_size,
        gpus=point.gpus,
        variant=point.variant,
        library=point.library,
        activations_per_parameter_per_gpu=point.intensity_per_gpu,
        margin=margin,
        lead=kind,
        panel=", ".join(filter(None, [point.library, point.variant])),
        description=f"{point_words(point)}: {margin.value - 1:+.1%} ({ends}), {kind}",
    )


# ---- drawing --------------------------------------------------------------------------------------------------------


def _layers(chart: alt.Chart, x: alt.X, y: alt.Y, fill: alt.Fill, shape: alt.Shape) -> Iterator[alt.Chart]:
    """The line of no difference, whiskers, and a mark for each point."""
    level = alt.Chart(alt.sequence(0, 1)).mark_rule(stroke=QUIET, strokeWidth=0.7, aria=False)
    yield level.encode(y=alt.YDatum(1))
    whisker = chart.mark_rule(strokeWidth=0.7, opacity=0.5, stroke=QUIET, aria=False)
    yield whisker.encode(x=x, y=alt.Y("margin_low:Q"), y2=alt.Y2("margin_high:Q"))
    dots = chart.mark_point(size=15, stroke=INK, strokeWidth=0.4, opacity=1)
    yield dots.encode(x=x, y=y, fill=fill, shape=shape, description=alt.Description("description:N"))


def _fill(a: str, b: str) -> alt.Fill:
    kinds = [f"{a} ahead", f"{b} ahead", "open", "level"]
    scale = alt.Scale(domain=kinds, range=[*SYSTEMS[:2], PAPER, BASELINE])
    return alt.Fill("lead:N", scale=scale, legend=legend_of(kinds, symbolStrokeColor=INK, symbolType="circle"))


def _shape(gpus: Sequence[int]) -> alt.Shape:
    legend = legend_of(
        [f"{count} GPUs" for count in gpus],
        labelExpr="datum.label + ' GPUs'",
        orient="top",
        symbolFillColor=PAPER,
        symbolStrokeColor=INK,
    )
    return alt.Shape("gpus:O", scale=alt.Scale(domain=list(gpus)), legend=legend)


def _ticks(domain: Sequence[float]) -> list[float]:
    """Ticks at round percentages: the finest step that leaves at most nine of them."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0):
        first, last = math.ceil((domain[0] - 1) / step), math.floor((domain[1] - 1) / step)
        ticks = [1 + step * place for place in range(first, last + 1)]
        if len(ticks) <= 9:
            return ticks
    return [1.0]
