"""The answers to questions about described systems, and the records of each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import exp

from resnetx import progress
from resnetx.api import topology_drawings
from resnetx.interconnect import pair_classes, pair_costs, pair_errors, paths
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.errors import error_of
from resnetx.interconnect.pair_classes import DescribedPair
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.subsets import MANY, GpuSubset
from resnetx.interconnect.system import System
from resnetx.record.topology import (
    CollectiveCost,
    GpuChoice,
    KnownSystem,
    PairAtSize,
    PairCosts,
    Route,
    SystemLinks,
)


@dataclass(frozen=True)
class Listed:
    """The systems that come with resnetx, with a sentence each."""

    about: Mapping[str, str]

    def records(self) -> Iterator[KnownSystem]:
        """One for each system."""
        yield from (KnownSystem(system=name, about=about) for name, about in self.about.items())


@dataclass(frozen=True)
class Described:
    """Systems: who is linked to whom."""

    systems: Sequence[System]
    transport: Transport

    def records(self) -> Iterator[SystemLinks]:
        """One for each system."""
        yield from (links_of(each, self.transport) for each in self.systems)


@dataclass(frozen=True)
class Paired:
    """What copies of some sizes cost between every ordered pair of GPUs of a system."""

    machine: System
    transport: Transport
    sizes: Sequence[int]

    def records(self) -> Iterator[PairCosts]:
        """One for each size."""
        ways = pair_classes.described_pairs(self.machine, self.transport)
        yield from (_pair_costs(self, ways, size_bytes) for size_bytes in self.sizes)


@dataclass(frozen=True)
class Routed:
    """Every path that an application could choose between two GPUs, by system."""

    routes: Sequence[tuple[System, Sequence[paths.Path]]]

    def records(self) -> Iterator[Route]:
        """One for each path."""
        yield from (_route(machine, path) for machine, found in self.routes for path in found)


@dataclass(frozen=True)
class Costed:
    """What a collective costs, on every system asked for and with every generation of the library."""

    plans: Sequence[CollectivePlan]
    sizes: Sequence[int]

    def records(self) -> Iterator[CollectiveCost]:
        """One for each plan and size."""
        yield from (_cost(plan, size_bytes) for plan in self.plans for size_bytes in self.sizes)


@dataclass(frozen=True)
class Ranked:
    """The choices of some of the free GPUs of one system, the best first."""

    machine: System
    library: str
    collective: str
    size_bytes: int
    choices: Sequence[GpuSubset]

    def records(self) -> Iterator[GpuChoice]:
        """One for each choice."""
        many = len(self.choices) > MANY
        with progress.counting("choices of GPUs", len(self.choices)) if many else nullcontext() as advance:
            for choice in self.choices:
                yield _choice(self, choice)
                if advance:
                    advance(1)


Answer = Listed | Described | Paired | Routed | Costed | Ranked


def links_of(machine: System, transport: Transport) -> SystemLinks:
    """A system as its record has it."""
    pairs = paths.pair_matrix(machine, transport)
    return SystemLinks(
        system=machine.name,
        about=machine.about,
        library=machine.library,
        gpus=[component.part_name for component in machine.gpus],
        connectivity=paths.connectivity(machine),
        peers=paths.peers(machine),
        transport=transport,
        kind=[list(row) for row in pairs.kind],
        bandwidth_Bps=pairs.bandwidth_Bps,
        duplex_Bps=pairs.duplex_Bps,
        latency_s=pairs.latency_s,
    )


def _pair_costs(paired: Paired, ways: Sequence[DescribedPair], size_bytes: int) -> PairCosts:
    return PairCosts(
        system=paired.machine.name,
        transport=paired.transport,
        size_bytes=size_bytes,
        pairs=[_pair_at_size(paired.machine, way, size_bytes) for way in ways],
        error_source=pair_errors.SOURCE,
    )


def _pair_at_size(machine: System, way: DescribedPair, size_bytes: int) -> PairAtSize:
    path, cost = way.path, pair_costs.pair_cost(way.path, size_bytes)
    error = pair_errors.error_of(machine.name, path.kind, "one-way", size_bytes)
    return PairAtSize(
        source=path.source,
        target=path.target,
        latency_s=path.latency_s,
        time_s=cost.time_s,
        bandwidth_Bps=cost.bandwidth_Bps,
        bidirectional_Bps=cost.bidirectional_Bps,
        transport=path.kind,
        limiting_link=path.limit,
        pair_class=way.name,
        error=error.mean,
        error_q90=error.q90,
    )


def _route(machine: System, path: paths.Path) -> Route:
    return Route(
        system=machine.name,
        source=path.source,
        target=path.target,
        kind=path.kind,
        names=list(path.names),
        bandwidth_Bps=path.bandwidth_Bps,
        duplex_Bps=path.duplex_Bps,
        latency_s=path.latency_s,
        limiting_link=path.limit,
    )


def _cost(plan: CollectivePlan, size_bytes: int) -> CollectiveCost:
    cost, error = plan.cost(size_bytes), error_of(plan, size_bytes)
    rings = topology_drawings.rings_of(plan, cost)
    return CollectiveCost(
        system=plan.system.name,
        collective=plan.collective,
        devices=list(plan.devices),
        library=plan.library,
        transport=plan.transport,
        size_bytes=size_bytes,
        time_s=cost.time_s,
        algbw_Bps=cost.algbw_Bps,
        busbw_Bps=cost.busbw_Bps,
        algorithm=cost.algorithm,
        rings=[list(ring.order) for ring in rings],
        ring_Bps=[ring.bandwidth_Bps for ring in rings],
        limiting_link=cost.limiting_link,
        calibration=None if plan.calibration is None else plan.calibration.source,
        explanation=[*plan.explain(size_bytes), error.text],
        error=error.mean if error.known else None,
        error_q90=error.q90 if error.known else None,
        error_source=error.source,
        launch_mode=plan.launch_mode,
        interval_s=[cost.time_s * exp(-error.q90), cost.time_s * exp(error.q90)] if error.points else None,
    )


def _choice(ranked: Ranked, choice: GpuSubset) -> GpuChoice:
    return GpuChoice(
        system=ranked.machine.name,
        collective=ranked.collective,
        library=choice.plan.library,
        size_bytes=ranked.size_bytes,
        devices=list(choice.devices),
        busbw_Bps=choice.busbw_Bps,
        limiting_link=choice.plan.cost(ranked.size_bytes).limiting_link,
        command=choice.command,
    )
