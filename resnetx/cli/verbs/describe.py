"""`describe`: what a workload is, layer by layer, or a family of them as a table."""

from argparse import Namespace
from pathlib import Path

from msgspec import to_builtins

from resnetx import bounds
from resnetx.cli import show
from resnetx.cli.compose import chosen, compose, points_of
from resnetx.cli.tables import show_workloads
from resnetx.config import check, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.record import Workload

GPU_COLUMNS = [1, 2, 4, 8]  # of the tables for which no GPU counts were asked


def describe_(options: Namespace, __: list[Path], overrides: list[str]) -> int:
    """Counts workloads."""
    from resnetx import workloads
    from resnetx.workloads.buckets import messages

    show.begin(options)
    _, points = points_of(overrides)
    asked = chosen(overrides).get("gpus", GPU_COLUMNS)
    gpus: list[int] = asked if isinstance(asked, list) else [asked]
    if not all(isinstance(count, int) and not isinstance(count, bool) for count in gpus):
        raise ConfigError(f"gpus={asked}: expected numbers of GPUs")
    bounds.check({"gpus": gpus})
    found: dict[tuple[str, str], Workload] = {}
    sent: dict[tuple[str, str], list[int]] = {}
    for point in points:
        tree = compose({**point, "gpus": 1, "devices": None})
        request, convention = request_from(tree), run_settings_from(tree).convention
        key = request.key, convention
        if key not in found:
            check(request)
            found[key] = workloads.workload(request.model, request.image_size, request.batch_size, convention, gpus)
            table = workloads.table(request.model, request.image_size)
            sent[key] = [each.size_bytes for each in messages(table, request.strategy, request.precision)]
    if options.json:
        show.json_lines({**to_builtins(found[key]), "messages_bytes": sent[key]} for key in found)
    elif len(found) == 1:
        show_workloads.layers(table, found[key])
        show_workloads.messages(request.strategy.kind, sent[key])
    else:
        show_workloads.family(list(found.values()), gpus)
    return 0
