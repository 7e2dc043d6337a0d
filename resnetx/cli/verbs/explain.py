"""`explain`: why one result is not another, part by part, or where the time of one goes."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.explain import explain
from resnetx.cli import show
from resnetx.cli.tables import show_explained
from resnetx.errors import ConfigError
from resnetx.reporting.explain import Explained, explained_answer
from resnetx.reporting.explain_benches import ExplainedFigure, figures_answer
from resnetx.study import Point


def explain_(options: Namespace, paths: list[Path], _: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(
            f"explain: expected one result or two (folders of runs, studies, predictions or benches), got {len(paths)}"
        )
    found = explain(*paths)
    if figures := [each for each in found if isinstance(each, ExplainedFigure)]:
        answer, screen = figures_answer(figures), partial(show_explained.figures, figures)
    else:
        cases = [each for each in found if isinstance(each, Explained)]
        answer, screen = explained_answer(cases), partial(show_explained.explanations, cases)
    show.conclude(options, answer, lambda: found, screen)
    return 1 if any(each.outside for each in found) else 0
