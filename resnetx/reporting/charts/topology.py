"""Drawings of systems: the link graph, the rings of a collective over it, and what steering does to links and traffic.

Their words are 12 px on a page of 800 px and on a phone; what is too large for either scrolls. An NVLink of one or two
lanes is one or two lines, a wider one a thick line; a link with more lanes one way than the other is an arrow each way,
with its number of lanes. Rings keep to the right of the way they go
(Li et al. 2019, Fig. 18, draw them over the links too), so that a ring and its reverse lie side by side.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from resnetx.interconnect.systems.changed_systems import direct_links
from resnetx.interconnect.systems.system import Component, Link, System
from resnetx.record.topologies import Steering
from resnetx.reporting.charts.figure import PAPER, Figure
from resnetx.reporting.charts.grammar import Axis, Mark, Plot, Ramp, Scale, figure, squares
from resnetx.table import Cell, Record, Table, table_of_records
from resnetx.units import in_GBps

# ---- topology layout ------------------------------------------------------------------------------------------------
# Boxes for components, straight lines or arcs for links. Positions are those of the file, y upward, else rows by kind.
# NVSwitches are bars along what they join; a link that would run through another component is an arc.

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
    return {component.name: _box(component, system, at) for component in system.all_components}


def route(link: Link, among: Mapping[str, Box]) -> DrawnLink:
    """The way of a link that keeps clear of the other components, or straight through them if none does."""
    first, second = among[link.a], among[link.b]
    start, end = first.towards(second), second.towards(first)
    others = [box for name, box in among.items() if name not in (link.a, link.b)]
    bend = next((bend for bend in BENDS if _is_clear(_curve(start, end, bend, steps=ARC_STEPS), others)), 0)
    return DrawnLink(start, end, bend)


def _places(system: System) -> dict[str, Position]:
    """The file's places; if it puts two components at one, rows by kind as wide as the row of GPUs."""
    components = system.all_components
    if len({(component.x, component.y) for component in components}) == len(components):
        return {component.name: (component.x, component.y) for component in components}
    rows: dict[float, list[str]] = defaultdict(list)
    for component in components:
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


# ---- drawn ----------------------------------------------------------------------------------------------------------

STRAND_GAP = 0.06  # between parallel lines
MARGIN = 0.15
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
    drawn = boxes(system)
    links = system.all_links
    routes = {link: route(link, drawn) for link in links}
    legends = _legends(list(routes))
    faint = {"opacity": 0.4 if rings else 1.0}
    marks = [
        Mark("path", "datum.kind == 'link'", scale=Scale("colour", dict(legends.values())), width="width", look=faint)
    ]
    rows = list(_link_rows(routes, legends))
    if system.uneven:
        uneven = [(link, way) for link, way in routes.items() if link.uneven]
        lanes = [row for link, way in uneven for row in _lane_rows(link, way, {}, legends[link.wire.about][1])]
        rows += [row for row in lanes if row["kind"] == "lanes" or not rings]
        marks += _lane_marks(faint)
    if rings:
        rows += _ring_rows(rings, routes)
        names = [walk.name for walk in rings]
        shades = {name: RING_COLOURS[number % len(RING_COLOURS)] for number, name in enumerate(names)}
        marks.append(Mark("path", "datum.kind == 'ring'", scale=Scale("colour", shades), look={"strokeWidth": 2.4}))
        marks.append(Mark("heads", "datum.kind == 'ring head'", scale=Scale("fill", {}), look={"size": 75}))
    active = {name for walk in rings for name in walk.components} or drawn.keys()
    rows += _box_rows(drawn.values(), active)
    title = f"{system.name}: {system.about}"
    return figure(
        name or system.name,
        title,
        told or "Numbers: GPUs. A line for each link, two for two NVLinks; thick: more.",
        _table(rows),
        _plane(drawn.values(), [*marks, *BOXES], subtitle=told),
        _links(links),
    )


# A box and its word, which both are of each component.
BOXES = (
    Mark("boxes", "datum.kind == 'box'", scale=Scale("fill", {}),
         look={"cornerRadius": 5, "stroke": PAPER, "strokeWidth": 1.5}),
    Mark("words", "datum.kind == 'word'", "label", colour="white", look={"fontWeight": 600}),
)  # fmt: skip


def _plane(drawn: Collection[Box], marks: Sequence[Mark], **more: Any) -> Plot:
    """Marks on the part of the plane that boxes take."""
    ends = [[(box.at[way] - box.half[way], box.at[way] + box.half[way]) for box in drawn] for way in (0, 1)]
    domains = [(min(low for low, _ in both) - MARGIN, max(high for _, high in both) + MARGIN) for both in ends]
    x, y = (Axis(column, "", "plane", domain=domain) for column, domain in zip("xy", domains, strict=True))
    return Plot(x=x, y=y, marks=marks, chart_only=("description",), **more)


_COLUMNS = ("kind", "x", "y", "x2", "y2", "line", "order", "width", "angle", "colour", "fill", "label", "description")


def _table(rows: Iterable[Record], *more: str) -> Table:
    columns = [*_COLUMNS, *more]
    return Table(columns, [[row.get(column) for column in columns] for row in rows])


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


def first_node(system: System) -> System:
    """The first of several nodes, without what joins them: enough to draw of many alike."""
    if system.port is None:
        return system
    components, links = tuple(system.in_node(0)), tuple(system.links_in(0))
    return msgspec.structs.replace(system, components=components, links=links, port=None)


def _rows_of(points: Sequence[Position], **cells: Cell) -> list[Record]:
    """The points of one line, each with the cells that all of them have."""
    return [{"x": round(x, 4), "y": round(y, 4), "order": order, **cells} for order, (x, y) in enumerate(points)]


def _head(line: Sequence[Position], kind: str, colour: str) -> Record:
    """An arrow head a little past the middle of a line; its angle is clockwise from upward."""
    place = int(0.62 * (len(line) - 1))
    (x0, y0), (x1, y1) = line[place : place + 2]
    x, y = _along(line, 0.62)
    return {"kind": kind, "x": x, "y": y, "angle": 90 - math.degrees(math.atan2(y1 - y0, x1 - x0)), "fill": colour}


def _along(line: Sequence[Position], share: float) -> Position:
    """The point that is this share of the way along a line of equal steps."""
    place = share * (len(line) - 1)
    (x0, y0), (x1, y1) = line[int(place) : int(place) + 2]
    rest = place - int(place)
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)


def _link_rows(routes: Mapping[Link, DrawnLink], legends: Mapping[str, tuple[str, str]]) -> Iterator[Record]:
    for number, (link, way) in enumerate(routes.items()):
        if link.uneven:
            continue  # drawn lane by lane
        strands = link.lanes if link.wire.family == "nvlink" and link.lanes <= 2 else 1
        for strand in range(strands):
            line = way.line((strand - (strands - 1) / 2) * STRAND_GAP)
            words = f"{link.a} to {link.b}: {link.wire.about}, {in_GBps(link.bandwidth_Bps)} each way"
            yield from _rows_of(
                line, kind="link", line=f"{number}.{strand}", width=_width(link), colour=legends[link.wire.about][0],
                description=words,
            )  # fmt: skip


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


def _ring_rows(rings: Sequence[Walk], routes: Mapping[Link, DrawnLink]) -> Iterator[Record]:
    between = {(link.a, link.b): (way, False) for link, way in routes.items()}
    between |= {(link.b, link.a): (way, True) for link, way in routes.items()}
    crowd = Counter(step for walk in rings for step in walk.steps)
    gap = min(1.3 * STRAND_GAP, 0.34 / max(crowd.values()))
    used: Counter[tuple[str, str]] = Counter()
    for number, walk in enumerate(rings):
        colour = RING_COLOURS[number % len(RING_COLOURS)]
        for place, step in enumerate(walk.steps):
            way, backward = between[step]
            line = way.line((used[step] + 0.5) * gap, backward)
            used[step] += 1
            words = f"{walk.name}: {' to '.join(step)}"
            yield from _rows_of(line, kind="ring", line=f"{walk.name}.{place}", colour=walk.name, description=words)
            yield _head(line, "ring head", colour)


def _box_rows(drawn: Iterable[Box], active: Collection[str]) -> Iterator[Record]:
    """The components; GPUs that take no part are pale."""
    for box in drawn:
        (x, y), (width, height), component = box.at, box.half, box.component
        idle = component.kind == "gpu" and component.name not in active
        fill = COMPONENT_COLOURS["idle" if idle else component.kind]
        yield {
            "kind": "box", "x": x - width, "x2": x + width, "y": y - height, "y2": y + height, "fill": fill,
            "description": f"{component.name} ({component.part_name})",
        }  # fmt: skip
        yield {"kind": "word", "x": x, "y": y, "label": box.label}


# Lanes drawn by their direction: an arrow for all lanes from one component to another, with their number on it.
#
# An arrow keeps to the right of its way, so that the opposite one lies beside it; the number stands near the sender.

GAP = 0.065  # from the middle between two components to an arrow
NUMBER_AT = 0.27  # of the way from the sender
DISC = 170  # pixels below a number


def _lane_rows(link: Link, way: DrawnLink, colours: Mapping[str, str], usual: str) -> Iterator[Record]:
    """An arrow as wide as it has lanes for each direction that has some, and its number."""
    for first, second, backward in ((link.a, link.b, False), (link.b, link.a, True)):
        if not (lanes := link.lanes_from(first)):
            continue
        name, line = f"{first} to {second}", way.line(GAP, backward)
        colour = colours.get(name, usual)
        words = f"{name}: {lanes}"
        yield from _rows_of(line, kind="lanes", line=name, width=1.2 + 0.8 * lanes, fill=colour, description=words)
        yield _head(line, "lane head", colour)
        x, y = _along(line, NUMBER_AT)
        yield {"kind": "number", "x": x, "y": y, "label": f"{lanes}", "fill": colour, "width": DISC}


def _lane_marks(look: Mapping[str, Any]) -> list[Mark]:
    raw = Scale("fill", {})
    return [
        Mark("path", "datum.kind == 'lanes'", scale=raw, width="width", look=look),
        Mark("heads", "datum.kind == 'lane head'", scale=raw, look={"size": 70}),
        Mark("dots", "datum.kind == 'number'", colour=PAPER, width="width", look={"aria": False}),
        Mark("words", "datum.kind == 'number'", "label", scale=raw, look={"fontWeight": 700}),
    ]


# The links between GPUs before and after steering: an arrow for each direction, with its units. Colours tell what a
# direction gains or loses, in both drawings; grey ones stay as they are.

GAINS, LOSES, STAYS = "#0072b2", "#d55e00", "#6b7280"  # Okabe and Ito 2008, and a grey


def side_by_side(before: System, after: System) -> Figure:
    """Both systems, of GPUs and their direct links alone, at the same places; on a phone below each other."""
    units = _units(before), _units(after)
    ways = list(units[0] | units[1])
    colours = {}
    for way in ways:
        built, steered = (of.get(way, 0) for of in units)
        colours[way] = STAYS if built == steered else GAINS if steered > built else LOSES
    rows: list[Record] = []
    for panel, system in ((f"before: {before.name}", before), (f"after: {after.name}", after)):
        alone = msgspec.structs.replace(system, components=tuple(system.gpus), links=tuple(direct_links(system)))
        drawn = boxes(alone)
        lanes = [row for link in alone.links for row in _lane_rows(link, route(link, drawn), colours, STAYS)]
        rows += [{**row, "panel": panel} for row in (*lanes, *_box_rows(drawn.values(), drawn.keys()))]
    return figure(
        "graphs",
        after.about,
        "Direct links between GPUs. An arrow: units in this direction; blue: more than before, orange: fewer, "
        "grey: as many.",
        _table(rows, "panel"),
        _plane(drawn.values(), [*_lane_marks({}), *BOXES], panel="panel", columns=2),
        Table(["way", "units_before", "units_after"], [[way, *(of.get(way, 0) for of in units)] for way in ways]),
    )


def _units(system: System) -> dict[str, int]:
    """Units by direction: "gpu0 to gpu3" -> 2."""
    ends = [(link, way) for link in direct_links(system) for way in ((link.a, link.b), (link.b, link.a))]
    return {f"{first} to {second}": lanes for link, (first, second) in ends if (lanes := link.lanes_from(first))}


# ---- the traffic of a steering, and its units before and after: Anderson et al. 2018, Fig. 2 (rows receive) ---------

_MOST_STEERED = 8  # GPUs, of which each square has its figure written in it
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
    rows: list[Record] = [
        {
            "panel": name,
            "target": f"{target}",
            "source": f"{source}",
            "value": value,
            "share": value / (1 if name == "traffic" else most or 1),
            "label": f"{round(value, 2):g}" if value >= _LEAST_WRITTEN else "",
        }
        for name, matrix in panels.items()
        for target, row in enumerate(matrix)
        for source, value in enumerate(row)
    ]
    gpus = [f"{gpu}" for gpu in range(len(made.traffic))]
    plot = squares(
        Axis("source", "from", "names", order=gpus),
        Axis("target", "to", "names", order=gpus),
        Ramp("share", "lightorange", "of the largest", (0.0, 1.0)),
        written=len(gpus) <= _MOST_STEERED,
        tips=("panel", "target", "source", "value"),
        panel="panel",
        columns=3,
        chart_only=("share", "label"),
    )
    return figure(
        "steering",
        f"{made.system}{saved}",
        "Rows receive, columns send. Traffic is over the largest of any pair; a unit is a lane one way.",
        table_of_records(rows),
        plot,
    )
