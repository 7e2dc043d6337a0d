"""What one rank does in a training step, and how long each part of it takes when nothing else runs."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from math import exp, hypot
from typing import NamedTuple

from resnetx.hashed import HashedTuple


class LayerTime(NamedTuple):
    """One layer at one per-GPU batch size. A tuple: a grid of a million points makes a hundred million of them."""

    name: str
    forward_s: float
    backward_s: float
    gradient_bytes: int


@dataclass(frozen=True)
class StepTimes:
    """The times of one rank's step. Layers are in the order of the forward pass."""

    layers: tuple[LayerTime, ...]
    update_s: float
    input_s: float = 0.0  # reading and decoding its share of the batch
    host_to_device_s: float = 0.0
    host_s: float = 0.0  # of the host, once in each step, while the device waits
    queue_s: float = 0.0  # of the host, to queue a step's work while the device runs what it has
    pace: float = 1.0  # how many times as long its layers take as the device needs, as the host launches no faster

    @cached_property
    def forward_s(self) -> float:
        return sum(layer.forward_s for layer in self.layers)

    @cached_property
    def backward_ends_s(self) -> list[float]:
        """Seconds into the backward pass when so many of its layers are done: none, the last one, and so on."""
        return list(accumulate((layer.backward_s for layer in reversed(self.layers)), initial=0.0))

    @property
    def backward_s(self) -> float:
        return self.backward_ends_s[-1]

    @property
    def compute_s(self) -> float:
        """Forward, backward and update, at the pace of the host."""
        return self.forward_s + self.backward_s + self.update_s

    @property
    def device_s(self) -> float:
        """The same as long as the device needs."""
        return self.compute_s / self.pace

    def slowed(self, factor: float, with_host: bool = False) -> "StepTimes":
        """The same work on a device (with its host) that takes `factor` times as long for all its computing."""
        if factor == 1:
            return self
        layers, host = _slowed(HashedTuple(self.layers), factor), factor if with_host else 1.0
        return replace(
            self,
            layers=layers,
            update_s=self.update_s * factor,
            host_s=self.host_s * host,
            queue_s=self.queue_s * host,
        )

    def copying_gradients(self, s_per_byte: float) -> "StepTimes":
        """The same with each layer's gradients copied into the buffer that is sent, behind its backward pass."""
        return replace(self, layers=_copying_gradients(HashedTuple(self.layers), s_per_byte))


@lru_cache(maxsize=256)  # strategies, inputs and libraries share them
def _slowed(layers: HashedTuple[LayerTime], factor: float) -> HashedTuple[LayerTime]:
    return HashedTuple(
        LayerTime(layer.name, layer.forward_s * factor, layer.backward_s * factor, layer.gradient_bytes)
        for layer in layers
    )


@lru_cache(maxsize=256)
def _copying_gradients(layers: HashedTuple[LayerTime], s_per_byte: float) -> HashedTuple[LayerTime]:
    return HashedTuple(
        LayerTime(
            layer.name,
            layer.forward_s,
            layer.backward_s + layer.gradient_bytes * s_per_byte,
            layer.gradient_bytes,
        )
        for layer in layers
    )


@dataclass(frozen=True)
class TimedMessage:
    """One message of gradients. It can start when all its layers have ended their backward pass on all ranks."""

    layers: tuple[str, ...]
    time_s: float
    unpack_s: float = 0.0  # computing that it takes to get the sums to where the update reads them
    name: str = "all-reduce"
    gates: str = ""  # a layer whose backward pass waits for it


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


@dataclass(frozen=True)
class Errors:
    """How far off each part of an iteration may be, relative."""

    compute: float = 0.0
    messages: float = 0.0  # ln of how many times as long
    reading: float = 0.0
    copying: float = 0.0
    host: float | None = 0.0  # null: as far off as computing is, together with it
    queueing: float | None = 0.0  # likewise
    faster: float | None = None  # of computing, at its best; null: as `compute`

    def stretch(self, sign: int) -> Stretch:
        """All parts at their best (-1), or at their worst (1)."""
        best = self.compute if self.faster is None else self.faster
        compute = max(LEAST_COMPUTE, 1 + self.compute if sign > 0 else 1 - best)
        return Stretch(
            compute,
            exp(sign * self.messages),
            max(0.0, 1 + sign * self.reading),
            max(0.0, 1 + sign * self.copying),
            compute if self.host is None else max(0.0, 1 + sign * self.host),
            compute if self.queueing is None else max(0.0, 1 + sign * self.queueing),
        )

    @property
    def ends(self) -> tuple[Stretch, Stretch]:
        """All parts at their best, and at their worst."""
        return self.stretch(-1), self.stretch(1)


@dataclass(frozen=True)
class Deviations:
    """ln of the shortest and the longest iteration over the predicted one, by each thing that is not known."""

    parts: tuple[tuple[float, float], ...]  # of computing, messages and the rest: they are as wrong in other points
    scaling: tuple[float, float]  # each number of GPUs has its own

    def of_ratio(self, other: "Deviations") -> tuple[float, float]:
        """ln of the least and the greatest of (this time / the other) over what is predicted."""
        shared = (
            [own_end - end for own_end, end in zip(own, each, strict=True)]
            for own, each in zip(self.parts, other.parts, strict=True)
        )
        (low, high), (other_low, other_high) = self.scaling, other.scaling
        lower, higher = zip(*((min(0.0, *ends), max(0.0, *ends)) for ends in shared), strict=True)
        return -hypot(*lower, low, other_high), hypot(*higher, high, other_low)


AS_IT_IS = Stretch()
