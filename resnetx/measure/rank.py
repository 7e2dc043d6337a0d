"""One rank of one run: join the others, measure what the request asks for, and (in rank 0) put the record together.

`run` is the page to read first. What is measured is in `train` (steps, clean or watched), `trace` (one rank's steps,
layer by layer), `reading` (the input pipeline alone) and `equality` (whether the ranks compute what one process would).
"""

from pathlib import Path
from typing import Any

import torch

from resnetx import workloads
from resnetx.config import NoExchange, Request, SyntheticInput
from resnetx.errors import ConfigError
from resnetx.measure import distributed, equality, reading, trace, train
from resnetx.measure.distributed import Ranks
from resnetx.measure.environment import environment
from resnetx.measure.moment import Moment
from resnetx.measure.process import StartUp, keep_freed_memory
from resnetx.measure.torchrun import run_started
from resnetx.record import RunFile, RunRecord, Unknown, opening, seal

_MEASURES = {
    "step": train.measure,
    "phases": train.measure,
    "layers": trace.measure,
    "input": reading.measure,
    "equality": equality.measure,
}


def run(task: RunFile, started: Moment) -> RunRecord | None:
    """Executes one rank of the run; rank 0 returns the record. `started`: when this process began."""
    request = task.request
    clock = StartUp(started)
    _prepare(request)
    timed_by_nccl = request.measure == "phases"
    with distributed.joined(request.gpus, request.devices, task.timeout_s, timed_by_nccl=timed_by_nccl) as ranks:
        clock.lap("process_group_s")
        machine = _environment(request, ranks)
        clock.skip()
        fields = _MEASURES[request.measure](request, ranks, clock)
        devices = ranks.gather(distributed.describe_device(ranks))
        logs = ranks.gather(ranks.nccl_log())
        if not ranks.first:
            return None
        fields |= {"environment": machine, "devices": devices, "transport": _transport(request, ranks, logs)}
        return _record(task, ranks, fields, started)


def _prepare(request: Request) -> None:
    """What must be settled before the first tensor: seeds, threads, and what fp32 means."""
    if request.precision == "tf32" and torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0):
        raise ConfigError("precision=tf32: this GPU is older than Ampere and has no TF32; use precision=fp32 or fp16")
    if not torch.cuda.is_available():
        keep_freed_memory()
    torch.manual_seed(request.seed)
    torch.set_num_threads(request.threads)
    # cuDNN would otherwise use TF32 for every convolution of an "fp32" run.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = request.precision == "tf32"
    torch.backends.cudnn.benchmark = True


def _environment(request: Request, ranks: Ranks) -> dict[str, Any] | None:
    """Rank 0's view of the machine before the run loads it; the others wait, so that no rank's first step does."""
    storage = None if isinstance(request.input, SyntheticInput) else Path(request.input.root)
    found = environment(storage) if ranks.first else None
    ranks.barrier()
    return found


def _transport(request: Request, ranks: Ranks, logs: list[str]) -> dict[str, Any]:
    if ranks.world_size == 1:
        return distributed.no_transport("one rank sends nothing")
    if request.measure == "input" or isinstance(request.strategy, NoExchange):
        return distributed.no_transport("no gradients are exchanged")
    return distributed.transport(ranks, logs)


def _record(task: RunFile, ranks: Ranks, fields: dict[str, Any], started: Moment) -> RunRecord:
    """The record of a run that went well; what it did not measure is not known."""
    request = task.request
    alone = ranks.world_size == 1
    not_measured = Unknown(f"no part of measure={request.measure}")
    record: RunRecord = seal(
        {
            **dict.fromkeys(RunRecord.__struct_fields__, not_measured),
            **opening(task, run_started(started).epoch_s),
            "workload": workloads.workload(request.model, request.image_size, request.batch_size, task.convention),
            "outcome": "ok",
            "reason": "",
            "failures": [],
            "stderr_end": "",
            "world_size": ranks.world_size,
            "backend": Unknown("one rank joins no process group") if alone else distributed.backend(ranks.device),
            "warnings": [],
            **fields,
            "duration_s": started.elapsed_s,
            "unknown": {},
        },
        RunRecord,
    )
    return record
