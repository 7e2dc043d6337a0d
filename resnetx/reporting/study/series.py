"""What the lines of a page are called: which settings tell its points apart, beside workload, batch and GPUs.

A grid can have any setting as an axis, and a page can have several studies. Whatever differs between two points of one
workload becomes part of their names, so that no chart ever joins or hides points that are not alike.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from resnetx.choices import ResNetX
from resnetx.record import Workload
from resnetx.reporting.study.results import Results
from resnetx.reporting.study.scaling import Row
from resnetx.request import Request

# Told by the workload's label, the batch or the axis of a chart; split says no more than whether the batch divides.
_TOLD = {"model", "model.x", "model.width", "model.name", "batch_size", "scaling", "split", "gpus", "env"}


@dataclass(frozen=True)
class Named:
    """A row with the names that tell it apart on a page. Points of one line differ in their GPUs only."""

    row: Row
    workload: str  # "ResNet/4"
    batch: str  # "batch 16", or "batch 16 per GPU" where it grows with the GPUs
    # "bf16, layerwise": what else differs on this page; "" where nothing does, "default" where it does elsewhere.
    variant: str
    counts: Workload | None  # of this workload and batch, by whichever run has them

    @property
    def gpus(self) -> int:
        return self.row.request.gpus

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
        return f"{self.line_words}, {self.gpus} GPU{'s' * (self.gpus > 1)}"


def named(studies: Sequence[tuple[Results, Sequence[Row]]]) -> list[Named]:
    """Every row of the studies with its names, in the order of the studies."""
    labels = study_labels([results for results, _ in studies])
    pairs = [(row, label) for (_, rows), label in zip(studies, labels, strict=True) for row in rows]
    keys = varying([(row.request, label) for row, label in pairs])
    counts = {_work(row.request): row.workload for row, _ in pairs if row.workload}
    return [
        Named(
            row=row,
            workload=row.request.model.label,
            batch=_batch(row.request),
            variant=", ".join(filter(None, [label, *(told(row.request, key) for key in keys)]))
            or "default" * bool(keys),
            counts=row.workload or counts.get(_work(row.request)),
        )
        for row, label in pairs
    ]


def study_labels(studies: Sequence[Results]) -> list[str]:
    """What tells studies apart: their node, their name, or both, else their folder; "" for a study that is alone."""
    if len(studies) == 1:
        return [""]
    for parts in (["node"], ["name"], ["node", "name"]):
        labels = [" ".join(getattr(results.study, part) for part in parts) for results in studies]
        if len(set(labels)) == len(labels):
            return labels
    return [str(results.folder) for results in studies]


def workloads(points: Iterable[Named]) -> list[str]:
    """The workloads, ResNet/x first and each by how much work it is per parameter."""

    def order(point: Named) -> tuple[Any, ...]:
        model = point.row.request.model
        if isinstance(model, ResNetX):
            return (0, model.width, model.x, "")
        return (1, 0, 0, point.workload)

    return list(dict.fromkeys(point.workload for point in sorted(points, key=order)))


def batches(points: Iterable[Named]) -> list[str]:
    """The batches, the smallest first."""
    return list(dict.fromkeys(point.batch for point in sorted(points, key=lambda each: _size(each.row.request))))


def category(point: Named, points: Iterable[Named]) -> int:
    """Which of its workload's batches this is, from 1: the batch category of Tallent et al. 2017, Fig. 5."""
    return batches(each for each in points if each.workload == point.workload).index(point.batch) + 1


def _work(request: Request) -> tuple[Any, ...]:
    return request.model, request.image_size, request.batch_size


def _size(request: Request) -> tuple[int, str]:
    weak = request.scaling == "weak"
    return request.batch_size // request.gpus if weak else request.batch_size, request.scaling


def _batch(request: Request) -> str:
    return f"batch {_size(request)[0]}" + " per GPU" * (request.scaling == "weak")


def varying(requests: Sequence[tuple[Request, str]]) -> list[str]:
    """The settings that differ between points of one workload in one study.

    Which GPUs are used depends on how many, so `devices` varies only where it does for one number of them. A setting
    that comes with a choice (strategy.bucket_cap_mb) varies only among the points that have it; an environment
    variable also by being absent.
    """
    found: dict[str, None] = {}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request, study in requests:
        groups[study, request.model.label].append(request.settings)
    for settings in groups.values():
        for key in dict.fromkeys(key for each in settings for key in each if key not in _TOLD):
            having = [each for each in settings if key in each or key.startswith("env.")]
            values: dict[Any, set[str]] = defaultdict(set)
            for each in having:
                values[each["gpus"] if key == "devices" else None].add(repr(each.get(key)))
            if any(len(different) > 1 for different in values.values()):
                found[key] = None
    return list(found)


def told(request: Request, key: str) -> str:
    """A setting's value in a name: bare where it explains itself."""
    value = request.settings.get(key)
    if value is None:
        return ""
    if isinstance(value, list):
        return f"{key} {','.join(map(str, value))}"
    if isinstance(value, float):
        value = f"{value:g}"
    return str(value) if key in ("precision", "input", "strategy") else f"{key.removeprefix('env.')}={value}"
