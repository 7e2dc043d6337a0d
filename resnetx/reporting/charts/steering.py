"""The links between GPUs before and after steering, side by side: an arrow for each direction, with its units.

Colours tell what a direction gains or loses, in both drawings; grey ones stay as they are.
"""

import dataclasses
from collections.abc import Sequence

import altair as alt
import msgspec

from resnetx.interconnect.systems.rearranged import direct_links
from resnetx.interconnect.systems.system import System
from resnetx.record.steering import Steering
from resnetx.reporting.charts.figure import AnyChart, Figure, layered
from resnetx.reporting.charts.grammar import ON_RAMPS, Axis, Mark, Plot, Ramp, figure
from resnetx.reporting.charts.topology import Frame, Lanes, box_layers, lane_layers
from resnetx.reporting.charts.topology_layout import boxes, route
from resnetx.table import Cell, Table

GAINS, LOSES, STAYS = "#0072b2", "#d55e00", "#6b7280"  # Okabe and Ito 2008, and a grey


def side_by_side(before: System, after: System) -> AnyChart:
    """Both drawings, of GPUs and their direct links alone, at the same places."""
    units = _units(before), _units(after)
    colours = {way: _colour(units[0].get(way, 0), units[1].get(way, 0)) for way in units[0] | units[1]}
    subtitle = "an arrow: units in this direction; blue: more than before, orange: fewer than before, grey: as many"
    chart: AnyChart = (
        alt.hconcat(_panel(before, f"before: {before.name}", colours), _panel(after, f"after: {after.name}", colours))
        .properties(title=alt.TitleParams(after.about, subtitle=subtitle, anchor="start", offset=12))
        .configure(background="white", font="Helvetica, Arial, sans-serif", view=alt.ViewConfig(stroke=None))
    )
    return chart


def _units(system: System) -> dict[str, int]:
    """Units by direction: "gpu0 to gpu3" -> 2."""
    ends = [(link, way) for link in direct_links(system) for way in ((link.a, link.b), (link.b, link.a))]
    return {f"{first} to {second}": lanes for link, (first, second) in ends if (lanes := link.lanes_from(first))}


def _colour(before: int, after: int) -> str:
    return STAYS if before == after else GAINS if after > before else LOSES


def _panel(system: System, title: str, colours: dict[str, str]) -> AnyChart:
    """The GPUs of a system and what joins them directly."""
    alone = msgspec.structs.replace(system, components=tuple(system.gpus), links=tuple(direct_links(system)))
    drawn = boxes(alone)
    frame = Frame.around(list(drawn.values()))
    both = [Lanes.of(link, route(link, drawn), STAYS) for link in alone.links]
    arrows = [dataclasses.replace(lanes, colour=colours[lanes.name]) for ways in both for lanes in ways]
    layers = [*lane_layers(arrows, frame), *box_layers(list(drawn.values()), frame, drawn.keys())]
    return layered(layers).properties(title=title, width=frame.width * frame.pixels, height=frame.height * frame.pixels)


# Figures of a steering: its traffic and the units before and after as heat maps (Anderson et al. 2018, Fig. 2).
#
# Rows receive and columns send, as in the paper.

_MOST_LABELLED = 8  # GPUs, of which each square has its figure written in it
_LEAST_WRITTEN = 0.005  # less is written as nothing: two decimals fit a square


def matrices(made: Steering) -> Figure:
    """The traffic, over its largest pair, and the bandwidth units before and after, side by side."""
    saved = "" if made.rtl_saved is None else f": total RTL {made.rtl_saved:.1%} less"
    panels: dict[str, Sequence[Sequence[float]]] = {
        "traffic": made.traffic,
        "units as built": made.connectivity_before,
        "units steered": made.connectivity_after,
    }
    most = max(value for name, matrix in panels.items() if name != "traffic" for row in matrix for value in row)
    rows: list[list[Cell]] = [
        [name, f"{target}", f"{source}", value, value / (1 if name == "traffic" else most or 1), _written(value)]
        for name, matrix in panels.items()
        for target, row in enumerate(matrix)
        for source, value in enumerate(row)
    ]
    gpus = [f"{gpu}" for gpu in range(len(made.traffic))]
    words = [Mark("words", column="label", look={"color": ON_RAMPS})] if len(gpus) <= _MOST_LABELLED else []
    plot = Plot(
        x=Axis("source", "from", "names", order=gpus),
        y=Axis("target", "to", "names", order=gpus),
        marks=(Mark("squares"), *words),
        colour=Ramp("share", "lightorange", "of the largest", (0.0, 1.0)),
        tips=("panel", "target", "source", "value"),
        panel="panel",
        columns=3,
        chart_only=("share", "label"),
    )
    return figure(
        "steering",
        f"{made.system}{saved}",
        "Rows receive, columns send. Traffic is over the largest of any pair; a unit is a lane one way.",
        Table(["panel", "target", "source", "value", "share", "label"], rows),
        plot,
    )


def _written(value: float) -> str:
    return f"{value:.2g}" if value >= _LEAST_WRITTEN else ""
