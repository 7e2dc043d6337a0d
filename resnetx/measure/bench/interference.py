"""What computing loses to other ranks that compute, and to a collective that runs beside it.

gloo's threads move and add gradients on the cores that train. How much computing they cost cannot be read off their CPU
time: they also take caches and memory bandwidth, and wait for their turn. So it is measured: the same computing alone,
and with the collective started before it, alternating. It is half convolutions and half passes over arrays larger than
caches, as training is; computing that needs more of the memory loses more.

NCCL's kernels take multiprocessors and memory bandwidth from the kernels that train. How much, is measured in the same
way, each part queued behind a sleeping kernel and timed by CUDA events on the stream that computes. In each queue the
ranks meet in a small all-reduce first, so that none waits for another one in the large one, whose kernel takes its
multiprocessors while it waits.
"""

import math
import time
from collections.abc import Callable
from statistics import median

import torch
from torch.nn import functional

from resnetx.measure.rank.device import MOST_LAUNCHES, held_back, mark, seconds_between, timed_on_device
from resnetx.measure.rank.distributed import Ranks, Send
from resnetx.record import Unknown

# Of an all-reduce: below, what is lost on CPUs is less than computing varies by, and on GPUs it ends before the first
# kernels beside it do.
LEAST_BYTES = {"cpu": 2**18, "cuda": 2**20}
REPEATS = 5
CROWD_S, CROWD_REPEATS = 0.1, 15
LONGER = 4.0  # times as long as the collective alone takes, so that it ends beside the computing
CHUNK_LAUNCHES = 6  # at most, of one call of the computing, which takes some 0.2 ms on an H200
LEAST_CHUNKS, MOST_CHUNKS = 3, MOST_LAUNCHES // CHUNK_LAUNCHES


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


# ---- on GPUs ---------------------------------------------------------------------------------------------------------


def computing_lost_on_gpus(send: Send, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float | Unknown:
    """Seconds of computing that this rank loses for each second that the collective takes alone; median of a few."""
    compute = _computing_on_gpu(ranks.device)
    chunk_s = timed_on_device(compute, LEAST_CHUNKS, ranks.device, everywhere=ranks.everywhere)
    if isinstance(chunk_s, Unknown):
        return chunk_s
    fastest_s = min(ranks.gather(chunk_s)) / LEAST_CHUNKS
    chunks = max(LEAST_CHUNKS, math.ceil(LONGER * alone_s / fastest_s))
    if chunks > MOST_CHUNKS:
        return Unknown("the collective takes longer than what computing can be queued beside it")
    lost = []
    for _ in range(REPEATS):
        times_s = []
        for sent in (None, send, None):
            seconds = _seconds_on_gpu(compute, chunks, sent, array, ranks)
            if isinstance(seconds, Unknown):
                return seconds
            times_s.append(seconds)
        before_s, beside_s, after_s = times_s
        lost.append((beside_s - (before_s + after_s) / 2) / alone_s)
    return max(0.0, median(lost))


def _seconds_on_gpu(
    compute: Callable[[], None], chunks: int, send: Send | None, array: torch.Tensor, ranks: Ranks
) -> float | Unknown:
    """Seconds of the computing on its stream, beside a message where one is sent."""
    meeting = torch.zeros(1, device=array.device)

    def queue() -> tuple[torch.cuda.Event, torch.cuda.Event]:
        ranks.send(meeting).wait()  # the stream waits for it, and the host does not
        begin = mark()
        work = send(array) if send else None
        for _ in range(chunks):
            compute()
        end = mark()
        if work:
            work.wait()
        return begin, end

    marks = held_back(queue, ranks.device, ranks.everywhere)
    return marks if isinstance(marks, Unknown) else seconds_between(*marks)


def _computing_on_gpu(device: torch.device) -> Callable[[], None]:
    """Half convolutions and half passes over arrays larger than caches, as training is; some 0.4 GB of memory."""
    images, kernels = (
        torch.randn(shape, device=device).contiguous(memory_format=torch.channels_last)  # as cuDNN wants them
        for shape in ((32, 64, 56, 56), (64, 64, 3, 3))
    )
    large, other = torch.randn(2**25, device=device), torch.randn(2**25, device=device)

    def compute() -> None:
        with torch.no_grad():
            functional.conv2d(images, kernels, padding=1)
            large.mul_(0.5).add_(other)

    return compute
