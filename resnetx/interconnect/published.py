"""Collectives that others measured, as `results/published/collectives.yaml` has them.

A source, here, is what one publication says of one system.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

import msgspec

from resnetx.interconnect.fitted import FOLDER
from resnetx.interconnect.measured import MeasuredSize
from resnetx.interconnect.system import LaunchMode, System, load
from resnetx.loading import own_yaml
from resnetx.operations import OPERATIONS
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
    one_gpu_each: bool = False  # the first GPU of as many nodes took part, instead of the first GPUs


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    step = len(system.gpus) // system.nodes if cluster and cluster.one_gpu_each else 1
    return tuple(range(0, gpus * step, step))


@dataclass(frozen=True)
class PublishedTime:
    """One figure of one source, as a time; uncalibrated, and none that is explained."""

    entry: Entry
    gpus: int  # the first ones of the system, or of as many nodes
    size_bytes: int
    time_s: float

    @property
    def source(self) -> tuple[str, str]:
        """(publication, system)"""
        return self.entry.publication, self.entry.system

    def is_of(self, system: str, library: str, collective: str, gpus: int) -> bool:
        """Whether it is of the first `gpus` GPUs of a system's one node, whoever started them."""
        entry = self.entry
        own = (entry.system, entry.cluster, entry.library, entry.collective, self.gpus)
        return own == (system, None, library, collective, gpus)

    @property
    def plan_key(self) -> PlanKey:
        """What has one plan."""
        entry = self.entry
        return entry.system, entry.cluster, entry.library, entry.told_mode, entry.collective, self.gpus


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    groups: dict[str, Group]
    entries: list[Entry]


@cache
def published() -> Published:
    """All that was published, in the order of the file."""
    return own_yaml(FOLDER / "collectives.yaml", Published)


@cache
def times() -> tuple[PublishedTime, ...]:
    """Each figure once, as a time: no ratios, none that is explained or sends nothing, no size twice of one source."""
    found: dict[tuple[object, ...], PublishedTime] = {}
    for entry in published().entries:
        if entry.figures[0] == "ratio" or entry.nothing_sent:
            continue
        for key, gpus, size_bytes, figure in entry.points():
            if entry.explained.get(key) is None:
                point = PublishedTime(entry, gpus, size_bytes, entry.time_s(gpus, size_bytes, figure))
                found.setdefault((point.source, point.plan_key, size_bytes), point)
    return tuple(found.values())


def published_points(system: str, library: str, collective: str, gpus: int) -> list[MeasuredSize]:
    """What was measured on the first `gpus` GPUs of a system's one node, as times; in the order of the file."""
    found = (each for each in times() if each.is_of(system, library, collective, gpus))
    return [MeasuredSize(each.size_bytes, each.time_s) for each in found]
