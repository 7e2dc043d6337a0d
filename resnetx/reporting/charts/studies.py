"""The figures of a report of studies: what limits points, speed-ups, rates, and where they are in intensity space.

The forms are those of Tallent et al. 2017, Fig. 6, 7, 12 and 13. Nothing is drawn that was not measured: no line joins
points, and where one is missing, a word at the foot of the panel says why. What would be the same everywhere, or has
one value, is a sentence instead of a figure.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from resnetx.record.comparisons import Comparison
from resnetx.reporting.charts.figure import INK, PART_COLOURS, QUIET, Figure, domain_with_foot
from resnetx.reporting.charts.grammar import (
    Axis,
    Mark,
    Plot,
    Scale,
    figure,
    looks_there,
    ratios,
    shape_looks,
    solid_and_hollow,
    solid_and_hollow_words,
    span,
)
from resnetx.reporting.charts.records import message_timeline
from resnetx.reporting.charts.step_parts import measured_parts
from resnetx.reporting.charts.study_styles import (
    SeriesStyles,
    batch_intensities,
    cells,
    has_speedup,
    lacking,
    located,
    meanings,
    outcome,
    word,
)
from resnetx.reporting.study_points import StudyPoint, samples_of, unit_of_points
from resnetx.reporting.study_scaling import PARTS, Limits, StepPart
from resnetx.statistics import Summary
from resnetx.table import Record, table_of_records
from resnetx.units import how_many, number, si

HEIGHT = 105
MOST_NAMED = 40  # cases on one number of GPUs, each with its name: of more, no figure is read


def figures(points: Sequence[StudyPoint]) -> list[Figure]:
    """Every figure that the points have something to show in, in the order of the argument; what has not run yet is in
    none."""
    return [drawn for drawn in _all(points) if not isinstance(drawn, str)]


def figures_and_sentences(points: Sequence[StudyPoint]) -> tuple[list[Figure], list[str]]:
    """The same, and what is said instead of figures with one value."""
    both = list(_all(points))
    return [each for each in both if not isinstance(each, str)], [each for each in both if isinstance(each, str)]


def _all(points: Sequence[StudyPoint]) -> Iterator[Figure | str]:
    points = [point for point in points if point.result.outcome != "missing"] or points
    styles = SeriesStyles(points)
    if any(point.result.images_per_s for point in points):
        if lost := measured_parts(points, styles):
            yield lost
        if not lost or {point.line for point in points} > {point.line for point in points if point.result.lost}:
            yield step_shares(points, styles)
        if any(map(has_speedup, points)):
            yield speedups(points, styles)
        yield rates(points, styles)
        timed = map(_messages, sorted(points, key=lambda point: -point.gpus))
        yield from islice(filter(None, timed), 1)
    # An old study may hold an empty batch, which has no place on a log axis.
    working = [(point, point.counts) for point in points if point.counts and point.counts.activations_per_batch > 0]
    conventions = sorted({counts.convention for _, counts in working})
    for convention in conventions:
        counted = [(point, counts) for point, counts in working if counts.convention == convention]
        suffix = "" if len(conventions) == 1 else f"-{convention}"
        yield located(counted, convention, suffix)
        yield batch_intensities(counted, convention, suffix)


def _messages(point: StudyPoint) -> Figure | None:
    limits = point.result.limits
    return message_timeline(point.words, limits.phases, limits.messages) if limits else None


MOST_WORDS = 3  # of one place with a word for each point; of more, points with the same outcome share a word, in black


def _foot_word(point: StudyPoint, missing: Sequence[StudyPoint]) -> Record:
    """The word for a point, whether it is that of several, and its row from the foot.

    `missing`: all points of its panel without a value at the same number of GPUs.
    """
    if point not in missing:
        return {"word": None, "word_shared": False, "foot": None}
    if len(missing) <= MOST_WORDS:
        return {"word": word(point), "word_shared": False, "foot": missing.index(point)}
    first = next(other for other in missing if word(other) == word(point))
    row = list(dict.fromkeys(map(word, missing))).index(word(point))
    return {"word": word(point) if first == point else None, "word_shared": True, "foot": row}


# ---- rates and speed-ups --------------------------------------------------------------------------------------------

_ENDS = {"interval": "95% interval", "range": "range"}
_WHISKERS = {
    "interval": "whiskers: 95% interval",
    "range": "light whiskers: range of the runs, too few for an interval",
}


@dataclass(frozen=True)
class _Curves:
    """What the points have of one quantity, and what it is called."""

    column: str
    unit: str
    value_of: Callable[[StudyPoint], Summary | None]


_RATE = _Curves("iterations_per_s", "iterations/s", lambda point: point.result.iterations_per_s)
_SPEEDUP = _Curves("speedup", "times the baseline", lambda point: point.result.speedup)


def rates(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure | str:
    """Iterations/s against GPUs."""
    measured = [(rate.median, point.words, point) for point in points if (rate := point.result.images_per_s)]
    highest, best, at = max(measured)
    if len(measured) == 1:
        others = lacking(points)
        ran = f"the only case with a rate; {others}" if others else "the only case"
        return f"{best}: {number(highest)} {samples_of([at])}/s, {ran}."
    if len({point.gpus for point in points}) == 1:
        return _by_name(points)
    what = f"{samples_of(points)}/s"
    steps = f" ({number(at.result.iterations_per_s.median)} iterations/s)" if at.result.iterations_per_s else ""
    title = f"Training rate against {unit_of_points(points)}s; the highest, {number(highest)} {what}{steps}: {best}"
    after = f" Dotted: ideal, from the baseline ({_baselines(points)}). Form: Tallent et al. 2017, Fig. 12 and 13."
    return _curves("rate", title, after, points, styles, _RATE, Axis(_RATE.column, "iterations/s", "log", "si"))


def _by_name(points: Sequence[StudyPoint]) -> Figure | str:
    """Rates of cases that are all on one number of GPUs, which no curve joins: a row for each."""
    able = [(point, rate) for point in points if (rate := point.result.images_per_s)]
    low, high = (number(end(rate.median for _, rate in able)) for end in (min, max))
    where = how_many(points[0].gpus, unit_of_points(points), "one")
    what = f"{samples_of(points)}/s"
    title = f"Training rates on {where}: " + (f"{low} to {high}" if low != high else low) + f" {what}"
    if not 2 <= len(able) <= MOST_NAMED:
        return f"{title}."
    lines = list(dict.fromkeys((point.workload, point.variant) for point, _ in able))
    able.sort(key=lambda pair: (lines.index((pair[0].workload, pair[0].variant)), pair[0].request.batch_size))
    rows: list[Record] = [
        {
            **cells(point),
            "images_per_s": rate.median,
            "images_per_s_low": rate.low,
            "images_per_s_high": rate.high,
            "runs": rate.n,
            "case": point.line_words,
            "said": number(rate.median),
            "description": f"{point.words}: {_value_words(rate, f'{samples_of([point])}/s')}",
        }
        for point, rate in able
    ]
    plot = Plot(
        x=Axis("images_per_s", what, "log", "si", domain=_with_room(rows)),
        y=Axis("case", "", "names"),
        marks=(
            Mark("across", "datum.runs > 1", "images_per_s", INK),
            Mark("dots", colour=PART_COLOURS["compute"], look={"size": 26}),
            Mark("words", column="said", look={"align": "left", "dx": 5}),
        ),
        chart_only=("case", "said", "description"),
    )
    runs = max(rate.n for _, rate in able)
    caption = f"Dots: median of {'up to ' * (runs > 1)}{runs} run{'s' * (runs > 1)}."
    caption += " Whiskers: interval or range." * (runs > 1)
    caption += f" Not drawn: {lacking(points)}." * bool(lacking(points))
    return figure("rate", title, caption, table_of_records(rows), plot)


def _with_room(rows: Sequence[Record]) -> tuple[float, float]:
    """From the least to the largest rate, with room for what is written beside it."""
    low, high = (
        find(float(row[f"images_per_s_{end}"] or 1) for row in rows) for find, end in ((min, "low"), (max, "high"))
    )
    return low / 1.15, high * 1.15 * (high / low) ** 0.12


def speedups(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """The speed-up against GPUs."""
    counts: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for point in points:
        counts[point.line].add(point.gpus)
    points = [point for point in points if len(counts[point.line]) > 1]  # of one number of GPUs, there is no speed-up
    most = max(point.gpus for point in points if has_speedup(point))
    reached = sorted(
        (
            (efficiency, point.line_words)
            for point in points
            if point.gpus == most and has_speedup(point) and (efficiency := point.result.efficiency)
        ),
        key=lambda each: (each[0].median, each[1]),
    )
    first, *others = _baselines(points).split("; ")
    title = f"Parallel efficiency on {how_many(most, unit_of_points(points))}: {_reached(reached)}"
    over = first.partition(" (")[0] + " or more" * bool(others)
    y = Axis("speedup", f"speed-up\n(baseline: {over})", "log2", "si")
    after = f" Dotted: ideal. Baseline: {_baselines(points)}."
    return _curves("speedup", title, after, points, styles, _SPEEDUP, y)


def _reached(efficiencies: Sequence[tuple[Summary, str]]) -> str:
    """The least and the most, each with its case; where their ends overlap, only between what all lie."""
    (worst, where_worst), (best, where_best) = efficiencies[0], efficiencies[-1]
    if len(efficiencies) == 1:
        ends = f"{100 * worst.low:.0f} to {100 * worst.high:.0f}"
        apart = worst.n > 1 and len(set(ends.split(" to "))) > 1
        return f"{worst.median:.0%} ({f'{ends}; ' * apart}{where_worst})"
    if worst.n > 1 and worst.high >= best.low:
        low, high = min(each.low for each, _ in efficiencies), max(each.high for each, _ in efficiencies)
        return f"{100 * low:.0f} to {high:.0%}; no difference of {len(efficiencies)} cases is shown"
    return f"{worst.median:.0%} ({where_worst}) to {best.median:.0%} ({where_best})"


def _curves(
    name: str,
    title: str,
    caption: str,
    points: Sequence[StudyPoint],
    styles: SeriesStyles,
    curves: _Curves,
    y: Axis,
) -> Figure:
    """One quantity against GPUs, with what is ideal, both axes by powers."""
    missing: dict[tuple[str, int], list[StudyPoint]] = defaultdict(list)
    for point in points:
        if curves.value_of(point) is None:
            missing[styles.panel(point), point.gpus].append(point)
    rows = [_curve_row(point, styles, curves, missing[styles.panel(point), point.gpus]) for point in points]
    panels = styles.panels(points)
    columns = (f"{curves.column}_low", f"{curves.column}_high", "ideal")
    ends = [float(end) for row in rows for column in columns if (end := row[column])]
    depth = max((int(row["foot"]) + 1 for row in rows if row["foot"] is not None), default=0)
    domain, step = domain_with_foot(ends, depth, HEIGHT)
    for row in rows:
        row["foot"] = None if row["foot"] is None else domain[0] * step ** (float(row["foot"]) + 0.15)
    _label_ends(rows, styles, curves.column, domain)
    _end_ideal(rows)
    rows.sort(key=lambda row: panels.index(str(row["panel"])))  # stable: lines are in the order of the points
    known = f"isValid(datum.{curves.column})"
    names = {"align": "center", "baseline": "bottom"}
    shared = {bool(row["word_shared"]) for row in rows if row["word"]}
    words = [(f"isValid(datum.word) && {'!' * alone}datum.word_shared", alone) for alone in (False, True)]
    words = [(where, alone) for where, alone in words if (not alone) in shared]
    plot = Plot(
        x=Axis("gpus", f"{unit_of_points(points)}s", "log2", ticks=sorted({point.gpus for point in points})),
        y=Axis(y.column, y.title, y.kind, y.labels, domain=(domain[0], domain[1])),
        marks=(
            Mark("segments", "isValid(datum.gpus_to)", "ideal", QUIET, {"strokeDash": [0.6, 1.8], "strokeWidth": 0.6}),
            *(
                Mark("whiskers", f"datum.{curves.column}_ends == '{kind}' && datum.runs > 1", look={"opacity": opacity})
                for kind, opacity in (("interval", 1.0), ("range", 0.45))
                if any(row[f"{curves.column}_ends"] == kind for row in rows)
            ),
            *solid_and_hollow(styles.side, styles.sides, known, size=18),
            *(Mark("words", where, "word", look=names, at="foot", by_scale=by_scale) for where, by_scale in words),
            *[
                Mark(
                    "words",
                    "isValid(datum.label)",
                    "label",
                    on_pages=True,
                    look={"align": "right", "dx": -4, "dy": -9},
                )
            ]
            * any(row["label"] for row in rows),
        ),
        colour=Scale(styles.line, styles.colours),
        shape=Scale(styles.side, shape_looks(styles.sides))
        if len(styles.sides) > 2
        else Scale(styles.line, shape_looks(list(styles.colours))),
        detail=("workload", "batch", "variant"),
        aside=("workload", "batch", "variant"),
        panel="panel",
        columns=3,
        height=HEIGHT,
        chart_only=_OF_CURVES,
    )
    caption += solid_and_hollow_words(styles.sides)
    return figure(name, title, f"{_reading(points, curves)}{meanings(points)}{caption}", table_of_records(rows), plot)


_OF_CURVES = (
    "system",
    "settings",
    "panel",
    "word",
    "word_shared",
    "foot",
    "label",
    "description",
    "gpus_to",
    "ideal_to",
)
_MOST_LABELLED = 4  # series of a panel with labels
_LINES_APART = 0.09  # of an axis: marks whose labels do not touch


def _label_ends(rows: Sequence[Record], styles: SeriesStyles, column: str, domain: Sequence[float]) -> None:
    """Writes at the last mark of each series what it is and reaches; where they are too close together, at none."""
    ends: dict[str, dict[tuple[object, ...], Record]] = defaultdict(dict)
    for row in rows:
        if row[column] is not None:
            same = ends[str(row["panel"])].setdefault((row["workload"], row["batch"], row["variant"]), row)
            if int(str(row["gpus"])) >= int(str(same["gpus"])):
                ends[str(row["panel"])][row["workload"], row["batch"], row["variant"]] = row
    length = math.log(domain[1] / domain[0])
    for of_panel in ends.values():
        heights = sorted(math.log(float(row[column] or 1)) / length for row in of_panel.values())
        apart = all(above - below > _LINES_APART for below, above in pairwise(heights))
        if apart and len(heights) <= _MOST_LABELLED:
            for row in of_panel.values():
                names = [str(row[styles.line]), *[str(row[styles.side])] * bool(styles.sides)]
                row["label"] = f"{', '.join(names)}: {si(float(row[column] or 0))}"


def _end_ideal(rows: Sequence[Record]) -> None:
    """Writes at the first of the ideal values of a series where they end, on a straight line; once where series share
    it."""
    series: dict[tuple[object, ...], list[Record]] = defaultdict(list)
    for row in rows:
        if row["ideal"] is not None:
            series[row["panel"], row["workload"], row["batch"], row["variant"]].append(row)
    ends: dict[tuple[object, ...], tuple[Record, Record]] = {}
    for (panel, *_), of_series in series.items():
        of_series.sort(key=lambda row: int(str(row["gpus"])))
        first, last = of_series[0], of_series[-1]
        ends.setdefault((panel, first["gpus"], first["ideal"], last["gpus"], last["ideal"]), (first, last))
    for row in rows:
        row |= {"gpus_to": None, "ideal_to": None}
    for first, last in ends.values():
        first |= {"gpus_to": last["gpus"], "ideal_to": last["ideal"]}


def _curve_row(point: StudyPoint, styles: SeriesStyles, curves: _Curves, missing: Sequence[StudyPoint]) -> Record:
    """A point: its value, the ideal one, and what stands in its place where it has none."""
    value, efficiency = curves.value_of(point), point.result.efficiency
    return {
        **cells(point),
        curves.column: value.median if value else None,
        f"{curves.column}_low": value.low if value else None,
        f"{curves.column}_high": value.high if value else None,
        f"{curves.column}_ends": value.kind if value else None,
        "ideal": value.median / efficiency.median if value and efficiency else None,
        "runs": value.n if value else 0,
        "outcome": outcome(point),
        "system": point.system,
        "settings": point.settings,
        "panel": styles.panel(point),
        **_foot_word(point, missing),
        "label": None,
        "description": f"{point.words}: {_value_words(value, curves.unit) if value else outcome(point)}",
    }


def _value_words(value: Summary, unit: str) -> str:
    ends = f" ({si(value.low)} to {si(value.high)}, {_ENDS[value.kind]} of {value.n} runs)" if value.n > 1 else ""
    return f"{si(value.median)} {unit}{ends}"


def _baselines(points: Iterable[StudyPoint]) -> str:
    """The baselines of the speed-ups, the plain one first."""
    baselines = {point.result.baseline for point in points if point.result.speedup}
    return "; ".join(sorted(baselines, key=lambda baseline: (len(baseline), baseline)))


def _reading(points: Iterable[StudyPoint], curves: _Curves) -> str:
    """How points and whiskers are read: only what the figure has."""
    values = [value for point in points if (value := curves.value_of(point))]
    fewest, most = min(value.n for value in values), max(value.n for value in values)
    runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    kinds = {value.kind for value in values if value.n > 1}
    parts = [f"Dots: median of {runs} run{'s' * (most > 1)}"]
    parts += [whiskers for kind, whiskers in _WHISKERS.items() if kind in kinds]
    return "; ".join(parts) + "."


# ---- what limits points: how much of its step each part of the work takes -------------------------------------------


def step_shares(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure | str:
    """What the step of every point is spent on; a sentence, where it is the same of all."""
    rows = [row for point in styles.in_order(points) for row in _bars(point)]
    title = f"What limits the cases: {_verdicts(points)}"
    alone = [limits for limits in _limits(points) if len(limits.shares) < 2 and limits.unknown]
    if len(alone) == len(_limits(points)):
        why = dict.fromkeys(why for limits in alone for why in limits.unknown.values())
        return f"What limits the cases is not measured: {'; '.join(why)}."
    shares = {(row["part"], row["share"]): share for row in rows if row["part"] and (share := row["share"]) is not None}
    if len(shares) <= 1 or len([point for point in points if point.result.limits]) == 1:
        said = ", ".join(f"{part} {float(share):.0%}" for (part, _), share in shares.items())
        return f"{title}{f' ({said} of the step)' * (len(shares) > 1)}.{_not_separate(points)}"
    words = Mark("words", "isValid(datum.word)", "word", look={"angle": 270, "align": "left", "dx": 2}, at="zero")
    plot = Plot(
        x=Axis("gpus", f"{unit_of_points(points)}s", "steps", order=sorted({point.gpus for point in points})),
        y=Axis("share", "share of\nthe step", labels="percent", ticks=(0, 0.5, 1), domain=(0, 1)),
        marks=(Mark("bars", "isValid(datum.share)"), *[words] * any(row["word"] for row in rows)),
        colour=looks_there("part", PART_COLOURS, rows),
        stacked="place",
        panel="panel",
        columns=4,
        height=60,
        chart_only=("panel", "place", "zero", "word", "description"),
    )
    caption = (
        "Shares of the time of a step, by what it gets shorter without its input or without exchanging gradients, and "
        f"by the time in which no kernel runs; the rest is computing.{_not_separate(points)}{meanings(points)}"
    )
    return figure("limits", title, caption, table_of_records(rows), plot)


def _bars(point: StudyPoint) -> Iterator[Record]:
    """A bar for each part of a point's step, or the word that stands in their place."""
    limits = point.result.limits
    shares = limits.shares if limits else {}
    parts: list[StepPart | None] = [part for part in PARTS if part in shares]
    mixed = bool(limits and limits.unknown.keys() - {"host"})
    for part in parts or [None]:
        share = shares[part].median if part else None
        name = "not separated" if part == "compute" and mixed else part
        yield {
            **cells(point),
            "part": name,
            "share": share,
            "panel": point.line_words,
            "place": list(PART_COLOURS).index(name) if name else None,
            "zero": 0,
            "word": None if part else "not known" if limits else word(point),
            "description": None if share is None else f"{point.words}: {name} {share:.0%}",
        }


def _limits(points: Iterable[StudyPoint]) -> list[Limits]:
    return [point.result.limits for point in points if point.result.limits]


def _verdicts(points: Iterable[StudyPoint]) -> str:
    """How many points have each verdict, the most frequent first."""
    verdicts = Counter(
        limits.verdict or ("not resolved" if limits.shares else "not known") for limits in _limits(points)
    )
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _not_separate(points: Iterable[StudyPoint]) -> str:
    """The parts that were not measured, as a sentence of the caption; "" where all were."""
    mixed = [limits for limits in _limits(points) if limits.shares]
    unknown = dict.fromkeys(f"{part} ({why})" for limits in mixed for part, why in limits.unknown.items())
    return f" Not measured separately, so included in the rest: {'; '.join(unknown)}." if unknown else ""


# ---- two studies ----------------------------------------------------------------------------------------------------

_VERDICTS = {
    "different": PART_COLOURS["communication"],
    "no difference shown": PART_COLOURS["compute"],
    "too few runs to decide": PART_COLOURS["not separated"],
}


def compared_rates(comparison: Comparison) -> list[Figure]:
    """The rate in B over that in A, a row for each case; of many, those that are furthest apart."""
    able = [(point, point.ratio) for point in comparison.points if point.ratio and point.verdict in _VERDICTS]
    able.sort(key=lambda pair: -abs(math.log(pair[1].median)))
    if len(able) < 2:
        return []
    names = [
        ", ".join(filter(None, (each.workload, each.batch, each.variant, how_many(each.request.gpus, comparison.unit))))
        for each, _ in able
    ]
    shared = {word for word in names[0].split(", ") if all(word in name.split(", ") for name in names)}
    rows: list[Record] = [
        {
            "case": ",\N{NO-BREAK SPACE}".join(word for word in name.split(", ") if word not in shared) or name,
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
            "verdict": point.verdict,
            "description": f"{name}: {ratio.median:.4g} ({ratio.low:.4g} to {ratio.high:.4g}), {point.verdict}",
        }
        for name, (point, ratio) in list(zip(names, able, strict=True))[:MOST_NAMED]
    ]
    colour = looks_there("verdict", _VERDICTS, rows)
    plot = ratios(rows, "case", "rate of B over that of A", colour=colour, chart_only=("description",))
    title = f"Rate of B over that of A: {span([ratio.median for _, ratio in able])}, the furthest apart first"
    caption = "Lines: the interval, or the range of fewer than six runs."
    caption += f" In all: {', '.join(word for word in names[0].split(', ') if word in shared)}." * bool(shared)
    return [figure("compared", title, caption, table_of_records(rows), plot)]
