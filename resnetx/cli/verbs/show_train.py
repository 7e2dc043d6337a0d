"""`train` and `verify`: one point, and whether several ranks compute what one would; the screen of a run."""

import os
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean

from resnetx.api.answers import run_answer, verify_answer
from resnetx.api.bench import obstacle_to_bench
from resnetx.api.doctor import obstacle_to
from resnetx.api.measuring import fed, machine_name, run_words
from resnetx.api.sweep import submission
from resnetx.api.train import asked_run, execute_verification, executed
from resnetx.cli import show
from resnetx.errors import ConfigError, on_one_line
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE, Launch
from resnetx.measure.launch.executor import executor_of, follow, follows, submit
from resnetx.record import (
    BenchFile,
    Equality,
    GradientBucket,
    Phases,
    RunFile,
    RunFolder,
    RunRecord,
    Staging,
    TaskFile,
    TaskRecord,
    Warning,
)
from resnetx.record.machine import unit_of
from resnetx.reporting.explain import copies_text
from resnetx.request import Request
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import cell_ms, duration, figure, how_many, si


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
    kept = executed(task, results, path, asked.get("out"))
    record = kept.record
    failed = record.outcome != "ok"
    show.conclude(options, run_answer(record), lambda: [record], partial(run, record, kept.folder), failed)
    return 1 if failed else 0


# ---- verify ---------------------------------------------------------------------------------------------------------

WORST = 4  # layers in the table


def verify_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Compares the ranks of a point with one process; status 1 where they are not equal."""
    if os.environ.get("WORLD_SIZE"):
        raise ConfigError("verify: this is a rank of torchrun; `resnetx verify` starts torchrun itself")
    kept = execute_verification(asked)
    record, folder = kept.record, kept.folder

    def screen() -> None:
        if record.equality is None:
            run(record, folder)
        else:
            _show(record.request, record.equality)
            show.line(f"record: {folder.record}")

    show.conclude(options, verify_answer(record), lambda: [record], screen, record.outcome != "ok")
    return 0 if record.equality and record.equality.equal else 1


def _show(request: Request, equality: Equality) -> None:
    """The layers that deviate most."""
    order = sorted(equality.double.layers, key=lambda layer: -_size(equality.double.layers[layer]))
    columns: list[Column[LayerDeviations]] = [
        Column("layer", lambda row: row[0]),
        Column(">double", lambda row: _text(row[1][0])),
        Column(f">{request.precision}", lambda row: _text(row[1][1])),
        Column(">per-rank statistics", lambda row: _text(row[1][2]) if len(row[1]) > 2 else ""),
    ]
    parts = [equality.double, equality.as_trained, *([equality.per_rank] if equality.per_rank else [])]
    rows: list[LayerDeviations] = [("loss", [part.loss for part in parts])]
    shown = show.first(order, WORST)
    rows += [(layer, [part.layers[layer] for part in parts]) for layer in shown]
    left_out = len(order) - len(shown)
    show.listing(columns, rows, every=True, constant=True)
    show.say(f"sure: double precision decides; {request.precision}: one step as trained, with its rounding.")
    if equality.statistics != "none":
        show.say(
            f"Batch normalisation: statistics {_STATISTICS[equality.statistics]}; by those of each rank, as in "
            "training, ranks are not one process."
        )
    more = f"; {left_out} more layers: --all" * bool(left_out)
    show.more(f"relative deviations, the largest of all ranks and steps{more}")


LayerDeviations = tuple[str, list[float | None]]  # its name; in double precision, as trained, by each rank's statistics


_STATISTICS = {"frozen": "of the global batch, fixed", "synchronised": "computed over all ranks"}


def _size(deviation: float | None) -> float:
    """None: not a finite number."""
    return float("inf") if deviation is None else deviation


def _text(deviation: float | None) -> str:
    return "not finite" if deviation is None else f"{deviation:.1e}"


# ---- show run -------------------------------------------------------------------------------------------------------
# The screen of one run: its figures and warnings, a step from inside, or why there are no figures.

PHASES = {
    "wait": "input_wait_s",
    "copy": "host_to_device_s",
    "forward": "forward_s",
    "backward": "backward_s",
    "exposed": "exposed_communication_s",
    "update": "optimizer_s",
    "gather": "gather_s",
}  # of an instrumented step, by the heading of the column


def run(record: RunRecord, folder: RunFolder) -> None:
    """One run: its figures and its warnings, or why there are none."""
    if record.outcome != "ok":
        failure(record, folder)
        return
    warnings(record.warnings)
    if record.workload:
        gpus = record.request.gpus
        each = how_many(1, unit_of(record.devices or ())).partition(" ")[2]
        show.say(
            f"{figure(record.workload.intensity)} activations per parameter"
            + f", {figure(record.workload.intensity / gpus)} for each {each}" * (gpus > 1)
            + f" (convention {record.workload.convention})"
        )
    if record.backend == "nccl" and (chosen := _nccl_backend(record)):
        show.say(chosen)
    for staging in record.staging or []:
        show.say(_staged(staging))
    if record.phases:
        _inside_a_step(record.phases, record.buckets or [])
        copies = copies_text(record.copies) if record.copies else f"not known: {record.unknown.get('copies', '')}"
        show.say(f"copies of a step: {copies}")
    show.more(f"{run_words(record)}; {duration(record.duration_s)} in all")
    show.line(f"record: {folder.record}")


def _nccl_backend(record: RunRecord) -> str:
    """Which of torch's backends for NCCL the run took; "" where it is not known."""
    variables = record.environment.variables if record.environment else {}
    value = variables.get(NCCL_BACKEND_VARIABLE)
    if value is None:
        return ""
    if value == FIRST_NCCL_BACKEND:
        return f"torch's first NCCL backend ({NCCL_BACKEND_VARIABLE}={value}), not the default of torch 2.15 or later"
    return f"the NCCL backend that is torch's default from 2.15 on ({NCCL_BACKEND_VARIABLE}={value})"


def _staged(node: Staging) -> str:
    """What a node did before its ranks read, whose time is in no rate."""
    what = f"{node.node}: {node.images:,} images ({si(node.size_bytes, 'B')}) read from {node.folder}"
    took_s = node.list_s + node.wait_s + node.copy_s
    return f"{what}; {si(node.copied_bytes, 'B')} copied; staging took {took_s:,.1f} s before the run"


def warnings(run_warnings: Sequence[Warning]) -> None:
    """What makes a figure less trustworthy, with a remedy."""
    for warning in run_warnings:
        head, _, tail = warning.message.partition(": ")
        brief = f"look: {head}: --all" if len(tail) > LONG else ""
        show.say(f"look: {warning.message}; {warning.remedy}", indent=2, brief=brief)


LONG = 80  # characters behind the first words of a warning, which a long screen leaves to --all


def failure(record: TaskRecord, folder: RunFolder) -> None:
    """Why a run has no figures."""
    first = record.failures[0] if record.failures else None
    if first and first.kind == "error" and first.traceback:
        show.lines(first.traceback.rstrip(), show.err)
    elif record.stderr_end and not (first and first.kind in ("config", "oom")):
        show.line(f"---- end of {folder.stderr}", show.err)
        show.lines(record.stderr_end.rstrip(), show.err)
    show.line(f"record: {folder.record}", show.err)


# ---- inside a step --------------------------------------------------------------------------------------------------


def parts(phases: Phases) -> list[list[float]]:
    """Seconds of the instrumented step and of its phases, each by rank."""
    return [phases.step_s, *(getattr(phases, field) for field in PHASES.values())]


def _inside_a_step(phases: Phases, messages: Sequence[GradientBucket]) -> None:
    """The phases of each rank's step, and when each message was ready, sent and received."""
    ranks = [[part[rank] if part else 0.0 for part in parts(phases)] for rank in range(len(phases.step_s))]
    columns: list[Column[tuple[int, list[float]]]] = [
        Column(">rank", lambda row: f"{row[0]}"),
        *(_phase_column(index, name) for index, name in enumerate(["step", *PHASES])),
    ]
    title = "Inside a step: mean ms of each rank over all windows"
    note = "exposed: communication not hidden by computation."
    show.listing(columns, list(enumerate(ranks)), title, note, every=True, constant=True)
    timed = [message for message in messages if message.ready_s and message.start_s and message.end_s]
    title = "Messages of gradients: mean ms since the step began, over ranks and the steps of the last window"
    if timed:
        show.listing(MESSAGES, timed, title, constant=True)


def _phase_column(index: int, name: str) -> Column[tuple[int, list[float]]]:
    """Empty in older records, which have no gather."""
    return Column(f">{name}", lambda row: cell_ms(row[1][index] or None, 1))


def _mean_ms(times_s: Sequence[Sequence[float]] | None) -> str:
    return cell_ms(fmean(chain(*(times_s or []))), 1)


MESSAGES: list[Column[GradientBucket]] = [
    Column(">message", lambda message: f"{message.index}"),
    Column(">size", lambda message: si(message.size_bytes, "B")),
    Column(">ready", lambda message: _mean_ms(message.ready_s)),
    Column(">start", lambda message: _mean_ms(message.start_s)),
    Column(">end", lambda message: _mean_ms(message.end_s)),
]


# What the verbs that measure print of jobs, and of commands that are not started.

BLOCK = 1000  # lines that are printed at once: a study may have 90,000

Planned = tuple[TaskFile[TaskRecord], RunFolder]


def left_to_others(
    options: Namespace, verb: str, asked: Point, launch: Launch | None, results: str | Path, tasks: Sequence[Planned]
) -> bool:
    """Whether nothing is left to do here: a job was submitted, or shown with --dry-run, as commands are without one."""
    if submitted(options, verb, asked, launch, results, tasks):
        return True
    if options.dry_run:
        for lab, request in ((task.request.lab, task.request) for task, _ in tasks):
            if lab is not None:  # what the lab lacks, it lacks on any machine
                lab_network(
                    system.load(lab.system, key="lab.system"), request.devices, request.gpus, lab.scale, lab.transport
                )
        show_commands(tasks)
        if launch is None:
            for obstacle in dict.fromkeys(filter(None, (_obstacle(task) for task, _ in tasks))):
                show.comment(f"cannot run here: {obstacle}")
    return bool(options.dry_run)


def _obstacle(task: TaskFile[TaskRecord]) -> str:
    if isinstance(task, BenchFile):
        return obstacle_to_bench(task.request, task.oversubscribe)
    assert isinstance(task, RunFile), f"{task}: a task of a kind that has no obstacles"
    return obstacle_to(task.request, task.oversubscribe)


def submitted(
    options: Namespace, verb: str, asked: Point, launch: Launch | None, results: str | Path, tasks: Sequence[Planned]
) -> bool:
    """Whether the verb is left to a job of Slurm, which is then submitted; or shown, with --dry-run."""
    folders = [word for folder in options.config_dir or [] for word in ("--config-dir", str(folder))]
    most = max((task.request.gpus for task, _ in tasks), default=1)
    job = submission(verb, asked, launch, results, most, folders)
    if job is None:
        return False
    script, logs = job
    if options.dry_run:
        show.lines(script.rstrip())
        show.line(f"# {len(tasks)} task{'s' * (len(tasks) > 1)}, each of them a step, as this one:")
        show_commands([max(tasks, key=lambda planned: planned[0].request.gpus)], "# ")
        return True
    number = submit(script, logs)
    show.say(f"Job {number} is submitted: `squeue --jobs={number}` shows its state, `scancel {number}` ends it.")
    show.line(f"log: {logs}")
    return True


def show_commands(tasks: Sequence[Planned], before: str = "") -> None:
    """The command of each task, as any shell takes it; of more than a table has rows the first, or with --all each."""
    waiting = list(tasks)
    if len(waiting) > show.ROWS and not show.everything():
        show.comment(f"The first of {len(waiting):,} commands, each after writing its run.json (--all: each):")
        waiting = waiting[:1]
    while some := waiting[:BLOCK]:
        show.lines("\n".join(on_one_line(before + executor_of(task)(task, folder).line) for task, folder in some))
        waiting = waiting[BLOCK:]
