"""`bench`: times collectives and pair copies, or imports what nccl-tests measured."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.bench import benches_of, execute, export_bench
from resnetx.api.imports import import_bench
from resnetx.api.runs import KeptRecord, machine_name
from resnetx.cli import show
from resnetx.cli.tables import show_bench
from resnetx.cli.tables.show_run import left_to_others
from resnetx.errors import ConfigError
from resnetx.measure.launch.executor import follow, follows
from resnetx.record import BenchPoint, BenchRecord, CopyCell, PatternPoint, RunFolder
from resnetx.record.bench import WRONG_ELEMENTS
from resnetx.reporting.benches import bench_answer
from resnetx.study import Point


def bench_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures with each number of ranks, or imports; status 1 where a bench failed or elements were wrong."""
    if getattr(options, "import"):
        if len(paths) != 1:
            raise ConfigError(f"--import: expected one file, got {len(paths)}")
        return 0 if _shown(options, import_bench(paths[0], asked)) else 1
    if options.export:
        if len(paths) != 1 or asked:
            raise ConfigError("--export: expected one bench (its folder or record.json), and no settings")
        for path in export_bench(paths[0]):
            show.line(f"{path}")
        return 0
    if paths:
        raise ConfigError(f"{paths[0]}: `resnetx bench` measures; to import a file of another program, add --import")
    benches = benches_of(asked)
    launch, results = benches.tasks[0].launch, Path(benches.wanted.results)
    planned = [
        (task, RunFolder(results / machine_name(launch) / "bench" / task.request.slug)) for task in benches.tasks
    ]
    if left_to_others(options, "bench", asked, launch, results, planned):
        return 0
    if follows(benches.tasks[0]):
        return follow(benches.tasks[0])
    well = [_shown(options, kept) for kept in execute(asked)]
    return 0 if all(well) else 1


def _shown(options: Namespace, kept: KeptRecord[BenchRecord]) -> bool:
    """Shows a bench; whether it went well."""
    record = kept.record
    show.conclude(
        options,
        bench_answer(record),
        lambda: [record],
        partial(show_bench.bench, record, kept.folder),
        record.outcome != "ok",
    )
    checked: list[BenchPoint | CopyCell | PatternPoint] = [*record.points, *record.cells, *record.patterns]
    wrong = [each.wrong for each in checked]
    said = any(warning.code == WRONG_ELEMENTS for warning in record.warnings)
    return record.outcome == "ok" and not any(wrong) and not said
