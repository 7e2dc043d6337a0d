"""`report` and `reproduce`: verbs that write pages and figures."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import papers_answer
from resnetx.api.report import report
from resnetx.cli import show
from resnetx.cli.verbs import show_papers
from resnetx.literature.reproduce import reproduce
from resnetx.study import Point

# ---- report ---------------------------------------------------------------------------------------------------------
# `report`: a page, figures and tables of studies.


def report_(_: Namespace, paths: list[Path], asked: Point) -> int:
    """Writes the report of the studies in the folders that are given."""
    written = report(*paths, **asked)
    show.line(f"page: {written}")
    show.say("Open it in a browser; its figures and tables are files in the same folder.")
    return 0


# ---- reproduce ------------------------------------------------------------------------------------------------------
# `reproduce`: what a paper states beside what is predicted of the same, and its figures.


def reproduce_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Predicts what a paper measured, and checks its statements."""
    papers = reproduce(*map(str, paths), **asked)
    show.conclude(options, papers_answer(papers), lambda: [papers], partial(show_papers.papers, papers))
    return 0
