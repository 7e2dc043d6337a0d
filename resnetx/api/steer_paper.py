"""Steering as Anderson et al. 2018 did it: TensorFlow's variables on a described node, one network after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resnetx.interconnect import steered, traffic
from resnetx.interconnect.steering.best import best, receivers_added
from resnetx.interconnect.steering.problem import steering_problem
from resnetx.interconnect.steering.rtl import total_rtl
from resnetx.interconnect.system import System

OWNERS: dict[str, Callable[[Sequence[float], int], tuple[int, ...]]] = {
    "replicated": traffic.round_robin,
    "server": traffic.least_loaded,
}


@dataclass(frozen=True)
class OwnedVariables:
    """What variables that GPUs own send over links, and what steering for that saves."""

    peer_bytes: float
    rtl_saved: float  # share of the total
    receivers_added: int  # of the GPU that needs most
    rtl_evaluations: int


def steer_owned(machine: System, sizes_bytes: Sequence[float], pattern: str) -> OwnedVariables:
    """Steering for one step. `pattern`: who owns variables, an entry of `OWNERS`; flows without a link are left out."""
    units = steered.connectivity(machine)
    gpus = len(units)
    sent = traffic.through_owners(sizes_bytes, OWNERS[pattern](sizes_bytes, gpus), gpus)
    sent = traffic.over_links(sent, [[count > 0 for count in row] for row in units])
    problem = steering_problem(sent, units)
    found = best(problem)
    assert found.evaluations is not None, "no receivers are limited"
    return OwnedVariables(
        peer_bytes=sum(map(sum, sent)),
        rtl_saved=1 - total_rtl(sent, found.units) / total_rtl(sent, units),
        receivers_added=max(receivers_added(problem, found.units)),
        rtl_evaluations=found.evaluations,
    )
