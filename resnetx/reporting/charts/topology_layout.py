"""Where things are in the drawing of a system: boxes for components, straight lines or arcs for links.

Positions are those of the file, y upward; a file that gives none is laid out in rows by kind. NVSwitches are bars along
what they join. A link that would run through a component that it does not join is an arc.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from resnetx.interconnect.systems.system import Component, Link, System

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
