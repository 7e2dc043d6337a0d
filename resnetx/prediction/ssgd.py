"""How long an iteration of synchronous SGD takes, and what happens in it.

The task graph (`task_graph`) is simulated until the time of an iteration stays; where a formula is known to give the
same (`closed_form`), it is used instead. What a strategy overlaps is decided by its messages alone: one message of all
layers overlaps nothing. `docs/ssgd.md` derives the closed forms, which the tests hold against the simulation.
"""

from dataclasses import dataclass

from resnetx.prediction import closed_form
from resnetx.prediction.job import Job
from resnetx.prediction.simulator import Spans, simulate
from resnetx.prediction.step import AS_IT_IS, Stretch
from resnetx.prediction.task_graph import TaskGraph, task_graph

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


def iteration_s(job: Job, by: Stretch = AS_IT_IS) -> float:
    """Seconds from one update to the next, once the pipeline is full: by a formula where there is one."""
    step, overlap = job.classes[0].step, (job.overlap.input, job.overlap.host_to_device)
    queued = not step.queue_s or bool(step.host_s * by.host) or all(overlap)
    simple = len(job.classes) == 1 and job.host is None and job.at_once == 1 and queued and not job.gates
    contention = job.contention if by.contention is None else by.contention
    if simple:
        return closed_form.iteration_s(step, job.messages, job.cuts, overlap, by, job.fetched, contention)
    alone_s = simulated_s(job, by)
    if not contention or not job.messages:
        return alone_s
    hidden_s = closed_form.hidden_s(job.messages, by, alone_s - simulated_s(job.without_messages(), by))
    return simulated_s(job.computing_longer(contention * hidden_s), by)


def simulated_s(job: Job, by: Stretch = AS_IT_IS) -> float:
    """The same by simulating some iterations."""
    queues = any(ranks.step.queue_s for ranks in job.classes)
    iterations, before_s, steady_s = ITERATIONS, 0.0, _simulated_s(job, by, ITERATIONS)
    while queues and iterations < MOST_ITERATIONS and abs(steady_s - before_s) > SAME * steady_s:
        iterations *= 2
        before_s, steady_s = steady_s, _simulated_s(job, by, iterations)
    return steady_s


def _simulated_s(job: Job, by: Stretch, iterations: int) -> float:
    graph = task_graph(job, by, iterations, detailed=False)
    return _steady_s(graph, simulate(graph.tasks, graph.resources, graph.capacities))


def timeline(job: Job) -> list[Bar]:
    """Every task of one steady iteration, and the input of later ones that is read meanwhile."""
    queues = any(ranks.step.queue_s for ranks in job.classes)
    graph = task_graph(job, AS_IT_IS, MOST_ITERATIONS if queues else ITERATIONS + 1, detailed=True)
    spans = simulate(graph.tasks, graph.resources, graph.capacities)
    shown = len(graph.updates) - 4  # behind it, the input of three more is read
    begin, end = _updated(graph, spans, shown - 1), _updated(graph, spans, shown)
    return [
        Bar(name, lane, rank_class, spans.start_s[place] - begin, spans.end_s[place] - begin)
        for place, (name, lane, rank_class) in enumerate(graph.labels)
        if begin <= spans.start_s[place] < end and spans.end_s[place] > spans.start_s[place]
    ]


def _updated(graph: TaskGraph, spans: Spans, iteration: int) -> float:
    """When the last rank has ended its update."""
    return max(spans.end_s[place] for place in graph.updates[iteration])


def _steady_s(graph: TaskGraph, spans: Spans) -> float:
    last = len(graph.updates) - 1
    first = last - STEADY
    return (_updated(graph, spans, last) - _updated(graph, spans, first)) / STEADY
