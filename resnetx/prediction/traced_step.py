"""One rank's step by a trace: at a traced per-GPU batch size, or on the line between two; there, or on another GPU.

A step is the median of each layer over the iterations, stretched so that all layers together take as long as the clean
steps, which were not instrumented. Its error follows from how much the clean steps differ.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, pairwise, permutations
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Literal

import msgspec
import numpy as np

from resnetx.errors import ConfigError, shortened, unknown_name
from resnetx.interconnect.systems.graph import CpuSpec, GpuSpec
from resnetx.interconnect.systems.system import System, gpu_named, parts_table
from resnetx.loading import is_folder, own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.step import COPY_SHARE, Compute, LayerTime, Step, columns
from resnetx.record.prediction import measured_on
from resnetx.record.run import ReplayedLayer, ReplayedStep
from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedLayer
from resnetx.request import Request
from resnetx.settings.files import PUBLISHED
from resnetx.units import CPU
from resnetx.workloads import counts
from resnetx.workloads.counts import Layer, ready_order

SPREAD = 2.0  # standard deviations of a step that the interval of a prediction reaches to either side
LEAST_STEPS = 10  # from which a jitter is taken
LEAST_s = 1e-9  # of all layers: below it their clock has told nothing
ONCE = 0.3  # assumed: relative error of a step that was measured once
CLOCKS_AGREE = 0.02
# Of the host's time to queue a step, on another host: assumed. One thread of the hosts that are described differs from
# another's by less than a factor of two.
OTHER_HOST = 1.0
RECONCILED = 0.1  # layers that add up to more or less than this share of the clean step are noted


def is_own_host(trace: Trace, system: System) -> bool:
    """Whether a trace is of the host that the system has, as far as the names of their CPUs tell."""
    return CPU in system.gpu_part(0).product_names or is_cpu_of(trace.cpu or "", system)


def is_cpu_of(name: str, system: System) -> bool:
    """Whether a CPU, as its host names it, is one that the system has."""
    components = (component for component, _ in system.counted_components())
    cpus = [component.part.about for component in components if isinstance(component.part, CpuSpec)]
    return any(_same_cpu(name, about) for about in cpus)


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
    batches, _ = _around(trace, batch_size)
    own_step, caveats = _step(trace, batch_size)
    _refuse_other_host(trace, system, batches)
    measured = Compute(
        step=own_step,
        source="measured",
        origin=measured_on([trace.node]) if trace.how == "measured" else "published",
        where=trace.source,
        note=f"measured on {trace.device}{_clock(trace, gpu)}{_host(trace)}{caveats}",
        error=max(spread_of(batch.times) for batch in batches),
        gradient_copy_Bps=_median_copy_Bps(trace) or gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=trace.sm_clock_Hz,
        jitter=max(jitter_of(batch.times) for batch in batches),
        queue_error=max(_spread(batch.times.host_s) if batch.times.host_s else 0.0 for batch in batches),
    )
    if _is_of(trace, gpu, part_name) and _same_clock(trace, clock_Hz):
        return measured
    _refuse_rescaling_to_cpus(trace, gpu)
    source = _part_of(trace)
    if layers is None:
        by_kinds = scaled(own_step, batches[0], trace, source, gpu, clock_Hz)
        slower, faster = (
            math.hypot(math.log(end), math.log1p(measured.error)) for end in (by_kinds.most, by_kinds.least)
        )
        step, note = by_kinds.step, f"taken from {trace.device}{_clock(trace, source)} to {part_name}"
        note += f"{roofline.at_clock(clock_Hz)}: {by_kinds.note}{caveats}"
    else:
        assert trace.request is not None, "a trace with a layer table has a request"
        model = roofline.fitted()
        step = _rescaled(own_step, layers, batch_size, trace, (source, gpu), clock_Hz, model)
        error = model.error_on(gpu, trace.request.precision)
        slower = faster = math.hypot(math.log1p(measured.error), error)  # the roofline's is a logarithm
        note = (
            f"rescaled from {trace.device}{_clock(trace, source)} to {part_name}{roofline.at_clock(clock_Hz)} layer by "
            f"layer, by a roofline that nine of ten published one-GPU rates stay within {error:.0%} of{caveats}"
        )
    return replace(
        measured,
        step=step,
        source="rescaled",
        origin="assumed",
        note=note,
        error=math.expm1(slower),
        faster=-math.expm1(-faster),
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=clock_Hz or gpu.clock_Hz.stated,
        jitter=None,
        queue_error=OTHER_HOST if layers is None else measured.queue_error,
    )


def _refuse_rescaling_to_cpus(trace: Trace, gpu: GpuSpec) -> None:
    if CPU in gpu.product_names:
        why = "whose clock was their host's own" if trace.device == CPU else "which says nothing of ranks on CPUs"
        raise ConfigError(f"{trace.source}: measured on {trace.device}, {why}; predict for what was measured")


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


def _step(trace: Trace, batch_size: int) -> tuple[Step, str]:
    """The step of so many images, and its caveats, each behind a semicolon; refused outside of the traced batches."""
    batches, share = _around(trace, batch_size)
    steps, note = [step_of(batch) for batch in batches], _caveats(batches)
    if len(batches) == 1:
        return steps[0], note
    if steps[0].names != steps[1].names:
        raise ConfigError(f"{trace.source}: its batches have different layers, so that nothing lies between them")
    sizes = " and ".join(str(batch.batch_size) for batch in batches)
    return _between(steps[0], steps[1], share), f"; on the line between its batches {sizes}{note}"


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


def step_of(traced: TracedBatch) -> Step:
    """Medians over the iterations, stretched so that together they are the clean step."""
    parts = _parts(traced)
    return parts.slowed(_stretch(parts, traced.times))


def _parts(traced: TracedBatch) -> Step:
    times = traced.times
    input_s, copy_s, queue_s = map(_median, (times.input_s, times.host_to_device_s, times.host_s or []))
    return Step(
        **columns(map(_layer, times.layers)),
        update_s=_median(times.update_s),
        input_s=input_s,
        host_to_device_s=copy_s,
        queue_s=queue_s,
    )


def _stretch(parts: Step, times: LayerTimes) -> float:
    """The computing of a clean step over that of the instrumented parts.

    Instrumenting makes steps longer, and what no part covers is shared by all of them. Waiting for input is no
    computing; nor is waiting for a host that takes longer to queue a step than the device to run it.
    """
    if not times.clean_step_s or parts.compute_s < LEAST_s:
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


def _between(below: Step, above: Step, share: float) -> Step:
    def line(a: float, b: float) -> float:
        return a + share * (b - a)

    layers = [
        LayerTime(a.name, line(a.forward_s, b.forward_s), line(a.backward_s, b.backward_s), a.gradient_bytes)
        for a, b in zip(below.layers, above.layers, strict=True)
    ]
    return Step(
        **columns(layers),
        update_s=line(below.update_s, above.update_s),
        input_s=line(below.input_s, above.input_s),
        host_to_device_s=line(below.host_to_device_s, above.host_to_device_s),
        queue_s=line(below.queue_s, above.queue_s),
    )


# ---- on which device and host it was taken, and on another one ------------------------------------------------------


def _is_of(trace: Trace, gpu: GpuSpec, part_name: str) -> bool:
    return trace.device is not None and trace.device in (*gpu.product_names, part_name)


def _part_of(trace: Trace) -> GpuSpec:
    """The described GPU that a trace was measured on."""
    if trace.device == CPU:
        raise ConfigError(
            f"{trace.source}: measured on CPU ranks, which say nothing of a GPU; use systems=cpu-host, or leave the "
            "trace out to predict by a roofline"
        )
    table: dict[str, GpuSpec] = parts_table("gpus")
    for name, part in table.items():
        if _is_of(trace, part, name):
            return part
    raise ConfigError(
        f"{shortened(trace.source)}: measured on {shortened(trace.device)}, which is in no table of parts, so that it "
        "cannot be rescaled; describe it in a system file, or predict for its own model"
    )


def _refuse_other_host(trace: Trace, system: System, batches: Sequence[TracedBatch]) -> None:
    """Layer times with gaps in which the device waited for its host hold for that host alone.

    Where the device was held back until the host had queued its work (`host_s`), the times are the device's own.
    """
    bound = [batch.batch_size for batch in batches if batch.times.host_bound and batch.times.host_s is None]
    if bound and not is_own_host(trace, system):
        raise ConfigError(
            f"{trace.source}: its GPU waited for the host ({trace.cpu}) at per-GPU batch {', '.join(map(str, bound))}, "
            f"and {system.name} has another one; trace larger batches, or on a faster host"
        )


def _same_cpu(traced: str, about: str) -> bool:
    """Whether both name one model: a word with three digits or more, as 8480C or E5-2698."""
    words = [set(re.findall(r"[\w-]*\d{3}\w*", text.upper())) for text in (traced, about)]
    return bool(words[0] & words[1])


def _same_clock(trace: Trace, wanted_Hz: float | None) -> bool:
    if wanted_Hz is None or trace.sm_clock_Hz is None:
        return wanted_Hz is None
    return abs(trace.sm_clock_Hz / wanted_Hz - 1) <= CLOCKS_AGREE


def _clock(trace: Trace, gpu: GpuSpec) -> str:
    if trace.sm_clock_Hz is None:
        return ""
    described = "" if _same_clock(trace, gpu.clock_Hz.value) else f" (described: {gpu.clock_Hz.value / 1e6:.0f})"
    return f" at {trace.sm_clock_Hz / 1e6:.0f} MHz{described}"


def _median_copy_Bps(trace: Trace) -> float | None:
    rates = [batch.times.gradient_copy_Bps for batch in trace.batches if batch.times.gradient_copy_Bps]
    return median(rates) if rates else None


def _host(trace: Trace) -> str:
    return "" if trace.cpu is None else f" under {trace.cpu}"


def _rescaled(
    step: Step,
    layers: Sequence[Layer],
    batch_size: int,
    trace: Trace,
    gpus: tuple[GpuSpec, GpuSpec],
    clock_Hz: float | None,
    model: roofline.Roofline,
) -> Step:
    """Each layer's times by the ratio that the roofline has for it; what has no row in the table, by that of all."""
    assert trace.request is not None, "a trace with a layer table has a request"
    source, target = gpus
    size, precision = trace.request.image_size, trace.request.precision
    here, there = (source, precision, trace.sm_clock_Hz), (target, precision, clock_Hz)
    ratios = roofline.ratios(model, layers, size, batch_size, here, there)
    known = [layer for layer in step.layers if layer.name in ratios]
    before_s = sum(layer.forward_s + layer.backward_s for layer in known)
    after_s = sum(
        layer.forward_s + layer.backward_s for layer in (_times(layer, *ratios[layer.name]) for layer in known)
    )
    if not before_s:
        raise ConfigError(
            f"{trace.source}: the layers of {trace.workload} take no time in it, which rescales to nothing"
        )
    rest = (after_s / before_s,) * 2
    scaled = [_times(layer, *ratios.get(layer.name, rest)) for layer in step.layers]
    gradients = sum(step.gradient_bytes)
    update = roofline.update_s(model, gradients, target) / roofline.update_s(model, gradients, source)
    return replace(step, **columns(scaled), update_s=step.update_s * update)


def _times(layer: LayerTime, forward: float, backward: float) -> LayerTime:
    return layer._replace(forward_s=layer.forward_s * forward, backward_s=layer.backward_s * backward)


def elsewhere(computed: Compute, trace: Trace) -> Compute:
    """The step on another host than the trace's, of whose own reading and copying the trace says nothing."""
    step = replace(computed.step, input_s=0.0, host_to_device_s=0.0)
    note = computed.note
    if step.queue_s * (1 + OTHER_HOST) >= step.compute_s:  # it may be longer than what the device takes
        if trace.cpu is None:  # of a profile, which lengthens it
            took = f"its host took {2 * step.queue_s * 1e3:,.2f} ms to launch a profiled step", "that"
        else:
            took = f"its host ({trace.cpu}) took {step.queue_s * 1e3:,.2f} ms to queue a step", "twice that"
        note += f"; {took[0]}, and this host is assumed to take between nothing and {took[1]}"
    return replace(computed, step=step, queue_error=OTHER_HOST, note=note)


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


def replayed_step_of(request: Request, table: Sequence[Layer], images: int) -> tuple[Step, str]:
    """The step of so many images on one GPU, at its own speed, and where it is from."""
    step, source = _replayed_plain(request, table, images)
    return recomputing(step, table, request.precision) if request.checkpointing else step, source


def _replayed_plain(request: Request, table: Sequence[Layer], images: int) -> tuple[Step, str]:
    assert request.replay is not None, "nothing is replayed"
    path = Path(request.replay)
    if path.exists():
        trace = _trace_at(path)
        _refuse_other_optimizer(trace, request)
        return _step(trace, images)[0], f"{trace.workload} on {trace.device}, {trace.source}"
    gpus = parts_table("gpus")
    if request.replay not in gpus:
        raise unknown_name("GPU", request.replay, gpus, "replay")
    gpu = gpus[request.replay]
    model = roofline.fitted(gpu, table, request.precision)
    asked, states = (request.image_size, images, gpu, request.precision), request.optimizer.states
    return roofline.modelled_step(model, table, *asked, states=states), f"{request.replay} by its roofline"


def _refuse_other_optimizer(trace: Trace, request: Request) -> None:
    """A trace of a run has the time of one optimizer's update; what was imported does not say whose."""
    if trace.request is not None and trace.request.optimizer.kind != request.optimizer.kind:
        raise ConfigError(
            f"optimizer={request.optimizer.kind}: {trace.source} was measured with optimizer="
            f"{trace.request.optimizer.kind}; trace it with this one, too"
        )


def recomputing(step: Step, table: Sequence[Layer], precision: str) -> Step:
    """The step where each block of a family is computed again before it is undone, as far as that keeps anything."""
    forward_s = dict(zip(step.names, step.forwards_s, strict=True))
    more_s: dict[str, float] = {}
    passes = 0  # forward, of layers that are computed again
    for block in counts.recomputed(table, 0, counts.widths(table, roofline.PRECISION_BYTES[precision])):
        again = [name for index in block.computed if (name := table[index].name) in forward_s]
        last = [name for index in block.places if (name := table[index].name) in forward_s][-1:]
        more_s |= dict.fromkeys(last, sum(forward_s[name] for name in again))
        passes += len(again)
    backwards_s = [time_s + more_s.get(name, 0.0) for name, time_s in zip(step.names, step.backwards_s, strict=True)]
    launching = 1 + passes / (2 * len(step.names))
    return replace(step, backwards_s=backwards_s, queue_s=step.queue_s * launching, host_s=step.host_s * launching)


def _trace_at(path: Path) -> Trace:
    """The trace in a file, or below a folder: of runs that `resnetx trace` has made, or of what it has imported."""
    from resnetx.traces import read_all

    traces = read_all(path) if is_folder(path) else []
    if len(traces) > 1:
        names = ", ".join(trace.workload for trace in traces)
        raise ConfigError(f"replay={path}: holds traces of {names}; expected one workload: name its folder")
    if traces:
        return traces[0]
    from resnetx.traces.trace_files import read_trace  # with all that reads profiles

    return read_trace(path)


# ---- to another GPU by the kinds of kernels -------------------------------------------------------------------------


FILE = PUBLISHED / "gpus.yaml"
# The oldest compute capability of which a step was judged. Convolutional networks on a K80 (3.7) and on later GPUs were
# up to 1.8 times off such ratios (`results/published/training.yaml`).
OLDEST = 6.0

Range = tuple[float, float]  # least and most


@dataclass(frozen=True)
class Scaled:
    """A step on another GPU; the true one is between `least` and `most` times as long, nine times of ten."""

    step: Step
    least: float
    most: float
    note: str


def scaled(
    step: Step, batch: TracedBatch, trace: Trace, source: GpuSpec, target: GpuSpec, clock_Hz: float | None
) -> Scaled:
    """A step that was traced on `source` as it is on `target`; `batch`: says what kinds of kernels its layers have."""
    for gpu in (source, target):
        if gpu.compute_capability.value < OLDEST and not any(name.startswith("AMD") for name in gpu.product_names):
            raise ConfigError(
                f"{trace.source}: not predicted on {target.about}: no published step says how {gpu.about} compares "
                f"with other GPUs kernel by kernel; predict for systems of {trace.device}, or give rate="
            )
    precisions = batch.times.precisions
    products = _of_products(precisions, (source, trace.sm_clock_Hz), (target, clock_Hz))
    rest = source.memory_Bps.value / target.memory_Bps.value
    kinds = {layer.name: layer.products for layer in batch.times.layers}
    least_s = most_s = step.update_s * rest
    layers = []
    for layer in step.layers:
        shares = kinds.get(layer.name) or (None, None)
        forward, backward = (_ends(products, rest, share) for share in shares)
        least_s += layer.forward_s * forward[0] + layer.backward_s * backward[0]
        most_s += layer.forward_s * forward[1] + layer.backward_s * backward[1]
        layers.append(_times(layer, _middle(forward), _middle(backward)))
    launching_s = median(batch.times.launching_s) / 2 if batch.times.launching_s else 0.0
    scaled_step = replace(step, **columns(layers), update_s=step.update_s * rest, queue_s=launching_s)
    if not scaled_step.compute_s:
        raise ConfigError(f"{trace.source}: the layers of {trace.workload} take no time in it, which scales to nothing")
    off = off_by(source, target)
    multiplied = " and ".join(precisions) or "any precision, as theirs is not known"
    by = (
        f"products by the peak of {multiplied}, all else by memory"
        if any(kinds.values())
        else "between the ratios of peaks and of memories, as nothing tells its kernels apart"
    )
    note = f"{by}; nine of ten published pairs of steps stay within {math.expm1(off):.0%} of such ratios"
    whole_s = scaled_step.compute_s
    return Scaled(scaled_step, least_s / whole_s * math.exp(-off), most_s / whole_s * math.exp(off), note)


def _middle(ends: Range) -> float:
    return math.sqrt(ends[0] * ends[1])


def _ends(products: Range, rest: float, share: float | None) -> Range:
    """What a pass of a layer is multiplied by at least and at most; `share` of it are products, None: not known."""
    if share is None:
        return min(products[0], rest), max(products[1], rest)
    return share * products[0] + (1 - share) * rest, share * products[1] + (1 - share) * rest


def _of_products(
    precisions: Sequence[str], source: tuple[GpuSpec, float | None], target: tuple[GpuSpec, float | None]
) -> Range:
    """What the time of products is multiplied by at least and at most; `precisions`: [], where they are not known.

    A GPU without TF32 does the same in fp32; one with it may do in TF32 what another one did in fp32, as torch has it
    do for convolutions unless it is told otherwise.
    """
    here, there = _peaks(*source), _peaks(*target)
    pairs = [(name, "fp32" if name == "tf32" and name not in there else name) for name in precisions or here]
    if "fp32" in (precisions or here) and "tf32" not in here:
        pairs.append(("fp32", "tf32"))
    ratios = [here[own] / there[other] for own, other in pairs if own in here and other in there]
    if not ratios:
        (gpu, _), name = (source if precisions[0] not in here else target), precisions[0]
        raise ConfigError(f"the trace multiplies in {name}, of which no peak rate is stated of {gpu.about}; give rate=")
    return min(ratios), max(ratios)


def _peaks(gpu: GpuSpec, clock_Hz: float | None) -> dict[str, float]:
    """The peak rate of each precision that is stated."""
    names = [name for name in roofline.PRECISION_BYTES if roofline.peak(gpu, name) is not None]
    return {name: roofline.peak_FLOPps(gpu, name, clock_Hz) for name in names}


# ---- how far such ratios were off -----------------------------------------------------------------------------------


class _OtherGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fp32_FLOPps: float
    memory_Bps: float
    source: str


class _Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    network: str
    of: Literal["training", "inference"]
    sequence: int
    batch: int
    steps: dict[str, tuple[float, float]]  # by GPU: ms, and the share of products in it


class _Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: dict[str, str]
    slot_powered: list[str]
    gpus: dict[str, _OtherGpu]
    measured: list[_Network]


@dataclass(frozen=True)
class GpuPair:
    """One network on two GPUs, the step on the second predicted from that on the first."""

    network: str
    source: str
    target: str
    error: float  # ln(predicted / measured)


@cache
def published() -> _Published:
    return own_yaml(FILE, _Published)


@cache
def pairs() -> tuple[GpuPair, ...]:
    """All that is published, in both directions."""
    return tuple(_pairs())


def _pairs() -> Iterator[GpuPair]:
    for row in published().measured:
        for source, target in permutations(row.steps, 2):
            (here_FLOPps, here_Bps), (there_FLOPps, there_Bps) = _rates(source), _rates(target)
            (here_ms, share), (there_ms, _) = row.steps[source], row.steps[target]
            ratio = share * here_FLOPps / there_FLOPps + (1 - share) * here_Bps / there_Bps
            name = f"{row.network} {row.of} {row.sequence} x {row.batch}"
            yield GpuPair(name, source, target, math.log(here_ms * ratio / there_ms))


def _rates(name: str) -> tuple[float, float]:
    other = published().gpus.get(name)
    if other is not None:
        return other.fp32_FLOPps, other.memory_Bps
    part = gpu_named(name)
    return part.fp32_FLOPps.value, part.memory_Bps.value


def off_by(source: GpuSpec, target: GpuSpec) -> float:
    """What nine of ten published pairs stay within, as |ln(predicted / measured)|; those of a slot's power apart."""
    table: dict[str, GpuSpec] = parts_table("gpus")
    slot = [table[name] for name in published().slot_powered if name in table]
    return within_90(in_slot=source in slot or target in slot)


@cache
def within_90(in_slot: bool, without: str = "") -> float:
    """The same, of pairs with such a GPU or of all others; `without`: no pair of this GPU."""
    slot = set(published().slot_powered)
    errors = [
        abs(pair.error)
        for pair in pairs()
        if bool(slot & {pair.source, pair.target}) == in_slot and without not in (pair.source, pair.target)
    ]
    return float(np.quantile(errors, 0.9))
