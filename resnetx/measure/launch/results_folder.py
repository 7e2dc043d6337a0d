"""Writes records into the results folder, or says in one sentence why that cannot be done."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from resnetx import record
from resnetx.errors import ConfigError
from resnetx.record import TaskRecord

_ASIDE = "resnetx-record-"  # begins the name of a record that found no place in the results folder


def write(path: Path, content: Any) -> None:
    """Writes a record."""
    try:
        record.write(path, content)
    except OSError as error:
        raise not_writable(path, error) from None


def write_measured(path: Path, measured: TaskRecord) -> None:
    """Writes the record of a finished measurement: into the temporary folder, where `path` cannot be written."""
    try:
        record.write(path, measured)
    except OSError as error:
        refused = not_writable(path, error)
        try:
            handle, name = tempfile.mkstemp(prefix=_ASIDE, suffix=".json")
            os.close(handle)
            record.write(Path(name), measured)
        except OSError:
            raise refused from None
        raise ConfigError(f"{refused}; the run is finished, and its record is {name}") from None


def set_aside(folder: Path) -> Iterator[Path]:
    """The records that found no place in the results folder, in the temporary folder of a run."""
    return folder.glob(f"{_ASIDE}*.json")


def not_writable(path: Path, error: OSError) -> ConfigError:
    """The sentence for a place in the results folder that cannot be written."""
    return ConfigError(
        f"results: cannot write {path} ({error.strerror}); free space or make it writable, or set results=FOLDER"
    )
