"""Figures as data: what is drawn of a table, over which axes, in which colours; drawn once for each width.

    Plot(x=Axis("size_bytes", "bytes", "log"), y=Axis("GBps", "GB/s"), marks=(Mark("line"), Mark("dots")),
         colour=Scale("system", {"gx8": "#d55e00"}))

A plot is drawn for print (8.5 cm, 7 points; of many panels both columns), for a page (800 px, 12 px) and for a phone
(the same 12 px on 360 px). Marks are lines and bands around them, dots, whiskers, bars and their limits, spans of time,
squares, words, rules and diagonals, and of graphs on a plane boxes, paths and the heads of arrows; a panel shows the
rows that have one value in a column, or all rows over another y axis.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, pairwise
from textwrap import wrap
from typing import Any, Literal

import altair as alt

from resnetx.reporting.charts.figure import (
    COLUMN,
    DASHES,
    INK,
    PAGE_TEXT,
    PAPER,
    PHONE_TEXT,
    PRINT_TEXT,
    QUIET,
    SHAPES,
    SYSTEMS,
    AnyChart,
    Figure,
    evenly,
    family_colours,
    grid,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    styled,
    unchecked,
)
from resnetx.table import Cell, Record, Table
from resnetx.units import number

# Of squares by class: pale, so that what is written in them can be read; and the ink on a ramp, whose colours are the
# same on light and dark pages.
TINTS = ("#cfe3f5", "#fbdcc0", "#d9ecc8", "#e3d5ee")
ON_RAMPS = "#14181d"
NAMES = 0.48  # of the width that a name may take in one line
CHARACTER = 0.49  # mean width of a character, over the size of the text
IN_BARS = 0.68  # room of a character of "10%" in a bar, likewise
DIGIT = 0.56  # width of a digit, likewise
LONG_TITLE = 24  # characters of the title of a y axis, which then may take two lines
MOST_PRINTED = 6  # panels in one column of print: more have the drawing for pages, over both columns
MOST_DRAWN_APART = 400  # rows: of more, which take long to draw, print has the drawing for pages
MOST_ON_PHONES = 800  # rows: likewise of phones, on which that scrolls

LEAST_SQUARE = 1.3  # height of squares in a row, over the size of the text
UNIT_PIXELS = 96  # of one unit of a plane, where there is room
LEAST_UNIT_PIXELS = 50  # of one, into whose boxes words of 12 px fit

# steps: whole numbers that are names, as of GPUs; plane: positions, without an axis
Kind = Literal["number", "log", "log2", "names", "steps", "plane"]
Labels = Literal["", "si", "percent", "times", "bytes", "MB"]
_READ: Mapping[str, str] = {
    "": "format(datum.value, ',')",
    "si": "datum.value < 1 ? format(datum.value, '~g') : format(datum.value, '~s')",
    "percent": "format(datum.value, '~%')",
    "times": "datum.value == 1 ? 'equal' : '\u00d7' + format(datum.value, '~g')",
    "MB": "datum.value / 1e6 + ' MB'",
    "bytes": "datum.value < 1024 ? datum.value + ' B' : datum.value < 1048576 ? datum.value / 1024 + ' KiB' : "
    "datum.value < 1073741824 ? datum.value / 1048576 + ' MiB' : datum.value / 1073741824 + ' GiB'",
}


@dataclass(frozen=True)
class Axis:
    """A column along an axis."""

    column: str
    title: str  # "\n" breaks it
    kind: Kind = "number"
    labels: Labels = ""
    ticks: Sequence[float] = ()
    domain: tuple[float, float] | None = None  # null: all that is there, and of numbers 0
    order: Sequence[Cell] = ()  # of names


@dataclass(frozen=True)
class Scale:
    """What the values of a column look like: colours, dashes, shapes or fills."""

    column: str
    looks: Mapping[Any, Any]
    title: str | None = None


@dataclass(frozen=True)
class Ramp:
    """Colours of numbers: from 0, or from what is given, to the largest."""

    column: str
    scheme: Any  # a name of Vega's
    title: str
    domain: tuple[float, float]
    reverse: bool = False


@dataclass(frozen=True)
class Mark:
    """What is drawn of each row."""

    kind: Literal[
        "line", "segments", "band", "dots", "whiskers", "across", "bars", "spans", "limits", "squares", "words", "rule",
        "diagonal", "path", "heads", "boxes",
    ]  # fmt: skip
    where: str = ""  # of which rows: an expression of Vega
    # Other than the axis's: of the y of lines, the ends of whiskers and bands (_low, _high; "across": along x) and of
    # spans, the text of words; of a rule its y, of a diagonal y / x. Segments end at (`along`_to, _to).
    column: str = ""
    colour: str = ""  # of all of them, in place of the scale's
    look: Mapping[str, Any] = field(default_factory=dict)  # further properties, in print
    at: str = ""  # of words: the column of their y, if it is not the axis's
    along: str = ""  # of words, lines and segments: the column of their x, likewise
    within: str = ""  # of words: the column of the end of their span; they are left out where it is too short for them
    by_scale: bool = False  # words have the colours of the scale
    scale: Scale | None = None  # in place of the plot's; without looks, the values of its column are colours
    width: str = ""  # of paths: the column of their widths, of dots that of their areas
    on_pages: bool = False  # where there is room for it, alone


@dataclass(frozen=True)
class Plot:
    """A figure as data."""

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    colour: Scale | Ramp | None = None
    dash: Scale | None = None
    fill: Scale | None = None  # of dots: hollow where it is the ground; without looks the values are colours
    shape: Scale | None = None  # of dots
    size: Scale | None = None  # of dots: areas in print
    detail: Sequence[str] = ()  # columns that lines are apart in besides
    aside: Sequence[str] = ()  # columns whose values lie side by side at one place of an axis by powers of 2
    tips: Sequence[str] = ()  # columns that a mark says when it is pointed at
    panel: str = ""  # column; "": one panel
    beside: Sequence[Axis] = ()  # y axes of further panels, of the same rows
    columns: int = 1  # of panels, at most
    square: bool = False  # panels are
    height: float = 120.0  # of a panel in print, points
    stacked: str = ""  # column by which bars lie on each other in order
    characters: int = 0  # that a panel has room for
    bare: bool = False  # without an x axis and frames: numbers stand at the marks
    chart_only: Sequence[str] = ()  # columns that the table of the figure does not show
    subtitle: str | None = None  # of a plane: its file says the title of the figure and this


def figure(name: str, title: str, caption: str, table: Table, plot: Plot, shown: Table | None = None) -> Figure:
    """A plot of a table, at all widths. `shown`: the data of the figure, where `table` is how they are drawn."""
    if plot.tips and "description" not in table.columns:
        plot, table = _described(plot, table)
    if plot.aside:
        plot, table = _side_by_side(plot, table)
    places = [index for index, column in enumerate(table.columns) if column not in plot.chart_only]
    columns = [table.columns[place] for place in places]
    shown = shown or Table(columns, [[row[place] for place in places] for row in table.rows])
    caption += _named_alone(plot, f"{title} {caption}", table)
    apart = len(table.rows) <= MOST_DRAWN_APART
    panels = len({record[plot.panel] for record in table.records()}) if plot.panel else 1
    with unchecked(False):
        wide, narrow = _drawn(plot, table, _PAGE), None
        if plot.x.kind == "plane":
            chart, narrow = wide, _drawn(*_fitting(plot, table, _SMALL_PLANE), _SMALL_PLANE)
        else:
            chart = _drawn(plot, table, _PRINT) if apart and panels <= MOST_PRINTED else wide
            narrow = _drawn(plot, table, _PHONE) if len(table.rows) <= MOST_ON_PHONES else None
    if plot.subtitle is not None:  # the file's, not the page's, which has both beside it
        chart = wide.copy(deep=False)
        chart.title = alt.Title(
            title, subtitle=plot.subtitle, anchor="start", offset=12, fontSize=PAGE_TEXT + 1, subtitleFontSize=PAGE_TEXT
        )
        chart.config = wide.config.copy(deep=False)
        chart.config.title = alt.TitleConfig(color=INK, subtitleColor=INK, limit=_PAGE.width)
    other = None if chart is wide else wide
    return Figure(name=name, title=title, caption=caption, table=shown, chart=chart, wide=other, narrow=narrow)


def _described(plot: Plot, table: Table) -> tuple[Plot, Table]:
    """Rows that say what they are, by the columns that a mark says: names as they are, numbers behind their column."""
    places = [(column.replace("_", " ").replace("Bps", "B/s"), table.columns.index(column)) for column in plot.tips]

    def said(name: str, cell: Cell) -> str:
        if isinstance(cell, str):
            return f"{name} {cell}" if cell.isdigit() else cell
        return "" if cell is None else f"{name} {_in_full(cell)}"

    rows = [[*row, ", ".join(filter(None, (said(name, row[place]) for name, place in places)))] for row in table.rows]
    plot = replace(plot, chart_only=(*plot.chart_only, "description"))
    return plot, Table([*table.columns, "description"], rows, table.note, table.numbers)


def _in_full(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


AT = "at"  # the column of places side by side
MOST_ASIDE = 0.4  # of the room between two places
ASIDE = 0.09  # of the room between two places, from one mark to the next
LEAST_OF_AXIS = 36  # such steps are along an axis at least


def _side_by_side(plot: Plot, table: Table) -> tuple[Plot, Table]:
    """Rows that differ in what lies side by side, at places next to each other, so that none hides another."""
    records = table.records()
    orders: dict[Cell, dict[tuple[Cell, ...], int]] = {}
    for record in records:
        order = orders.setdefault(record[plot.panel] if plot.panel else "", {})
        order.setdefault(tuple(record[column] for column in plot.aside), len(order))
    places = sorted({float(record[plot.x.column] or 1) for record in records})
    gap = min((math.log2(more / less) for less, more in pairwise(places)), default=1.0)
    length = math.log2(places[-1] / places[0])
    rows = []
    for record, row in zip(records, table.rows, strict=True):
        order = orders[record[plot.panel] if plot.panel else ""]
        step = min(ASIDE * gap, MOST_ASIDE * gap / max(1, len(order) - 1), max(length, 1) / LEAST_OF_AXIS)
        beside = order[tuple(record[column] for column in plot.aside)] - (len(order) - 1) / 2
        rows.append([*row, float(record[plot.x.column] or 1) * 2 ** (step * beside)])
    marks = [
        replace(mark, along=plot.x.column) if mark.kind in ("line", "segments") and mark.column else mark
        for mark in plot.marks
    ]
    x = replace(plot.x, column=AT)
    return replace(plot, x=x, marks=marks, chart_only=(*plot.chart_only, AT)), Table([*table.columns, AT], rows)


def _named_alone(plot: Plot, said: str, table: Table) -> str:
    """The only name of a scale of colours, which has no legend, as a sentence; "" where words or axes have it."""
    if not isinstance(plot.colour, Scale) or len(plot.colour.looks) != 1 or plot.colour.column == plot.x.column:
        return ""
    (name,) = map(str, plot.colour.looks)
    panels = {str(record[plot.panel]) for record in table.records()} if plot.panel else set()
    known = name.lower() in said.lower() or any(name in panel for panel in panels)
    return "" if known or not name else f" Drawn: {name}."


def names_in(rows: Iterable[Record], column: str) -> list[str]:
    """The values of a column, each once."""
    return list(dict.fromkeys(str(row[column]) for row in rows))


def numbers_in(rows: Iterable[Record], *columns: str) -> list[float]:
    """The numbers of some columns, row by row; 0 where one is not known."""
    return [float(row[column] or 0) for row in rows for column in columns]


def looks_there(column: str, looks: Mapping[str, str], rows: Iterable[Record]) -> Scale:
    """The scale of a column: of all looks, those of the values that are there."""
    values = {row[column] for row in rows}
    return Scale(column, {value: look for value, look in looks.items() if value in values})


def span(values: Iterable[float]) -> str:
    """The least and the greatest value, to three digits."""
    values = list(values)
    return " to ".join(dict.fromkeys([number(min(values)), number(max(values))]))


def system_looks(systems: Sequence[str]) -> dict[str, str]:
    return {name: SYSTEMS[index % len(SYSTEMS)] for index, name in enumerate(systems)}


def line_looks(lines: Sequence[str]) -> dict[str, str]:
    return dict(zip(lines, family_colours(len(lines)), strict=True))


def dash_looks(names: Sequence[str]) -> dict[str, list[float]]:
    return {name: list(DASHES[index % len(DASHES)]) for index, name in enumerate(names)}


def shape_looks(names: Sequence[str]) -> dict[str, str]:
    """A shape for each name, for prints without colour."""
    return dict(zip(names, cycle(SHAPES), strict=False))


def solid_and_hollow(column: str, names: Sequence[str], where: str = "", **look: Any) -> list[Mark]:
    """Dots, of two names solid and hollow ones: colour alone tells no two of them apart; of more, shapes do."""
    if len(names) != 2:
        return [Mark("dots", where, look=look)]
    of_name = f"{where or 'true'} && datum.{column} == {{!r}}".format
    solid, hollow = names
    return [
        Mark("dots", of_name(solid), look={**look, "filled": True}),
        Mark("dots", of_name(hollow), look={**look, "filled": False}),
    ]


def solid_and_hollow_words(names: Sequence[str]) -> str:
    """Which are which, as a sentence that goes on a caption; "" where there are not two."""
    return f" Solid: {names[0]}; hollow: {names[1]}." if len(names) == 2 and all(names) else ""


def ratios(rows: Sequence[Record], names: str, title: str, **more: Any) -> Plot:
    """The column `ratio` around no difference, and what it lies between; a row for each of the names in a column."""
    return Plot(
        x=factors("ratio", title, numbers_in(rows, "ratio_low", "ratio_high")),
        y=Axis(names, "", "names"),
        marks=(Mark("across", column="ratio"), Mark("dots", look={"size": 24})),
        **more,
    )


def squares(x: Axis, y: Axis, colour: Scale | Ramp, written: bool, **more: Any) -> Plot:
    """A square for each pair of names, with its column `label` in it where that can be read."""
    ink = ON_RAMPS if isinstance(colour, Ramp) else INK
    marks = [Mark("squares"), *[Mark("words", column="label", look={"color": ink})] * written]
    return Plot(x=x, y=y, marks=marks, colour=colour, **{"chart_only": ("label",), **more})


MOST_FACTORS = 9  # ticks of an axis of factors
OTHER_SIDE = 0.15  # least share of such an axis on either side of no difference, of its longer side


def factors(column: str, title: str, ends: Iterable[float]) -> Axis:
    """An axis of factors around no difference, with ticks on both sides of it."""
    ends = [end for end in ends if end > 0]
    low, high = min(0.97, *ends), max(1.03, *ends)
    low, high = min(low, high**-OTHER_SIDE) / 1.01, max(high, low**-OTHER_SIDE) * 1.01
    return Axis(column, title, "log", "times", ticks=_factor_ticks(low, high), domain=(low, high))


def _factor_ticks(low: float, high: float) -> list[float]:
    """Round factors, of which as many as an axis has room for, and one on each side of no difference."""
    ticks = log_ticks((low, high), 10) if high > 20 * low else [1.0]
    for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if high <= 20 * low else ():
        ticks = [round(1 + step * index, 2) for index in range(math.ceil((low - 1) / step), int((high - 1) / step) + 1)]
        if len(ticks) <= MOST_FACTORS:
            break
    below = [tick for tick in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98) if low <= tick][:1]
    above = [tick for tick in (2, 1.5, 1.2, 1.1, 1.05, 1.02) if tick <= high][:1]
    more = [*below * all(tick >= 1 for tick in ticks), *above * all(tick <= 1 for tick in ticks)]
    return sorted({*ticks, *more, 1.0})


# ---- sizes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Size:
    width: float
    text: float
    mark: float  # factor of lines and radii
    columns: int  # at most

    @property
    def axis(self) -> float:
        """Room for the labels and the title of the y axis."""
        return 5.5 * self.text


_PRINT = _Size(COLUMN, PRINT_TEXT, 1.0, 4)
_PHONE = _Size(COLUMN, PHONE_TEXT, 1.05, 1)
_PAGE = _Size(780, PAGE_TEXT, 1.7, 4)
_SMALL_PLANE = _Size(345, PAGE_TEXT, 1.0, 1)


# ---- drawn ----------------------------------------------------------------------------------------------------------


def _drawn(plot: Plot, table: Table, size: _Size) -> AnyChart:
    if plot.x.kind == "plane":
        return _plane(plot, table, size)
    records = table.records()
    names = names_in(records, plot.panel) if plot.panel else [""]
    room = _label_room(plot, records, size)
    legend_room = 6 * size.text if isinstance(plot.colour, Ramp) else 0
    if plot.beside:
        columns = min(1 + len(plot.beside), size.columns)
        width = size.width / columns - room - 10
    else:
        longest = max(plot.characters, *(len(part) for name in names for part in name.split(", ")))
        fitting = int((size.width - room) // (longest * CHARACTER * size.text + 10))
        most = max(1, min(plot.columns, len(names), size.columns, fitting))
        count = len(evenly(names))  # in full rows, where that takes few columns less
        columns = next((some for some in range(most, most // 2, -1) if count % some == 0), most)
        width = (size.width - room - legend_room - 10 * columns) / columns
    height = plot.height * (width / (size.width - room)) ** 0.3 * (size.width / COLUMN) ** 0.72
    if plot.y.kind in ("names", "steps"):
        count = len({record[plot.y.column] for record in records})
        lines = _lines(plot.y, records, size)
        each = 0.6 + (1.3 if lines > 1 else 1.1) * lines + 0.5 * plot.bare
        height = max(count * size.text * each, (2 if plot.bare else 4) * size.text)
    if any(mark.kind == "squares" for mark in plot.marks):
        across, down = (len({record[axis.column] for record in records}) for axis in (plot.x, plot.y))
        width = min(width, 5.2 * size.text * across)
        each = width / across * (1 if columns == 1 and size is not _PAGE else 0.8)
        height = down * max(each, LEAST_SQUARE * size.text)
    if plot.square:
        width = height = min(width, 34 * size.text)

    def fits(mark: Mark) -> bool:
        """Words that are written into squares fit into them, or are left out: tooltips and the table have them."""
        if mark.kind != "words" or not any(other.kind == "squares" for other in plot.marks):
            return True
        longest = max(len(str(record[mark.column])) for record in records)
        return DIGIT * size.text * longest <= width / len({record[plot.x.column] for record in records})

    def panel(chart: alt.Chart, left: bool, last: bool, y: Axis) -> AnyChart:
        chart = chart.properties(width=width, height=height)
        own = replace(plot, y=replace(y, title=_broken(y.title, height, size) if left else ""))
        encodings = dict(_encodings(own, records, size, width, left, last))
        marks = [mark for mark in plot.marks if (size is _PAGE or not mark.on_pages) and fits(mark)]
        return layered([_layer(chart, mark, own, encodings, size, width) for mark in marks], chart)

    if plot.beside:
        axes = [plot.y, *plot.beside]
        panels = [
            panel(alt.Chart(alt.NamedData("all")), True, index + columns >= len(axes), axis)
            for index, axis in enumerate(axes)
        ]
        return grid(panels, columns, {"all": records}, size.text)
    data = table if plot.panel else Table([*table.columns, ""], [[*row, ""] for row in table.rows])
    draw = partial(panel, y=plot.y)
    whole = panel_grid(data, plot.panel, names, columns, draw, text_size=size.text, width=size.width)
    if plot.bare:
        whole.config.view = alt.ViewConfig(stroke=None)
        whole.config.axis.domain = whole.config.axis.ticks = False
    return whole


UPRIGHT = Mark("words", "datum.kind == 'upright word'", "label", colour="white", look={"fontWeight": 600, "angle": 270})
BAR = 0.5  # of a unit: boxes that are longer on either side of their middle are bars
BESIDE_BOXES = 0.25  # units: how far boxes that stay as they are reach over the sides of a plane that is turned


def _fitting(plot: Plot, table: Table, size: _Size) -> tuple[Plot, Table]:
    """A plane as it is, or if it is too wide turned to the right, so that what lies in a row stands in a column. Boxes
    keep their shape, but for bars."""
    (left, right), (low, high) = (axis.domain or (0.0, 1.0) for axis in (plot.x, plot.y))
    if (right - left) * LEAST_UNIT_PIXELS <= size.width or right - left <= high - low:
        return plot, table
    records, bar = table.records(), False
    for record in records:
        x, x2, y, y2 = (float(record[column] or 0) for column in ("x", "x2", "y", "y2"))
        if record["kind"] == "box":
            halves = (x2 - x) / 2, (y2 - y) / 2
            bar = halves[0] > BAR
            (x, y), (along, up) = ((y + y2) / 2, -(x + x2) / 2), halves[::-1] if bar else halves
            record |= {"x": x - along, "x2": x + along, "y": y - up, "y2": y + up}
            continue
        record |= {"x": y, "y": -x, "angle": None if record["angle"] is None else float(record["angle"] or 0) + 90}
        record["kind"] = "upright word" if bar and record["kind"] == "word" else record["kind"]
    turned = replace(plot.x, domain=(low - BESIDE_BOXES, high + BESIDE_BOXES)), replace(plot.y, domain=(-right, -left))
    rows = [list(record.values()) for record in records]
    return replace(plot, x=turned[0], y=turned[1], marks=[*plot.marks, UPRIGHT]), Table(table.columns, rows)


def _plane(plot: Plot, table: Table, size: _Size) -> AnyChart:
    """A graph on its plane, whose units are as large as its room allows, and its words fit in."""
    columns = min(plot.columns, size.columns)
    ends = [axis.domain or (0.0, 1.0) for axis in (plot.x, plot.y)]
    across, up = (high - low for low, high in ends)
    unit = min(UNIT_PIXELS, max(LEAST_UNIT_PIXELS, size.width / columns / across))
    size = replace(size, mark=unit / UNIT_PIXELS)
    records = table.records()
    axes = ("x", alt.X, plot.x), ("y", alt.Y, plot.y)
    encodings = {name: _axis(channel, axis, records, [], size, True, True) for name, channel, axis in axes}

    def panel(chart: alt.Chart, *_: bool) -> AnyChart:
        chart = chart.properties(width=across * unit, height=up * unit)
        layers = layered([_layer(chart, mark, plot, encodings, size, 0.0) for mark in plot.marks], chart)
        whole: AnyChart = layers.resolve_scale(color="independent")
        return whole

    if plot.panel:
        names = names_in(records, plot.panel)
        whole = panel_grid(table, plot.panel, names, columns, panel, size.text, size.width)
    else:
        whole = styled(panel(alt.Chart(alt.NamedData("all"))), {"all": records}, size.text)
    whole.config.legend.labelLimit = size.width - 30
    whole.config.view = alt.ViewConfig(stroke=None)
    return whole


def _broken(title: str, height: float, size: _Size) -> str:
    """A title on two lines, if it is longer than its axis: broken at the blank nearest to its middle."""
    gaps = [index for index, character in enumerate(title) if character == " "]
    if "\n" in title or not gaps or CHARACTER * size.text * len(title) < height:
        return title
    middle = min(gaps, key=lambda place: abs(place - len(title) / 2))
    return f"{title[:middle]}\n{title[middle + 1 :]}"


def _label_room(plot: Plot, records: Sequence[Mapping[str, Cell]], size: _Size) -> float:
    if plot.y.kind != "names":
        long = any("\n" in axis.title or len(axis.title) > LONG_TITLE for axis in (plot.y, *plot.beside))
        return size.axis + size.text * long
    split = _lines(plot.y, records, size) > 1
    parts = [
        part
        for record in records
        for part in (_parts(record[plot.y.column], size) if split else [_name(record, plot.y)])
    ]
    return min(0.55 * size.width, (max(map(len, parts), default=0) + 2) * size.text * 0.6 + 2 * size.text)


def _lines(axis: Axis, records: Sequence[Mapping[str, Cell]], size: _Size) -> int:
    """Into how many lines names are split at commas, which would be too long for one."""
    names = [_name(record, axis) for record in records] if axis.kind == "names" else []
    return max((len(_parts(name, size)) for name in names), default=1)


def _name(record: Mapping[str, Cell], axis: Axis) -> str:
    return str(record[axis.column])


def _parts(name: Cell, size: _Size) -> list[str]:
    """The lines of a name: its own, or broken at commas where it would take more than its share of the width, and at
    blanks where that is too long."""
    if "\n" in str(name):
        return str(name).split("\n")
    lines, most = list[str](), int(NAMES * size.width / (0.6 * size.text))
    for word in str(name).split(", "):
        if lines and len(longer := f"{lines[-1]}, {word}") < most:
            lines[-1] = longer
        else:
            lines += wrap(word, most, break_long_words=False, break_on_hyphens=False) or [""]
    return lines


def _encodings(
    plot: Plot, records: Sequence[Mapping[str, Cell]], size: _Size, width: float, left: bool, last: bool
) -> Iterator[tuple[str, Any]]:
    ends = [mark.column or plot.y.column for mark in plot.marks if mark.kind in ("line", "dots", "bars")]
    ends += [
        f"{mark.column or plot.y.column}{end}"
        for mark in plot.marks
        if mark.kind in ("whiskers", "band")
        for end in ("_low", "_high")
    ]
    across = [mark.column for mark in plot.marks if mark.kind == "across"]
    along = [plot.x.column, *(f"{column}{end}" for column in across for end in ("_low", "_high"))]
    along += [mark.column for mark in plot.marks if mark.kind == "spans"]
    yield "x", _bare(alt.X, plot.x) if plot.bare else _axis(alt.X, plot.x, records, along, size, True, last, width)
    yield "y", _axis(alt.Y, plot.y, records, ends or [plot.y.column], size, left, True)
    if size.columns == 1:
        size = replace(size, width=width)  # legends begin where panels do
    if isinstance(plot.colour, Ramp):
        bar = alt.Legend(title=plot.colour.title, gradientLength=10 * size.text, gradientThickness=size.text)
        scale = alt.Scale(
            scheme=plot.colour.scheme, domain=list(plot.colour.domain), reverse=plot.colour.reverse, nice=False
        )
        yield "color", alt.Color(f"{plot.colour.column}:Q", scale=scale, legend=bar)
    elif plot.colour:
        line = any(mark.kind == "line" for mark in plot.marks)
        symbol: dict[str, Any] = {"symbolSize": 24 * size.mark**2}
        symbol |= (
            {"symbolType": "stroke", "symbolStrokeWidth": 1.6 * size.mark, "symbolSize": 90 * size.mark**2}
            if line and not plot.shape
            else {}
        )
        symbol |= {"symbolType": "square"} if any(mark.kind in ("bars", "spans") for mark in plot.marks) else {}
        symbol |= {"symbolFillColor": PAPER} if plot.fill and not plot.fill.looks else {}
        named = plot.colour.column == plot.x.column  # by the axis
        yield "color", _scaled(alt.Color, plot.colour, size, named=named, **symbol)
        if plot.shape and plot.shape.column == plot.colour.column:
            yield "shape", _scaled(alt.Shape, plot.shape, size, named=named, **symbol)
    if plot.dash:
        more: dict[str, Any] = {
            "orient": "top",
            "symbolType": "stroke",
            "symbolSize": 250 * size.mark,
            "symbolStrokeColor": INK,
        }
        yield "strokeDash", _scaled(alt.StrokeDash, plot.dash, size, **more)
    if plot.shape and not (plot.colour and plot.colour.column == plot.shape.column):
        more = {"orient": "bottom" if plot.fill else "top", "symbolFillColor": INK, "symbolStrokeColor": INK}
        yield "shape", _scaled(alt.Shape, plot.shape, size, **more)
    if plot.size and len(plot.size.looks) > 1:
        larger = Scale(
            plot.size.column, {value: area * size.mark**2 for value, area in plot.size.looks.items()}, plot.size.title
        )
        yield "size", _scaled(alt.Size, larger, size, orient="top", symbolFillColor=QUIET, symbolStrokeColor=QUIET)
    if plot.fill and not plot.fill.looks:
        yield "fill", alt.Fill(f"{plot.fill.column}:N", scale=None, legend=None)
    elif plot.fill:
        yield "fill", _scaled(alt.Fill, plot.fill, size, orient="top", symbolStrokeColor=INK, symbolType="circle")
    if plot.tips:
        numbers = {column for column in plot.tips if any(isinstance(record[column], float) for record in records)}
        yield (
            "tooltip",
            [
                alt.Tooltip(f"{column}:Q", format=".4g") if column in numbers else alt.Tooltip(f"{column}:N")
                for column in plot.tips
            ],
        )
    if plot.detail:
        yield "detail", [alt.Detail(f"{column}:N") for column in plot.detail]


def _scaled(channel: Any, scale: Scale, size: _Size, *, named: bool = False, **more: Any) -> Any:
    labels = [str(value) for value in scale.looks]
    legend = legend_of(labels, width=size.width, text_size=size.text, title=scale.title, **more)
    if size.columns == 1 and max(map(len, labels), default=0) > 16:
        legend.columns = 1  # of a phone
    domain, looks = list(scale.looks), list(scale.looks.values())
    shown = legend if len(domain) > 1 and not named else None
    return channel(f"{scale.column}:N", scale=alt.Scale(domain=domain, range=looks), legend=shown)


def _axis(
    channel: Any,
    axis: Axis,
    records: Sequence[Mapping[str, Cell]],
    columns: Sequence[str],
    size: _Size,
    labelled: bool,
    titled: bool,
    width: float = 0.0,
) -> Any:
    title: Any = axis.title.split("\n") if "\n" in axis.title else axis.title or None
    if axis.kind in ("names", "steps"):
        order = list(axis.order) or list(dict.fromkeys(record[axis.column] for record in records))
        room: dict[str, Any] = {"labels": labelled, "ticks": labelled, "labelLimit": 0.55 * size.width}
        if _lines(axis, records, size) > 1:
            room["labelExpr"] = f"({json.dumps({str(name): _parts(name, size) for name in order})})[datum.label]"
        longest = max((len(str(value)) for value in order), default=0) * CHARACTER * size.text
        upright = channel is alt.X and longest > 0.95 * width / max(1, len(order))
        look = alt.Axis(labelAngle=-90 if upright else 0, grid=False, **room)
        kind = "N" if axis.kind == "names" else "O"
        return channel(f"{axis.column}:{kind}", title=title if titled else None, sort=order, axis=look)
    if axis.kind == "plane":
        return _bare(channel, axis)
    values = [float(value) for record in records for column in columns if (value := record.get(column)) is not None]
    log = axis.kind in ("log", "log2")
    values = [value for value in values if value > 0 or not log] or [1.0]
    domain = list(axis.domain or _domain(values, log))
    base = 2 if axis.kind == "log2" else 10
    ticks = list(axis.ticks) or (log_ticks(domain, base) if log else [])
    most = min(7, int(width // (3.4 * size.text))) if width else 7
    if axis.labels == "bytes":
        ticks = _sizes(domain, int(width // (4.6 * size.text)))
    elif axis.labels == "times":
        ticks = _both_sides(ticks, (2.8 * size.text / width if width else 1 / most) * math.log(domain[1] / domain[0]))
    elif log and len(ticks) > most:
        powers = [tick for tick in ticks if math.log(tick, base).is_integer() or f"{tick:e}".startswith("1.000000e")]
        step = -(-len(ticks) // most)
        ticks = powers if len(powers) > 2 else ticks[(ticks.index(1) % step if 1 in ticks else 0) :: step]
    more: dict[str, Any] = {"values": ticks} if ticks else {"tickCount": 5}
    look = alt.Axis(labelExpr=_READ[axis.labels], labels=labelled, ticks=labelled, labelOverlap=True, **more)
    scale = (
        alt.Scale(type="log", base=base, domain=domain, nice=False)
        if log
        else alt.Scale(domain=domain, nice=axis.domain is None)
    )
    return channel(f"{axis.column}:Q", title=title if titled else None, scale=scale, axis=look)


def _sizes(domain: Sequence[float], most: int) -> list[float]:
    """So many powers of two at most, each as many times as large as the one before."""
    first, last = math.ceil(math.log2(domain[0])), math.floor(math.log2(domain[1]))
    step = next(step for step in (1, 2, 5, 10, 20, last - first + 1) if (last - first) // step < max(1, most))
    start = -(-first // step) * step
    return [2.0**exponent for exponent in range(start if start <= last else first, last + 1, step)]


def _both_sides(ticks: Sequence[float], apart: float) -> list[float]:
    """No difference, and on either side of it the ticks whose logarithms are so far apart."""
    kept = [1.0]
    for side in (
        sorted(tick for tick in ticks if tick > 1),
        sorted((tick for tick in ticks if tick < 1), reverse=True),
    ):
        last = 1.0
        for tick in side:
            if abs(math.log(tick / last)) >= apart:
                kept.append(last := tick)
    return sorted(kept)


def _bare(channel: Any, axis: Axis) -> Any:
    return channel(f"{axis.column}:Q", axis=None, scale=alt.Scale(domain=list(axis.domain or (0, 1)), nice=False))


BEYOND = 0.02  # of a logarithmic axis, on either side of what it shows


def _domain(values: Sequence[float], log: bool) -> tuple[float, float]:
    if log:
        beyond = max(1.15, (max(values) / min(values)) ** BEYOND)
        return min(values) / beyond, max(values) * beyond
    return min(0.0, *values), max(0.0, *values) * 1.02


def _layer(chart: alt.Chart, mark: Mark, plot: Plot, encodings: Mapping[str, Any], size: _Size, width: float) -> Any:
    chart = chart.transform_filter(mark.where) if mark.where else chart
    x, y, colour = encodings["x"], encodings["y"], encodings.get("color", alt.Undefined)
    other = alt.Y(f"{mark.column}:Q") if mark.column and mark.kind in ("line", "segments", "dots", "bars") else y
    fixed = {name: _LARGER[name](value, size.mark) if name in _LARGER else value for name, value in mark.look.items()}
    dash = alt.Undefined if "strokeDash" in mark.look else encodings.get("strokeDash", alt.Undefined)
    detail = encodings.get("detail", alt.Undefined)
    fixed |= {"aria": False} if mark.kind in ("line", "whiskers", "across", "rule", "diagonal") else {}
    if mark.scale and mark.scale.looks:
        columns = 1 if max(map(len, mark.scale.looks)) > LONG_TITLE else 3
        symbol: dict[str, Any] = {"symbolType": "stroke", "symbolStrokeWidth": 3, "symbolSize": 250}
        symbol |= {"orient": "top"} if columns > 1 and size.columns == 1 else {}  # no two beside each other on a phone
        colour = _scaled(alt.Color, mark.scale, size, columns=columns, **symbol)
    elif mark.scale:
        colour = alt.Color(f"{mark.scale.column}:N", scale=None, legend=None)
    if mark.colour:
        fixed, colour = {"color": mark.colour, **fixed}, alt.Undefined
    tips = encodings.get("tooltip", alt.Undefined)
    width_of = alt.StrokeWidth(f"{mark.width}:Q", scale=None) if mark.width else alt.Undefined
    said = alt.Description("description:N") if "description" in plot.chart_only else alt.Undefined
    match mark.kind:
        case "line":
            x = alt.X(f"{mark.along}:Q") if mark.along else x
            return chart.mark_line(**{"strokeWidth": 1.1 * size.mark, **fixed}).encode(
                x=x, y=other, color=colour, strokeDash=dash, detail=detail
            )
        case "segments":  # straight lines, which are drawn in half the time
            name = mark.along or plot.x.column
            drawn = chart.mark_rule(**{"strokeWidth": 1.1 * size.mark, "aria": False, **fixed})
            ends = {"x": alt.X(f"{name}:Q"), "x2": alt.X2(f"{name}_to:Q")}
            return drawn.encode(y=other, y2=alt.Y2(f"{mark.column}_to:Q"), color=colour, **ends)
        case "band":  # around a line
            area = chart.mark_area(**{"opacity": 0.15, "aria": False, **fixed})
            low, high = alt.Y(f"{plot.y.column}_low:Q"), alt.Y2(f"{plot.y.column}_high:Q")
            along = alt.X(f"{mark.along}:Q") if mark.along else x
            return area.encode(x=along, y=low, y2=high, color=colour, strokeDash=dash, detail=detail)
        case "whiskers" | "across":
            name = mark.column or plot.y.column
            drawn = chart.mark_rule(**{"strokeWidth": 0.9 * size.mark, "opacity": 0.5, **fixed})
            if mark.kind == "across":
                ends = {"x": alt.X(f"{name}_low:Q"), "x2": alt.X2(f"{name}_high:Q"), "y": y}
            else:
                ends = {"x": x, "y": alt.Y(f"{name}_low:Q"), "y2": alt.Y2(f"{name}_high:Q")}
            return drawn.encode(**ends, color=colour, detail=detail)
        case "dots":
            filled = {} if plot.fill else {"filled": True}
            drawn = chart.mark_point(
                **{"size": 16 * size.mark**2, "opacity": 1, "strokeWidth": 0.7 * size.mark, **filled, **fixed}
            )
            more: dict[str, Any] = {name: encodings[name] for name in ("fill", "shape", "size") if name in encodings}
            more = {name: value for name, value in more.items() if name not in mark.look}
            more |= {"size": alt.Size(f"{mark.width}:Q", scale=None)} if mark.width else {}
            return drawn.encode(x=x, y=other, color=colour, detail=detail, tooltip=tips, description=said, **more)
        case "bars":
            order = alt.Order(f"{plot.stacked}:Q") if plot.stacked else alt.Undefined
            return chart.mark_bar(**fixed).encode(
                x=x, y=other, color=colour, order=order, tooltip=tips, description=said
            )
        case "spans":
            drawn = chart.mark_bar(**{"stroke": PAPER, "strokeWidth": 0.2 * size.mark, **fixed})
            return drawn.encode(x=x, x2=alt.X2(f"{mark.column}:Q"), y=y, color=colour, tooltip=tips, description=said)
        case "squares":
            drawn = chart.mark_rect(**{"stroke": PAPER, "strokeWidth": 0.5 * size.mark, **fixed})
            return drawn.encode(x=x, y=y, color=colour, tooltip=tips, description=said)
        case "limits":  # of bars that lie: a line across each
            tick = chart.mark_tick(**{"thickness": 1.6 * size.mark, "size": 1.5 * size.text, "aria": False, **fixed})
            return tick.encode(x=alt.X(f"{mark.column}:Q"), y=y)
        case "path":  # along the rows of a line, in their order
            drawn = chart.mark_line(**fixed)
            order, line = alt.Order("order:Q"), alt.Detail("line:N")
            return drawn.encode(
                x=x, y=y, color=colour, strokeWidth=width_of, order=order, detail=line, description=said
            )
        case "heads":
            drawn = chart.mark_point(**{"shape": "triangle", "filled": True, "opacity": 1, "aria": False, **fixed})
            return drawn.encode(x=x, y=y, angle=alt.Angle("angle:Q", scale=None), color=colour)
        case "boxes":
            drawn = chart.mark_rect(**fixed)
            return drawn.encode(x=x, y=y, x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"), color=colour, description=said)
        case "rule":
            rule = alt.Chart(alt.sequence(0, 1)).mark_rule(**{"stroke": QUIET, "strokeWidth": 0.7 * size.mark, **fixed})
            return rule.encode(y=alt.YDatum(float(mark.column)))
        case "diagonal":
            least, most = plot.x.domain or (0.0, 1.0)
            factor = float(mark.column)
            ends_x = f"datum.end ? {min(most, most / factor)} : {max(least, least / factor)}"
            ends_of = alt.Chart(alt.sequence(0, 2, as_="end"))
            ends_of = ends_of.transform_calculate(at=ends_x, off=f"({ends_x}) * {factor}")
            line = ends_of.mark_line(**{"stroke": QUIET, "strokeWidth": 0.6 * size.mark, **fixed})
            return line.encode(x=alt.X("at:Q"), y=alt.Y("off:Q"))
    if mark.within and plot.x.domain:
        start, span = plot.x.column, plot.x.domain[1] - plot.x.domain[0]
        room = f"(datum.{mark.within} - datum.{start}) * {width / span}"
        chart = chart.transform_filter(f"{room} > length(datum.{mark.column}) * {IN_BARS * size.text}")
        chart = chart.transform_calculate(middle=f"(datum.{start} + datum.{mark.within}) / 2")
        x = alt.X("middle:Q")
    text = chart.mark_text(**{"fontSize": size.text, "color": INK, "aria": False, **fixed})
    at = alt.Y(f"{mark.at}:Q") if mark.at else y
    x = alt.X(f"{mark.along}:Q") if mark.along else x
    coloured = colour if mark.by_scale or mark.scale else alt.Undefined
    return text.encode(x=x, y=at, text=alt.Text(f"{mark.column}:N"), color=coloured)


# What grows with the drawing, of the properties of a mark: areas by the square.
_LARGER: Mapping[str, Callable[[Any, float], Any]] = {
    "size": lambda area, factor: area * factor**2,
    "strokeWidth": lambda width, factor: width * factor,
    "strokeDash": lambda dash, factor: [length * factor for length in dash],
    "thickness": lambda width, factor: width * factor,
    "dx": lambda shift, factor: shift * factor,
    "cornerRadius": lambda radius, factor: radius * factor,
}
