"""Searches for the links that data crosses between two components of a system: fewest links, then least latency.

A search is given the links it may use and the components it may pass: peer traffic passes switches, and a CPU only
where its PCIe root lets it (`peer_Bps`). A link without lanes in the direction of a search is not there for it. Nothing
passes a third node.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import NO_NODE, Component, Link, System
from resnetx.interconnect.systems.parts import CpuSpec

# What flows get that run at once: each direction of a link, both together, and a CPU's ports are shared fairly.

Steps = tuple[tuple[str, str, Link], ...]  # (from, to, link)
SharedResource = tuple[str, str]  # (what people call it, the kind of link): two components may have links of two kinds


@dataclass(frozen=True)
class LinkFlow:
    """Data on its way. `staged`: through host memory, so that CPU ports pass it at their staging rate."""

    steps: Steps
    staged: bool
    from_host: bool = False  # it begins in host memory: no CPU has to pass it on


def fair_shares(system: System, flows: Sequence[LinkFlow], kernels: bool = False) -> list[tuple[float, str]]:
    """(B/s, what limits it) of flows that run at once and share fairly (max-min).

    `kernels`: the GPUs' own kernels move the data, as collectives do, instead of the copy engines.
    """
    capacity: dict[SharedResource, float] = {}
    uses = [Counter[SharedResource]() for _ in flows]
    for index, flow in enumerate(flows):
        for resource, room_Bps in _resources(system, flow, kernels):
            capacity[resource] = room_Bps
            uses[index][resource] += 1
    shares: list[tuple[float, str]] = [(0.0, "")] * len(flows)
    active = set(range(len(flows)))
    level_Bps = 0.0
    while active:
        load = Counter[SharedResource]()
        for index in active:
            load.update(uses[index])
        step_Bps, tightest = min((capacity[resource] / count, resource) for resource, count in load.items())
        level_Bps += step_Bps
        for resource, count in load.items():
            capacity[resource] -= step_Bps * count
        full = {resource for resource in load if capacity[resource] <= 1e-9 * level_Bps}
        done = {index for index in active if not full.isdisjoint(uses[index])}
        for index in done:
            limit, _ = tightest if tightest in uses[index] else min(full & uses[index].keys())
            shares[index] = (level_Bps, limit)
        active -= done
    return shares


def seconds_per_byte(
    system: System, loads: Iterable[tuple[LinkFlow, float]], kernels: bool = False
) -> tuple[float, str]:
    """(seconds, what limits them) until all flows that start at once are over, where each carries so many bytes.

    What has most to carry for its rate is busy all the time. With as many bytes in each flow that is 1 / the least of
    `fair_shares`: those who get it are the last to end.
    """
    capacity: dict[SharedResource, float] = {}
    carried: dict[SharedResource, float] = {}
    for flow, size_bytes in loads:
        for resource, room_Bps in _resources(system, flow, kernels):
            capacity[resource] = room_Bps
            carried[resource] = carried.get(resource, 0.0) + size_bytes
    return max(((size_bytes / capacity[resource], resource[0]) for resource, size_bytes in carried.items()))


def _resources(system: System, flow: LinkFlow, kernels: bool) -> Iterator[tuple[SharedResource, float]]:
    """What a flow uses, and how much of it there is: each direction of a link, and both together."""
    for before, after, link in flow.steps:
        rate_Bps, back_Bps = (_rate_Bps(link.leaving(end), kernels) for end in (before, after))
        yield (f"{before} to {after}", link.part_name), rate_Bps
        yield (f"{link.name} both ways", link.part_name), min(rate_Bps + back_Bps, link.duplex_Bps)
        for name in (before, after):
            part = system.component(name).part
            if flow.from_host or not isinstance(part, CpuSpec) or link.wire.family in ("smp", "network"):
                continue
            if flow.staged:
                duplex = part.staging_duplex_Bps.value if part.staging_duplex_Bps else 2 * part.staging_Bps.value
                yield (f"{before} to {after}, staged in {name}", link.part_name), part.staging_Bps.value
                yield (f"{link.name} both ways, staged in {name}", link.part_name), duplex
            elif part.peer_Bps is not None:
                yield (f"{before} to {after}, through {name}", link.part_name), part.peer_Bps.value


def _rate_Bps(link: Link, kernels: bool) -> float:
    return link.kernel_Bps if kernels else link.copy_Bps


def shortest(
    system: System,
    source: str,
    ends: Collection[str],
    usable: Callable[[Link], bool],
    passable: Callable[[Component], bool],
) -> Steps:
    """The path from `source` to the nearest of `ends`: fewest links, then least latency; () if there is none."""
    nodes = {system.component(name).node for name in (source, *ends)} | {NO_NODE}  # never through a third node
    back: dict[str, tuple[str, Link]] = {}
    ahead: list[tuple[int, float, str, str, str, Link | None]] = [(0, 0.0, source, source, "", None)]
    while ahead:
        hops, latency_s, name, before, _, link = heappop(ahead)
        if name in back:
            continue
        if link is not None:
            back[name] = (before, link)
        if name in ends:
            return _walk_back(back, source, name)
        if name != source and not passable(system.component(name)):
            continue
        for link, near in system.near(name, nodes):
            if near not in back and near != source and link.lanes_from(name) and usable(link):
                heappush(ahead, (hops + 1, latency_s + link.wire.latency_s.value, near, name, link.part_name, link))
    return ()


def _walk_back(back: Mapping[str, tuple[str, Link]], source: str, end: str) -> Steps:
    steps: list[tuple[str, str, Link]] = []
    while end != source:
        before, link = back[end]
        steps.append((before, end, link))
        end = before
    return tuple(reversed(steps))


def peer_steps(system: System, a: str, b: str) -> Steps:
    """The path of peer traffic: over NVLink and its switches if there is one, else over any links that let it cross."""
    return nvlink_steps(system, a, b) or shortest(
        system, a, {b}, lambda link: link.wire.peer, lambda c: c.kind in ("switch", "nic") or _peers_cross(c)
    )


def nvlink_steps(system: System, a: str, b: str) -> Steps:
    return _kept(
        system,
        ("nvlink", a, b),
        lambda: shortest(system, a, {b}, is_peer_nvlink, lambda component: component.kind == "switch"),
    )


def bus_steps(system: System, a: str, b: str, cross_cpus: bool) -> Steps:
    """The path of peer traffic without NVLink and its switches; nor over any other link from GPU to GPU."""

    def usable(link: Link) -> bool:
        ends = {system.component(end).kind for end in (link.a, link.b)}
        return link.wire.peer and link.wire.family != "nvlink" and ends != {"gpu"}

    def passable(component: Component) -> bool:
        return component.kind == "switch" or (cross_cpus and _peers_cross(component))

    return _kept(system, ("bus", a, b, cross_cpus), lambda: shortest(system, a, {b}, usable, passable))


def wired_steps(system: System, a: str, b: str) -> Steps:
    """How two GPUs of a node are wired through switches and CPUs, whether or not peer traffic may cross."""
    return shortest(system, a, {b}, lambda link: link.wire.family != "network", lambda c: c.kind in ("switch", "cpu"))


def host_steps(system: System, a: str, b: str) -> Steps:
    """The path through the memory of a CPU near each GPU; () if no CPU is described."""
    up, down = to_host(system, a), to_host(system, b)
    if not (up and down):
        return ()
    if up[-1][1] == down[-1][1]:
        return (*up, *backward(down))
    across = shortest(system, up[-1][1], {down[-1][1]}, lambda _: True, lambda c: c.kind != "gpu")
    return (*up, *across, *backward(down))


def to_host(system: System, gpu: str) -> Steps:
    def search() -> Steps:
        node = system.component(gpu).node
        cpus = {component.name for component in system.in_node(node) if component.kind == "cpu"}
        return shortest(system, gpu, cpus, lambda link: link.wire.family != "network", lambda c: c.kind == "switch")

    return _kept(system, ("host", gpu), search)


def _kept(system: System, key: tuple[str | bool, ...], search: Callable[[], Steps]) -> Steps:
    """A path that is searched for once; of several nodes there are too many to be kept."""
    if system.equal:
        return search()
    if key not in system.found_paths:
        system.found_paths[key] = search()
    found: Steps = system.found_paths[key]
    return found


def to_card(system: System, gpu: str, card: str) -> tuple[Steps, bool]:
    """The path from a GPU to a network card, and whether it is staged in the host."""
    direct = shortest(system, gpu, {card}, lambda link: link.wire.peer, lambda c: c.kind == "switch" or _peers_cross(c))
    return (direct, False) if direct else (through_host(system, gpu, card), True)


def through_host(system: System, gpu: str, card: str) -> Steps:
    up = to_host(system, gpu)
    if not up:
        raise ConfigError(
            f"{system.name}: no links lead from {gpu} to {card} for copies between GPUs, nor to a CPU, through which "
            "all others go; add them"
        )
    onward = shortest(system, up[-1][1], {card}, lambda link: link.wire.family != "network", lambda c: c.kind != "gpu")
    return (*up, *onward)


def backward(steps: Steps) -> Steps:
    """A path in the other direction; of links that have lanes both ways, as all but those between GPUs have."""
    return tuple((after, before, link) for before, after, link in reversed(steps))


def _peers_cross(component: Component) -> bool:
    return isinstance(component.part, CpuSpec) and component.part.peer_Bps is not None


def is_peer_nvlink(link: Link) -> bool:
    return link.wire.family == "nvlink" and link.wire.peer
