"""Rates of several GPUs as somebody knows them, and what steps take there beyond what is modelled.

    rates = ScaledRates(((2, 512, 2570.0), (4, 1024, 4710.0)), source="measured", where="results/node1/mystudy")
    rates.residual(step_s).at(gpus=8)

At a count whose rate is known, the modelled step takes what it must for that rate. A step that is clearly longer than
modelled has messages that take longer: one more behind the others. Its time grows as the bytes of a ring that each GPU
sends, with 2(n-1)/n. Where two counts of one node have such a message, and each byte of the second costs more than of
the first, this goes on as a power of the number of GPUs up to those of the node: so grows what shares one path in the
host. Any other difference is a factor on every rank's step, which stays beyond the largest known count. Below the
smallest one both are interpolated from none on one GPU.

A rate says nothing of other
batches per GPU, precisions or models: it would make them worse.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log, log2
from typing import Literal

from resnetx.errors import ConfigError
from resnetx.interconnect.calibration import Curve

LARGEST = 10.0  # times as long or as short as modelled: beyond it, the rate is of something else
EXACT = 1e-11  # of the factor and of the message, relative
CLEAR = 0.06  # of a step, from which messages take what is not modelled: three times the error of a rate
MOST_GROWTH = 1.0  # power of the number of GPUs: all of them share one path


@dataclass(frozen=True)
class Beyond:
    """What a step on several GPUs takes beyond what is modelled."""

    message_s: float = 0.0  # of one more message
    factor: float = 1.0  # times as long as each rank's step is modelled


@dataclass(frozen=True)
class ScaledRates:
    """Images/s of several GPUs, of points on one scaling curve."""

    by_gpus: tuple[tuple[int, int, float], ...]  # (GPUs, images of a step on all of them, images/s), by ascending GPUs
    source: Literal["stated", "measured"]
    where: str
    nodes: frozenset[str] = frozenset()  # that they were measured on

    def residual(self, step_s: Callable[[int, int], Callable[[Beyond], float]], node_gpus: int) -> "Residual":
        """`step_s`: by GPUs and images, the modelled step with something beyond. `node_gpus`: GPUs of a node."""
        found = []
        for gpus, images, rate in self.by_gpus:
            beyond = _beyond(step_s(gpus, images), images / rate)
            if beyond is None:
                raise ConfigError(
                    f"calibration={self.where}: {rate:,.5g} images/s on {gpus} GPUs is more than {LARGEST:g} times off "
                    "what is predicted, or no step of the GPUs explains it; give a rate of this workload on this system"
                )
            found.append(beyond)
        counts = (1.0, *(float(gpus) for gpus, _, _ in self.by_gpus))
        each_s = (0.0, *(one.message_s / _ring(gpus) for one, (gpus, _, _) in zip(found, self.by_gpus, strict=True)))
        factors = (0.0, *(log(one.factor) for one in found))
        growth = _growth(counts, each_s) if counts[-1] <= node_gpus else 0.0
        return Residual(Curve(counts, each_s), Curve(counts, factors), growth, node_gpus, self)


@dataclass(frozen=True)
class Residual:
    """What steps take beyond what is modelled, by the number of GPUs."""

    each_s: Curve  # seconds of a message, over the bytes of a ring that each GPU sends: over 2(n-1)/n
    factor: Curve  # logarithm of a factor on each rank's step
    growth: float  # power of the number of GPUs with which `each_s` grows beyond the largest known count, within a node
    node_gpus: int
    rates: ScaledRates

    def at(self, gpus: int) -> Beyond:
        further = max(1.0, min(gpus, self.node_gpus) / self.each_s.places[-1]) ** self.growth
        return Beyond(_ring(gpus) * self.each_s.at(gpus) * further, exp(self.factor.at(gpus)))

    def octaves(self, gpus: int) -> float:
        """How far away the nearest count is whose rate is known; at least one, which is what errors are counted at."""
        return min((max(1.0, abs(log2(gpus / known))) for known, _, _ in self.rates.by_gpus), default=inf)

    def text(self, gpus: int) -> str:
        """What it is of so many GPUs, and by which rates."""
        beyond, parts = self.at(gpus), []
        if beyond.message_s:
            grows = "2(n-1)/n" + (f" x n^{self.growth:.2f}" if self.growth else "")
            parts.append(f"messages take {beyond.message_s * 1e3:.3g} ms more than modelled, growing with {grows}")
        if beyond.factor != 1:
            parts.append(f"steps take {beyond.factor:.3f} times as long as modelled")
        known = " and ".join(f"{rate:,.5g} images/s on {count}" for count, _, rate in self.rates.by_gpus)
        return f"{', '.join(parts) or 'steps take as long as modelled'}, by {known} GPUs, as {self.rates.source}"


def _ring(gpus: int) -> float:
    """How many times the gradients each GPU of a ring sends."""
    return 2 * (gpus - 1) / gpus


def _growth(counts: tuple[float, ...], each_s: tuple[float, ...]) -> float:
    """The power of the number of GPUs with which the two largest known counts differ; 0 where not both have a time."""
    if min(each_s[-2:]) == 0:
        return 0.0
    power = log(each_s[-1] / each_s[-2]) / log(counts[-1] / counts[-2])
    return min(MOST_GROWTH, max(0.0, power))


def _beyond(step_s: Callable[[Beyond], float], measured_s: float) -> Beyond | None:
    """With what a step takes what was measured; None: with nothing."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    modelled_s, most = step_s(Beyond()), log(LARGEST)
    if abs(modelled_s - measured_s) <= EXACT * measured_s:
        return Beyond()
    if measured_s - modelled_s > CLEAR * measured_s:
        if measured_s > LARGEST * modelled_s:
            return None
        return Beyond(brentq(lambda s: step_s(Beyond(message_s=s)) - measured_s, 0.0, measured_s, rtol=EXACT))
    if not step_s(Beyond(factor=1 / LARGEST)) < measured_s < step_s(Beyond(factor=LARGEST)):
        return None
    found = brentq(lambda power: step_s(Beyond(factor=exp(power))) - measured_s, -most, most, xtol=EXACT)
    return Beyond(factor=exp(found))
