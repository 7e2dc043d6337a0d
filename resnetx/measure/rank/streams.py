"""Streams of a device that is none, so that FSDP on CPUs keeps the order that it has on GPUs.

On a GPU the host runs ahead: it queues kernels and collectives on streams, and events order these. On CPUs torch has
streams and events that do nothing, and FSDP waits for each collective. Where computing is only waited out, no value
matters but the time: here a stream is a thread that does what is queued on it, one after the other.

    timeline = emulate_streams()          # from now on, FSDP's own code queues on such streams
    timeline.wait(0.003)                  # the current stream computes for 3 ms

As by NCCL, all collectives go over one communicator, in the order in which the host queues them: each begins when its
stream has come to it, and what is behind it on its stream begins when it has ended.

**Clocks.** A stream computes until a moment that is counted from the end of what it last did or waited for, so that the
work of threads delays nothing (`train.HostTimeline`). Only the network takes the time that it takes.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

import torch

from resnetx.measure.rank.sharded import GATHER, REDUCE, replace_collective

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
