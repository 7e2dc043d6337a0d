"""`resnetx.observe`: one line around a training loop of the user's own, which sees when each rank is where.

    with resnetx.observe(model, samples=64, results="mine"):
        for images, labels in loader:
            ...                       # the loop as it is: torchrun, a single process, Fabric, the HF Trainer

Hooks tell where a step is: on the model's call, on its parameters (when their gradients are accumulated), and on the
optimizer's step. DDP's communication hook, of which there may be one, is left to the user. After WARMUP steps, in which
DDP settles its buckets, `samples` steps are noted; then TRACED steps with hooks on every layer give the trace that
`predict` takes. Then all hooks are removed. Each rank writes its own file (`record/traces.py`) as the block ends;
ranks exchange nothing, so that a loop that fails on one of them cannot hang here.

**A step begins as its rank has the gradients of all ranks** (the optimizer is called), which aligns the ranks. What a
rank then needs until its last gradient is ready is its own, whatever the others do; the rest of the step is exposed
communication and waiting. On a GPU the marks are CUDA events: the times of its kernels, not of their launches.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.host import cores, node_name
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure.machine.host_facts import cpu_name
from resnetx.measure.rank.phases import clock_of
from resnetx.record import SCHEMA, LayerTimes, TracedLayer, Unknown, known, seal, timestamp, write
from resnetx.record.traces import Observation, ObservedBucket, Trace, TracedBatch, old_files, rank_folder, trace_folder
from resnetx.settings.files import given_path

WARMUP = 4  # steps before the first that counts: DDP has its final buckets from the second step on, the third if static
NO_PARAMETER = -1  # as whose gradient the end of a pass counts that is not exchanged
TRACED = 10  # steps behind those that count, with hooks on every layer
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20  # of DDP before it rebuilds them, by its defaults
DIGITS = 7  # of recorded seconds behind the decimal point


@contextmanager
def observe(model: nn.Module, *, samples: int = 64, results: str | os.PathLike[str] = "observed") -> Iterator[None]:
    """Observes the training loop inside a `with` block; see `resnetx explain`, which says what it shows.

    `model`: the module that the loop trains, before or after DDP wraps it, or what FSDP has wrapped. `samples`: steps
    that are noted. `results`: a folder, the same on all ranks; an earlier observation in it is replaced. A loop that is
    shorter gives what it has.
    """
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model: a {type(model).__name__}; expected the torch.nn.Module that the loop trains")
    if not isinstance(samples, int) or not 1 <= samples <= 100_000:
        raise ConfigError(f"samples={samples!r}: expected steps to note, from 1 to 100,000")
    folder = given_path(results)
    rank, ranks = _place()
    for path in old_files(folder, rank, ranks):
        path.unlink(missing_ok=True)
    loop = _Loop(model, samples)
    try:
        yield
    finally:
        loop.remove()
        said, nothing = _write(loop, rank, ranks, folder)
        if rank == 0:
            progress.note(said, warning=nothing)


def _write(loop: _Loop, rank: int, ranks: int, folder: Path) -> tuple[str, bool]:
    """Writes what was seen; a sentence that says so, and whether there is nothing to write."""
    seen = loop.steps[WARMUP : WARMUP + loop.samples]
    if loop.called_by_optimizer:
        return (
            "observe: the optimizer calls the model within its step (a closure, as LBFGS has), so that nothing tells "
            "its update from forward and backward: nothing is written"
        ), True
    if not seen:
        return (
            f"observe: {len(loop.steps)} steps of a torch optimizer were seen, of which the first {WARMUP} do not "
            "count: nothing is written"
        ), True
    write(rank_folder(folder, rank).record, _observation(loop, seen, rank, ranks))
    traced = loop.steps[WARMUP + loop.samples + 1 :]  # the first one had its hooks for a part of it
    if rank == 0 and traced and loop.strategy != "fsdp" and loop.batch_size:
        write(trace_folder(folder) / "trace.json", _trace(loop, seen, traced, folder))
    said = f"{len(seen)} steps observed: resnetx explain {folder}"
    if _waits_within_backward(loop):
        return (
            f"{said}; torch's newer NCCL backend lets computing wait for each bucket, which counts as backward and "
            f"hides who is late: set {NCCL_BACKEND_VARIABLE}={FIRST_NCCL_BACKEND}, and observe again"
        ), True
    return said, False


def _waits_within_backward(loop: _Loop) -> bool:
    """Whether the device waits for each message of DDP once it is sent (see `measure/rank/distributed.py`)."""
    newer = (
        hasattr(torch.distributed, "ProcessGroupNCCL2") and os.environ.get(NCCL_BACKEND_VARIABLE) != FIRST_NCCL_BACKEND
    )
    return newer and loop.ddp is not None and loop.device.type == "cuda"


def _place() -> tuple[int, int]:
    """This process's rank, and how many there are: also where the process group is made only inside the block."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


# ---- the loop -------------------------------------------------------------------------------------------------------


@dataclass
class _Pass:
    """One forward and backward pass, as the clock notes its marks."""

    called: Any  # the outermost module
    begin: Any = None  # the model's own forward pass
    end: Any = None
    ready: list[tuple[int, Any]] = field(default_factory=list)  # a parameter, and when its gradient is there
    layers: list[tuple[str, Any]] = field(default_factory=list)  # a layer, and its end, where they are traced


@dataclass
class _Step:
    begin: Any
    updated: Any = None  # the end of the optimizer's step
    passes: list[_Pass] = field(default_factory=list)
    end: Any = None


@dataclass(frozen=True)
class _Seen:
    """A step in seconds."""

    update_s: float
    input_s: float
    waiting_s: float
    forward_s: float
    backward_s: float
    exposed_s: float
    step_s: float
    ready_s: dict[int, float]  # of its last pass, since the step began


class _Loop:
    """A training loop, seen through hooks."""

    def __init__(self, model: nn.Module, samples: int) -> None:
        self.samples = samples
        self.ddp: Any = None
        self.module = model
        if isinstance(model, nn.parallel.DistributedDataParallel):
            self.ddp, self.module = model, model.module
        self.strategy = _strategy(model, self.ddp)
        self.named = [
            (name, parameter) for name, parameter in self.module.named_parameters() if parameter.requires_grad
        ]
        if not self.named:
            raise ConfigError("model: it has no parameters that are trained; expected the module that the loop trains")
        self.device = self.named[0][1].device
        self.clock = clock_of(self.device)
        self.started_s = time.time()
        self.batch_size = 0
        self.called_by_optimizer = False
        self._optimizing = False
        self.steps: list[_Step] = []
        self._step: _Step | None = None
        self._finished = False
        self._images = 0
        self._own = {id(parameter) for _, parameter in self.named}
        self._optimizers: dict[int, bool] = {}
        self._hooks: list[Any] = [
            model.register_forward_pre_hook(self._called, prepend=True, with_kwargs=True),
            self.module.register_forward_pre_hook(self._begins),
            self.module.register_forward_hook(self._ended),
            register_optimizer_step_pre_hook(self._gradients_are_there),
            register_optimizer_step_post_hook(self._updated),
            *(
                parameter.register_post_accumulate_grad_hook(partial(self._ready, index))
                for index, (_, parameter) in enumerate(self.named)
            ),
        ]
        self._search: Any = None
        if self.ddp is None:
            self._search = register_module_forward_pre_hook(self._is_wrapper)

    def remove(self) -> None:
        """Removes all hooks; the loop goes on without."""
        for hook in [*self._hooks, *[self._search] * (self._search is not None)]:
            hook.remove()
        self._hooks, self._search = [], None

    # ---- what hooks tell --------------------------------------------------------------------------------------------

    def _is_wrapper(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Finds the DDP module that was made of the model after the block began, or by a library."""
        if isinstance(module, nn.parallel.DistributedDataParallel) and module.module is self.module:
            self.ddp, self.strategy = module, "ddp"
            self._hooks[0].remove()
            self._hooks[0] = module.register_forward_pre_hook(self._called, prepend=True, with_kwargs=True)

    def _called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._finished:  # here, as no hook of an optimizer may remove hooks of optimizers
            self.remove()
        if self._step is None or not torch.is_grad_enabled():
            return
        if self._optimizing:
            self.called_by_optimizer = True
        if self._pass is not None and not self._pass.ready:
            return  # the model is called several times before one backward pass
        self._step.passes.append(_Pass(self.clock.now()))
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor) and each.ndim]
        self._images += given[0].shape[0] if given else 0

    def _begins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._pass is not None and self._pass.begin is None:
            self._pass.begin = self.clock.now()

    def _ended(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        if self._pass is None or not torch.is_grad_enabled():
            return
        self._pass.end = self.clock.now()
        if self.strategy == "fsdp":  # its parameters tell of a pass only where it is exchanged
            first = next((leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor) and leaf.grad_fn), None)
            if first is not None:
                first.register_hook(self._undoing)

    def _undoing(self, gradient: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(self._undone)

    def _undone(self) -> None:
        if self._pass is not None and not self._pass.ready:
            self._pass.ready.append((NO_PARAMETER, self.clock.now()))

    def _ready(self, index: int, parameter: torch.Tensor) -> None:
        if self._pass is not None:
            self._pass.ready.append((index, self.clock.now()))

    def _layer_ended(self, name: str, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        if self._pass is not None and torch.is_grad_enabled():
            self._pass.layers.append((name, self.clock.now()))

    @property
    def _pass(self) -> _Pass | None:
        return self._step.passes[-1] if self._step and self._step.passes else None

    def _gradients_are_there(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """All ranks have the gradients: the step ends, and the next one begins."""
        if not self._is_own(optimizer):
            return  # of another model
        self._optimizing = True
        if self._step and not (self._pass and self._pass.ready):
            return  # the second optimizer of a step
        if self._finished:
            return
        now = self.clock.now()
        if self._step and all(
            model_pass.begin and model_pass.end and model_pass.ready for model_pass in self._step.passes
        ):
            self._step.end = now
            self.steps.append(self._step)
            self.batch_size = self._images
        self._images = 0
        self._step = _Step(now)
        if self._search is not None:
            self._search.remove()
            self._search = None
        if len(self.steps) == WARMUP + self.samples:
            self._trace_layers()
        if len(self.steps) > WARMUP + self.samples + TRACED:
            self._step, self._finished = None, True

    def _updated(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._is_own(optimizer):
            self._optimizing = False
            if self._step:
                self._step.updated = self.clock.now()

    def _is_own(self, optimizer: torch.optim.Optimizer) -> bool:
        found = self._optimizers.get(id(optimizer))
        if found is None:
            found = any(id(parameter) in self._own for group in optimizer.param_groups for parameter in group["params"])
            self._optimizers[id(optimizer)] = found
        return found

    def _trace_layers(self) -> None:
        for name, module in self.module.named_modules():
            if name and (not list(module.children()) or list(module.parameters(recurse=False))):
                self._hooks.append(module.register_forward_hook(partial(self._layer_ended, name)))

    # ---- what was seen ----------------------------------------------------------------------------------------------

    def seen(self, step: _Step) -> _Seen:
        """The step in seconds, once the device has been waited for."""
        seconds = self.clock.seconds
        update_s = seconds(step.begin, step.updated) if step.updated else 0.0
        before, input_s, waiting_s, forward_s, backward_s = step.updated or step.begin, 0.0, 0.0, 0.0, 0.0
        for model_pass in step.passes:
            input_s += seconds(before, model_pass.called)
            waiting_s += seconds(model_pass.called, model_pass.begin)
            forward_s += seconds(model_pass.begin, model_pass.end)
            before = model_pass.ready[-1][1]
            backward_s += seconds(model_pass.end, before)
        ready_s = {index: seconds(step.begin, at) for index, at in step.passes[-1].ready}
        exposed_s, step_s = seconds(before, step.end), seconds(step.begin, step.end)
        return _Seen(update_s, input_s, waiting_s, forward_s, backward_s, exposed_s, step_s, ready_s)


def _strategy(model: nn.Module, ddp: Any) -> Any:
    """How the ranks share the work; what is not data-parallel training is refused."""
    if type(model).__module__.startswith("torch.distributed.pipelining"):
        raise ConfigError("model: a stage of pipeline parallelism; expected data-parallel training (DDP or FSDP)")
    if not torch.distributed.is_available():
        return "bare"
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.distributed.tensor import DTensor, Shard

    sharded = any(isinstance(module, FSDPModule | FullyShardedDataParallel) for module in model.modules())
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor):
            continue
        if not sharded or sum(isinstance(way, Shard) for way in parameter.placements) > 1:
            raise ConfigError(
                f"model: its parameter {name} is sharded by tensor parallelism; expected data-parallel training "
                "(DDP or FSDP)"
            )
    return "fsdp" if sharded else "ddp" if ddp is not None else "bare"


# ---- the record -----------------------------------------------------------------------------------------------------


def _observation(loop: _Loop, steps: Sequence[_Step], rank: int, ranks: int) -> Observation:
    if loop.device.type == "cuda":
        torch.cuda.synchronize(loop.device)
    seen = [loop.seen(step) for step in steps]

    def column(name: str) -> list[float]:
        return [max(0.0, round(getattr(step_seen, name), DIGITS)) for step_seen in seen]

    passes = len(steps[0].passes)
    return seal(
        Observation(
            kind="observation", schema=SCHEMA, workload=_workload(loop), strategy=loop.strategy, rank=rank,
            ranks=ranks, node=node_name(), device=_device(loop.device), sm_clock_Hz=known(_clock_Hz(loop.device)),
            clock=loop.clock.name, software=f"torch {torch.__version__}", started_at=timestamp(loop.started_s),
            batch_size=known(loop.batch_size or Unknown("no tensor is given to the model")), micro_batches=passes,
            parameters=sum(parameter.numel() for _, parameter in loop.named),
            gradient_bytes=sum(parameter.nbytes for _, parameter in loop.named),
            hooks=passes * (3 + len(loop.named)) + 2,
            update_s=column("update_s"), input_s=column("input_s"), waiting_s=column("waiting_s"),
            forward_s=column("forward_s"), backward_s=column("backward_s"), exposed_s=column("exposed_s"),
            step_s=column("step_s"), buckets=known(_buckets(loop, seen)), unknown={},
        )
    )  # fmt: skip


def _workload(loop: _Loop) -> str:
    """The class of the model, as it was before `fully_shard` made one of its own."""
    return type(loop.module).__name__.removeprefix("FSDP" if loop.strategy == "fsdp" else "")


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _clock_Hz(device: torch.device) -> float | Unknown:
    if device.type != "cuda":
        return Unknown("a CPU rank has no GPU")
    try:
        return float(torch.cuda.clock_rate(device)) * 1e6
    except Exception as error:  # NVML, which torch asks, is missing or refuses
        return Unknown(f"the driver does not say: {type(error).__name__}")


def _buckets(loop: _Loop, seen: Sequence[_Seen]) -> list[ObservedBucket] | Unknown:
    """When each bucket of DDP was full, if its gradients, in the order of one of its rules, fill the sizes it names."""
    if loop.ddp is None:
        return Unknown("the strategy is not DDP, which alone has buckets")
    data = loop.ddp._get_ddp_logging_data()
    rebuilt = str(data.get("rebuilt_bucket_sizes", ""))
    sizes = [int(each) for each in (rebuilt or str(data.get("bucket_sizes", ""))).split(",") if each.strip()]
    orders = [list(seen[-1].ready_s)] if rebuilt else [list(range(len(loop.named)))[::-1]]
    for order in orders:
        groups = _grouped(order, [loop.named[index][1].nbytes for index in order], sizes)
        if groups and all(set(step_seen.ready_s) >= set(order) for step_seen in seen):
            return [
                ObservedBucket(
                    size_bytes=size,
                    ready_s=[
                        max(0.0, round(max(step_seen.ready_s[index] for index in group), DIGITS)) for step_seen in seen
                    ],
                )
                for size, group in zip(sizes, groups, strict=True)
            ]
    return Unknown(
        f"the {len(loop.named)} gradients, as they come, do not fill the {len(sizes)} buckets that DDP names"
    )


def _grouped(order: Sequence[int], nbytes: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """The parameters of each bucket; [] where they do not fill them exactly."""
    groups, left = [], list(zip(order, nbytes, strict=True))
    for size in sizes:
        group, filled = [], 0
        while left and filled < size:
            index, own = left.pop(0)
            group.append(index)
            filled += own
        if filled != size:
            return []
        groups.append(group)
    return [] if left else groups


# ---- the trace ------------------------------------------------------------------------------------------------------


def _trace(loop: _Loop, clean: Sequence[_Step], traced: Sequence[_Step], folder: Path) -> Trace:
    """Layer times for `predict`: each layer ends where the next begins, forward by its end, backward by its gradients.

    The loss, and layers without parameters, count backward to the next layer that has some. A step is taken without
    its exposed communication and waiting.
    """
    seen = [loop.seen(step) for step in traced]
    forward, backward = [_forward(loop, step) for step in traced], [_backward(loop, step) for step in traced]
    owned: dict[str, int] = defaultdict(int)
    for name, parameter in loop.named:
        owned[_layer(name)] += parameter.nbytes
    names = list(dict.fromkeys([*(name for times_s in forward for name in times_s), *owned]))

    def own_s(step: _Seen) -> float:
        return step.step_s - step.exposed_s - step.waiting_s

    times = LayerTimes(
        clock=loop.clock.name,
        layers=[
            TracedLayer(
                name=name,
                forward_s=[round(times_s.get(name, 0.0), 8) for times_s in forward],
                backward_s=[round(times_s.get(name, 0.0), 8) for times_s in backward],
                communication_s=[],
                gradient_bytes=owned.get(name, 0),
            )
            for name in names
        ],
        input_s=[step_seen.input_s for step_seen in seen],
        input_wait_s=[step_seen.input_s for step_seen in seen],
        host_to_device_s=[0.0 for _ in seen],
        update_s=[step_seen.update_s for step_seen in seen],
        step_s=[own_s(step_seen) for step_seen in seen],
        clean_step_s=[own_s(loop.seen(step)) for step in clean],
        device_busy=known(Unknown("observed in the user's loop, without a profiler")),
        host_bound=False if loop.device.type == "cpu" else known(Unknown("observed without a profiler")),
        host_s=known(Unknown("observed in the user's loop: the host is not timed by itself")),
        gradient_copy_Bps=known(Unknown("observed in the user's loop: not measured")),
    )
    cuda = loop.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(loop.device) if cuda else Unknown("not asked of a CPU rank")
    return seal(
        Trace(
            kind="trace", schema=SCHEMA, how="measured", source=str(folder), workload=_workload(loop),
            request=known(Unknown("observed in a loop of the user's")), device=_device(loop.device), cpu=cpu_name(),
            cpus=cores(), sm_clock_Hz=known(_clock_Hz(loop.device)), software=f"torch {torch.__version__}",
            measured_at=timestamp(loop.started_s),
            batches=[TracedBatch(batch_size=loop.batch_size, times=times, peak_memory_bytes=known(peak))],
            communication=[], unknown={}, node=node_name(),
        )
    )  # fmt: skip


def _layer(parameter: str) -> str:
    return parameter.rpartition(".")[0] or parameter


def _forward(loop: _Loop, step: _Step) -> dict[str, float]:
    summed: dict[str, float] = defaultdict(float)
    for model_pass in step.passes:
        before = model_pass.begin
        for name, at in model_pass.layers:
            summed[name] += loop.clock.seconds(before, at)
            before = at
    return summed


def _backward(loop: _Loop, step: _Step) -> dict[str, float]:
    summed: dict[str, float] = defaultdict(float)
    for model_pass in step.passes:
        before = model_pass.end
        for index, at in model_pass.ready:
            summed[_layer(loop.named[index][0])] += loop.clock.seconds(before, at)
            before = at
    return summed
