"""The figures of a comparison of systems: collectives, rates against GPUs, and margins over intensity.

The forms are those of Tallent et al. 2017, Fig. 10 to 13. Where several libraries were predicted, each has figures of
rates of its own.
"""

import re
from collections.abc import Iterator, Sequence

from resnetx.record.system_comparison import SystemComparison, SystemPoint
from resnetx.reporting.charts.collectives import collective_bandwidth
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.system_margins import margins_over_intensity
from resnetx.reporting.charts.system_rates import Curves, rates_against_gpus
from resnetx.reporting.systems.rate_ratios import over


def system_figures(comparison: SystemComparison) -> list[Figure]:
    """Every figure that a comparison of systems has something to show in."""
    collectives = dict.fromkeys(point.collective for point in comparison.collectives)
    figures = [
        collective_bandwidth([point for point in comparison.collectives if point.collective == name], name)
        for name in collectives
    ]
    figures += _rates(comparison)
    if any(over(point, *comparison.systems[:2]) for point in comparison.points):
        figures.append(margins_over_intensity(comparison.points, *comparison.systems[:2]))
    return figures


def _rates(comparison: SystemComparison) -> Iterator[Figure]:
    """Of each library and variant: single workloads with a panel each, and the family with one for each batch."""
    grids = list(dict.fromkeys((point.library, point.variant) for point in comparison.points))
    for grid in grids:
        points = [point for point in comparison.points if (point.library, point.variant) == grid]
        label = ", ".join(filter(None, grid))
        suffix = f"-{_file_word(label)}" if len(grids) > 1 else ""
        with_label = f" with {label}" if label else ""
        family = [point for point in points if point.workload.startswith("ResNet/")]
        single = [point for point in points if not point.workload.startswith("ResNet/")]
        if _any_rate(single):
            curves = Curves(f"rate{suffix}", f"Predicted rates{with_label}", 12, by_workload=True)
            yield rates_against_gpus(single, comparison.systems, curves)
        if _any_rate(family):
            curves = Curves(f"rate-resnetx{suffix}", f"Predicted rates of ResNet/x{with_label}", 13, by_workload=False)
            yield rates_against_gpus(family, comparison.systems, curves)


def _any_rate(points: Sequence[SystemPoint]) -> bool:
    return any(side.iterations_per_s for point in points for side in point.sides)


def _file_word(label: str) -> str:
    return re.sub(r"[^\w.]+", "-", label).strip("-")
