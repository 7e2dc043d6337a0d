"""Why one result is not another: the step of a case in both, part by part, and what else differs between them.

    explained(sides_of_prediction(made), sides_of_study(points))

A side is a case (a workload on some GPUs) with the parts of its step as `prediction/iteration.py` and
`reporting/study_scaling.py` define them, in seconds, so that the parts of each side sum to its step.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10, sqrt
from statistics import fmean
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from resnetx.record import Copies, RunSummary
from resnetx.record.prediction import PredictedPoint, Prediction
from resnetx.record.sealing import RecordPart
from resnetx.reporting.accuracy import AlikeCases
from resnetx.reporting.explain_benches import difference_lines, differences
from resnetx.reporting.predicted_answer import identity, predicted_curves, ranks
from resnetx.reporting.study_points import StudyPoint, alike_requests
from resnetx.reporting.study_scaling import MeasuredPartName
from resnetx.request import Request
from resnetx.statistics import MIN_RUNS, MIN_RUNS_FOR_T, TTest, level_of_each, t_test
from resnetx.table import Answer, Column, as_shown
from resnetx.units import percents, si, to_interval, with_interval

ExplainedPartName = MeasuredPartName | Literal["launching"]
BOTH: MeasuredPartName = "communication and waiting"
ORDER: tuple[ExplainedPartName, ...] = (*get_args(MeasuredPartName)[:-1], "launching", "the rest")
_OF_PREDICTIONS: dict[str, ExplainedPartName] = {
    "useful": "useful",
    "input": "input",
    "communication": "communication",
    "waiting": "waiting",
    "smaller batches": "smaller batches",
    "launching": "launching",
}  # all others are the rest
FEWEST_STEPS, MOSTLY = 5, 0.8  # of an instrumented run: a rank that is last in so many of them is named
# Settings that two sides of one case may differ in, and that are no evidence: how long was measured.
_NO_EVIDENCE = {"measure", "steps", "windows", "warmup", "seed"}


@dataclass(frozen=True)
class Side:
    """A case as it was predicted or measured."""

    kind: Literal["predicted", "measured"]
    words: str  # the case
    request: Request
    step_s: float
    interval_s: tuple[float, float] | None
    parts_s: dict[ExplainedPartName, float]  # {}: not known
    why: str = ""  # they are not known
    late: str = ""  # see `Explained.late`
    unresolved: frozenset[ExplainedPartName] = frozenset()  # parts that the runs do not show to be there
    runs: tuple[RunSummary, ...] = ()  # that were measured
    copies: Copies | None = None  # of a step of an instrumented run, where one was measured on GPUs
    steps_s: tuple[float, ...] = ()  # that were measured, one of each run
    share_ends: Mapping[ExplainedPartName, tuple[float, float]] = field(default_factory=dict)  # of parts; {}: not known


class ExplainedPart(RecordPart, frozen=True):
    """A part of the step on both sides, in seconds; null: not known there."""

    name: ExplainedPartName
    a_s: float | None
    b_s: float | None
    evidence: str = ""  # for what it is on a side: "not resolved in B"
    share_ends: tuple[float, float] | None = None  # of one side: of the 95% interval of its share; null: not known

    @property
    def more_s(self) -> float | None:
        """By how much it is longer in B."""
        return None if self.a_s is None or self.b_s is None else self.b_s - self.a_s


class Explained(RecordPart, frozen=True, kw_only=True):
    """One case on both sides; of one side alone what B has is null."""

    case: str
    a: Literal["predicted", "measured"]
    b: Literal["predicted", "measured"] | None = None
    a_step_s: float
    b_step_s: float | None = None
    a_interval_s: list[float] | None
    b_interval_s: list[float] | None = None
    # A measurement lies outside of a prediction; or the runs of two measurements differ (`statistics.t_test`), which 1
    # in 20 answers or fewer say by chance, however many cases they have.
    outside: bool = False
    longer: list[float] | None = None  # between which B / A lies, of two measurements of three runs or more
    level: float | None = None  # the share of answers outside `longer`: that of the verdict, which counts all cases
    resolved: float | None = None  # the difference, as a share, that four of five such pairs of sets of runs show
    a_runs: int = 0  # that were measured
    b_runs: int = 0
    parts: list[ExplainedPart]  # of each side they sum to its step; [] where a side has none
    why: str  # parts are not known
    differs: list[str]  # settings in which the sides differ: "input: synthetic in A, dali in B"
    # What else differs: machines, software, clocks, messages, other programs; of one side the copies of its step.
    evidence: list[str]
    late: str  # which rank is the last to have its gradients, where an instrumented run tells; ""


def sides_of_prediction(made: Prediction) -> list[Side]:
    """Every point that has a step, by the system and what else tells it from others."""
    sides, curves = [], predicted_curves(made.points)
    varied = [name for name in identity(curves) if name == "strategy"]
    for curve in curves:
        for point in curve.points:
            if point.request and point.iteration_s:
                where = [f"{ranks(point.gpus, point)} of {curve.system}", curve.library]
                more = [getattr(curve, name) for name in varied]
                words = ", ".join([curve.workload, f"batch {curve.batch}", *more, *where])
                sides.append(_predicted(point, point.request, words))
    return sides


def _predicted(point: PredictedPoint, request: Request, words: str) -> Side:
    assert point.iteration_s, "only points that have a step"
    parts: dict[ExplainedPartName, float] = {}
    for part in point.parts:
        name = _OF_PREDICTIONS.get(part.name, "the rest")
        parts[name] = parts.get(name, 0.0) + part.share * point.iteration_s
    ends = (point.interval_s[0], point.interval_s[1]) if point.interval_s else None
    why = "" if parts else "an older prediction, which has no parts"
    return Side("predicted", words, request, point.iteration_s, ends, parts, why)


def sides_of_study(points: Iterable[StudyPoint]) -> list[Side]:
    """Every point that has a rate."""
    return [_measured(point) for point in points if point.result.images_per_s]


def _measured(point: StudyPoint) -> Side:
    rate, lost = point.result.images_per_s, point.result.lost
    assert rate, "only points that have a rate"
    batch = point.request.batch_size
    parts: dict[ExplainedPartName, float] = {part.name: part.time_s for part in lost.parts} if lost else {}
    ends = (batch / rate.high, batch / rate.low) if rate.n > 1 else None
    why = lost.why if lost else ""
    step_s = sum(parts.values()) or batch / rate.median  # the median of steps is not that of rates
    open_parts = frozenset(part.name for part in lost.parts if not part.shown) if lost else frozenset()
    runs = tuple(point.good_runs)
    if ends is None and len(runs) == 1 and len(runs[0].rates) > 1:  # of one run what its windows were
        ends = (batch / max(runs[0].rates), batch / min(runs[0].rates))
    shares = {part.name: part.share for part in lost.parts} if lost else {}
    wide = {name: share for name, share in shares.items() if share.kind == "interval" and share.low < share.high}
    if sum(map(bool, parts.values())) == 1:  # all of it, by definition
        open_parts = frozenset()
    limits = point.result.limits
    copies = (limits and limits.copies) or next((run.copies for run in reversed(runs) if run.copies), None)
    late = _late(point)
    steps_s = tuple(batch / run.images_per_s for run in runs if run.images_per_s)
    return Side(
        "measured",
        point.words,
        point.request,
        step_s,
        ends,
        parts,
        why,
        late,
        open_parts,
        runs,
        copies,
        steps_s,
        {name: (share.low, share.high) for name, share in wide.items()},
    )


def _late(point: StudyPoint) -> str:
    """The rank that is last to have the gradients of the last message, in the steps of its instrumented run."""
    limits = point.result.limits
    if not limits or not limits.phases or not limits.messages or not (ready_s := limits.messages[-1].ready_s):
        return ""
    begin_s = limits.phases.begin_s
    if [len(steps) for steps in ready_s] != [len(steps) for steps in begin_s]:
        return ""
    at_s = [[begin + ready for begin, ready in zip(*rank, strict=True)] for rank in zip(begin_s, ready_s, strict=True)]
    by_step = list(zip(*at_s, strict=True))
    last, times = Counter(max(range(len(step)), key=step.__getitem__) for step in by_step).most_common(1)[0]
    if len(by_step) < FEWEST_STEPS or times < MOSTLY * len(by_step):
        return ""
    after_s = fmean(max(step) - fmean(step) for step in by_step)
    return (
        f"rank {last} is the last with its gradients in {times} of {len(by_step)} profiled steps; the last one is "
        f"{after_s * 1e3:.3g} ms behind the mean"
    )


def alone(side: Side) -> Explained:
    """Where the time of one case goes."""
    return Explained(
        case=side.words,
        a=side.kind,
        a_step_s=side.step_s,
        a_interval_s=list(side.interval_s) if side.interval_s else None,
        a_runs=len(side.steps_s),
        parts=[
            ExplainedPart(
                name, side.parts_s[name], None, "not resolved" * (name in side.unresolved), side.share_ends.get(name)
            )
            for name in ORDER
            if side.parts_s.get(name)
        ],
        why=side.why,
        differs=[],
        evidence=[f"copies of a step: {copies_text(side.copies)}"] if side.copies else [],
        late=side.late,
    )


def explained(a: Sequence[Side], b: Sequence[Side]) -> list[Explained]:
    """Every case that both have, in the order of A: cases that `compare` finds alike, too."""
    if {side.kind for side in (*a, *b)} == {"measured"}:
        alike = alike_requests([side.request for side in a], [side.request for side in b])
        pairs = [(one, other) for one in a for other in b if (one.request.key, other.request.key) in alike]
        level = level_of_each([t_test(one.steps_s, other.steps_s) for one, other in pairs])
        tests = [t_test(one.steps_s, other.steps_s, level) for one, other in pairs]
        return [
            _explained(one, other, test is not None and test.p <= level, test)
            for (one, other), test in zip(pairs, tests, strict=True)
        ]
    cases = AlikeCases((side.request, side) for side in b)
    return [_explained(one, other, _outside(one, other)) for one in a for other in cases.of(one.request)]


def _explained(a: Side, b: Side, outside: bool, test: TTest | None = None) -> Explained:
    merged = any(BOTH in side.parts_s for side in (a, b))
    known = bool(a.parts_s and b.parts_s)
    of_a, of_b = (_merged(side.parts_s) if merged else side.parts_s for side in (a, b))
    if "measured" in (a.kind, b.kind):
        of_a, of_b = _as_solo(of_a), _as_solo(of_b)
    if any(known and "smaller batches" not in side.parts_s for side in (a, b)):
        of_a, of_b = _without_small(of_a), _without_small(of_b)
    names = [name for name in ORDER if of_a.get(name) or of_b.get(name)] if known else []
    return Explained(
        case=a.words if a.words == b.words else f"{b.words} (A: {a.words})" if a.kind == b.kind else b.words,
        a=a.kind,
        b=b.kind,
        a_step_s=a.step_s,
        b_step_s=b.step_s,
        a_interval_s=list(a.interval_s) if a.interval_s else None,
        b_interval_s=list(b.interval_s) if b.interval_s else None,
        outside=outside,
        longer=[test.low, test.high] if test else None,
        level=test.level if test else None,
        resolved=test.resolved if test else None,
        a_runs=len(a.steps_s),
        b_runs=len(b.steps_s),
        parts=[ExplainedPart(name, of_a.get(name, 0.0), of_b.get(name, 0.0), _of_part(name, a, b)) for name in names],
        why="" if known else a.why or b.why or "one of them has no parts",
        differs=_differences(a.request, b.request),
        evidence=_evidence(a, b),
        late=b.late or a.late,
    )


def _of_part(name: ExplainedPartName, a: Side, b: Side) -> str:
    """What is known of a part beside its time: that runs do not resolve it, or that a side has none by its settings."""
    if name == "input":
        kinds = [side.request.input.kind for side in (a, b)]
        if kinds[0] != kinds[1]:
            return f"A: {kinds[0]}, B: {kinds[1]}"
    open_in = [letter for letter, side in (("A", a), ("B", b)) if name in side.unresolved]
    where = f" in {open_in[0]}" if len(open_in) == 1 else ""  # else in both
    return f"not resolved{where}" if open_in else ""


def _evidence(a: Side, b: Side) -> list[str]:
    """In what the runs of both differ beside their settings."""
    if not a.runs or not b.runs:
        return []
    lines = difference_lines(differences(a.runs, b.runs))
    sent_a, sent_b = _sent(a.runs), _sent(b.runs)
    if sent_a and sent_b and sent_a != sent_b:
        same = "the same in another order" if sorted(sent_a) == sorted(sent_b) else f"{len(sent_b)} in B"
        lines.append(f"messages of gradients: {len(sent_a)} in A, {same}")
    if a.copies and b.copies and (told_a := copies_text(a.copies)) != (told_b := copies_text(b.copies)):
        lines.append(f"copies of a step: {told_a} in A, {told_b} in B")
    return lines


def copies_text(copies: Copies) -> str:
    """Bytes and calls of the copies of a step, by direction."""
    ways = ("to the GPU", "host_to_device"), ("to the host", "device_to_host"), ("within a GPU", "device_to_device")
    told = []
    for where, direction in ways:
        size_bytes, calls = (getattr(copies, f"{direction}_{what}") for what in ("bytes", "calls"))
        size = "not known" if size_bytes is None else si(size_bytes, "B")
        told.append(f"{size} {where}" + ("" if not calls else f" in {calls:,}"))
    return f"{', '.join(told)} (all ranks, by {_COUNTED_BY[copies.counted_by]})"


_COUNTED_BY = {"profiler": "CUDA's profiler", "operators": "torch's operators"}


def _sent(runs: Sequence[RunSummary]) -> list[int]:
    """The bytes of each message of gradients, in the order in which they are sent."""
    return next(([bucket.size_bytes for bucket in run.buckets] for run in runs if run.buckets), [])


def _merged(parts_s: dict[ExplainedPartName, float]) -> dict[ExplainedPartName, float]:
    """Communication and waiting as one part."""
    others = {name: time_s for name, time_s in parts_s.items() if name not in ("communication", "waiting", BOTH)}
    both = sum(parts_s.get(name, 0.0) for name in ("communication", "waiting", BOTH))
    others[BOTH] = both
    return others


def _as_solo(parts_s: dict[ExplainedPartName, float]) -> dict[ExplainedPartName, float]:
    """Launching among smaller batches, as a measurement has it: `solo` is one rank with its share."""
    others = dict(parts_s)
    if (launching_s := others.pop("launching", None)) is not None:
        others["smaller batches"] = others.get("smaller batches", 0.0) + launching_s
    return others


def _without_small(parts_s: dict[ExplainedPartName, float]) -> dict[ExplainedPartName, float]:
    """Smaller batches among the rest, where a side does not have them apart."""
    others = {name: time_s for name, time_s in parts_s.items() if name not in ("smaller batches", "the rest")}
    return {**others, "the rest": parts_s.get("smaller batches", 0.0) + parts_s.get("the rest", 0.0)}


def _outside(a: Side, b: Side) -> bool:
    """Whether one lies outside of the other, which is a prediction; of two predictions, each outside of the other.

    Without any interval, steps that are not equal differ.
    """
    judges = [side for side in (a, b) if side.kind == "predicted" and side.interval_s] or [a, b]
    told = [(side.interval_s, b if side is a else a) for side in judges if side.interval_s]
    if not told:
        return a.step_s != b.step_s
    return not any(low <= other.step_s <= high for (low, high), other in told)


def _differences(a: Request, b: Request) -> list[str]:
    """The settings in which the two differ; of a choice that both have, those of its own."""
    return [
        f"{name}: {value_a} in A, {value_b} in B"
        for name, value_a, value_b in _unlike("", msgspec.to_builtins(a), msgspec.to_builtins(b))
        if name.partition(".")[0] not in _NO_EVIDENCE
    ]


def _unlike(name: str, a: Any, b: Any) -> Iterator[tuple[str, str, str]]:
    """(name, value in A, value in B) of what differs in a setting, or in all of a request."""
    if isinstance(a, dict) and isinstance(b, dict) and a.get("kind") == b.get("kind"):
        for key in dict.fromkeys([*a, *b]):
            yield from _unlike(f"{name}.{key}".lstrip("."), a.get(key), b.get(key))
    elif a != b:
        yield name, _word(a), _word(b)


def _word(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else None
    return "not set" if value is None else str(kind or value)


# ---- the answer -----------------------------------------------------------------------------------------------------

LEAST_s = 5e-5  # that a difference is printed of
NAMED = 0.1  # of the whole difference: parts with as much are named in the sentence


def explained_answer(found: Sequence[Explained]) -> list[str]:
    """The case that differs most, or of one side loses most; and how many there are."""
    first = max(found, key=weight)
    if same_results(found):
        return [f"A and B hold the same results: a step of each of {len(found)} cases takes exactly as long in both."]
    if len(found) == 1 or first.b_step_s is None:
        return [explained_case(first)]
    return [explained_case(first), f"Of {len(found)} cases, this one {_of_these(found, first)}."]


def _of_these(found: Sequence[Explained], first: Explained) -> str:
    """In how far the first case stands for all."""
    outside = sum(case.outside for case in found)
    if not _measured_twice(first):
        lie = f"{outside} lie outside of their intervals"
        if outside < 2:
            lie = f"{'1' if outside else 'none'} lies outside of its interval"
        return f"differs most; {lie}"
    few = sum(case.longer is None for case in found)
    differ = "none differs" if not outside else "no other differs" if outside == 1 else f"{outside} differ"
    undecided = f", {few} have too few runs" * bool(0 < few < len(found))
    return f"is the furthest apart{'' if few == len(found) else f'; {differ}'}{undecided}"


def certainty(each: Explained) -> str:
    """What the verdict on a case is worth."""
    if each.b_step_s is None:
        return _of_runs(each) if each.a == "measured" else "9 of 10 measurements should lie inside"
    if not _measured_twice(each):
        return "a measurement that agrees lies in what is predicted, as 9 of 10 should"
    if each.longer is None or each.resolved is None or each.level is None:
        return (
            f"the scatter of runs is known from {MIN_RUNS_FOR_T} of each; with fewer none is said to differ (status 0)"
        )
    found = f"{each.resolved:.{0 if each.resolved > NAMED else 1}%}"
    return (
        f"{_percent_inside(each.level)} intervals; by such runs a difference of {found} is found 4 times in 5; of "
        "equal results (simulated) 1 in 20 or fewer are said to differ"
    )


def _of_runs(each: Explained) -> str:
    """What the ends of a measured step are, by how many runs there are."""
    if each.a_runs >= MIN_RUNS:
        return "95% intervals by repeats"
    what = f"the range of {each.a_runs} runs" if each.a_runs > 1 else "one run"
    what += ", with the range of its windows" * (each.a_runs == 1 and each.a_interval_s is not None)
    return f"{what}; 95% intervals take repeats={MIN_RUNS}"


def _percent_inside(level: float) -> str:
    """ "97 %", "99.94 %": with as many digits as tell it from 100."""
    return f"{round(100 * (1 - level), 1 - floor(log10(100 * level))):.12g}%"


def _measured_twice(each: Explained) -> bool:
    return (each.a, each.b) == ("measured", "measured")


def same_results(found: Sequence[Explained]) -> bool:
    """Whether several cases are exactly alike on both sides, as those of one folder given twice."""
    alike = ((each.a, each.a_step_s, each.a_interval_s) == (each.b, each.b_step_s, each.b_interval_s) for each in found)
    return len(found) > 1 and all(alike)


def explained_case(each: Explained) -> str:
    """One case in a sentence."""
    return _alone(each) if each.b_step_s is None else _beside(each, each.b_step_s)


def _alone(each: Explained) -> str:
    kind = each.a.capitalize()
    useful = useful_share(each)
    lost = "" if not useful else f", {useful:.0%} of it useful"
    sentence = f"{kind}: a step of {each.case} takes {_step(each.a_step_s, each.a_interval_s)}{lost}."
    named = [part for part in each.parts if part.name != "useful" and not part.evidence and (part.a_s or 0.0) > 0]
    if named:
        most = max(named, key=lambda part: part.a_s or 0.0)
        sentence += f" Most is lost to {most.name}: {ms_text(most.a_s)} ms, {(most.a_s or 0.0) / each.a_step_s:.0%}"
        sentence += f" ({_share_ends(most.share_ends)})." if most.share_ends else "."
    return sentence


def _share_ends(ends: tuple[float, float] | None) -> str:
    """ "6 to 26", in percent."""
    return f"{round(100 * ends[0])} to {round(100 * ends[1])}" if ends else ""


def useful_share(each: Explained) -> float | None:
    """Which share of the step of A is useful, where that is known."""
    time_s = next((part.a_s for part in each.parts if part.name == "useful"), None)
    return None if time_s is None else time_s / each.a_step_s


def _beside(each: Explained, b_step_s: float) -> str:
    """ "A step of ...: 165 ms (151 to 180) predicted in A, 204 ms (194 to 234) measured in B: ..."."""
    a, b = (_step(*side) for side in ((each.a_step_s, each.a_interval_s), (b_step_s, each.b_interval_s)))
    more_s = b_step_s - each.a_step_s
    sentence = f"A step of {each.case}: {a} {each.a} in A, {b} {each.b} in B: {_verdict(each, more_s)}."
    parts = [part for part in each.parts if part.more_s is not None and part.more_s * more_s > NAMED * more_s**2]
    if each.outside and parts:
        named = ", ".join(
            f"{ms_text(abs(part.more_s or 0.0))} {part.name}"
            for part in sorted(parts, key=lambda part: -abs(part.more_s or 0.0))
        )
        rest_s = abs(more_s - sum(part.more_s or 0.0 for part in parts))
        named += f", {ms_text(rest_s)} in other parts" * (rest_s >= LEAST_s)
        sentence += f" Of the {ms_text(abs(more_s))} ms that it is {'longer' if more_s > 0 else 'shorter'}: {named}."
    return sentence


def _verdict(each: Explained, more_s: float) -> str:
    """What the two are to each other, and of what runs do not show how large it may be."""
    if not _measured_twice(each):
        return "outside of that" if each.outside else "they agree"
    if each.longer is None:
        runs = f"{each.a_runs} run{'s' * (each.a_runs != 1)} of A and {each.b_runs} of B"
        return f"not decided, as {runs} decide nothing (repeats={MIN_RUNS_FOR_T} of each would)"
    low, high = (f"{end:.3g}" for end in each.longer)  # where they are told apart from 1
    if not each.outside:
        _, low, high = to_interval(sqrt(each.longer[0] * each.longer[1]), *each.longer)
    times = f"{low} to {high} times as long"
    if each.outside:
        return f"B takes {'longer' if more_s > 0 else 'less'}, {times}"
    return f"no difference is shown; B may take {times}"


def _step(step_s: float, interval_s: Sequence[float] | None) -> str:
    if interval_s is None:
        return f"{ms_text(step_s)} ms"
    return with_interval(step_s * 1e3, interval_s[0] * 1e3, interval_s[1] * 1e3, " ms")


def ms_text(time_s: float | None) -> str:
    return "?" if time_s is None else f"{time_s * 1e3:,.1f}"


def weight(each: Explained) -> float:
    """How much of the step differs, of what does first; of one side alone, how much of it is lost."""
    if each.b_step_s is not None:
        return each.outside + abs(each.b_step_s - each.a_step_s) / max(each.a_step_s, each.b_step_s)
    return sum(part.a_s or 0.0 for part in each.parts if part.name != "useful") / each.a_step_s


# ---- columns --------------------------------------------------------------------------------------------------------


class PartRow(NamedTuple):
    """A part of a step on both sides, or the whole of it."""

    name: str
    a_s: float | None
    b_s: float | None
    more_s: float | None
    percent: int  # of the step of A
    evidence: str = ""
    share_ends: tuple[float, float] | None = None


def part_rows(each: Explained) -> list[PartRow]:
    """The parts of a case, and their sum."""
    whole = percents({part.name: (part.a_s or 0.0) / each.a_step_s for part in each.parts}, by_itself="useful")
    rows = [
        PartRow(part.name, part.a_s, part.b_s, part.more_s, whole[part.name], part.evidence, part.share_ends)
        for part in each.parts
    ]
    more_s = None if each.b_step_s is None else each.b_step_s - each.a_step_s
    return [*rows, PartRow("", each.a_step_s, each.b_step_s, more_s, 100)]


def part_columns(each: Explained) -> list[Column[PartRow]]:
    """A part on both sides; of one side alone its share of the step."""
    name: Column[PartRow] = Column("part", lambda row: row.name)
    evidence: Column[PartRow] = Column("evidence", lambda row: row.evidence)
    if each.b_step_s is None:
        share: Column[PartRow] = Column(">% of the step", lambda row: f"{row.percent}")
        ends: Column[PartRow] = Column(">95% interval", lambda row: _share_ends(row.share_ends))
        return [name, Column(">ms", lambda row: ms_text(row.a_s)), share, ends, evidence]
    return [
        name,
        Column(f">{each.a} A, ms", lambda row: ms_text(row.a_s)),
        Column(f">{each.b} B, ms", lambda row: ms_text(row.b_s)),
        Column(">difference", lambda row: "" if row.more_s is None else f"{row.more_s * 1e3:+,.1f}"),
        evidence,
    ]


def case_columns(found: Sequence[Explained]) -> list[Column[Explained]]:
    """A row for each case."""
    steps: list[Column[Explained]] = [
        Column("~case", lambda each: each.case),
        Column(">step, ms" if found[0].b_step_s is None else ">A, ms", lambda each: ms_text(each.a_step_s)),
    ]
    if found[0].b_step_s is None:
        known = any(useful_share(each) is not None for each in found)
        return [*steps, *[Column(">useful %", _useful)] * known]
    return [
        *steps,
        Column(">B, ms", lambda each: ms_text(each.b_step_s)),
        Column(">B / A", lambda each: f"{(each.b_step_s or 0.0) / each.a_step_s:.2f}"),
        Column("differs" if _measured_twice(found[0]) else "outside", _differs),
    ]


def _differs(each: Explained) -> str:
    open_case = _measured_twice(each) and each.longer is None
    return "?" if open_case else "yes" if each.outside else "no"


def _useful(each: Explained) -> str:
    useful = useful_share(each)
    return "?" if useful is None else f"{100 * useful:.0f}"


def shown_explained(found: Sequence[Explained]) -> Answer:
    """The answer, and the parts of the case that differs most, or a row for each of several cases."""
    first = max(found, key=weight)
    if len(found) > 1 or not first.parts:
        return Answer(explained_answer(found), as_shown(case_columns(found), found))
    return Answer(explained_answer(found), as_shown(part_columns(first), part_rows(first)))
