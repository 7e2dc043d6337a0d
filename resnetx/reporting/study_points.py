"""The points of studies: as a page shows them, and which of two studies are the same measurement."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from resnetx.errors import ConfigError
from resnetx.record import RunSummary, Workload
from resnetx.record.comparisons import Difference
from resnetx.reporting.study_scaling import (
    Limits,
    LostTime,
    MeasuredPartName,
    PointResult,
    Results,
    point_results,
    study_labels,
)
from resnetx.reporting.worth import worth
from resnetx.request import Request, settings_label, varying_settings
from resnetx.settings.verbs import group_of
from resnetx.statistics import Runs, Summary
from resnetx.table import ONLY_WITH_ALL, Answer, Column, as_shown
from resnetx.units import Unit, figure, how_many, on_cores, to_interval

# ---- points ---------------------------------------------------------------------------------------------------------
# The points of one or several studies as a page, a screen or a comparison shows them.
#
# Each has its runs, what they amount to (`scaling`), and labels by which it is told from all others on the same page.
#
#     points = study_points([results.load(folder)])
#     points[0].words                      # "ResNet/4, batch 16, bf16, 2 GPUs"
#     points[0].result.images_per_s        # over its runs


@dataclass(frozen=True)
class StudyPoint:
    """One point: its runs, their result, and its labels. Points of one line differ in their GPUs only."""

    result: PointResult
    good_runs: list[RunSummary]  # that have rates
    variant: str  # "bf16, layerwise": what else differs on this page; "" where nothing does, "default" where it does
    counts: Workload | None  # of this workload and batch, by whichever run has them
    system: str = ""  # of `variant` what is the machine: the label of its study, and the system that a lab is shaped to
    settings: str = ""  # of `variant` all else

    def __repr__(self) -> str:
        """The point in words, its rate and its speed-up, each with its interval."""
        named = ((" images/s", self.result.images_per_s), (" times its baseline", self.result.speedup))
        told = [_with_ends(summary, name) for name, summary in named if summary]
        return f"{self.words}: {', '.join(told) or self.result.reason or self.result.outcome}"

    @property
    def request(self) -> Request:
        return self.result.request

    @property
    def gpus(self) -> int:
        return self.request.gpus

    @property
    def workload(self) -> str:
        """ "ResNet/4"."""
        return self.request.model.label

    @property
    def batch(self) -> str:
        """ "batch 16", or "batch 16 per GPU" where it grows with the GPUs."""
        return f"batch {_batch_order(self.request)[0]}" + f" per {self.result.unit}" * (self.request.scaling == "weak")

    @property
    def line(self) -> tuple[str, str, str]:
        return self.workload, self.batch, self.variant

    @property
    def line_words(self) -> str:
        """The line that it is on, in words."""
        return ", ".join(filter(None, self.line))

    @property
    def words(self) -> str:
        """The point in words."""
        return f"{self.line_words}, {how_many(self.gpus, self.result.unit)}"

    @property
    def rates(self) -> Runs:
        """Images/s of each window of each good run."""
        return [run.rates for run in self.good_runs]

    @property
    def sm_clock_Hz(self) -> float | None:
        """The median over the good runs that have one."""
        clocks = [run.sm_clock_Hz for run in self.good_runs if run.sm_clock_Hz is not None]
        return statistics.median(clocks) if clocks else None


def unit_of_points(points: Iterable[StudyPoint]) -> Unit:
    """What the points of a page or table count: ranks where all are on CPU cores."""
    return "rank" if {point.result.unit for point in points} == {"rank"} else "GPU"


def study_points(
    studies: Sequence[Results], baseline: int | None = None, only: Collection[str] | None = None
) -> list[StudyPoint]:
    """Every point of the studies, in their order. `baseline`: see `point_results`.

    `only`: keys of requests; the points that are shown, where speed-ups are over a baseline that may be another one.
    """
    points = [
        (measured, result, label)
        for results, label in zip(studies, study_labels(studies), strict=True)
        for measured, result in zip(results.points, point_results(results, baseline), strict=True)
        if only is None or result.request.key in only
    ]
    keys = varying_settings([(result.request, label) for _, result, label in points])
    of_machine = [key for key in keys if key == "lab.system"]
    others = [key for key in keys if key not in of_machine]
    counts = {_work(result.request): result.workload for _, result, _ in points if result.workload}
    return [
        StudyPoint(
            result=result,
            good_runs=measured.good_runs,
            variant=", ".join(filter(None, [label, settings_label(result.request, keys)])) or "default" * bool(keys),
            counts=result.workload or counts.get(_work(result.request)),
            system=", ".join(filter(None, [label, settings_label(result.request, of_machine)])),
            settings=settings_label(result.request, others) or "default" * bool(others),
        )
        for measured, result, label in points
    ]


def _work(request: Request) -> tuple[Any, ...]:
    return request.model, request.image_size, request.batch_size


# ---- orders ---------------------------------------------------------------------------------------------------------


def workloads_in_order(points: Iterable[StudyPoint]) -> list[str]:
    """The workloads, ResNet/x first and each by how much work it is per parameter."""
    return list(dict.fromkeys(point.workload for point in sorted(points, key=_workload_order)))


def _workload_order(point: StudyPoint) -> tuple[bool, tuple[int, ...], str]:
    place = point.request.model.place_in_family
    return not place, place, point.workload


def batches_in_order(points: Iterable[StudyPoint]) -> list[str]:
    """The batches, the smallest first."""
    return list(dict.fromkeys(point.batch for point in sorted(points, key=lambda point: _batch_order(point.request))))


def _batch_order(request: Request) -> tuple[int, str]:
    weak = request.scaling == "weak"
    return request.batch_size // request.gpus if weak else request.batch_size, request.scaling


def batch_categories(points: Iterable[StudyPoint]) -> dict[tuple[str, str], int]:
    """Which of its workload's batches each is, from 1: the batch category of Tallent et al. 2017, Fig. 5."""
    of_workload: dict[str, list[StudyPoint]] = defaultdict(list)
    for point in points:
        of_workload[point.workload].append(point)
    return {
        (workload, batch): category
        for workload, same in of_workload.items()
        for category, batch in enumerate(batches_in_order(same), 1)
    }


# What a study answers, in a sentence: how far its workloads scale, and where the rest went.

WORDS: dict[MeasuredPartName, str] = {
    "useful": "useful",
    "input": "input",
    "communication": "exposed communication",
    "waiting": "waiting for the slowest",
    "communication and waiting": "communication and waiting",
    "smaller batches": "smaller batches",
    "the rest": "smaller batches and the rest",
}  # in the order of tables


def study_answer(points: Sequence[StudyPoint], node: str) -> str:
    """The point on most GPUs of the only line; or of several lines, those that gain least and most."""
    able = [point for point in points if point.result.images_per_s]
    node += _in_the_lab(able)
    if not able:
        return f"Not measured on {node}: none of {len(points)} cases has a run that went well."
    unit = unit_of_points(points)
    ends = last_of_lines(able)
    gained = [point for point in ends if point.result.speedup and point.result.efficiency and gains(point)]
    if len(ends) == 1:
        (point,) = ends
        rate = point.result.images_per_s
        assert rate, "chosen because it has a rate"
        what = (
            f"Measured on {node}: {how_many(point.gpus, unit, 'one')}{on_cores(unit)} "
            f"{'train' if point.gpus > 1 else 'trains'} {point.workload}"
        )
        if not gained or not point.result.speedup or not point.result.efficiency:
            return f"{what} at {_with_ends(rate)} {point.request.model.samples}/s."
        over = f"as fast as {point.result.baseline.replace('1 ', 'one ', 1)}"
        efficiency = point.result.efficiency.median
        return f"{what} {_with_ends(point.result.speedup, ' times')} {over}, {efficiency:.0%} of ideal.{_lost(point)}"
    if not gained:
        count = f"{len(able)} of {len(points)}" if len(able) < len(points) else f"{len(able)}"
        alike = len({point.gpus for point in able}) == 1
        ranges = []
        for samples in dict.fromkeys(point.request.model.samples for point in able):  # images are no sequences
            of = sorted((point for point in able if point.request.model.samples == samples), key=_rate)
            ends_of = dict.fromkeys(
                f"{_with_ends(point.result.images_per_s)} {samples}/s ({point.line_words if alike else point.words})"
                for point in (of[0], of[-1])
                if point.result.images_per_s
            )
            ranges.append(f"{'from ' * (len(ends_of) > 1)}{' to '.join(ends_of)}")
        on = f"on {how_many(able[0].gpus, unit, 'one')}" if alike else f"none on several numbers of {unit}s"
        return f"Measured on {node}: {count} cases, {on}: {'; '.join(ranges)}.{_left_by_small_batches(able)}"
    if len(gained) == 1:
        (point,) = gained
        fast = f"{_with_ends(point.result.speedup, ' times')} as fast as {point.result.baseline}"
        words = f"Measured on {node}: {how_many(point.gpus, unit)} train {point.line_words} {fast}"
        return f"{words}; no other case has several numbers of {unit}s."
    ranked = sorted(gained, key=lambda point: point.result.speedup.median if point.result.speedup else 0.0)
    least, most = (f"{_with_ends(point.result.speedup)} ({point.words})" for point in (ranked[0], ranked[-1]))
    several = any(gains(point) and point not in ends for point in able)  # which may gain more than those on most
    each = f", each on its most {unit}s," * several
    return f"Measured on {node}: speed-ups{each} from {least} to {most}."


def _left_by_small_batches(points: Sequence[StudyPoint]) -> str:
    """What one GPU keeps of its rate at an eighth of a batch, which bounds the efficiency of eight; "" if not known."""
    batches = {
        (point.line, point.request.batch_size): point
        for point in points
        if point.gpus == 1 and point.result.unit == "GPU"
    }
    kept = sorted(
        (
            _rate(small) / _rate(point),
            ", ".join(filter(None, [line[0], line[2], f"batch {batch} to {batch // EIGHTH}"])),
        )
        for (line, batch), point in batches.items()
        if (small := batches.get(((line[0], f"batch {batch // EIGHTH}", line[2]), batch // EIGHTH)))
        and not batch % EIGHTH
    )
    if not kept:
        return ""
    told = " to ".join(dict.fromkeys(f"{share:.0%} ({which})" for share, which in (kept[0], kept[-1])))
    few = ", by one run of each," * all(len(point.good_runs) == 1 for point in batches.values())
    return (
        f" An eighth of a batch leaves it{few} {told} of its rate: {EIGHTH} GPUs that share one reach no more of ideal."
    )


EIGHTH = 8


def _in_the_lab(points: Sequence[StudyPoint]) -> str:
    """That links are built, for which system, and what is not real; "" for a study of this machine itself."""
    labs = {point.request.lab for point in points}
    if not labs or None in labs:
        return ""
    systems, scales = (sorted({str(getattr(lab, name)) for lab in labs}) for name in ("system", "scale"))
    scale = f"links / {scales[0].removesuffix('.0')}" if len(scales) == 1 else "slower links"
    waited = ", computing replaced by idle time" * all(point.request.replay for point in points)
    return f" in the lab{f' as {systems[0]}' * (len(systems) == 1)} ({scale}{waited})"


def _rate(point: StudyPoint) -> float:
    return point.result.images_per_s.median if point.result.images_per_s else 0.0


def not_run(points: Sequence[StudyPoint]) -> list[str]:
    """The points of a study that was interrupted which it has no run of, in words."""
    return [point.words for point in points if point.result.outcome == "missing"]


def last_of_lines(points: Sequence[StudyPoint]) -> list[StudyPoint]:
    """Of each line the point on most GPUs."""
    last: dict[tuple[str, ...], StudyPoint] = {}
    for point in sorted(points, key=lambda point: point.gpus):
        last[point.line] = point
    return [last[line] for line in dict.fromkeys(point.line for point in points)]


def gains(point: StudyPoint) -> bool:
    """Whether it is compared with another point than itself."""
    return not point.result.baseline.startswith(f"{point.gpus} ")


def with_ratios(points: Sequence[StudyPoint]) -> set[str]:
    """The keys of those whose speed-up says something: not of several GPUs that are their own and only baseline, and of
    none where all are their own."""
    able = Counter(point.line for point in points if point.result.images_per_s)
    if not any(gains(point) for point in points if point.result.images_per_s):
        return set()
    return {point.request.key for point in points if gains(point) or point.gpus == 1 or able[point.line] > 1}


def _with_ends(summary: Summary | None, unit: str = "") -> str:
    """ "1.64 times (1.41 to 1.79)"; of one run there are no ends."""
    assert summary, "only points that have it"
    value, low, high = to_interval(summary.median, summary.low, summary.high)
    return f"{value}{unit}" + f" ({low} to {high})" * (summary.n > 1)


def _lost(point: StudyPoint) -> str:
    """Which parts are shown to take what is lost."""
    time, efficiency = point.result.lost, point.result.efficiency
    if not time or not time.parts or not efficiency or efficiency.median >= 1:
        return ""
    shown = sorted(
        (part for part in time.parts if part.name != "useful" and part.shown and part.share.median > 0),
        key=lambda part: -part.share.median,
    )
    lost = f" Of the {1 - efficiency.median:.0%} lost,"
    runs = min(part.share.n for part in time.parts)
    if not shown:
        return f"{lost} no part is resolved by {runs} repeat{'s' * (runs != 1)}."
    words = WORDS | {"the rest": "the rest"} if any(part.name == "smaller batches" for part in time.parts) else WORDS
    takes = [f"{words[part.name]} takes {percent(part.share)}" for part in shown]
    left = len(shown) < len(time.parts) - 1
    return f"{lost} {', '.join(takes)}" + f"; the rest is not resolved by {runs} repeats" * left + "."


BY_FEW_RUNS = " That is by "


def worth_of_lines(points: Sequence[StudyPoint]) -> list[tuple[str, str]]:
    """Of each line, in words, how many GPUs are worth it, and what would change that; none of a line of one point."""
    lines: dict[tuple[str, str, str], list[StudyPoint]] = defaultdict(list)
    for point in points:
        if point.result.images_per_s:
            lines[point.line].append(point)
    found = []
    for line in lines.values():
        known = {point.gpus: rate for point in line if (rate := point.result.images_per_s)}
        lost = max(line, key=lambda point: point.gpus).result.lost
        parts = [part for part in (lost.parts if lost else []) if part.name != "useful" and part.shown]
        slower = partial(_apart, known)
        shares, most = ({part.name: getattr(part.share, end) for part in parts} for end in ("median", "high"))
        told = worth({gpus: rate.median for gpus, rate in known.items()}, shares, unit_of_points(line), slower, most)
        if told and (least := min(known.values(), key=lambda rate: rate.n)).kind != "interval":
            told += f"{BY_FEW_RUNS}{least.n} run{'s' * (least.n > 1)} of a case, without an interval."
        found.append((line[0].line_words, told))
    return [(words, told) for words, told in found if told]


def _apart(rates: Mapping[int, Summary], fewer: int, more: int) -> bool:
    """Whether the interval of the rate on more GPUs ends below that on fewer; of few runs, there is none."""
    return rates[more].kind == rates[fewer].kind == "interval" and rates[more].high < rates[fewer].low


def percent(share: Summary) -> str:
    """ "10 (6 to 26)", in percent."""
    value, low, high = (f"{100 * end:.0f}" for end in (share.median, share.low, share.high))
    return f"{value} ({low} to {high})" if share.n > 1 else value


def part_cells(found: LostTime) -> dict[MeasuredPartName, str]:
    """Each part in percent of the step; "below 8" where the runs do not show that there is any."""
    return {
        part.name: f"below {100 * part.share.high:.0f}"
        if part.share.kind == "interval" and not part.shown
        else f"{100 * part.share.median:.0f}"
        for part in found.parts
    }


def where_rows(points: Sequence[StudyPoint]) -> list[tuple[StudyPoint, dict[MeasuredPartName, str]]]:
    """Of each line its point on most GPUs, with the cells of its parts; none of a line whose parts are not known."""
    ends = [(point, point.result.lost) for point in last_of_lines(points) if gains(point)]
    return [(point, part_cells(lost)) for point, lost in ends if lost and lost.parts]


# ---- columns --------------------------------------------------------------------------------------------------------

_ENDS = {"interval": "95% interval", "range": "range"}
_NAMES: list[Column[StudyPoint]] = [
    Column("workload", lambda point: point.workload),
    Column("batch", lambda point: point.batch.removeprefix("batch ")),
    Column("settings", lambda point: point.variant),
]


def shown_study(points: Sequence[StudyPoint], node: str) -> Answer:
    """The answer of a study, and its table."""
    return Answer([study_answer(points, node)], as_shown(scaling_columns(points), points))


def point_names(points: Sequence[StudyPoint]) -> list[Column[StudyPoint]]:
    """The columns that tell points apart."""
    return [*_NAMES, Column(f">{unit_of_points(points)}s", lambda point: f"{point.gpus}")]


def samples_of(points: Iterable[StudyPoint]) -> str:
    """What the points train on: images, sequences, or of several kinds samples."""
    what = {point.request.model.samples for point in points}
    return what.pop() if len(what) == 1 else "samples"


def scaling_columns(points: Sequence[StudyPoint]) -> list[Column[StudyPoint]]:
    """How fast each point is, what that is over its baseline, and what limits it."""
    kinds = {point.result.images_per_s.kind for point in points if point.result.images_per_s}
    ends = " or ".join(name for kind, name in _ENDS.items() if kind in kinds) or "range"
    baselines = ", ".join(dict.fromkeys(point.result.baseline for point in points))
    unit, telling = unit_of_points(points), with_ratios(points)
    several = len({point.gpus for point in points}) > 1  # one number of GPUs has no speed-up
    over = "" if baselines == f"1 {unit}" else f"over {baselines}."

    def estimate(name: str, heading: str, legend: str = "") -> list[Column[StudyPoint]]:
        def of(point: StudyPoint) -> Summary | None:
            summary: Summary | None = getattr(point.result, name)
            return summary if name != "speedup" or point.request.key in telling else None

        def cell(point: StudyPoint) -> str:
            if summary := of(point):
                return to_interval(summary.median, summary.low, summary.high)[0]
            return point.result.outcome if name == "images_per_s" else ""

        def between(point: StudyPoint) -> str:
            summary = of(point)
            told = summary and summary.n > 1 and (name != "speedup" or summary.low < summary.high)
            return " to ".join(to_interval(summary.median, summary.low, summary.high)[1:]) if summary and told else ""

        return [Column(f">{heading}", cell, help=legend),
                Column(f">{'its ' * (name == 'speedup')}{ends}", between)]  # fmt: skip

    return [
        *point_names(points),
        *estimate("images_per_s", f"{samples_of(points)}/s"),
        *(estimate("speedup", "speed-up", over) if several else []),
        Column(
            ">efficiency",
            lambda point: (
                f"{point.result.efficiency.median:.0%}"
                if several and point.result.efficiency and point.request.key in telling
                else ""
            ),
            2,
        ),
        Column(">runs", lambda point: f"{point.result.images_per_s.n}" if point.result.images_per_s else "0", 1),
        Column(
            "limited by",
            lambda point: _limit(point.result.limits),
            ONLY_WITH_ALL,
            "the largest share of the step, and its lead over the next in percentage points; with (not shown), the "
            "runs do not show that it is the largest.",
        ),
        Column(
            ">act./param.",
            lambda point: figure(point.counts.intensity) if point.counts else "",
            ONLY_WITH_ALL,
            f"activations per parameter of the batch, and of each {unit}'s share of it.",
        ),
        Column(
            f">per {unit}",
            lambda point: figure(point.counts.intensity / point.gpus) if point.counts else "",
            ONLY_WITH_ALL,
        ),
    ]


def _limit(limits: Limits | None) -> str:
    """What limits a point, and by how many percentage points it leads."""
    if limits is None:
        return ""
    if limits.unknown:
        return "not known"
    largest = max(limits.shares, key=lambda part: limits.shares[part].median)
    lead = "" if limits.margin is None else f", {100 * limits.margin.median:.0f} ahead"
    return largest + lead + " (not shown)" * (limits.verdict is None)


# ---- matched points -------------------------------------------------------------------------------------------------
# Which points of two studies are the same measurement, apart from what one study as a whole did in another way.
#
# Two machines rarely share every setting (threads follow from the cores, the images lie elsewhere), and comparing two
# strategies or two values of a variable is a use of its own. So the match goes by what tells points apart:
#
# - the workload, its batch and the number of GPUs always do;
# - any other setting does if in either study it has several values on one number of GPUs;
# - else each study has one value of it. Where these differ, the difference is one of the studies, named once for all
#   points. (On one number of GPUs, because `devices` follows from how many there are.)

_ALWAYS = {"model", "image_size", "batch_size", "gpus", "measure"}


@dataclass(frozen=True)
class Matched:
    """Two studies, point by point."""

    pairs: list[tuple[Request, Request]]  # in the order of A
    only_a: list[Request]
    only_b: list[Request]
    settings: list[Difference]  # in which all pairs differ


def match(a: Sequence[Request], b: Sequence[Request]) -> Matched:
    """The points of A with their counterparts in B; a `ConfigError` if no point has one."""
    keys, telling = _keys(a, b)
    theirs = {_identity(request, telling): request for request in b}
    distinct = {request.key for request in b}
    assert len(theirs) == len(distinct), "what does not tell points of a study apart cannot make two of them one"
    pairs = [(request, theirs[same]) for request in a if (same := _identity(request, telling)) in theirs]
    if not pairs:
        raise ConfigError(f"no case is in both studies: {_obstacle(telling, a, b)}")
    paired = {request.key for pair in pairs for request in pair}
    return Matched(
        pairs=pairs,
        only_a=[request for request in a if request.key not in paired],
        only_b=[request for request in b if request.key not in paired],
        settings=_differences([key for key in keys if key not in telling], pairs),
    )


def alike_requests(a: Sequence[Request], b: Sequence[Request]) -> set[tuple[str, str]]:
    """The keys of each point of A and of its counterpart in B."""
    _, telling = _keys(a, b)
    theirs = {_identity(request, telling): request.key for request in b}
    return {(request.key, theirs[same]) for request in a if (same := _identity(request, telling)) in theirs}


def _keys(a: Sequence[Request], b: Sequence[Request]) -> tuple[list[str], list[str]]:
    """The settings of all points, and those that tell points apart."""
    keys = list(dict.fromkeys(key for request in (*a, *b) for key in request.settings))
    return keys, [key for key in keys if group_of(key) in _ALWAYS or _tells_apart(key, a) or _tells_apart(key, b)]


def _chief(key: str, differing: Collection[str]) -> bool:
    """Whether a setting is not just one that comes with another choice: strategy.bucket_cap_mb with strategy=bucket."""
    return key == group_of(key) or group_of(key) not in differing


def _tells_apart(key: str, requests: Sequence[Request]) -> bool:
    """Whether a setting has several values on one number of GPUs. One that a choice does not have counts as null."""
    values = {(request.gpus, repr(request.settings.get(key))) for request in requests}
    return len(values) > len({request.gpus for request in requests})


def _identity(request: Request, telling: Sequence[str]) -> tuple[str, ...]:
    settings = request.settings
    return tuple(repr(settings.get(key)) for key in telling)


def _differences(keys: Sequence[str], pairs: Sequence[tuple[Request, Request]]) -> list[Difference]:
    """The settings that are not the same in all pairs; those of a choice are left out where the choice is another."""
    differing = {
        key for key in keys if any(request.settings.get(key) != other.settings.get(key) for request, other in pairs)
    }
    return [
        Difference(
            name=key,
            a=_values(key, [request for request, _ in pairs]),
            b=_values(key, [other for _, other in pairs]),
            varies_in=[],
        )
        for key in keys
        if key in differing and _chief(key, differing)
    ]


def _values(key: str, requests: Sequence[Request]) -> list[str]:
    values = (request.settings.get(key) for request in requests)
    return list(dict.fromkeys("not set" if value is None else str(value) for value in values))


def _obstacle(telling: Sequence[str], a: Sequence[Request], b: Sequence[Request]) -> str:
    """The settings of which the two studies have no value in common."""
    values = {key: (_values(key, a), _values(key, b)) for key in telling}
    apart = [key for key, (ours, theirs) in values.items() if not set(ours) & set(theirs)]
    chief = [key for key in apart if _chief(key, apart)]
    differences = [f"{key} is {', '.join(values[key][0])} in A and {', '.join(values[key][1])} in B" for key in chief]
    return "; ".join(differences) or f"they share values of {', '.join(telling)}, but no combination of them"
