"""`train`: one point."""

import os
from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import run_answer
from resnetx.api.runs import fed, machine_name
from resnetx.api.train import asked_run, execute
from resnetx.cli import show
from resnetx.cli.tables import show_run
from resnetx.cli.tables.show_run import left_to_others
from resnetx.errors import ConfigError
from resnetx.measure.launch.executor import follow, follows
from resnetx.record import RunFolder
from resnetx.study import Point


def train_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Runs one point as `sweep` would; status 1 where it did not go well."""
    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("train: this is a rank of torchrun; write torchrun ... -m resnetx.train key=value ...")
    if len(paths) > 1:
        raise ConfigError(f"{paths[1]}: a second run file; `resnetx train` runs one")
    path = paths[0] if paths else None
    task, results = asked_run(path, asked)
    asked = asked if path else fed(asked)
    planned = [(task, RunFolder(results / machine_name(task.launch) / "train" / task.request.slug))]
    if left_to_others(options, "train", asked, task.launch, results, planned):
        return 0
    if follows(task):
        return follow(task)
    kept = execute(path, asked)
    record = kept.record
    failed = record.outcome != "ok"
    show.conclude(options, run_answer(record), lambda: [record], partial(show_run.run, record, kept.folder), failed)
    return 1 if failed else 0
