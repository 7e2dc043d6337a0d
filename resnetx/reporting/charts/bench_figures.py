"""The figures of benches."""

from collections.abc import Sequence

from resnetx.record import BenchRecord
from resnetx.record.copies import CopyCell
from resnetx.reporting.charts.bench_lines import collective_lines, pair_lines
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.pair_matrices import matrices


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
