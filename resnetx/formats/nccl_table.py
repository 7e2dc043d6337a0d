"""The printed tables of nccl-tests and rccl-tests, of every version.

    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
         1048576        262144     float     sum      -1    80.10   13.09   22.91      0    79.90   13.12   22.97      0

Columns are found by their heading, as versions differ: without `root`, without `redop` or with a blank one, with the
largest error ("error", "res") in place of wrong elements, with one half alone, with percentiles behind each half;
until 2018 `bytes`, `N` and milliseconds. Rows without a heading count if their own columns agree.

Source: NVIDIA/nccl-tests, src/common.cu and src/util.cu, and ROCm/rccl-tests, src/common.cu, over their history.
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from resnetx.errors import shortened, visible
from resnetx.formats import logs
from resnetx.loading import File
from resnetx.operations import OPERATIONS, Operation
from resnetx.record.sealing import MOST_BYTES

# ---- nccl rows ------------------------------------------------------------------------------------------------------
# Rows of nccl-tests, and what they say of themselves: each has a time, an algbw and a busbw, which have to agree.
#
# size / time is algbw, within the digits that are printed, or the columns are not those that they are taken for. busbw
# / algbw is a factor of the collective and of the number of ranks, so that it tells one where the other is known. size
# over count and type is the number of ranks where each of them has a part of the array. Until June 2020 gathering and
# scattering counted (n - 1) / n of their bytes as algbw, with a busbw that is the same.
#
# Source: NVIDIA/nccl-tests, src/*.cu (GetBw, GetCollByteCount; commit ec1b5e2 of 2020-06-19 for the change).

MOST_RANKS = 2**20
TYPE_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "int32": 4, "uint32": 4, "int": 4, "int64": 8, "uint64": 8, "half": 2,
    "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
}  # fmt: skip
# Errors that its older versions take for rounding, of one addition; of any other type none (DeltaMaxValue).
_ROUNDING = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
_NUMBER = re.compile(r"\d{1,18}(?:\.(?P<digits>\d{0,18}))?(?:e(?P<power>[+-]?\d{1,2}))?")
_SLACK = 1e-9  # relative: of the arithmetic here
_UNTIL_2020 = ("allgather", "reduce_scatter")


@dataclass(frozen=True)
class Interval:
    """Where a value lies."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        return self.low * (1 - _SLACK) <= value <= self.high * (1 + _SLACK)

    def within(self, other: "Interval") -> "Interval":
        """What both have; empty where `low` is above `high`."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    @property
    def empty(self) -> bool:
        return self.low > self.high * (1 + _SLACK)

    @property
    def text(self) -> str:
        return f"{(self.low + self.high) / 2:.4g}"


ANY = Interval(0.0, math.inf)


@dataclass(frozen=True)
class Printed:
    """A number as it is printed: it was rounded to its last digit."""

    value: float
    rounded: float  # half of its last digit

    def times(self, unit: float) -> "Printed":
        return Printed(self.value * unit, self.rounded * unit)

    @property
    def interval(self) -> Interval:
        return Interval(max(0.0, self.value - self.rounded), self.value + self.rounded)


def printed(word: str) -> Printed | None:
    """A number that is not negative; None for what is none."""
    if (match := _NUMBER.fullmatch(word)) is None:
        return None
    last = int(match["power"] or 0) - len(match["digits"] or "")
    value = float(word)
    return Printed(value, 0.5 * 10.0**last) if math.isfinite(value) else None


@dataclass(frozen=True)
class Half:
    """One row out of place, or in place."""

    time: Printed  # s
    algbw: Printed | None  # B/s; None: it has none
    busbw: Printed | None
    wrong: int | None = None  # elements that were not what they should be; None: not counted
    error: float | None = None  # the largest, in versions that do not count

    def over_time(self, size_bytes: int) -> Interval:
        """algbw over size / time."""
        if self.algbw is None:
            return ANY
        rate, time = self.algbw.interval, self.time.interval
        return Interval(rate.low * time.low / size_bytes, rate.high * time.high / size_bytes)

    @property
    def factor(self) -> Interval:
        """busbw / algbw."""
        if self.algbw is None or self.busbw is None:
            return ANY
        bus, alg = self.busbw.interval, self.algbw.interval
        return Interval(bus.low / alg.high if alg.high else 0.0, bus.high / alg.low if alg.low else math.inf)


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    where: str  # "line 12"
    size_bytes: int
    count: int | None = None  # of elements
    type: str | None = None
    redop: str | None = None  # "none", "sum", ...; None: no such column, or blank
    root: int | None = None  # -1: it has none
    out: Half | None = None
    inside: Half | None = None  # in place

    @property
    def halves(self) -> list[Half]:
        """Those that were measured; out of place first."""
        return [half for half in (self.out, self.inside) if half is not None]

    @property
    def over_time(self) -> Interval:
        return _both(half.over_time(self.size_bytes) for half in self.halves)

    @property
    def factor(self) -> Interval:
        return _both(half.factor for half in self.halves)

    @property
    def wrong(self) -> int | None:
        """Elements, out of place and in place; None: not counted."""
        counted = [half.wrong for half in self.halves if half.wrong is not None]
        return sum(counted) if counted else None

    def rounded_badly(self, ranks: int) -> bool:
        """Whether its largest error is above what its version takes for rounding."""
        most = _ROUNDING.get(self.type or "", 0.0) * max(1, ranks - 1)
        return any(half.error is not None and half.error > most for half in self.halves)

    @property
    def parts(self) -> int | None:
        """How many parts of `count` elements the array has; None: not to be told."""
        each = (self.count or 0) * TYPE_BYTES.get(self.type or "", 0)
        return self.size_bytes // each if each and self.size_bytes % each == 0 else None

    @property
    def disagreement(self) -> str:
        """The half that does not agree with itself, in words; "" where both do."""
        for half in self.halves:
            if half.algbw is not None and not half.over_time(self.size_bytes).has(1):
                rate_GBps = self.size_bytes / half.time.value / 1e9 if half.time.value else math.inf
                return (
                    f"{self.where}: {self.size_bytes} B in {half.time.value * 1e6:g} us are {rate_GBps:,.4g} GB/s, and "
                    f"its algbw is {half.algbw.value / 1e9:g}"
                )
        return "" if not self.over_time.empty else f"{self.where}: its two halves do not agree"


def _both(intervals: Iterable[Interval]) -> Interval:
    found = ANY
    for interval in intervals:
        found = found.within(interval)
    return found


@dataclass(frozen=True)
class RowReading:
    """What a table's own figures say: its factor, its parts, and which rows disagree with themselves."""

    rows: tuple[Row, ...]  # that agree
    refused: tuple[str, ...]  # the others, in words
    over_time: Interval  # of algbw over size / time, until 2020; (1, 1) since
    factor: Interval  # of busbw over algbw
    parts: int | None

    def ranks_of(self, name: str) -> Interval | None:
        """The numbers of ranks on which a collective has these figures; None: on none."""
        operation = OPERATIONS[name]
        interval = Interval(2, MOST_RANKS).within(self._by_factor(operation))
        if self.parts is not None and operation.in_parts:
            interval = interval.within(Interval(self.parts, self.parts))
        elif self.parts not in (None, 1):
            return None
        return None if interval.empty else interval

    def _by_factor(self, operation: Operation) -> Interval:
        if self.over_time.high < 1:  # until 2020
            of = OPERATIONS["allgather"].bus_factor if operation.name in _UNTIL_2020 else None
            return Interval(1, 0) if of is None else _inverse(of, self.over_time)
        return _inverse(operation.bus_factor, self.factor)

    @property
    def candidates(self) -> list[str]:
        """The collectives that it may be of: by its figures, then by its operators, its roots and what is checked."""
        fitting = [name for name in OPERATIONS if self.ranks_of(name) is not None]
        hinted = [name for name in fitting if all(_may_be(OPERATIONS[name], row) for row in self.rows)]
        told = [name for name in hinted if all(_checked_alike(name, row) for row in self.rows)]
        return told or hinted or fitting

    @property
    def alone(self) -> bool:
        """Whether there was one rank: nothing crossed any link, and its busbw is 0."""
        return self.factor.high < 0.1


_ROOTED = ("broadcast", "reduce", "gather", "scatter")
# Since 2022 their #wrong in place is N/A, and nobody else's (alltoall.cu, sendrecv.cu: reportErrors).
_UNCHECKED_IN_PLACE = ("alltoall", "sendrecv")


def _checked_alike(name: str, row: Row) -> bool:
    if row.out is None or row.inside is None or row.out.wrong is None:
        return True
    return (row.inside.wrong is None) == (name in _UNCHECKED_IN_PLACE)


def _may_be(operation: Operation, row: Row) -> bool:
    if row.root is not None and (row.root >= 0) != (operation.name in _ROOTED):
        return False
    if row.redop in (None, "none"):
        return row.redop is None or not operation.adds
    return operation.adds or operation.name == "sendrecv"  # which repeats itself for each operator


def _inverse(rising: Callable[[int], float], values: Interval) -> Interval:
    """The numbers of ranks whose factor is among the values; of a factor that never changes: all or none."""
    ranks = range(2, MOST_RANKS)
    low = bisect_left(ranks, values.low * (1 - _SLACK), key=rising)
    high = bisect_right(ranks, values.high * (1 + _SLACK), key=rising)
    return Interval(ranks[low], ranks[high - 1]) if low < high else Interval(1, 0)


def reading(rows: Sequence[Row], counts_parts: bool) -> RowReading:
    """What the rows of one table say; `counts_parts`: whether their count is that of a part, as it is since 2017."""
    kept, over_time, refused = list(rows), Interval(1, 1), []
    bad = [row for row in rows if row.disagreement]
    if bad:
        older = _both(row.over_time for row in rows)
        same = not older.empty and older.high < 1 and _both(row.factor for row in rows).has(1)
        if same and not _inverse(OPERATIONS["allgather"].bus_factor, older).empty:
            over_time = older
        else:
            kept, refused = [row for row in rows if not row.disagreement], [row.disagreement for row in bad]
    factor = ANY
    for row in list(kept):
        if (both := factor.within(row.factor)).empty:
            kept.remove(row)
            what = "busbw / algbw is not that of the rows above"
            refused.append(f"{row.where}: its {what} ({row.factor.text} and {factor.text})")
        else:
            factor = both
    parts = {row.parts for row in kept if row.size_bytes} if counts_parts else set()
    return RowReading(tuple(kept), tuple(refused), over_time, factor, parts.pop() if len(parts) == 1 else None)


def telling(rows: Sequence[Row]) -> bool:
    """Whether any row has an algbw with digits enough to show that its columns are what they are taken for."""
    halves = chain.from_iterable(row.halves for row in rows)
    return any(half.algbw is not None and half.algbw.value > 50 * half.algbw.rounded for half in halves)


# ---- nccl table -----------------------------------------------------------------------------------------------------

# Where the ranks of nccl-tests ran: the list that it prints, and the command that started them.
#
# #  Rank  0 Group  0 Pid   6287 on     node-a device  0 [0x18] NVIDIA H200
# #   Rank  0 uses device  0 [0x05] Tesla P100                                  NCCL 1
# mpirun -np 16 ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 1

_LISTED = re.compile(
    r"^\s*#?\s*(?:Rank|Device)\s+(?P<rank>\d{1,7})\s+(?:Group\s+(?P<group>\d{1,7})\s+)?(?:Pid\s+\d{1,10}\s+)?"
    r"(?:on\s+(?P<host>\S{1,255})\s+device|uses\s+device|->)\s+(?P<device>\d{1,4})\s+\[(?P<bus>[^\]]{1,40})\]\s?(?P<name>.{0,200})"
)
_PROGRAM = re.compile(
    r"(?:^|[\s/\"'`])(?P<name>[a-z_]{1,40}?)_(?P<kind>perf|test)(?:_mpi)?\b(?P<after>[^|;&>]{0,1000})"
)
_LAUNCHER = re.compile(r"\b(?:mpirun|mpiexec|orterun|prun|srun|jsrun)\b")
_PROCESSES = re.compile(r"(?:^|\s)(?:-np|-n|--np|--ntasks)[ =]?(\d{1,7})\b")
_THREADS = re.compile(r"\s(?:-t|--nthreads)[ =]?(\d{1,4})\b")
_GPUS = re.compile(r"\s(?:-g|--ngpus)[ =]?(\d{1,4})\b")
_SUMMED_UP = re.compile(r"nThreads?:? (\d{1,4}) nGpus:? (\d{1,4})\b")


@dataclass(frozen=True)
class Rank:
    """One line of the list."""

    rank: int
    group: int  # of several that ran at once, each for itself
    host: str | None
    device: int
    bus_id: str | None
    name: str
    bus: str = ""  # as the list has it: a number, or an address


@dataclass(frozen=True)
class RankList:
    """The list, or what the command says instead of it."""

    ranks: tuple[Rank, ...] = ()
    in_command: int | None = None
    in_each_process: int | None = None  # of the line that sums the options up

    @property
    def groups(self) -> int:
        """How many communicators ran at once (NCCL_TESTS_SPLIT)."""
        return len({rank.group for rank in self.ranks}) or 1

    @property
    def count(self) -> int | None:
        """Ranks of one collective; the list may have lost lines, but numbers them."""
        if not self.ranks:
            return None
        if self.groups > 1:
            return max(Counter(rank.group for rank in self.ranks).values())
        return 1 + max(rank.rank for rank in self.ranks)

    @property
    def complete(self) -> bool:
        return bool(self.ranks) and self.groups == 1 and len(self.ranks) == self.count


NOT_SAID = RankList()


def listed(line: str) -> Rank | None:
    """A rank that a line lists."""
    if (match := _LISTED.match(line)) is None:
        return None
    bus = match["bus"] if ":" in match["bus"] else None  # the number of a bus alone is no address
    rank, group, device = int(match["rank"]), int(match["group"] or 0), int(match["device"])
    return Rank(rank, group, match["host"], device, bus, " ".join(match["name"].split()), match["bus"])


def rank_list(ranks: Iterable[Rank], in_command: int | None, in_each_process: int | None) -> RankList:
    """Those of one table; a rank that is listed twice counts once."""
    by_rank = {rank.rank: rank for rank in ranks}
    told_apart = tuple(_hosts_apart(by_rank[number] for number in sorted(by_rank)))
    return RankList(told_apart, in_command, in_each_process)


def _hosts_apart(ranks: Iterable[Rank]) -> Iterator[Rank]:
    """The ranks, with a number behind the name of a host that has a device again: NCCL lets no two ranks share one."""
    seen: Counter[tuple[str, int, str]] = Counter()
    for rank in ranks:
        if rank.host is not None and rank.bus:
            device = rank.host, rank.device, rank.bus
            seen[device] += 1
            yield replace(rank, host=f"{rank.host} ({seen[device]})") if seen[device] > 1 else rank
        else:
            yield rank


def processes(line: str) -> int | None:
    """How many a launcher in a line starts; None: there is none, or it does not say."""
    match = _PROCESSES.search(line) if _LAUNCHER.search(line) else None
    return int(match[1]) if match else None


@dataclass(frozen=True)
class NcclTestCommand:
    """A test that a line starts, or names; None: it does not say."""

    program: str | None  # less "_perf": "all_reduce"
    ranks: int | None


def command(line: str) -> NcclTestCommand | None:
    """The test in a command line, or in what a test prints of itself."""
    if (match := _PROGRAM.search(line)) is None or (match["kind"] == "test" and not match["name"].endswith(_OLD)):
        return None
    before, after = line[: match.start()], match["after"]
    launched, started = _LAUNCHER.search(before), processes(before)
    own = [int(option[1]) for option in (_THREADS.search(after), _GPUS.search(after)) if option]
    if (launched and not started) or not (own or launched):
        return NcclTestCommand(match["name"], None)
    ranks = started or 1
    for each in own:
        ranks *= each
    return NcclTestCommand(match["name"], ranks if ranks > 1 else None)


_OLD = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")  # programs of NCCL 1


def in_each_process(line: str) -> int | None:
    """Ranks of one process, by the line that sums the options up."""
    match = _SUMMED_UP.search(line)
    return int(match[1]) * int(match[2]) if match else None


PROGRAMS = {operation.program: operation.name for operation in OPERATIONS.values()}


@dataclass
class NcclTable:
    """The rows below one heading, and what stands above it."""

    rows: list[Row]
    program: str | None = None  # less "_perf"
    ranks: RankList = NOT_SAID
    counts_parts: bool = True  # whether a count is that of a part of the array
    out_of_bounds: int = 0
    left_out: list[str] = field(default_factory=list)
    failed: str = ""  # what says that the test did not end as it should

    @property
    def stated(self) -> str | None:
        """The collective that it says it is of."""
        return None if self.program is None else PROGRAMS.get(self.program, self.program)

    def may_be(self, collective: str | None, gpus: int | None) -> bool:
        """Whether it says nothing else."""
        return collective in (None, self.stated or collective) and gpus in (None, self.ranks.count or gpus)

    @property
    def title(self) -> str:
        return f"{self.stated or 'a collective'} on {self.ranks.count or 'some'} ranks"


@dataclass(frozen=True)
class _Heading:
    """The columns of a table."""

    redop: bool
    root: bool
    halves: tuple[tuple[str, ...], ...]  # each from its time on
    stamped: bool = False  # a date and a time of day behind the halves
    counted: bool = True  # whether count and type stand behind the size; somebody may have left them out
    unit_s: float = 1e-6

    @property
    def old(self) -> bool:
        return self.unit_s != 1e-6

    def row(self, number: int, words: Sequence[str]) -> Row | None:
        """The row that words are; None where they are none. A blank operator, and a blank half, have no word."""
        index = 3 if self.counted else 1
        redop = words[index] if len(words) > index and printed(words[index].lstrip("-")) is None else None
        if redop is not None and not self.redop:
            return None
        index += redop is not None
        rest = list(words[index : -2 if self.stamped else None])
        root = None
        if self.root:
            root, rest = "".join(rest[:1]), rest[1:]
            if not re.fullmatch(r"-?\d{1,7}", root):
                return None
        halves = []
        for labels in self.halves:
            if len(rest) >= len(labels):
                half, rest = self._half(labels, rest), rest[len(labels) :]
                if half is None:
                    return None
                halves.append(half)
        if not halves:
            return None
        one = len(self.halves) == 1 or len(halves) == 2
        return Row(
            where=f"line {number}",
            size_bytes=int(words[0]),
            count=int(words[1]) if self.counted else None,
            type=words[2] if self.counted else None,
            redop=redop,
            root=None if root is None else int(root),
            out=halves[0] if one else None,
            inside=halves[1] if len(halves) == 2 else None if one else halves[0],
        )

    def _half(self, labels: Sequence[str], words: Sequence[str]) -> Half | None:
        cell = dict(zip(labels, words, strict=False))
        time, algbw, busbw = (printed(cell[label]) for label in ("time", "algbw", "busbw"))
        if time is None or algbw is None or busbw is None:
            return None
        counted = _COUNTED.fullmatch(cell.get("wrong", ""))  # else the heading is lost, and it is an error
        wrong, failed = printed(counted[0].rstrip("*")) if counted else None, cell.get("error", cell.get("wrong", ""))
        error = Printed(math.inf, 0) if failed.endswith("*") else printed(failed)  # how rccl-tests marks it
        return Half(
            time.times(self.unit_s),
            algbw.times(1e9),
            busbw.times(1e9),
            None if wrong is None else min(int(wrong.value), MOST_BYTES),
            None if counted or error is None else error.value,
        )


_COUNTED = re.compile(r"\d{1,18}\*?|\d(?:\.\d{1,9})?e\+\d{1,2}")
_START = re.compile(r"#?\s*(?P<size>size|bytes)\s+(?:(?P<count>count|N)\s+type\b|time\s+algbw\b)", re.IGNORECASE)
_SAME = {"res": "error", "delta": "error", "op": "redop"}
# Tables whose heading is lost: of 2022 and later, then those before, of which some have no operator or no root.
_HALF = ("time", "algbw", "busbw", "wrong")
_HEADLESS = [
    _Heading(redop, root, halves)
    for halves in ((_HALF, _HALF), (_HALF,))
    for redop, root in ((True, True), (True, False), (False, True), (False, False))
]


def _heading(line: str) -> _Heading | None:
    if (match := _START.match(line.lstrip())) is None:
        return None
    words = [word.lstrip("#").lower() for word in logs.cells(line)]
    labels = [_SAME.get(word, word) for word in words if word]
    starts = [index for index, label in enumerate(labels) if label in ("time", "cputime")]
    if not starts:
        return None
    stamped = labels[-1] == "timestamp"
    ends = [*starts[1:], len(labels) - stamped]
    halves = tuple(tuple(labels[start:end]) for start, end in zip(starts, ends, strict=True))
    if not all({"algbw", "busbw"} <= set(half) for half in halves[:2]):
        return None
    head = labels[: starts[0]]
    unit_s = 1e-3 if match["size"].lower() == "bytes" else 1e-6
    return _Heading("redop" in head, "root" in head, halves[:2], stamped, match["count"] is not None, unit_s)


_FAILED = re.compile(r"Out of bounds values\s*:\s*(\d{1,15})\s+FAILED")
_CRASHED = re.compile(r"\bTest (?:NCCL |CUDA )?failure\b")
_CONCLUDED = re.compile(r"Collective test concluded: ")
CPU_TIME = "its times are of the CPU (-C, cputime), not of the operation; run it without -C"


class _Reader:
    """The tables of a text, each with the command, and the list of ranks, that stand above it."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.tables: list[NcclTable] = []
        self.heading: _Heading | None = None
        self.program: str | None = None
        self.ranks: list[Rank] = []
        self.in_command: int | None = None
        self.in_each_process: int | None = None
        self.above = False  # whether what is read now stands above the next table, with nothing of it seen yet
        self.without_heading: list[tuple[int, list[str]]] = []

    def line(self, number: int, line: str) -> None:
        """One line of the text."""
        words = logs.cells(line)
        words = words[1:] if words[:1] == ["#"] else words  # of a table that became a comment as a whole
        words = [_plain_number(word) for word in words]
        if heading := _heading(line):
            if any("cputime" in half for half in heading.halves):
                raise self.file.error(CPU_TIME, number)
            self._begin(heading)
        elif _begins_a_row(words, self.heading is None or self.heading.counted):
            self._row(number, words)
        elif rank := listed(line):
            if self.above:
                self.ranks, self.above = [], False
            self.ranks.append(rank)
        elif _CRASHED.search(line):
            if self.tables and not self.tables[-1].failed:
                said = shortened(visible(" ".join(line.split())))
                self.tables[-1].failed = f"the test failed behind its rows (line {number}: {said})"
        elif failed := _FAILED.search(line):
            if self.tables:
                self.tables[-1].out_of_bounds += int(failed[1])
        elif each := in_each_process(line):
            self.in_each_process = each
        elif named := command(line):
            if _CONCLUDED.search(line):
                if self.tables and self.tables[-1].program is None:
                    self.tables[-1].program = named.program
                return
            self.program, self.in_command = named.program, named.ranks or self.in_command

    def _begin(self, heading: _Heading) -> None:
        self.heading = heading
        ranks = rank_list(self.ranks, self.in_command, self.in_each_process)
        self.tables.append(NcclTable([], self.program, ranks, counts_parts=not heading.old))
        self.program, self.above = None, True

    def _row(self, number: int, words: list[str]) -> None:
        if self.heading is None:
            self.without_heading.append((number, words))
        elif row := self.heading.row(number, words):
            self.tables[-1].rows.append(row)
        else:
            begins = f"line {number} begins as a result, and does not go on as its heading says"
            self.tables[-1].left_out.append(begins)

    def ended(self) -> list[NcclTable]:
        """All tables."""
        if self.without_heading and (rows := _headless(self.without_heading)):
            ranks = rank_list(self.ranks, self.in_command, self.in_each_process)
            self.tables.insert(0, NcclTable(rows, self.program, ranks))
        named = [index for index, table in enumerate(self.tables) if table.program]
        programs = {self.tables[index].program for index in named} or {self.program}
        if len(programs) == 1:
            (program,) = programs
            for table in self.tables[min(named, default=0) :]:  # those above the first name are of another, or of none
                table.program = program
        return self.tables


def _begins_a_row(words: Sequence[str], counted: bool) -> bool:
    if len(words) < 4 or not _COUNT.fullmatch(words[0]):
        return False
    if counted:
        return _COUNT.fullmatch(words[1]) is not None and words[2][0].isalpha()
    return all(map(printed, words[1:4]))


_COUNT = re.compile(r"\d{1,18}")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,6})?|\d{1,4}(?:_\d{3}){1,6}")
_COMMA = re.compile(r"\d{1,18},\d{1,2}")


def _plain_number(word: str) -> str:
    """A number without separators of thousands, and with a point where its language has a comma."""
    if _GROUPED.fullmatch(word):
        return word.replace(",", "").replace("_", "")
    return word.replace(",", ".") if _COMMA.fullmatch(word) else word


def tables_of(file: File, text: str) -> list[NcclTable]:
    """The tables of a text."""
    reader = _Reader(file)
    for number, line in logs.numbered(logs.plain(text)):
        reader.line(number, line)
    return reader.ended()


def _headless(lines: Sequence[tuple[int, list[str]]]) -> list[Row]:
    """Rows above which no heading stands: as the columns are with which all agree with themselves; [] by none."""
    for heading in _HEADLESS:
        rows = [row for number, words in lines if (row := heading.row(number, words))]
        sent = [row for row in rows if row.size_bytes]
        if len(rows) == len(lines) and telling(sent) and not any(row.disagreement for row in sent):
            return sent
    return []
