"""The traffic to steer for: of a pattern and a workload, or of files: CSV, records of runs and benches, NCCL's log."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from resnetx import record, workloads
from resnetx.api.systems import THIS
from resnetx.choices import Fsdp, NoExchange, Server, Zero1
from resnetx.compose import compose, struct_of
from resnetx.config import request_from
from resnetx.errors import ConfigError, shortened
from resnetx.formats.logs import read_channels
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives import traffic
from resnetx.interconnect.collectives.traffic import Matrix
from resnetx.interconnect.systems import changed_systems
from resnetx.interconnect.systems.system import System, described
from resnetx.loading import File, is_folder
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord, RunFolder, RunRecord
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.files import at_home
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.study import Point
from resnetx.units import si
from resnetx.workloads.counts import messages, variables_bytes

# Who owns the variables of TensorFlow's benchmarks, by pattern.
OWNERS: dict[str, Callable[[Sequence[float], int], tuple[int, ...]]] = {
    "replicated": traffic.round_robin,
    "server": traffic.least_loaded,
}


# The settings of `steer`: the node, who exchanges what on it, and what limits its links.


class SteerSettings(keywords.SteerFields, frozen=True, kw_only=True):
    """The settings that are no part of the workload."""

    @property
    def durations_s(self) -> list[float]:
        return [_seconds("durations", duration) for duration in self.durations]


def split(given: Point) -> tuple[SteerSettings, Point]:
    """The settings of the steering itself, and those that describe the workload."""
    workload = {key: value for key, value in given.items() if group_of(key) in tagged("workload")}
    own = at_home({key: value for key, value in given.items() if key not in workload})
    settings = struct_of(own, SteerSettings)
    if len(settings.systems) != 1:
        asked = f"systems={settings.systems}" if settings.systems else "systems: none is given"
        raise ConfigError(f"{asked}; expected a system whose links are steered, as dgx1-v100")
    return settings, workload


def _seconds(key: str, given: float | str) -> float:
    return setting_types.seconds_of(key, given)


class Node(msgspec.Struct, frozen=True):
    """The node as it is described, its units, and what switches them."""

    system: System
    units: tuple[tuple[int, ...], ...]
    unit_Bps: float
    switch: str | None
    reconfiguration_s: float | None


def node_of(settings: SteerSettings) -> Node:
    """The described node, with the photonic switch that is put into it if one is asked for."""
    (name,) = settings.systems
    if name == THIS:
        raise ConfigError(
            "systems=this: expected a described system; `resnetx topology --this out=mine.yaml` writes this one's"
        )
    system = described(name)
    if settings.switch is not None:
        system = changed_systems.with_switch(system, settings.switch)
    part = changed_systems.photonic(system)
    time_s = part.reconfiguration_s.value if part else None
    if settings.reconfiguration is not None:
        time_s = _seconds("reconfiguration", settings.reconfiguration)
    units = changed_systems.connectivity(system)
    return Node(system, units, changed_systems.unit(system).copy_Bps, part.about if part else None, time_s)


def devices_of(settings: SteerSettings, node: Node) -> list[int]:
    """The GPUs that take part; all of them unless they are named."""
    count = len(node.units)
    found = list(range(count)) if settings.devices is None else settings.devices
    if len(set(found)) != len(found) or not all(0 <= device < count for device in found) or len(found) < 2:
        raise ConfigError(
            f"devices={found}: expected at least two different GPU ids from 0 to {count - 1} of {node.system.name}"
        )
    return found


def receivers_of(settings: SteerSettings, gpus: int) -> Sequence[int] | None:
    """The limit of each GPU; None: there is none."""
    given = settings.receivers
    return [given] * gpus if isinstance(given, int) else given


# Collectives in which every GPU of a ring sends as much; a broadcast along one ends before its last step.
ALONG_RINGS = ("allreduce", "allgather", "reduce_scatter")


@dataclass(frozen=True)
class PhaseTraffic:
    """What one phase sends; rows and columns are the GPUs of the node."""

    name: str
    matrix: Matrix
    source: str  # where it is from, in a sentence
    in_bytes: bool = True  # whether its amounts are bytes, of a step or of all that was recorded
    exact: bool = False  # whether every flow must have a link: not so of what libraries stage in the host by themselves


# ---- of a workload --------------------------------------------------------------------------------------------------


def request_of(workload: Point) -> Request:
    return request_from(compose({**workload, "gpus": 1}))


def of_workload(settings: SteerSettings, request: Request, node: Node, devices: Sequence[int]) -> list[PhaseTraffic]:
    """What the GPUs send in a step of training."""
    layers = workloads.table(request.model, request.image_size)
    label, gpus, ranks = request.model.label, len(node.units), len(devices)
    pattern = settings.pattern
    if pattern in OWNERS:
        sizes = [float(size) for size in variables_bytes(layers)]
        owners = OWNERS[pattern](sizes, ranks)
        shared = {"replicated": "taken in turn", "server": "given to the GPU that has least"}[pattern]
        about = f"TensorFlow's {pattern} variables of {label}: {len(sizes)} variables, {shared}"
        ways = {"gradients to owners": traffic.to_owners, "back from owners": traffic.from_owners}
        if not settings.phases:
            return [_on(traffic.through_owners(sizes, owners, ranks), "a step", about, devices, gpus)]
        return [_on(way(sizes, owners, ranks), name, about, devices, gpus) for name, way in ways.items()]
    if settings.phases:
        raise ConfigError("phases=true: only pattern=replicated and pattern=server have phases; files are one each")
    if isinstance(request.strategy, Server | NoExchange):
        return [_of_server(request, label, pattern, sum(variables_bytes(layers)), devices, gpus)]
    if isinstance(request.strategy, Zero1 | Fsdp):
        raise ConfigError(
            f"strategy={request.strategy.kind}: its traffic is not modelled here; use another strategy, or a file of "
            "traffic"
        )
    sent = messages(layers, request.strategy, request.precision)
    return [of_messages([message.size_bytes for message in sent], label, settings.library, node, devices)]


def of_messages(
    sizes_bytes: Sequence[float], label: str, library: str | None, node: Node, devices: Sequence[int]
) -> PhaseTraffic:
    """All-reduces, along the rings and trees that the library searches on the node as it is built."""
    plan = collective.plan(node.system, "allreduce", devices, library)
    count = len(sizes_bytes)
    about = (
        f"{count} all-reduce{'s' * (count != 1)} of {label}'s gradients ({si(sum(sizes_bytes), 'B')}) by "
        f"{plan.library}: {plan.fastest(max(sizes_bytes)).label}"
    )
    return PhaseTraffic("a step", traffic.of_all_reduces(plan, sizes_bytes), about)


def _of_server(
    request: Request, label: str, pattern: str | None, whole_bytes: float, devices: Sequence[int], gpus: int
) -> PhaseTraffic:
    """To the first GPU, which keeps all variables, and back."""
    if pattern is not None:
        raise ConfigError(
            f"pattern={pattern}: strategy={request.strategy.kind} all-reduces nothing; use strategy=bucket"
        )
    if request.strategy != Server(device="gpu"):
        raise ConfigError(
            f"strategy={request.strategy.kind}: GPUs send each other nothing; expected bucket, layerwise or after, or "
            "strategy=server strategy.device=gpu, or pattern="
        )
    matrix = traffic.through_owners([whole_bytes], [0], len(devices))
    return _on(matrix, "a step", f"gradients of {label} to GPU {devices[0]}, and parameters back", devices, gpus)


def _on(matrix: Matrix, name: str, about: str, devices: Sequence[int], gpus: int) -> PhaseTraffic:
    return PhaseTraffic(name, traffic.on_devices(matrix, devices, gpus), about)


# ---- of files -------------------------------------------------------------------------------------------------------


def of_file(path: Path, settings: SteerSettings, node: Node, devices: Sequence[int]) -> PhaseTraffic:
    """The traffic of a file, as what it is."""
    if path.suffix == ".csv":
        return PhaseTraffic(path.stem, _of_all(read_traffic(path), path, node, devices), f"{path}", exact=True)
    file = RunFolder(path).record if is_folder(path) else path
    if file.suffix == ".json":
        kind = record.read(file, record.RecordKind, "a record of a run or a bench").kind
        if kind == "run":
            return _of_run(file, record.read(file, RunRecord), settings, node, devices)
        if kind == "bench":
            return _of_bench(file, record.read(file, BenchRecord), settings, node, devices)
        raise ConfigError(f"{file}: a record of kind {kind or 'unknown'}; expected that of a run or a bench")
    return _of_log(path, node, devices)


def _of_run(file: Path, run: RunRecord, settings: SteerSettings, node: Node, devices: Sequence[int]) -> PhaseTraffic:
    """What each step of a run sent. Records count no bytes of pairs: they follow from its messages and its backend."""
    if run.workload is None or run.world_size is None or run.world_size < 2:
        raise ConfigError(f"{file}: a run of one rank, or one that failed early; expected one that exchanges gradients")
    _check_ranks(file, run.world_size, devices)
    sizes = [float(bucket.size_bytes) for bucket in run.buckets or ()] or [float(run.workload.gradient_bytes)]
    label = run.workload.workload
    if isinstance(run.request.strategy, Server):
        matrix = traffic.through_owners([sum(sizes)], [0], run.world_size)
        about = (
            f"{file}: gradients of {label} to rank 0, and parameters back; derived, as no record counts bytes of pairs"
        )
        return _on(matrix, file.parent.name, about, devices, len(node.units))
    if run.backend == "gloo":
        matrix = traffic.around_rings([(range(run.world_size), 1.0)], sum(sizes), run.world_size)
        about = (
            f"{file}: {len(sizes)} all-reduces of {label} by gloo, around one ring in the order of ranks; derived, as "
            "no record counts bytes of pairs"
        )
        return _on(matrix, file.parent.name, about, devices, len(node.units))
    phase_traffic = of_messages(sizes, label, settings.library, node, devices)
    about = (
        f"{file}: {phase_traffic.source}, as it would run on {node.system.name}; derived: NCCL's log has its real rings"
    )
    return PhaseTraffic(file.parent.name, phase_traffic.matrix, about)


def _of_bench(
    file: Path, bench: BenchRecord, settings: SteerSettings, node: Node, devices: Sequence[int]
) -> PhaseTraffic:
    """All bytes that a bench sent between GPUs: of its copies as they were, of its collectives by their algorithm."""
    ranks = bench.world_size or len(devices)
    _check_ranks(file, ranks, devices)
    parts = [_of_copies(file, bench, ranks)]
    gloo = (bench.library or "").startswith("gloo")
    for point in bench.points:
        if point.collective not in ALONG_RINGS:
            continue
        factor, size = OPERATIONS[point.collective].bus_factor(ranks), point.size_bytes * len(point.times_s)
        rings = [(range(ranks), 1.0)] if gloo else _rings_of(point.collective, settings, node, devices)
        parts.append(traffic.around_rings(rings, size, ranks, factor))
    matrix = traffic.added_up(parts)
    how = "around one ring in the order of ranks" if gloo else f"around the rings of {node.system.name}"
    about = f"{file}: its copies" if not bench.points else f"{file}: its copies and collectives, these {how} (derived)"
    if not any(map(any, matrix)):
        raise ConfigError(
            f"{file}: nothing in it was sent from GPU to GPU; expected copies or collectives between them"
        )
    return _on(matrix, file.parent.name, about, devices, len(node.units))


def _rings_of(name: str, settings: SteerSettings, node: Node, devices: Sequence[int]) -> list[tuple[list[int], float]]:
    """Rings of ranks, as the library searches them on the node."""
    plan = collective.plan(node.system, name, devices, settings.library)
    return [([list(devices).index(device) for device in ring.order], ring.bandwidth_Bps) for ring in plan.rings]


def _of_copies(file: Path, bench: BenchRecord, ranks: int) -> Matrix:
    sent = [[0.0] * ranks for _ in range(ranks)]
    for cell in bench.cells:
        pairs = [(cell.source, cell.target)] + [(cell.target, cell.source)] * (cell.direction == "both-ways")
        for by, to in pairs:
            if isinstance(by, int) and isinstance(to, int) and by != to:
                if not {by, to} <= set(range(ranks)):
                    raise ConfigError(f"{file}: a copy from GPU {by} to {to}, and it is of {ranks} ranks; expected a "
                                      "record as `resnetx bench` writes it")  # fmt: skip
                sent[to][by] += cell.size_bytes * len(cell.time_s)
    return tuple(map(tuple, sent))


def _of_log(path: Path, node: Node, devices: Sequence[int]) -> PhaseTraffic:
    """What NCCL's log says: rings where it names them, else connections, each with the same share of what was run."""
    channels = read_channels(path)
    _check_ranks(path, channels.ranks, devices)
    sizes = [(name, size, count) for (name, size), count in channels.operations.items() if name in ALONG_RINGS]
    total = sum(OPERATIONS[name].bus_factor(channels.ranks) * size * count for name, size, count in sizes)
    amount = total or 1.0
    if channels.rings:
        matrix = traffic.around_rings([(ring, 1.0) for ring in channels.rings], amount, channels.ranks, factor=1.0)
        how = f"{len(channels.rings)} rings"
    else:
        most = max(
            sum(n for (by, _), n in channels.connections.items() if by == rank) for rank in range(channels.ranks)
        )
        matrix = tuple(
            tuple(amount * channels.connections.get((by, to), 0) / most for by in range(channels.ranks))
            for to in range(channels.ranks)
        )
        how = "connections of its channels, those of trees included"
    what = f"{len(sizes)} kinds of operations" if total else "the same on every channel, as it names no operations"
    about = f"{path}: {how}; {what}"
    moved = _on(matrix, path.stem, about, devices, len(node.units))
    return PhaseTraffic(path.stem, moved.matrix, about, in_bytes=bool(total))


def _check_ranks(path: Path, ranks: int, devices: Sequence[int]) -> None:
    if ranks != len(devices):
        raise ConfigError(
            f"{path}: of {ranks} ranks, and {len(devices)} GPUs take part; expected devices= with {ranks} GPU ids"
        )


def _of_all(matrix: Matrix, path: Path, node: Node, devices: Sequence[int]) -> Matrix:
    """A matrix of the GPUs that take part, or of all."""
    if len(matrix) == len(devices):
        return traffic.on_devices(matrix, devices, len(node.units))
    raise ConfigError(
        f"{path}: a matrix of {len(matrix)} GPUs, and {len(devices)} take part; expected a row and a column for each, "
        "or devices="
    )


# Traffic between GPUs as CSV: a row for each GPU that receives, a column for each that sends.
#
#     to,gpu0,gpu1,gpu2        a heading and names of rows may be there, both or neither
#     gpu0,0,120e6,40e6
#     gpu1,120e6,0,0
#     gpu2,40e6,0,0
#
# Figures are bytes, or any multiple of them; a cell that is empty is 0.

LIMIT_BYTES = 2**24
MOST_GPUS = 2**10
LEAST, MOST = 1e-9, 1e24  # of an amount: from shares to more bytes than any machine sends

CsvMatrix = tuple[tuple[float, ...], ...]


def read_traffic(path: Path) -> CsvMatrix:
    """The matrix of a file, [to][from]."""
    file = File(path, "a CSV of traffic", LIMIT_BYTES)
    rows = _rows(file)
    heading = _is_heading(rows[0][1], len(rows))
    rows = rows[1:] if heading else rows
    named = any(cells and cells[0].strip() and not _is_number(cells[0]) for _, cells in rows)
    if named or (heading and all(len(cells) == len(rows) + 1 for _, cells in rows)):  # GPUs may be named by numbers
        rows = [(line, cells[1:]) for line, cells in rows]
    if not rows:
        raise file.error("a heading and no rows; expected a row for each GPU")
    for line, cells in rows:
        if len(cells) != len(rows):
            raise file.error(
                f"{len(rows)} rows, and {len(cells)} columns here; expected as many columns as rows: a matrix of who "
                "sends to whom",
                line,
            )
    if len(rows) > MOST_GPUS:
        raise file.error(f"{len(rows)} rows; expected at most {MOST_GPUS} GPUs")
    matrix = tuple(tuple(_amount(file, line, cell) for cell in cells) for line, cells in rows)
    if not any(map(any, matrix)):
        raise file.error("all of it is 0; expected at least one pair of GPUs that send each other something")
    for gpu, (line, _) in enumerate(rows):
        if matrix[gpu][gpu]:
            raise file.error(f"{matrix[gpu][gpu]:g} from GPU {gpu} to itself; expected 0 on the diagonal", line)
    return matrix


def _rows(file: File) -> list[tuple[int, list[str]]]:
    """The rows that hold anything, each with its line."""
    reader = csv.reader(file.text().splitlines(), strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise file.error(f"not CSV ({error})", reader.line_num) from None
    if not rows:
        raise file.error("empty; expected a row for each GPU, with a column for each that sends to it")
    return rows


def _is_heading(cells: Sequence[str], rows: int) -> bool:
    """Whether a row has names, not amounts: words, or a word above the names of the rows."""
    words = [bool(cell.strip()) and not _is_number(cell) for cell in cells]
    corner = words[0] or not cells[0].strip()
    return (corner and len(cells) > 1 and all(words[1:])) or (words[0] and len(cells) == rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _amount(file: File, line: int, cell: str) -> float:
    if not cell.strip():
        return 0.0
    amount = float(cell) if _is_number(cell) else math.nan
    if not math.isfinite(amount) or amount < 0:
        raise file.error(f"{shortened(cell.strip(), 100)}: expected a number of bytes, 0 or more", line)
    if amount and not LEAST <= amount <= MOST:
        raise file.error(f"{shortened(cell.strip(), 100)}: expected 0, or {LEAST:g} to {MOST:g}", line)
    return amount
