"""Bench records of what nccl-tests measured."""

from pathlib import Path

from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collective import COLLECTIVES
from resnetx.interconnect.measured import MeasuredSize, read_nccl_tests
from resnetx.record import SCHEMA, BenchPoint, BenchRecord, Unknown, known, seal

SILENT = Unknown("nccl-tests does not say")
MEAN_OF_A_QUEUE = Unknown("`times_s` is the mean of a queue, as nccl-tests times them")


def import_nccl_tests(file: Path, collective: str | None, gpus: int | None) -> BenchRecord:
    """The record of a file's points. `collective` and `gpus`: used where the file does not say them."""
    if collective is not None and collective not in COLLECTIVES:
        raise unknown_name("collective", collective, COLLECTIVES, "collective")
    measured = read_nccl_tests(str(file), collective, f"--import {file}")
    name = measured.collective or collective
    if name not in COLLECTIVES:
        holds = f"it holds {name}" if name else "it does not say of which collective it is"
        raise ConfigError(f"--import {file}: {holds}; expected collective= one of {', '.join(COLLECTIVES)}")
    imported = Unknown(f"imported from {file.name}")
    ranks = measured.gpus or gpus or Unknown("the file lists no ranks, and gpus= was not given")
    record = BenchRecord(
        kind="bench",
        schema=SCHEMA,
        request=known(imported),
        source=measured.source,
        outcome="ok",
        reason="",
        failures=[],
        stderr_end="",
        started_at=known(imported),
        duration_s=known(imported),
        world_size=known(ranks),
        library="nccl-tests",
        crowding=known(imported),
        queue_length=known(imported),
        points=[_bench_point(name, point) for point in measured.points],
        skipped=[],
        transport=known(imported),
        devices=known(imported),
        host_load=known(imported),
        warnings=[],
        environment=known(imported),
        other_nodes=known(imported),
        unknown={},
    )
    return seal(record)


def _bench_point(collective: str, point: MeasuredSize) -> BenchPoint:
    return BenchPoint(
        collective=collective,
        size_bytes=int(point.size_bytes),
        times_s=[point.time_s],
        wrong=known(SILENT if point.wrong is None else point.wrong),
        cpu_share=known(SILENT),
        computing_lost=known(SILENT),
        queued_s=known(MEAN_OF_A_QUEUE),
    )
