"""Bench records of what other programs measured: collectives by nccl-tests and OSU, pair copies by several."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from resnetx.errors import ConfigError, FileError, shortened, unknown_name, visible
from resnetx.formats import copy_rows, copy_tests, logs
from resnetx.formats import copy_tests as tartan_pairs
from resnetx.formats.copy_rows import CopyRow, CopyTable, ListedGpu
from resnetx.formats.nccl_table import Rank
from resnetx.formats.nccl_tests import TimedSize
from resnetx.interconnect.collectives.measured import MAX_TABLE_BYTES, read_nccl_tests
from resnetx.loading import File, decode
from resnetx.operations import OPERATIONS
from resnetx.record import NOT_DESCRIBED, SCHEMA, BenchPoint, BenchRecord, Device, Unknown, Warning, known, seal
from resnetx.record.bench_record import TEST_FAILED, WRONG_ELEMENTS, CopyCell

SILENT = Unknown("nccl-tests does not say")
MEAN_OF_A_QUEUE = Unknown("`times_s` is the mean of a queue, as nccl-tests times them")
_PROGRAMS = "text or JSON of nccl-tests, nvbandwidth, OSU, p2pBandwidthLatencyTest or Tartan"
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
    if said := logs.says(content.decode(errors="replace")):
        raise opened.error(said)
    table = _copies(opened, content, gpus, size_bytes)
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
        warnings=[*(_warning("imported", note) for note in table.notes), *_wrong(table.wrong)],
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
