"""One point on one system, and curves of several: `predict` is the page to read first.

    deployment = Deployment(load("dgx1-p100"), "nccl2")
    predict(Point(Workload.of(request, table, "caffe"), deployment, (0, 1, 2, 3), 256, TrainingSetup()))

A prediction is an iteration of synchronous SGD (`iteration`) with three things put in: what one rank computes and how
its input arrives (`compute`), what the ranks send each other (`messages`), and what scaling costs beside (`scaling`):
ranks wait for the slowest of them, and on one host they slow each other down. The interval is the same iteration with
compute and messages as good and as bad as they may be (`result`).
"""

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from resnetx import host
from resnetx.choices import Fsdp, Server, SyntheticInput, Zero1
from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.changed_systems import link_kinds
from resnetx.prediction import compute, messages
from resnetx.prediction.iteration import LAB_BROADCASTS_ERROR, LAB_MESSAGES_ERROR, Iteration, iteration_s
from resnetx.prediction.memory import lack_of, memory_of
from resnetx.prediction.messages import Exchange, more_message
from resnetx.prediction.open_points import Undecided, left_open
from resnetx.prediction.result import SourcedPoint, missing, opened, predicted, speedup_over
from resnetx.prediction.scaling import host_share, not_hidden_s, parallel_s, sharing, waiting
from resnetx.prediction.scenario import STAGED, Deployment, Point, TrainingSetup, Workload
from resnetx.prediction.stated_rates import AS_MODELLED, CLEAR, Beyond, ModelledStep, ScaledRates
from resnetx.prediction.step import Compute, SimulatedJob, Step, Stretch
from resnetx.record import Unknown
from resnetx.record.prediction import PredictionInput, Sensitivity
from resnetx.request import Request
from resnetx.workloads.counts import parts_of

GLOO_AT_ONCE = 2  # all-reduces: a process group has two threads that run them (torch, ProcessGroupGloo.hpp)
BETTER = 2.0  # how much better each thing is made to see what it is worth


def predict(point: Point, base: Iteration | Undecided | None = None) -> SourcedPoint:
    """The predicted point; its speed-up is over `base`, or over itself. Refuses what has no place on its system."""
    if reason := obstacle_of(point):
        raise ConfigError(reason)
    memory = memory_of(point)
    if reason := lack_of(point, memory):
        return missing(point, "oom", reason, memory)
    if (found := open_ends(point)) is not None:
        return opened(*found, memory, base)
    iteration = simulated(point)
    changes = point.setting.sensitivity and point.paths is None
    return predicted(iteration, memory, base, _sensitivity(iteration) if changes else [])


def open_ends(point: Point) -> tuple[Undecided, Iteration, Iteration] | None:
    """What leaves a point open, with its fast and its slow iteration; None: it is determined."""
    if (undecided := left_open(point)) is None:
        return None
    fast, slow = _simulated_ends(undecided)
    return None if slow.time_s < undecided.least * fast.time_s else (undecided, fast, slow)


def _simulated_ends(undecided: Undecided) -> tuple[Iteration, Iteration]:
    """The fast and the slow iteration of a point that is open; each corrected by the rates that are known.

    These may leave less time to what both ends differ in than to what they share, so that the fast one is slower.
    """
    ends = (undecided.fast, undecided.slow)
    corrected = (replace(end, setting=calibrated(end.workload, end.deployment, end.setting)) for end in ends)
    fast, slow = sorted(map(simulated, corrected), key=lambda end: end.time_s)
    return fast, slow


def simulated(point: Point) -> Iteration:
    """An iteration, from what each kind of rank computes, sends and reads."""
    steps = tuple(compute.fed(compute.of_point(point, images), point, images) for images, _ in point.shares)
    exchange = messages.of_point(point, steps[0])
    if point.deployment.lab is not None:
        exchange = replace(exchange, error=_lab_error(point, exchange))
    if point.deployment.slowest:
        exchange = replace(exchange, error=0.0)
    more_s, unexplained_s = _beyond(point)[0], point.setting.beyond_s
    if more_s + unexplained_s > 0 and point.gpus > 1:
        exchange = exchange.with_more(steps[0].step.names[0], more_s, unexplained_s)
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
        waits, shares, beyond = waiting(point, computed), sharing(point, computed), _beyond(point)[1]
        step = computed.step.slowed(shares * waits)
        if point.setting.communication == "model" and point.deployment.lab is None:
            step = step.copying_gradients(_copies(point, exchange) / computed.gradient_copy_Bps)
        if isinstance(point.workload.strategy, Server) and exchange.messages and point.deployment.on_cpus:
            step = replace(step, update_s=0.0)  # the server's, beside its rank; a GPU that serves does it in between
        if isinstance(point.workload.strategy, Zero1 | Fsdp) and point.gpus > 1:
            step = replace(step, update_s=step.update_s * _updated_share(point))
        host_s = step.host_s + not_hidden_s(point, computed.step, parallel_s(point))
        step = replace(step, host_s=host_s, ranks=ranks, waits=waits, shares=shares, beyond=beyond)
        classes.append(step.slowed(beyond, with_host=True))
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
    return AS_MODELLED if point.setting.residual is None else point.setting.residual.at(point.gpus)


def calibrated(workload: Workload, deployment: Deployment, setting: TrainingSetup) -> TrainingSetup:
    """The setting with what the known rates of several GPUs say of the machine as it is described."""
    if workload.scaled is None:
        return setting
    # `beyond_s` is of the point's own GPUs: a known rate of others has what it takes there
    plain, on = replace(setting, residual=None, straggler=1.0, beyond_s=0.0), deployment.as_described
    if workload.scaled.synthetic and workload.request is not None:
        workload = replace(workload, request=msgspec.structs.replace(workload.request, input=SyntheticInput()))
    scaled = workload.scaled
    assert scaled is not None

    def modelled(gpus: int, images: int) -> ModelledStep:
        job = simulated(Point(workload, on, tuple(range(gpus)), images, plain)).job
        first = job.classes[0].names[0]

        def step_s(beyond: Beyond) -> float:
            message_s, factor = beyond
            longer = job.with_message(more_message(first, message_s)) if message_s else job
            return iteration_s(longer, _longer(factor))

        return ModelledStep(step_s, lambda factor: iteration_s(job.without_messages(), _longer(factor)))

    residual = scaled.residual(modelled, on.node_gpus, 0.0 if on.no_peers else CLEAR)
    return replace(setting, residual=replace(residual, as_if=_as_if(replace(workload, scaled=None), on, scaled, plain)))


def _as_if(workload: Workload, on: Deployment, scaled: ScaledRates, setting: TrainingSetup) -> str:
    """The settings with which paths through the host take what a rate of one node shows, if links do not; "": none."""
    known = [of for of in scaled.by_gpus if of[0] <= on.node_gpus]
    otherwise = setting.one_process or isinstance(workload.strategy, Server | Zero1 | Fsdp)
    if not known or otherwise or on.no_peers or on.on_cpus or on.lab or on.transport != "auto":
        return ""
    gpus, images, rate = known[-1]

    def ends_s(deployment: Deployment) -> list[float]:
        return simulated(Point(workload, deployment, tuple(range(gpus)), images, setting)).interval_s

    if images / rate <= ends_s(on)[1]:
        return ""
    hosts = {name: ends_s(replace(on, transport="host", told=STAGED[name])) for name in STAGED}
    like = [name for name, (low_s, high_s) in hosts.items() if low_s <= images / rate <= high_s]
    return f"transport=host staged={' or '.join(like)}" if like else ""


def _longer(factor: float) -> Stretch:
    """Each rank's step so many times as long."""
    return Stretch(compute=factor, host=factor, queueing=factor)


def _with_straggler(classes: list[Step], slowness: float) -> list[Step]:
    """The classes, with one rank of the first that computes `slowness` times as long."""
    first, *others = classes
    slow = replace(first.slowed(slowness), ranks=1, waits=first.waits * slowness)
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
    if not any(component.kind == "nic" for component in system.components):
        return f"gpus={point.gpus}: {has}, and no network card is described that would join several of it"
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


# ---- curves ---------------------------------------------------------------------------------------------------------
# Points that share a baseline: one workload on several numbers of GPUs of one system, and their speed-ups.
#
#     predicted_curves([Curve(workload, deployment, setting, placements, baseline), ...])
#     for columns in grid_columns(curves):         # of some thousand points each, in the order of the curves
#         columns["images_per_s"]
#
# Of many curves each process predicts a share, and the order of the answer is that of the question. A process is a
# fresh interpreter that reads its share from standard input: nothing of the caller is forked (a notebook has threads)
# or run again (a script without a guard is not imported). Few points are predicted right here, as a process takes as
# long to start as a thousand points. The points are the same either way.
#
# Points by the million are columns: of each what a table of a grid has, and nothing that is kept of few points. The
# figures are those of `predict`, to the last digit; parts of the step, their intervals, where each figure is from and
# what limits a point are left out, which take three quarters of the time. No more shares are held than there are
# processes.

_HERE = "resnetx.prediction.predict"  # what a process runs
POINTS_EACH = 2000  # of a process, at least: about a second of work, of which starting takes another half
GRID_POINTS = 100_000  # of a prediction; of more, no more is kept than a table on disk (`api.grid`)
SHARE_POINTS = 25_000  # of a grid, of a process: more than ten seconds of work, of which starting takes a half


Placement = tuple[tuple[int, ...], int]  # where a point runs, and with which batch: GPU ids, and the global batch size


def images_of(placement: Placement) -> int:
    """Of each step, on the GPU that has most."""
    devices, batch_size = placement
    return -(-batch_size // len(devices))


@dataclass(frozen=True)
class Curve:
    """A workload on several numbers of GPUs of one deployment, and the point that speed-ups are over."""

    workload: Workload
    deployment: Deployment
    setting: TrainingSetup
    placements: Sequence[Placement]
    baseline: Placement
    assumed: tuple[PredictionInput, ...] = ()  # what stands in place of what is described, or what a trace says
    varied: Mapping[str, str] = field(default_factory=dict)  # settings of its machine that tell it from other curves
    note: str = ""  # on what was taken that nobody has asked for

    def on(self, deployment: Deployment, varied: Mapping[str, str]) -> "Curve":
        """The same on another deployment, which `varied` tells from others; in the lab it is trained there."""
        workload = self.workload
        if deployment.lab is not None and workload.request is not None:
            workload = replace(workload, request=msgspec.structs.replace(workload.request, lab=deployment.lab))
        return replace(self, workload=workload, deployment=deployment, varied=varied)

    def points(self, setting: TrainingSetup) -> dict[Placement, Point]:
        """Its points in the order in which they are predicted: the baseline first, which perhaps nobody asked for."""
        order = sorted(self.placements, key=lambda placement: (placement != self.baseline, len(placement[0])))
        points = {placement: Point(self.workload, self.deployment, *placement, setting) for placement in order}
        if self.baseline in points:
            return points
        plain = replace(setting, sensitivity=False, timeline=False)
        return {self.baseline: Point(self.workload, self.deployment, *self.baseline, plain), **points}


def points_in(curves: Sequence[Curve]) -> int:
    """How many points these have."""
    return sum(len(curve.placements) for curve in curves)


def sending_counts(curves: Sequence[Curve]) -> list[int]:
    """The numbers of GPUs that send anything."""
    return sorted({len(devices) for curve in curves for devices, _ in curve.placements if len(devices) > 1})


def predicted_curves(curves: Sequence[Curve], processes: int | None = None) -> list[SourcedPoint]:
    """A point for each placement of each curve; speed-ups are over the baseline, or the smallest point that can run.

    `processes`: how many predict them; unless set, by the points and the host's cores.
    """
    count = _useful(curves) if processes is None else processes
    if count > 1:
        return _by_processes(curves, count)
    points: list[SourcedPoint] = []
    for curve in curves:
        try:
            setting = calibrated(curve.workload, curve.deployment, curve.setting)
        except ConfigError as error:
            made = {each: missing(point, "refused", str(error)) for each, point in curve.points(curve.setting).items()}
        else:
            made = {}
            base: Iteration | Undecided | None = None
            for placement, point in curve.points(setting).items():
                try:
                    made[placement] = predict(point, base)
                except ConfigError as error:
                    made[placement] = missing(point, "refused", str(error))
                base = base or made[placement].iteration
        last = max(made, key=lambda placement: (made[placement].point.outcome == "ok", len(placement[0])), default=None)
        if last is not None:
            made[last] = _with_graph(made[last])
        points += (made[placement].of_curve(curve.varied) for placement in curve.placements)
    return points


LOST = 0.09  # of a step to launching, from which a CUDA graph is predicted, too


def _with_graph(sourced: SourcedPoint) -> SourcedPoint:
    """The point with what its step would take as a CUDA graph, where launching is a loss and that is possible."""
    iteration, run = sourced.iteration, sourced.point.request
    lost = sum(part.share for part in sourced.point.parts if part.name == "launching")
    if not isinstance(iteration, Iteration) or not isinstance(run, Request) or lost < LOST:
        return sourced
    workload = iteration.point.workload
    request = msgspec.structs.replace(workload.request or run, graph=True)
    try:
        check(msgspec.structs.replace(run, graph=True))
        other = simulated(replace(iteration.point, workload=replace(workload, request=request)))
        times_s = [other.time_s, *other.interval_s]
    except ConfigError:
        return sourced
    return replace(sourced, point=msgspec.structs.replace(sourced.point, with_graph_s=times_s))


# ---- by processes ---------------------------------------------------------------------------------------------------


def _useful(curves: Sequence[Curve]) -> int:
    """How many processes are worth starting."""
    shares = min(points_in(curves) // POINTS_EACH, len(curves))
    return min(host.cores(), shares) if shares > 1 and sys.executable else 1


def _by_processes(curves: Sequence[Curve], count: int) -> list[SourcedPoint]:
    """The same by so many processes."""
    shares = [curves[first::count] for first in range(count)]  # neighbours cost alike: each takes every nth
    with ThreadPoolExecutor(count) as waiting:
        answers = [iter(points) for points in waiting.map(_by_a_process, shares)]  # of each share in its order
    return [
        point for index, curve in enumerate(curves) for point in islice(answers[index % count], len(curve.placements))
    ]


def _by_a_process(share: Sequence[Curve]) -> list[SourcedPoint]:
    answer: list[SourcedPoint] = answered_by_a_process(_HERE, ("points", share))
    return answer


def answered_by_a_process(module: str, question: object) -> Any:
    """What a module's interpreter, which finds this very package, answers to what it is sent."""
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH"))))
    ended = subprocess.run(
        [sys.executable, "-P", "-m", module],
        input=pickle.dumps(question, pickle.HIGHEST_PROTOCOL),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        preexec_fn=host.dying_with(os.getpid()) if sys.platform == "linux" else None,  # nobody reads its answer then
    )
    if ended.returncode:
        told = ended.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"a process that predicts ended with status {ended.returncode}: {told}")
    return pickle.loads(ended.stdout)


def main() -> None:
    """One share: curves in, points or columns out."""
    gc.set_threshold(100_000, 50, 50)  # a point makes hundreds of tuples and no cycle: a seventh of the time is saved
    kind, share = pickle.load(sys.stdin.buffer)
    if kind == "columns":
        answer: Any = columns_of(share)
    else:
        inputs: dict[PredictionInput, PredictionInput] = {}
        answer = [_sharing(inputs, point) for point in predicted_curves(share, 1)]
    pickle.dump(answer, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)


def _sharing(inputs: dict[PredictionInput, PredictionInput], sourced: SourcedPoint) -> SourcedPoint:
    """The point with one object for inputs that are the same as others': pickled once, and less to keep."""
    return replace(sourced, inputs=tuple(inputs.setdefault(line, line) for line in sourced.inputs))


# ---- points by the million ------------------------------------------------------------------------------------------


class GridRow(NamedTuple):
    """What is kept of a point; null: it cannot run, or is open."""

    workload: str
    batch_size: int
    gpus: int
    strategy: str
    precision: str
    system: str
    library: str
    varied: str  # settings of its machine in which points of the grid differ: "network=edr100"; ""
    outcome: Literal["ok", "oom", "refused", "open"]
    reason: str
    iteration_s: float | None
    iteration_low_s: float | None  # what nine of ten should lie within; of an open point its two ends
    iteration_high_s: float | None
    images_per_s: float | None
    speedup: float | None  # over `baseline_gpus`
    speedup_low: float | None
    speedup_high: float | None
    baseline_gpus: int | None
    exposed_communication_s: float | None
    communication_s: float | None
    memory_bytes: int | None


Columns = dict[str, list[str | int | float | None]]


def grid_columns(curves: Sequence[Curve], processes: int | None = None) -> Iterator[Columns]:
    """The points of all curves, share by share, in their order."""
    shares = list(_shares(curves))
    count = min(host.cores(), len(shares)) if processes is None else processes
    if count <= 1 or not sys.executable:
        yield from map(columns_of, shares)
        return
    with ThreadPoolExecutor(count) as waiting:
        left = iter(shares)
        running = [waiting.submit(_columns_by_a_process, share) for share in islice(left, count + 1)]
        while running:
            yield running.pop(0).result()
            running += [waiting.submit(_columns_by_a_process, share) for share in islice(left, 1)]


def _shares(curves: Sequence[Curve]) -> Iterator[list[Curve]]:
    share: list[Curve] = []
    points = 0
    for curve in curves:
        share.append(curve)
        points += len(curve.placements)
        if points >= SHARE_POINTS:
            yield share
            share, points = [], 0
    if share:
        yield share


def _columns_by_a_process(share: Sequence[Curve]) -> Columns:
    answer: Columns = answered_by_a_process(_HERE, ("columns", share))
    return answer


def columns_of(curves: Sequence[Curve]) -> Columns:
    """The points of these curves."""
    rows = [row for curve in curves for row in _rows(curve)]
    return {name: list(values) for name, values in zip(GridRow._fields, zip(*rows, strict=True), strict=True)}


def _rows(curve: Curve) -> list[GridRow]:
    """A row for each placement, as `predicted_curves` has a point for each."""
    varied = ", ".join(f"{name}={value}" for name, value in {**_trained(curve.workload), **curve.varied}.items())
    try:
        setting = calibrated(curve.workload, curve.deployment, curve.setting)
    except ConfigError as error:
        points = curve.points(curve.setting)
        return [_named(points[placement], varied, "refused", str(error)) for placement in curve.placements]
    rows: dict[Placement, GridRow] = {}
    base: Iteration | Undecided | None = None
    for placement, point in curve.points(setting).items():
        try:
            rows[placement], own = _row(point, base, varied)
        except ConfigError as error:
            rows[placement], own = _named(point, varied, "refused", str(error)), None
        base = base or own
    return [rows[placement] for placement in curve.placements]


def _trained(workload: Workload) -> dict[str, str]:
    """How it is trained, as far as that is not usual and no column of its own says it."""
    request = workload.request
    if request is None:
        return {}
    words = {
        "graph": "true" * request.graph,
        "accumulate": str(request.accumulate) if request.accumulate > 1 else "",
        "optimizer": request.optimizer.kind if request.optimizer.kind != "sgd" else "",
        "checkpointing": "true" * request.checkpointing,
    }
    return {name: word for name, word in words.items() if word}


def _row(point: Point, base: Iteration | Undecided | None, varied: str) -> tuple[GridRow, Iteration | Undecided | None]:
    """A point, and what others are compared with where it is the first."""
    if reason := obstacle_of(point):
        return _named(point, varied, "refused", reason), None
    memory = memory_of(point)
    if reason := lack_of(point, memory):
        return _named(point, varied, "oom", reason), None
    if (found := open_ends(point)) is not None:
        undecided, fast, slow = found
        row = _named(point, varied, "open", undecided.reason)
        return row._replace(iteration_low_s=fast.interval_s[0], iteration_high_s=slow.interval_s[1]), undecided
    iteration = simulated(point)
    base = base or iteration
    speedup, ends = speedup_over(base, iteration)
    low, high = (None, None) if isinstance(ends, Unknown) else ends
    job, time_s = iteration.job, iteration.time_s
    row = _named(point, varied, "ok", "")._replace(
        iteration_s=time_s,
        iteration_low_s=iteration.interval_s[0],
        iteration_high_s=iteration.interval_s[1],
        images_per_s=iteration.images_per_s,
        speedup=None if isinstance(speedup, Unknown) else speedup,
        speedup_low=low,
        speedup_high=high,
        baseline_gpus=base.point.gpus,
        exposed_communication_s=max(0.0, time_s - iteration_s(job.without_messages())) if job.messages else 0.0,
        communication_s=iteration.exchange.time_s,
        memory_bytes=None if isinstance(memory[0], Unknown) else memory[0],
    )
    return row, iteration


def _named(point: Point, varied: str, outcome: Literal["ok", "oom", "refused", "open"], reason: str) -> GridRow:
    workload, deployment = point.workload, point.deployment
    nothing = (None,) * (len(GridRow._fields) - 10)
    return GridRow(
        workload.label, point.batch_size, point.gpus, workload.strategy.kind, workload.precision,
        deployment.described.name, deployment.library, varied, outcome, reason, *nothing,
    )  # fmt: skip


if __name__ == "__main__":
    main()
