"""Drawings of systems: the link graph, and the rings of a collective over it.

An NVLink of one or two lanes is one or two lines, a wider one a thick line; a link with more lanes one way than the
other is an arrow each way, with its number of lanes. Rings keep to the right of the way they go
(Li et al. 2019, Fig. 18, draw them over the links too), so that a ring and its reverse lie side by side.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import altair as alt
import msgspec

from resnetx.interconnect.system import Link, System
from resnetx.reporting.charts.directed_lanes import Lanes, lane_layers
from resnetx.reporting.charts.figure import layered
from resnetx.reporting.charts.topology_frame import UNIT_PIXELS, Frame, head, lines, rows_of
from resnetx.reporting.charts.topology_layout import Box, DrawnLink, boxes, route
from resnetx.units import si

STRAND_GAP = 0.06  # between parallel lines

COMPONENT_COLOURS = {
    "gpu": "#2f6b4f",
    "idle": "#a9c0b4",
    "switch": "#6b7280",
    "cpu": "#3a5a92",
    "nic": "#a0661c",
    "storage": "#806a58",
    "photonic": "#7d4a86",
}
# Of a family of links: the first kind in a drawing, the second one.
FAMILY_COLOURS = {
    "nvlink": ("#3fa37a", "#93cfb1"),
    "pcie": ("#9aa1ab", "#5f6670"),
    "smp": ("#8a6bb1", "#b9a5d3"),
    "network": ("#c98a2b", "#e3bd82"),
}
# Okabe and Ito 2008: told apart by colour-blind readers too.
RING_COLOURS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#999933"]


@dataclass(frozen=True)
class Walk:
    """A ring (or a chain, where it is not closed): the components that it passes, each linked to the next."""

    name: str
    components: Sequence[str]
    closed: bool = True

    @property
    def steps(self) -> list[tuple[str, str]]:
        return list(pairwise([*self.components, *self.components[: 1 if self.closed else 0]]))


def graph(system: System, rings: Sequence[Walk] = (), subtitle: Sequence[str] = ()) -> alt.LayerChart:
    """A drawing of a system, and of rings over it if there are any."""
    drawn = boxes(system)
    frame = Frame.around(list(drawn.values()))
    routes = {link: route(link, drawn) for link in system.links}
    layers = [_link_layer(routes, frame, faint=bool(rings))]
    if system.uneven:
        colours = {about: colour for about, (_, colour) in _legends(list(routes)).items()}
        uneven = [Lanes.of(link, way, colours[link.wire.about]) for link, way in routes.items() if link.uneven]
        layers += lane_layers([each for both in uneven for each in both], frame, faint=bool(rings))
    if rings:
        layers += _ring_layers(rings, routes, frame)
    active = {name for walk in rings for name in walk.components} or drawn.keys()
    layers += box_layers(list(drawn.values()), frame, active)
    title = alt.TitleParams(f"{system.name}: {system.about}", subtitle=list(subtitle), anchor="start", offset=12)
    chart: alt.LayerChart = (
        layered(layers)
        .resolve_scale(color="independent", strokeWidth="independent")
        .properties(title=title, width=frame.width * frame.pixels, height=frame.height * frame.pixels)
        .configure(background="white", font="Helvetica, Arial, sans-serif", view=alt.ViewConfig(stroke=None))
    )
    return chart


def first_node(system: System) -> System:
    """The first of several nodes, without what joins them: enough to draw of many alike."""
    if system.equal is None:
        return system
    components, links = tuple(system.equal.in_node(0)), tuple(system.equal.links_in(0))
    return msgspec.structs.replace(system, components=components, links=links, equal=None)


def _link_layer(routes: Mapping[Link, DrawnLink], frame: Frame, faint: bool) -> alt.Chart:
    legends = _legends(list(routes))
    rows = []
    for number, (link, way) in enumerate(routes.items()):
        if link.uneven:
            continue  # drawn lane by lane
        strands = link.lanes if link.wire.family == "nvlink" and link.lanes <= 2 else 1
        width = _width(link) * min(1, 2 * frame.pixels / UNIT_PIXELS)
        for strand in range(strands):
            line = way.line((strand - (strands - 1) / 2) * STRAND_GAP)
            rows += rows_of(line, line=f"{number}.{strand}", legend=legends[link.wire.about][0], width=width)
    names, colours = zip(*legends.values(), strict=True)
    colour = alt.Color(
        "legend:N",
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(
            title=None, orient="bottom", columns=1, symbolType="stroke", symbolStrokeWidth=3, labelLimit=900
        ),
    )
    width_of = alt.StrokeWidth("width:Q", scale=None)
    return lines(rows, frame, 0.4 if faint else 1.0).encode(color=colour, strokeWidth=width_of)


def _legends(links: Sequence[Link]) -> dict[str, tuple[str, str]]:
    """What the legend says of each kind of link, and its colour."""
    found: dict[str, tuple[str, str]] = {}
    shades: Counter[str] = Counter()
    for about in dict.fromkeys(link.wire.about for link in links):
        alike = [link for link in links if link.wire.about == about]
        wire = alike[0].wire
        lanes = sorted({1} if wire.family == "nvlink" else {link.lanes for link in alike}, reverse=True)
        rates = [
            f"{f'x{count} ' if wire.family == 'pcie' else f'{count} links ' if count > 1 else ''}"
            f"{si(count * wire.bandwidth_Bps.value, 'B/s')}"
            for count in lanes
        ]
        each = ", per link" if wire.family == "nvlink" else ""
        colours = FAMILY_COLOURS[wire.family]
        found[about] = (f"{about}: {', '.join(rates)} each way{each}", colours[min(shades[wire.family], 1)])
        shades[wire.family] += 1
    return found


def _width(link: Link) -> float:
    if link.wire.family == "nvlink" and link.lanes > 2:
        return min(9.0, 1.6 * math.sqrt(link.lanes))
    return {"nvlink": 2.2, "pcie": 1.3, "smp": 2.0, "network": 1.6}[link.wire.family]


def _ring_layers(rings: Sequence[Walk], routes: Mapping[Link, DrawnLink], frame: Frame) -> list[alt.Chart]:
    between = {(link.a, link.b): (way, False) for link, way in routes.items()}
    between |= {(link.b, link.a): (way, True) for link, way in routes.items()}
    crowd = Counter(step for walk in rings for step in walk.steps)
    gap = min(1.3 * STRAND_GAP, 0.34 / max(crowd.values()))
    used: Counter[tuple[str, str]] = Counter()
    rows, heads = [], []
    for walk in rings:
        for number, step in enumerate(walk.steps):
            way, backward = between[step]
            line = way.line((used[step] + 0.5) * gap, backward)
            used[step] += 1
            rows += rows_of(line, line=f"{walk.name}.{number}", ring=walk.name)
            heads.append({**head(line), "ring": walk.name})
    names = [walk.name for walk in rings]
    shades = alt.Scale(domain=names, range=[RING_COLOURS[number % len(RING_COLOURS)] for number in range(len(names))])
    legend = alt.Legend(title=None, orient="right", symbolType="stroke", symbolStrokeWidth=3, labelLimit=400)
    colour = alt.Color("ring:N", scale=shades, legend=legend)
    ways = lines(rows, frame).encode(color=colour, strokeWidth=alt.value(2.4))
    arrows = (
        alt.Chart(alt.InlineData(values=heads))
        .mark_point(shape="triangle", filled=True, size=75, opacity=1)
        .encode(frame.x(), frame.y(), alt.Angle("angle:Q", scale=None), alt.Color("ring:N", scale=shades, legend=None))
    )
    return [ways, arrows]


def box_layers(drawn: Sequence[Box], frame: Frame, active: Collection[str]) -> list[alt.Chart]:
    """The components; GPUs that take no part are pale."""
    rows = [
        {
            "x": box.at[0] - box.half[0],
            "x2": box.at[0] + box.half[0],
            "y": box.at[1] - box.half[1],
            "y2": box.at[1] + box.half[1],
            "middle": box.at[0],
            "height": box.at[1],
            "fill": COMPONENT_COLOURS[
                "idle" if box.component.kind == "gpu" and box.component.name not in active else box.component.kind
            ],
            "label": box.label,
        }
        for box in drawn
    ]
    chart = alt.Chart(alt.InlineData(values=rows))
    small = frame.pixels / UNIT_PIXELS
    return [
        chart.mark_rect(cornerRadius=5 * small, stroke="white", strokeWidth=1.5 * small).encode(
            frame.x(), frame.y(), alt.X2("x2:Q"), alt.Y2("y2:Q"), fill=alt.Fill("fill:N", scale=None)
        ),
        chart.mark_text(color="white", fontSize=max(6, 12 * small), fontWeight=600).encode(
            frame.x("middle"), frame.y("height"), text=alt.Text("label:N")
        ),
    ]
