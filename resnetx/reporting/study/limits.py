"""What limits a point: how much of its step each part of the work takes, by the runs of its twins.

A twin leaves one part of the work out; what the step gets shorter by is what that part cost beyond what was hidden
behind other work. The rest is computing. Where a twin took longer than the step, by more than chance, shares would not
lie between 0 and 100 %: then none is known from these runs. On GPUs, time in which no kernel runs although nothing
waits for input is the host's (Python, launching), at least: the profiler of the instrumented twin tells for how long
kernels run, of whatever stream. A CPU rank computes on the host, so the two are one there.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

import msgspec
import numpy as np

from resnetx.choices import NoExchange, SyntheticInput
from resnetx.record import GradientBucket, Phases, RunSummary
from resnetx.reporting.study.results import MeasuredPoint
from resnetx.request import TwinName
from resnetx.statistics import Floats, Runs, Summary, derived, ratio, summarize

StepPart = Literal["compute", "communication", "input", "host"]
PARTS: tuple[StepPart, ...] = ("compute", "communication", "input", "host")
BY_CHANCE = 0.01  # of a step: two sets of the same runs differ by about as much; a share so far below 0 is 0
_TWIN_OF: dict[StepPart, TwinName] = {"input": "synthetic", "communication": "alone"}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a point's clean step goes."""

    step_s: Summary
    shares: dict[StepPart, Summary]  # of the step, each from 0 to 1 and together 1; {}: not known from these runs
    # Parts that are not known, with the reason: "compute" then holds them, too, unless no part is known.
    unknown: dict[StepPart, str]
    verdict: StepPart | None  # the largest share; None: the runs do not show which that is, or a part is not known
    margin: Summary | None  # the largest share less the next one
    why: str  # "communication, by 21 points", or why there is no verdict
    loader_rate: Summary | None  # images/s of the input alone
    phases: Phases | None  # inside an instrumented step, of the latest instrumented run
    messages: list[GradientBucket]  # of that run; [] where none is sent, or none was instrumented
    # Rate of the instrumented steps / rate of the clean ones; its name in JSON is an older word.
    instrumented: Summary | None = msgspec.field(name="watched")


def limits(point: MeasuredPoint) -> Limits:
    """What limits a point that has at least one good run."""
    clean = [run.rates for run in point.good_runs]
    twins = {name: good for name, runs in point.twins.items() if (good := [run.rates for run in runs if run.rates])}
    instrumented = [run for run in point.twins.get("phases", []) if run.phases]
    twin_of, unknown = _parts(point, twins)
    measured: list[Runs] = [clean, *(twins[twin] for twin in twin_of.values())]
    kernels = [[fmean(run.kernels_s) / point.request.batch_size] for run in instrumented if run.kernels_s]
    if kernels:
        measured.append(kernels)
    elif _on_gpus(point.good_runs):
        unknown["host"] = "the profiler saw no kernel" if instrumented else "the control run phases has not run"
    parts = _Parts(list(twin_of), bool(kernels))
    shares = {part: derived(parts.share(part), *measured) for part in parts.known}
    least = min(shares, key=lambda part: shares[part].median)
    if shares[least].median < -BY_CHANCE:
        why = f"not known from these runs, which put {least} at {shares[least].median:.0%} of the step"
        shares, unknown = {}, dict.fromkeys(parts.known, why)
        verdict, margin = None, None
    else:
        verdict, margin, why = _verdict(shares, unknown, parts, measured)
        shares = _not_below_0(shares)
    return Limits(
        step_s=derived(lambda rate: point.request.batch_size / rate, clean),
        shares=shares,
        unknown=unknown,
        verdict=verdict,
        margin=margin,
        why=why,
        loader_rate=summarize(twins["input"]) if "input" in twins else None,
        phases=instrumented[-1].phases if instrumented else None,
        messages=(instrumented[-1].buckets or []) if instrumented else [],
        instrumented=ratio(twins["phases"], clean) if "phases" in twins else None,
    )


def _not_below_0(shares: Mapping[StepPart, Summary]) -> dict[StepPart, Summary]:
    """The shares with those that are below 0 by chance at 0, and still together 1."""
    medians = {part: max(share.median, 0.0) for part, share in shares.items()}
    whole = sum(medians.values()) / sum(share.median for share in shares.values())
    return {part: replace(share, median=medians[part] / whole) for part, share in shares.items()}


def _parts(
    point: MeasuredPoint, measured: Collection[TwinName]
) -> tuple[dict[StepPart, TwinName], dict[StepPart, str]]:
    """The twin for each part that one of them shows; and the parts whose twin is missing, with the reason."""
    request = point.request
    present: dict[StepPart, bool] = {
        "input": not isinstance(request.input, SyntheticInput),
        "communication": request.gpus > 1 and not isinstance(request.strategy, NoExchange),
    }
    shown = {part: twin for part, twin in _TWIN_OF.items() if present[part] and twin in measured}
    missing = {part: twin for part, twin in _TWIN_OF.items() if present[part] and twin not in measured}
    return shown, {part: f"the control run {twin} has not run" for part, twin in missing.items()}


def _on_gpus(runs: list[RunSummary]) -> bool:
    return any(device.name != "CPU" for run in runs for device in run.devices or [])


class _Parts:
    """Each part's share as a function of the rates of the clean step and of the twins that leave a part out."""

    def __init__(self, left_out: list[StepPart], kernels: bool) -> None:
        """`kernels`: whether it is known for how many seconds of each image a kernel runs."""
        self._left_out = left_out
        self.known: list[StepPart] = ["compute", *left_out]
        if kernels:
            self.known.append("host")

    def share(self, part: StepPart) -> Callable[..., Floats]:
        return lambda *rates: self._all(*rates)[part]

    def lead(self, first: StepPart, second: StepPart) -> Callable[..., Floats]:
        def difference(*rates: Floats) -> Floats:
            shares = self._all(*rates)
            return shares[first] - shares[second]

        return difference

    def _all(self, clean: Floats, *others: Floats) -> dict[StepPart, Floats]:
        """`others`: the rates of the twins, each of which leaves a part out; then the kernels' seconds, if known."""
        twins, kernels_s = others[: len(self._left_out)], others[len(self._left_out) :]
        shares: dict[StepPart, Floats] = {
            part: 1 - clean / rate for part, rate in zip(self._left_out, twins, strict=True)
        }
        for seconds in kernels_s:
            waiting = np.maximum(shares.get("input", np.zeros_like(clean)), 0.0)
            shares["host"] = np.maximum(1 - seconds * clean - waiting, 0.0)
        shares["compute"] = np.ones_like(clean) - sum(shares.values())
        return shares


def _verdict(
    shares: dict[StepPart, Summary], unknown: dict[StepPart, str], parts: _Parts, measured: Sequence[Runs]
) -> tuple[StepPart | None, Summary | None, str]:
    """The part that limits a point (None: not decided), its lead over the second, and a sentence on it."""
    if unknown:
        return None, None, f"unknown: {next(iter(unknown.values()))}"
    ranked = sorted(shares, key=lambda part: -shares[part].median)
    if len(ranked) == 1:
        return ranked[0], None, f"{ranked[0]}, the only part"
    first, second = ranked[:2]
    margin = derived(parts.lead(first, second), *measured)
    lead = f"by {100 * margin.median:.0f} points"
    if margin.n == 1:
        return None, margin, f"open: {first} {lead}, from one run"
    # Below six runs the range says less than an interval: `spread` allows for it.
    if margin.low <= 0 or (margin.kind == "range" and margin.spread >= 1):
        return None, margin, f"open: {first} or {second}"
    return first, margin, f"{first}, {lead}"
