"""Statistics of repeated runs: the rate of a point, its ratio to another point, and significant differences.

A run is a fresh process with a few windows, and its windows agree with each other better than two runs do. So runs are
what is counted, resampled and permuted; windows only say how well each run is known. Pure: plain numbers in, frozen
dataclasses out, the same answer for the same numbers.

    speedup = ratio(rates_of_8_gpus, rates_of_1_gpu)
    efficiency = speedup.scaled(1 / 8)
    exposed = derived(lambda rate, alone: 1 - rate / alone, rates, rates_without_communication)  # share of the time

References: Davison & Hinkley, Bootstrap Methods and their Application (1997), 3.8 (resampling of nested data);
Benjamini & Hochberg, J. R. Stat. Soc. B 57 (1995) 289 (false discoveries); Iglewicz & Hoaglin, How to Detect and
Handle Outliers (1993); Lord, Biometrika 34 (1947) 41 (intervals from the range of few values); Benjamini & Yekutieli,
J. Am. Stat. Assoc. 100 (2005) 71 (intervals beside verdicts on many cases).
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MIN_RUNS = 6  # fewest runs with an interval
MIN_RUNS_FOR_OUTLIERS = 5
LEVEL = 0.05  # intervals hold 1 - LEVEL; false discoveries are kept to LEVEL
RESAMPLES = 4000  # leaves 2.5 % +- 0.25 % beyond each end of an interval
REPLAYS = 1000  # versions of each run, from windows drawn with replacement
OUTLYING = 3.5  # modified z-score, as Iglewicz & Hoaglin advise
SEED = 2017

# Half of a 95 % interval for the mean of 2 to 5 normal values, in units of their range (Lord, 1947).
_HALF_INTERVAL_PER_RANGE = {2: 6.353, 3: 1.304, 4: 0.717, 5: 0.507}

Floats = NDArray[np.float64]
Runs = Sequence[float | Sequence[float]]  # per run: the rate of each window, or of the whole run
_Measured = tuple[tuple[float, ...], ...]  # the same, every run as its windows


@dataclass(frozen=True)
class Summary:
    """An estimate from `n` runs (of several sets: of the smallest), with its 95 % interval; below 6 runs, the range."""

    median: float
    low: float
    high: float
    n: int
    kind: Literal["interval", "range"]

    @property
    def spread(self) -> float:
        """How badly this is known: half of a 95 % interval over the median, to sort rates and ratios by.

        The range of two runs is narrower than an interval from six although it says less: a range counts here as the
        interval that normal runs with such a range would have. Infinite for one run.
        """
        per_range = 0.5 if self.kind == "interval" else _HALF_INTERVAL_PER_RANGE.get(self.n, math.inf)
        if math.isinf(per_range) or self.median == 0:
            return math.inf
        return per_range * (self.high - self.low) / abs(self.median)

    def scaled(self, factor: float) -> "Summary":
        """The same estimate in another unit: a speed-up over 8 GPUs times 1/8 is a parallel efficiency."""
        assert factor > 0, f"a factor of {factor} would swap low and high"
        return replace(self, median=self.median * factor, low=self.low * factor, high=self.high * factor)


# ---- estimates ------------------------------------------------------------------------------------------------------


def summarize(runs: Runs) -> Summary:
    """The median over runs of each run's rate, in the unit of the rates."""
    return derived(lambda rate: rate, runs)


def ratio(numerator: Runs, denominator: Runs) -> Summary:
    """How many times faster: a speed-up, or one study against another."""
    return derived(lambda above, below: above / below, numerator, denominator)


def derived(function: Callable[..., Floats], *sets: Runs) -> Summary:
    """A quantity derived from the rates of several points, with its interval.

    `function` gets one array per set, each element a rate that this set could have shown, and answers element by
    element. The sets are drawn independently, but one that is given twice varies as one: a point's ratio to itself is
    1, without doubt. For a verdict ask by how much a named part leads (`exposed - input`), not for `largest - second`:
    only the first can come out below zero, and so show that the order is open.

    With MIN_RUNS runs in each set: the interval of a hierarchical bootstrap (see `_resampled`). Below: the range of
    `function` over the slowest, median and fastest run of each set, the whole range if it is monotone in each.
    """
    measured = [_measured(runs) for runs in sets]
    fewest = min(len(runs) for runs in measured)
    distinct = dict.fromkeys(measured)
    if fewest >= MIN_RUNS:
        possible = [_resampled(runs, stream) for stream, runs in enumerate(distinct)]
        ends = [LEVEL / 2, 1 - LEVEL / 2]
    else:
        possible = list(np.array(list(product(*map(_ends_and_middle, distinct)))).T)
        ends = [0, 1]
    drawn = dict(zip(distinct, possible, strict=True))
    median = function(*(np.array([statistics.median(_rates(runs))]) for runs in measured))
    low, high = _quantiles(function(*(drawn[runs] for runs in measured)), ends)
    return Summary(median.item(), low, high, fewest, "interval" if fewest >= MIN_RUNS else "range")


def of_blocks(function: Callable[..., Floats], columns: Sequence[Sequence[float]]) -> list[Summary]:
    """Several quantities derived from blocks: each column is a measurement, each place in it a block that has all.

    `function` gets the median of each column, and answers one row for each quantity. Blocks are drawn whole, so what
    varies from one to the next (the state of the machine) does not vary between the measurements of one. From fewer
    than MIN_RUNS blocks: the range over single blocks.
    """
    blocks = np.array(columns)
    count = blocks.shape[1]
    medians = function(*_medians(blocks.T)[:, np.newaxis])[:, 0]
    known = count >= MIN_RUNS
    possible = _medians(np.moveaxis(blocks[:, _drawn_runs(count, 0)[0]], 2, 0)) if known else blocks
    ends = [_quantiles(row, [LEVEL / 2, 1 - LEVEL / 2] if known else [0, 1]) for row in function(*possible)]
    kind: Literal["interval", "range"] = "interval" if known else "range"
    return [Summary(median, *its, count, kind) for median, its in zip(medians.tolist(), ends, strict=True)]


def _quantiles(values: Floats, shares: Sequence[float]) -> tuple[float, float]:
    """Two quantiles, to the bit those of `numpy.quantile`, which takes several times as long for each of thousands."""
    flat = values.ravel()
    if list(shares) == [0, 1]:
        return float(flat.min()), float(flat.max())
    places = [share * (flat.size - 1) for share in shares]
    below = [min(math.floor(place), flat.size - 1) for place in places]
    above = [min(index + 1, flat.size - 1) for index in below]
    flat = np.partition(flat, sorted({*below, *above}))
    ends = [_between(flat[low], flat[high], place - low) for low, high, place in zip(below, above, places, strict=True)]
    return ends[0], ends[1]


def _between(low: float, high: float, share: float) -> float:
    """As numpy interpolates: from the nearer end."""
    step = high - low
    return float(high - step * (1 - share) if share >= 0.5 else low + step * share)


def _medians(values: Floats) -> Floats:
    """The medians over the first axis, of few values each: sorted by exchanging neighbours."""
    if len(values) > 8:
        medians: Floats = np.median(values, axis=0)
        return medians
    rows = list(values)
    for turn in range(len(rows)):
        for index in range(turn % 2, len(rows) - 1, 2):
            one, other = rows[index], rows[index + 1]
            rows[index], rows[index + 1] = np.minimum(one, other), np.maximum(one, other)
    middle: Floats = (rows[(len(rows) - 1) // 2] + rows[len(rows) // 2]) / 2
    return middle


def _measured(runs: Runs) -> _Measured:
    """The same runs, every one as the rates of its windows, in a form that can be told apart and looked up."""
    measured = tuple(tuple(map(float, run)) if isinstance(run, Sequence) else (float(run),) for run in runs)
    assert measured, "no runs"
    assert all(measured) and min(map(min, measured)) > 0, f"every run needs windows with rates above zero: {measured}"
    return measured


@lru_cache(maxsize=256)  # likewise
def _rates(runs: _Measured) -> list[float]:
    """Each run's rate: total work / total time, which is the harmonic mean of windows of equal work."""
    return [len(run) / sum(1 / rate for rate in run) for run in runs]


def _ends_and_middle(runs: _Measured) -> list[float]:
    rates = sorted(_rates(runs))
    place = (len(rates) - 1) / 2
    below = math.floor(place)
    return [rates[0], _between(rates[below], rates[min(below + 1, len(rates) - 1)], place - below), rates[-1]]


@lru_cache(maxsize=256)  # rate, speed-up and shares of a point all ask for it
def _resampled(runs: _Measured, stream: int) -> Floats:
    """RESAMPLES medians: of runs drawn with replacement, each from its windows drawn with replacement.

    Of n runs the even number below n is drawn. With n, as usual, small sets look better known than they are (an
    interval meant for 95 % held the true median in 92 % of simulated studies at n = 8), the more so for an odd n, where
    the median sticks to single runs (87 to 90 % at n = 7).

    Measured so, over 1,500 studies each with 6, 7, 8, 9, 10 and 20 runs whose rates were normal, skewed to slow ones or
    mixed with stragglers: 94 to 98 %, and ratios 96 to 99 %. Above 99 % where only the windows vary: what they scatter
    shows in the runs, too, and so is counted twice (the interval is 1.3 times as wide as from whole runs at n = 8).
    """
    replays = np.array([len(run) / (_drawn_windows(len(run)) @ (1 / np.array(run))) for run in runs])
    return _medians(replays[_drawn_runs(len(runs), stream)].T)


@cache
def _drawn_windows(count: int) -> Floats:
    """How often each of `count` windows is drawn in each replay of their run."""
    return np.random.default_rng([SEED, count]).multinomial(count, np.full(count, 1 / count), REPLAYS).astype(float)


@cache
def _drawn_runs(count: int, stream: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each resample: which runs, and which replay of each. Streams are independent."""
    size = (RESAMPLES, (count - 1) // 2 * 2)
    draw = np.random.default_rng([SEED, count, stream])
    return draw.integers(count, size=size), draw.integers(REPLAYS, size=size)


# ---- differences ----------------------------------------------------------------------------------------------------

MIN_RUNS_FOR_T = 3  # of either side: with 2, one straggler makes 8 % of answers about 20 equal cases false
# Of answers that any case differs, by chance. 0.05 gave 3 to 7 % of false ones over 20,000 simulated pairs of equal
# nights with 3 runs of 1 to 50 cases (normal 5 %; 50 cases skewed to slow runs, or with stragglers 7 %); 0.03 gives 2
# to 5 %.
T_LEVEL = 0.03
RESOLVED = 0.8  # of differences as large as is called resolved, this share shows


@dataclass(frozen=True)
class TTest:
    """Student's test of two sets of runs: how many times `a` the mean of `b` is."""

    low: float  # of the ratio of geometric means, with `level` outside
    high: float
    p: float
    resolved: float  # the difference, as a share, that four of five such pairs of sets show at `level`
    level: float


def t_test(a: Sequence[float], b: Sequence[float], level: float = T_LEVEL) -> TTest | None:
    """Do times (or rates) of runs differ? None with fewer than three of either, whose scatter is not known.

    Of logarithms, with one scatter for both. It decides with three runs, for it takes them to be normal (see `T_LEVEL`
    for others). Four of five differences of 3.6 times the scatter of runs show with 3 runs of
    each, of 2 times with 6.
    """
    from scipy.special import nctdtrinc, stdtr, stdtrit  # type: ignore[import-untyped]

    if min(len(a), len(b)) < MIN_RUNS_FOR_T:
        return None
    logs_a, logs_b = np.log(a), np.log(b)
    free = len(a) + len(b) - 2
    scatter = np.sqrt((np.var(logs_a) * len(a) + np.var(logs_b) * len(b)) / free * (1 / len(a) + 1 / len(b)))
    between, critical = logs_b.mean() - logs_a.mean(), -stdtrit(free, level / 2)
    half, resolved = critical * scatter, np.expm1(nctdtrinc(free, 1 - RESOLVED, critical) * scatter)
    p = float(2 * stdtr(free, -abs(between) / scatter)) if scatter else float(between == 0)
    return TTest(float(np.exp(between - half)), float(np.exp(between + half)), p, float(resolved), level)


def shown_differences(tests: Sequence[TTest | None]) -> list[bool]:
    """Which of several tests show a difference, so that of equal cases any does in `T_LEVEL` of all answers."""
    level = level_of_each(tests)
    return [test is not None and test.p <= level for test in tests]


def level_of_each(tests: Sequence[TTest | None]) -> float:
    """The level at which each of several tests is judged, by Benjamini & Hochberg.

    Ends at this level leave 1 out where a difference is shown, and nowhere else (Benjamini & Yekutieli 2005).
    """
    ordered = sorted(test.p for test in tests if test)
    shown = max((rank for rank, p in enumerate(ordered, 1) if p <= T_LEVEL * rank / len(ordered)), default=1)
    return T_LEVEL * shown / max(len(ordered), 1)


def adjusted_p(tests: Sequence[TTest | None]) -> list[float | None]:
    """The p of each of several tests with their number allowed for: at most `T_LEVEL` where a difference is shown."""
    ordered = sorted((test.p for test in tests if test), reverse=True)
    least, adjusted = 1.0, dict[float, float]()
    for above, p in enumerate(ordered):
        least = min(least, p * len(ordered) / (len(ordered) - above))
        adjusted[p] = least
    return [adjusted[test.p] if test else None for test in tests]


# ---- runs that stand out --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutlyingValue:
    """A run that stands out from its set: to be named beside the result, never to be dropped from it."""

    run: int  # index
    deviation: float  # of its rate from the median, as a share of the median; below zero: a slow run
    score: float  # modified z-score, with the sign of the deviation


def outliers(runs: Runs) -> list[OutlyingValue]:
    """The runs whose modified z-score is beyond 3.5; none below 5 runs, where nothing can stand out.

    A label, no verdict: with 6 runs it falls on some run of every 7th set of normal ones, with 5 of every 5th.
    """
    rates = np.array(_rates(_measured(runs)))
    if len(rates) < MIN_RUNS_FOR_OUTLIERS:
        return []
    deviations = rates - np.median(rates)
    # 0.6745 and 0.7979 are the median and the mean absolute deviation of a standard normal variable; the mean serves
    # where more than half of the runs are equal.
    sigma = np.median(np.abs(deviations)) / 0.6745 or np.mean(np.abs(deviations)) / 0.7979 or 1.0
    return [
        OutlyingValue(run, (deviations[run] / np.median(rates)).item(), (deviations[run] / sigma).item())
        for run in np.flatnonzero(np.abs(deviations / sigma) > OUTLYING).tolist()
    ]
