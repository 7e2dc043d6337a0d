"""The source of compute times: what one rank's step takes on a GPU, and where that is known from.

    measured    a trace of this very GPU model (on CPUs: of this host), at this per-GPU batch or between two traced ones
    rescaled    a trace of another GPU model, or clock: each layer by the ratio of the roofline's times on the two
    roofline    no trace: the layer table and the roofline that is fitted to published rates of one GPU

A trace is never used elsewhere in silence: the note says what was done. What the host takes to queue a step is taken
from the trace, too (`StepTimes.queue_s`): for its own host as measured, for another one as between nothing and twice as
much. A trace that was bound by its host, and does not say what the device alone takes, is refused for any other host.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median, stdev

from resnetx.errors import ConfigError
from resnetx.interconnect.parts import Cpu, Gpu
from resnetx.interconnect.system import System, parts_table
from resnetx.prediction import roofline
from resnetx.prediction.scenario import CPU, Point
from resnetx.prediction.step import LayerTime, StepTimes
from resnetx.record.prediction import ComputeSource, Origin
from resnetx.record.trace import LayerTimes, Trace, TracedBatch, TracedLayer
from resnetx.workloads.counts import Layer

PUBLISHED = "results/published/training.yaml"
SPREAD = 2.0  # standard deviations of a step that the interval of a prediction reaches to either side
CLOCKS_AGREE = 0.02
LEAST_STEPS = 10  # from which a jitter is taken
ONCE = 0.3  # assumed: relative error of a step that was seen once
RECONCILED = 0.1  # layers that add up to more or less than this of the clean step are told
# Of a GPU's memory rate, what scaling gradients into another buffer reaches: each byte is read once and written once.
COPY_SHARE = 0.5 * 0.8
# Of the host's time to queue a step, on another host: assumed. One thread of the hosts that are described differs from
# another's by less than a factor of two.
OTHER_HOST = 1.0


@dataclass(frozen=True)
class Compute:
    """One rank's step on one GPU."""

    step: StepTimes
    source: ComputeSource
    origin: Origin
    where: str  # the trace, or what the roofline was fitted to
    note: str  # in a sentence
    error: float  # relative: how far from the truth the step may be
    gradient_copy_Bps: float
    clock_Hz: float | None  # of the multiprocessors, in effect; null: the trace does not say
    jitter: float = 0.0  # standard deviation of one step from the next over their mean
    queue_error: float = 0.0  # relative, of the host's time to queue a step


def of_point(point: Point, images: int) -> Compute:
    """What a rank of a point takes for its share of the batch."""
    subject, system, setting = point.subject, point.fabric.system, point.setting
    if subject.trace is not None:
        found = of_trace(subject.trace, images, system, point.devices[0], subject.layers, setting.clock_Hz)
    else:
        assert subject.layers is not None and subject.request is not None, "neither a trace nor a layer table"
        gpu, size = system.gpu_part(point.devices[0]), subject.request.image_size
        found = of_roofline(subject.layers, size, images, subject.precision, gpu, setting.clock_Hz)
    graphed = subject.request is not None and subject.request.graph  # the host launches it whole
    found = replace(
        found, step=replace(found.step, host_s=setting.host_s, queue_s=0.0 if graphed else found.step.queue_s)
    )
    if subject.trace is not None and not is_own_host(subject.trace, system):
        # How fast another host reads and copies says nothing of this one; how long it takes to queue a step, little.
        step = replace(found.step, input_s=0.0, host_to_device_s=0.0)
        return replace(
            found, step=step, queue_error=OTHER_HOST, note=found.note + _queued_elsewhere(subject.trace, step)
        )
    return found


def _queued_elsewhere(trace: Trace, step: StepTimes) -> str:
    """What is to be said of the host's time to queue a step, where it may be what a step takes."""
    if step.queue_s * (1 + OTHER_HOST) < step.compute_s:
        return ""
    return (
        f"; its host ({trace.cpu}) took {step.queue_s * 1e3:,.2f} ms to queue a step, and what this one takes is "
        "assumed to be between nothing and twice that"
    )


def is_own_host(trace: Trace, system: System) -> bool:
    """Whether a trace is of the host that the system has, as far as the names of their CPUs tell."""
    cpus = [each.part.about for each in system.components if isinstance(each.part, Cpu)]
    on_cpus = CPU in system.gpu_part(0).product_names
    return on_cpus or any(_same_cpu(trace.cpu or "", about) for about in cpus)


def of_trace(
    trace: Trace,
    batch_size: int,
    system: System,
    device: int,
    layers: Sequence[Layer] | None,
    clock_Hz: float | None = None,
) -> Compute:
    """What `batch_size` images take on a GPU of `system`, by a trace; `layers`: the workload's table, for rescaling.

    `clock_Hz`: of its multiprocessors, where another one is wanted than the trace was taken at.
    """
    gpu, part_name = system.gpu_part(device), system.gpus[device].part_name
    batches, share = _around(trace, batch_size)
    _refuse_other_host(trace, system, batches)
    step, spread, between = _at(trace, batches, share)
    queue_error = max(_spread(each.times.host_s) if each.times.host_s else 0.0 for each in batches)
    if _is_of(trace, gpu, part_name) and _same_clock(trace, clock_Hz):
        note = f"measured on {trace.device}{_clock(trace, gpu)}{_host(trace)}{between}"
        copy_Bps = _median_copy_Bps(trace) or gpu.memory_Bps.value * COPY_SHARE
        jitter = max(jitter_of(each.times) for each in batches)
        clock_Hz = trace.sm_clock_Hz
        return Compute(
            step, "measured", _origin(trace), trace.source, note, spread, copy_Bps, clock_Hz, jitter, queue_error
        )
    if CPU in gpu.product_names:
        why = "whose clock was their host's own" if trace.device == CPU else "which says nothing of ranks on CPUs"
        raise ConfigError(f"{trace.source}: measured on {trace.device}, {why}; predict for what was measured")
    source_gpu = _part_of(trace)
    if layers is None:
        raise ConfigError(
            f"{trace.source}: measured on {trace.device}, and an imported trace has no layer table to rescale it by; "
            f"predict for systems of {trace.device}, at its clock"
        )
    model = roofline.fitted()
    rescaled = _rescaled(step, layers, batch_size, trace, (source_gpu, gpu), clock_Hz, model)
    off = _error(model, gpu)
    at = "" if clock_Hz is None else f" at {clock_Hz / 1e6:.0f} MHz"
    note = (
        f"rescaled from {trace.device}{_clock(trace, source_gpu)} to {part_name}{at} layer by layer, by a roofline "
        f"that misses published one-GPU rates by {off:.0%} on average{between}"
    )
    error = (spread**2 + off**2) ** 0.5
    copy_Bps, at_Hz = gpu.memory_Bps.value * COPY_SHARE, clock_Hz or gpu.clock_Hz.value
    return Compute(rescaled, "rescaled", "assumed", trace.source, note, error, copy_Bps, at_Hz, queue_error=queue_error)


@lru_cache(maxsize=1024)  # a comparison asks for the same step with each library, strategy and input
def of_roofline(
    layers: tuple[Layer, ...], image_size: int, batch_size: int, precision: str, gpu: Gpu, clock_Hz: float | None
) -> Compute:
    """What `batch_size` images take by the roofline alone."""
    if CPU in gpu.product_names:
        raise ConfigError("systems: cpu-host needs a trace of that host; `resnetx trace` makes one")
    model = roofline.fitted(gpu)
    found = roofline.layer_times(model, layers, image_size, batch_size, gpu, precision, clock_Hz)
    update_s = roofline.update_s(model, sum(layer.gradient_bytes for layer in found), gpu)
    at = f" at {clock_Hz / 1e6:.0f} MHz" if clock_Hz else ""
    note = f"{gpu.about}{at}: {model.source}"
    step, copy_Bps = StepTimes(tuple(found), update_s), gpu.memory_Bps.value * COPY_SHARE
    at_Hz = clock_Hz or gpu.clock_Hz.value
    return Compute(step, "roofline", "published", PUBLISHED, note, _error(model, gpu), copy_Bps, at_Hz)


def _error(model: roofline.Roofline, gpu: Gpu) -> float:
    """As networks were missed that the fit had not seen, or GPUs, where this one's generation is none of the fit's."""
    if model.generation == roofline.generation(gpu) or model.unseen_gpu_error is None:
        return model.unseen_network_error
    return model.unseen_gpu_error


# ---- the trace's own device -----------------------------------------------------------------------------------------


def _is_of(trace: Trace, gpu: Gpu, part_name: str) -> bool:
    return trace.device is not None and trace.device in (*gpu.product_names, part_name)


def _part_of(trace: Trace) -> Gpu:
    """The described GPU that a trace was measured on."""
    if trace.device == CPU:
        raise ConfigError(
            f"{trace.source}: measured on CPU ranks, which say nothing of a GPU; use systems=cpu-host, or leave the "
            "trace out to predict by a roofline"
        )
    table: dict[str, Gpu] = parts_table("gpus")
    for name, part in table.items():
        if _is_of(trace, part, name):
            return part
    raise ConfigError(
        f"{trace.source}: measured on {trace.device}, which is in no table of parts, so that it cannot be rescaled; "
        "describe it in a system file, or predict for its own model"
    )


def _refuse_other_host(trace: Trace, system: System, batches: Sequence[TracedBatch]) -> None:
    """A device that waited for its host did so for that host; where it was held back instead, its times are its own."""
    bound = [each.batch_size for each in batches if each.times.host_bound and each.times.host_s is None]
    if not bound:
        return
    if not is_own_host(trace, system):
        raise ConfigError(
            f"{trace.source}: its GPU waited for the host ({trace.cpu}) at per-GPU batch {', '.join(map(str, bound))}, "
            f"and {system.name} has another one; trace larger batches, or on a faster host"
        )


def _same_cpu(traced: str, about: str) -> bool:
    """Whether both name one model: a word with three digits or more, as 8480C or E5-2698."""
    words = [set(re.findall(r"[\w-]*\d{3}\w*", text.upper())) for text in (traced, about)]
    return bool(words[0] & words[1])


def _origin(trace: Trace) -> Origin:
    return "measured here" if trace.how == "measured" else "published"


def _same_clock(trace: Trace, wanted_Hz: float | None) -> bool:
    if wanted_Hz is None or trace.sm_clock_Hz is None:
        return wanted_Hz is None
    return abs(trace.sm_clock_Hz / wanted_Hz - 1) <= CLOCKS_AGREE


def _clock(trace: Trace, gpu: Gpu) -> str:
    if trace.sm_clock_Hz is None:
        return ""
    described = "" if _same_clock(trace, gpu.clock_Hz.value) else f" (described: {gpu.clock_Hz.value / 1e6:.0f})"
    return f" at {trace.sm_clock_Hz / 1e6:.0f} MHz{described}"


def _host(trace: Trace) -> str:
    return "" if trace.cpu is None else f" under {trace.cpu}"


# ---- a batch of a trace ---------------------------------------------------------------------------------------------


def _around(trace: Trace, batch_size: int) -> tuple[list[TracedBatch], float]:
    """The traced batches that a per-GPU batch lies on or between, and its share of the way from the first."""
    traced = {each.batch_size: each for each in trace.batches}
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


def _at(trace: Trace, batches: Sequence[TracedBatch], share: float) -> tuple[StepTimes, float, str]:
    """(step, relative error, words on how) of a per-GPU batch: traced, or on the line between two that are."""
    steps = [step_of(each) for each in batches]
    spreads = [spread_of(each.times) for each in batches]
    caveats = _caveats(batches)
    if len(batches) == 1:
        return steps[0], spreads[0], caveats
    if [layer.name for layer in steps[0].layers] != [layer.name for layer in steps[1].layers]:
        raise ConfigError(f"{trace.source}: its batches have different layers, so that nothing lies between them")
    sizes = " and ".join(str(each.batch_size) for each in batches)
    return _between(steps[0], steps[1], share), max(spreads), f"; on the line between its batches {sizes}{caveats}"


def _caveats(batches: Sequence[TracedBatch]) -> str:
    """What is to be said of a trace beside its figures; "" if nothing is."""
    said = ""
    if any(each.times.host_bound is None for each in batches):
        said += "; whether the device waited for its host is not known"
    if any(spread_of(each.times) == ONCE for each in batches):
        said += f"; taken once, so that {ONCE:.0%} is assumed for its error"
    stretches = [_stretch(_parts(each), each.times) for each in batches]
    if max(abs(stretch - 1) for stretch in stretches) > RECONCILED:
        most = max(stretches, key=lambda stretch: abs(stretch - 1))
        said += f"; its layers add up to {1 / most:.0%} of the clean step, and were stretched to it"
    return said


def step_of(traced: TracedBatch) -> StepTimes:
    """Medians over the iterations, stretched so that together they are the step that nobody watched."""
    parts = _parts(traced)
    return parts.slowed(_stretch(parts, traced.times))


def _parts(traced: TracedBatch) -> StepTimes:
    times = traced.times
    layers = tuple(map(_layer, times.layers))
    input_s, copy_s, queue_s = map(_median, (times.input_s, times.host_to_device_s, times.host_s or []))
    return StepTimes(layers, _median(times.update_s), input_s, copy_s, queue_s=queue_s)


def _stretch(parts: StepTimes, times: LayerTimes) -> float:
    """Watching makes steps longer, and what no part covers belongs to all; waiting for input is no computing.

    Nor is waiting for a host that takes longer to queue a step than the device to run it.
    """
    if not times.clean_step_s or parts.compute_s == 0:
        return 1.0
    waited_s = _median(times.input_wait_s) + parts.host_to_device_s
    computing_s = median(times.clean_step_s) - waited_s
    # A step that mostly waits for its input says little of computing: watching it takes time from the waiting.
    return computing_s / max(parts.compute_s, parts.queue_s) if computing_s > waited_s else 1.0


def spread_of(times: LayerTimes) -> float:
    """How far from the truth a step may be: the half-width of an interval of the clean steps over their mean.

    Without clean steps, of what the layers of each iteration add up to; of a single iteration nothing is known, and
    `ONCE` is assumed.
    """
    return _spread(times.clean_step_s or times.step_s or _iterations_s(times))


def _spread(values: Sequence[float]) -> float:
    return SPREAD * stdev(values) / fmean(values) if len(values) > 1 else ONCE


def jitter_of(times: LayerTimes) -> float:
    """How much one step differs from the next, whatever both drift to; 0 where it was not measured step by step."""
    steps = times.step_s or []
    if len(steps) < LEAST_STEPS:
        return 0.0
    return stdev(after - before for before, after in pairwise(steps)) / 2**0.5 / fmean(steps)


def _iterations_s(times: LayerTimes) -> list[float]:
    """What the layers of each iteration add up to, of those in which all of them were seen."""
    columns = [values for layer in times.layers for values in (layer.forward_s, layer.backward_s) if values]
    return [sum(row) for row in zip(*columns, strict=False)]


def _layer(traced: TracedLayer) -> LayerTime:
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
        tuple(layers),
        line(below.update_s, above.update_s),
        line(below.input_s, above.input_s),
        line(below.host_to_device_s, above.host_to_device_s),
        queue_s=line(below.queue_s, above.queue_s),
    )


def _median_copy_Bps(trace: Trace) -> float | None:
    rates = [each.times.gradient_copy_Bps for each in trace.batches if each.times.gradient_copy_Bps]
    return median(rates) if rates else None


# ---- another device -------------------------------------------------------------------------------------------------


def _rescaled(
    step: StepTimes,
    layers: Sequence[Layer],
    batch_size: int,
    trace: Trace,
    gpus: tuple[Gpu, Gpu],
    clock_Hz: float | None,
    model: roofline.Roofline,
) -> StepTimes:
    """Each layer's times by the ratio that the roofline has for it; what has no row in the table, by that of all."""
    assert trace.request is not None, "a trace with a layer table has a request"
    source, target = gpus
    size, precision = trace.request.image_size, trace.request.precision
    here = roofline.roofs(source, precision, trace.sm_clock_Hz)
    there = roofline.roofs(target, precision, clock_Hz)
    by_name = {each.name: each for each in roofline.ratios(model, layers, size, batch_size, here, there)}
    known = [(layer, by_name[layer.name]) for layer in step.layers if layer.name in by_name]
    before_s = sum(layer.forward_s + layer.backward_s for layer, _ in known)
    after_s = sum(layer.forward_s * each.forward + layer.backward_s * each.backward for layer, each in known)
    rest = roofline.Ratio("", after_s / before_s, after_s / before_s)
    scaled = [_times(layer, by_name.get(layer.name, rest)) for layer in step.layers]
    gradients = sum(layer.gradient_bytes for layer in step.layers)
    update = roofline.update_s(model, gradients, target) / roofline.update_s(model, gradients, source)
    return replace(step, layers=tuple(scaled), update_s=step.update_s * update)


def _times(layer: LayerTime, ratio: roofline.Ratio) -> LayerTime:
    return replace(layer, forward_s=layer.forward_s * ratio.forward, backward_s=layer.backward_s * ratio.backward)
