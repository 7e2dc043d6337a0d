"""The links between GPUs before and after steering, side by side: an arrow for each direction, with its units.

Colours tell what a direction gains or loses, in both drawings; grey ones stay as they are.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import altair as alt
import msgspec

from resnetx.interconnect.systems.rearranged import direct_links
from resnetx.interconnect.systems.system import System
from resnetx.record.steering import Steering
from resnetx.reporting.charts.figure import COLUMN, INK, PAPER, AnyChart, Figure, layered, styled
from resnetx.reporting.charts.topology import Frame, Lanes, box_layers, lane_layers
from resnetx.reporting.charts.topology_layout import boxes, route
from resnetx.reporting.table import table_of

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


# Figures of a steering: its traffic and the units before and after as heat maps (Anderson et al. 2018, Fig. 2).
#
# Rows receive and columns send, as in the paper.

_MOST_LABELLED = 10  # GPUs, of which each square has its figure written in it
_PANELS = 3
_LEAST_WRITTEN = 0.005  # less is written as nothing: two decimals fit a square


class SteeringMark(msgspec.Struct, frozen=True, kw_only=True):
    """One square of a panel."""

    panel: str
    target: int  # receives
    source: int  # sends
    value: float


def matrices(made: Steering) -> Figure:
    """The traffic, over its largest pair, and the bandwidth units before and after, side by side."""
    saved = "" if made.rtl_saved is None else f": total RTL {made.rtl_saved:.1%} less"
    panels: dict[str, Sequence[Sequence[float]]] = {
        "traffic": made.traffic,
        "units as built": made.connectivity_before,
        "units steered": made.connectivity_after,
    }
    marks = {name: list(_marks(name, matrix)) for name, matrix in panels.items()}
    most = max(each.value for name, found in marks.items() if name != "traffic" for each in found)
    charts = [
        _squares(name, 1 if name == "traffic" else most, len(made.traffic), place == 0)
        for place, name in enumerate(panels)
    ]
    tables = {name: [msgspec.to_builtins(each) for each in found] for name, found in marks.items()}
    return Figure(
        name="steering",
        title=f"{made.system}{saved}",
        caption="Rows receive, columns send. Traffic is over the largest of any pair; a unit is a lane one way.",
        table=table_of([each for found in marks.values() for each in found], SteeringMark),
        chart=styled(alt.hconcat(*charts, spacing=6).resolve_scale(color="independent"), tables),
    )


def _marks(name: str, matrix: Sequence[Sequence[float]]) -> Iterator[SteeringMark]:
    for target, row in enumerate(matrix):
        for source, value in enumerate(row):
            yield SteeringMark(panel=name, target=target, source=source, value=value)


def _squares(name: str, largest: float, gpus: int, leftmost: bool) -> AnyChart:
    side = (COLUMN - 30) // _PANELS
    base = alt.Chart(alt.NamedData(name), title=name).encode(
        x=alt.X("source:O", title="from", axis=alt.Axis(orient="bottom", labelAngle=0, grid=False)),
        y=alt.Y("target:O", title="to" if leftmost else None, axis=alt.Axis(grid=False, labels=leftmost)),
    )
    scale = alt.Scale(scheme="viridis", domain=[0, largest], nice=False)
    squares = base.mark_rect(stroke=PAPER, strokeWidth=0.5).encode(
        color=alt.Color("value:Q", scale=scale, legend=None),
        tooltip=[alt.Tooltip("target:O"), alt.Tooltip("source:O"), alt.Tooltip("value:Q", format=".3g")],
    )
    if gpus > _MOST_LABELLED:
        alone: alt.Chart = squares.properties(width=side, height=side)
        return alone
    ink = alt.condition(f"datum.value > {largest / 2}", alt.value(INK), alt.value(PAPER))
    shown = base.transform_filter(f"datum.value >= {_LEAST_WRITTEN}")
    words = shown.mark_text(fontSize=4.5).encode(text=alt.Text("value:Q", format=".2~f"), color=ink)
    return layered([squares, words], base).properties(width=side, height=side)
