"""How the series of a page look: one colour, shape and dash each, the same in every figure.

ResNet/x is ordered by x, so its colours are: viridis, cut where it would vanish on paper. Other workloads have colours
of their own, from Okabe and Ito's, and every workload has a shape as well, for prints without colour. A figure's file
is light; on a dark page every colour is replaced by its partner in `SeriesStyles.dark`.

References: Okabe & Ito 2008, Color Universal Design; Nuñez, Anderton & Renslow, PLOS ONE 13 (2018) e0199239 (cividis).
"""

import math
from collections.abc import Sequence
from itertools import cycle, islice

from resnetx.reporting.study.points import StudyPoint, batches_in_order, workloads_in_order

INK, QUIET, GRID, PAPER = "#20262d", "#59636e", "#e2e5e9", "#ffffff"
DASHES = ([1, 0], [3.5, 1.5], [1, 1.2], [5, 1.2, 1, 1.2])

# Parts of a step. Parts that no twin separates are grey.
PART_COLOURS = {
    "compute": "#3b78b5",
    "communication": "#d55e00",
    "input": "#d9a400",
    "host": "#b0559a",
    "not separated": "#9aa3ad",
}

# Steps of parallel efficiency, each with its upper bound: cividis, outlined in ink. Its second step is bluer here, and
# the baseline is blue: cividis has a grey of its own, and no two fills of one figure may be greys (`tests/reporting`).
EFFICIENCY = {
    "below 25 %": (0.25, "#00224e"),
    "25 to 50 %": (0.5, "#35569b"),
    "50 to 70 %": (0.7, "#7d7c78"),
    "70 to 90 %": (0.9, "#bcae6c"),
    "90 % or more": (math.inf, "#fee838"),
}
BASELINE, HOLLOW = "#9fd3f0", PAPER

# Systems side by side: Okabe and Ito's.
SYSTEMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")

# Bars of a predicted iteration, by what they are part of.
BARS = {
    "forward": "#7aa6d4",
    "backward": "#3b78b5",
    "update": "#1d4e80",
    "other compute": "#9aa3ad",
    "collectives": "#d55e00",
    "copies": "#8c7a3a",
    "input": "#d9a400",
    "host": "#b0559a",
}

_DARK = {INK: "#e4e8ec", QUIET: "#a2abb5", GRID: "#353c45", PAPER: "#15191e"}
_DARK |= {"#00224e": "#2f6fd6", "#35569b": "#8fa6dd"}  # else efficiency below 50 % would look like the page
_DARK |= {BASELINE: "#8ee6ee"}
_RAMP = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779")
_DARK_RAMP = ("#3f7fa8", "#2f93a0", "#1fa88d", "#35b779", "#6ece58", "#b5de2b", "#fde725")
_OTHERS = {"#d55e00": "#ff9248", "#b0559a": "#e29bd0", "#a67c00": "#e6b84a", "#6b6b6b": "#b5b5b5", "#8a3b12": "#c98a5e"}
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")


class SeriesStyles:
    """The styles of all series of a page."""

    def __init__(self, points: Sequence[StudyPoint]) -> None:
        self.workloads = workloads_in_order(points)
        self.variants = list(dict.fromkeys(point.variant for point in points))
        family = len({point.workload for point in points if point.request.model.place_in_family})
        others = len(self.workloads) - family
        ramp = dict(zip(_spread(_RAMP, family), _spread(_DARK_RAMP, family), strict=True))
        self.colours = [*ramp, *islice(cycle(_OTHERS), others)]
        self.shapes = list(islice(cycle(_SHAPES), len(self.workloads)))
        self.dark = _DARK | ramp | _OTHERS

    @property
    def dashed(self) -> bool:
        """Whether variants are told apart by their dash; where there are more of them, each has panels of its own."""
        return 1 < len(self.variants) <= len(DASHES)

    def panel(self, point: StudyPoint) -> str:
        """The panel of a scaling chart that a point is in."""
        return point.batch if self.dashed or not point.variant else f"{point.batch}, {point.variant}"

    def panels(self, points: Sequence[StudyPoint]) -> list[str]:
        """All panels, the smallest batch first."""
        order = batches_in_order(points)
        return list(dict.fromkeys(map(self.panel, sorted(points, key=lambda point: order.index(point.batch)))))

    def in_order(self, points: Sequence[StudyPoint]) -> list[StudyPoint]:
        """The points by workload, batch, variant and GPUs."""
        order = batches_in_order(points)

        def place(point: StudyPoint) -> tuple[int, ...]:
            workload, variant = self.workloads.index(point.workload), self.variants.index(point.variant)
            return workload, order.index(point.batch), variant, point.gpus

        return sorted(points, key=place)


def family_colours(count: int) -> list[str]:
    """Colours of the members of an ordered family, as of ResNet/x by x."""
    return _spread(_RAMP, count)


def _spread(ramp: Sequence[str], count: int) -> list[str]:
    """`count` colours over a ramp from end to end, mixed where it has too few."""
    places = [step * (len(ramp) - 1) / max(1, count - 1) for step in range(count)]
    return [_mixed(ramp[math.floor(place)], ramp[math.ceil(place)], place % 1) for place in places]


def _mixed(first: str, second: str, share: float) -> str:
    channels = [(int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)
