"""HTML pages: of any records, a part for each, and of studies with all their figures and tables."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from math import floor, isfinite, log10
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from resnetx import __version__
from resnetx.choices import Folders
from resnetx.errors import visible
from resnetx.record import Warning
from resnetx.reporting.charts import studies as study_figures
from resnetx.reporting.charts.figure import (
    PAGE_TEXT,
    DrawnChart,
    Figure,
    draw,
    draw_figure,
    partners,
    undrawn,
    write_figure,
)
from resnetx.reporting.charts.study_styles import outcome
from resnetx.reporting.csv_tables import inside_table, messages_table, platform, points_table, windows_table, write_csv
from resnetx.reporting.study_points import (
    BY_FEW_RUNS,
    WORDS,
    StudyPoint,
    not_run,
    samples_of,
    study_answer,
    study_points,
    unit_of_points,
    where_rows,
    with_ratios,
    worth_of_lines,
)
from resnetx.reporting.study_scaling import PARTS, Limits, Results, study_labels
from resnetx.request import Request
from resnetx.statistics import MIN_RUNS, Summary
from resnetx.table import Cell, Table, parted
from resnetx.units import how_many, number, whole

# ---- parts ----------------------------------------------------------------------------------------------------------
# One HTML page of anything: a part for each record, in which conclusions stand first, then figures, then tables.
#
# A page is complete in itself: drawings are inline, nothing is fetched, no script runs (its content policy forbids
# both). Records may come from anywhere, so every word of theirs is escaped.
#
#     folder/index.html  lead.svg  lead.pdf  lead.vl.json  lead.csv ...
#
# Without vl-convert, which draws, the page shows the data of its figures instead.

MOST_OPEN = 40  # rows of a table that a page of parts shows unfolded
MOST_FIGURES = 12  # of a part: more are folded
MOST_NOTES = 4  # of a part: more are folded
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
    environment.filters.update({function.__name__: function for function in filters})
    return environment.get_template(file.name)


def _shown(value: Any) -> Any:
    """What the page says: no word of a record may hide behind controls. Drawings are as they are."""
    return value if isinstance(value, Markup) else visible(str(value))


_TAG = re.compile(r"<[^>]*>")  # what a drawing's texts have of these brackets is escaped
_SAYING = re.compile(r'<path aria-label="((?:([^"]*?), batch )?[^"]*)"([^>]*)/>')
_OPACITY = re.compile(r' opacity="(0[\d.]*)"')  # below 1
_OF = re.compile(r' data-of="(\w+)"')
_UNUSED = re.compile(r' (?:(?:aria-[a-z]+|role|class|pointer-events)="[^"]*"|opacity="1"|stroke-dasharray="1,0")')
_UNSEEN = re.compile(r'<path class="(?:back|fore)ground"(?: aria-hidden="true")? d="[^"]*"(?: display="none")?/>')
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_SIZE = re.compile(r'^<svg [^>]*?width="([^"]*)" height="[^"]*"')


LEAST_GROWING = 240  # px: wider drawings for print and phones grow with their room


def inline(svg: str, text_size: float = PAGE_TEXT) -> Markup:
    """A drawing as part of a page: so wide that its texts, which are of `text_size`, have 12 px, what a mark says as
    its tooltip, and mute to screen readers, which have the table beside it. Its texts are escaped already.

    It is half as long as the file: coordinates end at hundredths of a point, and what nobody sees is left out. A mark
    that names a workload first has its number, by which all of it stands out in the page where one is pointed at.
    """

    def saying(mark: re.Match[str]) -> str:
        of = f' data-of="{crc32(mark[2].encode()):x}"' if mark[2] else ""
        look = _OPACITY.sub(r' style="--own:\1"', mark[3]) if of else mark[3]
        return f"<path{of}{look}><title>{mark[1]}</title></path>"

    said = _SAYING.sub(saying, _UNSEEN.sub("", svg))
    short = _TAG.sub(lambda tag: _UNUSED.sub("", _DECIMALS.sub(r"\1", tag[0])), said)

    def sized(opening: re.Match[str]) -> str:
        width = float(opening[1]) * PAGE_TEXT / text_size
        most = "" if text_size < PAGE_TEXT and width > LEAST_GROWING else f";max-width:{width:.4g}px"
        return f'<svg aria-hidden="true" style="min-width:{width:.4g}px{most}"'

    return Markup(_SIZE.sub(sized, short))


def workloads_of(drawings: Iterable["Drawing"]) -> list[str]:
    """The numbers of the workloads that are in some drawings, if there are several."""
    numbers = sorted({number for drawing in drawings for number in _OF.findall(drawing.inline)})
    return numbers if len(numbers) > 1 else []


@dataclass(frozen=True)
class Drawing:
    """A figure, drawn, and as a part of a page."""

    figure: Figure
    chart: DrawnChart
    inline: Markup


def drawn(figure: Figure, folder: Path) -> Drawing:
    """A figure as a page has it: a drawing for wide screens, and one for narrow ones, or one for all. Writes its files
    into the folder."""
    chart = draw_figure(figure)
    write_figure(figure, chart, folder)
    wide = inline(chart.screen, (figure.wide or figure.chart).config.axis.labelFontSize)
    if figure.narrow is None:
        return Drawing(figure, chart, Markup('<div class="scroll">{}</div>').format(wide))
    narrow = inline(draw(figure.narrow).svg, figure.narrow.config.axis.labelFontSize)
    both = Markup('<div class="on-wide scroll">{}</div><div class="on-narrow scroll">{}</div>')
    return Drawing(figure, chart, both.format(wide, narrow))


def plain(rows: Sequence[Sequence[Cell]]) -> list[list[str]]:
    """The cells of a table as its page shows them: the numbers of a column with as many decimals as its largest needs
    for four digits, where that leaves all others some; whole numbers with commas."""
    columns = [_alike(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


_SPREAD = 1e3  # over which numbers of one column have as many decimals


def _alike(cells: Sequence[Cell]) -> list[str]:
    sizes = [abs(cell) for cell in cells if isinstance(cell, float) and cell and isfinite(cell)]
    together = bool(sizes) and max(sizes) / min(sizes) < _SPREAD
    decimals = max(0, 3 - floor(log10(max(sizes)))) if together else 0
    while decimals and all(f"{size:.{decimals}f}".endswith("0") for size in sizes):
        decimals -= 1

    def shown(cell: Cell) -> str:
        if isinstance(cell, float) and isfinite(cell):
            return f"{cell:,.{decimals}f}" if together and decimals < MOST_DECIMALS else _alone(cell)
        return "" if cell is None else f"{cell:,}" if type(cell) is int and abs(cell) >= 10_000 else str(cell)

    return list(map(shown, cells))


MOST_DECIMALS = 7


def _alone(value: float) -> str:
    return number(value) if not value or 1e-4 <= abs(value) < 1e9 else f"{value:.3g}"


def telling(table: Table) -> Table:
    """A table as a page of parts shows it: `parted` columns, none of them empty, in handy units."""
    table = _in_units(table)
    cells = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    places, note = parted([column.replace("_", " ") for column in table.columns], cells)
    places = [place for place in places if any(row[place] for row in cells)]
    rows = [[row[place] for place in places] for row in table.rows if places]
    return Table([table.columns[place] for place in places], rows, " ".join(filter(None, [table.note, note])))


def _in_units(table: Table) -> Table:
    """Columns of seconds below one in ms, of B/s in GB/s, of Hz in MHz."""
    columns, places = [], list(zip(*table.rows, strict=True))
    for index, (column, cells) in enumerate(zip(table.columns, places, strict=bool(places))):
        name, _, unit = column.rpartition("_")
        numbers = [abs(cell) for cell in cells if isinstance(cell, int | float)]
        other, factor = {"s": ("ms", 1e3), "Bps": ("GB/s", 1e-9), "Hz": ("MHz", 1e-6)}.get(unit, (unit, 1.0))
        if name and numbers and other != unit and (unit != "s" or 0 < max(numbers) < 1):
            column = f"{name} {other}"
            places[index] = tuple(cell * factor if isinstance(cell, int | float) else cell for cell in cells)
        columns.append(column)
    return Table(columns or table.columns, [list(row) for row in zip(*places, strict=True)], table.note)


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
    where: str = ""  # its record is stored; it is in the title where others have the same one
    undrawn: str = "its one figure is in the answer"  # why, where it has no figures


def write_page(parts: Sequence[Part], folder: Path, title: str = "", left_out: Sequence[str] = ()) -> Path:
    """Writes the page of some parts and all its files; returns the page.

    `left_out`: a sentence for each thing that was given and is not in it.
    """
    parts = _with_own_names(parts)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = [[drawn(figure, folder) for figure in part.figures] for part in parts]
    for table in (table for part in parts for table in part.tables):
        write_csv(folder / f"{table.name}.csv", table.whole or table.shown)
    html = template(Path(__file__).with_name("parts.html.j2"), (plain, telling)).render(
        title=title or (parts[0].title if len(parts) == 1 else f"{len(parts)} results"),
        parts=list(zip(parts, drawings, strict=True)),
        left_out=left_out,
        kinds=kinds_of_files(),
        undrawn=undrawn(),
        dark=partners(drawing.inline for of_part in drawings for drawing in of_part),
        workloads=workloads_of(drawing for of_part in drawings for drawing in of_part),
        most_rows=MOST_ROWS,
        most_open=MOST_OPEN,
        most_notes=MOST_NOTES,
        most_figures=MOST_FIGURES,
        version=__version__,
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page


def _with_own_names(parts: Sequence[Part]) -> list[Part]:
    """The parts, in which no two figures or tables would write the same file, and titles differ if they can."""
    taken: set[str] = set()
    titles = Counter(part.title for part in parts)

    def own(name: str) -> str:
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        taken.add(found := next(each for each in names if each not in taken))
        return found

    return [
        replace(
            part,
            title=part.title + f" ({Path(part.where).name})" * (titles[part.title] > 1 and bool(part.where)),
            figures=[replace(figure, name=own(figure.name)) for figure in part.figures],
            tables=[replace(table, name=own(table.name)) for table in part.tables],
        )
        for part in parts
    ]


# ---- study ----------------------------------------------------------------------------------------------------------
# One HTML page of any number of studies, and beside it every figure and table as a file of its own.
#
# It has more than a part of `resnetx.reporting.page`, whose rules it keeps.
#
#     folder/index.html  points.csv  windows.csv  messages.csv  rate.svg  rate.pdf  rate.vl.json  rate.csv ...

MOST_SKIPPED = 10  # files that were not read, named before the others are folded


def write(
    studies: Sequence[Results], folder: Path, baseline: int | None = None, unreadable: Sequence[str] = ()
) -> Path:
    """Writes the page of the studies and all its files; returns the page.

    `baseline`: GPUs, see `scaling.point_results`. `unreadable`: a sentence for each study that is missing.
    """
    points = study_points(studies, baseline)
    figures, said = study_figures.figures_and_sentences(points)
    folder.mkdir(parents=True, exist_ok=True)
    drawings = [drawn(figure, folder) for figure in figures]
    write_csv(folder / "points.csv", points_table(points))
    write_csv(folder / "windows.csv", windows_table(studies))
    write_csv(folder / "messages.csv", messages_table(points))
    if (inside := inside_table(points)).rows:
        write_csv(folder / "inside.csv", inside)
    page = folder / "index.html"
    page.write_text(_html(studies, points, drawings, said, unreadable), encoding="utf-8")
    return page


# ---- the page -------------------------------------------------------------------------------------------------------


def said_once(worth: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], str]:
    """What is worth it of several lines, without the sentence on their runs that all end with; and that sentence."""
    ends = {told.partition(BY_FEW_RUNS)[2] for _, told in worth}
    if len(worth) < 2 or len(ends) > 1 or not all(ends):
        return list(worth), ""
    return [(words, told.partition(BY_FEW_RUNS)[0]) for words, told in worth], f"{BY_FEW_RUNS}{ends.pop()}"


def _html(
    studies: Sequence[Results],
    points: Sequence[StudyPoint],
    drawings: Sequence[Drawing],
    said: Sequence[str],
    unreadable: Sequence[str],
) -> str:
    runs = [run for results in studies for run in results.runs]
    where, compared = where_rows(points), with_ratios(points)
    worth, few_runs = said_once(worth_of_lines(points))
    return template(Path(__file__).with_name("study.html.j2"), (number, whole, plain, percent)).render(
        title=_title(studies),
        answers=[_answer(*of, points) for of in zip(studies, study_labels(studies), strict=True)],
        where=where,
        where_parts=[name for name in WORDS if any(name in cells for _, cells in where)],
        studies=studies,
        common=_common(studies),
        skipped=[*unreadable, *(sentence for results in studies for sentence in results.skipped)],
        points=points,
        worth=worth,
        few_runs=few_runs,
        compared=compared,
        most_open=min(MOST_OPEN, MOST_ROWS),
        most_told=MOST_FIGURES,
        unit=unit_of_points(points),
        what=(what := samples_of(points)),
        batch=f"batch ({what})",
        limited=any(len(limits.shares) > 1 or limits.verdict for point in points if (limits := point.result.limits)),
        drawings=drawings,
        said=said,
        undrawn=bool(undrawn()),
        kinds=kinds_of_files(),
        platform=platform(studies),
        dark=partners(drawing.inline for drawing in drawings),
        workloads=workloads_of(drawings),
        conventions=sorted({point.counts.convention for point in points if point.counts}),
        usual=_most_frequent(
            point.result.baseline for point in points if point.result.speedup and point.request.key in compared
        ),
        noted=any(point.result.reason or point.result.notes for point in points),
        shares=_shares,
        instrumented=[point for point in points if point.result.limits and point.result.limits.phases],
        mean_ms=lambda ranks: number(1000 * fmean(ranks)),
        ends=_ends,
        outcome=outcome,
        outcomes=Counter(map(outcome, points)),
        not_run=not_run(points),
        listed=[point for point in points if outcome(point) != "missing"] or points,
        bad=[run for run in runs if run.outcome != "ok"],
        runs=len(runs),
        warned=_warned(studies),
        began=min((run.started_at for run in runs), default=""),
        ended=max((run.started_at for run in runs), default=""),
        min_runs=MIN_RUNS,
        most_rows=MOST_ROWS,
        most_skipped=MOST_SKIPPED,
        version=__version__,
    )


def _answer(results: Results, label: str, points: Sequence[StudyPoint]) -> str:
    """What one of the studies of a page says, whose cases are labelled by it; there it is named once."""
    study = results.study
    own = [point for point in points if (point.result.study, point.result.node) == (study.name, study.node)]
    unlabelled = [replace(point, variant=point.variant.removeprefix(label).removeprefix(", ")) for point in own]
    return study_answer(unlabelled, study.node + f" ({study.name})" * (study.name in label))


def _title(studies: Sequence[Results]) -> str:
    names = ", ".join(f"{results.study.name} on {results.study.node}" for results in studies)
    return f"How training scales: {names}"


def _common(studies: Sequence[Results]) -> list[str]:
    """The settings that all points of a study share, in a line; one for each study where they are not alike."""
    lines = [", ".join([*_shared(results.study.points), _repeats(results)]) for results in studies]
    if len(set(lines)) == 1:
        return lines[:1]
    return [f"{label}: {line}" for label, line in zip(study_labels(studies), lines, strict=True)]


def _shared(requests: Sequence[Request]) -> list[str]:
    """Each setting that has one value for all of the requests; the others are in the names of the points."""
    words = ({in_words(request) for request in requests} for in_words in _SETTINGS)
    return [next(iter(values)) for values in words if len(values) == 1 and values != {""}]


_SETTINGS: tuple[Callable[[Request], str], ...] = (
    lambda request: f"measure={request.measure}" * (request.measure != "step"),
    lambda request: f"precision {request.precision}",
    lambda request: f"input {request.input.kind}",
    lambda request: f"recipe {request.input.recipe}" if isinstance(request.input, Folders) else "",
    lambda request: f"strategy {request.strategy.kind}",
    lambda request: ", ".join(request.unusual),
    lambda request: f"{request.scaling} scaling",
    lambda request: f"{how_many(request.windows, 'window')} of at least {how_many(request.steps, 'step')}",
    lambda request: f"at least {how_many(request.warmup, 'step')} of warm-up",
    lambda request: f"{how_many(request.threads, 'thread')} per rank",
)


def _repeats(results: Results) -> str:
    study = results.study
    return f"{how_many(study.repeats, 'run')} of each case and {study.twins} of each control asked for"


def _most_frequent(words: Iterable[str]) -> str:
    return max((counted := Counter(words)), key=lambda word: counted[word], default="")


def percent(share: float) -> int:
    return round(100 * share)


def _shares(limits: Limits) -> str:
    """The shares of a step, in per cent."""
    return ", ".join(f"{part} {percent(limits.shares[part].median)}" for part in PARTS if part in limits.shares)


def _ends(summary: Summary | None) -> str:
    """The ends of an interval or range, where there is one."""
    wide = summary is not None and summary.n > 1 and summary.low < summary.high
    return f"{number(summary.low)} to {number(summary.high)}" if summary and wide else ""


def _warned(studies: Sequence[Results]) -> list[tuple[Warning, int]]:
    """Each kind of warning as the first run gave it, with the number of runs that did; the most frequent first."""
    kinds: dict[str, Warning] = {}
    counts: Counter[str] = Counter()
    for results in studies:
        for run in results.runs:
            warnings = {warning.code: warning for warning in run.warnings}
            counts.update(list(warnings))
            kinds = warnings | kinds
    return [(kinds[code], count) for code, count in counts.most_common()]
