"""The figures of a report of studies: workloads, points, rates, speed-ups, and what limits them.

The forms are those of Tallent et al. 2017, Fig. 6, 7, 12 and 13. Nothing is drawn that was not measured: a line has a
gap where a point is missing, and a word at the foot of the panel says why (`scaling`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import altair as alt
import msgspec

from resnetx.record import Workload
from resnetx.record.machine import Unit
from resnetx.reporting.charts.figure import (
    BASELINE,
    CHARACTER,
    COLUMN,
    EFFICIENCY,
    HOLLOW,
    INK,
    PART_COLOURS,
    WORD_HEIGHT,
    Figure,
    SeriesStyles,
    layered,
    legend_of,
    panel_grid,
    styled,
)
from resnetx.reporting.charts.scaling import (
    has_speedup,
    log_y,
    meanings,
    outcome,
    rates,
    span,
    speedups,
    word,
    workload_colour,
    workload_shape,
)
from resnetx.reporting.study.points import StudyPoint, batch_category, unit_of_points
from resnetx.reporting.study.scaling import PARTS, Limits
from resnetx.reporting.table import table_of
from resnetx.units import si


def figures(points: Sequence[StudyPoint]) -> list[Figure]:
    """Every figure that the points have something to show in."""
    styles = SeriesStyles(points)
    made = list(_of_intensity(points, styles))
    if any(point.result.images_per_s for point in points):
        made.append(rates(points, styles))
        if any(map(has_speedup, points)):
            made.append(speedups(points, styles))
        made.append(step_shares(points, styles))
    return made


def _of_intensity(points: Sequence[StudyPoint], styles: SeriesStyles) -> Iterator[Figure]:
    """Two figures for each convention by which activations and parameters were counted."""
    # An old study may hold an empty batch, which has no place on a log axis.
    working = [(point, point.counts) for point in points if point.counts and point.counts.activations_per_batch > 0]
    conventions = sorted({counts.convention for _, counts in working})
    for convention in conventions:
        counted = [(point, counts) for point, counts in working if counts.convention == convention]
        suffix = "" if len(conventions) == 1 else f"-{convention}"
        yield batch_intensities(counted, styles, convention, suffix)
        yield intensity_space(counted, styles, convention, suffix)


# Figures of intensity, work over communication: of the workloads' batches, and of all points with their efficiency.
#
# The forms are those of Tallent et al. 2017, Fig. 6 and 7.

Counted = Sequence[tuple[StudyPoint, Workload]]  # points with their counts, by one convention

# ---- batches --------------------------------------------------------------------------------------------------------


class _BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch: str
    batch_category: int
    activations_per_batch: int
    activations_per_parameter: float


class _BatchMark(_BatchRow, frozen=True, kw_only=True):
    description: str


def batch_intensities(counted: Counted, styles: SeriesStyles, convention: str, suffix: str) -> Figure:
    """Work, and work over communication, by batch category."""
    marks = _batches(counted)
    x = alt.X("batch_category:O", title="batch category", axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.5))
    base = alt.Chart(alt.NamedData("all"), width=78, height=130).encode(x=x, color=workload_colour(styles))
    work, intensity = "activations_per_batch", "activations_per_parameter"
    panels = []
    for field in (work, intensity):
        values = [getattr(mark, field) for mark in marks]
        y = log_y(values, field, f"{field.replace('_', ' ')} ({convention})", 130)
        line = base.mark_line(strokeWidth=0.75, opacity=0.6, aria=False).encode(y=y)
        dots = base.mark_point(filled=True, size=22, opacity=1)
        dots = dots.encode(y=y, shape=workload_shape(styles), description=alt.Description("description:N"))
        panels.append(layered([line, dots], base))
    return Figure(
        name=f"intensity{suffix}",
        title=f"The workloads: {span(mark.activations_per_parameter for mark in marks)} activations per parameter, "
        f"{span(mark.activations_per_batch for mark in marks)} per batch",
        caption="Work of a batch (left) and its work over communication (right), by batch category: 1 is the smallest "
        f"batch that a workload has here. Counted by the {convention} convention. After Tallent et al. 2017, Fig. 6.",
        table=table_of(marks, _BatchRow),
        chart=styled(alt.hconcat(*panels, spacing=8), {"all": table_of(marks).records()}),
    )


def _batches(counted: Counted) -> list[_BatchMark]:
    """One mark for each batch of each workload; with weak scaling a batch is one on each number of GPUs."""
    points = [point for point, _ in counted]
    most_gpus_first = sorted(counted, key=lambda pair: pair[0].gpus, reverse=True)
    distinct = {(point.workload, point.batch): (point, counts) for point, counts in most_gpus_first}
    return [_batch(point, counts, batch_category(point, points)) for point, counts in distinct.values()]


def _batch(point: StudyPoint, counts: Workload, category: int) -> _BatchMark:
    work, intensity = si(counts.activations_per_batch), si(counts.intensity)
    return _BatchMark(
        workload=point.workload,
        batch=point.batch,
        batch_category=category,
        activations_per_batch=counts.activations_per_batch,
        activations_per_parameter=counts.intensity,
        description=f"{point.workload}, {point.batch}: {work} activations, {intensity} per parameter",
    )


# ---- points ---------------------------------------------------------------------------------------------------------


class _PointRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch: str
    variant: str
    gpus: int
    activations_per_parameter_per_gpu: float
    efficiency: float | None
    shown_as: str


class _PointMark(_PointRow, frozen=True, kw_only=True):
    description: str


def intensity_space(counted: Counted, styles: SeriesStyles, convention: str, suffix: str) -> Figure:
    """Every point in intensity space, by the parallel efficiency that was measured there."""
    marks = [_point(point, counts) for point, counts in counted]
    fill, hollow = _efficiency_fill(marks)
    gpus = sorted({mark.gpus for mark in marks})
    height = 170 if len(styles.variants) == 1 else 100
    intensities = [mark.activations_per_parameter_per_gpu for mark in marks]
    unit = unit_of_points(point for point, _ in counted)
    title = f"activations per parameter per {unit} ({convention})"
    y = log_y(intensities, "activations_per_parameter_per_gpu", title, height)

    def panel(chart: alt.Chart, _: bool, last: bool) -> alt.Chart:
        axis = alt.Axis(labelAngle=0, tickBand="extent", grid=True, labels=last, ticks=last)
        chart = chart.properties(width=COLUMN - 42, height=height)
        encoded: alt.Chart = chart.mark_point(size=26, stroke=INK, strokeWidth=0.5, opacity=1).encode(
            x=alt.X(
                "gpus:O", title=f"{unit}s" if last else None, axis=axis, scale=alt.Scale(domain=gpus, padding=0.25)
            ),
            xOffset=alt.XOffset("workload:N", scale=alt.Scale(domain=styles.workloads)),
            y=y,
            shape=workload_shape(styles, legend_of(styles.workloads, symbolStrokeColor=INK, symbolFillColor=INK)),
            fill=fill,
            description=alt.Description("description:N"),
        )
        return encoded

    return Figure(
        name=f"located{suffix}",
        title=f"The points: {span(intensities)} activations per parameter on each {unit}",
        caption="Work over communication of every point, and the parallel efficiency measured there. On each number of "
        f"{unit}s the workloads are side by side in the order of the legend, each with its batches one above the "
        f"other. {hollow}Counted by the {convention} convention. After Tallent et al. 2017, Fig. 7.",
        table=table_of(marks, _PointRow),
        chart=panel_grid(table_of(marks), "variant", styles.variants, 1, panel),
    )


def _efficiency_fill(marks: Sequence[_PointMark]) -> tuple[alt.Fill, str]:
    """The colours of the efficiencies that there are, and what the caption says of hollow marks."""
    colours = {name: colour for name, (_, colour) in EFFICIENCY.items()}
    colours |= {"the baseline": BASELINE, "not measured": HOLLOW}
    classes = [name for name in colours if any(mark.shown_as == name for mark in marks)]
    legend = legend_of(
        classes,
        title="parallel efficiency",
        orient="top",
        symbolType="circle",
        symbolSize=34,
        symbolStrokeColor=INK,
        symbolStrokeWidth=0.5,
    )
    scale = alt.Scale(domain=classes, range=[colours[name] for name in classes])
    hollow = "Hollow: not measured; the table says why. " * ("not measured" in classes)
    return alt.Fill("shown_as:N", scale=scale, legend=legend), hollow


def _point(point: StudyPoint, counts: Workload) -> _PointMark:
    efficiency = point.result.efficiency
    return _PointMark(
        workload=point.workload,
        batch=point.batch,
        variant=point.variant,
        gpus=point.gpus,
        activations_per_parameter_per_gpu=counts.intensity / point.gpus,
        efficiency=efficiency.median if efficiency else None,
        shown_as=_efficiency_class(point),
        description=f"{point.words}: {_efficiency_words(point)}",
    )


def _efficiency_class(point: StudyPoint) -> str:
    efficiency = point.result.efficiency
    if efficiency is None:
        return "not measured"
    if not has_speedup(point):
        return "the baseline"
    return next(name for name, (bound, _) in EFFICIENCY.items() if efficiency.median < bound)


def _efficiency_words(point: StudyPoint) -> str:
    if point.result.efficiency is None:
        return outcome(point)
    return f"efficiency {point.result.efficiency.median:.0%} over {point.result.baseline}"


# The figure of what limits points: how much of its step each part of the work takes.


class _ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of one point's step; no part and no share where the point has no rate."""

    workload: str
    batch: str
    variant: str
    gpus: int
    part: str | None
    share: float | None


class _ShareBar(_ShareRow, frozen=True, kw_only=True):
    panel: str
    word: str | None
    description: str | None


def step_shares(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """What the step of every point is spent on."""
    bars = [bar for point in styles.in_order(points) for bar in _bars(point)]
    panels = list(dict.fromkeys(bar.panel for bar in bars))
    longest = max(len(line) for panel in panels for line in panel.split(", "))
    columns = max(1, min(4, len(panels), int((COLUMN - 36) // (CHARACTER * longest + 2))))
    width = (COLUMN - 52 - 7 * (max(2, columns) - 1)) // max(2, columns)
    scales = _scales(bars, unit_of_points(points))

    def panel(chart: alt.Chart, left: bool, last: bool) -> alt.LayerChart:
        return _panel(chart.properties(width=width, height=38), scales, left, last)

    return Figure(
        name="limits",
        title=f"What limits the points: {_verdicts(points)}",
        caption="Shares of the time of a step, by what it gets shorter without its input or without exchanging "
        "gradients, and by the time in which no kernel runs; the rest is computing."
        f"{_not_separate(points)}{meanings(points)}",
        table=table_of(bars, _ShareRow),
        chart=panel_grid(table_of(bars), "panel", panels, columns, panel),
    )


# ---- data -----------------------------------------------------------------------------------------------------------


def _bars(point: StudyPoint) -> Iterator[_ShareBar]:
    """A bar for each part of a point's step, or the word that stands in their place."""
    limits = point.result.limits
    if limits is None:
        yield _bar(point, None, None, word(point))
        return
    if not limits.shares:
        yield _bar(point, None, None, "not known")
        return
    mixed = limits.unknown.keys() - {"host"}
    for part in PARTS:
        if part in limits.shares:
            name = "not separated" if part == "compute" and mixed else part
            yield _bar(point, name, limits.shares[part].median, None)


def _bar(point: StudyPoint, part: str | None, share: float | None, missing: str | None) -> _ShareBar:
    return _ShareBar(
        workload=point.workload,
        batch=point.batch,
        variant=point.variant,
        gpus=point.gpus,
        part=part,
        share=share,
        panel=point.line_words,
        word=missing,
        description=None if share is None else f"{point.words}: {part} {share:.0%}",
    )


def _limits(points: Iterable[StudyPoint]) -> list[Limits]:
    return [point.result.limits for point in points if point.result.limits]


def _verdicts(points: Iterable[StudyPoint]) -> str:
    """How many points have each verdict, the most frequent first."""
    verdicts = Counter(limits.verdict or ("open" if limits.shares else "not known") for limits in _limits(points))
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _not_separate(points: Iterable[StudyPoint]) -> str:
    """The parts that were not measured, as a sentence of the caption; "" where all were."""
    mixed = [limits for limits in _limits(points) if limits.shares]
    unknown = dict.fromkeys(f"{part} ({why})" for limits in mixed for part, why in limits.unknown.items())
    return f" Not measured separately, so included in the rest: {'; '.join(unknown)}." if unknown else ""


# ---- drawing --------------------------------------------------------------------------------------------------------


class _Scales(msgspec.Struct, frozen=True):
    """What all panels share."""

    parts: list[str]
    gpus: list[int]
    domain: list[float]
    unit: Unit


def _scales(bars: Sequence[_ShareBar], unit: Unit) -> _Scales:
    return _Scales(
        parts=[part for part in PART_COLOURS if any(bar.part == part for bar in bars)],
        gpus=sorted({bar.gpus for bar in bars}),
        domain=[0.0, 1.12],
        unit=unit,
    )


def _panel(chart: alt.Chart, scales: _Scales, left: bool, last: bool) -> alt.LayerChart:
    """Bars of parts on top of each other, one for each number of GPUs, or a word upright in their place."""
    x = alt.X(
        "gpus:O",
        title=f"{scales.unit}s" if last else None,
        scale=alt.Scale(domain=scales.gpus, padding=0.12),
        axis=alt.Axis(labelAngle=0, labelOverlap=True, labels=last, ticks=last),
    )
    y = alt.Y(
        "share:Q",
        title=["share of", "the step"] if left else None,
        scale=alt.Scale(domain=scales.domain, nice=False),
        axis=alt.Axis(format="%", values=[0, 0.5, 1], labels=left, ticks=left),
    )
    colours = alt.Scale(domain=scales.parts, range=[PART_COLOURS[part] for part in scales.parts])
    legend = legend_of(scales.parts, symbolType="square")
    chart = chart.encode(x=x)
    bars = chart.transform_filter("isValid(datum.share)").transform_calculate(
        order=f"indexof({scales.parts}, datum.part)"
    )
    bars = bars.mark_bar().encode(
        y=y,
        color=alt.Color("part:N", scale=colours, legend=legend),
        order=alt.Order("order:Q"),
        description=alt.Description("description:N"),
    )
    words = chart.transform_filter("isValid(datum.word)")
    words = words.mark_text(fontSize=WORD_HEIGHT - 1, align="left", angle=270, color=INK, dx=2, aria=False)
    return layered([bars, words.encode(y=alt.YDatum(0), text=alt.Text("word:N"))], chart)
