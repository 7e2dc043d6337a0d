"""Collective operations: what each moves, what a ring does for it, how it is run, and what it has to make.

One entry of `OPERATIONS` is all that is known of a collective; the cost model, the bench, its checks and its tables
read it. The root of an operation is rank 0. Loads no torch: `run` is given torch.distributed.

Reference: nccl-tests, doc/PERFORMANCE.md (bus bandwidth), and src/*.cu for what its sizes are of.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any, Literal

ALL = None  # stands for a part: the whole array; for a rank: the sum over all of them
Place = Literal["in", "out"]  # of the result: where the data was, or elsewhere


@dataclass(frozen=True)
class Made:
    """What a part of a rank's result has to hold: a part of another rank's data, or of the sum over all ranks."""

    part: int | None  # of the result
    rank: int | None  # whose data it is
    of: int | None = -1  # the part of that rank's data; -1: the same one

    @property
    def source(self) -> int | None:
        return self.part if self.of == -1 else self.of


Expected = list[Made]  # for each part of a rank's result that is looked at


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One collective over an array; `size` is that of the whole array, as nccl-tests counts it."""

    name: str
    program: str  # of nccl-tests, less "_perf"
    bus_factor: Callable[[int], float]  # busbw / algbw over so many ranks
    rounds: int = 1  # in which a ring passes the array along: once, or to add up and then to hand out
    # Of what libraries run as messages between ranks, all at once, and not around rings: by (sender, receiver, ranks),
    # the share of the array that one sends the other.
    sends: Callable[[int, int, int], float] | None = None
    along_a_chain: bool = False  # to or from the root, so that the chain has to fill
    in_parts: bool = False  # each rank gives, or gets, a part of the array of its own
    own_part: bool = False  # which is all that a rank has before
    gets_part: bool = False  # and all that it has after
    places: tuple[Place, ...] = ("in",)  # that torch has of it; the first one unless another is asked for
    gloo_moves: float = 1.0  # times what a ring would: where gloo makes it of another operation
    gloo_makes_it_of: str = ""  # that operation
    # (torch.distributed, what this rank gives, what it gets, its rank, ranks): the whole array, or its part of it
    run: Callable[[Any, Any, Any, int, int], object]
    expected: Callable[[int, int], Expected]  # by (rank, ranks)

    @property
    def adds(self) -> bool:
        """Whether ranks' values are added up on the way."""
        return any(made.rank is ALL for made in self.expected(0, 2))

    def messages(self, ranks: int) -> tuple[int, int]:
        """(sent, received) by rank 0, which has most to do; of an operation that is messages."""
        sends = self.sends
        assert sends is not None, f"{self.name} goes around rings"
        others = range(1, ranks)
        return sum(sends(0, rank, ranks) > 0 for rank in others), sum(sends(rank, 0, ranks) > 0 for rank in others)

    def steps(self, ranks: int) -> int:
        """How many messages a rank sends, or receives, one after the other."""
        return max(self.messages(ranks)) if self.sends else self.rounds * (ranks - 1)


def _to_next(dist: Any, given: Any, got: Any, rank: int, ranks: int) -> None:
    """Every rank sends to the next one and receives from the one before, at once."""
    sends = dist.P2POp(dist.isend, given, (rank + 1) % ranks)
    receives = dist.P2POp(dist.irecv, got, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sends, receives]):
        work.wait()


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(
            name="allreduce",
            program="all_reduce",
            bus_factor=lambda ranks: 2 * (ranks - 1) / ranks,
            rounds=2,
            run=lambda dist, _, whole, *__: dist.all_reduce(whole),
            expected=lambda *_: [Made(ALL, ALL)],
        ),
        Operation(
            name="broadcast",
            program="broadcast",
            bus_factor=lambda _: 1.0,
            along_a_chain=True,
            run=lambda dist, _, whole, *__: dist.broadcast(whole, 0),
            expected=lambda *_: [Made(ALL, 0)],
        ),
        Operation(
            name="reduce",
            program="reduce",
            bus_factor=lambda _: 1.0,
            along_a_chain=True,
            run=lambda dist, _, whole, *__: dist.reduce(whole, 0),
            expected=lambda rank, _: [Made(ALL, ALL)] if rank == 0 else [],
        ),
        Operation(
            name="allgather",
            program="all_gather",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            in_parts=True,
            own_part=True,
            places=("in", "out"),
            run=lambda dist, part, whole, *_: dist.all_gather_into_tensor(whole, part),
            expected=lambda _, ranks: [Made(part, part) for part in range(ranks)],
        ),
        Operation(
            name="reduce_scatter",
            program="reduce_scatter",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            in_parts=True,
            gets_part=True,
            places=("in", "out"),
            gloo_moves=2.0,
            gloo_makes_it_of="a whole all-reduce",
            run=lambda dist, whole, part, *_: dist.reduce_scatter_tensor(part, whole),
            expected=lambda rank, _: [Made(rank, ALL)],
        ),
        Operation(
            name="alltoall",
            program="alltoall",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if sender != receiver else 0.0,
            in_parts=True,
            places=("out",),
            run=lambda dist, whole, got, *_: dist.all_to_all_single(got, whole),
            expected=lambda rank, ranks: [Made(part, part, of=rank) for part in range(ranks)],
        ),
        Operation(
            name="sendrecv",
            program="sendrecv",
            bus_factor=lambda _: 1.0,
            sends=lambda sender, receiver, ranks: float(receiver == (sender + 1) % ranks),
            places=("out",),
            run=_to_next,
            expected=lambda rank, ranks: [Made(ALL, (rank - 1) % ranks)],
        ),
        Operation(
            name="gather",
            program="gather",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if sender and not receiver else 0.0,
            in_parts=True,
            own_part=True,
            places=("in", "out"),
            run=lambda dist, part, whole, rank, ranks: dist.gather(
                part, None if rank else list(whole.chunk(ranks)), dst=0
            ),
            expected=lambda rank, ranks: [] if rank else [Made(part, part) for part in range(ranks)],
        ),
        Operation(
            name="scatter",
            program="scatter",
            bus_factor=lambda ranks: (ranks - 1) / ranks,
            sends=lambda sender, receiver, ranks: 1 / ranks if receiver and not sender else 0.0,
            in_parts=True,
            gets_part=True,
            places=("in", "out"),
            run=lambda dist, whole, part, rank, ranks: dist.scatter(
                part, None if rank else list(whole.chunk(ranks)), src=0
            ),
            expected=lambda rank, _: [Made(rank, 0)],
        ),
    )
}


# ---- copies ---------------------------------------------------------------------------------------------------------
# Pair copies: what each kind moves between which places, which settings it reads, and in which order it is measured.
#
#     entries = planned(["device"], gpus=4, sizes_bytes=[8, 2**20], directions=["one-way"])
#     planned_s(entries, iterations=20, warmup=5, rate_Bps=18e9)
#
# One entry of `COPIES` is all that planning knows of a kind; `measure.bench` has how it is run on GPUs and on CPU
# ranks. A place is a GPU (or CPU rank) by its number among the bench's devices, memory of the host ("host"), or
# "storage".
#
# References: Tartan (Li et al. 2019) for pairs in both directions; nvbandwidth for host memory and what runs at once.

HOST, STORAGE = "host", "storage"
CopyPlace = int | str
Direction = Literal["one-way", "both-ways"]

# 4 B to 1 GiB, four times as large from each to the next.
SIZES_BYTES = [4**power for power in range(1, 16)]
TOGETHER_BYTES = 2**26  # the largest of what runs together: well above where latency counts

# How often a size is copied: 1 GiB at 10 GB/s takes 0.1 s, and 56 pairs of 8 GPUs are to take less than a minute.
TIMED_BYTES = 2**27  # of all timed copies of one size, so that large ones are copied less often...
LEAST_TIMINGS = 2  # ...but at least so often
# Both ways at once, a pair has two entries that are the same, from either end: of the largest sizes each is timed once,
# so that the pair, as one way, is timed twice.
ONCE_BOTH_WAYS_BYTES = 2**28

# What planning counts for a copy besides its bytes, and for a cell: the data that is written and checked, and the
# ranks that meet. Measured on two CPU ranks; on GPUs an assumption.
COPY_s, CELL_s = 100e-6, 5e-3


@dataclass(frozen=True)
class Flow:
    """One copy, one way."""

    source: CopyPlace
    target: CopyPlace
    through: int | None = None  # the GPU that relays it

    @property
    def places(self) -> set[int]:
        """The GPUs, or ranks, that take part."""
        return {place for place in (self.source, self.target, self.through) if isinstance(place, int)}


@dataclass(frozen=True)
class Entry:
    """What is measured at once: flows of one size that start together."""

    kind: str
    flows: tuple[Flow, ...]
    size_bytes: int
    direction: Direction = "one-way"

    @property
    def moved_bytes(self) -> int:
        """By all flows; what is relayed moves twice."""
        return self.size_bytes * sum(1 if flow.through is None else 2 for flow in self.flows)


@dataclass(frozen=True, kw_only=True)
class CopyKind:
    """A kind of copy."""

    name: str
    moves: str
    flows: Callable[[int], Iterator[tuple[Flow, ...]]]  # by the number of GPUs: what runs at once
    reads: frozenset[str] = frozenset()  # settings of copies that mean something to it
    least_gpus: int = 1
    most_bytes: int | None = None  # larger sizes tell nothing more of it

    @property
    def touches_storage(self) -> bool:
        return self.name.startswith(STORAGE)


def _pairs(gpus: int) -> Iterator[tuple[Flow, ...]]:
    return ((Flow(source, target),) for source, target in permutations(range(gpus), 2))


def _alone_and_together(gpus: int) -> Iterator[tuple[Flow, ...]]:
    """Every pair alone, and beside every other one that shares no GPU with it."""
    pairs = [flow for (flow,) in _pairs(gpus)]
    yield from ((flow,) for flow in pairs)
    yield from (both for both in combinations(pairs, 2) if not both[0].places & both[1].places)


COPIES = {
    kind.name: kind
    for kind in (
        CopyKind(
            name="device",
            moves="from each GPU (or CPU rank) to each other one",
            flows=_pairs,
            reads=frozenset({"direction", "endpoint", "transport", "interface", "gpudirect"}),
            least_gpus=2,
        ),
        CopyKind(
            name="relay",
            moves="from each GPU to each other one by way of `through`, in pieces that follow each other",
            flows=_pairs,
            reads=frozenset({"through", "transport", "interface"}),
            least_gpus=3,
        ),
        CopyKind(
            name="to-host",
            moves="from each GPU to memory of the host",
            flows=lambda gpus: ((Flow(gpu, HOST),) for gpu in range(gpus)),
            reads=frozenset({"endpoint", "numa"}),
        ),
        CopyKind(
            name="from-host",
            moves="from memory of the host to each GPU",
            flows=lambda gpus: ((Flow(HOST, gpu),) for gpu in range(gpus)),
            reads=frozenset({"endpoint", "numa"}),
        ),
        CopyKind(
            name="local",
            moves="within the memory of each GPU",
            flows=lambda gpus: ((Flow(gpu, gpu),) for gpu in range(gpus)),
        ),
        CopyKind(
            name="fan-out",
            moves="from memory of the host to all GPUs at once",
            flows=lambda gpus: iter([tuple(Flow(HOST, gpu) for gpu in range(gpus))]),
            reads=frozenset({"endpoint", "numa"}),
            least_gpus=2,
        ),
        CopyKind(
            name="together",
            moves="between each pair of GPUs alone, and while another pair copies, too: what both share, they divide",
            flows=_alone_and_together,
            reads=frozenset({"transport", "interface"}),
            least_gpus=4,
            most_bytes=TOGETHER_BYTES,
        ),
        CopyKind(
            name="storage-cold",
            moves="from a file in the results folder to memory of the host, the file not in memory",
            flows=lambda _: iter([(Flow(STORAGE, HOST),)]),
        ),
        CopyKind(
            name="storage-warm",
            moves="from a file in the results folder to memory of the host, the file in memory already",
            flows=lambda _: iter([(Flow(STORAGE, HOST),)]),
        ),
    )
}


# ---- what is measured -----------------------------------------------------------------------------------------------


def planned(
    kinds: Sequence[str],
    *,
    gpus: int,
    sizes_bytes: Sequence[int],
    directions: Sequence[Direction] = ("one-way",),
    through: int | None = None,
) -> list[Entry]:
    """Everything that is measured, kind by kind; `shuffled` has the order."""
    return [
        Entry(name, flows, size_bytes, direction)
        for name in kinds
        for direction in (directions if "direction" in COPIES[name].reads else ("one-way",))
        for flows in _relayed(name, _in_direction(COPIES[name].flows(gpus), direction), through)
        for size_bytes in _sizes(COPIES[name], sizes_bytes)
    ]


def shuffled(entries: Sequence[Entry], seed: int) -> list[Entry]:
    """The same in random order, so that a machine that changes over time does not look like a pair or a size."""
    import random

    order = list(entries)
    random.Random(seed).shuffle(order)
    return order


def timings(entry: Entry, iterations: int) -> int:
    """How often an entry is copied and timed: `iterations` times, and large ones less often."""
    once = entry.direction == "both-ways" and entry.size_bytes >= ONCE_BOTH_WAYS_BYTES
    return min(iterations, max(1 if once else LEAST_TIMINGS, TIMED_BYTES // entry.size_bytes))


def warmups(entry: Entry, iterations: int, warmup: int) -> int:
    """How often it is copied before: no more than a quarter of what is timed, so that the largest sizes are not.

    On GPUs, what only the first copy of a pair takes is over before: some are made to see what they go over.
    """
    return min(warmup, timings(entry, iterations) // 4)


def planned_s(entries: Sequence[Entry], *, iterations: int, warmup: int, rate_Bps: Callable[[Entry], float]) -> float:
    """Seconds that measuring them will take where a copy runs at `rate_Bps` (all flows of an entry together)."""
    total_s = 0.0
    for entry in entries:
        count = timings(entry, iterations) + warmups(entry, iterations, warmup)
        total_s += CELL_s + count * (COPY_s + entry.moved_bytes / rate_Bps(entry))
    return total_s


def _in_direction(flows: Iterator[tuple[Flow, ...]], direction: Direction) -> Iterator[tuple[Flow, ...]]:
    if direction == "one-way":
        return flows
    return ((flow, Flow(flow.target, flow.source)) for (flow,) in flows)


def _relayed(name: str, flows: Iterator[tuple[Flow, ...]], through: int | None) -> Iterator[tuple[Flow, ...]]:
    """Of a relay: the pairs that `through` is not one of, by way of it."""
    if "through" not in COPIES[name].reads:
        return flows
    return ((Flow(flow.source, flow.target, through),) for (flow,) in flows if through not in flow.places)


def _sizes(kind: CopyKind, sizes_bytes: Sequence[int]) -> list[int]:
    """Of what runs together the largest size that tells, as every pair of pairs is measured."""
    if kind.most_bytes is None:
        return list(sizes_bytes)
    return [max((size for size in sizes_bytes if size <= kind.most_bytes), default=min(sizes_bytes))]
