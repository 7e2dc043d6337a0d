"""`resnetx.observe`: one line around a training loop of the user's own, which sees when each rank is where.

    with resnetx.observe(model, samples=64, results="mine"):
        for images, labels in loader:
            ...                       # the loop as it is: torchrun, a single process, Fabric, the HF Trainer

Hooks tell where a step is: on the model's call, on its parameters (when their gradients are accumulated), and on the
optimizer's step. DDP's communication hook, of which there may be one, is left to the user. After WARMUP steps, in which
DDP settles its buckets, `samples` steps are noted; then TRACED steps with hooks on every layer give the trace that
`predict` takes. Then all hooks are removed. Each rank writes its own file (`record/traces.py`) as the block ends;
ranks exchange nothing, so that a loop that fails on one of them cannot hang here. What is asked for in a way that
cannot be is refused before the loop; from then on, whatever fails here is a warning, and the loop goes on.

**A step begins as its rank has the gradients of all ranks** (the optimizer is called), which aligns the ranks. What a
rank then needs until its last gradient is ready is its own, whatever the others do; the rest of the step is exposed
communication and waiting. On a GPU the marks are CUDA events: the times of its kernels, not of their launches.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
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
from resnetx.errors import ConfigError, shortened
from resnetx.host import cores, node_name
from resnetx.launching import FIRST_NCCL_BACKEND, NCCL_BACKEND_VARIABLE
from resnetx.measure.machine.host_facts import cpu_name
from resnetx.measure.rank.phases import clock_of
from resnetx.record import SCHEMA, LayerTimes, TracedLayer, Unknown, known, record_file, seal, timestamp, write
from resnetx.record.traces import Observation, ObservedBucket, Trace, TracedBatch, old_files, rank_folder, trace_folder
from resnetx.settings.files import given_path

WARMUP = 4  # steps before the first that counts: DDP has its final buckets from the second step on, the third if static
NO_PARAMETER = -1  # as whose gradient the end of a pass counts that is not exchanged
TRACED = 10  # steps behind those that count, with hooks on every layer
DIGITS = 7  # of recorded seconds behind the decimal point
# What is no data-parallel training, by nodes of the autograd graph: as torch, DeepSpeed and Megatron call them.
OTHERS = {
    "alltoall": "an all-to-all between ranks, as expert and sequence parallelism have",
    "modelparallelregion": "what tensor parallelism exchanges",
}
PIPELINES = "torch.distributed.pipelining"
EXPECTED = "expected data-parallel training (DDP or FSDP)"


@contextmanager
def observe(model: nn.Module, *, samples: int = 64, results: str | os.PathLike[str] = "observed") -> Iterator[None]:
    """Observes the training loop inside a `with` block; see `resnetx explain`, which says what it shows.

    `model`: the module that the loop trains, before or after DDP wraps it, or what FSDP has wrapped. `samples`: steps
    that are noted. `results`: a folder, the same on all ranks; an earlier observation in it is replaced. A loop that is
    shorter gives what it has.
    """
    _refuse(model, samples)
    folder, (rank, ranks) = given_path(results), _place()
    loop = _Loop(samples)
    begun = _begin(loop, model, rank, ranks, folder)
    try:
        yield
    finally:
        if begun:
            _end(loop, rank, ranks, folder)


def _refuse(model: object, samples: object) -> None:
    if type(model).__module__.startswith(PIPELINES):
        raise ConfigError(f"model: a {type(model).__name__} of pipeline parallelism; {EXPECTED}")
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model: a {type(model).__name__}; expected the torch.nn.Module that the loop trains")
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= 100_000:
        raise ConfigError(f"samples={samples!r}: expected steps to note, from 1 to 100,000")


def _begin(loop: _Loop, model: nn.Module, rank: int, ranks: int, folder: Path) -> bool:
    """Puts hooks in their places, and removes what an earlier observation left; whether both was possible."""
    try:
        loop.begin(model)
        for path in old_files(folder, rank, ranks):
            path.unlink(missing_ok=True)
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise PermissionError(f"{there} is no folder that can be written")
    except Exception as error:
        loop.remove()
        if isinstance(error, ConfigError):
            raise
        progress.note(f"{_failed(error)}: the loop is not observed", warning=True)
        return False
    return True


def _end(loop: _Loop, rank: int, ranks: int, folder: Path) -> None:
    """Removes all hooks, writes what was seen, and says so."""
    try:
        loop.remove()
        said, nothing = _write(loop, rank, ranks, folder)
    except Exception as error:
        said, nothing = f"{_failed(error)}: nothing is written", True
        loop.failed = error
    if rank == 0 or loop.failed:
        progress.note(said, warning=nothing)


def _failed(error: Exception) -> str:
    """What went wrong; of what neither the user nor a disk has done wrong, with the line of ours at which it did."""
    said = shortened(" ".join(str(error).split()))
    if isinstance(error, ConfigError | OSError):
        return f"observe: {said}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    where = f" (line {frames[-1].lineno} of {Path(__file__).name})" if frames else ""
    return f"observe: {type(error).__name__}{where}: {said}"


def _write(loop: _Loop, rank: int, ranks: int, folder: Path) -> tuple[str, bool]:
    """Writes what was seen; a sentence that says so, and whether it is a warning."""
    seen = loop.steps[WARMUP : WARMUP + loop.samples]
    if loop.failed:
        return f"{_failed(loop.failed)}: nothing is written", True
    if loop.unseen:
        return f"observe: {loop.unseen}: nothing is written", True
    if not seen:
        return (
            f"observe: {len(loop.steps)} steps of a torch optimizer of the model's parameters were seen, each with a "
            f"call of the model, and the first {WARMUP} do not count: nothing is written"
        ), True
    observation = _observation(loop, seen, rank, ranks)
    traced = loop.steps[WARMUP + loop.samples + 1 :]  # the first one had its hooks for a part of it
    if rank == 0 and traced and loop.batch_size and loop.has_layers:
        write(record_file("trace", trace_folder(folder)), _trace(loop, seen, traced, folder))
    write(rank_folder(folder, rank).record, observation)
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
    waited_s: float | None  # by this thread for a core, since it began; null: not known
    updated: Any = None  # the end of the optimizer's step
    core_wait_s: float | None = None  # in this step, until its last gradient is there
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


class _Hook:
    """A hook of a loop: nothing once one has failed, where torch compiles, and in a copy of the model or a file."""

    __slots__ = ("_loop", "_tell")

    def __init__(self, loop: _Loop, tell: Callable[..., None]) -> None:
        self._loop, self._tell = loop, tell

    def __call__(self, *args: Any) -> None:
        if self._loop.failed is None and not torch.compiler.is_compiling():
            try:
                self._tell(*args)
            except Exception as error:
                self._loop.failed = error

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, does nothing, and needs no resnetx to be read


class _Loop:
    """A training loop, seen through hooks."""

    model: nn.Module  # the outermost one
    module: nn.Module  # the user's own
    ddp: Any
    strategy: Any
    device: torch.device
    clock: Any
    named: list[tuple[str, nn.Parameter]]  # that are trained
    has_layers: bool  # that can be timed: compiled they are no calls any more, and under FSDP they wait for others
    _own: set[int]

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.started_s = time.time()
        self.batch_size = 0
        self.failed: Exception | None = None
        self.unseen = ""  # why nothing of the loop can be told
        self._optimizing = False
        self.steps: list[_Step] = []
        self._step: _Step | None = None
        self._finished = False
        self._images = 0
        self._optimizers: dict[int, bool] = {}
        self._last = NO_PARAMETER  # whose gradient came last in the step before
        self._hooks: list[Any] = []  # on what `_attach` was given
        self._of_optimizers: list[Any] = []
        self._search: Any = None

    def begin(self, model: nn.Module) -> None:
        """Puts all hooks in their places."""
        self._attach(model)
        self._of_optimizers = [
            register_optimizer_step_pre_hook(_Hook(self, self._gradients_are_there)),
            register_optimizer_step_post_hook(_Hook(self, self._updated)),
        ]
        if self.strategy == "bare":  # what wraps the model may be made within the block: by the loop, or by a library
            self._search = register_module_forward_pre_hook(_Hook(self, self._seek))

    def _attach(self, model: nn.Module) -> None:
        """Hooks on a module, which is or wraps the one that is trained, instead of those that there are."""
        chain = _chain(model)
        self.model, self.module = model, chain[-1]
        self.ddp = next((each for each in chain if isinstance(each, nn.parallel.DistributedDataParallel)), None)
        self.strategy = _strategy(chain, self.ddp)
        self.named = [
            (name.replace("_orig_mod.", ""), parameter)
            for name, parameter in (model if self.strategy == "fsdp" else self.module).named_parameters()
            if parameter.requires_grad
        ]
        if not self.named:
            raise ConfigError("model: it has no parameters that are trained; expected the module that the loop trains")
        self.device = self.named[0][1].device
        self.clock = clock_of(self.device)
        self.has_layers = self.strategy != "fsdp" and not any(map(_is_compiled, [*chain, *self.module.modules()]))
        self._own = {id(parameter) for _, parameter in self.named}
        self._optimizers = {}
        self._remove_hooks()
        own = chain[1] if model is self.ddp else model
        self._hooks += _around(own, _Hook(self, self._begins), _Hook(self, self._ended))
        self._hooks += _around(model, _Hook(self, self._called), None)
        for index, (_, parameter) in enumerate(self.named):
            hook = _Hook(self, partial(self._ready, index))
            self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))

    def remove(self) -> None:
        """Removes all hooks; the loop goes on without."""
        self._remove_hooks()
        for hook in [*self._of_optimizers, *[self._search] * (self._search is not None)]:
            hook.remove()
        self._of_optimizers, self._search = [], None

    def _remove_hooks(self) -> None:
        for hook in reversed(self._hooks):
            hook.remove()
        self._hooks = []

    # ---- what hooks tell --------------------------------------------------------------------------------------------

    def _seek(self, module: nn.Module, *_: Any) -> None:
        """Finds what was made of the model since the block began: wrapped, compiled, sharded, or moved to a GPU."""
        if module is self.model:
            trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
            changed = {id(parameter) for parameter in trained} != self._own or trained[0].device != self.device
        else:
            changed = any(each is self.model for each in _chain(module))
        if changed:
            self._attach(module)

    def _called(self, module: nn.Module, args: tuple[Any, ...], kwargs: Any = None) -> None:
        if self._finished:  # here, as no hook of an optimizer may remove hooks of optimizers
            self.remove()
        if self._step is None or not torch.is_grad_enabled():
            return
        if self._optimizing:
            self.unseen = (
                "the optimizer calls the model within its step (a closure, as LBFGS has), so that nothing tells its "
                "update from forward and backward"
            )
        if self._pass is not None and not self._pass.ready:
            return  # the model is called several times before one backward pass
        if not self.steps and not self._step.passes:
            _refuse_pipeline()
        if self.strategy == "fsdp" and not self._step.passes:  # what comes behind is no rank's own
            self._note_wait()
        self._step.passes.append(_Pass(self.clock.now()))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.ndim]
        self._images += given[0].shape[0] if given else 0

    def _begins(self, *_: Any) -> None:
        if self._pass is not None and self._pass.begin is None:
            self._pass.begin = self.clock.now()

    def _ended(self, module: nn.Module, args: tuple[Any, ...], made: Any) -> None:
        if self._pass is None or not torch.is_grad_enabled():
            return
        self._pass.end = self.clock.now()
        made = [leaf for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor) and leaf.grad_fn]
        if self._step and not self.steps and self._pass is self._step.passes[0]:
            _refuse_exchanges([leaf.grad_fn for leaf in made])
        if self.strategy == "fsdp" and made:  # its parameters tell of a pass only where it is exchanged
            made[0].register_hook(_Hook(self, self._undoing))

    def _undoing(self, gradient: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(_Hook(self, self._undone))

    def _undone(self) -> None:
        if self._pass is not None and not self._pass.ready:
            self._pass.ready.append((NO_PARAMETER, self.clock.now()))

    def _ready(self, index: int, parameter: torch.Tensor) -> None:
        if self._pass is not None:
            self._pass.ready.append((index, self.clock.now()))
            if index == self._last and self.strategy != "fsdp":
                self._note_wait()
        elif self._step is not None:
            self.unseen = (
                "gradients come with no call of the model since the optimizer's step: it steps within the backward "
                "pass, or a part of the model is called by itself"
            )

    def _note_wait(self) -> None:
        if self._step and self._step.waited_s is not None:
            self._step.core_wait_s = (_waited_s() or 0.0) - self._step.waited_s

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
            self._last = self._step.passes[-1].ready[-1][0]
            if self._step.core_wait_s is None:  # another one came last
                self._note_wait()
            self.steps.append(self._step)
            self.batch_size = self._images
        self._images = 0
        self._step = _Step(now, _waited_s() if self.device.type == "cpu" else None)
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
        if not self.has_layers:
            return
        for name, module in self.module.named_modules():
            if name and (not list(module.children()) or list(module.parameters(recurse=False))):
                self._hooks.append(module.register_forward_hook(_Hook(self, partial(self._layer_ended, name))))

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


def _waited_s() -> float | None:
    """Seconds that this thread, ready to run, has waited for a core; null where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _chain(model: nn.Module) -> list[nn.Module]:
    """A module, what it wraps, and so on: of DDP, FSDP and torch.compile."""
    chain = [model]
    while True:
        wrapper = chain[-1]
        is_parallel = isinstance(wrapper, nn.parallel.DistributedDataParallel) or _is_fsdp1(wrapper)
        inner = wrapper.module if is_parallel else wrapper._modules.get("_orig_mod")
        if not isinstance(inner, nn.Module):
            return chain
        chain.append(inner)


def _is_fsdp1(module: nn.Module) -> bool:
    return type(module).__name__ == "FullyShardedDataParallel"


def _is_compiled(module: nn.Module) -> bool:
    return "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None


class _InPlace:
    """Hooks around a module that compiled itself (`module.compile()`), where they would be compiled with it."""

    def __init__(self, module: Any, before: _Hook, after: _Hook | None) -> None:
        self._module, self._compiled = module, module._compiled_call_impl

        def called(*args: Any, **kwargs: Any) -> Any:
            before(module, args, kwargs)
            made = self._compiled(*args, **kwargs)
            if after:
                after(module, args, made)
            return made

        module._compiled_call_impl = called

    def remove(self) -> None:
        self._module._compiled_call_impl = self._compiled


def _around(module: nn.Module, before: _Hook, after: _Hook | None) -> list[Any]:
    """Hooks before and after the calls of a module."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        return [_InPlace(module, before, after)]
    hooks: list[Any] = [module.register_forward_pre_hook(before, prepend=after is None, with_kwargs=True)]
    if after:
        hooks.append(module.register_forward_hook(after))
    return hooks


def _strategy(chain: Sequence[nn.Module], ddp: Any) -> Any:
    """How the ranks share the work; what is not data-parallel training is refused."""
    if not torch.distributed.is_available():
        return "bare"
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor, Shard

    module = chain[0]
    sharded = any(isinstance(part, FSDPModule) or _is_fsdp1(part) for part in module.modules())
    for name, parameter in module.named_parameters():
        if nn.parameter.is_lazy(parameter):
            raise ConfigError(
                f"model: its parameter {name} has no shape yet; call the module once before it is observed"
            )
        if isinstance(parameter, DTensor) and (
            not sharded or sum(isinstance(way, Shard) for way in parameter.placements) > 1
        ):
            raise ConfigError(f"model: its parameter {name} is sharded by tensor parallelism; {EXPECTED}")
    ignored = ddp.parameters_to_ignore if ddp is not None else ()
    if apart := [
        name for name, parameter in chain[-1].named_parameters() if name in ignored and parameter.requires_grad
    ]:
        raise ConfigError(
            f"model: DDP is told to ignore its parameter {apart[0]}, as in expert parallelism; {EXPECTED}"
        )
    return "fsdp" if sharded else "ddp" if ddp is not None else "bare"


def _refuse_pipeline() -> None:
    """Refuses a model that a schedule of pipeline parallelism calls."""
    frame: Any = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(PIPELINES):
            raise ConfigError(f"model: a stage of pipeline parallelism calls it; {EXPECTED}")
        frame = frame.f_back


def _refuse_exchanges(nodes: list[Any]) -> None:
    """Refuses a model that exchanges within its forward pass what data-parallel training does not."""
    seen = set(nodes)
    while nodes:
        node = nodes.pop()
        name = node.name().lower().replace("_", "")
        if sign := next((sign for sign in OTHERS if sign in name), None):
            raise ConfigError(f"model: its forward pass has {OTHERS[sign]}; {EXPECTED}")
        more = [below for below, _ in node.next_functions if below is not None and below not in seen]
        seen.update(more)
        nodes += more


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
            step_s=column("step_s"), core_wait_s=_core_waits_s(steps), buckets=known(_buckets(loop, seen)), unknown={},
        )
    )  # fmt: skip


def _core_waits_s(steps: Sequence[_Step]) -> list[float]:
    waits = [step.core_wait_s for step in steps]
    return [round(wait_s, DIGITS) for wait_s in waits if wait_s is not None] if None not in waits else []


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
