"""What a bench of collectives answers, in sentences: how fast, from which size on, and whether results are right."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, median_high
from typing import NamedTuple, TypeVar

import numpy as np

from resnetx.formats.copy_rows import LOAD
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.interconnect.collectives.sizes import knees
from resnetx.interconnect.pairs.pair_reading import counted
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord, Device, NicUse, PatternPoint
from resnetx.record.bench_record import TEST_FAILED, WRONG_ELEMENTS, CopyCell, CopyFamily
from resnetx.table import ONLY_WITH_ALL, Answer, Column, as_shown
from resnetx.units import GBps, how_many, in_GBps, on_cores, size_text, to_interval

T = TypeVar("T")

MOST = 3  # collectives, by name
ROWS = 12  # of a screen's table
PAIRS = 4  # of a class, by their GPUs
MOST_PATTERNS = 2  # each with its figures


def collectives_of(records: Iterable[BenchRecord]) -> list[str]:
    """Their names, what training uses first: benches time them in an order of chance."""
    return sorted({point.collective for record in records for point in record.points}, key=list(OPERATIONS).index)


def bench_answer(record: BenchRecord) -> list[str]:
    """Of each collective its highest bus bandwidth, where half of it is reached, and its time at the smallest size;
    of copies what pairs get; of patterns what of an iteration is communication; then whether results are right."""
    if record.outcome != "ok":
        return [f"Not measured: {record.outcome}: {record.reason}."]
    names = collectives_of([record])
    where = "Measured" if record.source == "measured" else "Imported"
    if record.environment and record.source == "measured":
        where += f" on {record.environment.node}"
    if record.request and record.request.lab:
        where += f" in the lab as {_lab_system(record)}"
    counted = f"{how_many(record.world_size or 0, record.unit)}{on_cores(record.unit)}"
    ranks = counted if record.world_size else "an unknown number of ranks"
    told = [_speed(record, name) for name in names[:MOST]] or list(_copies(record.cells)) or list(_patterns(record))
    if not told:
        return [f"{where}, {ranks}: nothing that was asked for could be measured."]
    more = f"; {len(names) - MOST} more below" * (len(names) > MOST)
    first = f"{where}, {ranks}, {record.library or 'library unknown'}: {'; '.join(told)}{more}."
    return [" ".join([first, *_wrong(record)]), *_right(record)]


def _copies(cells: Sequence[CopyCell]) -> Iterator[str]:
    """Of each kind of copy what the median pair gets at the largest size, the slowest, and what others leave of it."""
    kinds: dict[CopyFamily, list[CopyCell]] = {}
    for cell in cells:
        if not cell.together and cell.copy != LOAD:
            kinds.setdefault(cell.family, []).append(cell)
    for family, every in list(kinds.items())[:MOST]:
        if not (own := [cell for cell in every if not cell.wrong]):
            yield f"{family.words}: no result is right"
            continue
        largest = max(cell.size_bytes for cell in own)
        rates = sorted(copied_GBps(cell, median(cell.time_s)) for cell in own if cell.size_bytes == largest)
        usual = median_high(rates)  # that of a pair, where two classes are as large as each other
        worst = f", at worst {GBps(1e9 * rates[0])}" * (rates[0] < 0.95 * usual)
        shared = [kept for kept, *_ in kept_beside([cell for cell in cells if cell.family == family])]
        left = f", of which another pair leaves {min(shared):.0%} at worst" if shared else ""
        yield f"{family.words}: {GBps(1e9 * usual)} GB/s at {size_text(largest)}{worst}{left}"


def kept_beside(cells: Sequence[CopyCell]) -> list[tuple[float, str, str]]:
    """What a pair keeps of its bandwidth while another one copies, the pair, and the other; the least first."""
    alone = {(cell.source, cell.target): median(cell.time_s) for cell in cells if not cell.together}
    return sorted(
        (
            alone[cell.source, cell.target] / median(cell.time_s),
            f"{cell.source} to {cell.target}",
            f"{other.source} to {other.target}",
        )
        for cell in cells
        for other in cell.together
        if (cell.source, cell.target) in alone
    )


def _patterns(record: BenchRecord) -> Iterator[str]:
    """Of a pattern what an iteration takes at its largest size, and how much of that is communication; of more than
    two, which scale best and worst."""
    largest: dict[str, PatternPoint] = {}
    for pattern in record.patterns:
        if pattern.what not in largest or pattern.size_bytes > largest[pattern.what].size_bytes:
            largest[pattern.what] = pattern
    if len(largest) > MOST_PATTERNS:
        ranks = record.world_size or 1
        ordered = sorted(largest.values(), key=lambda each: each.speedup(ranks))
        best, worst = (f"{each.what} ({each.speedup(ranks):.3g} times one rank)" for each in (ordered[-1], ordered[0]))
        yield f"of {len(largest)} patterns {best} scales best, and {worst} worst"
        return
    for what, point in largest.items():
        rate = point.bandwidth_Bps
        moved = f" ({size_text(point.sent_bytes)} at {in_GBps(rate)})" if rate else ""
        took, size = _time(median(point.times_s)), size_text(point.size_bytes)
        fast = f"{point.speedup(record.world_size or 1):.3g} times as fast as one rank"
        told = f"{point.share:.0%} of it communication{moved}, {fast}"
        yield f"{what}: {took} for an iteration of {size}, {told}"


def pattern_columns(ranks: int) -> list[Column[PatternPoint]]:
    """What an iteration takes, and what of it is communication."""
    return [
        Column("pattern", lambda point: point.pattern),
        Column("scaling", lambda point: point.scaling),
        Column(">size", lambda point: size_text(point.size_bytes)),
        Column(">computing ms", lambda point: f"{point.compute_s * 1e3:.2f}", 2),
        Column(">iteration ms", lambda point: f"{median(point.times_s) * 1e3:.2f}"),
        Column(">communication", lambda point: f"{point.share:.0%}"),
        Column(">moved kB", lambda point: f"{point.sent_bytes / 1e3:,.1f}", 4, _MOVED),
        Column(">GB/s", lambda point: "" if (rate := point.bandwidth_Bps) is None else GBps(rate), 6),
        Column(">speed-up", lambda point: f"{point.speedup(ranks):.2f}", 5, "over one rank, which sends nothing."),
        Column(">#wrong", lambda point: f"{point.wrong}", 3),
    ]


_MOVED = "over the rounds of an iteration, by the busiest rank of each, in one direction; GB/s are of it."


def copied_GBps(cell: CopyCell, time_s: float) -> float:
    """Both directions summed."""
    return cell.size_bytes * (2 if cell.direction == "both-ways" else 1) / time_s / 1e9


def _speed(record: BenchRecord, name: str) -> str:
    """By results that are right alone: the time of a wrong one means nothing."""
    own = [point for point in record.points if point.collective == name and not point.wrong]
    if not own:
        return f"{name}: no result is right"
    points = sorted(own, key=lambda each: each.size_bytes)
    telling = dict(zip((point.size_bytes for point in points), telling_times(points), strict=True))
    times_s = {size: median(times) for size, times in telling.items()}
    smallest, rates = points[0].size_bytes, {size: size / time_s for size, time_s in times_s.items()}
    best = max(rates, key=lambda size: rates[size])
    factor = OPERATIONS[name].bus_factor(record.world_size) if record.world_size else 1.0
    found = knees(times_s)
    reached = found and found.half_bytes and next(size for size in times_s if size >= found.half_bytes)  # as measured
    half = f", half of it from {size_text(reached)} on" if reached else ""
    kind = " bus bandwidth" if record.world_size else " (size / time)"
    moved = best * factor / 1e9
    rate, *ends = to_interval(
        moved / times_s[best], *(moved / time_s for time_s in np.percentile(telling[best], SPREAD)[::-1])
    )
    within = f" ({' to '.join(ends)})" * (len(telling[best]) > 1)
    fast = f"{name} reaches {rate} GB/s{within}{kind} at {size_text(best)}{half}"
    return fast + f"; {size_text(smallest)} take {_time(times_s[smallest])}" * (smallest != best)


def _wrong(record: BenchRecord) -> Iterator[str]:
    """That results are wrong, which no figure is told without."""
    codes = {warning.code for warning in record.warnings}
    if TEST_FAILED in codes:
        yield "The test FAILED behind these measurements."
    checked = [result.wrong for result in _results(record) if result.wrong is not None]
    if any(checked):
        yield f"WRONG results in {sum(map(bool, checked))} of {len(checked)} measurements."
    elif WRONG_ELEMENTS in codes:
        yield "WRONG results."


def _results(record: BenchRecord) -> list[BenchPoint | CopyCell | PatternPoint]:
    return [*record.points, *record.cells, *record.patterns]


def _right(record: BenchRecord) -> Iterator[str]:
    """Whether all results are right, and how many are slower than described."""
    results = _results(record)
    if results and not any(_wrong(record)) and all(result.wrong is not None for result in results):
        yield "All results are right."
    judged: list[BenchPoint | CopyCell] = [*record.points, *record.cells]
    if slow := [each for each in judged if each.verdict == "low" and not each.wrong]:
        yield f"Slower than described in {len(slow)} of {len(results)} measurements."


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"


# ---- columns --------------------------------------------------------------------------------------------------------

SPREAD = (10, 90)  # percentiles
TimedPoint = tuple[BenchPoint, float, int | None]  # with the time that bandwidths are of, and the ranks


def timed(points: Sequence[BenchPoint], ranks: int | None) -> list[TimedPoint]:
    """The points of one collective by size, each with the time that tells its bandwidth."""
    ordered = sorted(points, key=lambda point: point.size_bytes)
    telling = map(median, telling_times(ordered))
    return [(point, time_s, ranks) for point, time_s in zip(ordered, telling, strict=True)]


def _bus(row: TimedPoint) -> str:
    point, time_s, ranks = row
    return GBps(point.size_bytes / time_s * OPERATIONS[point.collective].bus_factor(ranks)) if ranks else "?"


US, MS = ("us", 1e6), ("ms", 1e3)  # units of times in a table
MOST_US = 1e-2  # seconds: tables of longer times are in ms
TimeUnit = tuple[str, float]


def unit_of_times(times_s: Iterable[float]) -> TimeUnit:
    """Microseconds, as in nccl-tests, where all are short."""
    return MS if max(times_s, default=0.0) >= MOST_US else US


def collective_columns(unit: TimeUnit = US) -> list[Column[TimedPoint]]:
    """A collective at each size: its time, bandwidths as nccl-tests has them, and what is described."""
    name, factor = unit

    def alone(time_s: float) -> str:
        return to_interval(*[time_s * factor] * 3)[0]

    return [
        Column(">size", lambda row: size_text(row[0].size_bytes)),
        Column(">bytes", lambda row: f"{row[0].size_bytes}", ONLY_WITH_ALL),
        Column(f">time {name}", lambda row: _times(row, factor)[0]),
        Column(f">{SPREAD[0]}% to {SPREAD[1]}%", lambda row: " to ".join(_times(row, factor)[1:]), 5),
        Column(f">queued {name}", lambda row: alone(median(row[0].queued_s)) if row[0].queued_s else ""),
        Column(">algbw GB/s", lambda row: GBps(row[0].size_bytes / row[1])),
        Column(">busbw GB/s", _bus),
        Column(">#wrong", lambda row: "N/A" if row[0].wrong is None else f"{row[0].wrong}"),
        Column(
            ">CPU/rank",
            lambda row: "" if row[0].cpu_share is None else f"{row[0].cpu_share:.2f}",
            ONLY_WITH_ALL,
            _OF_CPUS,
        ),
        Column(f">expected {name}", lambda row: "" if row[0].expected_s is None else alone(row[0].expected_s)),
        Column(f">its error {name}", lambda row: " to ".join(map(alone, row[0].expected_interval_s)), ONLY_WITH_ALL),
        Column("verdict", lambda row: told_verdict(row[0])),
        Column("NCCL's", lambda row: f"{row[0].algorithm} {row[0].protocol}" if row[0].algorithm else "", 2),
    ]


_OF_CPUS = "CPU seconds per second of the operation."


def several_columns(unit: TimeUnit = US) -> list[Column[TimedPoint]]:
    """Those of several collectives, or of several numbers of ranks."""
    return [
        Column("collective", lambda row: row[0].collective),
        Column(">ranks", lambda row: f"{row[2] or '?'}"),
        *collective_columns(unit),
    ]


def timed_of(record: BenchRecord) -> list[TimedPoint]:
    """The points of each collective of a bench."""
    names = collectives_of([record])
    of = {name: [point for point in record.points if point.collective == name] for name in names}
    return [row for points in of.values() for row in timed(points, record.world_size)]


def shown_benches(records: Sequence[BenchRecord]) -> Answer:
    """What each bench answers, and its collectives, or else its copies; which bench, where several differ in it."""
    sentences = [sentence for record in records for sentence in bench_answer(record)]
    on = sides(records)
    if rows := [(name, row) for name, record in zip(on, records, strict=True) for row in timed_of(record)]:
        unit = unit_of_times(time_s for _, (_, time_s, _) in rows)
        return Answer(sentences, as_shown(told_apart(several_columns(unit)), rows))
    copies = [(name, row) for name, record in zip(on, records, strict=True) for row in copy_rows(record.cells)]
    columns = copy_columns([row for _, row in copies])
    return Answer(sentences, as_shown(told_apart(columns), copies) if copies else None)


def sides(records: Sequence[BenchRecord]) -> list[str]:
    """What each bench is of, where several differ in it."""
    return [which(record, records, ranks=False).removeprefix(", ") for record in records]


def told_apart(columns: Sequence[Column[T]]) -> list[Column[tuple[str, T]]]:
    """Columns of rows that say of which bench they are."""
    return [Column("on", lambda row: row[0]), *(column.of(lambda row: row[1]) for column in columns)]


def _lab_system(record: BenchRecord) -> str:
    """The system that the lab stands for, by its name or that of its file; "" outside of the lab."""
    system = record.request.lab.system if record.request and record.request.lab else ""
    return Path(system).stem if system.endswith((".yaml", ".yml")) else system


def which(record: BenchRecord, records: Sequence[BenchRecord], ranks: bool = True) -> str:
    """What tells a bench from others: the system that the lab stands for, the node, or how many ranks."""
    names = [
        (
            _lab_system(each),
            each.environment.node if each.environment else "",
            how_many(each.world_size or 0, each.unit),
        )
        for each in records
    ]
    varying = [place for place in range(2 + ranks) if len({each[place] for each in names}) > 1]
    own = names[list(map(id, records)).index(id(record))]
    return "".join(f", {own[place]}" for place in varying if own[place])


def spread(rows: Sequence[T], count: int) -> list[T]:
    """So many of the rows, evenly from the first to the last."""
    if count >= len(rows):
        return list(rows)
    last, steps = len(rows) - 1, max(count - 1, 1)
    return [rows[last - round(step * last / steps)] for step in reversed(range(count))]


def copy_verdicts(cells: Sequence[CopyCell]) -> str:
    """How many are as described, and how many are not; "" where nothing is judged."""
    if all(cell.verdict == "not judged" for cell in cells):
        return ""
    return ", ".join(f"{count} {VERDICTS.get(verdict, verdict)}" for verdict, count in counted(cells))


VERDICTS = {"not judged": "with no reference"}


def told_verdict(result: BenchPoint | CopyCell) -> str:
    """Of one result; "" where nothing is there to judge it by."""
    return "" if result.verdict == "not judged" else result.verdict


def _verdict(cells: Sequence[CopyCell]) -> str:
    """One that all have, or how many have which."""
    verdicts = {cell.verdict for cell in cells}
    return copy_verdicts(cells).partition(" ")[2] if len(verdicts) == 1 else copy_verdicts(cells)


class CopyClass(NamedTuple):
    """Copies of one size between pairs that are alike."""

    name: str
    cells: Sequence[CopyCell]

    @property
    def GBps(self) -> list[float]:
        """Of each, in order."""
        return sorted(copied_GBps(cell, median(cell.time_s)) for cell in self.cells)


def copy_classes(cells: Sequence[CopyCell]) -> list[CopyClass]:
    """Copies of one size between pairs that are alike, the fastest first."""
    alike: dict[tuple[int, str], list[CopyCell]] = defaultdict(list)
    for cell in cells:
        alike[cell.size_bytes, cell.pair_class or (BESIDE if cell.together else "")].append(cell)
    ordered = sorted(alike.items(), key=lambda each: (each[0][0], _time_s(each[1])))
    return [CopyClass({"one class": ALIKE}.get(name, name), same) for (_, name), same in ordered]


def copy_rows(cells: Sequence[CopyCell], most: int | None = None) -> "list[CopyRow]":
    """Each kind of copy by sizes and classes of pairs; `most`: rows, of as many sizes as that leaves room for."""
    families: dict[CopyFamily, list[CopyCell]] = defaultdict(list)
    for cell in cells:
        if cell.copy != LOAD:  # no copy: it has no bandwidth
            families[cell.family].append(cell)
    sizes = {family: sorted({cell.size_bytes for cell in own}) for family, own in families.items()}
    rows: list[CopyRow] = []
    for count in range(max(map(len, sizes.values()), default=0), 0, -1):
        shown = {family: spread(each, count) for family, each in sizes.items()}
        rows = [
            (family, row)
            for family, own in families.items()
            for row in copy_classes([cell for cell in own if cell.size_bytes in shown[family]])
        ]
        if most is None or len(rows) <= most:
            break
    return rows


def _pairs(row: "CopyRow") -> str:
    """The pairs of a class, where not all are alike: by a GPU that all of them have, or the first ones."""
    cells = row[1].cells
    if row[1].name in (ALIKE, BESIDE) or row[0].copy == "local":
        return ""
    ends = [{cell.source, cell.target} for cell in cells]
    if len(cells) > 2 and (shared := set.intersection(*ends)):
        return f"all with {' and '.join(f'GPU {end}' if isinstance(end, int) else end for end in shared)}"
    names = list(dict.fromkeys("-".join(map(str, sorted(pair, key=str))) for pair in ends))
    return " ".join(names[:PAIRS]) + " ..." * (len(names) > PAIRS)


ALIKE, BESIDE = "all alike", "beside others"


def _expected(row: CopyClass) -> str:
    expected = [copied_GBps(cell, cell.expected_s) for cell in row.cells if cell.expected_s]
    return GBps(1e9 * median(expected)) if expected else ""


def copy_columns(rows: "Sequence[CopyRow]") -> "list[Column[CopyRow]]":
    """What is copied, and how fast: times in ms where some are long."""
    name, factor = unit_of_times(_time_s(copied.cells) for _, copied in rows)

    def told(copied: CopyClass) -> str:
        time = _time_s(copied.cells) * factor
        return f"{time:,.1f}" if name == "us" else f"{time:,.2f}" if time >= 0.1 else f"{time:.2g}"

    time = Column[CopyClass](f">time {name}", told)
    classes = [time if column.heading == ">time us" else column for column in CLASSES]
    return [*COPIES[:3], *(column.of(lambda row: row[1]) for column in classes), COPIES[-1]]


CLASSES: list[Column[CopyClass]] = [
    Column(">size", lambda row: size_text(row.cells[0].size_bytes)),
    Column("class", lambda row: row.name),
    Column(">copies", lambda row: f"{len(row.cells)}", 1),
    Column(">time us", lambda row: f"{_time_s(row.cells) * 1e6:,.1f}"),
    Column(">GB/s", lambda row: GBps(1e9 * median(row.GBps))),
    Column(">least", lambda row: GBps(1e9 * row.GBps[0]), 2),
    Column(">most", lambda row: GBps(1e9 * row.GBps[-1]), 3),
    Column(">expected", _expected),
    Column("verdict", lambda row: _verdict(row.cells)),
]
CopyRow = tuple[CopyFamily, CopyClass]
COPIES: list[Column[CopyRow]] = [
    Column("copy", lambda row: row[0].copy),
    Column("direction", lambda row: f"{row[0].direction.replace('-', ' ')}{row[0].issued}"),
    Column("memory", lambda row: row[0].endpoint),
    *(column.of(lambda row: row[1]) for column in CLASSES),
    Column("pairs", _pairs, 6),
]


def _time_s(cells: Sequence[CopyCell]) -> float:
    return median(median(cell.time_s) for cell in cells)


def _times(row: TimedPoint, factor: float) -> Sequence[str]:
    """The median in the unit of this factor, and of several times both ends."""
    times = [time_s * factor for time_s in row[0].times_s]
    texts = to_interval(median(times), *np.percentile(times, SPREAD))
    return texts if len(times) > 1 else texts[:1]


def us(time_s: float) -> str:
    """A time in microseconds, with three digits."""
    return to_interval(*[time_s * 1e6] * 3)[0]


# Rails: by which network card the rings of NCCL leave each GPU and reach the next node. Where GPU i of every node uses
# card i, all its traffic stays on one switch. Two channels that share a card share its bandwidth.


@dataclass(frozen=True)
class SizeCrossing:
    """A connection between nodes: what its sender and its receiver logged of it."""

    channel: int
    ring: bool  # a step of its channel's ring
    source: int  # rank
    target: int
    sent: NicUse | None  # None: the log of this end says nothing
    received: NicUse | None

    @property
    def ends(self) -> list[NicUse]:
        return [end for end in (self.sent, self.received) if end is not None]

    @property
    def on_one_rail(self) -> bool | None:
        """Whether it leaves and arrives by cards of one number; None: an end is not known."""
        if self.sent is None or self.received is None:
            return None
        return self.sent.nic == self.received.nic


@dataclass(frozen=True)
class CardChannels:
    """The channels whose rings go by one card of one node."""

    node: str
    card: str
    channels: tuple[int, ...]


@dataclass(frozen=True)
class Rails:
    """The rings of a record."""

    kept: int  # connections of rings that leave and arrive by cards of one number
    compared: int  # of so many
    gpus: dict[int, list[str]]  # the cards that the rings of the GPU of this number use, on every node
    cards: list[CardChannels]


def crossings(ends: Sequence[NicUse]) -> list[SizeCrossing]:
    """The connections, by channel; rings before others of a channel."""
    found: dict[tuple[int, int, int, int], dict[str, NicUse]] = defaultdict(dict)
    for end in ends:
        found[end.channel, end.connection, end.source, end.target][end.end] = end
    made = [
        SizeCrossing(channel, next(iter(both.values())).ring, source, target, both.get("send"), both.get("receive"))
        for (channel, _, source, target), both in found.items()
    ]
    return sorted(made, key=lambda crossing: (crossing.channel, not crossing.ring, crossing.source, crossing.target))


def rails(found: Sequence[SizeCrossing], devices: Sequence[Device]) -> Rails:
    """Whether rings keep to rails; `devices`: one for each rank."""
    rings = [each for each in found if each.ring]
    known = [ring.on_one_rail for ring in rings if ring.on_one_rail is not None]
    by_gpu: dict[int, set[str]] = defaultdict(set)
    by_card: dict[tuple[str, str], set[int]] = defaultdict(set)
    for crossing in rings:
        for end in crossing.ends:
            here = devices[end.source if end.end == "send" else end.target]
            by_gpu[here.index].add(card_name(end))
            by_card[here.node, card_name(end)].add(crossing.channel)
    return Rails(
        kept=sum(known),
        compared=len(known),
        gpus={gpu: sorted(cards) for gpu, cards in sorted(by_gpu.items())},
        cards=[CardChannels(*where, tuple(sorted(channels))) for where, channels in sorted(by_card.items())],
    )


def card_name(end: NicUse) -> str:
    """ "mlx5_0", or "IB 0" where NCCL does not say what it is called."""
    return end.name or f"{end.network} {end.nic}"
