"""A training step as one CUDA graph: the host launches all its kernels at once, however small they are.

    with own_stream(device, graphed=True):
        compute = GraphedStep(compute, constant=False)  # is called as before, with batches that all have one shape

The first calls run the step as it is; then one captures it, and from then on each copies its batch to where the graph
reads it, and launches the graph. What is captured may not touch the default stream, which parameters would remember
from the making of the model: so the model is made, and all steps run, on a stream of their own.

Reference: PyTorch documentation, CUDA semantics, "CUDA Graphs" (whole-network capture; DistributedDataParallel).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Steps before the capture: by then DDP has rebuilt its buckets, and has timed its first ten steps by events of its own.
STEPS_BEFORE = 11
LEAST_WARMUP = STEPS_BEFORE + 3  # steps, of which the last two are launches of the graph

ComputeFunction = Callable[[torch.Tensor, torch.Tensor], None]  # (images, labels): a step from its forward pass on


@contextmanager
def own_stream(device: torch.device, graphed: bool) -> Iterator[None]:
    """While it lasts, work for the device is queued on a stream other than the default one, if it is to be a graph."""
    if not graphed:
        yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


class GraphedStep:
    """`compute` as a graph; see above."""

    def __init__(self, compute: ComputeFunction, constant: bool) -> None:
        """`constant`: every batch is in the same tensors, which stay, so that nothing has to be copied."""
        self._compute, self._constant = compute, constant
        self._steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._batch: tuple[torch.Tensor, ...] = ()  # where the graph reads

    def __call__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        if self._steps < STEPS_BEFORE:
            self._steps += 1
            self._compute(images, labels)
            return
        if self._graph is None:
            self._graph = self._captured(images, labels)
        if not self._constant:
            for place, tensor in zip(self._batch, (images, labels), strict=True):
                place.copy_(tensor, non_blocking=True)
        self._graph.replay()

    def _captured(self, images: torch.Tensor, labels: torch.Tensor) -> torch.cuda.CUDAGraph:
        images, labels = self._batch = (images, labels) if self._constant else (images.clone(), labels.clone())
        graph = torch.cuda.CUDAGraph()
        torch.cuda.reset_peak_memory_stats()  # launches of the graph allocate nothing: the peak is that of the capture
        # thread_local: other threads, as those of an input pipeline, may go on with what a capture forbids.
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            self._compute(images, labels)
        return graph
