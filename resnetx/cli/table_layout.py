"""Tables laid out as lines of a terminal.

A table is as wide as its cells need. Where that is too wide, columns that say the same in all rows become a sentence,
then those go that the table itself calls less important, and are named for the reader. All others stay: what has no
room goes on in a further block below, whose rows begin as those above. Cells are never broken, but for a first or last
column of prose, which goes on below itself. No line ends in blanks.
"""

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from resnetx.table import alike_columns, in_all_rows
from resnetx.units import whole

_GAP = "  "
_PROSE = 30  # columns that a column of prose wants beside the others


def cell_len(text: str) -> int:
    """Columns that a text takes, by rich, which takes long to import and is not needed by `--help`."""
    from rich.cells import cell_len as counted

    return counted(text)


@dataclass(frozen=True)
class TableBlock:
    """Columns of tables, laid out: their heading, and the lines of each table by its title."""

    heading: str
    lines: dict[str, list[str]]


@dataclass(frozen=True)
class TableLayout:
    """Tables with the same columns, laid out in blocks, each below the one before."""

    blocks: list[TableBlock]
    same: str  # what columns say that say the same in all rows, and have no place
    left_out: list[str]  # headings of others that have none


def lay_out(
    columns: Sequence[str],
    tables: Mapping[str, Sequence[Sequence[str]]],
    width: int | None = None,
    least: Sequence[str] = (),
    whole: bool = False,
    among: Sequence[Sequence[str]] = (),
) -> TableLayout:
    """Tables (title -> rows) of which the columns stand below each other, in a width; None: there is no limit.

    A heading that starts with ">" is that of a right-aligned column, one with "~" that of prose: the last one, or long
    names in the first one, which leaves the others their room.
    `least`: headings of columns that may be left out, the least important one first; columns of the same heading go
    together. `whole`: none is left out. `among`: all rows, where the tables have some of them. A column without
    any cell is no column.
    """
    headings = [column.lstrip(">~") for column in columns]
    rows = [row for table in tables.values() for row in table]
    assert set(least) <= set(headings), f"{set(least) - set(headings)} is no column of {headings}"
    assert all(len(row) == len(columns) for row in rows), f"a row without {len(columns)} cells, for {headings}"
    filled = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
    widths = [max(map(cell_len, [heading, *(row[index] for row in rows)])) for index, heading in enumerate(headings)]
    prose = len(columns) - 1 if columns[-1].startswith("~") else None
    if prose is not None:
        widths[prose] = min(widths[prose], _PROSE)
    names = columns[0].startswith("~") and len(columns) > 1
    if names and width is not None:
        others = sum(widths[place] + len(_GAP) for place in filled if place)
        longest = max(
            cell_len(word) for cell in [headings[0], *(row[0] for row in rows)] for word in [*cell.split(), ""]
        )
        widths[0] = min(widths[0], max(longest + 2, min(_PROSE, width // 2), width - others))
    same = [] if _fits(filled, widths, width) else alike_columns(headings, among or rows)
    alike = [place for place in same if place in filled]
    if len(alike) == len(filled):
        alike = []
    places = [place for place in filled if place not in alike]
    kept = places if whole else _fitting(places, headings, widths, width, least)

    def line(chosen: Sequence[int], cells: Sequence[str]) -> str:
        if names and cell_len(cells[0]) > widths[0]:
            name, *below = _broken(cells[0], widths[0], "  ").split("\n")
            return "\n".join([line(chosen, [name, *cells[1:]]), *below])
        aligned = [_aligned(cells[place], widths[place], columns[place]) for place in chosen if place != prose]
        if prose is None or prose not in chosen:
            return _GAP.join(aligned).rstrip()
        before = "".join(cell + _GAP for cell in aligned)
        at = cell_len(before)
        return beside(before, cells[prose], at, width if width is None or at + _PROSE <= width else None)

    blocks = [
        TableBlock(
            line(chosen, headings), {title: [line(chosen, row) for row in table] for title, table in tables.items()}
        )
        for chosen in _blocks(kept, rows, widths, width)
    ]
    left_out = dict.fromkeys(headings[place] for place in places if place not in kept)
    return TableLayout(blocks, in_all_rows(headings, among or rows, alike), list(left_out))


def _aligned(cell: str, width: int, column: str) -> str:
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if column.startswith(">") else cell + blanks


def _fits(places: Sequence[int], widths: Sequence[int], width: int | None) -> bool:
    return width is None or sum(widths[index] + len(_GAP) for index in places) - len(_GAP) <= width


def _fitting(
    places: Sequence[int], headings: Sequence[str], widths: Sequence[int], width: int | None, least: Sequence[str]
) -> list[int]:
    """The places of the columns that are shown: all that have to be, and of the others those that there is room for.

    One that has no room even beside the first column alone cannot be.
    """
    wanted = [index for index in places if headings[index] not in least] or places[:1]
    kept = [index for index in wanted if index == wanted[0] or _fits([wanted[0], index], widths, width)]
    for heading in reversed(least):
        more = sorted([*kept, *(index for index in places if headings[index] == heading)])
        if _fits(more, widths, width):
            kept = more
    return kept


def _blocks(
    kept: Sequence[int], rows: Sequence[Sequence[str]], widths: Sequence[int], width: int | None
) -> list[Sequence[int]]:
    """The columns of each block; further ones begin with those that tell the rows apart, as far as they leave room."""
    first = _leading(kept, widths, width)
    blocks, rest = [kept[:first]], kept[first:]
    while rest:
        key = next(
            (end for end in range(1, first) if len({tuple(row[p] for p in kept[:end]) for row in rows}) == len(rows)), 1
        )
        while key > 1 and not _fits([*kept[:key], rest[0]], widths, width):
            key -= 1
        taken = max(1, _leading([*kept[:key], *rest], widths, width) - key)
        blocks.append([*kept[:key], *rest[:taken]])
        rest = rest[taken:]
    return blocks


def _leading(places: Sequence[int], widths: Sequence[int], width: int | None) -> int:
    """How many of the columns fit beside each other, at least one."""
    return max((end for end in range(1, len(places) + 1) if _fits(places[:end], widths, width)), default=1)


# Prose laid out as lines of a terminal: broken between words, never inside one and never inside `back-ticks`, so that
# what a reader copies (a path, a command) stays in one piece. A number stays with its unit.
#
# Where there is no terminal there are 80 columns, so that a pipe and a log read as a terminal does. COLUMNS=N sets
# another number, COLUMNS=0 no limit: a width of None, in which every sentence and row is a line.

WIDEST = 100  # columns: longer lines are hard to read, however wide the terminal is
PIPE = 80  # columns of what is no terminal
_NO_BREAK = "\N{NO-BREAK SPACE}"


def width_of(stream: IO[str]) -> int | None:
    """Columns for a stream: those of COLUMNS, of its terminal, or as many as a pipe has; None: there is no limit."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal():
        return int(chosen) or None
    try:
        return (os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0) or PIPE
    except (ValueError, OSError):  # a stream that is closed, or has no file
        return PIPE


def wrapped(text: str, width: int | None, indent: int = 0) -> str:
    """Lines of text, each broken between words; `indent`: blanks before what a broken line goes on with."""
    return "\n".join(_broken(line, width, _leading_blanks(line) + " " * indent) for line in text.split("\n"))


def beside(name: str, text: str, at: int, width: int | None) -> str:
    """A name, and beside it from column `at` on what is said of it."""
    return _broken(f"{name:{at}}{text}", width, " " * at, at + WIDEST)


def _broken(line: str, width: int | None, indent: str, widest: int = WIDEST) -> str:
    """A line broken at `width` (None: not at all); quoted `words` stay together."""
    if width is None:
        return line.rstrip()
    kept = whole(re.sub(r"`[^`]*`", lambda quoted: quoted[0].replace(" ", _NO_BREAK), line))
    head = _leading_blanks(kept)
    lines = textwrap.wrap(
        kept.lstrip(" "),
        min(width, widest),
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(_NO_BREAK, " ")


def _leading_blanks(line: str) -> str:
    """The blanks that a line begins with."""
    return " " * (len(line) - len(line.lstrip(" ")))
