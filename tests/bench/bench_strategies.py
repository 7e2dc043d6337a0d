"""The clean step of each strategy against a loop that does the same by hand, in turns, with an A/A control.

    python -m tests.bench.bench_strategies

Above 1, resnetx is faster. By hand is what a PyTorch user would write: `bucket` with DistributedDataParallel (the same
settings), `layerwise` with an asynchronous all-reduce of each gradient as it comes, `after` with one all-reduce of all
gradients, concatenated and copied back. All share model, memory layout, threads, optimizer settings, and a batch that
lies ready. The watched step (measure=phases) is timed beside the clean one.
"""

import json
import os
import sys
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from torch import nn

from resnetx.cli.words import settings_of
from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.inputs import open_for
from resnetx.measure.machine import environment
from resnetx.measure.rank import distributed, replicas
from resnetx.measure.rank.device import timed
from resnetx.measure.rank.phases import Watch, unwatched
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.training import build, training_step
from resnetx.measure.rank.windows import keep_freed_memory
from resnetx.request import Request
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import on_ranks

STRATEGIES = ("bucket", "layerwise", "after", "none")
ROUNDS = int(os.environ.get("ROUNDS", "10"))
STEPS = int(os.environ.get("STEPS", "2"))  # per window


def by_hand(request: Request, ranks: distributed.Ranks):
    """One step of a hand-written loop."""
    torch.manual_seed(request.seed)
    bare = model = build(request, ranks)
    finish = {
        "bucket": lambda: None,
        "layerwise": lambda: None,
        "after": lambda: all_at_once(bare, ranks.world_size),
        "none": lambda: None,
    }[request.strategy.kind]
    if request.strategy.kind == "bucket":
        model = replicas.data_parallel(bare, request.strategy, ranks)
    elif request.strategy.kind == "layerwise":
        finish = one_by_one(bare, ranks.world_size)
    settings = request.optimizer
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    images, labels = next(open_for(request, ranks.rank, ranks.device))
    criterion = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        finish()
        optimizer.step()

    return step


def one_by_one(model: nn.Module, world_size: int):
    works = []

    def reduce(parameter: torch.Tensor) -> None:
        parameter.grad.div_(world_size)
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)

    def finish() -> None:
        for work in works:
            work.wait()
        works.clear()

    return finish


def all_at_once(model: nn.Module, world_size: int) -> None:
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients]).div_(world_size)
    dist.all_reduce(flat)
    for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view(gradient.shape))


def ours(request: Request, ranks: distributed.Ranks, watch: Watch | None = None):
    """The step that `resnetx train` measures, with synthetic input."""
    replica = replicate(build(request, ranks), request, ranks, watch.watched if watch else distributed.unchanged)
    batches = open_for(request, ranks.rank, ranks.device)
    step, _ = training_step(replica, batches, request, ranks, watch.mark if watch else unwatched)
    return step


def main() -> None:
    settings = {"input": "synthetic", "gpus": int(os.environ["WORLD_SIZE"]), "threads": 1} | settings_of(sys.argv[1:])
    requests = {name: request_from(compose({**settings, "strategy": name})) for name in STRATEGIES}
    if not torch.cuda.is_available():
        keep_freed_memory()
    torch.set_num_threads(requests["bucket"].threads)
    with distributed.joined(requests["bucket"].gpus, requests["bucket"].devices, 600, timed_by_nccl=True) as ranks:
        for name, request in requests.items():
            watch = Watch(ranks)
            steps = {
                "by hand": by_hand(request, ranks),
                "by hand again": by_hand(request, ranks),
                "clean": ours(request, ranks),
                "watched": ours(request, ranks, watch),
            }
            for step in steps.values():
                timed(step, 4, ranks.device, ranks.barrier)

            def window(step):
                return lambda: max(ranks.gather(timed(step, STEPS, ranks.device, ranks.barrier)))

            times = rounds({contender: window(step) for contender, step in steps.items()}, ROUNDS)
            if ranks.first:
                report(name, request, times)


def report(name: str, request: Request, times: dict[str, list[float]]) -> None:
    point = f"{request.model.label} b{request.batch_size} gpus={request.gpus} strategy={name}"
    found = {
        "rate of the clean step / by hand": ratio(times["by hand"], times["clean"]),
        "A/A control": ratio(times["by hand"], times["by hand again"]),
        "rate of the watched step / clean": ratio(times["clean"], times["watched"]),
    }
    print(point, *(f"  {sentence(what, result)}" for what, result in found.items()), sep="\n", flush=True)
    if path := os.environ.get("BENCH_RESULT"):
        result = {"bench": "strategies against loops by hand", "point": point, "steps_per_window": STEPS,
                  "seconds": times, "ratios": found,
                  "environment": json.loads(msgspec.json.encode(environment(None), enc_hook=str))}  # fmt: skip
        with Path(path).open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    on_ranks("bench_strategies", __doc__)
    main()
