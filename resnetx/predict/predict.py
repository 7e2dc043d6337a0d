"""One point on one system: `predict` is the page to read first.

    subject = Subject.of(request, table)
    predict(subject, load("dgx1-p100"), gpus=4, batch_size=256, setting=Setting())

A prediction is the simulated iteration of `ssgd` with three things put in: what one rank computes (`compute`), what the
ranks send each other (`exchange`) and what feeds them (`feed`). Its interval is the same simulation with each of the
first two as good and as bad as they may be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from resnetx.config import Request, Strategy
from resnetx.interconnect.measured import Measured
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import System
from resnetx.interconnect.what_if import link_kinds, with_bandwidth
from resnetx.predict import compute, exchange, feed, memory
from resnetx.predict.compute import CPU, Compute
from resnetx.predict.exchange import Exchange
from resnetx.predict.ssgd import HostShare, Job, Overlap, RankClass, iteration_s, timeline
from resnetx.record import Unknown
from resnetx.record.prediction import Limit, PredictedTask, Sensitivity
from resnetx.record.trace import Trace
from resnetx.workloads import counts
from resnetx.workloads.buckets import Gradient, ready_order
from resnetx.workloads.counts import Layer

BETTER = 2.0  # how much better each thing is made to see what it is worth
_BYTES_EACH = {"fp32": 4, "bf16": 2, "fp16": 2}  # of an element of the gradients that are sent


@dataclass(frozen=True)
class Subject:
    """What is trained: a request with its layer table, an imported trace, or both a request and a trace of it."""

    label: str
    strategy: Strategy
    precision: str
    gradients: tuple[Gradient, ...]  # in the order in which they become ready
    request: Request | None = None
    layers: tuple[Layer, ...] | None = None
    trace: Trace | None = None
    intensity: float | None = None  # of one image

    @classmethod
    def of(cls, request: Request, layers: Sequence[Layer], convention: str, trace: Trace | None = None) -> "Subject":
        """A workload that is known by name."""
        activations = counts.activations(layers, request.image_size, convention)
        return cls(
            request.model.label,
            request.strategy,
            request.precision,
            ready_order(layers, request.precision),
            request,
            tuple(layers),
            trace,
            counts.intensity(activations, counts.parameters(layers, convention), 1),
        )

    @classmethod
    def of_import(cls, trace: Trace, strategy: Strategy) -> "Subject":
        """A workload of which no more is known than its imported trace: a layer's gradients are one tensor."""
        times = trace.batches[0].times
        gradients = tuple(
            Gradient(layer.name, layer.gradient_bytes // counts.BYTES_PER_PARAMETER)
            for layer in reversed(times.layers)
            if layer.gradient_bytes
        )
        return cls(trace.workload, strategy, "fp32", gradients, trace=trace)

    @property
    def gradient_bytes(self) -> int:
        return sum(gradient.size_bytes for gradient in self.gradients)


@dataclass(frozen=True)
class Setting:
    """How it is trained, and with what changed."""

    library: str | None = None  # null: the system's own
    transport: Transport = "auto"
    devices: tuple[int, ...] | None = None
    measured: Mapping[int | None, Measured] = field(default_factory=dict)  # all-reduces to calibrate with, by GPU count
    overlap: Overlap = field(default_factory=Overlap)
    gradients: str = "fp32"  # in which precision they are sent
    straggler: float = 1.0  # how many times as long one of the ranks computes
    host_s: float = 0.0  # of the host in each iteration, while the device waits
    memory_bytes: int | None = None  # of each GPU; null: as described
    memory_model: str = "torch"
    clock_Hz: float | None = None  # of the GPUs where a roofline is used; null: as described
    bandwidth: dict[str, float] = field(default_factory=dict)  # what if links of a kind were that many times as fast
    latency: float = 1.0  # what if the fixed time of a collective were that many times as long
    sensitivity: bool = False
    timeline: bool = False

    def measured_on(self, gpus: int) -> Measured | None:
        """What there is to calibrate with, of this number of GPUs or of an unknown one."""
        return self.measured.get(gpus, self.measured.get(None))


def predict(subject: Subject, system: System, gpus: int, batch_size: int, setting: Setting) -> dict[str, Any]:
    """The fields of a `PredictedPoint`; what cannot be known of it is an `Unknown`."""
    devices = setting.devices or tuple(range(gpus))
    needed = _memory(subject, system, devices, batch_size, setting)
    fields = opening(subject, system, devices, batch_size, setting) | needed
    if _too_much(needed):
        return fields | missing("oom", _reason(needed))
    machine = with_bandwidth(system, setting.bandwidth) if setting.bandwidth else system
    shares = _shares(batch_size, gpus)
    computes = [_compute(subject, machine, devices[0], share, setting) for share, _ in shares]
    sent = _sent(subject, machine, devices, computes[0], setting)
    job = _job(subject, machine, devices, shares, computes, sent, setting)
    fields |= _answer(job, sent, max(each.error for each in computes), batch_size)
    fields |= {
        "outcome": "ok",
        "reason": "",
        "compute_source": computes[0].source,
        "compute_note": computes[0].note,
        "compute_error": max(each.error for each in computes),
        "communication_error": sent.error if sent.messages else Unknown("one rank sends nothing"),
        "compute_origin": computes[0].origin,  # these two for the record's list of what went in
        "compute_where": computes[0].where,
        "sensitivity": _sensitivity(subject, system, gpus, batch_size, setting) if setting.sensitivity else [],
        "timeline": _timeline(job) if setting.timeline else [],
    }
    return fields


# ---- what is put in -------------------------------------------------------------------------------------------------


def _shares(batch_size: int, gpus: int) -> list[tuple[int, int]]:
    """(images, ranks) of each kind of rank: the first ranks have one image more where the batch does not divide."""
    whole, rest = divmod(batch_size, gpus)
    return [(images, ranks) for images, ranks in ((whole + 1, rest), (whole, gpus - rest)) if ranks]


def _compute(subject: Subject, system: System, device: int, share: int, setting: Setting) -> Compute:
    if subject.trace is not None:
        found = compute.of_trace(subject.trace, share, system, device, subject.layers)
    else:
        assert subject.layers is not None and subject.request is not None, "neither a trace nor a layer table"
        gpu, size = system.gpu_part(device), subject.request.image_size
        found = compute.of_roofline(subject.layers, size, share, subject.precision, gpu, setting.clock_Hz)
    return replace(found, step=replace(found.step, host_s=setting.host_s))


def _sent(subject: Subject, system: System, devices: Sequence[int], found: Compute, setting: Setting) -> Exchange:
    if len(devices) == 1:
        return exchange.NOTHING_SENT
    made = exchange.planned(
        system, devices, setting.library, setting.transport, setting.measured_on(len(devices)), setting.latency
    )
    return exchange.exchange(
        made, subject.gradients, subject.strategy, _BYTES_EACH[setting.gradients], found.gradient_copy_Bps
    )


def _job(
    subject: Subject,
    system: System,
    devices: Sequence[int],
    shares: Sequence[tuple[int, int]],
    computes: Sequence[Compute],
    sent: Exchange,
    setting: Setting,
) -> Job:
    classes = []
    for (images, ranks), found in zip(shares, computes, strict=True):
        step = feed.fed(found.step, subject.request, subject.trace, system, devices, images)
        if sent.messages:
            step = step.copying_gradients(1 / found.gradient_copy_Bps)
        classes.append(RankClass(ranks, step))
    if setting.straggler != 1.0:
        classes = _with_straggler(classes, setting.straggler)
    gloo = sent.library == "gloo"
    host = _host(subject, system, len(devices), setting) if gloo else None
    return Job(tuple(classes), sent.messages, setting.overlap, at_once=2 if gloo else 1, host=host)


def _with_straggler(classes: list[RankClass], slowness: float) -> list[RankClass]:
    """One rank of the first class computes that many times as long."""
    first, *others = classes
    slow = RankClass(1, first.step.slowed(slowness))
    rest = [replace(first, ranks=first.ranks - 1)] if first.ranks > 1 else []
    return [slow, *rest, *others]


def _host(subject: Subject, system: System, ranks: int, setting: Setting) -> HostShare | None:
    """Ranks on CPUs share its cores with the threads that move their gradients."""
    if CPU not in system.gpu_part(0).product_names or subject.trace is None or subject.trace.cpus is None:
        return None
    threads = subject.trace.request.threads if subject.trace.request else 1
    measured = setting.measured_on(ranks)
    sending = 1.0 if measured is None or measured.cpu_share is None else measured.cpu_share
    return HostShare(subject.trace.cpus, threads, sending, reading=1.0)


# ---- what comes out -------------------------------------------------------------------------------------------------


def opening(
    subject: Subject, system: System, devices: Sequence[int], batch_size: int, setting: Setting
) -> dict[str, Any]:
    """What is known of a point before anything is predicted."""
    gpus = len(devices)
    request = Unknown("from an imported trace")
    return {
        "request": _as_run(subject.request, gpus, batch_size, setting) if subject.request else request,
        "workload": subject.label,
        "batch_size": batch_size,
        "strategy": subject.strategy.kind,
        "precision": subject.precision,
        "system": system.name,
        "library": setting.library or system.library,
        "gpus": gpus,
        "devices": list(devices),
        "gradient_bytes": subject.gradient_bytes,
        "intensity_per_gpu": Unknown("from an imported trace, which has no activations")
        if subject.intensity is None
        else subject.intensity * batch_size / gpus,
    }


def _as_run(request: Request, gpus: int, batch_size: int, setting: Setting) -> Request:
    """The point as `train` would run it."""
    split: Literal["even", "uneven"] = "uneven" if batch_size % gpus else "even"
    devices = None if setting.devices is None else list(setting.devices)
    return msgspec.structs.replace(
        request, gpus=gpus, batch_size=batch_size, devices=devices, split=split, measure="step"
    )


def _answer(job: Job, sent: Exchange, compute_error: float, batch_size: int) -> dict[str, Any]:
    """Times, rates, what limits, and the interval."""
    whole_s = iteration_s(job)
    without = {
        "communication": job.without_messages() if sent.messages else job,
        "input": job.without_input(),
        "host": job.without_host(),
    }
    saved: dict[Limit, float] = {
        name: max(0.0, 1 - iteration_s(other) / whole_s) if other != job else 0.0  # type: ignore[misc]
        for name, other in without.items()
    }
    saved["compute"] = max(0.0, 1 - sum(saved.values()))
    limit = max(saved, key=lambda name: saved[name])
    slowest = max((each.step for each in job.classes), key=lambda step: step.compute_s)
    nothing = Unknown("one rank sends nothing")
    return {
        "iteration_s": whole_s,
        "interval_s": _interval_s(job, compute_error, sent.error),
        "images_per_s": batch_size / whole_s,
        "compute_s": slowest.compute_s,
        "communication_s": sent.time_s,
        "exposed_communication_s": saved["communication"] * whole_s,
        "input_s": slowest.input_s + slowest.host_to_device_s,
        "limited_by": limit,
        "limit_share": saved[limit],
        "limiting_link": nothing if sent.limiting_link is None else sent.limiting_link,
        "link_share": nothing if sent.link_share is None else sent.link_share,
    }


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


def _timeline(job: Job) -> list[PredictedTask]:
    """The bars of the slowest class of ranks, and of what all of them share."""
    slowest = max(range(len(job.classes)), key=lambda place: job.classes[place].step.compute_s)
    return [
        PredictedTask(name=bar.name, lane=bar.lane, start_s=bar.start_s, end_s=bar.end_s)
        for bar in timeline(job)
        if bar.rank_class in (-1, slowest)
    ]


def _sensitivity(subject: Subject, system: System, gpus: int, batch_size: int, setting: Setting) -> list[Sensitivity]:
    """What the iteration gains if each kind of link is twice as fast, or a collective's fixed time half as long."""
    plain = replace(setting, sensitivity=False, timeline=False)
    changes = {
        f"bandwidth of {kind} x {BETTER:g}": replace(plain, bandwidth={**plain.bandwidth, kind: BETTER})
        for kind in link_kinds(system)
    }
    changes[f"latency of collectives / {BETTER:g}"] = replace(plain, latency=plain.latency / BETTER)
    before_s = predict(subject, system, gpus, batch_size, plain)["iteration_s"]
    found = []
    for what, changed in changes.items():
        after_s = predict(subject, system, gpus, batch_size, changed)["iteration_s"]
        found.append(Sensitivity(what=what, iteration_s=after_s, gain=1 - after_s / before_s))
    return sorted(found, key=lambda each: -each.gain)


# ---- memory ---------------------------------------------------------------------------------------------------------


def _memory(
    subject: Subject, system: System, devices: Sequence[int], batch_size: int, setting: Setting
) -> dict[str, Any]:
    gpu = system.gpu_part(devices[0])
    described: Any = Unknown("ranks share their host's") if CPU in gpu.product_names else round(gpu.memory_bytes.value)
    capacity = described if setting.memory_bytes is None else setting.memory_bytes
    if subject.layers is None or subject.request is None:
        return {"memory_bytes": Unknown("an imported trace has no activations"), "memory_capacity_bytes": capacity}
    share = -(-batch_size // len(devices))
    needed = memory.needed_bytes(
        subject.layers, subject.request.image_size, share, subject.precision, subject.strategy, setting.memory_model
    )
    return {"memory_bytes": needed, "memory_capacity_bytes": capacity}


def _too_much(needed: dict[str, Any]) -> bool:
    sizes = needed["memory_bytes"], needed["memory_capacity_bytes"]
    return not any(isinstance(size, Unknown) for size in sizes) and sizes[0] > sizes[1]


def _reason(needed: dict[str, Any]) -> str:
    has_GB, needs_GB = needed["memory_capacity_bytes"] / 1e9, needed["memory_bytes"] / 1e9
    return f"needs {needs_GB:.1f} GB of memory on each GPU, which has {has_GB:.1f}"


# ---- points that cannot be ------------------------------------------------------------------------------------------

_PREDICTED = (
    "iteration_s", "interval_s", "images_per_s", "compute_s", "communication_s", "exposed_communication_s", "input_s",
    "limited_by", "limit_share", "limiting_link", "link_share", "compute_source", "compute_error",
    "communication_error",
)  # fmt: skip


def missing(outcome: Literal["oom", "refused"], reason: str) -> dict[str, Any]:
    """The rest of a point that cannot run, or of which nothing can be said."""
    unknown = Unknown(reason)
    known = {"memory_bytes": unknown, "memory_capacity_bytes": unknown} if outcome == "refused" else {}
    return {
        **known,
        **dict.fromkeys(_PREDICTED, unknown),
        "outcome": outcome,
        "reason": reason,
        "compute_note": "",
        "sensitivity": [],
        "timeline": [],
    }
