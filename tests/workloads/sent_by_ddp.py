"""What DistributedDataParallel sends: torchrun --nproc-per-node 1 sent_by_ddp.py CASES.json ANSWERS.json

A case is a model, an image size, a precision and DDP's options, one set after the other. Rank 0 writes, for each set,
the buckets in the order in which it sent them in its third step: [[elements of a tensor, ...], ...].
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

from resnetx import choices, workloads


def main(cases: Path, answers: Path) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    found = [answer(**case) for case in json.loads(cases.read_text())]
    if dist.get_rank() == 0:
        answers.write_text(json.dumps(found))
    dist.destroy_process_group()


def answer(model: dict[str, Any], image_size: int, precision: str, options: list[dict[str, Any]]) -> list[Any]:
    settings = msgspec.convert(model, choices.Model)
    module, sample = workloads.build(settings, image_size), settings.sample(image_size)
    shape = (2, *sample.shape)
    batch = torch.randint(sample.vocabulary, shape) if sample.vocabulary else torch.randn(shape)
    return [sent(module, batch, precision, chosen) for chosen in options]


def sent(module: nn.Module, images: torch.Tensor, precision: str, options: dict[str, Any]) -> list[list[int]]:
    replica = DistributedDataParallel(module, init_sync=False, **options)
    buckets: list[list[int]] = []

    def note(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        buckets.append([parameter.numel() for parameter in bucket.parameters()])
        arrived: torch.futures.Future[torch.Tensor] = (
            torch.futures.Future()
        )  # what a bucket becomes decides nothing here
        arrived.set_result(bucket.buffer())
        return arrived

    replica.register_comm_hook(None, note)
    for _ in range(3):  # the second step has the rebuilt buckets, and the third reports them
        buckets.clear()
        module.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            outputs = tree_leaves(replica(images))
        sum(output.float().sum() for output in outputs).backward()
    reported = replica._get_ddp_logging_data()["rebuilt_bucket_sizes"]
    assert [int(size) for size in reported.split(",")] == [4 * sum(elements) for elements in buckets]
    return buckets


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
