"""`explain`: why one result is not another, part by part, or where the time of one goes."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.explain import explain
from resnetx.cli import show
from resnetx.cli.tables import show_explained
from resnetx.errors import ConfigError
from resnetx.reporting.explain import explained_answer
from resnetx.study import Point


def explain_(options: Namespace, paths: list[Path], _: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(f"explain: expected one result or two (folders of studies or predictions), got {len(paths)}")
    found = explain(*paths)
    show.conclude(options, explained_answer(found), lambda: found, partial(show_explained.explanations, found))
    return 1 if any(each.outside for each in found) else 0
