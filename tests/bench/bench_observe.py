"""What `resnetx.observe` costs a step: by the price of its hooks, and by steps with and without them.

    python -m tests.bench.bench_observe                 # the shortest step that a hook for each parameter is 0.5 % of
    python -m tests.bench.bench_observe 200             # then 200 rounds of ResNet-50 with, without, and without again

The price is that of a hook with its mark, times the hooks of a step: the shortest of ROUNDS backward passes of a
thousand scalars with `observe`'s own hooks less the shortest without. Rounds are of TOGETHER steps each (batch 2,
64 x 64, one core of a machine without a GPU), which differ by more than hooks take where other programs run: the
control says by how much. On a machine with a GPU each call records a CUDA event.
"""

import time
from collections.abc import Callable

import torch
from torch import nn
from torchvision.models import resnet50

from resnetx.measure.observed_loop import Loop, Pass, Step
from tests.bench.interleave import ratio, rounds, sentence
from tests.bench.started import arguments

ROUNDS, PARAMETERS, SHARE = 20, 1000, 0.005
TOGETHER = 3  # steps that are timed as one, behind one that is not
MODELS = {"ResNet-50": 161, "GPT-2 (124 M)": 148}  # tensors that are trained: the layer tables of docs/workloads.md


class Scalars(nn.Module):
    """As many parameters as there are hooks, and next to nothing to compute."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.own = nn.ParameterList([torch.ones((), device=device) for _ in range(PARAMETERS)])


def backward_s(model: Scalars) -> float:
    """Seconds of a backward pass."""
    loss = torch.stack(list(model.own)).sum()
    begin = time.perf_counter()
    loss.backward()
    return time.perf_counter() - begin


def hook_s(device: torch.device) -> float:
    """Seconds that one hook takes, with its mark and with autograd's call of it."""
    model = Scalars(device)
    without_s, with_s = [], []
    for _ in range(ROUNDS):
        without_s.append(backward_s(model))
        loop = Loop(samples=1)
        loop.begin(model)
        loop._step = Step(loop.clock.now(), None, passes=[Pass(loop.clock.now())])
        with_s.append(backward_s(model))
        loop.remove()
    return (min(with_s) - min(without_s)) / PARAMETERS


def steps_of(device: torch.device) -> tuple[Callable[[], float], Callable[[], float]]:
    """What times some steps of one model: without hooks, and with those of an observation."""
    model = resnet50().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    images, labels = torch.rand(2, 3, 64, 64, device=device), torch.zeros(2, dtype=torch.long, device=device)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    def without_s() -> float:
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(TOGETHER):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    def with_s() -> float:
        loop = Loop(samples=1000)
        loop.begin(model)
        try:
            return without_s()
        finally:
            loop.remove()

    return without_s, with_s


def main(count: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    price_s = hook_s(device)
    print(f"a hook on {device.type}: {price_s * 1e6:.2f} us")
    for name, tensors in MODELS.items():
        cost_s = (tensors + 5) * price_s
        print(f"  {name}: {cost_s * 1e6:,.0f} us a step, {SHARE:.1%} of one of {cost_s / SHARE * 1e3:.1f} ms")
    if count:
        without_s, with_s = steps_of(device)
        without_s()
        times = rounds({"without": without_s, "with": with_s, "again": without_s}, count)
        print(f"a step of ResNet-50: {min(times['without']) / TOGETHER * 1e3:.1f} ms at least")
        print(f"  {sentence('with hooks / without', ratio(times['with'], times['without']))}")
        print(f"  {sentence('control, without / without', ratio(times['again'], times['without']))}")


if __name__ == "__main__":
    main(int((arguments(__doc__) or ["0"])[0]))
