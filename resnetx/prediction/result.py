"""Predicted points as records: of a simulated iteration, or of a point that cannot run, with the reason.

A point is made by the constructor of `PredictedPoint`. What cannot be known is an `Unknown` in it until it is sealed
(`record.unknown`).
"""

from dataclasses import dataclass
from math import exp
from typing import Literal, TypedDict

import msgspec

from resnetx.choices import Server
from resnetx.prediction.iteration import CPU_RANKS_ERROR, Iteration
from resnetx.prediction.memory import MemoryNeed
from resnetx.prediction.messages import NO_LINK, Exchange
from resnetx.prediction.open_points import Undecided
from resnetx.prediction.provenance import UNCHECKED, RecordInput, SourcedPoint
from resnetx.prediction.scaling_errors import ScalingKind, scaling_errors
from resnetx.prediction.scenario import Point
from resnetx.prediction.ssgd import Spent, time_parts
from resnetx.prediction.staged import SHOWN_BY_RATES
from resnetx.prediction.step import Deviations
from resnetx.record import Unknown, known
from resnetx.record.prediction import COMPUTE, Origin, PredictedGpu, PredictedPoint, Sensitivity, TimePart, measured_on
from resnetx.request import Request


@dataclass(frozen=True)
class Baseline:
    """The denominator of a speed-up."""

    gpus: int
    batch_size: int  # global
    images_per_s: float | None  # null: open
    deviations: Deviations | None = None  # likewise
    spent: Spent | None = None  # likewise

    def parts(self, own: Spent, gpus: int, batch_size: int) -> list[TimePart]:
        """Where the time of a step of such a batch on so many GPUs goes, beside the step here."""
        linear = batch_size / self.batch_size * self.gpus / gpus  # of the step here, with scaling=weak all of it
        return [] if self.spent is None or self.gpus > gpus else time_parts(own, self.spent, linear)

    def speedup(self, images_per_s: float, deviations: Deviations) -> tuple[float | Unknown, list[float] | Unknown]:
        """Of a point over it, with its interval."""
        if self.images_per_s is None or self.deviations is None:
            unknown = Unknown(f"the rate of {self.gpus} GPUs, which it is over, is known between two ends only")
            return unknown, unknown
        speedup = images_per_s / self.images_per_s
        if deviations is self.deviations:
            return speedup, [speedup, speedup]
        return speedup, [speedup * exp(end) for end in self.deviations.of_ratio(deviations)]


class Description(TypedDict):
    """The fields of a `PredictedPoint` that are known before anything is predicted."""

    request: Request | None
    workload: str
    batch_size: int
    scaling: Literal["strong", "weak"]
    strategy: str
    framework: str
    precision: str
    system: str
    library: str
    gpus: int
    devices: list[int]
    gradient_bytes: int
    intensity_per_gpu: float | None


def _described(point: Point) -> Description:
    subject = point.subject
    request = Unknown("from an imported trace") if subject.request is None else _as_run(subject.request, point)
    intensity = (
        Unknown("from an imported trace, which has no activations")
        if subject.intensity is None
        else subject.intensity * point.batch_size / point.gpus
    )
    return {
        "request": known(request),
        "workload": subject.label,
        "batch_size": point.batch_size,
        "scaling": subject.scaling,
        "strategy": subject.strategy.kind,
        "framework": point.setting.framework or "",
        "precision": subject.precision,
        "system": point.deployment.described.name,
        "library": point.deployment.library,
        "gpus": point.gpus,
        "devices": list(point.devices),
        "gradient_bytes": subject.gradient_bytes,
        "intensity_per_gpu": known(intensity),
    }


def _as_run(request: Request, point: Point) -> Request:
    """The point as `train` would run it."""
    first = point.devices == tuple(range(point.gpus))
    return msgspec.structs.replace(
        request,
        gpus=point.gpus,
        batch_size=point.batch_size,
        devices=None if first else list(point.devices),
        split="uneven" if point.batch_size % point.gpus else "even",
        measure="step",
    )


# ---- points that can run --------------------------------------------------------------------------------------------


def predicted(
    iteration: Iteration, memory: MemoryNeed, baseline: Baseline | None, sensitivity: list[Sensitivity]
) -> SourcedPoint:
    """The point of an iteration. Its speed-up is over `baseline`, or over itself."""
    point, exchange, compute = iteration.point, iteration.exchange, iteration.computes[0]
    images_per_s = point.batch_size / iteration.time_s
    base = baseline or Baseline(point.gpus, point.batch_size, images_per_s, iteration.deviations, iteration.spent)
    speedup, interval = base.speedup(images_per_s, iteration.deviations)
    errors, of_linear = iteration.errors, base.gpus / point.gpus
    no_messages = Unknown("one rank sends nothing" if point.gpus == 1 else "no gradients are exchanged")
    no_link = Unknown(NO_LINK) if exchange.messages else no_messages
    record = PredictedPoint(
        **_described(point),
        outcome="ok",
        reason="",
        iteration_s=iteration.time_s,
        interval_s=iteration.interval_s,
        interval_by_compute_s=iteration.interval_by_compute_s,
        interval_by_scaling_s=iteration.interval_by_scaling_s,
        images_per_s=images_per_s,
        speedup=known(speedup),
        speedup_interval=known(interval),
        efficiency=known(speedup if isinstance(speedup, Unknown) else speedup * of_linear),
        efficiency_interval=known(interval if isinstance(interval, Unknown) else [end * of_linear for end in interval]),
        baseline_gpus=base.gpus,
        compute_s=iteration.slowest.device_s,
        communication_s=exchange.time_s,
        exposed_communication_s=iteration.saved_share["communication"] * iteration.time_s,
        input_s=iteration.input_s,
        parts=base.parts(iteration.spent, point.gpus, point.batch_size),
        input_error=known(iteration.input_error if iteration.input_s else Unknown("nothing is read or copied")),
        limited_by=iteration.limited_by,
        limit_share=iteration.saved_share[iteration.limited_by],
        limiting_link=known(no_link if exchange.limiting_link is None else exchange.limiting_link),
        link_share=known(no_link if exchange.link_share is None else exchange.link_share),
        memory_bytes=known(memory.needed_bytes),
        memory_capacity_bytes=known(memory.capacity_bytes),
        gpu=_gpu(point, compute.clock_Hz),
        compute_source=compute.source,
        compute_note=compute.note,
        compute_where=compute.where,
        compute_error=errors.compute,
        communication_error=known(exchange.error if exchange.messages else no_messages),
        sensitivity=sensitivity,
        timeline=iteration.timeline() if point.setting.timeline else [],
    )
    inputs = (_compute_input, _exchange_input, _scaling_input, _input_inputs)
    lines = tuple(line for lines in inputs for line in lines(iteration))
    return SourcedPoint(record, lines, iteration.deviations, iteration.spent)


def opened(
    undecided: Undecided, fast: Iteration, slow: Iteration, memory: MemoryNeed, baseline: Baseline | None
) -> SourcedPoint:
    """A point of which no more is known than its two ends, each with its errors."""
    sourced, other = (predicted(iteration, memory, baseline, []) for iteration in (fast, slow))
    unknown = dict.fromkeys(_OPEN, known(Unknown(undecided.reason)))
    ends = [fast.interval_s[0], slow.interval_s[1]]
    between = {
        name: [getattr(other.point, name)[0], getattr(sourced.point, name)[1]]
        for name in ("speedup_interval", "efficiency_interval")
        if isinstance(getattr(sourced.point, name), list)
    }
    record = msgspec.structs.replace(
        sourced.point,
        **unknown,
        **between,
        interval_s=ends,
        parts=[],
        timeline=[],
        open=undecided.closing,
        open_ends=undecided.ends,
    )
    return SourcedPoint(record, tuple(dict.fromkeys((*sourced.inputs, *other.inputs))))


_OPEN = (
    *("iteration_s", "interval_by_compute_s", "interval_by_scaling_s", "images_per_s", "speedup", "efficiency"),
    *("communication_s", "exposed_communication_s", "communication_error", "limited_by", "limit_share"),
    *("limiting_link", "link_share"),
)  # of an open point: what is not decided


def _gpu(point: Point, clock_Hz: float | None) -> PredictedGpu:
    device = point.deployment.described.gpus[point.devices[0]]
    part = point.deployment.described.gpu_part(point.devices[0])
    unsaid = part.clock_Hz.source if part.clock_Hz.stated is None else "the trace does not say"
    return PredictedGpu(
        part=device.part_name,
        chip=part.chip or device.part_name,
        clock_Hz=known(Unknown(unsaid) if clock_Hz is None else clock_Hz),
        memory_Bps=part.memory_Bps.value,
    )


def _compute_input(iteration: Iteration) -> tuple[RecordInput, ...]:
    point, compute = iteration.point, iteration.computes[0]
    by_source, error = compute.device or compute, iteration.errors.compute
    what = f"{COMPUTE}{point.subject.label} on {point.deployment.described.name}"
    if point.subject.rates is not None:
        what += f", {point.subject.rates.in_short(point.shares[0][0])}"
    if compute.device is not None:
        error = compute.device.error
    inputs = [RecordInput(what, by_source.note, compute.origin, compute.where, error)]
    if compute.launch is not None and compute.launch.time_s:
        what, value = f"launching a step of {point.subject.label}", f"{compute.launch.text()}, by its host"
        inputs.append(RecordInput(what, value, "assumed", "prediction/host_step.py", compute.launch.spread - 1))
    if said := _taken_of_rates(iteration):
        off = Unknown(UNCHECKED) if compute.again_error is None else compute.again_error
        inputs.append(RecordInput("the given rate", said, "assumed", "prediction/compute.py", off))
    return tuple(inputs)


def _taken_of_rates(iteration: Iteration) -> str:
    """What steps a given rate is taken to be of, where these are no plain ones; "" where they are."""
    request, rates = iteration.point.subject.request, iteration.point.subject.rates
    if request is None or rates is None:
        return ""
    adamw = request.optimizer.kind == "adamw" and rates.source == "stated"  # a record says its optimizer
    again = "of steps that keep all; computing blocks again is modelled" * request.checkpointing
    return ", and ".join(filter(None, [again, "of the same optimizer, adamw" * adamw]))


def _exchange_input(iteration: Iteration) -> tuple[RecordInput, ...]:
    """Where the cost of the messages is from; empty where none are sent."""
    point, exchange = iteration.point, iteration.exchange
    if not exchange.messages or exchange.calibrated == SHOWN_BY_RATES.source:  # scaling has those
        return ()
    system = point.deployment.described.name
    if exchange.limiting_link is None:
        return (_traced_messages(point, exchange),)
    what = f"{_exchanged(point)} on {point.gpus} GPUs of {system} with {point.deployment.library}"
    origin = _measured_origin(point) if exchange.calibrated else point.deployment.links_origin
    links = f"not calibrated: the links of {system}, each with its source"
    if (lab := point.deployment.lab) is not None:
        links = f"the links of {system}, shaped to 1/{lab.scale:g} of their rates"
    source = exchange.calibrated or links
    return (RecordInput(what, f"limited by {exchange.limiting_link}", origin, source, exchange.modelled_error),)


def _scaling_input(iteration: Iteration) -> tuple[RecordInput, ...]:
    """What scaling costs beyond messages, and how far off predictions of such scaling were."""
    error, point = iteration.scaling_error, iteration.point
    residual = point.setting.residual if point.gpus > 1 else None
    paths = point.deployment.staged_on(point.gpus)  # how GPUs that are no peers share the host
    what = f"scaling by {ScalingKind.of_point(point).text if paths is None else paths.link}"
    if residual is not None:
        rates = residual.rates
        origin: Origin = measured_on(rates.nodes) if rates.source == "measured" else "assumed"
        off = CPU_RANKS_ERROR if error is None else max(error.slower, error.faster)
        return (RecordInput(what, residual.text(point.gpus), origin, rates.where, off),)
    if error is None:
        return ()
    variation = (point.setting.costs or scaling_errors().costs).variation
    measured = iteration.computes[0].jitter is not None
    value = "ranks wait for the slowest: " + ("as the trace varies" if measured else f"steps vary by {variation:.1%}")
    whose = f"{error.points} rates of {error.systems} system{'s' * (error.systems != 1)}, each left out of the fit"
    return (
        RecordInput(
            what, value, "published", f"results/published/scaling-errors.yaml: {whose}", max(error.slower, error.faster)
        ),
    )


def _exchanged(point: Point) -> str:
    strategy = point.subject.strategy
    return f"parameter server ({strategy.device})" if isinstance(strategy, Server) else "all-reduce"


def _traced_messages(point: Point, exchange: Exchange) -> RecordInput:
    """Messages that are taken from the trace; one that does not say its GPUs is taken to be of these."""
    trace = point.subject.trace
    unsaid = trace is not None and not any(batch.communication_gpus for batch in trace.batches)
    value = "each layer's as traced" + "; the trace does not say on how many GPUs" * unsaid
    origin: Origin = "assumed" if unsaid else "published"
    return RecordInput(f"messages between {point.gpus} GPUs", value, origin, exchange.calibrated, exchange.error)


def _input_inputs(iteration: Iteration) -> tuple[RecordInput, ...]:
    return tuple(line for times in iteration.inputs for line in times.inputs)


def _measured_origin(point: Point) -> Origin:
    """Where the measured all-reduces are from."""
    measured = point.deployment.measured_on(point.gpus)
    return "published" if measured is None or measured.nodes is None else measured_on(measured.nodes)


# ---- points that cannot run -----------------------------------------------------------------------------------------


def missing(
    point: Point, outcome: Literal["oom", "refused"], reason: str, memory: MemoryNeed | None = None
) -> SourcedPoint:
    """A point that cannot run, or of which nothing can be predicted; `memory`: what is known of its need."""
    unknown = Unknown(reason)
    need = memory or MemoryNeed(unknown, unknown)
    return SourcedPoint(
        PredictedPoint(
            **_described(point),
            outcome=outcome,
            reason=reason,
            iteration_s=known(unknown),
            interval_s=known(unknown),
            interval_by_compute_s=known(unknown),
            interval_by_scaling_s=known(unknown),
            images_per_s=known(unknown),
            speedup=known(unknown),
            speedup_interval=known(unknown),
            efficiency=known(unknown),
            efficiency_interval=known(unknown),
            baseline_gpus=known(unknown),
            compute_s=known(unknown),
            communication_s=known(unknown),
            exposed_communication_s=known(unknown),
            input_s=known(unknown),
            input_error=known(unknown),
            limited_by=known(unknown),
            limit_share=known(unknown),
            limiting_link=known(unknown),
            link_share=known(unknown),
            memory_bytes=known(need.needed_bytes),
            memory_capacity_bytes=known(need.capacity_bytes),
            gpu=known(unknown),
            compute_source=known(unknown),
            compute_note="",
            compute_where="",
            compute_error=known(unknown),
            communication_error=known(unknown),
            sensitivity=[],
            timeline=[],
        )
    )
