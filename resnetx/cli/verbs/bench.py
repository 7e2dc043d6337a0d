"""`bench`: times collectives, or imports what nccl-tests measured."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.bench import execute
from resnetx.api.bench_import import import_bench
from resnetx.api.runs import Kept
from resnetx.cli import show
from resnetx.cli.tables import show_bench
from resnetx.errors import ConfigError
from resnetx.record import BenchRecord
from resnetx.study import Point


def bench_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures with each number of ranks, or imports; status 1 where a bench failed or elements were wrong."""
    if getattr(options, "import"):
        if len(paths) != 1:
            raise ConfigError(f"--import: expected one file of nccl-tests, got {len(paths)}")
        return 0 if _shown(options, import_bench(paths[0], asked)) else 1
    if paths:
        raise ConfigError(f"{paths[0]}: `resnetx bench` measures; to import a file of nccl-tests, add --import")
    well = [_shown(options, kept) for kept in execute(asked)]
    return 0 if all(well) else 1


def _shown(options: Namespace, kept: Kept[BenchRecord]) -> bool:
    """Shows a bench; whether it went well."""
    if options.json:
        show.json_lines([kept.record])
    else:
        show_bench.bench(kept.record, kept.folder)
    return kept.record.outcome == "ok" and not any(point.wrong for point in kept.record.points)
