"""What gloo's messages cost over the links of the lab: rings in the order of ranks, and messages between any of them.

    lab_plan(system, Lab(system="gx8", scale=100, transport="auto"), devices=range(4)).cost(64 * 2**20)

Gloo all-reduces along one ring in the order of ranks, whatever joins them, in segments that keep every step busy
(gloo/allreduce.cc): it moves at the rate of the link that most steps of the ring share in one direction. All-to-all,
send-receive, gather and scatter are messages that start at once, as copies to one rank from all others are: they end
when the link with most to carry for its rate has carried it.
"""

from collections.abc import Iterable, Sequence

from resnetx.choices import Lab
from resnetx.errors import ConfigError
from resnetx.interconnect.algorithm import Algorithm
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.graph import System
from resnetx.interconnect.lab_network import LabNetwork, lab_network
from resnetx.interconnect.messages import messages
from resnetx.interconnect.node_rings import Ring
from resnetx.interconnect.rings import directions
from resnetx.interconnect.star import Copies, Star
from resnetx.operations import OPERATIONS, Operation

Share = tuple[int, int, float]  # (source, target, bytes of it)

# Measured: all-reduces of 8 bytes between 2, 4 and 8 namespaces, 0.12, 0.56 and 1.14 ms (two cores, SCHED_RR, torch
# 2.15); of one step, of which there are two for each rank but one.
STEP_S = 85e-6


def lab_plan(system: System, lab: Lab, devices: Sequence[int], collective: str = "allreduce") -> CollectivePlan:
    """How gloo runs a collective between these GPUs of a system in the lab."""
    if not _modelled(OPERATIONS[collective]):
        known = ", ".join(name for name, each in OPERATIONS.items() if _modelled(each))
        raise ConfigError(f"collective={collective}: what gloo does for it in the lab is not modelled; use {known}")
    operation, ranks = OPERATIONS[collective], len(devices)
    rings: tuple[Ring, ...] = ()
    network = lab_network(system, list(devices), ranks, lab.scale, lab.transport)
    fixed_s, links = operation.steps(ranks) * STEP_S, f"over links 1/{lab.scale:g} as fast as described."
    if operation.sends:
        shares = [(each.sender, each.receiver, each.share) for each in messages(operation, [tuple(range(ranks))])]
        algorithm = Algorithm("sends", fixed_s, *together(network, shares))
        note = f"{len(shares)} messages of processes at once, {links}"
    else:
        s_per_byte, limit = max(together(network, way) for way in _both_ways(ranks))
        algorithm = Algorithm("ring", fixed_s, operation.bus_factor(ranks) * s_per_byte, limit)
        rings = (Ring(tuple(devices), 1 / s_per_byte, tuple(network.ranks)),)
        note = f"One ring of processes in the order of ranks, {links}"
    return CollectivePlan(
        system=system,
        collective=collective,
        devices=tuple(devices),
        library="gloo",
        algorithms=(algorithm,),
        rings=rings,
        chains=(),
        lanes=None,
        notes=(note,),
        transport=lab.transport,
    )


def _modelled(operation: Operation) -> bool:
    return operation.name == "allreduce" or operation.sends is not None


def _both_ways(ranks: int) -> list[list[Share]]:
    """The steps of a ring in the order of ranks, and those of the opposite one."""
    places = directions(tuple(range(ranks)))
    return [[(a, b, 1.0) for a, b in places], [(b, a, 1.0) for a, b in places]]


def lab_star(system: System, lab: Lab, devices: Sequence[int]) -> Star:
    """Copies between the ranks and the first of them."""
    network = lab_network(system, list(devices), len(devices), lab.scale, lab.transport)
    others = range(1, len(devices))
    ways = ([(rank, 0, 1.0) for rank in others], [(0, rank, 1.0) for rank in others])
    inward, outward = (
        Copies((), STEP_S, 1 / s_per_byte, limit) for s_per_byte, limit in (together(network, way) for way in ways)
    )
    return Star(inward, outward)


def together(network: LabNetwork, shares: Iterable[Share]) -> tuple[float, str]:
    """(seconds, what limits it) until all have arrived, where each share is of one byte and all start at once."""
    routes = {(route.source, route.target): route for route in network.routes}
    load: dict[tuple[int, str], float] = {}
    for source, target, share in shares:
        route = routes[source, target]
        for name, link in zip(route.passes, route.links, strict=False):
            load[link, name] = load.get((link, name), 0.0) + share
    return max(
        (carried / network.links[link].from_Bps(name), f"{name} to {_far(network, link, name)}")
        for (link, name), carried in load.items()
    )


def _far(network: LabNetwork, link: int, name: str) -> str:
    a, b = network.links[link].a, network.links[link].b
    return b if name == a else a
