"""Output of nccl-tests and rccl-tests: printed tables (`nccl_table`), or the JSON that they write with -J.

Whatever a heading says, each row has to agree with itself (`nccl_table`), and a table with its collective and its
number of ranks: by its list of ranks, by the command above it, by its figures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any, Literal

import msgspec

from resnetx.errors import FileError, shortened, visible
from resnetx.formats import logs, nccl_table
from resnetx.formats.nccl_table import (
    CPU_TIME,
    MOST_RANKS,
    NOT_SAID,
    Half,
    Interval,
    NcclTable,
    Rank,
    RankList,
    Row,
    RowReading,
    printed,
    reading,
    tables_of,
)
from resnetx.loading import File, decode
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord
from resnetx.record.bench_record import ELEMENT_BYTES
from resnetx.record.sealing import MOST_BYTES, LONGEST_s, SHORTEST_s
from resnetx.units import size_text

_HEADS = re.compile(r"[ \t]{0,80}#?[ \t]{0,80}size[ \t]{1,80}count[ \t]{1,80}type\b")
_SEPARATED = re.compile(
    r"^\W{0,3}size\W{0,3}[,;]\W{0,3}count\W{0,3}[,;]"
    r"|^[ \t]{0,80}\d{1,18}[ \t]{0,80}([,;])[ \t]{0,80}\d{1,18}[ \t]{0,80}\1[ \t]{0,80}[a-z]\w{1,20}[ \t]{0,80}\1",
    re.MULTILINE,
)
_NO_RESULT = "no line of it is a result of nccl-tests (size, count, type, ..., time, ...)"


@dataclass(frozen=True)
class TimedSize:
    """One size: of the whole array, and the time of one operation, out of place where that was measured."""

    size_bytes: float
    time_s: float
    wrong: int | None  # elements that were not what they should be, out of place and in place; None: not checked


@dataclass(frozen=True)
class NcclTests:
    """What one program has timed."""

    rows: tuple[TimedSize, ...]
    collective: str | None  # None: neither the file nor its figures say
    may_be: tuple[str, ...]  # the collectives that its figures fit
    gpus: int | None
    ranks: RankList = NOT_SAID
    left_out: tuple[str, ...] = ()  # lines that are no results after all, or disagree with themselves
    note: str = ""  # what was taken for the number of ranks, where the list of them says less
    wrong: str = ""  # what was wrong, and where; "": nothing that is known
    failed: bool = False  # the test ended before its last size, as `note` says
    columns: tuple[str, ...] = ()  # type, operator and root of its rows, each once


def parse(file: File, content: bytearray, collective: str | None = None, gpus: int | None = None) -> NcclTests:
    """The results of a file whose content was read; JSON where its name ends in .json.

    `collective`, `gpus`: what they are of, where the file does not say; of several tables, which one is wanted.
    """
    read = _of_json(file, content) if file.path.suffix == ".json" else tables_of(file, file.decoded(content))
    tables = [table for table in read if any(row.size_bytes for row in table.rows)]
    if not tables:
        raise _without_results(file, content)
    wanted = [table for table in tables if len(tables) == 1 or table.may_be(collective, gpus)]
    if not wanted:
        holds = ", ".join(dict.fromkeys(table.title for table in tables))
        raise file.error(f"holds {holds}; expected a table of {collective or 'a collective'} on {gpus or 'any'} ranks")
    found = [_result(file, table, collective, gpus) for table in wanted]
    kinds = dict.fromkeys((table.collective, table.gpus) for table in found)
    if len(kinds) > 1:
        holds = ", ".join(f"{name or 'a collective'} on {count or 'some'} ranks" for name, count in kinds)
        raise file.error(f"holds several tables ({holds}); say which one with collective= and gpus=")
    if not any(table.rows for table in found):
        raise file.error(_NO_RESULT)
    sizes = [size for table in found for size in {row.size_bytes for row in table.rows}]
    if len(sizes) > len(set(sizes)):
        raise file.error(
            f"holds {len(found)} tables with the same sizes ({wanted[0].title}); expected one of them alone"
        )
    if len(columns := list(dict.fromkeys(column for one in found for column in one.columns if column))) > 1:
        raise file.error(
            f"its rows differ in type, redop or root ({shortened('; '.join(columns))}); expected the rows of one"
        )
    begins = ", ".join(table.rows[0].where for table in wanted[:_MOST_NAMED])
    joined = f"{len(wanted)} tables of other sizes are taken as one; they begin at {begins}" if len(wanted) > 1 else ""
    return replace(
        found[0],
        note="; ".join(filter(None, (*dict.fromkeys(table.note for table in found), joined))),
        rows=tuple(row for table in found for row in table.rows),
        left_out=tuple(line for table in found for line in table.left_out),
        wrong="; ".join(filter(None, (table.wrong for table in found))),
        failed=any(table.failed for table in found),
    )


def _without_results(file: File, content: bytearray) -> FileError:
    """What a file without results is, as far as that can be told."""
    if file.path.suffix == ".json":
        return file.error(_NO_RESULT)
    printed_text = file.decoded(content)
    text = logs.plain(printed_text)
    lines = text.splitlines()
    if any(_HEADS.match(line) and "busbw" in below for line, below in pairwise(lines)):
        return file.error("its rows are broken into several lines, as by a narrow terminal; expected one line for each")
    if any(map(_HEADS.match, lines)):
        return file.error(_NO_RESULT)
    if other := logs.refused(printed_text):
        return file.error(f"{other}; expected results of nccl-tests")
    if _SEPARATED.search(text):
        return file.error("its columns have commas or semicolons between them; expected blanks, as nccl-tests prints")
    return file.error(_NO_RESULT)


# ---- JSON


class _Timed(msgspec.Struct):
    """One direction of a result."""

    time: float | Literal["nan"] | None = None  # microseconds; "nan": not measured
    cpu_time: float | Literal["nan"] | None = None  # with -C, instead of it
    alg_bw: float | Literal["nan"] | None = None
    bus_bw: float | Literal["nan"] | None = None
    nwrong: float | Literal["N/A", "nan"] | None = None  # not checked: N/A, null, or absent


class _Result(msgspec.Struct):
    size: float
    count: float | None = None
    type: str | None = None
    redop: str | None = None
    root: str | float | None = None
    out_of_place: _Timed | None = None
    in_place: _Timed | None = None


class _Device(msgspec.Struct):
    """A rank that the file lists; one alone where it was built without MPI."""

    rank: int = 0
    group: int = 0
    hostname: str | None = None
    device: int | None = None
    device_info: str = ""


class _Config(msgspec.Struct, frozen=True):
    devices: list[_Device] = []
    nthreads: int = 1
    ngpus: int = 1


class _OutOfBounds(msgspec.Struct, frozen=True):
    count: float = 0


class _Written(msgspec.Struct):
    """What nccl-tests writes with -J."""

    results: list[_Result]
    args: list[str] = []
    config: _Config = _Config()
    out_of_bounds: _OutOfBounds = _OutOfBounds()


def _of_json(file: File, content: bytearray) -> list[NcclTable]:
    if other := logs.of_json(content, "bench"):
        raise file.error(f"is of {other}; expected results of nccl-tests")
    written = decode(replace(file, what="the JSON of nccl-tests"), content, _Written)
    if any(
        half and half.cpu_time is not None
        for result in written.results
        for half in (result.out_of_place, result.in_place)
    ):
        raise file.error(CPU_TIME)
    rows = [row for number, result in enumerate(written.results, 1) if (row := _of_result(number, result))]
    named = nccl_table.command(" ".join(written.args)) or nccl_table.NcclTestCommand(None, None)
    config = written.config
    listed = [
        Rank(device.rank, device.group, device.hostname, device.device or 0, None, device.device_info)
        for device in config.devices
    ]
    several = listed if len(listed) > 1 else []
    ranks = nccl_table.rank_list(several, named.ranks, config.nthreads * config.ngpus)
    failed = int(min(max(0.0, written.out_of_bounds.count), MOST_BYTES))
    return [NcclTable(rows, named.program, ranks, out_of_bounds=failed)]


def _of_result(number: int, result: _Result) -> Row | None:
    halves = [_of_timed(half) if half else None for half in (result.out_of_place, result.in_place)]
    if not 0 <= result.size <= MOST_BYTES or not any(halves):
        return None
    count = result.count if result.count is not None and 0 <= result.count <= MOST_BYTES else None
    root = str(result.root).strip()
    return Row(
        where=f"result {number}",
        size_bytes=int(result.size),
        count=None if count is None else int(count),
        type=result.type,
        redop=result.redop or None,
        root=int(root) if re.fullmatch(r"-?\d{1,7}", root) else None,
        out=halves[0],
        inside=halves[1],
    )


def _of_timed(timed: _Timed) -> Half | None:
    time, algbw, busbw = (
        None if value is None else printed(f"{value}") for value in (timed.time, timed.alg_bw, timed.bus_bw)
    )
    if time is None:
        return None
    counted = isinstance(timed.nwrong, float) and timed.nwrong >= 0
    return Half(
        time.times(1e-6),
        algbw.times(1e9) if algbw else None,
        busbw.times(1e9) if busbw else None,
        int(min(float(timed.nwrong or 0), MOST_BYTES)) if counted else None,
    )


# ---- what a table is of


def _result(file: File, table: NcclTable, collective: str | None, gpus: int | None) -> NcclTests:
    """A table as results; refused where it does not agree with itself, or with what it is said to be of."""
    read = reading([row for row in table.rows if row.size_bytes], table.counts_parts)
    if len(read.refused) > len(read.rows):
        raise file.error(f"{read.refused[0]}: no table of nccl-tests, or its columns are not those of its heading")
    if read.alone:
        raise file.error("its busbw is 0, as of one rank alone; several need nccl-tests built with MPI=1, or -g")
    fitting = tuple(read.candidates)
    name = _collective(file, table, read, collective)
    if table.ranks.count == 1 and gpus is None and read.factor.has(1) and name != "allreduce":
        raise file.error(
            "it lists one rank, which sends nothing to others; several need nccl-tests built with MPI=1, or -g; where "
            "the list is shortened, gpus= says how many there were"
        )
    count, note = _ranks(file, table.ranks, read, name, gpus)
    return NcclTests(
        rows=tuple(
            TimedSize(row.size_bytes, row.halves[0].time.value, row.wrong)
            for row in read.rows
            if 0 < row.size_bytes <= MOST_BYTES and SHORTEST_s <= row.halves[0].time.value <= LONGEST_s
        ),
        collective=name,
        may_be=fitting,
        gpus=count,
        ranks=table.ranks,
        left_out=(*table.left_out, *read.refused),
        note="; ".join(filter(None, (note, _of_list(table.ranks), table.failed))),
        wrong=_wrong(table, read, count or 2),
        failed=bool(table.failed),
        columns=tuple(dict.fromkeys(_columns(row) for row in read.rows)),
    )


def _of_list(ranks: RankList) -> str:
    """What a list of ranks leaves open; "": nothing."""
    if ranks.ranks and ranks.groups == 1 and not ranks.complete:
        return f"the list of ranks is shortened: it has {len(ranks.ranks)} of {ranks.count}"
    names = {rank.host for rank in ranks.ranks if rank.host}
    twice = sorted(name for name in names if f"{name} (2)" in names)
    return f"several hosts have one name, by their devices: {shortened(visible(', '.join(twice)))}" if twice else ""


def _columns(row: Row) -> str:
    said = (row.type, row.redop, None if row.root is None or row.root < 0 else f"root {row.root}")
    return " ".join(word for word in said if word)


def _collective(file: File, table: NcclTable, read: RowReading, collective: str | None) -> str | None:
    """The collective that a table says it is of, else the one that is asked for, else the only one that fits."""
    stated = table.stated
    if stated and stated not in OPERATIONS:
        raise file.error(f"it holds {stated}; expected collective= one of {', '.join(OPERATIONS)}")
    if stated and collective not in (None, stated):
        raise file.error(f"holds {stated}; expected {collective}")
    fitting = read.candidates
    parts = f" and its size is {read.parts} times its count" if (read.parts or 1) > 1 else ""
    figures = f"its busbw / algbw is {read.factor.text}{parts}"
    if not fitting:
        raise file.error(f"{figures}, which no collective has on any number of ranks")
    name = stated or collective
    if name is None:
        return fitting[0] if len(fitting) == 1 else None
    if read.ranks_of(name) is None:
        raise file.error(f"{figures}, which {name} has on no number of ranks; it may be of {', '.join(fitting)}")
    return name


def _ranks(file: File, ranks: RankList, read: RowReading, name: str | None, gpus: int | None) -> tuple[int | None, str]:
    """How many ranks there were, by the list, the figures, what is asked for, or the command; and what to say of it."""
    span = (read.ranks_of(name) if name else None) or Interval(2, MOST_RANKS)
    by_figures = int(span.low) if span.low == span.high else None
    listed = ranks.count if ranks.count and ranks.count > 1 else None
    figures = f"its busbw / algbw is {read.factor.text}, as of {name} on {by_figures} ranks"
    if listed and not span.has(listed):
        if by_figures is None or listed > by_figures:
            raise file.error(f"it lists {listed} ranks, and {figures if by_figures else 'its busbw is of other ones'}")
        return by_figures, f"{figures}; the list of ranks names {listed}"
    known = listed or by_figures
    if known and gpus not in (None, known):
        raise file.error(f"gpus={gpus}: {f'it lists {listed} ranks' if listed else figures}; expected gpus={known}")
    others = (count for count in (ranks.in_command, ranks.in_each_process) if count and count > 1 and span.has(count))
    if known is None and gpus is not None and not span.has(gpus):
        raise file.error(f"gpus={gpus}: its busbw / algbw is {read.factor.text}, which {name} has not on {gpus} ranks")
    return known or gpus or next(others, None), ""


def _wrong(table: NcclTable, read: RowReading, ranks: int) -> str:
    """What was wrong, and at which sizes."""
    places = [
        f"{half.wrong} at {size_text(row.size_bytes)} ({place})"
        for row in read.rows
        for half, place in ((row.out, "out of place"), (row.inside, "in place"))
        if half and half.wrong
    ]
    if places:
        return f"wrong elements: {', '.join(places[:_MOST_NAMED])}" + ", ..." * (len(places) > _MOST_NAMED)
    if not table.out_of_bounds:
        return ""
    sizes = [size_text(row.size_bytes) for row in read.rows if row.rounded_badly(ranks)]
    at = f"at {', '.join(sizes[:_MOST_NAMED])}" if sizes else "at sizes that its table does not say"
    return f"its last lines say FAILED: {table.out_of_bounds} values out of bounds, {at}"


_MOST_NAMED = 10  # sizes in a sentence


# A bench record as the JSON that nccl-tests writes with -J (version 3 of its layout), one file for each collective.
#
# Times are medians, of queues where there were any, as nccl-tests times these. What resnetx has measured is either in
# place or out of place: the other half is "nan", as nccl-tests has what it did not measure.
#
# Reference: nccl-tests, src/util.cu.

VERSION = 3
_TYPES = {"fp32": "float", "bf16": "bfloat16", "fp16": "half"}
_NOT_MEASURED = {"time": "nan", "alg_bw": "nan", "bus_bw": "nan", "nwrong": "N/A"}


def encoded(record: BenchRecord, collective: str, times_s: Sequence[Sequence[float]]) -> bytes:
    """One collective of a record; `times_s`: of each of its points, those that bandwidths are of."""
    points = [point for point in record.points if point.collective == collective]
    results = [_json_result(record, point, median(times)) for point, times in zip(points, times_s, strict=True)]
    wrong = sum(point.wrong or 0 for point in points)
    busbw = [result[_place(record, collective)]["bus_bw"] for result in results]
    tree = {
        "version": VERSION,
        "start_time": record.started_at,
        "args": [f"{OPERATIONS[collective].program}_perf"],
        "env": dict(record.environment.variables) if record.environment else {},
        "nccl_version": record.library,
        "config": {"devices": _devices(record)},
        "results": sorted(results, key=lambda result: int(result["size"])),
        "out_of_bounds": {"count": wrong, "okay": wrong == 0},
        "average_bus_bandwidth": {"bandwidth": fmean(busbw), "okay": True},
    }
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def _json_result(record: BenchRecord, point: BenchPoint, time_s: float) -> dict[str, Any]:
    operation, dtype = OPERATIONS[point.collective], record.request.dtype if record.request else "fp32"
    algbw_GBps = point.size_bytes / time_s / 1e9
    measured = {
        "time": time_s * 1e6,
        "alg_bw": algbw_GBps,
        "bus_bw": algbw_GBps * operation.bus_factor(record.world_size or 1),
        "nwrong": "N/A" if point.wrong is None else point.wrong,
    }
    place = _place(record, point.collective)
    other = {"in_place": "out_of_place", "out_of_place": "in_place"}[place]
    return {
        "size": point.size_bytes,
        "count": point.size_bytes // ELEMENT_BYTES[dtype] // ((record.world_size or 1) if operation.in_parts else 1),
        "type": _TYPES[dtype],
        "redop": "sum" if operation.adds else "none",
        "root": 0 if point.collective in ("broadcast", "reduce", "gather", "scatter") else -1,
        place: measured,
        other: _NOT_MEASURED,
    }


def _place(record: BenchRecord, collective: str) -> str:
    """Which half of a result was measured; of an imported record the first, which is read."""
    place = (record.request.place or OPERATIONS[collective].places[0]) if record.request else "out"
    return "in_place" if place == "in" else "out_of_place"


def _devices(record: BenchRecord) -> list[dict[str, Any]]:
    if record.devices is None:
        return [{"rank": rank} for rank in range(record.world_size or 0)]
    return [
        {"rank": device.rank, "hostname": device.node, "device": device.index, "device_info": device.name}
        for device in record.devices
    ]
