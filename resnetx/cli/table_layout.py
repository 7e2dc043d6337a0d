"""Tables laid out as lines of a terminal.

A table is as wide as its cells need. Where that is too wide, columns are left out, and named for the reader; cells are
never broken, but for a last column of prose, which goes on below itself. Which columns go first, the table says itself;
then they go from the right. No line ends in blanks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from resnetx.cli.prose import beside

_GAP = "  "
_PROSE = 30  # columns that a column of prose wants beside the others


@dataclass(frozen=True)
class TableLayout:
    """Tables with the same columns, laid out: their heading, the lines of each by its title, and what has no place."""

    heading: str
    lines: dict[str, list[str]]
    left_out: list[str]  # headings


def lay_out(
    columns: Sequence[str],
    tables: Mapping[str, Sequence[Sequence[str]]],
    width: int | None = None,
    least: Sequence[str] = (),
    whole: bool = False,
) -> TableLayout:
    """Tables (title -> rows) of which the columns stand below each other, in a width; None: there is no limit.

    A heading that starts with ">" is that of a right-aligned column, one with "~" that of prose, which is the last one.
    `least`: headings of columns that may be left out, the least important one first; columns of the same heading go
    together. `whole`: none is left out, and lines may be wider. A column without any cell is no column.
    """
    headings = [column.lstrip(">~") for column in columns]
    rows = [row for table in tables.values() for row in table]
    assert set(least) <= set(headings), f"{set(least) - set(headings)} is no column of {headings}"
    assert all(len(row) == len(columns) for row in rows), f"a row without {len(columns)} cells, for {headings}"
    filled = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
    widths = [max(map(cell_len, [heading, *(row[place] for row in rows)])) for place, heading in enumerate(headings)]
    prose = len(columns) - 1 if columns[-1].startswith("~") else None
    if prose is not None:
        widths[prose] = min(widths[prose], _PROSE)
    kept = filled if whole else _fitting(filled, headings, widths, width, least)

    def line(cells: Sequence[str]) -> str:
        aligned = [_aligned(cells[place], widths[place], columns[place]) for place in kept if place != prose]
        if prose not in kept:
            return _GAP.join(aligned).rstrip()
        before = "".join(cell + _GAP for cell in aligned)
        at = cell_len(before)
        return beside(before, cells[prose], at, width if width is None or at + _PROSE <= width else None)

    return TableLayout(
        line(headings),
        {title: [line(row) for row in table] for title, table in tables.items()},
        list(dict.fromkeys(headings[place] for place in filled if place not in kept)),
    )


def _aligned(cell: str, width: int, column: str) -> str:
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if column.startswith(">") else cell + blanks


def _fitting(
    places: Sequence[int], headings: Sequence[str], widths: Sequence[int], width: int | None, least: Sequence[str]
) -> list[int]:
    """The places of the columns that a width has room for, the important ones first."""

    def fits(chosen: Sequence[int]) -> bool:
        return width is None or sum(widths[place] + len(_GAP) for place in chosen) - len(_GAP) <= width

    kept = [place for place in places if headings[place] not in least]
    while len(kept) > 1 and not fits(kept):
        kept.pop()
    for heading in reversed(least):
        more = sorted([*kept, *(place for place in places if headings[place] == heading)])
        if fits(more):
            kept = more
    return kept
