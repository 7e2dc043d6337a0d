"""Output of nccl-tests: its printed table, or the JSON that it writes with -J (src/util.cu writes both)."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from resnetx.loading import File, decode
from resnetx.operations import OPERATIONS
from resnetx.record.limits import LONGEST_s, SHORTEST_s

MOST_BYTES = 2**53  # of an array

PROGRAMS = {operation.program: operation.name for operation in OPERATIONS.values()}


@dataclass(frozen=True)
class TimedSize:
    """One size: of the whole array, and the time of one operation, out of place where that was measured."""

    size_bytes: float
    time_s: float
    wrong: int | None  # elements that were not what they should be; None: not checked


@dataclass(frozen=True)
class NcclTests:
    """What one program has timed."""

    rows: tuple[TimedSize, ...]
    collective: str | None  # None: the file does not say
    gpus: int | None


def parse(file: File, content: bytearray) -> NcclTests:
    """The results of a file whose content was read; JSON where its name ends in .json."""
    found = _from_json(file, content) if file.path.suffix == ".json" else _from_table(file, content)
    if not found.rows:
        raise file.error("no line of it is a result of nccl-tests (size, count, type, ..., time, ...)")
    return found


class _Timed(msgspec.Struct):
    """One direction of a result."""

    time: float | Literal["nan"]  # microseconds; "nan": not measured
    nwrong: float | Literal["N/A"] | None = None  # not checked: N/A, null, or absent


class _Result(msgspec.Struct):
    size: float
    out_of_place: _Timed
    in_place: _Timed | None = None

    @property
    def timed(self) -> _Timed:
        """Out of place, unless only the other was measured."""
        return self.in_place if self.out_of_place.time == "nan" and self.in_place else self.out_of_place


class _Config(msgspec.Struct, frozen=True):
    devices: list[msgspec.Raw] = []


class _Written(msgspec.Struct):
    """What nccl-tests writes with -J."""

    results: list[_Result]
    args: list[str] = []
    config: _Config = _Config()


def _from_json(file: File, content: bytearray) -> NcclTests:
    written: _Written = decode(replace(file, what="the JSON of nccl-tests"), content, _Written)
    points = [
        TimedSize(result.size, float(result.timed.time) * 1e-6, _count(result.timed.nwrong))
        for result in written.results
    ]
    program = written.args[0] if written.args else ""
    return _from_rows(file, points, program, len(written.config.devices))


def _from_table(file: File, content: bytearray) -> NcclTests:
    """Rows of the printed table: size, count, type, redop, (root,) time in us, algbw, busbw, wrong elements, ...

    Out of place comes first. Before version 2.12 the last one is the largest error ("5e-07"), not a count.
    """
    text = file.decoded(content)
    columns = re.search(r"^#\s+size\s+count\s+type\s+redop(\s+root)?\b.*", text, re.MULTILINE)
    time_column = 5 if columns and columns[1] else 4
    counted = bool(columns and "#wrong" in columns[0])
    points = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > time_column and words[0].isdecimal() and words[1].isdecimal() and not words[2].isdecimal():
            wrong = words[time_column + 3] if counted and len(words) > time_column + 3 else None
            with suppress(ValueError):  # no row after all
                points.append(TimedSize(float(words[0]), float(words[time_column]) * 1e-6, _count(wrong)))
    program = re.search(r"^# Collective test starting: (\S+)", text, re.MULTILINE)
    return _from_rows(file, points, program[1] if program else "", len(re.findall(r"^#\s+Rank\s+\d+ ", text, re.M)))


def _count(wrong: float | str | None) -> int | None:
    """Wrong elements; None where they were not counted."""
    count = math.nan if wrong is None or wrong == "N/A" else float(wrong)
    return int(min(count, MOST_BYTES)) if count >= 0 else None


def _from_rows(file: File, points: Sequence[TimedSize], program: str, ranks: int) -> NcclTests:
    """`program`: its path, or ""; `ranks`: how many it lists (one: MPI builds alone list all of them in JSON)."""
    name = re.match(r"(\w{1,40})_perf", Path(program).name)
    return NcclTests(
        tuple(
            point for point in points if 0 < point.size_bytes <= MOST_BYTES and SHORTEST_s <= point.time_s <= LONGEST_s
        ),
        PROGRAMS.get(name[1], name[1]) if name else None,
        ranks if ranks > 1 else None,
    )
