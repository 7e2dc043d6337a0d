"""One rank's step by a trace: at a traced per-GPU batch size, or on the line between two of them.

A step is the median of each layer over the iterations, stretched so that all layers together take as long as the clean
steps, which were not instrumented. Its error follows from how much the clean steps differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean, median, stdev

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.systems.system import parts_table
from resnetx.loading import is_folder
from resnetx.prediction import roofline
from resnetx.prediction.step import HashedTuple, LayerTime, StepLayers, StepTimes
from resnetx.record.run import ReplayedLayer, ReplayedStep
from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedLayer
from resnetx.request import Request
from resnetx.workloads import counts
from resnetx.workloads.counts import Layer, ready_order

SPREAD = 2.0  # standard deviations of a step that the interval of a prediction reaches to either side
LEAST_STEPS = 10  # from which a jitter is taken
ONCE = 0.3  # assumed: relative error of a step that was measured once
RECONCILED = 0.1  # layers that add up to more or less than this share of the clean step are noted


@dataclass(frozen=True)
class TracedStep:
    """What a trace says of a step at one per-GPU batch size."""

    step: StepTimes
    error: float  # relative: how far from the truth the step may be
    jitter: float  # standard deviation of one step from the next over their mean
    queue_error: float  # relative, of the host's time to queue a step
    batches: tuple[TracedBatch, ...]  # that it is taken from: one, or one to either side
    note: str  # caveats, each behind a semicolon; "" if there are none


def traced_step(trace: Trace, batch_size: int) -> TracedStep:
    """The step of `batch_size` images; refused outside of the traced batches."""
    batches, share = _around(trace, batch_size)
    steps = [step_of(batch) for batch in batches]
    step, note = steps[0], _caveats(batches)
    if len(batches) > 1:
        if steps[0].layers.names != steps[1].layers.names:
            raise ConfigError(f"{trace.source}: its batches have different layers, so that nothing lies between them")
        sizes = " and ".join(str(batch.batch_size) for batch in batches)
        step, note = _between(steps[0], steps[1], share), f"; on the line between its batches {sizes}{note}"
    return TracedStep(
        step,
        max(spread_of(batch.times) for batch in batches),
        max(jitter_of(batch.times) for batch in batches),
        max(_spread(batch.times.host_s) if batch.times.host_s else 0.0 for batch in batches),
        tuple(batches),
        note,
    )


def _around(trace: Trace, batch_size: int) -> tuple[list[TracedBatch], float]:
    """The traced batches that a per-GPU batch lies on or between, and its share of the way from the first."""
    traced = {batch.batch_size: batch for batch in trace.batches}
    if batch_size in traced:
        return [traced[batch_size]], 0.0
    below = max((size for size in traced if size < batch_size), default=None)
    above = min((size for size in traced if size > batch_size), default=None)
    if below is None or above is None:
        known = ", ".join(map(str, sorted(traced)))
        raise ConfigError(
            f"{trace.source}: has the per-GPU batches {known}, and {batch_size} is outside of them; layer times do not "
            f"shrink in proportion, so trace it too (resnetx trace batch_size={batch_size})"
        )
    return [traced[below], traced[above]], (batch_size - below) / (above - below)


def _caveats(batches: Sequence[TracedBatch]) -> str:
    """What limits the use of these batches; "" if nothing does."""
    note = ""
    if any(batch.times.host_bound is None for batch in batches):
        note += "; whether the device waited for its host is not known"
    if any(spread_of(batch.times) == ONCE for batch in batches):
        note += f"; measured once, so that {ONCE:.0%} is assumed for its error"
    stretches = [_stretch(_parts(batch), batch.times) for batch in batches]
    most = max(stretches, key=lambda stretch: abs(stretch - 1))
    if abs(most - 1) > RECONCILED:
        note += f"; its layers add up to {1 / most:.0%} of the clean step, and were stretched to it"
    return note


def step_of(traced: TracedBatch) -> StepTimes:
    """Medians over the iterations, stretched so that together they are the clean step."""
    parts = _parts(traced)
    return parts.slowed(_stretch(parts, traced.times))


def _parts(traced: TracedBatch) -> StepTimes:
    times = traced.times
    layers = StepLayers.of(list(map(_layer, times.layers)))
    input_s, copy_s, queue_s = map(_median, (times.input_s, times.host_to_device_s, times.host_s or []))
    return StepTimes(layers, _median(times.update_s), input_s, copy_s, queue_s=queue_s)


def _stretch(parts: StepTimes, times: LayerTimes) -> float:
    """The computing of a clean step over that of the instrumented parts.

    Instrumenting makes steps longer, and what no part covers is shared by all of them. Waiting for input is no
    computing; nor is waiting for a host that takes longer to queue a step than the device to run it.
    """
    if not times.clean_step_s or parts.compute_s == 0:
        return 1.0
    waited_s = _median(times.input_wait_s) + parts.host_to_device_s
    computing_s = median(times.clean_step_s) - waited_s
    # A step that mostly waits for its input says little of computing: instrumenting it shortens the wait.
    return computing_s / max(parts.compute_s, parts.queue_s) if computing_s > waited_s else 1.0


def spread_of(times: LayerTimes) -> float:
    """How far from the truth a step may be: the half-width of an interval of the clean steps over their mean.

    Without clean steps, of what the layers of each iteration add up to; of a single iteration nothing is known, and
    `ONCE` is assumed.
    """
    return _spread(times.clean_step_s or times.step_s or _iterations_s(times))


def spread_over(columns: Sequence[Sequence[float]]) -> float:
    """The same of what several parts add up to in each iteration."""
    return _spread([sum(row) for row in zip(*columns, strict=False)])


def _spread(values: Sequence[float]) -> float:
    """Of one value, or of some that are all 0, nothing is known."""
    return SPREAD * stdev(values) / fmean(values) if len(values) > 1 and any(values) else ONCE


def jitter_of(times: LayerTimes) -> float:
    """How much one step differs from the next, whatever both drift to; 0 where it was not measured step by step."""
    steps = times.step_s or []
    if len(steps) < LEAST_STEPS or not any(steps):
        return 0.0
    return stdev(after - before for before, after in pairwise(steps)) / 2**0.5 / fmean(steps)


def _iterations_s(times: LayerTimes) -> list[float]:
    """What the layers of each iteration add up to, of those in which all of them were timed."""
    columns = [values for layer in times.layers for values in (layer.forward_s, layer.backward_s) if values]
    return [sum(row) for row in zip(*columns, strict=False)]


def _layer(traced: TracedLayer) -> LayerTime:
    assert traced.gradient_bytes is not None, f"{traced.name}: sizes are stated first (gradient_sizes)"
    return LayerTime(traced.name, _median(traced.forward_s), _median(traced.backward_s), traced.gradient_bytes)


def _median(values: Sequence[float]) -> float:
    return median(values) if values else 0.0


def _between(below: StepTimes, above: StepTimes, share: float) -> StepTimes:
    def line(a: float, b: float) -> float:
        return a + share * (b - a)

    layers = [
        LayerTime(a.name, line(a.forward_s, b.forward_s), line(a.backward_s, b.backward_s), a.gradient_bytes)
        for a, b in zip(below.layers, above.layers, strict=True)
    ]
    return StepTimes(
        StepLayers.of(layers),
        line(below.update_s, above.update_s),
        line(below.input_s, above.input_s),
        line(below.host_to_device_s, above.host_to_device_s),
        queue_s=line(below.queue_s, above.queue_s),
    )


# What is replayed in place of computing: the layers of a trace, or of a GPU by its roofline.


def replayed_step(request: Request, table: Sequence[Layer], images: int) -> ReplayedStep:
    """The step that a rank of this request with so many images waits out; `table`: of its workload.

    Its layers are those of one pass over a part of the images.
    """
    step, source = replayed_step_of(request, table, images // request.accumulate)
    slowed = 1.0 if request.lab is None else request.lab.scale
    gradients = {
        name: [gradient.elements for gradient in own]
        for name, own in groupby(ready_order(table, request.precision), key=lambda gradient: gradient.layer)
    }
    layers = [
        ReplayedLayer(
            name=layer.name,
            forward_s=layer.forward_s * slowed,
            backward_s=layer.backward_s * slowed,
            gradients=gradients.pop(layer.name, []),
        )
        for layer in step.layers
    ]
    if gradients:
        raise ConfigError(f"replay={request.replay}: has no layer {next(iter(gradients))} of {request.model.label}")
    return ReplayedStep(
        source=source, layers=layers, update_s=step.update_s * slowed, slowed=slowed, jitter=request.replay_jitter
    )


def replayed_step_of(request: Request, table: Sequence[Layer], images: int) -> tuple[StepTimes, str]:
    """The step of so many images on one GPU, at its own speed, and where it is from."""
    step, source = _replayed_plain(request, table, images)
    return recomputing(step, table, request.precision) if request.checkpointing else step, source


def _replayed_plain(request: Request, table: Sequence[Layer], images: int) -> tuple[StepTimes, str]:
    assert request.replay is not None, "nothing is replayed"
    path = Path(request.replay)
    if path.exists():
        trace = _trace_at(path)
        _refuse_other_optimizer(trace, request)
        return traced_step(trace, images).step, f"{trace.workload} on {trace.device}, {trace.source}"
    gpus = parts_table("gpus")
    if request.replay not in gpus:
        raise unknown_name("GPU", request.replay, gpus, "replay")
    gpu = gpus[request.replay]
    model = roofline.fitted(gpu)
    times = roofline.layer_times(model, HashedTuple(table), request.image_size, images, gpu, request.precision)
    update_s = roofline.update_s(model, sum(times.gradient_bytes), gpu, request.optimizer.states)
    return StepTimes(times, update_s), f"{request.replay} by its roofline"


def _refuse_other_optimizer(trace: Trace, request: Request) -> None:
    """A trace of a run has the time of one optimizer's update; what was imported does not say whose."""
    if trace.request is not None and trace.request.optimizer.kind != request.optimizer.kind:
        raise ConfigError(
            f"optimizer={request.optimizer.kind}: {trace.source} was measured with optimizer="
            f"{trace.request.optimizer.kind}; trace it with this one, too"
        )


def recomputing(step: StepTimes, table: Sequence[Layer], precision: str) -> StepTimes:
    """The step where each block of a family is computed again before it is undone, as far as that keeps anything."""
    layers = step.layers
    longer, passes = _recomputing(layers, HashedTuple(table), precision)
    launching = 1 + passes / (2 * len(layers))
    return replace(step, layers=longer, queue_s=step.queue_s * launching, host_s=step.host_s * launching)


def _recomputing(layers: StepLayers, table: HashedTuple[Layer], precision: str) -> tuple[StepLayers, int]:
    """The layers with longer backward passes, and how many forward passes of layers these have."""
    forward_s = dict(zip(layers.names, layers.forward_s, strict=True))
    more_s: dict[str, float] = {}
    passes = 0
    for block in counts.recomputed(table, 0, counts.widths(table, roofline.PRECISION_BYTES[precision])):
        again = [name for index in block.computed if (name := table[index].name) in forward_s]
        last = [name for index in block.places if (name := table[index].name) in forward_s][-1:]
        more_s |= dict.fromkeys(last, sum(forward_s[name] for name in again))
        passes += len(again)
    backward_s = [time_s + more_s.get(name, 0.0) for name, time_s in zip(layers.names, layers.backward_s, strict=True)]
    return replace(layers, backward_s=backward_s), passes


def _trace_at(path: Path) -> Trace:
    """The trace in a file, or below a folder: of runs that `resnetx trace` has made, or of what it has imported."""
    from resnetx.traces.run_traces import read_all

    traces = read_all(path) if is_folder(path) else []
    if len(traces) > 1:
        names = ", ".join(trace.workload for trace in traces)
        raise ConfigError(f"replay={path}: holds traces of {names}; expected one workload: name its folder")
    if traces:
        return traces[0]
    from resnetx.traces.trace_files import read_trace  # with all that reads profiles

    return read_trace(path)
