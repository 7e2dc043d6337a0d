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
from resnetx.reporting.study.labels import settings_label, study_labels, varying_settings
from resnetx.reporting.study.results import Results
from resnetx.reporting.study.scaling import PointResult, point_results
from resnetx.request import Request
from resnetx.statistics import Runs


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
