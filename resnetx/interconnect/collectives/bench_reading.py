"""A bench record beside what the described topology allows: its pair copies, and its collectives.

A collective is judged by the cost of its plan, with the published times of that system where there are any, within
what 90 % of published figures were off (`errors`). Above the plan is what no plan has: a library that reduces in the
switches (NVLS), or ranks that share memory. In the lab a copy stands beside what the links that were built allow, and a
collective beside what gloo takes over them (`lab_plan`); neither is judged, as nothing is published of that.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import median

import msgspec

from resnetx.choices import Lab
from resnetx.errors import ConfigError, FileError, shortened, unknown_name, visible
from resnetx.formats import copy_rows, copy_tests, logs
from resnetx.formats import copy_tests as tartan_pairs
from resnetx.formats.copy_rows import CopyRow, CopyTable, ListedGpu
from resnetx.formats.nccl_table import Rank
from resnetx.formats.nccl_tests import TimedSize
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives.collective_errors import MeasuredError, error_of
from resnetx.interconnect.collectives.measured import MAX_TABLE_BYTES, read_nccl_tests, telling_times
from resnetx.interconnect.collectives.plan import CollectivePlan
from resnetx.interconnect.collectives.published import with_published
from resnetx.interconnect.collectives.traffic import lab_plan, together
from resnetx.interconnect.pairs import pair_reading
from resnetx.interconnect.pairs.pair_reading import ERRORS, FEWER_LINKS, NUMA, OTHERS, PCIE_LINK, POWER, SLOW_HOST
from resnetx.interconnect.systems.graph import SwitchSpec, System
from resnetx.interconnect.systems.lab_network import LabNetwork, lab_network
from resnetx.interconnect.systems.paths import Transport
from resnetx.interconnect.systems.system import load
from resnetx.loading import File, decode
from resnetx.operations import OPERATIONS
from resnetx.record import NOT_DESCRIBED, SCHEMA, BenchPoint, BenchRecord, Device, Unknown, Warning, known, seal
from resnetx.record.bench_record import TEST_FAILED, WRONG_ELEMENTS, CopyCell, Verdict
from resnetx.units import size_text

# ---- imported -------------------------------------------------------------------------------------------------------
# Bench records of what other programs measured: collectives by nccl-tests and OSU, pair copies by several.

SILENT = Unknown("nccl-tests does not say")
MEAN_OF_A_QUEUE = Unknown("`times_s` is the mean of a queue, as nccl-tests times them")
_PROGRAMS = "text or JSON of nccl-tests, nvbandwidth, OSU, p2pBandwidthLatencyTest or Tartan"
_NCCL_TESTS = re.compile(r"[ \t]size[ \t]{1,80}count[ \t][^\n]{1,200}busbw")  # the heading of its tables
_NOT_SAID = Unknown("the file does not say")
_NO_RELAY = Unknown("no GPU relays it")
_NO_CLASS = Unknown("not classified yet")
MOST_LEFT_OUT = 5  # lines that are named
GROUPS = "groups"  # the code of a warning: several groups of ranks ran at once


def import_bench(file: Path, collective: str | None, gpus: int | None, size_bytes: int | None = None) -> BenchRecord:
    """The record of a file of any program that is known.

    `collective`, `gpus`, `size_bytes`: used where the file does not say them; the last one is the size of copies.
    """
    where = f"--import {file}"
    opened = File(file, _PROGRAMS, MAX_TABLE_BYTES, where)
    content = opened.content()
    opened.refuse_blanks(content)
    if said := logs.says(content.decode(errors="replace")):
        raise opened.error(said)
    holds_collectives = _NCCL_TESTS.search(content.decode(errors="replace")) is not None
    asked_for = collective is not None and holds_collectives
    table = None if asked_for else _copies(opened, content, gpus, size_bytes)
    if table is None:
        if size_bytes is not None:
            raise ConfigError(f"size={size_bytes}: {file.name} is of nccl-tests, which says the sizes itself")
        return _of_nccl_tests(opened, collective, gpus)
    if collective is not None and any(row.collective != collective for row in table.collectives):
        raise ConfigError(f"{where}: holds {table.collectives[0].collective}; expected {collective}")
    return _record(
        source=f"{file.name} ({table.program})",
        library=table.program,
        ranks=table.gpus or gpus,
        points=[_point(row.collective, [TimedSize(row.size_bytes, row.time_s, None)]) for row in table.collectives],
        cells=_cells(table.rows),
        warnings=[
            *(_warning("imported", note) for note in table.notes),
            *[_warning("imported", "left out: a table of nccl-tests, which collective= reads")] * holds_collectives,
            *_wrong(table.wrong),
        ],
        name=file.name,
        devices=[_listed_gpu(gpu) for gpu in table.devices],
    )


def _copies(file: File, content: bytearray, gpus: int | None, size_bytes: int | None) -> CopyTable | None:
    """What a file of another program than nccl-tests says; None where it is of none."""
    if file.path.suffix == ".json" or content.lstrip()[:1] == b"{":
        return copy_tests.parse_nvbandwidth(file, content, size_bytes) if _is_nvbandwidth(file, content) else None
    text = logs.plain(file.decoded(content))
    if copy_tests.NVBANDWIDTH_MARK.search(text):
        if tartan_pairs.TARTAN_MARK.search(text) or copy_tests.P2P_TEST_MARK.search(text):
            raise file.error("holds the output of nvbandwidth and of another program; expected one program in a file")
        return copy_tests.parse_text(file, text, size_bytes)
    if tartan_pairs.TARTAN_MARK.search(text):
        return tartan_pairs.parse_tartan(file, text)
    if copy_tests.P2P_TEST_MARK.search(text):
        return copy_tests.parse_p2p_test(file, text, size_bytes)
    return copy_rows.parse(file, text, gpus) if copy_rows.MARK.search(text) else None


class _Titled(msgspec.Struct):
    nvbandwidth: msgspec.Raw | None = None


def _is_nvbandwidth(file: File, content: bytearray) -> bool:
    try:
        return decode(file, content, _Titled).nvbandwidth is not None
    except FileError:  # what is wrong with it, its reader says
        return b'"nvbandwidth"' in content[:2000]


def _of_nccl_tests(file: File, collective: str | None, gpus: int | None) -> BenchRecord:
    if collective is not None and collective not in OPERATIONS:
        raise unknown_name("collective", collective, tuple(OPERATIONS), "collective")
    measured = read_nccl_tests(str(file.path), collective, gpus, file.where)
    name = measured.collective
    if name is None:
        raise file.error(
            f"it does not say of which collective it is; expected collective= one of {', '.join(measured.may_be)}, "
            "which its figures fit"
        )
    by_size: dict[float, list[TimedSize]] = {}
    for row in measured.rows:
        by_size.setdefault(row.size_bytes, []).append(row)
    ranks = measured.ranks
    left_out = "left out: " + "; ".join(measured.left_out[:MOST_LEFT_OUT])
    more = f"; and {len(measured.left_out) - MOST_LEFT_OUT} more" if len(measured.left_out) > MOST_LEFT_OUT else ""
    groups = f"{ranks.groups} groups of ranks ran at once (NCCL_TESTS_SPLIT), each with {ranks.count}"
    return _record(
        source=f"{file.path.name} (nccl-tests)",
        library="nccl-tests",
        ranks=measured.gpus,
        points=[_point(name, rows) for rows in by_size.values()],
        cells=[],
        warnings=[
            *[_warning("imported", left_out + more)] * bool(measured.left_out),
            *[_warning(TEST_FAILED if measured.failed else "imported", measured.note)] * bool(measured.note),
            *[_warning(GROUPS, groups)] * (ranks.groups > 1),
            *_wrong(measured.wrong),
        ],
        name=file.path.name,
        devices=list(map(_rank, ranks.ranks)) if ranks.complete and ranks.count == measured.gpus else (),
    )


def _wrong(what: str) -> list[Warning]:
    return [Warning(code=WRONG_ELEMENTS, message=what, remedy="its times mean nothing")] * bool(what)


def _warning(code: str, message: str) -> Warning:
    return Warning(code=code, message=message, remedy="see docs/reading-benches.md")


def _record(
    *,
    source: str,
    library: str,
    ranks: int | None,
    points: list[BenchPoint],
    cells: list[CopyCell],
    warnings: list[Warning],
    name: str,
    devices: Sequence[Device] = (),
) -> BenchRecord:
    imported = Unknown(f"imported from {name}")
    no_ranks = Unknown("the file lists no ranks, and gpus= was not given")
    if points and ranks is None:
        message = f"{no_ranks}, so bus bandwidths and expected times are not known"
        warnings = [*warnings, Warning(code="no-ranks", message=message, remedy="add gpus=, how many took part")]
    if len(kinds := Counter(device.name for device in devices if device.name)) > 1:
        named = ", ".join(f"{count} {shortened(visible(name))}" for name, count in kinds.most_common(MOST_LEFT_OUT))
        remedy = "a collective is as slow as its slowest GPU; no described system has several kinds"
        warnings = [
            *warnings,
            Warning(code="mixed-gpus", message=f"lists several kinds of GPUs: {named}", remedy=remedy),
        ]
    record = BenchRecord(
        kind="bench",
        schema=SCHEMA,
        request=known(imported),
        source=source,
        outcome="ok",
        reason="",
        failures=[],
        stderr_end="",
        started_at=known(imported),
        duration_s=known(imported),
        world_size=known(no_ranks if ranks is None else ranks),
        library=library,
        crowding=known(imported),
        queue_length=known(imported),
        points=points,
        cells=cells,
        skipped=[],
        transport=known(imported),
        devices=list(devices) or known(imported),
        host_load=known(imported),
        clock=known(imported),
        warnings=warnings,
        environment=known(imported),
        other_nodes=known(imported),
        job=known(imported),
        unknown={},
    )
    return seal(record)


def _rank(rank: Rank) -> Device:
    return Device(
        rank=rank.rank,
        node=rank.host or "",
        index=rank.device,
        name=rank.name,
        uuid=known(SILENT),
        pci_bus_id=known(SILENT if rank.bus_id is None else rank.bus_id),
        cpus=known(SILENT),
    )


def _point(collective: str, rows: Sequence[TimedSize]) -> BenchPoint:
    """All times of one size, of which several cycles have one each."""
    wrong = [row.wrong for row in rows if row.wrong is not None]
    return BenchPoint(
        collective=collective,
        size_bytes=int(rows[0].size_bytes),
        times_s=[row.time_s for row in rows],
        wrong=known(sum(wrong) if wrong else SILENT),
        cpu_share=known(SILENT),
        computing_lost=known(SILENT),
        queued_s=known(MEAN_OF_A_QUEUE),
        expected_s=known(NOT_DESCRIBED),
        algorithm=known(SILENT),
        protocol=known(SILENT),
    )


def _listed_gpu(gpu: ListedGpu) -> Device:
    return Device(
        rank=gpu.index,
        node=gpu.host or "not said",
        index=gpu.index if gpu.device is None else gpu.device,
        name=gpu.name,
        uuid=known(_NOT_SAID),
        pci_bus_id=gpu.pci_bus_id or known(_NOT_SAID),
        cpus=known(_NOT_SAID),
    )


def _cells(rows: Sequence[CopyRow]) -> list[CopyCell]:
    """A cell for each thing that was timed: what a file has several times, as the diagonals of matrices, is one's."""
    found: dict[CopyRow, list[CopyRow]] = {}
    for row in rows:
        found.setdefault(replace(row, time_s=0.0, evidence=()), []).append(row)
    return [_cell(same) for same in found.values()]


def _cell(same: Sequence[CopyRow]) -> CopyCell:
    row = same[0]
    return CopyCell(
        copy=row.copy,
        source=row.source,
        target=row.target,
        through=known(_NO_RELAY),
        size_bytes=row.size_bytes,
        direction=row.direction,
        endpoint=row.endpoint,
        access=row.access,
        engine=row.engine,
        together=list(row.together),
        time_s=[each.time_s for each in same],
        wrong=known(_NOT_SAID),
        path=known(_NOT_SAID if row.path is None else row.path),
        evidence=list(dict.fromkeys(sentence for each in same for sentence in each.evidence)),
        expected_s=known(NOT_DESCRIBED),
        verdict="not judged",
        pair_class=known(_NO_CLASS),
    )


# ---- bench reading --------------------------------------------------------------------------------------------------

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
            message = f"{name}{at} has no verdict, as the error of its expected times is not known: {error.source}"
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
            longer += [(exp(off), point.size_bytes)] * (off > error.slowest and not error.own)
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
    return [
        msgspec.structs.replace(cell, expected_s=_lab_copy_s(cell, network), expected_interval_s=[]) for cell in cells
    ]


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
        points.append(msgspec.structs.replace(point, expected_s=expected_s, expected_interval_s=[]))
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
    ends_s = [point.expected_s * exp(-error.q90), point.expected_s * exp(error.slowest)]
    point = msgspec.structs.replace(point, expected_interval_s=ends_s)
    verdict: Verdict = "as expected" if -error.q90 <= off <= error.slowest else "low" if off > 0 else "above the link"
    if verdict == "low" and not error.own:  # an error that was counted on other machines says nothing of this one
        return point
    causes = {"low": _low, "above the link": _above}.get(verdict)
    return msgspec.structs.replace(point, verdict=verdict, causes=causes(plan, point.size_bytes) if causes else [])


def _low(plan: CollectivePlan, size_bytes: int) -> list[str]:
    """What to check, the likeliest first."""
    if plan.cost(size_bytes).time_s > 2 * size_bytes / plan.cost(2**30).algbw_Bps:  # mostly fixed times
        return [SLOW_HOST, POWER, NO_PEERS, OTHERS]
    if plan.spans_nodes:
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
