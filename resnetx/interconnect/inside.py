"""How the GPUs of one node are joined for a collective: rings on direct NVLink, through switches, or along the bus."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from resnetx.interconnect import paths, rings
from resnetx.interconnect.generations import GENERATIONS, Generation
from resnetx.interconnect.parts import Family
from resnetx.interconnect.paths import Means
from resnetx.interconnect.rings import Lanes
from resnetx.interconnect.sharing import Flow, fair_shares
from resnetx.interconnect.system import System


@dataclass(frozen=True)
class Ring:
    """One order of GPU ids and what it carries. A chain (of a tree) is a ring that is not closed."""

    order: tuple[int, ...]
    bandwidth_Bps: float
    walk: tuple[str, ...]  # the components that it passes, in order; a closed one comes back to the first
    closed: bool = True


@dataclass(frozen=True)
class Inside:
    """The rings of a node, and the chains of its trees."""

    rings: tuple[Ring, ...]
    chains: tuple[Ring, ...]
    family: Family  # of the slowest steps, which sets the latency
    ring_limit: str
    chain_limit: str
    lanes: Lanes | None  # direct NVLink lanes between the GPUs, where rings were packed into them
    notes: tuple[str, ...]

    @property
    def ring_Bps(self) -> float:
        return sum(ring.bandwidth_Bps for ring in self.rings)

    @property
    def chain_Bps(self) -> float:
        return sum(chain.bandwidth_Bps for chain in self.chains)


def join(system: System, devices: tuple[int, ...], library: str, transport: Means) -> Inside:
    """The best of what the generation tries on GPUs of one node."""
    if len(devices) == 1:
        alone = (Ring(devices, math.inf, (system.gpus[devices[0]].name,)),)
        return Inside(alone, alone, "nvlink", "", "", None, ())
    if library == "nccl1":
        return _first_generation(system, devices, transport)
    bus = _along_the_bus(system, devices, transport)
    mesh = _mesh(system, devices, GENERATIONS[library]) if transport in ("auto", "peer") else None
    if mesh is None:
        return bus
    if mesh.ring_Bps > 0.999 * bus.ring_Bps:
        return mesh
    # The bus carries the rings; chains may still go over NVLink.
    trees = mesh if mesh.chain_Bps > bus.chain_Bps else bus
    return replace(
        bus, chains=trees.chains, chain_limit=trees.chain_limit, lanes=mesh.lanes, notes=(*mesh.notes, *bus.notes)
    )


def _first_generation(system: System, devices: tuple[int, ...], transport: Means) -> Inside:
    """One ring; over NVLink only among mutual peers."""
    if transport == "auto" and not all(paths.are_peers(system, a, b) for a in devices for b in devices):
        found = _along_the_bus(system, devices, "bus", channels=1, kernels=False)
        note = "NCCL 1: not all these GPUs are mutual peers, so its ring goes over PCIe and the host, not over NVLink."
        return replace(found, notes=(note, *found.notes))
    found = _along_the_bus(system, devices, transport, channels=1, kernels=transport != "host")
    return replace(found, notes=("NCCL 1: one ring over the fastest links of mutual peers.", *found.notes))


def _along_the_bus(
    system: System, devices: tuple[int, ...], transport: Means, channels: int | None = None, kernels: bool = True
) -> Inside:
    """One order that visits GPUs of one switch, and of one CPU, one after the other.

    Through NVSwitches any order is as good, and there are as many rings as a GPU has lanes, or `channels` of them.
    """
    order = tuple(sorted(devices, key=lambda device: (_place(system, device), device)))
    flows = [paths.flow(system, a, b, transport) for a, b in rings.directions(order)]
    rate_Bps, limit = min(fair_shares(system, flows, kernels))
    on_nvlink = all(link.wire.family == "nvlink" for flow in flows for _, _, link in flow.steps)
    switched = on_nvlink and all(len(flow.steps) > 1 and not flow.staged for flow in flows)
    channels = channels or (min(link.lanes for flow in flows for _, _, link in flow.steps) if switched else 1)
    names = [before for flow in flows for before, _, _ in flow.steps]
    opened = names[: len(names) - len(flows[-1].steps) + 1]
    return Inside(
        rings=(Ring(order, rate_Bps / channels, tuple(names)),) * channels,
        chains=(Ring(order, rate_Bps / channels, tuple(opened), closed=False),) * channels,
        family="nvlink" if on_nvlink and not any(flow.staged for flow in flows) else "pcie",
        ring_limit=limit,
        chain_limit=limit,
        lanes=None,
        notes=tuple(_about_order(order, flows, channels)),
    )


def _place(system: System, device: int) -> tuple[str, ...]:
    """Where a GPU hangs in its node: the names from its CPU down, so that neighbours in the tree sort together."""
    return tuple(reversed(paths.way_to_host(system, device)))


def _about_order(order: Sequence[int], flows: Sequence[Flow], channels: int) -> list[str]:
    if channels > 1:
        return [f"Switches join every GPU to every other, at {channels} lanes each: {channels} rings in any order."]
    shown = "-".join(map(str, (*order[:16], *(["..."] if len(order) > 16 else []), order[0])))
    said = [f"One ring in the order of the bus: {shown}."]
    if staged := [f"{flow.steps[0][0]} to {flow.steps[-1][1]}" for flow in flows if flow.staged]:
        more = f" and {len(staged) - 4} more" if len(staged) > 4 else ""
        said.append(f"Staged in host memory, for they are no peers: {', '.join(staged[:4])}{more}.")
    return said


def _mesh(system: System, devices: tuple[int, ...], generation: Generation) -> Inside | None:
    """Rings over direct NVLink; None where no two of these GPUs have one."""
    lanes = [[paths.nvlink_lanes(system, a, b) for b in devices] for a in devices]
    if not any(map(any, lanes)):
        return None
    lane_Bps = paths.lane_Bps(system, devices)
    orders, share = _pack(lanes, len(devices) <= generation.half_lanes_up_to)
    chains = rings.pack_chains(lanes) if generation.tree else []

    def named(order: rings.Order, bandwidth_Bps: float, closed: bool) -> Ring:
        gpus = tuple(devices[place] for place in order)
        return Ring(gpus, bandwidth_Bps, tuple(system.gpus[gpu].name for gpu in gpus), closed)

    return Inside(
        rings=tuple(named(order, lane_Bps * share, True) for order in orders),
        chains=tuple(named(order, lane_Bps, False) for order in chains),
        family="nvlink",
        ring_limit=_tightest(devices, lanes, len(orders) * share),
        chain_limit=_tightest(devices, lanes, len(chains)),
        lanes=lanes,
        notes=(_about_mesh(devices, lanes, len(orders), share),),
    )


def _pack(lanes: rings.Lanes, halves: bool) -> tuple[list[rings.Order], float]:
    """(rings, the share of a lane that each fills): whole lanes, unless halves carry more."""
    whole = rings.pack_rings(lanes)
    if halves and 0 < len(whole) < min(map(sum, lanes)):
        half = rings.pack_rings([[2 * count for count in row] for row in lanes])
        if len(half) > 2 * len(whole):
            return half, 0.5
    return whole, 1.0


def _tightest(devices: Sequence[int], lanes: rings.Lanes, carried: float) -> str:
    """The GPU with the fewest lanes to the others: nothing passes it more often than it has lanes."""
    fewest = min(map(sum, lanes))
    place = [sum(row) for row in lanes].index(fewest)
    others = ", ".join(f"gpu{other}" for other, count in zip(devices, lanes[place], strict=True) if count)
    unused = f", of which {carried:g} can be filled" if carried < fewest else ""
    return f"gpu{devices[place]}: {fewest} NVLink lane{'s' * (fewest != 1)} to {others or 'none of the others'}{unused}"


def _about_mesh(devices: Sequence[int], lanes: rings.Lanes, found: int, share: float) -> str:
    if found:
        plural = "s" if found > 1 else ""
        return (
            f"{found} ring{plural} on {'half' if share < 1 else 'whole'} NVLink lanes, {found * share:g} lanes' worth."
        )
    ends = [device for device, row in zip(devices, lanes, strict=True) if sum(map(bool, row)) < 2]
    why = f"gpu{ends[0]} has fewer than two NVLink neighbours among them" if ends else "no order of them closes"
    return f"No ring of NVLink lanes visits all {len(devices)} GPUs: {why}."
