"""A training loop of the user's own, seen through hooks: of each step when its parts end, on this rank's own clock.

Hooks are on the model's call, on its parameters (when their gradients are accumulated), and on the optimizer's step;
DDP's communication hook is left to the user. What is no data-parallel training is refused, by name.

**A step begins as its rank has the gradients of all ranks** (the optimizer is called), which aligns the ranks. What a
rank then needs until its last gradient is ready is its own, whatever the others do; the rest of the step is exposed
communication and waiting. On a GPU the marks are CUDA events: the times of its kernels, not of their launches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from resnetx.errors import ConfigError
from resnetx.measure.rank.phases import clock_of

WARMUP = 4  # steps before the first that counts: DDP has its final buckets from the second step on, the third if static
NO_PARAMETER = -1  # as whose gradient the end of a pass counts that is not exchanged
TRACED = 10  # steps behind those that count, with hooks on every layer
# What is no data-parallel training, by nodes of the autograd graph: as torch, DeepSpeed and Megatron call them.
OTHERS = {
    "alltoall": "an all-to-all between ranks, as expert and sequence parallelism have",
    "modelparallelregion": "what tensor parallelism exchanges",
}
PIPELINES = "torch.distributed.pipelining"
EXPECTED = "expected data-parallel training (DDP or FSDP)"


@dataclass
class Pass:
    """One forward and backward pass, as the clock notes its marks."""

    called: Any  # the outermost module
    begin: Any = None  # the model's own forward pass
    end: Any = None
    ready: list[tuple[int, Any]] = field(default_factory=list)  # a parameter, and when its gradient is there
    layers: list[tuple[str, Any]] = field(default_factory=list)  # a layer, and its end, where they are traced


@dataclass
class Step:
    """One step, likewise."""

    begin: Any
    waited_s: float | None  # by this thread for a core, since it began; null: not known
    updated: Any = None  # the end of the optimizer's step
    core_wait_s: float | None = None  # in this step, until its last gradient is there
    passes: list[Pass] = field(default_factory=list)
    end: Any = None


@dataclass(frozen=True)
class Seen:
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

    def __init__(self, loop: Loop, tell: Callable[..., None]) -> None:
        self._loop, self._tell = loop, tell

    def __call__(self, *args: Any) -> None:
        if self._loop.failed is None and not torch.compiler.is_compiling():
            try:
                self._tell(*args)
            except Exception as error:
                self._loop.failed = error

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, does nothing, and needs no resnetx to be read


class Loop:
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
        self.steps: list[Step] = []
        self._step: Step | None = None
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
        self._step.passes.append(Pass(self.clock.now()))
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
    def _pass(self) -> Pass | None:
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
        self._step = Step(now, _waited_s() if self.device.type == "cpu" else None)
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

    def seen(self, step: Step) -> Seen:
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
        return Seen(update_s, input_s, waiting_s, forward_s, backward_s, exposed_s, step_s, ready_s)


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
