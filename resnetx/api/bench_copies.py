"""What `bench copy=...` is asked: what no machine can do, what this one cannot, and how long it will take."""

import os
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from resnetx import copies, progress
from resnetx.api.bench_timing import announced_rate
from resnetx.copies import COPIES
from resnetx.errors import ConfigError, unknown_name
from resnetx.record import BenchRecord, BenchRequest
from resnetx.record.limits import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.table import Record
from resnetx.units import si

# Settings of copies alone; what a kind does not read is refused where nothing that is asked for reads it.
OWN = ("direction", "endpoint", "through", "numa")
OF_EXCHANGE = ("transport", "interface", "gpudirect")  # which collectives read, too

_AS_BEFORE = (None, "auto", "one-way", ["one-way"])  # values that change nothing
CELL_BYTES = 400  # of a cell in a record, besides its times


def rows(record: BenchRecord) -> Iterator[Record]:
    """A row for each cell: the median time, and the bandwidth in one direction."""
    for cell in record.cells:
        time_s = median(cell.time_s)
        yield {
            "copy": cell.copy,
            "gpus": record.world_size,
            "from": cell.source,
            "to": cell.target,
            "through": cell.through,
            "size_bytes": cell.size_bytes,
            "direction": cell.direction,
            "endpoint": cell.endpoint,
            "time_s": time_s,
            "bandwidth_Bps": cell.size_bytes / time_s,
            "expected_s": cell.expected_s,
            "verdict": cell.verdict,
            "class": cell.pair_class,
            "path": cell.path,
            "wrong": cell.wrong,
        }


def refuse_unread(given: Mapping[str, Any], request: BenchRequest) -> None:
    """Refuses settings that nothing reads of what is asked for."""
    for name in request.copies:
        if name not in COPIES:
            raise unknown_name("kind of copy", name, tuple(COPIES), "copy")
    for key in (*OWN, *(() if request.collectives else OF_EXCHANGE)):
        readers = [kind.name for kind in COPIES.values() if key in kind.reads]
        if given.get(key) not in _AS_BEFORE and not set(readers) & set(request.copies):
            raise ConfigError(
                f"{key}={given[key]}: read by copy={' and copy='.join(readers)} only; ask for one of them, or leave "
                f"{key} out"
            )


def check(r: BenchRequest) -> None:
    """Refuses copies that can run on no machine."""
    for name in r.copies:
        if name not in COPIES:
            raise unknown_name("kind of copy", name, tuple(COPIES), "copy")
        if r.gpus < COPIES[name].least_gpus:
            least = COPIES[name].least_gpus
            raise ConfigError(f"copy={name} with gpus={r.gpus}: copies {COPIES[name].moves}; use gpus={least} or more")
    if "relay" in r.copies and (r.through is None or r.through >= r.gpus):
        raise ConfigError(
            f"copy=relay with through={'null' if r.through is None else r.through}: expected the GPU that relays, "
            f"through=0 to through={r.gpus - 1}"
        )
    if r.copies and not r.collectives and r.gpudirect is not None and r.endpoint in ("pinned", "pageable"):
        raise ConfigError(
            f"{r.way.words[-1]} with endpoint={r.endpoint}: copies between memory of hosts do not touch the GPUs'; "
            "use endpoint=device, or leave gpudirect out"
        )
    if r.copies:
        entries = _entries(r)
        size = sum(CELL_BYTES + MEASURED_BYTES * copies.timings(each, r.iterations) for each in entries)
        if size > MAX_BYTES:
            raise ConfigError(
                f"iterations={r.iterations}: a record of {len(entries):,} cells would be {too_large('bench')}"
            )


def obstacle(r: BenchRequest, gpus_here: int, one_node: bool = True) -> str:
    """Why these copies cannot run on this machine, in one sentence; "" where they can."""
    if not r.copies:
        return ""
    from resnetx.measure.rank import numa

    if r.numa is not None and (reason := numa.obstacle_to(r.numa)):
        return f"numa={r.numa}: {reason}"
    if not one_node and (within := [name for name in r.copies if name != "device"]):
        return f"copy={within[0]}: runs within one node, and these ranks are on several; use copy=device"
    return _obstacle_on_gpus(r, one_node) if gpus_here else _obstacle_on_cpus(r)


def _obstacle_on_cpus(r: BenchRequest) -> str:
    if r.endpoint in ("device", "pinned"):
        return f"endpoint={r.endpoint}: CPU ranks have pageable memory alone; use endpoint=pageable, or leave it out"
    if "relay" in r.copies and r.transport == "host":
        return "copy=relay with transport=host: CPU ranks relay over sockets; use transport=socket, or leave it out"
    in_shared_memory = r.transport == "host" or any("transport" not in COPIES[name].reads for name in r.copies)
    if in_shared_memory and not hasattr(os, "memfd_create"):
        return "copy: memory that CPU ranks share is a feature of Linux; use copy=device with transport=socket"
    return ""


def _obstacle_on_gpus(r: BenchRequest, one_node: bool) -> str:
    if r.collectives:
        return "copy with collective: NCCL changes how GPUs reach each other's memory; ask for each by itself"
    if one_node and r.transport == "socket":
        return "transport=socket: copies between GPUs of one node use no sockets; use transport=host, or collective="
    if one_node and "device" in r.copies and r.endpoint in ("pinned", "pageable"):
        return (
            f"endpoint={r.endpoint} with copy=device: between GPUs of one node data stays on the GPUs; use "
            "copy=to-host and copy=from-host, or ranks on several nodes"
        )
    on_host = [name for name in r.copies if "numa" in COPIES[name].reads]
    if on_host and r.endpoint == "device":
        return f"endpoint=device with copy={on_host[0]}: memory of the host is pinned or pageable; leave endpoint out"
    return ""


def announce(request: BenchRequest) -> None:
    """Says how long copies will take, before they start."""
    if not request.copies:
        return
    rate_Bps, _ = announced_rate(request)
    entries = _entries(request)
    planned_s = copies.planned_s(
        entries, iterations=request.iterations, warmup=request.warmup, rate_Bps=lambda _: rate_Bps
    )
    counts = sorted({copies.timings(each, request.iterations) for each in entries})
    often = "once" if counts[0] == 1 else f"{counts[0]} times"
    progress.note(
        f"{len(entries):,} cells of copies: about {planned_s:,.0f} s if copies run at {si(rate_Bps, 'B/s')}"
        + f"; the largest are timed {often}, not {counts[-1]} times" * (len(counts) > 1)
    )


def _entries(request: BenchRequest) -> list[copies.Entry]:
    return copies.planned(
        request.copies,
        gpus=request.gpus,
        sizes_bytes=request.copy_sizes_bytes,
        directions=request.directions,
        through=request.through,
    )
