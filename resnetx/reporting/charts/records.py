"""Figures of traces, messages, runs, jobs, checks and workloads: which layers take the time, when messages travel,
which rank or node is slow, and how much work there is per parameter."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from statistics import fmean, median
from typing import Any, Protocol

from resnetx.record import GradientBucket, Phases, RunRecord, Workload
from resnetx.record.run import Equality
from resnetx.record.topologies import Check, CheckedRun
from resnetx.record.traces import Observation, Trace, TracedBatch
from resnetx.reporting.charts.figure import BARS, INK, PAPER, PART_COLOURS, SYSTEMS, Figure, workload_colours
from resnetx.reporting.charts.grammar import (
    Axis,
    Mark,
    Plot,
    Ramp,
    Scale,
    figure,
    looks_there,
    names_in,
    numbers_in,
    shape_looks,
    span,
    squares,
    system_looks,
)
from resnetx.reporting.slow_rank import (
    IN_PASSES,
    OF_FSDP,
    ObservedRank,
    arrivals,
    numbers,
    slow_alike,
    typical_s,
)
from resnetx.table import Record, fields, table_of_records
from resnetx.units import si

MOST_LAYERS = 30  # that a figure names; of more, blocks of them
MOST_LABELLED = 12  # nodes, of which each square has its figure written in it


# ---- traces ---------------------------------------------------------------------------------------------------------


def trace_figures(trace: Trace) -> list[Figure]:
    """The layers of each batch, in the order of the forward pass; of many, what is named together as one."""
    return [_layers(trace, batch) for batch in trace.batches if batch.times.layers]


def _layers(trace: Trace, batch: TracedBatch) -> Figure:
    ms = {
        layer.name: [1e3 * median(times_s) if times_s else 0.0 for times_s in (layer.forward_s, layer.backward_s)]
        for layer in batch.times.layers
    }
    blocks = _blocks(list(ms))
    named = {block: [sum(ms[name][place] for name in names) for place in (0, 1)] for block, names in blocks.items()}
    longest = sorted(named, key=lambda block: -sum(named[block]))[:MOST_LAYERS]
    shown = {block: times for block, times in named.items() if block in longest}
    if rest := [times for block, times in named.items() if block not in longest]:
        shown[f"{len(rest)} others"] = [sum(times[place] for times in rest) for place in (0, 1)]
    rows: list[Record] = [
        {"layer": block, "layers": len(blocks.get(block, rest)), "pass": name, "ms": time_ms, "place": place}
        for block, times in shown.items()
        for place, (name, time_ms) in enumerate(zip(_PASSES, times, strict=True))
    ]
    largest = longest[0]
    share = sum(named[largest]) / (sum(map(sum, ms.values())) or 1.0)
    plot = Plot(
        x=Axis("ms", "ms", labels="si", domain=(0.0, 1.02 * max(*map(sum, shown.values()), 1e-9))),
        y=Axis("layer", "", "names", order=list(shown)),
        marks=(Mark("bars"),),
        colour=Scale("pass", {name: BARS[name] for name in _PASSES}),
        stacked="place",
        tips=("layer", "layers", "pass", "ms"),
        chart_only=("place",),
    )
    caption = "Medians of profiled steps. Backward: until a layer's own gradients are there."
    together = f" A bar has all layers whose names begin so: {len(ms)} in all." * (len(blocks) < len(ms))
    return figure(
        f"layers-batch{batch.batch_size}",
        f"{trace.workload}, batch {batch.batch_size}: {share:.0%} of the time of layers is {largest}",
        caption + together,
        table_of_records(rows),
        plot,
    )


def _blocks(names: Sequence[str]) -> dict[str, list[str]]:
    """The layers by name, or by so many words of it that few blocks are left: layer1.0 of layer1.0.bn1."""
    blocks: dict[str, list[str]] = {name: [name] for name in names}
    for words in range(max(name.count(".") for name in names), 0, -1):
        if len(blocks) <= MOST_LAYERS:
            break
        blocks = {}
        for name in names:
            blocks.setdefault(".".join(name.split(".")[:words]), []).append(name)
    return blocks


_PASSES = ("forward", "backward")


# ---- the messages of a step, against what ranks compute -------------------------------------------------------------

MOST_RANKS = 4  # whose messages are drawn
MOST_STRETCH = 1.25  # of a step of all windows over that of the last, which is drawn
_DOES = {
    "input": ("input_wait_s", "host_to_device_s"),
    "forward": ("forward_s",),
    "backward": ("backward_s",),
    "waits for messages": ("exposed_communication_s",),
    "update": ("optimizer_s",),
}
_DOING = {part: BARS.get(part, "#c3c9d0") for part in _DOES} | {"message": BARS["collectives"]}


def message_timeline(words: str, phases: Phases | None, messages: Sequence[GradientBucket]) -> Figure | None:
    """When the messages of an instrumented step travel, and what each rank does meanwhile; null where none is timed."""
    sent = [(message, message.start_s, message.end_s) for message in messages]
    timed = [(message, start_s, end_s) for message, start_s, end_s in sent if start_s and end_s and all(end_s)]
    if phases is None or not timed:
        return None
    rows: list[Record] = []
    for rank in range(min(len(phases.step_s), MOST_RANKS)):
        sends = [
            _during(f"rank {rank} sends", "message", f"{message.index}: {si(message.size_bytes, 'B')}", *ends_s)
            for message, *times_s in timed
            for ends_s in [[fmean(of_ranks[rank]) for of_ranks in times_s]]
        ]
        ready_s = max(fmean((message.ready_s or start_s)[rank]) for message, start_s, _ in timed)
        lengths_s = [sum(getattr(phases, name)[rank] for name in names) for names in _DOES.values()]
        stretch = ready_s / sum(lengths_s[:-2])  # from all windows to the last, of which the messages are
        waits_s = max(0.0, max(numbers_in(sends, "end_ms")) / 1e3 - ready_s)
        ends = list(accumulate([*(stretch * length_s for length_s in lengths_s[:-2]), waits_s, lengths_s[-1]]))
        spans = zip(_DOES, [0.0, *ends], ends, strict=False)
        rows += [_during(f"rank {rank} computes", part, part, *both) for part, *both in spans]
        rows += sends
    rows = [row for row in rows if row["end_ms"] != row["start_ms"]]
    longest_ms = max(numbers_in(rows, "end_ms"))
    waits_ms = [
        float(row["end_ms"] or 0) - float(row["start_ms"] or 0) for row in rows if row["part"] == "waits for messages"
    ]
    plot = Plot(
        x=Axis("start_ms", "ms of one step", domain=(0.0, longest_ms)),
        y=Axis("lane", "", "names"),
        marks=(
            Mark("spans", column="end_ms"),
            Mark("words", "datum.part == 'message'", "what", within="end_ms", look={"color": PAPER}),
        ),
        colour=looks_there("part", _DOING, rows),
        chart_only=("description",),
    )
    of_all_ms = 1e3 * max(phases.step_s)
    others = f" A step takes {of_all_ms:.3g} ms in the mean of all windows." * (of_all_ms > MOST_STRETCH * longest_ms)
    first = f"; the first {MOST_RANKS} ranks" * (len(phases.step_s) > MOST_RANKS)
    return figure(
        "step-messages",
        f"Messages of a step of {words}: ranks wait for them for {max(waits_ms, default=0.0):.3g} of "
        f"{longest_ms:.3g} ms at most",
        "A profiled step, which takes longer than others: means over its last window. A message: from when it "
        f"is handed over until its sums are there{first}.{others}",
        table_of_records(rows),
        plot,
    )


def _during(lane: str, part: str, what: str, start_s: float, end_s: float) -> Record:
    words = f"{lane.partition(' ')[0]} {lane.split()[1]}, {what}: {si(1e3 * start_s)} to {si(1e3 * end_s)} ms"
    return {
        "lane": lane,
        "part": part,
        "what": what,
        "start_ms": 1e3 * start_s,
        "end_ms": 1e3 * end_s,
        "description": words,
    }


# ---- single runs ----------------------------------------------------------------------------------------------------


MOST_WARM_UP = 5  # times a window's step: longer ones would leave no room for all others


def run_figures(record: RunRecord) -> list[Figure]:
    """The time of its steps from the first on, and of an instrumented run what is done in one."""
    words = f"{record.request.model.label}, batch {record.request.batch_size}"
    timeline = message_timeline(words, record.phases, record.buckets or [])
    return [*_deviations(record.equality, words), *([timeline] if timeline else []), *_steps_of(record, words)]


def _deviations(equality: Equality | None, words: str) -> list[Figure]:
    """How far the gradients of each layer are off those of one process, in double precision and as trained."""
    if equality is None:
        return []
    rows: list[Record] = [
        {"layer": name, "place": place, "deviation": deviation, "in": how}
        for how, of in (("double precision", equality.double), ("as trained", equality.as_trained))
        for place, (name, deviation) in enumerate(of.layers.items(), 1)
        if deviation
    ]
    if not rows:
        return []
    plot = Plot(
        x=Axis("place", "layer"),
        y=Axis("deviation", "relative deviation of gradients", "log"),
        marks=(Mark("rule", column=f"{equality.tolerance}"), Mark("dots", look={"size": 20})),
        colour=Scale("in", {"double precision": SYSTEMS[0], "as trained": SYSTEMS[1]}),
        tips=("layer", "deviation", "in"),
    )
    title = f"Gradients of several ranks {'equal' if equality.equal else 'do NOT equal'} those of one process"
    caption = f"{words}. Line: the tolerance of double precision. Layers without any deviation are not drawn."
    return [figure("deviations", title, caption, table_of_records(rows), plot)]


def _steps_of(record: RunRecord, words: str) -> list[Figure]:
    """How long steps took: those of the warm-up, and the mean of each window, each of the slowest rank."""
    steps = record.steps_per_window
    warm_up_s, windows_s = (
        [max(ranks) for ranks in zip(*(of or []), strict=True)] for of in (record.warmup_s, record.windows_s)
    )
    if len(warm_up_s) + len(windows_s) < 2 or not windows_s:
        return []
    first = len(warm_up_s) + 1
    timed = [("warm-up", place, place, time_s) for place, time_s in enumerate(warm_up_s, 1)]
    timed += [
        ("window", first + place * steps, first + (place + 1) * steps - 1, time_s / steps)
        for place, time_s in enumerate(windows_s)
    ]
    rows: list[Record] = [
        {
            "of": of,
            "first_step": start,
            "last_step": end,
            "step": (start + end) / 2,
            "step_ms": 1e3 * time_s,
            "description": f"{of}, {'step' if start == end else 'steps'} {start}{f' to {end}' * (end > start)}: "
            f"{1e3 * time_s:.4g} ms",
        }
        for of, start, end, time_s in timed
    ]
    mean_ms = 1e3 * sum(windows_s) / len(windows_s) / steps
    least_ms, most_ms = (1e3 * end(windows_s) / steps for end in (min, max))
    title = f"A step takes {mean_ms:.3g} ms; windows differ by {most_ms / least_ms - 1:.1%}"
    if warm_up_s:
        title += f", the first step took {1e3 * warm_up_s[0] / mean_ms:.3g} times as long"
    plot = Plot(
        x=Axis("step", "step"),
        y=Axis("step_ms", "ms", "log", "si"),
        marks=(Mark("rule", column=f"{mean_ms}"), Mark("dots", look={"size": 20})),
        colour=Scale("of", {"warm-up": PART_COLOURS["not separated"], "window": PART_COLOURS["compute"]}),
        chart_only=("description", "step"),
    )
    drawn = [row for row in rows if float(row["step_ms"] or 0) < MOST_WARM_UP * most_ms]
    caption = f"{words}; of the slowest rank. Windows: the mean of {steps} steps each; line: of all windows."
    caption += f" Steps of the warm-up that took over {MOST_WARM_UP} times as long are not drawn." * (drawn != rows)
    return [figure("steps", title, caption, table_of_records(drawn), plot, table_of_records(rows))]


# ---- jobs whose ranks were observed ---------------------------------------------------------------------------------

MOST_JOB_RANKS = 16  # that are drawn: those that are furthest behind
_DONE = {
    "update": "update",
    "input": "input",
    "waits for buffers": "waiting",
    "forward": "forward",
    "backward": "backward",
}
_OF_JOB = {part: BARS.get(part, "#6b747d") for part in _DONE} | {
    "waiting": "#c3c9d0",
    "exposed communication": BARS["collectives"],
    "communication and waiting": BARS["collectives"],
}


def job_figures(job: Sequence[Observation], ranks: Sequence[ObservedRank]) -> list[Figure]:
    """When each rank is through each part of a step, if there are several; and what each does meanwhile."""
    drawn = sorted(ranks, key=lambda rank: -(rank.later_s or 0.0))[:MOST_JOB_RANKS]
    shown = [observation for observation in job if observation.rank in {rank.rank for rank in drawn}]
    one = ranks[0].steps == 1
    steps = "One step" if one else f"Medians of {ranks[0].steps} steps"
    some = f"; the {len(shown)} ranks that are furthest behind, of {len(job)}" * (len(shown) < len(job))
    rows = [row for observation in shown for row in _doing(observation, ranks[0].steps)]
    plot = Plot(
        x=Axis("start_ms", "ms since all ranks had the gradients of the step before"),
        y=Axis("lane", "", "names", order=[f"rank {observation.rank}" for observation in shown]),
        marks=(Mark("spans", column="end_ms"),),
        colour=looks_there("part", _OF_JOB, rows),
        chart_only=("what", "description"),
    )
    said = _who_is_behind(ranks)
    title = f"Where the step of each rank goes: {said}" if len(job) > 1 else "Where the step goes"
    means = "One step" if one else f"Means of the middle half of {ranks[0].steps} steps by length"
    inside = f"; {IN_PASSES}" * (ranks[0].strategy == "fsdp" and ranks[0].for_last_s is None)
    figures = [
        figure(
            "job-steps",
            title,
            f"{means}{some}{inside}.",
            table_of_records(rows),
            plot,
        )
    ]
    return [_arrivals(job, shown, f"{steps}{some}", said), *figures] if len(job) > 1 else figures


def _who_is_behind(ranks: Sequence[ObservedRank]) -> str:
    if late := next((rank for rank in ranks if rank.late), None):
        return f"rank {late.rank} is behind"
    if ranks[0].why:
        return f"not judged: {ranks[0].why}"
    if several := slow_alike(ranks):
        return f"several may be behind: {numbers(several)}"
    judged = ranks[0].strategy != "fsdp" or ranks[0].for_last_s is not None
    where = "" if judged else f" in {' or '.join(reversed(OF_FSDP))}; the passes are not judged"
    return f"no rank is shown to be behind{where}"


def _doing(observation: Observation, steps: int) -> list[Record]:
    """What a rank does in a step."""
    times_s = {part: typical_s(observation, name, steps) for part, name in _DONE.items()}
    exposed_s = typical_s(observation, "exposed", steps)
    if observation.for_last_s:
        times_s["waiting"] = typical_s(observation, "for_last", steps)
        times_s["exposed communication"] = max(0.0, exposed_s - times_s["waiting"])
    else:
        times_s["communication and waiting"] = exposed_s
    ends_s = [0.0, *accumulate(times_s.values())]
    return [
        _during(f"rank {observation.rank}", part, part, *ends)
        for part, ends in zip(times_s, pairwise(ends_s), strict=True)
        if times_s[part] > 0
    ]


def _arrivals(job: Sequence[Observation], shown: Sequence[Observation], steps: str, said: str) -> Figure:
    """By how much each rank is behind the first one, at each moment at which they are compared."""
    drawn = {observation.rank for observation in shown}
    rows: list[Record] = [
        {
            "done": f"{arrival.done}, {si(arrival.size_bytes, 'B')}" if arrival.size_bytes else arrival.done,
            "rank": arrival.rank,
            "own_ms": 1e3 * arrival.own_s,
            "behind_ms": 1e3 * arrival.behind_s,
            "label": f"{1e3 * arrival.behind_s:,.1f}",
        }
        for arrival in arrivals(job)
        if arrival.rank in drawn
    ]
    step_ms = 1e3 * median(median(observation.step_s) for observation in job)
    most = max(0.05 * step_ms, *numbers_in(rows, "behind_ms"))
    plot = squares(
        Axis("rank", "rank", "names", order=sorted(drawn)),
        Axis("done", "", "names", order=names_in(rows, "done")),
        Ramp("behind_ms", "lightorange", "ms behind", (0.0, most)),
        written=len(drawn) <= MOST_LABELLED,
        tips=("rank", "done", "own_ms", "behind_ms"),
    )
    return figure(
        "job-arrivals",
        f"When each rank is through each part of a step: {said}",
        f"ms behind the first rank, by the time that a rank itself has taken since the step began. {steps}.",
        table_of_records(rows),
        plot,
    )


# ---- checks ---------------------------------------------------------------------------------------------------------


def check_figures(check: Check) -> Iterator[Figure]:
    """Of single nodes a bar each, of pairs a square each, by what was measured; what stands out is another colour."""
    slow: set[tuple[str, tuple[str, ...]]] = {
        (outlier.measure, tuple(sorted(outlier.nodes))) for outlier in check.outliers
    }
    for measure in dict.fromkeys(run.measure for run in check.runs):
        runs = [run for run in check.runs if run.measure == measure and run.time_s]
        alone = [run for run in runs if len(run.nodes) == 1]
        pairs = [run for run in runs if len(run.nodes) == 2]
        if len(alone) > 1:
            yield _nodes(measure, alone, slow)
        if len(pairs) > 1:
            yield _pairs(measure, pairs, check.nodes)


def _nodes(measure: str, runs: Sequence[CheckedRun], slow: set[tuple[str, tuple[str, ...]]]) -> Figure:
    rows: list[Record] = [
        {
            "node": run.nodes[0],
            "ms": 1e3 * (run.time_s or 0),
            "limit_ms": None if run.limit_s is None else 1e3 * run.limit_s,
            "state": _SLOW if (measure, tuple(run.nodes)) in slow else _GOOD,
        }
        for run in sorted(runs, key=lambda run: -(run.time_s or 0))
    ]
    plot = Plot(
        x=Axis("ms", "ms", labels="si"),
        y=Axis("node", "", "names"),
        marks=(Mark("bars"), Mark("limits", "isValid(datum.limit_ms)", "limit_ms", colour=INK)),
        colour=looks_there("state", {_GOOD: SYSTEMS[0], _SLOW: SYSTEMS[1]}, rows),
        tips=("node", "ms", "limit_ms"),
    )
    return figure(
        f"nodes-{measure}",
        f"Each node: {measure}",
        "One run of each, the slowest first; a line: the most that the fleet's median allows, where it is known.",
        table_of_records(rows),
        plot,
    )


_GOOD, _SLOW = "as the others", "stands out"


def _pairs(measure: str, runs: Sequence[CheckedRun], nodes: Sequence[str]) -> Figure:
    """From 0, so that noise among pairs that are alike stays pale."""
    rows: list[Record] = [
        {"a": a, "b": b, "ms": 1e3 * (run.time_s or 0), "label": f"{1e3 * (run.time_s or 0):.3g}"}
        for run in runs
        for a, b in (run.nodes, run.nodes[::-1])
    ]
    most = max(1e3 * (run.time_s or 0) for run in runs)
    plot = squares(
        Axis("a", "", "names", order=nodes),
        Axis("b", "", "names", order=nodes),
        Ramp("ms", "lightorange", "ms", (0.0, most)),
        written=len(nodes) <= MOST_LABELLED,
        tips=("a", "b", "ms"),
    )
    return figure(
        f"pairs-{measure}", "Each pair of nodes: all-reduce", "Milliseconds of one run, from 0; darker is slower.",
        table_of_records(rows), plot,
    )  # fmt: skip


# ---- workloads that are counted, not run: after Tallent et al. 2017, Fig. 4 to 7 ------------------------------------
#
# Activations of an image and parameters by workload (Fig. 4), work and work over communication by batch category
# (Fig. 5 and 6), and activations per parameter on each GPU over GPUs (Fig. 7). One colour and shape for each workload.

_AFTER = "Form: Tallent et al. 2017, Fig. {}. Counted by the {} convention."
_ON_EACH = "activations_per_parameter_per_gpu"


class PlacedWorkload(Protocol):
    """A workload with a batch on some GPUs: a member of a family, or ("") the user's own."""

    @property
    def family(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def model(self) -> dict[str, Any]: ...
    @property
    def convention(self) -> str: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def flop_per_byte(self) -> float: ...
    @property
    def on_each(self) -> float: ...


def counted_figures(workloads: Sequence[Workload], gpus: Sequence[int]) -> list[Figure]:
    """The figures of workloads; those that a batch has no place in on a log axis are left out.

    So is a figure along whose axis there is one value.
    """
    counted = [workload for workload in workloads if workload.activations_per_batch > 0 and workload.parameters > 0]
    if not counted:
        return []
    batches: dict[str, list[int]] = {}
    for workload in counted:
        batches.setdefault(workload.workload, []).append(workload.batch_size)
    names = sorted(batches, key=lambda name: ("/" not in name, _numbers(name), name))
    counted.sort(key=lambda workload: names.index(workload.workload))
    rows = [
        _row(workload, count, sorted(set(batches[workload.workload])).index(workload.batch_size) + 1)
        for workload in counted
        for count in gpus
    ]
    by_batch = [row for row in rows if row["gpus"] == gpus[0]]
    first = list({str(row["workload"]): row for row in by_batch}.values())
    convention = counted[0].convention
    faint, dots = Mark("line", look={"strokeWidth": 0.75, "opacity": 0.6}), Mark("dots", look={"size": 22})

    def log(column: str) -> Axis:
        return Axis(column, column.replace("_", " ").replace("gpu", "GPU"), "log", "si")

    def plot(x: Axis, first: str, *others: str, marks: Sequence[Mark] = (faint, dots), height: float = 130) -> Plot:
        return Plot(
            x=x,
            y=log(first),
            beside=[log(column) for column in others],
            marks=marks,
            colour=Scale("workload", workload_colours(names)),
            shape=Scale("workload", shape_looks(names)),
            detail=() if others else ("batch_size",),
            height=height,
            chart_only=("description",),
        )

    categories = sorted({int(str(row["batch_category"])) for row in rows})
    counts = plot(Axis("workload", "", "names", order=names), "activations_per_image", "parameters", marks=[dots])
    across = Axis("batch_category", "batch category", "steps", order=categories)
    intensity = plot(across, "activations_per_batch", "activations_per_parameter", marks=[dots])
    located = plot(Axis("gpus", "GPUs", "log2", ticks=sorted(set(gpus))), _ON_EACH, height=170)
    of_batches = span(numbers_in(by_batch, "activations_per_parameter"))
    of_points = span(numbers_in(rows, _ON_EACH))
    figures = [
        ("counts", "The workloads: what an image takes, and what is exchanged", _AFTER.format("4", convention), first,
         counts),
        ("intensity", f"The workloads: {of_batches} activations per parameter", "By batch category: 1 is the smallest "
         "batch of a workload. " + _AFTER.format("5 and 6", convention), by_batch, intensity),
        ("located", f"The workloads on GPUs: {of_points} activations per parameter on each", "One line for each batch, "
         "which is split over the GPUs. " + _AFTER.format("7", convention), rows, located),
    ]  # fmt: skip
    return [
        figure(name, title, caption, table_of_records(shown), plot)
        for name, title, caption, shown, plot in figures
        if len({row[plot.x.column] for row in shown}) > 1
    ]


def _numbers(name: str) -> list[int]:
    """Those of a member of a family, x first: "GPT/12 width 192"."""
    return [int(number) for number in re.findall(r"\d+", name.partition("/")[2])]


def _row(workload: Workload, gpus: int, category: int) -> Record:
    """A workload with a batch, on a number of GPUs; its category is 1 where it is the smallest batch."""
    on_each = workload.intensity / gpus
    return {
        **fields(workload, "workload", "batch_size"),
        "batch_category": category,
        "gpus": gpus,
        **fields(workload, "activations_per_image", "parameters", "activations_per_batch"),
        "activations_per_parameter": workload.intensity,
        _ON_EACH: on_each,
        "description": f"{workload.workload}, batch {workload.batch_size}: {si(workload.activations_per_image)} "
        f"activations of an image, {si(workload.parameters)} parameters; {si(workload.intensity)} activations per "
        f"parameter, {si(on_each)} on each of {gpus} GPUs",
    }


def intensity_map(members: Sequence[PlacedWorkload], found: Sequence[PlacedWorkload], target: float) -> Figure:
    """Members of all families by both measures of work for communication, and the ones that were found among them."""
    rows = [_placed(member, "members") for member in members]
    rows += [_placed(workload, "nearest" if workload.family else "yours") for workload in found]
    plot = Plot(
        x=Axis("flop_per_byte", "training FLOP per byte of gradients, on each GPU", "log", "si"),
        y=Axis(_ON_EACH, "activations per parameter per GPU", "log", "si"),
        marks=(
            Mark("line", _MEMBERS, look={"strokeWidth": 0.6, "opacity": 0.5}),
            Mark("dots", _MEMBERS, look={"size": 10, "opacity": 0.6}),
            Mark("dots", "datum.place == 'nearest'", look={"size": 60, "shape": "diamond"}),
            Mark("dots", "datum.place == 'yours'", look={"size": 90, "shape": "triangle-up"}),
        ),
        colour=Scale("family", system_looks(sorted({str(row["family"]) for row in rows}))),
        detail=("width",),
        height=190,
        chart_only=("description",),
    )
    return figure(
        "map",
        f"Families in intensity space, and what comes nearest to {target:,.4g}",
        "Lines: a width of a family by its batch. Diamonds: the nearest settings. "
        + "Triangle: your own job. " * any(row["place"] == "yours" for row in rows)
        + _AFTER.format("6 and 7", found[0].convention),
        table_of_records(rows),
        plot,
    )


_MEMBERS = "datum.place == 'members'"


def _placed(workload: PlacedWorkload, place: str) -> Record:
    """The same as a row of the map: one of its "members", the "nearest", or "yours"."""
    return {
        "family": workload.family or workload.workload,
        "workload": workload.workload,
        "width": int(workload.model.get("width", 0)),
        "batch_size": workload.batch_size,
        "place": place,
        "flop_per_byte": workload.flop_per_byte,
        _ON_EACH: workload.on_each,
        "description": f"{workload.workload}, batch {workload.batch_size}: {si(workload.on_each)} activations per "
        f"parameter and {si(workload.flop_per_byte)} FLOP per byte on each GPU",
    }
