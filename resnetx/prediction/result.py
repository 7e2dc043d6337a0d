"""What comes out of a simulated job: times, rates, what limits, how sure; and the fields of points without any."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from resnetx.prediction.compute import Compute
from resnetx.prediction.input import RATE_ERRORS, Fed
from resnetx.prediction.messages import Exchange
from resnetx.prediction.scenario import Point
from resnetx.prediction.ssgd import Job, iteration_s, timeline
from resnetx.prediction.step import AS_IT_IS, Errors, Stretch
from resnetx.record import Unknown
from resnetx.record.prediction import Limit, Origin, PredictedTask
from resnetx.request import Request

DIGITS = 3  # of a saved share; of parts that save alike, the one that takes longest alone is named
HOST_ERROR = RATE_ERRORS["assumed"]  # `host_time` is a figure that somebody asks for, as a rate that is assumed


def opening(point: Point) -> dict[str, Any]:
    """What is known of a point before anything is predicted."""
    subject = point.subject
    no_activations = Unknown("from an imported trace, which has no activations")
    return {
        "request": Unknown("from an imported trace") if subject.request is None else _as_run(subject.request, point),
        "workload": subject.label,
        "batch_size": point.batch_size,
        "scaling": subject.scaling,
        "strategy": subject.strategy.kind,
        "precision": subject.precision,
        "system": point.fabric.described.name,
        "library": point.fabric.library,
        "gpus": point.gpus,
        "devices": list(point.devices),
        "gradient_bytes": subject.gradient_bytes,
        "intensity_per_gpu": no_activations
        if subject.intensity is None
        else subject.intensity * point.batch_size / point.gpus,
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


def answer(job: Job, sent: Exchange, computes: Sequence[Compute], fed: Sequence[Fed], point: Point) -> dict[str, Any]:
    """The predicted fields of a point."""
    whole_s = iteration_s(job)
    slowest = max((each.step for each in job.classes), key=lambda step: step.compute_s)
    input_s = slowest.input_s + slowest.host_to_device_s
    alone_s: dict[Limit, float] = {
        "compute": slowest.compute_s,
        "communication": sent.time_s,
        "input": input_s,
        "host": slowest.host_s + slowest.queue_s,
    }
    saved = _saved(job, whole_s, alone_s)
    limit = max(saved, key=lambda name: (round(saved[name], DIGITS), alone_s[name]))
    alone = Unknown("one rank sends nothing" if point.gpus == 1 else "no gradients are exchanged")
    errors = _errors(sent, computes, fed)
    return {
        "outcome": "ok",
        "reason": "",
        "iteration_s": whole_s,
        "interval_s": _interval_s(job, whole_s, errors),
        "interval_by_compute_s": _interval_s(job, whole_s, Errors(compute=errors.compute)),
        "images_per_s": point.batch_size / whole_s,
        "compute_s": slowest.compute_s,
        "communication_s": sent.time_s,
        "exposed_communication_s": saved["communication"] * whole_s,
        "input_s": input_s,
        "input_error": max(each.error for each in fed) if input_s else Unknown("nothing is read or copied"),
        "limited_by": limit,
        "limit_share": saved[limit],
        "limiting_link": alone if sent.limiting_link is None else sent.limiting_link,
        "link_share": alone if sent.link_share is None else sent.link_share,
        "gpu": _gpu(point, computes[0].clock_Hz),
        "compute_source": computes[0].source,
        "compute_note": computes[0].note,
        "compute_where": computes[0].where,
        "compute_error": errors.compute,
        "communication_error": sent.error if sent.messages else alone,
        "compute_origin": computes[0].origin,  # these for the record's list of what went in
        "communication_origin": _origin(point) if sent.calibrated else point.fabric.links_origin,
        "communication_where": sent.calibrated,
        "input_from": [line for each in fed for line in each.inputs],
    }


def _origin(point: Point) -> Origin:
    """Where the measured all-reduces are from."""
    found = point.fabric.measured_on(point.gpus)
    return "measured here" if found is not None and found.here else "published"


def _gpu(point: Point, clock_Hz: float | None) -> dict[str, Any]:
    """The fields of a `PredictedGpu`."""
    device = point.fabric.described.gpus[point.devices[0]]
    part = point.fabric.described.gpu_part(point.devices[0])
    return {
        "part": device.part_name,
        "chip": part.chip or device.part_name,
        "clock_Hz": Unknown("the trace does not say") if clock_Hz is None else clock_Hz,
        "memory_Bps": part.memory_Bps.value,
    }


def _saved(job: Job, whole_s: float, alone_s: Mapping[Limit, float]) -> dict[Limit, float]:
    """The share of the iteration that each part would save if it cost nothing; what is hidden saves nothing."""
    without: dict[Limit, tuple[Job, Stretch]] = {
        "compute": (job, Stretch(compute=0.0)),
        "communication": (job.without_messages(), AS_IT_IS),
        "input": (job, Stretch(reading=0.0, copying=0.0)),
        "host": (job, Stretch(host=0.0, queueing=0.0)),
    }
    return {
        name: max(0.0, 1 - iteration_s(*other) / whole_s) if alone_s[name] else 0.0 for name, other in without.items()
    }


def _errors(sent: Exchange, computes: Sequence[Compute], fed: Sequence[Fed]) -> Errors:
    return Errors(
        compute=max(each.error for each in computes),
        messages=sent.error,
        reading=max(each.reading_error for each in fed),
        copying=max(each.copying_error for each in fed),
        host=HOST_ERROR,
        queueing=max(each.queue_error for each in computes),
    )


def _interval_s(job: Job, whole_s: float, errors: Errors) -> list[float]:
    """The iteration with all errors at their best, and with all of them at their worst; it holds the iteration."""
    low_s, high_s = (iteration_s(job, errors.stretch(sign)) for sign in (-1, 1))
    # Sums of other figures round otherwise: where an error changes nothing, an end may differ in its last digit.
    return [min(low_s, whole_s), max(high_s, whole_s)]


def bars(job: Job) -> list[PredictedTask]:
    """An iteration of the slowest class of ranks, and what all of them share."""
    slowest = max(range(len(job.classes)), key=lambda place: job.classes[place].step.compute_s)
    return [
        PredictedTask(name=bar.name, lane=bar.lane, start_s=bar.start_s, end_s=bar.end_s)
        for bar in timeline(job)
        if bar.rank_class in (-1, slowest)
    ]


# ---- points that cannot be ------------------------------------------------------------------------------------------

_PREDICTED = (
    "iteration_s", "interval_s", "interval_by_compute_s", "images_per_s", "compute_s", "communication_s",
    "exposed_communication_s", "input_s", "input_error", "limited_by", "limit_share", "limiting_link", "link_share",
    "gpu", "compute_source", "compute_error", "communication_error",
)  # fmt: skip


def missing(outcome: Literal["oom", "refused"], reason: str) -> dict[str, Any]:
    """The rest of a point that cannot run, or of which nothing can be said."""
    unknown = Unknown(reason)
    unasked = {"memory_bytes": unknown, "memory_capacity_bytes": unknown} if outcome == "refused" else {}
    return {
        **unasked,
        **dict.fromkeys(_PREDICTED, unknown),
        "outcome": outcome,
        "reason": reason,
        "compute_note": "",
        "compute_where": "",
        "sensitivity": [],
        "timeline": [],
    }
