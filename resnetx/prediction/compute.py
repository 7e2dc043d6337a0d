"""The source of compute times: what one rank's step takes on a GPU, and where that is known from.

    stated      one GPU's rate, as the user knows it; the roofline divides the step into layers (`stated_rates`), and on
                CPUs, which have none, their share of the FLOP
    measured    a trace of this very GPU model (on CPUs: of this host), at this per-GPU batch or between two traced
                ones; or the rate that a run measured, divided into layers in the same way
    rescaled    a trace of another GPU model, or clock: each layer by the ratio of the roofline's times on the two; of
                an imported one, whose layers no table describes, by the kinds of its kernels (`other_gpu`)
    roofline    no trace: the layer table and the roofline that is fitted to published rates of one GPU

Where a trace is not used as it was measured, the note says what was done. What the host takes to queue a step is taken
from the trace, too (`StepTimes.queue_s`): for its own host as measured, for another one as between nothing and twice as
much. A trace that was bound by its host, and does not say what the device alone takes, is refused for any other host.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median

from resnetx.choices import Lab
from resnetx.errors import ConfigError, shortened
from resnetx.interconnect.systems.parts import CpuSpec, GpuSpec
from resnetx.interconnect.systems.system import System, parts_table
from resnetx.prediction import host_step, other_gpu, roofline
from resnetx.prediction.host_step import NO_HOST, HostStep, LaunchedStep, launched
from resnetx.prediction.scenario import CPU, Point
from resnetx.prediction.stated_rates import StatedRates
from resnetx.prediction.step import LEAST_COMPUTE, LayerTime, StepLayers, StepTimes
from resnetx.prediction.traced_step import TracedStep, recomputing, replayed_step_of, traced_step
from resnetx.record.machine import Unit
from resnetx.record.prediction import ComputeSource, Origin, PredictionInput, measured_on
from resnetx.record.traces import Trace
from resnetx.request import Request
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Layer

PUBLISHED = "results/published/training.yaml"
CLOCKS_AGREE = 0.02
# Of a GPU's memory rate, what scaling gradients into another buffer reaches: each byte is read once and written once.
COPY_SHARE = 0.5 * 0.8
# Of one core of a host, in a copy between buffers of a DDP that are not views of each other: assumed.
LAB_COPY_Bps = 2.5e9
LAUNCHING_COUNTS = 0.5  # of a step: from this share on, the host's part is worth a word
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
    jitter: float | None = None  # standard deviation of one step from the next over their mean; null: not measured
    queue_error: float = 0.0  # relative, of the host's time to queue a step
    faster: float | None = None  # how much shorter the step may be, relative; null: as much as longer (`error`)
    # (shorter, longer) by each thing that is not known; `error` and `faster` have all of them. (): there is but one
    causes: tuple[tuple[float, float], ...] = ()
    whole_step: bool = False  # `error` is that of the step with the host's part, not of the GPU's alone
    reading_error: float = (
        0.0  # relative, of what its share of a batch takes to be read, and to be copied (`iteration`)
    )
    copying_error: float = 0.0
    inputs: tuple[PredictionInput, ...] = ()  # what these are known from
    device: "Compute | None" = None  # the GPU's part alone, where the source says nothing of the host's
    launch: HostStep | None = None  # the host's part then
    again_error: float | None = (
        None  # of computing blocks again where a rate is known of steps that do not, as logarithm
    )

    @property
    def best(self) -> float:
        """How much shorter the step may be, relative."""
        return self.error if self.faster is None else self.faster

    def input_error(self, at_once: bool) -> float:
        """Of reading and copying; `at_once`: one goes on while the other does: of the longer; else of both in turn."""
        parts = ((self.step.input_s, self.reading_error), (self.step.host_to_device_s, self.copying_error))
        if at_once:
            return max(parts)[1]
        whole_s = sum(part_s for part_s, _ in parts)
        return sum(part_s * error for part_s, error in parts) / whole_s if whole_s else 0.0


def of_point(point: Point, images: int) -> Compute:
    """What a rank of a point takes for its share of the batch."""
    workload, system, parts = point.workload, point.deployment.system, point.parts
    if images % parts:
        raise ConfigError(
            f"accumulate={parts}: {images} images on a GPU do not divide into so many parts; use another batch_size"
        )
    if workload.request is not None and workload.request.replay is not None:
        assert workload.layers is not None, "a workload that is known by name"
        computed = _replayed(workload.request, workload.layers, images // parts, point.deployment.lab)
        return replace(computed, step=replace(computed.step, parts=parts))
    computed = _by_trace_or_roofline(point, images // parts)
    if (stated := _stated_launch(point)) is not None and not computed.whole_step:
        computed = replace(computed, step=_launched_by(computed.step, stated), queue_error=stated.spread - 1)
    computed = _whole(computed, point)
    graph = workload.request is not None and workload.request.graph  # the host launches the step as one
    queue_s = 0.0 if graph else computed.step.queue_s
    step = replace(computed.step, host_s=point.setting.host_s + computed.step.host_s, queue_s=queue_s)
    # Messages as traced are those of the trace's own machine, and so is all else.
    own_host = workload.trace is None or is_own_host(workload.trace, system) or point.setting.communication == "trace"
    if own_host or workload.trace is None:
        return replace(computed, step=step)
    # How fast another host reads and copies says nothing of this one; how long it takes to queue a step, little.
    step = replace(step, input_s=0.0, host_to_device_s=0.0)
    note = computed.note + _queued_elsewhere(workload.trace, step)
    return replace(computed, step=step, queue_error=OTHER_HOST, note=note)


def _whole(computed: Compute, point: Point) -> Compute:
    """The step of a rank's whole share, by that of one of its parts; its host launches each part like a step."""
    workload, parts = point.workload, point.parts
    if workload.request is not None and workload.request.checkpointing:
        assert workload.layers is not None, "a workload that is known by name"
        longer = recomputing(computed.step, workload.layers, workload.request.precision)
        if workload.rates is not None:
            gpu = point.deployment.system.gpu_part(point.devices[0])
            error = roofline_error(roofline.fitted(gpu), gpu, workload.precision)
            computed = _less_sure(computed, 1 - computed.step.compute_s / longer.compute_s, error)
        computed = replace(computed, step=longer)
    if parts == 1:
        return computed
    step = computed.step
    times = {name: parts * getattr(step, name) for name in ("queue_s", "host_s", "input_s", "host_to_device_s")}
    return replace(computed, step=replace(step, parts=parts, **times))


def _less_sure(computed: Compute, share: float, error: float) -> Compute:
    """With the error, a logarithm, of a share of the step of which the rate says nothing."""

    def wider(faster: float, slower: float) -> tuple[float, float]:
        shorter, longer = math.hypot(faster, share * -math.expm1(-error)), math.hypot(slower, share * math.expm1(error))
        return min(shorter, 1 - LEAST_COMPUTE), longer

    faster, slower = wider(computed.best, computed.error)
    causes = tuple(wider(*cause) if index == 0 else cause for index, cause in enumerate(computed.causes))
    return replace(computed, error=slower, faster=faster, causes=causes, again_error=error)


def _replayed(request: Request, layers: Sequence[Layer], images: int, lab: Lab | None) -> Compute:
    """A step that is waited out, as much longer as the lab's links are slower."""
    step, source = replayed_step_of(request, layers, images)
    return Compute(
        step=step.slowed(1.0 if lab is None else lab.scale),
        source="replayed",
        origin="assumed",
        where=request.replay or "",
        note=f"{source}, replayed as idle time",
        error=0.0,
        gradient_copy_Bps=LAB_COPY_Bps,
        clock_Hz=None,
        jitter=request.replay_jitter,
    )


def _by_trace_or_roofline(point: Point, images: int) -> Compute:
    workload, system, clock_Hz = point.workload, point.deployment.system, point.setting.clock_Hz
    if workload.trace is not None:
        return of_trace(workload.trace, images, system, point.devices[0], workload.layers, clock_Hz)
    assert workload.layers is not None and workload.request is not None, "neither a trace nor a layer table"
    gpu, layers, image_size = system.gpu_part(point.devices[0]), workload.layers, workload.request.image_size
    states = workload.request.optimizer.states
    if workload.rates is None:
        modelled = of_roofline(layers, image_size, images, workload.precision, gpu, clock_Hz, states)
        step = launched_by_roofline(modelled, images, _launch(point, len(layers)))
        return replace(_at_pace(modelled, step), device=modelled, launch=step.host)
    unit = point.deployment.unit
    if CPU in gpu.product_names:
        return _of_rates(workload.rates, images, _by_flop(layers, image_size, images, gpu), NO_HOST, 0.0, unit)
    precision = workload.precision if roofline.peak(gpu, workload.precision) else "fp32"  # which only divides the step
    modelled = of_roofline(layers, image_size, images, precision, gpu, clock_Hz, states)
    launch, stated_s = _launch(point, len(layers)), point.setting.host_step_s
    if stated_s is not None and stated_s > workload.rates.shortest_s:
        raise ConfigError(
            f"host_step={stated_s:g}s: longer than a step whose rate is known ({workload.rates.where}: "
            f"{workload.rates.shortest_s * 1e3:,.4g} ms); give no more than that, or leave it out"
        )
    return _of_rates(workload.rates, images, modelled, launch, _fixed_s(modelled.step), unit)


def launched_by_roofline(modelled: Compute, images: int, host: HostStep) -> LaunchedStep:
    """A step of which the roofline has the GPU's part."""
    return launched(images, modelled.step.compute_s, _fixed_s(modelled.step), host, modelled.error)


def _fixed_s(step: StepTimes) -> float:
    """What a step takes a GPU whatever its batch."""
    return 2 * len(step.layers) * host_step.GPU_PASS_s + step.update_s


def _launch(point: Point, layers: int) -> HostStep:
    """What launching a step takes on a host of which no more is known than what the user states."""
    request, stated = point.workload.request, _stated_launch(point)
    if stated is not None:
        return stated
    if request is not None and request.graph:  # launched as one
        return NO_HOST
    return host_step.assumed(layers, point.setting.loop, point.workload.precision)


def _stated_launch(point: Point) -> HostStep | None:
    """What `host_step=` says; None where it is not set."""
    time_s, request = point.setting.host_step_s, point.workload.request
    if time_s is None:
        return None
    if point.deployment.on_cpus:
        raise ConfigError(f"host_step={time_s:g}s: ranks on CPUs have no GPU to launch work on; leave it out")
    if request is not None and request.graph:
        raise ConfigError(
            f"host_step={time_s:g}s: graph=true launches a step as one, in no time; leave one of them out"
        )
    return HostStep(time_s, host_step.STATED, point.setting.loop in host_step.WAITING)


def _of_rates(
    rates: StatedRates, images: int, modelled: Compute, host: HostStep, fixed_s: float, unit: Unit
) -> Compute:
    """The step that the known rates say, divided as the modelled one."""
    by_flop = "" if modelled.source == "roofline" else modelled.note
    compute = replace(
        modelled,
        source=rates.source,
        origin="assumed" if rates.source == "stated" else measured_on(rates.nodes),
        where=rates.where,
        note=rates.note(images, unit) + by_flop,
    )
    return _at_pace(compute, rates.step(images, host, fixed_s))


def _at_pace(modelled: Compute, known: LaunchedStep) -> Compute:
    """The step at the pace at which its host launches its layers, and with its length."""
    device_s = min(known.device_s, known.time_s)
    layers_s = known.time_s - known.host.time_s if known.host.waits else known.time_s
    step = modelled.step.slowed(layers_s / modelled.step.compute_s)
    if not known.host.waits:
        step = replace(step, pace=layers_s / device_s)
    return replace(
        modelled,
        step=_launched_by(step, known.host),
        note=modelled.note + _launching(known),
        error=known.slower,
        faster=min(known.faster, 1 - LEAST_COMPUTE),
        causes=(known.by_device, known.by_host),
        whole_step=True,
    )


def _launched_by(step: StepTimes, launch: HostStep) -> StepTimes:
    """The step with its host's part, which runs beside the device's unless the host waits for it."""
    if launch.waits:
        return replace(step, host_s=launch.time_s)
    return replace(step, queue_s=launch.time_s)


def _launching(step: LaunchedStep) -> str:
    """What the host's part is taken to be, and where it ends what more GPUs gain; "" where it hardly counts."""
    host = step.host
    if host.time_s < LAUNCHING_COUNTS * step.time_s:
        return ""
    note = f"; its host takes {host.text(step.time_s * (1 + step.slower))} to launch a step"
    if host.waits or step.level < 2:
        return note
    return f"{note}, so that below {step.level:,.0f} images per GPU a step gets hardly shorter"


def _by_flop(layers: Sequence[Layer], image_size: int, images: int, gpu: GpuSpec) -> Compute:
    """A step whose layers take as long as they have FLOP, at the peak rate: it has the shape of one, not its length."""
    flop = roofline.work(layers, image_size).flop * images / gpu.fp32_FLOPps.value
    times = [
        LayerTime(layer.name, forward_s, backward_s, BYTES_PER_PARAMETER * sum(layer.parameters))
        for layer, forward_s, backward_s in zip(layers, *flop.tolist(), strict=True)
    ]
    return Compute(
        step=StepTimes(StepLayers.of(times), update_s=0.0),
        source="stated",
        origin="assumed",
        where="the layer table",
        note="; layers in proportion to their FLOP, and what messages take of the cores is left out",
        error=0.0,
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=None,
    )


def _queued_elsewhere(trace: Trace, step: StepTimes) -> str:
    """The caveat on the host's time to queue a step, where that may be longer than what the device takes."""
    if step.queue_s * (1 + OTHER_HOST) < step.compute_s:
        return ""
    if trace.cpu is None:  # of a profile, which lengthens it
        return (
            f"; its host took {2 * step.queue_s * 1e3:,.2f} ms to launch a profiled step, and this host is assumed to "
            "take between nothing and that"
        )
    return (
        f"; its host ({trace.cpu}) took {step.queue_s * 1e3:,.2f} ms to queue a step, and this host is assumed to "
        "take between nothing and twice that"
    )


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
    traced = traced_step(trace, batch_size)
    _refuse_other_host(trace, system, traced)
    if _is_of(trace, gpu, part_name) and _same_clock(trace, clock_Hz):
        return _as_measured(trace, traced, gpu)
    _refuse_rescaling_to_cpus(trace, gpu)
    source = _part_of(trace)
    if layers is None:
        return _by_kinds(trace, traced, source, gpu, part_name, clock_Hz)
    model = roofline.fitted()
    step = _rescaled(traced.step, layers, batch_size, trace, (source, gpu), clock_Hz, model)
    assert trace.request is not None, "a trace with a layer table has a request"
    error = roofline_error(model, gpu, trace.request.precision)
    off = math.hypot(math.log1p(traced.error), error)  # the roofline's is a logarithm
    note = (
        f"rescaled from {trace.device}{_clock(trace, source)} to {part_name}{_at_clock(clock_Hz)} layer by layer, by a "
        f"roofline that nine of ten published one-GPU rates stay within {error:.0%} of{traced.note}"
    )
    return Compute(
        step=step,
        source="rescaled",
        origin="assumed",
        where=trace.source,
        note=note,
        error=math.expm1(off),
        faster=-math.expm1(-off),
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=clock_Hz or gpu.clock_Hz.stated,
        queue_error=traced.queue_error,
    )


def _by_kinds(
    trace: Trace, traced: TracedStep, source: GpuSpec, gpu: GpuSpec, part_name: str, clock_Hz: float | None
) -> Compute:
    """A step that was traced on another GPU, or clock, and of which no layer table is known."""
    by_kinds = other_gpu.scaled(traced.step, traced.batches[0], trace, source, gpu, clock_Hz)
    measured = math.log1p(traced.error)
    slower, faster = math.hypot(math.log(by_kinds.most), measured), math.hypot(math.log(by_kinds.least), measured)
    return Compute(
        step=by_kinds.step,
        source="rescaled",
        origin="assumed",
        where=trace.source,
        note=f"taken from {trace.device}{_clock(trace, source)} to {part_name}{_at_clock(clock_Hz)}: {by_kinds.note}"
        f"{traced.note}",
        error=math.expm1(slower),
        faster=-math.expm1(-faster),
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=clock_Hz or gpu.clock_Hz.stated,
        queue_error=OTHER_HOST,
    )


def _refuse_rescaling_to_cpus(trace: Trace, gpu: GpuSpec) -> None:
    if CPU in gpu.product_names:
        why = "whose clock was their host's own" if trace.device == CPU else "which says nothing of ranks on CPUs"
        raise ConfigError(f"{trace.source}: measured on {trace.device}, {why}; predict for what was measured")


def _as_measured(trace: Trace, traced: TracedStep, gpu: GpuSpec) -> Compute:
    """A step on the GPU, and at the clock, that the trace was taken on."""
    return Compute(
        step=traced.step,
        source="measured",
        origin=_origin(trace),
        where=trace.source,
        note=f"measured on {trace.device}{_clock(trace, gpu)}{_host(trace)}{traced.note}",
        error=traced.error,
        gradient_copy_Bps=_median_copy_Bps(trace) or gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=trace.sm_clock_Hz,
        jitter=traced.jitter,
        queue_error=traced.queue_error,
    )


@lru_cache(maxsize=1024)  # a comparison asks for the same step with each library, strategy and input
def of_roofline(
    layers: tuple[Layer, ...],
    image_size: int,
    batch_size: int,
    precision: str,
    gpu: GpuSpec,
    clock_Hz: float | None,
    states: int = 1,
) -> Compute:
    """What `batch_size` images take the GPU by the roofline alone."""
    if CPU in gpu.product_names:
        raise ConfigError("systems: cpu-host needs a trace of that host (`resnetx trace` makes one), or rate=")
    return by_roofline(roofline.fitted(gpu), layers, image_size, batch_size, precision, gpu, clock_Hz, states)


def by_roofline(
    model: roofline.Roofline,
    layers: tuple[Layer, ...],
    image_size: int,
    batch_size: int,
    precision: str,
    gpu: GpuSpec,
    clock_Hz: float | None = None,
    states: int = 1,
) -> Compute:
    """The same by a given roofline; its host's part is left out. `states`: see `roofline.update_s`."""
    times = roofline.layer_times(model, layers, image_size, batch_size, gpu, precision, clock_Hz)
    update_s = roofline.update_s(model, sum(times.gradient_bytes), gpu, states)
    return Compute(
        step=StepTimes(times, update_s),
        source="roofline",
        origin="published",
        where=PUBLISHED,
        note=f"{gpu.about}{_at_clock(clock_Hz)}: {model.source}",
        error=roofline_error(model, gpu, precision),
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=clock_Hz or gpu.clock_Hz.stated,
    )


def _at_clock(clock_Hz: float | None) -> str:
    return "" if clock_Hz is None else f" at {clock_Hz / 1e6:.0f} MHz"


def roofline_error(model: roofline.Roofline, gpu: GpuSpec, precision: str) -> float:
    """What nine of ten published rates stay within where the fit had not seen their network or publisher.

    For a GPU of another generation: their generation. In half precision: never less than all half rates that there are.
    """
    if model.generation != roofline.generation(gpu):
        assert model.unseen_gpu_90 is not None, "the fit to all GPUs has seen several generations"
        return model.unseen_gpu_90
    if precision not in roofline.HALF:
        return model.error_90
    return max(model.error_90, model.half_error_90 or roofline.fitted().half_error_90 or 0.0)


# ---- the trace's own device -----------------------------------------------------------------------------------------


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


def _refuse_other_host(trace: Trace, system: System, traced: TracedStep) -> None:
    """Layer times with gaps in which the device waited for its host hold for that host alone.

    Where the device was held back until the host had queued its work (`host_s`), the times are the device's own.
    """
    bound = [batch.batch_size for batch in traced.batches if batch.times.host_bound and batch.times.host_s is None]
    if bound and not is_own_host(trace, system):
        raise ConfigError(
            f"{trace.source}: its GPU waited for the host ({trace.cpu}) at per-GPU batch {', '.join(map(str, bound))}, "
            f"and {system.name} has another one; trace larger batches, or on a faster host"
        )


def _same_cpu(traced: str, about: str) -> bool:
    """Whether both name one model: a word with three digits or more, as 8480C or E5-2698."""
    words = [set(re.findall(r"[\w-]*\d{3}\w*", text.upper())) for text in (traced, about)]
    return bool(words[0] & words[1])


def _origin(trace: Trace) -> Origin:
    return measured_on([trace.node]) if trace.how == "measured" else "published"


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


# ---- another device -------------------------------------------------------------------------------------------------


def _rescaled(
    step: StepTimes,
    layers: Sequence[Layer],
    batch_size: int,
    trace: Trace,
    gpus: tuple[GpuSpec, GpuSpec],
    clock_Hz: float | None,
    model: roofline.Roofline,
) -> StepTimes:
    """Each layer's times by the ratio that the roofline has for it; what has no row in the table, by that of all."""
    assert trace.request is not None, "a trace with a layer table has a request"
    source, target = gpus
    size, precision = trace.request.image_size, trace.request.precision
    here = roofline.roofs(source, precision, trace.sm_clock_Hz)
    there = roofline.roofs(target, precision, clock_Hz)
    by_name = {ratio.name: ratio for ratio in roofline.ratios(model, layers, size, batch_size, here, there)}
    known = [(layer, by_name[layer.name]) for layer in step.layers if layer.name in by_name]
    before_s = sum(layer.forward_s + layer.backward_s for layer, _ in known)
    after_s = sum(layer.forward_s * ratio.forward + layer.backward_s * ratio.backward for layer, ratio in known)
    if not before_s:
        raise ConfigError(
            f"{trace.source}: the layers of {trace.workload} take no time in it, which rescales to nothing"
        )
    rest = roofline.Ratio("", after_s / before_s, after_s / before_s)
    scaled = [_times(layer, by_name.get(layer.name, rest)) for layer in step.layers]
    gradients = sum(step.layers.gradient_bytes)
    update = roofline.update_s(model, gradients, target) / roofline.update_s(model, gradients, source)
    return replace(step, layers=StepLayers.of(scaled), update_s=step.update_s * update)


def _times(layer: LayerTime, ratio: roofline.Ratio) -> LayerTime:
    return layer._replace(forward_s=layer.forward_s * ratio.forward, backward_s=layer.backward_s * ratio.backward)
