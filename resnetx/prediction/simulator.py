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
    """`capacities`: of each pool, in the unit of the demands."""
    missing, followers = _dependencies(tasks)
    start_s, end_s = [math.nan] * len(tasks), [math.nan] * len(tasks)
    free = [resource.servers for resource in resources]
    queues: list[deque[int]] = [deque() for _ in resources]
    pools = {name: _Pool(capacity) for name, capacity in (capacities or {}).items()}
    pool_of = [None if resource.pool is None else pools[resource.pool] for resource in resources]
    events: list[tuple[float, int, int]] = []  # (time, task, edition): a pool makes new editions of what it reschedules
    now = 0.0
    ready = [place for place, count in enumerate(missing) if count == 0]
    while ready or events:
        ended: list[int] = []
        if not ready:
            now = events[0][0]
            while events and events[0][0] == now:
                _, place, edition = heappop(events)
                pool = pool_of[tasks[place].resource]
                if pool is None or pool.ends(place, edition, now):
                    ended.append(place)
        idle = []
        for place in ended:
            end_s[place] = now
            idle.append(tasks[place].resource)
            free[idle[-1]] += 1
            for follower in followers[place]:
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready.append(follower)
        if len(ended) > 1:
            ready.sort()
        for place in ready:
            queues[tasks[place].resource].append(place)
            idle.append(tasks[place].resource)
        ready = []
        for resource in idle:
            queue = queues[resource]
            while queue and free[resource]:
                place = queue.popleft()
                free[resource] -= 1
                start_s[place] = now
                pool = pool_of[resource]
                if pool is None:
                    heappush(events, (now + tasks[place].work_s, place, 0))
                else:
                    pool.begin(place, tasks[place].work_s, resources[resource].demand, now)
        for pool in pools.values():
            for event in pool.rescheduled(now):
                heappush(events, event)
    return Spans(start_s, end_s)


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
