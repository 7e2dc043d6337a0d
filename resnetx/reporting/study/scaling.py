"""How a study scales: rate, speed-up, efficiency, intensity and limit of each point, from the runs of the study."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from resnetx.record import RunSummary, Workload
from resnetx.record.machine import Unit, how_many, unit_of
from resnetx.reporting.study.limits import Limits, limits
from resnetx.reporting.study.lost_time import LostTime, lost_time
from resnetx.reporting.study.results import MeasuredPoint, Results
from resnetx.request import Request
from resnetx.statistics import Summary, outliers, ratio, summarize


class PointResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one point amount to; `resnetx sweep --json` prints one for each point."""

    study: str
    node: str
    request: Request
    outcome: str  # "ok" where any run went well, else how they ended; "missing": not run yet
    reason: str  # of the runs that did not go well
    images_per_s: Summary | None  # None: no run went well
    iterations_per_s: Summary | None
    speedup: Summary | None  # over the baseline; None where that, or this point, has no run that went well
    efficiency: Summary | None  # speed-up / how many times the baseline's GPUs
    unit: Unit  # what its ranks are
    baseline: str  # "1 GPU", or "2 GPUs (1 GPU: oom)" where another point had to do
    limits: Limits | None  # what takes the time; None where no run went well
    lost: LostTime | None = None  # where the time goes, over the baseline; None where that, or this, has no good run
    workload: Workload | None
    notes: list[str]  # outlying runs, and warnings that any run gave


def point_results(results: Results, baseline: int | None = None) -> list[PointResult]:
    """One result per point, in the study's order. `baseline`: GPUs of the denominator; None: as the study says."""
    wanted = baseline or results.study.baseline
    unit = unit_of(device for run in results.runs for device in run.devices or ())
    series: dict[str, list[MeasuredPoint]] = defaultdict(list)
    for point in results.points:
        series[point.request.baseline_key].append(point)
    return [_result(point, series[point.request.baseline_key], wanted, results, unit) for point in results.points]


def _baseline(series: Iterable[MeasuredPoint], gpus: int, of: MeasuredPoint) -> MeasuredPoint | None:
    """What the speed-up of a point is over: the point of its series on `gpus` GPUs, or else on the fewest that ran.

    Of several with so many GPUs (other devices) it is the point itself, or the first.
    """
    able = [point for point in series if point.good_runs]
    return min(able, key=lambda point: (point.request.gpus != gpus, point.request.gpus, point is not of), default=None)


def _outcome(point: MeasuredPoint) -> tuple[str, str]:
    """How a point ended: "ok" where any run went well; and why the first of the others failed."""
    failed = next((run for run in point.runs if not run.rates), None)
    if point.good_runs:
        return "ok", failed.reason if failed else ""
    return (failed.outcome, failed.reason) if failed else ("missing", "it has not run")


def _result(
    point: MeasuredPoint, series: list[MeasuredPoint], wanted: int, results: Results, unit: Unit
) -> PointResult:
    request, good, base = point.request, point.good_runs, _baseline(series, wanted, point)
    rates = [run.rates for run in good]
    outcome, reason = _outcome(point)
    speedup = ratio(rates, [run.rates for run in base.good_runs]) if good and base else None
    images_per_s = summarize(rates) if good else None
    return PointResult(
        study=results.study.name,
        node=results.study.node,
        request=request,
        outcome=outcome,
        reason=reason,
        images_per_s=images_per_s,
        iterations_per_s=images_per_s.scaled(1 / request.batch_size) if images_per_s else None,
        speedup=speedup,
        efficiency=speedup.scaled(base.request.gpus / request.gpus) if speedup and base else None,
        unit=unit,
        baseline=_label(series, base, wanted, unit),
        limits=limits(point) if good else None,
        lost=lost_time(point, base) if good and base else None,
        workload=next((run.workload for run in point.runs if run.workload), None),
        notes=[*_outlying(good), *_warned(good)],
    )


def _label(series: list[MeasuredPoint], base: MeasuredPoint | None, wanted: int, unit: Unit) -> str:
    """The baseline in words, with the reason where it is not the one that was asked for."""
    if base is None:
        return "none"
    alike = [point for point in series if point.good_runs and point.request.gpus == base.request.gpus]
    devices = f" {base.request.devices}" if base.request.devices and len(alike) > 1 else ""
    if base.request.gpus == wanted:
        return how_many(wanted, unit) + devices
    asked = [run.outcome for point in series if point.request.gpus == wanted for run in point.runs]
    instead = asked[0] if asked else "not measured"
    return f"{how_many(base.request.gpus, unit)}{devices} ({how_many(wanted, unit)}: {instead})"


# What can only slow a run down, by the codes of its warnings.
_SLOWING = {"throttled", "uneven-clocks", "link-errors", "foreign-load", "oversubscribed", "shared-gpus", "warm-up"}


def _outlying(good: list[RunSummary]) -> list[str]:
    """The runs that stand out, with what their records know of the cause."""
    notes = []
    for outlier in outliers([run.rates for run in good]) if good else []:
        causes = ", ".join(_causes(good, outlier.run, slow=outlier.deviation < 0)) or "cause unknown"
        notes.append(f"run {good[outlier.run].repeat} stands out by {outlier.deviation:+.0%} ({causes})")
    return notes


def _causes(good: list[RunSummary], place: int, slow: bool) -> list[str]:
    """What sets a run apart from all others, as far as it explains a slow, or else a fast one."""
    run, others = good[place], good[:place] + good[place + 1 :]
    usual = {warning.code for other in others for warning in other.warnings}
    own = dict.fromkeys(warning.code for warning in run.warnings if warning.code not in usual)
    if not slow:
        return [code for code in own if code not in _SLOWING]
    first = run.started_at < min(other.started_at for other in others)
    return [*own, *["the first run of this point"] * first]


def _warned(good: list[RunSummary]) -> list[str]:
    """What any run warned of, with the number of runs that did."""
    counts = Counter(code for run in good for code in dict.fromkeys(warning.code for warning in run.warnings))
    return [f"{code} ({count} of {len(good)} runs)" for code, count in counts.items()]
