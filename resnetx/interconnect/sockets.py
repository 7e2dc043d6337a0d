"""Collectives of host processes over TCP: gloo, or a library that is kept off all other transports.

Rings, and messages at once, move at one measured rate: `SOCKET_Bps` of what a process sends, an order of magnitude. All
processes of a node share its one interface to others.
"""

from resnetx.interconnect.algorithm import Algorithm
from resnetx.interconnect.generations import SOCKET, SOCKET_Bps
from resnetx.interconnect.graph import System
from resnetx.interconnect.internode import Groups, join_nodes
from resnetx.interconnect.messages import leaving
from resnetx.operations import Operation


def over_sockets(system: System, groups: Groups, operation: Operation, library: str) -> Algorithm:
    """One ring of processes, or all their messages at once."""
    ranks = sum(map(len, groups))
    fixed_s = SOCKET.base_s + operation.steps(ranks) * SOCKET.network_s
    if operation.sends:
        return Algorithm("sends", fixed_s, *_sent(system, groups, operation))
    rate_Bps, limit = socket_rate(system, groups, operation)
    factor = operation.bus_factor(ranks) * (operation.gloo_moves if library == "gloo" else 1)
    return Algorithm("ring", fixed_s, factor / rate_Bps, limit)


def _sent(system: System, groups: Groups, operation: Operation) -> tuple[float, str]:
    """(seconds per byte of the array, what limits it): the busiest process, or the interface of the busiest node."""
    inside = operation.bus_factor(sum(map(len, groups))) / SOCKET_Bps, "loopback sockets"
    if len(groups) == 1:
        return inside
    between = join_nodes(system, groups, operation, "one")
    return max(inside, (leaving(operation, groups) / between.bandwidth_Bps, between.limit))


def socket_rate(system: System, groups: Groups, operation: Operation) -> tuple[float, str]:
    """(B/s, what limits it) of a ring of sockets: loopback inside a node, the network between nodes."""
    if len(groups) > 1:
        between = join_nodes(system, groups, operation, "one")
        if between.bandwidth_Bps < SOCKET_Bps:
            return between.bandwidth_Bps, between.limit
    return SOCKET_Bps, "loopback sockets"
