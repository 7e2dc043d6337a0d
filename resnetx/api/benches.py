"""Bench records on disk: one file, one folder, or a folder of several."""

from pathlib import Path

from resnetx import record
from resnetx.api.stored import Stored, stored
from resnetx.record import BenchRecord


def bench_files(path: Path) -> list[Path]:
    """The files of the benches at a path: itself, or those of its folder and of all below, unless that is a study's."""
    found = stored(path)
    if Stored("study", path) in found:
        return []
    return [each.file for each in found if each.kind == "bench"]


def read_benches(path: Path) -> list[BenchRecord]:
    """The records of the benches at a path."""
    return [record.read(file, BenchRecord) for file in bench_files(path)]
