"""One HTML page of steerings: what each saves and what training gains, its matrices, its GPUs and phases.

Complete in itself, as the page of studies is: nothing is fetched, no script runs, every word of a record is escaped.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from resnetx import __version__
from resnetx.record.steering import Steering
from resnetx.reporting.charts.figure import AnyChart, Figure
from resnetx.reporting.charts.files import draw, undrawn, write_figure
from resnetx.reporting.charts.steering_matrices import matrices
from resnetx.reporting.pages.html import inline, template


def write(records: Sequence[Steering], graphs: Sequence[AnyChart | None], folder: Path) -> Path:
    """Writes the page and its files; returns the page. `graphs`: links before and after, if known."""
    figures = [_figure(record, place if len(records) > 1 else None) for place, record in enumerate(records)]
    shown = [(figure, draw(figure.chart)) for figure in figures]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, chart in shown:
        write_figure(figure, chart, folder)
    html = template(Path(__file__).with_name("steering.html.j2")).render(
        steerings=[
            (record, figure, inline(chart.svg), inline(draw(graph).svg) if graph else "")
            for record, (figure, chart), graph in zip(records, shown, graphs, strict=True)
        ],
        tables=[[msgspec.to_builtins(gpu) for gpu in record.gpus] for record in records],
        kinds=[*["svg", "pdf"] * (not undrawn()), "vl.json", "csv"],
        version=__version__,
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page


def _figure(record: Steering, place: int | None) -> Figure:
    figure = matrices(record)
    name = figure.name if place is None else f"{figure.name}{place}"
    return Figure(name, figure.title, figure.caption, figure.table, figure.chart)
