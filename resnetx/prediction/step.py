"""What one rank does in a training step, what the ranks of a job send, and the formula of an iteration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

from resnetx.prediction.host_step import HostStep
from resnetx.record.prediction import ComputeSource, Origin, PredictionInput

# A tuple that is a key of many caches: its hash is computed once.
#
# A network's layers, or its gradients, are a hundred structs each, and a comparison asks for what follows from the same
# ones at every point.

T = TypeVar("T", covariant=True)
# Of a GPU's memory rate, what scaling gradients into another buffer reaches: each byte is read once and written once.
COPY_SHARE = 0.5 * 0.8


class HashedTuple(tuple[T, ...]):
    """A tuple like any other, equal to a plain one of the same items."""

    def __new__(cls, items: Iterable[T] = ()) -> "HashedTuple[T]":
        return items if isinstance(items, HashedTuple) else super().__new__(cls, items)

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the hash, which is another one in another process: that of a string is."""
        return HashedTuple, (tuple(self),)


class LayerTime(NamedTuple):
    """One layer at one per-GPU batch size."""

    name: str
    forward_s: float
    backward_s: float
    gradient_bytes: int


def columns(layers: Iterable[LayerTime]) -> dict[str, Any]:
    """The same of several as fields of a `Step`."""
    names, forwards_s, backwards_s, gradient_bytes = (list(column) for column in zip(*layers, strict=True))
    return {
        "names": HashedTuple(names),
        "forwards_s": forwards_s,
        "backwards_s": backwards_s,
        "gradient_bytes": gradient_bytes,
    }


Cause = Literal["waits", "shares", "beyond"]


@dataclass(frozen=True)
class Step:
    """The times of one rank's step; of as many `ranks`, that do the same in the same time.

    Layers are in the order of the forward pass, by column: a grid of a million points changes a hundred million times,
    and each change makes new columns of times, and shares the others. A step has one pass forward and backward over
    them for each part in which a rank takes its batch (`accumulate`).
    """

    names: HashedTuple[str]
    forwards_s: Sequence[float]
    backwards_s: Sequence[float]
    gradient_bytes: Sequence[int]
    update_s: float
    input_s: float = 0.0  # reading and decoding its share of the batch
    host_to_device_s: float = 0.0
    host_s: float = 0.0  # of the host, once in each step, while the device waits
    queue_s: float = 0.0  # of the host, to queue a step's work while the device runs what it has
    parts: int = 1  # passes forward and backward; only gradients of the last one are sent
    pace: float = 1.0  # how many times as long its layers take as the device needs, as the host launches no faster
    ranks: int = 1
    # How many times as long computing takes, which is in its times already:
    waits: float = 1.0  # for the slowest rank
    shares: float = 1.0  # as it shares the host's cores
    beyond: float = 1.0  # beyond what is modelled, with what its host does

    @property
    def layers(self) -> list[LayerTime]:
        """Its layers, one by one."""
        return list(map(LayerTime, self.names, self.forwards_s, self.backwards_s, self.gradient_bytes))

    @cached_property
    def forward_s(self) -> float:
        return sum(self.forwards_s)

    @cached_property
    def backward_ends_s(self) -> list[float]:
        """Seconds into the backward pass when so many of its layers are done: none, the last one, and so on."""
        return list(accumulate(reversed(self.backwards_s), initial=0.0))

    @property
    def backward_s(self) -> float:
        return self.backward_ends_s[-1]

    @cached_property
    def compute_s(self) -> float:
        """All passes forward and backward, and the update, at the pace of the host."""
        return self.parts * (self.forward_s + self.backward_s) + self.update_s

    @cached_property
    def earlier_s(self) -> float:
        """The passes before the last one."""
        return (self.parts - 1) * (self.forward_s + self.backward_s)

    @property
    def device_s(self) -> float:
        """What it computes, as long as the device needs."""
        return self.compute_s / self.pace

    def slowed(self, factor: float, with_host: bool = False, **changed: Any) -> "Step":
        """The same work on a device (with its host) that takes `factor` times as long for all its computing.

        `changed`: other fields that change, too.
        """
        if factor == 1:
            return replace(self, **changed) if changed else self
        slowed: dict[str, Any] = {
            "forwards_s": [each_s * factor for each_s in self.forwards_s],
            "backwards_s": [each_s * factor for each_s in self.backwards_s],
            "update_s": self.update_s * factor,
        }
        if with_host:
            slowed |= {"host_s": self.host_s * factor, "queue_s": self.queue_s * factor}
        return replace(self, **slowed, **changed)

    def copying_gradients(self, s_per_byte: float) -> "Step":
        """The same with each layer's gradients copied into the buffer that is sent, behind its backward pass."""
        if not s_per_byte:
            return self
        both = zip(self.backwards_s, self.gradient_bytes, strict=True)
        return replace(self, backwards_s=[each_s + size * s_per_byte for each_s, size in both])

    def relieved(self, of: Cause) -> "Step":
        """Not longer for this cause."""
        return self.slowed(1 / getattr(self, of), with_host=of == "beyond", **{of: 1.0})


@dataclass(frozen=True)
class Compute:
    """One rank's step on one GPU."""

    step: Step
    source: ComputeSource
    origin: Origin
    where: str  # the trace, or what the roofline was fitted to
    note: str  # in a sentence
    error: float  # relative: how far from the truth the step may be
    gradient_copy_Bps: float
    clock_Hz: float | None  # of the multiprocessors, in effect; null: the trace does not say
    jitter: float | None = None  # standard deviation of one step from the next over their mean; null: not measured
    queue_error: float = 0.0  # relative, of the host's time to queue a step
    faster: float | None = None  # how much shorter the step may be, relative; null: as much as longer (`error`)
    # (shorter, longer) by each thing that is not known; `error` and `faster` have all of them. (): there is but one
    causes: tuple[tuple[float, float], ...] = ()
    whole_step: bool = False  # `error` is that of the step with the host's part, not of the GPU's alone
    reading_error: float = 0.0  # relative, of what its share of a batch takes to be read
    copying_error: float = 0.0  # and to be copied to the device
    inputs: tuple[PredictionInput, ...] = ()  # what these are known from
    device: "Compute | None" = None  # the GPU's part alone, where the source says nothing of the host's
    launch: HostStep | None = None  # the host's part then
    again_error: float | None = None  # a logarithm: of computing blocks again, where the rate is of steps that do not

    @property
    def best(self) -> float:
        """How much shorter the step may be, relative."""
        return self.error if self.faster is None else self.faster

    def input_error(self, at_once: bool) -> float:
        """Of reading and copying; `at_once`: one goes on while the other does: of the longer; else of both in turn."""
        parts = ((self.step.input_s, self.reading_error), (self.step.host_to_device_s, self.copying_error))
        if at_once:
            return max(parts)[1]
        whole_s = sum(part_s for part_s, _ in parts)
        return sum(part_s * error for part_s, error in parts) / whole_s if whole_s else 0.0


UNEXPLAINED = "beyond what is modelled, not of bytes"  # the name of a message that stands for such time


@dataclass(frozen=True)
class TimedMessage:
    """One message of gradients. It can start when all its layers have ended their backward pass on all ranks."""

    layers: tuple[str, ...]
    time_s: float
    unpack_s: float = 0.0  # computing that it takes to get the sums to where the update reads them
    name: str = "all-reduce"
    gates: str = ""  # a layer whose backward pass waits for it
    each_part: bool = False  # it is sent for every part of the batch, not for the last alone: gathered parameters


@dataclass(frozen=True)
class Stretch:
    """How many times as long each part of an iteration takes: 1.1 is 10 % longer, 0 costs nothing."""

    compute: float = 1.0
    messages: float = 1.0
    reading: float = 1.0  # and decoding
    copying: float = 1.0  # to the device
    host: float = 1.0  # while the device waits
    queueing: float = 1.0  # by the host, while the device runs
    contention: float | None = None  # in place of the job's; null: as the job has it


SAME = 1e-6  # relative: what differs by no more is one time
LEAST_COMPUTE = 0.01  # of the predicted time, at best: of no time at all there is no ratio
AS_IT_IS = Stretch()


# What a simulated iteration depends on: the ranks with their steps, their messages, and what may overlap.


@dataclass(frozen=True)
class Overlap:
    """What the next iteration's input may do while this one computes, and what may come while the next one does."""

    input: bool = True
    host_to_device: bool = True
    parameters: bool = False  # of a parameter server: each layer waits for its own, not the step for all of them


@dataclass(frozen=True)
class HostShare:
    """Where ranks compute on the cores of one host, what they want of them, in cores; see `task_graph`.

    Reading wants none here: `iteration` has shared the cores out for it.
    """

    cores: float
    computing: float  # of one rank while it computes
    sending: float  # of one rank while one message is on its way


@dataclass(frozen=True)
class SimulatedJob:
    """All that a simulated iteration depends on."""

    classes: tuple[Step, ...]  # of each kind of ranks
    messages: tuple[TimedMessage, ...]  # in the order in which they are sent
    overlap: Overlap = Overlap()
    at_once: int = 1  # messages on their way at a time: one for NCCL, in order; gloo runs two
    host: HostShare | None = None
    shared_links: bool = False  # messages that are on their way at a time share the links; else none slows another
    # Of the time in which messages are on their way behind computing, what computing loses to them: 0 nothing, 1 all.
    contention: float = 0.0
    fetched: tuple[TimedMessage, ...] = ()  # parameters that come while the forward pass runs, in its order

    @cached_property
    def parts(self) -> int:
        """Passes forward and backward of a step."""
        return self.classes[0].parts

    @cached_property
    def by_part(self) -> "list[SimulatedJob]":
        """The passes of a step, in order: gradients are sent in the last, and updated parameters come in the first."""
        if self.parts == 1:
            return [self]
        messages, fetched = (
            tuple(message for message in sent if message.each_part) for sent in (self.messages, self.fetched)
        )
        middle = replace(self, messages=messages, fetched=fetched)
        return [replace(self, messages=messages), *[middle] * (self.parts - 2), replace(self, fetched=fetched)]

    @cached_property
    def sends_in_each_part(self) -> bool:
        """Whether passes before the last one send something, too."""
        return self.parts > 1 and any(message.each_part for message in (*self.messages, *self.fetched))

    def without_messages(self) -> "SimulatedJob":
        """But for what stands for time that is not of messages."""
        return replace(self, messages=tuple(each for each in self.messages if each.name == UNEXPLAINED), fetched=())

    def explained(self) -> "SimulatedJob":
        """Without that."""
        return replace(self, messages=HashedTuple(each for each in self.messages if each.name != UNEXPLAINED))

    def relieved(self, of: Cause) -> "SimulatedJob":
        """With no rank's computing longer for this cause."""
        if all(getattr(step, of) == 1 for step in self.classes):
            return self
        return replace(self, classes=tuple(step.relieved(of) for step in self.classes))

    def with_message(self, message: TimedMessage) -> "SimulatedJob":
        """With one more, behind the others."""
        return replace(self, messages=HashedTuple((*self.messages, message)))

    def computing_longer(self, more_s: float) -> "SimulatedJob":
        """With so much more computing at the end of each rank's step."""
        return replace(self, classes=tuple(replace(step, update_s=step.update_s + more_s) for step in self.classes))

    @cached_property
    def gates(self) -> dict[int, list[int]]:
        """After how many layers of the backward pass it waits for which messages, by their places."""
        found: dict[int, list[int]] = {}
        names = self.classes[0].names
        for index, message in enumerate(self.messages):
            if message.gates:
                found.setdefault(len(names) - 1 - names.index(message.gates), []).append(index)
        return found

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """After how many layers of the backward pass each message is ready; no earlier than the message before it."""
        return _cuts(self.classes[0].names, HashedTuple(self.messages))


@lru_cache(maxsize=256)  # the same for all batches, inputs and systems
def _cuts(names: HashedTuple[str], messages: HashedTuple[TimedMessage]) -> tuple[int, ...]:
    if not messages:
        return ()
    done = {name: index for index, name in enumerate(reversed(names), start=1)}
    cuts: list[int] = []
    for message in messages:
        cuts.append(max([*cuts[-1:], *(done[name] for name in message.layers)], default=0))
    return tuple(cuts)


# What an iteration takes where a formula says it: `docs/ssgd.md`, equations 1 to 5.
#
# Simulating the task graph gives the same (tests hold it to that) in more time. No formula is known to us where ranks
# take different times, share the cores of a host, send two messages at once, or wait in the backward pass for
# parameters, or for those that are gathered for each part of a batch (FSDP): these are simulated. So is a host that
# takes time to queue the work of a step (`queue_s`), unless all else of it runs ahead of the device.


def closed_form_s(job: SimulatedJob, by: Stretch) -> float:
    """Seconds from one update to the next, of ranks that all take the same times."""
    step, messages, slowness, stretch = job.classes[0], job.messages, by.compute, by.messages
    reading_s, copy_s = step.input_s * by.reading, step.host_to_device_s * by.copying
    host_s, queueing_s = step.host_s * by.host, step.queue_s * by.queueing
    reads_ahead, copies_ahead = job.overlap.input, job.overlap.host_to_device
    # Between the update before and the forward pass: input that does not run ahead, and what the host does once.
    waits_s = reading_s + copy_s if not reads_ahead else copy_s if not copies_ahead else 0.0
    begin_s = waits_s + host_s
    # The forward pass, behind those of earlier parts of the batch.
    forward_s = _fetching_s(job, by, begin_s) if job.fetched else step.forward_s * slowness
    forward_s += step.earlier_s * slowness
    # The backward pass: each message starts when its layers are done, and the message before it has arrived.
    ends_s = step.backward_ends_s
    sent_s, free_s = 0.0, forward_s + ends_s[-1] * slowness
    for message, cut in zip(messages, job.cuts, strict=True):  # for every message of a hundred thousand points
        ready_s = forward_s + ends_s[cut] * slowness
        sent_s = (ready_s if ready_s > sent_s else sent_s) + message.time_s * stretch
        if message.unpack_s:
            free_s = max(free_s, sent_s) + message.unpack_s * slowness
    passes_s = max(free_s, sent_s) + step.update_s * slowness
    # What the passes lose to messages that are hidden behind them.
    contention = job.contention if by.contention is None else by.contention
    if contention and messages:
        passes_s += contention * hidden_behind_s(messages, by, passes_s - step.compute_s * slowness)
    if host_s and queueing_s:  # it queues behind what it does once in a step, and the update behind that
        passes_s = max(passes_s, queueing_s + step.update_s * slowness)
    if not reads_ahead:
        return begin_s + passes_s
    # Input that runs ahead comes no more often than it is read and copied, and no step is shorter than its queueing.
    arriving_s = max(reading_s, copy_s) if copies_ahead else reading_s + copy_s
    return max(arriving_s, begin_s + passes_s, 0.0 if host_s else queueing_s)


def hidden_behind_s(messages: Sequence[TimedMessage], by: Stretch, exposed_s: float) -> float:
    """How long messages are on their way while the ranks compute; `exposed_s`: while these wait."""
    return max(0.0, by.messages * sum(message.time_s for message in messages) - exposed_s)


def _fetching_s(job: SimulatedJob, by: Stretch, begin_s: float) -> float:
    """The forward pass, in which layers wait for parameters that come one after the other from the update on."""
    times_s = {message.layers[0]: message.time_s * by.messages for message in job.fetched}
    done_s, arrived_s = 0.0, -begin_s
    for name, forward_s in zip(job.classes[0].names, job.classes[0].forwards_s, strict=True):
        if name in times_s:
            arrived_s += times_s[name]
            done_s = max(done_s, arrived_s)
        done_s += forward_s * by.compute
    return done_s
