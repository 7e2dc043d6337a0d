"""Traffic between GPUs as CSV: a row for each GPU that receives, a column for each that sends.

    to,gpu0,gpu1,gpu2        a heading and names of rows may be there, both or neither
    gpu0,0,120e6,40e6
    gpu1,120e6,0,0
    gpu2,40e6,0,0

Figures are bytes, or any multiple of them; a cell that is empty is 0.
"""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from resnetx.errors import shortened
from resnetx.loading import File

LIMIT_BYTES = 2**24
MOST_GPUS = 2**10
LEAST, MOST = 1e-9, 1e24  # of an amount: from shares to more bytes than any machine sends

Matrix = tuple[tuple[float, ...], ...]


def read_traffic(path: Path) -> Matrix:
    """The matrix of a file, [to][from]."""
    file = File(path, "a CSV of traffic", LIMIT_BYTES)
    rows = _rows(file)
    heading = _is_heading(rows[0][1], len(rows))
    rows = rows[1:] if heading else rows
    named = any(cells and cells[0].strip() and not _is_number(cells[0]) for _, cells in rows)
    if named or (heading and all(len(cells) == len(rows) + 1 for _, cells in rows)):  # GPUs may be named by numbers
        rows = [(line, cells[1:]) for line, cells in rows]
    if not rows:
        raise file.error("a heading and no rows; expected a row for each GPU")
    for line, cells in rows:
        if len(cells) != len(rows):
            raise file.error(
                f"{len(rows)} rows, and {len(cells)} columns here; expected as many columns as rows: a matrix of who "
                "sends to whom",
                line,
            )
    if len(rows) > MOST_GPUS:
        raise file.error(f"{len(rows)} rows; expected at most {MOST_GPUS} GPUs")
    matrix = tuple(tuple(_amount(file, line, cell) for cell in cells) for line, cells in rows)
    if not any(map(any, matrix)):
        raise file.error("all of it is 0; expected at least one pair of GPUs that send each other something")
    for gpu, (line, _) in enumerate(rows):
        if matrix[gpu][gpu]:
            raise file.error(f"{matrix[gpu][gpu]:g} from GPU {gpu} to itself; expected 0 on the diagonal", line)
    return matrix


def _rows(file: File) -> list[tuple[int, list[str]]]:
    """The rows that hold anything, each with its line."""
    reader = csv.reader(file.text().splitlines(), strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise file.error(f"not CSV ({error})", reader.line_num) from None
    if not rows:
        raise file.error("empty; expected a row for each GPU, with a column for each that sends to it")
    return rows


def _is_heading(cells: Sequence[str], rows: int) -> bool:
    """Whether a row has names, not amounts: words, or a word above the names of the rows."""
    words = [bool(cell.strip()) and not _is_number(cell) for cell in cells]
    corner = words[0] or not cells[0].strip()
    return (corner and len(cells) > 1 and all(words[1:])) or (words[0] and len(cells) == rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _amount(file: File, line: int, cell: str) -> float:
    if not cell.strip():
        return 0.0
    amount = float(cell) if _is_number(cell) else math.nan
    if not math.isfinite(amount) or amount < 0:
        raise file.error(f"{shortened(cell.strip(), 100)}: expected a number of bytes, 0 or more", line)
    if amount and not LEAST <= amount <= MOST:
        raise file.error(f"{shortened(cell.strip(), 100)}: expected 0, or {LEAST:g} to {MOST:g}", line)
    return amount
