"""A bench as a person sees it: nccl-tests' columns, and what the times say of latency and bandwidth."""

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from resnetx.cli import show
from resnetx.cli.tables import show_run
from resnetx.errors import ConfigError
from resnetx.interconnect.calibration import Band, bands
from resnetx.interconnect.measured import measured, telling_times
from resnetx.operations import OPERATIONS
from resnetx.record import BenchPoint, BenchRecord, RunFolder
from resnetx.units import si, size_text

_SPREAD = (10, 90)  # percentiles


def bench(record: BenchRecord, folder: RunFolder) -> None:
    """One record: a table and the fits of each collective, or why there are none."""
    if record.outcome != "ok":
        show_run.failure(record, folder)
        return
    for name in sorted({point.collective for point in record.points}):
        points = sorted(
            (point for point in record.points if point.collective == name), key=lambda each: each.size_bytes
        )
        title = f"{name}, {_ranks(record)}, {record.library} ({record.source})"
        title += ", registered buffers" * bool(record.request and record.request.registered)
        columns = [
            ">size", ">bytes", ">time us", f">{_SPREAD[0]} % to {_SPREAD[1]} %", ">queued us", ">algbw GB/s",
            ">busbw GB/s", ">#wrong", ">CPU/rank",
        ]  # fmt: skip
        rows = [
            _row(each, median(telling), record.world_size)
            for each, telling in zip(points, telling_times(points), strict=True)
        ]
        show.table(title, columns, rows, _note(points, record), ["bytes", "CPU/rank", columns[3].lstrip(">")])
        for line in _fits(record, name):
            show.say(line)
    for skipped in record.skipped:
        show.say(f"not measured: {skipped.reason}")
    show_run.warnings(record.warnings)
    show.line(f"record: {folder.record}")


def _ranks(record: BenchRecord) -> str:
    request = record.request
    devices = f" (devices={request.devices})" if request and request.devices else ""
    return f"gpus={record.world_size or '?'}{devices}"


def _has_cpu(points: Sequence[BenchPoint]) -> bool:
    return any(point.cpu_share is not None for point in points)


def _row(point: BenchPoint, telling_s: float, ranks: int | None) -> list[str]:
    """`telling_s`: the time that bandwidths are of."""
    low_s, high_s = np.percentile(point.times_s, _SPREAD)
    algbw_GBps = point.size_bytes / telling_s / 1e9
    busbw_GBps = algbw_GBps * OPERATIONS[point.collective].bus_factor(ranks) if ranks else math.nan
    return [
        size_text(point.size_bytes),
        f"{point.size_bytes}",
        f"{median(point.times_s) * 1e6:,.1f}",
        f"{low_s * 1e6:,.1f} to {high_s * 1e6:,.1f}" if len(point.times_s) > 1 else "",
        f"{median(point.queued_s) * 1e6:,.1f}" if point.queued_s else "",
        _GBps(algbw_GBps),
        "?" if math.isnan(busbw_GBps) else _GBps(busbw_GBps),
        "N/A" if point.wrong is None else f"{point.wrong}",
        "" if point.cpu_share is None else f"{point.cpu_share:.2f}",
    ]


def _GBps(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _note(points: Sequence[BenchPoint], record: BenchRecord) -> str:
    if record.source != "measured":
        return "Means, as they were imported."
    count = max(len(point.times_s) for point in points)
    note = f"Medians of {count} operations, each the slowest rank's; GB is 1e9 bytes. #wrong: elements."
    if all(point.queued_s for point in points):
        note += f" Queued: one of {record.queue_length} that follow each other on the GPU"
        note += "; bandwidths and the fit are of these."
    return note + " CPU/rank: CPU seconds per second of the operation." * _has_cpu(points)


def _fits(record: BenchRecord, name: str) -> list[str]:
    """What latency and bandwidth describe the points, band by band, and how well."""
    try:
        found, error = bands(measured(record, name, record.source, name))
    except ConfigError:
        return [f"{name}: too few sizes for a fit of latency and bandwidth"]
    held_out = "too few sizes to hold any out" if math.isnan(error) else f"held-out error {error:.1%}"
    lines = [f"  from {size_text(round(band.from_bytes))}: {_line(band)}" for band in found]
    return [f"time of {name} = latency + size / bandwidth, {held_out}:", *lines]


def _line(band: Band) -> str:
    return f"{band.latency_s * 1e6:,.1f} us + size / {si(band.bandwidth_Bps, 'B/s')}"
