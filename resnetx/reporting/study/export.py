"""The results of studies as tidy tables, for spreadsheets, R and pandas; a cell is empty where nothing was measured.

`points.csv` has one row per point (`PointRow`), `windows.csv` one per window of each run (`WindowRow`), `messages.csv`
one per message of gradients, rank and step (`MessageRow`). The names of the columns stay.
"""

from collections.abc import Iterable, Iterator

import msgspec

from resnetx.record import GradientBucket, RunSummary
from resnetx.reporting.study.points import StudyPoint
from resnetx.reporting.study.results import Results
from resnetx.reporting.study.scaling import Limits, StepPart
from resnetx.reporting.table import table_of
from resnetx.request import TwinName
from resnetx.statistics import Summary
from resnetx.table import Table


class PointRow(msgspec.Struct, frozen=True, kw_only=True):
    """One point. Estimates are medians over its runs, each with `_low`, `_high` and `_ends`."""

    # What ran; request_key differs wherever any setting does.
    study: str
    node: str
    workload: str
    batch_size: int  # images per step, over all GPUs
    image_size_px: int
    gpus: int
    devices: list[int] | None
    precision: str
    input: str
    strategy: str
    scaling: str
    env: list[str]  # NAME=VALUE
    request_key: str
    outcome: str  # ok, oom, failed, timeout, skipped, missing
    reason: str
    runs: int  # good ones
    images_per_s: Summary | None
    iterations_per_s: Summary | None
    speedup: Summary | None
    efficiency: Summary | None
    baseline: str  # what speed-ups are over
    step_s: Summary | None
    # Of the step, 0 to 1; empty where it is not known, for the reason in `limited_why`.
    share_compute: float | None
    share_communication: float | None
    share_input: float | None
    share_host: float | None
    limited_by: str | None
    limited_why: str | None
    # The workload's counts.
    convention: str | None
    activations_per_image: int | None
    parameters: int | None
    activations_per_batch: int | None
    activations_per_parameter: float | None
    activations_per_parameter_per_gpu: float | None
    payload_bytes: int | None
    gradient_bytes: int | None
    flops_per_image: int | None
    notes: str  # outlying runs and warnings


class WindowRow(msgspec.Struct, frozen=True, kw_only=True):
    """One window of one run, those of twins included."""

    study: str
    node: str
    workload: str
    batch_size: int
    gpus: int
    request_key: str
    twin: TwinName | None  # of the point with that key; empty: the point itself
    repeat: int
    window: int
    window_s: float  # of the slowest rank
    images_per_s: float
    started_at: str  # UTC
    run: str  # folder


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message of gradients on one rank in one step, of the latest instrumented run of a point."""

    study: str
    node: str
    workload: str
    batch_size: int
    gpus: int
    strategy: str
    request_key: str
    message: int
    size_bytes: int
    rank: int
    step: int
    # Since that rank's step began.
    ready_s: float
    start_s: float
    end_s: float


# ---- points ---------------------------------------------------------------------------------------------------------


def points_table(points: Iterable[StudyPoint]) -> Table:
    """`points.csv`."""
    return table_of(map(_point, points))


def _point(point: StudyPoint) -> PointRow:
    result, request, limits, counts = point.result, point.request, point.result.limits, point.counts
    return PointRow(
        study=result.study,
        node=result.node,
        workload=point.workload,
        batch_size=request.batch_size,
        image_size_px=request.image_size,
        gpus=request.gpus,
        devices=request.devices or None,
        precision=request.precision,
        input=request.input.kind,
        strategy=request.strategy.kind,
        scaling=request.scaling,
        env=[f"{name}={value}" for name, value in request.env.items()],
        request_key=request.key,
        outcome=result.outcome,
        reason=result.reason,
        runs=result.images_per_s.n if result.images_per_s else 0,
        images_per_s=result.images_per_s,
        iterations_per_s=result.iterations_per_s,
        speedup=result.speedup,
        efficiency=result.efficiency,
        baseline=result.baseline,
        step_s=limits.step_s if limits else None,
        share_compute=_share(limits, "compute"),
        share_communication=_share(limits, "communication"),
        share_input=_share(limits, "input"),
        share_host=_share(limits, "host"),
        limited_by=limits.verdict if limits else None,
        limited_why=limits.why if limits else None,
        convention=counts.convention if counts else None,
        activations_per_image=counts.activations_per_image if counts else None,
        parameters=counts.parameters if counts else None,
        activations_per_batch=counts.activations_per_batch if counts else None,
        activations_per_parameter=counts.intensity if counts else None,
        activations_per_parameter_per_gpu=counts.intensity / request.gpus if counts else None,
        payload_bytes=counts.payload_bytes if counts else None,
        gradient_bytes=counts.gradient_bytes if counts else None,
        flops_per_image=counts.flops_per_image if counts else None,
        notes="; ".join(result.notes),
    )


def _share(limits: Limits | None, part: StepPart) -> float | None:
    return limits.shares[part].median if limits and part in limits.shares else None


# ---- windows --------------------------------------------------------------------------------------------------------


def windows_table(studies: Iterable[Results]) -> Table:
    """`windows.csv`."""
    return table_of(_windows(studies))


def _windows(studies: Iterable[Results]) -> Iterator[WindowRow]:
    for results in studies:
        for point in results.points:
            for run in point.runs:
                yield from _windows_of(results, point.request.key, None, run)
            for twin, runs in point.twins.items():
                for run in runs:
                    yield from _windows_of(results, point.request.key, twin, run)


def _windows_of(results: Results, key: str, twin: TwinName | None, run: RunSummary) -> Iterator[WindowRow]:
    for window, rate in enumerate(run.rates, 1):
        yield WindowRow(
            study=results.study.name,
            node=results.study.node,
            workload=run.request.model.label,
            batch_size=run.request.batch_size,
            gpus=run.request.gpus,
            request_key=key,
            twin=twin,
            repeat=run.repeat,
            window=window,
            window_s=run.steps_per_window * run.request.batch_size / rate,
            images_per_s=rate,
            started_at=run.started_at,
            run=run.folder.name,
        )


# ---- messages -------------------------------------------------------------------------------------------------------


def messages_table(points: Iterable[StudyPoint]) -> Table:
    """`messages.csv`."""
    return table_of(row for point in points for row in _messages(point))


def _messages(point: StudyPoint) -> Iterator[MessageRow]:
    result, request = point.result, point.request
    for message in result.limits.messages if result.limits else []:
        for rank, times in enumerate(zip(*_times(message), strict=True)):
            for step, (ready_s, start_s, end_s) in enumerate(zip(*times, strict=True)):
                yield MessageRow(
                    study=result.study,
                    node=result.node,
                    workload=point.workload,
                    batch_size=request.batch_size,
                    gpus=request.gpus,
                    strategy=request.strategy.kind,
                    request_key=request.key,
                    message=message.index,
                    size_bytes=message.size_bytes,
                    rank=rank,
                    step=step,
                    ready_s=ready_s,
                    start_s=start_s,
                    end_s=end_s,
                )


def _times(message: GradientBucket) -> list[list[list[float]]]:
    return [message.ready_s or [], message.start_s or [], message.end_s or []]
