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
    size, bound = len(lanes), fewest(lanes)
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
    return [orders[index] for index in _pack(room, [directions(order) for order in orders], out + into, bound)]


def pack_chains(lanes: Lanes) -> list[Order]:
    """The most chains that fit at once; each takes both directions of the lanes it uses."""
    size = len(lanes)
    lanes = [[min(lanes[a][b], lanes[b][a]) for b in range(size)] for a in range(size)]
    orders, _ = _orders(lanes, closed=False)
    room = {(a, b): lanes[a][b] for a, b in combinations(range(size), 2)}
    members = [[(min(step), max(step)) for step in pairwise(order)] for order in orders]
    at = [[step for step in room if gpu in step] for gpu in range(size)]
    bound = min(*map(sum, lanes), sum(room.values()) // (size - 1))
    return [orders[index] for index in _pack(room, members, at, bound)]


def widest(lanes: Lanes) -> tuple[Order, float]:
    """The one ring whose narrowest link has the most lanes, and how many; of a mesh in which a ring exists."""
    if len(lanes) == 2:
        return (0, 1), fewest(lanes)
    orders, _ = _orders(lanes, closed=True)
    width = {order: min(lanes[a][b] for a, b in directions(order)) for order in orders}
    best = max(orders, key=lambda order: width[order])
    return best, width[best]


def fewest(lanes: Lanes) -> int:
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
        return float(fewest(lanes))
    orders, complete = _orders(lanes, closed=True)
    if not complete:
        return float(fewest(lanes))  # too many for the program
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


def _pack(
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
