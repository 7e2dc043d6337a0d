"""`trace`: layer times of workloads, measured or imported."""

from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from resnetx.api.answers import trace_answer
from resnetx.api.trace import execute, traces_of
from resnetx.api.trace_import import import_trace
from resnetx.cli import show
from resnetx.cli.submitting import left_to_others
from resnetx.cli.tables import show_trace
from resnetx.errors import ConfigError
from resnetx.record.trace import Trace
from resnetx.study import Point


def trace_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures what is not there yet, or imports; status 1 where a run failed."""
    if getattr(options, "import"):
        if len(paths) != 1:
            raise ConfigError(f"--import: expected one file, of six columns or a profile of PyTorch, got {len(paths)}")
        _show(options, [import_trace(paths[0], asked)])
        return 0
    if paths:
        raise ConfigError(f"{paths[0]}: `resnetx trace` measures; to import a file, add --import")
    wanted = traces_of(asked)
    planned = [(run.task, run.folder) for run in wanted.runs]
    if left_to_others(options, "trace", asked, wanted.settings.launch, wanted.settings.results, planned):
        return 0
    traces, failed = execute(asked)
    _show(options, traces)
    if failed:
        show.say(f"{len(failed)} run{'s' * (len(failed) > 1)} failed; the first: {failed[0].folder.path}", show.err)
    return 1 if failed or not traces else 0


def _show(options: Namespace, traces: Iterable[Trace]) -> None:
    for trace in traces:
        show.conclude(options, trace_answer(trace), partial(list, [trace]), partial(show_trace.trace, trace))
