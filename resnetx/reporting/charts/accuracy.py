"""A prediction beside its measurement, as a figure."""

import statistics
from collections.abc import Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.accuracy import Accuracy, CheckedPoint
from resnetx.reporting.charts.figure import AnyChart, Figure, layered, legend_of, log_ticks, panel_grid, si_axis
from resnetx.reporting.charts.styles import QUIET, family_colours
from resnetx.reporting.compare.accuracy import point_words
from resnetx.reporting.table import table_of


class _AccuracyRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch_size: int
    gpus: int
    variant: str
    system: str
    strategy: str
    predicted_ms: float
    predicted_low_ms: float
    predicted_high_ms: float
    measured_ms: float
    measured_low_ms: float
    measured_high_ms: float
    error: float


class _AccuracyMark(_AccuracyRow, frozen=True, kw_only=True):
    description: str


def accuracy_figure(accuracy: Accuracy) -> Figure:
    """Predicted over measured time of an iteration, with both intervals."""
    marks = [mark for point in accuracy.points if (mark := _mark(point))]
    lowest = min(min(mark.predicted_low_ms, mark.measured_low_ms) for mark in marks)
    highest = max(max(mark.predicted_high_ms, mark.measured_high_ms) for mark in marks)
    domain = [lowest / 1.15, highest * 1.15]
    workloads = list(dict.fromkeys(mark.workload for mark in marks))
    strategies = list(dict.fromkeys(mark.strategy for mark in marks))
    systems = list(dict.fromkeys(mark.system for mark in marks))

    def panel(chart: alt.Chart, left: bool, last: bool) -> AnyChart:
        scale = alt.Scale(type="log", domain=domain, nice=False)
        ticks = si_axis(log_ticks(domain, 10), shown=True)
        x = alt.X("measured_ms:Q", title="measured, ms" if last else None, scale=scale, axis=ticks)
        y = alt.Y("predicted_ms:Q", title="predicted, ms" if left else None, scale=scale, axis=ticks)
        colour = alt.Color(
            "workload:N",
            scale=alt.Scale(domain=workloads, range=family_colours(len(workloads))),
            legend=legend_of(workloads),
        )
        shape = alt.Shape("strategy:N", scale=alt.Scale(domain=strategies), legend=legend_of(strategies, orient="top"))
        rule = chart.mark_rule(strokeWidth=0.7, opacity=0.6, aria=False)
        layers = [
            *_band(domain),
            rule.encode(x=x, y=alt.Y("predicted_low_ms:Q"), y2=alt.Y2("predicted_high_ms:Q"), color=colour),
            rule.encode(x=alt.X("measured_low_ms:Q"), x2=alt.X2("measured_high_ms:Q"), y=y, color=colour),
            chart.mark_point(filled=True, size=20, opacity=1).encode(
                x=x, y=y, color=colour, shape=shape, description=alt.Description("description:N")
            ),
        ]
        return layered(layers, chart).properties(width=170, height=170)

    mean = statistics.fmean(abs(mark.error) for mark in marks)
    return Figure(
        name="accuracy",
        title=f"Predicted and measured time of an iteration: {mean:.1%} apart on average",
        caption="Whiskers: prediction interval, and interval or range of the runs. Line: predicted as measured; "
        "dotted: 10 % more and less.",
        table=table_of(marks, _AccuracyRow),
        chart=panel_grid(table_of(marks), "system", systems, 1, panel),
    )


def _mark(point: CheckedPoint) -> _AccuracyMark | None:
    if point.predicted_s is None or point.measured_s is None or point.error is None:
        return None
    low_s, high_s = point.predicted_interval_s or [point.predicted_s, point.predicted_s]
    return _AccuracyMark(
        workload=point.workload,
        batch_size=point.batch_size,
        gpus=point.gpus,
        variant=point.variant,
        system=f"{point.system}, {point.library}",
        strategy=point.strategy,
        predicted_ms=1e3 * point.predicted_s,
        predicted_low_ms=1e3 * low_s,
        predicted_high_ms=1e3 * high_s,
        measured_ms=1e3 * point.measured_s.median,
        measured_low_ms=1e3 * point.measured_s.low,
        measured_high_ms=1e3 * point.measured_s.high,
        error=point.error,
        description=f"{point_words(point)}: {point.error:+.1%}",
    )


def _band(domain: Sequence[float]) -> Iterator[alt.Chart]:
    """The diagonal, and what is a tenth more and less."""
    corners = alt.Chart(alt.sequence(0, 2, as_="end")).transform_calculate(at=f"datum.end ? {domain[1]} : {domain[0]}")
    for factor, dash in ((1.0, [1, 0]), (1.1, [1, 1.5]), (0.9, [1, 1.5])):
        line = corners.transform_calculate(off=f"datum.at * {factor}")
        line = line.mark_line(stroke=QUIET, strokeWidth=0.6, strokeDash=dash, clip=True, aria=False)
        yield line.encode(x=alt.X("at:Q"), y=alt.Y("off:Q"))
