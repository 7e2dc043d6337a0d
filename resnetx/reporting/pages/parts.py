"""One HTML page of anything: a part for each record, in which conclusions stand first, then figures, then tables.

A page is complete in itself: drawings are inline, nothing is fetched, no script runs (its content policy forbids
both). Records may come from anywhere, so every word of theirs is escaped.

    folder/index.html  lead.svg  lead.pdf  lead.vl.json  lead.csv ...

Without vl-convert, which draws, the page shows the data of its figures instead.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from resnetx import __version__
from resnetx.reporting.charts.figure import (
    PAGE_TEXT,
    AnyChart,
    DrawnChart,
    Figure,
    dark_colours,
    draw,
    undrawn,
    write_figure,
)
from resnetx.reporting.table import write_csv
from resnetx.table import Cell, Table
from resnetx.visible import visible

MOST_OPEN = 40  # rows of a table that a page of parts shows unfolded
MOST_ROWS = 200  # of a table that a page shows; of longer ones it shows the first, and names the file with all


# ---- what all pages share: how their templates are filled in, and how drawings become part of them ------------------


@cache
def template(file: Path, filters: tuple[Callable[..., Any], ...] = ()) -> Template:
    """The template of a page; its folder is searched for what it includes. Filters go by their functions' names."""
    environment = Environment(
        loader=FileSystemLoader(file.parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({each.__name__: each for each in filters})
    return environment.get_template(file.name)


def _shown(value: Any) -> Any:
    """What the page says: no word of a record may hide behind controls. Drawings are as they are."""
    return value if isinstance(value, Markup) else visible(str(value))


_TAG = re.compile(r"<[^>]*>")  # what a drawing's texts have of these brackets is escaped
_SAYING = re.compile(r'<path aria-label="([^"]*)"([^>]*)/>')
_UNUSED = re.compile(r' (?:(?:aria-[a-z]+|role|class|pointer-events)="[^"]*"|opacity="1"|stroke-dasharray="1,0")')
_UNSEEN = re.compile(r'<path class="(?:back|fore)ground"(?: aria-hidden="true")? d="[^"]*"(?: display="none")?/>')
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_SIZE = re.compile(r'^<svg [^>]*?width="([^"]*)" height="[^"]*"')


def inline(svg: str, text_size: float = PAGE_TEXT) -> Markup:
    """A drawing as part of a page: so wide that its texts, which are of `text_size`, have 12 px, what a mark says as
    its tooltip, and mute to screen readers, which have the table beside it. Its texts are escaped already.

    It is half as long as the file: coordinates end at hundredths of a point, and what nobody sees is left out.
    """
    said = _SAYING.sub(r"<path\2><title>\1</title></path>", _UNSEEN.sub("", svg))
    short = _TAG.sub(lambda tag: _UNUSED.sub("", _DECIMALS.sub(r"\1", tag[0])), said)

    def sized(opening: re.Match[str]) -> str:
        width = float(opening[1]) * PAGE_TEXT / text_size
        most = "" if text_size < PAGE_TEXT else f";max-width:{width:.4g}px"
        return f'<svg aria-hidden="true" style="min-width:{width:.4g}px{most}"'

    return Markup(_SIZE.sub(sized, short))


@dataclass(frozen=True)
class Drawing:
    """A figure, drawn, and as a part of a page."""

    figure: Figure
    chart: DrawnChart
    inline: Markup


def drawn(figure: Figure) -> Drawing:
    """A figure as a page has it: a drawing for wide screens, and one for narrow ones and for print, or one for all."""
    chart = draw(figure.chart)
    if figure.wide is figure.narrow is None:
        return Drawing(figure, chart, Markup('<div class="scroll">{}</div>').format(_sized(figure, None, chart)))
    both = Markup('<div class="on-wide scroll">{}</div><div class="on-narrow scroll">{}</div>')
    return Drawing(
        figure, chart, both.format(*(_sized(figure, other, chart) for other in (figure.wide, figure.narrow)))
    )


def _sized(figure: Figure, shown: AnyChart | None, drawn: DrawnChart) -> Markup:
    """One of the drawings of a figure, whose `chart` is drawn already."""
    chart = shown or figure.chart
    return inline(drawn.svg if chart is figure.chart else draw(chart).svg, chart.config.axis.labelFontSize)


def partners(drawings: Iterable[Drawing]) -> dict[str, str]:
    """Each colour that is in some drawings with its partner on a dark page."""
    used = {colour for drawing in drawings for colour in _COLOUR.findall(drawing.inline)}
    return {light: dark for light, dark in dark_colours().items() if light in used}


_COLOUR = re.compile(r'"(#[0-9a-f]{6})"')


def plain(value: Cell) -> str:
    """A cell of a figure's table."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def kinds_of_files() -> list[str]:
    """What a figure has files of."""
    return [*["svg", "pdf"] * (not undrawn()), "vl.json", "csv"]


# ---- a page of parts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageTable:
    """A table of a part: as the page shows it, and as its file has it."""

    name: str  # of its file
    title: str
    shown: Table
    whole: Table | None = None  # null: as it is shown
    note: str = ""
    only_file: bool = False  # the page names its file, and does not show it


@dataclass(frozen=True)
class Part:
    """What a page says of one record, or of several that share their figures."""

    title: str
    answer: Sequence[str]  # sentences, of which the first stands alone
    notes: Sequence[str] = ()  # who, where, when
    alerts: Sequence[str] = ()  # what to know before relying on it
    figures: Sequence[Figure] = ()
    tables: Sequence[PageTable] = ()
    page: str = ""  # a page of its own, with more of it


def write_page(parts: Sequence[Part], folder: Path, title: str = "", left_out: Sequence[str] = ()) -> Path:
    """Writes the page of some parts and all its files; returns the page.

    `left_out`: a sentence for each thing that was given and is not in it.
    """
    parts = _with_own_names(parts)
    drawings = [[drawn(figure) for figure in part.figures] for part in parts]
    folder.mkdir(parents=True, exist_ok=True)
    for drawing in (drawing for of_part in drawings for drawing in of_part):
        write_figure(drawing.figure, drawing.chart, folder)
    for table in (table for part in parts for table in part.tables):
        write_csv(folder / f"{table.name}.csv", table.whole or table.shown)
    html = template(Path(__file__).with_name("parts.html.j2"), (plain,)).render(
        title=title or (parts[0].title if len(parts) == 1 else f"{len(parts)} results"),
        parts=list(zip(parts, drawings, strict=True)),
        left_out=left_out,
        kinds=kinds_of_files(),
        undrawn=undrawn(),
        dark=partners(drawing for of_part in drawings for drawing in of_part),
        most_rows=MOST_ROWS,
        most_open=MOST_OPEN,
        version=__version__,
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page


def _with_own_names(parts: Sequence[Part]) -> list[Part]:
    """The parts, in which no two figures or tables would write the same file."""
    taken: set[str] = set()

    def own(name: str) -> str:
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        taken.add(found := next(each for each in names if each not in taken))
        return found

    return [
        replace(
            part,
            figures=[replace(figure, name=own(figure.name)) for figure in part.figures],
            tables=[replace(table, name=own(table.name)) for table in part.tables],
        )
        for part in parts
    ]
