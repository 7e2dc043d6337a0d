"""What ranks of the lab take until each has broadcast its own bytes to all others, as `strategy=zero1` does.

    broadcasts_s(network, sizes_bytes=[7_600_000, 7_400_000], begin_s=[0.0, 0.0])

Which link carries most says too little: on eight ranks of a GX8 they take half as long again. So they are simulated,
packet by packet, by four rules of gloo and the kernel:

- A broadcast goes along a binomial tree from its rank: a rank sends to all whom it reaches at once, as soon as it has
  everything (gloo/broadcast.cc). Two threads of each rank take one after the other, in the order of their ranks
  (torch, ProcessGroupGloo.hpp), so that a rank that is late with one holds up the trees behind it.
- A message starts when its receiver has said that it is ready (gloo/transport/tcp/pair.cc). That goes over the same
  connection as what the receiver sends to it, behind all of it: between two ranks one way goes after the other.
- A thread has sent a message once the kernel has all of it, which keeps up to BUFFER_BYTES of a connection.
- A link carries packets in the order in which they come, whosever they are (tc-tbf).

No figure in here is fitted, but the rules were chosen with the ten points of results/lab/sharded in sight, and the
error of their times (`prediction.iteration.LAB_BROADCASTS_ERROR`) on them: how near they come says little of others.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from resnetx.interconnect.systems.lab_network import LabNetwork

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
