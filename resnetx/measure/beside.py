"""What computing on CPU ranks loses to a collective that runs beside it.

gloo's threads move and add gradients on the cores that train. How much computing they cost cannot be read off their CPU
time: they also take caches and memory bandwidth, and wait for their turn. So it is measured: the same computing alone,
and with the collective started before it, in turns. It is half convolutions and half passes over arrays larger than
caches, as training is; computing that needs more of the memory loses more.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch.nn import functional

from resnetx.measure.distributed import Ranks, Send

LEAST_BYTES = 2**18  # below, what is lost is less than computing varies by
REPEATS = 5
LONGER = 4.0  # times as long as the collective alone takes, so that it ends beside the computing


def computing_lost(send: Send, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float:
    """Seconds of computing that this rank loses for each second that the collective takes alone; median of a few."""
    compute = _computing()
    compute(3)
    chunks = max(3, round(LONGER * alone_s / _seconds(compute, 5, ranks) * 5))
    lost = []
    for _ in range(REPEATS):
        before_s = _seconds(compute, chunks, ranks)
        ranks.barrier()
        start = time.perf_counter()
        work = send(array)
        compute(chunks)
        beside_s = time.perf_counter() - start
        work.wait()
        after_s = _seconds(compute, chunks, ranks)
        lost.append((beside_s - (before_s + after_s) / 2) / alone_s)
    return max(0.0, median(lost))


def _seconds(compute: Callable[[int], None], chunks: int, ranks: Ranks) -> float:
    ranks.barrier()
    start = time.perf_counter()
    compute(chunks)
    return time.perf_counter() - start


def _computing() -> Callable[[int], None]:
    """Does so many chunks of a few milliseconds each."""
    images, kernels = torch.randn(4, 64, 28, 28), torch.randn(64, 64, 3, 3)
    large, other = torch.randn(2**21), torch.randn(2**21)

    def compute(chunks: int) -> None:
        with torch.no_grad():
            for _ in range(chunks):
                functional.conv2d(images, kernels, padding=1)
                large.mul_(0.5).add_(other)

    return compute
