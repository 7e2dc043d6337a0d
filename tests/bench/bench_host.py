"""The host's time for a step: resnetx's against that of a bare loop, on a null GPU, which takes no time of its own.

    python -m tests.bench.bench_host model.x=1

On a null GPU (tests/nullcuda) whatever a step takes is the host's: launching, and the computing of tiny tensors, which
is the same for both. It is CPU time of the process, which other processes disturb less than the time of a clock. The
pieces of work that each launches are counted, and how often each waits for the device. The bare loop is that of
`bench_train`, with torch's default optimizer and with the fused one, which resnetx has. It fails where resnetx launches
or waits more than the latter, or its host takes more than 1.03 times as long beyond what the A/A control shows.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
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

ROUNDS, STEPS, MOST = 100, 10, 1.03
TINY = {"model.width": 8, "model.classes": 10, "image_size": 32, "batch_size": 2, "threads": 1, "input": "synthetic"}


def counted(step, count: int = STEPS) -> tuple[float, float]:
    """Pieces of work that a step launches on a null GPU, and how often it waits for the device."""
    runtime = ctypes.CDLL("libcudart.so.13")
    counters = (runtime.null_launches, runtime.null_synchronisations)
    for counter in counters:
        counter.restype = ctypes.c_ulonglong
    before = [counter() for counter in counters]
    for _ in range(count):
        step()
    launches, waits = ((counter() - then) / count for counter, then in zip(counters, before, strict=True))
    return launches, waits


def host_s(step, ranks: distributed.Ranks) -> float:
    """CPU time of `STEPS` steps."""
    before = time.process_time()
    timed(step, STEPS, ranks.device, ranks.barrier)
    return time.process_time() - before


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
        steps = {
            "bare": bare(request, ranks),
            **{name: bare(request, ranks, fused=True) for name in ("fused", "fused again")},
            "resnetx": ours(request, ranks),
        }
        for step in steps.values():
            timed(step, STEPS, ranks.device, ranks.barrier)
        counts = {name: counted(step) for name, step in steps.items()}

        times = rounds({name: partial(host_s, step, ranks) for name, step in steps.items()}, ROUNDS)
    host, control = (ratio(times[name], times["fused"]) for name in ("resnetx", "fused again"))
    print(f"{request.model.label} b{request.batch_size} {request.precision}, of a step:")
    for name, (launches, waits) in counts.items():
        print(f"  {name}: {launches:g} launches, {waits:g} waits for the device")
    print("  " + sentence("host time of resnetx / of the bare loop", ratio(times["resnetx"], times["bare"])))
    print("  " + sentence("host time of resnetx / of the bare loop with its optimizer", host))
    print("  " + sentence("A/A control", control))
    more = any(ours > theirs for ours, theirs in zip(counts["resnetx"], counts["fused"], strict=True))
    if more or host["low"] > MOST * max(1.0, control["high"]):
        raise SystemExit("the host of resnetx takes longer for a step than that of a bare loop")


if __name__ == "__main__":
    main()
