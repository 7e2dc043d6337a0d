"""What the verbs that measure print of jobs, and of commands that are not started."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from resnetx.api.submission import submission
from resnetx.cli import show
from resnetx.launching import Launch
from resnetx.measure.launch.executor import executor_of
from resnetx.record import RunFolder, TaskFile, TaskRecord
from resnetx.study import Point
from resnetx.visible import on_one_line

BLOCK = 1000  # lines that are printed at once: a study may have 90,000

Planned = tuple[TaskFile[TaskRecord], RunFolder]


def left_to_others(
    options: Namespace, verb: str, asked: Point, launch: Launch | None, results: str | Path, tasks: Sequence[Planned]
) -> bool:
    """Whether nothing is left to do here: a job was submitted, or shown with --dry-run, as commands are without one."""
    if submitted(options, verb, asked, launch, results, tasks):
        return True
    if options.dry_run:
        show_commands(tasks)
    return bool(options.dry_run)


def submitted(
    options: Namespace, verb: str, asked: Point, launch: Launch | None, results: str | Path, tasks: Sequence[Planned]
) -> bool:
    """Whether the verb is left to a job of Slurm, which is then submitted; or shown, with --dry-run."""
    folders = [word for folder in options.config_dir or [] for word in ("--config-dir", str(folder))]
    most = max((task.request.gpus for task, _ in tasks), default=1)
    job = submission(verb, asked, launch, results, most, folders)
    if job is None:
        return False
    if options.dry_run:
        show.lines(job.script.rstrip())
        show.line(f"# {len(tasks)} task{'s' * (len(tasks) > 1)}, each of them a step, as this one:")
        show_commands([max(tasks, key=lambda planned: planned[0].request.gpus)], "# ")
        return True
    number = job.submit()
    show.say(f"Job {number} is submitted: `squeue --jobs={number}` shows its state, `scancel {number}` ends it.")
    show.line(f"log: {job.logs}")
    return True


def show_commands(tasks: Sequence[Planned], before: str = "") -> None:
    """The command of each task, as any shell takes it."""
    waiting = list(tasks)
    while some := waiting[:BLOCK]:
        show.lines("\n".join(on_one_line(before + executor_of(task)(task, folder).line) for task, folder in some))
        waiting = waiting[BLOCK:]
