"""Where the scaling went: the time of a step in parts, each beyond what linear scaling would leave of it.

    spent(iteration.job, iteration.stretches, iteration.deviations)        # seconds of each part, and their ends
    time_parts(spent_on_8, spent_on_1, linear=1 / 8)                       # shares of the step on 8 GPUs

A part is what the step is shorter without it. They are taken out one after the other, in the order of `Seconds`, so
that they sum to the step exactly; what two parts save only together is in the first of them. What is left when all are
out is the computing of one GPU on its share of the batch. Of each part, as much is no loss as linear scaling leaves of
the same part on the GPUs that speed-ups are over.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot
from typing import NamedTuple

from resnetx.prediction.job import Job
from resnetx.prediction.ssgd import iteration_s
from resnetx.prediction.step import AS_IT_IS, Deviations, Stretch
from resnetx.record.prediction import PartName, TimePart


class Seconds(NamedTuple):
    """What each part of a step takes."""

    communication: float  # that computing does not hide, with what computing loses beside messages
    unexplained: float  # beyond the model, where rates of several GPUs are known
    waiting: float  # for the slowest rank
    host: float  # what the host does once a step, and sharing its cores
    input: float  # that computing does not hide
    launching: float  # the GPU waits for its host to launch layers
    computing: float

    @property
    def total(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class Spent:
    """The parts of a step as predicted, and with each thing that is not known at both of its ends."""

    predicted: Seconds
    ends: tuple[tuple[Seconds, Seconds], ...]  # as `Deviations.parts` lists things
    scaling: tuple[float, float]  # as `Deviations.scaling`


def spent(job: Job, stretches: Sequence[tuple[Stretch, Stretch]], deviations: Deviations) -> Spent:
    """The parts of the step of a job; `stretches`: the best and the worst of each thing that is not known."""
    jobs = _ever_less(job)
    low_high = tuple((_seconds(jobs, low), _seconds(jobs, high)) for low, high in stretches)
    return Spent(_seconds(jobs, AS_IT_IS), low_high, deviations.scaling)


def alone_s(job: Job) -> float:
    """The step of one rank by itself: no messages, nobody to wait for, a host that launches in no time."""
    return iteration_s(_ever_less(job)[-1])


def _ever_less(job: Job) -> tuple[Job, ...]:
    """The job, and without one part more each time."""
    silent = job.without_messages()
    explained = silent.relieved("beyond")
    alike = explained.relieved("waits")
    alone = alike.relieved("shares")
    steps = (replace(ranks.step, host_s=0.0, queue_s=0.0) for ranks in alone.classes)
    classes = (replace(ranks, step=step) for ranks, step in zip(alone.classes, steps, strict=True))
    return job, silent, explained, alike, replace(alone, host=None, classes=tuple(classes))


def _seconds(jobs: Sequence[Job], by: Stretch) -> Seconds:
    unread, pace = replace(by, reading=0.0, copying=0.0), jobs[-1].classes[0].step.pace
    times_s = [iteration_s(job, by) for job in jobs]
    times_s.append(iteration_s(jobs[-1], unread))
    times_s.append(times_s[-1] / pace)  # computing alone is left, which is as long as it is stretched
    return Seconds._make([*(before - after for before, after in pairwise(times_s)), times_s[-1]])


def time_parts(own: Spent, base: Spent, linear: float) -> list[TimePart]:
    """The shares of a step, which sum to one; `linear`: what linear scaling leaves of the step of `base`."""
    shares = _shares(own.predicted, base.predicted, linear)
    beside = [
        [_shares(own_end, base_end, linear) for own_end, base_end in zip(own_ends, base_ends, strict=True)]
        for own_ends, base_ends in zip(own.ends, base.ends, strict=True)
    ]
    beside.append([_shares(_scaled(own.predicted, by), base.predicted, linear) for by in own.scaling])
    return [
        TimePart(name, share, _interval(share, [[end[name] for end in ends] for ends in beside]))
        for name, share in shares.items()
    ]


def _shares(own: Seconds, base: Seconds, linear: float) -> dict[PartName, float]:
    lost = [own_s - base_s * linear for own_s, base_s in zip(own, base, strict=True)]
    useful_s, named = base.total * linear, Seconds(*lost)
    parts: dict[PartName, float] = {
        "useful": useful_s,
        "smaller batches": named.computing,
        "launching": named.launching,
        "communication": named.communication,
        "waiting": named.waiting,
        "input": named.input,
        "host": named.host,
        "unexplained": named.unexplained,
    }
    return {name: seconds / own.total for name, seconds in parts.items()}


def _scaled(own: Seconds, deviation: float) -> Seconds:
    """With what scaling costs beyond messages at an end: ranks wait so much more, or less."""
    return own._replace(waiting=own.waiting + own.total * (exp(deviation) - 1))


def _interval(share: float, by_thing: Sequence[Sequence[float]]) -> list[float]:
    """Each thing deviates by itself: the root of the sum of squares, as for the step."""
    lower = hypot(*(min(0.0, *(end - share for end in ends)) for ends in by_thing))
    upper = hypot(*(max(0.0, *(end - share for end in ends)) for ends in by_thing))
    return [share - lower, share + upper]
