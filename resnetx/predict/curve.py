"""Points that share a baseline: one workload on several numbers of GPUs of one system, and their speed-ups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from resnetx.config import ConfigError
from resnetx.interconnect.system import System
from resnetx.predict.predict import Setting, Subject, missing, opening, predict
from resnetx.record import Unknown

Asked = tuple[int, int]  # GPUs, global batch size


def curve(
    subject: Subject, system: System, asked: Sequence[Asked], baseline: Asked, setting: Setting
) -> list[dict[str, Any]]:
    """The fields of each point asked for; speed-ups are over `baseline`, or else over the smallest that can run."""
    points = [_point(subject, system, gpus, batch_size, setting) for gpus, batch_size in asked]
    bases = sorted((point for point in points if point["outcome"] == "ok"), key=lambda point: point["gpus"])
    if baseline not in asked:
        plain = replace(setting, devices=None, sensitivity=False, timeline=False)
        first = _point(subject, system, *baseline, plain)
        bases = [first, *bases] if first["outcome"] == "ok" else bases
    return [point | _speedup(point, bases[0] if bases else None) for point in points]


def _point(subject: Subject, system: System, gpus: int, batch_size: int, setting: Setting) -> dict[str, Any]:
    """A prediction, or why there is none."""
    if gpus > len(system.gpus):
        return _refused(subject, system, gpus, batch_size, setting, f"{system.name} has {len(system.gpus)} GPUs")
    try:
        return predict(subject, system, gpus, batch_size, setting)
    except ConfigError as error:
        return _refused(subject, system, gpus, batch_size, setting, str(error))


def _refused(
    subject: Subject, system: System, gpus: int, batch_size: int, setting: Setting, reason: str
) -> dict[str, Any]:
    """The fields of a point that cannot be predicted."""
    devices = setting.devices or tuple(range(gpus))
    return opening(subject, system, devices, batch_size, setting) | missing("refused", reason)


def _speedup(point: dict[str, Any], base: dict[str, Any] | None) -> dict[str, Any]:
    if point["outcome"] != "ok" or base is None:
        unknown = Unknown(point["reason"])
        return {"speedup": unknown, "efficiency": unknown, "baseline_gpus": unknown}
    speedup = point["images_per_s"] / base["images_per_s"]
    return {
        "speedup": speedup,
        "efficiency": speedup * base["gpus"] / point["gpus"],
        "baseline_gpus": base["gpus"],
    }
