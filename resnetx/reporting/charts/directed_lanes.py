"""Lanes drawn by their direction: an arrow for all lanes from one component to another, with their number on it.

An arrow keeps to the right of its way, so that the opposite one lies beside it; the number stands near the sender.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from resnetx.interconnect.system import Link
from resnetx.reporting.charts.topology_frame import UNIT_PIXELS, Frame, head, lines, rows_of
from resnetx.reporting.charts.topology_layout import DrawnLink, Position

GAP = 0.065  # from the middle between two components to an arrow
NUMBER_AT = 0.27  # of the way from the sender
NUMBER_PIXELS = 11  # high


@dataclass(frozen=True)
class Lanes:
    """All lanes of a link in one direction."""

    name: str  # "gpu0 to gpu3"
    line: Sequence[Position]
    count: int
    colour: str

    @classmethod
    def of(cls, link: Link, way: DrawnLink, colour: str) -> "list[Lanes]":
        """Both directions of a link, or the one that has lanes."""
        ends = ((link.a, link.b, False), (link.b, link.a, True))
        return [
            cls(f"{first} to {second}", way.line(GAP, backward), lanes, colour)
            for first, second, backward in ends
            if (lanes := link.lanes_from(first))
        ]


def lane_layers(arrows: Sequence[Lanes], frame: Frame, faint: bool = False) -> list[alt.Chart]:
    """Arrows as wide as they have lanes, and their numbers in front of all of them; `faint`: their lines alone."""
    rows = [
        row
        for each in arrows
        for row in rows_of(each.line, line=each.name, width=1.2 + 0.8 * each.count, colour=each.colour)
    ]
    colour = alt.Color("colour:N", scale=None, legend=None)
    width = alt.StrokeWidth("width:Q", scale=None)
    drawn = lines(rows, frame, 0.4 if faint else 1.0).encode(color=colour, strokeWidth=width)
    if faint:
        return [drawn]
    heads = [{**head(each.line), "colour": each.colour} for each in arrows]
    numbers = [
        {"x": x, "y": y, "lanes": str(each.count), "colour": each.colour}
        for each in arrows
        for x, y in [_along(each.line, NUMBER_AT)]
    ]
    small = frame.pixels / UNIT_PIXELS
    labels = alt.Chart(alt.InlineData(values=numbers))
    return [
        drawn,
        alt.Chart(alt.InlineData(values=heads))
        .mark_point(shape="triangle", filled=True, size=70 * small, opacity=1)
        .encode(frame.x(), frame.y(), alt.Angle("angle:Q", scale=None), colour),
        labels.mark_circle(color="white", size=150 * small, opacity=1).encode(frame.x(), frame.y()),
        labels.mark_text(fontSize=NUMBER_PIXELS * small, fontWeight=700).encode(
            frame.x(), frame.y(), alt.Text("lanes:N"), colour
        ),
    ]


def _along(line: Sequence[Position], share: float) -> Position:
    """The point that is this share of the way along a line of equal steps."""
    place = share * (len(line) - 1)
    (x0, y0), (x1, y1) = line[int(place) : int(place) + 2]
    rest = place - int(place)
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)
