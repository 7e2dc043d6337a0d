"""One HTML page of benches: what stands out, the figures, and the tables behind them; each figure as files beside it.

Complete in itself, as the page of studies is: nothing is fetched, no script runs, every word of a record is escaped.
"""

from collections.abc import Sequence
from pathlib import Path

from resnetx import __version__
from resnetx.interconnect.pair_reading import counted
from resnetx.record import BenchRecord
from resnetx.record.machine import how_many
from resnetx.reporting.charts.bench_figures import figures
from resnetx.reporting.charts.files import draw, undrawn, write_figure
from resnetx.reporting.pages.html import inline, template


def write(records: Sequence[BenchRecord], folder: Path) -> Path:
    """Writes the page and its files; returns the page."""
    shown = [(figure, draw(figure.chart)) for figure in figures(records)]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, chart in shown:
        write_figure(figure, chart, folder)
    html = template(Path(__file__).with_name("benches.html.j2")).render(
        records=records,
        drawings=[(figure, inline(chart.svg)) for figure, chart in shown],
        kinds=[*["svg", "pdf"] * (not undrawn()), "vl.json", "csv"],
        verdicts=dict(counted([cell for record in records for cell in record.cells])),
        warnings=[(record.source, warning) for record in records for warning in record.warnings],
        how_many=how_many,
        version=__version__,
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page
