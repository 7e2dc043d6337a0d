"""`bench`: times collectives and pair copies, or imports what nccl-tests measured; and its screen."""

import math
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import median

from resnetx.api.bench import benches_of, check_bench, execute, export_bench
from resnetx.api.bench_settings import import_bench
from resnetx.api.measuring import KeptRecord, machine_name
from resnetx.cli import show
from resnetx.cli.verbs import show_train
from resnetx.cli.verbs.show_train import left_to_others
from resnetx.errors import ConfigError
from resnetx.formats.copy_rows import LOAD, STAGED
from resnetx.interconnect.collectives import sizes
from resnetx.interconnect.collectives.measured import measured
from resnetx.interconnect.collectives.sizes import bands
from resnetx.measure.launch.executor import follow, follows
from resnetx.record import BenchPoint, BenchRecord, BenchRequest, CopyCell, Device, NicUse, PatternPoint, RunFolder
from resnetx.record.bench_record import WRONG_ELEMENTS, CopyEnd, CopyFamily
from resnetx.reporting import bench_conclusions
from resnetx.reporting.bench_conclusions import (
    ROWS,
    TimedPoint,
    bench_answer,
    collective_columns,
    copied_GBps,
    copy_columns,
    copy_rows,
    copy_verdicts,
    kept_beside,
    pattern_columns,
    several_columns,
    spread,
    timed,
    unit_of_times,
    us,
)
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import GBps, in_GBps, size_text


def bench_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures with each number of ranks, or imports; status 1 where a bench failed or elements were wrong."""
    if getattr(options, "import"):
        if len(paths) != 1:
            raise ConfigError(f"--import: expected one file, got {len(paths)}")
        return 0 if _shown(options, import_bench(paths[0], asked)) else 1
    if options.export:
        if len(paths) != 1 or asked:
            raise ConfigError("--export: expected one bench (its folder or record.json), and no settings")
        for path in export_bench(paths[0]):
            show.line(f"{path}")
        return 0
    if paths:
        raise ConfigError(f"{paths[0]}: `resnetx bench` measures; to import a file of another program, add --import")
    benches = benches_of(asked)
    for task in benches.tasks:
        check_bench(task.request)
    launch, results = benches.tasks[0].launch, Path(benches.wanted.results)
    planned = [
        (task, RunFolder(results / machine_name(launch) / "bench" / task.request.slug)) for task in benches.tasks
    ]
    if left_to_others(options, "bench", asked, launch, results, planned):
        return 0
    if follows(benches.tasks[0]):
        return follow(benches.tasks[0])
    well = [_shown(options, kept) for kept in execute(asked)]
    return 0 if all(well) else 1


def _shown(options: Namespace, kept: KeptRecord[BenchRecord]) -> bool:
    """Shows a bench; whether it went well."""
    record = kept.record
    kinds = {point.collective for point in record.points} | {cell.copy for cell in record.cells}
    show.conclude(
        options,
        bench_answer(record),
        lambda: [record],
        partial(bench, record, kept.folder),
        record.outcome != "ok",
        most=show.LINES_OF_SEVERAL if len(kinds) > 1 else show.LINES,
    )
    checked: list[BenchPoint | CopyCell | PatternPoint] = [*record.points, *record.cells, *record.patterns]
    wrong = [each.wrong for each in checked]
    said = any(warning.code == WRONG_ELEMENTS for warning in record.warnings)
    return record.outcome == "ok" and not any(wrong) and not said


# ---- show bench -----------------------------------------------------------------------------------------------------
# A bench as a person sees it: nccl-tests' columns, and what the times say of latency and bandwidth.


def bench(record: BenchRecord, folder: RunFolder) -> None:
    """One record: a table of 12 rows at most, what to check, and why what is missing is; with --all each size and pair,
    fits of latency and bandwidth, and matrices."""
    if record.outcome != "ok":
        show_train.failure(record, folder)
        return
    show_train.warnings(record.warnings)
    if record.points:
        _collectives(record)
    for cell in record.cells:
        if cell.wrong:
            bytes_are = "byte is" if cell.wrong == 1 else "bytes are"
            show.say(f"{cell.source} to {cell.target}, {size_text(cell.size_bytes)}: {cell.wrong:,} {bytes_are} wrong")
    copies(record)
    if record.patterns:
        title = f"Patterns, {_ranks(record)}, {record.library} ({record.source})"
        note = (
            "Medians over iterations, the slowest rank's. Computing is replaced by idle time. GB/s: one way, of the "
            "busiest rank."
        )
        show.listing(pattern_columns(record.world_size or 1), record.patterns, title, note)
    nics(record)
    if show.everything():
        _knees(record)
    for skipped in record.skipped:
        show.say(f"not measured: {skipped.reason}")
    if not show.everything() and (left := _left_out(record)):
        show.more(f"{left}: --all")
    show.line(f"record: {folder.record}")


def _left_out(record: BenchRecord) -> str:
    """What --all adds."""
    several = len({cell.size_bytes for cell in record.cells} | {point.size_bytes for point in record.points}) > 1
    fits = ["a fit of latency and bandwidth, where it bends"] * bool(several and not record.patterns)
    pairs = ["each pair"] * any(cell.copy != LOAD for cell in record.cells)
    cards = ["network cards by connection"] * bool(record.transport and record.transport.nics)
    return ", ".join([*pairs, *fits, *cards])


def _collectives(record: BenchRecord) -> None:
    """The times of each collective; without --all of several ones in one table, at as many sizes as it has room for."""
    names = sorted({point.collective for point in record.points})
    of = {name: [point for point in record.points if point.collective == name] for name in names}
    where = f"{_ranks(record)}, {record.library} ({record.source}){_how(record.request)}"
    if show.everything():
        for name, points in of.items():
            rows = timed(points, record.world_size)
            unit = unit_of_times(time_s for _, time_s, _ in rows)
            show.listing(collective_columns(unit), rows, f"{name}, {where}", _note(points, record))
    else:
        every = {name: timed(of[name], record.world_size) for name in names}
        count = max(show.fitting_rows(min(ROWS, len(record.points))) // len(names), 1)
        rows = [row for name in names for row in _spread_with_wrong(every[name], count)]
        several = len(names) > 1
        among = [row for name in names for row in every[name]]
        unit = unit_of_times(time_s for _, time_s, _ in among)
        columns = several_columns(unit) if several else collective_columns(unit)
        if all(point.wrong == 0 for point in record.points):  # the answer says so
            columns = [column for column in columns if column.heading != ">#wrong"]
        title = where.partition(" (measured)")[2].removeprefix(", ")  # the answer names the rest
        left = f" {len(rows)} of {len(record.points)} times: --all has each."
        note = _note(record.points, record) + left * (len(rows) < len(record.points))
        show.listing(columns, rows, title, note, every=True, among=among)
    causes = _causes(record.points)
    shown = causes[:1] if show.in_brief(show.BRIEFEST) else causes
    if len(shown) < len(causes):
        show.leave_out("what else to check")
    for sentence, brief in shown:
        show.say(sentence, brief=brief)
    if show.everything():
        for name in names:
            for line in _fits(record, name):
                show.say(line)


def _spread_with_wrong(rows: Sequence[TimedPoint], count: int) -> list[TimedPoint]:
    """So many rows from the first to the last, and those with wrong results, which the answer counts."""
    wrong = spread([row for row in rows if row[0].wrong], count)
    shown = [*wrong, *spread(rows, max(count - len(wrong), 2))]
    return [row for row in rows if row in shown]


def _knees(record: BenchRecord) -> None:
    """Where latency ends and bandwidth begins."""
    if rows := list(sizes.of_record(record)):
        note = f"Floor: the smallest size; ends: {sizes.RAISED} times as long. Half, 90%: of the highest size / time."
        show.listing(BENDS, rows, "Where latency ends and bandwidth begins", note, every=True, constant=True)


def _size(size_bytes: float | None) -> str:
    return "" if size_bytes is None else size_text(round(size_bytes))


BENDS: list[Column[tuple[str, sizes.Knees]]] = [
    Column("of", lambda row: row[0]),
    Column(">floor us", lambda row: us(row[1].floor_s)),
    Column(">ends at", lambda row: _size(row[1].floor_ends_bytes)),
    Column(">half at", lambda row: _size(row[1].half_bytes)),
    Column(">90% at", lambda row: _size(row[1].ninety_bytes)),
    Column(">highest GB/s", lambda row: GBps(row[1].highest_Bps)),
]


def _ranks(record: BenchRecord) -> str:
    request = record.request
    devices = f" (devices={request.devices})" if request and request.devices else ""
    return f"gpus={record.world_size or '?'}{devices}"


def _how(request: BenchRequest | None) -> str:
    """What was asked for besides sizes, for a title."""
    if request is None:
        return ""
    words = [
        "" if request.dtype == "fp32" else request.dtype,
        f"{request.place} of place" if request.place == "out" else "in place" if request.place else "",
        request.timing or "",
        "" if request.transport == "auto" else f"transport={request.transport}",
        f"algorithm={request.algorithm}" if request.algorithm else "",
        f"protocol={request.protocol}" if request.protocol else "",
        "registered buffers" if request.registered else "",
    ]
    return "".join(f", {word}" for word in words if word)


def _causes(points: Sequence[BenchPoint]) -> list[tuple[str, str]]:
    """What to check of points that are not as expected, each set of causes once, of most sizes first; also in brief."""
    sizes: dict[tuple[str, ...], list[str]] = {}
    for point in points:
        if point.causes:
            sizes.setdefault((point.verdict, *point.causes), []).append(size_text(point.size_bytes))
    return [
        (
            f"{verdict} ({', '.join(found)}); to check: {'; '.join(causes)}",
            f"{verdict} ({' to '.join(dict.fromkeys([found[0], found[-1]]))}); to check first: {causes[0]}",
        )
        for (verdict, *causes), found in sorted(sizes.items(), key=lambda each: -len(each[1]))
    ]


def _note(points: Sequence[BenchPoint], record: BenchRecord) -> str:
    if record.source != "measured":
        return "Means, as they were imported."
    count = max(len(point.times_s) for point in points)
    note = f"Medians of {count} operations, each the slowest rank's; GB is 1e9 bytes."
    if any(point.wrong for point in points):
        note += " #wrong: elements."
    if all(point.queued_s for point in points):
        fewest = min(point.queue_length for point in points)
        fewer = f" ({fewest} where it takes long)" if fewest < (record.queue_length or 0) else ""
        note += f" Queued: one of {record.queue_length}{fewer} that follow each other on the GPU"
        note += "; bandwidths and the fit are of these."
    if points[0].emulated:
        note += f" Emulated: gloo makes it of {points[0].emulated}."
    return note


def _fits(record: BenchRecord, name: str) -> list[str]:
    """What latency and bandwidth describe the points, band by band, and how well."""
    try:
        found, error = bands(measured(record, name, record.source, name))
    except ConfigError:
        return [f"{name}: too few sizes for a fit of latency and bandwidth"]
    error_of_fit = (
        "too few sizes to leave any out" if math.isnan(error) else f"{error:.1%} off sizes left out of the fit"
    )
    lines = [
        f"  from {size_text(round(band.from_bytes))}: {us(band.latency_s)} us + size / {in_GBps(band.bandwidth_Bps)}"
        for band in found
    ]
    return [f"time of {name} = latency + size / bandwidth, {error_of_fit}:", *lines]


# Pair copies as a person sees them: kinds, classes of pairs and sizes in one table; with --all matrices, too.


def copies(record: BenchRecord) -> None:
    """What pairs keep beside others, where that was asked for; else classes of pairs in a table; --all: every pair."""
    if record.devices and record.source != "measured":
        names = Counter(device.name for device in record.devices)
        show.say(f"GPUs: {', '.join(f'{count} x {name}' for name, count in names.items())}")
    if show.everything() or any(cell.copy in (LOAD, "together") for cell in record.cells):
        every_pair(record)
    copied = [cell for cell in record.cells if cell.copy != LOAD and (show.everything() or cell.copy != "together")]
    every = copy_rows(copied)
    rows = every if show.everything() else copy_rows(copied, show.fitting_rows(min(ROWS, len(every))))
    if not rows:
        return
    said = copy_verdicts(copied)
    left = f" {len(rows)} of {len(every)} rows: --all has each." * (len(rows) < len(every))
    note = f"{_NOTE * (not show.in_brief())}{_EXPECTED * any(cell.expected_s for cell in copied)}{left}".strip()
    title = f"{said[0].upper()}{said[1:]}" if said else ""
    show.listing(copy_columns(rows), rows, title, note, every=len(rows) <= ROWS, among=every)
    for line in _pair_causes(copied):
        show.say(line)


_NOTE = "Medians over the pairs of a class; GB is 1e9 bytes, both directions summed."
_EXPECTED = " expected: by the described topology."
_CAUSES = 2  # that are shown of each copy; the record has all


def _pair_causes(cells: Sequence[CopyCell]) -> list[str]:
    """What to check, for each set of causes once."""
    found: dict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
    for cell in cells:
        if cell.causes:
            found[cell.verdict, tuple(cell.causes[:_CAUSES])] += 1
    return [
        f"{verdict}, {count} cop{'y' if count == 1 else 'ies'}; to check: {'; '.join(causes)}"
        for (verdict, causes), count in found.items()
    ]


# Pair copies as a person sees them: matrices of the largest size, latencies of the smallest.
#
# A row sends and a column receives. Kinds whose places are not pairs of GPUs are lists.

_MATRICES = ("device", "relay", STAGED)  # kinds that go from every GPU to every other one


def every_pair(record: BenchRecord) -> None:
    """The cells of a record, kind by kind; without --all of what has no classes."""
    kinds: dict[tuple[CopyFamily, bool], list[CopyCell]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.family):
        beside_others = bool(cell.together) and cell.copy != "together"
        kinds.setdefault((cell.family, beside_others), []).append(cell)
    for (family, _), cells in kinds.items():
        if not show.everything() and family.copy not in (LOAD, "together"):
            continue
        largest, smallest = (pick(cell.size_bytes for cell in cells) for pick in (max, min))
        ways = " and ".join(sorted({cell.path or "path not known" for cell in cells}))
        title = f"copy={family.copy}, {family.direction}{family.issued}, gpus={record.world_size}, {ways}"
        if family.copy == LOAD:
            _matrix(f"{title}: ns of one access, to memory of the sender", cells, _ns)
        elif family.copy in _MATRICES:
            how = "in one direction" if family.direction == "one-way" else "both directions summed"
            _matrix(f"{title}: GB/s of {size_text(largest)} {how}", _at(cells, largest), _copy_GBps)
            if smallest < largest:
                _matrix(f"us of {size_text(smallest)}", _at(cells, smallest), _us)
        elif family.copy == "together":
            _sharing(title, cells)
        else:
            _list(title, cells, smallest, largest)


def _matrix(title: str, cells: Sequence[CopyCell], text: Callable[[CopyCell], str]) -> None:
    sources, targets = (sorted(ends, key=_order) for ends in ({c.source for c in cells}, {c.target for c in cells}))
    if all(isinstance(place, int) for place in (*sources, *targets)):
        sources = targets = sorted({*sources, *targets}, key=_order)
    times = {(cell.source, cell.target): cell for cell in cells}
    rows = {
        f"{source}": [text(times[source, target]) if (source, target) in times else "" for target in targets]
        for source in sources
    }
    show.matrix(title, ">from \\ to", rows, [f">{target}" for target in targets])


def _order(place: CopyEnd) -> tuple[bool, int, str]:
    """GPUs by their numbers, then places of hosts."""
    return (True, 0, place) if isinstance(place, str) else (False, place, "")


def _list(title: str, cells: Sequence[CopyCell], smallest: int, largest: int) -> None:
    at_smallest = {(cell.source, cell.target): cell for cell in _at(cells, smallest)}
    columns: list[Column[CopyCell]] = [
        Column(">from", lambda cell: f"{cell.source}"),
        Column(">to", lambda cell: f"{cell.target}"),
        Column(f">us of {size_text(smallest)}", lambda cell: _us(at_smallest[cell.source, cell.target])),
        Column(f">GB/s of {size_text(largest)}", _copy_GBps),
    ]
    rows = sorted(_at(cells, largest), key=lambda cell: (str(cell.source), str(cell.target)))
    note = "All of them at once." if any(cell.together for cell in cells) else ""
    show.listing(columns, rows, title, note, every=True, constant=True)


def _sharing(title: str, cells: Sequence[CopyCell]) -> None:
    """What a pair keeps of its bandwidth while another one copies, the least of all others first."""
    kept = kept_beside(cells)
    shown = show.first(kept, 12)
    size = size_text(max(cell.size_bytes for cell in cells))
    note = f"Share of its own bandwidth at {size}; the {len(shown)} that lose most of {len(kept)} (--all: all of them)."
    show.listing(SHARING, shown, title, note, every=True, constant=True)


SHARING: list[Column[tuple[float, str, str]]] = [
    Column("pair", lambda row: row[1]),
    Column("beside", lambda row: row[2]),
    Column(">keeps", lambda row: f"{row[0]:.0%}"),
]


def _at(cells: Sequence[CopyCell], size_bytes: int) -> list[CopyCell]:
    return [cell for cell in cells if cell.size_bytes == size_bytes]


def _copy_GBps(cell: CopyCell) -> str:
    return GBps(1e9 * copied_GBps(cell, median(cell.time_s)))


def _ns(cell: CopyCell) -> str:
    return f"{median(cell.time_s) * 1e9:,.0f}"


def _us(cell: CopyCell) -> str:
    return f"{median(cell.time_s) * 1e6:,.1f}"


# The network cards between nodes as a person sees them: by connection, and whether rings keep to rails.

_LISTED = 4  # cards that a sentence names


def nics(record: BenchRecord) -> None:
    """What NCCL's log said of the cards of several nodes."""
    ends = record.transport.nics if record.transport else None
    if not ends:
        return
    crossings = bench_conclusions.crossings(ends)
    if show.everything():
        note = "of: the ring of its channel, or its tree or single sends."
        show.listing(NICS, _nic_rows(crossings), "Between nodes, by NCCL's log", note, constant=True)
    for sentence in _sentences(crossings, record.devices or []):
        show.say(sentence)


NICS: list[Column[tuple[str, ...]]] = [
    Column(heading, itemgetter(place))
    for place, heading in enumerate(
        ("channels", ">from", ">to", "of", "card of sender", "of receiver", "GPUDirect"),
    )
]


def _nic_rows(crossings: Sequence[bench_conclusions.SizeCrossing]) -> list[tuple[str, ...]]:
    """Connections that are alike but for their channel are one row."""
    channels: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for crossing in crossings:
        reached = {end.gpudirect for end in crossing.ends}
        gpudirect = "one end" if len(reached) > 1 else "yes" if True in reached else "no"
        words = (f"{crossing.source}", f"{crossing.target}", "ring" if crossing.ring else "other")
        channels[*words, _card(crossing.sent), _card(crossing.received), gpudirect].append(crossing.channel)
    return [(",".join(map(str, numbers)), *words) for words, numbers in channels.items()]


def _card(end: NicUse | None) -> str:
    return "?" if end is None else bench_conclusions.card_name(end)


def _sentences(crossings: Sequence[bench_conclusions.SizeCrossing], devices: Sequence[Device]) -> list[str]:
    """Whether rings keep to rails, and what shares a card."""
    seen = bench_conclusions.rails(crossings, devices)
    said = []
    if seen.compared:
        said.append(
            f"Rails: {seen.kept} of {seen.compared} connections of rings leave and arrive by cards of one number; "
            + "; ".join(f"GPU {gpu} by {' and '.join(cards)}" for gpu, cards in seen.gpus.items())
            + "."
        )
    shared = sorted(
        (card for card in seen.cards if len(card.channels) > 1), key=lambda channels: -len(channels.channels)
    )
    if shared:
        named = [f"{channels.card} of {channels.node} ({len(channels.channels)})" for channels in shared[:_LISTED]]
        more = f" and {len(shared) - _LISTED} others" if len(shared) > _LISTED else ""
        said.append(f"Cards that rings of several channels share: {', '.join(named)}{more}.")
    elif seen.cards:
        said.append("No two channels' rings share a card.")
    return said
