"""The model of collectives against what others measured: `results/published/collectives.yaml`, row by row.

A row is seen if its figure was known while the model was written, and calibrated if measured points went into its
prediction. Explained rows stand outside of a group's means, with the reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from resnetx.interconnect.collective import CollectivePlan, calibrate, plan
from resnetx.interconnect.errors import error_of
from resnetx.interconnect.published import Entry, Quantity, load_published, measured_devices, published
from resnetx.interconnect.system import System

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
    stated_q90: float | None  # 90 % of times are said to be within; null: of a ratio, or calibrated
    nodes: int = 1

    @property
    def time_error(self) -> float:
        """Relative error of the time, not negative."""
        return abs(self.error if self.unit == "time_us" else 1 / (1 + self.error) - 1)


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
    within: float | None  # share of rows within the 90 % that are stated for them; null: calibrated ones

    @property
    def holds(self) -> bool:
        return self.within is None or self.within >= LEAST_WITHIN


def validate() -> list[CollectiveRow]:
    """All published figures with their predictions, in the order of the file."""
    return [row for entry in published().entries for row in _rows(entry)]


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


# ---- predicting


def _rows(entry: Entry) -> Iterator[CollectiveRow]:
    quantity, _ = entry.figures
    chosen = load_published(entry.system, entry.cluster)
    over = load_published(entry.over, entry.cluster) if entry.over else None
    for key, gpus, size_bytes, figure in entry.points():
        if str(key) in entry.calibrate_from:
            continue
        made = _plan(entry, chosen, gpus)
        if entry.calibrate_from:
            made = calibrate(made, entry.calibrated_from())
        predicted = _as(quantity, made, size_bytes, _plan(entry, over, gpus) if over else None)
        stated = error_of(made, size_bytes)
        yield CollectiveRow(
            group=entry.group,
            source=entry.source,
            system=chosen.name,
            library=entry.library,
            collective=entry.collective,
            gpus=gpus,
            size_bytes=size_bytes,
            unit=quantity,
            measured=figure,
            predicted=predicted,
            error=predicted / figure - 1,
            seen=entry.seen,
            calibrated=bool(entry.calibrate_from),
            explained=entry.explained.get(key),
            stated_error=stated.mean,
            stated_q90=None if entry.calibrate_from or quantity == "ratio" else stated.q90,
            nodes=chosen.nodes,
        )


def _plan(entry: Entry, system: System, gpus: int) -> CollectivePlan:
    return plan(system, entry.collective, measured_devices(system, entry.cluster, gpus), entry.library)


def _as(quantity: Quantity, made: CollectivePlan, size_bytes: int, over: CollectivePlan | None) -> float:
    cost = made.cost(size_bytes)
    if quantity == "ratio":
        assert over is not None
        return over.cost(size_bytes).time_s / cost.time_s
    return {"busbw_GBps": cost.busbw_Bps / 1e9, "algbw_GBps": cost.algbw_Bps / 1e9, "time_us": cost.time_s * 1e6}[
        quantity
    ]
