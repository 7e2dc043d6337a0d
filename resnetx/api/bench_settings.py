"""The settings of a bench."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from resnetx import copies, patterns, progress
from resnetx.api.measuring import KeptRecord, page, run_folder
from resnetx.compose import asked, struct_of
from resnetx.config import sizes_from
from resnetx.copies import COPIES
from resnetx.errors import ConfigError, shortened, unknown_name, visible
from resnetx.interconnect.collectives import bench_reading
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.graph import MOST_OF_A_HOST
from resnetx.interconnect.systems.lab_network import lab_network
from resnetx.interconnect.systems.system import System, parts_table
from resnetx.measure.launch import not_writable
from resnetx.operations import OPERATIONS
from resnetx.record import BenchRecord, BenchRequest, Device, Warning
from resnetx.record.bench_record import QUEUE_LENGTH, Counts, counts
from resnetx.record.sealing import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.record.traces import Trace
from resnetx.settings import keywords, setting_types
from resnetx.settings.files import names
from resnetx.settings.verbs import VERBS, refuse_unread
from resnetx.table import Record
from resnetx.traces.job_traces import import_job, profiles_of
from resnetx.traces.trace_files import import_, is_called, read_trace, unpacked
from resnetx.units import CPU, in_GBps


class BenchSettings(keywords.BenchFields, frozen=True, kw_only=True):
    """The settings that this verb reads, apart from those that name workloads."""

    def system(self, nodes: int | None = None) -> System | None:
        """The machine that measures, as it is described; None: it is not. `nodes`: None: as many as its file says."""
        if len(self.systems) > 1:
            raise ConfigError(f"systems={self.systems}: a bench runs on one machine; expected its name or file alone")
        joined = {key: value for key, value in (("network", self.network), ("nics", self.nics)) if value is not None}
        if joined and not self.systems:
            (key, value), *_ = joined.items()
            raise ConfigError(f"{key}={value}: of the nodes of systems=, which is missing")
        described = system.load(self.systems[0], nodes, self.network, self.nics) if self.systems else None
        if joined and described is not None and described.nodes == 1:
            (key, value), *_ = joined.items()
            raise ConfigError(f"{key}={value}: one node needs no network; set nodes= as well, or leave it out")
        return described


# What `bench copy=...` is asked: what no machine can do, what this one cannot, and how long it will take.

# Settings of copies alone; what a kind does not read is refused where nothing that is asked for reads it.
OWN = ("direction", "endpoint", "through", "numa")
OF_EXCHANGE = ("transport", "interface", "gpudirect")  # which collectives and patterns read, too
OF_PATTERNS = ("compute", "scaling")

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
            "expected_low_s": min(cell.expected_interval_s, default=None),
            "expected_high_s": max(cell.expected_interval_s, default=None),
            "verdict": cell.verdict,
            "class": cell.pair_class,
            "path": cell.path,
            "wrong": cell.wrong,
        }


def pattern_rows(record: BenchRecord) -> Iterator[Record]:
    """A row for each pattern and size: what an iteration takes, and what of it is communication."""
    for point in record.patterns:
        yield {
            "pattern": point.pattern,
            "gpus": record.world_size,
            "scaling": point.scaling,
            "size_bytes": point.size_bytes,
            "compute_s": point.compute_s,
            "time_s": median(point.times_s),
            "communication_s": median(point.communication_s),
            "communication_share": point.share,
            "sent_bytes": point.sent_bytes,
            "bandwidth_Bps": point.bandwidth_Bps,
            "speedup": point.speedup(record.world_size or 1),
            "wrong": point.wrong,
        }


def refuse_unused(given: Mapping[str, Any], request: BenchRequest) -> None:
    """Refuses settings that nothing reads of what is asked for."""
    for name in request.copies:
        if name not in COPIES:
            raise unknown_name("kind of copy", name, tuple(COPIES), "copy")
    for name in request.patterns:
        patterns.load(name)
    for key in OF_PATTERNS:
        if key in given and not request.patterns:
            raise ConfigError(f"{key}={given[key]}: read by pattern= only; ask for one, or leave {key} out")
    for key in (*OWN, *(() if request.collectives or request.patterns else OF_EXCHANGE)):
        readers = [kind.name for kind in COPIES.values() if key in kind.reads]
        if given.get(key) not in _AS_BEFORE and not set(readers) & set(request.copies):
            raise ConfigError(
                f"{key}={given[key]}: read by copy={' and copy='.join(readers)} only; ask for one of them, or leave "
                f"{key} out"
            )


def check_copies(r: BenchRequest) -> None:
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
        size = sum(CELL_BYTES + MEASURED_BYTES * copies.timings(entry, r.iterations) for entry in entries)
        if size > MAX_BYTES:
            raise ConfigError(
                f"iterations={r.iterations}: a record of {len(entries):,} copies would be {too_large('bench')}"
            )


def copies_obstacle(r: BenchRequest, gpus_here: int, one_node: bool = True) -> str:
    """Why these copies cannot run on this machine, in one sentence; "" where they can."""
    if not r.copies:
        return ""
    from resnetx.measure.rank import nodes

    if r.numa is not None and (reason := nodes.obstacle_to(r.numa)):
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
    if r.collectives or r.patterns:
        other = "collective" if r.collectives else "pattern"
        return f"copy with {other}: NCCL changes how GPUs reach each other's memory; ask for each by itself"
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


def announce_copies(request: BenchRequest) -> None:
    """Says how long copies will take, before they start."""
    if not request.copies:
        return
    rate_Bps, _ = announced_rate(request)
    entries = _entries(request)
    planned_s = copies.planned_s(
        entries, iterations=request.iterations, warmup=request.warmup, rate_Bps=lambda _: rate_Bps
    )
    counts = sorted({copies.timings(entry, request.iterations) for entry in entries})
    often = "once" if counts[0] == 1 else f"{counts[0]} times"
    progress.note(
        f"{len(entries):,} copies: about {planned_s:,.0f} s if copies run at {in_GBps(rate_Bps)}"
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


# How collectives of a bench are run: what no machine can do of it, what this one cannot, how long it takes.

# NCCL User Guide, NCCL_ALGO and NCCL_PROTO; "auto" leaves the choice to NCCL.
ALGORITHMS = ("auto", "ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
PROTOCOLS = ("auto", "ll", "ll128", "simple")
# The announced time: what every operation takes besides its bytes, and a size besides its operations.
OPERATION_s, SIZE_s = 100e-6, 10e-3
# Its rates: sockets and memory of a small host; PCIe 3.0 with 16 lanes, which gets 12 GB/s at most. What is faster is
# over sooner.
CPU_Bps, GPU_Bps = 1e9, 10e9
_OWN = ("place", "timing", "algorithm", "protocol")


def check_timing(r: BenchRequest) -> None:
    """Refuses what no machine can do."""
    for key, value, known in (("algorithm", r.algorithm, ALGORITHMS), ("protocol", r.protocol, PROTOCOLS)):
        if value is not None and value.lower() not in known:
            raise ConfigError(f"{key}={value}: expected one of {', '.join(known)}")
        variable = {"algorithm": "NCCL_ALGO", "protocol": "NCCL_PROTO"}[key]
        if value is not None and variable in r.env:
            raise ConfigError(f"env.{variable}: set by {key}={value}; leave one of them out")
        if value is not None and r.collectives and all(OPERATIONS[name].sends for name in r.collectives):
            raise ConfigError(
                f"{key}={value}: NCCL has no such choice for {', '.join(r.collectives)}, which are sends and receives; "
                "leave it out"
            )
    if not r.collectives:
        asked = next((key for key in _OWN if getattr(r, key) is not None), "dtype" if r.dtype != "fp32" else "")
        if asked:
            raise ConfigError(f"{asked}={getattr(r, asked)}: only for collectives, and none is requested; leave it out")
    for name in r.collectives:
        if r.place is not None and r.place not in OPERATIONS[name].places:
            (only,) = OPERATIONS[name].places
            words = {"in": "in place", "out": "out of place"}[only]
            raise ConfigError(f"place={r.place} with collective={name}: torch runs it {words} only; use place={only}")


def timing_obstacle(r: BenchRequest, gpus_here: int) -> str:
    """Why this machine cannot run collectives so, in one sentence; "" where it can."""
    if gpus_here:
        return ""
    if r.timing == "graph":
        return "timing=graph: CUDA graphs need a GPU, and this machine has none; use blocking or back-to-back"
    for key in ("algorithm", "protocol"):
        if (value := getattr(r, key)) is not None:
            return f"{key}={value}: a choice of NCCL, and CPU ranks use gloo, which has none; leave it out"
    return ""


def planned_s(r: BenchRequest, seconds_of: Callable[[str, int], float], *, on_gpus: bool) -> float:
    """Seconds that measuring the collectives takes where one of so many bytes takes `seconds_of` it."""
    total_s = 0.0
    row = 1 if r.timing in (None, "blocking") else QUEUE_LENGTH
    for size_bytes in r.sizes_bytes:
        for name in r.collectives:
            operation_s = seconds_of(name, size_bytes)
            often = counts(size_bytes, operation_s, r.iterations, row) if on_gpus else Counts(r.iterations, 0, 0)
            blocking = r.warmup + often.iterations
            checked = 1 + on_gpus  # and on GPUs one as a sample of what it takes
            operations = r.warmup + often.iterations * row + often.queues * (often.queue_length + 1) + checked
            total_s += SIZE_s + blocking * OPERATION_s + operations * operation_s
    return total_s


def announced_rate(r: BenchRequest) -> tuple[float, bool]:
    """The rate by which the announced time is calculated, in B/s, and whether it is of GPUs.

    In the lab that of its slowest link.
    """
    from resnetx.measure.machine.nvidia import gpus_here

    if r.lab is not None:
        network = lab_network(system.load(r.lab.system), r.devices, r.gpus, r.lab.scale, r.lab.transport)
        rates = (link.from_Bps(end) for link in network.links for end in (link.a, link.b))
        return min(filter(None, rates), default=CPU_Bps), False  # 0: no copy goes that way; none: one rank
    return (GPU_Bps, True) if gpus_here() else (CPU_Bps, False)


def announce_timing(r: BenchRequest) -> None:
    """Says how long collectives will take, before they start."""
    if not r.collectives:
        return
    rate_Bps, on_gpus = announced_rate(r)
    seconds = planned_s(
        r, lambda name, size_bytes: size_bytes * OPERATIONS[name].bus_factor(r.gpus) / rate_Bps, on_gpus=on_gpus
    )
    sizes = f"{len(r.sizes_bytes)} size{'s' * (len(r.sizes_bytes) > 1)}"
    what = f"{len(r.collectives)} collective{'s' * (len(r.collectives) > 1)} at {sizes}"
    progress.note(f"{what}: about {seconds:,.0f} s if they run at {in_GBps(rate_Bps)}")


# ---- imports --------------------------------------------------------------------------------------------------------
# Imports what other programs measured, as a bench record.

READ = ("collective", "gpus", "size", "systems", "nodes", "network", "nics", "results")


def import_bench(file: Path, settings: Mapping[str, object]) -> KeptRecord[BenchRecord]:
    """Makes a bench record of a file of another program, and keeps it in the results folder."""
    from resnetx.measure.launch import write

    given = asked("bench", settings)
    if unread := [key for key in given if key not in READ]:
        raise ConfigError(f"{unread[0]}: nothing is measured with --import; it reads {', '.join(READ)}")
    bench_settings = struct_of(given, BenchSettings)
    if not bench_settings.collective or not bench_settings.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    if len(bench_settings.collective) > 1:
        raise ConfigError(f"collective={bench_settings.collective}: an imported file has one collective")
    if len(bench_settings.gpus) > 1:
        raise ConfigError(f"gpus={bench_settings.gpus}: an imported file has one number of GPUs; expected gpus=N")
    sizes = sizes_from(bench_settings.size) if "size" in given else [None]
    if len(sizes) != 1:
        raise ConfigError(f"size={bench_settings.size}: expected the one size of the copies in an imported file")
    record = bench_reading.import_bench(file, bench_settings.collective[0], bench_settings.gpus[0], sizes[0])
    try:
        machine = _machine(record, bench_settings)
    except ConfigError as error:
        raise ConfigError(f"--import {file}: {error}") from None
    devices = None if machine is None else _on_machine(record.devices or [], machine)
    if machine is not None:
        record = msgspec.structs.replace(record, warnings=[*record.warnings, *_other_gpus(record, machine)])
    record = bench_reading.with_readings(record, machine, devices=devices)
    folder = run_folder(Path(bench_settings.results), "bench", file.stem, node="imported")
    write(folder.record, record)
    return KeptRecord(record, folder)


def _machine(record: BenchRecord, settings: BenchSettings) -> System | None:
    """The system in as many nodes as the ranks were on; refused where it cannot be said what to compare them with."""
    ranks, hosts = record.world_size, len({device.node for device in record.devices or []})
    if not record.points or not settings.systems:
        return settings.system(settings.nodes)
    if ranks is None:
        raise ConfigError("does not say how many ranks there were; expected gpus=N, to compare it with systems=")
    if any(warning.code == bench_reading.GROUPS for warning in record.warnings):
        raise ConfigError("several groups of ranks ran at once, which is not modelled; leave out systems=")
    in_node = len(system.load(settings.systems[0], nodes=1).gpus)
    rack = in_node > MOST_OF_A_HOST and ranks <= in_node
    if settings.nodes is not None and hosts and settings.nodes != hosts and not (rack and settings.nodes == 1):
        raise ConfigError(f"nodes={settings.nodes}: it lists ranks on {hosts} hosts; expected nodes={hosts}")
    try:
        machine = settings.system(settings.nodes or (1 if rack else hosts) or None)
    except ConfigError as error:
        raise ConfigError(f"its ranks are on {hosts} hosts, and {error}" if hosts > 1 else f"{error}") from None
    if machine is not None and ranks > len(machine.gpus):
        has = f"{machine.name} has {len(machine.gpus)} GPUs"
        raise ConfigError(f"it has {ranks} ranks, and {has}; expected nodes= and network=, or another systems=")
    return machine


def _other_gpus(record: BenchRecord, machine: System) -> Iterator[Warning]:
    """Says so where the file lists GPUs of another name than the system has."""
    names = {name for gpu in range(len(machine.gpus)) for name in machine.gpu_part(gpu).product_names}
    others = dict.fromkeys(
        device.name for device in record.devices or [] if device.name and not is_called(device.name, [*names])
    )
    if names and others:
        listed = shortened(visible(" and ".join(others)))
        yield Warning(
            code="other-gpu",
            message=f"the list names {listed}; {machine.name} has {' or '.join(sorted(names))}, so that what is "
            "expected is of another machine",
            remedy="choose systems= by the GPUs that are listed",
        )


def _on_machine(listed: Sequence[Device], machine: System) -> list[int] | None:
    """The GPUs of a system that ranks ran on, by the list of a file; None: it does not tell them apart."""
    hosts = {host: number for number, host in enumerate(dict.fromkeys(device.node for device in listed))}
    in_node = len(machine.gpus) // machine.nodes
    if len(hosts) != machine.nodes or any(device.index >= in_node for device in listed):
        return None
    places = [hosts[device.node] * in_node + device.index for device in listed]
    return places if max(Counter(places).values(), default=2) == 1 else None


# Imports what another program measured, as a trace that predictions read.


def import_trace(paths: Sequence[Path], settings: Mapping[str, object]) -> tuple[Trace, Path]:
    """Imports one file, or the profiles of a job's ranks; returns the trace, and its folder.

    Of one file, the trace has all batches of its workload and device that were imported so far. Of a job, the folder is
    what `explain` and `predict` take.
    """
    files = profiles_of(paths)
    file = files[0]
    given = asked("trace", settings)
    refuse_unread("trace --import", given, names(), VERBS["trace"].fields("import"))
    fields = struct_of(given, keywords.TraceImportFields)
    known = parts_table("gpus")
    if "batch_size" not in given:
        unpacked(file)  # that it is no trace at all matters more
        raise ConfigError(f"--import {file}: the file does not contain its batch; add batch_size=, samples on one GPU")
    setting_types.check({"batch_size": fields.batch_size, "gpus": fields.gpus})
    if fields.device is not None and fields.device not in known:
        raise unknown_name("GPU", fields.device, known, "device")
    on_cpu = fields.device is not None and CPU in known[fields.device].product_names
    device, results = CPU if on_cpu else fields.device, Path(fields.results)
    parts = {name: part.product_names for name, part in known.items()}
    said: dict[str, Any] = {
        "batch_size": fields.batch_size,
        "device": device,
        "workload": fields.workload,
        "parts": parts,
    }
    if len(files) > 1 and fields.gpus is not None:
        raise ConfigError(f"gpus={fields.gpus}: the profiles of a job say how many ranks it has; leave gpus out")
    try:
        if len(files) > 1:
            folder = import_job(files, results=results, **said)
            return read_trace(folder), folder
        kept = import_(file, results=results, gpus=fields.gpus or 0, **said)
    except OSError as error:  # a full disk names no file
        raise not_writable(Path(error.filename or results), error) from None
    trace = read_trace(kept.parent.parent)
    page([Path(trace.source)], fields.out)
    return trace, kept.parent.parent
