"""The task graph of synchronous SGD, and what a simulated iteration of it takes.

The graph is that of Shi et al. 2018, Fig. 1: each rank reads its share of a batch, copies it to its device, runs
forward layer by layer and backward in the reverse order; messages of gradients are all-reduced between all ranks as
they become ready; an update ends the iteration. Edges that go to the next iteration make overlap:

    reading          needs the copy before it to be over (one batch is prefetched); without overlap, the update
    copy to device   needs its batch, and room: the update of the last iteration but one; without overlap, of the last
    forward          needs its batch on the device, and the update before it
    queueing         of the host, beside the passes: needs its batch read, and the queueing before it
    message          needs the backward pass of its layers, on all ranks
    update           needs the passes, all messages, and that the host has queued it

So what a strategy overlaps is decided by its messages alone: one message of all layers overlaps nothing. Ranks that do
the same in the same time stand for each other: the graph has one chain for each *class* of ranks, so that a thousand
GPUs cost no more than two. `docs/ssgd.md` derives the closed forms of the paper, which the tests hold against this.

Reference: S. Shi et al., A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep Learning (2018).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from resnetx.prediction import closed_form
from resnetx.prediction.simulator import Resource, Spans, Task, simulate
from resnetx.prediction.step import AS_IT_IS, LayerTime, StepTimes, Stretch, TimedMessage

ITERATIONS = 5  # simulated; the pipeline is full after two, and the last two tell the time of one
STEADY = 2
# A host that queues ahead of its device fills the pipeline slowly: as many more until the time of one stays.
MOST_ITERATIONS = 80
SAME = 1e-6

HOST_CORES = "host cores"


@dataclass(frozen=True)
class Overlap:
    """What the next iteration's input may do while this one computes."""

    input: bool = True
    host_to_device: bool = True


@dataclass(frozen=True)
class RankClass:
    """Ranks that do the same in the same time."""

    ranks: int
    step: StepTimes


@dataclass(frozen=True)
class HostShare:
    """Where ranks compute on the cores of one host, what they want of them, in cores; see `simulator`.

    Reading wants none here: `input` has shared the cores out for it.
    """

    cores: float
    computing: float  # of one rank while it computes
    sending: float  # of one rank while one message is on its way


@dataclass(frozen=True)
class Job:
    """All that a simulated iteration depends on."""

    classes: tuple[RankClass, ...]
    messages: tuple[TimedMessage, ...]  # in the order in which they are sent
    overlap: Overlap = Overlap()
    at_once: int = 1  # messages on their way at a time: one for NCCL, in order; gloo runs two
    host: HostShare | None = None

    def without_messages(self) -> "Job":
        return replace(self, messages=())

    @cached_property
    def cuts(self) -> list[int]:
        """After how many layers of the backward pass each message is ready; no earlier than the message before it."""
        layers = self.classes[0].step.layers
        done = {layer.name: place for place, layer in enumerate(reversed(layers), start=1)}
        found: list[int] = []
        for message in self.messages:
            found.append(max([*found[-1:], *(done[name] for name in message.layers)]))
        return found


@dataclass(frozen=True)
class Bar:
    """What one resource did in a steady iteration, since its beginning: the end of the update before."""

    name: str
    lane: str  # "compute", "copies", "input", "host", "collectives"
    rank_class: int  # -1: of all ranks
    start_s: float
    end_s: float


def iteration_s(job: Job, by: Stretch = AS_IT_IS) -> float:
    """Seconds from one update to the next, once the pipeline is full: by a formula where there is one."""
    step, overlap = job.classes[0].step, (job.overlap.input, job.overlap.host_to_device)
    queues_ahead = not step.queue_s or (all(overlap) and not step.host_s)
    if len(job.classes) > 1 or job.host is not None or job.at_once > 1 or not queues_ahead:
        return simulated_s(job, by)
    return closed_form.iteration_s(step, job.messages, job.cuts, overlap, by)


def simulated_s(job: Job, by: Stretch = AS_IT_IS) -> float:
    """The same by simulating some iterations."""
    queues = any(each.step.queue_s for each in job.classes)
    iterations, before_s, steady_s = ITERATIONS, 0.0, _simulated_s(job, by, ITERATIONS)
    while queues and iterations < MOST_ITERATIONS and abs(steady_s - before_s) > SAME * steady_s:
        iterations *= 2
        before_s, steady_s = steady_s, _simulated_s(job, by, iterations)
    return steady_s


def _simulated_s(job: Job, by: Stretch, iterations: int) -> float:
    graph = _graph(job, by, iterations, detailed=False)
    return _steady_s(graph, simulate(graph.tasks, graph.resources, graph.capacities))


def timeline(job: Job) -> list[Bar]:
    """Every task of one steady iteration, and what runs beside it of the input of those behind it."""
    queues = any(each.step.queue_s for each in job.classes)
    graph = _graph(job, AS_IT_IS, MOST_ITERATIONS if queues else ITERATIONS, detailed=True)
    spans = simulate(graph.tasks, graph.resources, graph.capacities)
    shown = len(graph.updates) - 3  # behind it, the input of two more is read
    begin, end = _updated(graph, spans, shown - 1), _updated(graph, spans, shown)
    return [
        Bar(name, lane, rank_class, spans.start_s[place] - begin, spans.end_s[place] - begin)
        for place, (name, lane, rank_class) in enumerate(graph.labels)
        if begin <= spans.start_s[place] < end and spans.end_s[place] > spans.start_s[place]
    ]


def _updated(graph: "_Graph", spans: Spans, iteration: int) -> float:
    """When the last rank has ended its update."""
    return max(spans.end_s[place] for place in graph.updates[iteration])


def _steady_s(graph: "_Graph", spans: Spans) -> float:
    last = len(graph.updates) - 1
    first = last - STEADY
    return (_updated(graph, spans, last) - _updated(graph, spans, first)) / STEADY


# ---- the graph ------------------------------------------------------------------------------------------------------


@dataclass
class _Graph:
    resources: list[Resource]
    capacities: dict[str, float]
    tasks: list[Task] = field(default_factory=list)
    labels: list[tuple[str, str, int]] = field(default_factory=list)
    updates: list[list[int]] = field(default_factory=list)  # [iteration][class]

    def add(self, lane: str, rank_class: int, name: str, work_s: float, after: Sequence[int]) -> int:
        resource = 0 if lane == "collectives" else 1 + 4 * rank_class + _LANES.index(lane)
        self.tasks.append(Task(resource, work_s, tuple(after)))
        self.labels.append((name, lane, rank_class))
        return len(self.tasks) - 1


_LANES = ("input", "copies", "compute", "host")


def _resources(job: Job) -> tuple[list[Resource], dict[str, float]]:
    host, ranks = job.host, sum(each.ranks for each in job.classes)
    pool = None if host is None else HOST_CORES
    sending = 0.0 if host is None else ranks * host.sending
    found = [Resource("collectives", job.at_once, pool, sending)]
    for each in job.classes:
        computing = 0.0 if host is None else each.ranks * host.computing
        found += [
            Resource("input"),
            Resource("copies"),
            Resource("compute", 1, pool, computing),
            Resource("host"),
        ]
    return found, {} if host is None else {HOST_CORES: host.cores}


def _graph(job: Job, by: Stretch, iterations: int, detailed: bool) -> _Graph:
    graph = _Graph(*_resources(job))
    passes = [_Passes.of(each.step, by, job.cuts, detailed) for each in job.classes]
    arrived: list[list[_Arrival]] = []  # [iteration][class]
    for iteration in range(iterations):
        updated = graph.updates[-1] if graph.updates else []
        arrived.append(_arrivals(graph, job, by, arrived))
        computed = [
            _compute(graph, number, each, arrived[-1][number], updated[number : number + 1])
            for number, each in enumerate(passes)
        ]
        sent = [
            graph.add(
                "collectives",
                -1,
                f"all-reduce {index + 1}",
                message.time_s * by.messages,
                [each.layers_done[cut] for each in computed],
            )
            for index, (message, cut) in enumerate(zip(job.messages, job.cuts, strict=True))
        ]
        graph.updates.append(
            [_update(graph, number, each, job.messages, sent, computed[number]) for number, each in enumerate(passes)]
        )
        assert len(graph.updates) == iteration + 1
    return graph


@dataclass(frozen=True)
class _Arrival:
    """The tasks that end the arrival of a batch: in the host's memory, and on the device."""

    read: int
    copied: int


def _arrivals(graph: _Graph, job: Job, by: Stretch, arrived: list[list[_Arrival]]) -> list[_Arrival]:
    """The next batch of each class, read and copied to the device."""
    updates = graph.updates
    found = []
    for number, each in enumerate(job.classes):
        last_update = [updates[-1][number]] if updates else []
        before = [arrived[-1][number].copied] if arrived and job.overlap.input else last_update
        read = graph.add("input", number, "read", each.step.input_s * by.reading, before)
        room = [updates[-2][number]] if len(updates) > 1 and job.overlap.host_to_device else []
        after = [read, *(room if job.overlap.host_to_device else last_update)]
        copy_s = each.step.host_to_device_s * by.copying
        found.append(_Arrival(read, graph.add("copies", number, "copy to device", copy_s, after)))
    return found


@dataclass(frozen=True)
class _Passes:
    """What one class computes between a batch and its update: tasks with their seconds, alike in every iteration."""

    host_s: float
    queue_s: float
    forward: list[tuple[str, float]]
    backward: list[tuple[int, str, float]]  # (layers done, name, seconds)
    update_s: float
    slowness: float

    @classmethod
    def of(cls, step: StepTimes, by: Stretch, cuts: Sequence[int], detailed: bool) -> "_Passes":
        slowness = by.compute
        return cls(
            step.host_s * by.host,
            step.queue_s * by.queueing,
            [(name, work_s * slowness) for name, work_s in _forward(step.layers, detailed)],
            [(place, name, work_s * slowness) for place, name, work_s in _backward(step.layers, set(cuts), detailed)],
            step.update_s * slowness,
            slowness,
        )


@dataclass(frozen=True)
class _Computed:
    """The tasks of one class that others wait for, of its passes in one iteration."""

    layers_done: dict[int, int]  # so many layers of the backward pass -> the task that ends the last of them
    backward: int  # ends the backward pass
    queued: list[int]  # ends the host's queueing; [] where that takes no time


def _compute(graph: _Graph, number: int, passes: _Passes, batch: _Arrival, updated: list[int]) -> _Computed:
    """Forward and backward of one class; `updated`: the update before."""
    waits, may_queue = [batch.copied, *updated], [batch.read]
    if passes.host_s:
        waits = may_queue = [graph.add("host", number, "host", passes.host_s, waits)]
    queued = [graph.add("host", number, "queue", passes.queue_s, may_queue)] if passes.queue_s else []
    for name, work_s in passes.forward:
        waits = [graph.add("compute", number, f"forward {name}".rstrip(), work_s, waits)]
    layers_done: dict[int, int] = {}
    task = waits[0]
    for place, name, work_s in passes.backward:
        task = graph.add("compute", number, f"backward {name}".rstrip(), work_s, waits)
        waits, layers_done[place] = [task], task
    return _Computed(layers_done, task, queued)


def _forward(layers: Sequence[LayerTime], detailed: bool) -> Iterator[tuple[str, float]]:
    if detailed:
        yield from ((layer.name, layer.forward_s) for layer in layers)
    else:
        yield "", sum(layer.forward_s for layer in layers)


def _backward(layers: Sequence[LayerTime], cuts: set[int], detailed: bool) -> Iterator[tuple[int, str, float]]:
    """(layers done, name, seconds): a task for each layer, or only for what lies between two cuts."""
    summed_s = 0.0
    for place, layer in enumerate(reversed(layers), start=1):
        summed_s += layer.backward_s
        if detailed or place in cuts or place == len(layers):
            yield place, layer.name if detailed else "", summed_s
            summed_s = 0.0


def _update(
    graph: _Graph,
    number: int,
    passes: _Passes,
    messages: Sequence[TimedMessage],
    sent: Sequence[int],
    computed: _Computed,
) -> int:
    """Sums are taken out of the buffers in the order in which they arrive, then all parameters are updated."""
    waits = [computed.backward, *computed.queued, *sent]
    for index, (message, arrived) in enumerate(zip(messages, sent, strict=True)):
        if unpack_s := message.unpack_s * passes.slowness:
            unpacked = graph.add("compute", number, f"unpack {index + 1}", unpack_s, [arrived, computed.backward])
            waits.append(unpacked)
    return graph.add("compute", number, "update", passes.update_s, waits)
