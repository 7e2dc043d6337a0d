"""The figures of predictions: systems side by side.

The forms are those of Tallent et al. 2017: effective bandwidth of collectives (Fig. 10 and 11), rates against GPUs of
single workloads (Fig. 12) and of the ResNet/x family (Fig. 13). Where several libraries were predicted, each has
figures of its own. A line has a gap where a point does not fit in memory, and a word at the foot of the panel says so.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import altair as alt

from resnetx.record.system_comparison import CollectivePoint, SystemComparison, SystemPoint
from resnetx.reporting.charts.shared import (
    COLUMN,
    Figure,
    domain_with_foot,
    gpus_axis,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
    without,
)
from resnetx.reporting.charts.styles import BASELINE, DASHES, INK, PAPER, QUIET, SYSTEMS, family_colours
from resnetx.reporting.systems.margins import lead, over
from resnetx.reporting.systems.tables import estimate
from resnetx.units import si

GIB = 2**30
ZOOM_BYTES = (0.5e6, 6e6)  # ResNet/x's gradients
APART = 1.06  # by what factor systems stand apart on the axis of GPUs, so that their whiskers can be told apart


def system_figures(found: SystemComparison) -> list[Figure]:
    """Every figure that a comparison of systems has something to show in."""
    collectives = dict.fromkeys(each.collective for each in found.collectives)
    figures = [
        _collective([each for each in found.collectives if each.collective == name], name) for name in collectives
    ]
    grids = list(dict.fromkeys((point.library, point.variant) for point in found.points))
    for grid in grids:
        points = [point for point in found.points if (point.library, point.variant) == grid]
        told = ", ".join(filter(None, grid))
        figures += _rates(points, found.systems, f"-{_file_word(told)}" if len(grids) > 1 else "", told)
    if any(over(point, *found.systems[:2]) for point in found.points):
        figures.append(_leads(found.points, found.systems[0], found.systems[1]))
    return figures


def _file_word(told: str) -> str:
    return re.sub(r"[^\w.]+", "-", told).strip("-")


# ---- collectives ----------------------------------------------------------------------------------------------------


def _collective(points: Sequence[CollectivePoint], name: str) -> Figure:
    """Effective bandwidth over size: all sizes, and closely those of ResNet/x's gradients."""
    data = [row for each in points for row in _collective_rows(each)]
    systems = list(dict.fromkeys(each.system for each in points))
    counts = sorted({each.gpus for each in points})
    sizes = [each.size_bytes for each in points]
    libraries = dict.fromkeys(each.library for each in points)
    names = [panel for library in libraries for panel in (library, _zoomed(library)) if _has(data, panel)]

    def panel(chart: alt.Chart, left: bool, last: bool) -> Any:
        scale = alt.Scale(type="log", domain=[min(sizes), max(sizes)], nice=False)
        if not left:
            scale = alt.Scale(domain=list(ZOOM_BYTES), nice=False)
        ticks = [1e4, 1e5, 1e6, 1e7, 1e8] if left else [1e6, 2e6, 3e6, 4e6, 5e6, 6e6]
        axis = alt.Axis(values=ticks, format="~s", labels=last, ticks=last)
        chart = chart.properties(width=(COLUMN - 50) // 2, height=95).mark_line(strokeWidth=1.1, clip=True)
        return chart.encode(
            x=alt.X("size_bytes:Q", title="bytes" if last else None, scale=scale, axis=axis),
            y=alt.Y("algbw_GiBps:Q", title="size / time, GiB/s" if left else None, axis=alt.Axis(tickCount=5)),
            color=_system_colour(systems),
            strokeDash=_dash("gpus:O", counts, " GPUs"),
        )

    return Figure(
        name=name,
        title=f"{name.capitalize()} alone, by system and GPUs",
        caption="Effective bandwidth: the bytes that each GPU has, over the time. Left: all sizes; right: those of "
        "ResNet/x's gradients. By the descriptions of the systems, not calibrated. After Tallent et al. 2017, Fig. "
        f"{'10' if name == 'allreduce' else '11'}.",
        data=without(data, "panel"),
        specification=panel_grid(data, "panel", names, 2, panel),
    )


def _collective_rows(each: CollectivePoint) -> Iterator[dict[str, Any]]:
    row = {
        "system": each.system,
        "library": each.library,
        "collective": each.collective,
        "gpus": each.gpus,
        "size_bytes": each.size_bytes,
        "time_s": each.time_s,
        "algbw_GiBps": each.algbw_Bps / GIB,
    }
    yield {**row, "panel": each.library}
    if ZOOM_BYTES[0] <= each.size_bytes <= ZOOM_BYTES[1]:
        yield {**row, "panel": _zoomed(each.library)}


def _zoomed(library: str) -> str:
    return f"{library}, 0.5 to 6 MB"


def _has(data: Sequence[dict[str, Any]], panel: str) -> bool:
    return any(row["panel"] == panel for row in data)


# ---- rates ----------------------------------------------------------------------------------------------------------

_Name = Callable[[SystemPoint], str]


def _rates(points: Sequence[SystemPoint], systems: Sequence[str], suffix: str, told: str) -> Iterator[Figure]:
    """Single workloads with a panel each, and the family with one for each batch."""
    family = [point for point in points if point.workload.startswith("ResNet/")]
    single = [point for point in points if not point.workload.startswith("ResNet/")]
    for group, name, what, number, by, line in (
        (single, "rate", "Predicted rates", 12, _workload, _batch),
        (family, "rate-resnetx", "Predicted rates of ResNet/x", 13, _batch, _workload),
    ):
        if any(side.iterations_per_s for point in group for side in point.sides):
            yield _rate(group, systems, f"{name}{suffix}", f"{what} with {told}" if told else what, number, by, line)


def _workload(point: SystemPoint) -> str:
    return point.workload


def _batch(point: SystemPoint) -> str:
    return f"batch {point.batch_size}"


def _rate(
    points: Sequence[SystemPoint], systems: Sequence[str], name: str, title: str, number: int, by: _Name, line: _Name
) -> Figure:
    """Iterations/s against GPUs: panels by one thing, lines by another and by system; `number`: the paper's figure."""
    order = sorted(points, key=lambda point: point.batch_size)
    lines, names = list(dict.fromkeys(map(line, order))), list(dict.fromkeys(map(by, order)))
    data = [row for point in order for row in _rate_rows(point, order, systems, by, line)]
    values = [row[end] for row in data for end in ("iterations_per_s_low", "iterations_per_s_high") if row[end]]
    places = [row["place"] for row in data if row["place"] is not None]
    columns, height = min(len(names), 3), 110
    domain, step = domain_with_foot(values, max(places, default=-1) + 1, height)
    of_line, of_system = _line_colour(lines), _system_colour(systems)
    colour, dash = (of_system, _dash("line:N", lines)) if by is _workload else (of_line, _dash("system:N", systems))

    def panel(chart: alt.Chart, left: bool, last: bool) -> Any:
        y = alt.Y(
            "iterations_per_s:Q",
            title="iterations/s" if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=si_axis(log_ticks([domain[0], domain[1] / step**0.6], 10), left),
        )
        chart = chart.properties(width=(COLUMN - 30 - 8 * columns) // columns, height=height)
        chart = chart.encode(x=gpus_axis((point.gpus for point in points), last), detail=["line:N", "system:N"])
        placed = chart.transform_calculate(gpus=f"datum.gpus * pow({APART}, datum.side)")
        able = placed.transform_filter("isValid(datum.iterations_per_s)")
        whisker = able.mark_rule(strokeWidth=0.8, opacity=0.55, aria=False)
        words = chart.transform_filter("isValid(datum.word)")
        words = words.transform_calculate(foot=f"{domain[0]} * pow({step}, datum.place + 0.15)")
        words = words.mark_text(fontSize=5.5, baseline="bottom", align="left", dx=-7, color=INK, aria=False)
        return alt.layer(
            placed.mark_line(strokeWidth=0.7, aria=False).encode(y=y, color=colour, strokeDash=dash),
            whisker.encode(y=alt.Y("iterations_per_s_low:Q"), y2="iterations_per_s_high:Q", color=colour),
            able.mark_point(filled=True, size=8, opacity=1).encode(y=y, color=colour, description="tell:N"),
            words.encode(y=alt.Y("foot:Q"), text="word:N"),
        )

    return Figure(
        name=name,
        title=title,
        caption=f"Whiskers: prediction interval. After Tallent et al. 2017, Fig. {number}.{_missing(data)}",
        data=without(data, "panel", "line", "side", "word", "place", "tell"),
        specification=panel_grid(data, "panel", names, columns, panel),
    )


def _rate_rows(
    point: SystemPoint, points: Sequence[SystemPoint], systems: Sequence[str], by: _Name, line: _Name
) -> Iterator[dict[str, Any]]:
    """A row for each system; the first one has the word that says which systems cannot run the point."""
    unable = [side.system for side in point.sides if side.iterations_per_s is None]
    others = [each for each in points if by(each) == by(point) and each.gpus == point.gpus and _unable(each)]
    word = line(point).replace("ResNet", "").removeprefix("batch ") if unable else None
    if unable and len(unable) < len(point.sides):
        word = f"{word} {', '.join(unable)}"
    for place, side in enumerate(point.sides):
        rate = side.iterations_per_s
        yield {
            "workload": point.workload,
            "batch_size": point.batch_size,
            "gpus": point.gpus,
            "variant": point.variant,
            "library": side.library,
            "system": side.system,
            **estimate("iterations_per_s", rate),
            "outcome": side.outcome,
            "panel": by(point),
            "line": line(point),
            "side": systems.index(side.system) - (len(systems) - 1) / 2,
            "word": f"no {word}" if word and place == 0 else None,
            "place": others.index(point) if word else None,
            "tell": f"{_words(point)}, {side.system}: {si(rate.value)} iterations/s" if rate else None,
        }


def _unable(point: SystemPoint) -> bool:
    return any(side.iterations_per_s is None for side in point.sides)


def _missing(data: Sequence[dict[str, Any]]) -> str:
    """What the words at the foot mean, where there are any."""
    outcomes = {row["outcome"] for row in data if row["iterations_per_s"] is None}
    meant = {"oom": "need more memory than a GPU has", "refused": "were refused"}
    return (
        f" Missing (no ...): points that {' or '.join(meant[each] for each in sorted(outcomes))}." if outcomes else ""
    )


def _words(point: SystemPoint) -> str:
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return ", ".join(filter(None, [point.workload, _batch(point), point.variant, gpus]))


# ---- who leads ------------------------------------------------------------------------------------------------------


def _leads(points: Sequence[SystemPoint], a: str, b: str) -> Figure:
    """The margin of one system over another, over intensity."""
    data = [row for point in points if (row := _lead_row(point, a, b))]
    libraries = list(dict.fromkeys(row["panel"] for row in data))
    ends = [row[end] for row in data for end in ("margin_low", "margin_high")]
    domain = [min(0.99, *ends) / 1.01, max(1.01, *ends) * 1.01]
    intensities = [row["activations_per_parameter_per_gpu"] for row in data]
    x_domain = [min(intensities) / 1.5, max(intensities) * 1.5]
    kinds = [f"{a} ahead", f"{b} ahead", "open", "level"]
    gpus = sorted({row["gpus"] for row in data})
    columns = min(2, len(libraries))
    counts = legend_of(
        [f"{count} GPUs" for count in gpus],
        labelExpr="datum.label + ' GPUs'",
        orient="top",
        symbolFillColor=PAPER,
        symbolStrokeColor=INK,
    )

    def panel(chart: alt.Chart, left: bool, last: bool) -> Any:
        chart = chart.properties(width=(COLUMN - 34 - 8 * columns) // columns, height=120)
        x = alt.X(
            "activations_per_parameter_per_gpu:Q",
            title="activations/parameter/GPU" if last else None,
            scale=alt.Scale(type="log", domain=x_domain, nice=False),
            axis=si_axis(log_ticks(x_domain, 10), last),
        )
        y = alt.Y(
            "margin:Q",
            title=f"{a} over {b}" if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(values=_margin_ticks(domain), labelExpr="format(datum.value - 1, '+.0%')", labels=left),
        )
        scale = alt.Scale(domain=kinds, range=[*SYSTEMS[:2], PAPER, BASELINE])
        level = alt.Chart(alt.sequence(0, 1)).mark_rule(stroke=QUIET, strokeWidth=0.7, aria=False)
        whisker = chart.mark_rule(strokeWidth=0.7, opacity=0.5, stroke=QUIET, aria=False)
        marks = chart.mark_point(size=15, stroke=INK, strokeWidth=0.4, opacity=1).encode(
            x=x,
            y=y,
            fill=alt.Fill("lead:N", scale=scale, legend=legend_of(kinds, symbolStrokeColor=INK, symbolType="circle")),
            shape=alt.Shape("gpus:O", scale=alt.Scale(domain=gpus), legend=counts),
            description="tell:N",
        )
        return alt.layer(
            level.encode(y=alt.YDatum(1)),
            whisker.encode(x=x, y=alt.Y("margin_low:Q"), y2="margin_high:Q"),
            marks,
        )

    return Figure(
        name="lead",
        title=f"{a} over {b}, by work over communication",
        caption="How much faster, over intensity; whiskers: its interval. White: the interval holds no difference; "
        "grey: less than half a percent. Points on one GPU send nothing and are left out.",
        data=without(data, "panel", "tell"),
        specification=panel_grid(data, "panel", libraries, columns, panel),
    )


def _lead_row(point: SystemPoint, a: str, b: str) -> dict[str, Any] | None:
    margin = over(point, a, b)
    if margin is None or not point.intensity_per_gpu or point.gpus == 1:
        return None
    kind = lead(margin) if lead(margin) != "ahead" else f"{a if margin.value > 1 else b} ahead"
    return {
        "workload": point.workload,
        "batch_size": point.batch_size,
        "gpus": point.gpus,
        "variant": point.variant,
        "library": point.library,
        "activations_per_parameter_per_gpu": point.intensity_per_gpu,
        **estimate("margin", margin),
        "lead": kind,
        "panel": ", ".join(filter(None, [point.library, point.variant])),
        "tell": f"{_words(point)}: {margin.value - 1:+.1%} ({margin.low - 1:+.1%} to {margin.high - 1:+.1%}), {kind}",
    }


def _margin_ticks(domain: Sequence[float]) -> list[float]:
    """Ticks at round percentages: the finest step that leaves at most nine of them."""
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0):
        first, last = math.ceil((domain[0] - 1) / step), math.floor((domain[1] - 1) / step)
        ticks = [1 + step * place for place in range(first, last + 1)]
        if len(ticks) <= 9:
            return ticks
    return [1.0]


# ---- encodings ------------------------------------------------------------------------------------------------------


def _system_colour(systems: Sequence[str]) -> alt.Color:
    colours = [SYSTEMS[place % len(SYSTEMS)] for place in range(len(systems))]
    scale = alt.Scale(domain=list(systems), range=colours)
    return alt.Color("system:N", scale=scale, legend=legend_of(systems, symbolType="stroke", symbolStrokeWidth=1.5))


def _line_colour(lines: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(lines), range=family_colours(len(lines)))
    return alt.Color("line:N", scale=scale, legend=legend_of(lines, symbolType="stroke", symbolStrokeWidth=1.5))


def _dash(field: str, names: Sequence[str | int], unit: str = "") -> alt.StrokeDash:
    dashes = [DASHES[place % len(DASHES)] for place in range(len(names))]
    labels = [f"{name}{unit}" for name in names]
    looks = {"orient": "top", "symbolType": "stroke", "symbolSize": 250, "symbolStrokeColor": INK}
    legend = legend_of(labels, labelExpr=f"datum.label + '{unit}'", **looks)
    return alt.StrokeDash(field, scale=alt.Scale(domain=list(names), range=dashes), legend=legend)
