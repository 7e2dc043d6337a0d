"""The figures of benches."""

import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import altair as alt
import msgspec

from resnetx.interconnect.collectives.measured import telling_times
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord
from resnetx.record.comparison import BenchComparison
from resnetx.record.copies import CopyCell, Direction, families
from resnetx.record.machine import Unit, how_many
from resnetx.record.topology import CollectiveCost, PairAtSize, PairCosts
from resnetx.reporting.charts.figure import (
    COLUMN,
    DASHES,
    INK,
    PAPER,
    SYSTEMS,
    AnyChart,
    Figure,
    layered,
    legend_of,
    log_ticks,
    styled,
)
from resnetx.reporting.table import table_of
from resnetx.units import size_text


def figures(records: Sequence[BenchRecord]) -> list[Figure]:
    """All figures of these benches: pairs first, bench by bench, then collectives."""
    found: list[Figure] = []
    for place, record in enumerate(records):
        of_bench = f"bench{place}_" if len(records) > 1 else ""
        for family, cells in families(record.cells).items():
            name = f"{of_bench}{family.slug}"
            found += matrices(cells, name, family.words) + pair_lines(cells, name, family.words)
    for collective in dict.fromkeys(point.collective for record in records for point in record.points):
        found += collective_lines(records, collective)
    return found


# What benches measured over size and over GPUs, with what their systems allow as a dashed line.
#
# Pair copies: time and bandwidth by class of pairs (Li et al. 2019, Fig. 8, 9, 15 to 17). Collectives: bus bandwidth
# and time over size by number of GPUs, and over GPUs (Fig. 10, 11 and 19 to 27); effective bandwidth, payload over time
# in GiB/s, as Tallent et al. 2017 draw it (Fig. 10 and 11).

GIB = 2**30
MOST_SIZES = 5  # lines over GPUs


class LineMark(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a line."""

    line: str  # a class of pairs, or "8 GPUs"
    kind: str  # "measured" or "expected"; of two benches, "A" or "B"
    gpus: int | None
    size_bytes: int
    time_us: float
    GBps: float  # of copies both directions summed; of collectives bus bandwidth
    GiBps: float  # payload over time


def pair_lines(cells: Sequence[CopyCell], name: str, what: str, kind: str = "measured") -> list[Figure]:
    """Time and bandwidth of copies over size, by the class that pairs have at the largest size."""
    sizes = sorted({cell.size_bytes for cell in cells})
    if len(sizes) < 2:
        return []
    classes = {(cell.source, cell.target): cell.pair_class for cell in cells if cell.size_bytes == sizes[-1]}
    found: dict[tuple[str, int], list[CopyCell]] = {}
    for cell in cells:
        line = classes.get((cell.source, cell.target)) or "not at the largest size"
        found.setdefault((line, cell.size_bytes), []).append(cell)
    marks = [mark for (line, _), same in sorted(found.items()) for mark in _pair_marks(line, same, kind)]
    caption = "Medians over the pairs of a class, which are those at the largest size. "
    caption += _DASHED if kind == "measured" else _BY_LINKS
    return [
        _over_size(marks, f"{name}_time_by_size", f"{what}: time by size", "time_us", "us", caption),
        _over_size(marks, f"{name}_bandwidth_by_size", f"{what}: bandwidth by size", "GBps", "GB/s", caption),
    ]


_DASHED = "Dashed: what the described system allows."
_BY_LINKS = "Predicted from the described links."


def _pair_marks(line: str, cells: Sequence[CopyCell], measured: str) -> Iterator[LineMark]:
    factor = 2 if cells[0].direction == "both-ways" else 1
    expected = [cell.expected_s for cell in cells if cell.expected_s is not None]
    times = {measured: [median(cell.time_s) for cell in cells], "expected": expected}
    for kind, found in times.items():
        if found:
            yield _mark(line, kind, None, cells[0].size_bytes, median(found), factor, factor)


def _mark(
    line: str, kind: str, gpus: int | None, size: int, time_s: float, bus_factor: float, payload: float = 1
) -> LineMark:
    return LineMark(
        line=line,
        kind=kind,
        gpus=gpus,
        size_bytes=size,
        time_us=time_s * 1e6,
        GBps=size * bus_factor / time_s / 1e9,
        GiBps=size * payload / time_s / GIB,
    )


# ---- collectives


def collective_lines(records: Sequence[BenchRecord], collective: str) -> list[Figure]:
    """A collective over size and, where it was measured on several numbers of GPUs, over these."""
    marks = [mark for record in records for mark in _collective_marks(record, collective)]
    if len({mark.size_bytes for mark in marks}) < 2:
        return []
    unit: Unit = "rank" if {record.unit for record in records} == {"rank"} else "GPU"
    caption = f"By number of {unit}s. " + _DASHED
    tallent = f"Payload over time, by number of {unit}s; after Tallent et al. 2017, Fig. 10 and 11. " + _DASHED
    of = f"{collective.capitalize()}"
    found = [
        _over_size(marks, f"{collective}_time_by_size", f"{of}: time by size", "time_us", "us", caption),
        _over_size(marks, f"{collective}_busbw_by_size", f"{of}: bus bandwidth by size", "GBps", "GB/s", caption),
        _over_size(marks, f"{collective}_effective", f"{of}: effective bandwidth", "GiBps", "GiB/s", tallent),
    ]
    if len({mark.gpus for mark in marks}) > 1:
        found.append(_over_gpus(marks, collective, unit))
    return found


def _collective_marks(record: BenchRecord, collective: str) -> Iterator[LineMark]:
    ranks = record.world_size or 0
    points = [point for point in record.points if point.collective == collective]
    factor = OPERATIONS[collective].bus_factor(ranks) if ranks else 1.0
    for point, times_s in zip(points, telling_times(points), strict=True):
        line = how_many(ranks, record.unit) if ranks else "GPUs not known"
        yield _mark(line, "measured", ranks, point.size_bytes, median(times_s), factor)
        if point.expected_s:
            yield _mark(line, "expected", ranks, point.size_bytes, point.expected_s, factor)


# ---- described systems


def described_collectives(costs: Sequence[CollectiveCost]) -> list[Figure]:
    """A collective as it is predicted, over size by number of GPUs, and over GPUs; systems by dash."""
    collective = costs[0].collective
    marks = [_cost_mark(cost, costs) for cost in costs]
    caption = f"{_BY_LINKS[:-1]}, by number of GPUs; after Li et al. 2019, Fig. 10, 11 and 19 to 27."
    of, found = collective.capitalize(), []
    if len({mark.size_bytes for mark in marks}) > 1:
        found = [
            _over_size(marks, f"{collective}_time_by_size", f"{of}: time by size", "time_us", "us", caption),
            _over_size(marks, f"{collective}_busbw_by_size", f"{of}: bus bandwidth by size", "GBps", "GB/s", caption),
        ]
    if len({mark.gpus for mark in marks}) > 1:
        found.append(_over_gpus(marks, collective, "GPU", caption, MOST_SIZES))
    return found


def _cost_mark(cost: CollectiveCost, costs: Sequence[CollectiveCost]) -> LineMark:
    ways = {
        name: getattr(cost, name)
        for name in ("system", "library", "transport", "launch_mode")
        if len({getattr(each, name) for each in costs}) > 1
    }
    gpus = len(cost.devices)
    kind = ", ".join(map(str, ways.values())) or cost.system
    bus = cost.busbw_Bps / cost.algbw_Bps
    return _mark(how_many(gpus, "GPU"), kind, gpus, cost.size_bytes, cost.time_s, bus)


def described_pairs(costs: Sequence[PairCosts]) -> list[Figure]:
    """Copies between the GPUs of a system as they are predicted: matrices, and curves by class of pairs."""
    system, transport = costs[0].system, costs[0].transport
    over = "" if transport == "auto" else f"_{transport}"
    found: list[Figure] = []
    directions: tuple[Direction, ...] = ("one-way", "both-ways")
    for direction in directions:
        cells = [_pair_cell(pair, cost.size_bytes, direction) for cost in costs for pair in cost.pairs]
        name, what = f"{system}{over}_{direction}", f"Copies on {system}, {direction.replace('-', ' ')}, predicted"
        found += matrices(cells, name.replace(" ", "-"), what, _BY_LINKS)
        found += pair_lines(cells, name.replace(" ", "-"), what, "predicted")
    return found


def _pair_cell(pair: PairAtSize, size_bytes: int, direction: Direction) -> CopyCell:
    """A pair as a bench has it, so that both are drawn alike."""
    time_s = pair.time_s if direction == "one-way" else 2 * size_bytes / pair.bidirectional_Bps
    return CopyCell(
        copy="device",
        source=pair.source,
        target=pair.target,
        size_bytes=size_bytes,
        direction=direction,
        endpoint="device",
        time_s=[time_s],
        wrong=None,
        path=pair.transport,
        evidence=[],
        expected_s=None,
        verdict="not judged",
        pair_class=pair.pair_class,
    )


# ---- two benches


def compared_lines(found: BenchComparison) -> list[Figure]:
    """Each collective, and each kind of copies by class, in both benches on one scale: payload over time."""
    lines: dict[str, list[LineMark]] = {}
    for ratio in (*found.collectives, *found.classes):
        line = ratio.pair_class or (f"{ratio.gpus} GPUs" if ratio.gpus else "GPUs not known")
        for kind, time_s, rate in (("A", ratio.a_s, ratio.a_GiBps), ("B", ratio.b_s, ratio.b_GiBps)):
            payload = rate * GIB * time_s / ratio.size_bytes
            mark = _mark(line, kind, ratio.gpus, ratio.size_bytes, time_s, payload, payload)
            lines.setdefault(ratio.what, []).append(mark)
    caption = f"A: {found.a.path}. B: {found.b.path}. Payload over time, as Tallent et al. 2017 draw it."
    return [
        _over_size(marks, "compared_" + re.sub(r"\W+", "_", what), f"{what}: A and B", "GiBps", "GiB/s", caption)
        for what, marks in lines.items()
        if len({mark.size_bytes for mark in marks}) > 1
    ]


# ---- drawn


def _over_size(marks: Sequence[LineMark], name: str, title: str, field: str, unit: str, caption: str) -> Figure:
    sizes = [mark.size_bytes for mark in marks]
    scale = alt.Scale(type="log", domain=[min(sizes), max(sizes)], nice=False)
    ticks = log_ticks([min(sizes), max(sizes)], 10)
    x = alt.X(
        "size_bytes:Q", title="bytes", scale=scale, axis=alt.Axis(values=ticks[:: max(1, len(ticks) // 6)], format="~s")
    )
    return _figure(marks, name, title, caption, x, _y(marks, field, unit, log=field == "time_us"))


def _y(marks: Sequence[LineMark], field: str, unit: str, log: bool) -> alt.Y:
    values = [float(getattr(mark, field)) for mark in marks]
    if not log:
        return alt.Y(f"{field}:Q", title=unit, axis=alt.Axis(tickCount=5))
    domain = [min(values) / 1.2, max(values) * 1.2]
    ticks = log_ticks(domain, 10)
    axis = alt.Axis(values=ticks[:: max(1, len(ticks) // 6)], format="~s")
    return alt.Y(f"{field}:Q", title=unit, scale=alt.Scale(type="log", domain=domain, nice=False), axis=axis)


def _over_gpus(
    marks: Sequence[LineMark], collective: str, unit: Unit, caption: str = "", most_sizes: int = 1
) -> Figure:
    """Bus bandwidth at the largest size that all have, and at smaller ones where more are drawn."""
    counts = sorted({mark.gpus for mark in marks if mark.gpus is not None})
    common = set.intersection(*({mark.size_bytes for mark in marks if mark.gpus == gpus} for gpus in counts))
    sizes = sorted(common or {max(mark.size_bytes for mark in marks)})
    sizes = sizes[:: -max(1, -(-len(sizes) // most_sizes))][:most_sizes]
    shown = [
        msgspec.structs.replace(mark, line=size_text(size))
        for size in sizes
        for mark in marks
        if mark.size_bytes == size
    ]
    x = alt.X("gpus:Q", title=f"{unit}s", axis=alt.Axis(values=counts, format="d"), scale=alt.Scale(zero=False))
    title = f"{collective.capitalize()}: bus bandwidth by {unit}s"
    caption = caption or f"At {size_text(sizes[0])}. {_DASHED}"
    return _figure(shown, f"{collective}_busbw_by_gpus", title, caption, x, _y(shown, "GBps", "GB/s", log=False))


def _figure(marks: Sequence[LineMark], name: str, title: str, caption: str, x: alt.X, y: alt.Y) -> Figure:
    lines = list(dict.fromkeys(mark.line for mark in marks))
    colours = [SYSTEMS[place % len(SYSTEMS)] for place in range(len(lines))]
    kinds = list(dict.fromkeys(mark.kind for mark in marks))
    chart = alt.Chart(alt.NamedData("lines")).properties(width=COLUMN - 45, height=120)
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=list(DASHES[: len(kinds)])),
        legend=_legend(kinds, orient="top", symbolSize=250, symbolStrokeColor=INK),
    )
    drawn: AnyChart = chart.mark_line(strokeWidth=1.1).encode(
        x=x,
        y=y,
        color=alt.Color("line:N", scale=alt.Scale(domain=lines, range=colours), legend=_legend(lines)),
        strokeDash=dash,
        tooltip=[
            "line:N",
            "kind:N",
            "size_bytes:Q",
            alt.Tooltip("time_us:Q", format=".4g"),
            alt.Tooltip("GBps:Q", format=".4g"),
        ],
    )
    records = [msgspec.to_builtins(mark) for mark in marks]
    return Figure(
        name=name,
        title=title,
        caption=caption,
        table=table_of(marks, LineMark),
        chart=styled(drawn, {"lines": records}),
    )


def _legend(labels: Sequence[str], **more: Any) -> alt.Legend:
    return legend_of(labels, **{"symbolType": "stroke", "symbolStrokeWidth": 1.5, **more})


# Heat maps of pair copies: a square for each ordered pair, rows send (Li et al. 2019, Fig. 5 to 13).

FEWEST_PLACES = 3  # of two, a table of four figures says as much
MEASURED = "The median of each pair."
_MOST_LABELLED = 10  # GPUs, of which each square has its figure written in it
_SMALL_BYTES = 4096  # up to here, the time of a copy is a latency


class PairMark(msgspec.Struct, frozen=True, kw_only=True):
    """One square."""

    source: str
    target: str
    size_bytes: int
    time_us: float
    GBps: float  # both directions summed
    pair_class: str
    verdict: str


def matrices(cells: Sequence[CopyCell], name: str, what: str, origin: str = MEASURED) -> list[Figure]:
    """Latency at the smallest size, and bandwidth at the largest one. `name`: of the files; `what`: the title."""
    cells = [cell for cell in cells if cell.source != cell.target]
    sizes = sorted({cell.size_bytes for cell in cells})
    if len(_places(cells)) < FEWEST_PLACES:
        return []
    found = []
    if sizes[0] <= _SMALL_BYTES:
        found.append(_matrix(cells, sizes[0], f"{name}_latency", what, origin, latency=True))
    if sizes[-1] > _SMALL_BYTES:
        found.append(_matrix(cells, sizes[-1], f"{name}_bandwidth", what, origin, latency=False))
    return found


def _places(cells: Sequence[CopyCell]) -> list[str]:
    ends = {end for cell in cells for end in (cell.source, cell.target)}
    numbers = sorted(end for end in ends if isinstance(end, int))
    return [*map(str, numbers), *sorted(end for end in ends if isinstance(end, str))]


def mark(cell: CopyCell) -> PairMark:
    """A cell as a square."""
    time_s = median(cell.time_s)
    moved = cell.size_bytes * (2 if cell.direction == "both-ways" else 1)
    return PairMark(
        source=str(cell.source),
        target=str(cell.target),
        size_bytes=cell.size_bytes,
        time_us=time_s * 1e6,
        GBps=moved / time_s / 1e9,
        pair_class=cell.pair_class or "",
        verdict=cell.verdict,
    )


def _matrix(cells: Sequence[CopyCell], size: int, name: str, what: str, origin: str, latency: bool) -> Figure:
    marks = [mark(cell) for cell in cells if cell.size_bytes == size]
    quantity, unit = ("latency", "us") if latency else ("bandwidth", "GB/s")
    title = f"{what}: {quantity} at {size_text(size)}"
    caption = f"Rows send, columns receive; {unit}. {origin} Copies within one GPU are left out."
    chart = styled(_squares(marks, _places(cells), "time_us" if latency else "GBps", unit), {"pairs": _records(marks)})
    return Figure(name=name, title=title, caption=caption, table=table_of(marks, PairMark), chart=chart)


def _records(marks: Sequence[PairMark]) -> list[dict[str, str | int | float | bool | None]]:
    return [msgspec.to_builtins(each) for each in marks]


def _squares(marks: Sequence[PairMark], places: Sequence[str], field: str, unit: str) -> AnyChart:
    values = [float(getattr(each, field)) for each in marks]
    side = COLUMN - 75
    base = alt.Chart(alt.NamedData("pairs")).encode(
        x=alt.X("target:N", sort=list(places), title="to", axis=alt.Axis(orient="top", labelAngle=0, grid=False)),
        y=alt.Y("source:N", sort=list(places), title="from", axis=alt.Axis(grid=False)),
    )
    # Slow is dark in both: the eye is led to what may be wrong.
    scale = alt.Scale(scheme="viridis", reverse=field == "time_us", domain=[min(values), max(values)], nice=False)
    squares = base.mark_rect(stroke=PAPER, strokeWidth=0.5).encode(
        color=alt.Color(f"{field}:Q", scale=scale, legend=alt.Legend(title=unit, gradientLength=side - 20)),
        tooltip=[
            alt.Tooltip("source:N"),
            alt.Tooltip("target:N"),
            alt.Tooltip(f"{field}:Q", format=".4g"),
            alt.Tooltip("pair_class:N"),
            alt.Tooltip("verdict:N"),
        ],
    )
    if len(places) > _MOST_LABELLED:
        alone: alt.Chart = squares.properties(width=side, height=side)
        return alone
    middle = (min(values) + max(values)) / 2
    bright = f"datum.{field} {'<' if field == 'time_us' else '>'} {middle}"
    ink = alt.condition(bright, alt.value(INK), alt.value(PAPER))
    words = base.mark_text(fontSize=6).encode(text=alt.Text(f"{field}:Q", format=".3~r"), color=ink)
    return layered([squares, words], base).properties(width=side, height=side)
