"""The figures of benches, and of collectives and copies as they are predicted of systems."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from resnetx.copies import Direction
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.interconnect.pairs.classes import LATENCY_BYTES
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord
from resnetx.record.bench_record import CopyCell, families
from resnetx.record.comparisons import BenchComparison
from resnetx.record.topologies import CollectiveCost, GpuChoice, PairAtSize, PairCosts
from resnetx.reporting.bench_conclusions import collectives_of, copied_GBps, told_verdict, which
from resnetx.reporting.charts.figure import Figure
from resnetx.reporting.charts.grammar import (
    TINTS,
    Axis,
    Mark,
    Plot,
    Ramp,
    Scale,
    dash_looks,
    figure,
    line_looks,
    names_in,
    numbers_in,
    ratios,
    shape_looks,
    solid_and_hollow,
    solid_and_hollow_words,
    span,
    squares,
    system_looks,
)
from resnetx.reporting.compared_benches import ratio_lines
from resnetx.table import Record, table_of_records
from resnetx.units import Unit, how_many, size_text


def figures(records: Sequence[BenchRecord]) -> list[Figure]:
    """All figures of these benches: pairs first, bench by bench, then collectives; matrices last, where curves share
    their figures."""
    squares: list[Figure] = []
    copies, collectives = list[Curves](), list[Curves]()
    for index, record in enumerate(records):
        of_bench = f"bench{index}_" if len(records) > 1 else ""
        for family, cells in families(record.cells).items():
            name, among = f"{of_bench}{family.slug}", which(record, records)
            squares += matrices(cells, name, f"{family.words}{among}")
            copies += pair_lines(cells, name, family.words, among)
    names = collectives_of(records)
    for collective in names:
        collectives += collective_lines(records, collective)
    of_copies, of_collectives = _drawn(copies, "Copies"), _drawn(collectives, "Collectives")
    alone = {each.what: each.marks for each in collectives} if len(names) <= MOST_APART else {}
    of_collectives += _at_one_size(records, names)
    of_collectives += [
        _over_gpus(marks, what.lower(), _unit(records))
        for what, marks in alone.items()
        if len({mark["gpus"] for mark in marks}) > 1
    ]
    shared = len(of_copies) < len(copies)
    return [*of_copies, *of_collectives, *squares] if shared else [*squares, *of_copies, *of_collectives]


MEASURED = "measured"  # of marks: all others are what a model says
SIZE = Axis("size_bytes", "size", "log2", "bytes")

Line = Record  # one point of a line; what its columns are: `_mark`


@dataclass(frozen=True)
class Curves:
    """The lines of one figure, or of one panel where many figures would say the same of different things."""

    name: str  # of its file
    what: str
    marks: Sequence[Line]
    of: str  # what the figure shows of it: "time by size"
    column: str
    unit: str
    caption: str
    which: str = ""  # of several benches: ", 2 ranks"

    @property
    def title(self) -> str:
        """Of the figure of these alone."""
        return f"{_capital(self.what)}{self.which}: {self.of}"


MOST_APART = 2  # curves of one kind that have a figure each; more are panels of one
MOST_SPREAD = 10  # of rates on one axis from 0


def _drawn(curves: Sequence[Curves], together: str) -> list[Figure]:
    """A figure of each, or of each kind one with a panel for each thing."""
    if len({(each.what, each.which) for each in curves}) <= MOST_APART:
        return [_over_size(each.marks, each.name, each.title, each.column, each.unit, each.caption) for each in curves]
    found = []
    for of in dict.fromkeys(each.of for each in curves):
        same = [each for each in curves if each.of == of]
        marks = [{"panel": each.what, **mark, "line": _line_of(mark, each)} for each in same for mark in each.marks]
        name = f"{together.lower()}_{of.replace(' ', '_')}"
        found.append(_over_size(marks, name, f"{together}: {of}", same[0].column, same[0].unit, same[0].caption))
    return found


def _line_of(mark: Line, curves: Curves) -> str:
    """Its class, where the thing has several, and of which bench it is."""
    several = len({each["line"] for each in curves.marks}) > 1
    return f"{mark['line']}{curves.which}" if several else curves.which.removeprefix(", ") or "one class"


# What benches measured over size and over GPUs, with what their systems allow as a dashed line.
#
# Pair copies: time and bandwidth by class of pairs (Li et al. 2019, Fig. 8, 9, 15 to 17). Collectives: bus bandwidth
# and time over size by number of GPUs, and over GPUs (Fig. 10, 11 and 19 to 27); effective bandwidth, payload over time
# as Tallent et al. 2017 draw it (Fig. 10 and 11; theirs is in GiB/s).

MOST_SIZES = 5  # lines over GPUs


def pair_lines(cells: Sequence[CopyCell], name: str, what: str, which: str = "", kind: str = MEASURED) -> list[Curves]:
    """Time and bandwidth of copies over size, by the class that pairs have at the largest size."""
    sizes = sorted({cell.size_bytes for cell in cells})
    if len(sizes) < 2:
        return []
    classes = {(cell.source, cell.target): cell.pair_class for cell in cells if cell.size_bytes == sizes[-1]}
    found: dict[tuple[str, int], list[CopyCell]] = {}
    for cell in cells:
        line = classes.get((cell.source, cell.target)) or "not at the largest size"
        found.setdefault((line, cell.size_bytes), []).append(cell)
    # The fastest class first, so that slow ones have one colour in all figures.
    slow = {line: median(median(cell.time_s) for cell in own) for (line, at), own in found.items() if at == sizes[-1]}
    ordered = sorted(found.items(), key=lambda pair: (slow.get(pair[0][0], math.inf), pair[0]))
    marks = [mark for (line, _), same in ordered for mark in _pair_marks(line, same, kind)]
    caption = f"{_BY_CLASS} {_DASHED if kind == MEASURED else _BY_LINKS}"
    return [
        Curves(f"{name}_time_by_size", what, marks, "time by size", "time_ms", "ms", caption, which),
        Curves(f"{name}_bandwidth_by_size", what, marks, "bandwidth by size", "GBps", "GB/s", caption, which),
    ]


_BY_CLASS = "Medians over the pairs of a class, which are those at the largest size."
_DASHED = "Lines: what the described system allows."
_BAND = " Bands: how far off that may be."
_BY_LINKS = "Predicted from the described links."


def _pair_marks(line: str, cells: Sequence[CopyCell], measured: str) -> Iterator[Line]:
    factor = 2 if cells[0].direction == "both-ways" else 1
    yield _mark(line, measured, None, cells[0].size_bytes, [median(cell.time_s) for cell in cells], factor, factor)
    if expected := [cell.expected_s for cell in cells if cell.expected_s is not None]:
        known = all(cell.expected_interval_s for cell in cells if cell.expected_s is not None)
        ends = [cell.expected_interval_s for cell in cells if cell.expected_interval_s] if known else []
        ends_s = [median(end) for end in zip(*ends, strict=True)]
        yield _mark(line, "expected", None, cells[0].size_bytes, expected, factor, factor, ends_s=ends_s)


def _mark(
    line: str,
    kind: str,
    gpus: int | None,
    size: int,
    times_s: Sequence[float],
    bus_factor: float,
    payload: float = 1,
    of: str = "",
    ends_s: Sequence[float] | None = None,
) -> Line:
    """`line`: a class of pairs, or "8 GPUs"; `kind`: "measured", or how a model says it; `of`: which of several systems
    or benches. Ends are quartiles of the times, or those of what is expected; []: they are not known."""
    low_s, time_s, high_s = map(float, np.quantile(times_s, [0.25, 0.5, 0.75]))
    if ends_s is not None:
        low_s, high_s = ends_s or (math.nan, math.nan)
    rates = {"GBps": size * bus_factor, "payload_GBps": size * payload}
    mark: Line = {
        "line": line,
        "kind": kind,
        "of": of,
        "gpus": gpus,
        "size_bytes": size,
        "time_ms": time_s * 1e3,
        "GBps": size * bus_factor / time_s / 1e9,  # of copies both directions summed; of collectives bus bandwidth
        "payload_GBps": size * payload / time_s / 1e9,  # payload over time
        "time_ms_low": low_s * 1e3,
        "time_ms_high": high_s * 1e3,
        **{f"{name}_low": moved / high_s / 1e9 for name, moved in rates.items()},
        **{f"{name}_high": moved / low_s / 1e9 for name, moved in rates.items()},
    }
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in mark.items()}


def _whole(marks: Iterable[Line], column: str) -> list[int]:
    """The whole numbers of a column that are there, each once, ascending."""
    return sorted({value for mark in marks if isinstance(value := mark[column], int)})


# ---- collectives


def collective_lines(records: Sequence[BenchRecord], collective: str) -> list[Curves]:
    """A collective over size."""
    marks = _collective_marks(records, collective)
    if len(_whole(marks, "size_bytes")) < 2:
        return []
    caption = f"By number of {_unit(records)}s. {_DASHED}"
    tallent = f"Payload over time, by number of {_unit(records)}s; after Tallent et al. 2017, Fig. 10 and 11 (theirs: "
    drawn = [
        ("time_by_size", "time by size", "time_ms", "ms", caption),
        ("busbw_by_size", "bus bandwidth by size", "GBps", "GB/s", caption),
    ]
    if any(mark["GBps"] != mark["payload_GBps"] for mark in marks):
        drawn.append(("effective", "effective bandwidth", "payload_GBps", "GB/s", f"{tallent}GiB/s). {_DASHED}"))
    return [Curves(f"{collective}_{name}", collective.capitalize(), marks, *rest) for name, *rest in drawn]


def _at_one_size(records: Sequence[BenchRecord], collectives: Sequence[str]) -> list[Figure]:
    """The bus bandwidth of collectives that were timed at one size: a row for each."""
    marks = {name: _collective_marks(records, name) for name in collectives}
    alone = {name: own for name, own in marks.items() if len(_whole(own, "size_bytes")) == 1}
    sizes = {size for own in alone.values() for size in _whole(own, "size_bytes")}
    rows: list[Line] = []
    for name, own in alone.items():
        at = f" of {size_text(_whole(own, 'size_bytes')[0])}" * (len(sizes) > 1)
        rows += [{"what": f"{name.capitalize()}{at}", **mark} for mark in own if mark["kind"] == MEASURED]
    if len(rows) < 2:
        return []
    lines, sides = (names_in(rows, column) for column in ("line", "of"))
    plot = Plot(
        x=Axis("GBps", "bus bandwidth, GB/s", "log"),
        y=Axis("what", "", "names"),
        marks=(Mark("across", column="GBps"), *solid_and_hollow("of", sides, size=24)),
        colour=Scale("line", system_looks(lines)),
        shape=Scale("of", shape_looks(sides)) if len(sides) > 2 else None,
        tips=("line", "of", "size_bytes", "time_ms", "GBps"),
    )
    at = f" of {size_text(min(sizes))}" * (len(sizes) == 1)
    caption = f"Medians and quartiles.{solid_and_hollow_words(sides)}"
    rates = span(numbers_in(rows, "GBps"))
    return [figure("one-size", f"Collectives{at}: {rates} GB/s bus bandwidth", caption, table_of_records(rows), plot)]


def _unit(records: Sequence[BenchRecord]) -> Unit:
    return "rank" if {record.unit for record in records} == {"rank"} else "GPU"


def _collective_marks(records: Sequence[BenchRecord], collective: str) -> list[Line]:
    """Of each size and number of ranks, and of each of several systems or nodes, what all its benches measured."""
    times: dict[tuple[str, int, int, str], list[float]] = {}
    expected: dict[tuple[str, int, int, str], BenchPoint] = {}
    for record in records:
        ranks = record.world_size or 0
        points = [point for point in record.points if point.collective == collective]
        line = how_many(ranks, record.unit) if ranks else "GPUs not known"
        of = which(record, records, ranks=False).removeprefix(", ")
        for point, times_s in zip(points, telling_times(points), strict=True):
            times.setdefault((line, ranks, point.size_bytes, of), []).extend(times_s)
            if point.expected_s:
                expected[line, ranks, point.size_bytes, of] = point
    marks = []
    for (line, ranks, size, of), times_s in times.items():
        factor = OPERATIONS[collective].bus_factor(ranks) if ranks else 1.0
        marks.append(_mark(line, MEASURED, ranks, size, times_s, factor, of=of))
        described = expected.get((line, ranks, size, of))
        if described and described.expected_s:
            ends_s = described.expected_interval_s
            marks.append(_mark(line, "expected", ranks, size, [described.expected_s], factor, of=of, ends_s=ends_s))
    return marks


# ---- described systems


def described_collectives(costs: Sequence[CollectiveCost]) -> list[Figure]:
    """A collective as it is predicted, over size by number of GPUs, and over GPUs; systems by dash."""
    collective = costs[0].collective
    marks = [_cost_mark(cost, time_s, costs) for cost in costs if (time_s := cost.time_s)]
    caption = f"{_BY_LINKS[:-1]}, by number of GPUs; after Li et al. 2019, Fig. 10, 11 and 19 to 27."
    of, found = collective.capitalize(), []
    if len(_whole(marks, "size_bytes")) > 1:
        found = [
            _over_size(marks, f"{collective}_time_by_size", f"{of}: time by size", "time_ms", "ms", caption),
            _over_size(marks, f"{collective}_busbw_by_size", f"{of}: bus bandwidth by size", "GBps", "GB/s", caption),
        ]
    if len({mark["gpus"] for mark in marks}) > 1:
        found.append(_over_gpus(marks, collective, "GPU", caption, MOST_SIZES))
    return found


def _cost_mark(cost: CollectiveCost, time_s: float, costs: Sequence[CollectiveCost]) -> Line:
    ways = {
        name: getattr(cost, name)
        for name in ("system", "library", "transport", "launch_mode")
        if len({getattr(each, name) for each in costs}) > 1
    }
    gpus = len(cost.devices)
    kind = ", ".join(map(str, ways.values())) or cost.system
    bus = OPERATIONS[cost.collective].bus_factor(gpus)
    return _mark(how_many(gpus, "GPU"), "predicted", gpus, cost.size_bytes, [time_s], bus, of=kind)


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
        found += _drawn(pair_lines(cells, name.replace(" ", "-"), what, kind="predicted"), "Copies")
    return found


def described_choices(choices: Sequence[GpuChoice]) -> list[Figure]:
    """What a collective reaches on each choice of GPUs, the best first."""
    if len(choices) < 2:
        return []
    places = Counter[tuple[str, str, str]]()
    rows: list[Record] = []
    for choice in choices:
        key = choice.system, choice.collective, choice.library
        places[key] += 1
        cells: Record = {"place": places[key], "busbw_GBps": choice.busbw_Bps / 1e9, "of": ", ".join(key)}
        rows.append({**cells, "GPUs": " ".join(map(str, choice.devices)), "limited_by": choice.limiting_link})
    plot = Plot(
        x=Axis("place", "choice, the best first"),
        y=Axis("busbw_GBps", "bus bandwidth, GB/s"),
        marks=(Mark("dots", look={"size": 20}),),
        colour=Scale("of", line_looks(names_in(rows, "of"))),
        tips=("GPUs", "busbw_GBps", "limited_by"),
    )
    title = f"What a choice of {len(choices[0].devices)} GPUs reaches, predicted"
    return [figure("choices", title, f"At {size_text(choices[0].size_bytes)}.", table_of_records(rows), plot)]


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
    lines: dict[str, list[Line]] = {}
    for ratio in (*found.collectives, *found.classes):
        line = ratio.pair_class or (f"{ratio.gpus} ranks" if ratio.gpus else "GPUs not known")
        for kind, time_s, rate in (("A", ratio.a_s, ratio.a_GiBps), ("B", ratio.b_s, ratio.b_GiBps)):
            payload = rate * 2**30 * time_s / ratio.size_bytes
            mark = _mark(line, MEASURED, ratio.gpus, ratio.size_bytes, [time_s], payload, payload, of=kind)
            lines.setdefault(ratio.what, []).append(mark)
    caption = f"A: {found.a.path}. B: {found.b.path}. Payload over time, as Tallent et al. 2017 draw it."
    of_size = [
        _over_size(marks, "compared_" + re.sub(r"\W+", "_", what), f"{what}: A and B", "payload_GBps", "GB/s", caption)
        for what, marks in lines.items()
        if len(_whole(marks, "size_bytes")) > 1
    ]
    return [*_compared_ratios(found), *of_size]


def _compared_ratios(found: BenchComparison) -> list[Figure]:
    """How many times as fast B is in each operation, the furthest apart first."""
    lines = ratio_lines(found)[:MOST_COMPARED]
    if len(lines) < 2:
        return []
    of_sizes = [[ratio.ratio for ratio in line.ratios] for line in lines]
    rows: list[Line] = [
        {
            "operation": ", ".join(filter(None, (line.what, line.where))),
            "ratio": line.mean,
            "ratio_low": min(own),
            "ratio_high": max(own),
            "sizes": len(own),
        }
        for line, own in zip(lines, of_sizes, strict=True)
    ]
    plot = ratios(rows, "operation", "speed of B over that of A", tips=tuple(rows[0]))
    title = f"Speed of B over that of A: {span([line.mean for line in lines])}, the furthest apart first"
    caption = f"A: {found.a.path}. B: {found.b.path}. Geometric means over sizes; lines: the least and the most."
    return [figure("ratios", title, caption, table_of_records(rows), plot)]


MOST_COMPARED = 40  # operations of one figure


# ---- drawn


def _over_size(marks: Sequence[Line], name: str, title: str, field: str, unit: str, caption: str) -> Figure:
    largest = max(_whole(marks, "size_bytes"))
    rates = numbers_in((mark for mark in marks if mark["size_bytes"] == largest), field)
    apart = "panel" in marks[0] and max(rates) > MOST_SPREAD * min(rates)
    rate = Axis(field, unit, "log") if field == "time_ms" or apart else Axis(field, unit)
    if apart and field != "time_ms":
        caption = f"On a log scale, as panels reach {span(rates)} {unit}. {caption}"
    return _figure(marks, name, title, caption, SIZE, rate)


def _over_gpus(marks: Sequence[Line], collective: str, unit: Unit, caption: str = "", most_sizes: int = 1) -> Figure:
    """Bus bandwidth at the largest size that all have, and at smaller ones where more are drawn."""
    counts = _whole(marks, "gpus")
    of_count = [set(_whole([mark for mark in marks if mark["gpus"] == count], "size_bytes")) for count in counts]
    sizes = sorted(set.intersection(*of_count) or {max(_whole(marks, "size_bytes"))})
    sizes = sizes[:: -max(1, -(-len(sizes) // most_sizes))][:most_sizes]
    shown = [{**mark, "line": size_text(size)} for size in sizes for mark in marks if mark["size_bytes"] == size]
    title = f"{collective.capitalize()}: bus bandwidth by {unit}s"
    if len(sizes) == 1 and any(mark["of"] for mark in shown):  # systems in colours
        shown = [{**mark, "line": mark["of"], "of": mark["line"]} for mark in shown]
        title = f"{collective.capitalize()} of {size_text(sizes[0])}: bus bandwidth by {unit}s"
    caption = caption or f"At {size_text(sizes[0])}. {_DASHED}"
    across = Axis("gpus", f"{unit}s", ticks=counts, domain=(counts[0] - 0.2, counts[-1] + 0.2))
    return _figure(shown, f"{collective}_busbw_by_gpus", title, caption, across, Axis("GBps", "GB/s"))


def _figure(marks: Sequence[Line], name: str, title: str, caption: str, x: Axis, y: Axis) -> Figure:
    """What was measured as dots with quartiles, without a line between them; what is described as a line."""
    lines, sides = (names_in(marks, column) for column in ("line", "of"))
    measured = any(mark["kind"] == MEASURED for mark in marks)
    described = any(mark["kind"] != MEASURED for mark in marks)
    model, dots = (f"datum.kind {sign} '{MEASURED}'" for sign in ("!=", "=="))
    banded = any(mark["kind"] == "expected" and mark[f"{y.column}_low"] is not None for mark in marks)
    drawn = [Mark("band", model, along=x.column)] * banded
    drawn += [Mark("line", model, along=x.column), Mark("dots", model, look={"opacity": 0, "size": 60})] * described
    drawn += [Mark("whiskers", dots), *solid_and_hollow("of", sides, dots, size=16)] * measured
    plot = Plot(
        x=x,
        y=y,
        marks=drawn,
        colour=Scale("line", system_looks(lines)),
        dash=Scale("of", dash_looks(sides)) if described and len(sides) > 1 else None,
        shape=Scale("of", shape_looks(sides)) if measured and len(sides) > 2 else None,
        tips=("line", "of", "kind", "size_bytes", "time_ms", "GBps"),
        aside=("line", "of") if measured else (),
        panel="panel" if "panel" in marks[0] else "",
        columns=3,
    )
    caption = caption if any(mark["kind"] == "expected" for mark in marks) else caption.removesuffix(_DASHED).rstrip()
    if lines == ["one class"]:
        caption = caption.replace(_BY_CLASS, "Medians over the pairs, which are alike (one class).")
    caption += _BAND * banded
    if measured:
        caption += f" Whiskers: quartiles.{solid_and_hollow_words(sides)}"
    return figure(name, title, caption, table_of_records(marks), plot)


# Heat maps of pair copies: a square for each ordered pair, rows send (Li et al. 2019, Fig. 5 to 13).

FEWEST_PAIRS = 4  # of fewer, a table says as much
OF_PAIRS = "The median of each pair."
_MOST_LABELLED = 10  # GPUs, of which each square has its figure written in it


def matrices(cells: Sequence[CopyCell], name: str, what: str, origin: str = OF_PAIRS) -> list[Figure]:
    """Latency at the smallest size, and bandwidth at the largest one, where pairs differ in it. `name`: of the files;
    `what`: the title."""
    return [
        _matrix(same, f"{name}_{quantity}", what, origin, latency=quantity == "latency")
        for quantity, same in _squares(cells)
        if not _alike(same)
    ]


def all_alike(cells: Sequence[CopyCell]) -> Iterator[str]:
    """What the matrices would show of each kind of copies between pairs that are alike."""
    for family, own in families(cells).items():
        for quantity, same in _squares(own):
            if _alike(same):
                latency = quantity == "latency"
                values = [median(cell.time_s) * 1e6 if latency else _rate(cell) for cell in same]
                told = f"{quantity} {span(values)} {'us' if latency else 'GB/s'} at {size_text(same[0].size_bytes)}"
                yield f"{_capital(family.words)}: all pairs are alike, {told}"


def _squares(cells: Sequence[CopyCell]) -> Iterator[tuple[str, list[CopyCell]]]:
    cells = [cell for cell in cells if cell.source != cell.target]
    sizes = sorted({cell.size_bytes for cell in cells})
    if len({(cell.source, cell.target) for cell in cells}) < FEWEST_PAIRS:
        return
    if sizes[0] <= LATENCY_BYTES:
        yield "latency", [cell for cell in cells if cell.size_bytes == sizes[0]]
    if sizes[-1] > LATENCY_BYTES:
        yield "bandwidth", [cell for cell in cells if cell.size_bytes == sizes[-1]]


ALIKE = 1.05  # the longest time over the shortest of pairs that a sentence tells in place of a matrix


def _alike(cells: Sequence[CopyCell]) -> bool:
    times_s = [median(cell.time_s) for cell in cells]
    return max(times_s) <= ALIKE * min(times_s)


def _places(cells: Sequence[CopyCell]) -> list[str]:
    ends = {end for cell in cells for end in (cell.source, cell.target)}
    numbers = sorted(end for end in ends if isinstance(end, int))
    return [*map(str, numbers), *sorted(end for end in ends if isinstance(end, str))]


def _matrix(cells: Sequence[CopyCell], name: str, what: str, origin: str, latency: bool) -> Figure:
    """By class where pairs have some, else from 0: what differs by chance is not stretched over all colours."""
    size, slow = cells[0].size_bytes, max(map(_rate, cells)) < 1  # as in the lab: short figures fit into squares
    quantity, unit, column = ("latency", "us", "time_us") if latency else ("bandwidth", "GB/s", "GBps")
    if slow and not latency:
        unit, column = "MB/s", "MBps"
    rows = [_square(cell, column, "MBps" if column == "MBps" else "GBps") for cell in cells]
    places = _places(cells)
    of_class: dict[str, list[float]] = defaultdict(list)  # the fastest first, so that slow ones have one colour
    for cell in cells:
        of_class[cell.pair_class or ""].append(_rate(cell))
    classes = sorted(of_class, key=lambda name: -median(of_class[name]))
    by_class = 1 < len(classes) <= len(TINTS) and "" not in classes
    most = max(numbers_in(rows, column))
    # Slow is dark in both: the eye is led to what may be wrong.
    ramp = Ramp(column, "lightorange", unit, (0.0, most), reverse=not latency)
    plot = squares(
        Axis("target", "to", "names", order=places),
        Axis("source", "from", "names", order=places),
        Scale("pair_class", dict(zip(classes, TINTS, strict=False))) if by_class else ramp,
        written=len(places) <= _MOST_LABELLED,
        tips=("source", "target", column, "pair_class", "verdict"),
    )
    caption = f"Rows send, columns receive; {unit}. {origin} Copies within one GPU are left out."
    return figure(name, f"{_capital(what)}: {quantity} at {size_text(size)}", caption, table_of_records(rows), plot)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _rate(cell: CopyCell) -> float:
    return copied_GBps(cell, median(cell.time_s))


def _square(cell: CopyCell, shown: str, rate: str) -> Record:
    """A pair; `shown`: the column that is written into its square, `rate`: in GBps or in MBps."""
    values = {"time_us": median(cell.time_s) * 1e6, rate: _rate(cell) * (1e3 if rate == "MBps" else 1)}
    return {
        "source": str(cell.source),
        "target": str(cell.target),
        "size_bytes": cell.size_bytes,
        **values,
        "pair_class": cell.pair_class or "",
        "verdict": told_verdict(cell),
        "label": f"{values[shown]:.3g}",
    }
