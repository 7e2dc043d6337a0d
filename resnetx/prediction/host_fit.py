"""Fits the host's part of a step to published rates of one GPU at several batches, and judges it on unseen systems.

    python -m resnetx.prediction.host_fit        writes results/published/host-fit.yaml, and prints each pair

A pair is two batches of one series, the larger 6 to 10.7 times the smaller (about what eight GPUs make of one GPU's
batch): the smaller one's step is predicted from the rate at the larger. Two figures are fitted (`HostFit`), by the
least sum of |ln(predicted / measured)|, to pairs whose input was prepared; each pair is then predicted with the figures
that all other systems give. Where a loader feeds the GPU, nothing is fitted: it may be the limit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import msgspec

from resnetx.prediction.host_step import FILE, HostFit, assumed
from resnetx.prediction.published_steps import StepSeries, series
from resnetx.prediction.stated_rate import KnownStep, StatedRates

LEAST, MOST = 6.0, 10.7  # of the two batches' ratio: around eight, with as many pairs as there are
_GRID = [(math.exp(scale / 20), gpu_pass / 1e6) for scale, gpu_pass in product(range(-16, 17), range(0, 62, 2))]


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

    def predicted(self, scale: float, gpu_pass_s: float) -> KnownStep:
        fit = HostFit(scale=scale, gpu_pass_s=gpu_pass_s, pairs=0, systems=0, without={})
        layers = self.of.layers
        host = assumed(layers, self.of.framework, self.of.precision or "fp32", fit)
        rates = StatedRates(((self.given, self.of.samples_per_s[self.given]),), "stated", self.of.source, error=0.0)
        return rates.step(self.batch, host, 2 * layers * gpu_pass_s)


@dataclass(frozen=True)
class JudgedPair:
    """A pair, predicted without its system."""

    pair: Pair
    step: KnownStep

    @property
    def log_error(self) -> float:
        """ln(predicted / measured), of the time."""
        return math.log(self.step.time_s / self.pair.measured_s)

    @property
    def held(self) -> bool:
        ratio = self.pair.measured_s / self.step.time_s
        return 1 - self.step.faster <= ratio <= 1 + self.step.slower


def pairs() -> Iterator[Pair]:
    """Of each series and batch, the pair whose ratio is nearest to eight."""
    for of in series():
        for batch in of.samples_per_s:
            larger = [
                (abs(math.log(given / batch / 8)), given)
                for given in of.samples_per_s
                if LEAST <= given / batch <= MOST
            ]
            if larger:
                yield Pair(of, batch, min(larger)[1])


def _errors(pair: Pair) -> list[float]:
    """By the pairs of figures of the grid."""
    return [abs(math.log(pair.predicted(*figures).time_s / pair.measured_s)) for figures in _GRID]


def _best(errors: Sequence[Sequence[float]]) -> tuple[float, float]:
    totals = [sum(column) for column in zip(*errors, strict=True)]
    return _GRID[totals.index(min(totals))]


def fit_and_judge() -> tuple[HostFit, list[JudgedPair]]:
    """What the file says, and every pair predicted without its system."""
    chosen = list(pairs())
    fitted = [(pair.of.source, _errors(pair)) for pair in chosen if pair.of.input == "prepared"]
    systems = dict.fromkeys(pair.of.source for pair in chosen)
    without = {out: _best([errors for source, errors in fitted if source != out]) for out in systems}
    scale, gpu_pass_s = _best([errors for _, errors in fitted])
    found = HostFit(
        scale=scale,
        gpu_pass_s=gpu_pass_s,
        pairs=len(fitted),
        systems=len({source for source, _ in fitted}),
        without=without,
    )
    return found, [JudgedPair(pair, pair.predicted(*without[pair.of.source])) for pair in chosen]


def main() -> None:
    import yaml

    found, rows = fit_and_judge()
    head = "# Fitted to steps.yaml by `python -m resnetx.prediction.host_fit`, which writes this file: do not edit.\n"
    FILE.write_text(head + yaml.safe_dump(msgspec.to_builtins(found), sort_keys=False))
    for row in rows:
        pair = row.pair
        steps = f"{row.step.time_s * 1e3:.1f} ms, measured {pair.measured_s * 1e3:.1f} ({row.log_error:+.2f})"
        print(f"{pair.of.what}, batch {pair.batch} from {pair.given}: {steps}, held {row.held}")


if __name__ == "__main__":
    main()
