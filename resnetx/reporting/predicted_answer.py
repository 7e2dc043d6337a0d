"""What a prediction answers, in sentences: how fast, compared with what, and where the time goes.

    curves = predicted_curves(made.points)
    answer(curves)        # ["Predicted: on gx8, 8 GPUs train AlexNet 1.8 times (1.3 to 2.3) as fast as one, ..."]
    time_of_each(point)   # "23% useful | 64 exposed communication (cpu0 to riser0) | ..."

Sentences say no more than the record does, so that the screen, a page and a notebook say the same.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from resnetx import units
from resnetx.record.comparisons import Estimate
from resnetx.record.prediction import HARDLY, PartName, PredictedPoint, Prediction
from resnetx.reporting.compared_systems import lead, ratio, settings_that_vary, side_of
from resnetx.reporting.worth import AS_GOOD, LEAST_GAIN, enough
from resnetx.request import settings_label
from resnetx.table import ONLY_WITH_ALL, Answer, Column, as_shown
from resnetx.units import Unit, cell_ms, how_many, on_cores, to_interval, two_ends, unit_by_library

MOST_RANKED = 4  # each over the next, and each with its largest loss
PARTS: dict[PartName, str] = {
    "useful": "useful",
    "communication": "exposed communication",
    "smaller batches": "smaller batches",
    "launching": "launching",
    "waiting": "waiting",
    "input": "input",
    "host": "host",
    "unexplained": "not explained",
}  # in the order of tables
LESS: dict[PartName, str] = {"smaller batches": "computing", "host": "time of the host"}  # where a part is a gain


@dataclass(frozen=True)
class PredictedCurve:
    """One workload as it is trained on one system, on several numbers of GPUs."""

    workload: str  # with what tells it from others that have its name
    batch: str
    strategy: str
    system: str
    library: str
    points: tuple[PredictedPoint, ...]  # by number of GPUs

    @property
    def able(self) -> list[PredictedPoint]:
        """The points that have a rate."""
        return [point for point in self.points if point.outcome == "ok" and point.iteration_s and point.images_per_s]

    @property
    def last(self) -> PredictedPoint:
        """The point on most GPUs that has a rate or two ends; the last one if none has."""
        return ([point for point in self.points if point.outcome == "ok"] or list(self.points))[-1]

    @property
    def gain(self) -> float:
        """What it gains on its last point, over one GPU; up to the fewest that can run it, as linear scaling would."""
        return (self.last.speedup or 0.0) * (self.last.baseline_gpus or 1)

    @property
    def enough(self) -> PredictedPoint | None:
        """The point on the fewest GPUs that is as good as the best; None where no point has a rate."""
        rates = self.rates
        return next(point for point in self.able if point.gpus == enough(rates)) if rates else None

    @property
    def rates(self) -> dict[int, float]:
        """Samples per second by number of GPUs."""
        return {point.gpus: point.images_per_s for point in self.able if point.images_per_s}

    def shown_slower(self, fewer: int, more: int) -> bool:
        """Whether the interval of one rate over the other shows that more GPUs are slower."""
        by_count = {point.gpus: point for point in self.able}
        return lead(_margin(by_count[fewer], by_count[more])) == "ahead"

    @property
    def name(self) -> str:
        """The workload with its batch."""
        return f"{self.workload}, batch {self.batch}"


IN_COLUMNS = ("strategy", "precision", "nodes", "lab.system")  # settings that curves are told apart by otherwise
IDENTITY = ("workload", "batch", "strategy", "system", "library")  # of a curve


def predicted_curves(points: Sequence[PredictedPoint]) -> list[PredictedCurve]:
    """The points by curve, in their order."""
    keys = [key for key in settings_that_vary(points) if key not in IN_COLUMNS]
    named = [name for name in ("framework", "precision") if len({getattr(point, name) for point in points}) > 1]
    found: dict[tuple[str, str, str, str, str], list[PredictedPoint]] = {}
    for point in points:
        weak = point.scaling == "weak"
        batch = f"{point.batch_size // point.gpus} per {unit_of_point(point)}" if weak else f"{point.batch_size}"
        key = (_workload(point, keys, named), batch, point.strategy, point.system, point.library)
        found.setdefault(key, []).append(point)
    return [
        PredictedCurve(workload, batch, strategy, system, library, tuple(sorted(own, key=lambda point: point.gpus)))
        for (workload, batch, strategy, system, library), own in found.items()
    ]


def identity(curves: Sequence[PredictedCurve]) -> list[str]:
    """The names in `IDENTITY` that tell curves apart; a library that goes by the system alone is none of them."""
    names = [name for name in IDENTITY if len({getattr(curve, name) for curve in curves}) > 1]
    systems = {(curve.system, curve.library) for curve in curves}
    by_system = len(systems) == len({system for system, _ in systems})
    return [name for name in names if name != "library" or not by_system]


def _workload(point: PredictedPoint, keys: Sequence[str], named: Sequence[str]) -> str:
    """The workload with what tells it from others of its name; `named`: fields of the point, `keys`: settings."""
    settings = settings_label(point.request, keys) if point.request else ""
    labels = [getattr(point, name) or f"no {name}" for name in named]
    return ", ".join(filter(None, [point.workload, *labels, settings, *point.machine_labels]))


def rate_unit(points: Sequence[PredictedPoint]) -> str:
    """What a batch is made of: a workload that is known from its trace alone may be trained on other things."""
    what = {"samples" if point.request is None else point.request.model.samples for point in points}
    return f"{what.pop() if len(what) == 1 else 'samples'}/s"


# ---- the answer -----------------------------------------------------------------------------------------------------


def prediction_answer(made: Prediction) -> list[str]:
    """The sentences of a prediction: what was asked for, and what of it is known only between two ends."""
    if not made.points:
        return ["Nothing is predicted: the record holds no case."]
    cheapest = [made.cheapest] if isinstance(made.cheapest, str) and made.cheapest else []
    ends = _between_ends([point for point in made.points if point.open])
    return [*answer(predicted_curves(made.points)), *cheapest, *ends]


def shown_prediction(made: Prediction) -> Answer:
    """The answer, and its table."""
    curves = in_order(predicted_curves(made.points))
    return Answer(prediction_answer(made), as_shown(curve_columns(curves), curve_rows(curves)) if curves else None)


def shown_points(points: Sequence[PredictedPoint]) -> Answer:
    """The same of some of its points."""
    curves = predicted_curves(points)
    return Answer(answer(curves), as_shown(curve_columns(curves), curve_rows(curves)))


def _between_ends(points: Sequence[PredictedPoint]) -> list[str]:
    """What leaves points between two ends, and what decides; of those that differ in figures alone, the last."""
    ends = (point.open_ends or f"`{point.open}` decides." for point in points)
    return list({re.sub(r"\d[\d,.]*", "", said): said for said in ends}.values())


def answer(curves: Sequence[PredictedCurve]) -> list[str]:
    """One or two sentences: the number that was asked for, and what follows from it."""
    if len(curves) == 1:
        return _of_one(curves[0])
    return [_ranked(curves) if is_ranked(curves) else _between(curves)]


def is_ranked(curves: Sequence[PredictedCurve]) -> bool:
    """Whether curves differ in one thing of which the answer names the fastest."""
    by = identity(curves)
    return (by in (["system"], ["strategy"], ["library"]) or (by == ["workload"] and _is_one_workload(curves))) and all(
        curve.last in curve.able for curve in curves
    )


def _is_one_workload(curves: Sequence[PredictedCurve]) -> bool:
    """Whether curves of different names are one workload, with different settings."""
    return len({point.workload for curve in curves for point in curve.points}) == 1


def in_order(curves: Sequence[PredictedCurve]) -> list[PredictedCurve]:
    """As the answer has them: where it ranks them the fastest first, else as they were asked for."""
    if len(curves) < 2 or not is_ranked(curves):
        return list(curves)
    return sorted(curves, key=lambda curve: -(curve.last.images_per_s or 0.0))


def named_curves(curves: Sequence[PredictedCurve]) -> list[PredictedCurve]:
    """The curves that the answer names: of ranked ones the first, the second and the last, else both ends."""
    if len(curves) > 1 and is_ranked(curves):
        ranked = in_order(curves)
        return [*ranked[:2], *ranked[-1:]] if len(ranked) > MOST_RANKED else ranked
    _, ranked = _by_gain(curves)
    return [*ranked[:1], *ranked[-1:]]


def _of_one(curve: PredictedCurve) -> list[str]:
    point, unit = curve.last, rate_unit(curve.points)
    who = f"{ranks(point.gpus, point)}{on_cores(unit_of_point(point))}"
    what = f"{who} {'trains' if point.gpus == 1 else 'train'} {curve.name}"
    what += ","
    on = f"Predicted: on {curve.system},"
    if point.open:
        ends = None if point.gpus == point.baseline_gpus else point.speedup_interval
        over = f"{_ends(open_rates(point))} {unit}"
        if ends:
            over = f"{_ends(ends)} times as fast as {ranks(point.baseline_gpus or 1, point)}"
        return [f"{on} {what} {'' if ends else 'at '}between {over}."]
    if point not in curve.able:
        return [f"Not predicted: {curve.name} on {curve.system}: {point.reason}."]
    rate, low, high = rate_ends(point)
    if point.speedup is None or point.gpus == point.baseline_gpus:
        sentence = f"{on} {what} at {rate} {unit} ({low} to {high})."
        if not _alone(point, curve) or curve.points[0].gpus < point.gpus:  # why fewer cannot is said below
            return [sentence]
        return [sentence, f"Nothing fewer to compare is predicted: gpus=1,{point.gpus} does, or says why it cannot."]
    over = f"as fast as {ranks(point.baseline_gpus or 1, point)}" + " in all" * (point.scaling == "weak")
    sentences = [f"{on} {what} {speedup_text(point)} {over}, at {rate} {unit}."]
    enough = curve.enough
    if enough is not None and enough.gpus < point.gpus:
        sentences.append(_fewer(enough, point))
    return sentences


def _alone(point: PredictedPoint, curve: PredictedCurve) -> bool:
    """Whether a point on several GPUs is the only one that can run: its own baseline, which says nothing."""
    return point.gpus == point.baseline_gpus and point.gpus > 1 and curve.able == [point]


def without_speedup(curves: Sequence[PredictedCurve]) -> list[PredictedCurve]:
    """Those among others with a speed-up that have none, as they are their own baseline; of fewer nothing is asked."""
    alone = [curve for curve in curves if curve.able and _alone(curve.last, curve)]
    silent = [curve for curve in alone if curve.points[0].gpus == curve.last.gpus]  # else the reason is said
    return silent if len(alone) < sum(bool(curve.able) for curve in curves) else []


def _fewer(enough: PredictedPoint, point: PredictedPoint) -> str:
    """What fewer GPUs that are enough do beside all of them."""
    fewer, one = ranks(enough.gpus, enough), enough.gpus == 1
    slower = (enough.images_per_s or 0) < (point.images_per_s or 0)
    faster = not slower and lead(_margin(enough, point)) == "ahead"
    does = f"{'is' if one else 'are'} faster" if faster else f"{'does' if one else 'do'} as much"
    if not faster and (enough.images_per_s or 0) < (point.images_per_s or 0) * (1 - AS_GOOD):
        return f"More than {fewer} add{'s' * one} little: use {enough.gpus}."
    return f"{fewer[0].upper()}{fewer[1:]} {does}: use {enough.gpus}."


def _margin(fewer: PredictedPoint, more: PredictedPoint) -> Estimate:
    """One rate over the other, or the other way round: the speed-up, where that is it."""
    if fewer.gpus == more.baseline_gpus and more.speedup and more.speedup_interval:
        low, high = more.speedup_interval
        return Estimate(value=more.speedup, low=low, high=high)
    return _over(fewer, more)


def _over(one: PredictedPoint, other: PredictedPoint) -> Estimate:
    """The rate of one point over that of another; with weak scaling their batches differ."""
    steps, times = ratio(side_of(one), side_of(other)), one.batch_size / other.batch_size
    return Estimate(value=steps.value * times, low=steps.low * times, high=steps.high * times)


def _ranked(curves: Sequence[PredictedCurve]) -> str:
    """Systems, strategies or libraries from the fastest on, each over the next; of many the second and the last."""
    counts = {ranks(curve.last.gpus, curve.last) for curve in curves}
    (name,) = identity(curves)
    ranked = in_order(curves)

    def called(curve: PredictedCurve) -> str:
        if name == "workload":
            return curve.workload.removeprefix(f"{curve.last.workload}, ")
        return f"strategy={curve.strategy}" if name == "strategy" else str(getattr(curve, name))

    def over(ahead: PredictedCurve, behind: PredictedCurve) -> str:
        margin = _over(ahead.last, behind.last)
        value, low, high = to_interval(margin.value, margin.low, margin.high)
        if lead(margin) == "ahead":
            return f"{value} times ({low} to {high}) as fast as {called(behind)}"
        if max(margin.value, 1 / margin.value) < LEAST_GAIN:
            return f"about as fast as {called(behind)} (no difference is shown: {low} to {high} times)"
        return f"{value} times ({low} to {high}: no difference is shown) as fast as {called(behind)}"

    clauses = [over(ahead, behind) for ahead, behind in pairwise(ranked)]
    trained = f"{ranked[0].last.workload}, batch {ranked[0].batch}" if name == "workload" else ranked[0].name
    first = f"{called(ranked[0])} trains {trained}, {clauses[0]}"
    system = "" if name == "system" else f" of {ranked[0].system}"
    on = f"on {counts.pop()}{system}" if len(counts) == 1 else f"each on the most GPUs{system} that can"
    if len(ranked) > MOST_RANKED:
        return f"Predicted, {on}: {first}, and {over(ranked[0], ranked[-1])}, the slowest of {len(ranked)}."
    return f"Predicted, {on}: {', and that '.join([first, *clauses[1:]])}."


def _between(curves: Sequence[PredictedCurve]) -> str:
    """How far apart several curves are in what they gain, or in their rates where none has more than one count."""
    if len(curves) <= MOST_RANKED and all(curve.last.open for curve in curves):
        return _between_two_ends(curves)
    gained, ranked = _by_gain(curves)
    if not ranked:
        return f"Not predicted: none of {len(curves)} cases has a rate."
    names = identity(curves)
    shares = gained and len({curve.last.baseline_gpus for curve in ranked}) > 1  # speed-ups are not alike then
    ranked = sorted(ranked, key=lambda curve: curve.last.efficiency or 0.0) if shares else ranked

    def much(curve: PredictedCurve) -> str:
        point = curve.last if gained else curve.able[-1]
        rate, low, high = rate_ends(point)
        base = point.baseline_gpus or 1
        over = f" over {ranks(base, point)}" * (base > 1)
        gain = _efficiency_text(point) if shares else speedup_text(point) if gained else ""
        value = f"{gain}{over}" if gained else f"{rate} {rate_unit(curve.points)} ({low} to {high})"
        return value + f" on {ranks(point.gpus, point)}" * (len(counts) > 1)

    def told(curve: PredictedCurve) -> str:
        who = [f"batch {curve.batch}" if name == "batch" else getattr(curve, name) for name in names]
        return f"{much(curve)} ({', '.join(who)})"

    one = curves[0]
    what_one = one.name if "batch" not in names else one.workload
    counts = {ranks(point.gpus, point) for curve in ranked for point in [curve.last if gained else curve.able[-1]]}
    where = [*counts] * (len(counts) == 1) + [one.system] * ("system" not in names)
    same = [what_one] * ("workload" not in names) + [f"on {' of '.join(where)}"] * bool(where)
    what = " ".join(
        [
            "efficiency" if shares else "speed-ups" if gained else "rates",
            *(["of"] if "workload" not in names else []),
            *same,
        ]
    )
    if len(ranked) == 1:
        others = f"{len(curves) - 1} more case{'s' * (len(curves) > 2)}"
        return f"Predicted: {what}: {told(ranked[0])}; of {others} none is known."
    if len(ranked) == len(curves) and len({*map(much, ranked)}) == 1:
        return f"Predicted: {what}: {much(ranked[0])} in all {len(curves)} cases; no difference is shown."
    by_unit: dict[str, list[PredictedCurve]] = {}
    for curve in ranked:
        by_unit.setdefault("" if gained else rate_unit(curve.points), []).append(curve)
    if len(by_unit) > 1:
        ranges = [" to ".join(map(told, [*alike[:1], *alike[1:][-1:]])) for alike in by_unit.values()]
        return f"Predicted: {what}: {'; '.join(ranges)}."
    each = f", each on its most {unit_of_point(one.last)}s," * (gained and len(counts) > 1)
    return f"Predicted: {what}{each} from {told(ranked[0])} to {told(ranked[-1])}."


def _between_two_ends(curves: Sequence[PredictedCurve]) -> str:
    """The ends of the rate of each of several curves, where none is known better."""
    names, one = identity(curves), curves[0]
    same = "" if "workload" in names or "batch" in names else f" of {one.name}"
    told = []
    for curve in curves:
        who = " ".join(f"batch {curve.batch}" if name == "batch" else getattr(curve, name) for name in names)
        on = ranks(curve.last.gpus, curve.last) + f" of {curve.system}" * ("system" not in names)
        told.append(f"{_ends(open_rates(curve.last))} {rate_unit(curve.points)} ({who}, {on})")
    return f"Predicted: rates{same} between {', '.join(told)}."


def _by_gain(curves: Sequence[PredictedCurve]) -> tuple[bool, list[PredictedCurve]]:
    """Whether any curve gains, and those that do, else those with a rate, from the least on."""
    gained = [
        curve
        for curve in curves
        if curve.last in curve.able and curve.last.speedup is not None and curve.last.gpus != curve.last.baseline_gpus
    ]
    if gained:
        return True, sorted(gained, key=lambda curve: curve.gain or 0.0)
    able = [curve for curve in curves if curve.able]
    return False, sorted(able, key=lambda curve: curve.able[-1].images_per_s or 0.0)


def unit_of_point(point: PredictedPoint) -> Unit:
    """What computes: a rank on CPU cores where gloo joins them, else a GPU."""
    return unit_by_library(point.library)


def ranks(count: int, of: PredictedPoint) -> str:
    """ "one GPU", "8 GPUs", or "2 ranks", where CPU cores take their place."""
    return how_many(count, unit_of_point(of), "one")


CurveRow = tuple[PredictedCurve, PredictedPoint]
MOST_POINTS = 8  # of several curves that are rows; of more points there is a row for each curve
MOST_OF_ONE = 6  # rows of several curves of one system: with them a screen has 15 lines


def curve_rows(curves: Sequence[PredictedCurve], every: bool = False) -> list[CurveRow]:
    """A row for each point; of several curves with many points each on its most GPUs, unless `every` one is wanted."""
    rows = [(curve, point) for curve in curves for point in curve.points]
    most = MOST_OF_ONE if is_of_one_system(curves) else MOST_POINTS
    return rows if every or len(curves) == 1 or len(rows) <= most else [(curve, curve.last) for curve in curves]


def is_of_one_system(curves: Sequence[PredictedCurve]) -> bool:
    """Whether several curves are those of one system."""
    return len(curves) > 1 and len({curve.system for curve in curves}) == 1


def identity_columns(curves: Sequence[PredictedCurve]) -> list[Column[PredictedCurve]]:
    """What tells curves apart."""
    return [Column(name, attrgetter(name)) for name in identity(curves)]


def curve_columns(curves: Sequence[PredictedCurve], every: bool = False) -> list[Column[CurveRow]]:
    """The columns of `curve_rows`: what tells curves apart, how fast each is, and what that is over its baseline."""
    points = [point for curve in curves for point in curve.points]
    units = {unit_of_point(point) for point in points}
    compared = [point for curve in curves for point in curve.points if not _alone(point, curve)]
    bases = {how_many(point.baseline_gpus, unit_of_point(point)) for point in compared if point.baseline_gpus}
    over = f"over {' or '.join(sorted(bases))}" if bases - {"1 GPU", "1 rank"} else ""
    one_base = over and len(bases) == 1
    lasts = len(curve_rows(curves, every)) < len(points)
    how = f"{units.pop() if len(units) == 1 else 'GPU'}s"
    count = Column[CurveRow](f">{how}", lambda row: f"{row[1].gpus}")
    told = len(curves) > 1 and len({point.gpus for _, point in curve_rows(curves, every)}) == 1  # in the answer
    over_baseline: list[Column[CurveRow]] = [
        Column(
            f">{over if one_base else 'speed-up'}",
            lambda row: "" if _alone(row[1], row[0]) else _speedup_cell(row[1]),
            help=f"{over}." if over and not one_base else "",
        ),
        Column(">its interval", lambda row: _speedup_ends_cell(row[1])),
        Column(">use", lambda row: _enough_cell(row[0]), 2)
        if lasts
        else Column(">efficiency", lambda row: "" if _alone(row[1], row[0]) else _efficiency_cell(row[1]), 2),
    ]
    shares = Column[CurveRow](
        ">of ideal",
        lambda row: "" if _alone(row[1], row[0]) else _efficiency_ends_cell(row[1]),
        ONLY_WITH_ALL,
        "the interval of the efficiency.",
    )
    return [
        *(column.of(lambda row: row[0]) for column in identity_columns(curves)),
        *([] if told else [count]),
        Column(f">{rate_unit(points)}", lambda row: _rate_cell(row[1])),
        Column(">interval", lambda row: _rate_ends_cell(row[1])),
        *(over_baseline if any_gain(points) else []),
        *([shares] if any_gain(points) else []),
        Column(">step ms", lambda row: cell_ms(row[1].iteration_s), ONLY_WITH_ALL, "an iteration of the global batch."),
        Column(">its ends", lambda row: _and([cell_ms(end) for end in row[1].interval_s or ()]), ONLY_WITH_ALL),
        Column(
            ">exposed ms",
            lambda row: cell_ms(row[1].exposed_communication_s),
            ONLY_WITH_ALL,
            "communication not hidden by computation.",
        ),
        Column(
            "limited by",
            lambda row: _limit_cell(row[1]),
            ONLY_WITH_ALL,
            "the part without which the step would be shorter by so much.",
        ),
        Column(
            ">memory GB",
            lambda row: "" if row[1].memory_bytes is None else f"{row[1].memory_bytes / 1e9:.2f}",
            ONLY_WITH_ALL,
        ),
        Column("compute", lambda row: row[1].compute_source or "", ONLY_WITH_ALL),
    ]


def any_gain(points: Sequence[PredictedPoint]) -> bool:
    """Whether any point has a baseline other than itself."""
    return any(point.gpus != (point.baseline_gpus or point.gpus) for point in points)


def _and(ends: Sequence[str]) -> str:
    return " to ".join(ends)


def _rate_cell(point: PredictedPoint) -> str:
    if point.open and point.interval_s:
        return "-".join(two_ends(open_rates(point)))
    return rate_ends(point)[0] if point.images_per_s else {"oom": "memory"}.get(point.outcome, point.outcome)


def _rate_ends_cell(point: PredictedPoint) -> str:
    """Both ends; of an open point the rate has them."""
    return _and(rate_ends(point)[1:]) if point.images_per_s else ""


def _speedup_cell(point: PredictedPoint) -> str:
    if point.speedup is None:
        ends = point.speedup_interval if point.open and point.gpus != point.baseline_gpus else None
        return "-".join(two_ends(ends)) if ends else ""
    return to_interval(point.speedup, *(point.speedup_interval or (point.speedup, point.speedup)))[0]


def _efficiency_cell(point: PredictedPoint) -> str:
    """Of an open point both ends."""
    if point.efficiency is None:
        ends = point.efficiency_interval if point.open and point.gpus != point.baseline_gpus else None
        return "" if ends is None else f"{ends[0] * 100:.0f}-{ends[1]:.0%}"
    return f"{point.efficiency:.0%}"


def _efficiency_ends_cell(point: PredictedPoint) -> str:
    """Both ends, where they differ."""
    low, high = point.efficiency_interval or (0.0, 0.0)
    return f"{low * 100:.0f} to {high:.0%}" if point.efficiency and low < high else ""


def _speedup_ends_cell(point: PredictedPoint) -> str:
    """Both ends, where they differ."""
    low, high = point.speedup_interval or (0.0, 0.0)
    return _and(to_interval(point.speedup, low, high)[1:]) if point.speedup and low < high else ""


def _enough_cell(curve: PredictedCurve) -> str:
    return how_many(curve.enough.gpus, unit_of_point(curve.enough)) if curve.enough and not curve.last.open else ""


def _limit_cell(point: PredictedPoint) -> str:
    if point.iteration_s is None:
        return "" if point.open else point.reason if point.outcome == "refused" else "missing: memory"
    return f"{point.limited_by} {point.limit_share:.0%}"


def _ends(interval: Sequence[float]) -> str:
    return " and ".join(two_ends(interval))


def open_rates(point: PredictedPoint) -> tuple[float, float]:
    """Both ends of the rate of an open point."""
    assert point.interval_s, f"{point.workload} on {point.gpus} GPUs has no ends"
    fast_s, slow_s = point.interval_s
    return point.batch_size / slow_s, point.batch_size / fast_s


def rate_ends(point: PredictedPoint) -> tuple[str, str, str]:
    """The rate, and what nine of ten are within."""
    assert point.images_per_s, f"{point.workload} on {point.gpus} GPUs has no rate"
    step_s = point.batch_size / point.images_per_s
    low_s, high_s = point.interval_s or (step_s, step_s)
    return to_interval(point.images_per_s, point.batch_size / high_s, point.batch_size / low_s)


def with_graph(point: PredictedPoint) -> str:
    """What graph=true would do on as many GPUs, where that is predicted to help."""
    if not point.with_graph_s or not point.iteration_s or point.iteration_s < LEAST_GAIN * point.with_graph_s[0]:
        return ""
    rate, slow, fast = (point.batch_size / time_s for time_s in (point.with_graph_s[0], *point.with_graph_s[:0:-1]))
    told, low, high = to_interval(rate, slow, fast)
    return f"with graph=true {told} {rate_unit([point])} ({low} to {high})"


def speedup_text(point: PredictedPoint) -> str:
    """ "1.9 times (1.3 to 2.4)"."""
    assert point.speedup is not None, f"{point.workload} on {point.gpus} GPUs has no speed-up"
    value, low, high = to_interval(point.speedup, *(point.speedup_interval or (point.speedup, point.speedup)))
    return f"{value} times" + f" ({low} to {high})" * (low != high)


def _efficiency_text(point: PredictedPoint) -> str:
    """ "23% (16 to 30)", over what its speed-up is over."""
    low, high = point.speedup_interval or (point.speedup or 0.0, point.speedup or 0.0)
    share = 100 * (point.baseline_gpus or 1) / point.gpus
    return f"{point.efficiency or 0.0:.0%}" + f" ({low * share:.0f} to {high * share:.0f})" * (low != high)


# ---- where the time goes --------------------------------------------------------------------------------------------


def percents(point: PredictedPoint) -> dict[PartName, int]:
    """The parts of a step in whole percents that sum to 100: useful, which is the efficiency, as that is rounded."""
    return units.percents({part.name: part.share for part in point.parts}, by_itself="useful")


SMALL = 5  # percent: of losses below, a short line tells the sum


def time_of_each(point: PredictedPoint, room: int | None = None) -> str:
    """What each of the GPUs does with its time, from the largest loss on; "" where that is not known.

    `room`: characters that it should take; small losses are then one, "8 other", but never communication.
    """
    shares = percents(point)
    if not shares:
        return ""
    lost = sorted((name for name in shares if name != "useful" and shares[name]), key=lambda name: -shares[name])
    named = point.limited_by == "communication" and (room is None or lost[:1] == ["communication"])
    link = f" ({point.limiting_link})" if point.limiting_link and named else ""
    below = point.compute_note.partition(HARDLY)[2].partition(" a step ")[0] if point.limited_by == "host" else ""
    below = below.replace("images", "images" if point.request is None else point.request.model.samples)
    why = {"communication": link, "launching": f" (below {below})" * bool(below)}
    texts = {
        name: f"{shares[name]} {PARTS[name]}{why.get(name, '')}"
        if shares[name] > 0
        else f"{-shares[name]} gained: less {LESS.get(name, PARTS[name])}"
        for name in lost
    }
    small = [name for name in lost if name != "communication" and 0 < shares[name] < SMALL]
    said = useful = f"{shares['useful']}% useful"
    for kept in range(len(small), -1, -1):
        folded = small[kept:]
        rest = [f"{sum(shares[name] for name in folded)} other"] * bool(folded)
        said = " | ".join([useful, *(texts[name] for name in lost if name not in folded), *rest])
        if room is None or len(said) <= room:
            break
    return said


def most_lost(curves: Sequence[PredictedCurve]) -> str:
    """Of several curves, on their most GPUs: which losses are the largest, and of which curves; "" without any."""
    names, by_part = identity(curves), dict[PartName, dict[str, int]]()
    names = next(([name] for name in names if len({getattr(curve, name) for curve in curves}) == len(curves)), names)
    for curve in curves:
        lost = {name: share for name, share in percents(curve.last).items() if name != "useful" and share > 0}
        if lost and curve.last.gpus != curve.last.baseline_gpus:
            largest = max(lost, key=lambda name: lost[name])
            called = " ".join(f"batch {curve.batch}" if name == "batch" else getattr(curve, name) for name in names)
            by_part.setdefault(largest, {})[called] = lost[largest]
    told: list[str] = []
    for part, shares in sorted(by_part.items(), key=lambda item: -max(item[1].values())):
        least, most = min(shares.values()), max(shares.values())
        of = ", ".join(f"{called} {share}%" for called, share in shares.items())
        if len(curves) > MOST_RANKED:
            of = f"{len(shares)}{' cases' * (not told)}, {f'{least} to ' * (least < most)}{most}%"
        told.append(f"{PARTS[part].removeprefix('exposed ')} ({of})")
    return ", ".join(told)
