"""Tasks per second of the simulator beside SimPy's, on the same graphs with the same timelines, in turns.

python -m tests.bench.bench_simulator
"""

import time
import tracemalloc

import simpy

from resnetx.prediction.task_graph import Resource, Task, simulate
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments

TASKS = 60_000
RESOURCES = [Resource("compute"), Resource("collectives", servers=2), Resource("copies")]


def training(count: int) -> list[Task]:
    """A graph like that of training: a chain of computing, and beside it messages that the next step waits for."""
    tasks: list[Task] = []
    last, waited = (), []
    while len(tasks) < count:
        step = len(tasks)
        tasks.append(Task(2, 0.5, last))
        for layer in range(20):
            tasks.append(Task(0, 1.0 + layer % 3, (len(tasks) - 1,) if layer else (step, *last)))
        computed = len(tasks) - 1
        waited = []
        for message in range(10):
            tasks.append(Task(1, 2.0, (step + 2 * message + 1,)))
            waited.append(len(tasks) - 1)
        last = (computed, *waited)
    return tasks


def with_simpy(tasks: list[Task]) -> list[float]:
    """The end of each task, as a SimPy user would write it: a process that waits, takes a resource, and holds it."""
    environment = simpy.Environment()
    resources = [simpy.Resource(environment, each.servers) for each in RESOURCES]
    ended = [environment.event() for _ in tasks]
    ends = [0.0] * len(tasks)

    def life(place: int, task: Task):
        for before in task.after:
            yield ended[before]
        with resources[task.resource].request() as request:
            yield request
            yield environment.timeout(task.work_s)
        ends[place] = environment.now
        ended[place].succeed()

    for place, task in enumerate(tasks):
        environment.process(life(place, task))
    environment.run()
    return ends


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_bytes(tasks: list[Task]) -> int:
    tracemalloc.start()
    simulate(tasks, RESOURCES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    tasks = training(TASKS)
    assert simulate(tasks, RESOURCES).end_s == with_simpy(tasks), "the two disagree"
    contenders = {
        "ours": lambda: seconds(lambda: simulate(tasks, RESOURCES)),
        "ours again": lambda: seconds(lambda: simulate(tasks, RESOURCES)),
        "SimPy": lambda: seconds(lambda: with_simpy(tasks)),
    }
    times = rounds(contenders, 7)
    print(f"{len(tasks)} tasks; ours: {len(tasks) / min(times['ours']):,.0f} tasks/s")
    print(sentence("SimPy's time over ours (at least 5)", ratio(times["SimPy"], times["ours"])))
    print(sentence("control, ours over ours", ratio(times["ours again"], times["ours"])))
    small, large = peak_bytes(training(TASKS // 4)), peak_bytes(tasks)
    print(f"memory for 4 times the tasks: {large / small:.2f} times")


if __name__ == "__main__":
    arguments(__doc__)
    main()
