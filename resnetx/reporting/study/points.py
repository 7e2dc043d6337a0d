"""The points of one or several studies as a page, a screen or a comparison shows them.

Each has its runs, what they amount to (`scaling`), and labels by which it is told from all others on the same page.

    points = study_points([results.load(folder)])
    points[0].words                      # "ResNet/4, batch 16, bf16, 2 GPUs"
    points[0].result.images_per_s        # over its runs
"""

import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from resnetx.record import RunSummary, Workload
from resnetx.record.machine import Unit, how_many
from resnetx.reporting.study.results import Results, settings_label, study_labels, varying_settings
from resnetx.reporting.study.scaling import LostTime, MeasuredPartName, PointResult, point_results
from resnetx.request import Request
from resnetx.statistics import Runs, Summary
from resnetx.units import to_interval


@dataclass(frozen=True)
class StudyPoint:
    """One point: its runs, their result, and its labels. Points of one line differ in their GPUs only."""

    result: PointResult
    good_runs: list[RunSummary]  # that have rates
    variant: str  # "bf16, layerwise": what else differs on this page; "" where nothing does, "default" where it does
    counts: Workload | None  # of this workload and batch, by whichever run has them

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
    counts = {_work(result.request): result.workload for _, result, _ in points if result.workload}
    return [
        StudyPoint(
            result=result,
            good_runs=measured.good_runs,
            variant=", ".join(filter(None, [label, settings_label(result.request, keys)])) or "default" * bool(keys),
            counts=result.workload or counts.get(_work(result.request)),
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


def batch_category(point: StudyPoint, points: Iterable[StudyPoint]) -> int:
    """Which of its workload's batches this is, from 1: the batch category of Tallent et al. 2017, Fig. 5."""
    return batches_in_order(other for other in points if other.workload == point.workload).index(point.batch) + 1


# What a study answers, in a sentence: how far its workloads scale, and where the rest went.

WORDS: dict[MeasuredPartName, str] = {
    "useful": "useful",
    "input": "input",
    "communication": "exposed communication",
    "waiting": "waiting for the slowest",
    "communication and waiting": "communication and waiting",
    "the rest": "smaller batches and the rest",
}  # in the order of tables


def study_answer(points: Sequence[StudyPoint], node: str) -> str:
    """The point on most GPUs of the only line; or of several lines, those that gain least and most."""
    able = [point for point in points if point.result.images_per_s]
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
            f"Measured on {node}: {_ranks(point.gpus, unit)} {'train' if point.gpus > 1 else 'trains'} {point.workload}"
        )
        if not gained or not point.result.speedup or not point.result.efficiency:
            return f"{what} at {_with_ends(rate)} images/s."
        over = f"as fast as {point.result.baseline.replace('1 ', 'one ', 1)}"
        efficiency = point.result.efficiency.median
        return f"{what} {_with_ends(point.result.speedup, ' times')} {over}, {efficiency:.0%} of ideal.{_lost(point)}"
    if not gained:
        return f"Measured on {node}: {len(able)} cases; none of them on more {unit}s than what it is compared with."
    ranked = sorted(gained, key=lambda point: point.result.speedup.median if point.result.speedup else 0.0)
    least, most = (f"{_with_ends(point.result.speedup)} ({point.words})" for point in (ranked[0], ranked[-1]))
    return f"Measured on {node}: speed-ups from {least} to {most}."


def last_of_lines(points: Sequence[StudyPoint]) -> list[StudyPoint]:
    """Of each line the point on most GPUs."""
    last: dict[tuple[str, ...], StudyPoint] = {}
    for point in sorted(points, key=lambda point: point.gpus):
        last[point.line] = point
    return [last[line] for line in dict.fromkeys(point.line for point in points)]


def gains(point: StudyPoint) -> bool:
    """Whether it is compared with another point than itself."""
    return not point.result.baseline.startswith(f"{point.gpus} ")


def _ranks(count: int, unit: Unit) -> str:
    return f"one {unit}" if count == 1 else f"{count} {unit}s"


def _with_ends(summary: Summary | None, unit: str = "") -> str:
    """ "1.64 times (1.41 to 1.79)"; of one run there are no ends."""
    assert summary, "only points that have it"
    value, low, high = to_interval(summary.median, summary.low, summary.high)
    return f"{value}{unit}" + f" ({low} to {high})" * (summary.n > 1)


def _lost(point: StudyPoint) -> str:
    """Which parts are shown to take what is lost."""
    found, efficiency = point.result.lost, point.result.efficiency
    if not found or not found.parts or not efficiency or efficiency.median >= 1:
        return ""
    shown = sorted(
        (part for part in found.parts if part.name != "useful" and part.shown and part.share.median > 0),
        key=lambda part: -part.share.median,
    )
    lost = f" Of the {1 - efficiency.median:.0%} lost,"
    runs = min(part.share.n for part in found.parts)
    if not shown:
        return f"{lost} no part is resolved by {runs} repeat{'s' * (runs != 1)}."
    takes = [f"{WORDS[part.name]} takes {percent(part.share)}" for part in shown]
    left = len(shown) < len(found.parts) - 1
    return f"{lost} {', '.join(takes)}" + f"; the rest is not resolved by {runs} repeats" * left + "."


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
