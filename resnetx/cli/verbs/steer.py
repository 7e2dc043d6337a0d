"""`steer`: which links a reconfigurable node should have for a traffic, and what training gains by it."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import steer_answer
from resnetx.api.steer import steer
from resnetx.cli import show
from resnetx.cli.tables import show_steer
from resnetx.study import Point


def steer_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Steers and shows what that changes."""
    made = steer(*files, **asked)
    show.conclude(options, steer_answer(made), lambda: [made], partial(show_steer.steering, made))
    return 0
