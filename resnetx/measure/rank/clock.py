"""The measured interval: synchronise, start, work, synchronise, stop."""

import time
from collections.abc import Callable

import torch


def timed(work: Callable[[], object], repeats: int, device: torch.device, barrier: Callable[[], None]) -> float:
    """Seconds that this rank needs for `repeats` calls of `work`, all ranks starting together."""
    _synchronize(device)
    barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    _synchronize(device)
    return time.perf_counter() - start


def timed_with_cpu(
    work: Callable[[], object], device: torch.device, barrier: Callable[[], None]
) -> tuple[float, float]:
    """Seconds that this rank needs for one call of `work`, and the CPU seconds that all its threads spend on it."""
    _synchronize(device)
    barrier()
    cpu = time.process_time()
    start = time.perf_counter()
    work()
    _synchronize(device)
    stop = time.perf_counter()
    return stop - start, time.process_time() - cpu


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
