"""What a person sees of predictions, and the files that they are kept in."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.cli import show
from resnetx.record import chrome
from resnetx.record.prediction import PredictedPoint, Prediction, prediction_file
from resnetx.units import si

if TYPE_CHECKING:
    from resnetx.predict.validation import Row, Summary

THINGS = 3  # of which the same is said, by name; the record has all


def store(made: Prediction, folder: Path) -> None:
    """Writes the record; and its timelines, if it has any, as figures and for chrome://tracing and Perfetto."""
    show.store(folder, prediction_file(folder), made)
    drawn = [point for point in made.points if point.timeline]
    if not drawn:
        return
    from resnetx.report import figure_files, timeline_charts

    named = {f"{place + 1}. {_name(point)}": point.timeline for place, point in enumerate(drawn)}
    (folder / "timeline.json").write_bytes(chrome.encode(named))
    show.err.print(f"timeline: {folder / 'timeline.json'} (chrome://tracing, Perfetto)", soft_wrap=True)
    for figure in timeline_charts.timelines(drawn):
        figure_files.write_figure(figure, figure_files.drawn(figure), folder)
        show.err.print(f"figure: {folder / figure.name}.svg", soft_wrap=True)


def _name(point: PredictedPoint) -> str:
    gpus = f"{point.gpus} GPU{'s' * (point.gpus > 1)}"
    return f"{point.workload}, batch {point.batch_size}, {point.strategy}, {gpus} of {point.system}, {point.library}"


def prediction(made: Prediction) -> None:
    """One table for each system and library, then what went in and where such predictions were checked."""
    for (system, library), points in groupby(made.points, lambda point: (point.system, point.library)):
        _points(f"Predicted: {system} with {library}", list(points))
        show.out.print()
    _sensitivity(made.points)
    sources(made)


def _points(title: str, points: Sequence[PredictedPoint]) -> None:
    columns = [
        "workload", ">batch", "strategy", ">GPUs", ">iteration ms", ">from", ">to", f">{_rate_unit(points)}",
        ">speed-up", ">efficiency", ">exposed ms", "limited by", ">memory GB", "compute",
    ]  # fmt: skip
    bases = sorted({point.baseline_gpus for point in points if point.baseline_gpus})
    over = " or ".join(f"{count} GPU{'s' * (count > 1)}" for count in bases)
    if any(point.scaling == "weak" for point in points):
        title += ", weak scaling: the batch grows with the GPUs"
    note = (
        f"speed-up: over {over}. exposed: communication that computing does not hide. from, to: see the inputs' errors."
    )
    show.table(title, columns, map(_row, points), note)


def _rate_unit(points: Sequence[PredictedPoint]) -> str:
    """What a batch is made of: of a workload that is known from its trace alone, nobody says that it is images."""
    return "samples/s" if any(point.request is None for point in points) else "images/s"


def _row(point: PredictedPoint) -> list[str]:
    head = [point.workload, f"{point.batch_size}", point.strategy, f"{point.gpus}"]
    memory = "" if point.memory_bytes is None else f"{point.memory_bytes / 1e9:.2f}"
    if point.iteration_s is None or point.interval_s is None:
        words = point.reason if point.outcome == "refused" else "missing: memory"
        return [*head, "", "", "", "", "", "", "", words, memory, ""]
    exposed_s, speedup, rate = point.exposed_communication_s, point.speedup, point.images_per_s
    return [
        *head,
        f"{point.iteration_s * 1e3:.2f}",
        *(f"{end * 1e3:.2f}" for end in point.interval_s),
        si(rate or 0.0),
        "" if speedup is None else f"{speedup:.2f}",
        "" if point.efficiency is None else f"{point.efficiency:.0%}",
        "" if exposed_s is None else f"{exposed_s * 1e3:.2f}",
        f"{point.limited_by} {point.limit_share:.0%}",
        memory,
        point.compute_source or "",
    ]


def _sensitivity(points: Sequence[PredictedPoint]) -> None:
    rows = [
        [
            point.workload,
            f"{point.batch_size}",
            point.system,
            f"{point.gpus}",
            each.what,
            f"{each.gain:+.1%}",
            each.limited_by,
        ]
        for point in points
        for each in point.sensitivity
    ]
    if rows:
        columns = ["workload", ">batch", "system", ">GPUs", "what if", ">iteration saved", "limited then by"]
        note = "A CPU (xeon-..., epyc-...) stands for its PCIe root and memory, through which copies of GPUs go."
        show.table("Which link is worth money", columns, rows, note)
        show.out.print()


def sources(made: Prediction) -> None:
    """What went into predictions, and where such predictions were put beside measurements."""
    _inputs(made)
    _domains(made)


def _inputs(made: Prediction) -> None:
    """What went in, in sentences; things that are said of one system in the same words are said once."""
    said: dict[tuple[str, str, str], list[str]] = {}
    for each in made.inputs:
        off = "off by an unknown share" if each.error is None else f"off by {each.error:.0%}"
        said.setdefault((each.origin, off, f"{each.value} ({each.source})"), []).append(each.what)
    show.out.print("What went in, and how far off that may be", style="bold", soft_wrap=True)
    for (origin, off, words), things in said.items():
        shown = ", ".join(things[:THINGS]) + f" and {len(things) - THINGS} more" * (len(things) > THINGS)
        show.out.print(f"- {shown}: {origin}, {off}. {words}", soft_wrap=True)
    show.out.print()


def _domains(made: Prediction) -> None:
    if not made.domains:
        show.out.print("Such predictions were put beside no measurement yet.", soft_wrap=True)
        return
    rows = [
        [each.what, f"{each.points}", f"{each.mean_error:.1%}", f"{each.worst_error:.1%}", each.source]
        for each in made.domains
    ]
    note = "Nothing else has been put beside a measurement: of other systems these errors say little."
    show.table("Where such predictions were checked", ["", ">points", ">mean error", ">worst", "in"], rows, note)


def validation(rows: "Sequence[Row]", summaries: "Sequence[Summary]") -> None:
    """Every published figure beside what is predicted, what that was given, and how far off each group is."""
    columns = ["", "system", ">GPUs", ">measured", ">predicted", "", ">off by", "given", "not modelled, as"]
    for summary in summaries:
        own = [row for row in rows if row.group == summary.group]
        sources = "; ".join(dict.fromkeys(row.source for row in own))
        show.table(summary.about, columns, map(_validation_cells, own), f"From: {sources}\n")
    verdicts = [
        [
            each.about,
            f"{each.rows}",
            f"{each.predicted}",
            _percent(each.mean_error),
            _percent(each.worst_error),
            _percent(each.tolerance),
            "" if each.tolerance is None else "holds" if each.holds else "MISSED",
        ]
        for each in summaries
    ]
    columns = ["off by", ">rows", ">predicted", ">mean", ">worst", ">at most", ""]
    show.table("All groups", columns, verdicts, "All figures were known while the model was written.")


def _validation_cells(row: "Row") -> list[str]:
    return [
        row.what,
        row.system or "",
        f"{row.gpus}",
        _rate(row.measured),
        "" if row.predicted is None else _rate(row.predicted),
        row.unit,
        "" if row.error is None else f"{row.error:+.1%}",
        row.given,
        row.not_modelled or "",
    ]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
