"""Drawings of systems: the link graph, the rings of a collective over it, and links before and after steering.

Their words are 12 px on a page of 800 px and on a phone; what is too large for either scrolls. An NVLink of one or two
lanes is one or two lines, a wider one a thick line; a link with more lanes one way than the other is an arrow each way,
with its number of lanes. Rings keep to the right of the way they go
(Li et al. 2019, Fig. 18, draw them over the links too), so that a ring and its reverse lie side by side.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import altair as alt
import msgspec

from resnetx.interconnect.systems.altered import direct_links
from resnetx.interconnect.systems.system import Component, Link, System
from resnetx.reporting.charts.figure import INK, PAGE_TEXT, PAPER, AnyChart, Figure, layered, styled
from resnetx.table import Cell, Table
from resnetx.units import in_GBps

# ---- topology layout ------------------------------------------------------------------------------------------------
# Where things are in the drawing of a system: boxes for components, straight lines or arcs for links.
#
# Positions are those of the file, y upward; a file that gives none is laid out in rows by kind. NVSwitches are bars
# along what they join. A link that would run through a component that it does not join is an arc.

Position = tuple[float, float]

HALF_SIZE = {
    "gpu": (0.24, 0.19),
    "switch": (0.3, 0.13),
    "cpu": (0.4, 0.19),
    "nic": (0.22, 0.11),
    "storage": (0.3, 0.12),
    "photonic": (0.42, 0.13),
}
ROWS = {"gpu": 0.0, "switch": 1.2, "cpu": 2.4, "nic": 3.4, "storage": 3.4, "photonic": -1.2}  # of a file without places
BAR_END = 0.24  # how far a bar goes on after the last line that reaches it
CLEARANCE = 0.03  # between a line and a component that it passes
# How far the middle of a link is bent aside, over its length: the first that is clear is taken.
BENDS = (0, 0.12, -0.12, 0.2, -0.2, 0.3, -0.3, 0.45, -0.45)
ARC_STEPS = 24


@dataclass(frozen=True)
class Box:
    """A component as it is drawn: its middle, half of its width and height, and how far along its bar lines reach."""

    component: Component
    at: Position
    half: Position
    reach: float
    label: str

    def towards(self, other: "Box") -> Position:
        """Where a line to another box starts: on a bar as near to it as can be, else in the middle."""
        return (min(max(other.at[0], self.at[0] - self.reach), self.at[0] + self.reach), self.at[1])

    def holds(self, point: Position) -> bool:
        (x, y), (width, height) = self.at, self.half
        return abs(point[0] - x) < width + CLEARANCE and abs(point[1] - y) < height + CLEARANCE


@dataclass(frozen=True)
class DrawnLink:
    """A link as it is drawn: from its first component to its second, along a straight line or an arc."""

    start: Position
    end: Position
    bend: float

    def line(self, offset: float = 0.0, backward: bool = False) -> list[Position]:
        """Points along it, moved `offset` to the right of the way."""
        start, end, bend = (self.end, self.start, -self.bend) if backward else (self.start, self.end, self.bend)
        return _curve(start, end, bend, offset, steps=ARC_STEPS if bend else 1)


def boxes(system: System) -> dict[str, Box]:
    """The box of every component, by its name."""
    at = _places(system)
    return {component.name: _box(component, system, at) for component in system.components}


def route(link: Link, among: Mapping[str, Box]) -> DrawnLink:
    """The way of a link that keeps clear of the other components, or straight through them if none does."""
    first, second = among[link.a], among[link.b]
    start, end = first.towards(second), second.towards(first)
    others = [box for name, box in among.items() if name not in (link.a, link.b)]
    bend = next((bend for bend in BENDS if _is_clear(_curve(start, end, bend, steps=ARC_STEPS), others)), 0)
    return DrawnLink(start, end, bend)


def _places(system: System) -> dict[str, Position]:
    """The file's places; if it puts two components at one, rows by kind as wide as the row of GPUs."""
    if len({(component.x, component.y) for component in system.components}) == len(system.components):
        return {component.name: (component.x, component.y) for component in system.components}
    rows: dict[float, list[str]] = defaultdict(list)
    for component in system.components:
        below = component.kind == "switch" and _nvlink_neighbours(component, system)
        rows[-1.2 if below else ROWS[component.kind]].append(component.name)
    width = max(map(len, rows.values()))
    return {
        name: ((index + 0.5) * width / len(row), height)
        for height, row in rows.items()
        for index, name in enumerate(row)
    }


def _box(component: Component, system: System, at: Mapping[str, Position]) -> Box:
    half, reach = HALF_SIZE[component.kind], 0.0
    if component.kind == "switch" and (joined := _nvlink_neighbours(component, system)):
        reach = max(abs(at[name][0] - at[component.name][0]) for name in joined)
        half = (max(half[0], reach + BAR_END), half[1])
    return Box(component, at[component.name], half, reach, _label(component, system))


def _nvlink_neighbours(component: Component, system: System) -> list[str]:
    """What has NVLink to a switch, other switches apart."""
    near = [name for link, name in system.neighbours[component.name] if link.wire.family == "nvlink"]
    return [name for name in near if system.component(name).kind != "switch"]


def _label(component: Component, system: System) -> str:
    """What its box says: of a GPU its id, of a CPU its number, else what kind of part it is."""
    if component.kind == "gpu":
        return str(system.gpus.index(component))
    if component.kind == "switch":
        families = {link.wire.family for link, _ in system.neighbours[component.name]}
        return "network" if "network" in families else "NVSwitch" if "nvlink" in families else "PCIe"
    number = component.name.rpartition(".")[2].lstrip("abcdefghijklmnopqrstuvwxyz_-")
    return {"cpu": f"CPU {number}".strip(), "nic": "NIC", "storage": "disk", "photonic": "photonic"}[component.kind]


def _is_clear(points: Sequence[Position], others: Collection[Box]) -> bool:
    return not any(box.holds(point) for point in points for box in others)


def _curve(start: Position, end: Position, bend: float, offset: float = 0.0, *, steps: int) -> list[Position]:
    """Points from start to end, `bend` lengths to the left at the middle, and all of them `offset` to the right."""
    (x0, y0), (x1, y1) = start, end
    length = math.dist(start, end) or 1.0
    right = ((y1 - y0) / length, -(x1 - x0) / length)
    points = []
    for step in range(steps + 1):
        t = step / steps
        aside = offset - 4 * bend * length * t * (1 - t)
        points.append((x0 + t * (x1 - x0) + aside * right[0], y0 + t * (y1 - y0) + aside * right[1]))
    return points


# ---- topology -------------------------------------------------------------------------------------------------------

# The plane of a drawing of a system, and lines and arrow heads on it.

PAGE_PIXELS, PHONE_PIXELS = 780, 345  # of a drawing, where its words leave it so narrow
UNIT_PIXELS = 96  # of one unit of a system file's positions, where there is room
LEAST_UNIT_PIXELS = 54  # of one, into whose boxes words of 12 px fit
MARGIN = 0.15


@dataclass(frozen=True)
class Frame:
    """The part of the plane that is drawn, and the pixels of one unit of it."""

    left: float
    right: float
    bottom: float
    top: float
    room: float  # pixels that there are for it

    @classmethod
    def around(cls, drawn: Sequence[Box], room: float = PAGE_PIXELS) -> "Frame":
        return cls(
            min(box.at[0] - box.half[0] for box in drawn) - MARGIN,
            max(box.at[0] + box.half[0] for box in drawn) + MARGIN,
            min(box.at[1] - box.half[1] for box in drawn) - MARGIN,
            max(box.at[1] + box.half[1] for box in drawn) + MARGIN,
            room,
        )

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def pixels(self) -> float:
        return min(UNIT_PIXELS, max(LEAST_UNIT_PIXELS, self.room / self.width))

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
    encoded: alt.Chart = chart.encode(
        frame.x(),
        frame.y(),
        order=alt.Order("order:Q"),
        detail=alt.Detail("line:N"),
        description=alt.Description("description:N"),
    )
    return encoded


def rows_of(points: Sequence[Position], **fields: Any) -> list[dict[str, Any]]:
    """The points of one line as data, each with the fields that all of them have."""
    return [{"x": round(x, 4), "y": round(y, 4), "order": order, **fields} for order, (x, y) in enumerate(points)]


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


def graph(system: System, rings: Sequence[Walk] = (), told: str = "", name: str = "") -> Figure:
    """A system, and rings over it if there are any; its table has every link. `told`: what its caption says of them."""

    def drawn(room: float) -> AnyChart:
        return _titled(_graph(system, rings, room), room)

    page = drawn(PAGE_PIXELS)
    return Figure(
        name=name or system.name,
        title=f"{system.name}: {system.about}",
        caption=told or "A line for each link, two for two NVLinks; thick: more.",
        table=_links(system.links),
        chart=_titled(_graph(system, rings, PAGE_PIXELS), PAGE_PIXELS, f"{system.name}: {system.about}", told),
        wide=page,
        narrow=drawn(PHONE_PIXELS),
    )


def _titled(chart: AnyChart, room: float, title: str = "", subtitle: str = "") -> AnyChart:
    """A drawing in the style of figures, whose legends are as wide as its room at most."""
    drawn = styled(chart, {}, PAGE_TEXT)
    drawn.datasets = alt.Undefined  # each layer has its own data
    drawn.config.legend.labelLimit = room - 30
    drawn.config.view = alt.ViewConfig(stroke=None)
    if title:
        size = PAGE_TEXT + 1
        drawn.title = alt.Title(title, subtitle=subtitle, anchor="start", offset=12, fontSize=size, subtitleFontSize=12)
        drawn.config.title = alt.TitleConfig(color=INK, subtitleColor=INK, limit=room)
    return drawn


def _links(links: Sequence[Link]) -> Table:
    """Each link with its lanes and what it carries each way."""
    columns = ["from", "to", "kind", "lanes", "GBps", "lanes_back", "GBps_back"]
    rows: list[list[Cell]] = [
        [link.a, link.b, link.wire.about]
        + [
            value
            for end in (link.a, link.b)
            for value in (link.lanes_from(end), link.lanes_from(end) * link.wire.bandwidth_Bps.value / 1e9)
        ]
        for link in links
    ]
    return Table(columns, rows)


def _graph(system: System, rings: Sequence[Walk], room: float) -> alt.LayerChart:
    drawn = boxes(system)
    frame = Frame.around(list(drawn.values()), room)
    routes = {link: route(link, drawn) for link in system.links}
    layers = [_link_layer(routes, frame, faint=bool(rings))]
    if system.uneven:
        colours = {about: colour for about, (_, colour) in _legends(list(routes)).items()}
        uneven = [Lanes.of(link, way, colours[link.wire.about]) for link, way in routes.items() if link.uneven]
        layers += lane_layers([lanes for both in uneven for lanes in both], frame, faint=bool(rings))
    if rings:
        layers += _ring_layers(rings, routes, frame)
    active = {name for walk in rings for name in walk.components} or drawn.keys()
    layers += box_layers(list(drawn.values()), frame, active)
    chart: alt.LayerChart = (
        layered(layers)
        .resolve_scale(color="independent", strokeWidth="independent")
        .properties(width=frame.width * frame.pixels, height=frame.height * frame.pixels)
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
            words = f"{link.a} to {link.b}: {link.wire.about}, {in_GBps(link.bandwidth_Bps)} each way"
            legend = legends[link.wire.about][0]
            rows += rows_of(line, line=f"{number}.{strand}", legend=legend, width=width, description=words)
    names, colours = zip(*legends.values(), strict=True)
    colour = alt.Color(
        "legend:N",
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(
            title=None, orient="bottom", columns=1, symbolType="stroke", symbolStrokeWidth=3, symbolSize=250
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
            f"{in_GBps(count * wire.bandwidth_Bps.value)}"
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
            rows += rows_of(
                line, line=f"{walk.name}.{number}", ring=walk.name, description=f"{walk.name}: {' to '.join(step)}"
            )
            heads.append({**head(line), "ring": walk.name})
    names = [walk.name for walk in rings]
    shades = alt.Scale(domain=names, range=[RING_COLOURS[number % len(RING_COLOURS)] for number in range(len(names))])
    legend = alt.Legend(
        title=None, orient="bottom", columns=3, symbolType="stroke", symbolStrokeWidth=3, symbolSize=250
    )
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
            "description": f"{box.component.name} ({box.component.part_name})",
        }
        for box in drawn
    ]
    chart = alt.Chart(alt.InlineData(values=rows))
    small = frame.pixels / UNIT_PIXELS
    return [
        chart.mark_rect(cornerRadius=5 * small, stroke=PAPER, strokeWidth=1.5 * small).encode(
            frame.x(),
            frame.y(),
            alt.X2("x2:Q"),
            alt.Y2("y2:Q"),
            fill=alt.Fill("fill:N", scale=None),
            description=alt.Description("description:N"),
        ),
        chart.mark_text(color="white", fontSize=PAGE_TEXT, fontWeight=600, aria=False).encode(
            frame.x("middle"), frame.y("height"), text=alt.Text("label:N")
        ),
    ]


# Lanes drawn by their direction: an arrow for all lanes from one component to another, with their number on it.
#
# An arrow keeps to the right of its way, so that the opposite one lies beside it; the number stands near the sender.

GAP = 0.065  # from the middle between two components to an arrow
NUMBER_AT = 0.27  # of the way from the sender


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
        for arrow in arrows
        for row in rows_of(
            arrow.line,
            line=arrow.name,
            width=1.2 + 0.8 * arrow.count,
            colour=arrow.colour,
            description=f"{arrow.name}: {arrow.count}",
        )
    ]
    colour = alt.Color("colour:N", scale=None, legend=None)
    width = alt.StrokeWidth("width:Q", scale=None)
    drawn = lines(rows, frame, 0.4 if faint else 1.0).encode(color=colour, strokeWidth=width)
    if faint:
        return [drawn]
    heads = [{**head(arrow.line), "colour": arrow.colour} for arrow in arrows]
    numbers = [
        {"x": x, "y": y, "lanes": str(arrow.count), "colour": arrow.colour}
        for arrow in arrows
        for x, y in [_along(arrow.line, NUMBER_AT)]
    ]
    small = frame.pixels / UNIT_PIXELS
    labels = alt.Chart(alt.InlineData(values=numbers))
    return [
        drawn,
        alt.Chart(alt.InlineData(values=heads))
        .mark_point(shape="triangle", filled=True, size=70 * small, opacity=1)
        .encode(frame.x(), frame.y(), alt.Angle("angle:Q", scale=None), colour),
        labels.mark_circle(color=PAPER, size=170, opacity=1, aria=False).encode(frame.x(), frame.y()),
        labels.mark_text(fontSize=PAGE_TEXT, fontWeight=700, aria=False).encode(
            frame.x(), frame.y(), alt.Text("lanes:N"), colour
        ),
    ]


def _along(line: Sequence[Position], share: float) -> Position:
    """The point that is this share of the way along a line of equal steps."""
    place = share * (len(line) - 1)
    (x0, y0), (x1, y1) = line[int(place) : int(place) + 2]
    rest = place - int(place)
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)


# The links between GPUs before and after steering: an arrow for each direction, with its units. Colours tell what a
# direction gains or loses, in both drawings; grey ones stay as they are.

GAINS, LOSES, STAYS = "#0072b2", "#d55e00", "#6b7280"  # Okabe and Ito 2008, and a grey


def side_by_side(before: System, after: System) -> Figure:
    """Both systems, of GPUs and their direct links alone, at the same places; on a phone below each other."""
    units = _units(before), _units(after)
    ways = list(units[0] | units[1])
    colours = {way: _colour(units[0].get(way, 0), units[1].get(way, 0)) for way in ways}

    def drawn(room: float, columns: int) -> AnyChart:
        titled = {f"before: {before.name}": before, f"after: {after.name}": after}
        panels = [_panel(system, title, colours, room / columns) for title, system in titled.items()]
        return _titled(alt.concat(*panels, columns=columns), room / columns)

    page = drawn(PAGE_PIXELS, 2)
    return Figure(
        name="graphs",
        title=after.about,
        caption="Direct links between GPUs. An arrow: units in this direction; blue: more than before, orange: fewer, "
        "grey: as many.",
        table=Table(["way", "units_before", "units_after"], [[way, *(of.get(way, 0) for of in units)] for way in ways]),
        chart=page,
        wide=page,
        narrow=drawn(PHONE_PIXELS, 1),
    )


def _units(system: System) -> dict[str, int]:
    """Units by direction: "gpu0 to gpu3" -> 2."""
    ends = [(link, way) for link in direct_links(system) for way in ((link.a, link.b), (link.b, link.a))]
    return {f"{first} to {second}": lanes for link, (first, second) in ends if (lanes := link.lanes_from(first))}


def _colour(before: int, after: int) -> str:
    return STAYS if before == after else GAINS if after > before else LOSES


def _panel(system: System, title: str, colours: dict[str, str], room: float) -> AnyChart:
    """The GPUs of a system and what joins them directly."""
    alone = msgspec.structs.replace(system, components=tuple(system.gpus), links=tuple(direct_links(system)))
    drawn = boxes(alone)
    frame = Frame.around(list(drawn.values()), room)
    both = [Lanes.of(link, route(link, drawn), STAYS) for link in alone.links]
    arrows = [replace(lanes, colour=colours[lanes.name]) for ways in both for lanes in ways]
    layers = [*lane_layers(arrows, frame), *box_layers(list(drawn.values()), frame, drawn.keys())]
    return layered(layers).properties(title=title, width=frame.width * frame.pixels, height=frame.height * frame.pixels)
