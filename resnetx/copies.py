"""Pair copies: what each kind moves between which places, which settings it reads, and in which order it is measured.

    entries = planned(["device"], gpus=4, sizes_bytes=[8, 2**20], directions=["one-way"])
    planned_s(entries, iterations=20, warmup=5, rate_Bps=18e9)

One entry of `COPIES` is all that planning knows of a kind; `measure.bench` has how it is run on GPUs and on CPU
ranks. A place is a GPU (or CPU rank) by its number among the bench's devices, memory of the host ("host"), or
"storage".

References: Tartan (Li et al. 2019) for pairs in both directions; nvbandwidth for host memory and what runs at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Literal

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

    On GPUs, what only the first copy of a pair takes is over before: some are made to see what they go over,
    between nodes one of a byte.
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
