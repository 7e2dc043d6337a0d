"""Our time of one collective against a bare torch.distributed call's, call by call, in one process group; a control.

    python -m tests.bench.bench_collectives

The bare call is what a user would write: barrier, start, all_reduce, stop. A round has one call of each contender, in
random order, on the same array, so that what slows the machine for milliseconds slows all of them alike; a call counts
with its slowest rank's time. The result is the ratio of medians over the rounds, with a bootstrap over rounds; and of
10th percentiles, which other processes on the machine disturb less. Above 1, ours is longer; the control is the bare
call against itself. `collective=broadcast` does the same for the other one. `SECONDS` is how long each size is
measured, `ROUNDS` how often at most, `SIZES` which (bytes). As root, `chrt -r 1 python -m ...` keeps other processes
off the cores meanwhile.
"""

import json
import os
import sys
import time
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from resnetx.cli.words import settings_of
from resnetx.measure.machine import environment
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import timed_with_cpu
from resnetx.measure.rank.windows import keep_freed_memory
from tests.bench.interleave import ratio_of_quantiles, rounds, sentence
from tests.bench.started import on_ranks

ROUNDS = int(os.environ.get("ROUNDS", "4000"))
AT_ONCE = 20  # rounds between two looks at the clock
SECONDS = float(os.environ.get("SECONDS", "10"))
SIZES = [int(size) for size in os.environ.get("SIZES", "8 4096 65536 1048576 16777216 67108864").split()]
BARE = {"allreduce": dist.all_reduce, "broadcast": lambda array: dist.broadcast(array, 0)}


def by_hand(name: str, array: torch.Tensor, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    dist.barrier()
    start = time.perf_counter()
    BARE[name](array)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main() -> None:
    name = str(settings_of(sys.argv[1:]).get("collective", "allreduce"))
    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        keep_freed_memory()
    with distributed.joined(int(os.environ["WORLD_SIZE"]), None, 600) as ranks:
        for size_bytes in SIZES:
            times = measured(name, size_bytes, ranks)
            if ranks.first:
                report(f"{name} of {size_bytes} B, gpus={ranks.world_size}", times)


def measured(name: str, size_bytes: int, ranks: distributed.Ranks) -> dict[str, list[float]]:
    """Seconds of each call of each contender, the slowest rank's."""
    array = torch.zeros(size_bytes // 4, device=ranks.device)
    operation = ranks.collective(name, array, array)
    contenders = {
        "ours": lambda: timed_with_cpu(operation, ranks.device, ranks.barrier)[0],
        "by hand": lambda: by_hand(name, array, ranks.device),
        "by hand again": lambda: by_hand(name, array, ranks.device),
    }
    times: dict[str, list[float]] = {each: [] for each in contenders}
    rounds(contenders, AT_ONCE)
    start, enough = time.perf_counter(), False
    while not enough:
        count = len(times["ours"])
        for each, own in rounds(contenders, AT_ONCE, seed=count).items():
            times[each] += own
        enough = count + AT_ONCE >= ROUNDS or max(ranks.gather(time.perf_counter() - start)) > SECONDS
    return {each: list(map(max, zip(*ranks.gather(own), strict=True))) for each, own in times.items()}


def report(point: str, times: dict[str, list[float]]) -> None:
    found = {
        f"{who} / by hand, {what}": ratio_of_quantiles(times[own], times["by hand"], share)
        for what, share in (("medians", 0.5), ("10th percentiles", 0.1))
        for who, own in (("ours", "ours"), ("by hand", "by hand again"))
    }
    print(point, *(f"  {sentence(what, result)}" for what, result in found.items()), sep="\n", flush=True)
    if path := os.environ.get("BENCH_RESULT"):
        result = {"bench": "collectives against calls by hand", "point": point, "seconds": times, "ratios": found,
                  "environment": json.loads(msgspec.json.encode(environment(None), enc_hook=str))}  # fmt: skip
        with Path(path).open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    on_ranks("bench_collectives", __doc__)
    main()
