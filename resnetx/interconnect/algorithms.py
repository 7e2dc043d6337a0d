"""The algorithms of a collective as arithmetic: rings, trees and in-switch reduction of NCCL, and rings over sockets.

`collective` says what this assumes, and how much depends on each assumption.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.interconnect.generations import (
    IN_SWITCH_SHARE,
    PIECE_BYTES,
    SOCKET,
    TREE,
    TREE_SHARE,
    Generation,
    Hop,
    SOCKET_Bps,
)
from resnetx.interconnect.internode import NodeNetwork, Plateau, join_nodes, plateau
from resnetx.interconnect.node_rings import NodeRings
from resnetx.interconnect.parts import GpuSpec, SwitchSpec
from resnetx.interconnect.system import System
from resnetx.operations import Operation

Groups = Sequence[tuple[int, ...]]  # GPU ids, node by node


@dataclass(frozen=True)
class Algorithm:
    """Seconds = fixed + size x per byte + pieces that fill the ring."""

    name: str  # "ring", "tree", "nvls"
    fixed_s: float
    s_per_byte: float
    limit: str  # the link that sets the rate
    fill_s_per_byte: float = 0.0  # of one piece, over all the steps before the ring is full
    channels: int = 1
    plateau: Plateau | None = None  # between nodes

    def time_s(self, size_bytes: float) -> float:
        return self.fixed_s + self.moving_s(size_bytes)

    def moving_s(self, size_bytes: float) -> float:
        """The part of the time that bytes cost."""
        filling_s = self.fill_s_per_byte * min(size_bytes / self.channels, PIECE_BYTES)
        return size_bytes * self.s_per_byte + filling_s + (self.plateau.at(size_bytes) if self.plateau else 0.0)


@dataclass(frozen=True)
class NcclAlgorithms:
    """What a generation of NCCL can run on GPUs that are joined so inside nodes, and between them."""

    system: System
    operation: Operation
    groups: Groups
    generation: Generation
    inside: NodeRings
    between: NodeNetwork | None  # None: there is one node

    @property
    def ring_Bps(self) -> float:
        return min(self.inside.ring_Bps, self._network_Bps)

    @property
    def tree_Bps(self) -> float:
        return min(self.inside.chain_Bps, self._network_Bps)

    def ring(self) -> Algorithm:
        """Every byte goes around once for each round; steps between nodes cost the network's latency."""
        ranks, rounds = sum(map(len, self.groups)), self.operation.rounds
        handovers = 1 if rounds == 2 else self.generation.other_handovers
        steps = rounds * (ranks - 1)
        crossings = min(steps, rounds * self._nodes) if self._nodes > 1 else 0
        hop, channels = self.generation.ring, len(self.inside.rings) or 1
        inside_s = handovers * (steps - crossings) * self._step_s(hop)
        between_s = self.between.crossings_s(hop, crossings, handovers, self.operation) if self.between else 0.0
        return Algorithm(
            "ring",
            self._launch_s + hop.base_s + inside_s + between_s,
            self.operation.bus_factor(ranks) / self.ring_Bps,
            self._limit(self.ring_Bps, self.inside.ring_limit),
            (ranks - 2) * channels / self.ring_Bps if self.operation.along_a_chain else 0.0,
            channels,
            self._plateau(hop.base_s + inside_s + between_s, ranks, channels),
        )

    def _plateau(self, fixed_s: float, ranks: int, channels: int) -> Plateau | None:
        if self.between is None or self.operation.name != "allreduce":
            return None
        return plateau(fixed_s, ranks, channels, self._gpu.compute_capability.value)

    def tree(self) -> Algorithm | None:
        """A chain inside each node and a binary tree of nodes, up and down; None where the library has no trees."""
        hop = self.generation.tree
        if hop is None or self.tree_Bps <= 0:
            return None
        ranks = sum(map(len, self.groups))
        depth_s = (ranks / self._nodes - 1) * self._step_s(hop) + math.log2(self._nodes) * self._crossing_s(hop)
        return Algorithm(
            "tree",
            self._launch_s + hop.base_s + 2 * depth_s,
            1 / (self.tree_Bps * TREE_SHARE),
            self._limit(self.tree_Bps, self.inside.chain_limit),
        )

    def in_switch(self) -> Algorithm | None:
        """Each GPU sends all it has and receives its share of the sum, then sends that share and receives the rest.

        None where no NVSwitch that reduces joins the GPUs, or the library does not use it.
        """
        shares = [share for least, share in IN_SWITCH_SHARE if self._gpu.compute_capability.value >= least]
        port_Bps = _port_Bps(self.system, self.groups[0])
        ranks, switch_s = min(map(len, self.groups)), self.generation.in_switch_s
        if not shares or switch_s is None or port_Bps is None or ranks < 2:
            return None
        inside_s = (1 + 1 / ranks) / (shares[0] * port_Bps)
        between_s = (2 if self._nodes > 2 else 1) / self._network_Bps
        fixed_s = self._launch_s + switch_s + 2 * math.log2(self._nodes) * self._crossing_s(TREE)
        limit = self.between.limit if self.between and between_s > inside_s else "the GPUs' ports to the NVSwitch"
        return Algorithm("nvls", fixed_s, max(inside_s, between_s), limit)

    @property
    def _nodes(self) -> int:
        return len(self.groups)

    @property
    def _network_Bps(self) -> float:
        return self.between.bandwidth_Bps if self.between else math.inf

    def _crossing_s(self, hop: Hop) -> float:
        return self.between.crossing_s(hop) if self.between else 0.0

    def _limit(self, bandwidth_Bps: float, inside: str) -> str:
        return self.between.limit if self.between and bandwidth_Bps == self.between.bandwidth_Bps else inside

    @property
    def _gpu(self) -> GpuSpec:
        return self.system.gpu_part(self.groups[0][0])

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
    return isinstance(part, SwitchSpec) and part.reduces


def socket_ring(operation: Operation, ranks: int, library: str, rate_Bps: float, limit: str) -> Algorithm:
    """One ring of processes over TCP, at the rate of `socket_rate`."""
    factor = operation.bus_factor(ranks) * (operation.gloo_moves if library == "gloo" else 1)
    fixed_s = SOCKET.base_s + operation.rounds * (ranks - 1) * SOCKET.network_s
    return Algorithm("ring", fixed_s, factor / rate_Bps, limit)


def socket_rate(system: System, groups: Groups, operation: Operation) -> tuple[float, str]:
    """(B/s, what limits it) of a ring of sockets: loopback inside a node, the network between nodes."""
    if len(groups) > 1:
        between = join_nodes(system, groups, operation, "one")
        if between.bandwidth_Bps < SOCKET_Bps:
            return between.bandwidth_Bps, between.limit
    return SOCKET_Bps, "loopback sockets"
