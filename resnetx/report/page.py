"""One HTML page of any number of studies, and beside it every figure and table as a file of its own.

The page is complete in itself: drawings are inline, nothing is fetched, no script runs (its content policy forbids
both). Records may come from anywhere, so every word of theirs is escaped.

    folder/index.html  points.csv  windows.csv  messages.csv  rate.svg  rate.pdf  rate.csv ...
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from resnetx import __version__
from resnetx.record import Warning
from resnetx.report import charts, export
from resnetx.report.charts import Figure
from resnetx.report.look import Look
from resnetx.report.platform import platform
from resnetx.report.results import Results
from resnetx.report.scaling import rows
from resnetx.report.series import Named, named
from resnetx.statistics import MIN_RUNS, Summary
from resnetx.units import si

_TEMPLATE = "page.html.j2"


@dataclass(frozen=True)
class _Drawing:
    figure: Figure
    svg: str  # as its file
    inline: Markup


def write(studies: Sequence[Results], folder: Path, baseline: int | None = None) -> Path:
    """Writes the page of the studies and all its files; returns the page. `baseline`: GPUs, see `scaling.rows`."""
    import vl_convert

    points = named([(results, rows(results, baseline)) for results in studies])
    drawings = [_drawn(figure) for figure in charts.figures(points)]
    folder.mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        name = drawing.figure.name
        (folder / f"{name}.svg").write_text(drawing.svg, encoding="utf-8")
        (folder / f"{name}.pdf").write_bytes(vl_convert.svg_to_pdf(drawing.svg))
        export.write_csv(folder / f"{name}.csv", drawing.figure.data)
    export.write_csv(folder / "points.csv", export.points(points))
    export.write_csv(folder / "windows.csv", list(export.windows(studies)))
    export.write_csv(folder / "messages.csv", list(export.messages(points)))
    page = folder / "index.html"
    page.write_text(_html(studies, points, drawings), encoding="utf-8")
    return page


def _drawn(figure: Figure) -> _Drawing:
    import vl_convert

    svg = vl_convert.vegalite_to_svg(figure.specification)
    return _Drawing(figure, svg, Markup(_inline(svg)))


def _inline(svg: str) -> str:
    """A drawing as part of a page: as wide as its place, what a mark says as its tooltip, and mute to screen readers,
    which have the table beside it. Its texts are escaped already."""
    svg = re.sub(r'<path aria-label="([^"]*)"([^>]*)/>', r"<path\2><title>\1</title></path>", svg)
    svg = re.sub(r' (?:aria-[a-z]+|role|pointer-events)="[^"]*"', "", svg)
    return re.sub(r'^<svg [^>]*?width="[^"]*" height="[^"]*"', '<svg aria-hidden="true"', svg)


# ---- the page -------------------------------------------------------------------------------------------------------


def _html(studies: Sequence[Results], points: Sequence[Named], drawings: Sequence[_Drawing]) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"si": si, "plain": _plain, "percent": lambda share: round(100 * share)}
    runs = [run for results in studies for run in results.runs]
    return environment.get_template(_TEMPLATE).render(
        title=_title(studies),
        studies=studies,
        points=points,
        drawings=drawings,
        platform=platform(studies),
        dark=Look(points).dark,
        conventions=sorted({point.counts.convention for point in points if point.counts}),
        varied=any(point.variant for point in points),
        parts=export.PARTS,
        watched=[point for point in points if point.row.limits and point.row.limits.phases],
        mean_ms=lambda ranks: si(1000 * fmean(ranks)),
        ends=_ends,
        outcomes=Counter(point.row.outcome for point in points),
        bad=[run for run in runs if run.outcome != "ok"],
        runs=len(runs),
        warned=_warned(studies),
        began=min((run.started_at for run in runs), default=""),
        ended=max((run.started_at for run in runs), default=""),
        min_runs=MIN_RUNS,
        version=__version__,
    )


def _title(studies: Sequence[Results]) -> str:
    names = ", ".join(f"{results.study.name} on {results.study.node}" for results in studies)
    return f"How training scales: {names}"


def _ends(summary: Summary | None) -> str:
    """The ends of an interval or range, where there is one."""
    return f"{si(summary.low)} to {si(summary.high)}" if summary and summary.n > 1 else ""


def _plain(value: Any) -> str:
    """A cell of a figure's table."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _warned(studies: Sequence[Results]) -> list[tuple[Warning, int]]:
    """Each kind of warning as the first run gave it, with the number of runs that did; the most frequent first."""
    kinds: dict[str, Warning] = {}
    counts: Counter[str] = Counter()
    for results in studies:
        for run in results.runs:
            given = {warning.code: warning for warning in run.warnings}
            counts.update(list(given))
            kinds = given | kinds
    return [(kinds[code], count) for code, count in counts.most_common()]
