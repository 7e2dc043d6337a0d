"""One point on one system: `predict` is the page to read first.

    deployment = Deployment(load("dgx1-p100"), "nccl2")
    predict(Point(Workload.of(request, table, "caffe"), deployment, (0, 1, 2, 3), 256, TrainingSetup()))

A prediction is an iteration of synchronous SGD (`iteration`) with three things put in: what one rank computes and how
its input arrives (`compute`), what the ranks send each other (`messages`), and what scaling costs beside (`scaling`):
ranks wait for the slowest of them, and on one host they slow each other down. The interval is the same iteration with
compute and messages as good and as bad as they may be (`result`).
"""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from resnetx.choices import Fsdp, Server, SyntheticInput, Zero1
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import link_kinds
from resnetx.prediction import compute, messages
from resnetx.prediction.iteration import LAB_BROADCASTS_ERROR, LAB_MESSAGES_ERROR, Iteration, iteration_s
from resnetx.prediction.memory import memory_need
from resnetx.prediction.messages import Exchange, more_message
from resnetx.prediction.result import SourcedPoint, missing, opened, predicted
from resnetx.prediction.scaling import Undecided, beyond_messages_s, host_share, left_open, parallel_s, sharing, waiting
from resnetx.prediction.scenario import Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.stated_rates import Beyond, ModelledStep
from resnetx.prediction.step import Compute, RankClass, SimulatedJob, Stretch
from resnetx.record.prediction import Sensitivity
from resnetx.workloads.counts import parts_of

GLOO_AT_ONCE = 2  # all-reduces: a process group has two threads that run them (torch, ProcessGroupGloo.hpp)
BETTER = 2.0  # how much better each thing is made to see what it is worth


def predict(point: Point, base: Iteration | Undecided | None = None) -> SourcedPoint:
    """The predicted point; its speed-up is over `base`, or over itself. Refuses what has no place on its system."""
    if reason := obstacle_of(point):
        raise ConfigError(reason)
    memory = memory_need(point)
    if reason := memory.obstacle:
        return missing(point, "oom", reason, memory)
    if (undecided := left_open(point)) is not None:
        return opened(undecided, *simulated_ends(undecided), memory, base)
    iteration = simulated(point)
    changes = point.setting.sensitivity and point.deployment.staged_on(point.gpus) is None
    return predicted(iteration, memory, base, _sensitivity(iteration) if changes else [])


def simulated_ends(undecided: Undecided) -> tuple[Iteration, Iteration]:
    """The fast and the slow iteration of a point that is open; each corrected by the rates that are known."""
    ends = (undecided.fast, undecided.slow)
    fast, slow = (replace(end, setting=calibrated(end.workload, end.deployment, end.setting)) for end in ends)
    return simulated(fast), simulated(slow)


def simulated(point: Point) -> Iteration:
    """An iteration, from what each kind of rank computes, sends and reads."""
    steps = tuple(compute.fed(compute.of_point(point, images), point, images) for images, _ in point.shares)
    exchange = messages.of_point(point, steps[0])
    if point.deployment.lab is not None:
        exchange = replace(exchange, error=_lab_error(point, exchange))
    if (more_s := _beyond(point).message_s + beyond_messages_s(point)) > 0 and point.gpus > 1:
        exchange = exchange.with_more(steps[0].step.layers.names[0], more_s)
    return Iteration(point, _job(point, steps, exchange), exchange, steps)


def _lab_error(point: Point, exchange: Exchange) -> float:
    """Of the messages of a step in the lab, for the time that each kind takes."""
    broadcast_s = sum(message.time_s for message in exchange.fetched)
    if not isinstance(point.workload.strategy, Zero1) or not broadcast_s:
        return LAB_MESSAGES_ERROR
    return LAB_MESSAGES_ERROR + (LAB_BROADCASTS_ERROR - LAB_MESSAGES_ERROR) * broadcast_s / exchange.time_s


def _job(point: Point, steps: Sequence[Compute], exchange: Exchange) -> SimulatedJob:
    classes = []
    for (_, ranks), computed in zip(point.shares, steps, strict=True):
        waits, shares, beyond = waiting(point, computed), sharing(point, computed), _beyond(point).factor
        step = computed.step.slowed(shares * waits)
        if point.setting.communication == "model" and point.deployment.lab is None:
            step = step.copying_gradients(_copies(point, exchange) / computed.gradient_copy_Bps)
        if isinstance(point.workload.strategy, Server) and exchange.messages and point.deployment.on_cpus:
            step = replace(step, update_s=0.0)  # the server's, beside its rank; a GPU that serves does it in between
        if isinstance(point.workload.strategy, Zero1 | Fsdp) and point.gpus > 1:
            step = replace(step, update_s=step.update_s * _updated_share(point))
        step = replace(step, host_s=step.host_s + parallel_s(point))
        classes.append(RankClass(ranks, step.slowed(beyond, with_host=True), waits, shares, beyond))
    if point.setting.straggler != 1.0 and point.gpus > 1:  # one GPU is the machine as it should be
        classes = _with_straggler(classes, point.setting.straggler)
    at_once = GLOO_AT_ONCE if exchange.library == "gloo" and not isinstance(point.workload.strategy, Fsdp) else 1
    return SimulatedJob(
        tuple(classes),
        exchange.messages,
        point.setting.overlap,
        at_once,
        host_share(point),
        shared_links=point.deployment.lab is not None,
        fetched=exchange.fetched,
        contention=exchange.contention,
    )


def _copies(point: Point, exchange: Exchange) -> float:
    """How often each gradient is copied in the passes over a part of the batch, in the mean of all of them.

    It is copied into the buffer that is sent, and before, of each part but the first, added to those in front.
    """
    return (bool(exchange.messages) + (point.parts - 1) * messages.ADDING) / point.parts


def _updated_share(point: Point) -> float:
    """Of all parameters, those that the rank with most of them updates."""
    if isinstance(point.workload.strategy, Fsdp):
        return 1 / point.gpus
    return max(parts_of(point.workload.gradients, point.gpus)) / point.workload.gradient_bytes


def _beyond(point: Point) -> Beyond:
    """What a step takes beyond what is modelled, where rates of several GPUs are known."""
    return Beyond() if point.setting.residual is None else point.setting.residual.at(point.gpus)


def calibrated(workload: Workload, deployment: Deployment, setting: TrainingSetup) -> TrainingSetup:
    """The setting with what the known rates of several GPUs say of the machine as it is described."""
    if workload.scaled is None:
        return setting
    plain, on = replace(setting, residual=None, straggler=1.0), deployment.as_described
    if workload.scaled.synthetic and workload.request is not None:
        workload = replace(workload, request=msgspec.structs.replace(workload.request, input=SyntheticInput()))
    scaled = workload.scaled
    assert scaled is not None

    def modelled(gpus: int, images: int) -> ModelledStep:
        job = simulated(Point(workload, on, tuple(range(gpus)), images, plain)).job
        first = job.classes[0].step.layers.names[0]
        return ModelledStep(
            lambda beyond: iteration_s(
                job.with_message(more_message(first, beyond.message_s)) if beyond.message_s else job,
                _longer(beyond.factor),
            ),
            lambda factor: iteration_s(job.without_messages(), _longer(factor)),
        )

    return replace(setting, residual=scaled.residual(modelled, on.node_gpus))


def _longer(factor: float) -> Stretch:
    """Each rank's step so many times as long."""
    return Stretch(compute=factor, host=factor, queueing=factor)


def _with_straggler(classes: list[RankClass], slowness: float) -> list[RankClass]:
    """The classes, with one rank of the first that computes `slowness` times as long."""
    first, *others = classes
    slow = replace(first, ranks=1, step=first.step.slowed(slowness), waits=first.waits * slowness)
    rest = [replace(first, ranks=first.ranks - 1)] if first.ranks > 1 else []
    return [slow, *rest, *others]


def _sensitivity(iteration: Iteration) -> list[Sensitivity]:
    """What the iteration gains if each kind of link is twice as fast, or a collective's fixed time half as long."""
    deployment = iteration.point.deployment
    changes = {
        f"bandwidth of {kind} x {BETTER:g}": replace(
            deployment, bandwidth={**deployment.bandwidth, kind: BETTER * deployment.bandwidth.get(kind, 1.0)}
        )
        for kind in link_kinds(deployment.described)
    }
    changes[f"latency of collectives / {BETTER:g}"] = replace(deployment, latency=deployment.latency / BETTER)
    gains = [_gain(what, iteration, changed) for what, changed in changes.items()]
    return sorted(gains, key=lambda sensitivity: -sensitivity.gain)


def _gain(what: str, before: Iteration, deployment: Deployment) -> Sensitivity:
    """What a point gains on a changed deployment, and what limits it there: of communication, which link."""
    after = simulated(replace(before.point, deployment=deployment))
    link = f": {after.exchange.limiting_link}" if after.limited_by == "communication" else ""
    gain = 1 - after.time_s / before.time_s
    return Sensitivity(what=what, iteration_s=after.time_s, gain=gain, limited_by=f"{after.limited_by}{link}")


def _too_few(point: Point) -> str:
    """Why a point has no place on its system, with the setting that makes room."""
    system = point.deployment.described
    has = f"{system.name} has {len(system.gpus)} GPUs"
    if point.devices != tuple(range(point.gpus)):
        return f"devices={','.join(map(str, point.devices))}: {has}, 0 to {len(system.gpus) - 1}"
    nodes = -(-point.gpus * system.nodes // len(system.gpus))
    network = " network=edr100" if system.nodes == 1 else ""
    return f"gpus={point.gpus}: {has}; several of it: nodes={nodes}{network}"


def obstacle_of(point: Point) -> str:
    """Why a point has no place on its system; "": it has."""
    system = point.deployment.described
    if max(point.devices) >= len(system.gpus):
        return _too_few(point)
    kinds = {system.gpu_of_node(device).part_name for device in point.devices}
    if len(kinds) > 1:
        return (
            f"its GPUs {list(point.devices)} are {' and '.join(sorted(kinds))}: only like GPUs are predicted together"
        )
    return ""
