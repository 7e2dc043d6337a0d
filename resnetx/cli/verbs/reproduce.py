"""`reproduce`: what a paper states beside what is predicted of the same, and its figures."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import papers_answer
from resnetx.cli import show
from resnetx.cli.tables import show_papers
from resnetx.literature.reproduce import reproduce
from resnetx.study import Point


def reproduce_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts what a paper measured, and checks its statements."""
    papers = reproduce(*map(str, paths), **asked)
    show.conclude(options, papers_answer(papers), lambda: [papers], partial(show_papers.papers, papers))
    return 0
