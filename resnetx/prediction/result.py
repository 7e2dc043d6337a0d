"""Predicted points as records: of a simulated iteration, or of a point that cannot run, with the reason.

    prediction(predicted_curves([curve]), [], {"words": "gx8 alexnet"})    # the record: with its inputs, and its date

What cannot be known is an `Unknown` in a point until it is sealed (`record.sealing`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import exp, log
from typing import Any, Literal

import msgspec

from resnetx import __version__
from resnetx.choices import Server, Strategy
from resnetx.loading import own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.iteration import CPU_RANKS_ERROR, Iteration, deviation_of_ratio
from resnetx.prediction.memory import Memory, doubt_of
from resnetx.prediction.messages import NO_LINK, Exchange
from resnetx.prediction.open_points import Undecided
from resnetx.prediction.scaling import (
    ANY,
    LEVEL,
    ONE_NODE,
    KindError,
    group_text,
    scaling_errors,
    scaling_kind,
    variation,
)
from resnetx.prediction.scenario import SHOWN_BY_RATES, Point
from resnetx.record import SCHEMA, Unknown, known, seal
from resnetx.record.prediction import (
    COMPUTE,
    RESCALED,
    UNCHECKED,
    Domain,
    Origin,
    PredictedGpu,
    PredictedPoint,
    Prediction,
    PredictionInput,
    Sensitivity,
    TimePart,
    digest,
    measured_on,
)
from resnetx.request import Request
from resnetx.settings.files import PUBLISHED
from resnetx.units import how_many


@dataclass(frozen=True)
class SourcedPoint:
    """A predicted point, and what it was predicted from."""

    point: PredictedPoint  # with an `Unknown` where a field cannot be known, until it is sealed
    inputs: tuple[PredictionInput, ...] = ()  # none where nothing is predicted
    iteration: Iteration | Undecided | None = None  # while others of its curve are compared with it; null: likewise

    def of_curve(self, varied: Mapping[str, str]) -> "SourcedPoint":
        """The point as its curve keeps it: with the settings that tell this from others, and no iteration."""
        point = msgspec.structs.replace(self.point, varied=dict(varied)) if varied else self.point
        return SourcedPoint(point, self.inputs)


def missing(
    point: Point, outcome: Literal["oom", "refused"], reason: str, memory: Memory | None = None
) -> SourcedPoint:
    """A point that cannot run, or of which nothing can be predicted; `memory`: what is known of its need."""
    unknown = Unknown(reason)
    return SourcedPoint(_asked(point, outcome, reason, memory or (unknown, unknown)))


def _asked(point: Point, outcome: Literal["ok", "oom", "refused"], reason: str, memory: Memory) -> PredictedPoint:
    """What is asked for, and nothing of what is predicted."""
    workload = point.workload
    unknown: Any = known(Unknown(reason))
    request = Unknown("from an imported trace") if workload.request is None else _as_run(workload.request, point)
    intensity = (
        Unknown("from an imported trace, which has no activations")
        if workload.intensity is None
        else workload.intensity * point.batch_size / point.gpus
    )
    return PredictedPoint(
        request=known(request),
        workload=workload.label,
        batch_size=point.batch_size,
        scaling=workload.scaling,
        strategy=workload.strategy.kind,
        framework=point.setting.framework or "",
        precision=workload.precision,
        system=point.deployment.described.name,
        library=point.deployment.library,
        gpus=point.gpus,
        devices=list(point.devices),
        gradient_bytes=workload.gradient_bytes,
        intensity_per_gpu=known(intensity),
        outcome=outcome,
        reason=reason,
        memory_bytes=known(memory[0]),
        memory_capacity_bytes=known(memory[1]),
        compute_note="",
        compute_where="",
        **dict.fromkeys(_PREDICTED, unknown),
        sensitivity=[],
        timeline=[],
    )


_OPEN = (
    *("iteration_s", "interval_by_compute_s", "interval_by_scaling_s", "images_per_s", "speedup", "efficiency"),
    *("communication_s", "exposed_communication_s", "communication_error", "limited_by", "limit_share"),
    *("limiting_link", "link_share"),
)  # of an open point: what is not decided
_PREDICTED = (
    *_OPEN,
    *("interval_s", "speedup_interval", "efficiency_interval", "baseline_gpus", "compute_s", "input_s", "input_error"),
    *("gpu", "compute_source", "compute_error"),
)  # of a point that cannot run: what is null


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
    iteration: Iteration, memory: Memory, base: Iteration | Undecided | None, sensitivity: list[Sensitivity]
) -> SourcedPoint:
    """The point of an iteration. Its speed-up is over `base`, or over itself."""
    point, exchange, compute = iteration.point, iteration.exchange, iteration.steps[0]
    base = base or iteration
    speedup, interval = speedup_over(base, iteration)
    of_linear = base.point.gpus / point.gpus
    efficiency = speedup if isinstance(speedup, Unknown) else speedup * of_linear
    ends = interval if isinstance(interval, Unknown) else [end * of_linear for end in interval]
    parts: list[TimePart] = []  # none where the other's rate is not known, or it has more GPUs
    if isinstance(base, Iteration) and of_linear <= 1 and isinstance(efficiency, float) and isinstance(ends, list):
        parts = iteration.parts_over(base, efficiency, ends)
    no_messages = Unknown("one rank sends nothing" if point.gpus == 1 else "no gradients are exchanged")
    no_link = Unknown(NO_LINK) if exchange.messages else no_messages
    record = msgspec.structs.replace(
        _asked(point, "ok", "", memory),
        iteration_s=iteration.time_s,
        interval_s=iteration.interval_s,
        interval_by_compute_s=iteration.interval_by_compute_s,
        interval_by_scaling_s=iteration.interval_by_scaling_s,
        images_per_s=iteration.images_per_s,
        rate_known=iteration.given_error is not None,
        speedup=speedup,
        speedup_interval=interval,
        efficiency=efficiency,
        efficiency_interval=ends,
        baseline_gpus=base.point.gpus,
        compute_s=iteration.slowest.device_s,
        communication_s=exchange.time_s,
        exposed_communication_s=iteration.saved_share["communication"] * iteration.time_s,
        input_s=iteration.input_s,
        parts=parts,
        input_error=iteration.input_error if iteration.input_s else Unknown("nothing is read or copied"),
        limited_by=iteration.limited_by,
        limit_share=iteration.saved_share[iteration.limited_by],
        limiting_link=no_link if exchange.limiting_link is None else exchange.limiting_link,
        link_share=no_link if exchange.link_share is None else exchange.link_share,
        gpu=_gpu(point, compute.clock_Hz),
        compute_source=compute.source,
        compute_note=compute.note,
        compute_where=compute.where,
        compute_error=iteration.compute_error[1],
        communication_error=exchange.error if exchange.messages else no_messages,
        sensitivity=sensitivity,
        timeline=iteration.timeline() if point.setting.timeline else [],
    )
    inputs = (_compute_input, _exchange_input, _scaling_input)
    lines = (line for lines in inputs for line in lines(iteration))
    fed = (line for step in iteration.steps for line in step.inputs)
    return SourcedPoint(record, (*lines, *_memory_input(point, memory), *fed), iteration)


def speedup_over(base: Iteration | Undecided, iteration: Iteration) -> tuple[float | Unknown, list[float] | Unknown]:
    """How many times as fast as another iteration one is, with its interval."""
    if isinstance(base, Undecided):
        on = how_many(base.point.gpus, base.point.deployment.unit)
        unknown = Unknown(f"the rate of {on}, which it is over, is known between two ends only")
        return unknown, unknown
    speedup = iteration.images_per_s / base.images_per_s
    if base is iteration:
        return speedup, [speedup, speedup]
    low, high = deviation_of_ratio(base.deviations, iteration.deviations)
    (base_faster, base_slower), (faster, slower) = (
        [log(end_s / each.time_s) for end_s in each.interval_s] for each in (base, iteration)
    )  # it is no further off than both rates may be
    return speedup, [speedup * exp(end) for end in (max(low, base_faster - slower), min(high, base_slower - faster))]


def opened(
    undecided: Undecided, fast: Iteration, slow: Iteration, memory: Memory, base: Iteration | Undecided | None
) -> SourcedPoint:
    """A point of which no more is known than its two ends, each with its errors."""
    sourced, other = (predicted(iteration, memory, base, []) for iteration in (fast, slow))
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
    return SourcedPoint(record, tuple(dict.fromkeys((*sourced.inputs, *other.inputs))), undecided)


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


def _compute_input(iteration: Iteration) -> tuple[PredictionInput, ...]:
    point, compute = iteration.point, iteration.steps[0]
    by_source, error = compute.device or compute, iteration.compute_error[1]
    what = f"{COMPUTE}{point.workload.label} on {point.deployment.described.name}"
    if point.workload.rates is not None:
        what += f", {point.workload.rates.in_short(point.shares[0][0])}"
    if compute.device is not None:
        error = math.expm1(compute.device.error)  # of a roofline it is a logarithm
    inputs = [PredictionInput(what, by_source.note, compute.origin, compute.where, error)]
    if compute.launch is not None and compute.launch.time_s:
        what, value = f"launching a step of {point.workload.label}", f"{compute.launch.text()}, by its host"
        inputs.append(
            PredictionInput(what, value, "assumed", "prediction/host_step.py", max(compute.launch.spread) - 1)
        )
    if said := _taken_of_rates(iteration):
        off = UNCHECKED if compute.again_error is None else compute.again_error
        inputs.append(PredictionInput("the given rate", said, "assumed", "prediction/compute.py", off))
    return tuple(inputs)


def _taken_of_rates(iteration: Iteration) -> str:
    """What steps a given rate is taken to be of, where these are no plain ones; "" where they are."""
    request, rates = iteration.point.workload.request, iteration.point.workload.rates
    if request is None or rates is None:
        return ""
    adamw = request.optimizer.kind == "adamw" and rates.source == "stated"  # a record says its optimizer
    again = "of steps that keep all; computing blocks again is modelled" * request.checkpointing
    graph = "of steps that are CUDA graphs, too" * (request.graph and rates.source == "stated")
    return ", and ".join(filter(None, [again, graph, "of the same optimizer, adamw" * adamw]))


def _exchange_input(iteration: Iteration) -> tuple[PredictionInput, ...]:
    """Where the cost of the messages is from; empty where none are sent."""
    point, exchange = iteration.point, iteration.exchange
    if not exchange.messages or exchange.calibrated == SHOWN_BY_RATES.source:  # scaling has those
        return ()
    system = point.deployment.described.name
    if exchange.limiting_link is None:
        return (_traced_messages(point, exchange),)
    on = f"{how_many(point.gpus, point.deployment.unit)} of {system}"
    what = f"{_exchanged(point.workload.strategy)} on {on} with {point.deployment.library}"
    origin = _measured_origin(point) if exchange.calibrated else point.deployment.links_origin
    links = f"not calibrated: the links of {system}, each with its source"
    if (lab := point.deployment.lab) is not None:
        links = f"the links of {system}, shaped to 1/{lab.scale:g} of their rates"
    source = exchange.calibrated or links
    flow = f"; {exp(exchange.slower):.1f} times as long if a cloud keeps a TCP flow to 5 Gb/s" * (exchange.slower > 0)
    value = f"limited by {exchange.limiting_link}{flow}"
    return (PredictionInput(what, value, origin, source, exchange.modelled_error),)


def _memory_input(point: Point, memory: Memory) -> tuple[PredictionInput, ...]:
    """That the GPU has room by a known rate and not by count; empty where both say so."""
    if not (doubt := doubt_of(point, memory)) or point.workload.rates is None:
        return ()
    what, said = f"room on a GPU of {point.deployment.described.name}", f"enough, by {point.workload.rates.where}"
    value = f"{said}; by count a step {doubt} (memory= decides)"
    return (PredictionInput(what, value, "assumed", "prediction/memory.py", UNCHECKED),)


def _scaling_input(iteration: Iteration) -> tuple[PredictionInput, ...]:
    """What scaling costs beyond messages, and how far off predictions of such scaling were."""
    error, point = iteration.scaling_error, iteration.point
    residual = point.setting.residual if point.gpus > 1 else None
    compared = _compared(point)
    what = f"scaling by {compared}"
    if residual is not None:
        rates = residual.rates
        origin: Origin = measured_on(rates.nodes) if rates.source == "measured" else "assumed"
        off = CPU_RANKS_ERROR if error is None else max(error.slower, error.faster)
        off = off if iteration.given_error is None else iteration.given_error
        return (PredictionInput(what, residual.text(point.gpus, point.deployment.unit), origin, rates.where, off),)
    if error is None:
        if point.gpus == 1 or point.deployment.lab is not None:  # where all that was measured is told
            return ()
        value, where = "ranks share the cores of one host", "results/cpu-2core/truth"
        return (PredictionInput(what, value, "measured on cpu-2core", where, CPU_RANKS_ERROR),)
    measured = iteration.steps[0].jitter is not None
    value = "ranks wait for the slowest: " + (
        "as the trace varies" if measured else f"steps vary by {variation(point):.1%}"
    )
    kind: tuple[str, str, str] = scaling_kind(point)
    if is_known := compared.startswith(_OF_TRANSFORMERS):
        kind = ("allreduce", kind[1].partition(",")[0], "transformers")
    alike = scaling_errors().of(kind)
    whose = f"{alike.points} rates of {alike.systems} system{'s' * (alike.systems != 1)}, each left out of the fit"
    if not is_known and compared not in (group_text(*kind), point.paths and point.paths.link):
        whose = f"taken to be as of image networks under DDP ({whose})"
    return (
        PredictionInput(
            what, value, "published", f"results/published/scaling-errors.yaml: {whose}", max(error.slower, error.faster)
        ),
    )


_OF_TRANSFORMERS, _TRANSFORMERS = "transformers, ", {"bucket": "DDP", "fsdp": "FSDP"}
_GLOO = "gloo between ranks on CPU cores"  # of domains.yaml


def _compared(point: Point) -> str:
    """How it scales, as what such predictions were compared with is named in a record's domains.

    Published rates of several GPUs are of networks for images, by DDP or its like in buckets and by parameter servers,
    and of transformers by DDP and FSDP. What nothing was compared with has a name that no domain has.
    """
    request, strategy, kind = point.workload.request, point.workload.strategy.kind, scaling_kind(point)
    if point.deployment.on_cpus or point.deployment.lab is not None:
        alike = point.gpus == 2 and strategy in ("bucket", "layerwise", "after")
        return _GLOO if alike else f"strategy={strategy} over gloo between {how_many(point.gpus, 'rank')}"
    if point.paths is not None and strategy == "bucket":
        return point.paths.link if kind[1] == ONE_NODE else f"{point.paths.link}, {kind[1]}"
    model, nodes = None if request is None else request.model, kind[1].partition(",")[0]
    like = "images" if model is None else model.scales_like
    if like == "transformers" and strategy in _TRANSFORMERS:
        return f"{_OF_TRANSFORMERS}{_TRANSFORMERS[strategy]}, {nodes}"
    if strategy not in ("bucket", "server"):
        return f"strategy={strategy}, {nodes}"
    if model is not None and like != "images":
        return f"{model.label} by strategy={strategy}, {nodes}"
    return group_text(*kind)


def _exchanged(strategy: Strategy) -> str:
    """What gradients, and parameters, are sent by."""
    if isinstance(strategy, Server):
        return f"parameter server ({strategy.device})"
    return {"fsdp": "all-gather and reduce-scatter", "zero1": "all-reduce and broadcasts"}.get(
        strategy.kind, "all-reduce"
    )


def _traced_messages(point: Point, exchange: Exchange) -> PredictionInput:
    """Messages that are taken from the trace; one that does not say its GPUs is taken to be of these."""
    trace = point.workload.trace
    unsaid = trace is not None and not any(batch.communication_gpus for batch in trace.batches)
    value = "each layer's as traced" + "; the trace does not say on how many GPUs" * unsaid
    origin: Origin = "assumed" if unsaid else "published"
    ranks = how_many(point.gpus, point.deployment.unit)
    return PredictionInput(f"messages between {ranks}", value, origin, exchange.calibrated, exchange.error)


def _measured_origin(point: Point) -> Origin:
    """Where the measured all-reduces are from."""
    measured = point.deployment.measured_on(point.gpus)
    return "published" if measured is None or measured.nodes is None else measured_on(measured.nodes)


# ---- the record -----------------------------------------------------------------------------------------------------


def prediction(
    points: Sequence[SourcedPoint], asked: Sequence[PredictionInput], settings: Mapping[str, str]
) -> Prediction:
    """The record of these points, as of now; `asked`: inputs that the user has set."""
    sealed = seal(
        Prediction(
            kind="prediction",
            schema=SCHEMA,
            resnetx=__version__,
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            digest="",
            settings=dict(settings),
            inputs=list(_inputs_of(points, asked)),
            domains=list(domains(in_lab=any(_in_lab(sourced.point) for sourced in points))),
            points=[sourced.point for sourced in points],
            unknown={},
            interval_level=LEVEL,
        )
    )
    return msgspec.structs.replace(sealed, digest=digest(sealed))


class _Points(msgspec.Struct):
    points: list[PredictedPoint]
    unknown: dict[str, str]


def sealed_points(points: Sequence[SourcedPoint]) -> list[PredictedPoint]:
    """The points by themselves, where no record is kept of them."""
    return seal(_Points([sourced.point for sourced in points], {})).points


def _inputs_of(points: Sequence[SourcedPoint], asked: Sequence[PredictionInput]) -> Iterator[PredictionInput]:
    """Inputs, each once: compute source, collectives, input pipeline, memory, and what the user asked for.

    Of those that differ in their errors alone, the one with the largest.
    """
    lines: dict[tuple[str, str], PredictionInput] = {}
    for line in (line for sourced in points for line in sourced.inputs):
        before = lines.setdefault((line.what, line.value), line)
        if isinstance(before.error, float) and isinstance(line.error, float) and line.error > before.error:
            lines[line.what, line.value] = msgspec.structs.replace(before, error=line.error)
    yield from lines.values()
    if any(isinstance(sourced.point.memory_bytes, int) for sourced in points):
        memory = "what a step keeps in memory, by the layer table, and 600 MB of the framework"
        yield PredictionInput("memory", memory, "assumed", "prediction/memory.py", UNCHECKED)
    yield from asked


def _in_lab(point: PredictedPoint) -> bool:
    return isinstance(point.request, Request) and point.request.lab is not None  # else of an imported trace


@cache
def domains(in_lab: bool = False) -> tuple[Domain, ...]:
    """Where predictions were compared with measurements: scaling, rates of one GPU, and `domains.yaml`.

    In the lab only what was measured there tells anything: its computing is waited out, and its messages are gloo's.
    """
    known = own_yaml(PUBLISHED / "domains.yaml", dict[str, list[Domain]])
    if in_lab:
        return tuple(known["lab"])
    kinds = [kind for kind in scaling_errors().kinds if kind.exchange != ANY]
    of_one = [roofline.fitted(), *roofline.transformer_fits().values()]
    rescaled = map(_rescaled_domain, roofline.rescalings().values())
    return (*map(_scaling_domain, kinds), *map(_one_gpu_domain, of_one), *rescaled, *known["domains"])


def _scaling_domain(error: KindError) -> Domain:
    return Domain(
        what=f"rates of several GPUs from that of one, systems left out: {error.text}",
        points=error.points,
        mean_error=error.mean,
        worst_error=error.worst,
        source="resnetx predict --validate",
    )


def _one_gpu_domain(fit: roofline.Roofline) -> Domain:
    of = "the roofline of all GPUs" if fit.generation == roofline.ALL else f"that of {fit.generation}"
    return Domain(
        what=f"published rates of one GPU, programs of others, by {of}, each by a fit to the others",
        points=fit.rows,
        mean_error=fit.error,
        worst_error=fit.worst_error,
        source="results/published/roofline.yaml",
    )


def _rescaled_domain(error: roofline.Rescaling) -> Domain:
    return Domain(
        what=f"{RESCALED}: {error.kind}",
        points=error.pairs,
        mean_error=error.mean,
        worst_error=error.worst,
        source="results/published/rescaled.yaml",
    )
