"""The figures of a comparison of systems: collectives and copies, rates against GPUs, and margins over intensity.

The forms are those of Tallent et al. 2017, Fig. 8 to 13. Where several libraries were predicted, each has figures of
rates of its own.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import msgspec
import numpy as np

from resnetx.record.comparisons import CollectivePoint, CopyPoint, Estimate, SystemComparison, SystemPoint
from resnetx.reporting.charts.benches import SIZE
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
from resnetx.table import Cell, Record, fields, table_of_records
from resnetx.units import how_many, size_text, with_interval


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
        **fields(point, "workload", "batch_size", "gpus", "variant", "library"),
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
        value, low, high = numbers_in([most], "margin", "margin_low", "margin_high")
        batch = f"{most['workload']}, batch {most['batch_size']}, {how_many(int(str(most['gpus'])), 'GPU')}"
        yield most, f"{batch}: \u00d7{with_interval(value, low, high)}"


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
                **fields(point, "workload", "batch_size", "gpus", "variant"),
                **fields(side, "library", "system"),
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


# ---- collectives and copies alone: bandwidth over size, by system and GPUs ------------------------------------------

ZOOM_BYTES = (0.5e6, 6e6)  # ResNet/x's gradients
MOST_BY_COLOUR = 4  # systems that colours tell apart in one panel
_PAPERS_FIGURES = {"allreduce": 10}  # of the others, 11


def collective_bandwidth(
    points: Sequence[CollectivePoint], name: str, measured: Sequence[CollectivePoint] = ()
) -> Figure:
    """Effective bandwidth over size, a panel for each library; of many systems, one for each of them."""
    caption = (
        "Effective bandwidth: the bytes that each GPU has, over the time. By the descriptions of the systems, not "
        f"calibrated. Form: Tallent et al. 2017, Fig. {_PAPERS_FIGURES.get(name, 11)} (there GiB/s)."
        f"{_BLACK * bool(measured)}"
    )
    return _bandwidths(name, f"{name.capitalize()} alone, by system and GPUs", caption, points, measured, SIZE)


def small_collectives(
    points: Sequence[CollectivePoint], name: str, measured: Sequence[CollectivePoint] = ()
) -> Iterator[Figure]:
    """The same, closely, of sizes as ResNet/x's gradients have; nothing where fewer than three are among them."""
    near = [point for point in points if ZOOM_BYTES[0] <= point.size_bytes <= ZOOM_BYTES[1]]
    if len({point.size_bytes for point in near}) > 2:
        beside = [point for point in measured if ZOOM_BYTES[0] <= point.size_bytes <= ZOOM_BYTES[1]]
        caption = f"The same, closely: sizes of ResNet/x's gradients.{_BLACK * bool(beside)}"
        sizes = Axis("size_bytes", "size", labels="MB", domain=ZOOM_BYTES)
        yield _bandwidths(f"{name}-small", f"{name.capitalize()} of 0.5 to 6 MB", caption, near, beside, sizes)


def _bandwidths(
    name: str,
    title: str,
    caption: str,
    points: Sequence[CollectivePoint],
    measured: Sequence[CollectivePoint],
    sizes: Axis,
) -> Figure:
    systems = list(dict.fromkeys(point.system for point in points))
    counts = [f"{count} GPUs" for count in sorted({point.gpus for point in points})]
    libraries = list(dict.fromkeys(point.library for point in points))
    beside = [
        (point, library) for point in measured if point.gpus in {each.gpus for each in points} for library in libraries
    ]
    rows = [_bandwidth_row(point, point.library, "predicted") for point in points]
    rows += [_bandwidth_row(point, library, "measured") for point, library in beside if point.system in systems]
    many = len(systems) > MOST_BY_COLOUR
    plot = Plot(
        x=sizes,
        y=Axis("algbw_GBps", "size / time, GB/s"),
        marks=(
            Mark("line", _PREDICTED),
            Mark("dots", _PREDICTED, look={"opacity": 0, "size": 60}),
            *measured_dots(systems),
        ),
        colour=Scale("gpus", system_looks(counts)) if many else Scale("system", system_looks(systems)),
        dash=Scale("library", dash_looks(libraries)) if many else Scale("gpus", dash_looks(counts)),
        panel="system" if many else "library",
        columns=3 if many else 2,
        height=95,
        chart_only=("description",),
    )
    return figure(name, title, caption, table_of_records(rows), plot)


_BLACK = " Diamonds: measured on what stands for them, hollow for all but the first."


def measured_dots(systems: Sequence[str]) -> list[Mark]:
    """What was measured on what stands for systems: black, and hollow for all but the first of them."""
    of_system = "datum.origin == 'measured' && datum.system == {!r}".format
    return [
        Mark("dots", of_system(name), colour=INK, look={"shape": "diamond", "filled": not place, "size": 26})
        for place, name in enumerate(systems)
    ]


def _bandwidth_row(point: CollectivePoint, library: str, origin: str) -> Record:
    gpus, rate = f"{point.gpus} GPUs", point.algbw_Bps / 1e9
    return {
        "system": point.system,
        "library": library,
        "collective": point.collective,
        "gpus": gpus,
        "size_bytes": point.size_bytes,
        "time_s": point.time_s,
        "algbw_GBps": rate,
        "origin": origin,
        "description": f"{size_text(point.size_bytes)} on {gpus}, {point.system}, {origin}: {rate:.3g} GB/s",
    }


def copies_over_size(
    points: Sequence[CopyPoint],
    measured: Sequence[CopyPoint] = (),
    of: str = "Copies from GPU 0, and from the host",
    after: str = "By the descriptions of the systems. Form: Tallent et al. 2017, Fig. {}.",
) -> list[Figure]:
    """Copies to single GPUs: rate and time over size, a line for each pair."""
    if not points:
        return []
    systems = list(dict.fromkeys(point.system for point in points))
    pairs = {_pair(point) for point in points}
    lines = _lines_of(points)
    rows = [_copy_row(point, "predicted", name) for name, own in lines.items() for point in own]
    rows += [_copy_row(point, "between", name) for name, own in lines.items() for point in _between(own)]
    rows += [_copy_row(point, "measured") for point in measured if _pair(point) in pairs]
    black = _BLACK * any(_pair(point) in pairs for point in measured)
    drawn = [
        ("copies", f"{of}: bandwidth", Axis("GBps", "GB/s"), after.format(8)),
        ("copy-times", f"{of}: time", Axis("time_ms", "ms", "log"), after.format(9)),
    ]
    return [
        figure(
            name,
            title,
            f"{_line_ends(lines)} {caption}{black}",
            table_of_records(rows),
            Plot(
                x=SIZE,
                y=y,
                marks=(
                    Mark("line", "datum.origin != 'measured'"),
                    Mark("dots", _PREDICTED),
                    *measured_dots(systems),
                ),
                colour=Scale("system", system_looks(systems)),
                detail=("pair",),
                chart_only=("description",),
            ),
        )
        for name, title, y, caption in drawn
    ]


def _lines_of(points: Sequence[CopyPoint]) -> dict[str, list[CopyPoint]]:
    """The pairs of each system, those of one curve as one line, with all their names."""
    curves: dict[str, list[CopyPoint]] = {}
    for point in sorted(points, key=lambda point: point.size_bytes):
        curves.setdefault(_pair(point), []).append(point)
    alike: dict[tuple[object, ...], list[str]] = {}
    for pair, own in curves.items():
        key = (own[0].system, *((point.size_bytes, f"{point.time_s:.6g}") for point in own))
        alike.setdefault(key, []).append(pair)
    return {
        ", ".join([pairs[0], *(pair.removeprefix(f"{key[0]} ") for pair in pairs[1:])]): curves[pairs[0]]
        for key, pairs in alike.items()
    }


def _between(own: Sequence[CopyPoint]) -> Iterator[CopyPoint]:
    """Sizes between those of a pair, whose times lie on the straight line between theirs."""
    sizes, times_s = [point.size_bytes for point in own], [point.time_s for point in own]
    for exponent in range(math.ceil(math.log2(sizes[0])), math.floor(math.log2(sizes[-1])) + 1):
        if 2**exponent in sizes:
            continue
        time_s = float(np.interp(2**exponent, sizes, times_s))
        yield msgspec.structs.replace(own[0], size_bytes=2**exponent, time_s=time_s)


def _pair(point: CopyPoint) -> str:
    way = ["host" if point.source is None else point.source, point.through, point.target]
    return f"{point.system} {'-'.join(str(place) for place in way if place is not None)}"


def _copy_row(point: CopyPoint, origin: str, line: str = "") -> Record:
    rate, time_ms, name = point.size_bytes / point.time_s / 1e9, point.time_s * 1e3, line or _pair(point)
    return {
        "system": point.system,
        "pair": name,
        "size_bytes": point.size_bytes,
        "GBps": rate,
        "time_ms": time_ms,
        "origin": origin,
        "description": f"{name}, {size_text(point.size_bytes)}, {origin}: {rate:.3g} GB/s, {time_ms:.4g} ms",
    }


MOST_SAID = 8  # lines whose ends a caption says


def _line_ends(lines: Mapping[str, Sequence[CopyPoint]]) -> str:
    """What each line reaches at its end, in words, where they are few."""
    ends = sorted(((own[-1].size_bytes / own[-1].time_s / 1e9, name) for name, own in lines.items()), reverse=True)
    sizes = {own[-1].size_bytes for own in lines.values()}
    if len(ends) > MOST_SAID or len(sizes) > 1:
        return "A line for each pair; pointed at, it says which."
    said = "; ".join(f"{name} {rate:.3g} GB/s" for rate, name in ends)
    return f"At {size_text(sizes.pop())}: {said}."
