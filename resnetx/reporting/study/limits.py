"""What limits a point: how much of its step each part of the work takes, by the runs of its twins.

A twin leaves one part of the work out; what the step gets shorter by is what that part cost beyond what was hidden
behind other work. The rest is computing. On GPUs, time in which no kernel runs although nothing waits for input is the
host's (Python, launching), at least: the profiler of the instrumented twin tells for how long kernels run, of whatever
stream. A CPU rank computes on the host, so the two are one there.
"""

from collections.abc import Mapping
from statistics import fmean
from typing import Any, Literal

import msgspec
import numpy as np

from resnetx.choices import NoExchange, SyntheticInput
from resnetx.record import Brief, GradientBucket, Phases
from resnetx.reporting.study.results import Point
from resnetx.request import TwinName
from resnetx.statistics import Summary, derived, ratio, summarize

Part = Literal["compute", "communication", "input", "host"]
_TWIN_OF: dict[Part, TwinName] = {"input": "synthetic", "communication": "alone"}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a point's clean step goes."""

    step_s: Summary
    shares: dict[Part, Summary]  # of the step; together 1. Below 0: the twin was slower, by chance or by less overlap
    unknown: dict[Part, str]  # parts that are not known, with the reason; "compute" then holds them, too
    verdict: Part | None  # the largest share; None: the runs do not show which that is, or a part is not known
    margin: Summary | None  # the largest share less the next one
    why: str  # "communication, by 21 points", or why there is no verdict
    loader_rate: Summary | None  # images/s of the input alone
    phases: Phases | None  # inside a watched step, of the latest watched run
    messages: list[GradientBucket]  # of that run; [] where none is sent, or nobody watched
    watched: Summary | None  # rate of the watched steps / rate of the clean ones


def limits(point: Point) -> Limits:
    """What limits a point that has at least one good run."""
    clean = [run.rates for run in point.good]
    twins = {name: good for name, runs in point.twins.items() if (good := [run.rates for run in runs if run.rates])}
    watched = [run for run in point.twins.get("phases", []) if run.phases]
    sets, unknown = _parts(point, twins)
    measured = [clean, *(twins[name] for name in sets.values())]
    kernels = [[fmean(run.kernels_s) / point.request.batch_size] for run in watched if run.kernels_s]
    if kernels:
        measured.append(kernels)
    elif _on_gpus(point.good):
        unknown["host"] = "the profiler saw no kernel" if watched else "the twin phases has not run"
    shares = _Shares(list(sets), bool(kernels))
    found = {part: derived(shares.of(part), *measured) for part in shares.parts}
    verdict, margin, why = _verdict(found, unknown, shares, measured)
    return Limits(
        step_s=derived(lambda rate: point.request.batch_size / rate, clean),
        shares=found,
        unknown=unknown,
        verdict=verdict,
        margin=margin,
        why=why,
        loader_rate=summarize(twins["input"]) if "input" in twins else None,
        phases=watched[-1].phases if watched else None,
        messages=(watched[-1].buckets or []) if watched else [],
        watched=ratio(twins["phases"], clean) if "phases" in twins else None,
    )


def _parts(point: Point, twins: Mapping[Any, Any]) -> tuple[dict[Part, TwinName], dict[Part, str]]:
    """The twin for each part that one of them shows; and the parts that miss theirs, with the reason."""
    request = point.request
    present: dict[Part, bool] = {
        "input": not isinstance(request.input, SyntheticInput),
        "communication": request.gpus > 1 and not isinstance(request.strategy, NoExchange),
    }
    sets = {part: twin for part, twin in _TWIN_OF.items() if present[part] and twin in twins}
    missing = {part: twin for part, twin in _TWIN_OF.items() if present[part] and twin not in twins}
    return sets, {part: f"the twin {twin} has not run" for part, twin in missing.items()}


def _on_gpus(runs: list[Brief]) -> bool:
    return any(device.name != "CPU" for run in runs for device in run.devices or [])


class _Shares:
    """Each part's share as a function of the rates of the clean step and of the twins that leave a part out."""

    def __init__(self, left_out: list[Part], kernels: bool) -> None:
        """`kernels`: whether it is known for how many seconds of each image a kernel runs."""
        self._left_out = left_out
        self.parts: list[Part] = ["compute", *left_out]
        if kernels:
            self.parts.append("host")

    def of(self, part: Part) -> Any:
        return lambda *drawn: self._all(*drawn)[part]

    def lead(self, first: Part, second: Part) -> Any:
        def difference(*drawn: Any) -> Any:
            found = self._all(*drawn)
            return found[first] - found[second]

        return difference

    def _all(self, clean: Any, *others: Any) -> dict[Part, Any]:
        """`others`: the rates of the twins, each of which leaves a part out; then the kernels' seconds, if known."""
        twins, kernels_s = others[: len(self._left_out)], others[len(self._left_out) :]
        found: dict[Part, Any] = {part: 1 - clean / rate for part, rate in zip(self._left_out, twins, strict=True)}
        for seconds in kernels_s:
            waiting = np.maximum(found.get("input", 0.0), 0.0)
            found["host"] = np.maximum(1 - seconds * clean - waiting, 0.0)
        found["compute"] = np.ones_like(clean) - sum(found.values())
        return found


def _verdict(
    found: dict[Part, Summary], unknown: dict[Part, str], shares: _Shares, measured: list[Any]
) -> tuple[Part | None, Summary | None, str]:
    if unknown:
        return None, None, f"unknown: {next(iter(unknown.values()))}"
    ranked = sorted(found, key=lambda part: -found[part].median)
    if len(ranked) == 1:
        return ranked[0], None, f"{ranked[0]}, the only part"
    first, second = ranked[:2]
    margin = derived(shares.lead(first, second), *measured)
    lead = f"by {100 * margin.median:.0f} points"
    if margin.n == 1:
        return None, margin, f"open: {first} {lead}, from one run"
    # Below six runs the range says less than an interval: `spread` allows for it.
    if margin.low <= 0 or (margin.kind == "range" and margin.spread >= 1):
        return None, margin, f"open: {first} or {second}"
    return first, margin, f"{first}, {lead}"
