"""Figures of workloads that are counted, not run: after Tallent et al. 2017, Fig. 4 to 7.

Activations of an image and parameters by workload (Fig. 4), work and work over communication by batch category (Fig. 5
and 6), and activations per parameter on each GPU over GPUs (Fig. 7). One colour and shape for each workload.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol

import altair as alt
import msgspec

from resnetx.record import Workload
from resnetx.reporting.charts.figure import (
    COLUMN,
    SYSTEMS,
    Figure,
    family_colours,
    gpus_axis,
    layered,
    legend_of,
    styled,
)
from resnetx.reporting.charts.scaling import log_y, span
from resnetx.reporting.table import table_of

_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
_AFTER = "After Tallent et al. 2017, Fig. {}. Counted by the {} convention."


class CountedMark(msgspec.Struct, frozen=True, kw_only=True):
    """A workload with a batch, on a number of GPUs."""

    workload: str
    batch_size: int
    batch_category: int  # 1: the smallest batch of this workload
    gpus: int
    activations_per_image: int
    parameters: int
    activations_per_batch: int
    activations_per_parameter: float
    activations_per_parameter_per_gpu: float


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


class PlacedMark(msgspec.Struct, frozen=True, kw_only=True):
    """The same as a mark of the map."""

    family: str
    workload: str
    width: int
    batch_size: int
    place: str  # members | nearest | yours
    flop_per_byte: float
    activations_per_parameter_per_gpu: float


def counted_figures(workloads: Sequence[Workload], gpus: Sequence[int]) -> list[Figure]:
    """The figures of workloads; those that a batch has no place in on a log axis are left out."""
    counted = [workload for workload in workloads if workload.activations_per_batch > 0 and workload.parameters > 0]
    if not counted:
        return []
    batches: dict[str, list[int]] = {}
    for each in counted:
        batches.setdefault(each.workload, []).append(each.batch_size)
    marks = [_mark(each, count, sorted(set(batches[each.workload]))) for each in counted for count in gpus]
    names = sorted(batches, key=lambda name: ("/" not in name, _numbers(name), name))
    convention = counted[0].convention
    per_image, parameters = "activations_per_image", "parameters"
    work, intensity = "activations_per_batch", "activations_per_parameter"
    first, shared = list({mark.workload: mark for mark in marks}.values()), gpus[0]
    by_batch = [mark for mark in marks if mark.gpus == shared]
    return [
        _pair("counts", "The workloads: what an image takes, and what is exchanged", first, names, "workload:N",
              (per_image, parameters), _AFTER.format("4", convention)),
        _pair("intensity", f"The workloads: {span(mark.activations_per_parameter for mark in by_batch)} activations "
              "per parameter", by_batch, names, "batch_category:O", (work, intensity),
              "By batch category: 1 is the smallest batch of a workload. " + _AFTER.format("5 and 6", convention)),
        _over_gpus(marks, names, convention),
    ]  # fmt: skip


def _numbers(name: str) -> list[int]:
    """Those of a member of a family, x first: "GPT/12 width 192"."""
    return [int(number) for number in re.findall(r"\d+", name.partition("/")[2])]


def _mark(workload: Workload, gpus: int, batches: Sequence[int]) -> CountedMark:
    return CountedMark(
        workload=workload.workload,
        batch_size=workload.batch_size,
        batch_category=batches.index(workload.batch_size) + 1,
        gpus=gpus,
        activations_per_image=workload.activations_per_image,
        parameters=workload.parameters,
        activations_per_batch=workload.activations_per_batch,
        activations_per_parameter=workload.intensity,
        activations_per_parameter_per_gpu=workload.intensity / gpus,
    )


# ---- drawn


def _colour(names: Sequence[str]) -> tuple[alt.Color, alt.Shape]:
    family = sum("/" in name for name in names)
    others = [SYSTEMS[(index + 1) % len(SYSTEMS)] for index in range(len(names) - family)]
    colours = [*(family_colours(family) if family else []), *others]
    shapes = [_SHAPES[index % len(_SHAPES)] for index in range(len(names))]
    return (
        alt.Color("workload:N", scale=alt.Scale(domain=list(names), range=colours), legend=legend_of(names)),
        alt.Shape("workload:N", scale=alt.Scale(domain=list(names), range=shapes), legend=legend_of(names)),
    )


def _pair(
    name: str,
    title: str,
    marks: Sequence[CountedMark],
    names: Sequence[str],
    x: str,
    fields: tuple[str, str],
    caption: str,
) -> Figure:
    """Two panels side by side, each of one quantity."""
    by_name = x == "workload:N"
    axis = alt.Axis(labelAngle=-90 if by_name else 0, labels=True)
    across = alt.X(x, title=None if by_name else "batch category", axis=axis, sort=list(names) if by_name else None)
    base = alt.Chart(alt.NamedData("all"), width=78, height=130).encode(x=across)
    colour, shape = _colour(names)
    panels = []
    for field in fields:
        y = log_y([getattr(mark, field) for mark in marks], field, field.replace("_", " "), 130)
        line = base.mark_line(strokeWidth=0.75, opacity=0.6, aria=False).encode(y=y, color=colour)
        dots = base.mark_point(filled=True, size=22, opacity=1).encode(y=y, color=colour, shape=shape)
        panels.append(layered([dots] if by_name else [line, dots], base))
    chart = styled(alt.hconcat(*panels, spacing=8), {"all": table_of(marks).records()})
    return Figure(name=name, title=title, caption=caption, table=table_of(marks), chart=chart)


def _over_gpus(marks: Sequence[CountedMark], names: Sequence[str], convention: str) -> Figure:
    """Every workload and batch in intensity space."""
    field = "activations_per_parameter_per_gpu"
    colour, shape = _colour(names)
    y = log_y(
        [mark.activations_per_parameter_per_gpu for mark in marks], field, "activations per parameter per GPU", 170
    )
    base = alt.Chart(alt.NamedData("all"), width=COLUMN - 42, height=170)
    base = base.encode(x=gpus_axis([mark.gpus for mark in marks], shown=True), y=y, color=colour)
    line = base.mark_line(strokeWidth=0.6, opacity=0.5, aria=False).encode(detail=alt.Detail("batch_size:O"))
    dots = base.mark_point(filled=True, size=22, opacity=1).encode(shape=shape)
    return Figure(
        name="located",
        title=f"The workloads on GPUs: {span(mark.activations_per_parameter_per_gpu for mark in marks)} activations "
        "per parameter on each",
        caption="One line for each batch, which is split over the GPUs. " + _AFTER.format("7", convention),
        table=table_of(marks),
        chart=styled(layered([line, dots], base), {"all": table_of(marks).records()}),
    )


def intensity_map(members: Sequence[PlacedWorkload], found: Sequence[PlacedWorkload], target: float) -> Figure:
    """Members of all families by both measures of work for communication, and the ones that were found among them."""
    marks = [_placed(member, "members") for member in members]
    marks += [_placed(each, "yours" if not each.family else "nearest") for each in found]
    x, y = "flop_per_byte", "activations_per_parameter_per_gpu"
    names = sorted({mark.family for mark in marks})
    colour = alt.Color(
        "family:N",
        scale=alt.Scale(domain=names, range=[SYSTEMS[index % len(SYSTEMS)] for index in range(len(names))]),
        legend=legend_of(names),
    )
    title, axis = "training FLOP per byte of gradients, on each GPU", alt.Axis(format="~s")
    across = alt.X(f"{x}:Q", title=title, axis=axis, scale=alt.Scale(type="log"))
    base = alt.Chart(alt.NamedData("all"), width=COLUMN - 42, height=190).encode(
        x=across,
        y=log_y([getattr(mark, y) for mark in marks], y, "activations per parameter per GPU", 190),
        color=colour,
    )
    line = base.transform_filter("datum.place == 'members'").mark_line(strokeWidth=0.6, opacity=0.5, aria=False)
    line = line.encode(detail=alt.Detail("width:O"), order=alt.Order("batch_size:Q"))
    dots = base.transform_filter("datum.place == 'members'").mark_point(filled=True, size=10, opacity=0.6)
    nearest = base.transform_filter("datum.place == 'nearest'").mark_point(filled=True, size=60, shape="diamond")
    yours = base.transform_filter("datum.place == 'yours'").mark_point(filled=True, size=90, shape="triangle-up")
    return Figure(
        name="map",
        title=f"Families in intensity space, and what comes nearest to {target:,.4g}",
        caption="Lines: a width of a family by its batch. Diamonds: the nearest settings. Triangle: your own job. "
        + _AFTER.format("6 and 7", found[0].convention),
        table=table_of(marks),
        chart=styled(layered([line, dots, nearest, yours], base), {"all": table_of(marks).records()}),
    )


def _placed(each: PlacedWorkload, place: str) -> PlacedMark:
    return PlacedMark(
        family=each.family or each.workload,
        workload=each.workload,
        width=int(each.model.get("width", 0)),
        batch_size=each.batch_size,
        place=place,
        flop_per_byte=each.flop_per_byte,
        activations_per_parameter_per_gpu=each.on_each,
    )
