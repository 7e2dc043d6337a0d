"""Figures of traces, checks, scores and steerings: which layers take the time, which node is slow, who predicts best,
and which pairs of GPUs a node's links are divided among."""

from collections.abc import Iterator, Sequence
from statistics import median

from resnetx.record.literature import Score
from resnetx.record.node_check import Check, CheckedRun
from resnetx.record.topologies import Steering
from resnetx.record.traces import Trace, TracedBatch
from resnetx.reporting.charts.figure import BARS, INK, SYSTEMS, Figure
from resnetx.reporting.charts.grammar import ON_RAMPS, Axis, Mark, Plot, Ramp, Scale, figure
from resnetx.table import Cell, Table

MOST_LAYERS = 30  # that a figure names; the others together are one bar
MOST_LABELLED = 12  # nodes, of which each square has its figure written in it


# ---- traces ---------------------------------------------------------------------------------------------------------


def trace_figures(trace: Trace) -> list[Figure]:
    """The layers of each batch, in the order of the forward pass; of many, the longest, and the others together."""
    return [_layers(trace, batch) for batch in trace.batches if batch.times.layers]


def _layers(trace: Trace, batch: TracedBatch) -> Figure:
    layers = batch.times.layers
    ms = {
        layer.name: [1e3 * median(times_s) if times_s else 0.0 for times_s in (layer.forward_s, layer.backward_s)]
        for layer in layers
    }
    longest = sorted(ms, key=lambda name: -sum(ms[name]))[:MOST_LAYERS]
    shown = [name for name in ms if name in longest]
    rest = [name for name in ms if name not in longest]
    rows: list[list[Cell]] = [[name, *cells] for name in shown for cells in zip(_PASSES, ms[name], (0, 1), strict=True)]
    others = f"{len(rest)} others"
    if rest:
        sums = [sum(ms[name][place] for name in rest) for place in (0, 1)]
        rows += [[others, *cells] for cells in zip(_PASSES, sums, (0, 1), strict=True)]
    largest = max(shown, key=lambda name: sum(ms[name]))
    longest_ms = max(*(sum(ms[name]) for name in shown), sum(sum(ms[name]) for name in rest), 1e-9)
    share = sum(ms[largest]) / (sum(map(sum, ms.values())) or 1.0)
    plot = Plot(
        x=Axis("ms", "ms", labels="si", domain=(0.0, 1.02 * longest_ms)),
        y=Axis("layer", "", "names", order=[*shown, *[others] * bool(rest)]),
        marks=(Mark("bars"),),
        colour=Scale("pass", {name: BARS[name] for name in _PASSES}),
        stacked="place",
        tips=("layer", "pass", "ms"),
        chart_only=("place",),
    )
    return figure(
        f"layers-batch{batch.batch_size}",
        f"{trace.workload}, batch {batch.batch_size}: {share:.0%} of the time of layers is {largest}",
        "Medians of instrumented iterations. Backward: until a layer's own gradients are there.",
        Table(["layer", "pass", "ms", "place"], rows),
        plot,
    )


_PASSES = ("forward", "backward")


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
    rows: list[list[Cell]] = []
    for run in sorted(runs, key=lambda run: -(run.time_s or 0)):
        state = _SLOW if (measure, tuple(run.nodes)) in slow else _GOOD
        limit = None if run.limit_s is None else 1e3 * run.limit_s
        rows.append([run.nodes[0], 1e3 * (run.time_s or 0), limit, state])
    states = {
        name: colour for name, colour in {_GOOD: SYSTEMS[0], _SLOW: SYSTEMS[1]}.items() if name in _column(rows, 3)
    }
    plot = Plot(
        x=Axis("ms", "ms", labels="si"),
        y=Axis("node", "", "names"),
        marks=(Mark("bars"), Mark("limits", "isValid(datum.limit_ms)", "limit_ms", colour=INK)),
        colour=Scale("state", states),
        tips=("node", "ms", "limit_ms"),
    )
    return figure(
        f"nodes-{measure}",
        f"Each node: {measure}",
        "One run of each, the slowest first; a black line: the most that the fleet's median allows, where it is known.",
        Table(["node", "ms", "limit_ms", "state"], rows),
        plot,
    )


_GOOD, _SLOW = "as the others", "stands out"


def _pairs(measure: str, runs: Sequence[CheckedRun], nodes: Sequence[str]) -> Figure:
    """From 0, so that noise among pairs that are alike stays pale."""
    rows: list[list[Cell]] = [
        [a, b, 1e3 * (run.time_s or 0), f"{1e3 * (run.time_s or 0):.3g}"]
        for run in runs
        for a, b in (run.nodes, run.nodes[::-1])
    ]
    most = max(float(time_ms or 0) for time_ms in _column(rows, 2))
    words = [Mark("words", column="label", look={"color": ON_RAMPS})] if len(nodes) <= MOST_LABELLED else []
    plot = Plot(
        x=Axis("a", "", "names", order=nodes),
        y=Axis("b", "", "names", order=nodes),
        marks=(Mark("squares"), *words),
        colour=Ramp("ms", "lightorange", "ms", (0.0, most)),
        tips=("a", "b", "ms"),
        chart_only=("label",),
    )
    return figure(
        f"pairs-{measure}", f"Each pair of nodes: {measure}", "Milliseconds of one run, from 0; darker is slower.",
        Table(["a", "b", "ms", "label"], rows), plot,
    )  # fmt: skip


def _column(rows: Sequence[Sequence[Cell]], index: int) -> list[Cell]:
    return [row[index] for row in rows]


# ---- scores ---------------------------------------------------------------------------------------------------------


def score_figures(score: Score) -> list[Figure]:
    """The mean error of each predictor by kind of published figure."""
    rows: list[list[Cell]] = [
        [
            f"{each.kind.removeprefix('training, ')} ({each.figures})",
            each.predictor,
            each.mean_error,
            each.predicted,
            each.worst_error,
        ]
        for each in score.scores
        if each.predicted
    ]
    if not rows:
        return []
    predictors = list(dict.fromkeys(str(row[1]) for row in rows))
    looks = {name: SYSTEMS[index % len(SYSTEMS)] for index, name in enumerate(predictors)}
    plot = Plot(
        x=Axis("mean_error", "mean error", labels="percent"),
        y=Axis("kind", "", "names"),
        marks=(Mark("dots", look={"size": 40}),),
        colour=Scale("predictor", looks),
        tips=("kind", "predictor", "mean_error", "predicted", "worst_error"),
    )
    caption = "Mean of |predicted / published - 1| over the figures that each predicts; in brackets how many there are."
    columns = ["kind", "predictor", "mean_error", "predicted", "worst_error"]
    return [figure("scores", "How far off each predictor is", caption, Table(columns, rows), plot)]


# ---- steerings: the traffic, and the units before and after, as in Anderson et al. 2018, Fig. 2 ---------------------

# Rows receive and columns send, as in the paper.

_MOST_STEERED = 8  # GPUs, of which each square has its figure written in it
_LEAST_WRITTEN = 0.005  # less is written as nothing: two decimals fit a square


def matrices(made: Steering) -> Figure:
    """The traffic, over its largest pair, and the bandwidth units before and after, side by side."""
    saved = "" if made.rtl_saved is None else f": total RTL {made.rtl_saved:.1%} less"
    panels: dict[str, Sequence[Sequence[float]]] = {
        "traffic": made.traffic,
        "units as built": made.connectivity_before,
        "units steered": made.connectivity_after,
    }
    most = max(value for name, matrix in panels.items() if name != "traffic" for row in matrix for value in row)
    rows: list[list[Cell]] = [
        [name, f"{target}", f"{source}", value, value / (1 if name == "traffic" else most or 1), _written(value)]
        for name, matrix in panels.items()
        for target, row in enumerate(matrix)
        for source, value in enumerate(row)
    ]
    gpus = [f"{gpu}" for gpu in range(len(made.traffic))]
    words = [Mark("words", column="label", look={"color": ON_RAMPS})] if len(gpus) <= _MOST_STEERED else []
    plot = Plot(
        x=Axis("source", "from", "names", order=gpus),
        y=Axis("target", "to", "names", order=gpus),
        marks=(Mark("squares"), *words),
        colour=Ramp("share", "lightorange", "of the largest", (0.0, 1.0)),
        tips=("panel", "target", "source", "value"),
        panel="panel",
        columns=3,
        chart_only=("share", "label"),
    )
    return figure(
        "steering",
        f"{made.system}{saved}",
        "Rows receive, columns send. Traffic is over the largest of any pair; a unit is a lane one way.",
        Table(["panel", "target", "source", "value", "share", "label"], rows),
        plot,
    )


def _written(value: float) -> str:
    return f"{round(value, 2):g}" if value >= _LEAST_WRITTEN else ""
