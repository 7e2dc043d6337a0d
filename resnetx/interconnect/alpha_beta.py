"""The textbook's cost of a collective, as a baseline: one ring, latency and bytes over the slowest link's rate.

    steps x alpha + bytes that pass each link / beta

The ring is the first one that the library would build; alpha is the longest latency of a copy between neighbours in it,
beta the lowest bandwidth, both as the system is described. No protocol, no channels, no trees, nothing fitted.

Reference: Hockney 1994; Thakur, Rabenseifner & Gropp 2005, for rings.
"""

from itertools import pairwise

from resnetx.interconnect import paths
from resnetx.interconnect.collective import CollectivePlan
from resnetx.operations import OPERATIONS


def time_s(planned: CollectivePlan, size_bytes: float) -> float:
    """The seconds of a collective over the devices of a plan, of which no more than the order of its ring is read."""
    devices = planned.devices
    ring = planned.rings[0].order if planned.rings and set(planned.rings[0].order) == set(devices) else devices
    hops = [paths.copy_path(planned.system, a, b) for a, b in pairwise([*ring, ring[0]])]
    operation = OPERATIONS[planned.collective]
    steps = operation.steps(len(devices))
    passing_bytes = size_bytes * operation.bus_factor(len(devices))
    return steps * max(hop.latency_s for hop in hops) + passing_bytes / min(hop.bandwidth_Bps for hop in hops)
