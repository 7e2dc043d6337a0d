"""The figures of a report of studies: workloads, points, rates, speed-ups, and what limits them.

The forms are those of Tallent et al. 2017, Fig. 6, 7, 12 and 13. Nothing is drawn that was not measured: a line has a
gap where a point is missing, and a word at the foot of the panel says why (`missing_points`).
"""

from collections.abc import Iterator, Sequence

from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.intensity import batch_intensities, intensity_space
from resnetx.reporting.charts.scaling_curves import has_speedup, rates, speedups
from resnetx.reporting.charts.step_shares import step_shares
from resnetx.reporting.charts.styles import SeriesStyles
from resnetx.reporting.study.points import StudyPoint


def figures(points: Sequence[StudyPoint]) -> list[Figure]:
    """Every figure that the points have something to show in."""
    styles = SeriesStyles(points)
    made = list(_of_intensity(points, styles))
    if any(point.result.images_per_s for point in points):
        made.append(rates(points, styles))
        if any(map(has_speedup, points)):
            made.append(speedups(points, styles))
        made.append(step_shares(points, styles))
    return made


def _of_intensity(points: Sequence[StudyPoint], styles: SeriesStyles) -> Iterator[Figure]:
    """Two figures for each convention by which activations and parameters were counted."""
    # An old study may hold an empty batch, which has no place on a log axis.
    working = [(point, point.counts) for point in points if point.counts and point.counts.activations_per_batch > 0]
    conventions = sorted({counts.convention for _, counts in working})
    for convention in conventions:
        counted = [(point, counts) for point, counts in working if counts.convention == convention]
        suffix = "" if len(conventions) == 1 else f"-{convention}"
        yield batch_intensities(counted, styles, convention, suffix)
        yield intensity_space(counted, styles, convention, suffix)
