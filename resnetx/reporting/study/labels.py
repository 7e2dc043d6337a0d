"""Labels from settings: which settings differ between points, and how a setting reads in a label.

A grid can have any setting as an axis, and a page can have several studies. Whatever differs between two points of one
workload becomes part of their labels, so that no chart ever joins or hides points that are not alike.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from resnetx.reporting.study.results import Results
from resnetx.request import Request

# Labelled by the workload, the batch or the axis of a chart; split says no more than whether the batch divides.
_LABELLED_ELSEWHERE = {
    "model", "model.x", "model.width", "model.name", "batch_size", "scaling", "split", "gpus", "env",
}  # fmt: skip
_OF_GPUS = ("devices", "nodes")  # depend on how many GPUs there are: they vary where they do for one number of them
_BARE = ("precision", "input", "strategy")  # settings whose values explain themselves


def study_labels(studies: Sequence[Results]) -> list[str]:
    """What tells studies apart: their node, their name, or both, else their folder; "" for a study that is alone."""
    if len(studies) == 1:
        return [""]
    for parts in (["node"], ["name"], ["node", "name"]):
        labels = [" ".join(getattr(results.study, part) for part in parts) for results in studies]
        if len(set(labels)) == len(labels):
            return labels
    return [str(results.folder) for results in studies]


def varying_settings(requests: Sequence[tuple[Request, str]]) -> list[str]:
    """The settings that differ between points of one workload in one study; each request with the label of its study.

    A setting that comes with a choice (strategy.bucket_cap_mb) varies only among the points that have it; an
    environment variable also by being absent.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request, study in requests:
        groups[study, request.model.label].append(request.settings)
    varying: dict[str, None] = {}
    for group in groups.values():
        keys = dict.fromkeys(key for settings in group for key in settings if key not in _LABELLED_ELSEWHERE)
        varying |= dict.fromkeys(key for key in keys if _varies(key, group))
    return list(varying)


def _varies(key: str, group: Sequence[dict[str, Any]]) -> bool:
    values: dict[Any, set[str]] = defaultdict(set)
    for settings in group:
        if key in settings or key.startswith("env."):
            values[settings["gpus"] if key in _OF_GPUS else None].add(repr(settings.get(key)))
    return any(len(different) > 1 for different in values.values())


def setting_label(request: Request, key: str) -> str:
    """A setting's value in a label: bare where it explains itself; "" where it is not set."""
    value = request.settings.get(key)
    if value is None:
        return ""
    if isinstance(value, list):
        return f"{key} {','.join(map(str, value))}"
    if isinstance(value, float):
        value = f"{value:g}"
    return str(value) if key in _BARE else f"{key.removeprefix('env.')}={value}"


def settings_label(request: Request, keys: Sequence[str]) -> str:
    """The values of some settings: "bf16, layerwise"."""
    return ", ".join(filter(None, (setting_label(request, key) for key in keys)))
