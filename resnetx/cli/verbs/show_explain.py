"""`explain` and `trace`: why one result is not another, part by part, or where the time of one goes, by layer."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from pathlib import Path
from statistics import median
from typing import TypeVar

from resnetx.api.answers import trace_answer, traced_batches
from resnetx.api.load import explain
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.record.traces import Trace, TracedBatch, TracedCommunication, TracedLayer, TracedMessage, observations
from resnetx.reporting.explain import (
    Explained,
    case_columns,
    certainty,
    explained_answer,
    explained_case,
    part_columns,
    part_rows,
    same_results,
    weight,
)
from resnetx.reporting.explain_benches import (
    FIGURES_CERTAINTY,
    ExplainedFigure,
    figure_columns,
    figures_answer,
    told_figures,
)
from resnetx.reporting.slow_rank import JOB_PARTS, RANKS, JobPart, ObservedRank, observed_answer, observed_ranks
from resnetx.study import Point
from resnetx.table import Column
from resnetx.traces import layer_s, slowest, sums
from resnetx.units import cell_ms, si

T = TypeVar("T")


def explain_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Shows the parts; status 1 where B lies outside of what A says."""
    if not 1 <= len(paths) <= 2:
        raise ConfigError(
            "explain: expected one result or two: folders of runs, studies, predictions, benches or observed jobs, "
            f"got {len(paths)}"
        )
    found = explain(*paths, **asked)
    if observed := [each for each in found if isinstance(each, ObservedRank)]:
        answer, screen = observed_answer(observed), partial(show_ranks, observed)
    elif parts := [each for each in found if isinstance(each, JobPart)]:
        answered = found.answer()
        answer, screen = list(answered.sentences if answered else []), partial(show_jobs, parts)
    elif figures := [each for each in found if isinstance(each, ExplainedFigure)]:
        answer, screen = figures_answer(figures), partial(show_figures, figures)
    else:
        cases = [each for each in found if isinstance(each, Explained)]
        answer, screen = explained_answer(cases), partial(explanations, cases)
    show.conclude(options, answer, lambda: found, screen)
    return 1 if any(not isinstance(each, JobPart) and each.outside for each in found) else 0


# The screen of `explain`: the parts of the case that differs most, what else differs in it, and how sure that is.

CASES, EVIDENCE = 6, 3  # rows and lines; --all has all


def explanations(found: Sequence[Explained]) -> None:
    """The case that differs most, or loses most, part by part; a row for each where parts are not known. --all: all."""
    ranked = sorted(found, key=weight, reverse=True)
    hidden = []
    if show.everything():
        for each in ranked:
            if each is not ranked[0] or same_results(found):  # else the answer says it
                show.say(explained_case(each))
                show.say()
            _one(each)
            show.say()
    elif not same_results(found):
        hidden = _one(ranked[0])
    if len(found) > 1 and (show.everything() or not ranked[0].parts or same_results(found)):
        hidden += _most(case_columns(ranked), ranked)
    elif len(found) > 1:
        hidden.append(f"{len(found) - 1:,} more case{'s' * (len(found) > 2)}")
    show.say(f"sure: {certainty(ranked[0])}.")
    show.rest(hidden)


def _most(columns: Sequence[Column[T]], ranked: Sequence[T]) -> list[str]:
    """The first rows, which differ most; how many are left out."""
    shown = show.first(ranked, CASES)
    show.listing(columns, shown, every=True, constant=True)
    return [f"{len(ranked) - len(shown):,} more rows"] * (len(shown) < len(ranked))


def _one(each: Explained) -> list[str]:
    """Parts, settings and evidence of a case; what is left out of them."""
    if each.parts:
        show.listing(part_columns(each), part_rows(each), every=True, constant=True)
    elif each.why:
        show.say(f"where the time goes: {each.why}")
    if each.differs:
        show.say(f"differs: {'; '.join(each.differs)}")
    if each.late:
        show.say(f"look: {each.late}")
    return _evidence(each.evidence)


def _evidence(lines: Sequence[str]) -> list[str]:
    shown = show.first(lines, EVIDENCE)
    for index, line in enumerate(shown):
        show.say(f"{'also' if index else 'evidence'}: {line}")
    return [f"{len(lines) - len(shown)} more that differ"] * (len(shown) < len(lines))


# ---- benches --------------------------------------------------------------------------------------------------------


def show_figures(found: Sequence[ExplainedFigure]) -> None:
    """Which figures changed, by collective and by pair, and in what else the two differ; of one, what is slow."""
    two = found[0].b_s is not None
    figures = told_figures(found)
    ranked = sorted(figures, key=lambda figure: -abs(log(figure.longer)))
    hidden = _most(figure_columns(two), ranked) if ranked else []
    if two:
        show.say(f"sure: {FIGURES_CERTAINTY}.")
    hidden += _evidence(list(dict.fromkeys(line for figure in figures or found for line in figure.evidence)))
    show.rest(hidden)


# ---- an observed job ------------------------------------------------------------------------------------------------


def show_ranks(ranks: Sequence[ObservedRank]) -> None:
    """Each rank's phases, in ms."""
    show.listing(RANKS, ranks, every=True, constant=True)


def show_jobs(parts: Sequence[JobPart]) -> None:
    """A part of both steps in each row."""
    show.listing(JOB_PARTS, parts, every=True, constant=True)
    show.say("sure: one job each, so how much jobs differ by chance is not known.")


# ---- trace ----------------------------------------------------------------------------------------------------------
# `trace`: layer times of workloads, measured or imported: the slowest of each batch, their sums, and what ranks sent.


def trace_(options: Namespace, paths: list[Path], asked: Point) -> int:
    """Measures what is not there yet, or imports; status 1 where a run failed."""
    from resnetx.api.bench_settings import import_trace
    from resnetx.api.measuring import fed
    from resnetx.api.trace import execute, traces_of
    from resnetx.cli.verbs.show_train import left_to_others

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
    traces, failed = execute(fed(asked))
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


LAYERS = 4  # that are shown of the largest batch


def show_trace(traced: Trace) -> None:
    """A table over the batches, and the slowest layers of the largest; --all: each layer of each, and messages."""
    from resnetx.cli.verbs import show_train

    show_train.warnings(traced.warnings)
    _batches(traced)
    messages = any(run.messages for run in traced.communication)
    if messages and show.everything():
        show.say()
        _messages(traced)
    several = len(traced.batches) > 1 and show.in_brief(show.BRIEFEST)  # the answer names the slowest layers
    largest = sorted(traced.batches, key=lambda batch: -batch.batch_size)[: not several]
    for batch in traced.batches if show.everything() else largest:
        show.say()
        _layers(traced, batch)
    if not show.everything():
        show.more(f"every layer{', messages of gradients' * messages}, what columns mean: --all")
    show.line(f"trace: {traced.source}")


@dataclass(frozen=True)
class LayersRow:
    """A layer, or several, and their share of all."""

    name: str
    layers: Sequence[TracedLayer]
    share: float

    def median_s(self, way: str) -> float:
        """Forward ("forward_s") or backward."""
        columns: list[list[float]] = [getattr(layer, way) for layer in self.layers]
        return sum(median(values) for values in columns if values)


def _gradients(row: LayersRow) -> str:
    sizes = [layer.gradient_bytes for layer in row.layers]
    return "unknown" if None in sizes else si(sum(size or 0 for size in sizes), "B")


SLOWEST: list[Column[LayersRow]] = [
    Column("layer", lambda row: row.name),
    Column(">forward ms", lambda row: cell_ms(row.median_s("forward_s"))),
    Column(">backward ms", lambda row: cell_ms(row.median_s("backward_s"))),
    Column(">of both", lambda row: f"{row.share:.1%}"),
    Column(">gradients", _gradients),
]


def _layers(traced: Trace, batch: TracedBatch) -> None:
    times = batch.times
    shown = show.first(slowest(times.layers, len(times.layers)), show.fitting_rows(LAYERS))
    others = [layer for layer in times.layers if layer not in shown]
    whole_s = sum(map(layer_s, times.layers))
    together = [(f"{len(others)} more", others)] * bool(others) + [("all", times.layers)]
    rows = [
        LayersRow(name, layers, sum(map(layer_s, layers)) / whole_s if whole_s else 0.0)
        for name, layers in [*((layer.name, [layer]) for layer in shown), *together]
    ]
    iterations = max((len(layer.forward_s) for layer in times.layers), default=0)
    title = (
        f"{traced.workload}, batch {batch.batch_size} on {traced.device or 'an unknown device'}: "
        f"medians of {iterations} iterations, {times.clock} clock"
    )
    show.listing(SLOWEST, rows, title * (not show.in_brief()), every=True)  # the answer names the batch


def _batches(traced: Trace) -> None:
    """The sums of each batch, beside the instrumented and the clean step."""
    clean = " clean: steps of the same process without the instrumentation; ratios are of neighbouring windows."
    note = f"Median ms of an iteration.{clean * show.everything()}"
    if any(batch.times.host_s for batch in traced.batches):
        note += " Layers are times of the device alone: it starts them once the host has queued all."
    if any(batch.times.host_bound and not batch.times.host_s for batch in traced.batches):
        note += " host-bound: the device waits for this host; these times do not hold for another host."
    title = f"{traced.workload}: what a step is made of, by batch" * show.everything()
    show.listing(traced_batches(), [(batch, sums(batch.times)) for batch in traced.batches], title, note, every=True)


def _messages(traced: Trace) -> None:
    rows = [(run, index, message) for run in traced.communication for index, message in enumerate(run.messages)]
    show.listing(MESSAGES, rows, f"{traced.workload}: messages of gradients, medians")


MESSAGES: list[Column[tuple[TracedCommunication, int, TracedMessage]]] = [
    Column(">GPUs", lambda row: f"{row[0].gpus}"),
    Column("strategy", lambda row: row[0].strategy),
    Column(">batch", lambda row: f"{row[0].batch_size}"),
    Column(">message", lambda row: f"{row[2].operation} {row[1]}".strip()),
    Column(">size", lambda row: si(row[2].size_bytes, "B")),
    Column(">waiting ms", lambda row: cell_ms(median(row[2].waiting_s)),
           help="until the last rank is there, mean over the ranks."),
    Column(">transfer ms", lambda row: cell_ms(median(row[2].transfer_s)),
           help="from then until the last rank has it."),
]  # fmt: skip
