"""Pair copies as programs of others report them: the form that all their readers give."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resnetx.loading import File
from resnetx.record.copies import Access, Direction, Endpoint, Engine, Pair, Place
from resnetx.record.limits import LONGEST_s, SHORTEST_s

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
    source: Place
    target: Place
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
class CollectiveRow:
    """One figure of a collective, as a time."""

    collective: str
    size_bytes: int  # of the whole array
    time_s: float


@dataclass(frozen=True)
class ListedGpu:
    """A GPU as a program lists it."""

    index: int
    name: str  # "NVIDIA GeForce RTX 3090"
    pci_bus_id: str  # "00000000:1b:00.0", as NVML writes it
    host: str = ""  # "": not said
    device: int | None = None  # its number on its host; None: `index`


@dataclass(frozen=True)
class CopyTable:
    """What a file says."""

    program: str  # with its version: "nvbandwidth v0.8"
    gpus: int | None
    rows: tuple[CopyRow, ...] = ()
    collectives: tuple[CollectiveRow, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out or assumed
    devices: tuple[ListedGpu, ...] = ()  # (): the file lists none


def matrix_below(file: File, lines: Sequence[str], title: int) -> list[list[float]]:
    r"""The matrix below the line of its title: a heading ("D\D 0 1", or numbers alone), then a line for each row.

    Each row comes without its number; a cell without a figure ("N/A") is NaN. [] where no matrix follows. A row that
    has not one cell for each column of the heading is an error: nobody knows which column a figure is of.
    """
    below = (
        (place, words)
        for place in range(title + 1, len(lines))
        if (words := lines[place].split()) and not _FENCE.fullmatch(lines[place])
    )
    heading, words = next(below, (len(lines), []))
    columns = _columns(words) if heading <= title + _NEAR else 0
    rows: list[list[float]] = []
    for place, words in below if columns else ():
        if len(words) < 2 or words[0] != str(len(rows)) or len(rows) >= MOST_PLACES:
            break
        last = len(rows) == columns - 1 and not "".join(lines[place + 1 :]).strip()
        if last and len(words) <= columns:
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
    return len(numbers) if numbers == [str(place) for place in range(len(numbers))] else 0


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
