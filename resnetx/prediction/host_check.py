"""The host's part of a step, judged: steps of one GPU at about an eighth of the batch whose rate is given.

A pair is two batches of one published series, the larger 6 to 10.7 times the smaller (about what eight GPUs make of one
GPU's batch): the smaller one's step is predicted from the rate at the larger, as `resnetx predict rate=` does it. The
constants were chosen on the steps at batch 1 of one source (`host_step.CHOSEN_ON`), so that its pairs are no evidence
for them, and are counted apart.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from resnetx.prediction.host_step import GPU_PASS_s, LaunchedStep, assumed
from resnetx.prediction.published_steps import StepSeries, series
from resnetx.prediction.stated_rate import StatedRates

LEAST, MOST = 6.0, 10.7  # of the two batches' ratio: around eight, with as many pairs as there are


@dataclass(frozen=True)
class Pair:
    """Two batches of a series; the smaller one's step is predicted."""

    of: StepSeries
    batch: int
    given: int  # the larger batch, whose rate is given

    @property
    def measured_s(self) -> float:
        return self.batch / self.of.samples_per_s[self.batch]

    @property
    def proportional_s(self) -> float:
        """The rival: the step in proportion to the batch."""
        return self.batch / self.of.samples_per_s[self.given]

    def predicted(self) -> LaunchedStep:
        host = assumed(self.of.layers, self.of.framework, self.of.precision or "fp32")
        rates = StatedRates(((self.given, self.of.samples_per_s[self.given]),), "stated", self.of.source, error=0.0)
        return rates.step(self.batch, host, 2 * self.of.layers * GPU_PASS_s)


@dataclass(frozen=True)
class JudgedPair:
    """A pair with its prediction."""

    pair: Pair
    step: LaunchedStep

    @property
    def log_error(self) -> float:
        """ln(predicted / measured), of the time."""
        return math.log(self.step.time_s / self.pair.measured_s)


def judged() -> list[JudgedPair]:
    return [JudgedPair(pair, pair.predicted()) for pair in pairs()]


def pairs() -> Iterator[Pair]:
    """Of each series and batch, the pair whose ratio is nearest to eight; of runs of one thing, the first."""
    seen = set()
    for of in series():
        for batch in of.samples_per_s:
            larger = [
                (abs(math.log(given / batch / 8)), given)
                for given in of.samples_per_s
                if LEAST <= given / batch <= MOST
            ]
            key = (of.what, of.source, batch)
            if larger and key not in seen:
                seen.add(key)
                yield Pair(of, batch, min(larger)[1])
