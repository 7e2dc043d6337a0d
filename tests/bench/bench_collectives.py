"""Our time of one collective against a bare torch.distributed loop's, in turns, in one process group; an A/A control.

    torchrun --rdzv-backend=c10d --rdzv-conf=store_type=file --nproc-per-node=2 tests/bench/bench_collectives.py

The bare loop is what a user would write: barrier, start, all_reduce, stop. A round times each contender's `OPERATIONS`
operations on the same array; it counts with the median, over the operations, of the slowest rank's time. Above 1, ours
are longer. `collective=broadcast` does the same for the other one.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import msgspec
import torch
import torch.distributed as dist
from interleave import ratio, rounds, sentence

from resnetx.cli.words import settings_of
from resnetx.measure.machine.environment import environment
from resnetx.measure.rank import distributed
from resnetx.measure.rank.clock import timed_with_cpu
from resnetx.measure.rank.process import keep_freed_memory

ROUNDS = int(os.environ.get("ROUNDS", "20"))
OPERATIONS = int(os.environ.get("OPERATIONS", "20"))
SIZES = [8, 2**12, 2**16, 2**20, 2**24]
BARE = {"allreduce": dist.all_reduce, "broadcast": lambda array: dist.broadcast(array, 0)}


def by_hand(name: str, array: torch.Tensor, device: torch.device) -> list[float]:
    found = []
    for _ in range(OPERATIONS):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        dist.barrier()
        start = time.perf_counter()
        BARE[name](array)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - start)
    return found


def ours(name: str, array: torch.Tensor, ranks: distributed.Ranks) -> list[float]:
    operation = ranks.collective(name, array)
    return [timed_with_cpu(operation, ranks.device, ranks.barrier)[0] for _ in range(OPERATIONS)]


def main() -> None:
    name = str(settings_of(sys.argv[1:]).get("collective", "allreduce"))
    torch.set_num_threads(1)
    if not torch.cuda.is_available():
        keep_freed_memory()
    with distributed.joined(int(os.environ["WORLD_SIZE"]), None, 600) as ranks:
        for size_bytes in SIZES:
            array = torch.zeros(size_bytes // 4, device=ranks.device)

            def slowest(seen: list[float]) -> float:
                return median(map(max, zip(*ranks.gather(seen), strict=True)))

            contenders = {
                "ours": lambda array=array: slowest(ours(name, array, ranks)),
                "by hand": lambda array=array: slowest(by_hand(name, array, ranks.device)),
                "by hand again": lambda array=array: slowest(by_hand(name, array, ranks.device)),
            }
            for contender in contenders.values():
                contender()
            times = rounds(contenders, ROUNDS)
            if ranks.first:
                report(f"{name} of {size_bytes} B, gpus={ranks.world_size}", times)


def report(point: str, times: dict[str, list[float]]) -> None:
    found = {
        "our time / by hand": ratio(times["ours"], times["by hand"]),
        "A/A control": ratio(times["by hand again"], times["by hand"]),
    }
    print(point, *(f"  {sentence(what, result)}" for what, result in found.items()), sep="\n", flush=True)
    if path := os.environ.get("BENCH_RESULT"):
        result = {"bench": "collectives against a loop by hand", "point": point, "operations": OPERATIONS,
                  "seconds": times, "ratios": found,
                  "environment": json.loads(msgspec.json.encode(environment(None), enc_hook=str))}  # fmt: skip
        with Path(path).open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
