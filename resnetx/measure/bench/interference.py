"""What computing on CPU ranks loses to other ranks that compute, and to a collective that runs beside it.

On GPUs: `nccl_interference`.

gloo's threads move and add gradients on the cores that train. How much computing they cost cannot be read off their CPU
time: they also take caches and memory bandwidth, and wait for their turn. So it is measured: the same computing alone,
and with the collective started before it, alternating. It is half convolutions and half passes over arrays larger than
caches, as training is; computing that needs more of the memory loses more.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch.nn import functional

from resnetx.measure.rank.distributed import Ranks, Send

LEAST_BYTES = 2**18  # below, what is lost is less than computing varies by
REPEATS = 5
CROWD_S, CROWD_REPEATS = 0.1, 15
LONGER = 4.0  # times as long as the collective alone takes, so that it ends beside the computing


def crowding(ranks: Ranks) -> float:
    """How many times as long computing takes while all ranks compute, as while one of them does.

    Ranks on CPUs share caches, memory bandwidth, and the clock that the host grants to all its cores. Rank 0's answer.
    """
    compute = _computing()
    compute(3)
    chunks = max(1, round(CROWD_S / _seconds(compute, 5, ranks) * 5))
    ratios = []
    for _ in range(CROWD_REPEATS):
        crowd_s = _seconds(compute, chunks, ranks)
        alone_s = _seconds(compute if ranks.first else _idle, chunks, ranks)
        ratios.append((crowd_s + _seconds(compute, chunks, ranks)) / 2 / alone_s)
    return median(ratios)


def _idle(_: int) -> None:
    """What a rank does while another one computes."""


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
    """Does so many chunks of some ten milliseconds each."""
    images, kernels = torch.randn(16, 64, 56, 56), torch.randn(64, 64, 3, 3)
    large, other = torch.randn(2**24), torch.randn(2**24)

    def compute(chunks: int) -> None:
        with torch.no_grad():
            for _ in range(chunks):
                functional.conv2d(images, kernels, padding=1)
                large.mul_(0.5).add_(other)

    return compute
