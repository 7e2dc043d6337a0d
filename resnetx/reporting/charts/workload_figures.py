"""Figures of workloads that are counted, not run: after Tallent et al. 2017, Fig. 4 to 7.

Activations of an image and parameters by workload (Fig. 4), work and work over communication by batch category (Fig. 5
and 6), and activations per parameter on each GPU over GPUs (Fig. 7). One colour and shape for each workload.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from resnetx.record import Workload
from resnetx.record.comparisons import Estimate, SystemPoint
from resnetx.record.machine import how_many
from resnetx.reporting.charts.figure import (
    DASHES,
    INK,
    SYSTEMS,
    Figure,
    domain_with_foot,
    family_colours,
    workload_colours,
)
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, shape_looks, table_of_records
from resnetx.reporting.charts.studies import span
from resnetx.table import Record, Table
from resnetx.units import si, to_interval

_AFTER = "After Tallent et al. 2017, Fig. {}. Counted by the {} convention."
_ON_EACH = "activations_per_parameter_per_gpu"


class PlacedWorkload(Protocol):
    """A workload with a batch on some GPUs: a member of a family, or ("") the user's own."""

    @property
    def family(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def model(self) -> dict[str, Any]: ...
    @property
    def convention(self) -> str: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def flop_per_byte(self) -> float: ...
    @property
    def on_each(self) -> float: ...


def counted_figures(workloads: Sequence[Workload], gpus: Sequence[int]) -> list[Figure]:
    """The figures of workloads; those that a batch has no place in on a log axis are left out.

    So is a figure along whose axis there is one value.
    """
    counted = [workload for workload in workloads if workload.activations_per_batch > 0 and workload.parameters > 0]
    if not counted:
        return []
    batches: dict[str, list[int]] = {}
    for workload in counted:
        batches.setdefault(workload.workload, []).append(workload.batch_size)
    names = sorted(batches, key=lambda name: ("/" not in name, _numbers(name), name))
    counted.sort(key=lambda workload: names.index(workload.workload))
    rows = [
        _row(workload, count, sorted(set(batches[workload.workload])).index(workload.batch_size) + 1)
        for workload in counted
        for count in gpus
    ]
    by_batch = [row for row in rows if row["gpus"] == gpus[0]]
    first = list({str(row["workload"]): row for row in by_batch}.values())
    convention = counted[0].convention
    faint, dots = Mark("line", look={"strokeWidth": 0.75, "opacity": 0.6}), Mark("dots", look={"size": 22})

    def log(column: str) -> Axis:
        return Axis(column, column.replace("_", " ").replace("gpu", "GPU"), "log", "si")

    def plot(x: Axis, first: str, *others: str, marks: Sequence[Mark] = (faint, dots), height: float = 130) -> Plot:
        return Plot(
            x=x,
            y=log(first),
            beside=[log(column) for column in others],
            marks=marks,
            colour=Scale("workload", workload_colours(names)),
            shape=Scale("workload", shape_looks(names)),
            detail=() if others else ("batch_size",),
            height=height,
            chart_only=("description",),
        )

    categories = sorted({int(str(row["batch_category"])) for row in rows})
    counts = plot(Axis("workload", "", "names", order=names), "activations_per_image", "parameters", marks=[dots])
    across = Axis("batch_category", "batch category", "steps", order=categories)
    intensity = plot(across, "activations_per_batch", "activations_per_parameter")
    located = plot(Axis("gpus", "GPUs", "log2", ticks=sorted(set(gpus))), _ON_EACH, height=170)
    of_batches = span(float(row["activations_per_parameter"] or 0) for row in by_batch)
    of_points = span(float(row[_ON_EACH] or 0) for row in rows)
    figures = [
        ("counts", "The workloads: what an image takes, and what is exchanged", _AFTER.format("4", convention), first,
         counts),
        ("intensity", f"The workloads: {of_batches} activations per parameter", "By batch category: 1 is the smallest "
         "batch of a workload. " + _AFTER.format("5 and 6", convention), by_batch, intensity),
        ("located", f"The workloads on GPUs: {of_points} activations per parameter on each", "One line for each batch, "
         "which is split over the GPUs. " + _AFTER.format("7", convention), rows, located),
    ]  # fmt: skip
    return [
        figure(name, title, caption, table_of_records(shown), plot)
        for name, title, caption, shown, plot in figures
        if len({row[plot.x.column] for row in shown}) > 1
    ]


def _numbers(name: str) -> list[int]:
    """Those of a member of a family, x first: "GPT/12 width 192"."""
    return [int(number) for number in re.findall(r"\d+", name.partition("/")[2])]


def _row(workload: Workload, gpus: int, category: int) -> Record:
    """A workload with a batch, on a number of GPUs; its category is 1 where it is the smallest batch."""
    on_each = workload.intensity / gpus
    return {
        "workload": workload.workload,
        "batch_size": workload.batch_size,
        "batch_category": category,
        "gpus": gpus,
        "activations_per_image": workload.activations_per_image,
        "parameters": workload.parameters,
        "activations_per_batch": workload.activations_per_batch,
        "activations_per_parameter": workload.intensity,
        _ON_EACH: on_each,
        "description": f"{workload.workload}, batch {workload.batch_size}: {si(workload.activations_per_image)} "
        f"activations of an image, {si(workload.parameters)} parameters; {si(workload.intensity)} activations per "
        f"parameter, {si(on_each)} on each of {gpus} GPUs",
    }


def intensity_map(members: Sequence[PlacedWorkload], found: Sequence[PlacedWorkload], target: float) -> Figure:
    """Members of all families by both measures of work for communication, and the ones that were found among them."""
    rows = [_placed(member, "members") for member in members]
    rows += [_placed(workload, "nearest" if workload.family else "yours") for workload in found]
    plot = Plot(
        x=Axis("flop_per_byte", "training FLOP per byte of gradients, on each GPU", "log", "si"),
        y=Axis(_ON_EACH, "activations per parameter per GPU", "log", "si"),
        marks=(
            Mark("line", _MEMBERS, look={"strokeWidth": 0.6, "opacity": 0.5}),
            Mark("dots", _MEMBERS, look={"size": 10, "opacity": 0.6}),
            Mark("dots", "datum.place == 'nearest'", look={"size": 60, "shape": "diamond"}),
            Mark("dots", "datum.place == 'yours'", look={"size": 90, "shape": "triangle-up"}),
        ),
        colour=Scale("family", system_looks(sorted({str(row["family"]) for row in rows}))),
        detail=("width",),
        height=190,
        chart_only=("description",),
    )
    return figure(
        "map",
        f"Families in intensity space, and what comes nearest to {target:,.4g}",
        "Lines: a width of a family by its batch. Diamonds: the nearest settings. Triangle: your own job. "
        + _AFTER.format("6 and 7", found[0].convention),
        table_of_records(rows),
        plot,
    )


_MEMBERS = "datum.place == 'members'"


def _placed(workload: PlacedWorkload, place: str) -> Record:
    """The same as a row of the map: one of its "members", the "nearest", or "yours"."""
    return {
        "family": workload.family or workload.workload,
        "workload": workload.workload,
        "width": int(workload.model.get("width", 0)),
        "batch_size": workload.batch_size,
        "place": place,
        "flop_per_byte": workload.flop_per_byte,
        _ON_EACH: workload.on_each,
        "description": f"{workload.workload}, batch {workload.batch_size}: {si(workload.on_each)} activations per "
        f"parameter and {si(workload.flop_per_byte)} FLOP per byte on each GPU",
    }


# ---- system rates ---------------------------------------------------------------------------------------------------
# Rates against GPUs, systems side by side: of single workloads, and of the ResNet/x family; predicted, and measured
# where machines stand for the systems.
#
# The forms are those of Tallent et al. 2017, Fig. 12 and 13. A line has a gap where a point does not fit in memory, and
# a word at the foot of the panel says so.

OFFSET = 1.06  # factor between the systems' marks along the axis of GPUs, so that their whiskers can be told apart
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


@dataclass(frozen=True)
class MeasuredRate:
    """A case on a machine that stands for a system, which is drawn beside what is predicted of it."""

    system: str
    workload: str
    batch_size: int
    gpus: int
    iterations_per_s: Estimate
    runs: int


_COLUMNS = [
    "workload", "batch_size", "gpus", "variant", "library", "system", "origin", "iterations_per_s",
    "iterations_per_s_low", "iterations_per_s_high", "outcome", "panel", "line", "at", "word", "foot", "description",
]  # fmt: skip
_OF_CHART = ("panel", "line", "at", "word", "foot", "description")


def rates_against_gpus(
    points: Sequence[SystemPoint], systems: Sequence[str], curves: Curves, measured: Sequence[MeasuredRate] = ()
) -> Figure:
    """Iterations/s against GPUs; measured ones in black at the same place."""
    points = sorted(points, key=lambda point: point.batch_size)
    rows = [row for point in points for row in _rows(point, points, systems, curves, measured)]
    known = [row for row in rows if row["iterations_per_s"] is not None]
    ends = [float(row[end] or 0) for row in known for end in ("iterations_per_s_low", "iterations_per_s_high")]
    missing = [row for row in rows if row["word"]]
    depth = max((int(row["foot"] or 0) + 1 for row in missing), default=0)
    domain, step = domain_with_foot(ends, depth, HEIGHT)
    for row in missing:
        row["foot"] = domain[0] * step ** (float(row["foot"] or 0) + 0.15)
    lines = list(dict.fromkeys(str(row["line"]) for row in rows))
    by_system, by_line = Scale("system", system_looks(systems)), Scale("line", line_looks(lines))
    beside = any(row["origin"] == "measured" for row in rows)
    plot = Plot(
        x=Axis("at", "GPUs", "log2", ticks=sorted({point.gpus for point in points})),
        y=Axis("iterations_per_s", "iterations/s", "log", "si", domain=(domain[0], domain[1])),
        marks=(
            Mark("line", _PREDICTED),
            Mark("whiskers", _PREDICTED),
            Mark("dots", _PREDICTED),
            Mark("whiskers", _MEASURED, colour=INK),
            Mark("dots", _MEASURED, colour=INK, look={"shape": "diamond"}),
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
        detail=("line", "system"),
        panel="panel",
        columns=min(3, len({row["panel"] for row in rows})),
        height=HEIGHT,
        chart_only=_OF_CHART,
    )
    caption = f"Whiskers: prediction interval. After Tallent et al. 2017, Fig. {curves.papers_figure}.{_meanings(rows)}"
    caption += f" {_held(rows)}" * beside
    table = Table(_COLUMNS, [[row[column] for column in _COLUMNS] for row in rows])
    return figure(curves.name, curves.title, caption, table, plot)


_PREDICTED = "datum.origin == 'predicted'"
_MEASURED = "datum.origin == 'measured'"


# ---- data -----------------------------------------------------------------------------------------------------------


def _rows(
    point: SystemPoint,
    points: Sequence[SystemPoint],
    systems: Sequence[str],
    curves: Curves,
    measured: Sequence[MeasuredRate],
) -> Iterator[Record]:
    """A row for each system, and for what is measured; the first one has the word that says which cannot run it."""
    word = _missing_word(point, curves)
    panel = curves.panel(point)
    missing = [other for other in points if (curves.panel(other), other.gpus) == (panel, point.gpus) and _unable(other)]
    case: Record = {
        "workload": point.workload, "batch_size": point.batch_size, "gpus": point.gpus, "variant": point.variant,
        "panel": panel, "line": curves.line(point), "word": None, "foot": None,
    }  # fmt: skip
    for index, side in enumerate(point.sides):
        rate = side.iterations_per_s
        beside = systems.index(side.system) - (len(systems) - 1) / 2
        of_system = {**case, "library": side.library, "system": side.system, "at": point.gpus * OFFSET**beside}
        words = f"{point_words(point)}, {side.system}, predicted: {_in_words(rate)}" if rate else None
        own: Record = {"word": word, "foot": missing.index(point)} if word and index == 0 else {}
        yield {**of_system, "origin": "predicted", **_ends(rate), "outcome": side.outcome, "description": words, **own}
        for each in measured:
            if (each.system, each.workload, each.batch_size, each.gpus) == (
                side.system, point.workload, point.batch_size, point.gpus
            ):  # fmt: skip
                runs = f"{each.runs} run{'s' * (each.runs != 1)}"
                words = f"{point_words(point)}, {side.system}, measured in {runs}: {_in_words(each.iterations_per_s)}"
                yield {
                    **of_system,
                    "origin": "measured",
                    **_ends(each.iterations_per_s),
                    "outcome": "ok",
                    "description": words,
                }


def _ends(rate: Estimate | None) -> Record:
    low, value, high = (rate.low, rate.value, rate.high) if rate else (None, None, None)
    return {"iterations_per_s": value, "iterations_per_s_low": low, "iterations_per_s_high": high}


def _in_words(rate: Estimate) -> str:
    if not rate.low < rate.high:
        return f"{si(rate.value)} iterations/s"
    value, low, high = to_interval(rate.value, rate.low, rate.high)
    return f"{value} iterations/s ({low} to {high})"


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
    return f"Black: measured; {inside} of {len(measured)} lie in the predicted interval."


def _case(row: Record) -> tuple[object, ...]:
    return tuple(row[column] for column in ("workload", "batch_size", "gpus", "system"))


# How the figures of predictions encode systems, and what else lines differ in: by colour and dash.


def system_looks(systems: Sequence[str]) -> dict[str, str]:
    return {name: SYSTEMS[index % len(SYSTEMS)] for index, name in enumerate(systems)}


def line_looks(lines: Sequence[str]) -> dict[str, str]:
    return dict(zip(lines, family_colours(len(lines)), strict=True))


def dash_looks(names: Sequence[str]) -> dict[str, list[float]]:
    return {name: list(DASHES[index % len(DASHES)]) for index, name in enumerate(names)}


def batch_words(point: SystemPoint) -> str:
    return f"batch {point.batch_size}"


def point_words(point: SystemPoint) -> str:
    return ", ".join(filter(None, [point.workload, batch_words(point), point.variant, how_many(point.gpus, "GPU")]))
