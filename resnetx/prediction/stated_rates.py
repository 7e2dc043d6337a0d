"""One GPU's rate as somebody knows it: stated by the user, or read from a record; and what follows at other batches.

    rates = StatedRates(((32, 195.0), (64, 219.0)), source="stated", where="rate=")
    rates.step(images=48, host=host, fixed_s=0.008)

A known step has a host's part (`host_step`) and a GPU's part. At another batch the GPU's part is a fixed time, and the
rest in proportion to the batch; the host's stays. Between two known batches the step is on the line between theirs, or
on the curve of these parts through both where the smaller is the host's and the other is far.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, log, log1p, log2
from typing import Literal, NamedTuple

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import SizeCurve
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.prediction import roofline
from resnetx.prediction.host_step import LEAST_STEP, MOST_FIXED, MOST_OF_STEP, NORM, HostStep, LaunchedStep, launched
from resnetx.record.prediction import AS_IF
from resnetx.units import Unit, as_given
from resnetx.workloads.counts import Layer

# Relative errors of rates: nine rates of ten are within them.
RATE_ERROR = 0.02  # unless the user states another: assumed
# Of a batch whose rate is not known, for each root of an octave to the nearest that is, beside what the host's part may
# be: between others; between others where the loop waits, or where images are decoded on the host, whose loader may be
# the limit of some batches and not of others; outside of them. Chosen by the score of the intervals of 397 batches
# between two others and 220 at an eighth of one (`scaling_check`), of which they held 90 and 94 %; without any one
# machine 0.08 or 0.09 has the best score for the last, and 92 % inside. Of 579 and 243 known today 88 and 93 %.
BETWEEN, WAITED, DECODED, OUTSIDE = 0.045, 0.08, 0.13, 0.10
# Outside of them, of the GPU's part that is there at any batch: an RTX PRO 6000 has none, a B200 1.5 times what is
# assumed of any GPU.
FIXED = (0.0, 1.5)
# Outside of them, images may take that many times as short in a smaller batch, and as long in a larger one. Of 1.02 to
# 1.3 the one with which intervals of 220 steps at an eighth of a batch have the best score, whichever machine is left
# out: half-width 35.4 -> 34.4 %, as many inside.
DEARER = 1.15
# Two steps, one of at least so many times the batch of the other, that take no more than so many times as long are as
# long as their host takes.
LEVEL_BATCHES, LEVEL = 2.0, 1.3
# A step of no more than so many times what a host is assumed to take is its host's, and one of so many times its batch
# the GPU's: between such a line is too slow, and the curve too fast where they are near. Of 1,414 published triples the
# line errs by 9.6 %, the curve by 6.1 %, and what is between, nearer to the curve by the octaves, by 5.4 % (with all in
# sight; `tests/prediction/test_stated_rate.py`).
HOSTS, FAR = 1.5, 6.0


@dataclass(frozen=True)
class RatedGpu:
    """The GPU that rates are of, where it is not the one that is predicted."""

    name: str  # of the part
    part: GpuSpec
    rating: float | None = None  # of its host's CPU; None: nobody says which that is


@dataclass(frozen=True)
class StatedRates:
    """Images/s of one GPU. `by_batch`: (images of a step, images/s), by ascending batch, at least one."""

    by_batch: tuple[tuple[int, float], ...]
    source: Literal["stated", "measured"]
    where: str  # the setting, or the record
    error: float = RATE_ERROR  # relative; the rate is this close in nine cases of ten
    nodes: frozenset[str] = frozenset()  # that it was measured on
    other: RatedGpu | None = None  # that they are of; None: the one that is predicted

    @property
    def shortest_s(self) -> float:
        """The shortest known step."""
        return min(batch / rate for batch, rate in self.by_batch)

    def step(
        self,
        images: int,
        host: HostStep,
        fixed_s: float,
        modelled_s: tuple[float, float] = (0.0, inf),
        decoded: bool = False,
    ) -> LaunchedStep:
        """The step of so many images. `host`: its part; `fixed_s`: of the GPU's part, what is there at any batch.

        `modelled_s`: the GPU's part by a roofline, at its shortest and its longest. `decoded`: on the host's cores.
        """
        host = self._host(host)
        times_s = [self._time_s(images, host.stretched(sign), fixed_s) for sign in (-1, 0, 1)]
        time_s, error = self._time_s(images, host, fixed_s), self._shape_error(images, decoded, host.waits)
        by_fixed_s = [time_s]
        if self._is_between(images):  # of which the host's step says nothing, and that of the GPU not how much is fixed
            times_s.append(self._time_s(images, host, 0.0))
            host = host.within(time_s)
            device_s = host.device_s(time_s)
            fixed_s = min(fixed_s, MOST_FIXED * device_s)
            image_s = (device_s - fixed_s) / images
        else:
            by_fixed_s += [self._time_s(images, host, times * fixed_s) for times in FIXED]
            fixed_s, image_s, host = self._parts(images, host, fixed_s)
            device_s = fixed_s + image_s * images
        line_s = self._line_s(images)
        ends_s = (min(times_s), max([*times_s, *([line_s] if line_s is not None else [])]))
        by_host = (1 - ends_s[0] / time_s, ends_s[1] / time_s - 1)
        faster = math.hypot(log(max(LEAST_STEP, 1 - error)), log(time_s / min(by_fixed_s)))
        slower = math.hypot(log1p(error), log(max(by_fixed_s) / time_s))
        by_device = (-math.expm1(-faster), math.expm1(slower))
        step = LaunchedStep(device_s, host, time_s, by_device, by_host, (host.time_s - fixed_s) / image_s)
        (smallest, its_rate), (largest, rate) = self.by_batch[0], self.by_batch[-1]
        if not smallest <= images <= largest:
            shortest_s = images / its_rate / DEARER if images < smallest else LEAST_STEP * time_s
            step = step.ending(shortest_s, images / rate * DEARER if images > largest else inf)
        return self._bounded(step, images, *modelled_s)

    def times_modelled(self, images: int, host: HostStep, modelled_s: Callable[[int], float]) -> float:
        """How many times as long as `modelled_s` says of its batch the GPU takes of a known step.

        Of the next larger one, so that no larger batch between two takes less; else of the largest.
        """
        batch, rate = next((known for known in self.by_batch if known[0] >= images), self.by_batch[-1])
        return self._host(host).within(batch / rate).device_s(batch / rate) / modelled_s(batch)

    def _is_between(self, images: int) -> bool:
        return self.by_batch[0][0] < images < self.by_batch[-1][0]

    def _bounded(self, step: LaunchedStep, images: int, shortest_s: float, longest_s: float) -> LaunchedStep:
        """Of more images than a step that may be its host's: the rate hardly says what the GPU takes of it.

        The host has what the GPU's part by the roofline leaves of the known step, so that no larger one is shorter.
        At best it has all that the roofline at its shortest leaves.
        """
        batch, rate = self.by_batch[-1]
        if images <= batch or step.host.stretched(1).time_s < MOST_OF_STEP * batch / rate:
            return step

        def host(device_s: float) -> HostStep:
            of_known_s = min(device_s * batch / images, batch / rate)
            left_s = replace(step.host, time_s=of_known_s).device_s(batch / rate)  # the two parts are alike in it
            return replace(step.host, time_s=max(step.host.time_s, left_s))

        least_s = host(shortest_s).step_s(shortest_s)
        if step.device_s <= longest_s:
            if least_s >= step.time_s * (1 - step.faster):
                return step
            by_device, by_host = (1 - least_s / step.time_s, step.by_device[1]), (0.0, step.by_host[1])
            return replace(step, by_device=by_device, by_host=by_host)
        by_roofline = host(longest_s)
        time_s = by_roofline.step_s(longest_s)
        by_device = (1 - least_s / time_s, max(step.time_s * (1 + step.slower) / time_s, 1.0) - 1)
        level = by_roofline.time_s * images / longest_s
        return LaunchedStep(longest_s, by_roofline, time_s, by_device, (0.0, 0.0), level)

    def _host(self, assumed: HostStep) -> HostStep:
        """The host's part: no longer than any known step, and as long as two that differ little."""
        steps = [(batch, batch / rate) for batch, rate in self.by_batch]
        for (low, low_s), (high, high_s) in pairwise(steps):
            if not assumed.waits and high >= LEVEL_BATCHES * low and high_s <= LEVEL * low_s:
                return HostStep(low_s, spread=(1.0, 1.0))
        return assumed.within(self.shortest_s)

    def _time_s(self, images: int, host: HostStep, fixed_s: float) -> float:
        """Seconds of a step."""
        known = {batch: batch / rate for batch, rate in self.by_batch}
        if images in known:
            return known[images]
        for (low, low_s), (high, high_s) in pairwise(known.items()):
            if low < images < high:
                curve, line_s = self._curve(low, high, host, fixed_s), _on_line(low, low_s, high, high_s, images)
                if curve is None:
                    return line_s
                curve_s, octaves = curve(images), math.log2(high / low)
                return curve_s * math.pow(line_s / curve_s, 1 / octaves)
        fixed_s, image_s, host = self._parts(images, host, fixed_s)
        return host.step_s(fixed_s + image_s * images)

    def _line_s(self, images: int) -> float | None:
        """On the line between two known steps; None: it is not between two."""
        for (low, low_rate), (high, high_rate) in pairwise(self.by_batch):
            if low < images < high:
                return _on_line(low, low / low_rate, high, high / high_rate, images)
        return None

    def _curve(self, low: int, high: int, host: HostStep, fixed_s: float) -> Callable[[int], float] | None:
        """The step by batch with a host's and a GPU's part through two known ones; None: the line fits as well."""
        from scipy.optimize import brentq  # type: ignore[import-untyped]

        known = dict(self.by_batch)
        low_s, high_s = low / known[low], high / known[high]
        if host.waits or not host.time_s or low_s > HOSTS * host.time_s or high < FAR * low:
            return None
        fixed_s = min(fixed_s, MOST_FIXED * low_s)

        def image_s(host_s: float) -> float:
            return (float((high_s**NORM - host_s**NORM) ** (1 / NORM)) - fixed_s) / high

        def excess_s(host_s: float) -> float:
            return float((low_s**NORM - host_s**NORM) ** (1 / NORM)) - fixed_s - low * image_s(host_s)

        if high_s <= low_s or not excess_s(low_s) < 0 < excess_s(0.0):
            return None
        found_s = float(brentq(excess_s, 0.0, low_s))
        step = replace(host, time_s=found_s)
        return lambda images: step.step_s(fixed_s + image_s(found_s) * images)

    def _parts(self, images: int, host: HostStep, fixed_s: float) -> tuple[float, float, HostStep]:
        """(of the GPU, whatever the batch; of the GPU, for each image; the host's), by the nearest known batch."""
        batch, rate = min(self.by_batch, key=lambda known: abs(math.log(known[0] / images)))
        host = host.within(batch / rate)
        device_s = host.device_s(batch / rate)
        fixed_s = min(fixed_s, MOST_FIXED * device_s)
        return fixed_s, (device_s - fixed_s) / batch, host

    def _shape_error(self, images: int, decoded: bool, waits: bool) -> float:
        """How far off the GPU's part may be, relative: as the rates, and by its shape at a batch that has none."""
        batches = [batch for batch, _ in self.by_batch]
        if images in batches:
            return self.error
        octaves = min(abs(math.log2(images / batch)) for batch in batches)
        between = DECODED if decoded else WAITED if waits else BETWEEN
        shape = between if self._is_between(images) else OUTSIDE
        return math.hypot(self.error, shape * math.sqrt(octaves))

    def in_short(self, images: int) -> str:
        """Whether the rate of a batch is known, in a few words."""
        if self.other is not None:
            return f"batch {images} from the rate of {self.other.name}"
        known = images in dict(self.by_batch)
        return f"batch {images} as {self.source}" if known else f"batch {images} by the rates of others"

    def note(self, images: int, unit: Unit) -> str:
        """What was known of one `unit` and what was not, in a sentence's end."""
        stated = ", ".join(f"{as_given(rate)} images/s at batch {batch}" for batch, rate in self.by_batch)
        if (own := dict(self.by_batch).get(images)) is not None:
            return f"one {unit} does {as_given(own)} images/s at batch {images}, as {self.source}"
        how = "is between these" if self._is_between(images) else "follows from the nearest of these"
        return f"{self.source}: one {unit} does {stated}; batch {images} {how}"


def _on_line(low: int, low_s: float, high: int, high_s: float, images: int) -> float:
    return low_s + (high_s - low_s) * (images - low) / (high - low)


# The rate of another GPU than the one that is predicted.


@dataclass(frozen=True)
class RatedSide:
    """One of the two GPUs: by the roofline alone, what its part of a step takes, and how far off that may be."""

    part: GpuSpec
    precision: str  # that it computes in
    alone_s: float
    alone_error: float  # a logarithm
    fixed_s: float  # of it, at any batch
    host: HostStep
    stated: bool = False  # whether the user says what the host's part is


def rescaled_step(
    rates: StatedRates,
    table: tuple[Sequence[Layer], int, int],
    known: RatedSide,
    wanted: RatedSide,
    decoded: bool = False,
    publisher: str = "",
    error: float | None = None,
    channels_last: bool = True,
    framework: str | None = None,
) -> LaunchedStep:
    """The step on the `wanted` GPU by rates of the `known` one. `table`: the layers, image size and images of a step.

    What the host takes less than assumed there, it takes less here, too. `publisher`: whose rates the roofline has not
    seen; `error`: of the GPU's part, a logarithm; None: as counted for such pairs.
    """
    images, bounds_s = table[2], (known.alone_s * exp(-known.alone_error), known.alone_s * exp(known.alone_error))
    step, *ends = (
        rates.step(images, known.host.stretched(sign), known.fixed_s, bounds_s, decoded) for sign in (0, -1, 1)
    )
    on = ((known.part, known.precision), (wanted.part, wanted.precision))
    device_s, *ends_s = (
        roofline.rescaled_s(each.device_s, wanted.alone_s, *table, *on, publisher, channels_last, framework)
        for each in (step, *ends)
    )
    if error is None:
        kind = roofline.rescaling_kind(known.part, wanted.part, wanted.precision)
        error = roofline.rescalings()[kind].error_90
    by_rate = log1p(max(step.by_device))
    shorter, longer = (max(sign * log(end_s / device_s) for end_s in (device_s, *ends_s)) for sign in (-1, 1))
    host, less = wanted.host, step.host.time_s / known.host.time_s if known.host.time_s else 1.0
    if not wanted.stated:
        host = replace(host, time_s=less * host.time_s, loop_s=less * host.loop_s)
    errors = (math.hypot(error, by_rate, shorter), math.hypot(error, by_rate, longer))
    return launched(images, device_s, wanted.fixed_s, host, errors)


# Rates of several GPUs as somebody knows them, and what steps take there beyond what is modelled.
#
#     rates = ScaledRates(((2, 512, 2570.0), (4, 1024, 4710.0)), source="measured", where="results/node1/mystudy")
#     rates.residual(step_s).at(gpus=8)
#
# At a count whose rate is known, the modelled step takes what it must for that rate. A step that is clearly longer than
# modelled has messages that take longer: one more behind the others. Its time grows as the bytes of a ring that each
# GPU sends, with 2(n-1)/n. Where two counts of one node have such a message, and each byte of the second costs more
# than of the first, this goes on as a power of the number of GPUs up to those of the node: so grows what shares one
# path in the host. Any other difference is a factor on every rank's step, which stays beyond the largest known count.
# Below the smallest one both are interpolated from none on one GPU. Where runs without exchange tell what messages
# cost, the factor is that with which a step without them takes the rest, and messages get what they cost.
#
# A rate says nothing of other
# batches per GPU, precisions or models: it would make them worse.

LARGEST = 10.0  # times as long or as short as modelled: beyond it, the rate is of something else
EXACT = 1e-11  # of the factor and of the message, relative
AS_GIVEN = 1e-6  # of a step, relative: so near it is the one that a rate is of
CLEAR = 0.06  # of a step, from which messages take what is not modelled: three times the error of a rate
MOST_GROWTH = 1.0  # power of the number of GPUs: all of them share one path


# What a step on several GPUs takes beyond what is modelled: (seconds of one more message, how many times as long each
# rank's step takes).
Beyond = tuple[float, float]
AS_MODELLED: Beyond = (0.0, 1.0)


class ModelledStep(NamedTuple):
    """A step on several GPUs, with what it takes beyond what is modelled."""

    step_s: Callable[[Beyond], float]
    silent_s: Callable[[float], float]  # by the factor: of the same without messages


@dataclass(frozen=True)
class ScaledRates:
    """Images/s of several GPUs, of points on one scaling curve."""

    by_gpus: tuple[tuple[int, int, float], ...]  # (GPUs, images of a step on all of them, images/s), by ascending GPUs
    source: Literal["stated", "measured"]
    where: str
    nodes: frozenset[str] = frozenset()  # that they were measured on
    synthetic: bool = False  # of the same with synthetic input, which is not the one that is predicted
    exchange_s: tuple[tuple[int, float], ...] = ()  # GPUs, and what messages cost of a step, by runs without exchange
    error: float = RATE_ERROR  # relative; a rate is this close in nine cases of ten

    def have(self, gpus: int, images: int, step_s: float) -> bool:
        """Whether a step is one that a rate is of: as many GPUs and images, and as long."""
        own = (count_rate for *count, count_rate in self.by_gpus if count == [gpus, images])
        return any(abs(step_s * rate - images) <= AS_GIVEN * images for rate in own)

    def residual(
        self, modelled: Callable[[int, int], ModelledStep], node_gpus: int, clear: float = CLEAR
    ) -> "Residual":
        """`modelled`: by GPUs and images, the step with something beyond. `node_gpus`: GPUs of a node.

        `clear`: the share of a step from which messages take what is not modelled.
        """
        found, exchange_s = [], dict(self.exchange_s)
        for gpus, images, rate in self.by_gpus:
            step = modelled(gpus, images)
            beyond = _beyond(step, images / rate, exchange_s.get(gpus), clear)
            if beyond is None:
                least_s = step.step_s((0.0, 1 / LARGEST))
                why = (
                    f"more than {LARGEST:g} times off what is predicted; give a rate of this workload on this system"
                    if images / rate > least_s
                    else f"more than its images and messages let through, {images / least_s:,.0f} if GPUs computed "
                    f"{LARGEST:g} times as fast; describe its CPUs, storage and links, or give another input="
                )
                raise ConfigError(f"calibration={self.where}: {as_given(rate)} images/s on {gpus} GPUs is {why}")
            found.append(beyond)
        counts = (1.0, *(float(gpus) for gpus, _, _ in self.by_gpus))
        messages_s, ranks = zip(*found, strict=True)
        each_s = (0.0, *(time_s / _ring(gpus) for time_s, (gpus, _, _) in zip(messages_s, self.by_gpus, strict=True)))
        factors = (0.0, *map(log, ranks))
        growth = _growth(counts, each_s) if counts[-1] <= node_gpus else 0.0
        return Residual(SizeCurve(counts, each_s), SizeCurve(counts, factors), growth, node_gpus, self)


@dataclass(frozen=True)
class Residual:
    """What steps take beyond what is modelled, by the number of GPUs."""

    each_s: SizeCurve  # seconds of a message, over the bytes of a ring that each GPU sends: over 2(n-1)/n
    factor: SizeCurve  # logarithm of a factor on each rank's step
    growth: float  # power of the number of GPUs with which `each_s` grows beyond the largest known count, within a node
    node_gpus: int
    rates: ScaledRates
    as_if: str = ""  # the settings that explain the rate of most GPUs of a node, which as described is out of reach

    def at(self, gpus: int) -> Beyond:
        further = max(1.0, min(gpus, self.node_gpus) / self.each_s.places[-1]) ** self.growth
        return _ring(gpus) * self.each_s.at(gpus) * further, exp(self.factor.at(gpus))

    @property
    def as_modelled(self) -> bool:
        """Whether no known rate is clearly longer than modelled, or clearly shorter."""
        factors = (abs(self.factor.at(gpus)) for gpus, _, _ in self.rates.by_gpus)
        return max(self.each_s.values) == 0 and max(factors, default=0.0) <= CLEAR

    def octaves(self, gpus: int) -> float:
        """How far away the nearest count is whose rate is known; at least one, which is what errors are counted at."""
        return min((max(1.0, abs(log2(gpus / known))) for known, _, _ in self.rates.by_gpus), default=inf)

    def text(self, gpus: int, unit: Unit) -> str:
        """What it is of so many GPUs, or ranks on CPU cores, and by which rates."""
        (message_s, factor), parts = self.at(gpus), []
        if message_s:
            grows = "2(n-1)/n" + (f" x n^{self.growth:.2f}" if self.growth else "")
            parts.append(f"messages take {message_s * 1e3:.3g} ms more than modelled, growing with {grows}")
        if factor != 1:
            parts.append(f"steps take {factor:.3f} times as long as modelled")
        if self.as_if:
            parts.append(f"{AS_IF}{self.as_if}")
        known = " and ".join(f"{as_given(rate)} images/s on {count}" for count, _, rate in self.rates.by_gpus)
        source = f"as {self.rates.source}{' with synthetic input' * self.rates.synthetic}"
        if exchange_s := [f"{max(cost_s, 0.0) * 1e3:.2g} ms on {count}" for count, cost_s in self.rates.exchange_s]:
            source += f"; messages cost {' and '.join(exchange_s)} by runs without exchange"
        return f"{', '.join(parts) or 'steps take as long as modelled'}, by {known} {unit}s, {source}"


def _ring(gpus: int) -> float:
    """How many times the gradients each GPU of a ring sends."""
    return 2 * (gpus - 1) / gpus


def _growth(counts: tuple[float, ...], each_s: tuple[float, ...]) -> float:
    """The power of the number of GPUs with which the two largest known counts differ; 0 where not both have a time."""
    if min(each_s[-2:]) == 0:
        return 0.0
    power = log(each_s[-1] / each_s[-2]) / log(counts[-1] / counts[-2])
    return min(MOST_GROWTH, max(0.0, power))


def _beyond(modelled: ModelledStep, measured_s: float, exchange_s: float | None, clear: float) -> Beyond | None:
    """With what a step takes what was measured; None: with nothing. `exchange_s`: of which messages are known to."""
    step_s = modelled.step_s
    modelled_s = step_s(AS_MODELLED)
    if abs(modelled_s - measured_s) <= EXACT * measured_s:
        return AS_MODELLED
    if measured_s > LARGEST * modelled_s:
        return None
    if exchange_s is not None:
        silent = _factor(modelled.silent_s, measured_s - max(exchange_s, 0.0))
        if silent is not None and step_s((0.0, silent)) <= measured_s:
            return _message_s(lambda message_s: step_s((message_s, silent)), measured_s), silent
    elif measured_s - modelled_s > clear * measured_s:
        return _message_s(lambda message_s: step_s((message_s, 1.0)), measured_s), 1.0
    factor = _factor(lambda factor: step_s((0.0, factor)), measured_s)
    return None if factor is None else (0.0, factor)


def _message_s(step_s: Callable[[float], float], measured_s: float) -> float:
    """The message with which a step takes what was measured."""
    from scipy.optimize import brentq

    if step_s(0.0) >= measured_s * (1 - EXACT):
        return 0.0
    return float(brentq(lambda message_s: step_s(message_s) - measured_s, 0.0, measured_s, rtol=EXACT))


def _factor(step_s: Callable[[float], float], measured_s: float) -> float | None:
    """The factor with which a step takes what was measured; None: with none."""
    from scipy.optimize import brentq

    if not step_s(1 / LARGEST) < measured_s < step_s(LARGEST):
        return None
    most = log(LARGEST)
    return exp(brentq(lambda power: step_s(exp(power)) - measured_s, -most, most, xtol=EXACT))
