"""`network.json`: the network of a run in the lab, read by the process that builds it and by each rank.

A file that says what cannot be built (a way over links that do not exist, or that do not meet) is refused by name.
"""

import math
from collections.abc import Iterator
from pathlib import Path

from resnetx.errors import ConfigError
from resnetx.interconnect.lab_network import MOST_RANKS, LabNetwork, LabRoute, next_hops
from resnetx.record import RecordError, read

MOST_SPACES = 254  # of which each has an address of one network


def read_network(path: Path) -> LabNetwork:
    """The network in a file; a `RecordError` says why it cannot be built."""
    network: LabNetwork = read(path, LabNetwork)
    try:
        if fault := next(_faults(network), ""):
            raise ConfigError(fault)
        next_hops(network)
    except ConfigError as error:
        raise RecordError(f"{path}: {error}") from None
    return network


def _faults(network: LabNetwork) -> Iterator[str]:
    """What is wrong with a network, each in a sentence."""
    ranks = len(network.ranks)
    if not 1 <= ranks <= MOST_RANKS or len(set(network.ranks)) != ranks:
        yield f"ranks: expected 1 to {MOST_RANKS} namespaces, each once, not {ranks}"
    if len(network.spaces) > MOST_SPACES:
        yield f"routes: pass {len(network.spaces)} namespaces; expected at most {MOST_SPACES}"
    for place, link in enumerate(network.links):
        if not (math.isfinite(link.rate_Bps) and link.rate_Bps >= 1):
            yield f"links[{place}].rate_Bps={link.rate_Bps}: expected at least 1"
        if link.back_Bps and not (math.isfinite(link.back_Bps) and link.back_Bps >= 1):
            yield f"links[{place}].back_Bps={link.back_Bps}: expected at least 1, or 0 where no copy goes back"
    for place, route in enumerate(network.routes):
        if fault := _route_fault(network, route):
            yield f"routes[{place}]: {fault}"


def _route_fault(network: LabNetwork, route: LabRoute) -> str:
    """Why a copy cannot take this way; "" where it can."""
    ends = [network.ranks[rank] for rank in (route.source, route.target) if 0 <= rank < len(network.ranks)]
    if len(ends) != 2 or len(route.passes) < 2 or [route.passes[0], route.passes[-1]] != ends:
        return "expected a way from one rank to another"
    if len(route.links) != len(route.passes) - 1:
        return f"passes {len(route.passes)} namespaces over {len(route.links)} links; expected one link less"
    for place, before, after in zip(route.links, route.passes, route.passes[1:], strict=False):
        if not 0 <= place < len(network.links):
            return f"link {place}: expected one of the {len(network.links)} links"
        link = network.links[place]
        if {link.a, link.b} != {before, after}:
            return f"link {place} joins {link.a} and {link.b}, not {before} and {after}"
        if not link.from_Bps(before):
            return f"link {place} has no rate from {before} to {after}"
    return ""
