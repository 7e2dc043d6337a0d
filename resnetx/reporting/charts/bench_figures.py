"""The figures of benches."""

from collections.abc import Sequence

from resnetx.record import BenchRecord
from resnetx.record.copies import families
from resnetx.reporting.charts.bench_lines import collective_lines, pair_lines
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.pair_matrices import matrices


def figures(records: Sequence[BenchRecord]) -> list[Figure]:
    """All figures of these benches: pairs first, bench by bench, then collectives."""
    found: list[Figure] = []
    for place, record in enumerate(records):
        of_bench = f"bench{place}_" if len(records) > 1 else ""
        for family, cells in families(record.cells).items():
            name = f"{of_bench}{family.slug}"
            found += matrices(cells, name, family.words) + pair_lines(cells, name, family.words)
    for collective in dict.fromkeys(point.collective for record in records for point in record.points):
        found += collective_lines(records, collective)
    return found
