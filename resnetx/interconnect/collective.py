"""What a collective costs on a system: rings, trees and in-switch reduction, from the link graph to seconds.

    plan(load("dgx1-v100"), "allreduce", devices=[0, 1, 2, 3, 4]).cost(64 * 2**20)

A plan is made once (it searches the rings); a cost is then arithmetic. A library generation decides what is tried,
and of what it tries, the fastest is taken:

    nccl1    one ring in the order of the bus; over NVLink only if all GPUs are mutual peers, else over PCIe and the
             host (inferred from Tallent et al. 2017 and Tartan: no source says so)
    nccl2    as many rings as whole NVLink lanes allow, half lanes for up to 4 GPUs (source of NCCL 2.0 to 2.3,
             `p2p.cu`); else one ring over PCIe, staged in the host where GPUs are no peers
    nccl2.4  the same with half lanes for any number of GPUs, and trees for allreduce; peer traffic over PCIe only
             below one PCIe root (NCCL_P2P_LEVEL is PXB by default), else staged
    nvls     the same with reduction inside NVSwitches that can
    gloo     one ring of host processes over sockets

What a reader must believe, and how much hangs on it:

- A link's rate is that of one large copy, measured or from its datasheet; kernels get 17/18 of it on NVLink
  (`parts.NVLINK_KERNELS`, packet headers). All large sizes scale with it.
- Rings share nothing but lanes: their bandwidths add up. Measured on a P100 DGX-1: true at 2, 3, 4 and 6 GPUs, 11 % too
  good at 8.
- Across CPU sockets, kernels of NCCL 2 and later get what NCCL's source plans for them (`kernel_GBps` of a link
  part), far less than a copy engine. It decides how deep a DGX-1 falls at 5 GPUs: to 6.0 instead of 10.1 GB/s. NCCL 1
  is given the rates of copies there, for what it was measured at is above 6.0; why, is not known.
- Latency = launch + base + steps x hop, with base and hop from the source of NCCL (`GENERATIONS`), for its protocol
  Simple. It is half of the time at 2 MiB on 8 GPUs, 5 % at 64 MiB. The protocols for small sizes (LL, LL128) are left
  out: with the source's figures for them, times at 1 MiB come out half as long as measured on A100, and 30 % too short
  on V100. So times below 256 KiB are upper bounds, up to twice too long.
- Trees carry 0.46 and in-switch reduction 0.85 (0.74 from Blackwell on) of the links' rate: NCCL's source, `tuning.cc`.
- Between nodes, every network card used carries one ring, all of them equal shares, each from a GPU of its own. With
  in-switch reduction the nodes form two trees, in which a node sends all its data twice if there are more than two.
- Collectives other than allreduce have twice the hand-overs a step in NCCL 2.0 to 2.3 (`collectives.h`). Broadcast and
  reduce still come out up to 1.6 times too fast on 8 GPUs: the cost of their many small pieces is not known.
- `gloo`: one figure, measured on one small machine (`SOCKET_Bps`); an order of magnitude.

Bandwidths: algbw = size / time; busbw = algbw x `bus_factor`, as nccl-tests defines both (size: the whole array).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import paths
from resnetx.interconnect.calibration import Calibration, Measured, Parts, fit
from resnetx.interconnect.generations import (
    GENERATIONS,
    IN_SWITCH_SHARE,
    PIECE_BYTES,
    SOCKET,
    TREE,
    TREE_SHARE,
    Generation,
    Hop,
    SOCKET_Bps,
)
from resnetx.interconnect.internode import Between, by_node, join_nodes
from resnetx.interconnect.node_rings import Inside, Ring, join
from resnetx.interconnect.parts import Gpu, Switch
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.rings import Lanes, directions, fractional
from resnetx.interconnect.system import Library, System
from resnetx.operations import OPERATIONS
from resnetx.units import si, size_text

COLLECTIVES = tuple(OPERATIONS)
LIBRARIES: tuple[str, ...] = get_args(Library)


@dataclass(frozen=True)
class Way:
    """One algorithm as arithmetic: seconds = fixed + size x per byte + pieces that fill the ring."""

    algorithm: str  # "ring", "tree", "nvls"
    fixed_s: float
    s_per_byte: float
    fill_s_per_byte: float  # of one piece, over all the steps before the ring is full
    channels: int
    limit: str

    def time_s(self, size_bytes: float) -> float:
        return self.fixed_s + self.moving_s(size_bytes)

    def moving_s(self, size_bytes: float) -> float:
        """The part of the time that bytes cost."""
        return size_bytes * self.s_per_byte + self.fill_s_per_byte * min(size_bytes / self.channels, PIECE_BYTES)


@dataclass(frozen=True)
class Cost:
    """What one operation of one size costs."""

    time_s: float
    algbw_Bps: float
    busbw_Bps: float
    algorithm: str
    limiting_link: str


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
    lanes: Lanes | None  # direct NVLink lanes between the devices, where rings were packed into them
    notes: tuple[str, ...]  # why, in sentences
    calibration: Calibration | None = None

    @cached_property
    def bus_factor(self) -> float:
        """busbw / algbw."""
        return OPERATIONS[self.collective].bus_factor(len(self.devices))

    @cached_property
    def bound_lanes(self) -> float | None:
        """Rings' worth of lanes that the best fractions would carry; None where no rings were packed. Takes a while."""
        return None if self.lanes is None else fractional(self.lanes)

    def cost(self, size_bytes: float) -> Cost:
        """The fastest way for `size_bytes` (the whole array), with measured corrections if the plan is calibrated."""
        times = [way.time_s(size_bytes) for way in self.ways]
        time_s = min(times)
        way = self.ways[times.index(time_s)]
        if self.calibration is not None:
            latency, efficiency = self.calibration.at(size_bytes)
            time_s = way.fixed_s * latency + way.moving_s(size_bytes) / efficiency
        algbw_Bps = size_bytes / time_s
        return Cost(time_s, algbw_Bps, algbw_Bps * self.bus_factor, way.algorithm, way.limit)

    def explain(self, size_bytes: float) -> list[str]:
        """Why it costs what it costs, in sentences."""
        cost = self.cost(size_bytes)
        said = [*self.notes, *self._fractions()]
        said.append(
            f"{size_text(round(size_bytes))} by {cost.algorithm}: {_time(cost.time_s)}, bus bandwidth "
            f"{si(cost.busbw_Bps, 'B/s')}; limited by {cost.limiting_link}."
        )
        said += [
            f"By {way.algorithm} it would take {_time(way.time_s(size_bytes))}."
            for way in self.ways
            if way.algorithm != cost.algorithm
        ]
        if self.calibration is None:
            return [*said, "Not calibrated: from the rates of links and the fixed times in the library's source."]
        error = self.calibration.held_out_error
        held_out = "too few to hold any out" if math.isnan(error) else f"held-out error {error:.1%}"
        return [*said, f"Calibrated from {self.calibration.points} points of {self.calibration.source}; {held_out}."]

    def _fractions(self) -> list[str]:
        if not self.bound_lanes or self.system.nodes > 1:
            return []
        bound_Bps = self.bound_lanes * paths.lane_Bps(self.system, self.devices)
        if bound_Bps < 1.001 * sum(ring.bandwidth_Bps for ring in self.rings):
            return []
        worth = f"{self.bound_lanes:.3g} lanes' worth, {si(bound_Bps, 'B/s')}"
        return [f"Rings on any fractions of lanes could carry more ({worth}); {self.library} does not try them."]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} us"


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
    make = _gloo if library == "gloo" or transport == "socket" else _nccl
    return make(system, collective, chosen, library, transport, calibration)


def calibrate(uncalibrated: Plan, measured: Measured) -> Plan:
    """The plan, corrected by what was measured for its collective on as many GPUs.

    The factors correct a plan for another number of GPUs, too: hand its `calibration` to `plan`.
    """
    if measured.gpus not in (None, len(uncalibrated.devices)):
        raise ConfigError(
            f"calibration={measured.source}: measured on {measured.gpus} GPUs; expected "
            f"{len(uncalibrated.devices)}, as many as devices={list(uncalibrated.devices)}"
        )
    parts = []
    for point in measured.points:
        way = min(uncalibrated.ways, key=lambda way: way.time_s(point.size_bytes))
        parts.append(Parts(point, way.fixed_s, way.moving_s(point.size_bytes)))
    return replace(uncalibrated, calibration=fit(measured.source, parts))


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
    groups = by_node(system, devices)
    joined = [join(system, group, library, transport) for group in _unlike(system, groups)]
    inside = min(joined, key=lambda node: node.ring_Bps)  # the slowest node holds up the others
    between = join_nodes(system, groups) if len(groups) > 1 else None
    notes = list(inside.notes) + ([between.note] if between else [])
    build = _Build(system, collective, devices, generation, inside, between)
    ways = [build.ring()]
    if collective == "allreduce" and generation.tree and build.tree_Bps > 0:
        ways.append(build.tree(generation.tree))
    if collective == "allreduce" and generation.in_switch_s:
        if way := build.in_switch(groups, generation.in_switch_s):
            ways.append(way)
        else:
            notes.append("No NVSwitch joins these GPUs that could reduce inside, so nvls is nccl2.4 here.")
    return Plan(
        system,
        collective,
        devices,
        library,
        tuple(ways),
        _carrying(inside.rings, build.ring_Bps),
        inside.chains if any(way.algorithm == "tree" for way in ways) else (),
        inside.lanes,
        tuple(notes),
        calibration,
    )


def _carrying(found: tuple[Ring, ...], all_Bps: float) -> tuple[Ring, ...]:
    """The rings with what they carry over all nodes."""
    return tuple(replace(ring, bandwidth_Bps=all_Bps / len(found)) for ring in found)


def _unlike(system: System, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """One of every kind of group: nodes are alike, so the same ids within the node are the same rings."""
    per_node = len(system.gpus) // system.nodes
    return list({tuple(device % per_node for device in group): group for group in reversed(groups)}.values())


@dataclass(frozen=True)
class _Build:
    """Turns what joins the GPUs, inside nodes and between them, into ways."""

    system: System
    collective: str
    devices: tuple[int, ...]
    generation: Generation
    inside: Inside
    between: Between | None

    @property
    def ring_Bps(self) -> float:
        return min(self.inside.ring_Bps, self.between.bandwidth_Bps if self.between else math.inf)

    @property
    def tree_Bps(self) -> float:
        return min(self.inside.chain_Bps, self.between.bandwidth_Bps if self.between else math.inf)

    def _limit(self, bandwidth_Bps: float, inside: str) -> str:
        return self.between.limit if self.between and bandwidth_Bps == self.between.bandwidth_Bps else inside

    @property
    def channels(self) -> int:
        return len(self.inside.rings) or 1

    def ring(self) -> Way:
        ranks, nodes = len(self.devices), self.between.nodes if self.between else 1
        operation = OPERATIONS[self.collective]
        rounds, handovers = operation.rounds, 1 if operation.rounds == 2 else self.generation.other_handovers
        steps = rounds * (ranks - 1)
        crossings = min(steps, rounds * nodes) if nodes > 1 else 0
        hop = self.generation.ring
        steps_s = (steps - crossings) * self._step_s(hop) + crossings * hop.network_s
        fixed_s = self._launch_s + hop.base_s + handovers * steps_s
        s_per_byte = operation.bus_factor(ranks) / self.ring_Bps
        fill = (ranks - 2) * self.channels / self.ring_Bps if operation.along_a_chain else 0.0
        limit = self._limit(self.ring_Bps, self.inside.ring_limit)
        return Way("ring", fixed_s, s_per_byte, fill, self.channels, limit)

    def tree(self, hop: Hop) -> Way:
        nodes = self.between.nodes if self.between else 1
        depth_s = (len(self.devices) / nodes - 1) * self._step_s(hop) + math.log2(nodes) * hop.network_s
        fixed_s = self._launch_s + hop.base_s + 2 * depth_s
        limit = self._limit(self.tree_Bps, self.inside.chain_limit)
        return Way("tree", fixed_s, 1 / (self.tree_Bps * TREE_SHARE), 0.0, 1, limit)

    def in_switch(self, groups: Sequence[tuple[int, ...]], switch_s: float) -> Way | None:
        """Each GPU sends all it has and receives its share of the sum, then sends that share and receives the rest."""
        shares = [share for least, share in IN_SWITCH_SHARE if self._gpu.compute_capability.value >= least]
        port_Bps = _port_Bps(self.system, groups[0])
        nodes, ranks = len(groups), min(map(len, groups))
        if not shares or port_Bps is None or ranks < 2:
            return None
        inside_s = (1 + 1 / ranks) / (shares[0] * port_Bps)
        sent = 2 if nodes > 2 else 1
        between_s = sent / self.between.bandwidth_Bps if self.between else 0.0
        fixed_s = self._launch_s + switch_s + 2 * math.log2(nodes) * TREE.network_s
        limit = self.between.limit if self.between and between_s > inside_s else "the GPUs' ports to the NVSwitch"
        return Way("nvls", fixed_s, max(inside_s, between_s), 0.0, 1, limit)

    @property
    def _gpu(self) -> Gpu:
        return self.system.gpu_part(self.devices[0])

    @property
    def _launch_s(self) -> float:
        return self._gpu.copy_s.value

    def _step_s(self, hop: Hop) -> float:
        return hop.nvlink_s if self.inside.family == "nvlink" else hop.pcie_s


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
    if system.nodes > 1 and len(groups := by_node(system, devices)) > 1:
        between = join_nodes(system, groups)
        if between.bandwidth_Bps < rate_Bps:
            rate_Bps, limit = between.bandwidth_Bps, between.limit
    operation = OPERATIONS[collective]
    factor = operation.bus_factor(len(devices)) * (operation.gloo_moves if library == "gloo" else 1)
    fixed_s = SOCKET.base_s + operation.rounds * (len(devices) - 1) * SOCKET.network_s
    way = Way("ring", fixed_s, factor / rate_Bps, 0.0, 1, limit)
    first_node = by_node(system, devices)[0]
    flows = [paths.flow(system, a, b, "host") for a, b in directions(first_node)] if len(first_node) > 1 else []
    ring = Ring(devices, rate_Bps, tuple(before for flow in flows for before, _, _ in flow.steps))
    note = "One ring of processes over sockets; the GPUs' links are not used."
    return Plan(system, collective, devices, library, (way,), (ring,), (), None, (note,), calibration)
