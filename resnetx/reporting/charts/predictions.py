"""Timelines of predicted iterations: what runs when, in lanes; the systems of one point below each other."""

import dataclasses
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record.comparison import Accuracy, CheckedPoint
from resnetx.record.machine import how_many, unit_by_library
from resnetx.record.prediction import PredictedPoint, PredictedTask
from resnetx.reporting.charts.figure import (
    BARS,
    CHARACTER,
    COLUMN,
    PAPER,
    QUIET,
    AnyChart,
    Figure,
    family_colours,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
)
from resnetx.reporting.compare.accuracy import point_words
from resnetx.reporting.table import table_of
from resnetx.units import si

LANES = ("input", "copies", "compute", "collectives", "host")
LANE_HEIGHT = 17
_OF_COMPUTE = ("forward", "backward", "update")


class _BarRow(msgspec.Struct, frozen=True, kw_only=True):
    system: str
    library: str
    name: str
    lane: str
    part: str
    start_ms: float
    end_ms: float


class _Bar(_BarRow, frozen=True, kw_only=True):
    panel: str
    label: str
    label_length: int  # characters
    width_ms: float
    description: str


def timelines(points: Sequence[PredictedPoint]) -> list[Figure]:
    """A figure for each point that has a timeline, with a panel for each system and library."""
    groups: dict[tuple[str, int, int, str], list[PredictedPoint]] = defaultdict(list)
    for point in points:
        if point.timeline:
            variant = repr((point.precision, point.request.strategy if point.request else point.strategy))
            groups[point.workload, point.batch_size, point.gpus, variant].append(point)
    return list(_with_own_names(map(_timeline, groups.values())))


def _with_own_names(figures: Iterable[Figure]) -> Iterator[Figure]:
    """The figures under different names: points may differ in settings that are not in their names."""
    names: Counter[str] = Counter()
    for figure in figures:
        names[figure.name] += 1
        number = "" if names[figure.name] == 1 else f"-{names[figure.name]}"
        yield dataclasses.replace(figure, name=f"{figure.name}{number}")


def _timeline(points: Sequence[PredictedPoint]) -> Figure:
    first = points[0]
    bars = [_bar(point, task) for point in points for task in point.timeline]
    panels = list(dict.fromkeys(bar.panel for bar in bars))
    lanes = [lane for lane in LANES if any(bar.lane == lane for bar in bars)]
    kinds = [kind for kind in BARS if any(bar.part == kind for bar in bars)]
    latest_ms = max(bar.end_ms for bar in bars)
    width = COLUMN - 46

    def panel(chart: alt.Chart, _: bool, last: bool) -> AnyChart:
        chart = chart.properties(width=width, height=LANE_HEIGHT * len(lanes))
        x = alt.X(
            "start_ms:Q",
            title="ms of one iteration" if last else None,
            scale=alt.Scale(domain=[0, latest_ms], nice=False),
            axis=alt.Axis(tickCount=6, labels=last, ticks=last),
        )
        y = alt.Y(
            "lane:N",
            title=None,
            scale=alt.Scale(domain=lanes, paddingInner=0.25, paddingOuter=0.15),
            axis=alt.Axis(grid=False, ticks=False, labelPadding=4),
        )
        scale = alt.Scale(domain=kinds, range=[BARS[kind] for kind in kinds])
        colour = alt.Color("part:N", scale=scale, legend=legend_of(kinds, symbolType="square"))
        rectangles = chart.mark_bar(stroke=PAPER, strokeWidth=0.2, height=alt.RelativeBandSize(1.0))
        fits = f"datum.width_ms * {width} / {latest_ms} > datum.label_length * {CHARACTER}"
        labels = chart.transform_filter(fits).transform_calculate(middle="(datum.start_ms + datum.end_ms) / 2")
        layers = [
            rectangles.encode(
                x=x, x2=alt.X2("end_ms:Q"), y=y, color=colour, description=alt.Description("description:N")
            ),
            labels.mark_text(fontSize=5.5, color=PAPER, aria=False).encode(
                x=alt.X("middle:Q"), y=y, text=alt.Text("label:N")
            ),
        ]
        return layered(layers, chart)

    batch = f"batch {first.batch_size}, {how_many(first.gpus, unit_by_library(first.library))}"
    name = re.sub(r"[^\w.]+", "-", f"timeline-{first.workload}-b{first.batch_size}-g{first.gpus}-{first.strategy}")
    return Figure(
        name=f"{name}-{first.precision}".lower(),
        title=f"One predicted iteration of {first.workload}, {batch}, {first.strategy}",
        caption="One steady iteration of one rank; lanes that it shares with no other bar run at the same time. Input "
        "and copies are those of the batches to come.",
        table=table_of(bars, _BarRow),
        chart=panel_grid(table_of(bars), "panel", panels, 1, panel),
    )


def _bar(point: PredictedPoint, task: PredictedTask) -> _Bar:
    label = task.name.partition(" ")[2] or task.name
    return _Bar(
        system=point.system,
        library=point.library,
        name=task.name,
        lane=task.lane,
        part=_part(task),
        start_ms=1e3 * task.start_s,
        end_ms=1e3 * task.end_s,
        panel=f"{point.system} with {point.library}",
        label=label,
        label_length=len(label),
        width_ms=1e3 * (task.end_s - task.start_s),
        description=f"{task.name}: {si(1e3 * task.start_s)} to {si(1e3 * task.end_s)} ms",
    )


def _part(task: PredictedTask) -> str:
    """What a bar's colour says: the kind of compute, or its lane."""
    if task.lane != "compute":
        return task.lane
    word = task.name.partition(" ")[0]
    return word if word in _OF_COMPUTE else "other compute"


# A prediction beside its measurement, as a figure.


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
