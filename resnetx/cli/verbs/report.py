"""`report`: a page, figures and tables of studies."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.report import report
from resnetx.cli import show
from resnetx.study import Point


def report_(_: Namespace, paths: list[Path], asked: Point) -> int:
    """Writes the report of the studies in the folders that are given."""
    written = report(*paths, **asked)
    show.line(f"page: {written}")
    show.say("Open it in a browser; its figures and tables are files in the same folder.")
    return 0
