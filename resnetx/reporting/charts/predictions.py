"""Figures of predictions: speed-ups, where the time of each GPU goes, what runs when; beside measurements; and scores.

Speed-ups have the form of Shi et al. 2018, Fig. 2 to 4: a panel for each workload, a line for each system, framework or
whatever else differs, dotted the ideal. Where the time goes is a bar for each number of GPUs, whose parts sum to the
step. A timeline has a lane for each resource, and the systems of one point below each other.
"""

import dataclasses
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from resnetx.errors import shortened
from resnetx.record.comparisons import Accuracy, CheckedClaim, CheckedPoint
from resnetx.record.literature import Score
from resnetx.record.prediction import PredictedPoint, PredictedTask
from resnetx.reporting.charts.figure import BARS, PAPER, QUIET, Figure, workload_colours
from resnetx.reporting.charts.grammar import (
    Axis,
    Mark,
    Plot,
    Scale,
    dash_looks,
    figure,
    looks_there,
    names_in,
    numbers_in,
    ratios,
    shape_looks,
    solid_and_hollow,
    solid_and_hollow_words,
    system_looks,
)
from resnetx.reporting.charts.step_parts import predicted_parts
from resnetx.reporting.compared_systems import case_words
from resnetx.reporting.predicted_answer import PredictedCurve, identity, predicted_curves, unit_of_point
from resnetx.table import Record, fields, table_of_records
from resnetx.units import Unit, how_many, si, to_interval, unit_by_library

MOST_POINTS = 2000  # of which figures are drawn: of more, no panel shows what the table does not
HEIGHT = 110


def prediction_figures(points: Sequence[PredictedPoint]) -> list[Figure]:
    """The figures that there is something to show in."""
    if len(points) > MOST_POINTS:
        return []
    curves = predicted_curves(points)
    lines = [name for name in identity(curves) if name not in ("workload", "batch")]
    figures = []
    if marks := [mark for curve in curves for mark in _marks(curve, lines)]:
        figures.append(_speedups(marks, unit_of_point(points[0])))
    if parts := predicted_parts(curves):
        figures.append(parts)
    return figures


def _marks(curve: PredictedCurve, lines: Sequence[str]) -> list[Record]:
    able = [point for point in curve.able if point.speedup and point.baseline_gpus]
    if len(able) < 2:
        return []
    others = [name for name in lines if name != "system"]
    line = {"line": curve.system, "kind": ", ".join(getattr(curve, name) for name in others)}
    if "system" not in lines and others:
        line = {"line": line["kind"], "kind": ""}
    return [{"panel": f"{curve.workload}, batch {curve.batch}", **line, **_figures_of(point)} for point in able]


def _figures_of(point: PredictedPoint) -> Record:
    assert point.speedup and point.baseline_gpus and point.images_per_s, "only points with a speed-up"
    low, high = point.speedup_interval or (point.speedup, point.speedup)
    value, least, most = to_interval(point.speedup, low, high) if low < high else (f"{point.speedup:.3g}", "", "")
    ends = f" ({least} to {most})" if least else ""
    ranks = how_many(point.gpus, unit_of_point(point))
    case = f"{point.workload}, batch {point.batch_size}, {point.system}, {ranks}"
    return {
        "gpus": point.gpus,
        "images_per_s": point.images_per_s,
        "speedup": point.speedup,  # over `baseline_gpus`
        "speedup_low": low,
        "speedup_high": high,
        "ideal": point.gpus / point.baseline_gpus,
        "baseline_gpus": point.baseline_gpus,
        "description": f"{case}: {value} times{ends}, {si(point.images_per_s)} images/s",
    }


# ---- drawn


def _speedups(marks: Sequence[Record], unit: Unit) -> Figure:
    lines, kinds = (names_in(marks, column) for column in ("line", "kind"))
    plot = Plot(
        x=Axis("gpus", f"{unit}s", "log2", ticks=sorted({int(str(mark["gpus"])) for mark in marks})),
        y=Axis("speedup", "speed-up", "log2", "si"),
        marks=(
            Mark("line", column="ideal", colour=QUIET, look={"strokeDash": [0.6, 1.8], "strokeWidth": 0.8}),
            Mark("line"),
            Mark("whiskers"),
            *solid_and_hollow("line", lines),
        ),
        colour=Scale("line", system_looks(lines)),
        shape=Scale("line", shape_looks(lines)) if len(lines) > 2 else None,
        dash=Scale("kind", dash_looks(kinds)) if len(kinds) > 1 else None,
        detail=("line", "kind"),
        aside=("line", "kind"),
        panel="panel",
        columns=3,
        height=HEIGHT,
        chart_only=("description",),
    )
    over = {mark["baseline_gpus"] for mark in marks}
    base = f"one {unit}" if over == {1} else f"the fewest {unit}s that can run it"
    caption = "Whiskers: what nine of ten measurements should lie within. Dotted: ideal. Form: Shi et al. 2018."
    caption += solid_and_hollow_words(lines)
    return figure("speedups", f"Predicted speed-up over {base}", caption, table_of_records(marks), plot)


# ---- timelines: what runs when in one iteration ---------------------------------------------------------------------

LANES = ("input", "copies", "compute", "collectives", "host")
_OF_COMPUTE = ("forward", "backward", "update")


def timelines(points: Sequence[PredictedPoint]) -> list[Figure]:
    """A figure for each point that has a timeline, with a panel for each system and library."""
    groups: dict[tuple[str, int, int, str], list[PredictedPoint]] = defaultdict(list)
    for point in points:
        if point.timeline:
            variant = repr((point.precision, point.request.strategy if point.request else point.strategy))
            groups[point.workload, point.batch_size, point.gpus, variant].append(point)
    return list(_with_own_names(map(_timeline, groups.values())))


def _with_own_names(figures: Iterable[Figure]) -> Iterator[Figure]:
    """The figures under different names: points may differ in settings that are not in their names."""
    names: Counter[str] = Counter()
    for timeline in figures:
        names[timeline.name] += 1
        number = "" if names[timeline.name] == 1 else f"-{names[timeline.name]}"
        yield dataclasses.replace(timeline, name=f"{timeline.name}{number}")


def _timeline(points: Sequence[PredictedPoint]) -> Figure:
    first = points[0]
    rows = [_span(point, task) for point in points for task in point.timeline]
    lanes = {task.lane for point in points for task in point.timeline}
    latest_ms = max(1e3 * task.end_s for point in points for task in point.timeline)
    plot = Plot(
        x=Axis("start_ms", "ms of one iteration", domain=(0.0, latest_ms)),
        y=Axis("lane", "", "names", order=[lane for lane in LANES if lane in lanes]),
        marks=(
            Mark("spans", column="end_ms"),
            Mark("words", column="label", within="end_ms", look={"color": PAPER}),
        ),
        colour=looks_there("part", BARS, rows),
        panel="panel",
        chart_only=("panel", "label", "description"),
    )
    batch = f"batch {first.batch_size}, {how_many(first.gpus, unit_by_library(first.library))}"
    name = re.sub(r"[^\w.]+", "-", f"timeline-{first.workload}-b{first.batch_size}-g{first.gpus}-{first.strategy}")
    return figure(
        f"{name}-{first.precision}".lower(),
        f"One predicted iteration of {first.workload}, {batch}, {first.strategy}",
        "One steady iteration of one rank; lanes that it shares with no other bar run at the same time. Input and "
        "copies are those of the batches to come.",
        table_of_records(rows),
        plot,
    )


def _span(point: PredictedPoint, task: PredictedTask) -> Record:
    kind = task.name.partition(" ")[0]
    return {
        "system": point.system,
        "library": point.library,
        "name": task.name,
        "lane": task.lane,
        "part": task.lane if task.lane != "compute" else kind if kind in _OF_COMPUTE else "other compute",
        "start_ms": 1e3 * task.start_s,
        "end_ms": 1e3 * task.end_s,
        "panel": f"{point.system} with {point.library}",
        "label": task.name.partition(" ")[2] or task.name,
        "description": f"{task.name}: {si(1e3 * task.start_s)} to {si(1e3 * task.end_s)} ms",
    }


# ---- predicted beside measured --------------------------------------------------------------------------------------


def accuracy_figure(accuracy: Accuracy) -> Figure:
    """Predicted over measured time of an iteration, with both intervals; two systems in one panel."""
    rows = [row for point in accuracy.points if (row := _checked(point))]
    ends = numbers_in(rows, *(f"{of}_ms_{end}" for of in ("predicted", "measured") for end in ("low", "high")))
    domain = (min(ends) / 1.15, max(ends) * 1.15)
    workloads, strategies, systems = (names_in(rows, column) for column in ("workload", "strategy", "system"))
    apart = len(systems) > 2
    plot = Plot(
        x=Axis("measured_ms", "measured, ms", "log", domain=domain),
        y=Axis("predicted_ms", "predicted, ms", "log", domain=domain),
        marks=(
            Mark("diagonal", column="1"),
            *(Mark("diagonal", column=factor, look={"strokeDash": [1, 1.5]}) for factor in ("1.1", "0.9")),
            Mark("whiskers"),
            Mark("across", column="measured_ms"),
            *solid_and_hollow("system", systems, size=20),
        ),
        colour=Scale("workload", workload_colours(workloads)),
        shape=Scale("strategy", shape_looks(strategies)),
        panel="system" if apart else "",
        square=True,
        chart_only=("description",),
    )
    mean = statistics.fmean(map(abs, numbers_in(rows, "error")))
    told = solid_and_hollow_words(systems)
    alike = [names[0] for names in (workloads, systems, strategies) if len(names) == 1]
    told += f" In all: {', '.join(alike)}." * bool(alike)
    return figure(
        "accuracy",
        f"Predicted and measured time of an iteration: {mean:.1%} apart on average",
        "Whiskers: prediction interval, and interval or range of the runs. Line: predicted as measured; dotted: 10% "
        f"more and less.{told}",
        table_of_records(rows),
        plot,
    )


def _checked(point: CheckedPoint) -> Record | None:
    if point.predicted_s is None or point.measured_s is None or point.error is None:
        return None
    low_s, high_s = point.predicted_interval_s or [point.predicted_s, point.predicted_s]
    return {
        **fields(point, "workload", "batch_size", "gpus", "variant"),
        "system": f"{point.system}, {point.library}",
        "strategy": point.strategy,
        "predicted_ms": 1e3 * point.predicted_s,
        "predicted_ms_low": 1e3 * low_s,
        "predicted_ms_high": 1e3 * high_s,
        "measured_ms": 1e3 * point.measured_s.median,
        "measured_ms_low": 1e3 * point.measured_s.low,
        "measured_ms_high": 1e3 * point.measured_s.high,
        "error": point.error,
        "description": f"{case_words(point)}: {point.error:+.1%}",
    }


# ---- predicted beside stated ----------------------------------------------------------------------------------------

MOST_STATED = 16  # figures of papers: of more, those that are furthest from what is predicted
MOST_SAID, LINE = 84, 30  # characters of a statement, and of a line of it
_STATED = {"hit": ("agrees", "#1f6f8b"), "miss": ("disagrees", "#e4572e"), "open": ("undecided", "#9aa3ad")}


def stated_beside(claims: Sequence[CheckedClaim]) -> list[Figure]:
    """What is predicted over what a paper states, of each statement with a figure that is no input."""
    apart = [
        (claim, claim.ours / claim.stated)
        for claim in claims
        if claim.ours and claim.stated and claim.ours / claim.stated > 0 and claim.outcome in _STATED
    ]
    count = len(apart)
    apart = sorted(apart, key=lambda pair: -abs(math.log(pair[1])))[:MOST_STATED]
    if len(apart) < 2:
        return []
    named = Counter(claim.says for claim, _ in apart)
    rows: list[Record] = [
        {
            "statement": claim.says,
            "of": ", ".join(filter(None, (claim.where, claim.variant))),
            "stated": claim.stated,
            "predicted": claim.ours,
            "unit": claim.unit,
            "ratio": ratio,
            "ratio_low": min(ratio, (claim.ours_low or claim.ours or 0.0) / (claim.stated or 1.0)) or ratio,
            "ratio_high": max(ratio, (claim.ours_high or claim.ours or 0.0) / (claim.stated or 1.0)),
            "outcome": _STATED[claim.outcome][0],
            "row": _row_of(claim, named),
            "description": f"{claim.says}: stated {claim.stated:.4g}, predicted {claim.ours:.4g} {claim.unit}".rstrip(),
        }
        for claim, ratio in apart
    ]
    there = {row["outcome"] for row in rows}
    colour = looks_there("outcome", dict(_STATED.values()), rows)
    plot = ratios(rows, "row", "predicted / stated", colour=colour, chart_only=("row", "description"))
    which = f"the {len(rows)} of {count} figures that are furthest apart" if count > len(rows) else f"{count} figures"
    title = f"What is predicted, over what the paper states: {which}"
    alike = f" All of these: {', '.join(map(str, there))}." * (len(there) == 1)
    caption = f"Lines: the predicted interval.{alike} The statements are below."
    return [figure("stated", title, caption, table_of_records(rows), plot)]


def _row_of(claim: CheckedClaim, named: Mapping[str, int]) -> str:
    """A statement in short, in lines; with what it is of, where several are of one statement."""
    of = ", ".join(filter(None, (claim.where, claim.variant)))
    of = f" ({of})" * (named[claim.says] > 1 and bool(of))
    said = shortened(claim.says, max(LINE, MOST_SAID - len(of))) + of
    return "\n".join(wrap(said, LINE))


# ---- scores ---------------------------------------------------------------------------------------------------------


def score_figures(score: Score) -> list[Figure]:
    """The mean error of each predictor by kind of published figure."""
    rows: list[Record] = [
        {
            "kind": f"{each.kind.removeprefix('training, ')} ({each.figures})",
            **fields(each, "predictor", "mean_error", "predicted", "worst_error"),
        }
        for each in score.scores
        if each.predicted
    ]
    if not rows:
        return []
    plot = Plot(
        x=Axis("mean_error", "mean error", labels="percent"),
        y=Axis("kind", "", "names"),
        marks=(Mark("dots", look={"size": 40}),),
        colour=Scale("predictor", system_looks(names_in(rows, "predictor"))),
        tips=tuple(rows[0]),
    )
    caption = "Mean of |predicted / published - 1| over the figures that each predicts; in brackets how many there are."
    return [figure("scores", "How far off each predictor is", caption, table_of_records(rows), plot)]
