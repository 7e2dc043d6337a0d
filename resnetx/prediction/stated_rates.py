"""One GPU's rate as somebody knows it: stated by the user, or read from a record; and what follows at other batches.

    rates = StatedRates(((32, 195.0), (64, 219.0)), source="stated", where="rate=")
    rates.step(images=48, host=host, fixed_s=0.008)

A known step has a host's part (`host_step`) and a GPU's part. At another batch the GPU's part is a fixed time, and the
rest in proportion to the batch; the host's stays. Several known steps say what of them is the host's: what fits best
with what it is assumed to be, and with GPU's parts of which each follows from the next larger one. Between two known
batches the GPU's part is on the line between theirs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import exp, inf, log, log1p, log2
from typing import Literal, NamedTuple

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.measured import SizeCurve
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.prediction import roofline
from resnetx.prediction.host_step import LEAST_STEP, MOST_FIXED, NORM, HostStep, LaunchedStep, launched
from resnetx.record.prediction import AS_IF
from resnetx.units import Unit, as_given
from resnetx.workloads.counts import Layer

# Relative errors of rates: nine rates of ten are within them.
RATE_ERROR = 0.02  # unless the user states another: assumed
# Of a batch whose rate is not known, for each root of an octave to the nearest that is, beside what the host's part may
# be: between others; between others where the loop waits, or where images are decoded on the host, whose loader may be
# the limit of some batches and not of others; outside of them. Chosen by the score of intervals (`scaling_check`):
# OUTSIDE of 248 steps at an eighth of a batch and 262 at eight times one (0.11 to 0.13 without any one publisher; 94
# and 91 % inside), BETWEEN nearly that of 602 between two (0.05 to 0.065; 89 % inside), both others of 397 of these.
BETWEEN, WAITED, DECODED, OUTSIDE = 0.05, 0.08, 0.13, 0.12
# Outside of them, of the GPU's part that is there at any batch: an RTX PRO 6000 has none, a B200 1.5 times what is
# assumed of any GPU.
FIXED = (0.0, 1.5)
# Outside of them, images may take that many times as short in a smaller batch, and as long in a larger one. Of 1.02 to
# 1.3 the one with which intervals of 220 steps at an eighth of a batch have the best score, whichever machine is left
# out: half-width 35.4 -> 34.4 %, as many inside.
DEARER = 1.15
# Of several known steps the host's part is the mean over TRIED parts of the shortest one, up to MOST_HOST of it, each
# as likely as normal errors say of which nine of ten are within 1. Between two batches that are STRAIGHT octaves apart
# a step is on the line between theirs; the further they are apart, the nearer it is to that of its parts. MOST_HOST and
# STRAIGHT were chosen with the published batches in sight: 579 between two are 3.7 % off (3.9 on the line), 632 larger
# than two 9.6 %, 632 smaller than two 10.7 % (10.9 and 10.7 with thresholds, at which predictions jumped).
TRIED, MOST_HOST, NORMAL = 60, 0.999, 0.5 * 1.645**2
STRAIGHT = 2.0
# Where the host may be all of the largest known step, that rate bounds the GPU's part, and a roofline at its longest is
# as far off: of 18 steps at eight times such a batch 34 and 35 %, what is halfway between as logarithms 21 % (all in
# sight, 14 of them on one T4; of all 254 such steps, with 0.3 to 0.6 of the way 26 %).
HALFWAY = 0.5


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

        `modelled_s`: that of the largest known batch by a roofline, at its shortest and its longest. `decoded`: on the
        host's cores.
        """
        shorter, fitted, longer = (self._host(host.stretched(sign), fixed_s) for sign in (-1, 0, 1))
        ends_s = [self._time_s(images, each, fixed_s) for each in (shorter, fitted)]
        (smallest, its_rate), (largest, rate) = self.by_batch[0], self.by_batch[-1]
        if images > largest:
            fitted, longer = self._beside_roofline(fitted, *modelled_s)
        time_s, error = self._time_s(images, fitted, fixed_s), self._shape_error(images, decoded, host.waits)
        ends_s += [time_s, self._time_s(images, longer, fixed_s)]
        by_fixed_s, device_s = [time_s], self._device_s(images, fitted, fixed_s)
        if self._is_between(images):
            ends_s.append(self._line_s(images))
            fitted = replace(fitted, time_s=min(fitted.time_s, MOST_HOST * time_s))
            device_s = fitted.device_s(time_s)
        else:
            by_fixed_s += [self._time_s(images, fitted, times * fixed_s) for times in FIXED]
        faster = math.hypot(log(max(LEAST_STEP, 1 - error)), log(time_s / min(by_fixed_s)))
        slower = math.hypot(log1p(error), log(max(by_fixed_s) / time_s))
        by_device = (-math.expm1(-faster), math.expm1(slower))
        by_host = (1 - min(ends_s) / time_s, max(ends_s) / time_s - 1)
        fixed_s = min(fixed_s, MOST_FIXED * device_s)
        level = images * (fitted.time_s - fixed_s) / (device_s - fixed_s)
        step = LaunchedStep(device_s, fitted, time_s, by_device, by_host, level)
        if images < smallest:
            return step.ending(images / its_rate / DEARER, inf)
        return step.ending(largest / rate, images / rate * DEARER) if images > largest else step

    def times_modelled(
        self, images: int, host: HostStep, modelled_s: Callable[[int], float], decoded: bool = False
    ) -> float:
        """How many times as long as `modelled_s` says of its batch a slow GPU takes of a known step.

        Of the next larger one, so that no larger batch between two takes less; else of the largest.
        """
        # A long step may be its loader's, or come of another framework's kernels, and says nothing of the GPU then.
        # Either is chosen without any one publisher: MXNet's steps at an eighth of a batch 11.5 -> 10.4 % off, 229
        # of all publishers but mrdbourke 12.2 -> 11.9 %. It loses on tlkh's (15.1 -> 16.4 %) and Gavel's (20 -> 21 %).
        if decoded or host.waits:
            return 1.0
        batch, rate = next((known for known in self.by_batch if known[0] >= images), self.by_batch[-1])
        return host.within(self.shortest_s).device_s(batch / rate) / modelled_s(batch)

    def _is_between(self, images: int) -> bool:
        return self.by_batch[0][0] < images < self.by_batch[-1][0]

    def _host(self, assumed: HostStep, fixed_s: float) -> HostStep:
        """The host's part by what it is assumed to be, and by the known steps."""
        if len(self.by_batch) == 1 or not assumed.time_s or 1.0 in assumed.spread:
            return assumed.within(self.shortest_s)
        return _host_of_several(self.by_batch, assumed, fixed_s)

    def _beside_roofline(self, host: HostStep, shortest_s: float, longest_s: float) -> tuple[HostStep, HostStep]:
        """The host's part of the largest known step as a roofline of its GPU's part leaves it, and at its longest.

        The more of that step the host may be, the less its rate says; at best the roofline's shortest is left.
        """
        batch, rate = self.by_batch[-1]
        known_s = batch / rate
        host = replace(host, time_s=min(host.time_s, (1 - RATE_ERROR) * known_s))  # beyond it, the rate's error decides
        device_s = host.device_s(known_s)
        longer = replace(host, time_s=min(host.stretched(1).time_s, self.shortest_s))
        share = HALFWAY * (longer.time_s / known_s) ** NORM
        device_s *= (min(longest_s, device_s) / device_s) ** share
        least_s = max(longer.device_s(known_s), min(shortest_s, device_s))
        left_s = (replace(host, time_s=each_s).device_s(known_s) for each_s in (device_s, least_s))  # parts are alike
        return replace(host, time_s=next(left_s)), replace(host, time_s=next(left_s))

    def _time_s(self, images: int, host: HostStep, fixed_s: float) -> float:
        """Seconds of a step."""
        known = dict(self.by_batch)
        if images in known:
            return images / known[images]
        time_s = host.step_s(self._device_s(images, host, fixed_s))
        if not self._is_between(images):
            return time_s
        (low, _), (high, _) = self._around(images)
        return time_s * math.pow(self._line_s(images) / time_s, min(1.0, (STRAIGHT / log2(high / low)) ** 2))

    def _device_s(self, images: int, host: HostStep, fixed_s: float) -> float:
        """The GPU's part of it."""
        (low, low_rate), (high, high_rate) = self._around(images)
        low_s, high_s = host.device_s(low / low_rate), host.device_s(high / high_rate)
        return _scaled_s(images, low, low_s, fixed_s) if low == high else _on_line(low, low_s, high, high_s, images)

    def _line_s(self, images: int) -> float:
        """On the line between the two known steps around it."""
        (low, low_rate), (high, high_rate) = self._around(images)
        return images / low_rate if low == high else _on_line(low, low / low_rate, high, high / high_rate, images)

    def _around(self, images: int) -> tuple[tuple[int, float], tuple[int, float]]:
        """The known batches on both sides, with their rates; outside the nearest one twice, as is one itself."""
        low = max((known for known in self.by_batch if known[0] <= images), default=self.by_batch[0])
        high = min((known for known in self.by_batch if known[0] >= images), default=self.by_batch[-1])
        return low, high

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


@lru_cache(maxsize=1024)
def _host_of_several(by_batch: tuple[tuple[int, float], ...], assumed: HostStep, fixed_s: float) -> HostStep:
    """The host's part by what it is assumed to be, and by several known steps."""
    norm, shortest_s = 1.0 if assumed.waits else NORM, min(batch / rate for batch, rate in by_batch)

    def unlikely(host: HostStep) -> float:
        """Minus the logarithm of its likelihood, by what a host is assumed to take, and a GPU of smaller batches."""
        beyond = log(host.time_s / assumed.time_s)
        found = NORMAL * (beyond / log(assumed.spread[beyond > 0])) ** 2
        for (low, low_rate), (high, high_rate) in pairwise(by_batch):
            low_s = host.device_s(low / low_rate)
            expected_s = _scaled_s(low, high, host.device_s(high / high_rate), fixed_s)
            by_rate = RATE_ERROR * (low / low_rate / low_s) ** norm
            error = math.hypot(by_rate, OUTSIDE * math.sqrt(log2(high / low)))
            found += NORMAL * (log(low_s / expected_s) / error) ** 2 + log(error)
        return found

    most = log(MOST_HOST) - log(1 - MOST_HOST**norm) / norm  # of the host's part over the GPU's, in the shortest step
    least = min(most, log(assumed.time_s / shortest_s)) - 2 * log(assumed.spread[0])
    tried = [exp(least + (most - least) * part / TRIED) for part in range(TRIED + 1)]
    hosts = [replace(assumed, time_s=shortest_s * (1 + each**-norm) ** (-1 / norm)) for each in tried]
    logs = [unlikely(host) for host in hosts]
    likely = [exp(min(logs) - each) for each in logs]
    mean = sum(weight * log(host.time_s) for weight, host in zip(likely, hosts, strict=True)) / sum(likely)
    return replace(assumed, time_s=exp(mean))


def _scaled_s(images: int, batch: int, device_s: float, fixed_s: float) -> float:
    """The GPU's part of a step by that of another batch, of which a fixed time is there at any."""
    fixed_s = min(fixed_s, MOST_FIXED * device_s)
    return fixed_s + (device_s - fixed_s) * images / batch


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
    images, of_known_s = table[2], known.alone_s * rates.by_batch[-1][0] / table[2]
    bounds_s = (of_known_s * exp(-known.alone_error), of_known_s * exp(known.alone_error))
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
# modelled (from `CLEAR` on in part) has messages that take longer: one more behind the others. Its time grows as the
# bytes of a ring that each GPU sends, with 2(n-1)/n. Where two counts of one node have such a message, and each byte of
# the second costs more than of the first, this goes on as a power of the number of GPUs up to those of the node: so
# grows what shares one path in the host. Any other difference is a factor on every rank's step, which stays beyond the
# largest known count.
# Below the smallest one both are interpolated from none on one GPU. Where runs without exchange tell what messages
# cost, the factor is that with which a step without them takes the rest, and messages get what they cost.
#
# A rate says nothing of other
# batches per GPU, precisions or models: it would make them worse.

LARGEST = 10.0  # times as long or as short as modelled: beyond it, the rate is of something else
EXACT = 1e-11  # of the factor and of the message, relative
AS_GIVEN = 1e-6  # of a step, relative: so near it is the one that a rate is of
CLEAR = 0.06  # of a step, from which messages take what is not modelled: three times the error of a rate
# Times that, from which they take all of it, and between it a share: so that no rate that changes a little jumps. Of
# seven pairs of ends it has the least error over 432 rates from those of other counts, whichever source is left out
# (1.93 %; with a jump 1.95).
ALL_CLEAR = 1.5
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
    more_s = measured_s - modelled_s
    share = _of_messages(more_s / measured_s, clear) if exchange_s is None else 0.0
    factor = 1.0 if share == 1 else _factor(lambda factor: step_s((0.0, factor)), measured_s - share * more_s)
    if factor is None or not share:
        return None if factor is None else (0.0, factor)
    return _message_s(lambda message_s: step_s((message_s, factor)), measured_s), factor


def _of_messages(more: float, clear: float) -> float:
    """The share of what a step takes longer that its messages do; `more`: that, over the step."""
    if more <= clear:
        return 0.0
    return 1.0 if more >= ALL_CLEAR * clear else (more / clear - 1) / (ALL_CLEAR - 1)


def _message_s(step_s: Callable[[float], float], measured_s: float) -> float:
    """The message with which a step takes what was measured."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

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
