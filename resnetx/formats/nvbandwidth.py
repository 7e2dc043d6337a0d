"""JSON of nvbandwidth (-j): matrices of strings, "N/A" where nothing was measured.

    {"nvbandwidth": {"version": "v0.8", "testcases": [
      {"name": "device_to_device_memcpy_read_ce", "status": "Passed", "bandwidth_matrix": [["N/A", "26.34"], ...]}]}}

A row is the GPU that issues the copies (testcases_ce.cpp: `value(srcDeviceId, peerDeviceId)`). A write goes from it to
the GPU of the column, a read comes from there: the arrow of the printed titles points the other way. Of copies between
host and GPUs, rows are hosts. A bidirectional test of copy engines gives the measured stream (beside host memory), or
"Total", which is of both directions. How large copies are is written in some versions only: 512 MiB unless they say so.

Source: NVIDIA/nvbandwidth, testcases_ce.cpp, testcases_sm.cpp, json_output.cpp.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from resnetx.formats.copy_rows import MOST_PLACES, CopyRow, CopyTable, number, seconds
from resnetx.loading import File, decode
from resnetx.record.copies import Direction, Place

BUFFER_BYTES = 512 * 2**20
_PAIRS = re.compile(r"device_to_device_(bidirectional_)?memcpy_(read|write)_(ce|sm)")
_HOST = re.compile(r"(host_to_device|device_to_host)_(bidirectional_)?memcpy_(ce|sm)")


class _Test(msgspec.Struct):
    name: str
    status: str = ""
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str | float | None]] = []


class _Results(msgspec.Struct):
    version: str = ""
    git_version: str = ""
    driver: str = msgspec.field(name="Driver Version", default="")
    gpus: list[str] = msgspec.field(name="GPU Device list", default_factory=list)
    buffer_MiB: float | str | None = msgspec.field(name="bufferSize", default=None)
    testcases: list[_Test] = []


class _Written(msgspec.Struct):
    nvbandwidth: _Results


def parse(file: File, content: bytearray, size_bytes: int | None) -> CopyTable:
    """The pairs of a file. `size_bytes`: of the copies; None: what the file says, or the program's default."""
    written: _Written = decode(replace(file, what="the JSON of nvbandwidth"), content, _Written)
    results = written.nvbandwidth
    size, notes = _size(results, size_bytes)
    rows = [row for test in results.testcases for row in _rows(test, size) if row.usable]
    left_out = [test.name for test in results.testcases if not _read(test)]
    if left_out:
        notes.append(f"left out: {', '.join(left_out[:20])}")
    if not rows:
        raise file.error("no test of it has copies between GPUs, within one, or from or to the host, that passed")
    version = results.version or results.git_version or "of unknown version"
    driver = f", driver {results.driver}" if results.driver else ""
    places = [place for row in rows for place in (row.source, row.target) if isinstance(place, int)]
    gpus = max(1 + max(places), len(results.gpus))
    return CopyTable(f"nvbandwidth {version}{driver}"[:200], gpus, tuple(rows), notes=tuple(notes))


def _size(results: _Results, size_bytes: int | None) -> tuple[int, list[str]]:
    stated = number(str(results.buffer_MiB))
    if size_bytes:
        return size_bytes, []
    if 0 < stated < 2**20:
        return int(stated * 2**20), []
    return BUFFER_BYTES, ["the file does not say how large copies are: 512 MiB, as the program has it"]


def _read(test: _Test) -> bool:
    known = _PAIRS.fullmatch(test.name) or _HOST.fullmatch(test.name) or test.name == "device_local_copy"
    return bool(known) and test.status in ("Passed", "") and bool(test.bandwidth_matrix)


def _rows(test: _Test, size: int) -> Iterator[CopyRow]:
    if not _read(test):
        return
    for row, cells in enumerate(test.bandwidth_matrix[:MOST_PLACES]):
        for column, cell in enumerate(cells[:MOST_PLACES]):
            rate_GBps = number(str(cell))
            if rate_GBps > 0:
                yield from _cell(test, row, column, rate_GBps, size)


def _cell(test: _Test, row: int, column: int, rate_GBps: float, size: int) -> Iterator[CopyRow]:
    evidence = (f"nvbandwidth {test.name}", test.bandwidth_description[:200])
    if pairs := _PAIRS.fullmatch(test.name):
        if row == column or (pairs[1] and "Total" not in test.bandwidth_description and pairs[3] == "ce"):
            return
        source: Place
        target: Place
        source, target = (row, column) if pairs[2] == "write" else (column, row)
        direction: Direction = "both-ways" if pairs[1] else "one-way"
        time_s = seconds(size * (2 if pairs[1] else 1), rate_GBps)
        yield CopyRow("device", source, target, size, time_s, evidence, direction)
    elif host := _HOST.fullmatch(test.name):
        if host[2]:
            return  # one direction of two, of which the other one is twice as large
        memory: Place = "host" if len(test.bandwidth_matrix) == 1 else f"numa{row}"
        down = host[1] == "host_to_device"
        source, target = (memory, column) if down else (column, memory)
        copy = "from-host" if down else "to-host"
        yield CopyRow(copy, source, target, size, seconds(size, rate_GBps), evidence, endpoint="pinned")
    else:
        yield CopyRow("local", column, column, size, seconds(size, rate_GBps), evidence)
