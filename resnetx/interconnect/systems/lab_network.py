"""The network that the lab builds for a described system: a link for each described one, that many times slower.

Ranks stand for GPUs, and everything that a copy between two of them passes (switches, CPUs) stands between. What two
copies share in the description, they share here. A link has the rate of one large copy in each direction, or that of
the CPU that stages or passes on what comes over it, where that is lower. Not built are latencies (those of the
namespaces are what they are), and that both directions of some links together carry less than twice one of them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import Link, System
from resnetx.interconnect.systems.parts import CpuSpec
from resnetx.interconnect.systems.paths import LinkFlow, Transport, flow
from resnetx.record import RecordError, read
from resnetx.record.sealing import SCHEMA
from resnetx.units import in_GBps

MOST_RANKS = 16  # a namespace and a process each, on one machine


class LabLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link between two namespaces; rates are those of payload."""

    a: str
    b: str
    rate_Bps: float  # from a to b
    back_Bps: float | None = None  # from b to a; null: as much as from a to b; 0: no copy goes back

    def from_Bps(self, end: str) -> float:
        """The rate at which `end` sends."""
        return self.rate_Bps if end == self.a or self.back_Bps is None else self.back_Bps

    def describe(self) -> str:
        """Its rate, or both of them."""
        if self.back_Bps is None:
            return f"{in_GBps(self.rate_Bps)} each way"
        back = f"{in_GBps(self.back_Bps)} back" if self.back_Bps else "no copies back"
        return f"{in_GBps(self.rate_Bps)}, {back}"


class LabRoute(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy from one rank to another passes: names of namespaces, both ends included."""

    source: int
    target: int
    passes: list[str]
    links: list[int]  # places in `LabNetwork.links`, in the order in which they are passed


class LabNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Namespaces, the links between them, and which way copies take."""

    schema: int = SCHEMA
    system: str
    scale: float
    ranks: list[str]  # the namespace of each rank, named as the GPU that it stands for
    links: list[LabLink]
    routes: list[LabRoute]  # of every ordered pair of ranks

    @property
    def spaces(self) -> list[str]:
        """Every namespace: those of the ranks first."""
        return list(dict.fromkeys([*self.ranks, *(name for route in self.routes for name in route.passes)]))

    def describe(self) -> list[str]:
        """A sentence for each link."""
        about = f"shaped to {self.system} / {self.scale:g}"
        return [f"{link.a} to {link.b}: {link.describe()}, {about}" for link in self.links]


def lab_network(
    system: System, devices: Sequence[int] | None, ranks: int, scale: float, transport: Transport = "auto"
) -> LabNetwork:
    """The network of `ranks` ranks on these GPUs of a system (the first ones unless set)."""
    chosen = list(range(ranks)) if devices is None else list(devices)
    if system.nodes > 1:
        raise ConfigError(f"lab.system={system.name}: the lab builds one node; use a system of one node")
    if max(chosen) >= len(system.gpus) or ranks > MOST_RANKS:
        most = min(MOST_RANKS, len(system.gpus))
        raise ConfigError(f"gpus={ranks}: {system.name} in the lab has {most} ranks, with ids from 0; ask for fewer")
    names = [system.gpus[device].name for device in chosen]
    flows = {
        (source, target): flow(system, chosen[source], chosen[target], transport)
        for source, target in permutations(range(ranks), 2)
    }
    rates: dict[Link, dict[str, float]] = {}  # by the end that sends; by the first one where both are alike
    for sent in flows.values():
        for link, before, rate_Bps in _rates(system, sent):
            by_end = rates.setdefault(link, {})
            end = before if link.uneven else link.a
            by_end[end] = min(rate_Bps, by_end.get(end, rate_Bps))
    links = list(rates)
    routes = [
        LabRoute(
            source=source,
            target=target,
            passes=[names[source], *(after for _, after, _ in taken.steps)],
            links=[links.index(link) for _, _, link in taken.steps],
        )
        for (source, target), taken in flows.items()
    ]
    network = LabNetwork(
        system=system.name,
        scale=scale,
        ranks=names,
        links=[_lab_link(link, by_end, scale) for link, by_end in rates.items()],
        routes=routes,
    )
    next_hops(network)  # refuses what cannot be built
    return network


def _lab_link(link: Link, by_end: Mapping[str, float], scale: float) -> LabLink:
    """A link as the lab has it, from an end that sends."""
    a, b = (link.a, link.b) if link.a in by_end else (link.b, link.a)
    back_Bps = by_end.get(b, 0.0) / scale if link.uneven else None
    return LabLink(a=a, b=b, rate_Bps=by_end[a] / scale, back_Bps=back_Bps)


def _rates(system: System, taken: LinkFlow) -> list[tuple[Link, str, float]]:
    """Each link of a copy with the end that sends and with what the copy gets on it."""
    return [
        (link, before, min(link.leaving(before).copy_Bps, _cpu_limit(system, (before, after), link, taken)))
        for before, after, link in taken.steps
    ]


def _cpu_limit(system: System, ends: tuple[str, str], link: Link, taken: LinkFlow) -> float:
    """What the CPUs at the ends of a link let through; infinity where there is none."""
    limits = [math.inf]
    for name in ends:
        part = system.component(name).part
        if not isinstance(part, CpuSpec) or link.wire.family in ("smp", "network"):
            continue
        if taken.staged:
            limits.append(part.staging_Bps.value)
        elif part.peer_Bps is not None:
            limits.append(part.peer_Bps.value)
    return min(limits)


ORIGIN = -1  # stands for the link by which data arrives where it begins
Hops = dict[int, dict[str, tuple[str, int]]]  # link of arrival -> target -> (the next namespace, the link to it)


def next_hops(network: LabNetwork) -> dict[str, Hops]:
    """How each namespace forwards: by the link of arrival and the target, as a staged copy may pass a switch twice."""
    hops: dict[str, Hops] = {name: {} for name in network.spaces}
    for route in network.routes:
        target, arrivals = route.passes[-1], [ORIGIN, *route.links]
        for name, arrival, onward in zip(
            route.passes, arrivals, zip(route.passes[1:], route.links, strict=True), strict=False
        ):
            if hops[name].setdefault(arrival, {}).setdefault(target, onward) != onward:
                raise ConfigError(
                    f"lab.system={network.system}: copies to {target} part at {name}, which the lab cannot build; "
                    "choose other GPUs with devices=, or another transport"
                )
    return hops


# `network.json`: the network of a run in the lab, read by the process that builds it and by each rank.
#
# A file that says what cannot be built (a way over links that do not exist, or that do not meet) is refused by name.

MOST_SPACES = 254  # of which each has an address of one network


def read_network(path: Path) -> LabNetwork:
    """The network in a file; a `RecordError` says why it cannot be built."""
    network: LabNetwork = read(path, LabNetwork)
    try:
        if fault := next(_faults(network), ""):
            raise ConfigError(fault)
        next_hops(network)
    except ConfigError as error:
        raise RecordError(f"{path}: {error}") from None
    return network


def _faults(network: LabNetwork) -> Iterator[str]:
    """What is wrong with a network, each in a sentence."""
    ranks = len(network.ranks)
    if not 1 <= ranks <= MOST_RANKS or len(set(network.ranks)) != ranks:
        yield f"ranks: expected 1 to {MOST_RANKS} namespaces, each once, not {ranks}"
    if len(network.spaces) > MOST_SPACES:
        yield f"routes: pass {len(network.spaces)} namespaces; expected at most {MOST_SPACES}"
    for index, link in enumerate(network.links):
        if not (math.isfinite(link.rate_Bps) and link.rate_Bps >= 1):
            yield f"links[{index}].rate_Bps={link.rate_Bps}: expected at least 1"
        if link.back_Bps and not (math.isfinite(link.back_Bps) and link.back_Bps >= 1):
            yield f"links[{index}].back_Bps={link.back_Bps}: expected at least 1, or 0 where no copy goes back"
    for index, route in enumerate(network.routes):
        if fault := _route_fault(network, route):
            yield f"routes[{index}]: {fault}"


def _route_fault(network: LabNetwork, route: LabRoute) -> str:
    """Why a copy cannot take this way; "" where it can."""
    ends = [network.ranks[rank] for rank in (route.source, route.target) if 0 <= rank < len(network.ranks)]
    if len(ends) != 2 or len(route.passes) < 2 or [route.passes[0], route.passes[-1]] != ends:
        return "expected a way from one rank to another"
    if len(route.links) != len(route.passes) - 1:
        return f"passes {len(route.passes)} namespaces over {len(route.links)} links; expected one link less"
    for index, before, after in zip(route.links, route.passes, route.passes[1:], strict=False):
        if not 0 <= index < len(network.links):
            return f"link {index}: expected one of the {len(network.links)} links"
        link = network.links[index]
        if {link.a, link.b} != {before, after}:
            return f"link {index} joins {link.a} and {link.b}, not {before} and {after}"
        if not link.from_Bps(before):
            return f"link {index} has no rate from {before} to {after}"
    return ""
