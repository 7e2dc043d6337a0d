"""`describe`: what a workload is, layer by layer, or a family of them as a table."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.api.describe import Workloads, describe, workload_columns
from resnetx.cli import show
from resnetx.record import Workload
from resnetx.study import Point
from resnetx.units import si

if TYPE_CHECKING:
    from resnetx.workloads.counts import Layer


def describe_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Counts workloads."""
    found = describe(**asked)

    def screen() -> None:
        if not isinstance(found, Workloads):
            from resnetx.api.proposals import COLUMNS

            show.listing(COLUMNS, found, "Nearest settings of each family", every=True)
        elif len(found) == 1:
            layers(found.layers(), found[0])
            messages(found.requests[0].strategy.kind, found[0].messages_bytes)
        else:
            family(list(found), found.gpus)

    show.conclude(options, found.answer().sentences, lambda: found, screen)
    return 0


# The screen of workloads: one layer by layer, or several as a table, and what each rank sends.


def layers(table: "Sequence[Layer]", workload: Workload) -> None:
    """One workload, layer by layer."""
    from resnetx.workloads.counts import DATA, activations_by_layer, folded

    convention = workload.convention
    activations = activations_by_layer(table, workload.image_size, convention)
    columns = ["layer", "kind", "output", ">activations", ">parameters", ">MFLOP", ">gradients"]
    shape = f"{workload.tokens}" if workload.tokens else f"3x{workload.image_size}x{workload.image_size}"
    data = (
        [[DATA, "tokens, labels" if workload.tokens else "image, label", shape, f"{activations[DATA]:,}", "", "", ""]]
        if DATA in activations
        else []
    )
    rows = [_row(alike, activations, convention) for alike in folded(table)]
    sums = [
        "all", "", "", f"{workload.activations_per_image:,}", f"{workload.parameters:,}",
        f"{workload.flops_per_image / 1e6:,.1f}", si(workload.gradient_bytes, "B"),
    ]  # fmt: skip
    for note in workload.notes:
        show.say(note)
    title = (
        f"One {workload.sample}, forward pass, layer by layer: activations and "
        f"parameters by the `{convention}` convention"
    )
    show.table(title, columns, [*data, *rows, sums], least=["gradients", "kind", "output", "MFLOP"])


def _row(layers: "Sequence[Layer]", activations: Mapping[str, int], convention: str) -> list[str]:
    """The row of one layer, or of several blocks that repeat the ones above."""
    from resnetx.workloads.counts import block_of, flops_per_image, gradient_bytes, parameters_of

    first, last, single = layers[0], layers[-1], len(layers) == 1
    return [
        first.name if single else " to ".join(dict.fromkeys((block_of(first.name), block_of(last.name)))),
        first.kind if single else "as above",
        "x".join(map(str, last.output_shape)),
        f"{sum(activations[layer.name] for layer in layers):,}",
        f"{sum(parameters_of(layer, convention) for layer in layers):,}",
        f"{flops_per_image(layers) / 1e6:,.1f}",
        si(gradient_bytes(layers), "B"),
    ]


def messages(strategy: str, sizes_bytes: Sequence[int]) -> None:
    """What each rank sends in a step."""
    listed = ", ".join(si(size, "B") for size in sizes_bytes[:8]) + ", ..." * (len(sizes_bytes) > 8)
    one = {"server": "gradient to the server", "fsdp": "reduce-scatter"}.get(strategy, "all-reduce")
    several = one.replace("gradient", "gradients") if strategy == "server" else f"{one}s"
    what = f"{len(sizes_bytes)} {one if len(sizes_bytes) == 1 else several}"
    more = {
        "fsdp": " Parameters are gathered block by block.",
        "zero1": " Updated parameters come back from each rank.",
    }
    show.say(f"strategy={strategy} sends {what} in a step{': ' * bool(listed)}{listed}.{more.get(strategy, '')}")


def family(workloads: Sequence[Workload], gpus: Sequence[int]) -> None:
    """Several workloads as one table: the paper's Fig. 4 to 7."""
    title = f"Workloads: activations and parameters by the `{workloads[0].convention}` convention"
    notes = " ".join(dict.fromkeys(note for each in workloads for note in each.notes))
    show.listing(workload_columns(gpus), workloads, title, notes, every=True)
