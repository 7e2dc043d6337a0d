"""One of two ranks of `truth_gloo`: steps of every strategy in turns with steps of one rank alone.

python -m tests.bench.truth_ranks POINTS WINDOWS [ROUNDS]

The machine is shared, and its speed moves within seconds. So all strategies train side by side in the same two
processes, each on a model of its own, in short windows; before and behind each of them stands a window of the baseline,
in which rank 0 trains alone and rank 1 waits.
"""

import os
import random
import sys
from pathlib import Path

import msgspec
import torch

from resnetx import inputs
from resnetx.choices import NoExchange
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.measure.rank.windows import keep_freed_memory
from resnetx.record import write
from resnetx.request import Request
from tests.bench.started import on_ranks

ROUNDS = 40
WARMUP = 4  # steps of each before the first round: DDP rebuilds its buckets behind the first


class Window(msgspec.Struct, frozen=True):
    """Steps of one strategy, between two windows of one rank alone; seconds of a step, of the slower rank."""

    workload: str
    strategy: str  # "none": both ranks compute, and exchange nothing
    round: int
    before_s: float
    step_s: float
    after_s: float


def main(points: list[Request], out: Path, rounds: int) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    with distributed.joined(2, None, 600) as ranks:
        steps = {point.strategy.kind: step_of(point, ranks) for point in points}
        alone = step_of(msgspec.structs.replace(points[0], strategy=NoExchange()), ranks)
        windows = measure(points[0], steps, alone, ranks, rounds)
        if ranks.first:
            write(out, windows)
    sys.stdout.flush()
    os._exit(0)  # as ranks do: what gloo's threads do at the end is not asked for


def step_of(point: Request, ranks: Ranks):
    """A training step of this rank, with a model, an optimizer and a batch of its own."""
    torch.manual_seed(0)
    replica = replicate(build(point, ranks), point, ranks)
    step, _ = training_step(replica, inputs.open_for(point, ranks.rank, ranks.device), point, ranks)
    return step


def measure(point: Request, steps: dict, alone, ranks: Ranks, rounds: int) -> list[Window]:
    def window_s(step) -> float:
        """Of both ranks together, the slower one's."""
        return max(ranks.gather(timed(step, point.steps, ranks.device, ranks.barrier))) / point.steps

    def alone_s() -> float:
        return window_s(alone if ranks.first else nothing)

    for step in steps.values():
        timed(step, WARMUP, ranks.device, ranks.barrier)
    windows, before_s, shuffle = [], alone_s(), random.Random(0).shuffle
    for round_ in range(rounds):
        order = list(steps)
        shuffle(order)
        for strategy in order:
            step_s, after_s = window_s(steps[strategy]), alone_s()
            windows.append(Window(point.model.label, strategy, round_, before_s, step_s, after_s))
            before_s = after_s
    return windows


def nothing() -> None:
    """What a rank does while the other one trains alone."""


if __name__ == "__main__":
    asked, out, *rounds = on_ranks("truth_ranks", __doc__)
    requests = msgspec.json.decode(Path(asked).read_bytes(), type=list[Request])
    main(requests, Path(out), int(rounds[0]) if rounds else ROUNDS)
