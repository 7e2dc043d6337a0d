"""Rates against GPUs, systems side by side: of single workloads, and of the ResNet/x family; predicted, and measured
where machines stand for the systems.

The forms are those of Tallent et al. 2017, Fig. 12 and 13. A line has a gap where a point does not fit in memory, and a
word at the foot of the panel says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from resnetx.record.machine import how_many
from resnetx.record.system_comparison import Estimate, SystemPoint
from resnetx.reporting.charts.figure import (
    DASHES,
    INK,
    SYSTEMS,
    Figure,
    domain_with_foot,
    family_colours,
)
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure
from resnetx.table import Record, Table
from resnetx.units import si, to_interval

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
