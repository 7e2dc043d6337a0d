"""What computing on a GPU loses to an all-reduce of NCCL that runs beside it.

NCCL's kernels take multiprocessors and memory bandwidth from the kernels that train. How much, is measured as on CPUs
(`interference`): the same computing alone and with the all-reduce started before it, in turns, each queued behind a
sleeping kernel and timed by CUDA events on the stream that computes. In each queue the ranks meet in a small
all-reduce first, so that none waits for another one in the large one, whose kernel takes its multiprocessors while it
waits.
"""

import math
from collections.abc import Callable
from statistics import median

import torch
from torch.nn import functional

from resnetx.measure.bench.interference import LONGER, REPEATS
from resnetx.measure.rank.device import MOST_LAUNCHES, held_back, mark, seconds_between, timed_on_device
from resnetx.measure.rank.distributed import Ranks, Send
from resnetx.record import Unknown

LEAST_BYTES = 2**20  # below, it ends before the first kernels beside it do
CHUNK_LAUNCHES = 6  # at most, of one call of the computing, which takes some 0.2 ms on an H200
LEAST_CHUNKS, MOST_CHUNKS = 3, MOST_LAUNCHES // CHUNK_LAUNCHES


def computing_lost(send: Send, array: torch.Tensor, alone_s: float, ranks: Ranks) -> float | Unknown:
    """Seconds of computing that this rank loses for each second that the collective takes alone; median of a few."""
    compute = _computing(ranks.device)
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
            seconds = _computing_s(compute, chunks, sent, array, ranks)
            if isinstance(seconds, Unknown):
                return seconds
            times_s.append(seconds)
        before_s, beside_s, after_s = times_s
        lost.append((beside_s - (before_s + after_s) / 2) / alone_s)
    return max(0.0, median(lost))


def _computing_s(
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


def _computing(device: torch.device) -> Callable[[], None]:
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
