"""A step seen from inside: when each of its phases began, and when each message was ready, sent and received.

A watch is told of the beginning of each phase (`mark`) and stands between the strategy and what it sends
(`watched`). A clean step has no watch: its marks go to `unwatched`.

**Clocks.** On CPUs, the host's. On GPUs, CUDA events: the device's own time line, on which work of the host shows only
where the device waits for it. Each rank's clock is zero as it leaves the barrier before a window, which all leave
together, as far as a barrier can do that.

**Communication.** What the step waits from its last gradient until all gradients are those of all ranks is exposed,
with every strategy; with a parameter server until the updated parameters have come back. With FSDP on GPUs a message is
noted when the step comes to wait for it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import torch

from resnetx.measure.rank.device import mark, seconds_between
from resnetx.measure.rank.distributed import DistributedWork, Ranks, Send
from resnetx.measure.rank.replicas import Trip

Mark = Callable[[str], None]  # told of each phase as it begins, and of the "end" of the last one

DIGITS = 7  # of recorded seconds behind the decimal point: CUDA events resolve half a microsecond


def unwatched(_: str) -> None:
    """What a clean step tells of its phases, to nobody."""


@dataclass(frozen=True)
class StepParts:
    """Seconds of a step and of its phases, which add up to it; `record.Phases` has them of all ranks."""

    step_s: float
    input_wait_s: float
    host_to_device_s: float
    forward_s: float
    backward_s: float
    exposed_communication_s: float
    optimizer_s: float
    gather_s: float


@dataclass(frozen=True)
class SentMessage:
    """A message of gradients, in seconds since its step began."""

    size_bytes: int
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True)
class InstrumentedStep:
    """One step, in seconds since this rank left the barrier before the window."""

    begin_s: float
    sent: list[SentMessage]


@dataclass(frozen=True)
class Instrumented:
    """What one rank has seen of its steps."""

    clock: str
    parts: StepParts  # means over all windows
    latest: list[InstrumentedStep]  # of the latest window


@dataclass
class _Sent:
    """A message and the times at which things happened to it, as a clock notes them."""

    size_bytes: int
    ready: Any
    blocking: str = ""
    start: Any = None
    end: Any = None


@dataclass
class _Step:
    marks: dict[str, Any] = field(default_factory=dict)  # of the last passes, where a batch is taken in parts
    others: list[tuple[Any, Any]] = field(default_factory=list)  # forward and backward of the other parts, in order
    sent: list[_Sent] = field(default_factory=list)


class Watch:
    """One rank's notes of its steps."""

    def __init__(self, ranks: Ranks) -> None:
        self._clock = clock_of(ranks.device)
        self._steps: list[_Step] = []  # since the latest `note`
        self._parts: list[StepParts] = []  # of every step of the windows
        self._latest: list[InstrumentedStep] = []

    def mark(self, phase: str) -> None:
        """The phase begins now: on a GPU, when the device gets here."""
        if phase == "input_wait":
            self._steps.append(_Step())
        step = self._steps[-1]
        if phase == "forward" and "backward" in step.marks:  # of the next part of the batch
            step.others.append((step.marks["forward"], step.marks["backward"]))
        step.marks[phase] = self._clock.now()

    def watched(self, send: Send, blocking: str = "") -> Send:
        """Sends a message as `send` does, and notes its times; `blocking`: see `distributed.Watched`."""

        def noted(buffer: torch.Tensor) -> DistributedWork:
            message = _Sent(buffer.nbytes, self._clock.now(), blocking)
            self._steps[-1].sent.append(message)
            return self._clock.send(buffer, send, message)

        return noted

    def arrived(self) -> None:
        """A batch is there, and is copied to the device from now on."""
        self.mark("host_to_device")

    def note(self, windows: int) -> None:
        """Works up the steps of the window that has just been timed; those before the first window are forgotten."""
        steps, self._steps = self._steps, []
        if windows == 0:
            return
        zero = steps[0].marks["input_wait"]
        self._latest = []
        for step in steps:
            begin = step.marks["input_wait"]
            marks = {phase: self._clock.seconds(begin, mark) for phase, mark in step.marks.items()}
            others = [tuple(self._clock.seconds(begin, mark) for mark in passes) for passes in step.others]
            sent = [self._clock.times(begin, message) for message in step.sent]
            self._parts.append(_parts(marks, sent, [message.blocking for message in step.sent], others))
            self._latest.append(InstrumentedStep(round(self._clock.seconds(zero, begin), DIGITS), sent))

    def seen(self) -> Instrumented:
        """Mean seconds of the step and its parts; and the steps of the latest window, each with its messages."""
        return Instrumented(self._clock.name, _mean(self._parts), self._latest)


def _parts(
    marks: dict[str, float],
    sent: Sequence[SentMessage],
    blocking: Sequence[str],
    others: Sequence[tuple[float, ...]] = (),
) -> StepParts:
    """How long each part of a step took; together they are the step. All times are since its beginning.

    `blocking`: of each message, what the step waited for while it was sent ("": it went on). `others`: when forward and
    backward began of the parts of the batch before the last one.
    """
    passes = [*others, (marks["forward"], marks["backward"])]
    first = passes[0][0]
    arrived = marks.get("host_to_device", first)  # where the step itself copies nothing to the device
    computed = max(
        (message.ready_s for message, kind in zip(sent, blocking, strict=True) if not kind), default=marks["optimizer"]
    )
    ends = [*(forward for forward, _ in passes[1:]), computed]  # of the backward passes
    waited = {"gather": 0.0, "reduce": 0.0}
    in_pass = {"forward": 0.0, "backward": 0.0}
    for message, kind in zip(sent, blocking, strict=True):
        if kind:
            wait_s = max(0.0, message.end_s - message.ready_s)
            waited[kind] += wait_s
            forward = any(begin <= message.ready_s < backward for begin, backward in passes)
            in_pass["forward" if forward else "backward"] += wait_s
    updated = marks.get("gather", marks["end"])  # parameters come back from the ranks that updated them
    return StepParts(
        step_s=marks["end"],
        input_wait_s=arrived,
        host_to_device_s=first - arrived,
        forward_s=sum(backward - forward for forward, backward in passes) - in_pass["forward"],
        backward_s=sum(after - backward for (_, backward), after in zip(passes, ends, strict=True))
        - in_pass["backward"],
        exposed_communication_s=marks["optimizer"] - computed + waited["reduce"],
        optimizer_s=updated - marks["optimizer"],
        gather_s=marks["end"] - updated + waited["gather"],
    )


def _mean(steps: Sequence[StepParts]) -> StepParts:
    columns = zip(*map(astuple, steps), strict=True)
    return StepParts(*(round(sum(column) / len(steps), DIGITS) for column in columns))


def _message(size_bytes: int, ready_s: float, start_s: float, end_s: float) -> SentMessage:
    return SentMessage(size_bytes, round(ready_s, DIGITS), round(start_s, DIGITS), round(end_s, DIGITS))


# ---- clocks ---------------------------------------------------------------------------------------------------------


class _HostClock:
    """What a watch reads. Times are opaque until the device has been waited for; then they are apart by seconds."""

    name = "host"

    def now(self) -> float:
        return time.perf_counter()

    def seconds(self, earlier: float, later: float) -> float:
        return later - earlier

    def send(self, buffer: torch.Tensor, send: Send, message: _Sent) -> DistributedWork:
        """Sends, and notes when that starts and ends."""

        def arrived(_: object) -> None:
            message.end = self.now()

        message.start = self.now()
        work = send(buffer)
        work.get_future().then(arrived)  # gloo's thread calls it before it wakes those who wait
        return work

    def times(self, begin: float, message: _Sent) -> SentMessage:
        """When what happened to the message, since `begin`, once it has arrived."""
        return _message(message.size_bytes, message.ready - begin, message.start - begin, message.end - begin)


class _DeviceClock:
    """CUDA events. NCCL runs on a stream of its own: the one that it takes to be timed here waits for each message."""

    name = "CUDA events"

    def __init__(self, device: torch.device) -> None:
        self._beside = torch.cuda.Stream(device)

    def now(self) -> torch.cuda.Event:
        return mark()

    def seconds(self, earlier: torch.cuda.Event, later: torch.cuda.Event) -> float:
        return seconds_between(earlier, later)

    def send(self, buffer: torch.Tensor, send: Send, message: _Sent) -> DistributedWork:
        work = message.start = send(buffer)
        if isinstance(work, Trip):  # whose events are its own
            return work
        with torch.cuda.stream(self._beside):
            work.wait()
            message.end = self.now()
        return work

    def times(self, begin: torch.cuda.Event, message: _Sent) -> SentMessage:
        if isinstance(message.start, Trip):
            trip = message.start
            assert trip.begin is not None and trip.end is not None, "a message was not sent, or did not come back"
            events = message.ready, trip.begin, trip.end
            return _message(message.size_bytes, *(self.seconds(begin, event) for event in events))
        end_s = self.seconds(begin, message.end)
        # Events of its own around NCCL's kernel, in milliseconds; they can be read once torch knows that it is over.
        assert message.start.is_completed(), "the device was not waited for"
        start_s = end_s - message.start._get_duration() / 1e3
        return _message(message.size_bytes, self.seconds(begin, message.ready), start_s, end_s)


Clock = _HostClock | _DeviceClock


def clock_of(device: torch.device) -> Clock:
    """The clock that sees when the device begins and ends its work."""
    return _DeviceClock(device) if device.type == "cuda" else _HostClock()
