"""One rank of one run: join the others, measure what the request asks for, and (in rank 0) put the record together.

`run` is the page to read first. What is measured is in `train` (steps, clean or watched), `trace` (one rank's steps,
layer by layer), `input_only` (the input pipeline alone) and `equality` (whether ranks compute what one process would).
"""

from pathlib import Path
from typing import Any

import torch

from resnetx import workloads
from resnetx.choices import NoExchange, SyntheticInput
from resnetx.measure.launch.moment import Moment
from resnetx.measure.launch.torchrun import run_started
from resnetx.measure.machine.capability import check_precision
from resnetx.measure.rank import distributed, equality, input_only, nodes, numa, trace, train
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.process import StartUp, keep_freed_memory, limit_memory
from resnetx.record import RunFile, RunRecord, Unknown, seal_tree
from resnetx.request import Request

_MEASURES = {
    "step": train.measure,
    "phases": train.measure,
    "layers": trace.measure,
    "input": input_only.measure,
    "equality": equality.measure,
}


def run(task: RunFile, started: Moment) -> RunRecord | None:
    """Executes one rank of the run; rank 0 returns the record. `started`: when this process began."""
    request = task.request
    clock = StartUp(started)
    prepare(request, task.oversubscribe)
    joined = distributed.joined(
        request.gpus,
        request.devices,
        task.timeout_s,
        oversubscribe=task.oversubscribe,
        timed_by_nccl=request.measure == "phases",
    )
    with joined as ranks:
        clock.lap("process_group_s")
        machines = nodes.machines(_storage(request), ranks)
        numa.bind(request, ranks)
        clock.skip()
        fields = _MEASURES[request.measure](request, ranks, clock)
        devices = ranks.gather(distributed.describe_device(ranks))
        logs = ranks.gather(ranks.nccl_log())
        if not ranks.first:
            return None
        loads = fields.get("host_load", [Unknown(_not_measured(request))] * ranks.world_size)
        fields |= {
            **nodes.described(machines, loads),
            "devices": devices,
            "transport": _transport(request, ranks, logs),
            "warnings": [
                *fields.get("warnings", []),
                *nodes.oversubscribed(ranks, request.threads),
                *nodes.warnings(machines, devices),
            ],
        }
        return _record(task, ranks, fields, started)


def prepare(request: Request, oversubscribe: bool = False) -> None:
    """What must be settled before the first tensor: seeds, threads, and what fp32 means; refuses what cannot run."""
    device = distributed.choose_device(request.devices, oversubscribe)
    if device.type == "cuda":
        check_precision(request.precision, device)
        limit_memory(request.memory_limit, device)
    else:
        keep_freed_memory()
    torch.manual_seed(request.seed)
    torch.set_num_threads(request.threads)
    # cuDNN would otherwise use TF32 for every convolution of an "fp32" run.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = request.precision == "tf32"
    torch.backends.cudnn.benchmark = True


def _storage(request: Request) -> Path | None:
    return None if isinstance(request.input, SyntheticInput) else Path(request.input.root)


def _not_measured(request: Request) -> str:
    return f"no part of measure={request.measure}"


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
    not_measured = Unknown(_not_measured(request))
    record: RunRecord = seal_tree(
        {
            **dict.fromkeys(RunRecord.__struct_fields__, not_measured),
            **task.opening(run_started(started).epoch_s),
            "workload": workloads.workload(request.model, request.image_size, request.batch_size, task.convention),
            "outcome": "ok",
            "reason": "",
            "failures": [],
            "stderr_end": "",
            "world_size": ranks.world_size,
            "backend": Unknown("one rank joins no process group") if alone else distributed.backend(ranks.device),
            **fields,
            "duration_s": started.elapsed_s,
            "unknown": {},
        },
        RunRecord,
    )
    return record
