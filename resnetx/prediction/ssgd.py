"""How long an iteration of synchronous SGD takes, and what happens in it.

The task graph (`task_graph`) is simulated until the time of an iteration stays; where a formula is known to give the
same (`closed_form`), it is used instead. What a strategy overlaps is decided by its messages alone: one message of all
layers overlaps nothing. `docs/ssgd.md` derives the closed forms, which the tests hold against the simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot
from typing import NamedTuple

from resnetx.prediction.step import AS_IT_IS, Deviations, SimulatedJob, StepTimes, Stretch, TimedMessage
from resnetx.prediction.task_graph import Spans, TaskGraph, simulate, task_graph
from resnetx.record.prediction import PartName, TimePart

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
    step, overlap = job.classes[0].step, (job.overlap.input, job.overlap.host_to_device)
    queued = not step.queue_s or bool(step.host_s * by.host) or all(overlap)
    simple = len(job.classes) == 1 and job.host is None and job.at_once == 1 and queued and not job.gates
    simple = simple and not job.sends_in_each_part
    contention = job.contention if by.contention is None else by.contention
    if simple:
        return closed_form_s(step, job.messages, job.cuts, overlap, by, job.fetched, contention)
    alone_s = simulated_s(job, by)
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


def closed_form_s(
    step: StepTimes,
    messages: Sequence[TimedMessage],
    cuts: Sequence[int],
    overlap: tuple[bool, bool],
    by: Stretch,
    fetched: Sequence[TimedMessage] = (),
    contention: float = 0.0,
) -> float:
    """Seconds from one update to the next, of ranks that all take the same times.

    `cuts`: after how many layers of the backward pass each message is ready. `overlap`: of reading and of the copy to
    the device with the iteration before. `fetched`: parameters that layers wait for, which are sent from the update on.
    `contention`: of the time in which messages are hidden behind the passes, what these lose.
    """
    reading_s, copy_s = step.input_s * by.reading, step.host_to_device_s * by.copying
    reads_ahead, copies_ahead = overlap
    waits_s = reading_s + copy_s if not reads_ahead else copy_s if not copies_ahead else 0.0
    host_s, queueing_s = step.host_s * by.host, step.queue_s * by.queueing
    begin_s = waits_s + host_s  # of the forward pass, since the update before
    passes_s = _passes_s(step, messages, cuts, by, fetched, begin_s)
    if contention and messages:
        passes_s += contention * hidden_behind_s(messages, by, passes_s - step.compute_s * by.compute)
    if host_s and queueing_s:  # it queues behind what it does once in a step, and the update behind that
        passes_s = max(passes_s, queueing_s + step.update_s * by.compute)
    if not reads_ahead:
        return begin_s + passes_s
    arriving_s = max(reading_s, copy_s) if copies_ahead else reading_s + copy_s
    return max(arriving_s, begin_s + passes_s, 0.0 if host_s else queueing_s)


def hidden_behind_s(messages: Sequence[TimedMessage], by: Stretch, exposed_s: float) -> float:
    """How long messages are on their way while the ranks compute; `exposed_s`: while these wait."""
    return max(0.0, by.messages * sum(message.time_s for message in messages) - exposed_s)


def _passes_s(
    step: StepTimes,
    messages: Sequence[TimedMessage],
    cuts: Sequence[int],
    by: Stretch,
    fetched: Sequence[TimedMessage],
    begin_s: float,
) -> float:
    """From the beginning of the forward pass to the end of the update; `begin_s`: since the update before."""
    forward_s, ends_s = _forward_s(step, fetched, by, begin_s), step.backward_ends_s
    forward_s += step.earlier_s * by.compute
    sent_s, free_s = 0.0, forward_s + ends_s[-1] * by.compute
    slowness, stretch = by.compute, by.messages  # the loop is run for every message of a hundred thousand points
    for message, cut in zip(messages, cuts, strict=True):
        ready_s = forward_s + ends_s[cut] * slowness
        sent_s = (ready_s if ready_s > sent_s else sent_s) + message.time_s * stretch
        if message.unpack_s:
            free_s = max(free_s, sent_s) + message.unpack_s * slowness
    return max(free_s, sent_s) + step.update_s * slowness


def _forward_s(step: StepTimes, fetched: Sequence[TimedMessage], by: Stretch, begin_s: float) -> float:
    """The forward pass, in which layers wait for parameters that come one after the other from the update on."""
    if not fetched:
        return step.forward_s * by.compute
    times_s = {message.layers[0]: message.time_s * by.messages for message in fetched}
    done_s, arrived_s = 0.0, -begin_s
    for layer in step.layers:
        if layer.name in times_s:
            arrived_s += times_s[layer.name]
            done_s = max(done_s, arrived_s)
        done_s += layer.forward_s * by.compute
    return done_s


# Where the scaling went: the time of a step in parts, each beyond what linear scaling would leave of it.
#
#     spent(iteration.job, iteration.stretches, iteration.deviations)        # seconds of each part, and their ends
#     time_parts(spent_on_8, spent_on_1, linear=1 / 8)                       # shares of the step on 8 GPUs
#
# A part is what the step is shorter without it. They are taken out one after the other, in the order of `Seconds`, so
# that they sum to the step exactly; what two parts save only together is in the first of them. What is left when all
# are out is the computing of one GPU on its share of the batch. Of each part, as much is no loss as linear scaling
# leaves of the same part on the GPUs that speed-ups are over.


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


@dataclass(frozen=True)
class Spent:
    """The parts of a step as predicted, and with each thing that is not known at both of its ends."""

    predicted: Seconds
    ends: tuple[tuple[Seconds, Seconds], ...]  # as `Deviations.parts` lists things
    scaling: tuple[float, float]  # as `Deviations.scaling`


def spent(job: SimulatedJob, stretches: Sequence[tuple[Stretch, Stretch]], deviations: Deviations) -> Spent:
    """The parts of the step of a job; `stretches`: the best and the worst of each thing that is not known."""
    jobs = _ever_less(job)
    low_high = tuple((_seconds(jobs, low), _seconds(jobs, high)) for low, high in stretches)
    return Spent(_seconds(jobs, AS_IT_IS), low_high, deviations.scaling)


def alone_s(job: SimulatedJob) -> float:
    """The step of one rank by itself: no messages, nobody to wait for, a host that launches in no time."""
    return iteration_s(_ever_less(job)[-1])


def _ever_less(job: SimulatedJob) -> tuple[SimulatedJob, ...]:
    """The job, and without one part more each time."""
    silent = job.without_messages()
    explained = silent.relieved("beyond")
    alike = explained.relieved("waits")
    alone = alike.relieved("shares")
    steps = (replace(ranks.step, host_s=0.0, queue_s=0.0) for ranks in alone.classes)
    classes = (replace(ranks, step=step) for ranks, step in zip(alone.classes, steps, strict=True))
    return job, silent, explained, alike, replace(alone, host=None, classes=tuple(classes))


def _seconds(jobs: Sequence[SimulatedJob], by: Stretch) -> Seconds:
    unread, pace = replace(by, reading=0.0, copying=0.0), jobs[-1].classes[0].step.pace
    times_s = [iteration_s(job, by) for job in jobs]
    times_s.append(iteration_s(jobs[-1], unread))
    times_s.append(times_s[-1] / pace)  # computing alone is left, which is as long as it is stretched
    return Seconds._make([*(before - after for before, after in pairwise(times_s)), times_s[-1]])


def time_parts(own: Spent, base: Spent, linear: float) -> list[TimePart]:
    """The shares of a step, which sum to one; `linear`: what linear scaling leaves of the step of `base`."""
    shares = _shares(own.predicted, base.predicted, linear)
    beside = [
        [_shares(own_end, base_end, linear) for own_end, base_end in zip(own_ends, base_ends, strict=True)]
        for own_ends, base_ends in zip(own.ends, base.ends, strict=True)
    ]
    beside.append([_shares(_scaled(own.predicted, by), base.predicted, linear) for by in own.scaling])
    return [
        TimePart(name, share, _interval(share, [[end[name] for end in ends] for ends in beside]))
        for name, share in shares.items()
    ]


def _shares(own: Seconds, base: Seconds, linear: float) -> dict[PartName, float]:
    lost = [own_s - base_s * linear for own_s, base_s in zip(own, base, strict=True)]
    useful_s, named = base.total * linear, Seconds(*lost)
    parts: dict[PartName, float] = {
        "useful": useful_s,
        "smaller batches": named.computing,
        "launching": named.launching,
        "communication": named.communication,
        "waiting": named.waiting,
        "input": named.input,
        "host": named.host,
        "unexplained": named.unexplained,
    }
    return {name: seconds / own.total for name, seconds in parts.items()}


def _scaled(seconds: Seconds, deviation: float) -> Seconds:
    """With what scaling costs beyond messages at an end: ranks wait so much more, or less."""
    return seconds._replace(waiting=seconds.waiting + seconds.total * (exp(deviation) - 1))


def _interval(share: float, by_thing: Sequence[Sequence[float]]) -> list[float]:
    """Each thing deviates by itself: the root of the sum of squares, as for the step."""
    lower = hypot(*(min(0.0, *(end - share for end in ends)) for ends in by_thing))
    upper = hypot(*(max(0.0, *(end - share for end in ends)) for ends in by_thing))
    return [share - lower, share + upper]
