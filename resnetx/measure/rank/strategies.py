"""How the ranks exchange gradients: a replica of the model on each, and what makes their gradients the mean of all.

    replica = replicate(model, request, ranks)
    with replica.adding_up():               # with accumulate=2; else there is but the last part
        loss(replica(first)).backward()
    loss(replica(last)).backward()
    replica.finish()                        # now each gradient is the mean over the ranks, or all is updated

- `bucket` is DistributedDataParallel.
- `layerwise` and `after` are `_Flat`: gradients are copied into flat buffers, and each buffer is all-reduced as soon as
  its last gradient is there. With one buffer per layer that is wait-free backpropagation; with a single one, nothing is
  sent before the backward pass is over.
- `server` sends each gradient to one rank, which updates the parameters and sends them back (`server`).
- `zero1` and `fsdp` share out what ranks keep (`sharded`).
- `none` exchanges nothing, and on one rank there is nothing to exchange, whatever the strategy: the baseline of a
  speed-up is the bare model.

Reference: Shi et al. 2018, section IV (the frameworks' strategies).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from resnetx.choices import Bucket, Fsdp, Layerwise, NoExchange, Server, Zero1
from resnetx.measure.rank import replicas
from resnetx.measure.rank.distributed import DistributedWork, Ranks, RegisteredMemory, Send, Watched, unchanged
from resnetx.measure.rank.replicas import MessageBuffer, Replica, ServedModel, copy_scaled, trainable
from resnetx.measure.rank.sharded import FullySharded, blocks_of
from resnetx.record import Unknown
from resnetx.request import Request


def replicate(model: nn.Module, request: Request, ranks: Ranks, watched: Watched = unchanged) -> Replica:
    """`model` as the request's strategy trains it; every rank starts from rank 0's parameters and buffers.

    `watched`: of what starts each message on its way, what is used in its place.
    """
    strategy = request.strategy
    if request.checkpointing:
        recompute_blocks(model)
    if ranks.world_size == 1:
        return _Alone(model, "bare", request.compile)
    for tensor in (*model.parameters(), *model.buffers()):
        ranks.broadcast(tensor.detach())
    if isinstance(strategy, Bucket):
        send = None if watched is unchanged else watched(ranks.send)
        if request.compile != "none":
            replicas.divide_like_buckets(strategy)
        if not request.registered:
            return _Buckets(replicas.data_parallel(model, strategy, ranks, send), request.compile)
        memory = RegisteredMemory(ranks)
        with memory.allocating():
            wrapped = replicas.data_parallel(model, strategy, ranks, send)
        return _Buckets(wrapped, request.compile, memory)
    if isinstance(strategy, NoExchange):
        return _Alone(model, strategy.kind, request.compile)
    if isinstance(strategy, Zero1):
        model = model.to(memory_format=torch.contiguous_format)
        usual = Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True)
        send = None if watched is unchanged else watched(ranks.send)
        return ShardedUpdates(replicas.data_parallel(model, usual, ranks, send), request.compile)
    if isinstance(strategy, Fsdp):
        return FullySharded(model, strategy, ranks, watched, request.accumulate)
    if isinstance(strategy, Server):
        return ServedModel(model, request, ranks, watched)
    groups = layers(model) if isinstance(strategy, Layerwise) else [trainable(model.parameters())]
    return _Flat(model, strategy.kind, groups, ranks.world_size, watched(ranks.send), request.compile)


def recompute_blocks(model: nn.Module) -> None:
    """Has each block of a family keep its input alone, and compute its forward pass again in the backward pass.

    What wraps a block (FSDP) then gathers its parameters once for both. Blocks have nothing random.
    """
    for block in blocks_of(model):
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False)


def called(module: nn.Module, compile: str) -> Callable[..., Any]:
    """What computes the forward pass of a module: itself, or what torch.compile makes of it when it is first called.

    Of a model in DDP, torch compiles a part for each bucket, whose gradients are sent as soon as the part is done
    (PyTorch documentation, notes on DDP, "TorchDynamo DDPOptimizer").
    """
    return module if compile == "none" else torch.compile(module, dynamic=False)


class _Alone(Replica):
    """A model whose gradients stay where they are."""

    def __init__(self, model: nn.Module, name: str, compile: str) -> None:
        self.name, self.module, self._call = name, model, called(model, compile)

    def sizes(self) -> list[int] | Unknown:
        return Unknown("one rank sends no gradients") if self.name == "bare" else []


class _Buckets(Replica):
    """DistributedDataParallel, whose backward pass ends when the gradients are there."""

    name = "DDP"

    def __init__(self, wrapped: DistributedDataParallel, compile: str, memory: RegisteredMemory | None = None) -> None:
        """`memory`: that buckets are to lie in."""
        self.module, self._wrapped, self._call = wrapped.module, wrapped, called(wrapped, compile)
        self._memory, self._steps = memory, 0

    def __call__(self, *images: Any, **named: Any) -> Any:
        if self._memory is not None and self._steps < 2:
            self._steps += 1
            if self._steps == 2:  # DDP knows now in which order gradients come, and would make its buckets anew
                with self._memory.allocating():
                    self._wrapped.reducer._rebuild_buckets()
                self._memory.register()
        return super().__call__(*images, **named)

    def adding_up(self) -> AbstractContextManager[None]:
        return self._wrapped.no_sync()

    def sizes(self) -> list[int] | Unknown:
        return replicas.bucket_sizes(self._wrapped)


class ShardedUpdates(_Buckets):
    """The same, whose parameters are updated by one rank each."""

    name = "ZeRO-1"


class _Flat(Replica):
    """Messages of groups of gradients, each sent when the last of its group is there.

    The buffers live as long as the model, so that no stream can find them freed. A gradient is copied into its buffer,
    divided by the number of ranks on the way, and then is a view of the buffer; the update reads it there. The next
    backward pass writes into a buffer only after `finish` has ordered it behind the all-reduce.
    """

    def __init__(
        self,
        model: nn.Module,
        name: str,
        groups: Iterable[list[nn.Parameter]],
        world_size: int,
        send: Send,
        compile: str = "none",
    ) -> None:
        self.name, self.module, self._share, self._send = name, model, 1 / world_size, send
        self._call = called(model, compile)
        self._messages = [MessageBuffer(group) for group in groups]
        self._on_the_way: list[tuple[MessageBuffer, DistributedWork]] = []
        self._order: list[MessageBuffer] = []  # of the latest step
        self._adding_up = False
        for message in self._messages:
            for parameter, view in message.views:
                parameter.register_post_accumulate_grad_hook(self._hook(message, view))

    def _hook(self, message: "MessageBuffer", view: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def ready(parameter: torch.Tensor) -> None:
            if self._adding_up:
                return
            assert parameter.grad is not None, "called after the gradient was accumulated"
            copy_scaled(parameter.grad, self._share, view)
            parameter.grad = view
            message.missing -= 1
            if message.missing == 0:
                self._on_the_way.append((message, self._send(message.buffer)))

        return ready

    @contextmanager
    def adding_up(self) -> Iterator[None]:
        self._adding_up = True
        yield
        self._adding_up = False

    def finish(self) -> None:
        for message, work in self._on_the_way:
            work.wait()
            message.missing = len(message.views)
        self._order = [message for message, _ in self._on_the_way]
        self._on_the_way.clear()
        assert len(self._order) == len(self._messages), "a parameter has no gradient, so that its layer was not sent"

    def sizes(self) -> list[int] | Unknown:
        return [message.buffer.nbytes for message in self._order]


_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def layers(model: nn.Module) -> list[list[nn.Parameter]]:
    """The trainable parameters of each layer: of a module of torch.nn with all that is in it, else a module's own."""
    seen: set[nn.Parameter] = set()
    groups = []
    for module in model.modules():
        ready_made = type(module).__module__.startswith("torch.nn") and not isinstance(module, _CONTAINERS)
        own = [parameter for parameter in trainable(module.parameters(recurse=ready_made)) if parameter not in seen]
        seen.update(own)
        groups += [own] if own else []
    return groups
