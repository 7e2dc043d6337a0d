"""Collections as tables: rows of plain values, as text, in a notebook, and as a pandas DataFrame where pandas is."""

import html
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from resnetx.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S")
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


ONLY_WITH_ALL, ALWAYS = 0, 9  # importance of columns; those between go where there is no room, the lowest first


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of one kind of row, said once: screens, notebooks and legends read it here."""

    heading: str  # with ">" before it right-aligned, with "~" prose
    cell: Callable[[T], str]
    importance: int = ALWAYS
    help: str = ""  # a sentence for the legend

    def of(self, inner: Callable[[S], T]) -> "Column[S]":
        """The same column for rows in which those of its own kind are."""
        return Column(self.heading, lambda row: self.cell(inner(row)), self.importance, self.help)


@dataclass(frozen=True)
class Answer:
    """What a record answers: sentences of which the first stands alone, and the table that its screen shows."""

    sentences: Sequence[str]
    table: Table | None = None


def as_shown(columns: Sequence[Column[T]], rows: Iterable[T]) -> Table:
    """The columns that a screen shows of rows, as it words them; those that say the same of all rows tell nothing."""
    rows = list(rows)
    cells = {column: [column.cell(row) for row in rows] for column in columns if column.importance > ONLY_WITH_ALL}
    telling = [column for column in cells if len(rows) < 2 or len(set(cells[column])) > 1]
    headings = [column.heading.lstrip(">~") for column in telling]
    return Table(headings, [list(row) for row in zip(*(cells[column] for column in telling), strict=True)])


# What says what a record answers, its class by name: `resnetx.api.answers` fills it, and loads each when it is asked.
ANSWERS: dict[str, Callable[[Any], Answer]] = {}


class Tabular:
    """What can be seen as rows."""

    __slots__ = ()

    def answer(self) -> Answer | None:
        """What it answers, as the screen has it; None for what is a table alone."""
        answer = ANSWERS.get(type(self).__name__)
        return answer(self) if answer else None

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
        answer = self.answer()
        if answer is None:
            table = self.table()
            shown = Table(table.columns[:COLUMNS_OF_REPR], [row[:COLUMNS_OF_REPR] for row in table.rows[:ROWS_OF_REPR]])
            return f"{type(self).__name__}, {len(table.rows)} rows x {len(table.columns)} columns\n{shown}"
        table = answer.table or Table([], [])
        shown = Table(table.columns, table.rows[:ROWS_OF_REPR])
        more = [f"... {len(table.rows)} rows"] * (len(table.rows) > ROWS_OF_REPR)
        return "\n".join([*answer.sentences, *([f"{shown}"] if table.rows else []), *more])

    def _repr_html_(self) -> str:
        answer = self.answer()
        if answer is None:
            return self.table()._repr_html_()
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in answer.sentences)
        return said + (answer.table._repr_html_() if answer.table else "")


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
