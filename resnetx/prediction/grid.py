"""Points by the million, as columns: of each what a table of a grid has, and nothing that is kept of few points.

    for columns in grid_columns(questions):      # of some thousand points each, in the order of the questions
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
from resnetx.prediction.open_points import left_open
from resnetx.prediction.predict import Placement, calibrated, obstacle_of, simulated, simulated_ends
from resnetx.prediction.processes import CurveQuestion, answered_by_a_process
from resnetx.prediction.result import Baseline
from resnetx.prediction.scenario import Point
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


class GridQuestion(NamedTuple):
    """A curve, and the settings of its machine that tell it from others."""

    curve: CurveQuestion
    varied: str


def grid_columns(questions: Sequence[GridQuestion], processes: int | None = None) -> Iterator[Columns]:
    """The points of all curves, share by share, in their order."""
    shares = list(_shares(questions))
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


def _shares(questions: Sequence[GridQuestion]) -> Iterator[list[GridQuestion]]:
    share: list[GridQuestion] = []
    points = 0
    for question in questions:
        share.append(question)
        points += len(question.curve.placements)
        if points >= SHARE_POINTS:
            yield share
            share, points = [], 0
    if share:
        yield share


def _by_a_process(share: Sequence[GridQuestion]) -> Columns:
    answer: Columns = answered_by_a_process("resnetx.prediction.grid", share)
    return answer


def columns_of(questions: Sequence[GridQuestion]) -> Columns:
    """The points of these curves."""
    rows = [row for question in questions for row in _rows(question)]
    return {name: list(values) for name, values in zip(GridRow._fields, zip(*rows, strict=True), strict=True)}


def _rows(question: GridQuestion) -> list[GridRow]:
    """A row for each placement, as `predict.curve` has a point for each."""
    subject, deployment, placements, baseline, setting = question.curve
    try:
        setting = calibrated(subject, deployment, setting)
    except ConfigError as error:
        points = [Point(subject, deployment, *placement, setting) for placement in placements]
        return [_missing(point, question.varied, "refused", str(error)) for point in points]
    base: Baseline | None = None
    if baseline not in placements:
        _, base = _row(Point(subject, deployment, *baseline, setting), None, question.varied)
    rows: dict[Placement, GridRow] = {}
    for placement in sorted(placements, key=lambda placement: (placement != baseline, len(placement.devices))):
        rows[placement], own = _row(Point(subject, deployment, *placement, setting), base, question.varied)
        base = base or own
    return [rows[placement] for placement in placements]


def _row(point: Point, base: Baseline | None, varied: str) -> tuple[GridRow, Baseline | None]:
    """A point, and what others are compared with where it is the first."""
    if reason := obstacle_of(point):
        return _missing(point, varied, "refused", reason), None
    try:
        memory = memory_need(point)
        if reason := memory.obstacle:
            return _missing(point, varied, "oom", reason), None
        if (undecided := left_open(point)) is not None:
            fast, slow = simulated_ends(undecided)
            ends = (fast.interval_s[0], slow.interval_s[1])
            row = _missing(point, varied, "open", undecided.reason)._replace(
                iteration_low_s=ends[0], iteration_high_s=ends[1]
            )
            return row, Baseline(point.gpus, point.batch_size, None)
        iteration = simulated(point)
        needed = None if isinstance(memory.needed_bytes, Unknown) else memory.needed_bytes
        return _able(iteration, base, varied, needed)
    except ConfigError as error:
        return _missing(point, varied, "refused", str(error)), None


def _able(
    iteration: Iteration, base: Baseline | None, varied: str, needed_bytes: int | None
) -> tuple[GridRow, Baseline | None]:
    point, time_s, (low_s, high_s) = iteration.point, iteration.time_s, iteration.interval_s
    rate = point.batch_size / time_s
    baseline = Baseline(point.gpus, point.batch_size, rate, iteration.deviations)
    speedup, ends = (base or baseline).speedup(rate, iteration.deviations)
    gain = None if isinstance(speedup, Unknown) else speedup
    low, high = (None, None) if isinstance(ends, Unknown) else ends
    job = iteration.job
    exposed_s = max(0.0, time_s - iteration_s(job.without_messages())) if job.messages else 0.0
    row = _named(point, varied, "ok", "")._replace(
        iteration_s=time_s,
        iteration_low_s=low_s,
        iteration_high_s=high_s,
        images_per_s=rate,
        speedup=gain,
        speedup_low=low,
        speedup_high=high,
        baseline_gpus=(base or baseline).gpus,
        exposed_communication_s=exposed_s,
        communication_s=iteration.exchange.time_s,
        memory_bytes=needed_bytes,
    )
    return row, baseline


def _missing(point: Point, varied: str, outcome: Literal["oom", "refused", "open"], reason: str) -> GridRow:
    return _named(point, varied, outcome, reason)


def _named(point: Point, varied: str, outcome: Literal["ok", "oom", "refused", "open"], reason: str) -> GridRow:
    subject, deployment = point.subject, point.deployment
    nothing = (None,) * (len(GridRow._fields) - 10)
    return GridRow(
        subject.label, point.batch_size, point.gpus, subject.strategy.kind, subject.precision,
        deployment.described.name, deployment.library, varied, outcome, reason, *nothing,
    )  # fmt: skip


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 50)  # a point makes hundreds of tuples and no cycle: a seventh of the time is saved
    pickle.dump(columns_of(pickle.load(sys.stdin.buffer)), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
