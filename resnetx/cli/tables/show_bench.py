"""A bench as a person sees it: nccl-tests' columns, and what the times say of latency and bandwidth."""

import math
from collections.abc import Sequence

from resnetx.cli import show
from resnetx.cli.tables import show_copies, show_nics, show_pairs, show_run
from resnetx.errors import ConfigError
from resnetx.interconnect import knees
from resnetx.interconnect.bands import Band, bands
from resnetx.interconnect.measured import measured
from resnetx.record import BenchPoint, BenchRecord, BenchRequest, RunFolder
from resnetx.reporting.bench_answer import GBps, collective_columns, timed, us
from resnetx.units import si, size_text

_BY = "the smallest and the largest"


def bench(record: BenchRecord, folder: RunFolder) -> None:
    """One record: a table and the fits of each collective, or why there are none."""
    if record.outcome != "ok":
        show_run.failure(record, folder)
        return
    show_run.warnings(record.warnings)
    for name in sorted({point.collective for point in record.points}):
        points = [point for point in record.points if point.collective == name]
        title = f"{name}, {_ranks(record)}, {record.library} ({record.source}){_how(record.request)}"
        show.listing(collective_columns(), timed(points, record.world_size), title, _note(points, record), by=_BY)
        for sentence in _causes(points):
            show.say(sentence)
        for line in _fits(record, name):
            show.say(line)
    show_copies.copies(record)
    show_pairs.pairs(record)
    show_nics.nics(record)
    _knees(record)
    for skipped in record.skipped:
        show.say(f"not measured: {skipped.reason}")
    show.line(f"record: {folder.record}")


def _knees(record: BenchRecord) -> None:
    """Where latency ends and bandwidth begins."""
    rows = [
        [
            what,
            us(found.floor_s),
            *("" if each is None else size_text(round(each)) for each in _sizes(found)),
            GBps(found.highest_Bps / 1e9),
        ]
        for what, found in knees.of_record(record)
    ]
    if rows:
        columns = ["of", ">floor us", ">ends at", ">half at", ">90 % at", ">highest GB/s"]
        note = f"Floor: the smallest size; ends: {knees.RAISED} times as long. Half, 90 %: of the highest size / time."
        show.table("Where latency ends and bandwidth begins", columns, rows, note)


def _sizes(found: knees.Knees) -> tuple[float | None, ...]:
    return found.floor_ends_bytes, found.half_bytes, found.ninety_bytes


def _ranks(record: BenchRecord) -> str:
    request = record.request
    devices = f" (devices={request.devices})" if request and request.devices else ""
    return f"gpus={record.world_size or '?'}{devices}"


def _how(request: BenchRequest | None) -> str:
    """What was asked for besides sizes, for a title."""
    if request is None:
        return ""
    words = [
        "" if request.dtype == "fp32" else request.dtype,
        f"{request.place} of place" if request.place == "out" else "in place" if request.place else "",
        request.timing or "",
        "" if request.transport == "auto" else f"transport={request.transport}",
        f"algorithm={request.algorithm}" if request.algorithm else "",
        f"protocol={request.protocol}" if request.protocol else "",
        "registered buffers" if request.registered else "",
    ]
    return "".join(f", {word}" for word in words if word)


def _causes(points: Sequence[BenchPoint]) -> list[str]:
    """What to check of points that are not as expected, each set of causes once."""
    sizes: dict[tuple[str, ...], list[str]] = {}
    for point in points:
        if point.causes:
            sizes.setdefault((point.verdict, *point.causes), []).append(size_text(point.size_bytes))
    return [
        f"{verdict} ({', '.join(found)}); to check: {'; '.join(causes)}" for (verdict, *causes), found in sizes.items()
    ]


def _note(points: Sequence[BenchPoint], record: BenchRecord) -> str:
    if record.source != "measured":
        return "Means, as they were imported."
    count = max(len(point.times_s) for point in points)
    note = f"Medians of {count} operations, each the slowest rank's; GB is 1e9 bytes. #wrong: elements."
    if all(point.queued_s for point in points):
        fewest = min(point.queue_length for point in points)
        fewer = f" ({fewest} where it takes long)" if fewest < (record.queue_length or 0) else ""
        note += f" Queued: one of {record.queue_length}{fewer} that follow each other on the GPU"
        note += "; bandwidths and the fit are of these."
    if points[0].emulated:
        note += f" Emulated: gloo makes it of {points[0].emulated}."
    return note


def _fits(record: BenchRecord, name: str) -> list[str]:
    """What latency and bandwidth describe the points, band by band, and how well."""
    try:
        found, error = bands(measured(record, name, record.source, name))
    except ConfigError:
        return [f"{name}: too few sizes for a fit of latency and bandwidth"]
    error_of_fit = (
        "too few sizes to leave any out" if math.isnan(error) else f"{error:.1%} off sizes left out of the fit"
    )
    lines = [f"  from {size_text(round(band.from_bytes))}: {_line(band)}" for band in found]
    return [f"time of {name} = latency + size / bandwidth, {error_of_fit}:", *lines]


def _line(band: Band) -> str:
    return f"{us(band.latency_s)} us + size / {si(band.bandwidth_Bps, 'B/s')}"
