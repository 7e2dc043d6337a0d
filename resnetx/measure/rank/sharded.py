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
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from resnetx.choices import Fsdp, Optimizer
from resnetx.measure.rank.device import mark
from resnetx.measure.rank.distributed import DistributedWork, Ranks, Watched, unchanged
from resnetx.measure.rank.replicas import Replica, Trip, optimizer_options
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
            sum(parameter.numel() for group in groups for parameter in group["params"])
            for groups in self._partition_parameters()  # type: ignore[attr-defined]
        ]
        return elements[rank] / sum(elements)

    def _sync_params(self) -> None:
        self._mark("gather")
        super()._sync_params()  # type: ignore[misc]


class FullySharded(Replica):
    """A model of which each rank keeps its rows."""

    name = "FSDP"

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
        self.module = self._call = model
        self._reshard, self._accumulate = strategy.reshard, accumulate

    @contextmanager
    def adding_up(self) -> Iterator[None]:
        """Gradients stay whole on every rank, and are not reduced."""
        self._root.set_requires_gradient_sync(False)
        yield
        self._root.set_requires_gradient_sync(True)

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
        sizes.append(sum(parameter.element_size() * padded_elements(parameter.shape, ranks) for parameter in own))
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


# ---- streams --------------------------------------------------------------------------------------------------------
# Streams of a device that is none, so that FSDP on CPUs keeps the order that it has on GPUs.
#
# On a GPU the host runs ahead: it queues kernels and collectives on streams, and events order these. On CPUs torch has
# streams and events that do nothing, and FSDP waits for each collective. Where computing is only waited out, no value
# matters but the time: here a stream is a thread that does what is queued on it, one after the other.
#
#     timeline = emulate_streams()          # from now on, FSDP's own code queues on such streams
#     timeline.wait(0.003)                  # the current stream computes for 3 ms
#
# As by NCCL, all collectives go over one communicator, in the order in which the host queues them: each begins when its
# stream has come to it, and what is behind it on its stream begins when it has ended.
#
# **Clocks.** A stream computes until a moment that is counted from the end of what it last did or waited for, so that
# the work of threads delays nothing (`train.HostTimeline`). Only the network takes the time that it takes.

Work = Callable[["EmulatedStream"], None]


class EmulatedEvent:
    """What streams wait for: that another stream has come so far."""

    def __init__(self) -> None:
        self._reached: StreamMoment | None = None

    def record(self, stream: "EmulatedStream | None" = None) -> None:
        """The event is when the stream has done all that is queued on it now."""
        self._reached = (stream or _current()).moment()

    def wait(self, stream: "EmulatedStream | None" = None) -> None:
        if self._reached is not None:
            (stream or _current()).queue(self._reached.awaited_by)

    def query(self) -> bool:
        return self._reached is None or self._reached.passed.is_set()

    def synchronize(self) -> None:
        if self._reached is not None:
            self._reached.passed.wait()


class StreamMoment:
    """When a stream came to a place in its queue."""

    def __init__(self) -> None:
        self.passed, self.at = threading.Event(), 0.0

    def is_now(self, stream: "EmulatedStream") -> None:
        self.at = stream.clock
        self.passed.set()

    def awaited_by(self, stream: "EmulatedStream") -> None:
        self.passed.wait()
        stream.clock = max(stream.clock, self.at)


class EmulatedStream:
    """A queue, and the thread that does what is in it."""

    def __init__(self, priority: int = 0) -> None:
        self.clock = 0.0  # when what it did last has ended; the thread's
        self._works: SimpleQueue[Work] = SimpleQueue()
        self._failure: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            work = self._works.get()
            try:
                work(self)
            except BaseException as error:  # told to whoever waits for the stream
                self._failure = self._failure or error

    def queue(self, work: Work) -> None:
        self._works.put(work)

    def moment(self) -> StreamMoment:
        """When all is done that is queued now."""
        moment = StreamMoment()
        self.queue(moment.is_now)
        return moment

    def record_event(self, event: EmulatedEvent | None = None) -> EmulatedEvent:
        event = event or EmulatedEvent()
        event.record(self)
        return event

    def wait_event(self, event: EmulatedEvent) -> None:
        event.wait(self)

    def wait_stream(self, other: "EmulatedStream") -> None:
        self.queue(other.moment().awaited_by)

    def synchronize(self) -> None:
        """Waits until all is done that is queued; raises what went wrong meanwhile."""
        self.moment().passed.wait()
        if self._failure is not None:
            raise self._failure


class StreamTimeline:
    """Lets time pass on the current stream."""

    pace = 1.0

    def __init__(self, streams: list[EmulatedStream]) -> None:
        self._streams = streams

    def begin(self) -> None:
        """A pass starts no earlier than now."""
        _current().queue(_now)

    def wait(self, seconds: float) -> None:
        _current().queue(partial(_computed, seconds * self.pace))

    def synchronize(self) -> None:
        """Waits for all that is queued, as a device is waited for."""
        for stream in self._streams:
            stream.synchronize()


def _now(stream: EmulatedStream) -> None:
    stream.clock = max(stream.clock, time.perf_counter())


def _computed(seconds: float, stream: EmulatedStream) -> None:
    stream.clock += seconds
    time.sleep(max(0.0, stream.clock - time.perf_counter()))


def emulate_streams() -> StreamTimeline:
    """Replaces torch's streams of CPUs, and the collectives that FSDP calls, for the rest of this process, of one run.

    Before FSDP's first forward pass, in which it makes its streams.
    """
    computing, network = EmulatedStream(), EmulatedStream()
    torch.cpu.Stream, torch.cpu.Event = EmulatedStream, EmulatedEvent  # type: ignore[misc, assignment]
    torch.cpu._default_cpu_stream = torch.cpu._current_stream = computing  # type: ignore[assignment]
    for names in (GATHER, REDUCE):
        replace_collective(names, partial(_queued, network))
    return StreamTimeline([computing, network])


def _current() -> EmulatedStream:
    stream = torch.cpu.current_stream()
    assert isinstance(stream, EmulatedStream), "streams are not emulated"
    return stream


def _queued(network: EmulatedStream, collective: Callable[..., Any]) -> Callable[..., None]:
    """Queues a collective on the current stream."""

    def called(*given: Any, async_op: bool = False, **options: Any) -> None:
        assert not async_op, "FSDP waits by events"
        stream = _current()
        network.queue(stream.moment().awaited_by)
        network.queue(partial(_sent, partial(collective, *given, **options)))
        stream.queue(network.moment().awaited_by)

    return called


def _sent(collective: Callable[[], Any], stream: EmulatedStream) -> None:
    collective()
    stream.clock = time.perf_counter()
