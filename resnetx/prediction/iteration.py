"""The simulated iteration of a point: how long it takes, what limits it, and how far off it may be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import exp, hypot, log, log1p

from resnetx.choices import Server
from resnetx.prediction.compute import RATE_ERRORS
from resnetx.prediction.host_step import PARALLEL_SPREAD
from resnetx.prediction.messages import MOST_BETWEEN_NODES, Exchange
from resnetx.prediction.scaling import ScalingSpread, not_hidden_s, parallel_s, scaling_errors
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import (
    AS_IT_IS,
    LEAST_COMPUTE,
    SAME,
    Compute,
    SimulatedJob,
    Step,
    Stretch,
    closed_form_s,
    hidden_behind_s,
)
from resnetx.record.prediction import Limit, PartName, PredictedTask, TimePart

DIGITS = 3  # of a saved share; of parts that save alike, the one that takes longest alone is named
# Of two gloo ranks over one on one host, the worst of the 12 points of results/cpu-2core/truth.
CPU_RANKS_ERROR = 0.09
# Of a whole iteration in the lab, and of its messages. 0.015 and 0.05 were stated before results/lab/truth and
# results/lab/paper were measured, and held 64 of 70 and 43 of 60 points. These were chosen on the second, of which they
# hold 49, and hold 66 of the 70 of the first.
LAB_ERROR, LAB_MESSAGES_ERROR = 0.025, 0.05
# Of what zero1 broadcasts there, which is simulated: chosen on the ten points of results/lab/sharded, whose largest is
# 0.18, and which the simulation was made after.
LAB_BROADCASTS_ERROR = 0.2
LAB_SERVER_ERROR = 0.035  # of a whole one with a parameter server: 0.025 held 12 of 16 and 11 of 16 of these points
# Several GPUs are no faster than so many times one of them: of 541 published rates three are more than
# 2 % above that, two of VGG-16 on one box. No interval of what scaling costs reaches further.
ABOVE_LINEAR = 0.02
HOST_ERROR = RATE_ERRORS["assumed"]  # `host_time` is a figure that the user sets, like a rate that is assumed


def iteration_s(job: SimulatedJob, by: Stretch = AS_IT_IS) -> float:
    """Seconds from one update to the next, once the pipeline is full: by a formula where there is one."""
    step, runs_ahead = job.classes[0], job.overlap.input and job.overlap.host_to_device
    queued = not step.queue_s or bool(step.host_s * by.host) or runs_ahead
    simple = len(job.classes) == 1 and job.host is None and job.at_once == 1 and queued and not job.gates
    if simple and not job.sends_in_each_part:
        return closed_form_s(job, by)
    from resnetx.prediction.task_graph import simulated_s

    alone_s, contention = simulated_s(job, by), job.contention if by.contention is None else by.contention
    if not contention or not job.messages:
        return alone_s
    sent = [message for part in job.by_part for message in part.messages]
    hidden_s = hidden_behind_s(sent, by, alone_s - simulated_s(job.without_messages(), by))
    # What computing loses is seconds, as in the formula: not once more as much longer as computing is taken to be.
    return simulated_s(job.computing_longer(contention * hidden_s / (by.compute or 1.0)), by)


# Where the scaling went: the time of a step in parts, each of which is what the step is shorter without it.
#
#     seconds(ever_less(iteration.job))
#
# They are taken out one after the other, in the order of `TAKEN_OUT`, so that they sum to the step exactly; what two
# parts save only together is in the first of them. What is left when all are out is the computing of one GPU on its
# share of the batch.


Seconds = dict[PartName, float]  # what each part of a step takes, in the order in which they are taken out
TAKEN_OUT: tuple[PartName, ...] = (
    "communication",  # that computing does not hide, with what computing loses beside messages
    "unexplained",  # beyond the model, as rates of several GPUs show it: the user's, or those of such nodes
    "waiting",  # for the slowest rank
    "host",  # what the host does once a step, and sharing its cores
    "input",  # that computing does not hide
    "launching",  # the GPU waits for its host to launch layers
    "smaller batches",  # computing, of which they have more for each image
)
LOSSES: tuple[PartName, ...] = (  # the same in the order of a record
    *("smaller batches", "launching", "communication", "waiting", "input", "host", "unexplained"),
)


def ever_less(job: SimulatedJob) -> tuple[SimulatedJob, ...]:
    """The job, and without one part more each time.

    The last one is a rank by itself: no messages, nobody to wait for, a host that launches in no time.
    """
    silent = job.without_messages()
    explained = silent.explained().relieved("beyond")
    alike = explained.relieved("waits")
    alone = alike.relieved("shares")
    classes = (replace(step, host_s=0.0, queue_s=0.0) for step in alone.classes)
    return job, silent, explained, alike, replace(alone, host=None, classes=tuple(classes))


def seconds(jobs: Sequence[SimulatedJob], by: Stretch = AS_IT_IS) -> Seconds:
    """The parts of a step, by its jobs with ever less in them."""
    unread, pace = replace(by, reading=0.0, copying=0.0), jobs[-1].classes[0].pace
    times_s = [iteration_s(job, by) for job in jobs]
    times_s.append(iteration_s(jobs[-1], unread))
    times_s.append(times_s[-1] / pace)  # computing alone is left, which is as long as it is stretched
    return dict(zip(TAKEN_OUT, [*(before - after for before, after in pairwise(times_s)), times_s[-1]], strict=True))


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


Ends = tuple[float, float]
# ln of the shortest and the longest iteration over the predicted one, by each thing that is not known: of computing,
# messages and the rest, which are as wrong in other points, and of scaling, of which each number of GPUs has its own.
Deviations = tuple[tuple[Ends, ...], Ends]


def deviation_of_ratio(one: Deviations, other: Deviations) -> Ends:
    """ln of the least and the greatest of (one time / the other) over what is predicted."""
    (parts, (low, high)), (other_parts, (other_low, other_high)) = one, other
    shared = [[a - b for a, b in zip(*both, strict=True)] for both in zip(parts, other_parts, strict=True)]
    lower, higher = zip(*((min(0.0, *ends), max(0.0, *ends)) for ends in shared), strict=True)
    return -hypot(*lower, low, other_high), hypot(*higher, high, other_low)


@dataclass(frozen=True)
class Iteration:
    """One iteration of a point that can run, and what it was simulated from."""

    point: Point
    job: SimulatedJob
    exchange: Exchange
    steps: tuple[Compute, ...]  # of each kind of rank, as `point.shares` lists them

    @cached_property
    def time_s(self) -> float:
        """From one update to the next."""
        return iteration_s(self.job)

    @property
    def images_per_s(self) -> float:
        """Of all GPUs."""
        return self.point.batch_size / self.time_s

    @cached_property
    def slowest(self) -> Step:
        """The step of the ranks that compute longest."""
        return max(self.job.classes, key=lambda step: step.compute_s)

    @property
    def input_s(self) -> float:
        """How often the slowest rank's share of a batch can come: read and copied, one while the other, or in turn."""
        parts = (self.slowest.input_s, self.slowest.host_to_device_s)
        return max(parts) if self._copies_ahead else sum(parts)

    @property
    def input_error(self) -> float:
        """Relative, of `input_s`."""
        return max(step.input_error(self._copies_ahead) for step in self.steps)

    @property
    def _copies_ahead(self) -> bool:
        return self.job.overlap.input and self.job.overlap.host_to_device

    @cached_property
    def alone_s(self) -> dict[Limit, float]:
        """What each part takes when nothing else runs."""
        return {
            "compute": self.slowest.device_s,
            "communication": self.exchange.time_s,
            "input": self.input_s,
            "host": self.slowest.host_s + self.slowest.queue_s,
        }

    @cached_property
    def saved_share(self) -> dict[Limit, float]:
        """The share of the iteration that each part would save if it cost nothing; what is hidden saves nothing."""
        without: dict[Limit, tuple[SimulatedJob, Stretch]] = {
            "compute": (self.job, Stretch(compute=0.0)),
            "communication": (self.job.without_messages(), AS_IT_IS),
            "input": (self.job, Stretch(reading=0.0, copying=0.0)),
            "host": (self.job, Stretch(compute=1 / self.slowest.pace, host=0.0, queueing=0.0)),
        }
        return {
            part: max(0.0, 1 - iteration_s(*changed) / self.time_s) if self.alone_s[part] else 0.0
            for part, changed in without.items()
        }

    @property
    def exposed_share(self) -> float:
        """Of the iteration, in which it waits for messages."""
        return max(0.0, 1 - iteration_s(self.job.without_messages()) / self.time_s)

    @cached_property
    def limited_by(self) -> Limit:
        """The part that would save most."""
        return max(self.saved_share, key=lambda part: (round(self.saved_share[part], DIGITS), self.alone_s[part]))

    @cached_property
    def compute_error(self) -> tuple[float, float]:
        """How much shorter and longer computing may be, relative: the most of the kinds of ranks."""
        return max(step.best for step in self.steps), max(step.error for step in self.steps)

    @property
    def _host_errors(self) -> tuple[float | None, float | None]:
        """Of what the host does while the device waits, and while it runs; null: as far off as computing."""
        whole_step = any(step.whole_step for step in self.steps)
        queueing = None if whole_step else max(step.queue_error for step in self.steps)
        return HOST_ERROR if self.point.setting.host_s else queueing, queueing

    @cached_property
    def scaling_error(self) -> ScalingSpread | None:
        """How far off predictions of such scaling were; null of one GPU, which does not scale, and of CPU ranks."""
        if self.point.gpus == 1 or self.point.deployment.on_cpus or self.point.deployment.lab:
            return None
        return scaling_errors().of_point(self.point, self.steps[0])

    @cached_property
    def given_error(self) -> float | None:
        """Of the rate that the iteration has because it is known there, relative; null: it has none.

        What stands in place of a described link, or of the input that was read, is not in such a rate.
        """
        point, rates = self.point, self.point.workload.scaled
        if rates is None or rates.synthetic or point.deployment.as_described is not point.deployment:
            return None
        return rates.error if rates.have(point.gpus, point.batch_size, self.time_s) else None

    @cached_property
    def interval_by_scaling_s(self) -> list[float]:
        """The iteration with what scaling costs at both ends of what that may be; a known one as its rate may be."""
        if self.given_error is not None:
            return [self.time_s * max(1 - self.given_error, LEAST_COMPUTE), self.time_s * (1 + self.given_error)]
        error = self.scaling_error
        unknown = CPU_RANKS_ERROR if self.point.gpus > 1 else 0.0
        if self.point.deployment.lab:
            serves = isinstance(self.point.workload.strategy, Server)
            unknown = LAB_SERVER_ERROR if serves else LAB_ERROR
        faster, slower = (unknown, unknown) if error is None else (error.faster, error.slower)
        (shorter, longer), further = self._parallel, self._further
        shorter, longer = -hypot(shorter, log1p(-further)), hypot(longer, log1p(further))
        if error is not None:
            most = max(0.0, log(self.time_s / iteration_s(self._ever_less[-1])) + ABOVE_LINEAR)
            faster, shorter = min(faster, most), max(shorter, -most)
        return [self.time_s * exp(-hypot(faster, shorter)), self.time_s * exp(hypot(slower, longer))]

    @property
    def _parallel(self) -> tuple[float, float]:
        """How much shorter and longer it may be by what going parallel costs its host, as logarithms.

        At worst nothing of it is hidden: a rate may be of a program whose ranks agree on each tensor.
        """
        host_s, point, step = parallel_s(self.point), self.point, self.steps[0].step
        least_s, usual_s = (not_hidden_s(point, step, each_s) for each_s in (host_s / PARALLEL_SPREAD, host_s))
        return log1p((least_s - usual_s) / self.time_s), log1p((host_s * PARALLEL_SPREAD - usual_s) / self.time_s)

    @property
    def _further(self) -> float:
        """The share of a step that rates of fewer GPUs show to be messages, and nothing explains, on one node.

        There may be none of it, or twice as much: so of 15 published steps, over a tenth of which it is, 13 are inside,
        and 7 were without this. Boxes without peers, and several nodes, have errors of their own.
        """
        point, residual = self.point, self.point.setting.residual
        known = residual is not None and point.gpus <= residual.each_s.places[-1]
        if residual is None or known or point.deployment.no_peers or len(point.ranks_of_nodes) > 1:
            return 0.0
        return min(residual.at(point.gpus)[0] / self.time_s, 1 - LEAST_COMPUTE)

    @cached_property
    def but_for_scaling(self) -> tuple[float, float]:
        """How much shorter and longer it may be by all but what predictions of such scaling were off, as logarithms."""
        shorter, longer = zip(*map(self._deviation, self._parts_s), self._parallel, strict=True)
        return hypot(*shorter), hypot(*longer)

    @cached_property
    def interval_by_compute_s(self) -> list[float]:
        """The iteration with compute times at both ends of what they may be; a known one is as long all the same."""
        if self.given_error is not None:
            return [self.time_s, self.time_s]
        return self._between(*self._by_compute(*self.compute_error))

    @cached_property
    def interval_s(self) -> list[float]:
        """What nine of ten times should lie within: the errors of all parts as the root of the sum of their squares.

        Each is the logarithm of how much longer, or shorter, the iteration is with that part at its worst, or best.
        """
        if self.given_error is not None:
            return self.interval_by_scaling_s
        shorter, longer = zip(*map(self._deviation, [*self._parts_s, self.interval_by_scaling_s]), strict=True)
        return [self.time_s * exp(-hypot(*shorter)), self.time_s * exp(hypot(*longer))]

    @cached_property
    def _parts_s(self) -> list[list[float]]:
        """The iteration with computing, messages, and the rest but for scaling at both ends."""
        return [self.interval_by_compute_s, *self._beside_computing_s]

    @cached_property
    def _beside_computing_s(self) -> list[list[float]]:
        return [self._between(*self._by_messages), self._between(*self._by_others)]

    @cached_property
    def stretches(self) -> list[tuple[Stretch, Stretch]]:
        """Each thing that is not known at its best and at its worst: computing, by cause, messages, and the rest."""
        causes = zip(*(step.causes or ((step.best, step.error),) for step in self.steps), strict=True)
        computing = [self._by_compute(*map(max, zip(*cause, strict=True))) for cause in causes]
        return [*computing, self._by_messages, self._by_others]

    @cached_property
    def deviations(self) -> Deviations:
        """How much each of these changes the iteration."""
        if self.given_error is not None:
            return ((0.0, 0.0),) * len(self.stretches), self._deviation(self.interval_by_scaling_s)
        computing_s = [self._between(*ends) for ends in self.stretches[:-2]]
        parts = map(self._deviation, [*computing_s, *self._beside_computing_s])
        return tuple(parts), self._deviation(self.interval_by_scaling_s)

    @cached_property
    def _ever_less(self) -> tuple[SimulatedJob, ...]:
        return ever_less(self.job)

    @cached_property
    def seconds(self) -> Seconds:
        """The iteration in parts."""
        return seconds(self._ever_less)

    @cached_property
    def seconds_at_ends(self) -> list[list[Seconds]]:
        """The same with each thing that is not known at its best and at its worst."""
        return [[seconds(self._ever_less, end) for end in ends] for ends in self.stretches]

    def parts_over(self, base: "Iteration", efficiency: float, ends: Sequence[float]) -> list[TimePart]:
        """The shares of a step, which sum to one, beyond what linear scaling would leave of the step of `base`.

        Of each part, as much is no loss as linear scaling leaves of the same part there. What it leaves of the step is
        useful: the efficiency, `ends` of which are its interval.
        """
        useful = TimePart("useful", efficiency, list(ends))
        if base is self:
            return [useful, *(TimePart(name, 0.0, [0.0, 0.0]) for name in LOSSES)]
        own, other = self.point, base.point
        linear = own.batch_size / other.batch_size * other.gpus / own.gpus  # of its step, with scaling=weak all of it
        shares = _shares(self.seconds, base.seconds, linear)
        beside = [
            [_shares(own_end, base_end, linear) for own_end, base_end in zip(own_ends, base_ends, strict=True)]
            for own_ends, base_ends in zip(self.seconds_at_ends, base.seconds_at_ends, strict=True)
        ]
        scaling = (_scaled(self.seconds, deviation) for deviation in self.deviations[1])
        beside.append([_shares(end, base.seconds, linear) for end in scaling])
        lost = (
            TimePart(name, share, _interval(share, [[end[name] for end in ends] for ends in beside]))
            for name, share in shares.items()
        )
        return [useful, *lost]

    def _deviation(self, interval_s: Sequence[float]) -> tuple[float, float]:
        low_s, high_s = interval_s
        return log(max(low_s / self.time_s, LEAST_COMPUTE)), log(high_s / self.time_s)

    def _by_compute(self, faster: float, slower: float) -> tuple[Stretch, Stretch]:
        host, queueing = (None if error is None else 0.0 for error in self._host_errors)
        return best_and_worst((faster, slower), host=host, queueing=queueing)

    @cached_property
    def _by_others(self) -> tuple[Stretch, Stretch]:
        """Input, and what the host does beside launching."""
        if not (self.input_s or self.alone_s["host"]):
            return AS_IT_IS, AS_IT_IS
        reading, copying = (
            max(step.reading_error for step in self.steps),
            max(step.copying_error for step in self.steps),
        )
        host, queueing = self._host_errors
        return best_and_worst(reading=reading, copying=copying, host=host, queueing=queueing)

    @cached_property
    def _by_messages(self) -> tuple[Stretch, Stretch]:
        """Messages beside computing at no cost to it, and so that it stands still meanwhile; between nodes hardly."""
        if not self.job.messages:
            return AS_IT_IS, AS_IT_IS
        error = self.exchange.error
        low, high = best_and_worst(messages=(max(error, self.exchange.faster), max(error, self.exchange.slower)))
        beside = self.job.contention > 0  # where it is known, as on CPUs, no error of its own is counted
        if not beside:
            return low, high
        most = 1.0 if len(self.point.ranks_of_nodes) == 1 else max(MOST_BETWEEN_NODES, self.job.contention)
        return replace(low, contention=0.0), replace(high, contention=most)

    def _between(self, best: Stretch, worst: Stretch) -> list[float]:
        """Sums of other figures round otherwise: where an error changes nothing, an end may differ in a last digit."""
        low_s, high_s = (self.time_s if end is AS_IT_IS else iteration_s(self.job, end) for end in (best, worst))
        return [min(low_s, self.time_s), max(high_s, self.time_s)]

    def timeline(self) -> list[PredictedTask]:
        """Its tasks, one by one."""
        from resnetx.prediction.task_graph import timeline

        return timeline(self.job)


def _shares(own: Seconds, base: Seconds, linear: float) -> dict[PartName, float]:
    if not (whole_s := sum(own.values())):  # a step that is nothing at its best
        return dict.fromkeys(LOSSES, 0.0)
    lost = _lost({name: own[name] - base[name] * linear for name in TAKEN_OUT}, SAME * whole_s)
    return {name: lost[name] / whole_s for name in LOSSES}


def _lost(more: Seconds, nothing_s: float) -> Seconds:
    """Of the time that a step takes beyond linear scaling, what each part has: none less than nothing.

    A part that hides another one is shorter the longer that is: input is exposed for less time the longer a batch
    computes. So no part takes more than is left once those before it are out. A rank that computes less than its share
    gains by that, as where an update is shared out (ZeRO-1, FSDP). A step that is shorter than linear: mirrored.
    """
    parts_s = list(more.values())
    whole_s, computing_s = sum(parts_s), more["smaller batches"]
    sign = 1.0 if whole_s >= -nothing_s else -1.0
    least_s = min(sign * computing_s, sign * (more["launching"] + computing_s))
    left_s, least_s = [max(0.0, sign * whole_s)], least_s if least_s < -nothing_s else 0.0
    for place in range(1, len(parts_s)):
        left_s.append(max(least_s, min(sign * sum(parts_s[place:]), left_s[-1])))
    lost_s = (*(one - other for one, other in pairwise(left_s)), left_s[-1])
    return {name: sign * part_s for name, part_s in zip(more, lost_s, strict=True)}


def _scaled(seconds: Seconds, deviation: float) -> Seconds:
    """With what scaling costs beyond messages at an end: ranks wait so much more, or less; then messages take less."""
    waiting_s = seconds["waiting"] + sum(seconds.values()) * (exp(deviation) - 1)
    communication_s = seconds["communication"] + min(0.0, waiting_s)
    return {**seconds, "waiting": max(0.0, waiting_s), "communication": communication_s}


def _interval(share: float, by_thing: Sequence[Sequence[float]]) -> list[float]:
    """Each thing deviates by itself: the root of the sum of squares, as for the step; a loss is 0 to 1 of the step."""
    lower = hypot(*(min(0.0, *(end - share for end in ends)) for ends in by_thing))
    upper = hypot(*(max(0.0, *(end - share for end in ends)) for ends in by_thing))
    return [share - lower if share < 0 else max(0.0, share - lower), min(1.0, share + upper)]
