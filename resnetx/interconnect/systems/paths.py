"""Which path a copy between two GPUs takes, and its bandwidth there, alone or with other copies.

Peer traffic takes links and switches, and crosses a CPU only where its PCIe root lets it (`peer_Bps`); NVLink is
preferred. GPUs forward nothing by themselves: where no peer path exists, a copy is staged through the memory of the
CPUs (slower, and two GPUs under one switch then share its one port to the CPU), unless the application relays it
through a third GPU (`routes`).

References: Li et al. 2019, section 3.1; Tartan's pair matrices. Where no peer path exists, `cudaDeviceCanAccessPeer`
says no.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, TypeVar

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import NO_NODE, Component, CpuSpec, Link, SwitchSpec, System

# ---- link search ----------------------------------------------------------------------------------------------------
# Searches for the links that data crosses between two components of a system: fewest links, then least latency.
#
# A search is given the links it may use and the components it may pass: peer traffic passes switches, and a CPU only
# where its PCIe root lets it (`peer_Bps`). A link without lanes in the direction of a search is not there for it.
# Nothing passes a third node.

# What flows get that run at once: each direction of a link, both together, and a CPU's ports are shared fairly.

T = TypeVar("T")
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


def _kept(system: System, key: tuple[str | int, ...], search: Callable[[], T]) -> T:
    """What is searched for once; of several nodes there is too much to be kept."""
    if system.port:
        return search()
    if key not in system.found_paths:
        system.found_paths[key] = search()
    found: T = system.found_paths[key]
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


# ---- paths ----------------------------------------------------------------------------------------------------------

# auto: as peers where possible, else through the host; pcie: the same without NVLink between GPUs
Transport = Literal["auto", "peer", "pcie", "host", "socket"]
PathKind = Literal["local", "nvlink", "pcie", "host", "relay", "network"]


@dataclass(frozen=True)
class Path:
    """How data gets from one GPU to another, and what one large copy gets on it."""

    source: int
    target: int
    kind: PathKind
    steps: Steps
    bandwidth_Bps: float  # one way
    duplex_Bps: float  # this copy and the opposite one at once, summed, until the slower of them has ended
    latency_s: float  # of a small copy
    limit: str  # what sets the bandwidth: "gpu0 to gpu1", "plx0 to cpu0, staged in cpu0"

    @property
    def names(self) -> list[str]:
        """The components on the way, both GPUs included."""
        return [self.steps[0][0], *(step[1] for step in self.steps)] if self.steps else []


@dataclass(frozen=True)
class PairMatrix:
    """Every ordered pair of GPUs: rows send, columns receive. The diagonal is a copy within one GPU."""

    devices: list[int]
    bandwidth_Bps: list[list[float | None]]  # null within a GPU whose memory no source describes
    duplex_Bps: list[list[float | None]]
    latency_s: list[list[float]]
    kind: list[list[PathKind]]


# ---- paths


def copy_path(system: System, source: int, target: int, transport: Transport = "auto") -> Path:
    """The path of a single copy: as peers where they can be, else staged through the host."""
    if source == target:
        return _local(system, source, system.gpu_part(source).memory_Bps.value)
    return _kept(system, ("copy", source, target, transport), lambda: _path(system, source, target, transport))


def _local(system: System, gpu: int, memory_Bps: float) -> Path:
    """A copy within one GPU, which reads and writes its own memory."""
    rate, copy_s = memory_Bps / 2, system.gpu_part(gpu).copy_s.value
    return Path(gpu, gpu, "local", (), rate, rate, copy_s, f"memory of {system.gpus[gpu].name}")


def routes(system: System, source: int, target: int) -> list[Path]:
    """The paths that an application can choose from: the direct one, or each shortest relay over NVLink neighbours."""
    direct = copy_path(system, source, target)
    if direct.kind != "host":
        return [direct]
    found: list[list[int]] = []
    ahead = deque([[source]])
    while ahead:
        way = ahead.popleft()
        if found and len(way) >= len(found[0]):
            break
        for near in range(len(system.gpus)):
            if near not in way and nvlink_lanes(system, way[-1], near):
                (found if near == target else ahead).append([*way, near])
    return [*(relay(system, way) for way in found), direct]


def peers(system: System) -> list[list[bool]]:
    """Which GPUs can reach each other's memory, as `cudaDeviceCanAccessPeer` says."""
    gpus = range(len(system.gpus))
    return [[are_peers(system, a, b) for b in gpus] for a in gpus]


def connectivity(system: System) -> list[list[str]]:
    """The matrix of `nvidia-smi topo -m`: X, NV2, PIX, PXB, PHB, NODE, SYS; NET between nodes, N/A without a path."""
    gpus = range(len(system.gpus))
    return [[nearness(system, a, b) for b in gpus] for a in gpus]


def pair_matrix(system: System, transport: Transport = "auto") -> PairMatrix:
    """What every pair of GPUs gets, one at a time; with `transport=peer`, others than peers go through the host."""
    gpus = list(range(len(system.gpus)))
    chosen: Transport = "auto" if transport == "peer" else transport
    memory_Bps = [system.gpu_part(gpu).memory_Bps.stated for gpu in gpus]
    rows = [
        [_path(system, a, b, chosen) if a != b else _local(system, a, memory_Bps[a] or 0.0) for b in gpus] for a in gpus
    ]

    def rates(field: str) -> list[list[float | None]]:
        return [[getattr(path, field) or None for path in row] for row in rows]

    return PairMatrix(
        devices=gpus,
        bandwidth_Bps=rates("bandwidth_Bps"),
        duplex_Bps=rates("duplex_Bps"),
        latency_s=[[path.latency_s for path in row] for row in rows],
        kind=[[path.kind for path in row] for row in rows],
    )


def are_peers(system: System, a: int, b: int) -> bool:
    """Can the GPUs reach each other's memory?"""
    return a == b or bool(peer_steps(system, system.gpus[a].name, system.gpus[b].name))


def nvlink_lanes(system: System, a: int, b: int) -> int:
    """NVLink lanes from GPU `a` to GPU `b` with nothing between."""
    name = system.gpus[b].name
    return sum(
        link.lanes_from(system.gpus[a].name)
        for link, near in system.neighbours[system.gpus[a].name]
        if near == name and is_peer_nvlink(link)
    )


def relay(system: System, way: Sequence[int]) -> Path:
    """Copies from GPU to GPU, one after the other: each begins when the one before has ended."""
    parts = [copy_path(system, a, b) for a, b in pairwise(way)]
    rate = 1 / sum(1 / part.bandwidth_Bps for part in parts)
    back = 1 / sum(1 / copy_path(system, b, a).bandwidth_Bps for a, b in pairwise(way))
    return Path(
        source=way[0],
        target=way[-1],
        kind="relay",
        steps=tuple(step for part in parts for step in part.steps),
        bandwidth_Bps=rate,
        duplex_Bps=2 * min(rate, back),
        latency_s=sum(part.latency_s for part in parts),
        limit=f"{len(parts)} copies in sequence, through {', '.join(system.gpus[gpu].name for gpu in way[1:-1])}",
    )


def nearness(system: System, a: int, b: int) -> str:
    """How near two GPUs are, in the words of `nvidia-smi topo -m`; it tells of wires, not of who may use them."""
    if a == b:
        return "X"
    if system.gpus[a].node != system.gpus[b].node:
        return "NET"
    if steps := nvlink_steps(system, system.gpus[a].name, system.gpus[b].name):
        narrowest = min((link.leaving(before) for before, _, link in steps), key=lambda link: link.lanes)
        return f"{narrowest.wire.word}{narrowest.lanes}"
    steps = wired_steps(system, system.gpus[a].name, system.gpus[b].name)
    if not steps:
        return "N/A"
    return "NODE" if _between_bridges(system, steps) else _DISTANCES[_distance(system, steps)]


def _between_bridges(system: System, steps: Steps) -> bool:
    """Whether a path goes in and out of one CPU by two host bridges of it."""
    turns = [
        {into.bridge, out.bridge}
        for (_, name, into), (_, _, out) in pairwise(steps)
        if system.component(name).kind == "cpu"
    ]
    return len(turns) == 1 and "" not in turns[0] and len(turns[0]) == 2


_DISTANCES = ("PIX", "PXB", "PHB", "SYS")


def _distance(system: System, steps: Steps) -> int:
    """The index in `_DISTANCES` of a path that leaves NVLink between GPUs out."""
    met = [system.component(name).kind for _, name, _ in steps[:-1]]
    if "cpu" in met:
        return 3 if met.count("cpu") > 1 else 2
    return 0 if met.count("switch") <= 1 else 1


# ---- flows


def flow(system: System, source: int, target: int, transport: Transport = "auto") -> LinkFlow:
    """The flow of `copy_path`."""
    a, b = system.gpus[source].name, system.gpus[target].name
    if transport in ("auto", "peer") and (steps := peer_steps(system, a, b)):
        return LinkFlow(steps, staged=False)
    if transport == "pcie" and (steps := bus_steps(system, a, b, cross_cpus=True)):
        return LinkFlow(steps, staged=False)
    if transport == "peer":
        raise ConfigError(f"transport=peer: {a} and {b} of {system.name} are not peers; use transport=auto or host")
    if steps := host_steps(system, a, b):
        return LinkFlow(steps, staged=True)
    raise ConfigError(f"{system.name}: {a} and {b} are not peers, and no CPU is described that could stage a copy")


def opposite_flow(system: System, source: int, target: int, taken: LinkFlow, transport: Transport = "auto") -> LinkFlow:
    """The copy the other way: over the same links, unless links of the system have more lanes one way."""
    return flow(system, target, source, transport) if system.uneven else LinkFlow(backward(taken.steps), taken.staged)


def nvlink_flow(system: System, source: int, target: int) -> LinkFlow:
    """Peer traffic over NVLink and its switches alone; without steps where there is no such path."""
    return LinkFlow(nvlink_steps(system, system.gpus[source].name, system.gpus[target].name), staged=False)


def bus_flow(system: System, source: int, target: int, transport: Transport, cross_cpus: bool) -> LinkFlow | None:
    """The flow that leaves the links between GPUs out: peers over PCIe, or through the host; None if there is none."""
    a, b = system.gpus[source].name, system.gpus[target].name
    if transport in ("auto", "peer", "pcie") and (steps := bus_steps(system, a, b, cross_cpus)):
        return LinkFlow(steps, staged=False)
    steps = () if transport == "peer" else host_steps(system, a, b)
    return LinkFlow(steps, staged=True) if steps else None


def host_flow(system: System, device: int) -> LinkFlow | None:
    """A copy from the memory of the nearest CPU to a GPU; None where no CPU is described."""
    up = to_host(system, system.gpus[device].name)
    return LinkFlow(backward(up), staged=False, from_host=True) if up else None


def network_flow(system: System, sender: int, card: str, far_card: str, receiver: int) -> LinkFlow:
    """From a GPU of one node to a GPU of another, out through `card` and in through `far_card`."""
    out, staged_out = to_card(system, system.gpus[sender].name, card)
    into, staged_into = to_card(system, system.gpus[receiver].name, far_card)
    across = shortest(
        system, card, {far_card}, lambda link: link.wire.family == "network", lambda c: c.kind == "switch"
    )
    direct = all(link.wire.peer for _, _, link in across)
    if not direct and not staged_out:
        out = through_host(system, system.gpus[sender].name, card)
    if not direct and not staged_into:
        into = through_host(system, system.gpus[receiver].name, far_card)
    return LinkFlow((*out, *across, *backward(into)), staged=not direct or staged_out or staged_into)


def links_to(system: System, device: int, card: str) -> int:
    """How many links lie between a GPU and a network card of its node."""
    return len(to_card(system, system.gpus[device].name, card)[0])


def distance_to(system: System, device: int, card: str) -> int:
    """How far a network card is from a GPU, as NCCL compares cards: below one switch, several, one CPU, or beyond."""
    return _distance(system, to_card(system, system.gpus[device].name, card)[0])


def path_to_host(system: System, device: int) -> list[str]:
    """The names from a GPU up to the nearest CPU; the GPU alone if no CPU is described."""
    return [system.gpus[device].name, *(after for _, after, _ in to_host(system, system.gpus[device].name))]


def lane_Bps(system: System, devices: Sequence[int]) -> float:
    """What kernels get on one lane of the direct links among these GPUs (the slowest kind, if they differ)."""
    names = {system.gpus[device].name for device in devices}
    links = ((link.leaving(name), near) for name in names for link, near in system.neighbours[name])
    return min(
        link.kernel_Bps / link.lanes for link, near in links if near in names and link.lanes and is_peer_nvlink(link)
    )


def direct_links_name(system: System, devices: Sequence[int]) -> str:
    """What the direct links among these GPUs are called: NVLink, XGMI."""
    names = {system.gpus[device].name for device in devices}
    links = ((link, near) for name in sorted(names) for link, near in system.neighbours[name])
    return next((link.wire.peer_name for link, near in links if near in names and is_peer_nvlink(link)), "NVLink")


def _path(system: System, source: int, target: int, transport: Transport) -> Path:
    taken = flow(system, source, target, transport)
    ((rate, limit),) = fair_shares(system, [taken])
    opposite = opposite_flow(system, source, target, taken, transport)
    both = 2 * min(share for share, _ in fair_shares(system, [taken, opposite]))
    return Path(source, target, _kind(system, taken), taken.steps, rate, both, _latency_s(system, source, taken), limit)


def _kind(system: System, taken: LinkFlow) -> PathKind:
    families = {link.wire.family for _, _, link in taken.steps}
    if "network" in families:
        return "network"
    if taken.staged:
        return "host"
    return "nvlink" if families == {"nvlink"} else "pcie"


def _latency_s(system: System, source: int, taken: LinkFlow) -> float:
    """Of a small copy. The staging latency of a CPU is of the whole copy; what lies between CPUs comes on top.

    A link of PCIe counts at a GPU. Between switches and roots a small copy takes what these take: on a GX8, 4 bytes to
    the other riser take as long as within one (Tallent et al. 2017, section 4.1), and in a server of ten GPUs peer
    access cuts latency as dramatically across three switches as below one (ServeTheHome 2017).
    """
    if not taken.staged:
        ends = {taken.steps[0][0], taken.steps[-1][1]}
        crossed = sum(
            link.wire.latency_s.value
            for here, there, link in taken.steps
            if link.wire.family != "pcie" or here in ends or there in ends
        )
        switches = (system.component(name).part for _, name, _ in taken.steps)
        return (
            system.gpu_part(source).copy_s.value
            + crossed
            + sum(part.latency_s.value for part in switches if isinstance(part, SwitchSpec))
        )
    cpus = [part for _, name, _ in taken.steps if isinstance(part := system.component(name).part, CpuSpec)]
    between = sum(link.wire.latency_s.value for _, _, link in taken.steps if link.wire.family in ("smp", "network"))
    return max(part.staging_s.value for part in cpus) + between
