"""What one rank does in a training step, and how long each part of it takes when nothing else runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from math import exp, hypot
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


@dataclass(frozen=True)
class StepLayers(Sequence[LayerTime]):
    """Layers in the order of the forward pass, by column: a grid of a million points changes a hundred million times.

    Each change makes new columns of times, and shares the others.
    """

    names: HashedTuple[str]
    forward_s: Sequence[float]
    backward_s: Sequence[float]
    gradient_bytes: Sequence[int]

    @classmethod
    def of(cls, layers: Sequence[LayerTime]) -> "StepLayers":
        """The columns of these."""
        if isinstance(layers, StepLayers):
            return layers
        return cls(
            HashedTuple(layer.name for layer in layers),
            [layer.forward_s for layer in layers],
            [layer.backward_s for layer in layers],
            [layer.gradient_bytes for layer in layers],
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return tuple(self)[place]
        return LayerTime(self.names[place], self.forward_s[place], self.backward_s[place], self.gradient_bytes[place])

    def __iter__(self) -> Iterator[LayerTime]:
        return map(LayerTime, self.names, self.forward_s, self.backward_s, self.gradient_bytes)

    @cached_property
    def forward_sum_s(self) -> float:
        return sum(self.forward_s)

    @cached_property
    def backward_ends_s(self) -> list[float]:
        """Seconds into the backward pass when so many of its layers are done: none, the last one, and so on."""
        return list(accumulate(reversed(self.backward_s), initial=0.0))

    def slowed(self, factor: float) -> "StepLayers":
        """On a device that takes `factor` times as long."""
        forward_s, backward_s = ([each_s * factor for each_s in way] for way in (self.forward_s, self.backward_s))
        return StepLayers(self.names, forward_s, backward_s, self.gradient_bytes)

    def copying_gradients(self, s_per_byte: float) -> "StepLayers":
        """With each layer's gradients copied into the buffer that is sent, behind its backward pass."""
        both = zip(self.backward_s, self.gradient_bytes, strict=True)
        return StepLayers(
            self.names, self.forward_s, [each_s + size * s_per_byte for each_s, size in both], self.gradient_bytes
        )


@dataclass(frozen=True)
class StepTimes:
    """The times of one rank's step.

    A step has one pass forward and backward over its layers for each part in which a rank takes its batch
    (`accumulate`).
    """

    layers: StepLayers
    update_s: float
    input_s: float = 0.0  # reading and decoding its share of the batch
    host_to_device_s: float = 0.0
    host_s: float = 0.0  # of the host, once in each step, while the device waits
    queue_s: float = 0.0  # of the host, to queue a step's work while the device runs what it has
    parts: int = 1  # passes forward and backward; only gradients of the last one are sent
    pace: float = 1.0  # how many times as long its layers take as the device needs, as the host launches no faster

    @cached_property
    def forward_s(self) -> float:
        return self.layers.forward_sum_s

    @cached_property
    def backward_s(self) -> float:
        return self.layers.backward_ends_s[-1]

    @cached_property
    def compute_s(self) -> float:
        """All passes forward and backward, and the update, at the pace of the host."""
        return self.parts * (self.forward_s + self.backward_s) + self.update_s

    @cached_property
    def earlier_s(self) -> float:
        """The passes before the last one."""
        return (self.parts - 1) * (self.forward_s + self.backward_s)

    @cached_property
    def device_s(self) -> float:
        """The same as long as the device needs."""
        return self.compute_s / self.pace

    def slowed(self, factor: float, with_host: bool = False) -> "StepTimes":
        """The same work on a device (with its host) that takes `factor` times as long for all its computing."""
        if factor == 1:
            return self
        host = factor if with_host else 1.0
        return replace(
            self,
            layers=self.layers.slowed(factor),
            update_s=self.update_s * factor,
            host_s=self.host_s * host,
            queue_s=self.queue_s * host,
        )

    def copying_gradients(self, s_per_byte: float) -> "StepTimes":
        """The same with each layer's gradients copied into the buffer that is sent, behind its backward pass."""
        if not s_per_byte:
            return self
        return replace(self, layers=self.layers.copying_gradients(s_per_byte))


@dataclass(frozen=True)
class Compute:
    """One rank's step on one GPU."""

    step: StepTimes
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


LEAST_COMPUTE = 0.01  # of the predicted time, at best: of no time at all there is no ratio


def best_and_worst(
    compute: tuple[float, float] = (0.0, 0.0),
    messages: tuple[float, float] = (0.0, 0.0),
    reading: float = 0.0,
    copying: float = 0.0,
    host: float | None = 0.0,
    queueing: float | None = 0.0,
) -> tuple[Stretch, Stretch]:
    """All parts of an iteration at their best, and at their worst, by how far off each may be, relative.

    `compute`: how much shorter, and longer. `messages`: ln of how many times as short, and as long. `host`, `queueing`:
    null: as far off as computing is, together with it.
    """
    shorter, longer = compute
    ends = []
    for sign, times in ((-1, max(LEAST_COMPUTE, 1 - shorter)), (1, max(LEAST_COMPUTE, 1 + longer))):
        ends.append(
            Stretch(
                times,
                exp(-messages[0] if sign < 0 else messages[1]),
                max(0.0, 1 + sign * reading),
                max(0.0, 1 + sign * copying),
                times if host is None else max(0.0, 1 + sign * host),
                times if queueing is None else max(0.0, 1 + sign * queueing),
            )
        )
    best, worst = ends
    return best, worst


@dataclass(frozen=True)
class Deviations:
    """ln of the shortest and the longest iteration over the predicted one, by each thing that is not known."""

    parts: tuple[tuple[float, float], ...]  # of computing, messages and the rest: they are as wrong in other points
    scaling: tuple[float, float]  # each number of GPUs has its own

    def of_ratio(self, other: "Deviations") -> tuple[float, float]:
        """ln of the least and the greatest of (this time / the other) over what is predicted."""
        shared = (
            [own_end - end for own_end, end in zip(part, each, strict=True)]
            for part, each in zip(self.parts, other.parts, strict=True)
        )
        (low, high), (other_low, other_high) = self.scaling, other.scaling
        lower, higher = zip(*((min(0.0, *ends), max(0.0, *ends)) for ends in shared), strict=True)
        return -hypot(*lower, low, other_high), hypot(*higher, high, other_low)


AS_IT_IS = Stretch()


# What a simulated iteration depends on: the ranks with their steps, their messages, and what may overlap.


@dataclass(frozen=True)
class Overlap:
    """What the next iteration's input may do while this one computes, and what may come while the next one does."""

    input: bool = True
    host_to_device: bool = True
    parameters: bool = False  # of a parameter server: each layer waits for its own, not the step for all of them


Cause = Literal["waits", "shares", "beyond"]


@dataclass(frozen=True)
class RankClass:
    """Ranks that do the same in the same time."""

    ranks: int
    step: StepTimes
    # How many times as long its computing takes, which `step` has already:
    waits: float = 1.0  # for the slowest rank
    shares: float = 1.0  # as it shares the host's cores
    beyond: float = 1.0  # beyond what is modelled, with what its host does

    def relieved(self, of: Cause) -> "RankClass":
        """Without one of these."""
        step = self.step.slowed(1 / getattr(self, of), with_host=of == "beyond")
        factors = {cause: 1.0 if cause == of else getattr(self, cause) for cause in ("waits", "shares", "beyond")}
        return RankClass(self.ranks, step, **factors)


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

    classes: tuple[RankClass, ...]
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
        return self.classes[0].step.parts

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
        return replace(self, messages=(), fetched=())

    def relieved(self, of: Cause) -> "SimulatedJob":
        """With no rank's computing longer for this cause."""
        if all(getattr(ranks, of) == 1 for ranks in self.classes):
            return self
        return replace(self, classes=tuple(ranks.relieved(of) for ranks in self.classes))

    def with_message(self, message: TimedMessage) -> "SimulatedJob":
        """With one more, behind the others."""
        return replace(self, messages=HashedTuple((*self.messages, message)))

    def computing_longer(self, more_s: float) -> "SimulatedJob":
        """With so much more computing at the end of each rank's step."""
        classes = (
            replace(ranks, step=replace(ranks.step, update_s=ranks.step.update_s + more_s)) for ranks in self.classes
        )
        return replace(self, classes=tuple(classes))

    @cached_property
    def gates(self) -> dict[int, list[int]]:
        """After how many layers of the backward pass it waits for which messages, by their places."""
        found: dict[int, list[int]] = {}
        names = self.classes[0].step.layers.names
        for index, message in enumerate(self.messages):
            if message.gates:
                found.setdefault(len(names) - 1 - names.index(message.gates), []).append(index)
        return found

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """After how many layers of the backward pass each message is ready; no earlier than the message before it."""
        return _cuts(self.classes[0].step.layers.names, HashedTuple(self.messages))


@lru_cache(maxsize=256)  # the same for all batches, inputs and systems
def _cuts(names: HashedTuple[str], messages: HashedTuple[TimedMessage]) -> tuple[int, ...]:
    if not messages:
        return ()
    done = {name: index for index, name in enumerate(reversed(names), start=1)}
    cuts: list[int] = []
    for message in messages:
        cuts.append(max([*cuts[-1:], *(done[name] for name in message.layers)], default=0))
    return tuple(cuts)
