"""What `resnetx.observe` costs a step: the price of a hook with its mark, times the hooks of a step.

    python -m tests.bench.bench_observe                 # the shortest step that a hook for each parameter is 0.5 % of

Whole steps beside each other say less: on a busy machine they differ by more than the hooks take. The price is that of
the hooks of `observe` itself, called as autograd calls them, as the least of ROUNDS rounds; on a machine with a GPU
each call records a CUDA event.
"""

import time

import torch
from torch import nn

from resnetx.measure.observe import _Loop, _Pass, _Step

ROUNDS, CALLS, SHARE = 20, 2000, 0.005
PARAMETERS = {"ResNet-50": 161, "GPT-2 (124 M)": 148}  # tensors that are trained: the layer tables of docs/workloads.md


def hook_s(device: torch.device) -> float:
    """Seconds that one hook takes, with its mark."""
    loop = _Loop(nn.Linear(1, 1, device=device), samples=1)
    parameter = loop.named[0][1]
    found = []
    for _ in range(ROUNDS):
        loop._step = _Step(loop.clock.now(), passes=[_Pass(loop.clock.now())])
        begin = time.perf_counter()
        for _ in range(CALLS):
            loop._ready(0, parameter)
        found.append((time.perf_counter() - begin) / CALLS)
    loop.remove()
    return min(found)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    price_s = hook_s(device)
    print(f"a hook on {device.type}: {price_s * 1e6:.2f} us")
    for name, tensors in PARAMETERS.items():
        cost_s = (tensors + 5) * price_s
        print(f"  {name}: {cost_s * 1e6:,.0f} us a step, {SHARE:.1%} of one of {cost_s / SHARE * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
