"""Two studies side by side: how much faster B is than A, how sure that is, and what it may be due to.

The ratio and its interval come first. A t test of each point, under control of the false discoveries over all of them,
says which differences are shown, as in `explain`, and where the runs are too few to show any. What else differs between
the studies stands beside it: settings, one-GPU rates and clocks (`controls`), machines and software (`machines`).
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from resnetx import __version__
from resnetx.record import SCHEMA, RunSummary
from resnetx.record.comparisons import (
    Agreement,
    ComparedPoint,
    ComparedStudy,
    Comparison,
    Control,
    Letter,
    Mean,
    StudySide,
    Unmatched,
)
from resnetx.reporting.explain_benches import differences
from resnetx.reporting.study_points import StudyPoint, match, study_points, unit_of_points
from resnetx.reporting.study_scaling import Results
from resnetx.statistics import MIN_RUNS, MIN_RUNS_FOR_T, Runs, Summary, adjusted_p, derived, shown_differences, t_test
from resnetx.table import ONLY_WITH_ALL, Answer, Column, as_shown
from resnetx.units import how_many, on_cores, si, to_interval

_Finding = tuple[float, Literal["different", "no difference shown"]]  # the adjusted p of a tested point

# The same point in two studies, and quotients of what was measured there: B over A, and ratios of speed-ups.

Quotient = tuple[tuple[Runs, ...], tuple[Runs, ...]]  # rates over rates, each a set of runs


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
        return (self.b.rates,), (self.a.rates,)

    def speedup(self, base: "PointPair") -> Quotient:
        """How many times the speed-up of A over the baseline B has over the same."""
        return (self.b.rates, base.a.rates), (self.a.rates, base.b.rates)


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
    signed = [(runs, sign) for quotient in quotients for of, sign in zip(quotient, (1, -1), strict=True) for runs in of]
    sets, powers = [runs for runs, _ in signed], [sign / len(quotients) for _, sign in signed]
    fewest = min(map(len, sets))
    if len(quotients) == 1 or fewest >= MIN_RUNS:
        return derived(lambda *rates: np.exp(sum(p * np.log(r) for p, r in zip(powers, rates, strict=True))), *sets)
    single = [mean([quotient]) for quotient in quotients]
    median = statistics.geometric_mean(summary.median for summary in single)
    low = statistics.geometric_mean(summary.low for summary in single)
    high = statistics.geometric_mean(summary.high for summary in single)
    return Summary(median, low, high, fewest, "range")


# ---- studies compared ------------------------------------------------------------------------------------------------


def compare(a: Results, b: Results, baseline: int | None = None) -> Comparison:
    """B over A. `baseline`: GPUs of the denominator of speed-ups; None: as study A says."""
    matched = match(a.study.points, b.study.points)
    points_a, points_b = ({point.request.key: point for point in study_points([study])} for study in (a, b))
    pairs = [PointPair(points_a[one.key], points_b[other.key]) for one, other in matched.pairs]
    wanted = baseline or a.study.baseline
    over, findings = baselines(pairs, wanted), _findings(pairs)
    runs_a, runs_b = _runs_of_both(pairs, a, b)
    return Comparison(
        kind="comparison",
        schema=SCHEMA,
        resnetx=__version__,
        a=_study(a),
        b=_study(b),
        settings=matched.settings,
        points=[_compared(pair, over.get(pair.series), wanted, findings.get(pair.key)) for pair in pairs],
        only_in_one=[
            *(_unmatched("A", points_a[request.key]) for request in matched.only_a),
            *(_unmatched("B", points_b[request.key]) for request in matched.only_b),
        ],
        means=_means(pairs, over),
        controls=[one_gpu_rates(pairs), clocks(pairs)],
        tolerance=TOLERANCE,
        enough_runs=MIN_RUNS_FOR_T,
        machines=differences(runs_a, runs_b),
        unit=unit_of_points(point for pair in pairs for point in (pair.a, pair.b)),
    )


def _runs_of_both(pairs: Sequence[PointPair], a: Results, b: Results) -> tuple[list[RunSummary], list[RunSummary]]:
    """The runs of the points that ran in both studies, well or not."""
    runs_a, runs_b = ({point.request.key: point.runs for point in study.points} for study in (a, b))
    both = [(runs_a[pair.a.request.key], runs_b[pair.b.request.key]) for pair in pairs]
    ran = [(ours, theirs) for ours, theirs in both if ours and theirs]
    return [run for ours, _ in ran for run in ours], [run for _, theirs in ran for run in theirs]


def _study(results: Results) -> ComparedStudy:
    study = results.study
    return ComparedStudy(name=study.name, node=study.node, folder=str(results.folder), skipped=results.skipped)


def _unmatched(study: Letter, point: StudyPoint) -> Unmatched:
    return Unmatched(study=study, point=point.words, outcome=point.result.outcome)


# ---- one point ------------------------------------------------------------------------------------------------------


def _compared(pair: PointPair, base: PointPair | None, wanted: int, finding: _Finding | None) -> ComparedPoint:
    return ComparedPoint(
        workload=pair.a.workload,
        batch=pair.a.batch,
        variant=pair.a.variant,
        request=pair.a.request,
        a=_side(pair.a),
        b=_side(pair.b),
        ratio=mean([pair.rate]) if pair.good else None,
        adjusted_p=finding[0] if finding else None,
        verdict=finding[1] if finding else "too few runs to decide" if pair.good else "not measured",
        speedup_ratio=mean([pair.speedup(base)]) if pair.good and base and base is not pair else None,
        baseline=_baseline(pair, base, wanted),
    )


def _side(point: StudyPoint) -> StudySide:
    result = point.result
    return StudySide(
        request_key=result.request.key,
        outcome=result.outcome,
        reason=result.reason,
        images_per_s=result.images_per_s,
        sm_clock_Hz=point.sm_clock_Hz,
        limited_by=result.limits.why if result.limits else "",
    )


def _baseline(pair: PointPair, base: PointPair | None, wanted: int) -> str:
    if base is None:
        return "none"
    if base is pair:
        return "itself"
    unit = pair.a.result.unit
    instead = f" ({how_many(wanted, unit)}: not in both)" * (base.gpus != wanted)
    return how_many(base.gpus, unit) + instead


# ---- all points -----------------------------------------------------------------------------------------------------


def _findings(pairs: Sequence[PointPair]) -> dict[str, _Finding]:
    """What the tests of all points show together; a point that cannot be tested has none."""
    tests = [t_test(_rates(pair.a), _rates(pair.b)) for pair in pairs]
    found = zip(pairs, adjusted_p(tests), shown_differences(tests), strict=True)
    return {pair.key: (p, "different" if shown else "no difference shown") for pair, p, shown in found if p is not None}


def _rates(point: StudyPoint) -> list[float]:
    """Of each good run."""
    return [run.images_per_s for run in point.good_runs if run.images_per_s]


def _means(pairs: Sequence[PointPair], over: Mapping[str, PointPair]) -> list[Mean]:
    by_gpus: dict[int, list[PointPair]] = defaultdict(list)
    for pair in pairs:
        if pair.good:
            by_gpus[pair.gpus].append(pair)
    return [_mean(gpus, alike, over) for gpus, alike in sorted(by_gpus.items())]


def _mean(gpus: int, pairs: Sequence[PointPair], over: Mapping[str, PointPair]) -> Mean:
    speedups = [pair.speedup(over[pair.series]) for pair in pairs if over[pair.series] is not pair]
    return Mean(
        gpus=gpus,
        points=len(pairs),
        ratio=mean([pair.rate for pair in pairs]),
        speedup_points=len(speedups),
        speedup_ratio=mean(speedups) if speedups else None,
    )


# What has to agree before a difference on several GPUs is attributed to the interconnect: one-GPU rates, and clocks.
#
# Tallent et al. 2017, 2.1, capped both machines at one clock and checked that one GPU was as fast in either.

TOLERANCE = 0.03  # two steps of 15 MHz of a GPU's clock are 2 to 3 %

_ORDER: tuple[Agreement, ...] = ("differ", "open", "agree")  # the first that any point shows is the whole's


def one_gpu_rates(pairs: Sequence[PointPair]) -> Control:
    """Whether one GPU is as fast in both studies, with every workload."""
    ratios = [(mean([pair.rate]), pair) for pair in pairs if pair.gpus == 1 and pair.good]
    if not ratios:
        return Control(name="one-GPU rate", agreement="unknown", why="no one-GPU case ran well in both")
    judged = [agreement(ratio) for ratio, _ in ratios]
    overall = next(judgement for judgement in _ORDER if judgement in judged)
    deciding = [each for each, judgement in zip(ratios, judged, strict=True) if judgement == overall]
    ratio, pair = max(deciding, key=lambda each: abs(math.log(each[0].median)))
    others = f"{len(deciding)} of {len(ratios)} cases, " * (len(ratios) > 1)
    return Control(
        name="one-GPU rate",
        agreement=overall,
        why=f"{others}largest difference at {pair.words}: B / A {in_words(ratio)}",
    )


def agreement(ratio: Summary) -> Agreement:
    """Whether a ratio is 1 within the tolerance, is not, or may be either. A range counts as what it is worth."""
    half = ratio.spread * ratio.median
    low, high = (ratio.median - half, ratio.median + half) if ratio.kind == "range" else (ratio.low, ratio.high)
    if max(1 - low, high - 1) <= TOLERANCE:
        return "agree"
    beyond = abs(ratio.median - 1) > TOLERANCE
    return "differ" if beyond and not low <= 1 <= high else "open"


def clocks(pairs: Sequence[PointPair]) -> Control:
    """Whether the GPUs ran at the same sustained clock at every point, and held one where they were locked at it."""
    known = [
        (pair.b.sm_clock_Hz / pair.a.sm_clock_Hz, pair)
        for pair in pairs
        if pair.a.sm_clock_Hz is not None and pair.b.sm_clock_Hz is not None
    ]
    if not known:
        return Control(name="SM clock", agreement="unknown", why="no SM clock is recorded in both")
    ratio, pair = max(known, key=lambda each: abs(math.log(each[0])))
    clock_a, clock_b = (si(side.sm_clock_Hz or 0, "Hz") for side in (pair.a, pair.b))
    why = f"largest difference at {pair.words}: {clock_a} in A, {clock_b} in B"
    locks = [
        _locked("A", [run for pair in pairs for run in pair.a.good_runs]),
        _locked("B", [run for pair in pairs for run in pair.b.good_runs]),
    ]
    if any(locks):
        why += "; " + ", ".join(words or f"{letter} was not locked" for letter, words in zip("AB", locks, strict=True))
    if abs(ratio - 1) > TOLERANCE:
        return Control(name="SM clock", agreement="differ", why=why)
    held = not any(words and "held" not in words for words in locks)
    return Control(name="SM clock", agreement="agree" if held else "open", why=why)


def _locked(study: str, runs: Sequence[RunSummary]) -> str:
    """Whether a study held the clocks that its GPUs were locked at (`clock=`); "" where they were not."""
    summaries = [run for run in runs if run.request.clock is not None]
    if not summaries:
        return ""
    clocks = " and ".join(dict.fromkeys(f"{run.request.clock} MHz" for run in summaries))
    failed = [run for run in summaries if run.clock is None or run.clock.why_not]
    if failed:
        why = failed[0].clock.why_not if failed[0].clock else "its clocks could not be read"
        return f"{study} was locked at {clocks} and did not keep to it in {len(failed)} of {len(runs)} runs ({why})"
    return f"{study} held {clocks} in every window" + f" of {len(summaries)} of {len(runs)} runs" * (
        len(summaries) < len(runs)
    )


def in_words(ratio: Summary) -> str:
    """A ratio with its ends: "1.21 (1.19 to 1.23)"."""
    return f"{_ratio(ratio)} ({_ratio_ends(ratio)})" if ratio.n > 1 else f"{ratio.median:.3f} (1 run)"


# The conclusion of a comparison in sentences: the figures first, then what a difference may be due to.

ENDS = {"interval": "95% interval", "range": "range"}  # what `Summary.low` and `high` are


def conclusion(comparison: Comparison) -> list[str]:
    """Sentences in the order in which they matter."""
    same = ["A and B are one study: every ratio is 1."] * (comparison.a.folder == comparison.b.folder)
    if not comparison.means:
        return [*same, "No case ran well in both studies: there is nothing to compare.", *_settings(comparison)]
    return [*same, _answer(comparison), *_settings(comparison), _attribution(comparison)]


def _answer(comparison: Comparison) -> str:
    """The mean on the largest number of GPUs, and of how many points the runs show it."""
    last, counts = comparison.means[-1], Counter(point.verdict for point in comparison.points)
    few, different = counts["too few runs to decide"], counts["different"]
    common = sum(counts.values()) - counts["not measured"]
    value, low, high = to_interval(last.ratio.median, last.ratio.low, last.ratio.high)
    much = f"{value} times ({low} to {high})" if last.ratio.n > 1 else f"{value} times"
    what = f"B trains {much} as fast as A on {how_many(last.gpus, comparison.unit, 'one')}{on_cores(comparison.unit)}"
    means = f" (geometric mean of {last.points} cases)" * (last.points > 1)
    if few == common:
        enough = comparison.enough_runs
        cases = f"all {common} common cases" if common > 1 else "the common case"
        remedy = f"repeats={enough} could decide {cases}" if enough else "more repeats could"
        return f"Not decided: {what}{means}, from too few runs; {remedy}."
    shown = (
        f"{different} of {common} common cases differ"
        if different
        else f"no difference is shown at {common - few} cases"
    )
    shown += f", {few} have too few runs to decide" * bool(few)
    speedup = f" Its speed-up there is {in_words(last.speedup_ratio)} times that of A." if last.speedup_ratio else ""
    return f"{what}{means}: {shown} (t tests, at most 5% false).{speedup}"


def _settings(comparison: Comparison) -> Iterator[str]:
    if comparison.settings:
        settings = [
            f"{setting.name} ({', '.join(setting.a)} in A, {', '.join(setting.b)} in B)"
            for setting in comparison.settings
        ]
        yield f"Measured with different settings, to which a difference may be due: {'; '.join(settings)}."


def _attribution(comparison: Comparison) -> str:
    """What differences on several GPUs, or ranks on CPU cores, may be due to, by the controls."""
    told = _attributed(comparison)
    return told if comparison.unit == "GPU" else told.replace("GPU", comparison.unit)


def _attributed(comparison: Comparison) -> str:
    if comparison.means[-1].gpus == 1:
        return "Only one-GPU cases ran well in both: they say nothing about the interconnect."
    rate, clock = comparison.controls
    tolerance = f"{100 * comparison.tolerance:.0f}%"
    if wrong := [control for control in (rate, clock) if control.agreement == "differ"]:
        causes = " and ".join(f"{control.name}s differ by more than {tolerance} ({control.why})" for control in wrong)
        return (
            f"{_upper(causes)}: a difference on several GPUs is not due to the interconnect alone; read the ratio of "
            "speed-ups, each over its own one GPU (a faster GPU also leaves less time in which to hide communication)."
        )
    return _upper(_without_difference(rate, clock, tolerance))


def _without_difference(rate: Control, clock: Control, tolerance: str) -> str:
    if rate.agreement == "unknown":
        return f"{rate.why}: how much of a difference is due to the interconnect is unknown; measure gpus=1 in both."
    if rate.agreement == "open":
        return (
            f"whether one-GPU rates agree within {tolerance} is not shown ({rate.why}): a difference on several GPUs "
            "cannot be attributed to the interconnect yet; raise repeats."
        )
    clocks = "SM clocks are not known" if clock.agreement == "unknown" else "so do SM clocks"
    return (
        f"one-GPU rates agree within {tolerance} ({rate.why}) and {clocks}: a difference on several GPUs is due to how "
        "they exchange gradients, or to what else is listed as different."
    )


def _upper(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


# ---- columns --------------------------------------------------------------------------------------------------------


def shown_comparison(compared: Comparison) -> Answer:
    """The conclusion, and the means over the cases."""
    return Answer(conclusion(compared), as_shown(mean_columns(compared), compared.means))


def mean_columns(compared: Comparison) -> list[Column[Mean]]:
    """The geometric means over the cases on each number of GPUs."""
    return [
        Column(f">{compared.unit}s", lambda mean: f"{mean.gpus}"),
        Column(">cases", lambda mean: f"{mean.points}"),
        Column(">rate B / A", lambda mean: _ratio(mean.ratio)),
        Column("ends", lambda mean: _ratio_ends(mean.ratio)),
        Column(">speed-up B / A", lambda mean: _ratio(mean.speedup_ratio)),
        Column("its ends", lambda mean: _ratio_ends(mean.speedup_ratio), 2),
        Column(">of cases", lambda mean: f"{mean.speedup_points}" if mean.speedup_ratio else "", 1),
    ]


def compared_columns(compared: Comparison) -> list[Column[ComparedPoint]]:
    """Each case that is in both studies."""
    baselines = ", ".join(dict.fromkeys(point.baseline for point in compared.points if point.speedup_ratio))
    kinds = {point.ratio.kind for point in compared.points if point.ratio}
    ends = " or ".join(words for kind, words in ENDS.items() if kind in kinds)
    return [
        Column("workload", lambda point: point.workload),
        Column(">batch", lambda point: point.batch.removeprefix("batch ")),
        Column("settings", lambda point: point.variant),
        Column(f">{compared.unit}s", lambda point: f"{point.request.gpus}"),
        Column(">rate B / A", lambda point: _ratio(point.ratio)),
        Column("ends", lambda point: _ratio_ends(point.ratio), help=f"of the ratio, {ends or 'range'}."),
        Column("difference", lambda point: point.verdict),
        Column(">p", lambda point: "" if point.adjusted_p is None else f"{point.adjusted_p:.2g}", 5, _OF_TESTS),
        Column(">speed-up B / A", lambda point: _ratio(point.speedup_ratio), 7, f"over {baselines}." * bool(baselines)),
        Column("its ends", lambda point: _ratio_ends(point.speedup_ratio), 6),
        Column(">A images/s", lambda point: _side_rate(point.a), 4),
        Column(">B images/s", lambda point: _side_rate(point.b), 4),
        Column(">A runs", lambda point: _side_runs(point.a), 3),
        Column(">B runs", lambda point: _side_runs(point.b), 3),
        Column("A limited by", lambda point: point.a.limited_by, ONLY_WITH_ALL),
        Column("B limited by", lambda point: point.b.limited_by, ONLY_WITH_ALL),
    ]


_OF_TESTS = "of t tests, adjusted for the number of cases."


def _ratio(ratio: Summary | None) -> str:
    if ratio is None or ratio.n == 1:
        return "" if ratio is None else f"{ratio.median:.3f}"
    return to_interval(ratio.median, ratio.low, ratio.high)[0]


def _ratio_ends(ratio: Summary | None) -> str:
    return " to ".join(to_interval(ratio.median, ratio.low, ratio.high)[1:]) if ratio and ratio.n > 1 else ""


def _side_rate(side: StudySide) -> str:
    return to_interval(*[side.images_per_s.median] * 3)[0] if side.images_per_s else side.outcome


def _side_runs(side: StudySide) -> str:
    return f"{side.images_per_s.n}" if side.images_per_s else "0"


UNMATCHED_POINTS: list[Column[Unmatched]] = [
    Column("in", lambda point: point.study),
    Column("case", lambda point: point.point),
    Column("outcome", lambda point: point.outcome),
]
