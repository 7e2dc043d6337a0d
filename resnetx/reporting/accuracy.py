"""A prediction beside the measurement that checks it: how far off it was, and whether it said so.

A predicted point and a measured one are the same where everything is alike that a prediction depends on. How long was
measured (steps, windows, warm-up), with which seed, and from which folder the images came, is not among that; CPU
threads are the system's business.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import Generic, TypeVar

from resnetx import __version__
from resnetx.errors import ConfigError
from resnetx.interconnect.systems.system import load
from resnetx.record import SCHEMA
from resnetx.record.comparisons import Accuracy, CheckedAdvantage, CheckedPoint, Total
from resnetx.record.prediction import PredictedPoint, Prediction, digest
from resnetx.reporting.compared_systems import case_words, point_words, refuse_unsound
from resnetx.reporting.study_scaling import MeasuredPoint, Results
from resnetx.request import Request, settings_label, varying_settings
from resnetx.statistics import Summary, derived, ratio
from resnetx.table import Answer, Column, as_shown, fields
from resnetx.units import how_many, off_by, unit_by_library
from resnetx.variables import names_network

LEAST_ALLOWED = 0.10  # of the measured time

# What a predicted and a measured point may differ in.
_FREE = {"threads", "warmup", "steps", "windows", "seed", "devices", "nodes", "measure", "scaling"}

T = TypeVar("T")
CaseKey = tuple[tuple[str, str], ...]
_Pair = tuple[CheckedPoint, MeasuredPoint]


def check(prediction: Prediction, results: Results) -> Accuracy:
    """Every point that is both in the prediction and in the study; a `ConfigError` if there is none."""
    refuse_unsound(prediction)
    predicted = AlikeCases((point.request, point) for point in prediction.points if point.request)
    stepped = [point for point in results.points if point.request.measure == "step"]
    keys = varying_settings([(point.request, "") for point in stepped])
    made_at = _time(prediction.made_at, "the prediction")
    pairs = [(_checked(each, point, made_at, keys), point) for point in stepped for each in predicted.of(point.request)]
    if not pairs:
        raise ConfigError(
            f"no case of study {results.study.name} was predicted: expected a prediction with its workloads, batches, "
            "precision, strategy and gpus"
        )
    measured = AlikeCases((point.request, point) for point in stepped)
    advantages = list(_advantages(pairs))
    return Accuracy(
        kind="accuracy",
        schema=SCHEMA,
        resnetx=__version__,
        prediction=prediction.digest,
        made_at=prediction.made_at,
        study=results.study.name,
        node=results.study.node,
        folder=str(results.folder),
        points=[point for point, _ in pairs],
        advantages=advantages,
        totals=list(_totals([point for point, _ in pairs], advantages)),
        not_measured=[
            f"{point_words(point)} on {point.system}, {point.library}"
            for point in prediction.points
            if point.request is None or not measured.of(point.request)
        ],
        not_predicted=[point.request.slug for point in stepped if not predicted.of(point.request)],
        warnings=[*_other_inputs(prediction, stepped), *_warnings(prediction, [point for point, _ in pairs], results)],
    )


def case_key(request: Request, with_input: bool = True) -> CaseKey:
    """What is alike in a predicted and a measured point; where the images lie is not, nor what cards are called."""
    settings = request.settings.items()
    left_out = ("optimizer.",) if with_input else ("optimizer.", "input")
    kept = ((key, value) for key, value in settings if key not in _FREE and not key.startswith(left_out))
    return tuple((key, repr(value)) for key, value in kept if not _of_the_machine(key))


class AlikeCases(Generic[T]):
    """Things by the case that they are of; one that is there with another input alone is better than none."""

    def __init__(self, things: Iterable[tuple[Request, T]]) -> None:
        self._found: dict[CaseKey, list[T]] = defaultdict(list)
        for request, thing in things:
            for with_input in (True, False):
                self._found[case_key(request, with_input)].append(thing)

    def of(self, request: Request) -> list[T]:
        """The things of the same case."""
        return self._found.get(case_key(request)) or self._found.get(case_key(request, with_input=False), [])


def _of_the_machine(key: str) -> bool:
    """Whether a setting names what each machine has of its own."""
    return key in ("input.root", "input.stage", "input.threads") or names_network(key.removeprefix("env."))


def _checked(predicted: PredictedPoint, point: MeasuredPoint, made_at: datetime, keys: Sequence[str]) -> CheckedPoint:
    """A predicted point beside its measurement, with the error where both sides have a time."""
    request, good = point.request, point.good_runs
    measured_s = derived(lambda rate: request.batch_size / rate, [run.rates for run in good]) if good else None
    bad = next((run for run in point.runs if not run.rates), None)
    error = predicted.iteration_s / measured_s.median - 1 if predicted.iteration_s and measured_s else None
    allowed = None
    if error is not None and measured_s:
        allowed = max(LEAST_ALLOWED, 2 * (measured_s.high - measured_s.low) / measured_s.median)
    overlap = covered = None
    if predicted.interval_s and measured_s:
        low_s, high_s = predicted.interval_s
        overlap = low_s <= measured_s.high and measured_s.low <= high_s
        covered = low_s <= measured_s.median <= high_s
    started = [_time(run.started_at, run.folder.name) for run in point.runs]
    return CheckedPoint(
        workload=predicted.workload,
        batch_size=request.batch_size,
        gpus=request.gpus,
        strategy=request.strategy.kind,
        precision=request.precision,
        variant=settings_label(request, keys),
        system=predicted.system,
        library=predicted.library,
        request=request,
        predicted_outcome=predicted.outcome,
        predicted_reason=predicted.reason,
        measured_outcome="ok" if good else bad.outcome if bad else "missing",
        measured_reason="" if good else bad.reason if bad else "it has not run",
        predicted_s=predicted.iteration_s,
        predicted_interval_s=predicted.interval_s,
        measured_s=measured_s,
        error=error,
        allowed=allowed,
        within=None if error is None or allowed is None else abs(error) <= allowed and covered is not False,
        overlap=overlap,
        covered=covered,
        made_before=made_at < min(started) if started else None,
    )


def _time(text: str, of: str) -> datetime:
    """A time of a record; without a zone it is UTC, as records are written."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{of}: {text} is no time as 2026-01-31T12:00:00+00:00, so the order of the two is unknown"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# ---- strategies against each other


def _advantages(pairs: Iterable[_Pair]) -> Iterator[CheckedAdvantage]:
    """Each two strategies of every point that both have run and were predicted."""
    alike: dict[tuple[object, ...], list[_Pair]] = defaultdict(list)
    for checked, point in pairs:
        if checked.error is not None and checked.gpus > 1:  # one rank runs the bare model, whatever the strategy
            rest = tuple(pair for pair in case_key(checked.request) if pair[0].partition(".")[0] != "strategy")
            alike[checked.system, checked.library, rest].append((checked, point))
    for group in alike.values():
        for (one, ran), (other, ran_other) in combinations(group, 2):
            if one.strategy != other.strategy:
                yield _advantage(one, other, ran, ran_other)


def _advantage(
    point: CheckedPoint, other: CheckedPoint, ran: MeasuredPoint, ran_other: MeasuredPoint
) -> CheckedAdvantage:
    assert point.predicted_s and other.predicted_s, "only points that have an error"
    predicted = other.predicted_s / point.predicted_s
    measured = ratio([run.rates for run in ran.good_runs], [run.rates for run in ran_other.good_runs])
    decided = measured.n > 1 and not measured.low <= 1 <= measured.high
    return CheckedAdvantage(
        **fields(point, "workload", "batch_size", "gpus", "variant", "system", "library", "strategy"),
        over=other.strategy,
        predicted=predicted,
        measured=measured,
        decided=decided,
        right=(predicted - 1) * (measured.median - 1) > 0 if decided else None,
    )


# ---- over all points


def _totals(points: Sequence[CheckedPoint], advantages: Sequence[CheckedAdvantage]) -> Iterator[Total]:
    for system, library in dict.fromkeys((point.system, point.library) for point in points):
        all_own = [point for point in points if (point.system, point.library) == (system, library)]
        # What is predicted of one GPU is mostly the trace itself: it would flatter the rest.
        own = [point for point in all_own if point.gpus > 1] or all_own
        errors = [(point.error, point) for point in own if point.error is not None]
        decided = [
            advantage
            for advantage in advantages
            if (advantage.system, advantage.library) == (system, library) and advantage.decided
        ]
        if not errors:
            continue
        worst, where = max(errors, key=lambda pair: abs(pair[0]))
        yield Total(
            system=system,
            library=library,
            points=len(errors),
            mean_absolute_error=statistics.fmean(abs(error) for error, _ in errors),
            worst_error=worst,
            worst_point=case_words(where),
            bias=statistics.fmean(error for error, _ in errors),
            within=sum(point.within is True for point in own),
            overlapping=sum(point.overlap is True for point in own),
            covered=sum(point.covered is True for point in own),
            advantages=len(decided),
            advantages_right=sum(advantage.right is True for advantage in decided),
        )


def _of_other_devices(prediction: Prediction, results: Results) -> list[str]:
    """Where the study ran on other devices than a system is predicted to have, as far as both are known by name."""
    measured = {device.name for run in results.runs for device in run.devices or []}
    warnings = []
    of_lab = {point.system for point in prediction.points if point.request and point.request.lab}  # on any device
    for name in dict.fromkeys(point.system for point in prediction.points if point.system not in of_lab):
        try:
            machine = load(name, nodes=1)
        except ConfigError:
            continue  # of a file of somebody's own
        described = {product for gpu in range(len(machine.gpus)) for product in machine.gpu_part(gpu).product_names}
        if measured and described and not measured & described:
            ran_on = ", ".join(sorted(measured))
            warnings.append(f"predicted for {name}, but measured on {ran_on}: its errors mean nothing")
    return warnings


def _other_inputs(prediction: Prediction, stepped: Sequence[MeasuredPoint]) -> list[str]:
    """That points were measured with another input than was predicted, which is then a part of the error."""
    ours = {point.request.input.kind for point in prediction.points if point.request}
    theirs = {point.request.input.kind for point in stepped}
    if ours & theirs:
        return []
    return [
        f"input={', '.join(sorted(ours))} was predicted, and {', '.join(sorted(theirs))} measured: the error has both"
    ]


def _warnings(prediction: Prediction, points: Sequence[CheckedPoint], results: Results) -> list[str]:
    warnings = []
    if digest(prediction) != prediction.digest:
        warnings.append("the prediction is not as it was made: its digest is another one")
    warnings += _of_other_devices(prediction, results)
    younger = [point for point in points if point.made_before is False]
    if younger:
        warnings.append(
            f"the prediction, made at {prediction.made_at}, is younger than the first run of {len(younger)} of "
            f"{len(points)} cases, as {case_words(younger[0])}: it could have known them"
        )
    return warnings


# ---- the answer -----------------------------------------------------------------------------------------------------


def accuracy_answer(checked: Accuracy) -> list[str]:
    """How far off a prediction was of what was measured later."""
    points = [point for point in checked.points if point.error is not None]
    if not points:
        return [f"Not compared: no case of study {checked.study} was both predicted and measured."]
    several = [point for point in points if point.gpus > 1] or points
    worst = max(several, key=lambda point: abs(point.error or 0.0))
    mean = statistics.fmean(abs(point.error or 0.0) for point in several)
    judged = [point for point in several if point.covered is not None]
    cases = "in one case" if len(several) == 1 else f"in the mean of {len(several)} cases"
    where = [
        worst.workload,
        f"batch {worst.batch_size}",
        worst.variant,
        how_many(worst.gpus, unit_by_library(worst.library)),
    ]
    inside = f"; {sum(bool(point.covered) for point in judged)} of {len(judged)} measurements lie in the intervals"
    longer = " as long as measured" * ((worst.error or 0.0) >= 1)
    return [
        f"Predicted steps are {mean:.1%} off those that {checked.node} measured, {cases}{inside * bool(judged)}.",
        f"The worst: {off_by(worst.error or 0.0)}{longer} for {', '.join(filter(None, where))}.",
    ]


def shown_accuracy(checked: Accuracy) -> Answer:
    """The answer, and each case."""
    return Answer(accuracy_answer(checked), as_shown(checked_columns(checked.points), checked.points))


# ---- columns --------------------------------------------------------------------------------------------------------


def checked_columns(points: Sequence[CheckedPoint]) -> list[Column[CheckedPoint]]:
    """Each case that is both predicted and measured."""
    units = {unit_by_library(point.library) for point in points}
    return [
        Column("workload", lambda point: point.workload),
        Column(">batch", lambda point: f"{point.batch_size}"),
        Column("settings", _settings),
        Column(f">{units.pop() if len(units) == 1 else 'GPU'}s", lambda point: f"{point.gpus}"),
        Column("system", lambda point: point.system),
        Column("library", lambda point: point.library, 4),
        Column(
            ">predicted ms",
            lambda point: point.predicted_outcome if point.predicted_s is None else _ms(point.predicted_s),
        ),
        Column("interval", lambda point: " to ".join(map(_ms, point.predicted_interval_s or [])), 4),
        Column(
            ">measured ms", lambda point: _ms(point.measured_s.median) if point.measured_s else point.measured_outcome
        ),
        Column("its range", lambda point: _ends(point.measured_s, _ms), 3),
        Column(">runs", lambda point: f"{point.measured_s.n}" if point.measured_s else "0", 2),
        Column(
            ">error",
            lambda point: "" if point.error is None else off_by(point.error),
            help="predicted / measured - 1; from twice on predicted / measured.",
        ),
        Column("in interval", lambda point: _yes(point.covered), 8),
        Column("made before", lambda point: _yes(point.made_before), 1),
    ]


def _settings(point: CheckedPoint) -> str:
    """In which cases differ, but for the lab's system, which has a column."""
    return ", ".join(word for word in point.variant.split(", ") if word != point.system)


TOTALS: list[Column[Total]] = [
    Column("system", lambda total: total.system),
    Column("library", lambda total: total.library),
    Column(">cases", lambda total: f"{total.points}", 3, "on several GPUs; on one, a trace predicts itself."),
    Column(">mean |error|", lambda total: f"{total.mean_absolute_error:.1%}"),
    Column(">worst", lambda total: off_by(total.worst_error)),
    Column("at", lambda total: total.worst_point, 2),
    Column(">bias", lambda total: f"{total.bias:+.1%}", 5, "the mean with its sign."),
    Column(
        ">in interval",
        lambda total: f"{total.covered} of {total.points}",
        help="measurements that lie in the predicted interval.",
    ),
    Column(">overlap", lambda total: f"{total.overlapping} of {total.points}", 1),
    Column(
        ">order right",
        lambda total: f"{total.advantages_right} of {total.advantages}" if total.advantages else "none decided",
        4,
        "which strategy is faster, where the measurement decides it.",
    ),
]
ADVANTAGES: list[Column[CheckedAdvantage]] = [
    Column("workload", lambda advantage: advantage.workload),
    Column(">batch", lambda advantage: f"{advantage.batch_size}"),
    Column(">GPUs", lambda advantage: f"{advantage.gpus}", help="or ranks on CPU cores."),
    Column("system", lambda advantage: advantage.system),
    Column("strategy", lambda advantage: advantage.strategy),
    Column("over", lambda advantage: advantage.over),
    Column(">predicted", lambda advantage: f"{advantage.predicted:.3f}"),
    Column(">measured", lambda advantage: f"{advantage.measured.median:.3f}"),
    Column("its range", lambda advantage: _ends(advantage.measured, "{:.3f}".format), 1),
    Column(
        "order", lambda advantage: "not decided" if advantage.right is None else "right" if advantage.right else "wrong"
    ),
]


def _ends(summary: Summary | None, text: Callable[[float], str]) -> str:
    """The ends of an interval, or of the range of few runs; one run has none."""
    return f"{text(summary.low)} to {text(summary.high)}" if summary and summary.n > 1 else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _yes(fact: bool | None) -> str:
    return "" if fact is None else "yes" if fact else "no"
