"""How an operation is timed: by itself, in a row of twenty, or as a CUDA graph of twenty.

A row is what nccl-tests times (`-n 20`): no barrier between the operations, so that ranks start the next one as soon as
they can. A graph is launched at once, without the host's time to start each operation (`-G` of nccl-tests).
"""

from collections.abc import Callable

import torch

from resnetx.record.bench import QUEUE_LENGTH, Timing


def as_asked(
    operation: Callable[[], object], timing: Timing | None, device: torch.device
) -> tuple[Callable[[], object], int]:
    """What is to be called between two synchronisations, and how many operations that is."""
    if timing in (None, "blocking"):
        return operation, 1
    if timing == "back-to-back":
        return lambda: _row(operation), QUEUE_LENGTH
    return _graph(operation, device), QUEUE_LENGTH


def _row(operation: Callable[[], object]) -> None:
    for _ in range(QUEUE_LENGTH):
        operation()


def _graph(operation: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """Launches a graph of operations; they have run before, as NCCL connects when it first has to."""
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _row(operation)
    graph.replay()  # the first launch uploads it
    return graph.replay
