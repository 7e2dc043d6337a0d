"""Figures of intensity, work over communication: of the workloads' batches, and of all points with their efficiency.

The forms are those of Tallent et al. 2017, Fig. 6 and 7.
"""

from collections.abc import Sequence

import altair as alt
import msgspec

from resnetx.record import Workload
from resnetx.reporting.charts.figure import COLUMN, Figure, layered, legend_of, panel_grid, styled
from resnetx.reporting.charts.missing_points import outcome
from resnetx.reporting.charts.scaling_curves import has_speedup
from resnetx.reporting.charts.styles import BASELINE, EFFICIENCY, HOLLOW, INK, SeriesStyles
from resnetx.reporting.charts.workload_encodings import log_y, span, workload_colour, workload_shape
from resnetx.reporting.study.points import StudyPoint, batch_category, unit_of_points
from resnetx.reporting.table import table_of
from resnetx.units import si

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
