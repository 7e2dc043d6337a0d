"""The files of a run: their names, written whole or not at all, read with suspicion."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from resnetx.record.run import SCHEMA

MAX_BYTES = 64 * 2**20  # a larger "record" is not one of ours


class RecordError(Exception):
    """A file that is not a record this version can read: one sentence naming the file."""


@dataclass(frozen=True)
class RunFolder:
    """The names of a run's files; nothing else in resnetx spells them."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run.json"

    @property
    def record(self) -> Path:
        return self.path / "record.json"

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    def failure(self, rank: int) -> Path:
        """What a rank says of its own failure; the launcher folds it into the record."""
        return self.path / f"failure-rank{rank}.json"

    def failures(self) -> list[Path]:
        return sorted(self.path.glob("failure-rank*.json"))

    def leftovers(self) -> list[Path]:
        """What a run that was killed may have left: failures that nobody read, and files half written."""
        return [*self.failures(), *self.path.glob(".*.json.*")]


def write(path: Path, content: Any) -> None:
    """Writes a struct as JSON: whole or not at all, also when the disk is full or the process is killed."""
    data = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:  # readable by whom the user's umask lets
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path, kind: Any) -> Any:
    """The struct of type `kind` in a JSON file, or a `RecordError` that says what is wrong with the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecordError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a record of resnetx")
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
        if schema > SCHEMA:
            raise RecordError(f"{path}: has schema {schema}, this resnetx reads up to {SCHEMA}: update resnetx")
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{path}: not a {kind.__name__} of resnetx ({error})") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}: truncated or not JSON ({error})") from None


class _Versioned(msgspec.Struct):
    schema: int
