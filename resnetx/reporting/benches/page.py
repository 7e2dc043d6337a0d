"""One HTML page of benches: what stands out, the figures, and the tables behind them; each figure as files beside it.

Complete in itself, as the page of studies is: nothing is fetched, no script runs, every word of a record is escaped.
"""

from collections.abc import Sequence
from pathlib import Path

from resnetx import __version__
from resnetx.interconnect.pair_reading import counted
from resnetx.record import BenchRecord
from resnetx.record.copies import CopyCell
from resnetx.reporting.charts.bench_lines import collective_lines, pair_lines
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.files import draw, undrawn, write_figure
from resnetx.reporting.charts.pair_matrices import matrices
from resnetx.reporting.html import inline, template


def write(records: Sequence[BenchRecord], folder: Path) -> Path:
    """Writes the page and its files; returns the page."""
    shown = [(figure, draw(figure.chart)) for figure in figures(records)]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, chart in shown:
        write_figure(figure, chart, folder)
    html = template(Path(__file__).with_name("page.html.j2")).render(
        records=records,
        drawings=[(figure, inline(chart.svg)) for figure, chart in shown],
        kinds=[*["svg", "pdf"] * (not undrawn()), "vl.json", "csv"],
        verdicts=dict(counted([cell for record in records for cell in record.cells])),
        warnings=[(record.source, warning) for record in records for warning in record.warnings],
        version=__version__,
    )
    page = folder / "index.html"
    page.write_text(html, encoding="utf-8")
    return page


def figures(records: Sequence[BenchRecord]) -> list[Figure]:
    """All figures of these benches: pairs first, bench by bench, then collectives."""
    found: list[Figure] = []
    for place, record in enumerate(records):
        of_bench = f"bench{place}_" if len(records) > 1 else ""
        for (copy, direction, endpoint), cells in _families(record).items():
            name = f"{of_bench}{copy}_{direction}_{endpoint}"
            what = f"{copy} copies, {direction.replace('-', ' ')}"
            found += matrices(cells, name, what) + pair_lines(cells, name, what)
    for collective in dict.fromkeys(point.collective for record in records for point in record.points):
        found += collective_lines(records, collective)
    return found


def _families(record: BenchRecord) -> dict[tuple[str, str, str], list[CopyCell]]:
    found: dict[tuple[str, str, str], list[CopyCell]] = {}
    for cell in record.cells:
        if cell.time_s and not cell.together:
            found.setdefault((cell.copy, cell.direction, cell.endpoint), []).append(cell)
    return found
