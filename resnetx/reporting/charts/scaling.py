"""Figures of scaling: iterations/s and speed-ups against GPUs, on log axes on which every ideal is a straight line.

The forms are those of Tallent et al. 2017, Fig. 12 and 13.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import msgspec

from resnetx.record.machine import how_many
from resnetx.reporting.charts.figure import (
    CHARACTER,
    COLUMN,
    DASHES,
    INK,
    QUIET,
    WORD_HEIGHT,
    AnyChart,
    Figure,
    SeriesStyles,
    domain_with_foot,
    gpus_axis,
    layered,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
)
from resnetx.reporting.study.points import StudyPoint, unit_of_points
from resnetx.reporting.table import table_of
from resnetx.statistics import Summary
from resnetx.units import si

# The words that stand at the foot of a panel in place of points without a rate, and what they mean.

# By outcome: the word, and its meaning.
_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}
_MOST_WORDS = 3  # of one place with a word for each point; of more, points with the same outcome share a word, in black


def outcome(point: StudyPoint) -> str:
    """How a point ended; "no rate" where its runs went well, but measured none."""
    result = point.result
    return "no rate" if result.outcome == "ok" and result.images_per_s is None else result.outcome


def word(point: StudyPoint) -> str:
    """The word for a point that has no rate."""
    return _WORDS[outcome(point)][0]


def meanings(points: Iterable[StudyPoint]) -> str:
    """What the words mean that stand for missing points, as a sentence of a caption; "" where none is missing."""
    used = dict.fromkeys(_WORDS[outcome(point)] for point in points if point.result.images_per_s is None)
    return f" Missing: {', '.join(f'{word}: {meaning}' for word, meaning in used)}." if used else ""


@dataclass(frozen=True)
class FootWord:
    """What stands at the foot of a panel for one point."""

    word: str | None  # null: the point has a value, or shares the word of another one
    shared: bool  # by points of several workloads
    row: int | None  # from the foot


def foot_word(point: StudyPoint, missing: Sequence[StudyPoint]) -> FootWord:
    """The word for a point. `missing`: all points of its panel without a value at the same number of GPUs."""
    if point not in missing:
        return FootWord(None, False, None)
    if len(missing) <= _MOST_WORDS:
        return FootWord(word(point), False, missing.index(point))
    first = next(other for other in missing if word(other) == word(point))
    rows = list(dict.fromkeys(map(word, missing)))
    return FootWord(word(point) if first == point else None, True, rows.index(word(point)))


_ENDS = {"interval": "95 % interval", "range": "range"}
_WHISKERS = {
    "interval": "whiskers: 95 % interval",
    "range": "light whiskers: range of the runs, too few for an interval",
}


def has_speedup(point: StudyPoint) -> bool:
    """Whether a point has a speed-up, and is not the baseline itself."""
    speedup = point.result.speedup
    return speedup is not None and not speedup.low == speedup.high == 1


class _CurveRow(msgspec.Struct, frozen=True, kw_only=True):
    workload: str
    batch: str
    variant: str
    gpus: int
    value: Summary | None  # in a table under the name of what is drawn
    ideal: float | None
    runs: int
    outcome: str


class _CurveMark(_CurveRow, frozen=True, kw_only=True):
    panel: str
    word: str | None
    word_shared: bool
    word_row: int | None
    description: str


@dataclass(frozen=True)
class _Curves:
    """What the points have of one quantity, and what it is called."""

    field: str  # column
    unit: str
    value_of: Callable[[StudyPoint], Summary | None]


_RATE = _Curves("iterations_per_s", "iterations/s", lambda point: point.result.iterations_per_s)
_SPEEDUP = _Curves("speedup", "times the baseline", lambda point: point.result.speedup)


def rates(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """Iterations/s against GPUs."""
    marks = _marks(points, styles, _RATE)
    measured = [(images_per_s.median, point.words) for point in points if (images_per_s := point.result.images_per_s)]
    highest, best = max(measured)
    return Figure(
        name="rate",
        title=f"Training rate against {unit_of_points(points)}s; the highest, {si(highest)} images/s: {best}",
        caption=f"{_reading(marks)}{meanings(points)} Dotted: ideal, from the baseline ({_baselines(points)}). "
        "After Tallent et al. 2017, Fig. 12 and 13.",
        table=table_of(marks, _CurveRow, value=_RATE.field),
        chart=_chart(marks, points, styles, _RATE, "iterations/s", base=10),
    )


def speedups(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """The speed-up against GPUs."""
    marks = _marks(points, styles, _SPEEDUP)
    most = max(point.gpus for point in points if has_speedup(point))
    reached = sorted(
        (efficiency.median, point.line_words)
        for point in points
        if point.gpus == most and has_speedup(point) and (efficiency := point.result.efficiency)
    )
    (worst, where_worst), (best, where_best) = reached[0], reached[-1]
    first, *others = _baselines(points).split("; ")
    title = ["speed-up", f"(baseline: {first}{' or more' * bool(others)})"]
    return Figure(
        name="speedup",
        title=f"Parallel efficiency on {how_many(most, unit_of_points(points))}: {worst:.0%} ({where_worst})"
        + f" to {best:.0%} ({where_best})" * (len(reached) > 1),
        caption=f"{_reading(marks)}{meanings(points)} Dotted: ideal. Baseline: {_baselines(points)}.",
        table=table_of(marks, _CurveRow, value=_SPEEDUP.field),
        chart=_chart(marks, points, styles, _SPEEDUP, title, base=2),
    )


def _baselines(points: Iterable[StudyPoint]) -> str:
    """The baselines of the speed-ups, the plain one first."""
    baselines = {point.result.baseline for point in points if point.result.speedup}
    return "; ".join(sorted(baselines, key=lambda baseline: (len(baseline), baseline)))


def _reading(marks: Sequence[_CurveRow]) -> str:
    """How points and whiskers are read: only what the figure has."""
    values = [mark.value for mark in marks if mark.value]
    fewest, most = min(value.n for value in values), max(value.n for value in values)
    runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    kinds = {value.kind for value in values if value.n > 1}
    parts = [f"Points: median of {runs} run{'s' * (most > 1)}"]
    parts += [whiskers for kind, whiskers in _WHISKERS.items() if kind in kinds]
    return "; ".join(parts) + "."


# ---- data -----------------------------------------------------------------------------------------------------------


def _marks(points: Sequence[StudyPoint], styles: SeriesStyles, curves: _Curves) -> list[_CurveMark]:
    """A mark for each point: its value, the ideal one, and what stands in its place where it has none."""
    missing: dict[tuple[str, int], list[StudyPoint]] = defaultdict(list)
    for point in points:
        if curves.value_of(point) is None:
            missing[styles.panel(point), point.gpus].append(point)
    return [_mark(point, styles, curves, missing[styles.panel(point), point.gpus]) for point in points]


def _mark(point: StudyPoint, styles: SeriesStyles, curves: _Curves, missing: Sequence[StudyPoint]) -> _CurveMark:
    value, efficiency = curves.value_of(point), point.result.efficiency
    foot = foot_word(point, missing)
    return _CurveMark(
        workload=point.workload,
        batch=point.batch,
        variant=point.variant,
        gpus=point.gpus,
        value=value,
        ideal=value.median / efficiency.median if value and efficiency else None,
        runs=value.n if value else 0,
        outcome=outcome(point),
        panel=styles.panel(point),
        word=foot.word,
        word_shared=foot.shared,
        word_row=foot.row,
        description=f"{point.words}: {_value_words(value, curves.unit) if value else outcome(point)}",
    )


def _value_words(value: Summary, unit: str) -> str:
    ends = f" ({si(value.low)} to {si(value.high)}, {_ENDS[value.kind]} of {value.n} runs)" if value.n > 1 else ""
    return f"{si(value.median)} {unit}{ends}"


# ---- drawing --------------------------------------------------------------------------------------------------------


def _chart(
    marks: Sequence[_CurveMark],
    points: Sequence[StudyPoint],
    styles: SeriesStyles,
    curves: _Curves,
    title: str | list[str],
    base: int,
) -> AnyChart:
    panels = styles.panels(points)
    columns = min(len(panels), 3 if len(panels) > 6 else 2)
    width, height = (COLUMN - 30 - 9 * len(title) * isinstance(title, list) - 8 * columns) // columns, 105
    values = [end for mark in marks if mark.value for end in (mark.value.low, mark.value.high)]
    values += [mark.ideal for mark in marks if mark.ideal]
    word_rows = max((mark.word_row + 1 for mark in marks if mark.word_row is not None), default=0)
    domain, word_step = domain_with_foot(values, word_rows, height)
    ticks = log_ticks([domain[0], domain[1] / word_step**0.6], base)  # else the uppermost label moves the panel's title

    def panel(chart: alt.Chart, left: bool, last: bool) -> AnyChart:
        y = alt.Y(
            f"{curves.field}:Q",
            title=title if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=si_axis(ticks, left),
        )
        chart = chart.properties(width=width, height=height)
        chart = chart.encode(
            x=gpus_axis((point.gpus for point in points), last, unit_of_points(points)),
            detail=[alt.Detail("workload:N"), alt.Detail("variant:N")],
        )
        return layered([*_layers(chart, y, styles, curves.field), _words(chart, styles, domain[0], word_step)], chart)

    return panel_grid(table_of(marks, value=curves.field), "panel", panels, columns, panel)


def _layers(chart: alt.Chart, y: alt.Y, styles: SeriesStyles, field: str) -> Iterator[alt.Chart]:
    """The ideal, the curve, its whiskers, and a mark for each point."""
    colour = workload_colour(styles)
    ideal = chart.transform_filter("isValid(datum.ideal)").encode(y=alt.Y("ideal:Q"))
    yield ideal.mark_line(strokeWidth=0.6, stroke=QUIET, strokeDash=[0.6, 1.8], aria=False)
    line = chart.mark_line(strokeWidth=0.9, aria=False)
    yield line.encode(y=y, color=colour, strokeDash=variant_dash(styles))
    for ends, opacity in (("interval", 1.0), ("range", 0.45)):
        whisker = chart.transform_filter(f"datum.{field}_ends == '{ends}' && datum.runs > 1")
        whisker = whisker.mark_rule(strokeWidth=1, opacity=opacity, aria=False)
        yield whisker.encode(y=alt.Y(f"{field}_low:Q"), y2=alt.Y2(f"{field}_high:Q"), color=colour)
    dots = chart.transform_filter(f"isValid(datum.{field})").mark_point(filled=True, size=14, opacity=1)
    yield dots.encode(y=y, color=colour, shape=workload_shape(styles), description=alt.Description("description:N"))


def _words(chart: alt.Chart, styles: SeriesStyles, lowest: float, word_step: float) -> alt.Chart:
    """The words at the foot of a panel, each in its row."""
    words = chart.transform_filter("isValid(datum.word)")
    words = words.transform_calculate(foot=f"{lowest} * pow({word_step}, datum.word_row + 0.15)")
    words = words.mark_text(fontSize=WORD_HEIGHT - 0.5, baseline="bottom", aria=False)
    colour = alt.condition("datum.word_shared", alt.value(INK), workload_colour(styles))
    encoded: alt.Chart = words.encode(y=alt.Y("foot:Q"), text=alt.Text("word:N"), color=colour)
    return encoded


# How the figures of a study encode workloads and settings: by colour, shape and dash; and their axes of work.


def workload_colour(styles: SeriesStyles) -> alt.Color:
    scale = alt.Scale(domain=styles.workloads, range=styles.colours)
    return alt.Color("workload:N", scale=scale, legend=legend_of(styles.workloads))


def workload_shape(styles: SeriesStyles, legend: alt.Legend | None = None) -> alt.Shape:
    scale = alt.Scale(domain=styles.workloads, range=styles.shapes)
    return alt.Shape("workload:N", scale=scale, legend=legend or legend_of(styles.workloads))


def variant_dash(styles: SeriesStyles) -> alt.StrokeDash | alt.StrokeDashValue:
    if not styles.dashed:
        return alt.StrokeDashValue([1, 0])
    scale = alt.Scale(domain=styles.variants, range=list(DASHES[: len(styles.variants)]))
    legend = legend_of(styles.variants, orient="top", symbolType="stroke", symbolSize=250, symbolStrokeColor=INK)
    return alt.StrokeDash("variant:N", scale=scale, legend=legend)


def log_y(values: Sequence[float], field: str, title: str, height: int) -> alt.Y:
    """A log axis of a column with these values, whose title is as high as the panel at most."""
    domain = [min(values) / 1.5, max(values) * 1.5]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    lines = [title] if CHARACTER * len(title) < height else _halves(title)
    return alt.Y(f"{field}:Q", title=lines, scale=scale, axis=si_axis(log_ticks(domain, 10), shown=True))


def _halves(title: str) -> list[str]:
    """A title on two lines, broken at the word nearest to its middle."""
    gaps = [index for index, character in enumerate(title) if character == " "]
    middle = min(gaps, key=lambda place: abs(place - len(title) / 2))
    return [title[:middle], title[middle + 1 :]]


def span(values: Iterable[float]) -> str:
    """The least and the greatest value, to three digits."""
    values = list(values)
    return " to ".join(dict.fromkeys([si(min(values)), si(max(values))]))
