"""Why a point cannot run on this machine, in one sentence, before any process is started for it."""

from resnetx.choices import Server
from resnetx.config import check
from resnetx.errors import ConfigError
from resnetx.host import cores
from resnetx.request import Request


def obstacle_to(request: Request, oversubscribe: bool = False, here: int | None = None) -> str:
    """Why a point cannot run on this machine, in one sentence; "" where it can. No process is started for it.

    `here`: how many of its ranks are on this node; None: all of them.
    """
    from resnetx import inputs, packages, workloads
    from resnetx.measure.machine.visible_gpus import gpus_here, hidden_by_mistake
    from resnetx.measure.rank.features import missing_feature
    from resnetx.measure.rank.record_size import too_large_record

    try:
        check(request)
        needed = map(packages.obstacle, workloads.packages(request.model))
        if missing := packages.not_unix() or next(filter(None, needed), ""):
            return missing
        inputs.check(
            request.input,
            batch_size=request.batch_size,
            gpus=request.gpus,
            image_size=request.image_size,
            classes=request.model.classes,
        )
        workloads.check(request.model, request.image_size)
    except ConfigError as error:
        return str(error)
    if missing := missing_feature(request.strategy):
        return missing
    if mistake := hidden_by_mistake():
        return mistake
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
    if not present and request.graph:
        return "graph=true: CUDA graphs need a GPU, and this machine has none; leave it out"
    return too_large_record(request) or too_many_ranks(request.gpus, request.devices, oversubscribe, here)


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
