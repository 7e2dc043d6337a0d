"""Points that share a baseline: one workload on several numbers of GPUs of one system, and their speed-ups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resnetx.errors import ConfigError
from resnetx.prediction.predict import predict
from resnetx.prediction.result import missing, opening
from resnetx.prediction.scenario import Fabric, Point, Setting, Subject
from resnetx.record import Unknown

Asked = tuple[tuple[int, ...], int]  # GPU ids, global batch size


def curve(
    subject: Subject, fabric: Fabric, asked: Sequence[Asked], baseline: Asked, setting: Setting
) -> list[dict[str, Any]]:
    """The fields of each point asked for; speed-ups are over `baseline`, or else over the smallest that can run."""
    points = [_point(Point(subject, fabric, devices, batch_size, setting)) for devices, batch_size in asked]
    bases = sorted((point for point in points if point["outcome"] == "ok"), key=lambda point: point["gpus"])
    if baseline not in asked:
        first = _point(Point(subject, fabric, *baseline, replace(setting, sensitivity=False, timeline=False)))
        bases = [first, *bases] if first["outcome"] == "ok" else bases
    return [point | _speedup(point, bases[0] if bases else None) for point in points]


def _point(point: Point) -> dict[str, Any]:
    """A prediction, or why there is none."""
    gpus = point.fabric.described.gpus
    has = len(gpus)
    if max(point.devices) >= has:
        return opening(point) | missing("refused", f"{point.fabric.described.name} has {has} GPUs")
    kinds = {gpus[device].part_name for device in point.devices}
    if len(kinds) > 1:
        reason = (
            f"its GPUs {list(point.devices)} are {' and '.join(sorted(kinds))}: only like GPUs are predicted together"
        )
        return opening(point) | missing("refused", reason)
    try:
        return predict(point)
    except ConfigError as error:
        return opening(point) | missing("refused", str(error))


def _speedup(point: dict[str, Any], base: dict[str, Any] | None) -> dict[str, Any]:
    if point["outcome"] != "ok" or base is None:
        return dict.fromkeys(("speedup", "efficiency", "baseline_gpus"), Unknown(point["reason"]))
    speedup = point["images_per_s"] / base["images_per_s"]
    return {
        "speedup": speedup,
        "efficiency": speedup * base["gpus"] / point["gpus"],
        "baseline_gpus": base["gpus"],
    }
