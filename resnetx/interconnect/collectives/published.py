"""Collectives that others measured, as `results/published/collectives.yaml` has them.

A source, here, is what one publication says of one system.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import msgspec

from resnetx.interconnect.collectives.algorithms import LAUNCH_SHARES
from resnetx.interconnect.collectives.measured import Calibration, ComparedTime, MeasuredSize, by_times
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.systems.system import LaunchMode, System, load
from resnetx.loading import own_yaml
from resnetx.operations import OPERATIONS
from resnetx.settings.files import PUBLISHED
from resnetx.units import size

Quantity = Literal["busbw_GBps", "algbw_GBps", "time_us", "ratio"]


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures that are judged together."""

    about: str


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How nodes of the system are joined."""

    nodes: int
    network: str
    nics: int
    gpus_each: int | None = None  # the first ones of as many nodes took part; null: all of each node


class PublishedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures of one source, by GPU count (with `size`) or by size (with `gpus`)."""

    source: str
    group: str
    system: str
    library: str
    launch_mode: LaunchMode | Literal["unknown"]
    seen: bool
    collective: str = "allreduce"
    cluster: Cluster | None = None
    over: str | None = None  # the system that `ratio` divides by
    size: str | None = None
    gpus: int | None = None
    busbw_GBps: dict[str | int, float] | None = None
    algbw_GBps: dict[str | int, float] | None = None
    time_us: dict[str | int, float] | None = None
    ratio: dict[str | int, float] | None = None
    explained: dict[str | int, str] = {}
    fitted_from: str | None = None  # smaller sizes say how slowly this host starts GPUs: they are judged, not fitted
    nothing_sent: bool = False  # the array has less than an element for each GPU: what a call costs, not a transfer

    @property
    def figures(self) -> tuple[Quantity, dict[str | int, float]]:
        quantities: tuple[Quantity, ...] = ("busbw_GBps", "algbw_GBps", "time_us", "ratio")
        given = [(quantity, figures) for quantity in quantities if (figures := getattr(self, quantity))]
        assert len(given) == 1, f"{self.source}: expected exactly one of {quantities}"
        return given[0]

    @property
    def told_mode(self) -> LaunchMode | None:
        """Who started the GPUs, where the source says it."""
        return None if self.launch_mode == "unknown" else self.launch_mode

    @property
    def publication(self) -> str:
        """Who published it: the words before the year, the section or the file."""
        return re.split(r" \(|, |:", self.source)[0]

    def points(self) -> Iterator[tuple[str | int, int, int, float]]:
        """(key, GPUs, bytes, figure)"""
        for key, figure in self.figures[1].items():
            if self.gpus is None:
                assert self.size is not None, f"{self.source}: expected size or gpus"
                yield key, int(key), size(self.size), figure
            else:
                yield key, self.gpus, size(str(key)), figure

    def time_s(self, gpus: int, size_bytes: int, figure: float) -> float:
        """One figure as the time of one operation."""
        quantity, _ = self.figures
        if quantity == "time_us":
            return figure * 1e-6
        factor = OPERATIONS[self.collective].bus_factor(gpus) if quantity == "busbw_GBps" else 1.0
        return size_bytes * factor / (figure * 1e9)


# system, how its nodes are joined, library, who starts the GPUs, collective, GPUs
PlanKey = tuple[str, Cluster | None, str, LaunchMode | None, str, int]


def load_published(name: str, cluster: Cluster | None) -> System:
    """A system, in as many nodes as was measured."""
    return load(name, cluster.nodes, cluster.network, cluster.nics) if cluster else load(name, nodes=1)


def measured_devices(system: System, cluster: Cluster | None, gpus: int) -> tuple[int, ...]:
    """The GPUs that took part."""
    node_gpus = len(system.gpus) // system.nodes
    each = (cluster and cluster.gpus_each) or node_gpus
    return tuple(rank // each * node_gpus + rank % each for rank in range(gpus))


@dataclass(frozen=True)
class PublishedTime:
    """One figure of one source, as a time; uncalibrated, and none that is explained."""

    entry: PublishedEntry
    gpus: int  # the first ones of the system, or of as many nodes
    size_bytes: int
    time_s: float

    @property
    def source(self) -> tuple[str, str]:
        """(publication, system)"""
        return self.entry.publication, self.entry.system

    @property
    def is_fitted(self) -> bool:
        """Whether it says more than how slowly its host starts GPUs."""
        least = self.entry.fitted_from
        return least is None or self.size_bytes >= size(least)

    @property
    def plan_key(self) -> PlanKey:
        """What has one plan."""
        entry = self.entry
        return entry.system, entry.cluster, entry.library, entry.told_mode, entry.collective, self.gpus


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    groups: dict[str, Group]
    entries: list[PublishedEntry]


@cache
def published() -> Published:
    """All that was published, in the order of the file."""
    return own_yaml(PUBLISHED / "collectives.yaml", Published)


@cache
def times() -> tuple[PublishedTime, ...]:
    """Each figure once, as a time: no ratios, none that is explained or sends nothing, no size twice of one source."""
    return _times(published().entries)


def _times(entries: Iterable[PublishedEntry]) -> tuple[PublishedTime, ...]:
    found: dict[tuple[object, ...], PublishedTime] = {}
    for entry in entries:
        if entry.figures[0] == "ratio" or entry.nothing_sent:
            continue
        for key, gpus, size_bytes, figure in entry.points():
            if entry.explained.get(key) is None:
                point = PublishedTime(entry, gpus, size_bytes, entry.time_s(gpus, size_bytes, figure))
                found.setdefault((point.source, point.plan_key, size_bytes), point)
    return tuple(found.values())


@cache
def _on_one_node(system: str, library: str, collective: str, gpus: int) -> tuple[PublishedTime, ...]:
    """Those of the first GPUs of a system's one node, whoever started them; in the order of the file."""
    of = (system, None, library, collective)
    entries = (
        entry for entry in published().entries if (entry.system, entry.cluster, entry.library, entry.collective) == of
    )
    return tuple(time for time in _times(entries) if time.gpus == gpus)


def published_points(system: str, library: str, collective: str, gpus: int) -> list[MeasuredSize]:
    """What was measured on the first `gpus` GPUs of a system's one node, as times; in the order of the file."""
    return [MeasuredSize(time.size_bytes, time.time_s) for time in _on_one_node(system, library, collective, gpus)]


# Published sizes and times of a machine as the calibration of its plans.
#
#     with_published(plan(load("dgx-a100"), "allgather")).cost(3 * 2**20)
#
# A ladder is of one system, library and collective, on so many GPUs: the first ones, in one node. It corrects a plan as
# sizes that were measured here do (`calibration`), but not sizes far below its smallest: nobody measured them, and the
# model was fitted to figures of that size band on other machines, too.

FEWEST_PUBLISHED_SIZES = 6
STARTED = 4.0  # times the shortest time that one process takes: from here on, who starts GPUs matters little
BEYOND = 2.0  # a ladder holds for sizes up to this factor below its smallest; above its largest, for all


def with_published(plan: CollectivePlan) -> CollectivePlan:
    """The plan, calibrated by the ladder of such plans if one is published."""
    calibration = ladder(plan)
    return plan if calibration is None else replace(plan, calibration=calibration)


def ladder(plan: CollectivePlan) -> Calibration | None:
    """The ladder of the first GPUs of the first node, of an uncalibrated plan; None: none is published."""
    node_gpus = len(plan.system.gpus) // plan.system.nodes
    if len(plan.devices) > node_gpus or plan.devices != tuple(range(len(plan.devices))):
        return None
    return ladder_of(plan, _on_one_node(plan.system.node_name, plan.library, plan.collective, len(plan.devices)))


def ladder_of(plan: CollectivePlan, published: Sequence[PublishedTime]) -> Calibration | None:
    """The ladder that these times of such plans make; None: they are too few."""
    least_s = {
        time.entry.source: min(other.time_s for other in published if other.entry is time.entry) for time in published
    }
    points = [
        time
        for time in sorted(published, key=lambda time: time.size_bytes)
        if _started_alike(plan, time, least_s[time.entry.source])
    ]
    if len({point.size_bytes for point in points}) < FEWEST_PUBLISHED_SIZES:
        return None
    return by_published(plan, points)


def _started_alike(plan: CollectivePlan, point: PublishedTime, least_s: float) -> bool:
    """Whether a time is of GPUs that are started as the plan's are, or so long that it hardly matters.

    `least_s`: the shortest time of its series. One process may start GPUs twice as slowly as the model has it.
    """
    mode = point.entry.told_mode
    if mode == plan.launch_mode:
        return True
    if mode == "one-process" and point.time_s < STARTED * least_s:
        return False
    return not plan.launch_decides(point.size_bytes)


def by_published(plan: CollectivePlan, points: Iterable[PublishedTime]) -> Calibration:
    """The calibration of an uncalibrated plan by published times of such plans."""
    modes = {mode: plan.launched_by(mode) for mode in LAUNCH_SHARES}  # each time is held against its own
    compared = [
        ComparedTime(
            point.size_bytes,
            point.time_s,
            modes[point.entry.told_mode].cost(point.size_bytes).time_s,
            point.entry.publication,
        )
        for point in points
    ]
    publications = dict.fromkeys(time.publication for time in compared)
    smallest = min(time.size_bytes for time in compared)
    return by_times(f"published times of {', '.join(publications)}", compared, smallest / BEYOND)
