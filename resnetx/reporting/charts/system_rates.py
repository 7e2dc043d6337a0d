"""Predicted rates against GPUs, systems side by side: of single workloads, and of the ResNet/x family.

The forms are those of Tallent et al. 2017, Fig. 12 and 13. A line has a gap where a point does not fit in memory, and a
word at the foot of the panel says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import msgspec

from resnetx.record.system_comparison import Estimate, SystemPoint
from resnetx.reporting.charts.figure import (
    COLUMN,
    DASHES,
    INK,
    SYSTEMS,
    AnyChart,
    Figure,
    domain_with_foot,
    family_colours,
    gpus_axis,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
)
from resnetx.reporting.table import table_of
from resnetx.units import si

OFFSET = 1.06  # factor between the systems' marks along the axis of GPUs, so that their whiskers can be told apart
HEIGHT = 110


@dataclass(frozen=True)
class Curves:
    """What one figure has: its name and title, the paper's figure, and what its panels are."""

    name: str
    title: str
    papers_figure: int
    by_workload: bool  # panels are workloads and lines batches; else the other way round

    def panel(self, point: SystemPoint) -> str:
        return point.workload if self.by_workload else batch_words(point)

    def line(self, point: SystemPoint) -> str:
        return batch_words(point) if self.by_workload else point.workload


class _RateRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch_size: int
    gpus: int
    variant: str
    library: str
    system: str
    iterations_per_s: Estimate | None
    outcome: str


class _RateMark(_RateRow, frozen=True, kw_only=True):
    panel: str
    line: str
    side: float  # from the middle of the systems
    word: str | None
    word_row: int | None
    description: str | None


def rates_against_gpus(points: Sequence[SystemPoint], systems: Sequence[str], curves: Curves) -> Figure:
    """Iterations/s against GPUs."""
    points = sorted(points, key=lambda point: point.batch_size)
    panels = list(dict.fromkeys(map(curves.panel, points)))
    marks = [mark for point in points for mark in _marks(point, points, systems, curves)]
    columns = min(len(panels), 3)
    rates = [mark.iterations_per_s for mark in marks if mark.iterations_per_s]
    word_rows = max((mark.word_row + 1 for mark in marks if mark.word_row is not None), default=0)
    domain, word_step = domain_with_foot([end for rate in rates for end in (rate.low, rate.high)], word_rows, HEIGHT)
    ticks = log_ticks([domain[0], domain[1] / word_step**0.6], 10)
    lines = list(dict.fromkeys(map(curves.line, points)))
    colour = system_colour(systems) if curves.by_workload else line_colour(lines)
    dashes = dash("line:N", lines) if curves.by_workload else dash("system:N", systems)

    def panel(chart: alt.Chart, left: bool, last: bool) -> AnyChart:
        y = alt.Y(
            "iterations_per_s:Q",
            title="iterations/s" if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=si_axis(ticks, left),
        )
        chart = chart.properties(width=(COLUMN - 30 - 8 * columns) // columns, height=HEIGHT)
        chart = chart.encode(
            x=gpus_axis((point.gpus for point in points), last), detail=[alt.Detail("line:N"), alt.Detail("system:N")]
        )
        return layered([*_layers(chart, y, colour, dashes), _words(chart, domain[0], word_step)], chart)

    return Figure(
        name=curves.name,
        title=curves.title,
        caption=f"Whiskers: prediction interval. After Tallent et al. 2017, Fig. {curves.papers_figure}."
        f"{_meanings(marks)}",
        table=table_of(marks, _RateRow),
        chart=panel_grid(table_of(marks), "panel", panels, columns, panel),
    )


# ---- data -----------------------------------------------------------------------------------------------------------


def _marks(
    point: SystemPoint, points: Sequence[SystemPoint], systems: Sequence[str], curves: Curves
) -> Iterator[_RateMark]:
    """A mark for each system; the first one has the word that says which systems cannot run the point."""
    word = _missing_word(point, curves)
    panel = curves.panel(point)
    missing = [other for other in points if (curves.panel(other), other.gpus) == (panel, point.gpus) and _unable(other)]
    for place, side in enumerate(point.sides):
        rate = side.iterations_per_s
        yield _RateMark(
            workload=point.workload,
            batch_size=point.batch_size,
            gpus=point.gpus,
            variant=point.variant,
            library=side.library,
            system=side.system,
            iterations_per_s=rate,
            outcome=side.outcome,
            panel=panel,
            line=curves.line(point),
            side=systems.index(side.system) - (len(systems) - 1) / 2,
            word=word if place == 0 else None,
            word_row=missing.index(point) if word else None,
            description=f"{point_words(point)}, {side.system}: {si(rate.value)} iterations/s" if rate else None,
        )


def _unable(point: SystemPoint) -> list[str]:
    """The systems that cannot run a point."""
    return [side.system for side in point.sides if side.iterations_per_s is None]


def _missing_word(point: SystemPoint, curves: Curves) -> str | None:
    """At the foot of a panel "no 256", where a point cannot run; with the systems, where others can run it."""
    unable = _unable(point)
    if not unable:
        return None
    line = curves.line(point).replace("ResNet", "").removeprefix("batch ")
    systems = f" {', '.join(unable)}" if len(unable) < len(point.sides) else ""
    return f"no {line}{systems}"


def _meanings(marks: Sequence[_RateMark]) -> str:
    """What the words at the foot mean, where there are any."""
    outcomes = sorted({mark.outcome for mark in marks if mark.iterations_per_s is None})
    meanings = {"oom": "need more memory than a GPU has", "refused": "were refused"}
    return f" Missing (no ...): points that {' or '.join(map(meanings.__getitem__, outcomes))}." if outcomes else ""


# ---- drawing --------------------------------------------------------------------------------------------------------


def _layers(chart: alt.Chart, y: alt.Y, colour: alt.Color, dashes: alt.StrokeDash) -> Iterator[alt.Chart]:
    """Lines, whiskers and marks, each system a little beside the next one."""
    placed = chart.transform_calculate(gpus=f"datum.gpus * pow({OFFSET}, datum.side)")
    able = placed.transform_filter("isValid(datum.iterations_per_s)")
    yield placed.mark_line(strokeWidth=0.7, aria=False).encode(y=y, color=colour, strokeDash=dashes)
    whisker = able.mark_rule(strokeWidth=0.8, opacity=0.55, aria=False)
    yield whisker.encode(y=alt.Y("iterations_per_s_low:Q"), y2=alt.Y2("iterations_per_s_high:Q"), color=colour)
    dots = able.mark_point(filled=True, size=8, opacity=1)
    yield dots.encode(y=y, color=colour, description=alt.Description("description:N"))


def _words(chart: alt.Chart, lowest: float, word_step: float) -> alt.Chart:
    """The words at the foot of a panel, each in its row."""
    words = chart.transform_filter("isValid(datum.word)")
    words = words.transform_calculate(foot=f"{lowest} * pow({word_step}, datum.word_row + 0.15)")
    words = words.mark_text(fontSize=5.5, baseline="bottom", align="left", dx=-7, color=INK, aria=False)
    encoded: alt.Chart = words.encode(y=alt.Y("foot:Q"), text=alt.Text("word:N"))
    return encoded


# How the figures of predictions encode systems, and what else lines differ in: by colour and dash.


def system_colour(systems: Sequence[str]) -> alt.Color:
    colours = [SYSTEMS[place % len(SYSTEMS)] for place in range(len(systems))]
    scale = alt.Scale(domain=list(systems), range=colours)
    return alt.Color("system:N", scale=scale, legend=legend_of(systems, symbolType="stroke", symbolStrokeWidth=1.5))


def line_colour(lines: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(lines), range=family_colours(len(lines)))
    return alt.Color("line:N", scale=scale, legend=legend_of(lines, symbolType="stroke", symbolStrokeWidth=1.5))


def dash(field: str, names: Sequence[str | int], unit: str = "") -> alt.StrokeDash:
    dashes = [DASHES[place % len(DASHES)] for place in range(len(names))]
    labels = [f"{name}{unit}" for name in names]
    legend = legend_of(
        labels,
        labelExpr=f"datum.label + '{unit}'",
        orient="top",
        symbolType="stroke",
        symbolSize=250,
        symbolStrokeColor=INK,
    )
    return alt.StrokeDash(field, scale=alt.Scale(domain=list(names), range=dashes), legend=legend)


def batch_words(point: SystemPoint) -> str:
    return f"batch {point.batch_size}"


def point_words(point: SystemPoint) -> str:
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return ", ".join(filter(None, [point.workload, batch_words(point), point.variant, gpus]))
