"""Imports what other programs measured, as a bench record."""

from collections.abc import Mapping
from pathlib import Path

from resnetx.api.bench_settings import LISTED, BenchSettings
from resnetx.api.runs import Kept, run_folder
from resnetx.config import sizes_from
from resnetx.errors import ConfigError
from resnetx.interconnect import bench_reading, imported
from resnetx.record import BenchRecord
from resnetx.settings.compose import asked, struct_of


def import_bench(file: Path, settings: Mapping[str, object]) -> Kept[BenchRecord]:
    """Makes a bench record of a file of another program, and keeps it in the results folder."""
    from resnetx.measure.launch.results_folder import write

    given = asked("bench", settings)
    if unread := [key for key in given if key not in ("collective", "gpus", "results", "size", "systems")]:
        raise ConfigError(
            f"{unread[0]}: nothing is measured with --import; it reads collective, gpus, size, systems and results"
        )
    wanted = struct_of(given, BenchSettings, listed=LISTED)
    machine = wanted.system()
    if not wanted.collective or not wanted.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    if len(wanted.collective) > 1:
        raise ConfigError(f"collective={wanted.collective}: an imported file has one collective")
    if len(wanted.gpus) > 1:
        raise ConfigError(f"gpus={wanted.gpus}: an imported file has one number of GPUs; expected gpus=N")
    sizes = sizes_from(wanted.size) if "size" in given else [None]
    if len(sizes) != 1:
        raise ConfigError(f"size={wanted.size}: expected the one size of the copies in an imported file")
    record = imported.import_bench(file, wanted.collective[0], wanted.gpus[0], sizes[0])
    record = bench_reading.with_readings(record, machine)
    folder = run_folder(Path(wanted.results), "bench", file.stem, node="imported")
    write(folder.record, record)
    return Kept(record, folder)
