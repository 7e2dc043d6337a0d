"""Points by the million, as columns: of each what a table of a grid has, and nothing that is kept of few points.

    for columns in grid_columns(curves):         # of some thousand points each, in the order of the curves
        columns["images_per_s"]

The figures are those of `predict`, to the last digit; parts of the step, their intervals, where each figure is from and
what limits a point are left out, which take three quarters of the time. A share is predicted by a process of its own
(`processes`), and no more shares are held than there are processes.
"""

import gc
import pickle
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Literal, NamedTuple

from resnetx import host
from resnetx.errors import ConfigError
from resnetx.prediction.iteration import Iteration
from resnetx.prediction.memory import memory_need
from resnetx.prediction.predict import Curve, Placement, calibrated, obstacle_of, simulated, simulated_ends
from resnetx.prediction.processes import answered_by_a_process
from resnetx.prediction.result import speedup_over
from resnetx.prediction.scaling import Undecided, left_open
from resnetx.prediction.scenario import Point, Workload
from resnetx.prediction.ssgd import iteration_s
from resnetx.record import Unknown

SHARE_POINTS = 25_000  # of a process: more than ten seconds of work, of which starting takes a half


class GridRow(NamedTuple):
    """What is kept of a point; null: it cannot run, or is open."""

    workload: str
    batch_size: int
    gpus: int
    strategy: str
    precision: str
    system: str
    library: str
    varied: str  # settings of its machine in which points of the grid differ: "network=edr100"; ""
    outcome: Literal["ok", "oom", "refused", "open"]
    reason: str
    iteration_s: float | None
    iteration_low_s: float | None  # what nine of ten should lie within; of an open point its two ends
    iteration_high_s: float | None
    images_per_s: float | None
    speedup: float | None  # over `baseline_gpus`
    speedup_low: float | None
    speedup_high: float | None
    baseline_gpus: int | None
    exposed_communication_s: float | None
    communication_s: float | None
    memory_bytes: int | None


Columns = dict[str, list[str | int | float | None]]


def grid_columns(curves: Sequence[Curve], processes: int | None = None) -> Iterator[Columns]:
    """The points of all curves, share by share, in their order."""
    shares = list(_shares(curves))
    count = min(host.cores(), len(shares)) if processes is None else processes
    if count <= 1 or not sys.executable:
        yield from map(columns_of, shares)
        return
    with ThreadPoolExecutor(count) as waiting:
        left = iter(shares)
        running = [waiting.submit(_by_a_process, share) for share in islice(left, count + 1)]
        while running:
            yield running.pop(0).result()
            running += [waiting.submit(_by_a_process, share) for share in islice(left, 1)]


def _shares(curves: Sequence[Curve]) -> Iterator[list[Curve]]:
    share: list[Curve] = []
    points = 0
    for curve in curves:
        share.append(curve)
        points += len(curve.placements)
        if points >= SHARE_POINTS:
            yield share
            share, points = [], 0
    if share:
        yield share


def _by_a_process(share: Sequence[Curve]) -> Columns:
    answer: Columns = answered_by_a_process("resnetx.prediction.grid", share)
    return answer


def columns_of(curves: Sequence[Curve]) -> Columns:
    """The points of these curves."""
    rows = [row for curve in curves for row in _rows(curve)]
    return {name: list(values) for name, values in zip(GridRow._fields, zip(*rows, strict=True), strict=True)}


def _rows(curve: Curve) -> list[GridRow]:
    """A row for each placement, as `predict_curve` has a point for each."""
    varied = ", ".join(f"{name}={value}" for name, value in {**_trained(curve.workload), **curve.varied}.items())
    try:
        setting = calibrated(curve.workload, curve.deployment, curve.setting)
    except ConfigError as error:
        points = curve.points(curve.setting)
        return [_named(points[placement], varied, "refused", str(error)) for placement in curve.placements]
    rows: dict[Placement, GridRow] = {}
    base: Iteration | Undecided | None = None
    for placement, point in curve.points(setting).items():
        try:
            rows[placement], own = _row(point, base, varied)
        except ConfigError as error:
            rows[placement], own = _named(point, varied, "refused", str(error)), None
        base = base or own
    return [rows[placement] for placement in curve.placements]


def _trained(workload: Workload) -> dict[str, str]:
    """How it is trained, as far as that is not usual and no column of its own says it."""
    request = workload.request
    if request is None:
        return {}
    words = {
        "graph": "true" * request.graph,
        "accumulate": str(request.accumulate) if request.accumulate > 1 else "",
        "optimizer": request.optimizer.kind if request.optimizer.kind != "sgd" else "",
        "checkpointing": "true" * request.checkpointing,
    }
    return {name: word for name, word in words.items() if word}


def _row(point: Point, base: Iteration | Undecided | None, varied: str) -> tuple[GridRow, Iteration | Undecided | None]:
    """A point, and what others are compared with where it is the first."""
    if reason := obstacle_of(point):
        return _named(point, varied, "refused", reason), None
    memory = memory_need(point)
    if reason := memory.obstacle:
        return _named(point, varied, "oom", reason), None
    if (undecided := left_open(point)) is not None:
        fast, slow = simulated_ends(undecided)
        row = _named(point, varied, "open", undecided.reason)
        return row._replace(iteration_low_s=fast.interval_s[0], iteration_high_s=slow.interval_s[1]), undecided
    iteration = simulated(point)
    base = base or iteration
    speedup, ends = speedup_over(base, iteration)
    low, high = (None, None) if isinstance(ends, Unknown) else ends
    job, time_s = iteration.job, iteration.time_s
    row = _named(point, varied, "ok", "")._replace(
        iteration_s=time_s,
        iteration_low_s=iteration.interval_s[0],
        iteration_high_s=iteration.interval_s[1],
        images_per_s=iteration.images_per_s,
        speedup=None if isinstance(speedup, Unknown) else speedup,
        speedup_low=low,
        speedup_high=high,
        baseline_gpus=base.point.gpus,
        exposed_communication_s=max(0.0, time_s - iteration_s(job.without_messages())) if job.messages else 0.0,
        communication_s=iteration.exchange.time_s,
        memory_bytes=None if isinstance(memory.needed_bytes, Unknown) else memory.needed_bytes,
    )
    return row, iteration


def _named(point: Point, varied: str, outcome: Literal["ok", "oom", "refused", "open"], reason: str) -> GridRow:
    workload, deployment = point.workload, point.deployment
    nothing = (None,) * (len(GridRow._fields) - 10)
    return GridRow(
        workload.label, point.batch_size, point.gpus, workload.strategy.kind, workload.precision,
        deployment.described.name, deployment.library, varied, outcome, reason, *nothing,
    )  # fmt: skip


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 50)  # a point makes hundreds of tuples and no cycle: a seventh of the time is saved
    pickle.dump(columns_of(pickle.load(sys.stdin.buffer)), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
