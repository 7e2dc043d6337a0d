"""Bench records of what other programs measured: collectives by nccl-tests and OSU, pair copies by several."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError, FileError, unknown_name
from resnetx.formats import nvbandwidth, osu, p2p_test, tartan_pairs
from resnetx.formats.copy_rows import CopyRow, CopyTable, ListedGpu
from resnetx.interconnect.measured import MAX_TABLE_BYTES, MeasuredSize, read_nccl_tests
from resnetx.loading import File, decode
from resnetx.operations import OPERATIONS
from resnetx.record import NOT_DESCRIBED, SCHEMA, BenchPoint, BenchRecord, Unknown, Warning, known, seal
from resnetx.record.copies import CopyCell
from resnetx.record.machine import Device

SILENT = Unknown("nccl-tests does not say")
MEAN_OF_A_QUEUE = Unknown("`times_s` is the mean of a queue, as nccl-tests times them")
_PROGRAMS = "text or JSON of nccl-tests, nvbandwidth, OSU, p2pBandwidthLatencyTest or Tartan"
_NOT_SAID = Unknown("the file does not say")
_NO_RELAY = Unknown("no GPU relays it")
_NO_CLASS = Unknown("not classified yet")


def import_bench(file: Path, collective: str | None, gpus: int | None, size_bytes: int | None = None) -> BenchRecord:
    """The record of a file of any program that is known.

    `collective`, `gpus`, `size_bytes`: used where the file does not say them; the last one is the size of copies.
    """
    where = f"--import {file}"
    opened = File(file, _PROGRAMS, MAX_TABLE_BYTES, where)
    content = opened.content()
    table = _copies(opened, content, gpus, size_bytes)
    if table is None:
        if size_bytes is not None:
            raise ConfigError(f"size={size_bytes}: {file.name} is of nccl-tests, which says the sizes itself")
        return _of_nccl_tests(file, collective, gpus)
    if collective is not None and any(row.collective != collective for row in table.collectives):
        raise ConfigError(f"{where}: holds {table.collectives[0].collective}; expected {collective}")
    return _record(
        source=f"{file.name} ({table.program})",
        library=table.program,
        ranks=table.gpus or gpus,
        points=[_point(row.collective, MeasuredSize(row.size_bytes, row.time_s)) for row in table.collectives],
        cells=_cells(table.rows),
        notes=table.notes,
        name=file.name,
        listed=table.devices,
    )


def _copies(file: File, content: bytearray, gpus: int | None, size_bytes: int | None) -> CopyTable | None:
    """What a file of another program than nccl-tests says; None where it is of none."""
    if file.path.suffix == ".json" or content.lstrip()[:1] == b"{":
        return nvbandwidth.parse(file, content, size_bytes) if _is_nvbandwidth(file, content) else None
    text = file.decoded(content)
    if nvbandwidth.MARK.search(text):
        if tartan_pairs.MARK.search(text) or p2p_test.MARK.search(text):
            raise file.error("holds the output of nvbandwidth and of another program; expected one program in a file")
        return nvbandwidth.parse_text(file, text, size_bytes)
    if tartan_pairs.MARK.search(text):
        return tartan_pairs.parse(file, text)
    if p2p_test.MARK.search(text):
        return p2p_test.parse(file, text, size_bytes)
    return osu.parse(file, text, gpus) if osu.MARK.search(text) else None


class _Titled(msgspec.Struct):
    nvbandwidth: msgspec.Raw | None = None


def _is_nvbandwidth(file: File, content: bytearray) -> bool:
    try:
        return decode(file, content, _Titled).nvbandwidth is not None
    except FileError:  # what is wrong with it, its reader says
        return b'"nvbandwidth"' in content[:2000]


def _of_nccl_tests(file: Path, collective: str | None, gpus: int | None) -> BenchRecord:
    if collective is not None and collective not in OPERATIONS:
        raise unknown_name("collective", collective, tuple(OPERATIONS), "collective")
    measured = read_nccl_tests(str(file), collective, f"--import {file}")
    name = measured.collective or collective
    if name not in OPERATIONS:
        holds = f"it holds {name}" if name else "it does not say of which collective it is"
        raise ConfigError(f"--import {file}: {holds}; expected collective= one of {', '.join(OPERATIONS)}")
    return _record(
        source=measured.source,
        library="nccl-tests",
        ranks=measured.gpus or gpus,
        points=[_point(name, point) for point in measured.points],
        cells=[],
        notes=(),
        name=file.name,
    )


def _record(
    *,
    source: str,
    library: str,
    ranks: int | None,
    points: list[BenchPoint],
    cells: list[CopyCell],
    notes: tuple[str, ...],
    name: str,
    listed: Sequence[ListedGpu] = (),
) -> BenchRecord:
    imported = Unknown(f"imported from {name}")
    no_ranks = Unknown("the file lists no ranks, and gpus= was not given")
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
        devices=[_device(gpu) for gpu in listed] or known(imported),
        host_load=known(imported),
        warnings=[Warning(code="imported", message=note, remedy="see docs/reading-benches.md") for note in notes],
        environment=known(imported),
        other_nodes=known(imported),
        job=known(imported),
        unknown={},
    )
    return seal(record)


def _point(collective: str, point: MeasuredSize) -> BenchPoint:
    return BenchPoint(
        collective=collective,
        size_bytes=int(point.size_bytes),
        times_s=[point.time_s],
        wrong=known(SILENT if point.wrong is None else point.wrong),
        cpu_share=known(SILENT),
        computing_lost=known(SILENT),
        queued_s=known(MEAN_OF_A_QUEUE),
        expected_s=known(NOT_DESCRIBED),
        algorithm=known(SILENT),
        protocol=known(SILENT),
    )


def _device(gpu: ListedGpu) -> Device:
    return Device(
        rank=gpu.index,
        node="not said",
        index=gpu.index,
        name=gpu.name,
        uuid=known(_NOT_SAID),
        pci_bus_id=gpu.pci_bus_id,
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
