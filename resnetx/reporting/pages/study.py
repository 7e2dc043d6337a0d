"""One HTML page of any number of studies, and beside it every figure and table as a file of its own.

It has more than a part of `resnetx.reporting.pages.parts`, whose rules it keeps.

    folder/index.html  points.csv  windows.csv  messages.csv  rate.svg  rate.pdf  rate.vl.json  rate.csv ...

"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from resnetx import __version__
from resnetx.choices import Folders
from resnetx.record import Warning
from resnetx.reporting.charts import studies as study_figures
from resnetx.reporting.charts.figure import undrawn, write_figure
from resnetx.reporting.charts.studies import outcome
from resnetx.reporting.pages.parts import MOST_ROWS, Drawing, drawn, kinds_of_files, partners, plain, template
from resnetx.reporting.study.export import messages_table, points_table, windows_table
from resnetx.reporting.study.platform import platform
from resnetx.reporting.study.points import WORDS, StudyPoint, study_answer, study_points, unit_of_points, where_rows
from resnetx.reporting.study.results import Results, study_labels
from resnetx.reporting.study.scaling import PARTS, Limits
from resnetx.reporting.table import write_csv
from resnetx.request import Request
from resnetx.statistics import MIN_RUNS, Summary
from resnetx.units import si, whole

MOST_SKIPPED = 10  # files that were not read, named before the others are folded


def write(
    studies: Sequence[Results], folder: Path, baseline: int | None = None, unreadable: Sequence[str] = ()
) -> Path:
    """Writes the page of the studies and all its files; returns the page.

    `baseline`: GPUs, see `scaling.point_results`. `unreadable`: a sentence for each study that is missing.
    """
    points = study_points(studies, baseline)
    figures, said = study_figures.figures_and_sentences(points)
    drawings = [drawn(figure) for figure in figures]
    folder.mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        write_figure(drawing.figure, drawing.chart, folder)
    write_csv(folder / "points.csv", points_table(points))
    write_csv(folder / "windows.csv", windows_table(studies))
    write_csv(folder / "messages.csv", messages_table(points))
    page = folder / "index.html"
    page.write_text(_html(studies, points, drawings, said, unreadable), encoding="utf-8")
    return page


# ---- the page -------------------------------------------------------------------------------------------------------


def _html(
    studies: Sequence[Results],
    points: Sequence[StudyPoint],
    drawings: Sequence[Drawing],
    said: Sequence[str],
    unreadable: Sequence[str],
) -> str:
    runs = [run for results in studies for run in results.runs]
    where = where_rows(points)
    return template(Path(__file__).with_name("study.html.j2"), (si, whole, plain, percent)).render(
        title=_title(studies),
        answers=[_answer(results, points) for results in studies],
        where=where,
        where_parts=[name for name in WORDS if any(name in cells for _, cells in where)],
        studies=studies,
        common=_common(studies),
        skipped=[*unreadable, *(sentence for results in studies for sentence in results.skipped)],
        points=points,
        unit=unit_of_points(points),
        drawings=drawings,
        said=said,
        undrawn=bool(undrawn()),
        kinds=kinds_of_files(),
        platform=platform(studies),
        dark=partners(drawings),
        conventions=sorted({point.counts.convention for point in points if point.counts}),
        usual=_most_frequent(point.result.baseline for point in points if point.result.speedup),
        noted=any(point.result.reason or point.result.notes for point in points),
        shares=_shares,
        instrumented=[point for point in points if point.result.limits and point.result.limits.phases],
        mean_ms=lambda ranks: si(1000 * fmean(ranks)),
        ends=_ends,
        outcome=outcome,
        outcomes=Counter(map(outcome, points)),
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


def _answer(results: Results, points: Sequence[StudyPoint]) -> str:
    study = results.study
    own = [point for point in points if (point.result.study, point.result.node) == (study.name, study.node)]
    return study_answer(own, study.node)


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
    lambda request: f"{_many(request.windows, 'window')} of at least {_many(request.steps, 'step')}",
    lambda request: f"at least {_many(request.warmup, 'step')} of warm-up",
    lambda request: f"{_many(request.threads, 'thread')} per rank",
)


def _repeats(results: Results) -> str:
    study = results.study
    return f"{_many(study.repeats, 'run')} of each point and {study.twins} of each twin asked for"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _most_frequent(words: Iterable[str]) -> str:
    return max((counted := Counter(words)), key=lambda word: counted[word], default="")


def percent(share: float) -> int:
    return round(100 * share)


def _shares(limits: Limits) -> str:
    """The shares of a step, in per cent."""
    return ", ".join(f"{part} {percent(limits.shares[part].median)}" for part in PARTS if part in limits.shares)


def _ends(summary: Summary | None) -> str:
    """The ends of an interval or range, where there is one."""
    return f"{si(summary.low)} to {si(summary.high)}" if summary and summary.n > 1 else ""


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
