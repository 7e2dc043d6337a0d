"""Strategies that share out what every rank would keep: `zero1` the optimizer's state, `fsdp` all that is trained.

- `zero1` is DDP with torch's ZeroRedundancyOptimizer: each rank updates its own tensors (whole ones, the largest first,
  each to the rank that has least), then sends them to all others.
- `fsdp` is torch's `fully_shard` on each block of a family, and on the rest: a rank keeps its rows of every parameter.
  A block's parameters are gathered before its forward pass, with `reshard` freed behind it and gathered again for the
  backward pass; behind that its gradients are reduced to the ranks that keep them. The rest stays gathered, and so does
  the last block, whose backward pass comes first. A network without blocks is gathered as a whole.

Both keep weights as NCHW whatever `channels_last` says: `fully_shard` takes no other, and ZeroRedundancyOptimizer
lays them out anew.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from resnetx.choices import Fsdp, Optimizer
from resnetx.measure.rank.ddp import optimizer_options
from resnetx.measure.rank.device import mark
from resnetx.measure.rank.distributed import DistributedWork, Ranks, Watched, unchanged
from resnetx.measure.rank.server import Trip
from resnetx.record import Unknown

GATHER = ("all_gather_single", "all_gather_into_tensor")  # what FSDP calls, by the names of newer and older torch
REDUCE = ("reduce_scatter_single", "reduce_scatter_tensor")


class ShardedUpdate(ZeroRedundancyOptimizer):
    """The optimizer over this rank's tensors, which then come back to all."""

    def __init__(self, parameters: list[nn.Parameter], settings: Optimizer, mark: Callable[[str], None]) -> None:
        kind, options = optimizer_options(settings)
        # As views of buckets there is one message for each rank, not for each tensor.
        super().__init__(parameters, kind, parameters_as_bucket_view=True, **options, fused=True)  # type: ignore[arg-type]
        self._mark = mark

    def share(self, rank: int) -> float:
        """Of all parameters, those that a rank updates."""
        elements: list[int] = [
            sum(each.numel() for group in groups for each in group["params"])
            for groups in self._partition_parameters()  # type: ignore[attr-defined]
        ]
        return elements[rank] / sum(elements)

    def _sync_params(self) -> None:
        self._mark("gather")
        super()._sync_params()  # type: ignore[misc]


class FullySharded:
    """A model of which each rank keeps its rows."""

    name, updates = "FSDP", False

    def __init__(
        self, model: nn.Module, strategy: Fsdp, ranks: Ranks, watched: Watched = unchanged, accumulate: int = 1
    ) -> None:
        model = model.to(memory_format=torch.contiguous_format)
        units = [*blocks_of(model), model]
        mesh = init_device_mesh(ranks.device.type, (ranks.world_size,))
        self._sizes = _padded_sizes(units, ranks.world_size)
        *blocks, root = units
        for block in blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=strategy.reshard and block is not blocks[-1])
        self._root = fully_shard(root, mesh=mesh, reshard_after_forward=False)
        if not _takes_means(ranks):
            replace_collective(REDUCE, _dividing)
        if watched is not unchanged:
            watch = _WaitedFor(watched).launched if ranks.device.type == "cuda" else partial(_watched, watched)
            replace_collective(GATHER, partial(watch, "gather"))
            replace_collective(REDUCE, partial(watch, "reduce"))
        self.module, self._reshard, self._accumulate = model, strategy.reshard, accumulate

    def __call__(self, *images: Any, **named: Any) -> Any:
        return self.module(*images, **named)

    @contextmanager
    def adding_up(self) -> Iterator[None]:
        """Gradients stay whole on every rank, and are not reduced."""
        self._root.set_requires_gradient_sync(False)
        yield
        self._root.set_requires_gradient_sync(True)

    def finish(self) -> None:
        """The backward pass has waited."""

    def sizes(self) -> list[int] | Unknown:
        """Of all gathers of the passes, and of the reduced gradients between those of the last backward pass."""
        *blocks, root = self._sizes
        forward = [root, *blocks]
        backward: list[int] = []
        again = blocks[:-1] if self._reshard else []
        quiet = (self._accumulate - 1) * [*forward, *reversed(again)]
        for index, size in reversed(list(enumerate(blocks))):
            # The parameters of the block that is next are asked for before this one's gradients are sent.
            backward += again[index - 1 : index] if index else []
            backward.append(size)
        return [*quiet, *forward, *backward, root]


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a family's member; [] of any other network."""
    blocks = getattr(model, "blocks", None)
    return list(blocks) if isinstance(blocks, nn.Sequential | nn.ModuleList) else []


def _padded_sizes(units: list[nn.Module], ranks: int) -> list[int]:
    """Bytes of each unit's own parameters, each with as many rows as divide over the ranks."""
    seen: set[nn.Parameter] = set()
    sizes = []
    for unit in units:
        own = [parameter for parameter in unit.parameters() if parameter not in seen]
        seen.update(own)
        sizes.append(sum(each.element_size() * padded_elements(each.shape, ranks) for each in own))
    return sizes


def padded_elements(shape: torch.Size, ranks: int) -> int:
    """A parameter's elements, with rows added until each rank has as many."""
    rows, *others = shape
    return -(-rows // ranks) * ranks * math.prod(others)


def _takes_means(ranks: Ranks) -> bool:
    """Whether a mean of gradients that FSDP asks for is one: gloo in torch 2.7 adds up, whatever it is asked for."""
    given = torch.ones(ranks.world_size, device=ranks.device)
    got = torch.empty(1, device=ranks.device)
    getattr(dist, _known(REDUCE))(got, given, op=dist.ReduceOp.AVG)
    return bool(got.item() == 1)


def _known(names: tuple[str, ...]) -> str:
    return next(name for name in names if hasattr(dist, name))


def replace_collective(names: tuple[str, ...], by: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Puts another function in place of a collective that FSDP calls, for the rest of this process, of one run."""
    setattr(dist, _known(names), by(getattr(dist, _known(names))))


def _dividing(reduce_scatter: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up, and divides where a mean is asked for."""

    def called(output: torch.Tensor, input: torch.Tensor, op: Any = dist.ReduceOp.SUM, **options: Any) -> None:
        assert not options.pop("async_op", False), "FSDP waits on CPUs"
        reduce_scatter(output, input, op=dist.ReduceOp.SUM if op == dist.ReduceOp.AVG else op, **options)
        if op == dist.ReduceOp.AVG:
            output.div_(input.numel() // output.numel())

    return called


def _size_bytes(given: Iterable[Any]) -> int:
    """Of what a collective is given: of the whole, not of the rank's part."""
    return max(each.nbytes for each in given if isinstance(each, torch.Tensor))


def _stand_in(size_bytes: int) -> torch.Tensor:
    """For a buffer that is FSDP's, in a note of its size."""
    return torch.empty(size_bytes, dtype=torch.uint8, device="meta")


def _watched(watched: Watched, kind: str, collective: Callable[..., Any]) -> Callable[..., Any]:
    """Sends as watched, on CPUs: FSDP goes on when it has been sent."""

    def called(*given: Any, **options: Any) -> Any:
        result: list[Any] = []

        def send(_: torch.Tensor) -> DistributedWork:
            result.append(collective(*given, **options))
            return Ended()

        watched(send, kind)(_stand_in(_size_bytes((*given, *options.values()))))
        return result[0]

    return called


class _WaitedFor:
    """Messages on GPUs, which FSDP sends on streams of its own, and for each of which its step waits later.

    A message is noted where the step comes to wait for it, by `wait_event` of the stream that computes: it is "ready"
    then, and what the step waits is what is left of the message, if anything. Events carry the messages before them.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._sent: dict[int, list[tuple[str, int, Trip]]] = {}  # by stream, since its latest event
        self._of_event: WeakKeyDictionary[torch.cuda.Event, list[tuple[str, int, Trip]]] = WeakKeyDictionary()
        record, wait = torch.cuda.Stream.record_event, torch.cuda.Stream.wait_event

        def record_event(stream: torch.cuda.Stream, event: torch.cuda.Event | None = None) -> torch.cuda.Event:
            recorded: torch.cuda.Event = record(stream, event)
            if sent := self._sent.pop(stream.cuda_stream, None):
                self._of_event[recorded] = sent
            return recorded

        def wait_event(stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
            for kind, size_bytes, trip in self._of_event.pop(event, []):
                self._watched(partial(waited, stream, event, trip), kind)(_stand_in(size_bytes))
            wait(stream, event)

        def waited(stream: torch.cuda.Stream, event: torch.cuda.Event, trip: Trip, _: torch.Tensor) -> Trip:
            wait(stream, event)
            return trip

        cuda: Any = torch.cuda  # for the rest of this process, of one run
        cuda.Stream.record_event, cuda.Stream.wait_event = record_event, wait_event

    def launched(self, kind: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        """Sends, and keeps when that began and ended on its stream, which waits for NCCL's."""

        def called(*given: Any, **options: Any) -> Any:
            trip = Trip(lambda: None)
            trip.begin = mark()
            result = collective(*given, **options)
            trip.end = mark()
            sent = self._sent.setdefault(torch.cuda.current_stream().cuda_stream, [])
            sent.append((kind, _size_bytes((*given, *options.values())), trip))
            return result

        return called


class Ended:
    """What was sent, and has arrived."""

    def wait(self) -> None:
        """It is over."""

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(None)
        return future
