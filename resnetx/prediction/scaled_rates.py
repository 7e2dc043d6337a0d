"""Rates of several GPUs as somebody knows them, and how many times as long steps take there as modelled.

    rates = ScaledRates(((16, 4096, 16219.0),), source="measured", where="results/node1/mystudy")
    rates.slowness(step_s).at(gpus=32)

At a count whose rate is known, every rank's step takes as many times as long as it must for that rate. Between two
counts this factor is interpolated, its logarithm over that of the count, from 1 on one GPU; beyond the largest it
stays. The factor is on the step, not on its messages: in the published rates of one cluster the same bytes over the
same cables would have to cost 16 times as much in half precision as modelled, and a third of it in single. What is lost
there belongs to the workload, so a rate says nothing of other batches per GPU, precisions or models: it would make them
worse (docs/predict.md has the count).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log, log2
from typing import Literal

from resnetx.errors import ConfigError
from resnetx.interconnect.calibration import Curve

LARGEST = 10.0  # factor on a step, either way: beyond it, the rate is of something else
EXACT = 1e-11  # of the factor, relative


@dataclass(frozen=True)
class ScaledRates:
    """Images/s of several GPUs, of points on one scaling curve."""

    by_gpus: tuple[tuple[int, int, float], ...]  # (GPUs, images of a step on all of them, images/s), by ascending GPUs
    source: Literal["stated", "measured"]
    where: str
    nodes: frozenset[str] = frozenset()  # that they were measured on

    def slowness(self, step_s: Callable[[int, int], Callable[[float], float]]) -> "Slowness":
        """`step_s`: by GPUs and images, the modelled step by how many times as long each rank takes."""
        values = [0.0]
        for gpus, images, rate in self.by_gpus:
            factor = _factor(step_s(gpus, images), images / rate)
            if factor is None:
                raise ConfigError(
                    f"calibration={self.where}: {rate:,.5g} images/s on {gpus} GPUs is more than {LARGEST:g} times off "
                    "what is predicted, or no step of the GPUs explains it; give a rate of this workload on this system"
                )
            values.append(log(factor))
        return Slowness(Curve((1.0, *(float(gpus) for gpus, _, _ in self.by_gpus)), tuple(values)), self)


@dataclass(frozen=True)
class Slowness:
    """How many times as long steps take as modelled, by the number of GPUs."""

    curve: Curve  # of its logarithm
    rates: ScaledRates

    def at(self, gpus: int) -> float:
        return exp(self.curve.at(gpus))

    def octaves(self, gpus: int) -> float:
        """How far away the nearest count is whose rate is known; at least one, which is what errors are counted at."""
        return min((max(1.0, abs(log2(gpus / known))) for known, _, _ in self.rates.by_gpus), default=inf)

    @property
    def text(self) -> str:
        known = " and ".join(f"{rate:,.5g} images/s on {gpus}" for gpus, _, rate in self.rates.by_gpus)
        return f"{known} GPUs, as {self.rates.source}"


def _factor(step_s: Callable[[float], float], measured_s: float) -> float | None:
    """The factor with which a step takes what was measured; None: there is none."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    def excess_s(logarithm: float) -> float:
        return step_s(exp(logarithm)) - measured_s

    most = log(LARGEST)
    if not excess_s(-most) < 0 < excess_s(most):
        return None
    return exp(brentq(excess_s, -most, most, xtol=EXACT))
