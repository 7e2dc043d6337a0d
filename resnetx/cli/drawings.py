"""Figures that a verb writes beside its record: where each is, and once why none is drawn where nothing can draw."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.cli import show

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import Figure


def store(figures: Iterable["Figure"], folder: Path) -> None:
    """Writes the files of figures, and says which one of each to look at."""
    from resnetx.reporting.charts import files

    written = [files.write_figure(figure, files.drawn(figure.chart), folder) for figure in figures]
    for path in written:
        show.line(f"figure: {path}", show.err)
    if written:
        say_undrawn()


def say_undrawn() -> None:
    """Says what is left out without the extra that draws, and the command that brings it."""
    from resnetx.reporting.charts import files

    if why := files.undrawn():
        show.say(f"Left out: drawings (SVG, PDF) of these Vega-Lite files. {why}", show.err)
