"""Measured collectives from files: bench records, output of nccl-tests (text or JSON), points typed in YAML."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx.errors import ConfigError, FileError
from resnetx.loading import YAML_BYTES, File, YamlFile, decode, is_file, is_folder
from resnetx.record import MAX_BYTES, BenchPoint, BenchRecord, RunFolder
from resnetx.record import read as read_record
from resnetx.record.bench import WRONG_ELEMENTS
from resnetx.record.files import MOST_BYTES, LONGEST_s, SHORTEST_s
from resnetx.units import size, size_text

if TYPE_CHECKING:
    from resnetx.formats.nccl_tests import NcclTests

UNCALIBRATED = "none"  # instead of a file: by the model alone, without published times either
MAX_TABLE_BYTES = 2**24  # of a table, or the JSON, of nccl-tests
MOST = 1e6  # times as long, or of a share


@dataclass(frozen=True)
class MeasuredSize:
    """One measured collective: the size of the whole array, and the time of one operation."""

    size_bytes: float
    time_s: float
    wrong: int | None = None  # elements that were not what they should be; None: not checked
    cpu_share: float | None = None  # CPU seconds that a rank spends for each second of it; None: unknown, or on GPUs
    computing_lost: float | None = None  # seconds of computing that a rank loses to it, for each that it takes alone


@dataclass(frozen=True)
class MeasuredCollective:
    """Points of one collective on one set of GPUs, and where they are from."""

    source: str
    points: tuple[MeasuredSize, ...]
    collective: str | None = None  # None: the file does not say
    gpus: int | None = None
    crowding: float | None = None  # how many times as long computing takes while all CPU ranks compute
    nodes: frozenset[str] | None = None  # that a bench of resnetx ran on; None: imported
    registered: bool = False  # in memory that was registered with NCCL
    gpu_names: tuple[str, ...] = ()  # as drivers name the GPUs, each once; (): not said
    hosts: int | None = None  # that the ranks were on; None: not said
    library: str | None = None  # that a bench of resnetx ran with, and its version; None: imported

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds that a rank spends for each second of communication, the mean over bytes: large sizes decide."""
        known = [(point.size_bytes, point.cpu_share) for point in self.points if point.cpu_share is not None]
        return sum(weight * share for weight, share in known) / sum(weight for weight, _ in known) if known else None

    @property
    def computing_lost(self) -> float | None:
        """Seconds of computing lost for each second of communication during it, the median over sizes."""
        known = [point.computing_lost for point in self.points if point.computing_lost is not None]
        return median(known) if known else None


def read(path: str, collective: str | None = None) -> MeasuredCollective:
    """Measured points from a bench record (or its folder), nccl-tests (out of place), or a YAML file of points.

    `collective`: which one is wanted; of several in a record it must be said.
    """
    where = f"calibration={path}"
    file_path = RunFolder(Path(path)).record if is_folder(Path(path)) else Path(path)
    if file_path != Path(path) and not is_file(file_path):
        raise ConfigError(f"{where}: a folder without {file_path.name}; expected the folder of one bench, or a file")
    if file_path.suffix in (".yaml", ".yml"):
        return _typed(File(file_path, "measured points", YAML_BYTES, where))
    file = File(file_path, "measured collectives", MAX_BYTES, where)
    content = file.content()
    if _is_bench_record(file, content):
        record = read_record(file_path, BenchRecord)
        return measured(record, collective, f"{file_path.parent.name}/{file_path.name}", where)
    if len(content) > MAX_TABLE_BYTES:
        raise file.error(f"larger than {size_text(MAX_TABLE_BYTES)}; expected the text or JSON of nccl-tests")
    from resnetx.formats import nccl_tests

    found = nccl_tests.parse(file, content, collective)
    if found.wrong or found.left_out:
        fault = f"{found.wrong}: its times mean nothing" if found.wrong else f"{found.left_out[0]}; take that line out"
        raise file.error(fault)
    listed = found.ranks.ranks
    return MeasuredCollective(
        source=f"{file.path.name} (nccl-tests)",
        points=tuple(MeasuredSize(row.size_bytes, row.time_s, row.wrong) for row in found.rows),
        collective=found.collective,
        gpus=found.gpus,
        gpu_names=tuple(dict.fromkeys(rank.name for rank in listed if rank.name)),
        hosts=len({rank.host for rank in listed}) if found.ranks.complete and found.gpus == len(listed) else None,
    )


def by_gpus(path: str, collective: str) -> dict[int | None, MeasuredCollective]:
    """The same of every record in a folder of benches, by the number of GPUs; None: a file that does not say it."""
    folder = Path(path)
    record = RunFolder(folder).record
    runs = sorted(other.parent for other in folder.glob(f"*/{record.name}")) if is_folder(folder) else []
    if not runs or is_file(record):
        single = read(path, collective)
        return {single.gpus: single}
    measured_on: dict[int | None, MeasuredCollective] = {}
    for run in runs:
        bench = read(str(run), collective)
        if bench.gpus in measured_on:
            raise ConfigError(f"calibration={path}: has several benches of {bench.gpus} GPUs; name the folder of one")
        measured_on[bench.gpus] = bench
    if len({bench.registered for bench in measured_on.values()}) > 1:
        raise ConfigError(
            f"calibration={path}: has benches with registered buffers and without; name the folder of one"
        )
    return measured_on


def read_nccl_tests(path: str, collective: str | None, gpus: int | None, where: str) -> "NcclTests":
    """What a table or JSON of nccl-tests says, and nothing else; `where`: the setting that error messages name."""
    file = File(Path(path), "the text or JSON of nccl-tests", MAX_TABLE_BYTES, where)
    content = file.content()
    if _is_bench_record(file, content):
        raise file.error("a bench record already; expected the text or JSON of nccl-tests")
    from resnetx.formats import nccl_tests

    return nccl_tests.parse(file, content, collective, gpus)


class _Kind(msgspec.Struct):
    kind: str = ""


def _is_bench_record(file: File, content: bytearray) -> bool:
    try:
        return file.path.suffix == ".json" and decode(file, content, _Kind).kind == "bench"
    except FileError:  # what is wrong with it, its reader says
        return False


# ---- points typed in


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points typed in: `source: ...`, `gpus: 8` and `points: [{size: 64MiB, time_us: 911}]`."""

    source: str
    points: list[dict[str, Any]]
    gpus: int | None = None


def _typed(file: File) -> MeasuredCollective:
    text = YamlFile(file)
    typed: _Typed = text.convert(_Typed)
    if not typed.points:
        raise text.error(["points"], "points=[]: expected points as {size: 64MiB, time_us: 911}")
    points = [_typed_point(text, index, point) for index, point in enumerate(typed.points)]
    return MeasuredCollective(typed.source, tuple(points), gpus=typed.gpus)


def _typed_point(text: YamlFile, index: int, entry: dict[str, Any]) -> MeasuredSize:
    where: list[str | int] = ["points", index]
    try:
        point = MeasuredSize(size(str(entry["size"])), float(entry["time_us"]) * 1e-6)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise text.error(where, f"{error}: expected points as {{size: 64MiB, time_us: 911}}") from None
    if not (0 < point.size_bytes <= MOST_BYTES and SHORTEST_s <= point.time_s <= LONGEST_s):
        raise text.error(where, "expected sizes and times above 0")
    return point


# ---- bench records


def measured(record: BenchRecord, collective: str | None, source: str, where: str) -> MeasuredCollective:
    """The points of one collective of a bench record, smallest size first: medians of its `telling_times`."""
    wanted = _collective_of(record, collective, where)
    points = sorted(
        (point for point in record.points if point.collective == wanted), key=lambda point: point.size_bytes
    )
    wrong = [warning.message for warning in record.warnings if warning.code == WRONG_ELEMENTS]
    if wrong and not any(point.wrong for point in points):  # else the point says it better
        raise ConfigError(f"{where}: {wrong[0]}: its times mean nothing")
    for point in points:
        if fault := _fault(point):
            raise ConfigError(f"{where}: {fault}")
    if record.crowding is not None and not 0 < record.crowding <= MOST:
        raise ConfigError(f"{where}: crowding={record.crowding}: expected more than 0")
    return MeasuredCollective(
        source=source,
        points=tuple(map(_point, points, telling_times(points))),
        collective=wanted,
        gpus=record.world_size,
        crowding=record.crowding,
        nodes=frozenset(device.node for device in record.devices or []) if record.source == "measured" else None,
        registered=record.request is not None and record.request.registered,
        gpu_names=tuple(dict.fromkeys(device.name for device in record.devices or [] if device.name)),
        hosts=len({device.node for device in record.devices}) if record.devices else None,
        library=record.library if record.source == "measured" else None,
    )


def refuse_other_library(measured: MeasuredCollective, library: str) -> None:
    """Refuses a bench of gloo for NCCL's collectives, and the other way round: they take other ways.

    `library`: a generation, as `library=` has it.
    """
    if measured.library is None or measured.library.startswith("gloo") == (library == "gloo"):
        return
    raise ConfigError(
        f"calibration={measured.source}: measured with {measured.library}, and library={library} is predicted; give a "
        "bench with the same library, or leave calibration= out"
    )


def _collective_of(record: BenchRecord, collective: str | None, where: str) -> str:
    """The one that is wanted, or the only one that a bench without faults has."""
    names = sorted({point.collective for point in record.points})
    ended = f"({record.outcome}: {record.reason})"
    if not names:
        raise ConfigError(f"{where}: has no points {ended}; expected a bench that succeeded")
    if collective is None and len(names) > 1:
        raise ConfigError(f"{where}: holds {', '.join(names)}; say which with collective=")
    if record.outcome != "ok":
        raise ConfigError(f"{where}: this bench did not succeed {ended}; run it again")
    if collective is not None and collective not in names:
        raise ConfigError(f"{where}: holds {', '.join(names)}; expected {collective}")
    return collective or names[0]


def _fault(point: BenchPoint) -> str:
    """Why a point cannot be a measurement; "" if it can."""
    shares = [share for share in (point.cpu_share, point.computing_lost) if share is not None]
    if point.wrong:
        return f"{point.wrong} wrong elements at {point.size_bytes} bytes: its times mean nothing"
    for times_s in (point.times_s, [SHORTEST_s] if point.queued_s is None else point.queued_s):
        if not (times_s and all(SHORTEST_s <= time_s <= LONGEST_s for time_s in times_s)):
            return f"expected times above 0, got {times_s[:3]} s"
    if not 1 <= point.size_bytes <= MOST_BYTES:
        return f"expected sizes above 0, got {point.size_bytes} bytes"
    if not all(-MOST <= share <= MOST for share in shares):
        return f"expected shares of a rank's time, got {point.cpu_share}, {point.computing_lost}"
    return ""


def telling_times(points: Sequence[BenchPoint]) -> list[list[float]]:
    """The times of each point that say what a training step waits for.

    On GPUs they are those of queues, as the host queues messages ahead; where a point lacks them, all points' times are
    those of single operations, as the two are not to be mixed.
    """
    queued = [point.queued_s for point in points if point.queued_s is not None]
    return queued if len(queued) == len(points) else [point.times_s for point in points]


def _point(of: BenchPoint, times_s: list[float]) -> MeasuredSize:
    return MeasuredSize(of.size_bytes, median(times_s), of.wrong, of.cpu_share, of.computing_lost)
