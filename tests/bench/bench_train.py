"""resnetx's training step against a bare hand-written DDP loop of the same model, in turns, with an A/A control.

    python -m tests.bench.bench_train model.x=8

Above 1, resnetx is faster. The bare loop is what a PyTorch user writes: it has the same model, memory layout, threads,
precision and optimizer settings, and its batch lies ready. Freed memory is kept for both, as `resnetx train` does on
CPUs (`windows.keep_freed_memory`); PLAIN_MALLOC=1 leaves glibc as it is, to see what that is worth.
"""

import json
import os
import sys
from pathlib import Path

import msgspec
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from resnetx import workloads
from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.inputs import open_for
from resnetx.measure.machine import environment
from resnetx.measure.rank import distributed
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.measure.rank.windows import keep_freed_memory
from resnetx.request import Request
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import on_ranks

ROUNDS = int(os.environ.get("ROUNDS", "15"))
STEPS = int(os.environ.get("STEPS", "2"))  # per window


def bare(request: Request, ranks: distributed.Ranks, **of_optimizer: bool):
    """One step of the loop in PyTorch's own tutorial; `of_optimizer`: what it leaves to PyTorch."""
    model = workloads.build(request.model, request.image_size).to(ranks.device, memory_format=torch.channels_last)
    if ranks.world_size > 1:
        model = DistributedDataParallel(model, device_ids=[ranks.device] if ranks.device.type == "cuda" else None)
    settings = request.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(), lr=settings.learning_rate, momentum=settings.momentum, weight_decay=settings.weight_decay,
        **of_optimizer,
    )  # fmt: skip
    criterion = nn.CrossEntropyLoss()
    size, batch = request.image_size, request.batch_size // ranks.world_size
    images = torch.randn(batch, 3, size, size, device=ranks.device).to(memory_format=torch.channels_last)
    labels = torch.randint(request.model.classes, (batch,), device=ranks.device)
    bf16 = request.precision == "bf16"

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(ranks.device.type, dtype=torch.bfloat16, enabled=bf16):
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()

    return step


def ours(request: Request, ranks: distributed.Ranks):
    """The step that `resnetx train` measures, with synthetic input."""
    replica = replicate(build(request, ranks), request, ranks)
    step, _ = training_step(replica, open_for(request, ranks.rank, ranks.device), request, ranks)
    return step


def main() -> None:
    settings = {"input": "synthetic", "gpus": int(os.environ["WORLD_SIZE"]), "threads": 1} | settings_of(sys.argv[1:])
    request = request_from(compose(settings))
    if "PLAIN_MALLOC" not in os.environ and not torch.cuda.is_available():
        keep_freed_memory()
    torch.set_num_threads(request.threads)
    torch.manual_seed(0)
    with distributed.joined(request.gpus, request.devices, 600) as ranks:
        steps = {"bare": bare(request, ranks), "bare again": bare(request, ranks), "resnetx": ours(request, ranks)}
        for step in steps.values():
            timed(step, 4, ranks.device, ranks.barrier)

        def window(step):
            return lambda: max(ranks.gather(timed(step, STEPS, ranks.device, ranks.barrier)))

        times = rounds({name: window(step) for name, step in steps.items()}, ROUNDS)
        if ranks.first:
            report(request, times)


def report(request: Request, times: dict[str, list[float]]) -> None:
    point = f"{request.model.label} b{request.batch_size} {request.precision} gpus={request.gpus}"
    rate = ratio(times["bare"], times["resnetx"])
    control = ratio(times["bare"], times["bare again"])
    print(point)
    print("  " + sentence("rate of resnetx / rate of the bare loop", rate))
    print("  " + sentence("A/A control", control))
    if path := os.environ.get("BENCH_RESULT"):
        result = {"bench": "train against a bare loop", "point": point, "steps_per_window": STEPS, "seconds": times,
                  "ratio": rate, "control": control,
                  "environment": json.loads(msgspec.json.encode(environment(None), enc_hook=str))}  # fmt: skip
        with Path(path).open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    on_ranks("bench_train", __doc__)
    main()
