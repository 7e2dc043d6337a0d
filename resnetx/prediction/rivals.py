"""The simplest predictions of rates of several GPUs, beside which the model is judged, and how intervals score.

- linear: GPUs times the rate of one.
- five constants: that, times the median efficiency of all other published rates on as many GPUs.

Neither knows a link. As of the model, the system of a rate is left out (of several nodes the program); each rival's
interval is what nine of ten of its own errors of the others were within.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from statistics import median

import numpy as np

from resnetx.prediction.scaling_check import ScalingCase
from resnetx.prediction.scaling_errors import FEWEST_POINTS, LEVEL, Kind


@dataclass(frozen=True)
class Rival:
    """What a simple rule predicts, and its interval, in images/s."""

    predicted: float
    low: float
    high: float


def interval_score(low: float, high: float, measured: float) -> float:
    """The width of an interval, and 20 times what it misses the measured figure by; logarithms, less is better.

    Winkler's score of an interval of 90 %: a wide interval that always holds scores no better than it is wide.
    """
    missed = max(0.0, log(low / measured), log(measured / high))
    return log(high / low) + 2 / (1 - LEVEL) * missed


@dataclass(frozen=True)
class Rivals:
    """Both rivals, by all published rates."""

    cases: tuple[ScalingCase, ...]

    @cached_property
    def _kinds(self) -> dict[int, Kind]:
        return {id(case): case.kind for case in self.cases}

    def linear(self, case: ScalingCase) -> Rival:
        return self._rival(case, {})

    def five_constants(self, case: ScalingCase) -> Rival:
        """By the median efficiency of the others on as many GPUs, or on the nearest number that they have."""
        return self._rival(case, median_efficiencies(self._others(case)))

    def _others(self, case: ScalingCase) -> list[ScalingCase]:
        return [other for other in self.cases if not case.leaves_out(other)]

    def _rival(self, case: ScalingCase, constants: dict[int, float]) -> Rival:
        """`constants`: the efficiency by the number of GPUs; none: it is 1."""
        others = self._others(case)
        alike = [other for other in others if self._kinds[id(other)] == case.kind]
        judged = alike if len(alike) >= FEWEST_POINTS else others
        low, high = _quantiles(log(other.measured / _scaled(other, constants)) for other in judged)
        predicted = _scaled(case, constants)
        return Rival(predicted, predicted * exp(low), predicted * exp(high))


def median_efficiencies(cases: Iterable[ScalingCase]) -> dict[int, float]:
    """By the number of GPUs."""
    efficiencies: dict[int, list[float]] = {}
    for case in cases:
        efficiencies.setdefault(case.gpus, []).append(case.measured / case.linear)
    return {gpus: median(each) for gpus, each in sorted(efficiencies.items())}


def _scaled(case: ScalingCase, constants: dict[int, float]) -> float:
    """From one GPU, or from the largest other number whose rate is known."""
    known = max((gpus for gpus in case.known if gpus < case.gpus), default=1)
    rate = case.series.images_per_s[known] / known * case.gpus
    return rate * _efficiency(case.gpus, constants) / _efficiency(known, constants)


def _efficiency(gpus: int, constants: dict[int, float]) -> float:
    if gpus == 1 or not constants:
        return 1.0
    return constants[min(constants, key=lambda known: abs(log(known / gpus)))]


def _quantiles(errors: Iterable[float]) -> tuple[float, float]:
    outside = (1 - LEVEL) / 2
    values: Sequence[float] = list(errors)
    return float(np.quantile(values, outside)), float(np.quantile(values, 1 - outside))
