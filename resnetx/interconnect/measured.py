"""Measured collectives as they come: bench records, output of nccl-tests (text or JSON), points typed in YAML."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from resnetx.errors import ConfigError, sentence
from resnetx.record import BenchPoint, BenchRecord, RecordError, RunFolder
from resnetx.record import read as read_record
from resnetx.units import size

MAX_BYTES = 2**24

# The programs of nccl-tests (less "_perf") -> the collectives that they time.
PROGRAMS = {
    "all_reduce": "allreduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_gather": "allgather",
    "reduce_scatter": "reduce_scatter",
}


@dataclass(frozen=True)
class Point:
    """One measured collective: the size of the whole array, and the time of one operation."""

    size_bytes: float
    time_s: float
    wrong: int | None = None  # elements that were not what they should be; None: nobody looked
    cpu_share: float | None = None  # CPU seconds that a rank spends for each second of it; None: unknown, or on GPUs
    computing_lost: float | None = (
        None  # seconds of computing that a CPU rank loses to it, for each that it takes alone
    )


@dataclass(frozen=True)
class Measured:
    """Points of one collective on one set of GPUs, and where they are from."""

    source: str
    points: tuple[Point, ...]
    collective: str | None = None  # None: the file does not say
    gpus: int | None = None
    crowding: float | None = None  # how many times as long computing takes while all CPU ranks compute
    here: bool = False  # by a bench of resnetx, not taken over from elsewhere

    @property
    def cpu_share(self) -> float | None:
        """CPU seconds that a rank spends for each second of communication, the mean over bytes: large sizes decide."""
        known = [(point.size_bytes, point.cpu_share) for point in self.points if point.cpu_share is not None]
        return sum(weight * share for weight, share in known) / sum(weight for weight, _ in known) if known else None

    @property
    def computing_lost(self) -> float | None:
        """Seconds of computing lost for each second of communication beside it, the median over sizes."""
        known = [point.computing_lost for point in self.points if point.computing_lost is not None]
        return median(known) if known else None


def read(path: str, collective: str | None = None) -> Measured:
    """Measured points from a bench record (or its folder), nccl-tests (out of place), or a YAML file of points.

    `collective`: which one is wanted; of several in a record it must be said.
    """
    where = f"calibration={path}"
    file = RunFolder(Path(path)).record if Path(path).is_dir() else Path(path)
    text = _text(file, where)
    if file.suffix in (".yaml", ".yml"):
        return _typed(where, text)
    if _is_bench_record(file, text):
        try:
            record: BenchRecord = read_record(file, BenchRecord)
        except RecordError as error:
            raise ConfigError(f"{where}: {error}") from None
        return measured(record, collective, f"{file.parent.name}/{file.name}", where)
    return _nccl_tests(where, file, text, collective)


def by_gpus(path: str, collective: str) -> dict[int | None, Measured]:
    """The same of every record in a folder of benches, by the number of GPUs; None: a file that does not say it."""
    folder = Path(path)
    runs = sorted(each.parent for each in folder.glob(f"*/{RunFolder(folder).record.name}"))
    if not folder.is_dir() or RunFolder(folder).record.is_file() or not runs:
        found = read(path, collective)
        return {found.gpus: found}
    measured_on: dict[int | None, Measured] = {}
    for run in runs:
        found = read(str(run), collective)
        if found.gpus in measured_on:
            raise ConfigError(f"calibration={path}: has several benches of {found.gpus} GPUs; name the folder of one")
        measured_on[found.gpus] = found
    return measured_on


def read_nccl_tests(path: str, collective: str | None, where: str) -> Measured:
    """The same from a table or JSON of nccl-tests, and nothing else; `where`: what to blame a mistake on."""
    file = Path(path)
    text = _text(file, where)
    if _is_bench_record(file, text):
        raise ConfigError(f"{where}: a bench record already; expected the text or JSON of nccl-tests")
    return _nccl_tests(where, file, text, collective)


def _nccl_tests(where: str, file: Path, text: str, collective: str | None) -> Measured:
    found = _from_json(where, file, text) if file.suffix == ".json" else _from_table(file, text)
    if not found.points:
        raise ConfigError(f"{where}: no line of it is a result of nccl-tests (size, count, type, ..., time, ...)")
    if collective and found.collective and found.collective != collective:
        raise ConfigError(f"{where}: holds {found.collective}; expected {collective}")
    return found


class _Kind(msgspec.Struct):
    kind: str = ""


def _is_bench_record(file: Path, text: str) -> bool:
    try:
        return file.suffix == ".json" and msgspec.json.decode(text, type=_Kind).kind == "bench"
    except msgspec.DecodeError:  # what is wrong with it, its reader says
        return False


def _text(file: Path, where: str) -> str:
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{where}: larger than {MAX_BYTES >> 20} MiB, so no table of a benchmark")
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {getattr(error, 'strerror', None) or 'not a text file'}") from None


# ---- points typed in


class _Typed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Points typed in: `source: ...`, `gpus: 8` and `points: [{size: 64MiB, time_us: 911}]`."""

    source: str
    points: list[dict[str, Any]]
    gpus: int | None = None


def _typed(where: str, text: str) -> Measured:
    import yaml

    try:
        tree = yaml.safe_load(text)
        typed = msgspec.convert(tree, _Typed)
        points = [Point(size(str(point["size"])), float(point["time_us"]) * 1e-6) for point in typed.points]
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {sentence(str(error), tree, _Typed)}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}: expected points as {{size: 64MiB, time_us: 911}}") from None
    if not all(point.size_bytes > 0 and point.time_s > 0 for point in points):
        raise ConfigError(f"{where}: expected sizes and times above 0")
    return Measured(typed.source, tuple(points), gpus=typed.gpus)


# ---- bench records


def measured(record: BenchRecord, collective: str | None, source: str, where: str) -> Measured:
    """The points of one collective of a bench record: medians of the raw times, smallest size first."""
    names = sorted({point.collective for point in record.points})
    if not names:
        raise ConfigError(
            f"{where}: has no points ({record.outcome}: {record.reason}); expected a bench that went well"
        )
    if collective is None and len(names) > 1:
        raise ConfigError(f"{where}: holds {', '.join(names)}; say which with collective=")
    wanted = collective or names[0]
    if record.outcome != "ok":
        raise ConfigError(f"{where}: this bench did not go well ({record.outcome}: {record.reason}); run it again")
    if wanted not in names:
        raise ConfigError(f"{where}: holds {', '.join(names)}; expected {wanted}")
    points = sorted((each for each in record.points if each.collective == wanted), key=lambda each: each.size_bytes)
    for point in points:
        if point.wrong:
            raise ConfigError(
                f"{where}: {point.wrong} wrong elements at {point.size_bytes} bytes: its times mean nothing"
            )
        if not point.times_s or not all(0 < time_s < math.inf for time_s in point.times_s) or point.size_bytes < 1:
            raise ConfigError(f"{where}: expected times above 0 of sizes above 0, got {point.times_s[:3]} s")
    here = record.source == "measured"
    return Measured(source, tuple(map(_median, points)), wanted, record.world_size, record.crowding, here)


def _median(point: BenchPoint) -> Point:
    return Point(point.size_bytes, median(point.times_s), point.wrong, point.cpu_share, point.computing_lost)


# ---- nccl-tests (its src/util.cu writes both forms)


def _from_json(where: str, file: Path, text: str) -> Measured:
    """What nccl-tests writes with -J."""
    try:
        tree = json.loads(text)
        points = [
            Point(float(each["size"]), float(each["out_of_place"]["time"]) * 1e-6, _count(each["out_of_place"]))
            for each in tree["results"]
        ]
        program = str(tree["args"][0]) if tree.get("args") else ""
        ranks = tree.get("config", {}).get("devices", [])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where}: not the JSON of nccl-tests: {error}") from None
    return _from_rows(file, points, program, len(ranks))


def _count(result: dict[str, Any]) -> int | None:
    wrong = result.get("nwrong")
    return None if wrong is None else int(float(wrong))


def _from_table(file: Path, text: str) -> Measured:
    """Rows of the printed table: size, count, type, redop, (root,) time in us, algbw, busbw, wrong elements, ...

    Out of place comes first. Before version 2.12 the last one is the largest error ("5e-07"), not a count.
    """
    columns = re.search(r"^#\s+size\s+count\s+type\s+redop(\s+root)?\b.*", text, re.MULTILINE)
    time_column = 5 if columns and columns[1] else 4
    counted = bool(columns and "#wrong" in columns[0])
    points = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > time_column and words[0].isdigit() and words[1].isdigit() and not words[2].isdigit():
            wrong = words[time_column + 3] if counted and len(words) > time_column + 3 else "N/A"
            try:
                time_s = float(words[time_column]) * 1e-6
                points.append(Point(float(words[0]), time_s, None if wrong == "N/A" else int(float(wrong))))
            except ValueError:
                continue
    program = re.search(r"^# Collective test starting: (\S+)", text, re.MULTILINE)
    return _from_rows(file, points, program[1] if program else "", len(re.findall(r"^#\s+Rank\s+\d+ ", text, re.M)))


def _from_rows(file: Path, points: Sequence[Point], program: str, ranks: int) -> Measured:
    """`program`: its path, or ""; `ranks`: how many it lists (one: MPI builds alone list all of them in JSON)."""
    name = re.match(r"(\w+)_perf", Path(program).name)
    return Measured(
        f"{file.name} (nccl-tests)",
        tuple(point for point in points if point.size_bytes > 0 and point.time_s > 0),
        PROGRAMS.get(name[1], name[1]) if name else None,
        ranks if ranks > 1 else None,
    )
