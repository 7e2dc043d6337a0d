"""The ranks that torchrun starts, through the entry module of their task: `resnetx.train` or `resnetx.collectives`.

A launcher has checked what it starts, and completes its record. Of a task that is started by hand, each node checks
what is asked of it, and rank 0 makes the folder of the task, records it and shows what came of it.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from resnetx.api.doctor import obstacle_to
from resnetx.api.measuring import check_file, note_copies, run_folder
from resnetx.api.train import task_of
from resnetx.cli.words import settings_of
from resnetx.compose import asked
from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.loading import is_file
from resnetx.measure import launch
from resnetx.measure.launch import Moment
from resnetx.record import BenchFile, BenchRecord, Ended, RunFile, RunFolder, RunRecord, TaskFile, TaskRecord, read_task


def serve_run(words: list[str], started: Moment) -> int:
    """One rank of a run: of a run file, or of settings."""
    paths = [Path(word) for word in words if word.endswith(".json")]
    if len(paths) > 1:
        raise ConfigError(f"{paths[1]}: a second run file; a rank runs one")
    task, results = task_of(
        paths[0] if paths else None,
        asked("train", settings_of([word for word in words if not word.endswith(".json")])),
        launch.world_size(),
    )
    if paths and _by_hand():
        check_file(task, paths[0], lambda: check(task.request))

    def measured() -> RunRecord | None:
        from resnetx.measure.rank.main import run

        return run(task, started)

    def show(record: RunRecord, folder: RunFolder) -> None:
        from resnetx.api.answers import run_answer
        from resnetx.cli.verbs import show_train
        from resnetx.measure import trackers

        _answer(run_answer(record), record)
        show_train.run(record, folder)
        copies = trackers.TrackedCopies(task.tracker)
        note_copies(copies, copies.track(record, folder), folder.path.parent)

    return _serve(task, words, started, results, partial(obstacle_to_run, task), measured, show)


def serve_bench(words: list[str], started: Moment) -> int:
    """One rank of a bench, of a run file."""
    from resnetx.api.bench import check_bench

    if len(words) != 1 or not is_file(Path(words[0])):
        raise ConfigError(
            f"{' '.join(words) or 'no run file'}: expected the run file of one bench; for settings use `resnetx bench`"
        )
    task = read_task(Path(words[0]), BenchFile)
    if _by_hand():
        check_file(task, Path(words[0]), lambda: check_bench(task.request))

    def measured() -> BenchRecord | None:
        from resnetx.measure.bench.timed_collectives import run

        return run(task, started)

    def show(record: BenchRecord, folder: RunFolder) -> None:
        from resnetx.cli.verbs.show_bench import bench
        from resnetx.reporting.bench_conclusions import bench_answer

        _answer(bench_answer(record), record)
        bench(record, folder)

    return _serve(task, words, started, Path("results"), partial(obstacle_to_bench, task), measured, show)


def _by_hand() -> bool:
    return launch.launched_folder() is None


def _serve(
    task: TaskFile[Ended],
    words: list[str],
    started: Moment,
    results: Path,
    obstacle: Callable[[], str],
    measured: Callable[[], Ended | None],
    show: Callable[[Ended, RunFolder], None],
) -> int:
    """Runs this rank, of a task that was launched or is started by hand.

    `results`: the folder for results, and `obstacle`: why this node's ranks cannot run ("" where they can), both where
    it is started by hand; `measured`: this rank's part, of which rank 0 returns the record.
    """
    from resnetx.measure import rank_process
    from resnetx.measure.launch import launcher

    folder = launch.launched_folder()
    os.environ.update(task.request.env)
    if _by_hand() and (reason := obstacle()):
        raise ConfigError(reason)
    if _by_hand() and launch.rank() == 0:
        if launch.on_one_node() and launch.has_open_store():
            print(_open_store(task, words), file=sys.stderr, flush=True)
        folder = run_folder(results, task.verb, task.request.slug)
        launcher.begin(task, folder, started)
    record = rank_process.serve(task, measured, folder, started, _recorded)
    if _by_hand() and record is not None and folder is not None:
        show(record, folder)
    return 0


def _recorded() -> None:
    from resnetx.measure.rank.distributed import recorded  # which loads torch, as what was measured has

    recorded()


def _open_store(task: TaskFile[TaskRecord], words: list[str]) -> str:
    """The warning for a rank whose torchrun was started with the default options of torchrun."""
    from resnetx.measure.launch.executor import torchrun as closed

    instead = closed(launch.world_size(), ["-m", task.entry_module, *words])
    return (
        "resnetx: warning: this torchrun listens on all network interfaces, and runs the code of whoever reaches its "
        f"ports; this one does not: {instead.line}"
    )


def obstacle_to_run(task: RunFile) -> str:
    """Why this node's ranks of a run cannot run, in one sentence; "" where they can."""
    return obstacle_to(task.request, task.oversubscribe, launch.ranks_here())


def obstacle_to_bench(task: BenchFile) -> str:
    """Why this node's ranks of a bench cannot run, in one sentence; "" where they can."""
    from resnetx.api import bench

    return bench.obstacle_to_bench(task.request, task.oversubscribe, launch.ranks_here())


def _answer(sentences: list[str], record: RunRecord | BenchRecord) -> None:
    """First, as the verb says it; why there is none, `failure` says."""
    from resnetx.cli import show

    if record.outcome == "ok":
        show.say(" ".join(sentences))
        show.say()
