"""Which points of two studies are the same measurement, apart from what one study as a whole did in another way.

Two machines rarely share every setting (threads follow from the cores, the images lie elsewhere), and comparing two
strategies or two values of a variable is a use of its own. So the match goes by what tells points apart:

- the workload, its batch and the number of GPUs always do;
- any other setting does if in either study it has several values on one number of GPUs;
- else each study has one value of it. Where these differ, the difference is one of the studies, named once for all
  points. (On one number of GPUs, because `devices` follows from how many there are.)
"""

import statistics
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from resnetx.errors import ConfigError
from resnetx.record.comparison import Difference
from resnetx.reporting.study.points import StudyPoint
from resnetx.request import Request
from resnetx.statistics import MIN_RUNS, Runs, Summary, derived

_ALWAYS = {"model", "image_size", "batch_size", "gpus", "measure"}


@dataclass(frozen=True)
class Matched:
    """Two studies, point by point."""

    pairs: list[tuple[Request, Request]]  # in the order of A
    only_a: list[Request]
    only_b: list[Request]
    settings: list[Difference]  # in which all pairs differ


def match(a: Sequence[Request], b: Sequence[Request]) -> Matched:
    """The points of A with their counterparts in B; a `ConfigError` if no point has one."""
    keys, telling = _keys(a, b)
    theirs = {_identity(request, telling): request for request in b}
    distinct = {request.key for request in b}
    assert len(theirs) == len(distinct), "what does not tell points of a study apart cannot make two of them one"
    pairs = [(request, theirs[same]) for request in a if (same := _identity(request, telling)) in theirs]
    if not pairs:
        raise ConfigError(f"no case is in both studies: {_obstacle(telling, a, b)}")
    paired = {request.key for pair in pairs for request in pair}
    return Matched(
        pairs=pairs,
        only_a=[request for request in a if request.key not in paired],
        only_b=[request for request in b if request.key not in paired],
        settings=_differences([key for key in keys if key not in telling], pairs),
    )


def alike_requests(a: Sequence[Request], b: Sequence[Request]) -> set[tuple[str, str]]:
    """The keys of each point of A and of its counterpart in B."""
    _, telling = _keys(a, b)
    theirs = {_identity(request, telling): request.key for request in b}
    return {(request.key, theirs[same]) for request in a if (same := _identity(request, telling)) in theirs}


def _keys(a: Sequence[Request], b: Sequence[Request]) -> tuple[list[str], list[str]]:
    """The settings of all points, and those that tell points apart."""
    keys = list(dict.fromkeys(key for request in (*a, *b) for key in request.settings))
    return keys, [key for key in keys if _group(key) in _ALWAYS or _tells_apart(key, a) or _tells_apart(key, b)]


def _group(key: str) -> str:
    return key.partition(".")[0]


def _chief(key: str, differing: Collection[str]) -> bool:
    """Whether a setting is not just one that comes with another choice: strategy.bucket_cap_mb with strategy=bucket."""
    return key == _group(key) or _group(key) not in differing


def _tells_apart(key: str, requests: Sequence[Request]) -> bool:
    """Whether a setting has several values on one number of GPUs. One that a choice does not have counts as null."""
    values = {(request.gpus, repr(request.settings.get(key))) for request in requests}
    return len(values) > len({request.gpus for request in requests})


def _identity(request: Request, telling: Sequence[str]) -> tuple[str, ...]:
    settings = request.settings
    return tuple(repr(settings.get(key)) for key in telling)


def _differences(keys: Sequence[str], pairs: Sequence[tuple[Request, Request]]) -> list[Difference]:
    """The settings that are not the same in all pairs; those of a choice are left out where the choice is another."""
    differing = {
        key for key in keys if any(request.settings.get(key) != other.settings.get(key) for request, other in pairs)
    }
    return [
        Difference(
            name=key,
            a=_values(key, [request for request, _ in pairs]),
            b=_values(key, [other for _, other in pairs]),
            varies_in=[],
        )
        for key in keys
        if key in differing and _chief(key, differing)
    ]


def _values(key: str, requests: Sequence[Request]) -> list[str]:
    return list(dict.fromkeys(_words(request.settings.get(key)) for request in requests))


def _words(value: Any) -> str:
    return "not set" if value is None else str(value)


def _obstacle(telling: Sequence[str], a: Sequence[Request], b: Sequence[Request]) -> str:
    """The settings of which the two studies have no value in common."""
    values = {key: (_values(key, a), _values(key, b)) for key in telling}
    apart = [key for key, (ours, theirs) in values.items() if not set(ours) & set(theirs)]
    chief = [key for key in apart if _chief(key, apart)]
    differences = [f"{key} is {', '.join(values[key][0])} in A and {', '.join(values[key][1])} in B" for key in chief]
    return "; ".join(differences) or f"they share values of {', '.join(telling)}, but no combination of them"


# The same point in two studies, and quotients of what was measured there: B over A, and ratios of speed-ups.


@dataclass(frozen=True)
class Quotient:
    """Rates over rates, each a set of runs."""

    above: tuple[Runs, ...]
    below: tuple[Runs, ...]


@dataclass(frozen=True)
class PointPair:
    """One point in both studies; A gives it its labels."""

    a: StudyPoint
    b: StudyPoint

    @property
    def key(self) -> str:
        return self.a.request.key

    @property
    def series(self) -> str:
        """What the pairs of one scaling curve share."""
        return self.a.request.baseline_key

    @property
    def gpus(self) -> int:
        return self.a.request.gpus

    @property
    def words(self) -> str:
        return self.a.words

    @property
    def good(self) -> bool:
        """Whether it ran well in both."""
        return bool(self.a.good_runs and self.b.good_runs)

    @property
    def rate(self) -> Quotient:
        """How many times as fast B is."""
        return Quotient((self.b.rates,), (self.a.rates,))

    def speedup(self, base: "PointPair") -> Quotient:
        """How many times the speed-up of A over the baseline B has over the same."""
        return Quotient((self.b.rates, base.a.rates), (self.a.rates, base.b.rates))


def baselines(pairs: Sequence[PointPair], gpus: int) -> dict[str, PointPair]:
    """By series, the pair that speed-ups are over: the one on `gpus` GPUs, or else on the fewest that ran in both."""
    series: dict[str, list[PointPair]] = defaultdict(list)
    for pair in pairs:
        if pair.good:
            series[pair.series].append(pair)
    return {key: min(those, key=lambda pair: (pair.gpus != gpus, pair.gpus)) for key, those in series.items()}


def mean(quotients: Sequence[Quotient]) -> Summary:
    """The geometric mean of the quotients, with the interval that their runs leave to it.

    The points count as they are, not as a sample of all workloads: others may well lie outside. The interval of a mean
    of several is wider than it need be: with 6 runs everywhere it held the truth in 99 % of 300 simulated means of 6
    quotients. Below MIN_RUNS runs anywhere it is none, and reaches as far as if all quotients were at one end at once.
    """
    sets = [runs for quotient in quotients for runs in (*quotient.above, *quotient.below)]
    signs = [sign for quotient in quotients for sign in [1] * len(quotient.above) + [-1] * len(quotient.below)]
    powers = [sign / len(quotients) for sign in signs]
    fewest = min(map(len, sets))
    if len(quotients) == 1 or fewest >= MIN_RUNS:
        return derived(lambda *rates: np.exp(sum(p * np.log(r) for p, r in zip(powers, rates, strict=True))), *sets)
    single = [mean([quotient]) for quotient in quotients]
    median = statistics.geometric_mean(summary.median for summary in single)
    low = statistics.geometric_mean(summary.low for summary in single)
    high = statistics.geometric_mean(summary.high for summary in single)
    return Summary(median, low, high, fewest, "range")
