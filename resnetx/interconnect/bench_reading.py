"""A bench record beside what the described topology allows: its pair copies, and its collectives.

A collective is judged by the cost of its plan, with the published times of that system where there are any, within
what 90 % of published figures were off (`errors`). Above the plan is what no plan has: a library that reduces in the
switches (NVLS), or ranks that share memory. In the lab a copy stands beside what the links that were built allow, and a
collective beside what gloo takes over them (`lab_plan`); neither is judged, as nothing is published of that.
"""

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

import msgspec

from resnetx.choices import Lab
from resnetx.errors import ConfigError
from resnetx.interconnect import collective, pair_reading
from resnetx.interconnect.collective import CollectivePlan
from resnetx.interconnect.errors import error_of
from resnetx.interconnect.graph import System
from resnetx.interconnect.lab_network import LabNetwork, lab_network
from resnetx.interconnect.lab_plan import lab_plan, together
from resnetx.interconnect.ladder import with_published
from resnetx.interconnect.measured import telling_times
from resnetx.interconnect.pair_causes import ERRORS, FEWER_LINKS, NUMA, OTHERS, PCIE_LINK, POWER, SLOW_HOST
from resnetx.interconnect.parts import SwitchSpec
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import load
from resnetx.record import NOT_DESCRIBED, BenchPoint, BenchRecord, Warning
from resnetx.record.copies import CopyCell

OTHER_RINGS = "the library found fewer rings than the links allow (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH: channels)"
NO_PEERS = "GPUs reach each other through host memory: peer access is off or refused (NCCL_DEBUG=INFO: via SHM)"
IN_SWITCH = "the library adds up in the switches (NVLS), where the plan of library={library} sends over rings"
SHARED_MEMORY = "the ranks share memory of one host, so that no link is crossed"
NEWER = "the library is newer than library={library}, which the expected time is of"
_BESIDE_OTHERS = "classes are of copies that ran alone"


def with_readings(record: BenchRecord, system: System | None, transport: Transport = "auto") -> BenchRecord:
    """The record with what is expected of each cell and point, and how what was measured stands to it.

    `transport`: what was asked for.
    """
    lab, devices = (record.request.lab, record.request.devices) if record.request else (None, None)
    if system is None and lab is None and not record.cells:
        return record
    if lab is not None:  # its links are those of a system, unless they are to be held against another one's
        system, transport = system or load(lab.system), lab.transport
    cells = pair_reading.with_readings(record.cells, system, transport, devices) if record.cells else []
    if lab is not None and system is not None:
        cells = _over_lab_links(record, cells, system, lab)
        points = _beside(record, _lab_plans(record, system, lab, devices))
    else:
        points = record.points if system is None else _judged(record, _plans(record, system, devices, transport))
    warnings = [*record.warnings, *_stands_out(record, system, transport)]
    unknown = _unknown(record, cells, points, system)
    return msgspec.structs.replace(record, cells=cells, points=points, warnings=warnings, unknown=unknown)


def _unknown(
    record: BenchRecord, cells: Sequence[CopyCell], points: Sequence[BenchPoint], system: System | None
) -> dict[str, str]:
    """The reasons of the record, for what is null now."""
    why = str(NOT_DESCRIBED) if system is None else f"the description of {system.name} says nothing of it"
    if record.request and record.request.lab:
        why = "what gloo does for it in the lab is not modelled"
    reasons = dict(record.unknown)
    read: list[tuple[str, object, str]] = [(f"points.{n}.expected_s", p.expected_s, why) for n, p in enumerate(points)]
    read += [(f"cells.{n}.expected_s", cell.expected_s, why) for n, cell in enumerate(cells)]
    read += [(f"cells.{n}.class", cell.pair_class, _BESIDE_OTHERS) for n, cell in enumerate(cells)]
    for path, value, reason in read:
        reasons.pop(path, None)
        if value is None:
            reasons[path] = reason
    return reasons


def _stands_out(record: BenchRecord, system: System | None, transport: Transport) -> list[Warning]:
    """Of the pairs: anti-locality, slow pairs and GPUs."""
    devices = record.request.devices if record.request else None
    found = pair_reading.findings_of(record.cells, system, transport, devices, record.unit)
    return [
        Warning(code=each.what.replace(" ", "-").lower(), message=f"{family.words}: {each.text}", remedy=each.cause)
        for family, each_of in found.items()
        for each in each_of
    ]


PlanOf = Callable[[str], CollectivePlan | None]  # by the name of a collective; None: nothing is known of it


def _plans(record: BenchRecord, system: System, devices: Sequence[int] | None, transport: Transport) -> PlanOf:
    """As described GPUs run collectives."""

    @cache
    def plan_of(name: str) -> CollectivePlan | None:
        ranks = record.world_size
        if ranks is None or not 1 < ranks <= len(system.gpus):
            return None
        try:
            plan = collective.plan(system, name, devices or range(ranks), transport=transport)
            return with_published(plan) if transport == "auto" else plan
        except ConfigError:  # no path joins these GPUs
            return None

    return plan_of


def _lab_plans(record: BenchRecord, system: System, lab: Lab, devices: Sequence[int] | None) -> PlanOf:
    """As gloo runs them over the links of the lab."""

    @cache
    def plan_of(name: str) -> CollectivePlan | None:
        try:
            return lab_plan(system, lab, devices or range(record.world_size or 0), name)
        except ConfigError:  # what gloo does for it there is not modelled
            return None

    return plan_of


def _over_lab_links(record: BenchRecord, cells: Sequence[CopyCell], system: System, lab: Lab) -> list[CopyCell]:
    """The cells with the time in which the lab's busiest link carries a copy, and what runs beside it."""
    devices = record.request.devices if record.request else None
    try:
        network = lab_network(system, devices, record.world_size or 0, lab.scale, lab.transport)
    except ConfigError:  # it has not so many GPUs
        return list(cells)
    return [msgspec.structs.replace(cell, expected_s=_lab_copy_s(cell, network)) for cell in cells]


def _lab_copy_s(cell: CopyCell, network: LabNetwork) -> float | None:
    ways = [(cell.source, cell.target), *((pair.source, pair.target) for pair in cell.together)]
    ways += [(target, source) for source, target in ways] if cell.direction == "both-ways" else []
    shares = [(a, b, 1.0) for a, b in ways if isinstance(a, int) and isinstance(b, int) and a != b]
    if cell.through is not None or len(shares) < len(ways):  # of the host, or of a relay
        return None
    return cell.size_bytes * together(network, shares)[0]


def _beside(record: BenchRecord, plan_of: PlanOf) -> list[BenchPoint]:
    """The points with what is expected of them, as far as it is known."""
    found = []
    for point in record.points:
        plan = plan_of(point.collective)
        expected_s = plan.cost(point.size_bytes).time_s if plan else None
        found.append(msgspec.structs.replace(point, expected_s=expected_s))
    return found


def _judged(record: BenchRecord, plan_of: PlanOf) -> list[BenchPoint]:
    """The same, and how what was measured stands to it."""
    return [
        _judged_point(point, time_s, plan_of(point.collective))
        for point, time_s in zip(_beside(record, plan_of), _times_s(record), strict=True)
    ]


def _times_s(record: BenchRecord) -> list[float]:
    """The median that tells of each point, in their order."""
    places = {id(point): place for place, point in enumerate(record.points)}
    found = [0.0] * len(record.points)
    for name in dict.fromkeys(point.collective for point in record.points):
        own = [point for point in record.points if point.collective == name]
        for point, times_s in zip(own, telling_times(own), strict=True):
            found[places[id(point)]] = median(times_s)
    return found


def _judged_point(point: BenchPoint, time_s: float, plan: CollectivePlan | None) -> BenchPoint:
    if plan is None or point.expected_s is None:
        return point
    verdict = pair_reading.judge(time_s, point.expected_s, error_of(plan, point.size_bytes).q90)
    causes = {"low": _low, "above the link": _above}.get(verdict)
    return msgspec.structs.replace(point, verdict=verdict, causes=causes(plan, point.size_bytes) if causes else [])


def _low(plan: CollectivePlan, size_bytes: int) -> list[str]:
    """What to check, the likeliest first."""
    if plan.cost(size_bytes).time_s > 2 * size_bytes / plan.cost(2**30).algbw_Bps:  # mostly fixed times
        return [SLOW_HOST, POWER, NO_PEERS, OTHERS]
    if any(link.wire.family == "nvlink" for link, _ in plan.system.counted_links()):
        return [OTHER_RINGS, NO_PEERS, FEWER_LINKS, ERRORS, POWER, OTHERS]
    return [PCIE_LINK, NO_PEERS, NUMA, POWER, ERRORS, OTHERS]


def _above(plan: CollectivePlan, size_bytes: int) -> list[str]:
    if plan.library == "gloo":
        return [SHARED_MEMORY]
    parts = [component.part for component, _ in plan.system.counted_components()]
    switched = plan.library != "nvls" and any(isinstance(part, SwitchSpec) and part.reduces for part in parts)
    return [*[IN_SWITCH.format(library=plan.library)] * switched, NEWER.format(library=plan.library)]
