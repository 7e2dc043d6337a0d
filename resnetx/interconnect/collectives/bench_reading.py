"""A bench record beside what the described topology allows: its pair copies, and its collectives.

A collective is judged by the cost of its plan, with the published times of that system where there are any, within
what 90 % of published figures were off (`errors`). Above the plan is what no plan has: a library that reduces in the
switches (NVLS), or ranks that share memory. In the lab a copy stands beside what the links that were built allow, and a
collective beside what gloo takes over them (`lab_plan`); neither is judged, as nothing is published of that.
"""

from collections.abc import Callable, Sequence
from functools import cache
from math import exp, log
from statistics import median

import msgspec

from resnetx.choices import Lab
from resnetx.errors import ConfigError
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives.collective_errors import MeasuredError, error_of
from resnetx.interconnect.collectives.measured import telling_times
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.published import with_published
from resnetx.interconnect.collectives.traffic import lab_plan, together
from resnetx.interconnect.pairs import pair_reading
from resnetx.interconnect.pairs.pair_reading import ERRORS, FEWER_LINKS, NUMA, OTHERS, PCIE_LINK, POWER, SLOW_HOST
from resnetx.interconnect.systems.graph import System
from resnetx.interconnect.systems.lab_network import LabNetwork, lab_network
from resnetx.interconnect.systems.parts import SwitchSpec
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import load
from resnetx.record import NOT_DESCRIBED, BenchPoint, BenchRecord, Unknown, Warning
from resnetx.record.bench_record import CopyCell, Verdict
from resnetx.units import size_text

OTHER_RINGS = "the library found fewer rings than the links allow (NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH: channels)"
NO_PEERS = "GPUs reach each other through host memory: peer access is off or refused (NCCL_DEBUG=INFO: via SHM)"
NO_GPUDIRECT = "network cards do not reach GPU memory (NCCL_DEBUG=INFO: no GDRDMA behind via NET; nvidia-peermem, VMs)"
FEWER_CARDS = "fewer network cards than described, or sockets instead (NCCL_DEBUG=INFO: NET/IB names each, NET/Socket)"
IN_SWITCH = "the library adds up in the switches (NVLS), where the plan of library={library} sends over rings"
SHARED_MEMORY = "the ranks share memory of one host, so that no link is crossed"
NEWER = "the library is newer than library={library}, which the expected time is of"
LARGE_BYTES = (
    8 * 2**20
)  # from there on 98 % of figures were predicted within x 1.5, each without its kind (docs/accuracy.md)
FAR = 3.0  # times as long: no error of the model any more, also of a machine of whose kind nothing is published
_COMPARE = "see docs/reading-benches.md; `resnetx compare A B` holds it against a bench of another such machine"
_BESIDE_OTHERS = "classes are of copies that ran alone"


def with_readings(
    record: BenchRecord,
    system: System | None,
    transport: Transport = "auto",
    devices: Sequence[int] | None = None,
) -> BenchRecord:
    """The record with what is expected of each cell and point, and how what was measured stands to it.

    `transport`: what was asked for. `devices`: the GPUs of the system, where the request does not say: of an import.
    """
    lab, asked = (record.request.lab, record.request.devices) if record.request else (None, None)
    devices = asked or devices
    if system is None and lab is None and not record.cells:
        return record
    if lab is not None:  # its links are those of a system, unless they are to be held against another one's
        system, transport = system or load(lab.system), lab.transport
    cells = pair_reading.with_readings(record.cells, system, transport, devices) if record.cells else []
    if lab is not None and system is not None:
        cells = _over_lab_links(record, cells, system, lab)
        plan_of = _lab_plans(record, system, lab, devices)
        points = _beside(record, plan_of)
    else:
        plan_of = _plans(record, system, devices, transport)
        points = _judged(record, plan_of)
    warnings = [*record.warnings, *_stands_out(record, system, transport)]
    warnings += _not_judged(record, plan_of) if system and not lab else []
    unknown = _unknown(record, cells, points, plan_of, system)
    return msgspec.structs.replace(record, cells=cells, points=points, warnings=warnings, unknown=unknown)


def _unknown(
    record: BenchRecord,
    cells: Sequence[CopyCell],
    points: Sequence[BenchPoint],
    plan_of: "PlanOf",
    system: System | None,
) -> dict[str, str]:
    """The reasons of the record, for what is null now."""
    why = str(NOT_DESCRIBED) if system is None else f"the description of {system.name} says nothing of it"
    reasons = dict(record.unknown)
    read: list[tuple[str, object, str]] = [
        (f"points.{n}.expected_s", p.expected_s, str(plan_of(p.collective))) for n, p in enumerate(points)
    ]
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
        Warning(
            code=finding.what.replace(" ", "-").lower(), message=f"{family.words}: {finding.text}", remedy=finding.cause
        )
        for family, each_of in found.items()
        for finding in each_of
    ]


PlanOf = Callable[[str], CollectivePlan | Unknown]  # by the name of a collective; or why there is none


def _plans(record: BenchRecord, system: System | None, devices: Sequence[int] | None, transport: Transport) -> PlanOf:
    """As described GPUs run collectives."""
    ranks = record.world_size

    @cache
    def plan_of(name: str) -> CollectivePlan | Unknown:
        if system is None:
            return NOT_DESCRIBED
        if ranks is None:
            return Unknown("how many ranks there were is not known")
        if not 1 < ranks <= len(system.gpus):
            return Unknown(f"{system.name} has {len(system.gpus)} GPUs, and there were {ranks} ranks")
        try:
            plan = collective.plan(system, name, devices or _spread(system, ranks), transport=transport)
            if record.source == "measured":  # by resnetx, whose benches have a process for each GPU
                plan = plan.launched_by("process-per-gpu")
            return with_published(plan) if transport == "auto" else plan
        except ConfigError as error:  # no path joins these GPUs
            return Unknown(f"{error}")

    return plan_of


def _spread(system: System, ranks: int) -> Sequence[int]:
    """The first GPUs of the first nodes, on which ranks are unless they are said to be elsewhere."""
    in_node = len(system.gpus) // system.nodes
    if ranks % system.nodes:
        return range(ranks)
    return [node * in_node + device for node in range(system.nodes) for device in range(ranks // system.nodes)]


def _not_judged(record: BenchRecord, plan_of: PlanOf) -> list[Warning]:
    """Of which collectives no time is expected, or none is judged, and why."""
    warnings = []
    for name in dict.fromkeys(point.collective for point in record.points):
        plan = plan_of(name)
        if isinstance(plan, Unknown):
            warnings.append(
                Warning(code="not-compared", message=f"{name}: no time is expected: {plan}", remedy=_COMPARE)
            )
        elif unknown := {size: error for size, error in _errors(record, name, plan).items() if not error.known}:
            error, some = next(iter(unknown.values())), len(unknown) < len(_errors(record, name, plan))
            at = f" at {' to '.join(size_text(size) for size in sorted({min(unknown), max(unknown)}))}" * some
            message = f"{name}{at} is not judged, as the error of its expected times is not known: {error.source}"
            if far := _far_off(record, name, plan):
                times, size_bytes = far
                longest = f"it takes up to {times:.3g} times as long as expected ({size_text(size_bytes)})"
                causes = "; ".join(_low(plan, size_bytes)[:2])
                warnings.append(Warning(code="far-off", message=f"{name}: {longest}", remedy=f"check first: {causes}"))
            warnings.append(Warning(code="error-not-known", message=message, remedy=_COMPARE))
        elif longer := _longer_than_elsewhere(record, name, plan):
            times, size_bytes = longer
            message = (
                f"{name} takes up to {times:.2f} times as long as expected, more than nine of ten times on other "
                "machines of its kind; none of this one are published, so it is not called low"
            )
            warnings.append(Warning(code="longer-than-elsewhere", message=message, remedy=_low(plan, size_bytes)[0]))
    return warnings


def _far_off(record: BenchRecord, name: str, plan: CollectivePlan) -> tuple[float, int] | None:
    """The large size that is farthest above what is expected, where that is no error of a model any more."""
    times = [
        (time_s / plan.cost(point.size_bytes).time_s, point.size_bytes)
        for point, time_s in zip(record.points, _times_s(record), strict=True)
        if point.collective == name and point.size_bytes >= LARGE_BYTES and not point.wrong
    ]
    return max((time for time in times if time[0] > FAR), default=None)


def _longer_than_elsewhere(record: BenchRecord, name: str, plan: CollectivePlan) -> tuple[float, int] | None:
    """The worst size that would be low if its error were this machine's, after how many times as long it takes."""
    longer: list[tuple[float, int]] = []
    for point, time_s in zip(record.points, _times_s(record), strict=True):
        if point.collective == name and not point.wrong:
            off, error = log(time_s / plan.cost(point.size_bytes).time_s), error_of(plan, point.size_bytes)
            longer += [(exp(off), point.size_bytes)] * (off > error.q90 and not error.own)
    return max(longer, default=None)


def _errors(record: BenchRecord, name: str, plan: CollectivePlan) -> dict[int, MeasuredError]:
    """By size, of what is right."""
    points = (point for point in record.points if point.collective == name and not point.wrong)
    return {point.size_bytes: error_of(plan, point.size_bytes) for point in points}


def _lab_plans(record: BenchRecord, system: System, lab: Lab, devices: Sequence[int] | None) -> PlanOf:
    """As gloo runs them over the links of the lab."""

    @cache
    def plan_of(name: str) -> CollectivePlan | Unknown:
        try:
            return lab_plan(system, lab, devices or range(record.world_size or 0), name)
        except ConfigError:
            return Unknown("what gloo does for it in the lab is not modelled")

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
    points = []
    for point in record.points:
        plan = plan_of(point.collective)
        expected_s = None if isinstance(plan, Unknown) else plan.cost(point.size_bytes).time_s
        points.append(msgspec.structs.replace(point, expected_s=expected_s))
    return points


def _judged(record: BenchRecord, plan_of: PlanOf) -> list[BenchPoint]:
    """The same, and how what was measured stands to it."""
    return [
        _judged_point(point, time_s, plan_of(point.collective))
        for point, time_s in zip(_beside(record, plan_of), _times_s(record), strict=True)
    ]


def _times_s(record: BenchRecord) -> list[float]:
    """The median that tells of each point, in their order."""
    places = {id(point): index for index, point in enumerate(record.points)}
    found = [0.0] * len(record.points)
    for name in dict.fromkeys(point.collective for point in record.points):
        points = [point for point in record.points if point.collective == name]
        for point, times_s in zip(points, telling_times(points), strict=True):
            found[places[id(point)]] = median(times_s)
    return found


def _judged_point(point: BenchPoint, time_s: float, plan: CollectivePlan | Unknown) -> BenchPoint:
    if isinstance(plan, Unknown) or point.expected_s is None or point.wrong:  # the time of a wrong result is none
        return point
    error = error_of(plan, point.size_bytes)
    if not error.known:
        return point
    off = log(time_s / point.expected_s)
    verdict: Verdict = "as expected" if abs(off) <= error.q90 else "low" if off > 0 else "above the link"
    if verdict == "low" and not error.own:  # an error that was counted on other machines says nothing of this one
        return point
    causes = {"low": _low, "above the link": _above}.get(verdict)
    return msgspec.structs.replace(point, verdict=verdict, causes=causes(plan, point.size_bytes) if causes else [])


def _low(plan: CollectivePlan, size_bytes: int) -> list[str]:
    """What to check, the likeliest first."""
    if plan.cost(size_bytes).time_s > 2 * size_bytes / plan.cost(2**30).algbw_Bps:  # mostly fixed times
        return [SLOW_HOST, POWER, NO_PEERS, OTHERS]
    if plan.system.nodes > 1:
        return [NO_GPUDIRECT, FEWER_CARDS, OTHER_RINGS, NUMA, POWER, OTHERS]
    if any(link.wire.family == "nvlink" for link, _ in plan.system.counted_links()):
        return [OTHER_RINGS, NO_PEERS, FEWER_LINKS, ERRORS, POWER, OTHERS]
    return [PCIE_LINK, NO_PEERS, NUMA, POWER, ERRORS, OTHERS]


def _above(plan: CollectivePlan, size_bytes: int) -> list[str]:
    if plan.library == "gloo":
        return [SHARED_MEMORY]
    parts = [component.part for component, _ in plan.system.counted_components()]
    switched = plan.library != "nvls" and any(isinstance(part, SwitchSpec) and part.reduces for part in parts)
    return [*[IN_SWITCH.format(library=plan.library)] * switched, NEWER.format(library=plan.library)]
