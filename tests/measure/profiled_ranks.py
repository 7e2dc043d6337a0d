"""Training steps of each rank, profiled: torchrun --nproc-per-node 4 profiled_ranks.py FOLDER NAME ...

Each name is a job of its own, `ddp-forward-2-40` or `fsdp-none`: how its ranks share the work, and the phase in which
rank 2 is late by 40 % of what a step computes. Computation is waited out.
"""

import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.profiler import profile, schedule

LAYERS, LAYER_s, STEPS, BATCH, WIDTH = 3, 0.006, 12, 8, 64


class _Waited(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward_s, backward_s):
        ctx.time_s = backward_s
        time.sleep(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.time_s)
        return gradient, None, None


class Layer(nn.Module):
    def __init__(self, late_s):
        super().__init__()
        self.linear, self.late_s = nn.Linear(WIDTH, WIDTH), late_s

    def forward(self, x):
        waited = _Waited.apply(x, LAYER_s + self.late_s["forward"], LAYER_s + self.late_s["backward"])
        return torch.relu(self.linear(waited))


def train(folder, strategy, phase, late="", percent="0"):
    rank = distributed.get_rank()
    by_s = int(percent) / 100 * 2 * LAYERS * LAYER_s if str(rank) == late else 0.0
    late_s = {name: by_s * (name == phase) for name in ("input", "forward", "backward")}
    none = dict.fromkeys(late_s, 0.0)
    layers = nn.Sequential(*[Layer(late_s if place == 1 else none) for place in range(LAYERS)])
    if strategy == "ddp":
        model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.02)
    else:
        mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        model = fully_shard(layers, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(schedule=schedule(wait=0, warmup=2, active=STEPS, repeat=1), record_shapes=True) as profiler:
        for _ in range(2 + STEPS):
            time.sleep(late_s["input"])
            optimizer.zero_grad()
            model(torch.randn(BATCH, WIDTH)).sum().backward()
            optimizer.step()
            profiler.step()
    folder.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(folder / f"rank{rank}.json.gz"))


def main(folder, names):
    distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    for name in names:
        train(Path(folder) / name, *name.split("-"))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
