"""Why a point cannot run on this machine, in one sentence, before any process is started for it."""

import socket
from collections.abc import Collection, Sequence
from shutil import which

from resnetx import workloads
from resnetx.choices import Fsdp, Lab, Server
from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.host import cores
from resnetx.launching import Launch
from resnetx.record.files import MAX_BYTES, MEASURED_BYTES, too_large
from resnetx.request import Request
from resnetx.transports import Way
from resnetx.workloads.buckets import messages


def obstacle_to(request: Request, oversubscribe: bool = False, here: int | None = None) -> str:
    """Why a point cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: as many as on each of its nodes.
    """
    from resnetx import inputs, packages, workloads
    from resnetx.measure.machine.environment import missing_feature
    from resnetx.measure.machine.visible_gpus import gpus_here, hidden_by_mistake

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
    if present and isinstance(request.strategy, Fsdp) and request.measure == "phases" and request.gpus > 1:
        return "strategy=fsdp with measure=phases: what a GPU waits for is not seen yet; leave out measure=phases"
    if not present and request.registered:
        return "registered=true: registers GPU memory with NCCL, but this machine has no GPU; leave it out"
    if not present and request.graph:
        return "graph=true: CUDA graphs need a GPU, and this machine has none; leave it out"
    if request.compile != "none" and (missing := packages.no_compiler(on_gpus=present > 0)):
        return f"compile={request.compile}: {missing}"
    return too_large_record(request) or too_many_ranks(request.gpus, request.devices, oversubscribe, here)


def obstacle_to_clock(clock_MHz: int | None, devices: Sequence[int]) -> str:
    """Why the GPUs with these numbers cannot be locked at a clock, as far as that shows before it is tried."""
    from resnetx.measure.clocks import held

    return "" if clock_MHz is None else held.obstacle(clock_MHz, devices)


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
    from resnetx.interconnect.systems.lab import lab_network
    from resnetx.measure.lab.namespaces import missing

    try:
        lab_network(system.load(lab.system), devices, gpus, lab.scale, lab.transport)
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
    from resnetx.measure.machine.visible_gpus import gpus_here

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
    from resnetx.measure.machine.visible_gpus import gpus_here

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
