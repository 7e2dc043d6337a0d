"""How long an iteration of synchronous SGD takes, and what happens in it.

The task graph (`task_graph`) is simulated until the time of an iteration stays; where a formula is known to give the
same (`closed_form`), it is used instead. What a strategy overlaps is decided by its messages alone: one message of all
layers overlaps nothing. `docs/ssgd.md` derives the closed forms, which the tests hold against the simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from resnetx.prediction.step import AS_IT_IS, SimulatedJob, Stretch, TimedMessage
from resnetx.prediction.task_graph import Spans, TaskGraph, simulate, task_graph

ITERATIONS = 5  # simulated; the pipeline is full after two, and the last two give the time of one
STEADY = 2
# A host that queues ahead of its device fills the pipeline slowly: as many more until the time of one stays.
MOST_ITERATIONS = 80
SAME = 1e-6


@dataclass(frozen=True)
class Bar:
    """What one resource did in a steady iteration, since its beginning: the end of the update before."""

    name: str
    lane: str  # "compute", "copies", "input", "host", "collectives"
    rank_class: int  # -1: of all ranks
    start_s: float
    end_s: float


def iteration_s(job: SimulatedJob, by: Stretch = AS_IT_IS) -> float:
    """Seconds from one update to the next, once the pipeline is full: by a formula where there is one."""
    step, runs_ahead = job.classes[0].step, job.overlap.input and job.overlap.host_to_device
    queued = not step.queue_s or bool(step.host_s * by.host) or runs_ahead
    simple = len(job.classes) == 1 and job.host is None and job.at_once == 1 and queued and not job.gates
    if simple and not job.sends_in_each_part:
        return closed_form_s(job, by)
    alone_s, contention = simulated_s(job, by), job.contention if by.contention is None else by.contention
    if not contention or not job.messages:
        return alone_s
    sent = [message for part in job.by_part for message in part.messages]
    hidden_s = hidden_behind_s(sent, by, alone_s - simulated_s(job.without_messages(), by))
    return simulated_s(job.computing_longer(contention * hidden_s), by)


def simulated_s(job: SimulatedJob, by: Stretch = AS_IT_IS) -> float:
    """The same by simulating some iterations."""
    queues = any(ranks.step.queue_s for ranks in job.classes)
    iterations, before_s, steady_s = ITERATIONS, 0.0, _simulated_s(job, by, ITERATIONS)
    while queues and iterations < MOST_ITERATIONS and abs(steady_s - before_s) > SAME * steady_s:
        iterations *= 2
        before_s, steady_s = steady_s, _simulated_s(job, by, iterations)
    return steady_s


def _simulated_s(job: SimulatedJob, by: Stretch, iterations: int) -> float:
    graph = task_graph(job, by, iterations, detailed=False)
    return _steady_s(graph, simulate(graph.tasks, graph.resources, graph.capacities))


def timeline(job: SimulatedJob) -> list[Bar]:
    """Every task of one steady iteration, and the input of later ones that is read meanwhile."""
    queues = any(ranks.step.queue_s for ranks in job.classes)
    graph = task_graph(job, AS_IT_IS, MOST_ITERATIONS if queues else ITERATIONS + 1, detailed=True)
    spans = simulate(graph.tasks, graph.resources, graph.capacities)
    shown = len(graph.updates) - 4  # behind it, the input of three more is read
    begin, end = _updated(graph, spans, shown - 1), _updated(graph, spans, shown)
    return [
        Bar(name, lane, rank_class, spans.start_s[index] - begin, spans.end_s[index] - begin)
        for index, (name, lane, rank_class) in enumerate(graph.labels)
        if begin <= spans.start_s[index] < end and spans.end_s[index] > spans.start_s[index]
    ]


def _updated(graph: TaskGraph, spans: Spans, iteration: int) -> float:
    """When the last rank has ended its update."""
    return max(spans.end_s[index] for index in graph.updates[iteration])


def _steady_s(graph: TaskGraph, spans: Spans) -> float:
    last = len(graph.updates) - 1
    first = last - STEADY
    return (_updated(graph, spans, last) - _updated(graph, spans, first)) / STEADY


# What an iteration takes where a formula says it: `docs/ssgd.md`, equations 1 to 5.
#
# The simulation of `ssgd` gives the same (tests hold it to that) in more time. No formula is known to us where ranks
# take different times, share the cores of a host, send two messages at once, or wait in the backward pass for
# parameters, or for those that are gathered for each part of a batch (FSDP): these are simulated. So is a host that
# takes time to queue the work of a step (`queue_s`), unless all else of it runs ahead of the device.


def closed_form_s(job: SimulatedJob, by: Stretch) -> float:
    """Seconds from one update to the next, of ranks that all take the same times."""
    step, messages, slowness, stretch = job.classes[0].step, job.messages, by.compute, by.messages
    reading_s, copy_s = step.input_s * by.reading, step.host_to_device_s * by.copying
    host_s, queueing_s = step.host_s * by.host, step.queue_s * by.queueing
    reads_ahead, copies_ahead = job.overlap.input, job.overlap.host_to_device
    # Between the update before and the forward pass: input that does not run ahead, and what the host does once.
    waits_s = reading_s + copy_s if not reads_ahead else copy_s if not copies_ahead else 0.0
    begin_s = waits_s + host_s
    # The forward pass, behind those of earlier parts of the batch.
    forward_s = _fetching_s(job, by, begin_s) if job.fetched else step.forward_s * slowness
    forward_s += step.earlier_s * slowness
    # The backward pass: each message starts when its layers are done, and the message before it has arrived.
    ends_s = step.layers.backward_ends_s
    sent_s, free_s = 0.0, forward_s + ends_s[-1] * slowness
    for message, cut in zip(messages, job.cuts, strict=True):  # for every message of a hundred thousand points
        ready_s = forward_s + ends_s[cut] * slowness
        sent_s = (ready_s if ready_s > sent_s else sent_s) + message.time_s * stretch
        if message.unpack_s:
            free_s = max(free_s, sent_s) + message.unpack_s * slowness
    passes_s = max(free_s, sent_s) + step.update_s * slowness
    # What the passes lose to messages that are hidden behind them.
    contention = job.contention if by.contention is None else by.contention
    if contention and messages:
        passes_s += contention * hidden_behind_s(messages, by, passes_s - step.compute_s * slowness)
    if host_s and queueing_s:  # it queues behind what it does once in a step, and the update behind that
        passes_s = max(passes_s, queueing_s + step.update_s * slowness)
    if not reads_ahead:
        return begin_s + passes_s
    # Input that runs ahead comes no more often than it is read and copied, and no step is shorter than its queueing.
    arriving_s = max(reading_s, copy_s) if copies_ahead else reading_s + copy_s
    return max(arriving_s, begin_s + passes_s, 0.0 if host_s else queueing_s)


def hidden_behind_s(messages: Sequence[TimedMessage], by: Stretch, exposed_s: float) -> float:
    """How long messages are on their way while the ranks compute; `exposed_s`: while these wait."""
    return max(0.0, by.messages * sum(message.time_s for message in messages) - exposed_s)


def _fetching_s(job: SimulatedJob, by: Stretch, begin_s: float) -> float:
    """The forward pass, in which layers wait for parameters that come one after the other from the update on."""
    times_s = {message.layers[0]: message.time_s * by.messages for message in job.fetched}
    done_s, arrived_s = 0.0, -begin_s
    for layer in job.classes[0].step.layers:
        if layer.name in times_s:
            arrived_s += times_s[layer.name]
            done_s = max(done_s, arrived_s)
        done_s += layer.forward_s * by.compute
    return done_s


# Where the scaling went: the time of a step in parts, each of which is what the step is shorter without it.
#
#     seconds(ever_less(iteration.job))
#
# They are taken out one after the other, in the order of `Seconds`, so that they sum to the step exactly; what two
# parts save only together is in the first of them. What is left when all are out is the computing of one GPU on its
# share of the batch.


class Seconds(NamedTuple):
    """What each part of a step takes."""

    communication: float  # that computing does not hide, with what computing loses beside messages
    unexplained: float  # beyond the model, where rates of several GPUs are known
    waiting: float  # for the slowest rank
    host: float  # what the host does once a step, and sharing its cores
    input: float  # that computing does not hide
    launching: float  # the GPU waits for its host to launch layers
    computing: float

    @property
    def total(self) -> float:
        return sum(self)


def ever_less(job: SimulatedJob) -> tuple[SimulatedJob, ...]:
    """The job, and without one part more each time.

    The last one is a rank by itself: no messages, nobody to wait for, a host that launches in no time.
    """
    silent = job.without_messages()
    explained = silent.relieved("beyond")
    alike = explained.relieved("waits")
    alone = alike.relieved("shares")
    steps = (replace(ranks.step, host_s=0.0, queue_s=0.0) for ranks in alone.classes)
    classes = (replace(ranks, step=step) for ranks, step in zip(alone.classes, steps, strict=True))
    return job, silent, explained, alike, replace(alone, host=None, classes=tuple(classes))


def seconds(jobs: Sequence[SimulatedJob], by: Stretch = AS_IT_IS) -> Seconds:
    """The parts of a step, by its jobs with ever less in them."""
    unread, pace = replace(by, reading=0.0, copying=0.0), jobs[-1].classes[0].step.pace
    times_s = [iteration_s(job, by) for job in jobs]
    times_s.append(iteration_s(jobs[-1], unread))
    times_s.append(times_s[-1] / pace)  # computing alone is left, which is as long as it is stretched
    return Seconds._make([*(before - after for before, after in pairwise(times_s)), times_s[-1]])
