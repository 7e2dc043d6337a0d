"""What a simulated iteration depends on: the ranks with their steps, their messages, and what may overlap."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

from resnetx.hashed import HashedTuple
from resnetx.prediction.step import LayerTime, StepTimes, TimedMessage


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
    """Where ranks compute on the cores of one host, what they want of them, in cores; see `simulator`.

    Reading wants none here: `input` has shared the cores out for it.
    """

    cores: float
    computing: float  # of one rank while it computes
    sending: float  # of one rank while one message is on its way


@dataclass(frozen=True)
class Job:
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

    def without_messages(self) -> "Job":
        return replace(self, messages=(), fetched=())

    def relieved(self, of: Cause) -> "Job":
        """With no rank's computing longer for this cause."""
        if all(getattr(ranks, of) == 1 for ranks in self.classes):
            return self
        return replace(self, classes=tuple(ranks.relieved(of) for ranks in self.classes))

    def with_message(self, message: TimedMessage) -> "Job":
        """With one more, behind the others."""
        return replace(self, messages=HashedTuple((*self.messages, message)))

    def computing_longer(self, more_s: float) -> "Job":
        """With so much more computing at the end of each rank's step."""
        classes = (
            replace(ranks, step=replace(ranks.step, update_s=ranks.step.update_s + more_s)) for ranks in self.classes
        )
        return replace(self, classes=tuple(classes))

    @cached_property
    def gates(self) -> dict[int, list[int]]:
        """After how many layers of the backward pass it waits for which messages, by their places."""
        found: dict[int, list[int]] = {}
        done = {layer.name: place for place, layer in enumerate(reversed(self.classes[0].step.layers))}
        for place, message in enumerate(self.messages):
            if message.gates:
                found.setdefault(done[message.gates], []).append(place)
        return found

    @cached_property
    def cuts(self) -> list[int]:
        """After how many layers of the backward pass each message is ready; no earlier than the message before it."""
        return list(_cuts(HashedTuple(self.classes[0].step.layers), HashedTuple(self.messages)))


@lru_cache(maxsize=256)  # the same for all inputs
def _cuts(layers: HashedTuple[LayerTime], messages: HashedTuple[TimedMessage]) -> tuple[int, ...]:
    if not messages:
        return ()
    done = {layer.name: place for place, layer in enumerate(reversed(layers), start=1)}
    cuts: list[int] = []
    for message in messages:
        cuts.append(max([*cuts[-1:], *(done[name] for name in message.layers)], default=0))
    return tuple(cuts)
