"""Measured pair copies beside what the described topology allows: expected time, verdict, causes to check, and class.

    with_readings(record.cells, load("dgx1-p100"))

A copy is low if its median takes longer than expected by more than the model was ever off published copies
(`costs.tolerance`), and above the link if it takes less by more than that. What no figure of the topology tells
(pageable memory, storage, CPU ranks) is not judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from resnetx.formats.copy_rows import LOAD, STAGED
from resnetx.interconnect.pairs.classes import (
    LOCAL,
    ROUTED,
    SAME_SWITCH,
    SWITCHES,
    PairFinding,
    class_names,
    classify,
    described,
    findings,
    names_of,
    slow_peers,
)
from resnetx.interconnect.pairs.costs import host_path, pair_cost, tolerance
from resnetx.interconnect.systems.graph import System
from resnetx.interconnect.systems.paths import (
    LinkFlow,
    Path,
    PathKind,
    Transport,
    backward,
    copy_path,
    fair_shares,
    flow,
    opposite_flow,
    relay,
    to_host,
)
from resnetx.record.bench_record import CopyCell, CopyEnd, CopyFamily, Pair, Verdict
from resnetx.units import Unit

RELAYED_BYTES = 2**20  # of each piece that a relay passes on


@dataclass(frozen=True)
class _Expected:
    """What the topology allows."""

    path: Path
    time_s: float
    tolerance: float  # relative


def with_readings(
    cells: Sequence[CopyCell],
    system: System | None,
    transport: Transport = "auto",
    devices: Sequence[int] | None = None,
) -> list[CopyCell]:
    """The cells, each with its expected time, verdict, causes and class.

    `transport`: what was asked for. `devices`: the GPUs of the system that the bench numbers from 0; None: all of them
    in their order. Without a system there are classes only, named by the order of bandwidth.
    """
    placed = [_placed(cell, devices) for cell in cells] if devices else list(cells)
    judged = [_judged(cell, system, transport) for cell in placed]
    names: dict[int, str] = {}
    for members in _families(judged).values():
        times = _times(judged, members)
        for size, classes in classify(times, _names(system, judged[members[0]].family, transport)).items():
            of_pair = class_names(classes)
            names |= {member: of_pair[_pair(judged[member])] for member in members if judged[member].size_bytes == size}
    read = zip(cells, judged, strict=True)
    return [
        msgspec.structs.replace(
            cell,
            expected_s=found.expected_s,
            expected_interval_s=found.expected_interval_s,
            verdict=found.verdict,
            causes=found.causes,
            pair_class=names.get(index),
        )
        for index, (cell, found) in enumerate(read)
    ]


def _placed(cell: CopyCell, devices: Sequence[int]) -> CopyCell:
    """A cell with the GPUs' numbers in the system for those in the bench."""

    def place(of: CopyEnd) -> CopyEnd:
        return devices[of] if isinstance(of, int) and of < len(devices) else of

    through = None if cell.through is None else place(cell.through)
    assert through is None or isinstance(through, int)
    together = [Pair(source=place(pair.source), target=place(pair.target)) for pair in cell.together]
    return msgspec.structs.replace(
        cell, source=place(cell.source), target=place(cell.target), through=through, together=together
    )


def findings_of(
    cells: Sequence[CopyCell],
    system: System | None,
    transport: Transport = "auto",
    devices: Sequence[int] | None = None,
    unit: Unit = "GPU",
) -> dict[CopyFamily, list[PairFinding]]:
    """What stands out among copies between GPUs that ran alone: anti-locality, a slow pair or GPU, slow peers."""
    placed = [_placed(cell, devices) for cell in cells] if devices else list(cells)
    families = _families(placed)
    found = {}
    for family, members in families.items():
        if family.copy in ("device", STAGED):
            over: Transport = "host" if family.copy == STAGED else transport
            names = _names(system, family, over)
            kinds = _kinds(system, names, over)
            times = _times(placed, members)
            staged = families.get(family._replace(copy=STAGED, access="", engine=""), [])
            beside = slow_peers(times, _times(placed, staged)) if family.copy == "device" else []
            found[family] = [*findings(times, names, kinds, unit), *beside]
    return {family: each for family, each in found.items() if each}


# ---- classes


def _families(cells: Sequence[CopyCell]) -> dict[CopyFamily, list[int]]:
    """The places of the cells that ran alone, by what they can be compared with."""
    found: dict[CopyFamily, list[int]] = {}
    for index, cell in enumerate(cells):
        if not cell.together and cell.time_s:
            found.setdefault(cell.family, []).append(index)
    return found


def _pair(cell: CopyCell) -> tuple[CopyEnd, CopyEnd]:
    return cell.source, cell.target


def _times(cells: Sequence[CopyCell], members: Sequence[int]) -> dict[int, dict[tuple[CopyEnd, CopyEnd], float]]:
    """The median of each pair at each size; of several ways, the fastest."""
    times: dict[int, dict[tuple[CopyEnd, CopyEnd], float]] = {}
    for index in members:
        cell = cells[index]
        at = times.setdefault(cell.size_bytes, {})
        at[_pair(cell)] = min(median(cell.time_s), at.get(_pair(cell), float("inf")))
    return times


def _names(system: System | None, family: CopyFamily, transport: Transport) -> dict[tuple[CopyEnd, CopyEnd], str]:
    if system is None or system.unit == "rank":
        return {}
    described_names = names_of(system, "host" if family.copy == STAGED else transport)
    return dict.fromkeys(described_names, ROUTED) if family.copy == "relay" else described_names


def _kinds(
    system: System | None, names: Mapping[tuple[CopyEnd, CopyEnd], str], transport: Transport
) -> dict[tuple[CopyEnd, CopyEnd], PathKind]:
    if system is None:
        return {}
    chosen: Transport = "auto" if transport == "peer" else transport
    pairs = ((a, b) for a, b in names if isinstance(a, int) and isinstance(b, int))
    return {(a, b): copy_path(system, a, b, chosen).kind for a, b in pairs}


# ---- what is expected


def _judged(cell: CopyCell, system: System | None, transport: Transport) -> CopyCell:
    expected = _expected(cell, system, transport) if system and system.unit == "GPU" else None
    if expected is None or system is None or not cell.time_s:
        return msgspec.structs.replace(cell, expected_s=None, expected_interval_s=[], verdict="not judged", causes=[])
    verdict = judge(median(cell.time_s), expected.time_s, expected.tolerance)
    causes = causes_of(cell, verdict, expected.path, described(system, expected.path))
    ends_s = [expected.time_s / (1 + expected.tolerance), expected.time_s / (1 - expected.tolerance)]
    return msgspec.structs.replace(
        cell, expected_s=expected.time_s, expected_interval_s=ends_s, verdict=verdict, causes=causes
    )


def judge(time_s: float, expected_s: float, tolerance: float) -> Verdict:
    """A measured time beside an expected one. `tolerance`: of expected over measured, less one."""
    error = expected_s / time_s - 1
    if abs(error) <= tolerance:
        return "as expected"
    return "low" if error < 0 else "above the link"


def _expected(cell: CopyCell, system: System, transport: Transport) -> _Expected | None:
    path = _path(cell, system, transport)
    if path is None:
        return None
    alone_s = _alone_s(cell, path, system)
    time_s = path.latency_s + (alone_s - path.latency_s) * _slowed(cell, system, transport)
    return _Expected(path, time_s, tolerance(system.name, path.kind, cell.direction, cell.size_bytes))


def _alone_s(cell: CopyCell, path: Path, system: System) -> float:
    """Of a copy that nothing else runs beside; a relay passes pieces on while it receives the next ones."""

    def cost_s(leg: Path, size_bytes: int) -> float:
        cost = pair_cost(leg, size_bytes)
        return cost.time_s if cell.direction == "one-way" else cost.both_ways_s

    if cell.through is None:
        return cost_s(path, cell.size_bytes)
    legs = [copy_path(system, path.source, cell.through), copy_path(system, cell.through, path.target)]
    slowest = min(legs, key=lambda leg: leg.bandwidth_Bps)
    return cost_s(legs[0], min(cell.size_bytes, RELAYED_BYTES)) + cost_s(slowest, cell.size_bytes)


def _path(cell: CopyCell, system: System, transport: Transport) -> Path | None:
    """The path that the topology has for a copy; None where it says nothing of such copies."""
    source, target = cell.source, cell.target
    places = [place for place in (source, target, cell.through) if isinstance(place, int)]
    if cell.copy == LOAD or cell.endpoint == "pageable" or not all(0 <= index < len(system.gpus) for index in places):
        return None
    chosen = _between_gpus(transport)
    if cell.copy == STAGED:
        chosen = "host"
    if isinstance(source, int) and isinstance(target, int):
        if cell.endpoint != "device" or transport == "socket":
            return None
        if cell.through is not None:
            return relay(system, (source, cell.through, target))
        return copy_path(system, source, target, chosen)
    device = source if isinstance(source, int) else target
    other = target if isinstance(source, int) else source
    return host_path(system, device) if isinstance(device, int) and _is_host(other) else None


def _is_host(place: CopyEnd) -> bool:
    return isinstance(place, str) and (place == "host" or place.startswith("numa"))


def _slowed(cell: CopyCell, system: System, transport: Transport) -> float:
    """How many times as long bytes take because of what runs at the same time."""
    own_flow = _flow(system, cell.source, cell.target, transport)
    if not cell.together or own_flow is None:
        return 1.0
    others = [(pair, _flow(system, pair.source, pair.target, transport)) for pair in cell.together]
    found = [(cell.source, cell.target, own_flow), *((pair.source, pair.target, one) for pair, one in others if one)]
    flows = [one for _, _, one in found]
    if cell.direction == "both-ways":
        flows = [
            way for source, target, one in found for way in (one, _opposite(system, source, target, one, transport))
        ]
    alone = flows[:2] if cell.direction == "both-ways" else flows[:1]
    (alone_Bps, _), *_ = fair_shares(system, alone)
    (shared_Bps, _), *_ = fair_shares(system, flows)
    return alone_Bps / shared_Bps


def _opposite(system: System, source: CopyEnd, target: CopyEnd, one: LinkFlow, transport: Transport) -> LinkFlow:
    if isinstance(source, int) and isinstance(target, int):
        return opposite_flow(system, source, target, one, _between_gpus(transport))
    return LinkFlow(backward(one.steps), one.staged, one.from_host)


def _between_gpus(transport: Transport) -> Transport:
    return "auto" if transport in ("peer", "socket") else transport


def _flow(system: System, source: CopyEnd, target: CopyEnd, transport: Transport) -> LinkFlow | None:
    if isinstance(source, int) and isinstance(target, int):
        return flow(system, source, target, _between_gpus(transport)) if source != target else None
    for device, other, down in ((target, source, True), (source, target, False)):
        if isinstance(device, int) and _is_host(other):
            up = to_host(system, system.gpus[device].name)
            return LinkFlow(backward(up) if down else up, staged=False, from_host=True) if up else None
    return None


def counted(cells: Sequence[CopyCell]) -> Iterator[tuple[Verdict, int]]:
    """How many cells have each verdict, the worst verdicts first."""
    order: tuple[Verdict, ...] = ("low", "above the link", "as expected", "not judged")
    for verdict in order:
        if count := sum(cell.verdict == verdict for cell in cells):
            yield verdict, count


# Why a copy is slower or faster than its topology allows: what to check, the likeliest first.
#
# Order and words follow what users of nccl-tests and nvbandwidth were told: NVIDIA/nccl-tests issues 29, 117, 178 and
# 212, NVIDIA/nccl issues 814, 1264 and 1309, gearshifft issue 82 (memory on the wrong NUMA node: a third of the rate),
# and Li et al. 2019, section 3.1.

PEER_OFF = "peer access is off or refused, so that the copy is staged in host memory (nvidia-smi topo -p2p r)"
NVLINK_UNUSED = "the copy went over PCIe, not NVLink: links are down or were left out (nvidia-smi nvlink --status)"
BESIDE = "what ran at the same time shares a link that the description takes for separate"
UPLINK = "the GPUs share one uplink, which everything else below their switch uses as well"
FEWER_LINKS = "fewer NVLinks are up than described, or at a lower rate (nvidia-smi nvlink --status)"
PCIE_LINK = "a PCIe link runs below its width or generation (nvidia-smi -q -d PCI; lspci -vv: LnkSta beside LnkCap)"
NUMA = "host memory lies on another NUMA node than the GPU (numactl --cpunodebind, --membind)"
ACS = "an IOMMU or ACS sends traffic between peers up to the root and down again (dmesg; lspci -vvv: ACSCtl)"
POWER = (
    "the GPU or its link was in a state that saves power, or its clocks are held down (nvidia-smi -q -d PERFORMANCE)"
)
ERRORS = (
    "errors are corrected on the way: PCIe replays, NVLink CRC, ECC (nvidia-smi -q; nvidia-smi nvlink --errorcounters)"
)
OTHERS = "another process uses the GPUs, their links or the host's memory"
SLOW_HOST = "the host starts copies slowly: its CPU clock, busy threads, or a remote NUMA node"

CACHE = "the copy fits into the GPU's level-2 cache, so that it does not wait for memory"
OTHER_PATH = "the copy took a faster path than the one expected: {path}"
SHARED_MEMORY = "both ends share memory of one host, so that no link is crossed"
DESCRIBED_LOW = "the description's rate is low for this machine: {limit}"


def causes_of(cell: CopyCell, verdict: Verdict, expected: Path, name: str) -> list[str]:
    """What to check, the likeliest first; nothing where a copy takes what it should. `name`: the pair's class."""
    if verdict == "low":
        return list(dict.fromkeys(_low(cell, expected, name)))
    if verdict == "above the link":
        return _above(cell, expected, name)
    return []


def _low(cell: CopyCell, expected: Path, name: str) -> list[str]:
    first = []
    if expected.kind in ("nvlink", "pcie") and name != LOCAL and cell.path == "host":
        first.append(PEER_OFF)
    if expected.kind == "nvlink" and cell.path == "pcie":
        first.append(NVLINK_UNUSED)
    if cell.together:
        first.append(BESIDE)
    if cell.size_bytes < expected.latency_s * expected.bandwidth_Bps:  # the latency is most of it
        return [*first, POWER, SLOW_HOST, OTHERS]
    if expected.kind == "local":
        return [*first, POWER, OTHERS, ERRORS]
    if expected.kind == "nvlink":
        return [*first, FEWER_LINKS, ERRORS, POWER, OTHERS]
    if expected.kind == "host" and name in (SAME_SWITCH, SWITCHES):
        first.append(UPLINK)
    between = cell.copy in ("device", "relay", "together")
    to_check = [PCIE_LINK, ACS] if between and expected.kind == "pcie" else [PCIE_LINK, NUMA]
    return [*first, *to_check, POWER, ERRORS, OTHERS]


def _above(cell: CopyCell, expected: Path, name: str) -> list[str]:
    if name == LOCAL and cell.source == cell.target:
        return [CACHE, DESCRIBED_LOW.format(limit=expected.limit)]
    if cell.path == "shared memory":
        return [SHARED_MEMORY]
    other = [OTHER_PATH.format(path=cell.path)] if cell.path not in (None, expected.kind) else []
    return [*other, DESCRIBED_LOW.format(limit=expected.limit)]
