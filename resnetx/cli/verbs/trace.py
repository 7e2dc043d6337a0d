"""`trace`: layer times of workloads, measured or imported."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from resnetx.api.answers import trace_answer
from resnetx.api.imports import import_trace
from resnetx.api.trace import execute, traces_of
from resnetx.cli import show
from resnetx.cli.tables import show_run
from resnetx.cli.tables.show_run import left_to_others
from resnetx.cli.verbs.explain import show_ranks
from resnetx.errors import ConfigError
from resnetx.record.observation import observations
from resnetx.record.trace import Trace, TracedBatch, TracedLayer
from resnetx.reporting.slow_rank import ObservedRank, observed_answer, observed_ranks
from resnetx.study import Point
from resnetx.traces.runs import layer_s, slowest, sums
from resnetx.units import si


def trace_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures what is not there yet, or imports; status 1 where a run failed."""
    if getattr(options, "import"):
        if not paths:
            raise ConfigError(
                "--import: expected a file (six columns, or a profile of PyTorch), or profiles of all ranks of a job"
            )
        trace, folder = import_trace(paths, asked)
        if seen := observations(folder):
            ranks = observed_ranks(seen)
            show.conclude(
                options, [*observed_answer(ranks), *trace_answer(trace)[:1]], partial(list, [trace]),
                partial(show_job, ranks, trace, folder),
            )  # fmt: skip
        else:
            _show(options, [trace])
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
        show.conclude(options, trace_answer(trace), partial(list, [trace]), partial(show_trace, trace))


def show_job(ranks: Sequence[ObservedRank], trace: Trace, folder: Path) -> None:
    """The phases of each rank, and its trace."""
    show_ranks(ranks)
    show.say()
    show_trace(trace)
    show.line(f"resnetx explain {folder}")
    show.line(f"resnetx predict {folder} systems=")


# The screen of a trace: the slowest layers of each batch, what they add up to, and what ranks sent.

LAYERS = 10  # that are shown of each batch
MESSAGES = 20  # of all strategies and GPUs


def show_trace(traced: Trace) -> None:
    """Tables over the batches, of the messages, and of the layers of the largest (--all: each)."""
    show_run.warnings(traced.warnings)
    _batches(traced)
    if any(run.messages for run in traced.communication):
        show.say()
        _messages(traced)
    largest = sorted(traced.batches, key=lambda batch: -batch.batch_size)
    for batch in traced.batches if show.everything() else largest[:1]:
        show.say()
        _layers(traced, batch)
    show.line(f"trace: {traced.source}")


def _layers(traced: Trace, batch: TracedBatch) -> None:
    times = batch.times
    shown = show.first(slowest(times.layers, len(times.layers)), LAYERS)
    others = [layer for layer in times.layers if layer not in shown]
    whole_s = sum(map(layer_s, times.layers))
    rows = [[layer.name, *_row([layer], whole_s)] for layer in shown]
    rows += [[f"{len(others)} more", *_row(others, whole_s)]] if others else []
    rows += [["all", *_row(times.layers, whole_s)]]
    iterations = max((len(layer.forward_s) for layer in times.layers), default=0)
    show.table(
        f"{traced.workload}, batch {batch.batch_size} on {traced.device or 'an unknown device'}: "
        f"medians of {iterations} iterations, {times.clock} clock",
        ["layer", ">forward ms", ">backward ms", ">of both", ">gradients"],
        rows,
    )


def _row(layers: Sequence[TracedLayer], whole_s: float) -> list[str]:
    forward, backward = (
        sum(median(values) for layer in layers if (values := getattr(layer, way)))
        for way in ("forward_s", "backward_s")
    )
    share = sum(map(layer_s, layers)) / whole_s if whole_s else 0.0
    return [_ms(forward), _ms(backward), f"{share:.1%}", _gradients(layers)]


def _gradients(layers: Sequence[TracedLayer]) -> str:
    sizes = [layer.gradient_bytes for layer in layers]
    return "unknown" if None in sizes else si(sum(size or 0 for size in sizes), "B")


def _batches(traced: Trace) -> None:
    """The sums of each batch, beside the instrumented and the clean step."""
    hosts = any(batch.times.host_s for batch in traced.batches)
    columns = [
        ">batch", ">forward", ">backward", ">update", ">input wait", ">copy", ">rest",
        ">instrumented step", ">clean step", ">instrumented/clean", ">parts/clean", ">input alone",
        *[">host alone"] * hosts, "device busy",
    ]  # fmt: skip
    rows = []
    for batch in traced.batches:
        each = sums(batch.times)
        parts = (each.forward_s, each.backward_s, each.update_s, each.input_wait_s, each.host_to_device_s, each.rest_s)
        rows.append(
            [
                f"{batch.batch_size}",
                *map(_ms, (*parts, each.step_s, each.clean_step_s)),
                _ratio(each.instrumented_over_clean),
                _ratio(each.parts_over_clean),
                _ms(each.input_s),
                *[_ms(each.host_s)] * hosts,
                _busy(batch),
            ]
        )
    notes = [
        "Median ms of an iteration. rest: the cost of the instrumentation itself. clean: steps of the same process "
        "without it. parts/clean: all parts but the rest over the clean step; both ratios are of neighbouring windows. "
        "input alone: a batch, when nothing else runs."
    ]
    if hosts:
        notes[0] += (
            " host alone: to queue a step, when the device has nothing else to do. Layers are times of the device "
            "alone: it starts them once the host has queued all."
        )
    if any(batch.times.host_bound and not batch.times.host_s for batch in traced.batches):
        notes.append("host-bound: the device waits for this host; these times do not hold for another host.")
    least = [
        "copy", "input alone", "input wait", "rest", "device busy", "instrumented/clean", "update",
        *["host alone"] * hosts, "instrumented step",
    ]  # fmt: skip
    show.table(f"{traced.workload}: what a step is made of, by batch", columns, rows, notes, least)


def _busy(batch: TracedBatch) -> str:
    busy, bound = batch.times.device_busy, batch.times.host_bound
    return ("" if busy is None else f"{busy:.0%}") + ", host-bound" * bool(bound)


def _messages(traced: Trace) -> None:
    rows = [
        [
            f"{run.gpus}", run.strategy, f"{run.batch_size}", f"{message.operation} {place}".strip(),
            si(message.size_bytes, "B"), _ms(median(message.waiting_s)), _ms(median(message.transfer_s)),
        ]
        for run in traced.communication
        for place, message in enumerate(run.messages)
    ]  # fmt: skip
    columns = [">GPUs", "strategy", ">batch", ">message", ">size", ">waiting ms", ">transfer ms"]
    shown = show.first(rows, MESSAGES)
    note = "waiting: until the last rank is there, mean over the ranks; transfer: from then until the last rank has it."
    note += f" And {len(rows) - len(shown)} more: --all" if len(shown) < len(rows) else ""
    show.table(f"{traced.workload}: messages of gradients, medians", columns, shown, note)


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.2f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
