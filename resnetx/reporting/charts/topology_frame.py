"""The plane of a drawing of a system, and lines and arrow heads on it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from resnetx.reporting.charts.topology_layout import Box, Position

WIDTH_PIXELS = 1200  # of a drawing at most
UNIT_PIXELS = 96  # of one unit of a system file's positions, where there is room
MARGIN = 0.15


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is drawn, and the pixels of one unit of it."""

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, drawn: Sequence[Box]) -> "Frame":
        return cls(
            min(box.at[0] - box.half[0] for box in drawn) - MARGIN,
            max(box.at[0] + box.half[0] for box in drawn) + MARGIN,
            min(box.at[1] - box.half[1] for box in drawn) - MARGIN,
            max(box.at[1] + box.half[1] for box in drawn) + MARGIN,
        )

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def pixels(self) -> float:
        return min(UNIT_PIXELS, WIDTH_PIXELS / self.width)

    def x(self, field: str = "x") -> alt.X:
        return alt.X(f"{field}:Q", axis=None, scale=alt.Scale(domain=(self.left, self.right), nice=False))

    def y(self, field: str = "y") -> alt.Y:
        return alt.Y(f"{field}:Q", axis=None, scale=alt.Scale(domain=(self.bottom, self.top), nice=False))


def head(line: Sequence[Position]) -> dict[str, float]:
    """An arrow head a little past the middle of a line; its angle is clockwise from upward."""
    place = 0.62 * (len(line) - 1)
    (x0, y0), (x1, y1) = line[int(place) : int(place) + 2]
    share = place - int(place)
    angle = 90 - math.degrees(math.atan2(y1 - y0, x1 - x0))
    return {"x": x0 + share * (x1 - x0), "y": y0 + share * (y1 - y0), "angle": angle}


def lines(rows: list[dict[str, Any]], frame: Frame, opacity: float = 1.0) -> alt.Chart:
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(opacity=opacity)
    encoded: alt.Chart = chart.encode(frame.x(), frame.y(), order=alt.Order("order:Q"), detail=alt.Detail("line:N"))
    return encoded


def rows_of(points: Sequence[Position], **fields: Any) -> list[dict[str, Any]]:
    """The points of one line as data, each with the fields that all of them have."""
    return [{"x": round(x, 4), "y": round(y, 4), "order": order, **fields} for order, (x, y) in enumerate(points)]
