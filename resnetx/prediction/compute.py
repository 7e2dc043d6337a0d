"""What one rank computes in a step, how its input arrives, and where each is known from.

    stated      one GPU's rate, as the user knows it; the roofline divides the step into layers (`stated_rates`), and on
                CPUs, which have none, their share of the FLOP
    measured    a trace of this very GPU model (on CPUs: of this host), at this per-GPU batch or between two traced
                ones; or the rate that a run measured, divided into layers in the same way
    rescaled    a trace of another GPU model, or clock: each layer by the ratio of the roofline's times on the two; or
                another GPU's rate, whose GPU's part goes by that ratio, too (`roofline.rescaled_s`)
    roofline    no trace: the layer table and the roofline that is fitted to published rates of one GPU

Where a trace is not used as it was measured, the note says what was done. What the host takes to queue a step is taken
from the trace, too (`Step.queue_s`): for its own host as measured, for another one as between nothing and twice as
much. A trace that was bound by its host, and does not say what the device alone takes, is refused for any other host.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise

import msgspec

from resnetx.choices import Folders, Lab, TorchvisionInput
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.internode import Supply
from resnetx.interconnect.systems.graph import GpuSpec, Provenance
from resnetx.prediction import host_step, roofline
from resnetx.prediction.host_step import (
    NO_HOST,
    OTHER_CORES,
    DecodingRate,
    HostStep,
    LaunchedStep,
    decoding,
    decoding_unit,
    launched,
)
from resnetx.prediction.scenario import Point
from resnetx.prediction.stated_rates import RatedGpu, RatedSide, StatedRates, rescaled_step
from resnetx.prediction.step import COPY_SHARE, LEAST_COMPUTE, Compute, LayerTime, Step, columns
from resnetx.prediction.traced_step import elsewhere, is_cpu_of, is_own_host, of_trace, recomputing, replayed_step_of
from resnetx.record.prediction import HARDLY, UNCHECKED, Origin, PredictionInput, measured_on
from resnetx.request import Request
from resnetx.units import CPU, Unit, si
from resnetx.workloads.counts import BYTES_PER_PARAMETER, Layer

# Of one core of a host, in a copy between buffers of a DDP that are not views of each other: assumed.
LAB_COPY_Bps = 2.5e9
BOUNDED = "; as its host may take all of these, up to halfway to what a roofline says"
LAUNCHING_COUNTS = 0.5  # of a step: from this share on, the host's part is worth a word


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
        computed = replace(computed, step=_launched_by(computed.step, stated), queue_error=max(stated.spread) - 1)
    computed = _whole(computed, point)
    graph = workload.request is not None and workload.request.graph  # the host launches the step as one
    if graph or point.setting.host_s:
        host_s, queue_s = point.setting.host_s + computed.step.host_s, 0.0 if graph else computed.step.queue_s
        computed = replace(computed, step=replace(computed.step, host_s=host_s, queue_s=queue_s))
    # Messages as traced are those of the trace's own machine, and so is all else.
    own_host = workload.trace is None or is_own_host(workload.trace, system) or point.setting.communication == "trace"
    if own_host or workload.trace is None:
        return computed
    # How fast another host reads and copies says nothing of this one; how long it takes to queue a step, little.
    return elsewhere(computed, workload.trace)


def _whole(computed: Compute, point: Point) -> Compute:
    """The step of a rank's whole share, by that of one of its parts; its host launches each part like a step."""
    workload, parts = point.workload, point.parts
    if workload.request is not None and workload.request.checkpointing:
        assert workload.layers is not None, "a workload that is known by name"
        longer = recomputing(computed.step, workload.layers, workload.request.precision)
        if workload.rates is not None:
            gpu = point.deployment.system.gpu_part(point.devices[0])
            error = roofline.fitted(gpu, workload.layers, workload.precision).error_on(gpu, workload.precision)
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
    states, graph = workload.request.optimizer.states, workload.request.graph
    trained = (states, graph, workload.request.channels_last, point.setting.framework)
    if workload.rates is None:
        modelled = of_roofline(layers, image_size, images, workload.precision, gpu, clock_Hz, *trained)
        peak_FLOPps = roofline.peak_FLOPps(gpu, workload.precision, clock_Hz)
        step = launched_by_roofline(modelled, layers, images, _launches(point, layers)[0], peak_FLOPps)
        return replace(_at_pace(modelled, step), device=modelled, launch=step.host)
    unit = point.deployment.unit
    if CPU in gpu.product_names:
        steps = [workload.rates.step(images, NO_HOST, 0.0)]
        return _of_rates(workload.rates, images, _by_flop(layers, image_size, images, gpu), steps, unit)
    if workload.rates.other is not None:
        return _from_another(point, workload.rates, workload.rates.other, images)
    precision = workload.precision if roofline.peak(gpu, workload.precision) else "fp32"  # which only divides the step
    modelled = of_roofline(layers, image_size, images, precision, gpu, clock_Hz, *trained)
    launches, stated_s = _launches(point, layers), point.setting.host_step_s
    if stated_s is not None and stated_s > workload.rates.shortest_s:
        raise ConfigError(
            f"host_step={stated_s:g}s: longer than a step whose rate is known ({workload.rates.where}: "
            f"{workload.rates.shortest_s * 1e3:,.4g} ms); give no more than that, or leave it out"
        )
    has_peak = precision == workload.precision
    decoded = isinstance(workload.request.input, TorchvisionInput)

    def alone_s(batch: int) -> float:
        return of_roofline(layers, image_size, batch, precision, gpu, clock_Hz, *trained).step.compute_s

    largest, rate = workload.rates.by_batch[-1]
    bounds_s, may_be_hosts = (0.0, math.inf), False
    if has_peak and images > largest:
        may_be_hosts = launches[0].stretched(1).time_s >= host_step.MOST_OF_STEP * largest / rate
        bounds_s = (alone_s(largest) * math.exp(-modelled.best), alone_s(largest) * math.exp(modelled.best))
    steps, in_graphs = [], point.setting.loop is not None
    for host in launches:
        is_modelled = has_peak and _is_counted(layers)
        times = workload.rates.times_modelled(images, host, alone_s, decoded) if is_modelled else 1.0
        for at_once in dict.fromkeys([graph or in_graphs, in_graphs]):
            fixed_s = _fixed_s(modelled, layers, gpu, precision, at_once, states, times)
            steps.append(workload.rates.step(images, host, fixed_s, bounds_s, decoded).of_part(point.parts))
    return _of_rates(workload.rates, images, modelled, steps, unit, may_be_hosts)


def _from_another(point: Point, rates: StatedRates, other: RatedGpu, images: int) -> Compute:
    """The step by the rate of another GPU; each host by the rating of its own CPU."""
    workload, request, gpu = point.workload, point.workload.request, point.deployment.system.gpu_part(point.devices[0])
    assert workload.layers is not None and request is not None, "beside rates there is no imported trace"
    here_at, there_at = workload.precision, roofline.precision_on(other.part, workload.precision)
    table = (workload.layers, request.image_size, images)
    program = (request.channels_last, point.setting.framework)
    there, here = (
        of_roofline(*table, precision, part, None, request.optimizer.states, request.graph, *program)
        for part, precision in ((other.part, there_at), (gpu, here_at))
    )
    stated, ratings = _stated_launch(point), (other.rating, host_step.rated(point.deployment.system))
    launches = [_assumed_launches(point, workload.layers, rating) for rating in ratings]
    decoded, trained = isinstance(request.input, TorchvisionInput), (point.setting.loop, request.optimizer.states)
    steps = [
        rescaled_step(
            rates,
            table,
            side(there, workload.layers, other.part, there_at, known, *trained),
            replace(side(here, workload.layers, gpu, here_at, stated or own, *trained), stated=stated is not None),
            decoded,
            channels_last=request.channels_last,
            framework=point.setting.framework,
        )
        for known, own in zip(*launches, strict=True)
    ]
    found = _of_rates(rates, images, here, [step.of_part(point.parts) for step in steps], point.deployment.unit)
    counted = roofline.rescalings()[roofline.rescaling_kind(other.part, gpu, here_at)]
    unlike = f" (there in {there_at}, as it has no {here_at})" * (there_at != here_at)
    how = f"rescaled from {other.name}{unlike} by what a roofline says of both: nine of ten of {counted.pairs} "
    how += f"published pairs ({counted.kind}) are within {counted.error_90:.0%}; "
    where = f"rate={rates.where.removeprefix('rate=')}"
    return replace(found, source="rescaled", origin="assumed", where=where, note=how + found.note)


def side(
    modelled: Compute,
    layers: Sequence[Layer],
    gpu: GpuSpec,
    precision: str,
    host: HostStep,
    loop: str | None = None,
    states: int = 1,
) -> RatedSide:
    """One of the two GPUs of a rescaled rate; `modelled`: its part of the step by the roofline alone."""
    fixed_s = _fixed_s(modelled, layers, gpu, precision, loop is not None, states)
    return RatedSide(gpu, precision, modelled.step.compute_s, modelled.best, fixed_s, host)


def launched_by_roofline(
    modelled: Compute, layers: Sequence[Layer], images: int, host: HostStep, peak_FLOPps: float
) -> LaunchedStep:
    """A step of which the roofline has the GPU's part."""
    fixed_s = host_step.operations_s(host_step.operations_of(layers), peak_FLOPps) + modelled.step.update_s
    return launched(images, modelled.step.compute_s, fixed_s, host, (modelled.best, modelled.error))


def _is_counted(layers: Sequence[Layer]) -> bool:
    """Whether what its layers do is known, and not only how many they are."""
    return all(layer.kind != host_step.MODULE for layer in layers)


def _fixed_s(
    modelled: Compute,
    layers: Sequence[Layer],
    gpu: GpuSpec,
    precision: str,
    at_once: bool,
    states: int,
    times: float = 1.0,
) -> float:
    """What a step takes a GPU whatever its batch: starting operations, and moving parameters.

    `at_once`: they are updated so, as in graphs. `times`: as long as modelled it takes its operations.
    """
    parameters_s = roofline.of_parameters_s(sum(modelled.step.gradient_bytes), gpu, states, at_once)
    operations_s = host_step.operations_s(host_step.operations_of(layers), roofline.peak_FLOPps(gpu, precision))
    return parameters_s + times * operations_s


def _launches(point: Point, layers: Sequence[Layer]) -> list[HostStep]:
    """What launching a step takes on a host of which no more is known than what the user states.

    A stated rate may be of any program: first as others' loops take, of which nobody knows what they repeat for each
    part of a batch, then as resnetx's own.
    """
    stated = _stated_launch(point)
    return _assumed_launches(point, layers, host_step.rated(point.deployment.system)) if stated is None else [stated]


def _assumed_launches(point: Point, layers: Sequence[Layer], rating: float | None) -> list[HostStep]:
    """The same with nothing stated, on a host with such a CPU."""
    request, rates = point.workload.request, point.workload.rates
    if request is not None and request.graph:  # launched as one
        return [NO_HOST]
    of, loop = host_step.operations_of(layers), point.setting.loop
    own = host_step.assumed(of, loop, point.workload.precision, True, rating=rating)
    if rates is None:
        return [own.of_part(point.parts)]
    if rates.source == "measured":
        return [own]
    decoding = request is not None and isinstance(request.input, TorchvisionInput)
    others = host_step.assumed(of, loop, point.workload.precision, decoding=decoding, rating=rating)
    return [replace(others, loop_s=0.0), own, *([others] if point.parts > 1 else [])]


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
    return HostStep(time_s, (host_step.STATED,) * 2, point.setting.loop in host_step.WAITING)


def _of_rates(
    rates: StatedRates,
    images: int,
    modelled: Compute,
    steps: Sequence[LaunchedStep],
    unit: Unit,
    may_be_hosts: bool = False,
) -> Compute:
    """The step that the known rates say, divided as the modelled one; its interval has those of all `steps`."""
    known, *others = steps
    for other in others:
        known = known.reaching(other)
    by_flop = "" if modelled.source == "roofline" else modelled.note
    compute = replace(
        modelled,
        source=rates.source,
        origin="assumed" if rates.source == "stated" else measured_on(rates.nodes),
        where=rates.where,
        note=rates.note(images, unit) + by_flop + may_be_hosts * BOUNDED,
    )
    return _at_pace(compute, known)


def _at_pace(modelled: Compute, known: LaunchedStep) -> Compute:
    """The step at the pace at which its host launches its layers, and with its length."""
    host_s = known.host.time_s
    if known.host.waits:
        step = modelled.step.slowed((known.time_s - host_s) / modelled.step.compute_s, host_s=host_s)
    else:
        device = modelled.step.slowed(min(known.device_s, known.time_s) / modelled.step.compute_s)
        step, pace = _launched_evenly(device, known.host), known.time_s / device.compute_s
        step = step.slowed(known.time_s / step.compute_s, pace=pace, queue_s=host_s)
    return replace(
        modelled,
        step=step,
        note=modelled.note + _launching(known),
        error=known.slower,
        faster=min(known.faster, 1 - LEAST_COMPUTE),
        causes=(known.by_device, known.by_host),
        whole_step=True,
    )


def _launched_evenly(device: Step, host: HostStep) -> Step:
    """A step whose passes end no sooner than the host, which takes as long for each, has launched them.

    The update is launched while gradients are on their way. So fewer images make no gradient ready later, whatever
    share of the step its layer has, and no update longer.
    """
    count = len(device.names)
    passes_s = [*device.forwards_s, *reversed(device.backwards_s)]
    launched_s = host.time_s / len(passes_s)
    ends_s = [
        host_step.longer_s(launched_s * done, done_s) for done, done_s in enumerate(accumulate(passes_s, initial=0.0))
    ]
    share = (host_step.longer_s(host.time_s, device.compute_s) - device.update_s) / ends_s[-1]
    times_s = [share * (after_s - before_s) for before_s, after_s in pairwise(ends_s)]
    return replace(device, forwards_s=times_s[:count], backwards_s=times_s[: count - 1 : -1])


def _launched_by(step: Step, launch: HostStep) -> Step:
    """The step with its host's part, which runs beside the device's unless the host waits for it."""
    if launch.waits:
        return replace(step, host_s=launch.time_s)
    return replace(step, queue_s=launch.time_s)


def _launching(step: LaunchedStep) -> str:
    """What the host's part is taken to be, and where it ends what more GPUs gain; "" where it hardly counts."""
    host = step.host
    if host.time_s < LAUNCHING_COUNTS * step.time_s:
        return ""
    by = f", by its CPU's rating of {host.rating:,.0f}," if host.rating else ""
    note = f"; its host takes {host.text(step.time_s * (1 + step.slower))}{by} to launch a step"
    if host.waits or step.level < 2:
        return note
    return f"{note}, {HARDLY}{step.level:,.0f} images per GPU a step gets hardly shorter"


def _by_flop(layers: Sequence[Layer], image_size: int, images: int, gpu: GpuSpec) -> Compute:
    """A step whose layers take as long as they have FLOP, at the peak rate: it has the shape of one, not its length."""
    flop = roofline.work(layers, image_size).flop * images / gpu.fp32_FLOPps.value
    times = [
        LayerTime(layer.name, forward_s, backward_s, BYTES_PER_PARAMETER * sum(layer.parameters))
        for layer, forward_s, backward_s in zip(layers, *flop.tolist(), strict=True)
    ]
    return Compute(
        step=Step(**columns(times), update_s=0.0),
        source="stated",
        origin="assumed",
        where="the layer table",
        note="; layers in proportion to their FLOP, and what messages take of the cores is left out",
        error=0.0,
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=None,
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
    graph: bool = False,
    channels_last: bool = True,
    framework: str | None = None,
) -> Compute:
    """What `batch_size` images take the GPU by the roofline alone; `graph`: their step is a CUDA graph."""
    if CPU in gpu.product_names:
        raise ConfigError("systems: cpu-host needs a trace of that host (`resnetx trace` makes one), or rate=")
    model = roofline.fitted(gpu, layers, precision)
    if graph:
        model = msgspec.structs.replace(model, operation_s=min(model.operation_s, host_step.GPU_OPERATION_s))
    return by_roofline(
        model, layers, image_size, batch_size, precision, gpu, clock_Hz, states, channels_last, framework
    )


def by_roofline(
    model: roofline.Roofline,
    layers: tuple[Layer, ...],
    image_size: int,
    batch_size: int,
    precision: str,
    gpu: GpuSpec,
    clock_Hz: float | None = None,
    states: int = 1,
    channels_last: bool = True,
    framework: str | None = None,
) -> Compute:
    """The same by a given roofline; its host's part is left out. `states`: see `roofline.update_s`."""
    return Compute(
        step=roofline.modelled_step(
            model, layers, image_size, batch_size, gpu, precision, clock_Hz, states, channels_last, framework
        ),
        source="roofline",
        origin="published",
        where=f"results/published/{model.file}",
        note=f"{gpu.about}{roofline.at_clock(clock_Hz)}: {model.source}",
        error=model.longer_on(gpu, precision, layers),
        faster=model.error_on(gpu, precision),
        gradient_copy_Bps=gpu.memory_Bps.value * COPY_SHARE,
        clock_Hz=clock_Hz or gpu.clock_Hz.stated,
    )


# ---- input ----------------------------------------------------------------------------------------------------------
# How long input takes: a trace's input times, on its own host only, and the described storage and PCIe of a system.
#
# How far off that may be follows from where each rate is from (`RATE_ERRORS`), and from what is known of the size of an
# image (`STORED`); both stand in the record's inputs, and enter the interval.

BYTES_PER_VALUE = 4  # images are copied to the device as fp32, three channels

# How much longer or shorter than its described rate says a copy may take, relative.
RATE_ERRORS: dict[Provenance, float] = {
    # The two copies from host memory whose rates are published (Tallent et al. 2017, section 4.4: 11.1 and 10.7 GiB/s
    # to GPU 0) take 10 and 14 % longer than the described PCIe says.
    "measured": 0.14,
    # Of the links whose copies were measured, the slowest takes 20 % longer than its datasheet says (PCIe 3.0).
    "datasheet": 0.20,
    "assumed": 0.50,  # an assumption itself
}
_ORIGINS: dict[Provenance, Origin] = {"measured": "published", "datasheet": "datasheet", "assumed": "assumed"}


@dataclass(frozen=True)
class StoredImages:
    """The size of an image where it is read from, and how far off that may be."""

    size_bytes: float
    error: float  # relative
    origin: Origin
    source: str


STORED = {
    "imagenet": StoredImages(110_000, 0.05, "published", "ILSVRC2012: 138 GB / 1.28 M files; 115 kB if these are GiB"),
    "paper": StoredImages(
        34_900,
        RATE_ERRORS["assumed"],
        "assumed",
        "mean of the 512 files of 256x256 pixels that `resnetx images images.size=256` makes; of others it is assumed",
    ),
}


def fed(computed: Compute, point: Point, images: int) -> Compute:
    """The step with what its `images` take to arrive, while all GPUs of the point read and copy theirs.

    Decoding takes what a trace of the same host says, else what is known of its loader (`decoding`); reading goes on
    beside it. `input=synthetic` needs nothing; tokens, of 2 B each, as good as nothing. A stated rate has in it what
    its GPU, alone, waits for.
    """
    every, rates, overlap = _fed(computed, point, images), point.workload.rates, point.setting.overlap
    if rates is None or rates.source != "stated" or (overlap.input and overlap.host_to_device):
        return every
    alone, step = _fed(computed, replace(point, devices=point.devices[:1], batch_size=images), images).step, every.step
    read_s, copied_s = 0.0 if overlap.input else alone.input_s, alone.host_to_device_s
    left = max(1 - (read_s + copied_s) / step.compute_s, LEAST_COMPUTE)
    return replace(
        every,
        step=step.slowed(left),
        error=every.error / left,  # which are those of the whole step, as the rate has it
        faster=min(every.best / left, 1 - LEAST_COMPUTE),
        causes=tuple((min(shorter / left, 1 - LEAST_COMPUTE), longer / left) for shorter, longer in every.causes),
        reading_error=every.reading_error * _not_in_rate(step.input_s, read_s),
        copying_error=every.copying_error * _not_in_rate(step.host_to_device_s, copied_s),
    )


def _not_in_rate(time_s: float, known_s: float) -> float:
    """The share of what input takes that a rate does not have in it: however wrong, the rest stays as it is there."""
    return max(0.0, 1 - known_s / time_s) if time_s else 1.0


def _fed(computed: Compute, point: Point, images: int) -> Compute:
    """The same, with nothing of it in the step."""
    request, traced = (
        point.workload.request,
        replace(computed, reading_error=computed.error, copying_error=computed.error),
    )
    if request is None or not isinstance(request.input, Folders):
        return traced
    if computed.step.input_s or point.deployment.on_cpus:
        traced = replace(
            traced, step=_sharing_threads(computed.step, point, request), inputs=(_traced(computed, point),)
        )
    else:
        traced = _decoded(traced, point, images, request)
    if point.deployment.on_cpus:
        return traced
    return _copied(_read(traced, point, images, request), point, images, request)


def _decoded(before: Compute, point: Point, images: int, request: Request) -> Compute:
    """Decoded by the host's cores, which the GPUs of a node share, or by each GPU; left out where nothing is known."""
    assert isinstance(request.input, Folders), "only images are decoded"
    deployment, what = point.deployment, f"decoding on {point.deployment.described.name}"
    found = decoding(
        request.input, request.image_size, deployment.system, point.devices, deployment.decoding,
        point.setting.decoding_threads,
    )  # fmt: skip
    if found is None:
        value = "left out: how fast its GPUs decode is not known (calibration= takes a run with measure=input)"
        if decoding_unit(request.input) == "core":
            value = "left out: the cores of its host are not described"
        return replace(before, inputs=(PredictionInput(what, value, "assumed", "prediction/compute.py", UNCHECKED),))
    stored, _ = stored_images(point, request)
    rate, error = found.rate, math.hypot(_rate_error(found.rate, point), stored.error)
    by = "by each GPU" if found.cores is None else f"by {found.cores:g} cores for each GPU"
    one = f"one {rate.unit} {rate.rate_Bps / stored.size_bytes:,.3g} images/s with {rate.loader}"
    return replace(
        before,
        step=replace(before.step, input_s=images * stored.size_bytes / found.rate_Bps),
        reading_error=error,
        inputs=(PredictionInput(what, f"{by}, {one}", rate.origin, rate.source, error),),
    )


def _rate_error(rate: DecodingRate, point: Point) -> float:
    """How far off a rate may be here: cores of another CPU than it was measured on differ by more than its runs."""
    known = rate.unit == "GPU" or rate.origin == "published" or is_cpu_of(rate.measured_on, point.deployment.system)
    return rate.error if known else max(rate.error, OTHER_CORES)


def _sharing_threads(step: Step, point: Point, request: Request) -> Step:
    """The one rank of a trace had all threads of its input pipeline; ranks on one host share them."""
    trace = point.workload.trace
    if trace is None or not trace.cpus or not isinstance(request.input, Folders):
        return step
    ranks = point.gpus / point.deployment.described.nodes
    return replace(step, input_s=step.input_s * max(1.0, ranks * request.input.threads / trace.cpus))


def _read(traced: Compute, point: Point, images: int, request: Request) -> Compute:
    """Read from the described storage, where that takes longer than the trace says."""
    disk, _ = point.deployment.supplies(point.devices)
    stored, words = stored_images(point, request)
    if disk is None or images * stored.size_bytes / disk.rate_Bps <= traced.step.input_s:
        return traced
    inputs = (
        PredictionInput("bytes of an image", words, stored.origin, stored.source, stored.error),
        _rate(f"storage of {point.deployment.described.name}", f"{disk.through}, shared by the GPUs that read", disk),
    )
    return replace(
        traced,
        step=replace(traced.step, input_s=images * stored.size_bytes / disk.rate_Bps),
        reading_error=math.hypot(stored.error, RATE_ERRORS[disk.provenance]),
        inputs=(*traced.inputs, *inputs),
    )


def _copied(read: Compute, point: Point, images: int, request: Request) -> Compute:
    """Copied to the device over the described PCIe."""
    _, bus = point.deployment.supplies(point.devices)
    if bus is None:
        return read
    batch_bytes = images * 3 * request.image_size**2 * BYTES_PER_VALUE
    line = _rate(f"copies from the host of {point.deployment.described.name}", f"as fp32, over {bus.through}", bus)
    return replace(
        read,
        step=replace(read.step, host_to_device_s=batch_bytes / bus.rate_Bps),
        copying_error=RATE_ERRORS[bus.provenance],
        inputs=(*read.inputs, line),
    )


def stored_images(point: Point, request: Request) -> tuple[StoredImages, str]:
    """The size of an image, and that in words."""
    size_bytes = point.setting.image_bytes
    if size_bytes is not None:
        return StoredImages(size_bytes, 0.0, "assumed", "set by the user"), f"{si(size_bytes, 'B')} (image_bytes)"
    assert isinstance(request.input, Folders), "only images are stored"
    stored = STORED[request.input.recipe]
    return stored, f"{si(stored.size_bytes, 'B')} (input.recipe={request.input.recipe})"


def _rate(what: str, value: str, supply: Supply) -> PredictionInput:
    return PredictionInput(what, value, _ORIGINS[supply.provenance], supply.source, RATE_ERRORS[supply.provenance])


def _traced(computed: Compute, point: Point) -> PredictionInput:
    """What a trace says of decoding images: ranks on CPUs have no other source."""
    what = f"decoding on {point.deployment.described.name}"
    if computed.step.input_s:
        return PredictionInput(what, "as traced on its host", computed.origin, computed.where, computed.error)
    value = "left out: only a trace of the same host has it"
    return PredictionInput(what, value, "assumed", "prediction/compute.py", UNCHECKED)
