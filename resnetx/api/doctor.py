"""What this machine can run, and what is missing; or, with `clock`, which clock its GPUs hold."""

import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from resnetx import packages, progress, workloads
from resnetx.choices import Lab, Server
from resnetx.compose import asked, compose, one_point, struct_of
from resnetx.config import FIND, check, check_ranks, clock_from, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.host import cores, memory_bytes, node_name
from resnetx.launching import Launch, Way
from resnetx.measure import held_clock
from resnetx.measure import locked_clock as journal
from resnetx.measure.held_clock import (
    ClockSearchResult,
    Look,
    answer,
    finish_what_was_killed,
    nvml_for,
    refuse_others,
    rounded_down,
    supported,
)
from resnetx.measure.locked_clock import Before, Lock, NotPermittedError, locking
from resnetx.measure.machine.nvidia import gpus_here
from resnetx.measure.machine.readings import Reading
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.record.sealing import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.setting_types import written
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of
from resnetx.study import Point
from resnetx.table import ANSWERS, Answer, Column, Records, as_shown
from resnetx.units import how_many, si
from resnetx.workloads.counts import messages

if TYPE_CHECKING:
    from resnetx.measure.probes import Finding


# ---- obstacles ------------------------------------------------------------------------------------------------------
# Why a point cannot run on this machine, in one sentence, before any process is started for it.


def obstacle_to(request: Request, oversubscribe: bool = False, here: int | None = None) -> str:
    """Why a point cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: as many as on each of its nodes.
    """
    from resnetx import inputs, packages, workloads
    from resnetx.measure.machine import missing_feature
    from resnetx.measure.machine.nvidia import gpus_here, hidden_by_mistake

    try:
        check(request)
        here = request.gpus // request.nodes if here is None else here
        needed = map(packages.obstacle, workloads.packages(request.model))
        if missing := packages.not_unix() or next(filter(None, needed), ""):
            return missing
        inputs.check(
            request.input,
            batch_size=request.batch_size,
            gpus=request.gpus,
            sample=request.model.sample(request.image_size),
            classes=request.model.classes,
        )
        workloads.check(request.model, request.image_size)
    except ConfigError as error:
        return str(error)
    if obstacle := obstacle_to_way(request.way, gpus_here()):
        return obstacle
    if missing := missing_feature(request.strategy):
        return missing
    if mistake := hidden_by_mistake():
        return mistake
    if request.lab is not None:
        if request.nodes > 1:
            return f"nodes={request.nodes} with lab.system: the lab is on one node; leave one of them out"
        missing = obstacle_in_lab(request.lab, request.gpus, request.devices, request.way)
        if missing or request.replay is not None:
            return missing or too_large_record(request)
    if obstacle := obstacle_to_clock(request.clock, request.devices or range(request.gpus)):
        return obstacle
    present = gpus_here()
    if not present and request.precision in ("tf32", "fp16"):
        return (
            f"precision={request.precision}: not on CPUs, which have no TF32 and take minutes per step in fp16; "
            "use precision=fp32 or bf16"
        )
    if packages.hip_version() and request.precision == "tf32":
        return "precision=tf32: a format of NVIDIA GPUs that torch for AMD does not support; use precision=fp32 or bf16"
    if not present and request.memory_limit is not None:
        return "memory_limit: limits GPU memory, but this machine has no GPU; leave it out"
    if not present and request.strategy == Server(device="gpu"):
        return "strategy.device=gpu: this machine has no GPU to update parameters on; use strategy.device=cpu"
    if not present and request.registered:
        return "registered=true: registers GPU memory with NCCL, but this machine has no GPU; leave it out"
    if not present and request.graph:
        return "graph=true: CUDA graphs need a GPU, and this machine has none; leave it out"
    if request.compile != "none" and (missing := packages.no_compiler(on_gpus=present > 0)):
        return f"compile={request.compile}: {missing}"
    return (
        too_large_record(request)
        or too_many_ranks(request.gpus, request.devices, oversubscribe, here)
        or too_large_batch(request, here)
    )


def obstacle_to_clock(clock_MHz: int | None, devices: Sequence[int]) -> str:
    """Why the GPUs with these numbers cannot be locked at a clock, as far as that shows before it is tried."""
    from resnetx.measure import held_clock

    return "" if clock_MHz is None else held_clock.obstacle(clock_MHz, devices)


def obstacle_to_launch(launch: Launch | None, runs: int = 1) -> str:
    """Why so many runs cannot be started from here as they are to be, in one sentence; "" where they can."""
    from resnetx.measure.launch import slurm

    if launch is None:
        return ""
    if launch.launcher == "torchrun" and (launch.node_rank or runs > 1):
        return (
            "launcher=torchrun: started by hand on each node, for one run of `resnetx train` or `bench`, which node 0 "
            "records; for several use launcher=slurm or launcher=mpi"
        )
    if launch.launcher == "torchrun":
        return ""
    if launch.launcher == "mpi":
        mpirun = launch.site.mpirun[0]
        return (
            "" if which(mpirun) else f"launcher=mpi: no {mpirun} here; load its module, or set mpirun in the site file"
        )
    return slurm.obstacle_to_job(launch.nodes)


def obstacle_in_lab(lab: Lab, gpus: int, devices: list[int] | None, way: Way) -> str:
    """Why the lab cannot be built here for these ranks, in one sentence; "" where it can."""
    from resnetx.interconnect.systems import system
    from resnetx.interconnect.systems.lab_network import lab_network
    from resnetx.measure.lab_ranks import missing

    try:
        lab_network(system.load(lab.system, key="lab.system"), devices, gpus, lab.scale, lab.transport)
    except ConfigError as error:
        return str(error)
    if way != Way():
        return "transport and interface: in the lab gloo sends over its links; use lab.transport for the way it takes"
    return missing()


def obstacle_to_way(way: Way, gpus_here: int, shared_memory: bool = False) -> str:
    """Why ranks cannot exchange data here as they are asked to, in one sentence; "" where they can.

    `shared_memory`: CPU ranks may do so over memory that they share, as copies do.
    """
    names = sorted(name for _, name in socket.if_nameindex())
    if way.interface is not None and way.interface not in names:
        return f"interface={way.interface}: this host has no such network interface; it has {', '.join(names)}"
    if gpus_here:
        if way.interface is not None and way.transport != "socket":
            return f"interface={way.interface}: read with transport=socket on GPUs; add it, or leave interface out"
        return ""
    if way.gpudirect is not None:
        return f"{way.words[-1]}: network cards reach memory of GPUs, and this machine has none; leave it out"
    if way.transport in ("peer", "pcie"):
        return (
            f"transport={way.transport}: between GPUs, and this machine has none; use transport=socket, or leave it out"
        )
    if way.transport == "host" and not shared_memory:
        return (
            "transport=host: gloo sends over TCP only, and torch has no other backend for CPU ranks; use "
            "transport=socket, or copy=device for copies over shared memory"
        )
    if way.transport == "host" and way.interface is not None:
        return f"interface={way.interface} with transport=host: shared memory has no interface; leave it out"
    return ""


def pointless_transports(requests: Sequence[Request], asked: Collection[str], here: bool) -> str:
    """Why an axis of transports could make no difference, in one sentence; "" where it could.

    `asked`: its values; `here`: whether ranks run on this machine, not on nodes that a job will have.
    """
    from resnetx.measure.machine.nvidia import gpus_here

    values = f"transport=[{','.join(asked)}]"
    if len(asked) > 1 and all(request.gpus == 1 for request in requests):
        return f"{values}: one rank sends nothing, so no transport differs; add gpus=2 or more"
    if here and {"auto", "socket"} <= set(asked) and not gpus_here():
        return f"{values}: on CPU ranks auto is socket, so these would be the same runs; leave one of them out"
    return ""


def too_many_ranks(gpus: int, devices: list[int] | None, oversubscribe: bool, here: int | None = None) -> str:
    """Why this machine's GPUs, or without any its cores, are too few, in one sentence; "" where they are not.

    `here`: how many of the `gpus` ranks are on this node; None: all of them.
    """
    from resnetx.measure.machine.nvidia import gpus_here

    present, ranks = gpus_here(), gpus if here is None else here
    asked = f"gpus={gpus}" + f" ({ranks} on this node)" * (ranks != gpus)
    if not present and ranks > cores() and not oversubscribe:
        return (
            f"{asked}: more ranks than this machine has cores ({cores()}, and no GPU); ask for "
            "fewer, or set oversubscribe=true to let ranks share cores"
        )
    wanted = max(devices or [ranks - 1]) + 1
    if 0 < present < wanted and devices:
        return f"devices={devices}: this machine shows {present} GPU{'s' * (present > 1)}; ask for fewer"
    if 0 < present < wanted and not oversubscribe:
        return (
            f"{asked}: this machine shows {present} GPU{'s' * (present > 1)}; ask for fewer, or set oversubscribe=true "
            "to let ranks share them, as a functional test without meaningful speed"
        )
    return ""


def too_large_batch(request: Request, here: int | None = None) -> str:
    """Why the host's memory cannot hold what CPU ranks read at once, in one sentence; "" where it may.

    Activations need more: a run without enough memory for them ends as one that has none.
    """
    ranks = request.gpus if here is None else here
    values = prod(request.model.sample(request.image_size).shape)
    needed, memory = ranks * request.micro_batch * values * _value_bytes(request), memory_bytes()
    if gpus_here() or needed <= memory:
        return ""
    return (
        f"batch_size={request.batch_size}: a step would read {si(needed, 'B')} at once, and this machine has "
        f"{si(memory, 'B')} of memory; use a smaller batch_size, or accumulate="
    )


def _value_bytes(request: Request) -> int:
    """Of one value of an image, or a token, as inputs make them: fp32 and int64; DALI rounds images as steps do."""
    if request.model.tokens:
        return 8
    return 2 if request.input.kind == "dali" and request.precision in ("bf16", "fp16") else 4


# How large the record of a run will be, which is known before anything is measured.
#
# One that is too large to be read again would cost the whole run.

_MOST_LAYERS = 3000  # of a model of torchvision, which are counted only where so many would be too many


def too_large_record(request: Request) -> str:
    """Why a run's record could not be read again, in one sentence; "" where it can."""
    watched = {"layers": request.steps * request.windows, "phases": request.gpus * request.steps}.get(request.measure)
    if watched is None or 3 * _MOST_LAYERS * watched * MEASURED_BYTES < MAX_BYTES:
        return ""
    layers = workloads.table(request.model, request.image_size)
    if request.measure == "layers":
        times = 2 * len(layers) * watched  # forward and backward of each layer
    else:
        times = (1 + 3 * len(messages(layers, request.strategy, request.precision))) * watched
    if times * MEASURED_BYTES <= MAX_BYTES:
        return ""
    return f"measure={request.measure}: a record of {times:,} times would be {too_large('run')}"


# ---- doctor ---------------------------------------------------------------------------------------------------------


def doctor(**settings: Unpack[keywords.DoctorKeywords]) -> "Records[Any]":
    """Examines this machine: a finding for each thing that runs need. With `clock`: one, the clock of its GPUs.

    With `launcher="slurm"`: the cluster, from here. With `out`: the findings are kept there, with a page.
    """
    if settings.get("clock") is None:
        return findings(settings)

    return Records([find_clock(settings).answer])


def findings(settings: Mapping[str, object]) -> "Records[Finding]":
    """A finding for each thing that runs need, and for what would make them faster or their figures better."""
    given = asked("doctor", settings)
    found = _findings({key: value for key, value in given.items() if key != "out"})
    if given.get("out") is not None:
        _store(found, Path(str(given["out"])))
    return found


def _store(found: "Records[Finding]", folder: Path) -> None:
    """The findings as JSON lines, as a table, and as a page."""
    from resnetx.api import drawings, pages
    from resnetx.reporting.page import PageTable, Part

    drawings.store_rows(folder, "doctor", found)
    tables = [PageTable("findings", "What was examined", as_shown(FINDINGS, found), found.table())]
    undrawn = "tests pass or fail"
    pages.store(Part(f"What runs on {node_name()}", [works(found)], tables=tables, undrawn=undrawn), folder)


def works(found: "Sequence[Finding]") -> str:
    """What works here, and what does not."""
    lacking = [finding.topic for finding in found if finding.state == "missing" and finding.needed]
    others = [finding.topic for finding in found if finding.state == "missing" and not finding.needed]
    if lacking:
        also = f" (and, for some runs, {', '.join(others)})" * bool(others)
        needed = f"Measuring needs what is missing: {', '.join(lacking)}{also}."
        return f"Predicting, comparing and reporting work here. {needed}"
    gpu = next((finding for finding in found if finding.topic == "GPU"), None)
    if gpu is not None and gpu.state == "missing":
        return f"Predicting, comparing and reporting work here; measuring on GPUs does not: {gpu.what}."
    no_gpus = without_gpus(found)
    processors = f"{cores()} CPU core{'s' * (cores() != 1)}" if no_gpus else how_many(gpus_here(), "GPU")
    lacks = ["GPUs"] * no_gpus + others
    not_here = f"; not here: {', '.join(lacks)}" * bool(lacks)
    where = f" on {processors}" * (gpu is not None)  # without that finding: a cluster, seen from its front end
    return f"Predicting, comparing, reporting and measuring{where} work here{not_here}."


def without_gpus(found: "Sequence[Finding]") -> bool:
    """Whether this machine has no GPU that ranks can use."""
    return any(finding.topic == "GPU" and finding.state != "ok" for finding in found) and not gpus_here()


FINDINGS: "list[Column[Finding]]" = [
    Column("state", lambda finding: finding.state),
    Column("topic", lambda finding: finding.topic),
    Column("~finding", lambda finding: finding.what),
]
ANSWERS["Records[Finding]"] = lambda found: Answer([works(found)], as_shown(FINDINGS, found))


def _findings(given: Point) -> "Records[Finding]":
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    tree = compose(given)
    for word in written(
        {key: value for key, value in given.items() if group_of(key) in tagged("load") and value is not None}
    ):
        raise ConfigError(f"{word}: only with a clock; add clock=find, or a clock to test, e.g. clock=1227MHz")
    run = run_settings_from(tree)
    if run.launch is not None:
        if run.launch.launcher != "slurm":
            raise ConfigError(f"launcher={run.launch.launcher}: has no checks; use launcher=slurm, or leave it out")
        from resnetx.measure.examination import examine_cluster

        return Records(examine_cluster(run.launch))
    from resnetx.measure.examination import examine

    return Records(examine(Path(run.results), Path(tree["input"].get("root", "data/images"))))


# `doctor clock=find` and `doctor clock=1227MHz`: which clock GPUs hold under a load, and the command that locks it.
#
#     sudo "$(command -v resnetx)" doctor clock=find precision=bf16
#
# How it is measured is in `measure.clock_trial` and `measure.clock_search`. Nothing stays locked.

OWN = VERBS["doctor"].fields("clock")  # the settings that say nothing of the load


@dataclass(frozen=True)
class FoundClock:
    """Which clock GPUs hold, under which load, and what was set before."""

    answer: ClockSearchResult
    load: Request
    wanted_MHz: int | None  # that was to be tried
    before_MHz: Mapping[int, int | None]
    some: bool  # the machine has other GPUs besides


def find_clock(settings: Mapping[str, object]) -> FoundClock:
    """Finds a clock, or tries one."""
    given = asked("doctor", settings)
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    for word in written({key: value for key, value in given.items() if group_of(key) not in tagged("load")}):
        raise ConfigError(f"{word}: does not apply with clock=; leave it out")
    fields = struct_of({key: value for key, value in given.items() if key in OWN}, keywords.DoctorClockFields)
    assert fields.clock is not None, "`doctor` comes here with a clock"
    wanted_Hz = None if fields.clock == FIND else clock_from(fields.clock)
    nvml = nvml_for("clock=find" if wanted_Hz is None else f"clock={wanted_Hz / 1e6:g}MHz")
    requests = _requests(given, fields.devices or list(range(gpus_here())))
    finish_what_was_killed(nvml)
    with progress.waiting("GPUs under load: some minutes"), held_clock.loading(requests) as loads:
        handles = held_clock.handles_of(nvml, loads.uuids)
        refuse_others(handles)
        clocks = held_clock.supported_clocks(nvml, handles)
        wanted = None if wanted_Hz is None else supported(wanted_Hz / 1e6, clocks)
        sensors = {gpu: NvmlGpu(nvml, handle) for gpu, handle in handles.items()}
        look = held_clock.watching(sensors, loads.check, held_clock.PACE)
        with locking(nvml, handles) as lock:
            result = _measured(lock, clocks, look, wanted)
    return FoundClock(result, requests[0], wanted, lock.before, some=len(handles) < gpus_here())


def _measured(lock: Lock, supported: Sequence[int], look: Look, wanted: int | None) -> ClockSearchResult:
    """Tries the clock that is wanted, or else finds one."""
    left = journal.command([Before(gpu, None) for gpu in lock.before])
    progress.note(f"Clocks are restored at the end; after kill -9, restore them with `{left}`.")
    free = held_clock.unlocked(lock, supported, look)
    try:
        if wanted is None:
            return answer(supported, free, held_clock.find(lock, supported, free, look))
        return answer(supported, free, [held_clock.hold(lock, wanted, look)])
    except NotPermittedError as error:
        raise ConfigError(f"{error}{_estimate(supported, free)}") from None


def _estimate(supported: Sequence[int], free: Sequence[Reading]) -> str:
    """What can be said without the right to lock a clock."""
    least = rounded_down(min(reading.clock_MHz for reading in free), supported)
    return f"; unlocked, no GPU ran slower than {least} MHz under this load, so that clock can probably be sustained"


def _requests(given: Point, devices: list[int]) -> list[Request]:
    """The load of each GPU: one rank that trains what is asked for, with a run's share of the CPUs."""
    check_ranks(len(devices), devices, {})
    point = one_point({key: value for key, value in given.items() if key not in OWN}, "the load is one")
    tree = compose({**VERBS["doctor"].own, **point, "input": "synthetic", "gpus": 1})
    load = request_from(tree, max_gpus=len(devices))
    requests = [msgspec.structs.replace(load, devices=[device]) for device in devices]
    for request in requests:
        if obstacle := obstacle_to(request):
            raise ConfigError(obstacle)
    return requests
