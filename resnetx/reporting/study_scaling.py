"""A study as it was measured, and how it scales: rate, speed-up, efficiency, intensity and limit of each point."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

import msgspec
import numpy as np

from resnetx import record
from resnetx.choices import NoExchange, SyntheticInput
from resnetx.errors import ConfigError, FileError
from resnetx.loading import is_file, is_folder
from resnetx.record import (
    Copies,
    GradientBucket,
    Phases,
    RunSummary,
    RunSummaryReader,
    StudyFolder,
    StudyRecord,
    Workload,
)
from resnetx.record.machine import unit_of
from resnetx.request import Request, TwinName
from resnetx.statistics import Floats, Runs, Summary, derived, of_blocks, outliers, ratio, summarize
from resnetx.units import Unit, how_many

# The points of a study, each with its runs and the runs of its twins.


@dataclass(frozen=True)
class MeasuredPoint:
    """One point of a study with its runs and those of its twins. A point that has not run has none."""

    request: Request
    runs: list[RunSummary]
    twins: dict[TwinName, list[RunSummary]]

    @property
    def good_runs(self) -> list[RunSummary]:
        return [run for run in self.runs if run.rates]


@dataclass(frozen=True)
class Results:
    """All that a study's folder holds."""

    study: StudyRecord
    folder: Path
    points: list[MeasuredPoint]
    skipped: list[str]  # a sentence for each file that is not a record, or whose run another one holds

    def __repr__(self) -> str:
        runs = sum(1 for _ in self.runs)
        return f"Results of study {self.study.name}: {len(self.points)} cases, {runs} runs, in {self.folder}"

    @property
    def runs(self) -> Iterator[RunSummary]:
        """Every run of every point and twin, each once: points may share twins."""
        lists = (runs for point in self.points for runs in (point.runs, *point.twins.values()))
        yield from {run.folder: run for runs in lists for run in runs}.values()


def find(path: Path) -> list[StudyFolder]:
    """The studies in a folder, which may be one itself."""
    if is_file(path):
        raise ConfigError(f"{path}: a file; expected a folder that `resnetx sweep` has made")
    folders = [StudyFolder(file.parent) for file in sorted(path.rglob(StudyFolder(path).study.name))]
    if not folders:
        if not is_folder(path):
            raise ConfigError(f"{path}: no such folder; expected a folder written by `resnetx sweep`")
        raise ConfigError(f"{path}: contains no study; expected a folder written by `resnetx sweep`")
    return folders


def load(folder: StudyFolder) -> Results:
    """A study from its folder; a record that cannot be read, or is a copy of another, is skipped with a sentence."""
    study = record.read(folder.study, StudyRecord)
    summaries: list[RunSummary] = []
    skipped, read_summary = [], RunSummaryReader()
    for run in folder.runs():
        try:
            summaries.append(read_summary(run))
        except FileError as error:
            skipped.append(str(error))
    runs, copies = _without_copies(summaries, folder)
    return Results(study, folder.path, list(points(study.points, runs)), skipped + copies)


def _without_copies(
    summaries: Iterable[RunSummary], folder: StudyFolder
) -> tuple[dict[str, list[RunSummary]], list[str]]:
    """The runs by the key of their request, and a sentence for each further record of a run.

    Of several the one counts that lies where `sweep` puts it: a copy may be older.
    """
    found: dict[tuple[str, int], list[RunSummary]] = defaultdict(list)
    for run in summaries:
        found[run.key, run.repeat].append(run)
    kept, copies = [], []
    for same in found.values():
        if len(same) > 1:  # where a run belongs takes longer to tell than to read it
            same.sort(key=lambda run: run.folder != folder.run(run.request.slug, run.repeat).path)
        first, *others = same
        kept.append(first)
        copies += [
            f"{run.folder}: not counted, as {first.folder.name} holds run {run.repeat} of this case" for run in others
        ]
    runs: dict[str, list[RunSummary]] = defaultdict(list)
    for run in sorted(kept, key=lambda run: run.folder):
        runs[run.key].append(run)
    return runs, copies


def points(requests: Iterable[Request], runs: dict[str, list[RunSummary]]) -> Iterator[MeasuredPoint]:
    """The points of the requests; `runs` by the key of their request."""
    for request in requests:
        twins = {name: runs.get(twin.key, []) for name, twin in request.controls.items()}
        yield MeasuredPoint(request, runs.get(request.key, []), twins)


def study_labels(studies: Sequence[Results]) -> list[str]:
    """What tells studies apart: their node, their name, or both, else their folder; "" for a study that is alone."""
    if len(studies) == 1:
        return [""]
    for parts in (["node"], ["name"], ["node", "name"]):
        labels = [" ".join(getattr(results.study, part) for part in parts) for results in studies]
        if len(set(labels)) == len(labels):
            return labels
    return [str(results.folder) for results in studies]


# What limits a point: how much of its step each part of the work takes. A twin leaves one part out; what the step gets
# shorter by is its cost beyond what was hidden; the rest is computing. Where a twin took longer, by more than chance,
# no share is known. On GPUs, time in which no kernel runs and nothing waits for input is the host's, at least, by the
# profiler of the instrumented twin; on a CPU rank the two are one.

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
    copies: Copies | None  # of a step, of that run
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
    elif any(device.name != "CPU" for run in point.good_runs for device in run.devices or []):
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
        copies=instrumented[-1].copies if instrumented else None,
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


# Where the scaling of a measured point went: the time of its step in parts, each beyond what linear scaling leaves.
#
# The parts are those of predictions (`prediction/iteration.py`), by the runs of a point and of its twins: T is the
# step, T_syn with synthetic input, A without exchange (the mean over ranks: the slowest of them still waits), and of
# the point that the speed-up is over, on b of n GPUs, the same. With `scaling=weak`, read 1 for b / n.
#
#     useful          T(b) b / n
#     input           [T(n) - T_syn(n)] - [T(b) - T_syn(b)] b / n
#     smaller batches T_solo - T_syn(b) b / n, where the control `solo` ran (one rank with its share), over one rank
#     communication   of T(n) - A the share x / (x + w): from the moment at which the last rank has the gradients of the
#                     last message to its end, on average over the steps of an instrumented run
#     waiting         the rest of it: until that moment, from the mean over ranks
#     the rest        what is left: smaller batches (else), launches, the host. They sum to T(n)
#
# Runs of one repeat share the state of the machine, so intervals come from repeats drawn as blocks: all twins of one
# together. From fewer than `MIN_RUNS` repeats there is no interval.

MeasuredPartName = Literal[
    "useful", "input", "communication", "waiting", "communication and waiting", "smaller batches", "the rest"
]
LEAST_REST = -0.05  # of the step: what is left after all parts, below which these do not hold together


class MeasuredPart(msgspec.Struct, frozen=True):
    """A part of the step of a point."""

    name: MeasuredPartName
    time_s: float  # median
    share: Summary  # of the step; all parts of a point sum to 1

    @property
    def shown(self) -> bool:
        """Whether the runs show that it is there at all."""
        return self.share.kind == "interval" and (self.share.low > 0 or self.share.high < 0)


class LostTime(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the step of a point, over its baseline."""

    parts: list[MeasuredPart]  # [] where they are not known
    why: str  # they, or some of them, are not known; "" where all are
    repeats: int = 0  # that have a good run of each control: the parts are of these


@dataclass(frozen=True)
class _Blocks:
    """Of one point, by repeat: seconds of a step, and of its twins."""

    step_s: dict[int, float]
    twins_s: dict[TwinName, dict[int, float]]
    last_message: dict[int, tuple[float, float]]  # seconds that it is exposed, and that ranks wait before it


def lost_time(point: MeasuredPoint, base: MeasuredPoint) -> LostTime:
    """Where the time of a point went, that has a good run as its baseline has."""
    request, of = point.request, base.request
    linear = request.batch_size / of.batch_size * of.gpus / request.gpus  # with scaling=weak all of the step there
    own, other = _blocks(point), _blocks(base)
    reads = not isinstance(request.input, SyntheticInput)
    sends = request.gpus > 1 and not isinstance(request.strategy, NoExchange)
    needed: list[tuple[str, dict[int, float]]] = [("", own.step_s), ("", other.step_s)]
    if reads:
        needed += [("synthetic", blocks.twins_s["synthetic"]) for blocks in (own, other)]
    if sends:
        needed.append(("alone", own.twins_s["alone"]))
    if missing := next((name for name, blocks in needed if not blocks), None):
        return LostTime(parts=[], why=f"no control run {missing}; twins=6 adds them")
    repeats = sorted(set.intersection(*(set(blocks) for _, blocks in needed)))
    if not repeats:
        return LostTime(parts=[], why="no repeat has a good run of each control")
    both = sends and set(repeats) <= set(own.last_message)
    solo_s = own.twins_s["solo"]
    solo = of.gpus == 1 and set(repeats) <= set(solo_s)
    columns = [[blocks[repeat] for repeat in repeats] for _, blocks in needed]
    if both:
        columns += [list(times) for times in zip(*(own.last_message[repeat] for repeat in repeats), strict=True)]
    if solo:
        columns.append([solo_s[repeat] for repeat in repeats])
    parts = _lost_parts(linear, reads, sends, both, solo)
    names: list[MeasuredPartName] = ["useful"]
    if reads:
        names.append("input")
    if both:
        names += ["waiting", "communication"]
    elif sends:
        names.append("communication and waiting")
    if solo:
        names.append("smaller batches")
    names.append("the rest")
    both_s = of_blocks(lambda *drawn: np.concatenate([made := parts(*drawn), made / made.sum(0)]), columns)
    times_s, shares = both_s[: len(names)], both_s[len(names) :]
    found = [MeasuredPart(*part) for part in zip(names, (summary.median for summary in times_s), shares, strict=True)]
    for part in found:
        if not LEAST_REST <= part.share.median <= 1 - LEAST_REST:
            why = f"not known from these runs, which put {part.name} at {part.share.median:.0%} of the step"
            return LostTime(parts=[], why=why)
    why = (
        ""
        if both or not sends
        else "no control run with phases tells communication and waiting apart; twins=6 adds them"
    )
    return LostTime(parts=found, why=why, repeats=len(repeats))


def _lost_parts(linear: float, reads: bool, sends: bool, both: bool, solo: bool) -> Callable[..., Floats]:
    """Seconds of each part, from the seconds of steps and controls as `lost_time` lists them."""

    def parts(*times_s: Floats) -> Floats:
        rest = list(times_s)
        step_s, base_s = rest.pop(0), rest.pop(0)
        made, base_synthetic_s = [base_s * linear], base_s
        if reads:
            synthetic_s, base_synthetic_s = rest.pop(0), rest.pop(0)
            made.append(step_s - synthetic_s - (base_s - base_synthetic_s) * linear)
        if sends:
            exchange_s = step_s - rest.pop(0)
            if both:
                exposed_s, waited_s = rest.pop(0), rest.pop(0)
                waiting_s = exchange_s * waited_s / np.maximum(exposed_s + waited_s, 1e-12)
                made += [waiting_s, exchange_s - waiting_s]
            else:
                made.append(exchange_s)
        if solo:
            made.append(rest.pop(0) - base_synthetic_s * linear)
        return np.stack([*made, step_s - sum(made)])

    return parts


def _blocks(point: MeasuredPoint) -> _Blocks:
    twins: dict[TwinName, dict[int, float]] = {
        "synthetic": _steps_s(point.twins.get("synthetic", [])),
        "solo": _steps_s(point.twins.get("solo", [])),
        "alone": {run.repeat: run.rank_step_s for run in point.twins.get("alone", []) if run.rank_step_s},
    }
    last = {run.repeat: times for run in point.twins.get("phases", []) if (times := _last_message(run))}
    return _Blocks(_steps_s(point.good_runs), twins, last)


def _steps_s(runs: Sequence[RunSummary]) -> dict[int, float]:
    return {run.repeat: run.request.batch_size / run.images_per_s for run in runs if run.images_per_s}


def _last_message(run: RunSummary) -> tuple[float, float] | None:
    """For how long the last message is exposed, and how long ranks wait for the slowest before; means over steps."""
    if run.phases is None or not run.buckets:
        return None
    message = run.buckets[-1]
    ready_s, end_s = (_on_one_clock(times, run.phases) for times in (message.ready_s, message.end_s))
    if ready_s is None or end_s is None:
        return None
    last_s = ready_s.max(axis=0)
    return float((end_s.max(axis=0) - last_s).mean()), float((last_s - ready_s.mean(axis=0)).mean())


def _on_one_clock(times_s: list[list[float]] | None, phases: Phases) -> Floats | None:
    """[rank][step] since the barrier before the window; null where the run does not have them of every step."""
    begin = np.array(phases.begin_s)
    return None if times_s is None or (times := np.array(times_s)).shape != begin.shape else times + begin


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
    keys = [point.request.baseline_key for point in results.points]
    for point, key in zip(results.points, keys, strict=True):
        series[key].append(point)
    return [_result(point, series[key], wanted, results, unit) for point, key in zip(results.points, keys, strict=True)]


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
        notes.append(f"run {good[outlier.run].repeat} is an outlier by {outlier.deviation:+.0%} ({causes})")
    return notes


def _causes(good: list[RunSummary], index: int, slow: bool) -> list[str]:
    """What sets a run apart from all others, as far as it explains a slow, or else a fast one."""
    run, summaries = good[index], good[:index] + good[index + 1 :]
    usual = {warning.code for other in summaries for warning in other.warnings}
    own = dict.fromkeys(warning.code for warning in run.warnings if warning.code not in usual)
    if not slow:
        return [code for code in own if code not in _SLOWING]
    first = run.started_at < min(other.started_at for other in summaries)
    return [*own, *["the first run of this case"] * first]


def _warned(good: list[RunSummary]) -> list[str]:
    """What any run warned of, with the number of runs that did."""
    counts = Counter(code for run in good for code in dict.fromkeys(warning.code for warning in run.warnings))
    return [f"{code} ({count} of {len(good)} runs)" for code, count in counts.items()]
