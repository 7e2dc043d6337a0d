"""A loop on GPUs, observed: torchrun --nproc-per-node 2 observed_loop.py FOLDER PHASE ...

PHASE: input, forward, backward, none or bare. Rank 1 is late in it, as its device runs more kernels there; a bare loop
is not observed. Each batch is copied on a stream of its own.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import distributed, nn

import resnetx

LAYERS, SAMPLES, MORE = 3, 32, 8  # kernels that the late rank runs in its phase
events = 0


class _Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kernels, backward_kernels):
        ctx.kernels = backward_kernels
        return more(x.clone(), kernels)

    @staticmethod
    def backward(ctx, gradient):
        return more(gradient, ctx.kernels), None, None


def more(tensor, kernels):
    for _ in range(kernels):
        tensor = tensor * 1.0
    return tensor


class Layer(nn.Module):
    def __init__(self, forward, backward):
        super().__init__()
        self.linear, self.forward_kernels, self.backward_kernels = nn.Linear(16, 16), forward, backward

    def forward(self, x):
        return _Late.apply(self.linear(x), self.forward_kernels, self.backward_kernels)


def counting(record):
    def counted(event, *stream):
        global events
        events += 1
        return record(event, *stream)

    return counted


def main(folder, phases):
    distributed.init_process_group("nccl")
    rank = distributed.get_rank()
    torch.cuda.set_device(rank)
    torch.cuda.Event.record = counting(torch.cuda.Event.record)
    copying, labels = torch.cuda.Stream(), torch.zeros(4, dtype=torch.long, device="cuda")
    for phase in phases:
        late = {name: MORE * (rank == 1 and name == phase) for name in ("input", "forward", "backward")}
        layers = [Layer(0, 0), Layer(late["forward"], late["backward"]), *(Layer(0, 0) for _ in range(LAYERS - 2))]
        model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), bucket_cap_mb=0.002)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        counts = []
        observing = resnetx.observe(model, samples=SAMPLES, results=folder / phase)
        with nullcontext() if phase == "bare" else observing:
            for _ in range(SAMPLES + 6):
                before = events
                copying.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(copying):
                    batch = more(torch.ones(4, 16).pin_memory().to("cuda", non_blocking=True), late["input"])
                torch.cuda.current_stream().wait_stream(copying)
                nn.functional.cross_entropy(model(batch), labels).backward()
                optimizer.step()
                optimizer.zero_grad()
                counts.append(events - before)
        (folder / phase).mkdir(exist_ok=True)
        (folder / phase / f"events{rank}.txt").write_text(" ".join(map(str, counts)))
        torch.cuda.synchronize()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
