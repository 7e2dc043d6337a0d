"""Measured collectives from files: bench records, output of nccl-tests (text or JSON), points typed in YAML."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, isnan, log, log1p, nan
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx.errors import ConfigError, FileError
from resnetx.loading import File, YamlFile, decode, is_file, is_folder
from resnetx.record import MAX_BYTES, BenchPoint, BenchRecord, RecordKind, RunFolder
from resnetx.record import read as read_record
from resnetx.record.bench_record import WRONG_ELEMENTS
from resnetx.record.sealing import MOST_BYTES, LONGEST_s, SHORTEST_s
from resnetx.units import size, size_text

if TYPE_CHECKING:
    from resnetx.formats.nccl_tests import NcclTests


# ---- calibration ----------------------------------------------------------------------------------------------------
# Measured sizes that correct a plan: how many times as long as modelled each takes, and what lies between them.
#
#     calibrate(plan(system, devices=[0, 1, 2, 3]), read("all_reduce_perf.txt"))        # in collective.py
#
# A measured size takes what was measured. Between two of them the plan is followed, times their ratios: the logarithm
# of measured over modelled time is interpolated over the logarithm of the size, so that protocols may change anywhere
# along the sizes. Beyond both ends the ratio there holds. Ratios are to the uncalibrated plan, so a calibration that
# was made on four GPUs also corrects a plan for eight. How good it is, is said by its held-out error: every size
# between the smallest and the largest, predicted from the others; where several publications have measured, each from
# the others. One large size says how fast bytes move, and is carried to others of that kind (`carried`); nothing of it
# can be held out, and `errors` has what ladders were off by that were calibrated so.

LEVEL = 0.9
ONE_SIZE_BYTES = tuple(float(2**power) for power in range(3, 36))  # where one measured size is carried to
FEWEST_SIZES = 2  # one says nothing of how the ratio changes with the size
# From so many bytes on one measured size counts in full, and for nothing below a quarter of them: other protocols move
# small arrays. Chosen on published ladders, each kind of machine predicted by what is best of all others.
CARRIED_BYTES = 2**24


@dataclass(frozen=True)
class ComparedTime:
    """A measured time of one size beside what the uncalibrated plan says of it."""

    size_bytes: float
    measured_s: float
    modelled_s: float
    publication: str = ""  # times of one are held out together where there are several

    @property
    def log_ratio(self) -> float:
        return log(self.measured_s / self.modelled_s)


@dataclass(frozen=True)
class Calibration:
    """How many times as long as modelled sizes take."""

    source: str
    points: int
    curve: "SizeCurve"
    held_out_error: float  # mean |ln(predicted / measured)|; nan where no size could be held out
    held_out_q90: float  # that 90 % of these errors are within
    from_bytes: float = 0.0  # it says nothing of smaller sizes
    faster: float = 0.0  # ln of how many times as fast sizes may be, where that is more than these errors
    mean_counted: bool = True  # false: only what 90 % are within was

    def covers(self, size_bytes: float) -> bool:
        """Whether it corrects sizes like this."""
        return size_bytes >= self.from_bytes

    @property
    def elsewhere(self) -> bool:
        """Whether another machine like this was measured, as published ladders are."""
        return self.from_bytes > 0

    @property
    def judged(self) -> bool:
        """Whether any size could be held out."""
        return not isnan(self.held_out_error)

    def ratio(self, size_bytes: float) -> float:
        """Times of this size, over what the plan says without calibration."""
        return exp(self.curve.at(size_bytes)) if self.covers(size_bytes) else 1.0


@dataclass(frozen=True)
class SizeCurve:
    """Values over the logarithm of places (sizes, counts of GPUs): interpolated; beyond the ends, the value there."""

    places: tuple[float, ...]  # rising
    values: tuple[float, ...]

    def at(self, place: float) -> float:
        after = bisect_right(self.places, place)
        if after in (0, len(self.places)):
            return self.values[max(0, after - 1)]
        low, high = self.places[after - 1], self.places[after]
        share = log(place / low) / log(high / low)
        return self.values[after - 1] + share * (self.values[after] - self.values[after - 1])


def by_times(source: str, compared: Sequence[ComparedTime], from_bytes: float = 0.0) -> Calibration:
    """The calibration by these times."""
    curve = _curve(compared)
    if len(curve.places) < FEWEST_SIZES:
        raise ConfigError(f"calibration={source}: has one size; expected at least two, the smallest and the largest")
    errors = _held_out(compared)
    return Calibration(
        source,
        len(compared),
        curve,
        fmean(errors) if errors else nan,
        _quantile(errors) if errors else nan,
        from_bytes,
    )


def by_one_size(
    source: str, measured_bytes: float, slower: float, moving_share: Callable[[float], float]
) -> Calibration:
    """By one size: its bytes take `slower` times as long, and they are `moving_share` of a modelled time."""
    sizes = sorted({*ONE_SIZE_BYTES, measured_bytes})
    ratios = tuple(log1p((slower ** carried(size, measured_bytes) - 1) * moving_share(size)) for size in sizes)
    return Calibration(source, 1, SizeCurve(tuple(sizes), ratios), nan, nan)


def carried(size_bytes: float, measured_bytes: float) -> float:
    """Of what one size says of how fast bytes move, the share (as logarithms) that holds for another."""
    return min(1.0, max(0.0, 1 + log(size_bytes / min(measured_bytes, CARRIED_BYTES)) / log(4)))


def _curve(compared: Sequence[ComparedTime]) -> SizeCurve:
    """Each size once, with the mean of the logarithms that were measured of it."""
    ordered = sorted((time.size_bytes, time.log_ratio) for time in compared)
    means = {size: fmean(value for _, value in same) for size, same in groupby(ordered, lambda pair: pair[0])}
    return SizeCurve(tuple(means), tuple(means.values()))


def _held_out(compared: Sequence[ComparedTime]) -> list[float]:
    """Errors: of each publication from the others; where no two overlap, of each size between smallest and largest."""
    errors: list[float] = []
    publications = dict.fromkeys(time.publication for time in compared)
    for publication in publications if len(publications) > 1 else ():
        curve = _curve([time for time in compared if time.publication != publication])
        errors += [
            _off(curve, time.size_bytes, time.log_ratio)
            for time in compared
            if time.publication == publication and curve.places[0] <= time.size_bytes <= curve.places[-1]
        ]
    return errors or list(_each_size_held_out(_curve(compared)))


def _each_size_held_out(curve: SizeCurve) -> Iterator[float]:
    sizes, values = curve.places, curve.values
    for index in range(1, len(sizes) - 1):
        beside = (index - 1, index + 1)
        nearest = SizeCurve(tuple(sizes[each] for each in beside), tuple(values[each] for each in beside))
        yield _off(nearest, sizes[index], values[index])


def _off(curve: SizeCurve, size_bytes: float, log_ratio: float) -> float:
    return abs(curve.at(size_bytes) - log_ratio)


def _quantile(errors: Sequence[float]) -> float:
    return quantiles(errors, n=round(1 / (1 - LEVEL)), method="inclusive")[-1] if len(errors) > 1 else errors[0]


# ---- measured -------------------------------------------------------------------------------------------------------

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
        return _typed(YamlFile(file_path, "measured points", where))
    file = File(file_path, "measured collectives", MAX_BYTES, where)
    content = file.content()
    if _is_bench_record(file, content):
        record = read_record(file_path, BenchRecord)
        return measured(record, collective, f"{file_path.parent.name}/{file_path.name}", where)
    if len(content) > MAX_TABLE_BYTES:
        raise file.error(f"larger than {size_text(MAX_TABLE_BYTES)}; expected the text or JSON of nccl-tests")
    from resnetx.formats import nccl_tests

    tests = nccl_tests.parse(file, content, collective)
    if tests.wrong or tests.left_out:
        fault = f"{tests.wrong}: its times mean nothing" if tests.wrong else f"{tests.left_out[0]}; take that line out"
        raise file.error(fault)
    listed = tests.ranks.ranks
    return MeasuredCollective(
        source=f"{file.path.name} (nccl-tests)",
        points=tuple(MeasuredSize(row.size_bytes, row.time_s, row.wrong) for row in tests.rows),
        collective=tests.collective,
        gpus=tests.gpus,
        gpu_names=tuple(dict.fromkeys(rank.name for rank in listed if rank.name)),
        hosts=len({rank.host for rank in listed}) if tests.ranks.complete and tests.gpus == len(listed) else None,
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


def _is_bench_record(file: File, content: bytearray) -> bool:
    try:
        return file.path.suffix == ".json" and decode(file, content, RecordKind).kind == "bench"
    except FileError:  # what is wrong with it, its reader says
        return False


# ---- points typed in


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points typed in: `source: ...`, `gpus: 8` and `points: [{size: 64MiB, time_us: 911}]`."""

    source: str
    points: list[dict[str, Any]]
    gpus: int | None = None


def _typed(text: YamlFile) -> MeasuredCollective:
    typed: _Typed = text.convert(_Typed)
    if not typed.points:
        raise text.fault(["points"], "points=[]: expected points as {size: 64MiB, time_us: 911}")
    points = [_typed_point(text, index, point) for index, point in enumerate(typed.points)]
    return MeasuredCollective(typed.source, tuple(points), gpus=typed.gpus)


def _typed_point(text: YamlFile, index: int, entry: dict[str, Any]) -> MeasuredSize:
    where: list[str | int] = ["points", index]
    try:
        point = MeasuredSize(size(str(entry["size"])), float(entry["time_us"]) * 1e-6)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise text.fault(where, f"{error}: expected points as {{size: 64MiB, time_us: 911}}") from None
    if not (0 < point.size_bytes <= MOST_BYTES and SHORTEST_s <= point.time_s <= LONGEST_s):
        raise text.fault(where, "expected sizes and times above 0")
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
    if not names and (record.cells or record.patterns):
        raise ConfigError(f"{where}: has no collectives, which are all that calibrates; expected a bench of some")
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
