"""Bench records on disk: one file, one folder, or a folder of several."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from resnetx import record
from resnetx.errors import FileError
from resnetx.loading import is_file, is_folder
from resnetx.record import BenchRecord, RunFolder


class _Kind(msgspec.Struct):
    kind: str = ""


def bench_files(path: Path) -> list[Path]:
    """The files of the benches at a path: itself, that of its folder, or those one and two folders below."""
    if not is_folder(path):
        return [path] if _is_bench(path) else []
    own = RunFolder(path).record
    found: Iterable[Path] = [own]
    if not is_file(own):
        found = (*sorted(path.glob(f"*/{own.name}")), *sorted(path.glob(f"bench/*/{own.name}")))
    return [file for file in found if _is_bench(file)]


def read_benches(path: Path) -> list[BenchRecord]:
    """The records of the benches at a path."""
    return [record.read(file, BenchRecord) for file in bench_files(path)]


def _is_bench(file: Path) -> bool:
    try:
        return is_file(file) and record.read(file, _Kind, "a record of resnetx").kind == "bench"
    except FileError:
        return False
