"""The figures of a report of studies: what limits points, speed-ups, rates, and where they are in intensity space.

The forms are those of Tallent et al. 2017, Fig. 6, 7, 12 and 13. Nothing is drawn that was not measured: a line has a
gap where a point is missing, and a word at the foot of the panel says why. What would be the same everywhere, or has
one value, is a sentence instead of a figure.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from resnetx.record import Workload
from resnetx.record.machine import how_many
from resnetx.reporting.charts.figure import (
    DASHES,
    PAPER,
    PART_COLOURS,
    QUIET,
    SYSTEMS,
    Figure,
    domain_with_foot,
    family_colours,
    workload_colours,
)
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, shape_looks, span, table_of_records
from resnetx.reporting.charts.records import message_timeline
from resnetx.reporting.study_points import (
    WORDS,
    StudyPoint,
    batch_categories,
    batches_in_order,
    unit_of_points,
    workloads_in_order,
)
from resnetx.reporting.study_scaling import PARTS, Limits, StepPart
from resnetx.statistics import Summary
from resnetx.table import Record
from resnetx.units import si, to_interval

HEIGHT = 105
MOST_SAID = 6  # values that a sentence has in place of a figure


def figures(points: Sequence[StudyPoint]) -> list[Figure]:
    """Every figure that the points have something to show in, in the order of the argument."""
    return [drawn for drawn in _all(points) if not isinstance(drawn, str)]


def figures_and_sentences(points: Sequence[StudyPoint]) -> tuple[list[Figure], list[str]]:
    """The same, and what is said instead of figures with one value."""
    both = list(_all(points))
    return [each for each in both if not isinstance(each, str)], [each for each in both if isinstance(each, str)]


def _all(points: Sequence[StudyPoint]) -> Iterator[Figure | str]:
    styles = SeriesStyles(points)
    if any(point.result.images_per_s for point in points):
        if lost := lost_bars(points, styles):
            yield lost
        yield step_shares(points, styles)
        if any(map(has_speedup, points)):
            yield speedups(points, styles)
        yield rates(points, styles)
        timed = (message_timeline(point) for point in sorted(points, key=lambda point: -point.gpus))
        yield from islice(filter(None, timed), 1)
    # An old study may hold an empty batch, which has no place on a log axis.
    working = [(point, point.counts) for point in points if point.counts and point.counts.activations_per_batch > 0]
    conventions = sorted({counts.convention for _, counts in working})
    for convention in conventions:
        counted = [(point, counts) for point, counts in working if counts.convention == convention]
        suffix = "" if len(conventions) == 1 else f"-{convention}"
        yield located(counted, convention, suffix)
        yield batch_intensities(counted, convention, suffix)


class SeriesStyles:
    """What tells the series of a page apart: two systems always by their dash, in one panel.

    Panels are by batch with a colour for each workload, or by workload with one for each batch, whichever are fewer.
    Where each workload has one batch, colours are free for settings.
    """

    def __init__(self, points: Sequence[StudyPoint]) -> None:
        self.workloads, self.batches = workloads_in_order(points), batches_in_order(points)
        self.variants, systems, settings = (
            list(dict.fromkeys(getattr(point, name) for point in points)) for name in ("variant", "system", "settings")
        )
        alone = len({(point.workload, point.batch) for point in points}) == len(self.workloads)
        several = len(self.batches) > 1 or len(self.variants) > len(DASHES)
        self.by_workload = len(self.workloads) <= len(self.batches) and several
        self.line = "batch" if self.by_workload else "workload"
        self.colours = workload_colours(self.workloads)
        if self.by_workload:
            self.colours = dict(zip(self.batches, family_colours(len(self.batches)), strict=True))
        of_settings = self.by_workload and alone and 1 < len(settings) <= len(SYSTEMS)
        if of_settings:
            self.line, self.colours = "settings", dict(zip(settings, SYSTEMS, strict=False))
        if len(self.variants) <= len(DASHES) and not of_settings:
            self.dash, names, apart = "variant", self.variants, []
        elif len(systems) <= len(DASHES):
            self.dash, names, apart = "system", systems, [*["settings"] * (not of_settings)]
        else:
            self.dash, names, apart = "system", [], ["variant"]
        self.dashes = dict(zip(names, DASHES, strict=False)) if len(names) > 1 else {}
        self._panel = ["workload"] * self.by_workload + ["batch"] * (self.line != "batch") + apart

    def panel(self, point: StudyPoint) -> str:
        """The panel of a scaling chart that a point is in."""
        return ", ".join(filter(None, (getattr(point, name) for name in self._panel)))

    def panels(self, points: Sequence[StudyPoint]) -> list[str]:
        """All panels, the smallest batch first."""
        return list(dict.fromkeys(map(self.panel, self.in_order(points))))

    def in_order(self, points: Sequence[StudyPoint]) -> list[StudyPoint]:
        """The points by panel: workload, batch, variant and GPUs, or batch first."""

        def place(point: StudyPoint) -> tuple[int, ...]:
            names = self.workloads.index(point.workload), self.batches.index(point.batch)
            return (*(names if self.by_workload else names[::-1]), self.variants.index(point.variant), point.gpus)

        return sorted(points, key=place)


def _cells(point: StudyPoint) -> Record:
    """What tells a point apart, in every table of a figure."""
    return {"workload": point.workload, "batch": point.batch, "variant": point.variant, "gpus": point.gpus}


# ---- points without a rate: the words that stand at the foot of a panel in their place, and what these mean ---------

_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}  # by outcome
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


def _foot_word(point: StudyPoint, missing: Sequence[StudyPoint]) -> Record:
    """The word for a point, whether it is that of several, and its row from the foot.

    `missing`: all points of its panel without a value at the same number of GPUs.
    """
    if point not in missing:
        return {"word": None, "word_shared": False, "foot": None}
    if len(missing) <= _MOST_WORDS:
        return {"word": word(point), "word_shared": False, "foot": missing.index(point)}
    first = next(other for other in missing if word(other) == word(point))
    row = list(dict.fromkeys(map(word, missing))).index(word(point))
    return {"word": word(point) if first == point else None, "word_shared": True, "foot": row}


# ---- rates and speed-ups --------------------------------------------------------------------------------------------

_ENDS = {"interval": "95 % interval", "range": "range"}
_WHISKERS = {
    "interval": "whiskers: 95 % interval",
    "range": "light whiskers: range of the runs, too few for an interval",
}


def has_speedup(point: StudyPoint) -> bool:
    """Whether a point has a speed-up, and is not the baseline itself."""
    speedup = point.result.speedup
    return speedup is not None and not speedup.low == speedup.high == 1


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
    measured = [(images_per_s.median, point.words) for point in points if (images_per_s := point.result.images_per_s)]
    highest, best = max(measured)
    if len(points) == 1:
        return f"{best}: {si(highest)} images/s, the only point."
    title = f"Training rate against {unit_of_points(points)}s; the highest, {si(highest)} images/s: {best}"
    after = f" Dotted: ideal, from the baseline ({_baselines(points)}). After Tallent et al. 2017, Fig. 12 and 13."
    return _curves("rate", title, after, points, styles, _RATE, Axis(_RATE.column, "iterations/s", "log", "si"))


def speedups(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure:
    """The speed-up against GPUs."""
    most = max(point.gpus for point in points if has_speedup(point))
    reached = sorted(
        (efficiency.median, point.line_words)
        for point in points
        if point.gpus == most and has_speedup(point) and (efficiency := point.result.efficiency)
    )
    (worst, where_worst), (best, where_best) = reached[0], reached[-1]
    first, *others = _baselines(points).split("; ")
    title = f"Parallel efficiency on {how_many(most, unit_of_points(points))}: {worst:.0%} ({where_worst})"
    title += f" to {best:.0%} ({where_best})" * (len(reached) > 1)
    over = first.partition(" (")[0] + " or more" * bool(others)
    y = Axis("speedup", f"speed-up\n(baseline: {over})", "log2", "si")
    after = f" Dotted: ideal. Baseline: {_baselines(points)}."
    return _curves("speedup", title, after, points, styles, _SPEEDUP, y)


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
    _label_ends(rows, styles.line, curves.column, domain)
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
            Mark("line", "isValid(datum.ideal)", "ideal", QUIET, {"strokeDash": [0.6, 1.8], "strokeWidth": 0.6}),
            Mark("line", look={"strokeWidth": 0.9}),
            *(
                Mark("whiskers", f"datum.{curves.column}_ends == '{kind}' && datum.runs > 1", look={"opacity": opacity})
                for kind, opacity in (("interval", 1.0), ("range", 0.45))
                if any(row[f"{curves.column}_ends"] == kind for row in rows)
            ),
            Mark("dots", known, look={"size": 14}),
            *(Mark("words", where, "word", look=names, at="foot", by_scale=by_scale) for where, by_scale in words),
            *[
                Mark(
                    "words",
                    "isValid(datum.label)",
                    "label",
                    by_scale=True,
                    on_pages=True,
                    look={"align": "right", "dx": -4, "dy": -9},
                )
            ]
            * any(row["label"] for row in rows),
        ),
        colour=Scale(styles.line, styles.colours),
        shape=Scale(styles.line, shape_looks(list(styles.colours))),
        dash=Scale(styles.dash, styles.dashes) if styles.dashes else None,
        detail=("workload", "batch", "variant"),
        panel="panel",
        columns=3,
        height=HEIGHT,
        chart_only=_OF_CURVES,
    )
    return figure(name, title, f"{_reading(points, curves)}{meanings(points)}{caption}", table_of_records(rows), plot)


_OF_CURVES = ("system", "settings", "panel", "word", "word_shared", "foot", "label", "description")
_MOST_LABELLED = 4  # lines of a panel with labels
_LINES_APART = 0.09  # of an axis: ends of lines whose labels do not touch


def _label_ends(rows: Sequence[Record], line: str, column: str, domain: Sequence[float]) -> None:
    """Writes at the end of each line what it is and reaches; where lines end too close to each other, at none."""
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
                row["label"] = f"{row[line]}: {si(float(row[column] or 0))}"


def _curve_row(point: StudyPoint, styles: SeriesStyles, curves: _Curves, missing: Sequence[StudyPoint]) -> Record:
    """A point: its value, the ideal one, and what stands in its place where it has none."""
    value, efficiency = curves.value_of(point), point.result.efficiency
    return {
        **_cells(point),
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


# ---- intensity, work over communication: of the workloads' batches, and of all points with their efficiency ---------

Counted = Sequence[tuple[StudyPoint, Workload]]  # points with their counts, by one convention


def batch_intensities(counted: Counted, convention: str, suffix: str) -> Figure | str:
    """Work, and work over communication, by batch category."""
    rows = list(_batches(counted))
    work, intensity = ([float(row[column] or 0) for row in rows] for column in (_WORK, _INTENSITY))
    names = list(dict.fromkeys(str(row["workload"]) for row in rows))
    if len(rows) == len(names) <= MOST_SAID:
        each = ", ".join(f"{name} {si(value)}" for name, value in zip(names, intensity, strict=True))
        return f"Activations per parameter of a batch (by the {convention} convention): {each}."
    plot = Plot(
        x=Axis(
            "batch_category", "batch category", "steps", order=sorted({int(str(row["batch_category"])) for row in rows})
        ),
        y=Axis(_WORK, f"activations per batch ({convention})", "log", "si"),
        beside=(Axis(_INTENSITY, f"activations per parameter ({convention})", "log", "si"),),
        marks=(Mark("line", look={"strokeWidth": 0.75, "opacity": 0.6}), Mark("dots", look={"size": 22})),
        colour=Scale("workload", workload_colours(names)),
        shape=Scale("workload", shape_looks(names)),
        height=130,
        chart_only=("description",),
    )
    return figure(
        f"intensity{suffix}",
        f"The workloads: {span(intensity)} activations per parameter, {span(work)} per batch",
        "Work of a batch, and its work over communication, by batch category: 1 is the smallest batch that a workload "
        f"has here. Counted by the {convention} convention. After Tallent et al. 2017, Fig. 6.",
        table_of_records(rows),
        plot,
    )


_WORK, _INTENSITY, _ON_EACH = "activations_per_batch", "activations_per_parameter", "activations_per_parameter_per_gpu"


def _batches(counted: Counted) -> Iterator[Record]:
    """One row for each batch of each workload; with weak scaling a batch is one on each number of GPUs."""
    points = [point for point, _ in counted]
    most_gpus_first = sorted(counted, key=lambda pair: pair[0].gpus, reverse=True)
    distinct = {(point.workload, point.batch): (point, counts) for point, counts in most_gpus_first}
    order, categories = workloads_in_order(points), batch_categories(points)
    for point, counts in sorted(distinct.values(), key=lambda pair: order.index(pair[0].workload)):
        work, intensity = si(counts.activations_per_batch), si(counts.intensity)
        yield {
            "workload": point.workload,
            "batch": point.batch,
            "batch_category": categories[point.workload, point.batch],
            _WORK: counts.activations_per_batch,
            _INTENSITY: counts.intensity,
            "description": f"{point.workload}, {point.batch}: {work} activations, {intensity} per parameter",
        }


def located(counted: Counted, convention: str, suffix: str) -> Figure | str:
    """Efficiency over intensity: every point that is compared with another one; two systems in one panel, by shape."""
    rows = [_located_row(point, counts) for point, counts in counted]
    unit = unit_of_points(point for point, _ in counted)
    each = f"activations per parameter on each {unit}"
    intensities = span(float(row[_ON_EACH] or 0) for row in rows)
    drawn = [row for row in rows if row["shown_as"] in ("interval", "no interval")]
    if len(drawn) < 2:
        return f"The points: {intensities} {each} (by the {convention} convention)."
    points = [point for point, _ in counted]
    workloads, systems = workloads_in_order(points), list(dict.fromkeys(point.system for point in points))
    shaped, shapes = ("system", systems) if len(systems) > 1 else ("workload", workloads)
    sizes = {count: 14 + 12 * place for place, count in enumerate(sorted({point.gpus for point in points}))}
    missing = sum(row["shown_as"] == "not measured" for row in rows)
    largest = max(float(row["efficiency"] or 0) for row in drawn)
    shown = {
        "interval": [
            Mark("whiskers", "datum.shown_as == 'interval'", look={"opacity": 0.35}),
            Mark("dots", "datum.shown_as == 'interval'", look={"opacity": 0.85}),
        ],
        "no interval": [Mark("dots", "datum.shown_as == 'no interval'", look={"filled": False})],
    }
    marks = [
        mark for kind, of_kind in shown.items() if any(row["shown_as"] == kind for row in rows) for mark in of_kind
    ]
    plot = Plot(
        x=Axis(_ON_EACH, f"{each} ({convention})", "log", "si"),
        y=Axis("efficiency", "parallel efficiency", labels="percent", domain=(0.0, max(1.0, 1.02 * largest))),
        marks=marks,
        colour=Scale("workload", workload_colours(workloads)),
        shape=Scale(shaped, shape_looks(shapes)),
        size=Scale("gpus", sizes, f"{unit}s"),
        panel="settings",
        columns=2,
        height=130,
        chart_only=("system", "settings", "description"),
    )
    return figure(
        f"located{suffix}",
        f"Efficiency over work for communication: {intensities} {each}",
        "Each point but the baselines, with its efficiency over its baseline. Hollow: without an interval."
        + f" Not measured, and so not drawn: {missing}." * bool(missing)
        + f" Counted by the {convention} convention. After Tallent et al. 2017, Fig. 7.",
        table_of_records(rows),
        plot,
    )


def _located_row(point: StudyPoint, counts: Workload) -> Record:
    efficiency = point.result.efficiency
    words = f"efficiency {efficiency.median:.0%} over {point.result.baseline}" if efficiency else outcome(point)
    shown = (
        "the baseline"
        if not has_speedup(point)
        else "interval"
        if efficiency and efficiency.kind == "interval"
        else "no interval"
    )
    return {
        **_cells(point),
        _ON_EACH: counts.intensity / point.gpus,
        "efficiency": efficiency.median if efficiency else None,
        "efficiency_low": efficiency.low if efficiency else None,
        "efficiency_high": efficiency.high if efficiency else None,
        "shown_as": shown if efficiency else "not measured",
        "system": point.system,
        "settings": point.settings,
        "description": f"{point.words}, {si(counts.intensity / point.gpus)} activations per parameter: {words}",
    }


# ---- where the scaling went: the parts of each step, beside its efficiency ------------------------------------------

_LOST = {
    "useful": PART_COLOURS["compute"],
    "communication": PART_COLOURS["communication"],
    "communication and waiting": PART_COLOURS["communication"],
    "waiting": "#6b747d",
    "smaller batches": "#b07a00",
    "input": PART_COLOURS["input"],
    "the rest": PART_COLOURS["host"],
    "not resolved": "#c3c9d0",
}
_ROOM = 1.75  # of the axis of shares: right of the bars stands the speed-up


def lost_bars(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure | None:
    """A bar for each point whose parts are known, with its efficiency in it and its speed-up beside it."""
    known = [point for point in styles.in_order(points) if point.result.lost and point.result.lost.parts]
    if not any(map(has_speedup, known)):
        return None
    rows = [row for point in known for row in _lost_rows(point)]
    there = {row["part"] for row in rows}
    ranks = [how_many(count, unit_of_points(points)) for count in sorted({point.gpus for point in known})]
    plot = Plot(
        x=Axis("share", "share of the step", labels="percent", ticks=(0, 0.5, 1), domain=(0, _ROOM)),
        y=Axis("ranks", "", "names", order=ranks),
        marks=(
            Mark("bars"),
            Mark("words", "isValid(datum.efficiency)", "efficiency", look={"color": PAPER, "align": "left", "dx": 3},
                 along="zero"),
            Mark("words", "isValid(datum.speedup)", "speedup", look={"align": "left"}, along="beside"),
        ),
        colour=Scale("part", {_PART_WORDS.get(name, name): colour for name, colour in _LOST.items()
                              if _PART_WORDS.get(name, name) in there}),
        stacked="place",
        panel="panel",
        columns=2,
        chart_only=("panel", "place", "zero", "beside", "efficiency", "speedup", "description"),
    )  # fmt: skip
    return figure(
        "lost",
        "Where the time goes, and what is left of linear scaling",
        "Parts of a step, over the baseline's; in the bar its efficiency, at its end the speed-up with its interval. "
        "Not resolved: parts that the runs do not show, together.",
        table_of_records(rows),
        plot,
    )


_PART_WORDS: dict[str, str] = {str(name): words for name, words in WORDS.items()} | {"the rest": "the rest"}


def _lost_rows(point: StudyPoint) -> Iterator[Record]:
    """The parts that are shown, and all others as one; they fill the step."""
    lost, result = point.result.lost, point.result
    shown = {part.name: part.share.median for part in lost.parts if part.name == "useful" or part.shown} if lost else {}
    shares = {str(name): share for name, share in shown.items() if share > 0}
    whole = max(1.0, sum(shares.values()))
    shares = {name: share / whole for name, share in shares.items()}
    if (open_ := 1 - sum(shares.values())) > LEAST_DRAWN:
        shares["not resolved"] = open_
    speedup = result.speedup if has_speedup(point) else None
    value, low, high = to_interval(speedup.median, speedup.low, speedup.high) if speedup else ("", "", "")
    ends = f" ({low} to {high})" if speedup and speedup.n > 1 else ""
    for name, share in shares.items():
        first, words = name == "useful", _PART_WORDS.get(name, name)
        yield {
            **_cells(point),
            "part": words,
            "share": share,
            "panel": point.line_words,
            "ranks": how_many(point.gpus, result.unit),
            "place": list(_LOST).index(name),
            "zero": 0,
            "beside": 1.03,
            "efficiency": f"{result.efficiency.median:.0%}" if first and result.efficiency else None,
            "speedup": f"\u00d7{value}{ends}" if first and speedup else None,
            "description": f"{point.words}: {words} {share:.0%}",
        }


LEAST_DRAWN = 0.001


# ---- what limits points: how much of its step each part of the work takes -------------------------------------------


def step_shares(points: Sequence[StudyPoint], styles: SeriesStyles) -> Figure | str:
    """What the step of every point is spent on; a sentence, where it is the same of all."""
    rows = [row for point in styles.in_order(points) for row in _bars(point)]
    title = f"What limits the cases: {_verdicts(points)}"
    if len({(row["part"], row["share"], row["word"]) for row in rows}) == 1:
        return f"{title}.{_not_separate(points)}{meanings(points)}"
    words = Mark("words", "isValid(datum.word)", "word", look={"angle": 270, "align": "left", "dx": 2}, at="zero")
    plot = Plot(
        x=Axis("gpus", f"{unit_of_points(points)}s", "steps", order=sorted({point.gpus for point in points})),
        y=Axis("share", "share of\nthe step", labels="percent", ticks=(0, 0.5, 1), domain=(0, 1)),
        marks=(Mark("bars", "isValid(datum.share)"), *[words] * any(row["word"] for row in rows)),
        colour=Scale(
            "part", {name: of for name, of in PART_COLOURS.items() if any(row["part"] == name for row in rows)}
        ),
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
            **_cells(point),
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
    verdicts = Counter(limits.verdict or ("open" if limits.shares else "not known") for limits in _limits(points))
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _not_separate(points: Iterable[StudyPoint]) -> str:
    """The parts that were not measured, as a sentence of the caption; "" where all were."""
    mixed = [limits for limits in _limits(points) if limits.shares]
    unknown = dict.fromkeys(f"{part} ({why})" for limits in mixed for part, why in limits.unknown.items())
    return f" Not measured separately, so included in the rest: {'; '.join(unknown)}." if unknown else ""
