"""Loops of a user's own, observed: torchrun --nproc-per-node 2 observed_loops.py FOLDER PHASE ...

Computation is waited out. In each loop rank 1 is late in one phase by as much as all of its step takes. The first loop
makes its DDP module inside the block, as Fabric and the HF Trainer do, the last one accumulates gradients.
"""

import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import resnetx

LAYERS, LAYER_s, STEPS = 3, 0.002, 32


class _Waited(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, time_s):
        ctx.time_s = time_s
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.time_s)
        return gradient, None


class Layer(nn.Module):
    def __init__(self, forward_s, backward_s):
        super().__init__()
        self.linear, self.forward_s, self.backward_s = nn.Linear(16, 16), forward_s, backward_s

    def forward(self, x):
        time.sleep(self.forward_s)
        return _Waited.apply(self.linear(x), self.backward_s)


def main(folder, phases):
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    for place, phase in enumerate(phases):
        late_s = {
            name: 4 * LAYERS * LAYER_s * (rank == 1 and name == phase) for name in ("input", "forward", "backward")
        }
        layers = [Layer(LAYER_s, LAYER_s) for _ in range(LAYERS)]
        layers[1].forward_s += late_s["forward"]
        layers[1].backward_s += late_s["backward"]
        bare = nn.Sequential(*layers)
        calls = []
        passes = 2 if place == len(phases) - 1 else 1
        wrapped = None if place == 0 else nn.parallel.DistributedDataParallel(bare, bucket_cap_mb=0.002)
        with resnetx.observe(wrapped or bare, samples=STEPS, results=folder / phase):
            model = wrapped or nn.parallel.DistributedDataParallel(bare, bucket_cap_mb=0.002)
            model.register_comm_hook(None, _counting(calls))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(STEPS + 6 + 11 * (place == 0)):
                for done in range(passes):
                    time.sleep(LAYER_s + late_s["input"] / passes)
                    with nullcontext() if done == passes - 1 else model.no_sync():
                        model(torch.ones(4, 16)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert len(calls) > STEPS, "the hook of the user's own was not called"
    sharded(folder / "fsdp", rank)
    distributed.destroy_process_group()


def sharded(folder, rank):
    """FSDP, with a rank that waits for its input; two passes a step, of which the first exchanges nothing."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with resnetx.observe(model, samples=STEPS, results=folder):
        for _ in range(STEPS + 6):
            for sends in (False, True):
                model.set_requires_gradient_sync(sends)
                time.sleep(0.005 + 0.015 * (rank == 1))
                model(torch.ones(4, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def _counting(calls):
    def hook(_, bucket):
        calls.append(bucket)
        return (
            distributed.all_reduce(bucket.buffer().div_(2), async_op=True)
            .get_future()
            .then(lambda done: done.value()[0])
        )

    hook.__annotations__ = {"bucket": distributed.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
