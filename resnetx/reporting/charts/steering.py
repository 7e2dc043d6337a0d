"""The links between GPUs before and after steering, side by side: an arrow for each direction, with its units.

Colours tell what a direction gains or loses, in both drawings; grey ones stay as they are.
"""

import dataclasses

import altair as alt
import msgspec

from resnetx.interconnect.steered import direct_links
from resnetx.interconnect.system import System
from resnetx.reporting.charts.directed_lanes import Lanes, lane_layers
from resnetx.reporting.charts.figure import AnyChart, layered
from resnetx.reporting.charts.topology import box_layers
from resnetx.reporting.charts.topology_frame import Frame
from resnetx.reporting.charts.topology_layout import boxes, route

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
    arrows = [dataclasses.replace(each, colour=colours[each.name]) for ways in both for each in ways]
    layers = [*lane_layers(arrows, frame), *box_layers(list(drawn.values()), frame, drawn.keys())]
    return layered(layers).properties(title=title, width=frame.width * frame.pixels, height=frame.height * frame.pixels)
