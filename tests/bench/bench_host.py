"""The host's time for a step: resnetx's against that of a bare loop, on a null GPU, which takes no time of its own.

    python -m tests.bench.bench_host model.x=1

On a null GPU (tests/nullcuda) whatever a step takes is the host's: launching, and the computing of tiny tensors, which
is the same for both. The pieces of work that each launches are counted. It fails where resnetx launches more than the
bare loop of `bench_train`, or its host takes more than 1.03 times as long beyond what the A/A control shows.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import timed
from tests import nullcuda
from tests.bench.bench_train import bare, ours
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments
from tests.nullcuda import build

ROUNDS, STEPS, MOST = 40, 10, 1.03
TINY = {"model.width": 8, "model.classes": 10, "image_size": 32, "batch_size": 2, "threads": 1, "input": "synthetic"}


def launches(step, count: int = STEPS) -> float:
    """Pieces of work that a step launches on a null GPU."""
    runtime = ctypes.CDLL("libcudart.so.13")
    runtime.null_launches.restype = ctypes.c_ulonglong
    before = runtime.null_launches()
    for _ in range(count):
        step()
    return (runtime.null_launches() - before) / count


def main() -> None:
    given = arguments(__doc__)
    if nullcuda.VARIABLE not in os.environ:
        if reason := build.missing():
            raise SystemExit(reason)
        with tempfile.TemporaryDirectory() as folder:
            there = build.playing(build.built(Path(folder)), 1, kernel_us=0)
            command = [sys.executable, "-m", "tests.bench.bench_host", *given]
            raise SystemExit(subprocess.run(command, env=there, check=False).returncode)
    request = request_from(compose({**TINY, "gpus": 1, **settings_of(given)}))
    torch.set_num_threads(1)
    with distributed.joined(1, None, 600) as ranks:
        steps = {"bare": bare(request, ranks), "bare again": bare(request, ranks), "resnetx": ours(request, ranks)}
        for step in steps.values():
            timed(step, STEPS, ranks.device, ranks.barrier)
        counts = {name: launches(step) for name, step in steps.items()}

        def window(step):
            return lambda: timed(step, STEPS, ranks.device, ranks.barrier)

        times = rounds({name: window(step) for name, step in steps.items()}, ROUNDS)
    host, control = ratio(times["resnetx"], times["bare"]), ratio(times["bare again"], times["bare"])
    print(
        f"{request.model.label}: launches a step: " + ", ".join(f"{name} {count:g}" for name, count in counts.items())
    )
    print("  " + sentence("host time of resnetx / of the bare loop", host))
    print("  " + sentence("A/A control", control))
    if counts["resnetx"] > counts["bare"] or host["low"] > MOST * max(1.0, control["high"]):
        raise SystemExit("the host of resnetx takes longer for a step than that of a bare loop")


if __name__ == "__main__":
    main()
