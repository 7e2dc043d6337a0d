"""How well `explain` names a late rank: jobs without a delay are recorded, cut into short ones, and a delay is added.

    RANKS=4 python -m tests.bench.bench_slow_rank FOLDER 1600     # records: computation is waited out
    python -m tests.bench.bench_slow_rank FOLDER 64               # judges what is there, with 64 steps to a job

Of each short job every choice of 2 or more ranks is judged as it is; and all of it with each rank in turn late by 5 %
of a step in input, forward and backward, in each of its steps.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

import msgspec

from resnetx.record.traces import Observation, ObservedBucket, observations
from resnetx.reporting.slow_rank import observed_ranks
from tests.bench.started import arguments, on_ranks

LATE = 0.05
TIMES = ("update", "input", "waiting", "forward", "backward", "exposed", "step")


def record(folder: Path, steps: int) -> None:
    """Observes a loop of six layers and 90 ms."""
    import torch
    from torch import distributed, nn

    import resnetx
    from tests.measure.observed_loops import Layer

    distributed.init_process_group("gloo")
    layers = nn.Sequential(*(Layer(0.005, 0.008) for _ in range(6)))
    model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with resnetx.observe(model, samples=steps, results=folder):
        for _ in range(steps + 18):
            time.sleep(0.006)
            model(torch.ones(4, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def judge(found: Sequence[Observation], steps: int) -> Counter[str]:
    """How often the right rank and phase are named, others, or somebody where nobody is late."""
    seen: Counter[str] = Counter()
    for begin in range(0, len(found[0].step_s) - steps + 1, steps):
        job = [_cut(each, slice(begin, begin + steps)) for each in found]
        for size in range(2, len(job) + 1):
            for some in combinations(job, size):
                seen["without a delay"] += 1
                seen["without a delay: somebody named"] += any(each.late for each in observed_ranks(some))
        late_s = LATE * median(job[0].step_s)
        for late in job:
            for phase in ("input", "forward", "backward"):
                changed = [_late(each, phase, late_s) if each is late else each for each in job]
                named = [(each.rank, each.phase) for each in observed_ranks(changed) if each.late]
                seen["with a delay"] += 1
                seen["with a delay: rank and phase named"] += named == [(late.rank, phase)]
                seen["with a delay: another rank named"] += any(rank != late.rank for rank, _ in named)
    return seen


def _cut(each: Observation, part: slice) -> Observation:
    buckets = [ObservedBucket(size_bytes=one.size_bytes, ready_s=one.ready_s[part]) for one in each.buckets or []]
    times = {f"{name}_s": getattr(each, f"{name}_s")[part] for name in TIMES}
    return msgspec.structs.replace(each, buckets=buckets or None, core_wait_s=each.core_wait_s[part], **times)


def _late(each: Observation, phase: str, late_s: float) -> Observation:
    """In the backward pass from its middle on."""
    later = [
        msgspec.structs.replace(bucket, ready_s=[ready_s + late_s for ready_s in bucket.ready_s])
        if phase != "backward" or 2 * place >= len(each.buckets or [])
        else bucket
        for place, bucket in enumerate(each.buckets or [])
    ]
    times = {name: [time_s + late_s for time_s in getattr(each, name)] for name in (f"{phase}_s", "step_s")}
    return msgspec.structs.replace(each, buckets=later or None, **times)


if __name__ == "__main__":
    folder, steps = arguments(__doc__)
    if recorded := observations(Path(folder)):
        for what, count in judge(recorded, int(steps)).items():
            print(f"{what:36} {count:5}")
    else:
        on_ranks("bench_slow_rank", __doc__)
        record(Path(folder), int(steps))
