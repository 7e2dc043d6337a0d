"""The textbook's cost of a collective, as a baseline: one ring, latency and bytes over the slowest link's rate.

    steps x alpha + bytes that pass each link / beta

The ring is the first one that the library would build; alpha is the longest latency of a copy between neighbours in it,
beta the lowest bandwidth, both as the system is described. No protocol, no channels, no trees, nothing fitted.

Reference: Hockney 1994; Thakur, Rabenseifner & Gropp 2005, for rings.
"""

from dataclasses import dataclass
from itertools import pairwise

from resnetx.interconnect import paths
from resnetx.interconnect.collective import CollectivePlan
from resnetx.operations import OPERATIONS


@dataclass(frozen=True)
class AlphaBeta:
    """What a collective costs by its size."""

    latency_s: float  # of all steps together
    s_per_byte: float

    def time_s(self, size_bytes: float) -> float:
        return self.latency_s + size_bytes * self.s_per_byte


def alpha_beta(planned: CollectivePlan) -> AlphaBeta:
    """A collective over the devices of a plan, of which no more than the order of its ring is read."""
    devices = planned.devices
    ring = planned.rings[0].order if planned.rings and set(planned.rings[0].order) == set(devices) else devices
    hops = [paths.copy_path(planned.system, a, b) for a, b in pairwise([*ring, ring[0]])]
    operation = OPERATIONS[planned.collective]
    return AlphaBeta(
        operation.steps(len(devices)) * max(hop.latency_s for hop in hops),
        operation.bus_factor(len(devices)) / min(hop.bandwidth_Bps for hop in hops),
    )
