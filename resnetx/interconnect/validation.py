"""The model of collectives against what others measured: `results/published/collectives.yaml`, row by row.

A row is seen if its figure was known while the model was written, and calibrated if measured points went into its
prediction. Groups have tolerances, which tests hold; explained rows stand outside of them, with the reason.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from resnetx.config import CONFIGS
from resnetx.interconnect.collective import CollectivePlan, calibrate, plan
from resnetx.interconnect.measured import MeasuredCollective, MeasuredSize
from resnetx.interconnect.system import System, load
from resnetx.loading import own_yaml
from resnetx.operations import OPERATIONS
from resnetx.units import size

Quantity = Literal["busbw_GBps", "algbw_GBps", "time_us", "ratio"]


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
    nodes: int = 1


@dataclass(frozen=True)
class CollectiveSummary:
    """How far off a group is, without its explained rows."""

    group: str
    about: str
    rows: int
    unseen: int
    mean_error: float
    worst_error: float
    mean_tolerance: float
    worst_tolerance: float

    @property
    def holds(self) -> bool:
        return self.mean_error <= self.mean_tolerance and self.worst_error <= self.worst_tolerance


def validate() -> list[CollectiveRow]:
    """All published figures with their predictions, in the order of the file."""
    return [row for entry in _published().entries for row in _rows(entry)]


def summaries(rows: Sequence[CollectiveRow]) -> list[CollectiveSummary]:
    """The groups of `rows`, in the order of the file."""
    found = []
    for name, group in _published().groups.items():
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
                mean_tolerance=group.tolerance.mean,
                worst_tolerance=group.tolerance.worst,
            )
        )
    return found


def mean_tolerance(system: str, library: str, collective: str = "allreduce") -> float:
    """The mean error allowed for uncalibrated plans like this one: of the same system and library, else the largest."""
    published = _published()
    plain = [entry for entry in published.entries if entry.collective == collective and not entry.calibrate_from]
    alike = [each for each in plain if (each.system, each.library) == (system, library)]
    return max(published.groups[each.group].tolerance.mean for each in alike or plain)


def published_points(system: str, library: str, collective: str, gpus: int) -> list[MeasuredSize]:
    """What was measured on the first `gpus` GPUs of a system's one node, as times; in the order of the file."""
    wanted = (system, library, collective, None)
    return [
        _point(entry, count, size_bytes, figure)
        for entry in _published().entries
        if (entry.system, entry.library, entry.collective, entry.cluster) == wanted
        and entry.figures[0] in ("busbw_GBps", "time_us")
        for _, count, size_bytes, figure in entry.points()
        if count == gpus
    ]


# ---- the file


class _Tolerance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mean: float
    worst: float


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    tolerance: _Tolerance


class _Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nodes: int
    network: str
    nics: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures of one source, by GPU count (with `size`) or by size (with `gpus`)."""

    source: str
    group: str
    system: str
    library: str
    seen: bool
    collective: str = "allreduce"
    cluster: _Cluster | None = None
    one_a_node: bool = False  # the first GPU of as many nodes, instead of the first GPUs
    over: str | None = None  # the system that `ratio` divides by
    size: str | None = None
    gpus: int | None = None
    busbw_GBps: dict[str | int, float] | None = None
    algbw_GBps: dict[str | int, float] | None = None
    time_us: dict[str | int, float] | None = None
    ratio: dict[str | int, float] | None = None
    explained: dict[str | int, str] = {}
    calibrate_from: list[str] = []

    @property
    def figures(self) -> tuple[Quantity, dict[str | int, float]]:
        quantities: tuple[Quantity, ...] = ("busbw_GBps", "algbw_GBps", "time_us", "ratio")
        given = [(quantity, figures) for quantity in quantities if (figures := getattr(self, quantity))]
        assert len(given) == 1, f"{self.source}: expected exactly one of {quantities}"
        return given[0]

    def points(self) -> Iterator[tuple[str | int, int, int, float]]:
        """(key, GPUs, bytes, figure)"""
        for key, figure in self.figures[1].items():
            if self.gpus is None:
                assert self.size is not None, f"{self.source}: expected size or gpus"
                yield key, int(key), size(self.size), figure
            else:
                yield key, self.gpus, size(str(key)), figure


class _Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: dict[str, _Group]
    entries: list[_Entry]


@cache
def _published() -> _Published:
    found: _Published = own_yaml(_path(), _Published)
    return found


def _path() -> Path:
    """The file; a wheel has `results/published` next to `configs`."""
    return CONFIGS.parent / "results" / "published" / "collectives.yaml"


# ---- predicting


def _rows(entry: _Entry) -> Iterator[CollectiveRow]:
    quantity, _ = entry.figures
    chosen = _system(entry, entry.system)
    over = _system(entry, entry.over) if entry.over else None
    for key, gpus, size_bytes, figure in entry.points():
        if str(key) in entry.calibrate_from:
            continue
        made = _plan(entry, chosen, gpus)
        if entry.calibrate_from:
            made = calibrate(made, _measured(entry))
        predicted = _as(quantity, made, size_bytes, _plan(entry, over, gpus) if over else None)
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
            nodes=chosen.nodes,
        )


def _system(entry: _Entry, name: str) -> System:
    cluster = entry.cluster
    return load(name, cluster.nodes, cluster.network, cluster.nics) if cluster else load(name, nodes=1)


def _plan(entry: _Entry, system: System, gpus: int) -> CollectivePlan:
    step = len(system.gpus) // system.nodes if entry.one_a_node else 1
    return plan(system, entry.collective, range(0, gpus * step, step), entry.library)


def _as(quantity: Quantity, made: CollectivePlan, size_bytes: int, over: CollectivePlan | None) -> float:
    cost = made.cost(size_bytes)
    if quantity == "ratio":
        assert over is not None
        return over.cost(size_bytes).time_s / cost.time_s
    return {"busbw_GBps": cost.busbw_Bps / 1e9, "algbw_GBps": cost.algbw_Bps / 1e9, "time_us": cost.time_s * 1e6}[
        quantity
    ]


def _measured(entry: _Entry) -> MeasuredCollective:
    """The points that an entry says to calibrate from."""
    points = [
        _point(entry, gpus, size_bytes, figure)
        for key, gpus, size_bytes, figure in entry.points()
        if str(key) in entry.calibrate_from
    ]
    return MeasuredCollective(entry.source, tuple(points))


def _point(entry: _Entry, gpus: int, size_bytes: int, figure: float) -> MeasuredSize:
    quantity, _ = entry.figures
    time_s = figure * 1e-6
    if quantity == "busbw_GBps":
        time_s = size_bytes * OPERATIONS[entry.collective].bus_factor(gpus) / (figure * 1e9)
    return MeasuredSize(size_bytes, time_s)
