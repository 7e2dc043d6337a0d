"""Predictions of published figures as CSV, by whomever: `id,predicted`, and `low,high` for who states an interval.

    id,predicted,low,high
    allreduce/dgx1-p100/nccl2/8/64MiB/1c0ffe,58.2,50.1,66.9

The units are those of the figures. Other columns are left unread; a figure without a row is not predicted.
"""

import csv
import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from resnetx.errors import shortened
from resnetx.loading import File
from resnetx.record.score import FigurePrediction

NEEDED, INTERVAL = ("id", "predicted"), ("low", "high")
LIMIT_BYTES = 2**24  # a hundred thousand lines


def read_predictions(path: Path, known: Collection[str]) -> list[FigurePrediction]:
    """The predictions of a file, in its order. `known`: the ids that there are."""
    file = File(path, "a CSV of predictions", LIMIT_BYTES, f"score={path}")
    ids, found = set(known), dict[str, FigurePrediction]()
    for line, cells in _rows(file):
        each = _prediction(file, line, cells)
        if each.id not in ids:
            near = difflib.get_close_matches(each.id[:100], known, n=1)
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else "; figures.csv of `resnetx compare score=resnetx out=` has them"
            )
            raise file.error(f"id {shortened(each.id, 100)}: no figure has it{hint}", line)
        if each.id in found:
            raise file.error(f"id {each.id}: given twice; expected one prediction of each figure", line)
        found[each.id] = each
    if not found:
        raise file.error("no predictions; expected a line for each figure that is predicted")
    return list(found.values())


def _rows(file: File) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row by its columns, with its line."""
    reader = csv.reader(file.text().splitlines(), strict=True)
    try:
        columns = [name.strip() for name in next(reader, [])]
        if missing := [name for name in NEEDED if name not in columns]:
            expected = ",".join((*NEEDED, *INTERVAL))
            raise file.error(
                f"no column {' and no column '.join(missing)}; expected {expected} (low, high may lack)", 1
            )
        if twice := [name for name in (*NEEDED, *INTERVAL) if columns.count(name) > 1]:
            raise file.error(f"column {twice[0]} is there twice; expected it once", 1)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) != len(columns):
                    raise file.error(
                        f"{len(cells)} cells; expected {len(columns)}, as many as columns", reader.line_num
                    )
                yield reader.line_num, dict(zip(columns, map(str.strip, cells), strict=True))
    except csv.Error as error:
        raise file.error(f"not CSV ({error})", reader.line_num) from None


def _prediction(file: File, line: int, cells: Mapping[str, str]) -> FigurePrediction:
    predicted = _number(file, line, "predicted", cells["predicted"])
    assert predicted is not None, "an empty cell is refused"
    low, high = (_number(file, line, name, cells.get(name, "")) for name in INTERVAL)
    if (low is None) != (high is None):
        raise file.error(
            f"{'low' if low is None else 'high'} is empty; expected both ends of an interval, or none", line
        )
    if low is not None and high is not None and not low <= predicted <= high:
        raise file.error(f"predicted {predicted:g} is not within its interval, {low:g} to {high:g}", line)
    return FigurePrediction(id=cells["id"], predicted=predicted, low=low, high=high)


def _number(file: File, line: int, column: str, cell: str) -> float | None:
    """A positive figure, or one end of an interval, which may be empty, and low 0."""
    if not cell and column in INTERVAL:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (value == 0 and column != "low"):
        raise file.error(f"{column} {shortened(cell, 100) or '(empty)'}: expected a positive number", line)
    return value
