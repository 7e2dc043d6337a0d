"""One point on one system: `predict` is the page to read first.

    fabric = Fabric(load("dgx1-p100"), "nccl2")
    predict(Point(Subject.of(request, table, "caffe"), fabric, (0, 1, 2, 3), batch_size=256, setting=Setting()))

A prediction is the simulated iteration of `ssgd` with three things put in: what one rank computes (`compute`), what
the ranks send each other (`messages`) and what feeds them (`input`). Several ranks also wait for the slowest of them,
and on one host they crowd each other. The interval is the same simulation with compute and messages as good and as
bad as they may be (`result`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from resnetx.interconnect.what_if import link_kinds
from resnetx.prediction import compute, input, memory_check, messages
from resnetx.prediction.compute import Compute
from resnetx.prediction.input import Fed
from resnetx.prediction.messages import Exchange
from resnetx.prediction.result import answer, bars, missing, opening
from resnetx.prediction.scenario import Point
from resnetx.prediction.ssgd import HostShare, Job, RankClass
from resnetx.record.prediction import Sensitivity

GLOO_AT_ONCE = 2  # all-reduces: a process group has two threads that run them (torch, ProcessGroupGloo.hpp)
BETTER = 2.0  # how much better each thing is made to see what it is worth
_BYTES_EACH = {"fp32": 4, "bf16": 2, "fp16": 2}  # of an element of the gradients that are sent


def predict(point: Point) -> dict[str, Any]:
    """The fields of a `PredictedPoint`; what cannot be known of it is an `Unknown`."""
    memory = memory_check.memory(point)
    fields = opening(point) | memory
    if reason := memory_check.too_much(memory):
        return fields | missing("oom", reason)
    computes = [compute.of_point(point, images) for images, _ in point.shares]
    fed = [input.fed(found, point, images) for found, (images, _) in zip(computes, point.shares, strict=True)]
    sent = _sent(point, computes[0])
    job = _job(point, computes, fed, sent)
    fields |= answer(job, sent, computes, fed, point)
    fields["sensitivity"] = _sensitivity(point, fields["iteration_s"]) if point.setting.sensitivity else []
    fields["timeline"] = bars(job) if point.setting.timeline else []
    return fields


def _sent(point: Point, found: Compute) -> Exchange:
    if point.gpus == 1:
        return messages.NOTHING_SENT
    plan, subject = point.fabric.plan(point.devices), point.subject
    bytes_each = _BYTES_EACH[point.setting.gradients]
    return messages.exchange(plan, subject.gradients, subject.strategy, bytes_each, found.gradient_copy_Bps)


def _job(point: Point, computes: Sequence[Compute], fed: Sequence[Fed], sent: Exchange) -> Job:
    classes = []
    for (_, ranks), found, arriving in zip(point.shares, computes, fed, strict=True):
        step = arriving.step.slowed(_crowding(point) * slowest_of(point.gpus, found.jitter))
        if sent.messages:
            step = step.copying_gradients(1 / found.gradient_copy_Bps)
        classes.append(RankClass(ranks, step))
    if point.setting.straggler != 1.0 and point.gpus > 1:  # one GPU is the machine as it should be
        classes = _with_straggler(classes, point.setting.straggler)
    at_once = GLOO_AT_ONCE if sent.library == "gloo" else 1
    return Job(tuple(classes), sent.messages, point.setting.overlap, at_once, _host(point))


def _crowding(point: Point) -> float:
    """How many times as long ranks on one host compute because others compute, too: as the bench measured it."""
    found = point.fabric.measured_on(point.gpus) if point.fabric.on_cpus and point.gpus > 1 else None
    return 1.0 if found is None or found.crowding is None else max(1.0, found.crowding)


def slowest_of(ranks: int, jitter: float) -> float:
    """The expected time of the slowest of so many ranks, whose steps vary by themselves, over that of one of them.

    By Blom's approximation of the largest of normal values (Statistical Estimates and Transformed Beta-Variables,
    1958).
    """
    return 1.0 if ranks == 1 else 1 + jitter * NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def _with_straggler(classes: list[RankClass], slowness: float) -> list[RankClass]:
    """One rank of the first class computes that many times as long."""
    first, *others = classes
    slow = RankClass(1, first.step.slowed(slowness))
    rest = [replace(first, ranks=first.ranks - 1)] if first.ranks > 1 else []
    return [slow, *rest, *others]


def _host(point: Point) -> HostShare | None:
    """Ranks on CPUs share their host's cores with the threads that move gradients."""
    trace = point.subject.trace
    if not point.fabric.on_cpus or trace is None or trace.cpus is None:
        return None
    threads = trace.request.threads if trace.request else 1
    return HostShare(cores=trace.cpus, computing=threads, sending=_cores_of_a_message(point))


def _cores_of_a_message(point: Point) -> float:
    """What a message on its way takes from computing, in cores: as the bench saw it, or one for each rank."""
    found = point.fabric.measured_on(point.gpus)
    if found is None:
        return 1.0
    if found.computing_lost is not None:
        return found.computing_lost
    return 1.0 if found.cpu_share is None else found.cpu_share


def _sensitivity(point: Point, before_s: float) -> list[Sensitivity]:
    """What the iteration gains if each kind of link is twice as fast, or a collective's fixed time half as long."""
    fabric = point.fabric
    changes = {
        f"bandwidth of {kind} x {BETTER:g}": replace(
            fabric, bandwidth={**fabric.bandwidth, kind: BETTER * fabric.bandwidth.get(kind, 1.0)}
        )
        for kind in link_kinds(fabric.described)
    }
    changes[f"latency of collectives / {BETTER:g}"] = replace(fabric, latency=fabric.latency / BETTER)
    plain = replace(point, setting=replace(point.setting, sensitivity=False, timeline=False))
    found = []
    for what, changed in changes.items():
        after = predict(replace(plain, fabric=changed))
        gain = 1 - after["iteration_s"] / before_s
        found.append(Sensitivity(what=what, iteration_s=after["iteration_s"], gain=gain, limited_by=_limit(after)))
    return sorted(found, key=lambda each: -each.gain)


def _limit(found: Mapping[str, Any]) -> str:
    """What limits a predicted point; of communication, where."""
    where = f": {found['limiting_link']}" if found["limited_by"] == "communication" else ""
    return f"{found['limited_by']}{where}"
