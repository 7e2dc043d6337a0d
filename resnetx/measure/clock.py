"""The measured interval: synchronise, start, work, synchronise, stop."""

import time
from collections.abc import Callable

import torch


def timed(work: Callable[[], None], repeats: int, device: torch.device, barrier: Callable[[], None]) -> float:
    """Seconds that this rank needs for `repeats` calls of `work`, all ranks starting together."""
    _synchronize(device)
    barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    _synchronize(device)
    return time.perf_counter() - start


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
