"""The simplest predictions of rates of several GPUs, beside which the model is judged, and how intervals score.

- linear: GPUs times the rate of one.
- five constants: that, times the median efficiency of all other published rates on as many GPUs (of one global batch
  those of one global batch by other publishers).

Neither knows a link. Where no rate is known, the one rival is FLOP over the peak, divided by the median share of it
that other publishers' rates of one GPU reach at that precision; images and language apart. As of the model, the system
of a rate is left out (of several nodes the cluster); each rival's interval is what nine of ten of its own errors of the
others were within.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import Literal, Protocol

import numpy as np

from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.sizes import Floats
from resnetx.interconnect.systems import paths
from resnetx.literature.scaling_check import ScalingCase, StrongCase
from resnetx.literature.training_rates import rates
from resnetx.literature.transformers import TransformerCase, one_gpu_rates
from resnetx.operations import OPERATIONS
from resnetx.prediction import roofline
from resnetx.prediction.roofline import Clocked
from resnetx.prediction.scaling import LEVEL, ScalingKind
from resnetx.workloads.counts import Layer

FEWEST_POINTS = 8  # of a kind whose errors count apart: fewer do not show what one in ten exceeds


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
    def _kinds(self) -> dict[int, ScalingKind]:
        return {id(case): case.kind for case in self.cases}

    def linear(self, case: ScalingCase) -> Rival:
        return self._rival(case, {})

    def five_constants(self, case: ScalingCase) -> Rival:
        """By the median efficiency of the others on as many GPUs, or on the nearest number that they have."""
        return self._rival(case, median_efficiencies(self._others(case)))

    def of_transformer(self, case: TransformerCase) -> float:
        """Five constants of images, its cluster left out, from the rate on its fewest GPUs; tokens/s."""
        constants = median_efficiencies(other for other in self.cases if other.machines != case.of.machines)
        return case.linear * _efficiency(case.gpus, constants) / _efficiency(case.of.fewest, constants)

    def _others(self, case: ScalingCase) -> list[ScalingCase]:
        return [other for other in self.cases if not case.leaves_out(other)]

    def _rival(self, case: ScalingCase, constants: dict[int, float]) -> Rival:
        """`constants`: the efficiency by the number of GPUs; none: it is 1."""
        cases, kind = self._others(case), case.kind
        alike = [other for other in cases if self._kinds[id(other)] == kind]
        judged = alike if len(alike) >= FEWEST_POINTS else cases
        low, high = quantiles(log(other.measured / _scaled(other, constants)) for other in judged)
        predicted = _scaled(case, constants)
        return Rival(predicted, predicted * exp(low), predicted * exp(high))


def of_one_batch(case: StrongCase, cases: Iterable[StrongCase]) -> float:
    """The same of one global batch on several GPUs, samples/s; `cases`: all that are published."""
    constants = median_efficiencies(other for other in cases if other.of.source != case.of.source)
    return case.linear * _efficiency(case.gpus, constants)


class Judged(Protocol):
    """A published rate, beside which a rival is judged (`training.TrainingRow`)."""

    @property
    def group(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def publisher(self) -> str: ...
    @property
    def system(self) -> str: ...
    @property
    def measured(self) -> float: ...


def rival_intervals(
    rows: Sequence[Judged], rival: Literal["linear", "five_constants"]
) -> Iterator[tuple[float, float] | None]:
    """A rival's interval of each row: what nine of ten of its errors elsewhere are within, where it has none.

    Those of the group, or, where fewer than eight are left, of the question; publisher and system are left out.
    """
    errors = defaultdict[str, list[tuple[Judged, float]]](list)
    for row in rows:
        if (predicted := getattr(row, rival)) is not None:
            errors[row.group].append((row, log(row.measured / predicted)))
            errors[row.question].append((row, log(row.measured / predicted)))

    @cache
    def elsewhere(pool: str, publisher: str, system: str) -> tuple[float, float] | None:
        left = [error for row, error in errors[pool] if row.publisher != publisher and row.system != system]
        return quantiles(left) if len(left) >= FEWEST_POINTS else None

    for row in rows:
        own, predicted = getattr(row, f"{rival}_interval"), getattr(row, rival)
        if own is None and predicted is not None:
            at = row.publisher, row.system
            bounds = elsewhere(row.group, *at) or elsewhere(row.question, *at)
            own = bounds and (predicted * exp(bounds[0]), predicted * exp(bounds[1]))
        yield own


def by_peak(
    publisher: str, on: Clocked, table: Sequence[Layer], image_size: int, flop_ratio: float = 1.0
) -> float | None:
    """Samples/s of one GPU where no rate is known; None: no other publisher has any at the precision."""
    language = any(layer.kind in roofline.OF_TRANSFORMERS for layer in table)
    alike = (each for each in _shares() if each[:2] == (on[1], language))
    shares = [share for _, _, whose, share in alike if whose != publisher]
    return median(shares) / _least_s(on, table, image_size, flop_ratio) if shares else None


@cache
def _shares() -> tuple[tuple[str, bool, str, float], ...]:
    """(Precision, whether of language, publisher, share of the peak) of all rates of one GPU."""
    found = []
    for rate in rates():
        of = rate.entry
        table = of.table(of.image_size)
        least_s = _least_s((of.part, of.precision, of.clock_Hz), table, of.image_size, of.flop_ratio)
        language = any(layer.kind in roofline.OF_TRANSFORMERS for layer in table)
        found.append((of.precision, language, of.publisher, least_s * rate.images_per_s))
    for each in one_gpu_rates():
        least_s = _least_s((each.entry.part, each.entry.precision, None), each.entry.table, 1)
        found.append((each.entry.precision, True, each.entry.publisher, least_s * each.samples_per_s))
    return tuple(found)


def _least_s(on: Clocked, table: Sequence[Layer], image_size: int, flop_ratio: float = 1.0) -> float:
    """What a sample takes at the peak, forward and backward."""
    return float(roofline.work(table, image_size).flop.sum()) * flop_ratio / roofline.peak_FLOPps(*on)


def median_efficiencies(cases: Iterable[ScalingCase | StrongCase]) -> dict[int, float]:
    """By the number of GPUs, of programs with a process for each."""
    efficiencies: dict[int, list[float]] = {}
    for case in (case for case in cases if not case.one_process):
        efficiencies.setdefault(case.gpus, []).append(case.measured / case.linear)
    return {gpus: median(shares) for gpus, shares in sorted(efficiencies.items())}


def _scaled(case: ScalingCase, constants: dict[int, float]) -> float:
    """From one GPU, or from the largest other number whose rate is known."""
    known = max((gpus for gpus in case.known if gpus < case.gpus), default=1)
    rate = case.series.images_per_s[known] / known * case.gpus
    return rate * _efficiency(case.gpus, constants) / _efficiency(known, constants)


def _efficiency(gpus: int, constants: dict[int, float]) -> float:
    if gpus == 1 or not constants:
        return 1.0
    return constants[min(constants, key=lambda known: abs(log(known / gpus)))]


def quantiles(errors: Iterable[float]) -> tuple[float, float]:
    outside = (1 - LEVEL) / 2
    values: Sequence[float] = list(errors)
    return float(np.quantile(values, outside)), float(np.quantile(values, 1 - outside))


# What any model of collectives has to beat: two textbook forms, fitted to the same figures as it.
#
#     alpha-beta   base + steps x alpha + bytes / (share x beta): Hockney 1994; beta is what the rings' links carry
#     power law    c x (bytes / beta) ** a x steps ** b, a fit for each band of sizes
#
# Both know the described links, and how many steps the operation has; neither knows of protocols, trees, switches that
# reduce, or who starts the GPUs.

_GUESS = np.array([1e-5, 3e-6, 1.0])  # base s, alpha s, 1 / share
_ROBUST = 0.1  # as of the model's own fit


def fitted_alpha_beta(known: Floats, times_s: Floats, asked: Floats) -> Floats:
    """Times of `asked` by a fit to `known`: rows of (steps, seconds that bytes take at the described rate, band)."""
    from scipy.optimize import least_squares  # type: ignore[import-untyped]

    def predicted(logs: Floats, rows: Floats) -> Floats:
        base, alpha, slowness = np.exp(logs) * _GUESS
        times: Floats = base + alpha * rows[:, 0] + slowness * rows[:, 1]
        return times

    def misses(logs: Floats) -> Floats:
        return np.log(predicted(logs, known) / times_s)

    return predicted(least_squares(misses, np.zeros(3), loss="soft_l1", f_scale=_ROBUST).x, asked)


def power_law(known: Floats, times_s: Floats, asked: Floats) -> Floats:
    """The same by a power law of each band; of a band without figures by that of all."""
    found = np.empty(len(asked))
    for band in set(asked[:, 2]):
        own = known[:, 2] == band
        own = own if own.any() else np.ones(len(known), dtype=bool)
        solved, *_ = np.linalg.lstsq(_terms(known[own]), np.log(times_s[own]), rcond=None)
        of_band = asked[:, 2] == band
        found[of_band] = np.exp(_terms(asked[of_band]) @ solved)
    return found


def _terms(rows: Floats) -> Floats:
    return np.column_stack([np.ones(len(rows)), np.log(rows[:, 1]), np.log(rows[:, 0])])


def row(steps: int, bytes_s: float, band: int) -> Sequence[float]:
    """One figure, as both read it."""
    return steps, bytes_s, band


# The textbook's cost of a collective, as a baseline: one ring, latency and bytes over the slowest link's rate.
#
#     steps x alpha + bytes that pass each link / beta
#
# The ring is the first one that the library would build; alpha is the longest latency of a copy between neighbours in
# it, beta the lowest bandwidth, both as the system is described. No protocol, no channels, no trees, nothing fitted.
#
# Reference: Hockney 1994; Thakur, Rabenseifner & Gropp 2005, for rings.


@dataclass(frozen=True)
class AlphaBeta:
    """What a collective costs by its size."""

    latency_s: float  # of all steps together
    s_per_byte: float

    def time_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes * self.s_per_byte


def alpha_beta(planned: CollectivePlan) -> AlphaBeta:
    """A collective over the devices of a plan, of which no more than the order of its ring is read."""
    devices = planned.devices
    ring = planned.rings[0].order if planned.rings and set(planned.rings[0].order) == set(devices) else devices
    hops = [paths.copy_path(planned.system, a, b) for a, b in pairwise([*ring, ring[0]])]
    operation = OPERATIONS[planned.collective]
    return AlphaBeta(
        operation.steps(len(devices)) * max(hop.latency_s for hop in hops),
        operation.bus_factor(len(devices)) / min(hop.bandwidth_Bps for hop in hops),
    )
