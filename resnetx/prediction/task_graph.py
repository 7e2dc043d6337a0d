"""The task graph of synchronous SGD.

The graph is that of Shi et al. 2018, Fig. 1, but for room for two batches in the host: each rank reads its share of a
batch, copies it to its device, runs forward layer by layer and backward in the reverse order; messages of gradients are
sent between all ranks as they become ready; an update ends the iteration. Edges to the next iteration make overlap:

    reading          needs room in the host: the copy of the last batch but one, as one is read while another is copied;
                     where copies wait for the update, of the last one (the paper's); without overlap, the update
    copy to device   needs its batch, and room: the update of the last iteration but one; without overlap, of the last
    forward          needs its batch on the device, the update before it, and parameters that it has to fetch
    queueing         of the host, while the passes run: needs its batch read, and the queueing before it
    message          needs the backward pass of its layers, on all ranks; FSDP gathers parameters that a layer's
                     backward pass waits for
    parameters       need the update before, on all ranks, where a server sends them while the forward pass runs
    update           needs the passes, all messages, and that the host has queued it

A batch that is taken in parts has forward and backward once for each; messages of gradients come with the last.

Ranks that do the same in the same time stand for each other: the graph has one chain for each *class* of ranks, so that
a thousand GPUs cost no more than two.

Reference: S. Shi et al., A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep Learning (2018).
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from resnetx.prediction.step import AS_IT_IS, SAME, LayerTime, SimulatedJob, Step, Stretch, TimedMessage
from resnetx.record.prediction import PredictedTask

# Tasks, resources and dependencies in; start and end times out. Knows nothing of what the tasks are.
#
#     spans = simulate([Task(0, 2.0), Task(1, 1.0, after=(0,))], [Resource("compute"), Resource("network")])
#     spans.end_s    # [2.0, 3.0]
#
# A resource serves tasks in the order in which they become ready, `servers` at a time. Resources may draw on a pool
# that has less than they want together (the cores of a host): whatever runs there then slows down alike, as under a
# fair scheduler. Deterministic: no clock, no random numbers, and what happens at one time happens in the order of the
# tasks. Time and memory are linear in tasks and dependencies, but for the heap's logarithm.


class Task(NamedTuple):
    """`work_s` seconds on one resource, once the tasks `after` (places of earlier tasks) have ended."""

    resource: int  # its place among the resources
    work_s: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Resource:
    """What tasks queue for. Each running task wants `demand` of its pool, if it has one."""

    name: str
    servers: int = 1
    pool: str | None = None
    demand: float = 1.0


@dataclass(frozen=True)
class Spans:
    """When each task started and ended, by the places of the tasks."""

    start_s: list[float]
    end_s: list[float]


def simulate(
    tasks: Sequence[Task], resources: Sequence[Resource], capacities: Mapping[str, float] | None = None
) -> Spans:
    """When each task starts and ends. `capacities`: of each pool, in the unit of the demands."""
    return _Simulation(tasks, resources, capacities or {}).run()


Event = tuple[float, int, int]  # (time, task, edition): a pool makes new editions of what it reschedules


class _Simulation:
    """The queues of the resources, the tasks that run, and the times so far. Tasks and resources are their places."""

    def __init__(self, tasks: Sequence[Task], resources: Sequence[Resource], capacities: Mapping[str, float]) -> None:
        self._tasks, self._resources = tasks, resources
        self._missing, self._followers = _dependencies(tasks)
        self._spans = Spans([math.nan] * len(tasks), [math.nan] * len(tasks))
        self._free_servers = [resource.servers for resource in resources]
        self._queues: list[deque[int]] = [deque() for _ in resources]
        self._pools = {name: _Pool(capacity) for name, capacity in capacities.items()}
        self._pool_of = [None if resource.pool is None else self._pools[resource.pool] for resource in resources]
        self._events: list[Event] = []
        self._now = 0.0

    def run(self) -> Spans:
        """Lets all tasks run: what is ready starts where a server is free, then time moves on to the next end."""
        ready = [task for task, count in enumerate(self._missing) if count == 0]
        freed: list[int] = []
        while ready or freed or self._events:
            for task in ready:
                resource = self._tasks[task].resource
                self._queues[resource].append(task)
                freed.append(resource)
            self._start_on(freed)
            ended = self._next_ends()
            freed = [self._tasks[task].resource for task in ended]
            ready = self._end(ended)
        return self._spans

    def _start_on(self, resources: list[int]) -> None:
        """Starts what is queued at these resources, as far as they have servers."""
        for resource in resources:
            queue = self._queues[resource]
            while queue and self._free_servers[resource]:
                self._free_servers[resource] -= 1
                self._start(queue.popleft(), resource)
        for pool in self._pools.values():
            for event in pool.rescheduled(self._now):
                heappush(self._events, event)

    def _start(self, task: int, resource: int) -> None:
        self._spans.start_s[task] = self._now
        work_s, pool = self._tasks[task].work_s, self._pool_of[resource]
        if pool is None:
            heappush(self._events, (self._now + work_s, task, 0))
        else:
            pool.begin(task, work_s, self._resources[resource].demand, self._now)

    def _next_ends(self) -> list[int]:
        """Moves time on to the next event; the tasks that end then."""
        ended: list[int] = []
        events = self._events
        if not events:
            return ended
        self._now = events[0][0]
        while events and events[0][0] == self._now:
            _, task, edition = heappop(events)
            pool = self._pool_of[self._tasks[task].resource]
            if pool is None or pool.ends(task, edition, self._now):
                ended.append(task)
        return ended

    def _end(self, ended: list[int]) -> list[int]:
        """Notes the ends of tasks; returns those that were waiting for nothing else, in the order of the tasks."""
        ready, missing = [], self._missing
        for task in ended:
            self._spans.end_s[task] = self._now
            self._free_servers[self._tasks[task].resource] += 1
            for follower in self._followers[task]:
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready.append(follower)
        return sorted(ready) if len(ended) > 1 else ready


def _dependencies(tasks: Sequence[Task]) -> tuple[list[int], list[list[int]]]:
    """How many tasks each one waits for, and which ones wait for it."""
    assert all(0 <= task.work_s < math.inf for task in tasks), "work that never ends, or less than none"
    missing = [len(task.after) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for before in task.after:
            assert 0 <= before < index, f"task {index} waits for task {before}, which is not before it"
            followers[before].append(index)
    return missing, followers


@dataclass
class _Pool:
    """Running tasks that share a capacity: each goes on at the same fraction of its full speed."""

    capacity: float
    left_s: dict[int, float] = field(default_factory=dict)  # work of each running task
    demands: dict[int, float] = field(default_factory=dict)
    editions: dict[int, int] = field(default_factory=dict)
    speed: float = 1.0
    since: float = 0.0
    changed: bool = False

    def begin(self, place: int, work_s: float, demand: float, now: float) -> None:
        self._advance(now)
        self.left_s[place], self.demands[place], self.editions[place] = work_s, demand, 0
        self.changed = True

    def ends(self, place: int, edition: int, now: float) -> bool:
        """Whether this event is the end of the task; false: it has been rescheduled since."""
        if self.editions.get(place) != edition:
            return False
        self._advance(now)
        for kept in (self.left_s, self.demands, self.editions):
            del kept[place]
        self.changed = True
        return True

    def rescheduled(self, now: float) -> list[tuple[float, int, int]]:
        """The ends of all that runs, after something began or ended."""
        if not self.changed:
            return []
        self.changed = False
        wanted = sum(self.demands.values())
        self.speed = 1.0 if wanted <= self.capacity else self.capacity / wanted
        events = []
        for index, left_s in self.left_s.items():
            self.editions[index] += 1
            events.append((now + left_s / self.speed, index, self.editions[index]))
        return events

    def _advance(self, now: float) -> None:
        if now > self.since:
            passed_s = (now - self.since) * self.speed
            self.left_s = {index: max(0.0, left_s - passed_s) for index, left_s in self.left_s.items()}
        self.since = now


HOST_CORES, LINKS = "host cores", "links"
ALL_RANKS = -1  # the class of a task that is not of one class


@dataclass
class TaskGraph:
    """Tasks with what each one is called, and which of them end an iteration."""

    resources: list[Resource]
    capacities: dict[str, float]
    tasks: list[Task] = field(default_factory=list)
    labels: list[tuple[str, str, int]] = field(default_factory=list)  # name, lane, class of ranks
    updates: list[list[int]] = field(default_factory=list)  # [iteration][class]

    def add(self, lane: str, rank_class: int, name: str, work_s: float, after: Sequence[int]) -> int:
        """Adds a task behind the tasks `after`; returns its place."""
        resource = 0 if lane == "collectives" else 1 + 4 * rank_class + _LANES.index(lane)
        self.tasks.append(Task(resource, work_s, tuple(after)))
        self.labels.append((name, lane, rank_class))
        return len(self.tasks) - 1


_LANES = ("input", "copies", "compute", "host")


def _resources(job: SimulatedJob) -> tuple[list[Resource], dict[str, float]]:
    """The network, then four lanes for each class of ranks; and a host's cores, which computing and sending share."""
    host, pool = job.host, None if job.host is None else HOST_CORES
    sending = 0.0 if host is None else host.sending * sum(step.ranks for step in job.classes)
    if job.shared_links:
        pool, sending = LINKS, 1.0
    resources = [Resource("collectives", job.at_once, pool, sending)]
    pool = None if job.host is None else HOST_CORES
    for step in job.classes:
        computing = Resource("compute", 1, pool, 0.0 if host is None else step.ranks * host.computing)
        resources += [Resource("input"), Resource("copies"), computing, Resource("host")]
    return resources, ({} if host is None else {HOST_CORES: host.cores}) | ({LINKS: 1.0} if job.shared_links else {})


def task_graph(job: SimulatedJob, by: Stretch, iterations: int, detailed: bool) -> TaskGraph:
    """The tasks of so many iterations; `detailed`: a task for each layer, not for what lies between two messages."""
    graph = TaskGraph(*_resources(job))
    passes = {id(part): _passes_of(part, by, detailed) for part in job.by_part}
    arrivals: list[list[_Arrival]] = []  # [iteration][class]
    for _ in range(iterations):
        arrivals.append(_arrivals(graph, job, by, arrivals))
        _add_iteration(graph, job, by, [(part, passes[id(part)]) for part in job.by_part], arrivals[-1])
    return graph


def _passes_of(part: SimulatedJob, by: Stretch, detailed: bool) -> "list[_Passes]":
    fetching = {message.layers[0] for message in part.fetched}
    return [_Passes.of(step, by, part.cuts, fetching, detailed) for step in part.classes]


def _add_iteration(
    graph: TaskGraph,
    job: SimulatedJob,
    by: Stretch,
    parts: "Sequence[tuple[SimulatedJob, list[_Passes]]]",
    batches: Sequence["_Arrival"],
) -> None:
    """Forward and backward of each class, part by part, the messages between all ranks, and each class's update."""
    before = graph.updates[-1] if graph.updates else []
    queued: list[list[int]] = []  # what ends the host's queueing, of each class
    computed: list[_Computed] = []
    sent: list[int] = []
    for part, passes in parts:
        fetched, first = _fetched(graph, part, by, before), not queued
        computed = [
            _forward_pass(graph, number, of_class, batches[number], before[number : number + 1], fetched, first)
            for number, of_class in enumerate(passes)
        ]
        queued = queued or [tasks.queued for tasks in computed]
        sent = _backward_passes(graph, part, by, passes, computed)
        before = [tasks.latest for tasks in computed]
    graph.updates.append(
        [
            _update(graph, number, passes[number], job.messages, sent, tasks, queued[number])
            for number, tasks in enumerate(computed)
        ]
    )


def _backward_passes(
    graph: TaskGraph, job: SimulatedJob, by: Stretch, passes: "Sequence[_Passes]", computed: "Sequence[_Computed]"
) -> list[int]:
    """The backward pass of each class, and the messages between all ranks, whose tasks are returned."""
    sent: list[int] = []
    if not job.gates:
        for tasks, of_class in zip(computed, passes, strict=True):
            for part in of_class.backward:
                _undo(graph, tasks, part, [])
        _send(graph, job, by, computed, sent, len(job.messages))
        return sent
    undone = 0  # what is sent and what is computed wait for each other, on all ranks
    for parts in zip(*(of_class.backward for of_class in passes), strict=True):
        _send(graph, job, by, computed, sent, bisect_right(job.cuts, undone))
        gates = [sent[index] for index in job.gates.get(undone, [])]
        for tasks, part in zip(computed, parts, strict=True):
            _undo(graph, tasks, part, gates)
        undone = parts[0][0]
    _send(graph, job, by, computed, sent, len(job.messages))
    return sent


def _fetched(graph: TaskGraph, job: SimulatedJob, by: Stretch, before: Sequence[int]) -> dict[str, int]:
    """Layer -> the task that ends when its parameters are there, where they come while the forward pass runs.

    `before`: what ends the update, or the passes of the part, in front of it, of all classes.
    """
    return {
        message.layers[0]: graph.add(
            "collectives", ALL_RANKS, f"{message.name} {message.layers[0]}", message.time_s * by.messages, before
        )
        for message in job.fetched
    }


@dataclass(frozen=True)
class _Arrival:
    """The tasks that end the arrival of a batch: in the host's memory, and on the device."""

    read: int
    copied: int


def _arrivals(
    graph: TaskGraph, job: SimulatedJob, by: Stretch, arrivals: Sequence[Sequence[_Arrival]]
) -> list[_Arrival]:
    """The next batch of each class, read and copied to the device; `arrivals`: those of the iterations before."""
    updates, overlap = graph.updates, job.overlap
    batches = []
    for number, step in enumerate(job.classes):
        last_update = [updates[-1][number]] if updates else []
        ahead = 2 if overlap.host_to_device else 1
        copied = [arrivals[-ahead][number].copied] if len(arrivals) >= ahead else []
        reading_s = step.input_s * by.reading
        read = graph.add("input", number, "read", reading_s, copied if overlap.input else last_update)
        room = [updates[-2][number]] if len(updates) > 1 else []  # one batch on the device is in use, one waits
        copy_s = step.host_to_device_s * by.copying
        copy_after = [read, *(room if overlap.host_to_device else last_update)]
        batches.append(_Arrival(read, graph.add("copies", number, "copy to device", copy_s, copy_after)))
    return batches


@dataclass(frozen=True)
class _Passes:
    """What one class computes between a batch and its update: tasks with their seconds, alike in every iteration."""

    host_s: float
    queue_s: float
    forward: list[tuple[str, str, float]]  # (layer whose parameters are waited for or "", name, seconds)
    backward: list[tuple[int, str, float]]  # (layers done, name, seconds)
    update_s: float
    slowness: float

    @classmethod
    def of(cls, step: Step, by: Stretch, cuts: Sequence[int], fetching: set[str], detailed: bool) -> "_Passes":
        slowness = by.compute
        return cls(
            step.host_s * by.host,
            step.queue_s * by.queueing,
            [(layer, name, work_s * slowness) for layer, name, work_s in _forward(step.layers, fetching, detailed)],
            [(index, name, work_s * slowness) for index, name, work_s in _backward(step.layers, set(cuts), detailed)],
            step.update_s * slowness,
            slowness,
        )


@dataclass
class _Computed:
    """The tasks of one class that others wait for, of its passes in one iteration."""

    number: int  # of the class
    layers_done: dict[int, int]  # so many layers of the backward pass -> the task that ends the last of them
    latest: int  # in the end: ends the backward pass
    queued: list[int]  # ends the host's queueing; [] where that takes no time


def _send(
    graph: TaskGraph, job: SimulatedJob, by: Stretch, computed: Sequence[_Computed], sent: list[int], count: int
) -> None:
    """Adds messages to those that are `sent`, until they are so many."""
    for index in range(len(sent), count):
        message, ready = job.messages[index], [tasks.layers_done[job.cuts[index]] for tasks in computed]
        name = f"{message.name} {index + 1}"
        sent.append(graph.add("collectives", ALL_RANKS, name, message.time_s * by.messages, ready))


def _undo(graph: TaskGraph, tasks: _Computed, part: tuple[int, str, float], gates: list[int]) -> None:
    """Adds a part of the backward pass of one class, behind `gates`."""
    index, name, work_s = part
    after = [tasks.latest, *gates]
    tasks.latest = graph.add("compute", tasks.number, f"backward {name}".rstrip(), work_s, after)
    tasks.layers_done[index] = tasks.latest


def _forward_pass(
    graph: TaskGraph,
    number: int,
    passes: _Passes,
    batch: _Arrival,
    updated: list[int],
    fetched: Mapping[str, int],
    first: bool,
) -> _Computed:
    """The forward pass of one class over a part of its batch; `first`: in which the host does what it does in a step.

    `updated`: the update before, or the part before; `fetched`: the parameters of layers.
    """
    waits, may_queue = [batch.copied, *updated], [batch.read]
    if first and passes.host_s:
        waits = may_queue = [graph.add("host", number, "host", passes.host_s, waits)]
    queued = [graph.add("host", number, "queue", passes.queue_s, may_queue)] if first and passes.queue_s else []
    for layer, name, work_s in passes.forward:
        needed = [*waits, fetched[layer]] if layer else waits
        waits = [graph.add("compute", number, f"forward {name}".rstrip(), work_s, needed)]
    return _Computed(number, {0: waits[0]}, waits[0], queued)


def _forward(layers: Sequence[LayerTime], fetching: set[str], detailed: bool) -> Iterator[tuple[str, str, float]]:
    """(layer to wait for or "", name, seconds): a task for each layer, or only from one that waits to the next."""
    waiting, summed_s = "", 0.0
    for layer in layers:
        if detailed:
            yield layer.name if layer.name in fetching else "", layer.name, layer.forward_s
        elif layer.name in fetching:
            yield waiting, "", summed_s
            waiting, summed_s = layer.name, layer.forward_s
        else:
            summed_s += layer.forward_s
    if not detailed:
        yield waiting, "", summed_s


def _backward(layers: Sequence[LayerTime], cuts: set[int], detailed: bool) -> Iterator[tuple[int, str, float]]:
    """(layers done, name, seconds): a task for each layer, or only for what lies between two cuts."""
    summed_s = 0.0
    for index, layer in enumerate(reversed(layers), start=1):
        summed_s += layer.backward_s
        if detailed or index in cuts or index == len(layers):
            yield index, layer.name if detailed else "", summed_s
            summed_s = 0.0


def _update(
    graph: TaskGraph,
    number: int,
    passes: _Passes,
    messages: Sequence[TimedMessage],
    sent: Sequence[int],
    computed: _Computed,
    queued: Sequence[int],
) -> int:
    """Sums are taken out of the buffers in the order in which they arrive, then all parameters are updated."""
    waits = [computed.latest, *queued, *sent]
    for index, (message, arrived) in enumerate(zip(messages, sent, strict=True)):
        if unpack_s := message.unpack_s * passes.slowness:
            unpacked = graph.add("compute", number, f"unpack {index + 1}", unpack_s, [arrived, computed.latest])
            waits.append(unpacked)
    return graph.add("compute", number, "update", passes.update_s, waits)


# ---- an iteration, and what happens in it ----------------------------------------------------------------------------

ITERATIONS = 5  # simulated; the pipeline is full after two, and the last two give the time of one
STEADY = 2
# A host that queues ahead of its device fills the pipeline slowly: as many more until the time of one stays.
MOST_ITERATIONS = 80


def simulated_s(job: SimulatedJob, by: Stretch = AS_IT_IS) -> float:
    """The same by simulating some iterations."""
    queues = any(step.queue_s for step in job.classes)
    iterations, before_s, steady_s = ITERATIONS, 0.0, _simulated_s(job, by, ITERATIONS)
    while queues and iterations < MOST_ITERATIONS and abs(steady_s - before_s) > SAME * steady_s:
        iterations *= 2
        before_s, steady_s = steady_s, _simulated_s(job, by, iterations)
    return steady_s


def _simulated_s(job: SimulatedJob, by: Stretch, iterations: int) -> float:
    graph = task_graph(job, by, iterations, detailed=False)
    return _steady_s(graph, simulate(graph.tasks, graph.resources, graph.capacities))


def timeline(job: SimulatedJob) -> list[PredictedTask]:
    """The tasks of one steady iteration, since the update before, and of the input that is read meanwhile.

    Of the class of ranks that computes longest, and of what all ranks share.
    """
    slowest = max(range(len(job.classes)), key=lambda index: job.classes[index].compute_s)
    queues = any(step.queue_s for step in job.classes)
    graph = task_graph(job, AS_IT_IS, MOST_ITERATIONS if queues else ITERATIONS + 1, detailed=True)
    spans = simulate(graph.tasks, graph.resources, graph.capacities)
    shown = len(graph.updates) - 4  # behind it, the input of three more is read
    begin, end = _updated(graph, spans, shown - 1), _updated(graph, spans, shown)
    return [
        PredictedTask(name, lane, spans.start_s[index] - begin, spans.end_s[index] - begin)
        for index, (name, lane, rank_class) in enumerate(graph.labels)
        if rank_class in (ALL_RANKS, slowest)
        and begin <= spans.start_s[index] < end
        and spans.end_s[index] > spans.start_s[index]
    ]


def _updated(graph: TaskGraph, spans: Spans, iteration: int) -> float:
    """When the last rank has ended its update."""
    return max(spans.end_s[index] for index in graph.updates[iteration])


def _steady_s(graph: TaskGraph, spans: Spans) -> float:
    last = len(graph.updates) - 1
    first = last - STEADY
    return (_updated(graph, spans, last) - _updated(graph, spans, first)) / STEADY
