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
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise, permutations

from resnetx.errors import ConfigError
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.graph import Family
from resnetx.interconnect.systems.paths import LinkFlow, Transport, fair_shares
from resnetx.interconnect.systems.system import System
from resnetx.operations import Operation

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
    return [orders[index] for index in _pack_steps(lanes, [directions(order) for order in orders], bound)]


def _pack_steps(lanes: Lanes, ways: Sequence[Sequence[RingStep]], bound: int) -> list[int]:
    """`_packing` of ways that take one direction of each lane."""
    gpus = range(len(lanes))
    room = {(a, b): lanes[a][b] for a, b in permutations(gpus, 2)}
    out = [[(gpu, other) for other in gpus if other != gpu] for gpu in gpus]
    into = [[(other, gpu) for other in gpus if other != gpu] for gpu in gpus]
    return _packing(room, ways, out + into, bound)


def pack_relayed(lanes: Lanes) -> list[Order]:
    """The most rings that fit if a step without a lane of its own may pass the GPU with most lanes to both ends.

    As NCCL searches them since 2.8 (paths.cc: PATH_NVB). An order has each GPU once; `relayed` has those between, too.
    """
    size = len(lanes)
    ways = {(a, b): _relayed_step(lanes, a, b) for a, b in permutations(range(size), 2)}
    reached = [[int(bool(ways.get((a, b)))) for b in range(size)] for a in range(size)]
    orders, complete = _orders(reached, closed=True)
    if not complete:
        return []
    steps_of = {order: directions(relayed(lanes, order)) for order in orders}
    once = [order for order, steps in steps_of.items() if len(set(steps)) == len(steps)]
    return [once[index] for index in _pack_steps(lanes, [steps_of[order] for order in once], fewest_lanes(lanes))]


def relayed(lanes: Lanes, order: Order) -> Order:
    """A ring with the GPUs that its steps without a lane of their own pass."""
    return tuple(gpu for step in directions(order) for gpu in _relayed_step(lanes, *step)[:-1])


def _relayed_step(lanes: Lanes, a: int, b: int) -> Order:
    """From one GPU to another: directly, through the GPU with most lanes to both, or (): neither is possible."""
    if lanes[a][b]:
        return (a, b)
    via = max(range(len(lanes)), key=lambda gpu: min(lanes[a][gpu], lanes[gpu][b]))
    return (a, via, b) if min(lanes[a][via], lanes[via][b]) else ()


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
    parts_handovers: int = 1  # in a step of gathering and scattering, for each one in a step of allreduce
    chain_parts: tuple[int, int] = (0, 0)  # of the buffer that fill the chain of broadcast and of reduce; 0: none do
    buffer_bytes: int = 2**22
    protocols: bool = False  # chooses among LL, LL128 and Simple (`protocols`)
    sends: bool = False  # has messages between GPUs (ncclSend and ncclRecv, 2.7 and later)
    relays: bool = False  # through a GPU that has NVLinks to both: rings since 2.8, messages since 2.11

    def piece_bytes(self, operation: Operation) -> int:
        """What a chain hands over at once; 0: nothing waits for it."""
        parts = self.chain_parts[operation.adds] if operation.along_a_chain else 0
        return self.buffer_bytes // parts if parts else 0


_RING_OLD = Hop(8.4e-6, 5.7e-6, 5.7e-6, 6.6e-6)  # tuning.cc of 2.5.6, the oldest that states them (protocol Simple)
_RING_NEW = Hop(8.4e-6, 3.4e-6, 5.7e-6, 14e-6)  # tuning.cc of 2.30.7 (Simple), and the next two
TREE = Hop(8.4e-6, 4.0e-6, 4.0e-6, 14e-6)
IN_SWITCH = Hop(0.0, 25e-6, 25e-6, 20.9e-6)
SOCKET = Hop(200e-6, 100e-6, 100e-6, 100e-6)  # assumed

GENERATIONS: dict[str, Generation] = {
    # broadcast.cu, reduce.cu and core.h of 1.3.4: two halves of a buffer of 2 MiB, each in four and two parts
    "nccl1": Generation(_RING_OLD, one_ring=True, chain_parts=(8, 4), buffer_bytes=2**21),
    # Both ladders on four rings of the P100 DGX-1 have a kink at 4 MiB: quarters of 4 MiB, which all operations but
    # these two still had in 2.3 (collectives.h; these have sixteenths). Its gathering takes as long as all-reduce.
    "nccl2": Generation(_RING_OLD, half_lanes_up_to=4, parts_handovers=2, chain_parts=(4, 4)),
    "nccl2.4": Generation(_RING_NEW, False, MOST_GPUS, False, TREE, protocols=True, sends=True),
    "nvls": Generation(
        _RING_NEW, False, MOST_GPUS, False, TREE, IN_SWITCH.nvlink_s, protocols=True, sends=True, relays=True
    ),
    "gloo": Generation(SOCKET),
}

TREE_SHARE = 0.92 * 0.5  # tuning.cc: of the rate of the links; up and down share the channels
IN_SWITCH_SHARE = ((10.0, 0.74), (9.0, 0.85))  # tuning.cc: (from this compute capability, share of the links' rate)
PIECE_BYTES = 2**19  # one slot of a buffer of 4 MiB in 8 (2.4 and later: collectives.h, comm.h)
SOCKET_Bps = 1.2e9  # measured: gloo's allreduce of 244 MB, two ranks, one host of 2 cores, 0.18 to 0.25 s (torch 2.15)


# ---- node rings -----------------------------------------------------------------------------------------------------
# How the GPUs of one node are joined for a collective: rings on direct NVLink, through switches, or along the bus.

AS_FAST = 0.999  # rings over NVLink that are about as fast as the bus are used


@dataclass(frozen=True)
class Ring:
    """One order of GPU ids and what it carries. A chain (of a tree) is a ring that is not closed."""

    order: tuple[int, ...]
    bandwidth_Bps: float
    walk: tuple[str, ...]  # the components that it passes, in order; a closed one comes back to the first
    closed: bool = True


@dataclass(frozen=True)
class NodeRings:
    """The rings of a node, and the chains of its trees."""

    rings: tuple[Ring, ...]
    chains: tuple[Ring, ...]
    family: Family  # of the slowest steps, which sets the latency
    ring_limit: str
    chain_limit: str
    lanes: Lanes | None  # direct NVLink lanes between the GPUs, where rings were packed into them
    notes: tuple[str, ...]
    copies_Bps: float = math.inf  # what copies get along the bus, of which kernels get a share; inf: not over the bus
    copies_limit: str = ""
    staged: bool = False  # in host memory, between some of them
    one_switch: bool = False  # of PCI Express, that all of them are below

    @property
    def ring_Bps(self) -> float:
        return sum(ring.bandwidth_Bps for ring in self.rings)

    @property
    def chain_Bps(self) -> float:
        return sum(chain.bandwidth_Bps for chain in self.chains)


def join(system: System, devices: tuple[int, ...], library: str, transport: Transport) -> NodeRings:
    """The best of what the generation tries on GPUs of one node. The order of the ids makes no difference."""
    if len(devices) == 1:
        alone = (Ring(devices, math.inf, (system.gpus[devices[0]].name,)),)
        return NodeRings(alone, alone, "nvlink", "", "", None, ())
    generation = GENERATIONS[library]
    nvlink = None
    if transport in ("auto", "peer"):
        nvlink = _switched(system, devices, generation) or _mesh(system, devices, generation)
    bus = _along_the_bus(system, devices, generation, transport, nvlink.ring_Bps if nvlink else 0.0)
    if bus is None:
        return nvlink if nvlink and nvlink.rings else _refuse_unjoined(system, devices, transport)
    if nvlink is None:
        return replace(bus, notes=(*_nvlink_unused(system, devices), *bus.notes)) if transport == "auto" else bus
    if nvlink.ring_Bps > AS_FAST * bus.ring_Bps:
        return nvlink
    # The bus carries the rings; chains may still go over NVLink.
    trees = nvlink if nvlink.chain_Bps > bus.chain_Bps else bus
    notes = (*nvlink.notes, *bus.notes)
    return replace(bus, chains=trees.chains, chain_limit=trees.chain_limit, lanes=nvlink.lanes, notes=notes)


def _nvlink_unused(system: System, devices: tuple[int, ...]) -> tuple[str, ...]:
    """Why NCCL 1 leaves out the NVLink that there is."""
    if any(paths.nvlink_lanes(system, a, b) for a, b in permutations(devices, 2)):
        return ("NCCL 1: NVLink does not join every two of these GPUs, so its one ring does not use it.",)
    if paths.nvlink_flow(system, devices[0], devices[1]).steps:
        return ("NCCL 1 is older than NVSwitches; its one ring does not use them (Li et al. 2019 ran it over PCIe).",)
    return ()


def _refuse_unjoined(system: System, devices: tuple[int, ...], transport: Transport) -> NodeRings:
    """Refuses, with two GPUs that no data can pass between."""
    for a, b in combinations(devices, 2):
        paths.flow(system, a, b, transport)
    raise ConfigError(f"devices={list(devices)}: no ring visits these GPUs of {system.name} with transport={transport}")


def _order(system: System, devices: tuple[int, ...]) -> tuple[int, ...]:
    """An order that visits GPUs of one switch, and of one CPU, one after the other."""
    return tuple(sorted(devices, key=lambda device: (_place(system, device), device)))


def _switched(system: System, devices: tuple[int, ...], generation: Generation) -> NodeRings | None:
    """Rings through NVSwitches, in any order, as many as a GPU has lanes; None where not all reach each other so."""
    if generation.one_ring:
        return None
    order = _order(system, devices)
    flows = [paths.nvlink_flow(system, a, b) for a, b in directions(order)]
    if not all(flow.steps for flow in flows) or all(len(flow.steps) == 1 for flow in flows):
        return None
    lanes = min(link.lanes_from(before) for flow in flows for before, _, link in flow.steps)
    note = f"NVSwitches join every GPU to every other, at {lanes} lanes each: any order of {lanes} rings will do."
    return _one_order(system, order, flows, True, lanes, (note,))


def _along_the_bus(
    system: System, devices: tuple[int, ...], generation: Generation, transport: Transport, nvlink_Bps: float
) -> NodeRings | None:
    """One ring over PCIe, staged in the host between GPUs that are no peers there.

    None where there is no such path, or its slowest link by itself is no faster than the rings over NVLink.
    """
    order = _order(system, devices)
    cross_cpus = generation.peers_cross_cpus or transport == "peer"
    flows = [paths.bus_flow(system, a, b, transport, cross_cpus) for a, b in directions(order)]
    usable = [flow for flow in flows if flow]
    if len(usable) < len(flows):
        return None
    links = [link.leaving(before) for flow in usable for before, _, link in flow.steps]
    if nvlink_Bps > AS_FAST * min(max(link.kernel_Bps, link.copy_Bps) for link in links):
        return None
    shown = "-".join(map(str, (*order[:16], *(["..."] if len(order) > 16 else []), order[0])))
    notes = [f"One ring in the order of the bus: {shown}."]
    if staged := [f"{flow.steps[0][0]} to {flow.steps[-1][1]}" for flow in usable if flow.staged]:
        more = f" and {len(staged) - 4} more" if len(staged) > 4 else ""
        notes.append(f"Staged in host memory, because over the bus they are no peers: {', '.join(staged[:4])}{more}.")
    # NCCL 1 is given the rates of copies here: see the docstring of `plan`.
    return _one_order(system, order, usable, not generation.one_ring, 1, tuple(notes))


def _one_order(
    system: System,
    order: tuple[int, ...],
    flows: Sequence[LinkFlow],
    kernels: bool,
    channels: int,
    notes: tuple[str, ...],
) -> NodeRings:
    """`channels` equal rings that share these flows, and the chains that leave their last step out."""
    on_nvlink = all(link.wire.family == "nvlink" and not flow.staged for flow in flows for _, _, link in flow.steps)
    rate_Bps, limit = min(fair_shares(system, flows, kernels))
    copies_Bps, copies_limit = _copies(system, flows) if kernels and not on_nvlink else (math.inf, "")
    names = [before for flow in flows for before, _, _ in flow.steps]
    opened = names[: len(names) - len(flows[-1].steps) + 1]
    return NodeRings(
        rings=(Ring(order, rate_Bps / channels, tuple(names)),) * channels,
        chains=(Ring(order, rate_Bps / channels, tuple(opened), closed=False),) * channels,
        family="nvlink" if on_nvlink else "pcie",
        ring_limit=limit,
        chain_limit=limit,
        lanes=None,
        notes=notes,
        copies_Bps=copies_Bps,
        copies_limit=copies_limit,
        staged=any(flow.staged for flow in flows),
        one_switch=not on_nvlink and all(len(flow.steps) == 2 for flow in flows),
    )


def _copies(system: System, flows: Sequence[LinkFlow]) -> tuple[float, str]:
    """(B/s, where) of copies along the bus: of the slowest link by itself or, where they are staged, of the host."""
    if any(flow.staged for flow in flows):
        return min(fair_shares(system, flows))
    steps = [step for flow in flows for step in flow.steps]
    return min((link.leaving(before).copy_Bps, f"{before} to {after}") for before, after, link in steps)


def _place(system: System, device: int) -> tuple[str, ...]:
    """Where a GPU hangs in its node: the names from its CPU down, so that neighbours in the tree sort together."""
    return tuple(reversed(paths.path_to_host(system, device)))


def _mesh(system: System, devices: tuple[int, ...], generation: Generation) -> NodeRings | None:
    """Rings over direct NVLink; None where no two of these GPUs have one, or not all, as one ring needs."""
    lanes = [[paths.nvlink_lanes(system, a, b) for b in devices] for a in devices]
    joined = [lanes[a][b] > 0 for a, b in permutations(range(len(devices)), 2)]
    if not any(joined) or (generation.one_ring and not all(joined)):
        return None
    lane_Bps, names = paths.lane_Bps(system, devices), [system.gpus[device].name for device in devices]
    links = paths.direct_links_name(system, devices)
    if generation.one_ring:
        order, share = widest(lanes)
        orders, note = [order], f"NCCL 1: one ring over the {links}s of mutual peers."
    else:
        orders, share = _pack(lanes, len(devices) <= generation.half_lanes_up_to)
        note = _about_mesh(names, lanes, links, len(orders), share)
        if not orders and generation.relays and (orders := pack_relayed(lanes)):
            rings_found = _about_mesh(names, lanes, links, len(orders), share)
            note += f" With steps through a GPU that has links to both (NCCL 2.8 and later): {rings_found}"
    chains = pack_chains(lanes) if generation.tree else []

    def named(order: Order, bandwidth_Bps: float, closed: bool) -> Ring:
        passed = relayed(lanes, order) if closed and not generation.one_ring else order
        gpus, walk = tuple(devices[index] for index in order), tuple(names[index] for index in passed)
        return Ring(gpus, bandwidth_Bps, walk, closed)

    return NodeRings(
        rings=tuple(named(order, lane_Bps * share, True) for order in orders),
        chains=tuple(named(order, lane_Bps, False) for order in chains),
        family="nvlink",
        ring_limit=_tightest(names, lanes, links, len(orders) * share),
        chain_limit=_tightest(names, lanes, links, len(chains)),
        lanes=lanes,
        notes=(note,),
    )


def _pack(lanes: Lanes, halves: bool) -> tuple[list[Order], float]:
    """(rings, the share of a lane that each fills): whole lanes, unless halves carry more."""
    whole = pack_rings(lanes)
    if halves and 0 < len(whole) < fewest_lanes(lanes):
        half = pack_rings([[2 * count for count in row] for row in lanes])
        if len(half) > 2 * len(whole):
            return half, 0.5
    return whole, 1.0


def _tightest(names: Sequence[str], lanes: Lanes, links: str, carried: float) -> str:
    """The GPU with the fewest lanes to the others, or from them: nothing passes it more often than it has lanes."""
    fewest = fewest_lanes(lanes)
    rows, way = next((rows, way) for rows, way in ((lanes, "to"), (_turned(lanes), "from")) if fewest in map(sum, rows))
    index = [sum(row) for row in rows].index(fewest)
    others = ", ".join(other for other, count in zip(names, rows[index], strict=True) if count)
    unused = f", of which {carried:g} can be filled" if carried < fewest else ""
    return f"{names[index]}: {fewest} {links} lane{'s' * (fewest != 1)} {way} {others or 'none of the others'}{unused}"


def _turned(lanes: Lanes) -> Lanes:
    """The lanes into each GPU, where `lanes` has those out of it."""
    return list(zip(*lanes, strict=True))


def _about_mesh(names: Sequence[str], lanes: Lanes, links: str, rings_found: int, share: float) -> str:
    """The rings that fit into lanes of `links`, in a sentence, or why there is none; `share`: of a lane, for each."""
    if rings_found:
        kind = (
            f"half lanes of {links}, worth {rings_found * share:g} whole ones"
            if share < 1
            else f"whole lanes of {links}"
        )
        return f"{rings_found} ring{'s' * (rings_found > 1)} on {kind}."
    return f"No ring of {links} lanes visits all {len(names)} GPUs: {_why_no_ring(names, lanes, links)}."


def _why_no_ring(names: Sequence[str], lanes: Lanes, links: str) -> str:
    out_and_in = list(zip(names, lanes, _turned(lanes), strict=True))
    for name, out, into in out_and_in:
        if sum(map(bool, map(max, out, into))) < 2:
            return f"{name} has fewer than two {links} neighbours among them"
    for name, out, into in out_and_in:
        if not (any(out) and any(into)):
            return f"{name} has {links} lanes {'from' if any(into) else 'to'} them only"
    return "no order of them closes"
