"""Two studies side by side: how much faster B is than A, how sure that is, and what it may be laid on.

The ratio and its interval come first. A permutation test of each point, under control of the false discoveries over all
of them, says which differences are shown, and where the runs are too few to show any. What else differs between the
studies stands beside it: settings, one-GPU rates and clocks (`controls`), machines and software (`machines`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from resnetx import __version__
from resnetx.record import SCHEMA
from resnetx.record.comparison import ComparedPoint, ComparedStudy, Comparison, Mean, Side, Study, Unmatched
from resnetx.reporting.compare import controls
from resnetx.reporting.compare.machines import differences
from resnetx.reporting.compare.matching import match
from resnetx.reporting.compare.pairs import Measured, Pair, bases, mean
from resnetx.reporting.study.results import Results
from resnetx.reporting.study.scaling import rows
from resnetx.reporting.study.series import named
from resnetx.statistics import LEVEL, Finding, false_discovery, permutation_test, smallest_p

_FEWEST_TESTED = 2  # runs on a side: one has no spread
_MOST_ADVISED = 20  # runs of a point


def compare(a: Results, b: Results, baseline: int | None = None) -> Comparison:
    """B over A. `baseline`: GPUs of the denominator of speed-ups; None: as study A says."""
    matched = match(a.study.points, b.study.points)
    ours, theirs = _measured(a), _measured(b)
    pairs = [Pair(ours[one.key], theirs[other.key]) for one, other in matched.pairs]
    wanted = baseline or a.study.baseline
    over, findings = bases(pairs, wanted), _findings(pairs)
    ran = [pair for pair in pairs if pair.a.point.runs and pair.b.point.runs]
    return Comparison(
        kind="comparison",
        schema=SCHEMA,
        resnetx=__version__,
        a=_study(a),
        b=_study(b),
        settings=matched.settings,
        points=[_compared(pair, over.get(pair.series), wanted, findings.get(pair.key)) for pair in pairs],
        only_in_one=[
            *(_unmatched("A", ours[request.key]) for request in matched.only_a),
            *(_unmatched("B", theirs[request.key]) for request in matched.only_b),
        ],
        means=_means(pairs, over),
        controls=[controls.one_gpu_rates(pairs), controls.clocks(pairs)],
        tolerance=controls.TOLERANCE,
        enough_runs=_enough_runs(sum(pair.good for pair in pairs)),
        machines=differences(
            [run for pair in ran for run in pair.a.point.runs], [run for pair in ran for run in pair.b.point.runs]
        ),
    )


def _measured(results: Results) -> dict[str, Measured]:
    """The points of a study by the key of their request."""
    names = named([(results, rows(results))])
    return {point.request.key: Measured(name, point) for name, point in zip(names, results.points, strict=True)}


def _study(results: Results) -> ComparedStudy:
    study = results.study
    return ComparedStudy(name=study.name, node=study.node, folder=str(results.folder), aside=results.aside)


def _unmatched(study: Study, measured: Measured) -> Unmatched:
    return Unmatched(study=study, point=measured.named.words, outcome=measured.named.row.outcome)


# ---- one point ------------------------------------------------------------------------------------------------------


def _compared(pair: Pair, base: Pair | None, wanted: int, finding: Finding | None) -> ComparedPoint:
    name = pair.a.named
    return ComparedPoint(
        workload=name.workload,
        batch=name.batch,
        variant=name.variant,
        request=name.row.request,
        a=_side(pair.a),
        b=_side(pair.b),
        ratio=mean([pair.rate]) if pair.good else None,
        adjusted_p=finding.adjusted_p if finding else None,
        verdict=finding.verdict if finding else "too few runs to decide" if pair.good else "not measured",
        speedup_ratio=mean([pair.speedup(base)]) if pair.good and base and base is not pair else None,
        baseline=_baseline(pair, base, wanted),
    )


def _side(measured: Measured) -> Side:
    row = measured.named.row
    return Side(
        request_key=row.request.key,
        outcome=row.outcome,
        reason=row.reason,
        images_per_s=row.images_per_s,
        sm_clock_Hz=measured.sm_clock_Hz,
        limited_by=row.limits.why if row.limits else "",
    )


def _baseline(pair: Pair, base: Pair | None, wanted: int) -> str:
    if base is None:
        return "none"
    if base is pair:
        return "itself"
    instead = f" ({_gpus(wanted)}: not in both)" * (base.gpus != wanted)
    return _gpus(base.gpus) + instead


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count > 1)}"


# ---- all points -----------------------------------------------------------------------------------------------------


def _findings(pairs: Sequence[Pair]) -> dict[str, Finding]:
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
    return [_mean(gpus, found, over) for gpus, found in sorted(by_gpus.items())]


def _mean(gpus: int, pairs: Sequence[Pair], over: Mapping[str, Pair]) -> Mean:
    speedups = [pair.speedup(over[pair.series]) for pair in pairs if over[pair.series] is not pair]
    return Mean(
        gpus=gpus,
        points=len(pairs),
        ratio=mean([pair.rate for pair in pairs]),
        speedup_points=len(speedups),
        speedup_ratio=mean(speedups) if speedups else None,
    )
