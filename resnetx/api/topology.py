"""Described machines, the paths through them, and what a collective costs on them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import msgspec

from resnetx.api import topology_drawings
from resnetx.api.system_settings import SystemSettings
from resnetx.config import given_path, sizes_from
from resnetx.errors import ConfigError
from resnetx.interconnect import collective, measured, pair_classes, pair_costs, pair_errors, paths, subsets, system
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.errors import error_of
from resnetx.interconnect.ladder import with_published
from resnetx.interconnect.measured import UNCALIBRATED
from resnetx.interconnect.pair_classes import DescribedPair
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.subsets import GpuSubset
from resnetx.interconnect.system import System
from resnetx.record.topology import (
    CollectiveCost,
    GpuChoice,
    KnownSystem,
    PairAtSize,
    PairCosts,
    Route,
    SystemLinks,
    TopologyRecord,
)
from resnetx.settings import keywords
from resnetx.settings.compose import asked, struct_of
from resnetx.study import Point
from resnetx.table import Records

GOES_WITH = {  # settings that only some questions read, and which: one that nothing reads is refused, not dropped
    "size": ("collective", "pick", "size"),
    "library": ("collective", "pick"),
    "devices": ("collective", "devices"),
    "transport": ("collective", "size", "systems"),
    "calibration": ("collective",),
    "free": ("pick",),
    "out": ("collective", "systems"),
    "results": ("collective", "pick", "devices", "systems"),
    **dict.fromkeys(("gpu", "cpu", "nic", "pcie", "gpus"), ("new", "--import")),
    **dict.fromkeys(("like", "switches", "sockets", "uplink"), ("new",)),
}


class TopologySettings(SystemSettings, frozen=True, kw_only=True):
    """The settings of questions about systems."""

    calibration: str | None
    collective: str | None
    size: list[int | str]
    pick: int | None
    free: list[int] | None


# ---- answers --------------------------------------------------------------------------------------------------------


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
    transport: Transport
    sizes: Sequence[int]

    def records(self) -> Iterator[CollectiveCost]:
        """One for each plan and size."""
        yield from (_cost(plan, self.transport, size_bytes) for plan in self.plans for size_bytes in self.sizes)


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
        yield from (_choice(self, choice) for choice in self.choices)


Answer = Listed | Described | Paired | Routed | Costed | Ranked


def topology(*names: keywords.Text, **settings: Unpack[keywords.TopologyKeywords]) -> Records[Any]:
    """Explains systems, by name or YAML file; without any, names those that come with resnetx.

    Which of `resnetx.record.topology` its records are, depends on what is asked.
    With `size` it says what copies between each two GPUs cost, with `collective` what that costs, with two `devices`
    which paths join them, with `pick` which GPUs to use.

    >>> import resnetx
    >>> (cost,) = resnetx.topology("dgx1-v100", collective="allreduce", size="64MiB", library="nccl2")
    >>> cost.algorithm, len(cost.rings)
    ('ring', 6)
    """
    if list(map(str, names)) == ["new"]:
        from resnetx.api.new_system import new_system

        return Records(list(new_system(settings).records()))
    found: list[TopologyRecord] = [record for answer in answers(names, settings) for record in answer.records()]
    return Records(found)


def answers(files: Sequence[keywords.Text], settings: Mapping[str, object]) -> list[Answer]:
    """What is asked of systems; drawings are written where `out` or `results` says."""
    given = asked("topology", settings)
    wanted = _asked(given)
    names = [*wanted.systems, *(str(given_path(each)) for each in files)]
    if not (names or given):
        return [Listed(system.names())]
    if not names:
        raise ConfigError("systems=[]: expected names or files of systems; `resnetx topology` lists the names")
    machines = wanted.load(names)
    _refuse_unread(given, wanted, machines)
    if wanted.pick is not None:
        return list(_ranked(machines, wanted, wanted.pick))
    if wanted.collective is not None:
        return [_costed(machines, wanted, wanted.collective)]
    if wanted.devices is not None:
        return [_routed(machines, wanted.devices)]
    if "size" in given:
        return [Paired(each, wanted.transport, _sizes(wanted)) for each in machines]
    if wanted.out:
        topology_drawings.write([topology_drawings.of_system(each) for each in machines], Path(wanted.out))
    return [Described(machines, wanted.transport)]


def _asked(given: Point) -> TopologySettings:
    wanted = struct_of(given, TopologySettings, listed=("systems", "size", "library"))
    wanted.refuse_no_library()
    if wanted.out is None and "results" in given:
        return msgspec.structs.replace(wanted, out=str(Path(wanted.results) / "topology"))
    return wanted


def _refuse_unread(given: Point, wanted: TopologySettings, systems: Sequence[System]) -> None:
    """A setting that the question does not read would be an answer to another question than the one asked."""
    questions = ("pick", "collective", "devices")
    question = next((each for each in questions if getattr(wanted, each) is not None), "systems")
    if question == "systems" and "size" in given:
        question = "size"  # of copies
    for key, value in given.items():
        if value is not None and question not in GOES_WITH.get(key, (question,)):
            others = " or ".join(
                each if each in ("new", "--import") else f"{each}="
                for each in GOES_WITH[key]
                if each not in (key, "systems", "size")
            )
            raise ConfigError(f"{key}={value}: has no effect here; it is used with {others}")
        if key in ("network", "nics") and wanted.nodes is None and all(each.nodes == 1 for each in systems):
            raise ConfigError(f"{key}={value}: one node needs no network; set nodes= as well")
    if question == "size" and wanted.transport == "socket":
        raise ConfigError("transport=socket: copies between GPUs take no sockets; expected auto, peer, pcie or host")
    if question == "pick" and len(wanted.size) > 1:
        raise ConfigError(f"size={wanted.size}: choices are ranked at one size")


def _sizes(wanted: TopologySettings) -> list[int]:
    if not wanted.size:
        raise ConfigError("size=[]: expected at least one size")
    return sizes_from(wanted.size)


def _routed(machines: Sequence[System], devices: list[int]) -> Routed:
    if len(devices) != 2:
        raise ConfigError(
            f"devices={devices}: two GPUs show the paths between them; for more, add collective=allreduce"
        )
    source, target = devices
    for each in machines:
        last = len(each.gpus) - 1
        if source == target or not (0 <= source <= last and 0 <= target <= last):
            raise ConfigError(f"devices={devices}: expected two GPU ids from 0 to {last} of {each.name}")
    return Routed([(each, paths.routes(each, source, target)) for each in machines])


def _costed(machines: Sequence[System], wanted: TopologySettings, name: str) -> Costed:
    sizes = _sizes(wanted)
    plans = [
        collective.plan(each, name, wanted.devices, library, wanted.transport)
        for library in wanted.library
        for each in machines
    ]
    if wanted.calibration is None:
        plans = [with_published(each) for each in plans] if wanted.transport == "auto" else plans
    elif wanted.calibration != UNCALIBRATED:
        if len(plans) > 1:
            raise ConfigError(
                f"calibration={wanted.calibration}: valid for one system and one library; give one of each"
            )
        plans = [collective.calibrate(plans[0], measured.read(wanted.calibration, plans[0].collective))]
    if wanted.out:
        topology_drawings.write([topology_drawings.of_plan(plan, sizes[-1]) for plan in plans], Path(wanted.out))
    return Costed(plans, wanted.transport, sizes)


def _ranked(machines: Sequence[System], wanted: TopologySettings, count: int) -> Iterator[Ranked]:
    size_bytes = _sizes(wanted)[-1]
    name = wanted.collective or "allreduce"
    for each in machines:
        for library in wanted.library:
            found = subsets.pick(each, count, wanted.free, name, size_bytes, library)
            yield Ranked(each, library or each.library, name, size_bytes, found)


# ---- records --------------------------------------------------------------------------------------------------------


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


def _cost(plan: CollectivePlan, transport: Transport, size_bytes: int) -> CollectiveCost:
    cost, error = plan.cost(size_bytes), error_of(plan, size_bytes)
    rings = topology_drawings.rings_of(plan, cost)
    return CollectiveCost(
        system=plan.system.name,
        collective=plan.collective,
        devices=list(plan.devices),
        library=plan.library,
        transport=transport,
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
        error=error.mean,
        error_q90=error.q90,
        error_source=error.source,
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
