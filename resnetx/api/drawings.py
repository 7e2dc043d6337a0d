"""Files beside a record: where each is, and once why no figure is drawn where nothing can draw."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx import progress, record
from resnetx.errors import ConfigError
from resnetx.table import Records

if TYPE_CHECKING:
    from resnetx.reporting.charts.figure import Figure


def store(figures: Iterable["Figure"], folder: Path) -> None:
    """Writes the files of figures, and says which one of each to look at."""
    from resnetx.reporting.charts import files

    written = [files.write_figure(figure, files.draw(figure.chart), folder) for figure in figures]
    for path in written:
        progress.command(f"figure: {path}")
    if written:
        note_undrawn()


def note_undrawn() -> None:
    """Says what is left out without the extra that draws, and the command that brings it."""
    from resnetx.reporting.charts import files

    if why := files.undrawn():
        progress.note(f"Left out: drawings (SVG, PDF) of these Vega-Lite files. {why}")


def store_record(folder: Path, file: Path, content: Any) -> None:
    """Writes a record to the folder that `out=` names, and says where it is."""
    try:
        record.write(file, content)
    except OSError as error:
        raise ConfigError(f"out={folder}: cannot be written ({error.strerror})") from None
    progress.command(f"record: {file}")


def store_rows(folder: Path, name: str, rows: Sequence[msgspec.Struct]) -> None:
    """Writes records to the folder that `out=` names: NAME.jsonl, one a line as --json prints them, and NAME.csv."""
    from resnetx.reporting.table import write_csv

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in rows))
        write_csv(folder / f"{name}.csv", Records(rows).table())
    except OSError as error:
        raise ConfigError(f"out={folder}: cannot be written ({error.strerror})") from None
    progress.command(f"record: {folder / name}.jsonl")
