"""`verify`: whether several ranks compute what one process would."""

import os
from argparse import Namespace
from pathlib import Path

from resnetx.choices import NoExchange
from resnetx.cli import show
from resnetx.cli.compose import compose, one_point
from resnetx.cli.grammar import VERBS
from resnetx.cli.tables import show_run
from resnetx.cli.verbs.train import announce_variables, obstacle_to, run_file, run_folder
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import Equality, RunFile

WORST = 10  # layers in the table


def verify_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Compares the ranks of a point with one process; status 1 where they are not equal."""
    from resnetx.measure.launch import launcher

    show.begin(options)
    task, results = _task(overrides)
    announce_variables([task.request])
    if obstacle := obstacle_to(task.request, task.oversubscribe):
        raise ConfigError(obstacle)
    folder = run_folder(results, "train", task.request.slug)
    with show.waiting(_what(task), folder.path):
        record = launcher.execute(task, folder)
    if options.json:
        show.json_lines([record])
    elif record.equality is None:
        show_run.run(record, folder)
    else:
        _show(task, record.equality)
        show.line(f"record: {folder.record}")
    return 0 if record.equality and record.equality.equal else 1


def _task(overrides: list[str]) -> tuple[RunFile, Path]:
    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("verify: this is a rank of torchrun; `resnetx verify` starts torchrun itself")
    point = one_point(overrides, "`resnetx verify` compares one")
    defaults = {
        key: int(value) for key, value in VERBS["verify"].own.items() if key != "gpus" or "devices" not in point
    }
    tree = compose({**defaults, **point, "measure": "equality"})
    request = request_from(tree)
    check(request)
    if request.gpus == 1:
        raise ConfigError("gpus=1: one rank is what several are compared with; use gpus=2 or more")
    if isinstance(request.strategy, NoExchange):
        raise ConfigError("strategy=none exchanges no gradients, so that its ranks are not equal to one process; use "
                          "bucket, layerwise or after")  # fmt: skip
    settings = run_settings_from(tree)
    return run_file(request, settings, None), Path(settings.results)


def _what(task: RunFile) -> str:
    request = task.request
    return f"{request.model.label}, batch {request.batch_size} on gpus={request.gpus}, strategy={request.strategy.kind}"


def _show(task: RunFile, found: Equality) -> None:
    """The verdict, and the layers that deviate most."""
    request = task.request
    order = sorted(found.double.layers, key=lambda layer: -_size(found.double.layers[layer]))
    columns = ["layer", ">double", f">{request.precision}", *([">per-rank statistics"] if found.per_rank else [])]
    parts = [found.double, found.as_trained, *([found.per_rank] if found.per_rank else [])]
    rows = [["loss", *(_text(part.loss) for part in parts)]]
    shown = show.first(order, WORST)
    rows += [[layer, *(_text(part.layers[layer]) for part in parts)] for layer in shown]
    verdict = "equal" if found.equal else "NOT EQUAL"
    title = (
        f"{_what(task)}: {verdict} to one process: loss and gradients of {found.steps} steps deviate by "
        f"{_text(max((found.double.loss, *found.double.layers.values()), key=_size))}, tolerance {found.tolerance:g}"
    )
    left_out = len(order) - len(shown)
    notes = [
        "Relative deviations, the largest of all ranks and steps; worst layers first"
        + (f", {left_out} more with --all." if left_out else "."),
        f"double: judged. {request.precision}: one step as it is trained, with its rounding.",
    ]
    if found.statistics != "none":
        notes.append(
            f"Statistics of batch normalisation are {_STATISTICS[found.statistics]}; per-rank statistics, as in "
            "training: one step in double precision, in which ranks are not one process."
        )
    show.table(title, columns, rows, "\n".join(notes))


_STATISTICS = {"frozen": "those of the global batch, held fast", "synchronised": "computed over all ranks"}


def _size(deviation: float | None) -> float:
    """None: not a finite number."""
    return float("inf") if deviation is None else deviation


def _text(deviation: float | None) -> str:
    return "not finite" if deviation is None else f"{deviation:.1e}"
