"""Imports what nccl-tests measured, as a bench record."""

from collections.abc import Mapping
from pathlib import Path

from resnetx.api.bench import BenchSettings
from resnetx.api.runs import Kept, run_folder
from resnetx.errors import ConfigError
from resnetx.interconnect.imported import import_nccl_tests
from resnetx.record import BenchRecord
from resnetx.settings.compose import asked, struct_of


def import_bench(file: Path, settings: Mapping[str, object]) -> Kept[BenchRecord]:
    """Makes a bench record of a file of nccl-tests, and keeps it in the results folder."""
    from resnetx.measure.launch.results_folder import write

    given = asked("bench", settings)
    if unread := [key for key in given if key not in ("collective", "gpus", "results")]:
        raise ConfigError(f"{unread[0]}: nothing is measured with --import; it reads collective, gpus and results")
    wanted = struct_of(given, BenchSettings, listed=("collective", "size", "gpus"))
    if not wanted.collective or not wanted.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    if len(wanted.collective) > 1:
        raise ConfigError(f"collective={wanted.collective}: a file of nccl-tests has one collective")
    if len(wanted.gpus) > 1:
        raise ConfigError(f"gpus={wanted.gpus}: a file of nccl-tests has one number of GPUs; expected gpus=N")
    record = import_nccl_tests(file, wanted.collective[0], wanted.gpus[0])
    folder = run_folder(Path(wanted.results), "bench", file.stem, node="imported")
    write(folder.record, record)
    return Kept(record, folder)
