"""Rings and chains packed into the lanes that join GPUs directly, as collective libraries search them.

A ring visits every GPU once and uses one lane of each link it crosses, in the direction of the ring; lanes the other
way are of no use to it. A chain is a ring left open, run through in both directions. Lanes are whole, as in the search
of NCCL 2.0 to 2.3 (its source, `p2p.cu`); who wants halves doubles them. `fractional` is the bound that no search can
exceed. The search is exact until its budget is spent, as it is by some dense meshes; what it returns then is a valid
packing, perhaps not the largest. With so many orders that they cannot be listed (9 GPUs that are all linked), rings are
taken greedily.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, permutations

from resnetx.errors import ConfigError

Lanes = Sequence[Sequence[int]]  # [from][to]: lanes in this direction; a link both ways is in both places
Order = tuple[int, ...]
RingStep = tuple[int, int]

BUDGET = 20_000  # steps of one search; the subsets of the 8-GPU cube meshes need 5,405 at most
MOST_ORDERS = 10_000  # that are listed; eight GPUs that are all linked have 5,040
MOST_GPUS = 16  # of a mesh without switches: no machine has more


def pack_rings(lanes: Lanes) -> list[Order]:
    """The most rings that fit at once; each use of a lane's direction takes that direction for itself."""
    size, bound = len(lanes), fewest_lanes(lanes)
    if size == 2:  # there and back
        return [(0, 1)] * bound
    common = math.gcd(*(count for row in lanes for count in row))
    if common > 1 and len(found := pack_rings([[count // common for count in row] for row in lanes])) * common == bound:
        return found * common
    orders, _ = _orders(lanes, closed=True)
    if len(orders) > MOST_ORDERS:
        return _greedily(lanes)
    room = {(a, b): lanes[a][b] for a, b in permutations(range(size), 2)}
    out = [[(gpu, other) for other in range(size) if other != gpu] for gpu in range(size)]
    into = [[(other, gpu) for other in range(size) if other != gpu] for gpu in range(size)]
    return [orders[index] for index in _packing(room, [directions(order) for order in orders], out + into, bound)]


def pack_chains(lanes: Lanes) -> list[Order]:
    """The most chains that fit at once; each takes both directions of the lanes it uses."""
    size = len(lanes)
    lanes = [[min(lanes[a][b], lanes[b][a]) for b in range(size)] for a in range(size)]
    orders, _ = _orders(lanes, closed=False)
    room = {(a, b): lanes[a][b] for a, b in combinations(range(size), 2)}
    members = [[(min(step), max(step)) for step in pairwise(order)] for order in orders]
    at = [[step for step in room if gpu in step] for gpu in range(size)]
    bound = min(*map(sum, lanes), sum(room.values()) // (size - 1))
    return [orders[index] for index in _packing(room, members, at, bound)]


def widest(lanes: Lanes) -> tuple[Order, float]:
    """The one ring whose narrowest link has the most lanes, and how many; of a mesh in which a ring exists."""
    if len(lanes) == 2:
        return (0, 1), fewest_lanes(lanes)
    orders, _ = _orders(lanes, closed=True)
    width = {order: min(lanes[a][b] for a, b in directions(order)) for order in orders}
    best = max(orders, key=lambda order: width[order])
    return best, width[best]


def fewest_lanes(lanes: Lanes) -> int:
    """The lanes out of one GPU, or into one, that has the fewest: no more rings pass it."""
    return min(*map(sum, lanes), *map(sum, zip(*lanes, strict=True)))


def directions(order: Order) -> tuple[RingStep, ...]:
    """What a ring uses: (from, to) of every step."""
    return tuple(pairwise((*order, order[0])))


def fractional(lanes: Lanes) -> float:
    """How many rings fit if they may take any fraction of a lane: the optimum of the linear program."""
    import numpy as np
    from scipy.optimize import linprog  # type: ignore[import-untyped]

    if len(lanes) == 2:
        return float(fewest_lanes(lanes))
    orders, complete = _orders(lanes, closed=True)
    if not complete:
        return float(fewest_lanes(lanes))  # too many for the program
    if not orders:
        return 0.0
    present = [(a, b) for a, row in enumerate(lanes) for b, count in enumerate(row) if count]
    place = {direction: index for index, direction in enumerate(present)}
    uses = np.zeros((len(present), len(orders)))
    for column, order in enumerate(orders):
        for direction in directions(order):
            uses[place[direction], column] = 1
    found = linprog(-np.ones(len(orders)), A_ub=uses, b_ub=[lanes[a][b] for a, b in present], method="highs")
    return float(-found.fun)


def _orders(lanes: Lanes, closed: bool) -> tuple[list[Order], bool]:
    """(orders, whether these are all): rings from GPU 0, in both directions, or chains, each from its lower end.

    Not all of them are listed where there are more than are of use, or where few of very many tries are orders.
    """
    size = len(lanes)
    if size > MOST_GPUS:
        raise ConfigError(
            f"devices: {size} GPUs in a mesh without switches; ring search is made for at most {MOST_GPUS}"
        )
    near = [[other for other in range(size) if lanes[gpu][other]] for gpu in range(size)]
    steps = 0

    def grow(order: list[int], free: set[int]) -> Iterator[Order]:
        nonlocal steps
        steps += 1
        if not free:
            if lanes[order[-1]][order[0]] if closed else order[0] < order[-1]:
                yield tuple(order)
            return
        for other in near[order[-1]]:
            if other in free and steps < 10 * BUDGET:
                yield from grow([*order, other], free - {other})

    starts = range(1 if closed else size)
    grown = (order for start in starts for order in grow([start], set(range(size)) - {start}))
    orders = list(islice(grown, MOST_ORDERS + 1))
    return orders, len(orders) <= MOST_ORDERS and steps < 10 * BUDGET


def _greedily(lanes: Lanes) -> list[Order]:
    """Rings one after the other over the lanes that are left, each stepping to the nearest ids that it can."""
    left = [list(row) for row in lanes]
    found: list[Order] = []
    while order := _one_ring(left):
        found.append(order)
        for a, b in directions(order):
            left[a][b] -= 1
    return found


def _one_ring(lanes: Lanes) -> Order | None:
    """A ring through all members, by depth-first search; None where there is none, or the search gives up."""
    steps = 0

    def grow(order: list[int]) -> Order | None:
        nonlocal steps
        steps += 1
        if len(order) == len(lanes):
            return tuple(order) if lanes[order[-1]][order[0]] else None
        for stride in range(1, len(lanes)):
            other = (order[-1] + stride) % len(lanes)
            if other in order or not lanes[order[-1]][other]:
                continue
            if steps > BUDGET // 10:
                return None
            if found := grow([*order, other]):
                return found
        return None

    return grow([0])


def _packing(
    room: dict[RingStep, int],
    members: Sequence[Sequence[RingStep]],
    cuts: Sequence[Sequence[RingStep]],
    bound: int,
) -> list[int]:
    """Indexes of as many members (repeats allowed) as `room` takes; every member uses every cut at least once.

    Depth first, each member with itself and later ones only. Without recursion, as wide links take thousands.
    """
    best: list[int] = []
    chosen: list[int] = []
    steps, index = 0, 0
    while True:
        if len(chosen) > len(best):
            best = list(chosen)
        if len(best) == bound:
            return best
        if len(chosen) + min(sum(room[step] for step in cut) for cut in cuts) <= len(best):
            index = len(members)  # nothing below here is better
        while index < len(members) and not all(room[step] for step in members[index]):
            steps += 1
            index += 1
        if (steps := steps + 1) > BUDGET:
            return best
        if index < len(members):
            chosen.append(index)
            for step in members[index]:
                room[step] -= 1
        elif chosen:
            index = chosen.pop()
            for step in members[index]:
                room[step] += 1
            index += 1
        else:
            return best


# Generations of collective libraries: what each tries, and its fixed times, from the source of NCCL.
#
# `tuning.cc` is src/graph/tuning.cc of NVIDIA/nccl, where the figures serve to choose an algorithm; here they are
# times.


@dataclass(frozen=True)
class Hop:
    """Seconds that no byte costs: once per operation, and per step by what the step crosses."""

    base_s: float
    nvlink_s: float
    pcie_s: float  # also through the host
    network_s: float  # by the library, without the network's own latency


@dataclass(frozen=True)
class Generation:
    """What one generation of a library tries."""

    ring: Hop
    one_ring: bool = False  # and NVLink only among mutual peers
    half_lanes_up_to: int = 0  # GPUs; rings on half lanes are tried for so many
    peers_cross_cpus: bool = True  # peer traffic through a PCIe root, where the CPU lets it; else staged in its memory
    tree: Hop | None = None  # None: it has no trees
    in_switch_s: float | None = None  # fixed time of reduction inside switches; None: it does not use it
    other_handovers: int = 1  # in a step of any other collective, for each one in a step of allreduce
    fills_chains: bool = False  # broadcast and reduce pay for the pieces that fill the chain
    protocols: bool = False  # chooses among LL, LL128 and Simple (`protocols`)
    sends: bool = False  # has messages between GPUs (ncclSend and ncclRecv, 2.7 and later)
    relays: bool = False  # sends them through a GPU that has NVLinks to both (NCCL_NVB_DISABLE, 2.11 and later)


_RING_OLD = Hop(8.4e-6, 5.7e-6, 5.7e-6, 6.6e-6)  # tuning.cc of 2.5.6, the oldest that states them (protocol Simple)
_RING_NEW = Hop(8.4e-6, 3.4e-6, 5.7e-6, 14e-6)  # tuning.cc of 2.30.7 (Simple), and the next two
TREE = Hop(8.4e-6, 4.0e-6, 4.0e-6, 14e-6)
_IN_SWITCH_S = 25e-6
SOCKET = Hop(200e-6, 100e-6, 100e-6, 100e-6)  # assumed

GENERATIONS: dict[str, Generation] = {
    "nccl1": Generation(_RING_OLD, one_ring=True, fills_chains=True),
    # collectives.h of 2.0 to 2.3: a step has two parts in allreduce, each handed over by itself, and four in all others
    "nccl2": Generation(_RING_OLD, half_lanes_up_to=4, other_handovers=2, fills_chains=True),
    "nccl2.4": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, protocols=True, sends=True),
    "nvls": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, _IN_SWITCH_S, protocols=True, sends=True, relays=True),
    "gloo": Generation(SOCKET),
}

TREE_SHARE = 0.92 * 0.5  # tuning.cc: of the rate of the links; up and down share the channels
IN_SWITCH_SHARE = ((10.0, 0.74), (9.0, 0.85))  # tuning.cc: (from this compute capability, share of the links' rate)
# Broadcast and reduce go down the ring in pieces of one slot of its buffer (4 MiB in 8 slots; collectives.h, comm.h).
PIECE_BYTES = 2**19
SOCKET_Bps = 1.2e9  # measured: gloo's allreduce of 244 MB, two ranks, one host of 2 cores, 0.18 to 0.25 s (torch 2.15)
