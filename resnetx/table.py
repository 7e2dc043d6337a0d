"""Collections as tables: rows of plain values, as text, in a notebook, and as a pandas DataFrame where pandas is."""

import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import msgspec

from resnetx.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
ROWS_OF_REPR, COLUMNS_OF_REPR = 10, 8  # `.table()` has them all

Cell = str | int | float | bool | None
Record = dict[str, Cell]  # column -> cell: one row as Altair, pandas and trackers take it


@dataclass(frozen=True)
class Table:
    """Columns, and rows with a cell for each; shows itself as text, and in a notebook."""

    columns: list[str]
    rows: list[list[Cell]]

    def records(self) -> list[Record]:
        """Each row as an object."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a DataFrame. pandas is not installed with resnetx."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ConfigError("to_pandas: pandas is not installed; python -m pip install pandas") from None
        return pd.DataFrame(self.rows, columns=self.columns)

    def __str__(self) -> str:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Column
        from rich.table import Table as RichTable

        shown = RichTable(*(Column(column, no_wrap=True) for column in self.columns), box=None, pad_edge=False)
        for row in self.rows:
            shown.add_row(*(escape(_text(cell)) for cell in row))
        text = io.StringIO()
        Console(file=text, width=10_000).print(shown)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        rows = ("".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row) for row in self.rows)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


class Tabular:
    """What can be seen as rows."""

    __slots__ = ()

    def rows(self) -> list[Record]:
        """One object for each row: column -> value in base units, None where it is not known."""
        raise NotImplementedError

    def table(self) -> Table:
        """All rows as a table."""
        rows = self.rows()
        columns = list(dict.fromkeys(column for row in rows for column in row))
        return Table(columns, [[row.get(column) for column in columns] for row in rows])

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a DataFrame. pandas is not installed with resnetx."""
        return self.table().to_pandas()

    def __repr__(self) -> str:
        table = self.table()
        shown = Table(table.columns[:COLUMNS_OF_REPR], [row[:COLUMNS_OF_REPR] for row in table.rows[:ROWS_OF_REPR]])
        return f"{type(self).__name__}, {len(table.rows)} rows x {len(table.columns)} columns\n{shown}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


class Records(Tabular, Sequence[T], Generic[T]):
    """Several records of one kind."""

    def __init__(self, records: Iterable[T]) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> "Records[T]": ...
    def __getitem__(self, place: int | slice) -> "T | Records[T]":
        return Records(self._records[place]) if isinstance(place, slice) else self._records[place]

    def __len__(self) -> int:
        return len(self._records)

    def rows(self) -> list[Record]:
        """The single values of each record, those inside of groups with the group's name before them."""
        return [row(record) for record in self._records]


def row(record: object, leave_out: Sequence[str] = ()) -> Record:
    """The single values of a record, by name: lists are left out, groups are flattened ("model.x")."""
    return dict(_cells(msgspec.to_builtins(record, enc_hook=str), "", leave_out))


def _cells(value: object, name: str, leave_out: Sequence[str]) -> Iterator[tuple[str, Cell]]:
    if name in leave_out:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _cells(inner, f"{name}.{key}".lstrip("."), leave_out)
    elif value is None or isinstance(value, str | int | float):
        yield name, value


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
