"""How the GPUs of one node are joined for a collective: rings on direct NVLink, through switches, or along the bus."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import rings
from resnetx.interconnect.collectives.rings import GENERATIONS, Generation, Lanes
from resnetx.interconnect.systems import paths
from resnetx.interconnect.systems.link_search import LinkFlow, fair_shares
from resnetx.interconnect.systems.parts import Family
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import System

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
    flows = [paths.nvlink_flow(system, a, b) for a, b in rings.directions(order)]
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
    flows = [paths.bus_flow(system, a, b, transport, cross_cpus) for a, b in rings.directions(order)]
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
        order, share = rings.widest(lanes)
        orders, note = [order], f"NCCL 1: one ring over the {links}s of mutual peers."
    else:
        orders, share = _pack(lanes, len(devices) <= generation.half_lanes_up_to)
        note = _about_mesh(names, lanes, links, len(orders), share)
    chains = rings.pack_chains(lanes) if generation.tree else []

    def named(order: rings.Order, bandwidth_Bps: float, closed: bool) -> Ring:
        gpus, walk = zip(*((devices[index], names[index]) for index in order), strict=True)
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


def _pack(lanes: rings.Lanes, halves: bool) -> tuple[list[rings.Order], float]:
    """(rings, the share of a lane that each fills): whole lanes, unless halves carry more."""
    whole = rings.pack_rings(lanes)
    if halves and 0 < len(whole) < rings.fewest_lanes(lanes):
        half = rings.pack_rings([[2 * count for count in row] for row in lanes])
        if len(half) > 2 * len(whole):
            return half, 0.5
    return whole, 1.0


def _tightest(names: Sequence[str], lanes: rings.Lanes, links: str, carried: float) -> str:
    """The GPU with the fewest lanes to the others, or from them: nothing passes it more often than it has lanes."""
    fewest = rings.fewest_lanes(lanes)
    rows, way = next((rows, way) for rows, way in ((lanes, "to"), (_turned(lanes), "from")) if fewest in map(sum, rows))
    index = [sum(row) for row in rows].index(fewest)
    others = ", ".join(other for other, count in zip(names, rows[index], strict=True) if count)
    unused = f", of which {carried:g} can be filled" if carried < fewest else ""
    return f"{names[index]}: {fewest} {links} lane{'s' * (fewest != 1)} {way} {others or 'none of the others'}{unused}"


def _turned(lanes: rings.Lanes) -> rings.Lanes:
    """The lanes into each GPU, where `lanes` has those out of it."""
    return list(zip(*lanes, strict=True))


def _about_mesh(names: Sequence[str], lanes: rings.Lanes, links: str, rings_found: int, share: float) -> str:
    """The rings that fit into lanes of `links`, in a sentence, or why there is none; `share`: of a lane, for each."""
    if rings_found:
        kind = (
            f"half lanes of {links}, worth {rings_found * share:g} whole ones"
            if share < 1
            else f"whole lanes of {links}"
        )
        return f"{rings_found} ring{'s' * (rings_found > 1)} on {kind}."
    return f"No ring of {links} lanes visits all {len(names)} GPUs: {_why_no_ring(names, lanes, links)}."


def _why_no_ring(names: Sequence[str], lanes: rings.Lanes, links: str) -> str:
    out_and_in = list(zip(names, lanes, _turned(lanes), strict=True))
    for name, out, into in out_and_in:
        if sum(map(bool, map(max, out, into))) < 2:
            return f"{name} has fewer than two {links} neighbours among them"
    for name, out, into in out_and_in:
        if not (any(out) and any(into)):
            return f"{name} has {links} lanes {'from' if any(into) else 'to'} them only"
    return "no order of them closes"
