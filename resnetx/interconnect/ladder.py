"""Published sizes and times of a machine as the calibration of its plans.

    with_published(plan(load("dgx-a100"), "allgather")).cost(3 * 2**20)

A ladder is of one system, library and collective, on so many GPUs: the first ones, in one node. It corrects a plan as
sizes that were measured here do (`calibration`), but not sizes far below its smallest: nobody measured them, and the
model was fitted to figures of that size band on other machines, too.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from resnetx.interconnect.algorithm import LAUNCH_SHARES
from resnetx.interconnect.calibration import Calibration, ComparedTime, by_times
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.published import PublishedTime, times

FEWEST_SIZES = 6
ALIKE = 1.1  # times as long as with a process for each GPU, from which one process for all makes a difference
BEYOND = 2.0  # a ladder holds for sizes up to this factor below its smallest; above its largest, for all


def with_published(plan: CollectivePlan) -> CollectivePlan:
    """The plan, calibrated by the ladder of such plans if one is published."""
    found = ladder(plan)
    return plan if found is None else replace(plan, calibration=found)


def ladder(plan: CollectivePlan) -> Calibration | None:
    """The ladder of the first GPUs of this system's one node, of an uncalibrated plan; None: none is published."""
    if plan.system.nodes > 1 or plan.devices != tuple(range(len(plan.devices))):
        return None
    published = _points(plan.system.name, plan.library, plan.collective, len(plan.devices))
    points = [each for each in published if _started_alike(plan, each)]
    if len({point.size_bytes for point in points}) < FEWEST_SIZES:
        return None
    return by_published(plan, points)


def _started_alike(plan: CollectivePlan, point: PublishedTime) -> bool:
    """Whether a time is of GPUs that are started as the plan's are, or so long that it hardly matters."""
    by_one = plan.launched_by("one-process").fastest(point.size_bytes)
    return point.entry.told_mode == plan.launch_mode or by_one.launch_ratio(point.size_bytes) <= ALIKE


def by_published(plan: CollectivePlan, points: Iterable[PublishedTime]) -> Calibration:
    """The calibration of an uncalibrated plan by published times of such plans."""
    modes = {mode: plan.launched_by(mode) for mode in LAUNCH_SHARES}  # each time is held against its own
    compared = [
        ComparedTime(
            each.size_bytes,
            each.time_s,
            modes[each.entry.told_mode].cost(each.size_bytes).time_s,
            each.entry.publication,
        )
        for each in points
    ]
    publications = dict.fromkeys(each.publication for each in compared)
    smallest = min(each.size_bytes for each in compared)
    return by_times(f"published times of {', '.join(publications)}", compared, smallest / BEYOND)


@cache
def _points(system: str, library: str, collective: str, gpus: int) -> tuple[PublishedTime, ...]:
    found = [each for each in times() if each.is_of(system, library, collective, gpus)]
    return tuple(sorted(found, key=lambda each: each.size_bytes))
