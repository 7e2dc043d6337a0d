"""`verify`: whether several ranks compute what one process would."""

import os
from argparse import Namespace
from pathlib import Path

from resnetx.api.answers import verify_answer
from resnetx.api.train import execute_verification
from resnetx.cli import show
from resnetx.cli.tables import show_run
from resnetx.errors import ConfigError
from resnetx.record import Equality
from resnetx.request import Request
from resnetx.study import Point
from resnetx.table import Column

WORST = 10  # layers in the table


def verify_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Compares the ranks of a point with one process; status 1 where they are not equal."""
    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("verify: this is a rank of torchrun; `resnetx verify` starts torchrun itself")
    kept = execute_verification(asked)
    record, folder = kept.record, kept.folder

    def screen() -> None:
        if record.equality is None:
            show_run.run(record, folder)
        else:
            _show(record.request, record.equality)
            show.line(f"record: {folder.record}")

    show.conclude(options, verify_answer(record), lambda: [record], screen, record.outcome != "ok")
    return 0 if record.equality and record.equality.equal else 1


def _show(request: Request, equality: Equality) -> None:
    """The layers that deviate most."""
    order = sorted(equality.double.layers, key=lambda layer: -_size(equality.double.layers[layer]))
    columns: list[Column[LayerDeviations]] = [
        Column("layer", lambda row: row[0]),
        Column(">double", lambda row: _text(row[1][0])),
        Column(f">{request.precision}", lambda row: _text(row[1][1])),
        Column(">per-rank statistics", lambda row: _text(row[1][2]) if len(row[1]) > 2 else ""),
    ]
    parts = [equality.double, equality.as_trained, *([equality.per_rank] if equality.per_rank else [])]
    rows: list[LayerDeviations] = [("loss", [part.loss for part in parts])]
    shown = show.first(order, WORST)
    rows += [(layer, [part.layers[layer] for part in parts]) for layer in shown]
    left_out = len(order) - len(shown)
    notes = [
        "Relative deviations, the largest of all ranks and steps; worst layers first"
        + (f", {left_out} more with --all." if left_out else "."),
        f"double: decides. {request.precision}: one step in the precision of training, with its rounding.",
    ]
    if equality.statistics != "none":
        notes.append(
            f"Statistics of batch normalisation are {_STATISTICS[equality.statistics]}; per-rank statistics, as in "
            "training: one step in double precision, in which ranks are not one process."
        )
    show.listing(columns, rows, note=" ".join(notes), every=True, constant=True)


LayerDeviations = tuple[str, list[float | None]]  # its name; in double precision, as trained, by each rank's statistics


_STATISTICS = {"frozen": "those of the global batch, fixed", "synchronised": "computed over all ranks"}


def _size(deviation: float | None) -> float:
    """None: not a finite number."""
    return float("inf") if deviation is None else deviation


def _text(deviation: float | None) -> str:
    return "not finite" if deviation is None else f"{deviation:.1e}"
