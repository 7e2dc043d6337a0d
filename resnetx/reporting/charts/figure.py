"""What a figure is, and what all figures have in common: their width, panels, axes, legends and style.

Each figure is laid out for one column of a two-column page (8.5 cm); screens show it larger.
"""

import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import cycle, product
from pathlib import Path
from typing import Any

import altair as alt
import msgspec
from altair.utils import schemapi
from altair.vegalite.v6.api import ChartType

from resnetx import packages
from resnetx.errors import ConfigError, has_unshown, shortened, visible
from resnetx.reporting.csv_tables import write_csv
from resnetx.table import Cell, Record, Table

AnyChart = ChartType  # whatever Altair makes: single, layered or concatenated

COLUMN = 241  # 8.5 cm in points: a pixel of a chart is a point of its PDF
PRINT_TEXT, PAGE_TEXT = 7, 12  # points of print, pixels of pages
PHONE_TEXT = 8.2  # on a column, which a phone shows 1.48 times as large
CHARACTER = 3.4  # mean width of a character of 7 points
LABEL_LIMIT = 170  # longer names are cut
SURE = 0.6  # of its room that a name takes at most by its characters, which surely fits
WORD_HEIGHT = 7  # of a word at the foot of a panel, in place of a missing point
MOST_PANELS = 9  # of one figure: more are neither read on a screen nor fit a page
# Charts are checked against Vega-Lite's schema by tests; of a large page, that takes longer than all else.
unchecked = schemapi.debug_mode


@dataclass(frozen=True)
class Figure:
    """One figure: what it shows, how it is read, what is in it, and how it is drawn."""

    name: str  # of its files
    title: str
    caption: str
    table: Table
    chart: AnyChart  # complete: a notebook shows it
    wide: AnyChart | None = None  # the same for a page: 800 px, with text of 12 px; null: a page shows `chart`
    narrow: AnyChart | None = None  # the same for a phone; null: `chart`


class _Layers(alt.LayerChart):
    """Layers as they are: Altair looks for parameters that they share, and for that copies each of them many times."""

    def __init__(self, **parts: Any) -> None:
        super(alt.LayerChart, self).__init__(**parts)


class _Grid(alt.ConcatChart):
    """Panels as they are, likewise."""

    def __init__(self, **parts: Any) -> None:
        super(alt.ConcatChart, self).__init__(**parts)


class _Facets(alt.FacetChart):
    """One panel for each value of a column, likewise."""

    def __init__(self, **parts: Any) -> None:
        super(alt.FacetChart, self).__init__(**parts)


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
    text_size: float = 7,
    width: float = COLUMN,
) -> AnyChart:
    """A panel for each name, which is the value of the column `by` in its rows of the data; where there are more than
    fit, for some of them, and the figure says so.

    `panel` gets a chart with its data and title, whether it is leftmost, and whether it is the last of its column.
    Panels that fill their rows are facets of one, which are drawn in half the time.
    """
    drawn = evenly(names)
    limit = (width - 5 * text_size) // columns
    longest = max(len(part) for name in drawn for part in name.split(", "))
    if longest * CHARACTER * text_size / 7 < SURE * limit:
        limit = 0  # none: whether a name is too long takes a quarter of the time of a drawing to tell
    rows: dict[Cell, list[Record]] = {name: [] for name in drawn}
    for record in data.records():
        if record[by] in rows:
            rows[record[by]].append(record)
    if len(drawn) > 1 and len(drawn) % columns == 0:
        spec = panel(alt.Chart(), True, True)
        header = alt.Header(
            title=None, labelExpr="split(datum.label, ', ')", labelLimit=limit, labelFontSize=text_size,
            labelColor=INK, labelPadding=3, labelLineHeight=text_size + 1,
        )  # fmt: skip
        facet = alt.Facet(f"{by}:N", sort=list(drawn), header=header)
        whole: AnyChart = _Facets(data=alt.NamedData("all"), spec=spec, facet=facet, columns=columns, spacing=7)
        whole = styled(whole, {"all": [record for name in drawn for record in rows[name]]}, text_size)
        whole.config.axis.domain = False  # beside the frame of a panel
    else:
        charts, tables = [], {}
        for index, name in enumerate(drawn):
            table = f"panel{index}"
            tables[table] = rows[name]
            chart = alt.Chart(alt.NamedData(table))
            if name:
                chart = chart.properties(title=alt.Title(name.split(", "), limit=limit))
            charts.append(panel(chart, index % columns == 0, index + columns >= len(drawn)))
        whole = grid(charts, columns, tables, text_size)
    if len(drawn) < len(names):
        whole.title = alt.Title(
            f"{len(drawn)} of {len(names)} panels, evenly spaced; the data of the figure has all", offset=8
        )
    return whole


def grid(panels: Sequence[AnyChart], columns: int, tables: dict[str, list[Record]], text_size: float = 7) -> AnyChart:
    """Panels in rows, with the tables that their marks name."""
    return styled(_Grid(concat=panels, columns=columns, spacing=7, align="each"), tables, text_size)


def evenly(names: Sequence[str]) -> Sequence[str]:
    """As many names as a figure has panels at most, from the first to the last, evenly spaced."""
    if len(names) <= MOST_PANELS + 3:  # a row more, rather than to leave out so few
        return names
    return [names[index * (len(names) - 1) // (MOST_PANELS - 1)] for index in range(MOST_PANELS)]


def legend_of(labels: Sequence[str], width: float = COLUMN, text_size: float = 7, **more: Any) -> alt.Legend:
    """A legend in as many columns as its labels leave room for."""
    label_width = min(LABEL_LIMIT * text_size / 7, CHARACTER * text_size / 7 * max(map(len, labels)))
    columns = max(1, min(8, int((width - 26) // int(label_width + 3 * text_size))))
    return alt.Legend(
        **{"title": None, "orient": "bottom", "columns": columns, "symbolSize": 24, "symbolOpacity": 1, **more}
    )


def domain_with_foot(values: Sequence[float], rows: int, height: int) -> tuple[list[float], float]:
    """The domain of a log axis with room for rows of words below all values, and the factor from row to row."""
    lowest, highest = min(values) / 1.3, max(values) * 1.3
    step = (highest / lowest) ** (WORD_HEIGHT / (height - WORD_HEIGHT * rows))
    return [lowest / step**rows, highest], step


def log_ticks(domain: Sequence[float], base: int) -> list[float]:
    """Ticks of a log axis: powers of its base; where there are few of ten, some of their multiples, too; of a short
    axis, steps."""
    lowest, highest = (min(end, sys.float_info.max) for end in domain)
    exponents = range(math.floor(math.log(lowest, base)), math.ceil(math.log(highest, base)) + 1)
    for multiples in ([1], [1, 2, 5], [1, 2, 3, 5, 7], range(1, 10)):
        ticks = [multiple * base**exponent for exponent in exponents for multiple in multiples]
        ticks = sorted(tick for tick in ticks if domain[0] <= tick <= domain[1])
        if len(ticks) >= 4 or base != 10:
            return ticks
    return _steps(lowest, highest) or ticks


def _steps(lowest: float, highest: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, of which an axis has three to seven."""
    least = max(highest - lowest, sys.float_info.min) / 7
    power = 10.0 ** math.floor(math.log10(least))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least)
    if not math.isfinite(highest / step):  # times near the smallest or the largest number
        return []
    places = range(math.ceil(lowest / step), math.floor(highest / step) + 1)
    return [float(f"{place * step:.6g}") for place in places]


def styled(chart: AnyChart, tables: dict[str, list[Record]], text_size: float = 7) -> AnyChart:
    """A chart in the style of all figures, with the tables that its marks name.

    It is changed in place: each `chart.configure...()` would copy the whole chart.
    """
    text: dict[str, Any] = {"labelFontSize": text_size, "labelColor": INK}
    text |= {"titleFontSize": text_size + 0.5, "titleFontWeight": "normal", "titleColor": INK}
    lines: dict[str, Any] = {"gridColor": GRID, "gridWidth": 0.5, "domainColor": QUIET, "domainWidth": 0.5}
    layout: dict[str, Any] = {"tickColor": QUIET, "tickWidth": 0.5, "tickSize": 3, "labelPadding": 2, "titlePadding": 4}
    chart.config = alt.Config(
        font="Helvetica, Arial, Liberation Sans, sans-serif",
        background=PAPER,
        padding=2,
        axis=alt.AxisConfig(**text, **lines, **layout),
        view=alt.ViewConfig(stroke=QUIET, strokeWidth=0.5),
        title=alt.TitleConfig(fontSize=text_size, fontWeight="normal", color=INK, offset=3, lineHeight=text_size + 1),
        legend=alt.LegendConfig(
            **text, columnPadding=8, rowPadding=1, offset=6, labelLimit=LABEL_LIMIT * text_size / 7
        ),
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


# A figure as files: its Vega-Lite specification, the table behind it, and, with vl-convert, drawings.


def undrawn() -> str:
    """Why there are no drawings, in one sentence with the command that brings them; "" where there are."""
    return packages.obstacle("vl_convert")


@dataclass(frozen=True)
class DrawnChart:
    """A chart as its files have it."""

    specification: dict[str, Any]  # Vega-Lite
    svg: str  # "" where nothing draws
    screen: str = ""  # the same for screens, where that is another drawing


def draw_figure(figure: Figure) -> DrawnChart:
    """A figure for print, and for screens."""
    drawn = draw(figure.chart)
    return replace(drawn, screen=drawn.svg if figure.wide is None else draw(figure.wide).svg)


def draw(chart: AnyChart) -> DrawnChart:
    """A chart, drawn. It needs no network.

    What draws it crashes at control characters, so texts show them written out.
    """
    plain = specification(chart)
    written = msgspec.json.encode(plain).decode()
    if "\\u" in written or has_unshown(written):  # as an escape, or as it is
        plain = _shown(plain)
    return DrawnChart(plain, "" if undrawn() else _svg(plain))


def _svg(plain: dict[str, Any]) -> str:
    import vl_convert

    try:
        return str(vl_convert.vegalite_to_svg(plain))
    except ValueError as error:  # of values that no machine measures, as 1e308
        raise ConfigError(f"a figure cannot be drawn of these records: {shortened(error)}") from None


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shown(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shown(inner) for inner in value]
    return visible(value) if isinstance(value, str) else value


def write_figure(figure: Figure, chart: DrawnChart, folder: Path) -> Path:
    """NAME.vl.json and NAME.csv; where it is drawn, NAME.svg for screens and NAME.pdf for print. Returns the file to
    look at.

    `chart`: of `draw_figure`. A figure that is drawn for pages alone is as wide in print as its text of 7 points makes
    it: both columns.
    """
    write_csv(folder / f"{figure.name}.csv", figure.table)
    plain, drawing, print_file = (folder / f"{figure.name}.{kind}" for kind in ("vl.json", "svg", "pdf"))
    plain.write_bytes(msgspec.json.encode(chart.specification))
    if not chart.svg:
        return plain
    import vl_convert

    titled = "title" in chart.specification  # which a page has above its drawing
    drawing.write_text(on_screens(chart.svg if titled else chart.screen or chart.svg), encoding="utf-8")
    svg = _as_large_as(PRINT_TEXT / figure.chart.config.axis.labelFontSize, chart.svg)
    print_file.write_bytes(vl_convert.svg_to_pdf(svg))
    return drawing


_COLOUR = re.compile(r'"(#[0-9a-f]{6})"')


def partners(svgs: Iterable[str]) -> dict[str, str]:
    """Each colour that is in some drawings with its partner on a dark page."""
    used = {colour for svg in svgs for colour in _COLOUR.findall(svg)}
    return {light: dark for light, dark in dark_colours().items() if light in used}


def on_screens(svg: str) -> str:
    """A drawing as a file, dark where its reader has it so."""
    rules = " ".join(
        f'[fill="{light}"] {{ fill: {dark} }} [stroke="{light}"] {{ stroke: {dark} }}'
        for light, dark in partners([svg]).items()
    )
    opening, end, rest = svg.partition(">")
    return f"{opening}{end}<style>@media (prefers-color-scheme: dark) {{ {rules} }}</style>{rest}"


_EXTENT = re.compile(r' width="([^"]*)" height="([^"]*)"')


def _as_large_as(share: float, svg: str) -> str:
    """A drawing so many times as large, but never larger."""

    def extent(found: re.Match[str]) -> str:
        width, height = (float(length) * min(share, 1.0) for length in found.groups())
        return f' width="{width:.6g}" height="{height:.6g}"'

    return _EXTENT.sub(extent, svg, count=1)


# Colours of all figures. ResNet/x is ordered by x, so its colours are viridis, cut where it would vanish on paper;
# other workloads have Okabe and Ito's, and each a shape for prints without colour. On a dark page every colour is
# replaced by its partner in `dark_colours`.
# References: Okabe & Ito 2008, Color Universal Design; Nuñez, Anderton & Renslow, PLOS ONE 13 (2018) e0199239.

INK, QUIET, GRID, PAPER = "#20262d", "#59636e", "#e2e5e9", "#ffffff"
DASHES = ([1, 0], [3.5, 1.5], [1, 1.2], [5, 1.2, 1, 1.2])

# Parts of a step. Parts that no twin separates are grey.
PART_COLOURS = {
    "compute": "#1f6f8b",
    "communication": "#e4572e",
    "input": "#7b5ea7",
    "host": "#b0559a",
    "not separated": "#9aa3ad",
}

BASELINE = "#9fd3f0"

# Systems side by side: Okabe and Ito's.
SYSTEMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#8c564b")

# Bars of a predicted iteration, by what they are part of.
BARS = {
    "forward": "#7aa6d4",
    "backward": "#3b78b5",
    "update": "#1d4e80",
    "other compute": "#9aa3ad",
    "collectives": PART_COLOURS["communication"],
    "copies": "#8c7a3a",
    "input": PART_COLOURS["input"],
    "host": PART_COLOURS["host"],
}

_DARK = {INK: "#e4e8ec", QUIET: "#a2abb5", GRID: "#353c45", PAPER: "#15191e"}
_DARK |= {BASELINE: "#8ee6ee"}
_RAMP = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779")
MOST_IN_FAMILY = 40  # colours of which there are partners
_DARK_RAMP = ("#3f7fa8", "#2f93a0", "#1fa88d", "#35b779", "#6ece58", "#b5de2b", "#fde725")
OTHERS = {"#d55e00": "#ff9248", "#b0559a": "#e29bd0", "#a67c00": "#e6b84a", "#6b6b6b": "#b5b5b5", "#8a3b12": "#c98a5e"}
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")


# Families of workloads on a page: each with a colour of its own, as `docs/images/lead.svg` has them.
FAMILIES = ("#e4572e", "#7b4fa0", "#1f6f8b", "#b07a00", "#4d4d4d")

_PAGE_DARK = {"#4d4d4d": "#c3cad2", "#1d4e80": "#2f7fd0", "#c3c9d0": "#56606b", "#6b747d": "#a2abb5"}
_PAGE_DARK |= {"#9aa3ad": "#6f7a86", "#e2c6d8": "#8a5578"}
_PAGE_DARK |= {"#0072b2": "#6f8ff5", "#8c564b": "#c49c94"}  # of systems, which are dark
_PAGE_DARK |= {"#cfe3f5": "#24435e", "#fbdcc0": "#6b4423", "#d9ecc8": "#38562a", "#e3d5ee": "#4f3d63"}  # grammar.TINTS
_PAGE_DARK |= {"#7b4fa0": "#b992dc", "#1f6f8b": "#4fb0cf", "#b07a00": "#e0aa3c", "#e4572e": "#ff8560"}


@cache
def dark_colours() -> dict[str, str]:
    """Each colour of figures with its partner on a dark page."""
    ramps = {
        light: dark
        for count in range(1, MOST_IN_FAMILY + 1)
        for light, dark in zip(_spread(_RAMP, count), _spread(_DARK_RAMP, count), strict=True)
    }
    return _DARK | ramps | OTHERS | _PAGE_DARK


def family_colours(count: int) -> list[str]:
    """Colours of the members of an ordered family, as of ResNet/x by x."""
    return _spread(_RAMP, count)


def workload_colours(names: Sequence[str]) -> dict[str, str]:
    """Of workloads: the members of a family (NAME/x) along the ramp, others in colours of their own."""
    family = [name for name in names if "/" in name]
    others = zip([name for name in names if "/" not in name], cycle(OTHERS), strict=False)
    return dict(zip(family, family_colours(len(family)), strict=True)) | dict(others)


def _spread(ramp: Sequence[str], count: int) -> list[str]:
    """`count` colours over a ramp from end to end, mixed where it has too few."""
    places = [step * (len(ramp) - 1) / max(1, count - 1) for step in range(count)]
    return [_mixed(ramp[math.floor(place)], ramp[math.ceil(place)], place % 1) for place in places]


def _mixed(first: str, second: str, share: float) -> str:
    channels = [(int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)
