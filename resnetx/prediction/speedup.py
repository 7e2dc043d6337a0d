"""Points that share a baseline: one workload on several numbers of GPUs of one system, and their speed-ups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from resnetx.errors import ConfigError
from resnetx.prediction.predict import calibrated, predict
from resnetx.prediction.provenance import SourcedPoint
from resnetx.prediction.result import Baseline, missing
from resnetx.prediction.scenario import Fabric, Point, Subject, TrainingSetup


class Placement(NamedTuple):
    """Where a point runs, and with which batch."""

    devices: tuple[int, ...]  # GPU ids
    batch_size: int  # global

    @property
    def images(self) -> int:
        """Of each step, on the GPU that has most."""
        return -(-self.batch_size // len(self.devices))


def curve(
    subject: Subject, fabric: Fabric, placements: Sequence[Placement], baseline: Placement, setting: TrainingSetup
) -> list[SourcedPoint]:
    """A point for each placement; speed-ups are over `baseline`, or else over the smallest point that can run."""
    try:
        setting = calibrated(subject, fabric, setting)
    except ConfigError as error:
        return [missing(Point(subject, fabric, *placement, setting), "refused", str(error)) for placement in placements]
    base: Baseline | None = None
    if baseline not in placements:
        plain = replace(setting, sensitivity=False, timeline=False)
        base = _baseline(_predicted(Point(subject, fabric, *baseline, plain), None))
    points: dict[Placement, SourcedPoint] = {}
    for placement in sorted(placements, key=lambda placement: (placement != baseline, len(placement.devices))):
        points[placement] = _predicted(Point(subject, fabric, *placement, setting), base)
        base = base or _baseline(points[placement])
    return [points[placement] for placement in placements]


def _baseline(sourced: SourcedPoint) -> Baseline | None:
    """What other points are compared with; None where the point cannot run. Over an open one nothing is known."""
    if sourced.point.open:
        return Baseline(sourced.point.gpus, sourced.point.batch_size, None)
    if sourced.deviations is None or not isinstance(sourced.point.images_per_s, float):
        return None
    point = sourced.point
    return Baseline(point.gpus, point.batch_size, point.images_per_s, sourced.deviations, sourced.spent)


def _too_few(point: Point) -> str:
    """Why a point has no place on its system, with the setting that makes room."""
    system = point.fabric.described
    has = f"{system.name} has {len(system.gpus)} GPUs"
    if point.devices != tuple(range(point.gpus)):
        return f"devices={','.join(map(str, point.devices))}: {has}, 0 to {len(system.gpus) - 1}"
    nodes = -(-point.gpus * system.nodes // len(system.gpus))
    network = " network=edr100" if system.nodes == 1 else ""
    return f"gpus={point.gpus}: {has}; several of it: nodes={nodes}{network}"


def obstacle_of(point: Point) -> str:
    """Why a point has no place on its system; "": it has."""
    system = point.fabric.described
    if max(point.devices) >= len(system.gpus):
        return _too_few(point)
    kinds = {system.gpu_of_node(device).part_name for device in point.devices}
    if len(kinds) > 1:
        return (
            f"its GPUs {list(point.devices)} are {' and '.join(sorted(kinds))}: only like GPUs are predicted together"
        )
    return ""


def _predicted(point: Point, base: Baseline | None) -> SourcedPoint:
    """A prediction, or why there is none."""
    if reason := obstacle_of(point):
        return missing(point, "refused", reason)
    try:
        return predict(point, base)
    except ConfigError as error:
        return missing(point, "refused", str(error))
