"""Two studies side by side: how much faster B is than A, how sure that is, and what it may be due to.

The ratio and its interval come first. A permutation test of each point, under control of the false discoveries over all
of them, says which differences are shown, and where the runs are too few to show any. What else differs between the
studies stands beside it: settings, one-GPU rates and clocks (`controls`), machines and software (`machines`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from resnetx import __version__
from resnetx.record import SCHEMA, RunSummary
from resnetx.record.comparison import ComparedPoint, ComparedStudy, Comparison, Letter, Mean, StudySide, Unmatched
from resnetx.record.machine import how_many
from resnetx.reporting.compare import controls
from resnetx.reporting.compare.machines import differences
from resnetx.reporting.compare.matched_points import match
from resnetx.reporting.compare.pairs import Pair, baselines, mean
from resnetx.reporting.study.points import StudyPoint, study_points, unit_of_points
from resnetx.reporting.study.results import Results
from resnetx.statistics import LEVEL, AdjustedTest, false_discovery, permutation_test, smallest_p

_FEWEST_TESTED = 2  # runs on a side: one has no spread
_MOST_ADVISED = 20  # runs of a point


def compare(a: Results, b: Results, baseline: int | None = None) -> Comparison:
    """B over A. `baseline`: GPUs of the denominator of speed-ups; None: as study A says."""
    matched = match(a.study.points, b.study.points)
    points_a, points_b = ({point.request.key: point for point in study_points([study])} for study in (a, b))
    pairs = [Pair(points_a[one.key], points_b[other.key]) for one, other in matched.pairs]
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
        controls=[controls.one_gpu_rates(pairs), controls.clocks(pairs)],
        tolerance=controls.TOLERANCE,
        enough_runs=_enough_runs(sum(pair.good for pair in pairs)),
        machines=differences(runs_a, runs_b),
        unit=unit_of_points(point for pair in pairs for point in (pair.a, pair.b)),
    )


def _runs_of_both(pairs: Sequence[Pair], a: Results, b: Results) -> tuple[list[RunSummary], list[RunSummary]]:
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


def _compared(pair: Pair, base: Pair | None, wanted: int, finding: AdjustedTest | None) -> ComparedPoint:
    return ComparedPoint(
        workload=pair.a.workload,
        batch=pair.a.batch,
        variant=pair.a.variant,
        request=pair.a.request,
        a=_side(pair.a),
        b=_side(pair.b),
        ratio=mean([pair.rate]) if pair.good else None,
        adjusted_p=finding.adjusted_p if finding else None,
        verdict=finding.verdict if finding else "too few runs to decide" if pair.good else "not measured",
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


def _baseline(pair: Pair, base: Pair | None, wanted: int) -> str:
    if base is None:
        return "none"
    if base is pair:
        return "itself"
    unit = pair.a.result.unit
    instead = f" ({how_many(wanted, unit)}: not in both)" * (base.gpus != wanted)
    return how_many(base.gpus, unit) + instead


# ---- all points -----------------------------------------------------------------------------------------------------


def _findings(pairs: Sequence[Pair]) -> dict[str, AdjustedTest]:
    """What the tests of all points show together; a point that cannot be tested has none."""
    tested = [pair for pair in pairs if min(len(pair.a.rates), len(pair.b.rates)) >= _FEWEST_TESTED]
    tests = [permutation_test(pair.b.rates, pair.a.rates) for pair in tested]
    return dict(zip((pair.key for pair in tested), false_discovery(tests), strict=True))


def _enough_runs(points: int) -> int | None:
    """Runs of each point, in both studies, with which even a lone difference among `points` can be shown."""
    able = (runs for runs in range(_FEWEST_TESTED, _MOST_ADVISED + 1) if smallest_p(runs, runs) * points <= LEVEL)
    return next(able, None)


def _means(pairs: Sequence[Pair], over: Mapping[str, Pair]) -> list[Mean]:
    by_gpus: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.good:
            by_gpus[pair.gpus].append(pair)
    return [_mean(gpus, alike, over) for gpus, alike in sorted(by_gpus.items())]


def _mean(gpus: int, pairs: Sequence[Pair], over: Mapping[str, Pair]) -> Mean:
    speedups = [pair.speedup(over[pair.series]) for pair in pairs if over[pair.series] is not pair]
    return Mean(
        gpus=gpus,
        points=len(pairs),
        ratio=mean([pair.rate for pair in pairs]),
        speedup_points=len(speedups),
        speedup_ratio=mean(speedups) if speedups else None,
    )
