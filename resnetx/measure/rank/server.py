"""Strategy `server`: one place keeps the parameters, adds up the gradients of all ranks, updates, and sends back.

Each trainable tensor is a variable, and goes by itself:

- **In the backward pass**, as soon as its gradient is there: every rank divides it by the number of ranks and sends it
  to rank 0 (`gather`), which adds up what it gets, rank by rank, and updates the variable. Momenta exist there alone.
- **After the backward pass**: rank 0 sends the parameters to every rank (`scatter`), variable by variable in the same
  order, so that the next step begins with them. By then no rank needs the old ones.

So each step one copy of all gradients goes from every rank to the server, and one of all parameters comes back.

Where that runs (`strategy.device`):

    gpu                on a stream of its own beside the one that computes, by NCCL; rank 0's GPU updates its own
                       parameters
    cpu, with GPUs     gradients are copied to pinned memory of each rank's host, go over gloo, and parameters are
                       copied back to the GPUs; a thread waits for all that, so that computing goes on
    cpu, without GPUs  the same thread, and no copies

Nothing of this has run on GPUs yet. Reference: the `parameter_server` mode of tf_cnn_benchmarks (tensorflow/benchmarks,
variable_mgr.py), with which rates of TensorFlow were measured in 2017; its ranks fetch parameters as a step begins.
"""

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn

import torch
from torch import nn

from resnetx.choices import Optimizer, Server
from resnetx.errors import ConfigError
from resnetx.measure.rank.ddp import MessageBuffer, copy_scaled, optimizer_over, trainable
from resnetx.measure.rank.device import CopyCounter, mark
from resnetx.measure.rank.distributed import DistributedWork, HostGroup, Ranks, Watched
from resnetx.record import Unknown
from resnetx.request import Request


class ServedModel:
    """A rank's model, whose parameters rank 0 updates."""

    name, updates = "server", True

    def __init__(self, model: nn.Module, request: Request, ranks: Ranks, watched: Watched) -> None:
        assert isinstance(request.strategy, Server), request.strategy
        place = _place(request.strategy, ranks)
        self.module, self._place, self._share = model, place, 1 / ranks.world_size
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

    def __call__(self, *images: Any, **named: Any) -> Any:
        return self.module(*images, **named)

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
