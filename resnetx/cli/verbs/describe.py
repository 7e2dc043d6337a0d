"""`describe`: what a workload is, layer by layer, or a family of them as a table."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.describe import describe
from resnetx.cli import show
from resnetx.cli.tables import show_workloads
from resnetx.study import Point


def describe_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Counts workloads."""
    found = describe(**asked)

    def screen() -> None:
        if len(found) == 1:
            show_workloads.layers(found.layers(), found[0])
            show_workloads.messages(found.requests[0].strategy.kind, found[0].messages_bytes)
        else:
            show_workloads.family(list(found), found.gpus)

    show.conclude(options, found.answer().sentences, lambda: found, screen)
    return 0
