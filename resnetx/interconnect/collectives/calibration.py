"""Measured sizes that correct a plan: how many times as long as modelled each takes, and what lies between them.

    calibrate(plan(system, devices=[0, 1, 2, 3]), read("all_reduce_perf.txt"))        # in collective.py

A measured size takes what was measured. Between two of them the plan is followed, times their ratios: the logarithm of
measured over modelled time is interpolated over the logarithm of the size, so that protocols may change anywhere along
the sizes. Beyond both ends the ratio there holds. Ratios are to the uncalibrated plan, so a calibration that was made
on four GPUs also corrects a plan for eight. How good it is, is said by its held-out error: every size between the
smallest and the largest, predicted from the others; where several publications have measured, each from the others.
One large size says how fast bytes move, and is carried to all others so; nothing of it can be held out, and `errors`
has what ladders were off by that were calibrated so.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, isnan, log, nan
from statistics import fmean, quantiles

from resnetx.errors import ConfigError

LEVEL = 0.9
ONE_SIZE_BYTES = tuple(float(2**power) for power in range(3, 36))  # where one measured size is carried to
FEWEST_SIZES = 2  # one says nothing of how the ratio changes with the size


@dataclass(frozen=True)
class ComparedTime:
    """A measured time of one size beside what the uncalibrated plan says of it."""

    size_bytes: float
    measured_s: float
    modelled_s: float
    publication: str = ""  # times of one are held out together where there are several

    @property
    def log_ratio(self) -> float:
        return log(self.measured_s / self.modelled_s)


@dataclass(frozen=True)
class Calibration:
    """How many times as long as modelled sizes take."""

    source: str
    points: int
    curve: "SizeCurve"
    held_out_error: float  # mean |ln(predicted / measured)|; nan where no size could be held out
    held_out_q90: float  # that 90 % of these errors are within
    from_bytes: float = 0.0  # it says nothing of smaller sizes

    def covers(self, size_bytes: float) -> bool:
        """Whether it corrects sizes like this."""
        return size_bytes >= self.from_bytes

    @property
    def judged(self) -> bool:
        """Whether any size could be held out."""
        return not isnan(self.held_out_error)

    def ratio(self, size_bytes: float) -> float:
        """Times of this size, over what the plan says without calibration."""
        return exp(self.curve.at(size_bytes)) if self.covers(size_bytes) else 1.0


@dataclass(frozen=True)
class SizeCurve:
    """Values over the logarithm of places (sizes, counts of GPUs): interpolated; beyond the ends, the value there."""

    places: tuple[float, ...]  # rising
    values: tuple[float, ...]

    def at(self, place: float) -> float:
        after = bisect_right(self.places, place)
        if after in (0, len(self.places)):
            return self.values[max(0, after - 1)]
        low, high = self.places[after - 1], self.places[after]
        share = log(place / low) / log(high / low)
        return self.values[after - 1] + share * (self.values[after] - self.values[after - 1])


def by_times(source: str, compared: Sequence[ComparedTime], from_bytes: float = 0.0) -> Calibration:
    """The calibration by these times."""
    curve = _curve(compared)
    if len(curve.places) < FEWEST_SIZES:
        raise ConfigError(f"calibration={source}: has one size; expected at least two, the smallest and the largest")
    errors = list(_held_out(compared))
    return Calibration(
        source,
        len(compared),
        curve,
        fmean(errors) if errors else nan,
        _quantile(errors) if errors else nan,
        from_bytes,
    )


def by_one_size(source: str, slower: float, moving_share: Callable[[float], float]) -> Calibration:
    """By one size: bytes take `slower` times as long, and they are `moving_share` of a modelled time."""
    ratios = {size: log(1 + (slower - 1) * moving_share(size)) for size in ONE_SIZE_BYTES}
    return Calibration(source, 1, SizeCurve(tuple(ratios), tuple(ratios.values())), nan, nan)


def _curve(compared: Sequence[ComparedTime]) -> SizeCurve:
    """Each size once, with the mean of the logarithms that were measured of it."""
    ordered = sorted((time.size_bytes, time.log_ratio) for time in compared)
    means = {size: fmean(value for _, value in same) for size, same in groupby(ordered, lambda pair: pair[0])}
    return SizeCurve(tuple(means), tuple(means.values()))


def _held_out(compared: Sequence[ComparedTime]) -> Iterator[float]:
    """Errors: of each publication from the others, or of each size between the smallest and the largest."""
    publications = dict.fromkeys(time.publication for time in compared)
    if len(publications) == 1:
        yield from _each_size_held_out(_curve(compared))
        return
    for publication in publications:
        curve = _curve([time for time in compared if time.publication != publication])
        for each in compared:
            if each.publication == publication and curve.places[0] <= each.size_bytes <= curve.places[-1]:
                yield _off(curve, each.size_bytes, each.log_ratio)


def _each_size_held_out(curve: SizeCurve) -> Iterator[float]:
    sizes, values = curve.places, curve.values
    for index in range(1, len(sizes) - 1):
        beside = (index - 1, index + 1)
        nearest = SizeCurve(tuple(sizes[each] for each in beside), tuple(values[each] for each in beside))
        yield _off(nearest, sizes[index], values[index])


def _off(curve: SizeCurve, size_bytes: float, log_ratio: float) -> float:
    return abs(curve.at(size_bytes) - log_ratio)


def _quantile(errors: Sequence[float]) -> float:
    return quantiles(errors, n=round(1 / (1 - LEVEL)), method="inclusive")[-1] if len(errors) > 1 else errors[0]
