"""What a figure is, and what all figures have in common: their width, panels, axes, legends and style.

Each figure is laid out for one column of a two-column page (8.5 cm); screens show it larger.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import altair as alt
from altair.vegalite.v6.api import ChartType

from resnetx.record.machine import Unit
from resnetx.reporting.charts.styles import GRID, INK, PAPER, QUIET
from resnetx.table import Cell, Record, Table

AnyChart = ChartType  # whatever Altair makes: single, layered or concatenated

COLUMN = 241  # 8.5 cm in points: a pixel of a chart is a point of its PDF
CHARACTER = 3.4  # mean width of a character of 7 points
LABEL_LIMIT = 170  # longer names are cut
WORD_HEIGHT = 7  # of a word at the foot of a panel, in place of a missing point
MOST_PANELS = 48  # of one figure: more are neither read on a screen nor fit a page


@dataclass(frozen=True)
class Figure:
    """One figure: what it shows, how it is read, what is in it, and how it is drawn."""

    name: str  # of its files
    title: str
    caption: str
    table: Table
    chart: AnyChart  # complete: a notebook shows it


class _Layers(alt.LayerChart):
    """Layers as they are: Altair looks for parameters that they share, and for that copies each of them many times."""

    def __init__(self, **parts: Any) -> None:
        super(alt.LayerChart, self).__init__(**parts)


class _Grid(alt.ConcatChart):
    """Panels as they are, likewise."""

    def __init__(self, **parts: Any) -> None:
        super(alt.ConcatChart, self).__init__(**parts)


def layered(layers: Iterable[alt.Chart], panel: alt.Chart | None = None) -> alt.LayerChart:
    """Layers on each other; if each was made from `panel`, its data, title and size become those of the whole."""
    layers = list(layers)
    shared = {}
    if panel is not None:
        parts = ("data", "title", "width", "height")
        shared = {part: panel[part] for part in parts if panel[part] is not alt.Undefined}
    for layer, (part, value) in product(layers, shared.items()):
        if layer[part] is value:
            layer[part] = alt.Undefined
    return _Layers(layer=layers, **shared)


def panel_grid(
    data: Table,
    by: str,
    names: Sequence[str],
    columns: int,
    panel: Callable[[alt.Chart, bool, bool], AnyChart],
) -> AnyChart:
    """A panel for each name, which is the value of the column `by` in its rows of the data; where there are more than
    fit, for some of them, and the figure says so.

    `panel` gets a chart with its data and title, whether it is leftmost, and whether it is the last of its column.
    """
    charts, tables = [], {}
    rows: dict[Cell, list[Record]] = defaultdict(list)
    for record in data.records():
        rows[record[by]].append(record)
    drawn = _evenly(names)
    for place, name in enumerate(drawn):
        table = f"panel{place}"
        tables[table] = rows[name]
        chart = alt.Chart(alt.NamedData(table))
        if name:
            chart = chart.properties(title=alt.Title(name.split(", "), limit=(COLUMN - 36) // columns))
        charts.append(panel(chart, place % columns == 0, place + columns >= len(drawn)))
    grid = _Grid(concat=charts, columns=columns, spacing=7, align="each")
    if len(drawn) < len(names):
        grid.title = alt.Title(
            f"{len(drawn)} of {len(names)} panels, evenly spaced; the data of the figure has all", offset=8
        )
    return styled(grid, tables)


def _evenly(names: Sequence[str]) -> Sequence[str]:
    """As many names as a figure has panels at most, from the first to the last, evenly spaced."""
    if len(names) <= MOST_PANELS:
        return names
    return [names[place * (len(names) - 1) // (MOST_PANELS - 1)] for place in range(MOST_PANELS)]


def legend_of(labels: Sequence[str], **more: Any) -> alt.Legend:
    """A legend in as many columns as its labels leave room for."""
    label_width = min(LABEL_LIMIT, CHARACTER * max(map(len, labels)))
    columns = max(1, min(4, (COLUMN - 26) // int(label_width + 20)))
    return alt.Legend(
        **{"title": None, "orient": "bottom", "columns": columns, "symbolSize": 24, "symbolOpacity": 1, **more}
    )


def gpus_axis(gpus: Iterable[int], shown: bool, unit: Unit = "GPU") -> alt.X:
    """GPUs, or ranks on CPU cores, on a log axis, with a tick at every count that there is."""
    counts = sorted(set(gpus))
    scale = alt.Scale(type="log", base=2, domain=[counts[0] / 1.3, counts[-1] * 1.3], nice=False)
    axis = alt.Axis(values=counts, format="d", grid=False, labelOverlap=True, labels=shown, ticks=shown)
    return alt.X("gpus:Q", scale=scale, axis=axis, title=f"{unit}s" if shown else None)


def domain_with_foot(values: Sequence[float], rows: int, height: int) -> tuple[list[float], float]:
    """The domain of a log axis with room for rows of words below all values, and the factor from row to row."""
    lowest, highest = min(values) / 1.3, max(values) * 1.3
    step = (highest / lowest) ** (WORD_HEIGHT / (height - WORD_HEIGHT * rows))
    return [lowest / step**rows, highest], step


def log_ticks(domain: Sequence[float], base: int) -> list[float]:
    """Ticks of a log axis: powers of its base; where there are few of ten, some of their multiples, too."""
    exponents = range(math.floor(math.log(domain[0], base)), math.ceil(math.log(domain[1], base)) + 1)
    for multiples in ([1], [1, 2, 5], [1, 2, 3, 5, 7], range(1, 10)):
        ticks = [multiple * base**exponent for exponent in exponents for multiple in multiples]
        ticks = sorted(tick for tick in ticks if domain[0] <= tick <= domain[1])
        if len(ticks) >= 4 or base != 10:
            break
    return ticks


def si_axis(ticks: Sequence[float], shown: bool) -> alt.Axis:
    """An axis with SI prefixes above 1, and plain decimals below."""
    label = "datum.value < 1 ? format(datum.value, '~g') : format(datum.value, '~s')"
    return alt.Axis(values=list(ticks), labelExpr=label, labels=shown, ticks=shown)


def styled(chart: AnyChart, tables: dict[str, list[Record]]) -> AnyChart:
    """A chart in the style of all figures, with the tables that its marks name.

    It is changed in place: each `chart.configure...()` would copy the whole chart.
    """
    text: dict[str, Any] = {"labelFontSize": 7, "labelColor": INK}
    text |= {"titleFontSize": 7.5, "titleFontWeight": "normal", "titleColor": INK}
    lines: dict[str, Any] = {"gridColor": GRID, "gridWidth": 0.5, "domainColor": QUIET, "domainWidth": 0.5}
    layout: dict[str, Any] = {"tickColor": QUIET, "tickWidth": 0.5, "tickSize": 3, "labelPadding": 2, "titlePadding": 4}
    chart.config = alt.Config(
        font="Helvetica, Arial, Liberation Sans, sans-serif",
        background=PAPER,
        padding=2,
        axis=alt.AxisConfig(**text, **lines, **layout),
        view=alt.ViewConfig(stroke=QUIET, strokeWidth=0.5),
        title=alt.TitleConfig(fontSize=7, fontWeight="normal", color=INK, offset=3, lineHeight=8),
        legend=alt.LegendConfig(**text, columnPadding=8, rowPadding=1, offset=6, labelLimit=LABEL_LIMIT),
    )
    chart.datasets = tables
    return chart


def specification(chart: AnyChart) -> dict[str, Any]:
    """A chart as Vega-Lite, not checked against its schema, which takes longer than to draw it."""
    bare = chart.copy(deep=False)
    bare.datasets = alt.Undefined  # of which Altair would copy each cell, several times
    plain: dict[str, Any] = bare.to_dict(validate=False)
    if chart.datasets is not alt.Undefined:
        plain["datasets"] = plain.get("datasets", {}) | chart.datasets
    return plain
