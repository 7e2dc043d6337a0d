"""One rank of one run: join, build, warm up, time the windows, and (in rank 0) put the record together.

`run` is the page to read first. What is timed is `training_step` and nothing else; whatever else is measured
(sensors, memory, environment) is read before the first window or after the last.
"""

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from resnetx import inputs, workloads
from resnetx.config import ConfigError, Request, SyntheticInput
from resnetx.host import cores
from resnetx.measure import distributed
from resnetx.measure.clock import timed
from resnetx.measure.distributed import Ranks
from resnetx.measure.environment import environment
from resnetx.measure.process import StartUp, bytes_read, difference, keep_freed_memory, peak_memory_bytes
from resnetx.measure.reading_warnings import sensor_warnings
from resnetx.measure.sensors import Sensors
from resnetx.measure.torchrun import world_size
from resnetx.record import RunFile, RunRecord, Unknown, Warning, opening, seal

AUXILIARY_LOSS_WEIGHT = 0.3  # Szegedy et al. 2015, section 5
STEADY = 0.1  # a step that is not this much faster than the one before ends the warm-up
MAX_WARMUP = 4  # times the warm-up asked for
SHORTEST_WINDOW_S = 0.1  # below, the edges of a window and a single interruption weigh too much

Step = Callable[[], None]


def run(task: RunFile, started: float) -> RunRecord | None:
    """Executes one rank of the run; rank 0 returns the record. `started`: when this process began, since the epoch."""
    request = task.request
    clock = StartUp(started)
    _prepare(request)
    with distributed.joined(request, task.timeout_s) as ranks:
        clock.lap("process_group_s")
        model = _build(request, ranks)
        clock.lap("model_s")
        batches = _open_input(request, ranks)
        clock.lap("input_s")
        machine = _environment(request, ranks)
        clock.skip()
        step, losses = training_step(model, batches, request, ranks.device)
        first = timed(step, 1, ranks.device, ranks.barrier)
        clock.lap("first_step_s")
        facts = {
            "start_up": clock.parts(ranks.rank),
            "environment": machine,
            "warmup_s": [first, *_warm_up(step, request, ranks)],
            **_measure(step, losses, request, ranks),
        }
        every = ranks.gather(facts)
        record = _record(task, ranks, model, batches, every, started) if ranks.first else None
        batches.close()
    return record


def _measure(step: Step, losses: "_Losses", request: Request, ranks: Ranks) -> dict[str, Any]:
    """The windows of this rank, and what was read of the machine around them."""
    sensors = Sensors([ranks.device.index] if ranks.device.type == "cuda" else None, ranks.rank)
    reads = bytes_read()
    if ranks.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(ranks.device)  # cuDNN's trials of the warm-up are no need of the workload
    losses.note()
    windows = []
    sensors.start()
    for _ in range(request.windows):
        windows.append(timed(step, request.steps, ranks.device, ranks.barrier))
        losses.note()
    readings = sensors.stop()
    return {
        "windows_s": windows,
        "loss": losses.seen,
        **readings,
        "peak_memory_bytes": peak_memory_bytes(ranks.device),
        "reads_bytes": difference(bytes_read(), reads),
        "device": distributed.describe_device(ranks),
        "nccl_log": ranks.nccl_log(),
    }


# ---- set-up ---------------------------------------------------------------------------------------------------------


def _prepare(request: Request) -> None:
    """What must be settled before the first tensor: the number of ranks, seeds, threads, and what fp32 means."""
    if world_size() != request.gpus:
        raise ConfigError(
            f"gpus={request.gpus}, but torchrun started {world_size()} ranks: "
            f"use torchrun --nproc-per-node {request.gpus}, or gpus={world_size()}"
        )
    if request.precision == "tf32" and torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0):
        raise ConfigError("precision=tf32: this GPU is older than Ampere and has no TF32; use precision=fp32 or fp16")
    if not torch.cuda.is_available():
        keep_freed_memory()
    torch.manual_seed(request.seed)
    torch.set_num_threads(request.threads)
    # cuDNN would otherwise use TF32 for every convolution of an "fp32" run.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = request.precision == "tf32"
    torch.backends.cudnn.benchmark = True


def _build(request: Request, ranks: Ranks) -> nn.Module:
    model = workloads.build(request.model, request.image_size).train()
    model = model.to(ranks.device, memory_format=torch.channels_last)
    return distributed.replicate(model, request, ranks)


def _open_input(request: Request, ranks: Ranks) -> inputs.Batches:
    return inputs.open_input(
        request.input,
        batch_size=request.batch_size // ranks.world_size,
        image_size=request.image_size,
        classes=request.model.classes,
        rank=ranks.rank,
        world_size=ranks.world_size,
        device=ranks.device,
        seed=request.seed,
    )


def _environment(request: Request, ranks: Ranks) -> dict[str, Any] | None:
    """Rank 0's view of the machine before the run loads it; the others wait, so that no rank's first step does."""
    storage = None if isinstance(request.input, SyntheticInput) else Path(request.input.root)
    found = environment(storage) if ranks.first else None
    ranks.barrier()
    return found


# ---- the step -------------------------------------------------------------------------------------------------------


class _Losses:
    """The loss of the latest step, read only between windows: reading it waits for the device."""

    def __init__(self) -> None:
        self.latest: torch.Tensor | None = None
        self.seen: list[float] = []

    def note(self) -> None:
        assert self.latest is not None, "no step has run"
        self.seen.append(self.latest.item())


def training_step(
    model: nn.Module, batches: inputs.Batches, request: Request, device: torch.device
) -> tuple[Step, _Losses]:
    """The step that is measured: next batch, forward, backward (with communication), update."""
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=request.optimizer.learning_rate,
        momentum=request.optimizer.momentum,
        weight_decay=request.optimizer.weight_decay,
        fused=True,  # one pass over the parameters: 5 % of a CPU step of AlexNet
    )
    scaler = torch.amp.GradScaler(device.type, enabled=request.precision == "fp16")
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(request.precision)
    losses = _Losses()

    def step() -> None:
        images, labels = next(batches)
        with torch.autocast(device.type, dtype=half, enabled=half is not None):
            loss = _loss(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.latest = loss.detach()

    return step, losses


def _loss(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy; auxiliary classifiers (outputs behind the first) count with their weight."""
    if isinstance(outputs, torch.Tensor):
        return nn.functional.cross_entropy(outputs, labels)
    main, *auxiliary = (output for output in outputs if output is not None)
    loss = nn.functional.cross_entropy(main, labels)
    for output in auxiliary:
        loss = loss + AUXILIARY_LOSS_WEIGHT * nn.functional.cross_entropy(output, labels)
    return loss


def _warm_up(step: Step, request: Request, ranks: Ranks) -> list[float]:
    """Seconds of the steps after the first one, until steps no longer get faster.

    The first steps are slow for many reasons (allocation, kernel choice, DDP's rebuilt buckets). All ranks stop at the
    same step: each decision uses the slowest rank's times.
    """
    mine: list[float] = []
    slowest: list[float] = []
    while len(mine) + 1 < request.warmup * MAX_WARMUP:
        mine.append(timed(step, 1, ranks.device, ranks.barrier))
        slowest.append(max(ranks.gather(mine[-1])))
        if len(mine) + 1 >= request.warmup and slowest[-1] > slowest[-2] * (1 - STEADY):
            break
    return mine


# ---- the record -----------------------------------------------------------------------------------------------------

_INSTRUMENTED = "taken in instrumented runs only: measuring it would change the clean run"


def _record(
    task: RunFile,
    ranks: Ranks,
    model: nn.Module,
    batches: inputs.Batches,
    every: list[dict[str, Any]],
    started: float,
) -> RunRecord:
    """The record of a run that went well, from what all its ranks gathered."""
    request = task.request
    windows = [facts["windows_s"] for facts in every]
    measured_s = sum(max(window) for window in zip(*windows, strict=True))
    iterations_per_s = request.steps * request.windows / measured_s
    losses = [sum(values) / len(values) for values in zip(*(facts["loss"] for facts in every), strict=True)]
    alone = ranks.world_size == 1
    return seal(
        {
            **opening(task, started),
            "workload": workloads.workload(request.model, request.image_size, request.batch_size, task.convention),
            "outcome": "ok",
            "reason": "",
            "failures": [],
            "stderr_end": "",
            "duration_s": time.time() - started,
            "world_size": ranks.world_size,
            "backend": Unknown("one rank joins no process group") if alone else distributed.backend(ranks.device),
            "distributed": "bare" if alone else "DDP",
            "images_per_s": iterations_per_s * request.batch_size,
            "iterations_per_s": iterations_per_s,
            "windows_s": windows,
            "warmup_s": [facts["warmup_s"] for facts in every],
            "loss": losses,
            "start_up": [facts["start_up"] for facts in every],
            "buckets": distributed.buckets(model),
            "phases": Unknown(_INSTRUMENTED),
            "copies": Unknown(_INSTRUMENTED),
            "peak_memory_bytes": [facts["peak_memory_bytes"] for facts in every],
            "gpu_samples": _each(facts["gpu_samples"] for facts in every),
            "link_counters": _each(facts["link_counters"] for facts in every),
            "host_load": every[0]["host_load"],
            "transport": distributed.transport(ranks, [facts["nccl_log"] for facts in every]),
            "devices": [facts["device"] for facts in every],
            "input_state": {**batches.state(), "reads_bytes": _sum(facts["reads_bytes"] for facts in every)},
            "warnings": _warnings(request, every, losses),
            "environment": every[0]["environment"],
        },
        RunRecord,
    )


def _each(parts: Iterable[Any]) -> list[Any] | Unknown:
    """One entry per rank, or the reason why no rank has any."""
    found = list(parts)
    return found[0] if all(isinstance(part, Unknown) for part in found) else found


def _sum(parts: Iterable[int | Unknown]) -> int | Unknown:
    found = list(parts)
    return next((part for part in found if isinstance(part, Unknown)), None) or sum(found)


def _warnings(request: Request, every: list[dict[str, Any]], losses: list[float]) -> list[Warning]:
    found = sensor_warnings(every)
    steps = len(every[0]["warmup_s"])
    if steps >= request.warmup * MAX_WARMUP:
        found.append(
            Warning(
                code="warm-up",
                message=f"steps were still getting faster after {steps} steps of warm-up",
                remedy="raise warmup",
            )
        )
    shortest_s = min(min(facts["windows_s"]) for facts in every)
    if shortest_s < SHORTEST_WINDOW_S:
        found.append(
            Warning(
                code="short-windows",
                message=f"a window of {request.steps} steps took only {shortest_s * 1e3:.0f} ms",
                remedy=f"raise steps, so that each window takes {SHORTEST_WINDOW_S:g} s or more",
            )
        )
    if not all(math.isfinite(loss) for loss in losses):
        found.append(
            Warning(
                code="loss",
                message="the loss is not finite: arithmetic on NaN can be faster or slower than training",
                remedy="lower optimizer.learning_rate",
            )
        )
    if every[0]["device"]["name"] == "CPU" and request.gpus * request.threads > cores():
        found.append(
            Warning(
                code="oversubscribed",
                message=f"{request.gpus} ranks with {request.threads} threads each share {cores()} cores",
                remedy="lower gpus or threads",
            )
        )
    return found
