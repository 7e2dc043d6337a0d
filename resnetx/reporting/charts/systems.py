"""The figures of a comparison of systems: collectives, rates against GPUs, and margins over intensity.

The forms are those of Tallent et al. 2017, Fig. 10 to 13. Where several libraries were predicted, each has figures of
rates of its own.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from resnetx.record.comparisons import CollectivePoint, CopyPoint, Estimate, SystemComparison, SystemPoint
from resnetx.reporting.charts.benches import collective_bandwidth, copies_over_size, measured_dots, small_collectives
from resnetx.reporting.charts.figure import FAMILIES, INK, PAPER, Figure, domain_with_foot
from resnetx.reporting.charts.grammar import (
    Axis,
    Mark,
    Plot,
    Scale,
    dash_looks,
    factors,
    figure,
    line_looks,
    names_in,
    numbers_in,
    shape_looks,
    solid_and_hollow,
    solid_and_hollow_words,
    system_looks,
)
from resnetx.reporting.compared_systems import lead, over
from resnetx.reporting.csv_tables import estimate_cells
from resnetx.table import Cell, Record, table_of_records
from resnetx.units import how_many, to_interval


@dataclass(frozen=True)
class MeasuredRate:
    """A case on a machine that stands for a system, which is drawn beside what is predicted of it."""

    system: str
    workload: str
    batch_size: int
    gpus: int
    iterations_per_s: Estimate
    runs: int


Measured = tuple[Sequence[CollectivePoint], Sequence[CopyPoint]]  # beside what is predicted


def system_figures(
    comparison: SystemComparison, rates: Sequence[MeasuredRate] = (), messages: Measured = ((), ())
) -> list[Figure]:
    """Every figure that a comparison of systems has something to show in; measured beside predicted, where given."""
    collectives = dict.fromkeys(point.collective for point in comparison.collectives)
    figures = [found for name in collectives for found in _of_collective(comparison.collectives, messages[0], name)]
    figures += copies_over_size(comparison.copies, messages[1])
    figures += _rates(comparison, rates)
    points = [*comparison.points, *comparison.job]
    if sum(_margin_row(point, *comparison.systems[:2]) is not None for point in points) > 1:  # one is a sentence
        figures.append(margins_over_intensity(points, *comparison.systems[:2]))
    return figures


def _of_collective(points: Sequence[CollectivePoint], measured: Sequence[CollectivePoint], name: str) -> list[Figure]:
    of_name = [point for point in points if point.collective == name]
    beside = [point for point in measured if point.collective == name]
    return [collective_bandwidth(of_name, name, beside), *small_collectives(of_name, name, beside)]


def _rates(comparison: SystemComparison, measured: Sequence[MeasuredRate]) -> Iterator[Figure]:
    """Of each library and variant: single workloads with a panel each, and the family with one for each batch."""
    grids = list(dict.fromkeys((point.library, point.variant) for point in comparison.points))
    for grid in grids:
        points = [point for point in comparison.points if (point.library, point.variant) == grid]
        label = ", ".join(filter(None, grid))
        word = re.sub(r"[^\w.]+", "-", label).strip("-")  # as files are called
        suffix = f"-{word}" if len(grids) > 1 else ""
        with_label = f" with {label}" if label else ""
        family = [point for point in points if point.workload.startswith("ResNet/")]
        single = [point for point in points if not point.workload.startswith("ResNet/")]
        if _any_rate(single):
            curves = Curves(f"rate{suffix}", f"Predicted rates{with_label}", 12, by_workload=True)
            yield rates_against_gpus(single, comparison.systems, curves, measured)
        if _any_rate(family):
            curves = Curves(f"rate-resnetx{suffix}", f"Predicted rates of ResNet/x{with_label}", 13, by_workload=False)
            yield rates_against_gpus(family, comparison.systems, curves, measured)


def _any_rate(points: Sequence[SystemPoint]) -> bool:
    """Whether there is more to show than one case."""
    return len(points) > 1 and any(side.iterations_per_s for point in points for side in point.sides)


# The figure of who leads: the margin of one system over another at each point, over intensity.

INTENSITY = "activations_per_parameter_per_gpu"


def margins_over_intensity(points: Sequence[SystemPoint], a: str, b: str) -> Figure:
    """The margin of system `a` over system `b`; points on one GPU send nothing and are left out."""
    rows = [row for point in points if (row := _margin_row(point, a, b))]
    gpus = sorted({int(str(row["gpus"])) for row in rows})
    ends, intensities = numbers_in(rows, "margin_low", "margin_high"), numbers_in(rows, INTENSITY)
    middle = math.sqrt(min(intensities) * max(intensities))
    colours = dict(zip(names_in(rows, "family"), cycle(FAMILIES), strict=False))
    labels = {
        id(row): words for panel in dict.fromkeys(row["panel"] for row in rows) for row, words in _labels(rows, panel)
    }
    for row, intensity in zip(rows, intensities, strict=True):
        row |= {
            "label": labels.get(id(row)),
            "side": "left" if intensity < middle else "right",
            "fill": PAPER if row["lead"] in ("open", "level") else colours[str(row["family"])],
        }
    bold = {"fontWeight": "bold", "dy": -10}
    plot = Plot(
        x=Axis(
            INTENSITY, "activations per parameter on each GPU", "log", "si",
            domain=(min(intensities) / 1.5, max(intensities) * 1.5),
        ),
        y=factors("margin", f"{a} over {b}", ends),
        marks=(
            Mark("rule", column="1"),
            Mark("whiskers", look={"opacity": 0.35}),
            Mark("dots"),
            *(
                Mark("words", f"isValid(datum.label) && datum.side == '{side}'", "label", by_scale=True, on_pages=True,
                     look={**bold, "align": side, "dx": 6 if side == "left" else -6})
                for side in ("left", "right")
            ),
        ),
        colour=Scale("family", colours),
        fill=Scale("fill", {}),
        size=Scale("gpus", {count: 9 + 30 * place / max(1, len(gpus) - 1) for place, count in enumerate(gpus)}, "GPUs"),
        panel="panel",
        height=130,
        chart_only=("panel", "family", "description", "label", "side", "fill"),
    )  # fmt: skip
    largest = "; ".join(dict.fromkeys(labels.values()))
    return figure(
        "lead",
        f"{a} over {b}, by work over communication",
        "How many times as fast, over intensity; whiskers: the interval. Hollow: it holds no difference, or there is "
        f"less than half a percent. Largest of each family: {largest or 'no difference is shown'}. Points on one GPU "
        "send nothing and are left out.",
        table_of_records(rows),
        plot,
    )


def _margin_row(point: SystemPoint, a: str, b: str) -> Record | None:
    margin = over(point, a, b)
    if margin is None or not point.intensity_per_gpu or point.gpus == 1:
        return None
    kind = lead(margin) if lead(margin) != "ahead" else f"{a if margin.value > 1 else b} ahead"
    said = kind if kind.endswith("ahead") else "no difference shown"
    return {
        "workload": point.workload,
        "batch_size": point.batch_size,
        "gpus": point.gpus,
        "variant": point.variant,
        "library": point.library,
        INTENSITY: point.intensity_per_gpu,
        **estimate_cells("margin", margin),
        "lead": kind,
        "panel": ", ".join(filter(None, [point.library, point.variant])),
        "family": f"{point.workload.partition('/')[0]}/x" if "/" in point.workload else point.workload,
        "description": f"{point_words(point)}: \u00d7{margin.value:.4g} ({margin.low:.4g} to {margin.high:.4g}), "
        f"{said}",
    }


def _labels(rows: Sequence[Record], panel: Cell) -> Iterator[tuple[Record, str]]:
    """Of each family in a panel its largest difference that is shown."""
    shown = [row for row in rows if row["panel"] == panel and row["lead"] not in ("open", "level")]
    for family in dict.fromkeys(row["family"] for row in shown):
        own = [row for row in shown if row["family"] == family]
        most = max(own, key=lambda row: abs(math.log(float(row["margin"] or 1))))
        value, low, high = to_interval(*numbers_in([most], "margin", "margin_low", "margin_high"))
        batch = f"{most['workload']}, batch {most['batch_size']}, {how_many(int(str(most['gpus'])), 'GPU')}"
        yield most, f"{batch}: \u00d7{value} ({low} to {high})"


# ---- system rates ---------------------------------------------------------------------------------------------------
# Rates against GPUs, systems side by side: of single workloads, and of the ResNet/x family; predicted, and measured
# where machines stand for the systems.
#
# The forms are those of Tallent et al. 2017, Fig. 12 and 13. A line has a gap where a point does not fit in memory, and
# a word at the foot of the panel says so.

HEIGHT = 110


@dataclass(frozen=True)
class Curves:
    """What one figure has: its name and title, the paper's figure, and what its panels are."""

    name: str
    title: str
    papers_figure: int
    by_workload: bool  # panels are workloads and lines batches; else the other way round

    def panel(self, point: SystemPoint) -> str:
        return point.workload if self.by_workload else batch_words(point)

    def line(self, point: SystemPoint) -> str:
        return batch_words(point) if self.by_workload else point.workload


_OF_CHART = ("panel", "line", "word", "foot", "description")


def rates_against_gpus(
    points: Sequence[SystemPoint], systems: Sequence[str], curves: Curves, measured: Sequence[MeasuredRate] = ()
) -> Figure:
    """Iterations/s against GPUs; measured ones in black at the same place."""
    points = sorted(points, key=lambda point: point.batch_size)
    rows = [row for point in points for row in _rows(point, points, curves, measured)]
    known = [row for row in rows if row["iterations_per_s"] is not None]
    ends = numbers_in(known, "iterations_per_s_low", "iterations_per_s_high")
    missing = [row for row in rows if row["word"]]
    depth = max((int(row["foot"] or 0) + 1 for row in missing), default=0)
    domain, step = domain_with_foot(ends, depth, HEIGHT)
    for row in missing:
        row["foot"] = domain[0] * step ** (float(row["foot"] or 0) + 0.15)
    lines = names_in(rows, "line")
    by_system, by_line = Scale("system", system_looks(systems)), Scale("line", line_looks(lines))
    beside = any(row["origin"] == "measured" for row in rows)
    plot = Plot(
        x=Axis("gpus", "GPUs", "log2", ticks=sorted({point.gpus for point in points})),
        y=Axis("iterations_per_s", "iterations/s", "log", "si", domain=(domain[0], domain[1])),
        marks=(
            Mark("line", _PREDICTED),
            Mark("whiskers", _PREDICTED),
            *solid_and_hollow("system", systems, _PREDICTED),
            Mark("whiskers", _MEASURED, colour=INK),
            *measured_dots(systems),
            Mark(
                "words",
                "isValid(datum.word)",
                "word",
                look={"align": "left", "dx": -7, "baseline": "bottom"},
                at="foot",
            ),
        ),
        colour=by_system if curves.by_workload else by_line,
        dash=Scale("line", dash_looks(lines)) if curves.by_workload else Scale("system", dash_looks(systems)),
        shape=Scale("system", shape_looks(systems)) if len(systems) > 2 else None,
        detail=("line", "system"),
        aside=("system",),
        panel="panel",
        columns=min(3, len({row["panel"] for row in rows})),
        height=HEIGHT,
        chart_only=_OF_CHART,
    )
    caption = f"Whiskers: prediction interval. Form: Tallent et al. 2017, Fig. {curves.papers_figure}.{_meanings(rows)}"
    caption += solid_and_hollow_words(systems) + f" {_held(rows)}" * beside
    return figure(curves.name, curves.title, caption, table_of_records(rows), plot)


_PREDICTED = "datum.origin == 'predicted'"
_MEASURED = "datum.origin == 'measured'"


# ---- data -----------------------------------------------------------------------------------------------------------


def _rows(
    point: SystemPoint,
    points: Sequence[SystemPoint],
    curves: Curves,
    measured: Sequence[MeasuredRate],
) -> Iterator[Record]:
    """A row for each system, and for what is measured; the first one has the word that says which cannot run it."""
    word = _missing_word(point, curves)
    panel = curves.panel(point)
    missing = [other for other in points if (curves.panel(other), other.gpus) == (panel, point.gpus) and _unable(other)]
    for index, side in enumerate(point.sides):
        case = (side.system, point.workload, point.batch_size, point.gpus)
        of_case = [each for each in measured if (each.system, each.workload, each.batch_size, each.gpus) == case]
        beside = [(each.iterations_per_s, f"measured in {each.runs} run{'s' * (each.runs != 1)}") for each in of_case]
        for rate, how in [(side.iterations_per_s, "predicted"), *beside]:
            told = word if index == 0 and how == "predicted" else None
            yield {
                "workload": point.workload,
                "batch_size": point.batch_size,
                "gpus": point.gpus,
                "variant": point.variant,
                "library": side.library,
                "system": side.system,
                "origin": how.partition(" ")[0],
                **estimate_cells("iterations_per_s", rate),
                "outcome": side.outcome if how == "predicted" else "ok",
                "panel": panel,
                "line": curves.line(point),
                "word": told,
                "foot": missing.index(point) if told else None,
                "description": f"{point_words(point)}, {side.system}, {how}: {_in_words(rate)}" if rate else None,
            }


def _in_words(rate: Estimate) -> str:
    ends = f" ({rate.low:.4g} to {rate.high:.4g})" * (rate.low < rate.high)
    return f"{rate.value:.4g} iterations/s{ends}"


def _unable(point: SystemPoint) -> list[str]:
    """The systems that cannot run a point."""
    return [side.system for side in point.sides if side.iterations_per_s is None]


def _missing_word(point: SystemPoint, curves: Curves) -> str | None:
    """At the foot of a panel "no 256", where a point cannot run; with the systems, where others can run it."""
    unable = _unable(point)
    if not unable:
        return None
    line = curves.line(point).replace("ResNet", "").removeprefix("batch ")
    systems = f" {', '.join(unable)}" if len(unable) < len(point.sides) else ""
    return f"no {line}{systems}"


def _meanings(rows: Sequence[Record]) -> str:
    """What the words at the foot mean, where there are any."""
    outcomes = sorted({str(row["outcome"]) for row in rows if row["iterations_per_s"] is None})
    meanings = {"oom": "need more memory than a GPU has", "refused": "were refused"}
    return f" Missing (no ...): points that {' or '.join(map(meanings.__getitem__, outcomes))}." if outcomes else ""


def _held(rows: Sequence[Record]) -> str:
    """How many measurements lie in the interval of what is predicted of the same."""
    predicted = {_case(row): row for row in rows if row["origin"] == "predicted" and row["iterations_per_s"]}
    measured = [row for row in rows if row["origin"] == "measured" and _case(row) in predicted]
    inside = sum(
        float(predicted[_case(row)]["iterations_per_s_low"] or 0)
        <= float(row["iterations_per_s"] or 0)
        <= float(predicted[_case(row)]["iterations_per_s_high"] or 0)
        for row in measured
    )
    held = f"{inside} of {len(measured)} lie in the predicted interval"
    return f"Diamonds: measured, hollow for all but the first system; {held}."


def _case(row: Record) -> tuple[object, ...]:
    return tuple(row[column] for column in ("workload", "batch_size", "gpus", "system"))


def batch_words(point: SystemPoint) -> str:
    return f"batch {point.batch_size}"


def point_words(point: SystemPoint) -> str:
    return ", ".join(filter(None, [point.workload, batch_words(point), point.variant, how_many(point.gpus, "GPU")]))
