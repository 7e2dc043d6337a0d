"""Tasks, resources and dependencies in; start and end times out. Knows nothing of what the tasks are.

    spans = simulate([Task(0, 2.0), Task(1, 1.0, after=(0,))], [Resource("compute"), Resource("network")])
    spans.end_s    # [2.0, 3.0]

A resource serves tasks in the order in which they become ready, `servers` at a time. Resources may draw on a pool that
has less than they want together (the cores of a host): whatever runs there then slows down alike, as under a fair
scheduler. Deterministic: no clock, no random numbers, and what happens at one time happens in the order of the tasks.
Time and memory are linear in tasks and dependencies, but for the heap's logarithm.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple


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
    for place, task in enumerate(tasks):
        for before in task.after:
            assert 0 <= before < place, f"task {place} waits for task {before}, which is not before it"
            followers[before].append(place)
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
        for place, left_s in self.left_s.items():
            self.editions[place] += 1
            events.append((now + left_s / self.speed, place, self.editions[place]))
        return events

    def _advance(self, now: float) -> None:
        if now > self.since:
            passed_s = (now - self.since) * self.speed
            self.left_s = {place: max(0.0, left_s - passed_s) for place, left_s in self.left_s.items()}
        self.since = now
