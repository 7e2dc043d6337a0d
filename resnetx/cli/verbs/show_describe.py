"""`describe`: what a workload is, layer by layer, or a family of them as a table."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resnetx.api.describe import Workloads, describe, workload_columns
from resnetx.cli import show
from resnetx.record import Workload
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import figure, si

if TYPE_CHECKING:
    from resnetx.workloads.counts import Layer


def describe_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Counts workloads."""
    found = describe(**asked)

    def screen() -> None:
        if not isinstance(found, Workloads):
            from resnetx.api.describe import COLUMNS

            show.listing(COLUMNS, found, "Nearest settings of each family", every=True)
        elif len(found) == 1:
            layers(found.layers(), found[0])
        else:
            family(list(found), found.gpus)

    show.conclude(options, found.answer().sentences, lambda: found, screen)
    return 0


# The screen of workloads: one layer by layer, or several as a table, and what each rank sends.


def layers(table: "Sequence[Layer]", workload: Workload) -> None:
    """One workload, layer by layer."""
    *rows, whole = _rows(table, workload)
    shown = rows if show.everything() or len(rows) < show.ROWS else _largest(rows, whole, show.fitting_rows(LARGEST))
    show.listing(LAYERS, [*shown, whole], every=True)
    for note in show.first(workload.notes, 1):
        show.say(f"look: {note}", brief=f"look: {note.partition('. ')[0]}")
    counted = f"one {workload.sample}, forward; convention={workload.convention}"
    notes = f"{len(workload.notes) - 1} notes: " * (len(workload.notes) > 1)
    show.more(counted + f"; {notes}--all" * (shown is not rows or len(workload.notes) > 1) * (not show.everything()))


LARGEST = 6  # layers that are shown where there are many


class LayerRow(NamedTuple):
    """A layer, or several blocks that repeat the ones above, or all; None: a count that it does not have."""

    name: str
    kind: str
    output: str
    activations: int
    parameters: int | None = None
    flop: float | None = None
    gradient_bytes: int | None = None


LAYERS: list[Column[LayerRow]] = [
    Column("layer", lambda row: row.name),
    Column("kind", lambda row: row.kind, 2),
    Column("output", lambda row: row.output, 3),
    Column(">activations", lambda row: f"{row.activations:,}"),
    Column(">parameters", lambda row: "" if row.parameters is None else f"{row.parameters:,}"),
    Column(">MFLOP", lambda row: "" if row.flop is None else figure(row.flop / 1e6), 4),
    Column(">gradients", lambda row: "" if row.gradient_bytes is None else si(row.gradient_bytes, "B"), 1),
]


def _largest(rows: Sequence[LayerRow], whole: LayerRow, most: int) -> list[LayerRow]:
    """Those with most of all activations or parameters, in their order, and the sum of the others."""

    def share(row: LayerRow) -> float:
        activations = row.activations / (whole.activations or 1)
        return max(activations, (row.parameters or 0) / (whole.parameters or 1))

    largest = sorted(rows, key=share, reverse=True)[:most]
    others = [row for row in rows if row not in largest]
    counts = LayerRow._fields[LayerRow._fields.index("activations") :]
    sums = {name: sum(getattr(row, name) or 0 for row in others) for name in counts}
    return [*(row for row in rows if row in largest), LayerRow(f"{len(others)} more", "", "", **sums)]


def _rows(table: "Sequence[Layer]", workload: Workload) -> Iterator[LayerRow]:
    """What is read, the layers, and their sum."""
    from resnetx.workloads.counts import (
        DATA,
        activations_by_layer,
        block_of,
        flops_per_image,
        folded,
        gradient_bytes,
        parameters_of,
    )

    activations = activations_by_layer(table, workload.image_size, workload.convention)
    if DATA in activations and table[0].name != DATA:
        size = workload.image_size
        kind = "tokens, labels" if workload.tokens else "image, label" if size else "its batch"
        yield LayerRow(DATA, kind, f"3x{size}x{size}" if size else f"{workload.tokens or ''}", activations[DATA])
    for alike in folded(table):
        first, last, single = alike[0], alike[-1], len(alike) == 1
        yield LayerRow(
            first.name if single else " to ".join(dict.fromkeys((block_of(first.name), block_of(last.name)))),
            first.kind if single else "as above",
            "x".join(map(str, last.output_shape)),
            sum(activations[layer.name] for layer in alike),
            sum(parameters_of(layer, workload.convention) for layer in alike),
            flops_per_image(alike),
            gradient_bytes(alike),
        )
    counts = (workload.activations_per_image, workload.parameters, workload.flops_per_image, workload.gradient_bytes)
    yield LayerRow("all", "", "", *counts)


def family(workloads: Sequence[Workload], gpus: Sequence[int]) -> None:
    """Several workloads as one table: the paper's Fig. 4 to 7."""
    by = "those with least and most work per parameter"
    show.listing(workload_columns(gpus), workloads, rank=lambda each: each.intensity, by=by)
    notes = list(dict.fromkeys(f"{note[0].upper()}{note[1:]}." for workload in workloads for note in workload.notes))
    for note in notes if show.everything() else []:
        show.say(note)
    hidden = f"; {len(notes)} note{'s' * (len(notes) > 1)}: --all" * bool(notes and not show.everything())
    show.more(f"convention={workloads[0].convention}{hidden}")
