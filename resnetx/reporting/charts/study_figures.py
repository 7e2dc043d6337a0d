"""The figures of a report, as Vega-Lite specifications: the only module that knows Altair.

Each figure is laid out for one column of a two-column page (8.5 cm); screens show it larger. Nothing is drawn that was
not measured: a line has a gap where a point is missing, and a word at the foot of the panel says why.

The forms are those of Tallent et al. 2017, Fig. 6, 7, 12 and 13.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import altair as alt

from resnetx.record import Workload
from resnetx.reporting.charts.shared import (
    CHARACTER,
    COLUMN,
    WORD_HEIGHT,
    Figure,
    domain_with_foot,
    gpus_axis,
    legend_of,
    log_ticks,
    panel_grid,
    si_axis,
    styled,
    without,
)
from resnetx.reporting.charts.styles import BASELINE, DASHES, EFFICIENCY, HOLLOW, INK, QUIET, Look
from resnetx.reporting.charts.styles import PARTS as PART_COLOURS
from resnetx.reporting.study.export import PARTS, estimate
from resnetx.reporting.study.series import Named, category
from resnetx.statistics import Summary
from resnetx.units import si

WHISKERS = {"interval": "95 % interval", "range": "range"}

# What stands at the foot of a panel in place of a missing point, and what it means.
_WORDS = {
    "oom": ("oom", "out of memory"),
    "failed": ("fail", "failed"),
    "timeout": ("late", "timed out"),
    "skipped": ("skip", "cannot run there"),
    "missing": ("todo", "not run yet"),
    "no rate": ("none", "ended well without a rate"),
}
_CROWD = 3  # more words than these in one place become one for each outcome, in black


def figures(points: Sequence[Named]) -> list[Figure]:
    """Every figure that the points have something to show in."""
    look = Look(points)
    # An old study may hold an empty batch, which has no place on a log axis.
    working = [point for point in points if point.counts and point.counts.activations_per_batch > 0]
    conventions = sorted({point.counts.convention for point in working if point.counts})
    found = []
    for convention in conventions:
        counted = [point for point in working if point.counts and point.counts.convention == convention]
        suffix = "" if len(conventions) == 1 else f"-{convention}"
        found += [_intensity(counted, look, convention, suffix), _located(counted, look, convention, suffix)]
    if any(point.row.images_per_s for point in points):
        found.append(_rates(points, look))
        if any(_scaled(point) for point in points):
            found.append(_speedups(points, look))
        found.append(_limits(points, look))
    return found


def outcome(point: Named) -> str:
    """How a point ended; "no rate" where its runs went well, but measured none."""
    row = point.row
    return "no rate" if row.outcome == "ok" and row.images_per_s is None else row.outcome


# ---- intensity ------------------------------------------------------------------------------------------------------


def _intensity(counted: Sequence[Named], look: Look, convention: str, suffix: str) -> Figure:
    """Work, and work over communication, by batch category."""
    data = [_batch(point, point.counts, counted) for point in _first_of_each(counted) if point.counts]
    x = alt.X("batch_category:O", title="batch category", axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.5))
    base = alt.Chart(alt.NamedData("all"), width=78, height=130).encode(x=x, color=_colour(look))
    panels = []
    for field in ("activations_per_batch", "activations_per_parameter"):
        y = _log_y(data, field, f"{field.replace('_', ' ')} ({convention})", 130)
        line = base.mark_line(strokeWidth=0.75, opacity=0.6, aria=False).encode(y=y)
        marks = base.mark_point(filled=True, size=22, opacity=1).encode(y=y, shape=_shape(look), description="tell:N")
        panels.append(line + marks)
    return Figure(
        name=f"intensity{suffix}",
        title=f"The workloads: {_span(data, 'activations_per_parameter')} activations per parameter, "
        f"{_span(data, 'activations_per_batch')} per batch",
        caption="Work of a batch (left) and its work over communication (right), by batch category: 1 is the smallest "
        f"batch that a workload has here. Counted by the {convention} convention. After Tallent et al. 2017, Fig. 6.",
        data=without(data, "tell"),
        specification=styled(alt.hconcat(*panels, spacing=8), {"all": data}),
    )


def _batch(point: Named, counts: Workload, counted: Sequence[Named]) -> dict[str, Any]:
    work, intensity = si(counts.activations_per_batch), si(counts.intensity)
    return {
        "workload": point.workload,
        "batch": point.batch,
        "batch_category": category(point, counted),
        "activations_per_batch": counts.activations_per_batch,
        "activations_per_parameter": counts.intensity,
        "tell": f"{point.workload}, {point.batch}: {work} activations, {intensity} per parameter",
    }


def _first_of_each(counted: Sequence[Named]) -> Iterable[Named]:
    """One point of each batch of each workload; with weak scaling a batch is one on each number of GPUs."""
    return {(p.workload, p.batch): p for p in sorted(counted, key=lambda p: p.gpus, reverse=True)}.values()


def _located(counted: Sequence[Named], look: Look, convention: str, suffix: str) -> Figure:
    """Every point in intensity space, by the parallel efficiency that was measured there."""
    data = [
        {
            "workload": point.workload,
            "batch": point.batch,
            "variant": point.variant,
            "gpus": point.gpus,
            "activations_per_parameter_per_gpu": point.counts.intensity / point.gpus,
            "efficiency": point.row.efficiency.median if point.row.efficiency else None,
            "shown_as": _efficiency_class(point),
            "tell": f"{point.words}: {_efficiency_told(point)}",
        }
        for point in counted
        if point.counts
    ]
    colours = {name: colour for name, (_, colour) in EFFICIENCY.items()}
    colours |= {"the baseline": BASELINE, "not measured": HOLLOW}
    classes = [name for name in colours if any(each["shown_as"] == name for each in data)]
    fill = alt.Fill(
        "shown_as:N",
        scale=alt.Scale(domain=classes, range=[colours[name] for name in classes]),
        legend=legend_of(
            classes,
            title="parallel efficiency",
            orient="top",
            symbolType="circle",
            symbolSize=34,
            symbolStrokeColor=INK,
            symbolStrokeWidth=0.5,
        ),
    )
    height = 170 if len(look.variants) == 1 else 100
    y = _log_y(data, "activations_per_parameter_per_gpu", f"activations per parameter per GPU ({convention})", height)

    def panel(chart: alt.Chart, _: bool, last: bool) -> Any:
        axis = alt.Axis(labelAngle=0, tickBand="extent", grid=True, labels=last, ticks=last)
        counts = sorted({point.gpus for point in counted})
        chart = chart.properties(width=COLUMN - 42, height=height)
        return chart.mark_point(size=26, stroke=INK, strokeWidth=0.5, opacity=1).encode(
            x=alt.X("gpus:O", title="GPUs" if last else None, axis=axis, scale=alt.Scale(domain=counts, padding=0.25)),
            xOffset=alt.XOffset("workload:N", scale=alt.Scale(domain=look.workloads)),
            y=y,
            shape=_shape(look, legend_of(look.workloads, symbolStrokeColor=INK, symbolFillColor=INK)),
            fill=fill,
            description="tell:N",
        )

    hollow = "Hollow: not measured; the table says why. " * ("not measured" in classes)
    return Figure(
        name=f"located{suffix}",
        title=f"The points: {_span(data, 'activations_per_parameter_per_gpu')} activations per parameter on each GPU",
        caption="Work over communication of every point, and the parallel efficiency measured there. On each number of "
        "GPUs the workloads stand side by side in the order of the legend, each with its batches one above the other. "
        f"{hollow}Counted by the {convention} convention. After Tallent et al. 2017, Fig. 7.",
        data=without(data, "tell"),
        specification=panel_grid(data, "variant", look.variants, 1, panel),
    )


def _efficiency_class(point: Named) -> str:
    efficiency = point.row.efficiency
    if efficiency is None:
        return "not measured"
    if not _scaled(point):
        return "the baseline"
    return next(name for name, (bound, _) in EFFICIENCY.items() if efficiency.median < bound)


def _efficiency_told(point: Named) -> str:
    if point.row.efficiency is None:
        return outcome(point)
    return f"efficiency {point.row.efficiency.median:.0%} over {point.row.baseline}"


def _scaled(point: Named) -> bool:
    """Whether a point has a speed-up, and is not the baseline itself."""
    speedup = point.row.speedup
    return speedup is not None and not speedup.low == speedup.high == 1


# ---- scaling --------------------------------------------------------------------------------------------------------


def _rates(points: Sequence[Named], look: Look) -> Figure:
    """Iterations/s against GPUs."""
    value_of = attrgetter("row.iterations_per_s")
    data = _curves(points, look, "iterations_per_s", value_of)
    rate, best = max((_median(point.row.images_per_s), point.words) for point in points if point.row.images_per_s)
    return Figure(
        name="rate",
        title=f"Training rate against GPUs; the highest, {si(rate)} images/s: {best}",
        caption=f"{_reading(points, value_of)} Dotted: ideal, from the baseline ({_baselines(points)}). "
        "After Tallent et al. 2017, Fig. 12 and 13.",
        data=without(data, *_DRAWING),
        specification=_curve_chart(data, points, look, "iterations_per_s", "iterations/s", base=10),
    )


def _speedups(points: Sequence[Named], look: Look) -> Figure:
    """The speed-up against GPUs."""
    value_of = attrgetter("row.speedup")
    data = _curves(points, look, "speedup", value_of)
    most = max(point.gpus for point in points if _scaled(point))
    reached = sorted((_median(p.row.efficiency), p.line_words) for p in points if p.gpus == most and _scaled(p))
    (worst, where_worst), (best, where_best) = reached[0], reached[-1]
    first, *others = _baselines(points).split("; ")
    title = ["speed-up", f"(baseline: {first}{' or more' * bool(others)})"]
    return Figure(
        name="speedup",
        title=f"Parallel efficiency on {most} GPUs: {worst:.0%} ({where_worst})"
        + f" to {best:.0%} ({where_best})" * (len(reached) > 1),
        caption=f"{_reading(points, value_of)} Dotted: ideal. Baseline: {_baselines(points)}.",
        data=without(data, *_DRAWING),
        specification=_curve_chart(data, points, look, "speedup", title, base=2),
    )


_DRAWING = ("panel", "word", "crowd", "place", "tell")  # columns that only say how a row is drawn


def _curves(
    points: Sequence[Named], look: Look, field: str, value_of: Callable[[Named], Summary | None]
) -> list[dict[str, Any]]:
    """A row for each point: its value, the ideal one, and what stands in its place where it has none."""
    missing: dict[tuple[str, int], list[Named]] = defaultdict(list)
    for point in points:
        if value_of(point) is None:
            missing[look.panel(point), point.gpus].append(point)
    rows = []
    for point in points:
        value, efficiency = value_of(point), point.row.efficiency
        row = {"workload": point.workload, "batch": point.batch, "variant": point.variant, "gpus": point.gpus}
        row |= {**estimate(field, value), "ideal": value.median / efficiency.median if value and efficiency else None}
        row |= {"runs": value.n if value else 0, "outcome": outcome(point), "panel": look.panel(point)}
        row |= _in_place(point, missing[look.panel(point), point.gpus])
        rows.append({**row, "tell": f"{point.words}: {_told(value, field, outcome(point))}"})
    return rows


def _in_place(point: Named, missing: list[Named]) -> dict[str, Any]:
    """What stands at the foot of a figure for a point that has no rate: a word, and the row that it is in.

    `missing`: all points without a rate at the same number of GPUs. Few of them have a row each; where they are many,
    those that are missing for the same reason share a row, in which only the first of them has the word.
    """
    if point not in missing:
        return {"word": None, "crowd": False, "place": None}
    if len(missing) <= _CROWD:
        return {"word": _word(point), "crowd": False, "place": missing.index(point)}
    alike = [other for other in missing if _word(other) == _word(point)]
    rows = list(dict.fromkeys(map(_word, missing)))
    return {"word": _word(point) if alike[0] == point else None, "crowd": True, "place": rows.index(_word(point))}


def _word(point: Named) -> str:
    return _WORDS[outcome(point)][0]


def _curve_chart(
    data: list[dict[str, Any]], points: Sequence[Named], look: Look, field: str, title: str | list[str], base: int
) -> dict[str, Any]:
    """Curves against GPUs on log axes, on which every ideal is a straight line."""
    panels = look.panels(points)
    columns = min(len(panels), 3 if len(panels) > 6 else 2)
    width, height = (COLUMN - 30 - 9 * len(title) * isinstance(title, list) - 8 * columns) // columns, 105
    values = [row[end] for row in data for end in (f"{field}_low", f"{field}_high", "ideal") if row[end]]
    places = [row["place"] for row in data if row["place"] is not None]
    domain, word_step = domain_with_foot(values, max(places, default=-1) + 1, height)
    ticks = log_ticks([domain[0], domain[1] / word_step**0.6], base)  # else the uppermost label moves the panel's title

    def panel(chart: alt.Chart, left: bool, last: bool) -> Any:
        y = alt.Y(
            f"{field}:Q",
            title=title if left else None,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=si_axis(ticks, left),
        )
        chart = chart.properties(width=width, height=height)
        chart = chart.encode(x=gpus_axis((point.gpus for point in points), last), detail=["workload:N", "variant:N"])
        ideal = chart.transform_filter("isValid(datum.ideal)").encode(y=alt.Y("ideal:Q"))
        layers = [ideal.mark_line(strokeWidth=0.6, stroke=QUIET, strokeDash=[0.6, 1.8], aria=False)]
        line = chart.mark_line(strokeWidth=0.9, aria=False)
        layers.append(line.encode(y=y, color=_colour(look), strokeDash=_dash(look)))
        for ends, opacity in (("interval", 1.0), ("range", 0.45)):
            whisker = chart.transform_filter(f"datum.{field}_ends == '{ends}' && datum.runs > 1")
            whisker = whisker.mark_rule(strokeWidth=1, opacity=opacity, aria=False)
            layers.append(whisker.encode(y=alt.Y(f"{field}_low:Q"), y2=f"{field}_high:Q", color=_colour(look)))
        marks = chart.transform_filter(f"isValid(datum.{field})").mark_point(filled=True, size=14, opacity=1)
        layers.append(marks.encode(y=y, color=_colour(look), shape=_shape(look), description="tell:N"))
        words = chart.transform_filter("isValid(datum.word)")
        words = words.transform_calculate(foot=f"{domain[0]} * pow({word_step}, datum.place + 0.15)")
        words = words.mark_text(fontSize=WORD_HEIGHT - 0.5, baseline="bottom", aria=False)
        own = alt.condition("datum.crowd", alt.value(INK), _colour(look))
        layers.append(words.encode(y=alt.Y("foot:Q"), text="word:N", color=own))
        return alt.layer(*layers)

    return panel_grid(data, "panel", panels, columns, panel)


def _told(value: Summary | None, field: str, ended: str) -> str:
    if value is None:
        return ended
    ends = f" ({si(value.low)} to {si(value.high)}, {WHISKERS[value.kind]} of {value.n} runs)" if value.n > 1 else ""
    return f"{si(value.median)} {_UNITS[field]}{ends}"


_UNITS = {"iterations_per_s": "iterations/s", "speedup": "times the baseline"}


def _reading(points: Sequence[Named], value_of: Callable[[Named], Summary | None]) -> str:
    """How points, whiskers and words of a scaling chart are read: only what it has."""
    values = [value for value in map(value_of, points) if value]
    fewest, most = min(value.n for value in values), max(value.n for value in values)
    runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    kinds = {value.kind for value in values if value.n > 1}
    drawn = {
        "interval": "whiskers: 95 % interval",
        "range": "light whiskers: range of the runs, too few for an interval",
    }
    parts = [f"Points: median of {runs} run{'s' * (most > 1)}", *(drawn[kind] for kind in drawn if kind in kinds)]
    return "; ".join(parts) + "." + _words_told(points)


def _words_told(points: Iterable[Named]) -> str:
    """What the words mean that stand for missing points."""
    used = dict.fromkeys(_WORDS[outcome(point)] for point in points if point.row.images_per_s is None)
    return f" Missing: {', '.join(f'{word}: {meaning}' for word, meaning in used)}." if used else ""


def _baselines(points: Iterable[Named]) -> str:
    """The baselines of the speed-ups, the plain one first."""
    return "; ".join(
        sorted({point.row.baseline for point in points if point.row.speedup}, key=lambda each: (len(each), each))
    )


# ---- limits ---------------------------------------------------------------------------------------------------------


def _limits(points: Sequence[Named], look: Look) -> Figure:
    """What the step of every point is spent on."""
    data = [bar for point in look.in_order(points) for bar in _bars(point)]
    parts = [part for part in PART_COLOURS if any(bar["part"] == part for bar in data)]
    colours = alt.Scale(domain=parts, range=[PART_COLOURS[part] for part in parts])
    counts = sorted({point.gpus for point in points})
    shares = [bar["share"] for bar in data if bar["share"] is not None]
    domain = [min(0.0, *shares), 1.12 * max(1.0, 1 - min(0.0, *shares))]
    names = list(dict.fromkeys(bar["panel"] for bar in data))
    longest = max(len(line) for name in names for line in name.split(", "))
    columns = max(1, min(4, len(names), int((COLUMN - 36) // (CHARACTER * longest + 2))))
    width = (COLUMN - 52 - 7 * (max(2, columns) - 1)) // max(2, columns)

    def panel(chart: alt.Chart, left: bool, last: bool) -> Any:
        axis = alt.Axis(labelAngle=0, labelOverlap=True, labels=last, ticks=last)
        x = alt.X("gpus:O", title="GPUs" if last else None, scale=alt.Scale(domain=counts, padding=0.12), axis=axis)
        chart = chart.properties(width=width, height=38).encode(x=x)
        bars = (
            chart.transform_filter("isValid(datum.share)")
            .transform_calculate(order=f"indexof({parts}, datum.part)")
            .mark_bar()
        )
        y = alt.Y(
            "share:Q",
            title=["share of", "the step"] if left else None,
            scale=alt.Scale(domain=domain, nice=False),
            axis=alt.Axis(format="%", values=[0, 0.5, 1], labels=left, ticks=left),
        )
        legend = legend_of(parts, symbolType="square")
        bars = bars.encode(
            y=y, color=alt.Color("part:N", scale=colours, legend=legend), order="order:Q", description="tell:N"
        )
        words = chart.transform_filter("isValid(datum.word)").mark_text(
            fontSize=WORD_HEIGHT - 1, align="left", angle=270, color=INK, dx=2, aria=False
        )
        return bars + words.encode(y=alt.YDatum(0), text="word:N")

    return Figure(
        name="limits",
        title=f"What limits the points: {_verdicts(points)}",
        caption="Shares of the time of a step, by what it gets shorter without its input or without exchanging "
        "gradients, and by the time in which no kernel runs; the rest is computing. Below zero: without that part the "
        f"step was no shorter.{_not_apart(points)}{_words_told(points)}",
        data=without(data, "panel", "word", "tell"),
        specification=panel_grid(data, "panel", names, columns, panel),
    )


def _bars(point: Named) -> Iterable[dict[str, Any]]:
    """A row for each part of a point's step, or the word that stands in their place."""
    row = {"workload": point.workload, "batch": point.batch, "variant": point.variant, "gpus": point.gpus}
    row |= {"panel": point.line_words}
    found = point.row.limits
    if found is None:
        yield {**row, "part": None, "share": None, "word": _word(point), "tell": None}
        return
    mixed = found.unknown.keys() - {"host"}
    for part in PARTS:
        if part in found.shares:
            name = "not told apart" if part == "compute" and mixed else part
            share = found.shares[part].median
            yield {**row, "part": name, "share": share, "word": None, "tell": f"{point.words}: {name} {share:.0%}"}


def _verdicts(points: Iterable[Named]) -> str:
    """How many points have each verdict, the most frequent first."""
    verdicts = Counter(point.row.limits.verdict or "open" for point in points if point.row.limits)
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())


def _not_apart(points: Iterable[Named]) -> str:
    found = [point.row.limits.unknown for point in points if point.row.limits]
    told = dict.fromkeys(f"{part} ({why})" for unknown in found for part, why in unknown.items())
    return f" Not measured apart, and so within the rest: {'; '.join(told)}." if told else ""


# ---- what all figures share -----------------------------------------------------------------------------------------


def _colour(look: Look) -> alt.Color:
    scale = alt.Scale(domain=look.workloads, range=look.colours)
    return alt.Color("workload:N", scale=scale, legend=legend_of(look.workloads))


def _shape(look: Look, legend: alt.Legend | None = None) -> alt.Shape:
    scale = alt.Scale(domain=look.workloads, range=look.shapes)
    return alt.Shape("workload:N", scale=scale, legend=legend or legend_of(look.workloads))


def _dash(look: Look) -> Any:
    if not look.dashed:
        return alt.value([1, 0])
    scale = alt.Scale(domain=look.variants, range=list(DASHES[: len(look.variants)]))
    legend = legend_of(look.variants, orient="top", symbolType="stroke", symbolSize=250, symbolStrokeColor=INK)
    return alt.StrokeDash("variant:N", scale=scale, legend=legend)


def _log_y(data: Iterable[dict[str, Any]], field: str, title: str, height: int) -> alt.Y:
    values = [row[field] for row in data]
    domain = [min(values) / 1.5, max(values) * 1.5]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    lines = [title] if CHARACTER * len(title) < height else _halves(title)
    return alt.Y(f"{field}:Q", title=lines, scale=scale, axis=si_axis(log_ticks(domain, 10), shown=True))


def _halves(title: str) -> list[str]:
    """A title on two lines, broken at the word nearest to its middle."""
    gaps = [place for place, character in enumerate(title) if character == " "]
    middle = min(gaps, key=lambda place: abs(place - len(title) / 2))
    return [title[:middle], title[middle + 1 :]]


def _span(data: Iterable[dict[str, Any]], field: str) -> str:
    """The least and the greatest value of a column, to three digits."""
    found = [row[field] for row in data]
    return " to ".join(dict.fromkeys([si(min(found)), si(max(found))]))


def _median(summary: Summary | None) -> float:
    assert summary is not None, "asked of a point that has no rate"
    return summary.median
