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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from resnetx.errors import shortened, visible
from resnetx.formats import logs
from resnetx.formats.nccl_rows import Half, Printed, Row, printed, telling
from resnetx.loading import File
from resnetx.operations import OPERATIONS
from resnetx.record.sealing import MOST_BYTES

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
    launched, processes = _LAUNCHER.search(before), _PROCESSES.search(before)
    own = [int(option[1]) for option in (_THREADS.search(after), _GPUS.search(after)) if option]
    if (launched and not processes) or not (own or launched):
        return NcclTestCommand(match["name"], None)
    ranks = int(processes[1]) if launched and processes else 1
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
    unit_s: float = 1e-6

    @property
    def old(self) -> bool:
        return self.unit_s != 1e-6

    def row(self, number: int, words: Sequence[str]) -> Row | None:
        """The row that words are; None where they are none. A blank operator, and a blank half, have no word."""
        index = 3
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
            count=int(words[1]),
            type=words[2],
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
        wrong, failed = printed(counted[0]) if counted else None, cell.get("error", cell.get("wrong", ""))
        error = Printed(math.inf, 0) if failed.endswith("*") else printed(failed)  # how rccl-tests marks it
        return Half(
            time.times(self.unit_s),
            algbw.times(1e9),
            busbw.times(1e9),
            None if wrong is None else min(int(wrong.value), MOST_BYTES),
            None if counted or error is None else error.value,
        )


_COUNTED = re.compile(r"\d{1,18}|\d(?:\.\d{1,9})?e\+\d{1,2}")
_START = re.compile(r"#?\s*(?P<size>size|bytes)\s+(?:count|N)\s+type\b", re.IGNORECASE)
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
    return _Heading("redop" in head, "root" in head, halves[:2], stamped, unit_s)


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
        elif len(words) > 3 and all(_COUNT.fullmatch(word) for word in words[:2]) and words[2][0].isalpha():
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
        programs = {table.program for table in self.tables if table.program} | {self.program} - {None}
        for table in self.tables:
            if table.program is None and len(programs) == 1:
                (table.program,) = programs
        return self.tables


_COUNT = re.compile(r"\d{1,18}")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,6})?")
_COMMA = re.compile(r"\d{1,18},\d{1,2}")


def _plain_number(word: str) -> str:
    """A number without separators of thousands, and with a point where its language has a comma."""
    if _GROUPED.fullmatch(word):
        return word.replace(",", "")
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
