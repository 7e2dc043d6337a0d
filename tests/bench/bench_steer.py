"""How long the searches of steering take, and how that grows with GPUs, flows and units.

python -m tests.bench.bench_steer
"""

import random
import time
from collections.abc import Callable

from resnetx.steering.link_units import (
    SteeringProblem,
    best,
    exhaustive,
    greedy,
    received,
    steering_problem,
    total_rtl,
    within_receivers,
)
from tests.bench.started import arguments


def node(gpus: int, flows: int, units: int) -> SteeringProblem:
    """GPUs that each send to the next `flows` of them, with `units` for each; amounts are random."""
    rng = random.Random(gpus)
    built = [[units * (0 < (to - by) % gpus <= flows) for by in range(gpus)] for to in range(gpus)]
    return steering_problem([[rng.random() if count else 0.0 for count in row] for row in built], built)


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    within_receivers(node(3, 2, 2), [9] * 3)  # imports the solver
    print("GPUs  flows  units    exhaustive       greedy  linear program")
    for gpus, flows, units in ((8, 4, 2), (16, 6, 2), (64, 8, 2), (256, 8, 2), (256, 16, 4), (512, 8, 2)):
        problem = node(gpus, flows, units)
        few = flows <= 6
        tried = milliseconds(lambda p=problem: [exhaustive(each) for each in p.sources]) if few else None
        quick = milliseconds(lambda p=problem: [greedy(each) for each in p.sources])
        limits = received(problem.built)
        solved = milliseconds(lambda p=problem, r=limits: within_receivers(p, r))
        shown = f"{tried:10.1f} ms" if tried is not None else f"{'-':>13}"
        print(f"{gpus:4}  {flows:5}  {flows * units:5} {shown} {quick:9.1f} ms {solved:12.1f} ms")
        unlimited = within_receivers(problem, [flows * units * gpus] * gpus)
        assert abs(total_rtl(problem.traffic, unlimited) / total_rtl(problem.traffic, best(problem).units) - 1) < 1e-9


if __name__ == "__main__":
    arguments(__doc__)
    main()
