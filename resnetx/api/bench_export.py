"""Exports a bench as the JSON of nccl-tests, for programs that read that."""

from os import PathLike
from pathlib import Path

from resnetx.errors import ConfigError, shortened
from resnetx.formats.nccl_tests_json import encoded
from resnetx.interconnect.measured import telling_times
from resnetx.loading import is_folder
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord, RunFolder, read
from resnetx.settings.files import given_path


def export_bench(bench: str | PathLike[str]) -> list[Path]:
    """Writes one file for each collective into the folder of the record, and returns their paths."""
    path = given_path(bench)
    folder = RunFolder(path if is_folder(path) else path.parent)
    record = read(folder.record if is_folder(path) else path, BenchRecord)
    names = list(dict.fromkeys(point.collective for point in record.points))
    if not names:
        raise ConfigError(f"--export {path}: holds no collectives; nccl-tests has no other results")
    if others := [name for name in names if name not in OPERATIONS]:
        raise ConfigError(
            f"--export {path}: {shortened(others[0])!r}: no collective that is known; known are {', '.join(OPERATIONS)}"
        )
    written = []
    for name in names:
        times_s = telling_times([point for point in record.points if point.collective == name])
        written.append(folder.nccl_tests(name))
        try:
            written[-1].write_bytes(encoded(record, name, times_s))
        except OSError as error:
            raise ConfigError(
                f"--export: cannot write {written[-1]} ({error.strerror}); free space or make it writable"
            ) from None
    return written
