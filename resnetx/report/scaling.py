"""How a set of points scales: rate, speed-up and intensity per GPU, from the run records of a study."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from resnetx.record import RunRecord
from resnetx.statistics import Summary, summarize


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a study over its repeats."""

    workload: str
    batch_size: int
    precision: str
    input: str
    gpus: int
    outcome: str  # "ok", or how the runs ended otherwise
    reason: str
    repeats: int  # runs that went well
    images_per_s: Summary | None  # None: no run went well
    speedup: float | None  # median rate / median rate of the baseline; None: one of them is missing
    baseline: str  # "1 GPU"
    activations_per_parameter: float | None  # per batch
    activations_per_parameter_per_gpu: float | None


def rows(records: Iterable[RunRecord]) -> list[Row]:
    """One row per point, in the order in which the points first appear by workload, batch size and GPUs."""
    points: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        points[record.request_key].append(record)
    rates = {key: _rates(runs) for key, runs in points.items()}
    found = [_row(runs, rates[key], rates.get(runs[0].baseline_key, [])) for key, runs in points.items()]
    order = {row.workload: place for place, row in reversed(list(enumerate(found)))}
    return sorted(found, key=lambda row: (order[row.workload], row.batch_size, row.gpus))


def _rates(runs: list[RunRecord]) -> list[float]:
    return [run.images_per_s for run in runs if run.outcome == "ok" and run.images_per_s is not None]


def _row(runs: list[RunRecord], rates: list[float], baseline: list[float]) -> Row:
    first = runs[0]
    bad = next((run for run in runs if run.outcome != "ok"), None)
    intensity = next((run.workload.intensity for run in runs if run.workload), None)
    return Row(
        workload=first.request.model.label,
        batch_size=first.request.batch_size,
        precision=first.request.precision,
        input=first.request.input.kind,
        gpus=first.request.gpus,
        outcome="ok" if rates else bad.outcome if bad else "failed",
        reason=bad.reason if bad else "",
        repeats=len(rates),
        images_per_s=summarize(rates) if rates else None,
        speedup=summarize(rates).median / summarize(baseline).median if rates and baseline else None,
        baseline="1 GPU",
        activations_per_parameter=intensity,
        activations_per_parameter_per_gpu=intensity / first.request.gpus if intensity is not None else None,
    )
