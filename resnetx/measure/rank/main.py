"""One rank of one run: join the others, measure what the request asks for, and (in rank 0) put the record together.

`run` is the page to read first. What is measured is in `training` (steps, clean or instrumented), `layer_trace` (one
rank's steps, layer by layer), `measure` here (the input pipeline alone) and `equality` (whether ranks compute what one
process would). `main` keeps a GPU busy while a clock is looked for.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import torch

from resnetx import inputs, workloads
from resnetx.choices import Folders, NoExchange, Server, TokensInput
from resnetx.errors import ConfigError, prepared
from resnetx.host import node_name
from resnetx.inputs import folders
from resnetx.measure.launch import Moment, hang, run_started, slurm
from resnetx.measure.rank import distributed, equality, layer_trace, nodes, results, training
from resnetx.measure.rank.device import check_precision, choose_device, describe_device, timed
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.results import NOT_MEASURED, RankResults
from resnetx.measure.rank.strategies import replicate
from resnetx.measure.rank.windows import StartUpTimer, keep_freed_memory, limit_memory, measure_windows
from resnetx.record import Device, Environment, RunFile, RunRecord, Staging, Transport, Unknown, known, seal
from resnetx.request import Request

# The input pipeline alone: how fast batches come when nobody trains on them.


def measure(request: Request, ranks: Ranks, clock: StartUpTimer) -> results.RankResults | None:
    """Reads batches as training would; rank 0 returns what the record has of it."""
    clock.lap("model_s")  # there is none
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    clock.lap("input_s")

    def step() -> None:
        next(batches)

    windows = ranks.gather(measure_windows(step, lambda _: None, request, ranks, clock))
    measured = results.of_windows(request, windows, batches) if ranks.first else None
    batches.close()
    return measured


ON_HOST = Server(device="cpu")  # gradients go through memory of the hosts, also where ranks compute on GPUs

_MEASURES = {
    "step": training.measure,
    "phases": training.measure,
    "layers": layer_trace.measure,
    "input": measure,
    "equality": equality.measure,
}


def run(task: RunFile, started: Moment) -> RunRecord | None:
    """Executes one rank of the run; rank 0 returns the record. `started`: when this process began."""
    request = task.request
    clock = StartUpTimer(started)
    prepare(request, task.oversubscribe)
    joined = distributed.joined(
        request.gpus,
        request.devices,
        task.timeout_s,
        oversubscribe=task.oversubscribe,
        timed_by_nccl=request.measure == "phases",
        way=request.way,
    )
    with joined as ranks:
        clock.lap("process_group_s")
        reading, staged = staged_images(request, ranks)
        machines = nodes.machines(_storage(reading), ranks)
        nodes.bind(request, ranks)
        clock.skip()
        if task.replay is not None:
            fewer = request.share(ranks.rank) < request.share(0)
            measured = training.replay(task.replay_fewer if fewer else task.replay, request, ranks, clock)
        else:
            measured = _MEASURES[request.measure](reading, ranks, clock)
        devices = ranks.gather(describe_device(ranks.device))
        logs = ranks.gather(ranks.nccl_log())
        if measured is None:
            return None
        return _record(task, ranks, measured, Place(machines, devices, logs, staged), started)


def prepare(request: Request, oversubscribe: bool = False) -> None:
    """What must be settled before the first tensor: seeds, threads, and what fp32 means; refuses what cannot run."""
    device = choose_device(request.devices, oversubscribe)
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
    if isinstance(request.input, TokensInput):
        return Path(request.input.file).parent
    return Path(request.input.root) if isinstance(request.input, Folders) else None


def _transport(request: Request, ranks: Ranks, logs: list[str]) -> Transport:
    if ranks.world_size == 1:
        return results.none("one rank sends nothing")
    if request.measure == "input" or isinstance(request.strategy, NoExchange):
        return results.none("no gradients are exchanged")
    if request.strategy == ON_HOST:
        return results.over_sockets(request.way)
    return results.used(ranks, logs)


@dataclass(frozen=True)
class Place:
    """Where the ranks ran, by rank."""

    machines: dict[int, Environment]  # of the first rank of each node
    devices: list[Device]
    nccl_logs: list[str]
    staged: list[Staging] | Unknown  # of each node


def _record(task: RunFile, ranks: Ranks, measured: RankResults, place: Place, started: Moment) -> RunRecord:
    """The record of a run that went well; what it did not measure is not known."""
    request = task.request
    no_part = Unknown(f"no part of measure={request.measure}")
    backend = "gloo" if request.strategy == ON_HOST else distributed.backend(ranks.device)
    transport = _transport(request, ranks, place.nccl_logs)
    loads = [no_part] * ranks.world_size if isinstance(measured.host_loads, Unknown) else measured.host_loads
    of_ranks: dict[str, Any] = {
        name: no_part if value is NOT_MEASURED else value for name, value in vars(measured).items()
    }
    del of_ranks["host_loads"], of_ranks["warnings"]  # of which the record has more, or less

    return seal(
        RunRecord(
            **task.opening(run_started(started).epoch_s),
            **of_ranks,
            workload=workloads.workload(request.model, request.image_size, request.batch_size, task.convention),
            outcome="ok",
            reason="",
            failures=[],
            stderr_end="",
            duration_s=started.elapsed_s,
            backend=known(Unknown("one rank joins no process group") if ranks.world_size == 1 else backend),
            host_load=known(loads[0]),
            transport=transport,
            devices=place.devices,
            staging=known(place.staged),
            warnings=[
                *measured.warnings,
                *results.warnings(transport, request.way),
                *results.unlike_gpudirect(transport, request.way),
                *([] if task.replay else nodes.oversubscribed(ranks, request.threads)),  # who waits shares cores well
                *nodes.warnings(place.machines, place.devices),
            ],
            environment=place.machines[0],
            other_nodes=nodes.other_nodes(place.machines, loads),
            job=known(slurm.job()),
            unknown={},
        )
    )


# Images on the nodes of a run: the first rank of each node copies them there before any rank reads.


def staged_images(request: Request, ranks: Ranks) -> tuple[Request, list[Staging] | Unknown]:
    """The request as this rank reads its images, and what was staged on each node.

    Every rank waits for all nodes. What is recorded has the request as it was asked.
    """
    if not isinstance(request.input, Folders):
        return request, Unknown("no images are read")
    if request.input.stage is None:
        return request, Unknown("images are read where they are: input.stage is not set")
    hang.begin("staging its images", expected_s=hang.UNLIMITED_S)  # where it may wait for what another run copies
    mine = _here(request.input, ranks.rank) if ranks.local_rank == 0 else None
    nodes = [staging for staging in ranks.gather(mine) if staging is not None]
    hang.begin("describing its node")
    here = next(node for node in reversed(nodes) if node.rank <= ranks.rank)  # ranks of a node follow each other
    reading = msgspec.structs.replace(request.input, root=here.folder)
    return msgspec.structs.replace(request, input=reading), nodes


def _here(input: Folders, rank: int) -> Staging:
    assert input.stage is not None, "nothing is to be staged"
    found = folders.copied(Path(input.root), Path(input.stage))
    return Staging(node=node_name(), rank=rank, **{**vars(found), "folder": str(found.folder)})


# ---- keeps one GPU busy with training steps until it is ended: what a clock has to be held under --------------------
#
#     python -m resnetx.measure.rank.main < REQUEST.json
#
# The step is that of a run (`training_step`), over and over. Once it is under way, one line on standard output says
# which GPU it is on, by its UUID: NVML numbers GPUs otherwise than CUDA does. `held_clock` starts one for each GPU.

_STEPS = 10  # between two looks at the device: they are queued ahead, so that it never waits


def main() -> int:
    """Trains until it is killed; status 2 and one sentence where the GPU cannot do what is asked."""
    request: Request = msgspec.json.decode(sys.stdin.buffer.read(), type=prepared(Request))
    try:
        prepare(request)
        with distributed.joined(request.gpus, request.devices, timeout_s=600.0) as ranks:
            _train(request, ranks)
    except (ConfigError, torch.OutOfMemoryError) as error:
        print(str(error).partition("\n")[0], file=sys.stderr, flush=True)
        return 2


def _train(request: Request, ranks: Ranks) -> NoReturn:
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    step, _ = training.training_step(replicate(training.build(request, ranks), request, ranks), batches, request, ranks)
    timed(step, 1, ranks.device, ranks.barrier)
    on_gpu = ranks.device.type == "cuda"
    print(f"GPU-{torch.cuda.get_device_properties(ranks.device).uuid}" if on_gpu else "cpu", flush=True)
    while True:
        timed(step, _STEPS, ranks.device, ranks.barrier)


if __name__ == "__main__":
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # GPU ids are those of nvidia-smi
    raise SystemExit(main())
