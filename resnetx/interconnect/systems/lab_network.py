"""The network that the lab builds for a described system, and how long broadcasts of all ranks take on it.

It has a link for each described one, `scale` times slower.

Ranks stand for GPUs, and everything that a copy between two of them passes (switches, CPUs) stands between. What two
copies share in the description, they share here. A link has the rate of one large copy in each direction, or that of
the CPU that stages or passes on what comes over it, where that is lower. Not built are latencies (those of the
namespaces are what they are), and that both directions of some links together carry less than twice one of them.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import permutations
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError
from resnetx.interconnect.systems.graph import CpuSpec, Link, System
from resnetx.interconnect.systems.paths import LinkFlow, Transport, flow
from resnetx.record import RecordError, read
from resnetx.record.sealing import SCHEMA, RecordPart
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


class LabNetwork(RecordPart, frozen=True, kw_only=True):
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
    network = read(path, LabNetwork)
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


# ---- broadcasts -----------------------------------------------------------------------------------------------------
# What ranks of the lab take until each has broadcast its own bytes to all others, as `strategy=zero1` does.
#
#     broadcasts_s(network, sizes_bytes=[7_600_000, 7_400_000], begin_s=[0.0, 0.0])
#
# Which link carries most says too little: on eight ranks of a GX8 they take half as long again. So they are simulated,
# packet by packet, by four rules of gloo and the kernel:
#
# - A broadcast goes along a binomial tree from its rank: a rank sends to all whom it reaches at once, as soon as it has
#   everything (gloo/broadcast.cc). Two threads of each rank take one after the other, in the order of their ranks
#   (torch, ProcessGroupGloo.hpp), so that a rank that is late with one holds up the trees behind it.
# - A message starts when its receiver has said that it is ready (gloo/transport/tcp/pair.cc). That goes over the same
#   connection as what the receiver sends to it, behind all of it: between two ranks one way goes after the other.
# - A thread has sent a message once the kernel has all of it, which keeps up to BUFFER_BYTES of a connection.
# - A link carries packets in the order in which they come, whosever they are (tc-tbf).
#
# No figure in here is fitted, but the rules were chosen with the ten points of results/lab/sharded in sight, and the
# error of their times (`prediction.iteration.LAB_BROADCASTS_ERROR`) on them: how near they come says little of others.

THREADS = 2  # of a process group of gloo
BUFFER_BYTES = 4 * 2**20  # net.ipv4.tcp_wmem, the most of a connection
PACKET_BYTES = 2**16  # that the kernel hands over at once (GSO)
PACKETS = 128  # into which the largest part is divided at most: larger networks are simulated in larger packets
READY_BYTES = 100  # of the word that a receiver is ready


def tree(ranks: int, root: int = 0) -> list[list[int]]:
    """Whom each rank passes a broadcast of `root` on to: rank r has it of the one without r's highest bit."""
    children: list[list[int]] = [[] for _ in range(ranks)]
    for rank in range(1, ranks):
        sender = rank - (1 << (rank.bit_length() - 1))
        children[(root + sender) % ranks].append((root + rank) % ranks)
    return children


def broadcasts_s(network: LabNetwork, sizes_bytes: Sequence[int], begin_s: Sequence[float]) -> float:
    """Seconds from the moment at which the last rank begins until all have everything."""
    return _Broadcasts(network, sizes_bytes).end_s(begin_s) - max(begin_s)


class _Broadcasts:
    """The broadcast of each rank that has something to send, by the rank's number."""

    def __init__(self, network: LabNetwork, sizes_bytes: Sequence[int]) -> None:
        ranks = len(network.ranks)
        self._sizes = sizes_bytes
        self._packet_bytes = max(PACKET_BYTES, max(sizes_bytes) // PACKETS)
        self._children = [tree(ranks, root) for root in range(ranks)]
        self._parents = [
            {child: rank for rank, children in enumerate(of_root) for child in children} for of_root in self._children
        ]
        self._ways = {
            (route.source, route.target): [
                ((link, name), network.links[link].from_Bps(name))
                for link, name in zip(route.links, route.passes[:-1], strict=True)
            ]
            for route in network.routes
        }
        self._now_s, self._end_s = 0.0, 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._free_s: dict[tuple[int, str], float] = defaultdict(float)  # when a link has sent what came to it so far
        # What a rank writes to another: (broadcast, or -1 - broadcast for the word that it is ready for it, bytes left)
        self._written: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)
        self._buffered: dict[tuple[int, int], int] = defaultdict(int)
        self._waiting = [deque(root for root, size in enumerate(sizes_bytes) if size) for _ in range(ranks)]
        self._threads = [THREADS] * ranks
        self._may_go: dict[tuple[int, int, int], int] = defaultdict(int)  # (broadcast, sender, receiver): who agreed
        self._unsent: dict[tuple[int, int], int] = {}

    def end_s(self, begin_s: Sequence[float]) -> float:
        """When all is over, where each rank begins at its own time."""
        for rank, time_s in enumerate(begin_s):
            self._at(time_s, lambda rank=rank: self._take(rank))  # type: ignore[misc]
        while self._events:
            self._now_s, _, event = heappop(self._events)
            event()
        unsent = [ends for ends, written in self._written.items() if written]
        assert not any(self._waiting) and not unsent, (self._waiting, unsent)
        return self._end_s

    def _at(self, time_s: float, event: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (time_s, self._count, event))

    def _take(self, rank: int) -> None:
        """Free threads of a rank take the next broadcasts."""
        while self._threads[rank] and self._waiting[rank]:
            self._threads[rank] -= 1
            root = self._waiting[rank].popleft()
            if rank == root:
                self._pass_on(root, rank)
            else:
                self._write(rank, self._parents[root][rank], -1 - root, READY_BYTES)

    def _pass_on(self, root: int, rank: int) -> None:
        """The rank has all of a broadcast."""
        self._unsent[root, rank] = len(self._children[root][rank])
        for child in self._children[root][rank]:
            self._agree(root, rank, child)
        self._free_thread(root, rank)

    def _agree(self, root: int, sender: int, receiver: int) -> None:
        """One of the two is ready for a message, which begins when both are."""
        self._may_go[root, sender, receiver] += 1
        if self._may_go[root, sender, receiver] == 2:
            self._write(sender, receiver, root, self._sizes[root])

    def _free_thread(self, root: int, rank: int) -> None:
        if not self._unsent[root, rank]:
            self._threads[rank] += 1
            self._end_s = self._now_s
            self._take(rank)

    def _write(self, sender: int, receiver: int, what: int, size_bytes: int) -> None:
        self._written[sender, receiver].append((what, size_bytes))
        self._fill(sender, receiver)

    def _fill(self, sender: int, receiver: int) -> None:
        """The kernel takes of what is written as much as it has room for."""
        written = self._written[sender, receiver]
        while written and self._buffered[sender, receiver] < BUFFER_BYTES:
            what, left = written.popleft()
            packet_bytes = min(left, self._packet_bytes)
            self._buffered[sender, receiver] += packet_bytes
            self._forward((sender, receiver), 0, packet_bytes, what if left == packet_bytes else None)
            if left > packet_bytes:
                written.appendleft((what, left - packet_bytes))
            elif what >= 0:
                self._at(self._now_s, lambda root=what: self._has_sent(root, sender))  # type: ignore[misc]

    def _has_sent(self, root: int, rank: int) -> None:
        self._unsent[root, rank] -= 1
        self._free_thread(root, rank)

    def _forward(self, ends: tuple[int, int], hop: int, packet_bytes: int, last_of: int | None) -> None:
        """A packet comes to a link of its way, or to its end; `last_of`: with it all of that has come."""
        way = self._ways[ends]
        if hop < len(way):
            link, rate_Bps = way[hop]
            self._free_s[link] = max(self._now_s, self._free_s[link]) + packet_bytes / rate_Bps
            self._at(self._free_s[link], lambda: self._forward(ends, hop + 1, packet_bytes, last_of))
            return
        sender, receiver = ends
        self._buffered[ends] -= packet_bytes
        if last_of is not None and last_of < 0:
            self._agree(-1 - last_of, receiver, sender)
        elif last_of is not None:
            self._end_s = self._now_s
            self._pass_on(last_of, receiver)
        self._fill(sender, receiver)
