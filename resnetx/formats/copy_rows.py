"""Pair copies as programs of others report them: the form that all their readers give."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from resnetx.copies import Direction
from resnetx.formats import nccl_table
from resnetx.loading import File
from resnetx.record.bench_record import Access, CopyEnd, Endpoint, Engine, Pair
from resnetx.record.sealing import LONGEST_s, SHORTEST_s
from resnetx.units import size_text

STAGED = "staged"  # between GPUs that are no peers, or with peer access off: through host memory
LOAD = "load"  # one access of an SM to the memory of another GPU, or of the host: no copy
MOST_PLACES = 1024  # GPUs of a matrix
MOST_BYTES = 2**40  # of a copy
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})\w{0,20}\s*")  # of Markdown
_NEAR = 3  # lines at most from a title to the heading of its matrix: web pages add blank ones


@dataclass(frozen=True)
class CopyRow:
    """One figure of a pair, as a time."""

    copy: str  # "device", "staged", "to-host", "from-host", "local", "load"
    source: CopyEnd
    target: CopyEnd
    size_bytes: int
    time_s: float
    evidence: tuple[str, ...]
    direction: Direction = "one-way"
    endpoint: Endpoint = "device"
    access: Access = ""
    engine: Engine = ""
    path: str | None = None
    together: tuple[Pair, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the figures are ones that a machine measures."""
        return 0 < self.size_bytes <= MOST_BYTES and SHORTEST_s <= self.time_s <= LONGEST_s


@dataclass(frozen=True)
class ReportedCollective:
    """One figure of a collective, as a time."""

    collective: str
    size_bytes: int  # of the whole array
    time_s: float


@dataclass(frozen=True)
class ListedGpu:
    """A GPU as a program lists it."""

    index: int
    name: str  # "NVIDIA GeForce RTX 3090"
    pci_bus_id: str  # "00000000:1b:00.0", as NVML writes it; "": not said
    host: str = ""  # "": not said
    device: int | None = None  # its number on its host; None: `index`


@dataclass(frozen=True)
class CopyTable:
    """What a file says."""

    program: str  # with its version: "nvbandwidth v0.8"
    gpus: int | None
    rows: tuple[CopyRow, ...] = ()
    collectives: tuple[ReportedCollective, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out or assumed
    devices: tuple[ListedGpu, ...] = ()  # (): the file lists none
    wrong: str = ""  # results that were not what they should be, in words


def matrix_below(file: File, lines: Sequence[str], title: int, may_be_cut: bool = False) -> list[list[float]]:
    r"""The matrix below the line of its title: a heading ("D\D 0 1", or numbers alone), then a line for each row.

    Each row comes without its number; a cell without a figure ("N/A") is NaN. [] where no matrix follows. A row that
    has not one cell for each column of the heading is an error: nobody knows which column a figure is of. One that the
    text ends in is one, too, or is left out (`may_be_cut`).
    """
    below = (
        (index, words)
        for index in range(title + 1, len(lines))
        if (words := lines[index].split()) and not _FENCE.fullmatch(lines[index])
    )
    heading, words = next(below, (len(lines), []))
    columns = _columns(words) if heading <= title + _NEAR else 0
    rows: list[list[float]] = []
    for place, words in below if columns else ():
        if len(words) < 2 or words[0] != str(len(rows)) or len(rows) >= MOST_PLACES:
            break
        if len(words) <= columns and not "".join(lines[place + 1 :]).strip():
            if may_be_cut:
                break
            raise file.error(f"line {place + 1}: the file ends within a row of its last matrix; it has been cut off")
        if len(words) != columns + 1:
            raise file.error(
                f"line {place + 1}: {len(words) - 1} figures below a heading of {columns} columns; expected one for "
                "each: lines that a terminal has broken are to be joined"
            )
        rows.append([number(word) for word in words[1:]])
    return rows


def _columns(words: Sequence[str]) -> int:
    """How many columns a heading has; 0: it is none."""
    numbers = list(words if words[:1] == ["0"] else words[1:])
    return len(numbers) if numbers == [str(index) for index in range(len(numbers))] else 0


def gpus_of(rows: Iterable[CopyRow], listed: Sequence[ListedGpu] = ()) -> int:
    """How many GPUs a file is of: those that its rows name, and those that it lists."""
    places = [place for row in rows for place in (row.source, row.target) if isinstance(place, int)]
    return max([1 + max(places, default=-1), *(1 + gpu.index for gpu in listed)])


def number(word: str) -> float:
    """A number; NaN for what is none."""
    try:
        value = float(word)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def seconds(size_bytes: float, rate_GBps: float) -> float:
    """The time of so many bytes at a rate; NaN where there is none."""
    return size_bytes / (rate_GBps * 1e9) if rate_GBps > 0 else math.nan


# Text of the OSU micro-benchmarks: two ranks (osu_latency, osu_bw, osu_bibw), or a collective (osu_allreduce, ...).
#
#     # OSU MPI-CUDA Bandwidth Test v5.6.2
#     # Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
#     # Size      Bandwidth (MB/s)
#     1                       0.48
#
# MB is 1e6 bytes. A latency is one way, half of a ping-pong. A bandwidth is of a window of 64 messages. A size of
# gathering collectives is what each rank sends, so that the whole array is as many times as large as there are ranks.
# With -c, each line ends in "Pass" or "Fail".

MARK = re.compile(r"^\s*#?\s*OSU \w", re.MULTILINE)
_TITLE = re.compile(
    r"^\s*#?\s*OSU (?P<name>.{1,120}?)\s*(?:Test)?\s*(?:\(?(?:Version|v)\s*(?P<version>[\w.]{1,20})\)?)?\s*$", re.M
)
_COLLECTIVES = {
    "allreduce": "allreduce",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce_scatter": "reduce_scatter",
    "reduce": "reduce",
    "allgather": "allgather",
}
_PER_RANK = ("allgather",)  # sizes are of each rank's part
# Others have the same columns and are something else: overlap with computing, several pairs at once, neighbours.
_ONE_PAIR = re.compile(r"MPI\S*\s+(?:Latency|Bandwidth|Bi-?Directional Bandwidth)", re.IGNORECASE)
_ONE_COLLECTIVE = re.compile(r"\S+\s+(?P<word>\w+)\s+Latency", re.IGNORECASE)


def parse(file: File, text: str, ranks: int | None) -> CopyTable:
    """The results of a file. `ranks`: of a collective, which the file does not say."""
    titles = list(_TITLE.finditer(text))
    if not titles:
        raise file.error("no line of it names a benchmark of OSU (# OSU MPI Bandwidth Test v5.6.2)")
    title = titles[0]
    if len(titles) > 1:
        held = ", ".join(list(dict.fromkeys(each["name"] for each in titles))[:_MOST_NAMED])
        raise file.error(f"holds {len(titles)} outputs of OSU benchmarks ({held}); expected one in a file")
    name, program = title["name"], f"OSU micro-benchmarks {title['version'] or 'of unknown version'}"
    figures = list(_figures(text))
    of_all = _ONE_COLLECTIVE.fullmatch(name)
    failed = [size_text(int(size)) for size in _FAILED.findall(text)]
    wrong = f"validation failed at {', '.join(failed[:_MOST_NAMED])}" if failed else ""
    if of_all and (collective := _COLLECTIVES.get(of_all["word"].lower())):
        commands = (line for line in text.splitlines() if "osu_" in line)
        known = ranks or next(filter(None, map(nccl_table.processes, commands)), None)
        return replace(_collective(file, program, collective, figures, known), wrong=wrong)
    if not _ONE_PAIR.fullmatch(name):
        raise file.error(f"holds {name}, which is neither a copy between two ranks nor a known collective")
    both = re.search(r"bi-?directional", name, re.I) is not None
    endpoint, notes = _endpoint(file, text, name)
    rows = [_copy(endpoint, name, size, figure, "andwidth" in name, both) for size, figure in figures]
    usable = tuple(row for row in rows if row.usable)
    if not usable:
        raise file.error("no line of it is a result (size, then latency or bandwidth)")
    return CopyTable(program, 2, usable, notes=notes, wrong=wrong)


def _figures(text: str) -> Iterator[tuple[int, float]]:
    """(size, the first figure behind it) of each line of results."""
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdecimal() and len(words[0]) < 16 and number(words[1]) > 0:
            yield int(words[0]), number(words[1])


def _collective(
    file: File, program: str, collective: str, figures: list[tuple[int, float]], ranks: int | None
) -> CopyTable:
    if collective in _PER_RANK and ranks is None:
        raise file.error(f"a size of {collective} is what each rank sends; expected gpus=N, the number of ranks")
    times = ranks if collective in _PER_RANK and ranks else 1
    rows = [ReportedCollective(collective, size * times, figure * 1e-6) for size, figure in figures]
    usable = tuple(row for row in rows if 0 < row.size_bytes <= MOST_BYTES and SHORTEST_s <= row.time_s <= LONGEST_s)
    if not usable:
        raise file.error("no line of it is a result (size, then average latency)")
    return CopyTable(program, ranks, collectives=usable)


def _copy(endpoint: Endpoint, name: str, size: int, figure: float, bandwidth: bool, both: bool) -> CopyRow:
    moved = size * (2 if both else 1)
    return CopyRow(
        copy="device",
        source=0,
        target=1,
        size_bytes=size,
        time_s=moved / (figure * 1e6) if bandwidth else figure * 1e-6,
        evidence=(f"OSU {name}", "a window of messages in flight" if bandwidth else "half of a ping-pong"),
        direction="both-ways" if both else "one-way",
        endpoint=endpoint,
    )


def _endpoint(file: File, text: str, name: str) -> tuple[Endpoint, tuple[str, ...]]:
    """Device memory where the file says so, else memory of hosts, which MPI does not pin; and what it leaves open."""
    said = _BUFFERS.search(text)
    if said is None:
        open_ = "the file does not say where its buffers are: memory of hosts, as without D D behind the command"
        return "pageable", (open_,) * bool(re.search("CUDA|ROCM", name))
    if said[1] != said[2]:
        raise file.error(f"its buffers are on {said[1]} and {said[2]}; expected both on DEVICE, or both on HOST")
    return "device" if said[1] == "DEVICE" else "pageable", ()


_BUFFERS = re.compile(r"Send Buffer on (\w{1,20}).{0,40}Receive Buffer on (\w{1,20})")
_FAILED = re.compile(r"^[ \t]{0,8}(\d{1,15})[ \t].{0,200}[ \t]Fail[ \t]*$", re.MULTILINE)
_MOST_NAMED = 10
