"""The host's part of a step, judged: steps of one GPU at about an eighth of the batch whose rate is given.

A pair is two batches of one published series, the larger 6 to 10.7 times the smaller (about what eight GPUs make of one
GPU's batch): the smaller one's step is predicted from the rate at the larger, as `resnetx predict rate=` does it. The
constants were chosen on the steps at batch 1 of one source (`host_step.CHOSEN_ON`), so that its pairs are no evidence
for them, and are counted apart.

A strong case is one global batch whose rate is known on one GPU, on several: the same step, with its messages and what
going parallel costs. That constant (`host_step.PARALLEL_s`) was chosen on these cases.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from resnetx.compose import compose
from resnetx.config import request_from
from resnetx.interconnect.system import load
from resnetx.prediction.host_step import GPU_PASS_s, LaunchedStep, assumed
from resnetx.prediction.iteration import Iteration
from resnetx.prediction.predict import simulated
from resnetx.prediction.published_steps import StepSeries, series
from resnetx.prediction.scenario import Fabric, Point, Subject, TrainingSetup
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


@dataclass(frozen=True)
class StrongCase:
    """One global batch on several GPUs, from its rate on one. Layers are taken to be alike."""

    of: StepSeries
    gpus: int
    batch: int  # of each

    @property
    def measured(self) -> float:
        """Samples/s."""
        return self.of.several[self.gpus][self.batch]

    @property
    def linear(self) -> float:
        """The rival: as many times the rate of one GPU, samples/s."""
        return self.gpus * self.of.samples_per_s[self.gpus * self.batch]

    def predicted(self) -> Iteration:
        whole = self.gpus * self.batch
        words = {"model": "alexnet", "batch_size": whole, "input": "synthetic", "precision": self.of.precision}
        rates = StatedRates(((whole, self.of.samples_per_s[whole]),), "stated", self.of.source)
        subject = replace(Subject.of(request_from(compose(words)), self.of.counted.table, "torch"), rates=rates)
        assert self.of.system is not None, "rates of several GPUs are those of a system"
        system = load(self.of.system)
        setting = TrainingSetup(framework=self.of.framework)
        return simulated(Point(subject, Fabric(system, system.library), tuple(range(self.gpus)), whole, setting))


def strong_cases() -> Iterator[StrongCase]:
    """All that have a rate of the same batch on one GPU."""
    for of in series():
        for gpus, rates in of.several.items():
            yield from (StrongCase(of, gpus, batch) for batch in rates if gpus * batch in of.samples_per_s)
