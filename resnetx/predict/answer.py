"""What comes out of a simulated job: times, rates, what limits, how sure; and the fields of points without any."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from resnetx.config import Request
from resnetx.predict.compute import Compute
from resnetx.predict.exchange import Exchange
from resnetx.predict.point import Point
from resnetx.predict.ssgd import Job, iteration_s, timeline
from resnetx.record import Unknown
from resnetx.record.prediction import Limit, Origin, PredictedTask


def opening(point: Point) -> dict[str, Any]:
    """What is known of a point before anything is predicted."""
    subject = point.subject
    no_activations = Unknown("from an imported trace, which has no activations")
    return {
        "request": Unknown("from an imported trace") if subject.request is None else _as_run(subject.request, point),
        "workload": subject.label,
        "batch_size": point.batch_size,
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


def answer(job: Job, sent: Exchange, computes: Sequence[Compute], point: Point) -> dict[str, Any]:
    """The predicted fields of a point."""
    whole_s = iteration_s(job)
    saved = _saved(job, whole_s)
    limit = max(saved, key=lambda name: saved[name])
    slowest = max((each.step for each in job.classes), key=lambda step: step.compute_s)
    alone = Unknown("one rank sends nothing" if point.gpus == 1 else "no gradients are exchanged")
    compute_error = max(each.error for each in computes)
    return {
        "outcome": "ok",
        "reason": "",
        "iteration_s": whole_s,
        "interval_s": _interval_s(job, compute_error, sent.error),
        "images_per_s": point.batch_size / whole_s,
        "compute_s": slowest.compute_s,
        "communication_s": sent.time_s,
        "exposed_communication_s": saved["communication"] * whole_s,
        "input_s": slowest.input_s + slowest.host_to_device_s,
        "limited_by": limit,
        "limit_share": saved[limit],
        "limiting_link": alone if sent.limiting_link is None else sent.limiting_link,
        "link_share": alone if sent.link_share is None else sent.link_share,
        "compute_source": computes[0].source,
        "compute_note": computes[0].note,
        "compute_error": compute_error,
        "communication_error": sent.error if sent.messages else alone,
        "compute_origin": computes[0].origin,  # these for the record's list of what went in
        "compute_where": computes[0].where,
        "communication_origin": _origin(point) if sent.calibrated else point.fabric.links_origin,
        "communication_where": sent.calibrated,
    }


def _origin(point: Point) -> Origin:
    """Where the measured all-reduces are from."""
    found = point.fabric.measured_on(point.gpus)
    return "measured here" if found is not None and found.here else "published"


def _saved(job: Job, whole_s: float) -> dict[Limit, float]:
    """The share of the iteration that each part would save if it cost nothing; computing is what is left."""
    without: dict[Limit, Job] = {
        "communication": job.without_messages(),
        "input": job.without_input(),
        "host": job.without_host(),
    }
    saved = {
        name: 0.0 if other == job else max(0.0, 1 - iteration_s(other) / whole_s) for name, other in without.items()
    }
    return {**saved, "compute": max(0.0, 1 - sum(saved.values()))}


def _interval_s(job: Job, compute_error: float, message_error: float) -> list[float]:
    """The iteration with both errors at their best, and with both at their worst."""
    ends = []
    for sign in (-1, 1):
        slowness = max(0.0, 1 + sign * compute_error)
        classes = tuple(replace(each, step=each.step.slowed(slowness)) for each in job.classes)
        factor = max(0.0, 1 + sign * message_error)
        messages = tuple(replace(each, time_s=each.time_s * factor) for each in job.messages)
        ends.append(iteration_s(replace(job, classes=classes, messages=messages)))
    return ends


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
    "iteration_s", "interval_s", "images_per_s", "compute_s", "communication_s", "exposed_communication_s", "input_s",
    "limited_by", "limit_share", "limiting_link", "link_share", "compute_source", "compute_error",
    "communication_error",
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
        "sensitivity": [],
        "timeline": [],
    }
