"""The algorithms of a collective on GPUs: rings, trees and in-switch reduction of NCCL.

`plan` says what this assumes, and how much depends on each assumption.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

from resnetx.interconnect.collectives.internode import Groups, NodeNetwork, Plateau, plateau
from resnetx.interconnect.collectives.protocols import (
    ALL_PAIRS,
    ALL_PAIRS_GPUS,
    BEFORE_TUNING,
    BEFORE_TUNING_LL_BYTES,
    BETWEEN_NODES,
    LL128_CHUNK_BYTES,
    LL_CHANNEL_BYTES,
    ONE_RING_BYTES,
    RCCL,
    RCCL_MI300,
    SEARCHED_FROM,
    TREE_BY_SIZE,
    AllPairs,
    AMD_Bps,
    BetweenNodes,
    Fitted,
    LL128_CHANNEL_Bps,
    LL_INSIDE_Bps,
    LL_MOST_Bps,
    POSTING_s,
    Protocol,
    SEARCHED_Bps,
    UNFOUND_Bps,
    by_capability,
    of_capability,
    shape,
)
from resnetx.interconnect.collectives.rings import (
    IN_SWITCH,
    IN_SWITCH_SHARE,
    PIECE_BYTES,
    TREE_SHARE,
    Generation,
    Hop,
    NodeRings,
)
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import CpuSpec, GpuSpec, LaunchMode, SwitchSpec
from resnetx.interconnect.systems.system import System
from resnetx.operations import Operation

# One way to run a collective, as arithmetic: what it takes by size, and what the library expects it to take.
#
#     Algorithm("ring", fixed_s=40e-6, s_per_byte=1.75 / 130e9, limit="gpu0 to gpu1").time_s(2**26)
#
# An algorithm has two prices: what the library expects, by which it chooses, and what it takes. One process that drives
# all GPUs of a node starts them one after the other, and no operation ends before the last has begun: its fixed
# time is the longer of the two. Where nobody told who starts them (`launch_share` one half), the time is the middle of
# both, as logarithms.

# Of one process that starts all GPUs, by who starts them; None: nobody told.
LAUNCH_SHARES: dict[LaunchMode | None, float] = {"process-per-gpu": 0.0, None: 0.5, "one-process": 1.0}
LAUNCH_ALIKE = 1.1  # times as long as with a process for each GPU, from which it makes a difference


# Compute capability: V100s over direct NVLinks show none of it, A100s and B200s do, four of them as eight. Two to eight
# H100s and H200s show none either, and in LL and LL128 they reach the shares that tuning.cc has: three publishers.
SETTLING_FROM, HOPPER = 8.0, 9

# What NCCL hands to switches that reduce (enqueue.cc and nvls.cc of 2.30): chunks of so many bytes, from so many on for
# all channels and parts; in one node, and in a tree of nodes. Rates are of the largest chunk on eight GPUs.
SWITCH_CHUNKS = ((64, 2**17), (8, 2**16), (2, 2**15), (0, 2**14))
TREE_CHUNKS = ((4, 2**17), (1, 2**16), (0, 2**15))
SWITCH_CHANNELS = ((10.0, 24, 32), (0.0, 16, 16))  # from this compute capability on, in one node and in several
SWITCH_GPUS, MOST_SWITCH_PARTS = 8, 32
SEARCHED_IN_SWITCH = 5 / 6  # of what its search finds, as NCCL expects (tuning.cc of 2.19 to 2.27)
EXPECTED_TREE_STEP_s = 28e-6  # in one node (tuning.cc of 2.5 to 2.22); later 4, but at a lower rate: no more are taken
BOTH_LIMIT = 4  # norm of what the switches and what the network take: the slower is waited for, and some of the other


@dataclass(frozen=True)
class SwitchChunks:
    """What reduction in switches takes beyond its rate: small arrays go in small chunks.

    What a chunk costs, those of all channels wait for: B200s, with more channels than H100s, lose as much more.
    """

    chunk_s: float
    fill: float  # chunks of all channels before the switches are busy
    channels: int
    parts: int  # of the array, one for each GPU
    sizes: tuple[tuple[int, int], ...]  # the largest first

    def seconds(self, size_bytes: float, s_per_byte: float) -> float:
        """By its chunks, or what a larger array takes in larger ones, if that is less."""
        at_once, found = self.channels * self.parts, []
        for least, chunk_bytes in self.sizes:
            moved = max(size_bytes, least * at_once * chunk_bytes)
            more_s = self.chunk_s * moved * (1 / chunk_bytes - 1 / self.sizes[0][1])
            first_s = at_once * (chunk_bytes * s_per_byte + self.chunk_s)
            first_s *= self.fill * min(1.0, moved / (at_once * chunk_bytes))
            found.append((moved - size_bytes) * s_per_byte + more_s + first_s)
            if moved == size_bytes:
                break
        return min(found)


@dataclass(frozen=True)
class Channels:
    """One message over the channels that NCCL gives it: more of them, the more bytes there are."""

    share: float  # of the array that the largest message has
    least: int
    most: int
    part_bytes: int  # of one channel, beyond which the message gets twice as many
    rate_Bps: float  # of one channel

    def seconds(self, size_bytes: float) -> float:
        count, message_bytes = self.least, self.share * size_bytes
        while count < self.most and message_bytes > count * self.part_bytes:
            count *= 2
        return message_bytes / (count * self.rate_Bps)


@dataclass(frozen=True)
class Algorithm:
    """Seconds = fixed + size x per byte + what it takes to fill the ring, or the switches, and to reach their rate."""

    name: str  # "ring", "tree", "nvls", "all-pairs", "sends"
    fixed_s: float
    s_per_byte: float
    limit: str  # the link that sets the rate
    fill_s_per_byte: float = 0.0  # of one piece, over all the steps before the ring is full
    channels: int = 1
    channel_bytes: int = 0  # there are fewer channels where each would have less
    most_bytes: int = PIECE_BYTES  # of a piece
    settling: tuple[float, float] | None = None  # seconds lost until the rate is reached, half of them after so many
    in_chunks: SwitchChunks | None = None
    plateau: Plateau | None = None  # between nodes
    one_message: Channels | None = None  # of messages at once: what the largest takes by itself, if that is longer
    protocol: str = ""  # of NCCL, where a ring has several
    expected: tuple[float, float] | None = None  # (fixed s, s per byte) as the library expects; None: what it takes
    launch_s: float = 0.0  # until one process has started all GPUs of a node
    launch_share: float = 0.0  # 1: one process starts them; 0: each has its own; 1/2: not told
    taken_bytes: tuple[int, int] | None = None  # from, to: the library always takes it there, and nowhere else
    by_size: tuple[float, ...] = ()  # of the rate, by powers of two from 64 bytes on; (): all of it
    kept: bool = False  # longer than is best, as published times say that fall where it ends

    @property
    def label(self) -> str:
        """Its name, with the protocol where it has one."""
        return f"{self.name} ({self.protocol})" if self.protocol else self.name

    def time_s(self, size_bytes: float) -> float:
        own_s = self.fixed_s + self.moving_s(size_bytes)
        return own_s * math.pow(self.launch_ratio(size_bytes), self.launch_share)

    def launch_ratio(self, size_bytes: float) -> float:
        """How many times as long it takes if one process starts all GPUs as if each has a process of its own."""
        return 1.0 + max(0.0, self.launch_s - self.fixed_s) / (self.fixed_s + self.moving_s(size_bytes))

    def launch_decides(self, size_bytes: float) -> bool:
        """Whether that makes a difference."""
        return self.launch_ratio(size_bytes) > LAUNCH_ALIKE

    def moving_s(self, size_bytes: float) -> float:
        """The part of the time that bytes cost."""
        moving_s = size_bytes * self.s_per_byte
        if self.by_size:
            place = min(max(0.0, math.log2(size_bytes / 64)), len(self.by_size) - 1)
            low, high = self.by_size[int(place)], self.by_size[math.ceil(place)]
            moving_s /= low + (place - int(place)) * (high - low)
        if self.one_message:
            moving_s = max(moving_s, self.one_message.seconds(size_bytes))
        if self.settling:
            lost_s, over_s = self.settling
            moving_s += lost_s * moving_s / (moving_s + over_s)
        if self.in_chunks:
            moving_s += self.in_chunks.seconds(size_bytes, self.s_per_byte)
        if self.fill_s_per_byte:
            piece_bytes = max(size_bytes / self.channels, min(size_bytes, self.channel_bytes))
            moving_s += self.fill_s_per_byte * min(piece_bytes, self.most_bytes)
        return moving_s + (self.plateau.at(size_bytes) if self.plateau else 0.0)

    def with_latency(self, factor: float) -> "Algorithm":
        """The same with that many times the time that no byte costs."""
        extra = self.plateau and replace(self.plateau, extra_s=self.plateau.extra_s * factor)
        return replace(self, fixed_s=self.fixed_s * factor, plateau=extra, launch_s=self.launch_s * factor)

    def expected_s(self, size_bytes: float) -> float:
        """What the library expects it to take, by which it chooses."""
        if self.taken_bytes is not None:
            return 0.0 if self.taken_bytes[0] <= size_bytes <= self.taken_bytes[1] else math.inf
        if self.expected is None:
            return self.time_s(size_bytes)
        fixed_s, s_per_byte = self.expected
        return fixed_s + size_bytes * s_per_byte


def choices(algorithms: Sequence[Algorithm], size_bytes: float) -> list[tuple[int, float]]:
    """(index, from how many bytes on) of what the library expects to be fastest, for this size and then larger ones."""
    first = min(range(len(algorithms)), key=lambda index: algorithms[index].expected_s(size_bytes))
    found = [(first, size_bytes)]
    while not (last := algorithms[found[-1][0]]).kept and last.expected:
        fixed_s, s_per_byte = last.expected
        changes = [
            ((each.expected[0] - fixed_s) / (s_per_byte - each.expected[1]), each.expected[1], index)
            for index, each in enumerate(algorithms)
            if each.expected and each.expected[1] < s_per_byte
        ]
        if not changes:
            break
        from_bytes, _, index = min(changes)
        found.append((index, max(size_bytes, from_bytes)))
    return found


def time_of(algorithms: Sequence[Algorithm], chosen: Sequence[tuple[int, float]]) -> float:
    """Seconds by the first of `choices`, or what a larger array takes where the library changes, if that is less.

    What a library expects is coarse. That more bytes would take less time is not believed of it, but where that was
    published (`Algorithm.kept`).
    """
    return min(algorithms[index].time_s(from_bytes) for index, from_bytes in chosen)


_SWITCH_PORTS = "the GPUs' ports to the NVSwitch"


@dataclass(frozen=True)
class NcclAlgorithms:
    """What a generation of NCCL can run on GPUs that are joined so inside nodes, and between them."""

    system: System
    operation: Operation
    groups: Groups
    generation: Generation
    inside: NodeRings
    between: NodeNetwork | None  # None: there is one node
    fitted: Fitted

    @property
    def ring_Bps(self) -> float:
        share = self.fitted.one_switch_share if self.inside.one_switch else self.fitted.pcie_ring_share
        return min(self.planned_ring_Bps, share * self.inside.copies_Bps)

    @property
    def planned_ring_Bps(self) -> float:
        """What the links are said to carry; the library's choice depends on nothing that is fitted."""
        return min(self.inside.ring_Bps, self._network_Bps)

    @property
    def _most_expected_Bps(self) -> float:
        """What the library expects at most: next to nothing where its search ends above what joins the CPUs."""
        if self._on_nvlink or self.between or self._capability < SEARCHED_FROM:
            return math.inf
        passed = {name for ring in self.inside.rings for name in ring.walk}
        cpus = [part for name in passed if isinstance(part := self.system.component(name).part, CpuSpec)]
        between_Bps = AMD_Bps if any("AMD" in cpu.about for cpu in cpus) else self.inside.ring_Bps
        return UNFOUND_Bps if len(cpus) > 1 and between_Bps < min(self._searched_Bps) else math.inf

    @property
    def _searched_Bps(self) -> tuple[float, ...]:
        """What NCCL's search tries of a channel."""
        return by_capability(SEARCHED_Bps, self._capability)

    @property
    def tree_Bps(self) -> float:
        return min(self.inside.chain_Bps, self._tree_network_Bps)

    @property
    def _tree_network_Bps(self) -> float:
        """Each of two nodes is a leaf of one tree and the root of the other (trees.cc): it sends the array once."""
        return self._network_Bps * (2 if self._nodes == 2 else 1)

    @property
    def tries_switches(self) -> bool:
        return self.operation.name == "allreduce" and self.generation.in_switch_s is not None

    def all(self) -> tuple[Algorithm, ...]:
        """All that the generation tries: rings; of an allreduce also trees and in-switch reduction."""
        tree = self.tree() if self.operation.name == "allreduce" else None
        in_switch = self.in_switch() if self.tries_switches else None
        each_s = self.fitted.rccl_launch_s if self._rccl else self.fitted.launch_s
        launch_s = max(map(len, self.groups)) * each_s
        found = (*self.all_pairs(), *self.rings(), tree, in_switch, *self.by_flags(tree))
        algorithms = [replace(algorithm, launch_s=launch_s) for algorithm in found if algorithm]
        # AMD's RCCL chooses by tables of its own for each GPU: of rings it is taken to choose what takes least.
        return tuple(replace(algorithm, expected=None) if self._rccl else algorithm for algorithm in algorithms)

    @property
    def staged(self) -> bool:
        return self.inside.staged

    def by_flags(self, tree: Algorithm | None) -> list[Algorithm]:
        """Rings and trees between nodes in the protocols that need no fence; `tree`: that in Simple.

        Nothing is published of how RCCL comes to what it takes there: it is described with Simple alone.
        """
        if self.between is None or not self.generation.protocols or self._rccl:
            return []
        protocols = [each for each in BETWEEN_NODES if self._on_nvlink or each.name == "LL"]
        rings = [self._ring_between(each, self.between) for each in protocols]
        return rings if tree is None else rings + [self._tree_between(each, self.between, tree) for each in protocols]

    def _tree_between(self, protocol: BetweenNodes, between: NodeNetwork, tree: Algorithm) -> Algorithm:
        """`tree` (Simple) in another protocol: no step begins before the one before has handed a piece on."""
        network_Bps = self._tree_network_Bps * 2 * TREE_SHARE * protocol.tree_share
        ll128_s_per_B = 1 / by_capability(LL128_CHANNEL_Bps, self._capability)
        step_s_per_B = self.fitted.ll_channel_s_per_B if protocol.name == "LL" else ll128_s_per_B
        return replace(
            tree,
            fixed_s=self._start_s + self._tree_fixed_s(protocol.tree),
            s_per_byte=2 / self._by_flags_Bps(protocol, self.inside.chain_Bps, network_Bps),
            protocol=protocol.name,
            by_size=protocol.tree_by_size,
            fill_s_per_byte=self._tree_steps * step_s_per_B,
            channels=2 * between.rings,  # trees have two for each card
            channel_bytes=LL_CHANNEL_BYTES,
            most_bytes=PIECE_BYTES if protocol.name == "LL" else LL128_CHUNK_BYTES,
        )

    def _by_flags_Bps(self, protocol: BetweenNodes, inside_Bps: float, network_Bps: float) -> float:
        """Inside nodes as within one, and what the network carries."""
        share = self.fitted.share(protocol.name, shape(self.operation), self._on_nvlink)
        return min(inside_Bps * share, network_Bps, self._most_Bps(protocol))

    def _ring_between(self, protocol: BetweenNodes, between: NodeNetwork) -> Algorithm:
        ranks, rounds, hop = sum(map(len, self.groups)), self.operation.rounds, protocol.ring
        network_Bps = min(self._network_Bps, self.ring_Bps) * protocol.ring_share  # over PCIe, of copies
        if ranks == self._nodes:  # nothing hides what the network takes
            hop = replace(hop, network_s=protocol.tree.network_s)
        steps = rounds * (ranks - 1)
        crossings = min(steps, rounds * self._nodes)
        inside_s = (steps - crossings) * max(self._step_s(hop), POSTING_s)
        between_s = between.crossings_s(hop, crossings, 1, self.operation)
        return Algorithm(
            "ring",
            self._start_s + hop.base_s + inside_s + between_s,
            self.operation.bus_factor(ranks) / self._by_flags_Bps(protocol, self.inside.ring_Bps, network_Bps),
            self._limit(self.ring_Bps, self._ring_limit),
            protocol=protocol.name,
        )

    def _most_Bps(self, protocol: BetweenNodes) -> float:
        if protocol.name != "LL":
            return math.inf
        cpus = [each.part.about for each in self.system.in_node(0) if isinstance(each.part, CpuSpec)]
        maker = "AMD" if any("AMD" in about for about in cpus) else "other"
        return LL_MOST_Bps[maker][self._nodes > 2]

    def rings(self) -> tuple[Algorithm, ...]:
        """The ring, in each protocol of the generation; between nodes in Simple."""
        if self.between or self.generation.one_ring:
            return (self._ring(),)
        if not self.generation.protocols:
            return self._rings_before_tuning()
        of_nccl = of_capability(self._capability)
        protocols = (RCCL_MI300 if self._mi300 else RCCL) if self._rccl else of_nccl
        return tuple(self._ring_by(protocol) for protocol in protocols if self._on_nvlink or not protocol.nvlink_only)

    def all_pairs(self) -> tuple[Algorithm, ...]:
        """What RCCL runs on eight MI300 in place of rings, by size: parts to all others at once, and their sums back.

        Simple's share of a link is fitted: the source does not say what receiving takes from sending.
        """
        gpus, lanes = self.groups[0], self.inside.lanes
        wanted = self.generation.protocols and self.operation.name == "allreduce" and self.between is None
        if not (wanted and self._mi300 and lanes and len(gpus) == ALL_PAIRS_GPUS):
            return ()
        fewest = min(lanes[a][b] for a, b in permutations(range(len(gpus)), 2))
        link_Bps = fewest * paths.lane_Bps(self.system, gpus) if fewest else 0.0
        return tuple(self._between_pairs(pairs, link_Bps) for pairs in ALL_PAIRS if fewest)

    def _between_pairs(self, pairs: AllPairs, link_Bps: float) -> Algorithm:
        protocol = pairs.protocol
        share = self.fitted.all_pairs_share if protocol.name == "Simple" else protocol.share
        return Algorithm(
            "all-pairs",
            protocol.base_s + 2 * protocol.nvlink_s,
            2 / len(self.groups[0]) / (link_Bps * share),
            f"the {paths.direct_links_name(self.system, self.groups[0])} between each two GPUs",
            protocol=protocol.name,
            taken_bytes=(pairs.least_bytes, pairs.most_bytes),
        )

    def _ring(self) -> Algorithm:
        """Every byte goes around once for each round; steps between nodes cost the network's latency."""
        ranks, rounds = sum(map(len, self.groups)), self.operation.rounds
        handovers = self.generation.parts_handovers if shape(self.operation) == "once" else 1
        steps = rounds * (ranks - 1)
        crossings = min(steps, rounds * self._nodes) if self._nodes > 1 else 0
        hop, channels = self.generation.ring, len(self.inside.rings) or 1
        inside_s = (steps - crossings) * self._step_s(hop)
        between_s = self.between.crossings_s(hop, crossings, handovers, self.operation) if self.between else 0.0
        fixed_s = hop.base_s + handovers * inside_s + between_s
        piece_bytes = self.generation.piece_bytes(self.operation)
        s_per_byte = self.operation.bus_factor(ranks) / self.ring_Bps
        if self.generation.one_ring and self.operation.adds:
            s_per_byte /= self.fitted.nccl1_adding_share
        return Algorithm(
            "ring",
            self._launch_s + fixed_s,
            s_per_byte,
            self._limit(self.ring_Bps, self._ring_limit),
            (ranks - 2) * channels / self.ring_Bps if piece_bytes else 0.0,
            channels,
            most_bytes=piece_bytes,
            plateau=self._plateau(fixed_s, ranks, channels),
        )

    def _rings_before_tuning(self) -> tuple[Algorithm, ...]:
        """Those of NCCL 2.0 to 2.3, by size: one in LL, one in Simple, all of them; as 2.1 and 2.2 take them."""
        ranks, ll, every = len(self.groups[0]), BEFORE_TUNING, replace(self._ring(), protocol="Simple")
        steps = self.operation.rounds * (ranks - 1)
        call_bytes = by_capability(ONE_RING_BYTES, self._capability)
        one_ring_bytes = call_bytes * (ranks if shape(self.operation) == "once" else 1)  # a call has one rank's part
        one = replace(every, s_per_byte=every.s_per_byte * every.channels, channels=1)
        by_flags = replace(
            one,
            fixed_s=self._launch_s + ll.base_s + steps * (ll.nvlink_s if self._on_nvlink else ll.pcie_s),
            s_per_byte=one.s_per_byte / ll.share,
            fill_s_per_byte=0.0,
            protocol="LL",
        )
        ends = (-1, BEFORE_TUNING_LL_BYTES, one_ring_bytes, sys.maxsize)
        return tuple(
            replace(ring, taken_bytes=(low + 1, high))
            for ring, (low, high) in zip((by_flags, one, every), pairwise(ends), strict=True)
        )

    def _ring_by(self, protocol: Protocol) -> Algorithm:
        """A ring inside one node by one protocol of NCCL 2.4 and later."""
        ranks, kind = len(self.groups[0]), shape(self.operation)
        steps = ranks if kind == "chain" else self.operation.rounds * (ranks - 1)
        factor = self.operation.bus_factor(ranks)
        simple = protocol.name == "Simple"
        hopper = int(self._capability) == HOPPER
        settles = simple and self._on_nvlink and self._capability >= SETTLING_FROM and not hopper
        idle = 1 + self.fitted.last_step_share / steps if settles and kind != "chain" else 1.0
        expected_hop_s = protocol.nvlink_s if self._on_nvlink else protocol.pcie_s
        share = protocol.share if self._on_nvlink or protocol.pcie_share is None else protocol.pcie_share
        taken_share, handovers = self.fitted.share(protocol.name, kind, self._on_nvlink), protocol.handovers(kind)
        recent = self.generation.in_switch_s is not None or hopper
        if kind != "chain" and self._on_nvlink and recent:
            if protocol.name == "LL":
                share = min(1 / 2, by_capability(LL_INSIDE_Bps, self._capability) / self.ring_Bps)
            if kind == "once" or hopper:  # as its source says; SuperBench's A100s ran an older one
                handovers = handovers if protocol.name == "LL" else 1  # in LL a step takes two on B200, too
                taken_share = share
        hop_s = expected_hop_s if self._rccl else self._taken_hop_s(protocol)
        return Algorithm(
            "ring",
            self._start_s + protocol.base_s + handovers * steps * hop_s,
            factor * idle / (self.ring_Bps * taken_share),
            self._ring_limit,
            settling=(self.fitted.rings_lost_s, self.fitted.rings_over_s) if settles else None,
            protocol=protocol.name,
            kept=protocol.name == "LL128" and kind == "twice" and self.inside.lanes is not None,
            expected=(
                protocol.base_s + steps * expected_hop_s,
                factor / (min(self.planned_ring_Bps, self._most_expected_Bps) * share),
            ),
        )

    def _taken_hop_s(self, protocol: Protocol) -> float:
        """A step. Over PCI Express Simple's takes as long as over NVLink is expected: three ladders of two machines."""
        if not self._on_nvlink:
            return protocol.nvlink_s if protocol.name == "Simple" else protocol.pcie_s
        return self.fitted.hop(protocol.name) or protocol.nvlink_s

    def _plateau(self, fixed_s: float, ranks: int, channels: int) -> Plateau | None:
        if self.between is None or self.operation.name != "allreduce":
            return None
        return plateau(fixed_s, ranks, channels, self._capability)

    def tree(self) -> Algorithm | None:
        """A chain inside each node and a binary tree of nodes, up and down; None where the library has no trees."""
        hop = self.generation.tree
        if hop is None or self.tree_Bps <= 0 or (self._mi300 and self.between is None):  # RCCL has none there
            return None
        expected_s = self._tree_steps * EXPECTED_TREE_STEP_s
        expected = (expected_s, 1 / (min(self.tree_Bps, self._most_expected_Bps) * TREE_SHARE))
        return Algorithm(
            "tree",
            self._start_s + self._tree_fixed_s(hop),
            1 / (self.tree_Bps * TREE_SHARE),
            self._tree_limit,
            by_size=TREE_BY_SIZE if self.between and not self._rccl else (),
            expected=None if self.between else expected,
        )

    def _tree_fixed_s(self, hop: Hop) -> float:
        crossings = 2 * math.log2(self._nodes)
        return hop.base_s + (self._tree_steps - crossings) * self._step_s(hop) + crossings * self._crossing_s(hop)

    @property
    def _tree_steps(self) -> float:
        """Up and down: along the chain of a node, and from node to node."""
        return 2 * (sum(map(len, self.groups)) / self._nodes - 1 + math.log2(self._nodes))

    def in_switch(self) -> Algorithm | None:
        """Each GPU sends all it has and receives its share of the sum, then sends that share and receives the rest.

        None where no NVSwitch that reduces joins the GPUs, or the library does not use it.
        """
        capability = self._capability
        expected_share = next((share for least, share in IN_SWITCH_SHARE if capability >= least), None)
        port_Bps = _port_Bps(self.system, self.groups[0])
        ranks, switch_s = min(map(len, self.groups)), self.generation.in_switch_s
        if expected_share is None or switch_s is None or port_Bps is None or ranks < 2:
            return None
        hopper = capability < 10
        share = self.fitted.hopper_in_switch_share if hopper else expected_share
        parts = min(ranks, MOST_SWITCH_PARTS)
        # A channel for each of them; its GPU sends and receives what the others do, and its own part.
        fitting_Bps = [each for each in self._searched_Bps if (parts + 1) * each <= port_Bps]
        searched_Bps = parts * max(fitting_Bps, default=min(self._searched_Bps))
        moved = (1 + 1 / parts) / port_Bps
        lost = max(1.0, parts / SWITCH_GPUS) ** self.fitted.in_switch_lost
        inside_s, between_s = moved / share * lost, (2 if self._nodes > 2 else 1) / self._network_Bps
        channels = next(of[self._nodes > 1] for least, *of in SWITCH_CHANNELS if capability >= least)
        fill = self.fitted.in_switch_fill * (1 + 2 * math.log2(self._nodes))  # up and down the tree
        chunks = TREE_CHUNKS if self.between else SWITCH_CHUNKS
        return Algorithm(
            "nvls",
            self._start_s + self.fitted.in_switch_s + 2 * math.log2(self._nodes) * self._crossing_s(IN_SWITCH),
            (inside_s**BOTH_LIMIT + between_s**BOTH_LIMIT) ** (1 / BOTH_LIMIT) if self.between else inside_s,
            self.between.limit if self.between and between_s > inside_s else _SWITCH_PORTS,
            in_chunks=SwitchChunks(self.fitted.in_switch_chunk_s, fill, channels, parts, chunks),
            expected=None if self.between else (switch_s, 1 / (SEARCHED_IN_SWITCH * searched_Bps)),
        )

    @property
    def _capability(self) -> float:
        return self._gpu.compute_capability.value

    @property
    def _rccl(self) -> bool:
        return "AMD" in self._gpu.about

    @property
    def _mi300(self) -> bool:
        return self._rccl and self._gpu.chip.startswith("MI300")

    @property
    def _nodes(self) -> int:
        return len(self.groups)

    @property
    def _network_Bps(self) -> float:
        return self.between.bandwidth_Bps if self.between else math.inf

    def _crossing_s(self, hop: Hop) -> float:
        return self.between.crossing_s(hop) if self.between else 0.0

    @property
    def _ring_limit(self) -> str:
        over_bus = self.ring_Bps < self.planned_ring_Bps
        return self.inside.copies_limit if over_bus else self.inside.ring_limit

    @property
    def _tree_limit(self) -> str:
        by_network = self.between and self._tree_network_Bps <= self.inside.chain_Bps
        return self.between.limit if self.between and by_network else self.inside.chain_limit

    def _limit(self, bandwidth_Bps: float, inside: str) -> str:
        return self.between.limit if self.between and bandwidth_Bps == self.between.bandwidth_Bps else inside

    @property
    def _gpu(self) -> GpuSpec:
        return self.system.gpu_part(self.groups[0][0])

    @property
    def _launch_s(self) -> float:
        return self._gpu.copy_s.value

    @property
    def _start_s(self) -> float:
        """Before the first step; inside one node RCCL's bases have it."""
        return 0.0 if self._rccl and not self.between else self._launch_s

    @property
    def _on_nvlink(self) -> bool:
        return self.inside.family == "nvlink"

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
