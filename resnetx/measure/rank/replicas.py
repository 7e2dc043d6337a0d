"""Strategies that keep the whole model on each rank: DDP with its buckets, and a server of parameters."""

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import GradBucket
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from resnetx.choices import Bucket, Optimizer, Server
from resnetx.errors import ConfigError
from resnetx.measure.rank.device import CopyCounter, mark
from resnetx.measure.rank.distributed import DistributedWork, HostGroup, Ranks, Send, Watched
from resnetx.record import Unknown
from resnetx.request import Request
from resnetx.workloads.counts import CAP_BYTES, MIB

# ---- what is trained -------------------------------------------------------------------------------------------------


class Trained:
    """What a training step trains."""

    name: str  # as `RunRecord.distributed` has it
    module: nn.Module  # with the parameters to train
    updates = False  # whether `finish` updates them
    _call: Callable[..., Any]  # the module, or what computes its forward pass

    def __call__(self, *images: Any, **named: Any) -> Any:
        """What the module makes of a batch: of images, or of what a user's own model takes."""
        return self._call(*images, **named)

    def adding_up(self) -> AbstractContextManager[None]:
        """Around the passes of all parts of a batch but the last: gradients are added up, and stay on this rank."""
        return nullcontext()

    def finish(self) -> None:
        """After each backward pass: later work sees the ranks' mean gradients, or updated parameters."""


class Replica(Trained):
    """A rank's model, whose gradients are those of all ranks after `finish`."""

    def sizes(self) -> list[int] | Unknown:
        """Bytes of the messages of a step, in the order in which they are sent."""
        raise NotImplementedError


# ---- ddp ------------------------------------------------------------------------------------------------------------
# A model in DDP as a strategy sets it up, and the buckets that DDP makes of its gradients.

SECOND_BETA = 0.999  # of AdamW: the default of torch


def data_parallel(
    model: nn.Module, strategy: Bucket, ranks: Ranks, send: Send | None = None
) -> DistributedDataParallel:
    """`model` in DDP as the strategy sets it up; `send`: used in place of DDP's own way to start an all-reduce.

    All ranks have to bring the same parameters and buffers: an older DDP would not give them rank 0's buffers.
    """
    known = inspect.signature(DistributedDataParallel).parameters
    options: dict[str, Any] = _limits(strategy)
    # BatchNorm statistics stay per rank, as in the paper; broadcasting them would add traffic that no payload counts.
    options["forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"] = False
    wrapped = DistributedDataParallel(
        model,
        device_ids=[ranks.device] if ranks.device.type == "cuda" else None,
        gradient_as_bucket_view=strategy.gradient_as_bucket_view,
        init_sync=False,
        **options,
    )
    if send is not None:
        wrapped.register_comm_hook(send, _sent_by)
    return wrapped


def _limits(strategy: Bucket) -> dict[str, Any]:
    """The limits of DDP's buckets, in MiB; to set both takes a torch whose DDP has a list of them (`features`)."""
    if strategy.first_bucket_mb is None:
        return {"bucket_cap_mb": strategy.bucket_cap_mb}
    return {"bucket_cap_mb_list": [strategy.first_bucket_mb, strategy.bucket_cap_mb or CAP_BYTES / MIB]}


def divide_like_buckets(strategy: Bucket) -> None:
    """Has torch.compile end its first part where DDP's first bucket ends, which it takes to have DDP's default limit.

    (torch 2.15, `_dynamo/backends/distributed.py`: it even refuses a model whose buckets are smaller than that.)
    """
    first_mb = strategy.first_bucket_mb or strategy.bucket_cap_mb
    if first_mb is not None:
        dist._DEFAULT_FIRST_BUCKET_BYTES = int(first_mb * MIB)  # type: ignore[attr-defined]


def _sent_by(send: Send, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's communication hook that does what DDP does without one: the mean over the ranks."""
    sent = send(bucket.buffer().div_(dist.get_world_size()))
    return sent.get_future().then(lambda done: done.value()[0])


def bucket_sizes(wrapped: DistributedDataParallel) -> list[int] | Unknown:
    """Bytes of the buckets that DDP reports after it rebuilt them, in the order in which it sends them."""
    try:
        logged = wrapped._get_ddp_logging_data()
    except AttributeError:
        return Unknown(f"torch {torch.__version__} does not report DDP's buckets")
    sizes = logged.get("rebuilt_bucket_sizes") or logged.get("bucket_sizes") or ""
    return [int(size) for size in str(sizes).split(",") if size.strip()]


# Flat buffers in which gradients are sent: each gradient has its place, and is scaled on its way there.


def copy_scaled(gradient: torch.Tensor, share: float, view: torch.Tensor) -> None:
    """Puts a rank's share of a gradient into its place in a message."""
    torch.mul(gradient, share, out=view)


class MessageBuffer:
    """One flat buffer, and the places of a group's gradients in it."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        elements = sum(parameter.numel() for parameter in parameters)
        self.buffer = torch.zeros(elements, dtype=parameters[0].dtype, device=parameters[0].device)
        self.views: list[tuple[nn.Parameter, torch.Tensor]] = []
        offset = 0
        for parameter in parameters:
            # With the parameter's own strides (channels_last, say) the update reads both in the same order.
            view = self.buffer.as_strided(parameter.size(), parameter.stride(), offset)
            self.views.append((parameter, view))
            offset += parameter.numel()
        self.missing = len(parameters)


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


# The optimizer of a run: stochastic gradient descent with momentum, or AdamW, over some parameters.


def optimizer_options(settings: Optimizer) -> tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]:
    """The class of torch, and what it takes."""
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.kind == "adamw":
        return torch.optim.AdamW, options | {"betas": (settings.momentum, SECOND_BETA)}
    return torch.optim.SGD, options | {"momentum": settings.momentum}


def optimizer_over(parameters: Iterable[nn.Parameter], settings: Optimizer) -> torch.optim.Optimizer:
    """The optimizer over parameters, with its momenta in place."""
    trained = list(parameters)
    sharded = any(isinstance(parameter, DTensor) for parameter in trained)  # which have no fused kernel
    kind, options = optimizer_options(settings)
    # Fused: one pass over the parameters: 5 % of a CPU step of AlexNet.
    optimizer = kind(trained, **options, fused=not sharded, foreach=sharded)
    # Where the first gradients of fp16 overflow, SGD's kernel leaves these unwritten, and reads them in the next step.
    for parameter in trained if settings.kind == "sgd" and settings.momentum else ():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


# ---- server ---------------------------------------------------------------------------------------------------------
# Strategy `server`: one place keeps the parameters, adds up the gradients of all ranks, updates, and sends back.
#
# Each trainable tensor is a variable, and goes by itself:
#
# - **In the backward pass**, as soon as its gradient is there: every rank divides it by the number of ranks and sends
#   it to rank 0 (`gather`), which adds up what it gets, rank by rank, and updates the variable. Momenta exist there
#   alone.
# - **After the backward pass**: rank 0 sends the parameters to every rank (`scatter`), variable by variable in the same
#   order, so that the next step begins with them. By then no rank needs the old ones.
#
# So each step one copy of all gradients goes from every rank to the server, and one of all parameters comes back.
#
# Where that runs (`strategy.device`):
#
#     gpu                on a stream of its own beside the one that computes, by NCCL; rank 0's GPU updates its own
#                        parameters
#     cpu, with GPUs     gradients are copied to pinned memory of each rank's host, go over gloo, and parameters are
#                        copied back to the GPUs; a thread waits for all that, so that computing goes on
#     cpu, without GPUs  the same thread, and no copies
#
# Nothing of this has run on GPUs yet. Reference: the `parameter_server` mode of tf_cnn_benchmarks
# (tensorflow/benchmarks, variable_mgr.py), with which rates of TensorFlow were measured in 2017; its ranks fetch
# parameters as a step begins.


class ServedModel(Replica):
    """A rank's model, whose parameters rank 0 updates."""

    name, updates = "server", True

    def __init__(self, model: nn.Module, request: Request, ranks: Ranks, watched: Watched) -> None:
        assert isinstance(request.strategy, Server), request.strategy
        place = _place(request.strategy, ranks)
        self.module = self._call = model
        self._place, self._share = place, 1 / ranks.world_size
        parameters = trainable(model.parameters())
        slots = _slots(parameters, ranks, place) if ranks.first else None
        self._send = watched(self._gone)
        self._by_buffer: dict[int, _Variable] = {}
        self._order: list[_Variable] = []  # as gradients became ready in this step
        self._sent: list[_Variable] = []  # the same of the latest step
        for parameter in parameters:
            variable = _Variable(parameter, place, request.optimizer, ranks, slots)
            self._by_buffer[variable.gradient.buffer.data_ptr()] = variable
            parameter.register_post_accumulate_grad_hook(self._hook(variable))

    def _hook(self, variable: "_Variable") -> Callable[[torch.Tensor], None]:
        """Sends a gradient. The hook holds nothing that holds its parameter: no collector would see that ring."""
        ((_, view),) = variable.gradient.views
        weak_self, weak_variable = weakref.ref(self), weakref.ref(variable)

        def ready(parameter: torch.Tensor) -> None:
            served, own = weak_self(), weak_variable()
            assert served is not None and own is not None, "trained after its replica was given up"
            assert parameter.grad is not None, "called after the gradient was accumulated"
            copy_scaled(parameter.grad, served._share, view)
            parameter.grad = None  # only the server reads it, from what it received
            served._starts(own)

        return ready

    def _starts(self, variable: "_Variable") -> None:
        """A variable's gradient is there."""
        variable.trip = self._place.trip()
        self._order.append(variable)
        self._send(variable.gradient.buffer)

    def _gone(self, buffer: torch.Tensor) -> DistributedWork:
        """Starts a gradient's way to the server; it is over when the updated parameters are here."""
        variable = self._by_buffer[buffer.data_ptr()]
        self._place.run(variable.trip, variable.to_server)
        return variable.trip

    def adding_up(self) -> NoReturn:
        """Each gradient goes to the server as soon as it is there."""
        raise AssertionError("accumulate= with strategy=server is refused")

    def finish(self) -> None:
        """All ranks have the parameters that the server has updated."""
        assert len(self._order) == len(self._by_buffer), "a parameter has no gradient, so that it was not sent"
        for variable in self._order:
            self._place.run(variable.trip, variable.to_ranks, last=True)
        self._place.join()
        self._sent, self._order = self._order, []

    def sizes(self) -> list[int] | Unknown:
        return [variable.gradient.buffer.nbytes for variable in self._sent]


class _Variable:
    """One trainable tensor: its gradient on the way to the server, and its parameters on the way back.

    `slots`: where the server receives gradients, one for each rank, as large as the largest variable; variables are
    received one after the other.
    """

    def __init__(
        self,
        parameter: nn.Parameter,
        place: "_Place",
        settings: Optimizer,
        ranks: Ranks,
        slots: Sequence[torch.Tensor] | None,
    ) -> None:
        self.gradient = MessageBuffer([parameter])
        self.trip: Trip = place.trip()
        self._ranks, self._group, self._place = ranks, place.group, place
        # The parameter's memory in its own order, whatever its strides; an alias, so that what arrives is in place.
        self._parameter = parameter.detach().as_strided((parameter.numel(),), (1,))
        self._outgoing = place.copy_of(self.gradient.buffer)
        self._kept = place.copy_of(self._parameter)
        if slots is not None:
            self._slots = [slot[: parameter.numel()] for slot in slots]
            strides = parameter.size(), parameter.stride()
            target = nn.Parameter(self._kept.as_strided(*strides))
            target.grad = self._slots[0].as_strided(*strides)
            self._optimizer = optimizer_over([target], settings)

    def to_server(self) -> None:
        """The gradient goes to the server, which updates the variable when it has that of every rank."""
        self._place.copy(self.gradient.buffer, self._outgoing, wait=True)
        self._ranks.to_first(self._outgoing, self._slots if self._ranks.first else None, self._group)
        if self._ranks.first:
            total, *others = self._slots
            for other in others:
                total.add_(other)
            self._optimizer.step()

    def to_ranks(self) -> None:
        """The parameters come to all ranks."""
        sent = [self._kept] * self._ranks.world_size if self._ranks.first else None
        self._ranks.from_first(self._kept, sent, self._group)
        self._place.copy(self._kept, self._parameter)


def _slots(parameters: Sequence[nn.Parameter], ranks: Ranks, place: "_Place") -> list[torch.Tensor]:
    nothing = place.copy_of(parameters[0].detach().flatten()[:0])  # of the type that is kept there
    largest = max(map(nn.Parameter.numel, parameters))
    return [nothing.new_zeros(largest) for _ in range(ranks.world_size)]


# ---- places ---------------------------------------------------------------------------------------------------------


class Trip:
    """A gradient's way to the server and the parameters' way back; on GPUs with the events that begin and end it."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait
        self.begin: torch.cuda.Event | None = None
        self.end: torch.cuda.Event | None = None
        self._arrived: torch.futures.Future[None] = torch.futures.Future()

    def get_future(self) -> torch.futures.Future[None]:
        return self._arrived

    def arrived(self) -> None:
        self._arrived.set_result(None)


class _Place:
    """Where variables are exchanged and updated; one after the other, in the order in which they are given."""

    group: HostGroup | None = None  # of the ranks; None: the one that they all joined

    def trip(self) -> Trip:
        return Trip(self.join)

    def copy_of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Where this tensor is, there."""
        return tensor

    def copy(self, source: torch.Tensor, target: torch.Tensor, wait: bool = False) -> None:
        """From the device or to it; `wait`: until it is there."""

    def run(self, trip: Trip, part: Callable[[], None], last: bool = False) -> None:
        """Runs a part of a trip behind all that were given before, beside what this rank computes."""
        raise NotImplementedError

    def join(self) -> None:
        """Later work of this rank sees all that was run."""
        raise NotImplementedError


class _OnStream(_Place):
    """A GPU's own stream, beside the one that computes."""

    def __init__(self, device: torch.device) -> None:
        self._beside = torch.cuda.Stream(device)

    def run(self, trip: Trip, part: Callable[[], None], last: bool = False) -> None:
        self._beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._beside):
            trip.begin = trip.begin or mark()
            part()
            if last:
                trip.end = mark()

    def join(self) -> None:
        torch.cuda.current_stream().wait_stream(self._beside)


class _InThread(_Place):
    """Memory of the host: a thread waits for gloo, while the rank computes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "parameter server")
        self._jobs: list[Future[None]] = []

    def run(self, trip: Trip, part: Callable[[], None], last: bool = False) -> None:
        self._jobs.append(self._thread.submit(self._runs, trip, part, last))

    def _runs(self, trip: Trip, part: Callable[[], None], last: bool) -> None:
        with torch.no_grad(), CopyCounter.joined():
            part()
        if last:
            trip.arrived()

    def join(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.result()


class _OnHost(_InThread):
    """Host memory beside a GPU: pinned, with copies on a stream of their own."""

    def __init__(self, device: torch.device, ranks: Ranks) -> None:
        super().__init__()
        self._device, self.group = device, ranks.host_group()
        self._beside = torch.cuda.Stream(device)

    def copy_of(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor, device="cpu").pin_memory().copy_(tensor)

    def copy(self, source: torch.Tensor, target: torch.Tensor, wait: bool = False) -> None:
        target.copy_(source, non_blocking=True)
        if wait:
            self._beside.synchronize()

    def run(self, trip: Trip, part: Callable[[], None], last: bool = False) -> None:
        computed = mark()

        def beside() -> None:
            with torch.cuda.device(self._device), torch.cuda.stream(self._beside):
                self._beside.wait_event(computed)
                trip.begin = trip.begin or mark()
                part()
                if last:
                    trip.end = mark()

        super().run(trip, beside, last)

    def join(self) -> None:
        super().join()
        torch.cuda.current_stream().wait_stream(self._beside)


def _place(strategy: Server, ranks: Ranks) -> _Place:
    on_gpus = ranks.device.type == "cuda"
    if strategy.device == "cpu":
        return _OnHost(ranks.device, ranks) if on_gpus else _InThread()
    if not on_gpus:
        raise ConfigError("strategy.device=gpu: the ranks run on CPUs; use strategy.device=cpu")
    return _OnStream(ranks.device)
