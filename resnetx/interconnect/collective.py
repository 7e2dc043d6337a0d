"""What a collective costs on a system: rings, trees and in-switch reduction, from the link graph to seconds.

    plan(load("dgx1-v100"), "allreduce", devices=[0, 1, 2, 3, 4]).cost(64 * 2**20)

A plan is made once (it searches the rings); a cost is then arithmetic. A library generation decides what is tried,
and of what it tries, the fastest is taken:

    nccl1    one ring in the order of the bus; over NVLink only if all GPUs are mutual peers, else over PCIe and the
             host (inferred from Tallent et al. 2017 and Tartan: no source says so)
    nccl2    as many rings as whole NVLink lanes allow, half lanes for up to 4 GPUs (source of NCCL 2.0 to 2.3, `p2p.cu`);
             else one ring, staged in the host where GPUs are no peers
    nccl2.4  the same with half lanes for any number of GPUs, and trees for allreduce
    nvls     the same with reduction inside NVSwitches that can
    gloo     one ring of host processes over sockets

What a reader must believe, and how much hangs on it:

- A link's rate is that of one large copy, measured or from its datasheet; kernels get 17/18 of it on NVLink
  (`parts.NVLINK_KERNELS`, packet headers). All large sizes scale with it.
- Rings share nothing but lanes: their bandwidths add up. Measured on a P100 DGX-1: true at 2, 3, 4 and 6 GPUs, 11 % too
  good at 8.
- Across CPU sockets, kernels of NCCL 2 and later get what NCCL's source plans for them (`kernel_GBps` of a link
  part), far less than a copy engine. It decides the 5-GPU fall of a DGX-1: 6.0 instead of 10.1 GB/s. The rates of NCCL 1
  there are those of copies.
- Latency = launch + base + steps x hop, with base and hop from the source of NCCL (`GENERATIONS`). Half of the time at
  2 MiB on 8 GPUs, 5 % at 64 MiB. NCCL's third protocol (LL128) is left out: with the source's constants for it the
  times at 1 to 8 MiB come out 30 % too short on V100.
- Trees carry 0.46 and in-switch reduction 0.85 (0.74 from Blackwell on) of the links' rate: NCCL's source, `tuning.cc`.
- Between nodes, every network card used carries one ring, all of them equal shares.
- `gloo`: one figure, measured on one small machine (`SOCKET_Bps`); an order of magnitude.

Bandwidths: algbw = size / time; busbw = algbw x `bus_factor`, as nccl-tests defines both (size: the whole array).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from resnetx.config import ConfigError, unknown_name
from resnetx.interconnect import paths, rings
from resnetx.interconnect.calibration import Calibration, Measured, Parts, fit
from resnetx.interconnect.parts import Family, Gpu, Switch
from resnetx.interconnect.paths import Flow, Transport
from resnetx.interconnect.system import FABRIC, Library, System
from resnetx.units import si

Collective = Literal["allreduce", "broadcast", "reduce", "allgather", "reduce_scatter"]
Protocol = Literal["simple", "ll", "socket"]

COLLECTIVES: tuple[str, ...] = get_args(Collective)
LIBRARIES: tuple[str, ...] = get_args(Library)


@dataclass(frozen=True)
class Hop:
    """Fixed times of one protocol: once per operation, and per step by what the step crosses. Seconds."""

    base_s: float
    nvlink_s: float
    pcie_s: float  # also through the host
    network_s: float


@dataclass(frozen=True)
class Generation:
    """What one generation of a library tries, and its fixed times, from the source of NCCL (src/graph/tuning.cc)."""

    half_lanes_up_to: int  # GPUs; rings on half lanes are tried for so many
    trees: bool
    in_switch: bool
    ring: Hop
    ring_ll: Hop | None  # LL: every 8 bytes carry 4 of flags, no synchronisation; None: it does not exist
    tree: Hop | None
    tree_ll: Hop | None
    ll_share: float  # of the links' rate that LL reaches


_OLD = Hop(8.4e-6, 5.7e-6, 5.7e-6, 6.6e-6)  # NCCL 2.5.6, the oldest that states them
_NEW = Hop(8.4e-6, 3.4e-6, 5.7e-6, 14e-6)  # NCCL 2.30.7, and the next four
_NEW_LL = Hop(6.6e-6, 0.6e-6, 1.0e-6, 2.7e-6)
_TREE = Hop(8.4e-6, 4.0e-6, 4.0e-6, 14e-6)
_TREE_LL = Hop(6.8e-6, 0.6e-6, 1.0e-6, 5.0e-6)
_SOCKET = Hop(200e-6, 100e-6, 100e-6, 100e-6)  # assumed

GENERATIONS: dict[str, Generation] = {
    "nccl1": Generation(0, False, False, _OLD, None, None, None, 0),
    "nccl2": Generation(4, False, False, _OLD, Hop(3.6e-6, 0.4e-6, 1.0e-6, 0.9e-6), None, None, 0.25),
    "nccl2.4": Generation(rings.MOST_GPUS, True, False, _NEW, _NEW_LL, _TREE, _TREE_LL, 0.5),
    "nvls": Generation(rings.MOST_GPUS, True, True, _NEW, _NEW_LL, _TREE, _TREE_LL, 0.5),
    "gloo": Generation(0, False, False, _SOCKET, None, None, None, 0),
}
# The most that LL moves in one node, by compute capability (tuning.cc, llMaxBws).
_LL_MOST_Bps = ((10.0, 282e9), (9.0, 141e9), (8.0, 87.7e9), (0.0, 39e9))
_TREE_SHARE = 0.92 * 0.5  # tuning.cc: of the links' rate; up and down share the channels
_IN_SWITCH_SHARE = ((10.0, 0.74), (9.0, 0.85))  # tuning.cc, by compute capability
_IN_SWITCH_S = 25e-6  # tuning.cc, NVLS
# Broadcast and reduce go down the ring in pieces of one slot of its buffer (4 MiB in 8 slots; collectives.h, comm.h).
_PIECE_BYTES = 2**19
# One gloo ring over loopback: 244 MB in 169 ms between two ranks (2 cores, torch 2.15).
SOCKET_Bps = 1.44e9


@dataclass(frozen=True)
class Way:
    """One algorithm with one protocol, as arithmetic: seconds = fixed + size x per byte + pieces that fill the ring."""

    algorithm: str  # "ring", "tree", "nvls"
    protocol: str  # "simple", "ll", "socket"
    fixed_s: float
    s_per_byte: float
    fill_s_per_byte: float  # of one piece, over all the steps before the ring is full
    channels: int
    limit: str

    def time_s(self, size_bytes: float) -> float:
        return self.fixed_s + self.moving_s(size_bytes)

    def moving_s(self, size_bytes: float) -> float:
        """The part of the time that bytes cost."""
        return size_bytes * self.s_per_byte + self.fill_s_per_byte * min(size_bytes / self.channels, _PIECE_BYTES)


@dataclass(frozen=True)
class Cost:
    """What one operation of one size costs."""

    time_s: float
    algbw_Bps: float
    busbw_Bps: float
    algorithm: str
    protocol: str
    limiting_link: str


@dataclass(frozen=True)
class Ring:
    """One order of GPU ids and what it carries. A chain (of a tree) is a ring that is not closed."""

    order: tuple[int, ...]
    bandwidth_Bps: float
    walk: tuple[str, ...]  # the components that it passes, in order; a closed one comes back to the first
    closed: bool = True


@dataclass(frozen=True)
class Plan:
    """How a library would run a collective on these GPUs; `cost` is then cheap."""

    system: System
    collective: str
    devices: tuple[int, ...]
    library: str
    ways: tuple[Way, ...]
    rings: tuple[Ring, ...]  # inside one node; on several nodes, of the first
    chains: tuple[Ring, ...]
    lanes: rings.Lanes | None  # direct NVLink lanes between the devices, where rings were packed into them
    notes: tuple[str, ...]  # why, in sentences
    calibration: Calibration | None = None

    @cached_property
    def bus_factor(self) -> float:
        """busbw / algbw."""
        return bus_factor(self.collective, len(self.devices))

    @cached_property
    def bound_lanes(self) -> float | None:
        """Rings' worth of lanes that the best fractions would carry; None where no rings were packed. Takes a while."""
        return None if self.lanes is None else rings.fractional(self.lanes)

    def cost(self, size_bytes: float) -> Cost:
        """The fastest way for `size_bytes` (the whole array), with measured corrections if the plan is calibrated."""
        times = [way.time_s(size_bytes) for way in self.ways]
        time_s = min(times)
        way = self.ways[times.index(time_s)]
        if self.calibration is not None:
            latency, efficiency = self.calibration.at(size_bytes)
            time_s = way.fixed_s * latency + way.moving_s(size_bytes) / efficiency
        algbw_Bps = size_bytes / time_s
        return Cost(time_s, algbw_Bps, algbw_Bps * self.bus_factor, way.algorithm, way.protocol, way.limit)

    def explain(self, size_bytes: float) -> list[str]:
        """Why it costs what it costs, in sentences."""
        cost = self.cost(size_bytes)
        said = list(self.notes)
        carried = sum(ring.bandwidth_Bps for ring in self.rings)
        if self.bound_lanes and self.rings[0].bandwidth_Bps and cost.algorithm == "ring":
            lane_Bps = paths.lane_Bps(self.system, self.devices)
            if self.bound_lanes * lane_Bps > 1.001 * carried:
                said.append(
                    f"Rings on fractions of lanes could carry {self.bound_lanes:.3g} lanes' worth ({si(self.bound_lanes * lane_Bps, 'B/s')}); "
                    f"{self.library} does not try them."
                )
        said.append(
            f"{si(size_bytes, 'B')} by {cost.algorithm} ({cost.protocol}): {si(cost.time_s * 1e6)} us, "
            f"bus bandwidth {si(cost.busbw_Bps, 'B/s')}; limited by {cost.limiting_link}."
        )
        others = {way.algorithm: way.time_s(size_bytes) for way in self.ways if way.algorithm != cost.algorithm}
        said += [f"By {algorithm} it would take {si(time_s * 1e6)} us." for algorithm, time_s in others.items()]
        said.append(
            f"Calibrated: {self.calibration.source}."
            if self.calibration
            else "Not calibrated: from rates of links and published latencies of the library."
        )
        return said


def bus_factor(collective: str, ranks: int) -> float:
    """busbw / algbw, as nccl-tests defines it."""
    if collective == "allreduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in ("allgather", "reduce_scatter") else 1.0


def plan(
    system: System,
    collective: str = "allreduce",
    devices: Sequence[int] | None = None,
    library: str | None = None,
    transport: Transport = "auto",
    calibration: Calibration | None = None,
) -> Plan:
    """How `library` (the system's own unless given) runs a collective on `devices` (all unless given)."""
    collective = collective.replace("-", "_")
    if collective not in COLLECTIVES:
        raise unknown_name("collective", collective, COLLECTIVES, "collective")
    library = library or system.library
    if library not in LIBRARIES:
        raise unknown_name("library generation", library, LIBRARIES, "library")
    chosen = check_devices(system, devices)
    build = _gloo if library == "gloo" or transport == "socket" else _nccl
    return build(system, collective, chosen, library, transport, calibration)


def calibrate(uncalibrated: Plan, measured: Measured) -> Plan:
    """The plan, corrected by what was measured for its collective on its GPUs."""
    plain = replace(uncalibrated, ways=_without_ll(uncalibrated.ways))
    parts = []
    for point in measured.points:
        way = min(plain.ways, key=lambda way: way.time_s(point.size_bytes))
        parts.append(Parts(point, way.fixed_s, way.moving_s(point.size_bytes)))
    return replace(plain, calibration=fit(measured.source, parts))


def _without_ll(ways: Sequence[Way]) -> tuple[Way, ...]:
    """A calibrated plan has its protocols in its bands of sizes."""
    return tuple(way for way in ways if way.protocol != "ll")


def check_devices(system: System, devices: Sequence[int] | None) -> tuple[int, ...]:
    """GPU ids that the system has, each once and at least two; in order, for their order changes nothing."""
    count = len(system.gpus)
    chosen = tuple(sorted(range(count) if devices is None else devices))
    if len(set(chosen)) != len(chosen) or not all(0 <= device < count for device in chosen):
        raise ConfigError(
            f"devices={list(devices or ())}: expected different GPU ids from 0 to {count - 1} of {system.name}"
        )
    if len(chosen) < 2:
        raise ConfigError(f"devices={list(chosen)}: a collective needs at least two GPUs")
    return chosen


# ---- inside one node


@dataclass(frozen=True)
class _Inside:
    """How the GPUs of one node are joined. `family`: of the slowest steps, which sets the latency."""

    rings: tuple[Ring, ...]
    chains: tuple[Ring, ...]
    family: Family
    ring_limit: str
    chain_limit: str
    lanes: rings.Lanes | None
    notes: tuple[str, ...]

    @property
    def ring_Bps(self) -> float:
        return sum(ring.bandwidth_Bps for ring in self.rings)

    @property
    def chain_Bps(self) -> float:
        return sum(chain.bandwidth_Bps for chain in self.chains)


def _inside(system: System, devices: tuple[int, ...], library: str, transport: Transport) -> _Inside:
    """The best of what the generation tries inside one node."""
    if len(devices) == 1:
        alone = (Ring(devices, math.inf, (system.gpus[devices[0]].name,)),)
        return _Inside(alone, alone, "nvlink", "", "", None, ())
    if library == "nccl1":
        return _first_generation(system, devices, transport)
    along = _along_the_bus(system, devices, True, transport)
    mesh = _mesh(system, devices, GENERATIONS[library]) if transport in ("auto", "peer") else None
    if mesh is None:
        return along
    if mesh.ring_Bps < along.ring_Bps:
        # Without NVLink rings the bus carries the rings; chains may still go over NVLink.
        over = mesh if mesh.chain_Bps > along.chain_Bps else along
        return _Inside(
            along.rings,
            over.chains,
            along.family,
            along.ring_limit,
            over.chain_limit,
            mesh.lanes,
            (*mesh.notes, *along.notes),
        )
    return mesh


def _first_generation(system: System, devices: tuple[int, ...], transport: Transport) -> _Inside:
    mutual = all(paths.are_peers(system, a, b) for a in devices for b in devices)
    if mutual and transport in ("auto", "peer"):
        found = _along_the_bus(system, devices, True, transport)
        note = "NCCL 1: all these GPUs are mutual peers, so its one ring goes over their fastest links."
    else:
        found = _along_the_bus(system, devices, False, "host" if transport == "host" else "bus")
        note = (
            "NCCL 1: not all these GPUs are mutual peers, so its one ring goes over PCIe and the host, not over NVLink."
        )
    return replace(found, notes=(note, *found.notes))


def _along_the_bus(system: System, devices: tuple[int, ...], kernels: bool, transport: Transport) -> _Inside:
    """One ring that visits GPUs of one switch, and of one CPU, one after the other; and switched fabrics, which are that ring."""
    order = tuple(sorted(devices, key=lambda device: (_place(system, device), device)))
    flows = [paths.flow(system, a, b, transport) for a, b in rings.directions(order)]
    rate_Bps, limit = min(paths.fair_shares(system, flows, kernels))
    over = {link.wire.family for flow in flows for _, _, link in flow.steps}
    family: Family = "nvlink" if over == {"nvlink"} and not any(flow.staged for flow in flows) else "pcie"
    lanes = min(link.lanes for flow in flows for _, _, link in flow.steps)
    channels = lanes if family == "nvlink" else 1
    notes = [f"One ring in the order of the bus: {_arrows(order)}."]
    if channels > 1:
        notes = [
            f"Every GPU reaches every other through switches, at {lanes} lanes each, so any order of {lanes} rings will do."
        ]
    if staged := [flow for flow in flows if flow.staged]:
        pairs = ", ".join(f"{flow.steps[0][0]} to {flow.steps[-1][1]}" for flow in staged[:4])
        notes.append(f"Staged in host memory, for they are no peers: {pairs}{' and more' if len(staged) > 4 else ''}.")
    walk = tuple(before for flow in flows for before, _, _ in flow.steps)
    found = (Ring(order, rate_Bps / channels, walk),) * channels
    walk = (*(before for flow in flows[:-1] for before, _, _ in flow.steps), flows[-1].steps[0][0])
    chains = (Ring(order, rate_Bps / channels, walk, closed=False),) * channels
    return _Inside(found, chains, family, limit, limit, None, tuple(notes))


def _place(system: System, device: int) -> tuple[str, ...]:
    """Where a GPU hangs in its node: the names from its CPU down, so that neighbours in the tree sort together."""
    return tuple(reversed(paths.way_to_host(system, device)))


def _mesh(system: System, devices: tuple[int, ...], generation: Generation) -> _Inside | None:
    """Rings over direct NVLink; None where no two of these GPUs have one."""
    lanes = [[paths.nvlink_lanes(system, a, b) for b in devices] for a in devices]
    if not any(map(any, lanes)):
        return None
    lane_Bps = paths.lane_Bps(system, devices)
    orders, share = rings.pack_rings(lanes), 1.0
    doubled = [[2 * count for count in row] for row in lanes]
    fewest = min(map(sum, lanes))
    if 0 < len(orders) < fewest and len(devices) <= generation.half_lanes_up_to:
        halves = rings.pack_rings(doubled)
        if len(halves) > 2 * len(orders):
            orders, share = halves, 0.5

    def named(order: rings.Order, bandwidth_Bps: float, closed: bool) -> Ring:
        gpus = tuple(devices[place] for place in order)
        return Ring(gpus, bandwidth_Bps, tuple(system.gpus[gpu].name for gpu in gpus), closed)

    chains = rings.pack_chains(lanes) if generation.trees else []
    limit = _tightest(devices, lanes)
    return _Inside(
        tuple(named(order, lane_Bps * share, True) for order in orders),
        tuple(named(order, lane_Bps, False) for order in chains),
        "nvlink",
        limit,
        limit,
        lanes,
        _about(devices, lanes, len(orders), share),
    )


def _tightest(devices: Sequence[int], lanes: rings.Lanes) -> str:
    """The GPU with the fewest lanes to the others: no packing passes it more often than it has lanes."""
    fewest = min(map(sum, lanes))
    place = [sum(row) for row in lanes].index(fewest)
    others = ", ".join(f"gpu{other}" for other, count in zip(devices, lanes[place], strict=True) if count)
    return f"gpu{devices[place]}: {fewest} NVLink lane{'s' * (fewest != 1)} to {others or 'none of these GPUs'}"


def _about(devices: Sequence[int], lanes: rings.Lanes, found: int, share: float) -> tuple[str, ...]:
    if found:
        kind = "half" if share == 0.5 else "whole"
        return (f"{found} rings on {kind} NVLink lanes carry {found * share:g} lanes' worth each way past every GPU.",)
    ends = [device for device, row in zip(devices, lanes, strict=True) if sum(map(bool, row)) < 2]
    why = f"gpu{ends[0]} has fewer than two NVLink neighbours among them" if ends else "no order of them closes"
    return (f"No ring of NVLink lanes visits all {len(devices)} GPUs: {why}.",)


def _arrows(order: Sequence[int]) -> str:
    return "-".join(map(str, (*order[:16], *(["..."] if len(order) > 16 else []), order[0])))


# ---- over nodes


@dataclass(frozen=True)
class _Between:
    """How nodes are joined: one ring through every network card that is used."""

    nodes: int
    bandwidth_Bps: float
    limit: str
    note: str


def _by_node(system: System, devices: Sequence[int]) -> list[tuple[int, ...]]:
    nodes: dict[int, list[int]] = {}
    for device in devices:
        nodes.setdefault(system.gpus[device].node, []).append(device)
    return [tuple(group) for group in nodes.values()]


def _between(system: System, groups: Sequence[tuple[int, ...]]) -> _Between:
    """Rates between nodes, from the first two: nodes are alike, and the fabric blocks nothing."""
    cards = [_cards(system, group) for group in groups[:2]]
    flows: list[Flow] = []
    for near, far in ((0, 1), (1, 0)):
        for card, far_card in zip(cards[near], cards[far], strict=True):
            sender = paths.nearest_gpu(system, groups[near], card)
            receiver = paths.nearest_gpu(system, groups[far], far_card)
            flows.append(paths.network_flow(system, sender, card, far_card, receiver))
    slowest_Bps, limit = min(paths.fair_shares(system, flows, kernels=True))
    count = len(cards[0])
    staged = ", staged in host memory" if flows[0].staged else ""
    note = f"Between {len(groups)} nodes: {count} ring{'s' * (count > 1)} over {system.network}, one a card{staged}."
    return _Between(len(groups), slowest_Bps * count, limit, note)


def _cards(system: System, group: tuple[int, ...]) -> list[str]:
    """The network cards of a node that are plugged in."""
    node = system.gpus[group[0]].node
    return [near for _, near in system.neighbours[FABRIC] if system.component(near).node == node]


# ---- ways


def _nccl(
    system: System,
    collective: str,
    devices: tuple[int, ...],
    library: str,
    transport: Transport,
    calibration: Calibration | None,
) -> Plan:
    generation = GENERATIONS[library]
    groups = _by_node(system, devices)
    inside = min(
        (_inside(system, group, library, transport) for group in _unlike(system, groups)),
        key=lambda part: part.ring_Bps,
    )
    between = _between(system, groups) if len(groups) > 1 else None
    notes = list(inside.notes) + ([between.note] if between else [])
    ring = _Build(system, collective, devices, generation, inside, between)
    ways = [ring.ring("simple", generation.ring)]
    if generation.ring_ll:
        ways.append(ring.ring("ll", generation.ring_ll))
    if collective == "allreduce" and generation.tree and generation.tree_ll and ring.tree_Bps > 0:
        ways += [ring.tree("simple", generation.tree), ring.tree("ll", generation.tree_ll)]
    if collective == "allreduce" and generation.in_switch:
        if way := ring.in_switch(groups):
            ways.append(way)
        else:
            notes.append("No NVSwitch joins these GPUs that could reduce inside, so nvls is nccl2.4 here.")
    return Plan(
        system,
        collective,
        devices,
        library,
        _without_ll(ways) if calibration else tuple(ways),
        inside.rings,
        inside.chains if any(way.algorithm == "tree" for way in ways) else (),
        inside.lanes,
        tuple(notes),
        calibration,
    )


def _unlike(system: System, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """One of every kind of group: nodes are alike, so the same ids within the node are the same rings."""
    per_node = len(system.gpus) // system.nodes
    return list({tuple(device % per_node for device in group): group for group in reversed(groups)}.values())


@dataclass(frozen=True)
class _Build:
    """Turns what joins the GPUs into ways."""

    system: System
    collective: str
    devices: tuple[int, ...]
    generation: Generation
    inside: _Inside
    between: _Between | None

    @property
    def ring_Bps(self) -> float:
        """Through nodes, a ring is a chain of their GPUs, of which each lane carries one in either direction."""
        if not self.between:
            return self.inside.ring_Bps
        return min(self.between.bandwidth_Bps, max(self.inside.ring_Bps, 2 * self.inside.chain_Bps))

    @property
    def tree_Bps(self) -> float:
        return min(self.inside.chain_Bps, self.between.bandwidth_Bps if self.between else math.inf)

    def _limit(self, bandwidth_Bps: float, inside: str) -> str:
        return self.between.limit if self.between and bandwidth_Bps == self.between.bandwidth_Bps else inside

    @property
    def channels(self) -> int:
        return len(self.inside.rings) or 1

    def ring(self, protocol: Protocol, hop: Hop) -> Way:
        ranks, nodes = len(self.devices), self.between.nodes if self.between else 1
        rounds = 2 if self.collective == "allreduce" else 1
        crossings = rounds * nodes if nodes > 1 else 0
        steps = rounds * (ranks - 1)
        fixed_s = (
            hop.base_s + (steps - min(steps, crossings)) * self._step_s(hop) + min(steps, crossings) * hop.network_s
        )
        bandwidth_Bps = self._ll_Bps(self.ring_Bps) if protocol == "ll" else self.ring_Bps
        fill = (ranks - 2) * self.channels / bandwidth_Bps if self.collective in ("broadcast", "reduce") else 0.0
        s_per_byte = bus_factor(self.collective, ranks) / bandwidth_Bps
        limit = self._limit(self.ring_Bps, self.inside.ring_limit)
        return Way("ring", protocol, self._launch_s + fixed_s, s_per_byte, fill, self.channels, limit)

    def tree(self, protocol: Protocol, hop: Hop) -> Way:
        nodes = self.between.nodes if self.between else 1
        depth_s = (len(self.devices) / nodes - 1) * self._step_s(hop) + math.log2(nodes) * hop.network_s
        bandwidth_Bps = self.tree_Bps * _TREE_SHARE
        if protocol == "ll":
            bandwidth_Bps = self._ll_Bps(bandwidth_Bps)
        limit = self._limit(self.tree_Bps, self.inside.chain_limit)
        return Way("tree", protocol, self._launch_s + hop.base_s + 2 * depth_s, 1 / bandwidth_Bps, 0.0, 1, limit)

    def in_switch(self, groups: Sequence[tuple[int, ...]]) -> Way | None:
        """Each GPU sends all it has and receives its share of the sum, then sends that share and receives the rest."""
        shares = [share for least, share in _IN_SWITCH_SHARE if self._gpu.compute_capability.value >= least]
        ports_Bps = [_port_Bps(self.system, group) for group in groups[:1]]
        ranks = min(map(len, groups))
        if not shares or ports_Bps[0] is None or ranks < 2:
            return None
        inside_s = (1 + 1 / ranks) / (shares[0] * ports_Bps[0])
        nodes = len(groups)
        between_s = bus_factor("allreduce", nodes) / self.between.bandwidth_Bps if self.between else 0.0
        tree_s = 2 * math.log2(nodes) * _TREE.network_s
        limit = self.between.limit if self.between and between_s > inside_s else "the GPUs' ports to the NVSwitch"
        return Way("nvls", "simple", self._launch_s + _IN_SWITCH_S + tree_s, max(inside_s, between_s), 0.0, 1, limit)

    @property
    def _gpu(self) -> Gpu:
        return self.system.gpu_part(self.devices[0])

    @property
    def _launch_s(self) -> float:
        return self._gpu.copy_s.value

    def _step_s(self, hop: Hop) -> float:
        return hop.nvlink_s if self.inside.family == "nvlink" else hop.pcie_s

    def _ll_Bps(self, bandwidth_Bps: float) -> float:
        most = next(most for least, most in _LL_MOST_Bps if self._gpu.compute_capability.value >= least)
        return min(bandwidth_Bps * self.generation.ll_share, most)


def _port_Bps(system: System, group: Sequence[int]) -> float | None:
    """What one GPU's kernels get into an NVSwitch that reduces and that all of them share; None: there is none."""
    ports: list[dict[str, float]] = []
    for device in group:
        links = system.neighbours[system.gpus[device].name]
        ports.append({near: link.kernel_Bps for link, near in links if _reduces(system, near)})
    shared = set.intersection(*map(set, ports))
    return min(port[name] for port in ports for name in shared) if shared else None


def _reduces(system: System, name: str) -> bool:
    part = system.component(name).part
    return isinstance(part, Switch) and part.reduces


def _gloo(
    system: System,
    collective: str,
    devices: tuple[int, ...],
    library: str,
    transport: Transport,
    calibration: Calibration | None,
) -> Plan:
    """One ring of processes over TCP: loopback inside a node, the network between nodes."""
    rate_Bps, limit = SOCKET_Bps, "loopback sockets"
    if system.nodes > 1 and len(groups := _by_node(system, devices)) > 1:
        between = _between(system, groups)
        if between.bandwidth_Bps < rate_Bps:
            rate_Bps, limit = between.bandwidth_Bps, between.limit
    factor = bus_factor(collective, len(devices))
    if collective == "reduce_scatter" and library == "gloo":
        factor *= 2  # made of a whole allreduce
    rounds = 2 if collective == "allreduce" else 1
    fixed_s = _SOCKET.base_s + rounds * (len(devices) - 1) * _SOCKET.network_s
    way = Way("ring", "socket", fixed_s, factor / rate_Bps, 0.0, 1, limit)
    ring = Ring(devices, rate_Bps, tuple(system.gpus[device].name for device in devices))
    note = "One ring of processes over sockets; the GPUs' links are not used."
    return Plan(system, collective, devices, library, (way,), (ring,), (), None, (note,), calibration)
