"""Imports what nccl-tests measured, as a bench record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resnetx.api.bench import Asked
from resnetx.api.runs import Kept, run_folder
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import measured
from resnetx.interconnect.collective import COLLECTIVES
from resnetx.record import SCHEMA, BenchRecord, Unknown, seal_tree
from resnetx.settings.compose import asked, struct_of


def import_bench(file: Path, settings: Mapping[str, object]) -> Kept[BenchRecord]:
    """Makes a bench record of a file of nccl-tests, and keeps it in the results folder."""
    from resnetx.measure.launch.results_folder import write

    given = asked("bench", settings)
    if unread := [key for key in given if key not in ("collective", "gpus", "results")]:
        raise ConfigError(f"{unread[0]}: nothing is measured with --import; it reads collective, gpus and results")
    wanted = struct_of(given, Asked, listed=("collective", "size", "gpus"))
    points = measured.read_nccl_tests(str(file), _imported_collective(wanted), f"--import {file}")
    record = _imported(file, points, wanted)
    folder = run_folder(Path(wanted.results), "bench", file.stem, node="imported")
    write(folder.record, record)
    return Kept(record, folder)


def _imported_collective(asked: Asked) -> str | None:
    if not asked.collective or not asked.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    name, *others = asked.collective
    if others:
        raise ConfigError(f"collective={asked.collective}: a file of nccl-tests holds one")
    if name is not None and name not in COLLECTIVES:
        raise unknown_name("collective", name, COLLECTIVES, "collective")
    return name


def _imported(file: Path, found: measured.Measured, asked: Asked) -> BenchRecord:
    """The record of a file's points; what the file does not tell is unknown."""
    collective = found.collective or asked.collective[0]
    if collective not in COLLECTIVES:
        said = f"it holds {found.collective}" if found.collective else "it does not say of which collective it is"
        raise ConfigError(f"--import {file}: {said}; expected collective= one of {', '.join(COLLECTIVES)}")
    untold = Unknown("nccl-tests does not tell")
    imported = Unknown(f"imported from {file.name}")
    ranks = found.gpus or asked.gpus[0]
    tree: dict[str, Any] = {
        **dict.fromkeys(BenchRecord.__struct_fields__, imported),
        "kind": "bench",
        "schema": SCHEMA,
        "source": found.source,
        "outcome": "ok",
        "reason": "",
        "failures": [],
        "stderr_end": "",
        "world_size": ranks or Unknown("the file lists no ranks, and gpus= was not given"),
        "library": "nccl-tests",
        "points": [
            {
                "collective": collective,
                "size_bytes": int(point.size_bytes),
                "times_s": [point.time_s],
                "wrong": untold if point.wrong is None else point.wrong,
                "cpu_share": untold,
                "computing_lost": untold,
                "queued_s": Unknown("`times_s` is the mean of a queue, as nccl-tests times them"),
            }
            for point in found.points
        ],
        "skipped": [],
        "warnings": [],
        "unknown": {},
    }
    sealed: BenchRecord = seal_tree(tree, BenchRecord)
    return sealed
