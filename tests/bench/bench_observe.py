"""What `resnetx.observe` costs a step: the price of a hook with its mark, times the hooks of a step.

    python -m tests.bench.bench_observe                 # the shortest step that a hook for each parameter is 0.5 % of

Whole steps beside each other say less: on a busy machine they differ by more than the hooks take. The price is that of
`observe`'s own hooks on a thousand scalars: the shortest of ROUNDS backward passes with them less the shortest without.
On a machine with a GPU each call records a CUDA event.
"""

import argparse
import time

import torch
from torch import nn

from resnetx.measure.observe import _Loop, _Pass, _Step
from tests.bench.started import arguments

ROUNDS, PARAMETERS, SHARE = 20, 1000, 0.005
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
        loop = _Loop(samples=1)
        loop.begin(model)
        loop._step = _Step(loop.clock.now(), None, passes=[_Pass(loop.clock.now())])
        with_s.append(backward_s(model))
        loop.remove()
    return (min(with_s) - min(without_s)) / PARAMETERS


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    price_s = hook_s(device)
    print(f"a hook on {device.type}: {price_s * 1e6:.2f} us")
    for name, tensors in MODELS.items():
        cost_s = (tensors + 5) * price_s
        print(f"  {name}: {cost_s * 1e6:,.0f} us a step, {SHARE:.1%} of one of {cost_s / SHARE * 1e3:.1f} ms")


if __name__ == "__main__":
    arguments(__doc__)
    main()
