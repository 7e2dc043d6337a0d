"""What flows get that run at once: each direction of a link, both together, and a CPU's ports are shared fairly."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from resnetx.interconnect.graph import Link, System
from resnetx.interconnect.parts import CpuSpec

Steps = tuple[tuple[str, str, Link], ...]  # (from, to, link)
SharedResource = tuple[str, str]  # (what people call it, the kind of link): two components may have links of two kinds


@dataclass(frozen=True)
class Flow:
    """Data on its way. `staged`: through host memory, so that CPU ports pass it at their staging rate."""

    steps: Steps
    staged: bool
    from_host: bool = False  # it begins in host memory: no CPU has to pass it on


def fair_shares(system: System, flows: Sequence[Flow], kernels: bool = False) -> list[tuple[float, str]]:
    """(B/s, what limits it) of flows that run at once and share fairly (max-min).

    `kernels`: the GPUs' own kernels move the data, as collectives do, instead of the copy engines.
    """
    capacity: dict[SharedResource, float] = {}
    uses = [Counter[SharedResource]() for _ in flows]
    for index, each in enumerate(flows):
        for resource, room_Bps in _resources(system, each, kernels):
            capacity[resource] = room_Bps
            uses[index][resource] += 1
    shares: list[tuple[float, str]] = [(0.0, "")] * len(flows)
    active = set(range(len(flows)))
    level_Bps = 0.0
    while active:
        load = Counter[SharedResource]()
        for index in active:
            load.update(uses[index])
        step_Bps, tightest = min((capacity[resource] / count, resource) for resource, count in load.items())
        level_Bps += step_Bps
        for resource, count in load.items():
            capacity[resource] -= step_Bps * count
        full = {resource for resource in load if capacity[resource] <= 1e-9 * level_Bps}
        done = {index for index in active if not full.isdisjoint(uses[index])}
        for index in done:
            limit, _ = tightest if tightest in uses[index] else min(full & uses[index].keys())
            shares[index] = (level_Bps, limit)
        active -= done
    return shares


def seconds_per_byte(system: System, loads: Iterable[tuple[Flow, float]], kernels: bool = False) -> tuple[float, str]:
    """(seconds, what limits them) until all flows that start at once are over, where each carries so many bytes.

    What has most to carry for its rate is busy all the time. With as many bytes in each flow that is 1 / the least of
    `fair_shares`: those who get it are the last to end.
    """
    capacity: dict[SharedResource, float] = {}
    carried: dict[SharedResource, float] = {}
    for flow, size_bytes in loads:
        for resource, room_Bps in _resources(system, flow, kernels):
            capacity[resource] = room_Bps
            carried[resource] = carried.get(resource, 0.0) + size_bytes
    return max(((size_bytes / capacity[resource], resource[0]) for resource, size_bytes in carried.items()))


def _resources(system: System, flow: Flow, kernels: bool) -> Iterator[tuple[SharedResource, float]]:
    """What a flow uses, and how much of it there is: each direction of a link, and both together."""
    for before, after, link in flow.steps:
        rate_Bps, back_Bps = (_rate_Bps(link.leaving(end), kernels) for end in (before, after))
        yield (f"{before} to {after}", link.part_name), rate_Bps
        yield (f"{link.name} both ways", link.part_name), min(rate_Bps + back_Bps, link.duplex_Bps)
        for name in (before, after):
            part = system.component(name).part
            if flow.from_host or not isinstance(part, CpuSpec) or link.wire.family in ("smp", "network"):
                continue
            if flow.staged:
                duplex = part.staging_duplex_Bps.value if part.staging_duplex_Bps else 2 * part.staging_Bps.value
                yield (f"{before} to {after}, staged in {name}", link.part_name), part.staging_Bps.value
                yield (f"{link.name} both ways, staged in {name}", link.part_name), duplex
            elif part.peer_Bps is not None:
                yield (f"{before} to {after}, through {name}", link.part_name), part.peer_Bps.value


def _rate_Bps(link: Link, kernels: bool) -> float:
    return link.kernel_Bps if kernels else link.copy_Bps
