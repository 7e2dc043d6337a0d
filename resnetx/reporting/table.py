"""Tables: rows of one struct as columns and cells, for CSV files, charts and whatever else takes rows and columns.

A row is a struct whose fields are the columns, in their order. An estimate takes several columns: a `Summary` NAME,
NAME_low, NAME_high and NAME_ends (`interval` or `range`), an `Estimate` the first three. A list is one cell, its
elements separated by blanks; null is an empty cell.

    table = table_of([WindowRow(...), ...])
    write_csv(folder / "windows.csv", table)
"""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import msgspec

from resnetx.record.system_comparison import Estimate
from resnetx.statistics import Summary
from resnetx.table import Cell, Table
from resnetx.visible import on_one_line

_ENDS: dict[type, tuple[str, ...]] = {Summary: ("_low", "_high", "_ends"), Estimate: ("_low", "_high")}


def table_of(rows: Iterable[msgspec.Struct], kind: type[msgspec.Struct] | None = None, **names: str) -> Table:
    """The table of rows; without rows it has no columns. `kind`: a base of theirs, whose fields alone are columns.

    `names`: of fields whose columns have another name.
    """
    rows = list(rows)
    if not rows:
        return Table([], [])
    fields = _fields(kind or type(rows[0]))
    columns = [f"{names.get(name, name)}{end}" for name, ends in fields for end in ("", *ends)]
    if len(fields) > 1 and not any(ends for _, ends in fields):
        values = attrgetter(*(name for name, _ in fields))
        return Table(columns, [[_cell(value) for value in values(row)] for row in rows])
    cells = [[cell for name, ends in fields for cell in _cells(getattr(row, name), ends)] for row in rows]
    return Table(columns, cells)


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, tuple[str, ...]]]:
    """The fields of a struct, each with the ends that its columns have."""
    return [(field.name, _ends_of(field.type)) for field in msgspec.structs.fields(kind)]


def _ends_of(annotation: Any) -> tuple[str, ...]:
    kinds = {annotation, *get_args(annotation)}
    return next((ends for kind, ends in _ENDS.items() if kind in kinds), ())


def _cell(value: Any) -> Cell:
    return " ".join(map(str, value)) if type(value) is list else value


def _cells(value: Any, ends: Sequence[str]) -> Sequence[Cell]:
    if not ends:
        return (_cell(value),)
    if isinstance(value, Summary):
        return value.median, value.low, value.high, value.kind
    if isinstance(value, Estimate):
        return value.value, value.low, value.high
    return [value, *[None] * len(ends)]


# ---- files ----------------------------------------------------------------------------------------------------------


def write_csv(path: Path, table: Table) -> None:
    """Writes a table. Numbers are written in full, None as an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows([_safe(cell) for cell in row] for row in table.rows)


_FORMULA = ("=", "+", "-", "@", "\t")  # begins one in a spreadsheet


def _safe(cell: Cell) -> Cell:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it; a number stays a number."""
    if not isinstance(cell, str):
        return cell
    text = cell if cell.isprintable() else on_one_line(cell)
    return f"'{text}" if text[:1] in _FORMULA and text else text
