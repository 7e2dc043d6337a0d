"""Figures of workloads that are counted, not run: after Tallent et al. 2017, Fig. 4 to 7.

Activations of an image and parameters by workload (Fig. 4), work and work over communication by batch category (Fig. 5
and 6), and activations per parameter on each GPU over GPUs (Fig. 7). One colour and shape for each workload.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol

from resnetx.record import Workload
from resnetx.reporting.charts.figure import Figure, workload_colours
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Scale, figure, shape_looks, table_of_records
from resnetx.reporting.charts.studies import span
from resnetx.reporting.charts.system_rates import system_looks
from resnetx.table import Record
from resnetx.units import si

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
