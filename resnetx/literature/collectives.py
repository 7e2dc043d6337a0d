"""The model of collectives against what others measured: `results/published/collectives.yaml`, row by row.

A row is seen if its figure was known while the model was written, and calibrated if other sizes of its series went into
its prediction. Explained rows stand outside of a group's means, with the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log1p

from resnetx.interconnect.collectives.collective_errors import error_of, table
from resnetx.interconnect.collectives.plan import CollectivePlan, plan
from resnetx.interconnect.collectives.published import (
    FEWEST_PUBLISHED_SIZES,
    PublishedEntry,
    PublishedTime,
    Quantity,
    by_published,
    load_published,
    measured_devices,
    published,
    times,
)
from resnetx.interconnect.systems.system import System

EVERY_OTHER = "every-other"  # group of rows that are calibrated from the sizes beside them
NOTHING_SENT = "less than an element for each GPU: nothing is sent"
LEAST_WITHIN = 0.85  # of what is said to hold for 90 %


@dataclass(frozen=True)
class CollectiveRow:
    """One measured figure and its prediction, both in `unit`; `error` is predicted / measured - 1."""

    group: str
    source: str
    system: str
    library: str
    collective: str
    gpus: int  # the first ones of the system
    size_bytes: int
    unit: str
    measured: float
    predicted: float
    error: float
    seen: bool
    calibrated: bool
    explained: str | None
    stated_error: float  # mean error that is stated for it
    stated_q90: float | None  # 90 % of times are said to be within; null: of a ratio
    nodes: int = 1

    @property
    def held(self) -> bool | None:
        """Whether it is within the error that 90 % of such times are said to be within."""
        return None if self.stated_q90 is None else self.time_error <= self.stated_q90

    @property
    def time_error(self) -> float:
        """|ln(predicted / measured)|, of the time as of a bandwidth."""
        return abs(log1p(self.error))


@dataclass(frozen=True)
class CollectiveSummary:
    """How far off a group is, without its explained rows, and whether that is what is stated for such plans."""

    group: str
    about: str
    rows: int
    unseen: int
    mean_error: float
    worst_error: float
    stated_error: float  # mean of what is stated for these rows
    within: float | None  # share of rows within the 90 % that are stated for them; null: of ratios

    @property
    def holds(self) -> bool:
        """Of few rows one may be outside."""
        return self.within is None or self.within >= min(LEAST_WITHIN, 1 - 1 / self.rows)


@cache
def validate() -> tuple[CollectiveRow, ...]:
    """All published figures with their predictions, in the order of the file; then those of calibrated plans."""
    return (*(row for entry in published().entries for row in _rows(entry)), *_every_other())


def _share(held: Iterable[bool]) -> float | None:
    all_held = list(held)
    return sum(all_held) / len(all_held) if all_held else None


def summaries(rows: Sequence[CollectiveRow]) -> list[CollectiveSummary]:
    """The groups of `rows`, in the order of the file."""
    found = []
    for name, group in published().groups.items():
        judged = [row for row in rows if row.group == name and row.explained is None]
        errors = [abs(row.error) for row in judged]
        found.append(
            CollectiveSummary(
                group=name,
                about=group.about,
                rows=len(judged),
                unseen=sum(not row.seen for row in judged),
                mean_error=sum(errors) / len(errors),
                worst_error=max(errors),
                stated_error=sum(row.stated_error for row in judged) / len(judged),
                within=_share(row.time_error <= row.stated_q90 for row in judged if row.stated_q90 is not None),
            )
        )
    return found


def off() -> str:
    """How far off times of rings and trees are where a kind of machine is left out, as a sentence without its end."""
    kinds = [kind for kind in table().kinds if not kind.sends]
    points = sum(kind.points for kind in kinds)
    model, simple = (
        sum(kind.points * error for kind, error in zip(kinds, errors, strict=True)) / points
        for errors in ([kind.left_out for kind in kinds], [kind.alpha_beta for kind in kinds])
    )
    return (
        f"On a kind of machine that was not fitted, collectives are predicted {model:.1%} off in the mean, where "
        f"latency and bandwidth fitted to the others are {simple:.0%} off ({points} published times)"
    )


# ---- predicting


def _rows(entry: PublishedEntry) -> Iterator[CollectiveRow]:
    """By the model alone."""
    quantity, _ = entry.figures
    chosen = load_published(entry.system, entry.cluster)
    over = load_published(entry.over, entry.cluster) if entry.over else None
    for key, gpus, size_bytes, figure in entry.points():
        planned = _plan(entry, chosen, gpus)
        predicted = _as(quantity, planned, size_bytes, _plan(entry, over, gpus) if over else None)
        row = _row(entry.group, entry, planned, size_bytes, quantity, figure, predicted)
        yield replace(row, explained=NOTHING_SENT if entry.nothing_sent else entry.explained.get(key))


def _every_other() -> Iterator[CollectiveRow]:
    """Each series of sizes of one source, at those that its plan was not calibrated from."""
    series: dict[tuple[object, ...], list[PublishedTime]] = {}
    for point in sorted(times(), key=lambda point: point.size_bytes):
        series.setdefault((point.source, point.plan_key), []).append(point)
    for points in series.values():
        entry = points[0].entry
        if len(points) < FEWEST_PUBLISHED_SIZES or entry.cluster:
            continue
        plain = _plan(entry, load_published(entry.system, None), points[0].gpus)
        kept = points[::2] if len(points) % 2 else [*points[::2], points[-1]]  # both ends: none lies beyond them
        planned = replace(plain, calibration=by_published(plain, kept))
        for point in (point for point in points if point not in kept):
            predicted, size_bytes = planned.cost(point.size_bytes).time_s, point.size_bytes
            yield _row(EVERY_OTHER, point.entry, planned, size_bytes, "time_us", 1e6 * point.time_s, 1e6 * predicted)


def _row(
    group: str,
    entry: PublishedEntry,
    made: CollectivePlan,
    size_bytes: int,
    unit: Quantity,
    measured: float,
    predicted: float,
) -> CollectiveRow:
    stated = error_of(made, size_bytes)
    return CollectiveRow(
        group=group,
        source=entry.source,
        system=entry.system,
        library=entry.library,
        collective=entry.collective,
        gpus=len(made.devices),
        size_bytes=size_bytes,
        unit=unit,
        measured=measured,
        predicted=predicted,
        error=predicted / measured - 1,
        seen=entry.seen,
        calibrated=made.calibration is not None,
        explained=None,
        stated_error=stated.mean,
        stated_q90=None if unit == "ratio" else stated.q90,
        nodes=made.system.nodes,
    )


def _plan(entry: PublishedEntry, system: System, gpus: int) -> CollectivePlan:
    planned = plan(system, entry.collective, measured_devices(system, entry.cluster, gpus), entry.library)
    return planned.launched_by(entry.told_mode)


def _as(quantity: Quantity, made: CollectivePlan, size_bytes: int, over: CollectivePlan | None) -> float:
    cost = made.cost(size_bytes)
    if quantity == "ratio":
        assert over is not None
        return over.cost(size_bytes).time_s / cost.time_s
    return {"busbw_GBps": cost.busbw_Bps / 1e9, "algbw_GBps": cost.algbw_Bps / 1e9, "time_us": cost.time_s * 1e6}[
        quantity
    ]
