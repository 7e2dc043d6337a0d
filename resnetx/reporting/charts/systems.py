"""The figures of a comparison of systems: collectives, rates against GPUs, and margins over intensity.

The forms are those of Tallent et al. 2017, Fig. 10 to 13. Where several libraries were predicted, each has figures of
rates of its own.
"""

import math
import re
from collections.abc import Iterator, Sequence

import altair as alt
import msgspec
import numpy as np

from resnetx.record.comparisons import CollectivePoint, CopyPoint, Estimate, SystemComparison, SystemPoint
from resnetx.reporting.charts.figure import (
    BASELINE,
    COLUMN,
    FAMILIES,
    INK,
    PAPER,
    QUIET,
    SYSTEMS,
    AnyChart,
    Figure,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
    styled,
)
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure
from resnetx.reporting.charts.workload_figures import (
    Curves,
    MeasuredRate,
    dash_looks,
    point_words,
    rates_against_gpus,
    system_looks,
)
from resnetx.reporting.compared_systems import lead, over
from resnetx.reporting.csv_tables import table_of
from resnetx.table import Cell, Record, Table
from resnetx.units import size_text, to_interval

Measured = tuple[Sequence[CollectivePoint], Sequence[CopyPoint]]  # beside what is predicted


def system_figures(
    comparison: SystemComparison, rates: Sequence[MeasuredRate] = (), messages: Measured = ((), ())
) -> list[Figure]:
    """Every figure that a comparison of systems has something to show in; measured beside predicted, where given."""
    collectives = dict.fromkeys(point.collective for point in comparison.collectives)
    figures = [found for name in collectives for found in _of_collective(comparison.collectives, messages[0], name)]
    figures += copies_over_size(comparison.copies, messages[1])
    figures += _rates(comparison, rates)
    if any(over(point, *comparison.systems[:2]) for point in comparison.points):
        points = [*comparison.points, *comparison.job]
        figures.append(margins_over_intensity(points, *comparison.systems[:2]))
    return figures


def _of_collective(points: Sequence[CollectivePoint], measured: Sequence[CollectivePoint], name: str) -> list[Figure]:
    of_name = [point for point in points if point.collective == name]
    beside = [point for point in measured if point.collective == name]
    return [collective_bandwidth(of_name, name, beside), *small_collectives(of_name, name, beside)]


def _rates(comparison: SystemComparison, measured: Sequence[MeasuredRate]) -> Iterator[Figure]:
    """Of each library and variant: single workloads with a panel each, and the family with one for each batch."""
    grids = list(dict.fromkeys((point.library, point.variant) for point in comparison.points))
    for grid in grids:
        points = [point for point in comparison.points if (point.library, point.variant) == grid]
        label = ", ".join(filter(None, grid))
        suffix = f"-{_file_word(label)}" if len(grids) > 1 else ""
        with_label = f" with {label}" if label else ""
        family = [point for point in points if point.workload.startswith("ResNet/")]
        single = [point for point in points if not point.workload.startswith("ResNet/")]
        if _any_rate(single):
            curves = Curves(f"rate{suffix}", f"Predicted rates{with_label}", 12, by_workload=True)
            yield rates_against_gpus(single, comparison.systems, curves, measured)
        if _any_rate(family):
            curves = Curves(f"rate-resnetx{suffix}", f"Predicted rates of ResNet/x{with_label}", 13, by_workload=False)
            yield rates_against_gpus(family, comparison.systems, curves, measured)


def _any_rate(points: Sequence[SystemPoint]) -> bool:
    return any(side.iterations_per_s for point in points for side in point.sides)


def _file_word(label: str) -> str:
    return re.sub(r"[^\w.]+", "-", label).strip("-")


# The figure of one collective alone: effective bandwidth over size, by system and GPUs.
#
# The form is that of Tallent et al. 2017, Fig. 10 and 11.

ZOOM_BYTES = (0.5e6, 6e6)  # ResNet/x's gradients
_PAPERS_FIGURES = {"allreduce": 10}  # of the others, 11


_COLUMNS = ["system", "library", "collective", "gpus", "size_bytes", "time_s", "algbw_GBps", "origin", "description"]


def collective_bandwidth(
    points: Sequence[CollectivePoint], name: str, measured: Sequence[CollectivePoint] = ()
) -> Figure:
    """Effective bandwidth over size, a panel for each library."""
    caption = (
        "Effective bandwidth: the bytes that each GPU has, over the time. By the descriptions of the systems, not "
        f"calibrated. After Tallent et al. 2017, Fig. {_PAPERS_FIGURES.get(name, 11)} (in GiB/s)."
        f"{_BLACK * bool(measured)}"
    )
    sizes = Axis("size_bytes", "bytes", "log", "si")
    return _bandwidths(name, f"{name.capitalize()} alone, by system and GPUs", caption, points, measured, sizes)


def small_collectives(
    points: Sequence[CollectivePoint], name: str, measured: Sequence[CollectivePoint] = ()
) -> Iterator[Figure]:
    """The same, closely, of sizes as ResNet/x's gradients have; nothing where fewer than three are among them."""
    near = [point for point in points if ZOOM_BYTES[0] <= point.size_bytes <= ZOOM_BYTES[1]]
    if len({point.size_bytes for point in near}) > 2:
        beside = [point for point in measured if ZOOM_BYTES[0] <= point.size_bytes <= ZOOM_BYTES[1]]
        caption = f"The same, closely: sizes of ResNet/x's gradients.{_BLACK * bool(beside)}"
        sizes = Axis("size_bytes", "bytes", labels="si", domain=ZOOM_BYTES)
        yield _bandwidths(f"{name}-small", f"{name.capitalize()} of 0.5 to 6 MB", caption, near, beside, sizes)


def _bandwidths(
    name: str,
    title: str,
    caption: str,
    points: Sequence[CollectivePoint],
    measured: Sequence[CollectivePoint],
    sizes: Axis,
) -> Figure:
    systems = list(dict.fromkeys(point.system for point in points))
    counts = [f"{count} GPUs" for count in sorted({point.gpus for point in points})]
    libraries = list(dict.fromkeys(point.library for point in points))
    beside = [
        (point, library) for point in measured if point.gpus in {each.gpus for each in points} for library in libraries
    ]
    rows = [_bandwidth_row(point, point.library, "predicted") for point in points]
    rows += [_bandwidth_row(point, library, "measured") for point, library in beside if point.system in systems]
    plot = Plot(
        x=sizes,
        y=Axis("algbw_GBps", "size / time, GB/s"),
        marks=(
            Mark("line", "datum.origin == 'predicted'"),
            Mark("dots", "datum.origin == 'predicted'", look={"opacity": 0, "size": 60}),
            Mark("dots", "datum.origin == 'measured'", colour=INK, look={"shape": "diamond"}),
        ),
        colour=Scale("system", system_looks(systems)),
        dash=Scale("gpus", dash_looks(counts)),
        panel="library",
        columns=2,
        height=95,
        chart_only=("description",),
    )
    return figure(name, title, caption, Table(_COLUMNS, rows), plot)


_BLACK = " Black: measured on what stands for them."


def _bandwidth_row(point: CollectivePoint, library: str, origin: str) -> list[Cell]:
    gpus, rate = f"{point.gpus} GPUs", point.algbw_Bps / 1e9
    words = f"{size_text(point.size_bytes)} on {gpus}, {point.system}, {origin}: {rate:.3g} GB/s"
    return [point.system, library, point.collective, gpus, point.size_bytes, point.time_s, rate, origin, words]


def copies_over_size(points: Sequence[CopyPoint], measured: Sequence[CopyPoint] = ()) -> list[Figure]:
    """Copies to single GPUs: rate and time over size, a line for each pair."""
    if not points:
        return []
    systems = list(dict.fromkeys(point.system for point in points))
    pairs = {_pair(point) for point in points}
    rows = [_copy_row(point, "predicted") for point in points]
    rows += [_copy_row(point, "between") for point in _between(points)]
    rows += [_copy_row(point, "measured") for point in measured if _pair(point) in pairs]
    columns = ["system", "pair", "size_bytes", "GBps", "time_us", "origin", "description"]
    black = _BLACK * any(_pair(point) in pairs for point in measured)
    after = "By the descriptions of the systems. After Tallent et al. 2017, Fig. {}."
    drawn = [
        ("copies", "Copies from GPU 0, and from the host: bandwidth", Axis("GBps", "GB/s"), after.format(8)),
        (
            "copy-times",
            "Copies from GPU 0, and from the host: time",
            Axis("time_us", "us", "log", "si"),
            after.format(9),
        ),
    ]
    return [
        figure(
            name,
            title,
            f"A line for each pair; pointed at, it says which. {caption}{black}",
            Table(columns, rows),
            Plot(
                x=Axis("size_bytes", "bytes", "log", "si"),
                y=y,
                marks=(
                    Mark("line", "datum.origin != 'measured'"),
                    Mark("dots", "datum.origin == 'predicted'"),
                    Mark("dots", "datum.origin == 'measured'", colour=INK, look={"shape": "diamond"}),
                ),
                colour=Scale("system", system_looks(systems)),
                detail=("pair",),
                chart_only=("description",),
            ),
        )
        for name, title, y, caption in drawn
    ]


def _between(points: Sequence[CopyPoint]) -> Iterator[CopyPoint]:
    """Sizes between those of each pair, whose times lie on the straight line between theirs."""
    for pair in dict.fromkeys(map(_pair, points)):
        own = sorted((point for point in points if _pair(point) == pair), key=lambda point: point.size_bytes)
        sizes, times_s = [point.size_bytes for point in own], [point.time_s for point in own]
        for exponent in range(math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1])) + 1):
            time_s = float(np.interp(2**exponent, sizes, times_s))
            yield msgspec.structs.replace(own[0], size_bytes=2**exponent, time_s=time_s)


def _pair(point: CopyPoint) -> str:
    way = ["host" if point.source is None else point.source, point.through, point.target]
    return f"{point.system} {'-'.join(str(place) for place in way if place is not None)}"


def _copy_row(point: CopyPoint, origin: str) -> list[Cell]:
    rate, time_us = point.size_bytes / point.time_s / 1e9, point.time_s * 1e6
    words = f"{_pair(point)}, {size_text(point.size_bytes)}, {origin}: {rate:.3g} GB/s, {time_us:.4g} us"
    return [point.system, _pair(point), point.size_bytes, rate, time_us, origin, words]


# The figure of who leads: the margin of one system over another at each point, over intensity.

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
        caption="How much faster, over intensity; whiskers: its interval. The larger a dot, the more GPUs (in print "
        "they have shapes). White or hollow: the interval holds no "
        "difference; light blue in print: less than half a percent. Points on one GPU send nothing and are left out.",
        table=table_of(marks, _MarginRow),
        chart=panel_grid(table_of(marks), "panel", panels, columns, panel),
        wide=_wide(marks, x_domain, domain, f"{a} over {b}"),
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


def _wide(marks: Sequence[_MarginMark], x_domain: list[float], domain: list[float], title: str) -> AnyChart:
    """The figure for a page: a panel for each library below the other, with a label for each family of workloads."""
    families = list(dict.fromkeys(_family(mark) for mark in marks))
    colours = [FAMILIES[place % len(FAMILIES)] for place in range(len(families))]
    colour = alt.Scale(domain=families, range=colours)
    gpus = sorted({mark.gpus for mark in marks})
    sizes = alt.Scale(domain=gpus, range=[25 + 90 * place / max(1, len(gpus) - 1) for place in range(len(gpus))])
    round_ = (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 2.5, 3, 5, 10)
    ticks = _both_sides([tick for tick in round_ if domain[0] <= tick <= domain[1]], domain)
    panels = list(dict.fromkeys(mark.panel for mark in marks))
    charts: list[AnyChart] = []
    tables: dict[str, list[Record]] = {}
    for index, name in enumerate(panels):
        own = [mark for mark in marks if mark.panel == name]
        rows = [{**cells, "family": _family(mark)} for mark, cells in zip(own, table_of(own).records(), strict=True)]
        tables |= {f"wide{index}": rows, f"labels{index}": list(_labels(own))}
        chart = alt.Chart(alt.NamedData(f"wide{index}"))
        x = alt.X(
            f"{INTENSITY}:Q",
            title="activations per parameter on each GPU (work done for each number exchanged)",
            scale=alt.Scale(type="log", domain=x_domain, nice=False),
            axis=si_axis(log_ticks(x_domain, 10), True),
        )
        y = alt.Y(
            "margin:Q",
            title=f"{title}, {name}" if name else title,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(values=ticks, labelExpr="datum.value == 1 ? 'equal' : '\u00d7' + datum.value"),
        )
        stroke = alt.Stroke("family:N", scale=colour, legend=None)
        size = alt.Size("gpus:O", scale=sizes, legend=None)
        level = alt.Chart(alt.sequence(0, 1)).mark_rule(stroke=QUIET, strokeWidth=1, aria=False).encode(y=alt.YDatum(1))
        ends = {"y": alt.Y("margin_low:Q"), "y2": alt.Y2("margin_high:Q")}
        whisker = chart.mark_rule(strokeWidth=1.2, opacity=0.35, aria=False).encode(x=x, stroke=stroke, **ends)
        dots = chart.mark_point(strokeWidth=1.5, opacity=1).encode(
            x=x, y=y, stroke=stroke, size=size, description=alt.Description("description:N"),
            fill=alt.condition(_AHEAD, alt.Fill("family:N", scale=colour, legend=None), alt.value(PAPER)),
        )  # fmt: skip
        told = [
            alt.Chart(alt.NamedData(f"labels{index}"))
            .mark_text(align="left", dx=10, dy=-9, fontSize=13, fontWeight="bold", aria=False)
            .encode(x=x, y=y, text="label:N", color=alt.Color("family:N", scale=colour, legend=None))
        ]
        unshown = [family for family in dict.fromkeys(map(_family, own)) if not _leading(own, family)]
        for line, family in enumerate(reversed(unshown)):
            text = alt.Chart(alt.InlineData([{"label": f"{family}: no difference shown"}])).mark_text(
                align="left", fontSize=13, fontWeight="bold", color=colours[families.index(family)], aria=False
            )
            told.append(text.encode(x=alt.value(10), y=alt.value(308 - 18 * line), text="label:N"))
        charts.append(alt.layer(level, whisker, dots, *told).properties(width=700, height=320))
    return styled(alt.vconcat(*charts, spacing=24), tables, text_size=12)


_AHEAD = "datum.lead != 'open' && datum.lead != 'level'"


def _family(mark: _MarginMark) -> str:
    return f"{mark.workload.partition('/')[0]}/x" if "/" in mark.workload else mark.workload


def _leading(marks: Sequence[_MarginMark], family: str) -> list[_MarginMark]:
    """Those of a family in which a difference is shown."""
    return [mark for mark in marks if _family(mark) == family and mark.lead not in ("open", "level")]


def _labels(marks: Sequence[_MarginMark]) -> Iterator[Record]:
    """Of each family its largest difference that is shown, at its mark."""
    for family in dict.fromkeys(map(_family, marks)):
        if leading := _leading(marks, family):
            most = max(leading, key=lambda mark: abs(math.log(mark.margin.value)))
            value, low, high = to_interval(most.margin.value, most.margin.low, most.margin.high)
            label = f"{most.workload}, batch {most.batch_size}, {most.gpus} GPUs: \u00d7{value} ({low} to {high})"
            at = most.activations_per_parameter_per_gpu
            yield {"family": family, "label": label, "margin": most.margin.value, INTENSITY: at}


def _ticks(domain: Sequence[float]) -> list[float]:
    """Ticks at round percentages: the finest step that leaves at most nine of them."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0):
        first, last = math.ceil((domain[0] - 1) / step), math.floor((domain[1] - 1) / step)
        ticks = [1 + step * index for index in range(first, last + 1)]
        if len(ticks) <= 9:
            return _both_sides(ticks, domain)
    return [1.0]


def _both_sides(ticks: Sequence[float], domain: Sequence[float]) -> list[float]:
    """With a tick on each side of no difference, where the axis reaches that far: the farthest that is round."""
    below = [tick for tick in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98) if domain[0] <= tick][:1]
    above = [tick for tick in (2, 1.5, 1.2, 1.1, 1.05, 1.02) if tick <= domain[1]][:1]
    more = [*below * all(tick >= 1 for tick in ticks), *above * all(tick <= 1 for tick in ticks)]
    return sorted({*ticks, *more})
