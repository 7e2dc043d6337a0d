"""How NCCL runs all-to-all, send-receive, gather and scatter: ncclSend and ncclRecv in one group, all at once.

    nccl_sends(load("dgx-a100"), OPERATIONS["alltoall"], groups, "nccl2.4").all()

Each message takes a path of its own: over NVLink where there is one, else over PCIe or staged in the host, as rings do;
with 2.11 and later through a GPU that has NVLinks to both. What paths share is busy until all its bytes have passed
(`paths.seconds_per_byte`). A message alone has a few channels, and more only if it is large: on 8 GPUs, one of
64 MiB moves at an eighth of the rate of 1 GiB (enqueue.cc: 16 MiB for each channel before they are doubled).

Every figure below is from one published source; all other sources judge it (docs/method/collectives.md). Not known:
what Volta's and older channels carry, and gather and scatter on anything but B200. Between nodes, nothing is validated:
that a receiver's card may serve GPUs of other nodes in turns is not in the model, nor are messages that go out by the
card of another GPU (PXN, 2.12 and later).
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives.algorithms import Algorithm, Channels
from resnetx.interconnect.collectives.internode import Groups, nearest_cards
from resnetx.interconnect.collectives.protocols import PROTOCOLS, Fitted, by_capability
from resnetx.interconnect.collectives.rings import Generation
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import System
from resnetx.interconnect.systems.paths import LinkFlow, Transport, seconds_per_byte
from resnetx.operations import Operation

# The messages of an operation that is nothing but messages, by sender and receiver: all-to-all, gather and others.
#
#     messages(OPERATIONS["alltoall"], [(0, 1, 2, 3)])    # twelve, each of a quarter of the array
#
# Of many ranks on several nodes, which are alike, two nodes stand for all: the first, where rank 0 is, and the fullest
# other one. What the first exchanges with all others is then between these two.

ALL_RANKS = 16  # of up to so many every message is looked at


@dataclass(frozen=True)
class PeerMessage:
    """What one GPU sends another."""

    sender: int  # GPU ids
    receiver: int
    share: float  # of the array; of two nodes that stand for more, of all such messages
    between_nodes: bool


def messages(operation: Operation, groups: Groups) -> list[PeerMessage]:
    """Those that run at once."""
    ranks = sum(map(len, groups))
    if len(groups) < 2 or ranks <= ALL_RANKS:
        return list(_sent(operation, groups, 1.0, 1.0))
    pair = (groups[0], max(groups[1:], key=len))
    if not operation.in_parts:
        return list(_sent(operation, pair, 1.0, 1.0))
    smaller = sum(map(len, pair)) / ranks  # a part is that of one rank among all
    return list(_sent(operation, pair, smaller, smaller * (ranks - len(pair[0])) / len(pair[1])))


def _sent(operation: Operation, groups: Groups, inside: float, between: float) -> Iterator[PeerMessage]:
    """The messages of these nodes alone; `inside` and `between` nodes, each counts so many times."""
    assert operation.sends is not None, f"{operation.name} goes around rings"
    node_of = {device: node for node, group in enumerate(groups) for device in group}
    devices: Sequence[int] = list(node_of)
    for sender, receiver in permutations(range(len(devices)), 2):
        if share := operation.sends(sender, receiver, len(devices)):
            apart = node_of[devices[sender]] != node_of[devices[receiver]]
            yield PeerMessage(devices[sender], devices[receiver], share * (between if apart else inside), apart)


def leaving(operation: Operation, groups: Groups) -> float:
    """The largest share of the array that leaves, or enters, one node."""
    node_of = {device: node for node, group in enumerate(groups) for device in group}
    out, into = ([0.0] * len(groups) for _ in range(2))
    for message in messages(operation, groups):
        if message.between_nodes:
            out[node_of[message.sender]] += message.share
            into[node_of[message.receiver]] += message.share
    return max(*out, *into)


# SuperBench's log of 8 A100s, all-to-all of 8 GiB: 224.3 of 240 GB/s, while each GPU sends and receives.
BOTH_WAYS_SHARE = 0.935
# The same log: 32 bytes take 86 us where one process posts all 112 sends and receives, of which 15 us are a kernel's.
MESSAGE_s = 0.64e-6  # of the host, for each send or receive that a rank posts
# With 2.17 and later a process sends up to 16 KiB inside a node in LL (NCCL_P2P_LL_THRESHOLD): 128 bytes from each to
# each of 8 B200 take 1.8 us longer than to the next one, with twelve messages more (Vultr 2026).
LL_MESSAGE_BYTES, LL_MESSAGE_s = 2**14, 0.15e-6
# enqueue.cc of NCCL 2.2x, calcP2pChannelCount and addP2pToPlan: channels are shared out evenly over the ranks.
CHANNELS, PART_BYTES = 32, 2**24
# Of one channel, by compute capability. Blackwell: 64 MiB to the next of 8 B200 at 84.9 GB/s over 4 (MIT ORCD 2026);
# Ampere: 128 MiB between 8 A100 at 110.8 GB/s over 8 (li-plus); Hopper: assumed between; older: assumed as Ampere.
CHANNEL_Bps = ((10.0, 21.2e9), (9.0, 20e9), (0.0, 13.9e9))


@dataclass(frozen=True)
class Sent:
    """A message and the way that it takes."""

    message: PeerMessage
    flow: LinkFlow
    kind: str  # "NVLink", "PCIe", "the host", "another GPU", "the network"

    @property
    def load(self) -> tuple[LinkFlow, float]:
        return self.flow, self.message.share


@dataclass(frozen=True)
class NcclSends:
    """Messages of an operation between these GPUs, all at once."""

    system: System
    operation: Operation
    groups: Groups
    generation: Generation
    transport: Transport
    fitted: Fitted

    def all(self) -> tuple[Algorithm, ...]:
        """The one way that there is, in LL, too, where the library has it."""
        s_per_byte, limit = max(self._rates())
        others_s = (max(map(len, self.groups)) - 1) * self._posted_s  # if one process posts the messages of all
        launch_s = self._fixed_s + others_s
        sent = Algorithm("sends", self._fixed_s, s_per_byte, limit, one_message=self._alone, launch_s=launch_s)
        if not self.generation.relays or len(self.groups) > 1:
            return (sent,)
        most_bytes = int(LL_MESSAGE_BYTES / max(each.message.share for each in self._sent))
        by_flags = replace(sent, fixed_s=self._by_flags_s, protocol="LL", taken_bytes=(0, most_bytes))
        return by_flags, replace(sent, protocol="Simple", taken_bytes=(most_bytes + 1, sys.maxsize))

    @property
    def staged(self) -> bool:
        return any(each.kind == "the host" for each in self._sent)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which ways messages take, and whose fixed time it is, in sentences."""
        kinds = Counter(each.kind for each in self._sent)
        links = next((each.flow.steps[0][2].wire.peer_name for each in self._sent if each.kind == "NVLink"), "NVLink")
        ways = ", ".join(f"{count} over {links if kind == 'NVLink' else kind}" for kind, count in kinds.items())
        shown = "" if len(self._devices) == self._ranks else f" of two of the nodes ({self._ranks} ranks)"
        more_us = 1e6 * (self._ranks - 1) * self._posted_s
        return (
            f"{len(self._sent)} message{'s' * (len(self._sent) > 1)} at once{shown}: {ways}.",
            f"Of a process for each GPU; one that posts the messages of all takes {more_us:.0f} us more.",
        )

    @cached_property
    def _sent(self) -> list[Sent]:
        return [self._on_its_way(message) for message in messages(self.operation, self.groups)]

    def _on_its_way(self, message: PeerMessage) -> Sent:
        a, b = message.sender, message.receiver
        if message.between_nodes:
            return Sent(message, self._over_the_network(a, b), "the network")
        if self.transport in ("auto", "peer"):
            if (direct := paths.nvlink_flow(self.system, a, b)).steps:
                return Sent(message, direct, "NVLink")
            if self.generation.relays and (relayed := self._relayed(a, b)):
                return Sent(message, relayed, "another GPU")
        cross_cpus = self.generation.peers_cross_cpus or self.transport == "peer"
        taken = paths.bus_flow(self.system, a, b, self.transport, cross_cpus)
        if taken is None:
            raise ConfigError(
                f"transport={self.transport}: no path from GPU {a} to GPU {b} of {self.system.name} that a message "
                "could take; use transport=auto, or other devices="
            )
        return Sent(message, taken, "the host" if taken.staged else "PCIe")

    def _over_the_network(self, a: int, b: int) -> LinkFlow:
        """By the card that is nearest to each end; equally near ones take turns."""
        out, into = self._cards[a], self._cards[b]
        return paths.network_flow(self.system, a, out[b % len(out)], into[a % len(into)], b)

    @cached_property
    def _cards(self) -> dict[int, list[str]]:
        return {device: nearest_cards(self.system, device) for device in self._devices}

    def _relayed(self, a: int, b: int) -> LinkFlow | None:
        """Through the GPU with the widest NVLinks to both; of equals the first."""
        widest = max(
            (device for device in self._devices if device not in (a, b)),
            key=lambda device: (self._lanes(a, device, b), -device),
            default=None,
        )
        if widest is None or not self._lanes(a, widest, b):
            return None
        ways = [paths.nvlink_flow(self.system, *ends) for ends in ((a, widest), (widest, b))]
        return LinkFlow((*ways[0].steps, *ways[1].steps), staged=False)

    def _lanes(self, a: int, through: int, b: int) -> int:
        return min(paths.nvlink_lanes(self.system, a, through), paths.nvlink_lanes(self.system, through, b))

    def _rates(self) -> Iterator[tuple[float, str]]:
        """(seconds per byte of the array, what limits them) of all messages, and of those over NVLink and over PCIe."""
        yield seconds_per_byte(self.system, (each.load for each in self._sent), kernels=True)
        if links := [each.load for each in self._sent if each.kind in ("NVLink", "another GPU")]:
            s_per_byte, limit = seconds_per_byte(self.system, links, kernels=True)
            yield s_per_byte / (BOTH_WAYS_SHARE if self._both_ways else 1.0), limit
        if bus := [each.load for each in self._sent if each.kind in ("PCIe", "the host")]:
            s_per_byte, limit = seconds_per_byte(self.system, bus)
            yield s_per_byte / self.fitted.pcie_ring_share, limit

    @property
    def _alone(self) -> Channels | None:
        """What the largest message takes; None where none goes over NVLink, as a channel carries more than PCIe."""
        shares = [each.message.share for each in self._sent if each.kind == "NVLink"]
        if not shares:
            return None
        capability = self.system.gpu_part(self._devices[0]).compute_capability.value
        rate_Bps = by_capability(CHANNEL_Bps, capability)
        count = CHANNELS
        while count > 1 and count * self._ranks > CHANNELS:
            count //= 2
        return Channels(max(shares), count, CHANNELS, PART_BYTES, rate_Bps)

    @property
    def _fixed_s(self) -> float:
        """What no byte costs: launch, the protocol's base and one step (Simple), and the messages that a rank posts."""
        hop, kinds = self.generation.ring, {each.kind for each in self._sent}
        step_s = hop.nvlink_s if kinds <= {"NVLink", "another GPU"} else hop.pcie_s
        if "the network" in kinds:
            flow = next(each.flow for each in self._sent if each.kind == "the network")
            step_s = hop.network_s + sum(link.wire.latency_s.value for _, _, link in flow.steps)
        return self.system.gpu_part(self._devices[0]).copy_s.value + hop.base_s + step_s + self._posted_s

    @property
    def _by_flags_s(self) -> float:
        """The same in LL, inside a node."""
        ll, over_links = PROTOCOLS[0][1][0], {each.kind for each in self._sent} <= {"NVLink", "another GPU"}
        step_s = ll.nvlink_s if over_links else ll.pcie_s
        posted_s = self._posted_s * LL_MESSAGE_s / MESSAGE_s
        return self.system.gpu_part(self._devices[0]).copy_s.value + ll.base_s + step_s + posted_s

    @property
    def _posted_s(self) -> float:
        return sum(self.operation.messages(self._ranks)) * MESSAGE_s

    @property
    def _both_ways(self) -> bool:
        """Whether GPUs send and receive at once."""
        return all(self.operation.messages(self._ranks))

    @property
    def _ranks(self) -> int:
        return sum(map(len, self.groups))

    @cached_property
    def _devices(self) -> list[int]:
        """The GPUs whose messages are looked at."""
        return sorted(
            {end for message in messages(self.operation, self.groups) for end in (message.sender, message.receiver)}
        )
