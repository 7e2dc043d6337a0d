"""Traces as Shi et al. 2018 publish theirs (section VI, Table VI): one line for each layer, iteration after iteration.

    id  name   forward  backward  comm     size       times in microseconds, the size of the gradients in bytes
    0   data   1.20e+06 0         0        0          reading a batch and copying it to the device
    1   conv1  3.27e+06 288202    123.424  139776

Columns are separated by tabs or blanks. A header, comments (#) and blank lines may stand anywhere. An iteration begins
where the first id stands again, or, behind a blank line, the first name. The communication of such a trace has waiting
for other GPUs in it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from resnetx.errors import FileError, shortened
from resnetx.record.sealing import MAX_BYTES, TIME_BYTES, Unknown, known, refuse_large_trace
from resnetx.record.traces import LayerTimes, TracedLayer

COLUMNS = ("id", "name", "forward", "backward", "comm", "size")
INPUT = "data"  # the layer whose forward pass is reading and copying a batch
CLOCK = "unknown"
SILENT = Unknown("a file of six columns does not say")
MAX_ROWS = MAX_BYTES // (2 * TIME_BYTES)  # that a record can hold; `refuse_large_trace` then looks more closely
MAX_DIGITS = 40  # of a figure


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    id: int
    name: str
    forward_s: float
    backward_s: float
    communication_s: float
    size_bytes: int
    behind_blank: bool


def parse(text: str, path: Path) -> LayerTimes:
    """What a file says; what it cannot say is `Unknown` until it is sealed. The path is for error messages."""
    iterations = _iterations(list(_rows(text, path)), path)
    columns = list(zip(*iterations, strict=True))  # of each layer, its rows
    has_input = columns[0][0].name.lower() == INPUT and columns[0][0].size_bytes == 0
    layers = columns[1:] if has_input else columns
    if not layers:
        raise FileError(f"{path}: has no layer but {INPUT}; expected all layers of a network")
    exchanged = any(row.communication_s for rows in columns for row in rows)
    return LayerTimes(
        clock=CLOCK,
        layers=[_layer(rows, exchanged) for rows in layers],
        input_s=[row.forward_s for row in columns[0]] if has_input else [],
        host_to_device_s=[],
        update_s=[],
        step_s=known(SILENT),
        clean_step_s=known(SILENT),
        device_busy=known(SILENT),
        host_s=known(SILENT),
        host_bound=known(SILENT),
        gradient_copy_Bps=known(SILENT),
    )


def write_six_columns(times: LayerTimes) -> str:
    """The text of such a file. It has no place for updates; what was not timed is 0.

    Where a list has fewer entries than there are iterations, its mean stands for those that it lacks.
    """
    lists = [times.input_s, times.host_to_device_s] + [column for layer in times.layers for column in _columns(layer)]
    iterations = range(max(map(len, lists)))
    arriving_s = [_entry(times.input_s, index) + _entry(times.host_to_device_s, index) for index in iterations]
    first = TracedLayer(name=INPUT, forward_s=arriving_s, backward_s=[], communication_s=[], gradient_bytes=0)
    blocks = [
        "".join(_line(id_, layer, index) for id_, layer in enumerate([first, *times.layers])) for index in iterations
    ]
    return "\t".join(COLUMNS) + "\n" + "\n".join(blocks)


# ---- reading --------------------------------------------------------------------------------------------------------


def _rows(text: str, path: Path) -> Iterator[_Row]:
    """The rows of a file, without comments and headers."""
    blank, rows = False, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            blank = True
        elif not line.lstrip().startswith("#"):
            cells = (
                [cell.strip() for cell in line.strip().split("\t") if cell.strip()] if "\t" in line else line.split()
            )
            if cells[0].lower() != COLUMNS[0]:  # else it is a header
                rows += 1
                if rows > MAX_ROWS:
                    raise FileError(f"{path}, line {number}: more than {MAX_ROWS:,} rows; expected fewer iterations")
                yield _row(cells, number, blank, path)
                blank = False


def _row(cells: list[str], line: int, behind_blank: bool, path: Path) -> _Row:
    """One row, in seconds and bytes. `behind_blank`: an empty line stands before it."""
    if len(cells) != len(COLUMNS):
        raise FileError(
            f"{path}, line {line}: {len(cells)} columns; expected the six of a trace: {', '.join(COLUMNS)} "
            "(microseconds, bytes)"
        )
    figures = {column: _number(cell, column, line, path) for column, cell in zip(COLUMNS, cells, strict=True)}
    return _Row(
        line,
        int(figures["id"]),
        cells[1],
        figures["forward"] / 1e6,
        figures["backward"] / 1e6,
        figures["comm"] / 1e6,
        int(figures["size"]),
        behind_blank,
    )


def _number(cell: str, column: str, line: int, path: Path) -> float:
    """The number in a cell, as its column has it; 0 for the name."""
    if column == "name":
        return 0.0
    whole = column in ("id", "size")
    try:
        value = float(cell) if len(cell) <= MAX_DIGITS else math.nan
    except ValueError:
        value = math.nan
    if not (0 <= value < 2**63 and (not whole or value.is_integer())):
        kind = "a whole number" if whole else "microseconds"
        raise FileError(f"{path}, line {line}: {column} is {cell[:40]!r}; expected {kind}, 0 or more")
    return value


def _iterations(rows: Sequence[_Row], path: Path) -> list[list[_Row]]:
    """The rows of each iteration; all iterations have the same layers."""
    if not rows:
        raise FileError(f"{path}: no line has a layer; expected the six columns of a trace: {', '.join(COLUMNS)}")
    iterations: list[list[_Row]] = []
    for row in rows:
        if row.id == rows[0].id or (row.behind_blank and row.name == rows[0].name):
            iterations.append([])
        iterations[-1].append(row)
    first, *others = iterations
    refuse_large_trace(len(first), len(iterations), path)
    _refuse_repeated_names(first, path)
    for iteration in others:
        _refuse_unlike(first, iteration, path)
    return iterations


def _refuse_repeated_names(iteration: Sequence[_Row], path: Path) -> None:
    """Refuses an iteration in which two layers have one name: a new iteration would have begun unseen."""
    names: set[str] = set()
    for row in iteration:
        if row.name in names:
            raise FileError(
                f"{path}, line {row.line}: a second layer is called {shortened(row.name)}; expected every name once in "
                "an iteration, which begins with the first line's id"
            )
        names.add(row.name)


def _refuse_unlike(first: Sequence[_Row], iteration: Sequence[_Row], path: Path) -> None:
    """Refuses an iteration whose layers are not those of the first one."""
    for expected, row in zip(first, iteration, strict=False):
        if (row.name, row.size_bytes) != (expected.name, expected.size_bytes):
            raise FileError(
                f"{path}, line {row.line}: {shortened(row.name)} of {row.size_bytes} bytes, where the first iteration "
                f"has {shortened(expected.name)} of {expected.size_bytes}; expected the same layers in every iteration"
            )
    if len(iteration) != len(first):
        raise FileError(
            f"{path}, line {iteration[-1].line}: an iteration ends here with {len(iteration)} of the "
            f"{len(first)} layers that the first one has; expected all of them"
        )


def _layer(rows: Sequence[_Row], exchanged: bool) -> TracedLayer:
    """A layer without parameters sends nothing; a file in which none does is of one GPU, and measured none."""
    sends = exchanged and (rows[0].size_bytes > 0 or any(row.communication_s for row in rows))
    return TracedLayer(
        name=rows[0].name,
        forward_s=[row.forward_s for row in rows],
        backward_s=[row.backward_s for row in rows],
        communication_s=[row.communication_s for row in rows] if sends else [],
        gradient_bytes=rows[0].size_bytes,
    )


# ---- writing --------------------------------------------------------------------------------------------------------


def _columns(layer: TracedLayer) -> tuple[list[float], list[float], list[float]]:
    return layer.forward_s, layer.backward_s, layer.communication_s


def _line(id_: int, layer: TracedLayer, iteration: int) -> str:
    name = " ".join(layer.name.split())  # a tab in it would be a column more
    # With 12 digits: more than any clock resolves, and few enough for the rounding of a product not to show.
    times = (f"{_entry(seconds, iteration) * 1e6:.12g}" for seconds in _columns(layer))
    return "\t".join([str(id_), name, *times, str(layer.gradient_bytes)]) + "\n"


def _entry(seconds: Sequence[float], iteration: int) -> float:
    if iteration < len(seconds):
        return seconds[iteration]
    return fmean(seconds) if seconds else 0.0
