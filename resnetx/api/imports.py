"""Imports what other programs measured, as a bench record."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from resnetx.api.bench_settings import BenchSettings
from resnetx.api.runs import KeptRecord, page, run_folder
from resnetx.compose import asked, struct_of
from resnetx.config import sizes_from
from resnetx.errors import ConfigError, shortened, unknown_name
from resnetx.interconnect.collectives import imported, reading
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.graph import MOST_OF_A_HOST
from resnetx.interconnect.systems.system import System, parts_table
from resnetx.record import BenchRecord, Device, Warning
from resnetx.record.trace import Trace
from resnetx.settings import bounds, keywords
from resnetx.settings.files import names
from resnetx.settings.verbs import VERBS, refuse_unread
from resnetx.traces.files import CPU, import_, is_called, read_trace, unpacked
from resnetx.traces.jobs import import_job, profiles_of
from resnetx.visible import visible

READ = ("collective", "gpus", "size", "systems", "nodes", "network", "nics", "results")


def import_bench(file: Path, settings: Mapping[str, object]) -> KeptRecord[BenchRecord]:
    """Makes a bench record of a file of another program, and keeps it in the results folder."""
    from resnetx.measure.launch.scratch import write

    given = asked("bench", settings)
    if unread := [key for key in given if key not in READ]:
        raise ConfigError(f"{unread[0]}: nothing is measured with --import; it reads {', '.join(READ)}")
    wanted = struct_of(given, BenchSettings)
    if not wanted.collective or not wanted.gpus:
        raise ConfigError("--import: expected one collective= and one gpus=, not an empty list")
    if len(wanted.collective) > 1:
        raise ConfigError(f"collective={wanted.collective}: an imported file has one collective")
    if len(wanted.gpus) > 1:
        raise ConfigError(f"gpus={wanted.gpus}: an imported file has one number of GPUs; expected gpus=N")
    sizes = sizes_from(wanted.size) if "size" in given else [None]
    if len(sizes) != 1:
        raise ConfigError(f"size={wanted.size}: expected the one size of the copies in an imported file")
    record = imported.import_bench(file, wanted.collective[0], wanted.gpus[0], sizes[0])
    try:
        machine = _machine(record, wanted)
    except ConfigError as error:
        raise ConfigError(f"--import {file}: {error}") from None
    devices = None if machine is None else _on_machine(record.devices or [], machine)
    if machine is not None:
        record = msgspec.structs.replace(record, warnings=[*record.warnings, *_other_gpus(record, machine)])
    record = reading.with_readings(record, machine, devices=devices)
    folder = run_folder(Path(wanted.results), "bench", file.stem, node="imported")
    write(folder.record, record)
    return KeptRecord(record, folder)


def _machine(record: BenchRecord, settings: BenchSettings) -> System | None:
    """The system in as many nodes as the ranks were on; refused where it cannot be said what to compare them with."""
    ranks, hosts = record.world_size, len({device.node for device in record.devices or []})
    if not record.points or not settings.systems:
        return settings.system(settings.nodes)
    if ranks is None:
        raise ConfigError("does not say how many ranks there were; expected gpus=N, to compare it with systems=")
    if any(warning.code == imported.GROUPS for warning in record.warnings):
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
    wanted = struct_of(given, keywords.TraceImportFields)
    known = parts_table("gpus")
    if "batch_size" not in given:
        unpacked(file)  # that it is no trace at all matters more
        raise ConfigError(f"--import {file}: the file does not contain its batch; add batch_size=, samples on one GPU")
    bounds.check({"batch_size": wanted.batch_size, "gpus": wanted.gpus})
    if wanted.device is not None and wanted.device not in known:
        raise unknown_name("GPU", wanted.device, known, "device")
    on_cpu = wanted.device is not None and CPU in known[wanted.device].product_names
    device, results = CPU if on_cpu else wanted.device, Path(wanted.results)
    parts = {name: part.product_names for name, part in known.items()}
    if len(files) > 1:
        if wanted.gpus is not None:
            raise ConfigError(f"gpus={wanted.gpus}: the profiles of a job say how many ranks it has; leave gpus out")
        folder = import_job(
            files, batch_size=wanted.batch_size, device=device, results=results, workload=wanted.workload, parts=parts
        )
        return read_trace(folder), folder
    kept = import_(
        file, batch_size=wanted.batch_size, device=device, results=results, workload=wanted.workload,
        gpus=wanted.gpus or 0, parts=parts,
    )  # fmt: skip
    trace = read_trace(kept.parent.parent)
    page([Path(trace.source)], wanted.out)
    return trace, kept.parent.parent
