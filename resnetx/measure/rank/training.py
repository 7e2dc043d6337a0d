"""Training: the step that is measured, clean or instrumented.

`training_step` is the step; with measure=phases the same step runs under a `phases.Watch`, which is told of its phases
and stands between the strategy and what it sends.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import nn

from resnetx import inputs, workloads
from resnetx.choices import Model, SyntheticInput
from resnetx.inputs import SyntheticBatches
from resnetx.measure.rank import results
from resnetx.measure.rank.device import mark, profiled, seconds_between
from resnetx.measure.rank.distributed import Ranks, unchanged
from resnetx.measure.rank.phases import Mark, Watch, unwatched
from resnetx.measure.rank.replicas import Trained, optimizer_over, trainable
from resnetx.measure.rank.results import RankResults, RankTraining
from resnetx.measure.rank.sharded import FullySharded, ShardedUpdate, emulate_streams
from resnetx.measure.rank.strategies import ShardedUpdates, replicate
from resnetx.measure.rank.windows import GraphedStep, StartUpTimer, Step, measure_windows, own_stream
from resnetx.record import ReplayedLayer, ReplayedStep, Unknown
from resnetx.request import Request
from resnetx.workloads import user_program
from resnetx.workloads.counts import block_of


def measure(request: Request, ranks: Ranks, clock: StartUpTimer) -> RankResults | None:
    """Trains; rank 0 returns what the record has of it."""
    with own_stream(ranks.device, request.graph):
        return _measured(request, ranks, clock)


def _measured(request: Request, ranks: Ranks, clock: StartUpTimer) -> RankResults | None:
    """Trains on this rank and measures it; rank 0 returns the results of all ranks."""
    watch = Watch(ranks) if request.measure == "phases" else None
    replica = replicate(build(request, ranks), request, ranks, watch.watched if watch else unchanged)
    clock.lap("model_s")
    batches = open_batches(request, ranks, watch.arrived if watch else inputs.nothing)
    clock.lap("input_s")
    step, progress = training_step(replica, batches, request, ranks, watch.mark if watch else unwatched)

    def note(windows: int) -> None:
        progress.note()
        if watch:
            watch.note(windows)

    windows = measure_windows(step, note, request, ranks, clock)
    own_part = RankTraining(windows, progress.losses, progress.skipped, replica.sizes())
    if watch:
        seen = profiled(step, ranks.device, batches.beside_torch_bytes())
        own_part = replace(own_part, instrumented=watch.seen(), profiled=seen)
    all_parts = ranks.gather(own_part)
    measured = results.of_training(request, replica.name, all_parts, batches) if ranks.first else None
    batches.close()
    return measured


def replay(step: ReplayedStep | None, request: Request, ranks: Ranks, clock: StartUpTimer) -> RankResults | None:
    """Exchanges the gradients of a step whose computing is waited out; rank 0 returns what the record has of it."""
    assert step is not None, "a rank has no more images than the first one, or one less"
    model = ReplayedModel(step, ranks.device, f"{request.seed} {ranks.rank}")
    replica = replicate(model, request, ranks)
    streams = None
    if isinstance(replica, FullySharded) and ranks.device.type == "cpu":
        model.timeline = streams = emulate_streams()
    update = _waited_update(model, replica, request, ranks)
    clock.lap("model_s")
    batches = inputs.open_for(request, ranks.rank, ranks.device)
    clock.lap("input_s")
    images, _ = next(batches)

    def act() -> None:
        for _ in range(request.accumulate - 1):
            with replica.adding_up():
                replica(images).backward()
        replica(images).backward()
        replica.finish()
        update()
        if streams is not None:
            streams.synchronize()

    windows = measure_windows(act, lambda _: None, request, ranks, clock)
    all_parts = ranks.gather(RankTraining(windows, [], 0, replica.sizes()))
    if not ranks.first:
        return None
    no_loss = Unknown("computing was replayed, so that there is no loss")
    return replace(results.of_training(request, replica.name, all_parts, batches), loss=no_loss)


def _waited_update(model: "ReplayedModel", replica: Trained, request: Request, ranks: Ranks) -> Callable[[], None]:
    """The update of a replayed step: a rank waits its part of it out, and parameters that are sent really are."""
    if replica.updates:  # a parameter server has updated, and taken its time for it
        return lambda: None
    if isinstance(replica, FullySharded):
        return partial(model.update, 1 / ranks.world_size)
    if not isinstance(replica, ShardedUpdates):
        return model.update
    optimizer = ShardedUpdate(trainable(model.parameters()), request.optimizer, unwatched)
    share = optimizer.share(ranks.rank)

    def update() -> None:
        model.update(share)
        optimizer._sync_params()

    return update


def build(request: Request, ranks: Ranks) -> nn.Module:
    """The request's model on this rank's device, in training mode."""
    model: nn.Module = workloads.build(request.model, request.image_size).train().to(ranks.device)
    if any(parameter.dim() == 5 for parameter in model.parameters()):  # of a user's own: NHWC is for images
        return model
    return model.to(memory_format=inputs.memory_format(request.channels_last))


def open_batches(request: Request, ranks: Ranks, arrived: Callable[[], None] = inputs.nothing) -> inputs.Batches:
    """The batches of this rank: of the request's input, or a model's own."""
    if request.model.code:
        return OwnBatches(request.model, request.share(ranks.rank), ranks.device, request.seed * 2**16 + ranks.rank)
    return inputs.open_for(request, ranks.rank, ranks.device, arrived)


class OwnBatches(SyntheticBatches):
    """One batch of a user's own model, made once and used for every step, as images and as labels."""

    def __init__(self, model: Model, count: int, device: torch.device, seed: int) -> None:
        torch.manual_seed(seed)
        batch = workloads.own_batch(model, count)
        self._batch = (user_program.moved(batch, lambda tensor: tensor.to(device)),) * 2


# ---- the step -------------------------------------------------------------------------------------------------------


def training_step(
    replica: Trained,
    batches: Iterator[tuple[Any, Any]],
    request: Request,
    ranks: Ranks,
    mark: Mark = unwatched,
) -> "tuple[Step, LossHistory]":
    """The step that is measured: next batch, forward, backward (with communication), update.

    With `accumulate`, passes forward and backward over one part of the batch after the other.
    """
    optimizer = None if replica.updates else _optimizer(replica, request, mark)
    kind = ranks.device.type
    scaler = torch.amp.GradScaler(kind, enabled=request.precision == "fp16")
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(request.precision)
    in_parts = _cutter(request, ranks.rank)
    weight = loss_weight(request, ranks.rank) / request.accumulate
    progress = LossHistory(scaler)

    def passes(images: Any, labels: Any) -> torch.Tensor:
        mark("forward")
        with torch.autocast(kind, dtype=half, enabled=half is not None):
            loss = workloads.loss(request.model, workloads.call(request.model, replica, images), labels)
        mark("backward")
        scaler.scale(loss if weight == 1 else loss * weight).backward()
        return loss.detach()

    def compute(images: Any, labels: Any) -> None:
        *others, last = in_parts(images, labels)
        if others:
            with replica.adding_up():
                losses = [passes(*part) for part in others]
        loss = passes(*last)
        replica.finish()
        mark("optimizer")
        if optimizer is not None:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        progress.loss = torch.stack([*losses, loss]).mean() if others else loss
        mark("end")

    run = GraphedStep(compute, isinstance(request.input, SyntheticInput)) if request.graph else compute

    def step() -> None:
        mark("input_wait")
        run(*next(batches))

    return step, progress


def _cutter(request: Request, rank: int) -> Callable[[Any, Any], Iterable[tuple[Any, Any]]]:
    """Cuts a rank's batch into the parts in which it is taken, of one size each."""
    parts = request.accumulate
    if parts == 1:
        return lambda images, labels: [(images, labels)]
    if not request.model.code:
        return lambda images, labels: zip(images.chunk(parts), labels.chunk(parts), strict=True)
    of_each, count = workloads.own_parts(request.model), request.share(rank) // parts
    return lambda batch, _: [(user_program.cut(batch, of_each, part * count, count),) * 2 for part in range(parts)]


def _optimizer(replica: Trained, request: Request, mark: Mark) -> torch.optim.Optimizer:
    """What updates the parameters, or this rank's part of them."""
    parameters = trainable(replica.module.parameters())
    if isinstance(replica, ShardedUpdates):
        return ShardedUpdate(parameters, request.optimizer, mark)
    return optimizer_over(parameters, request.optimizer)


def loss_weight(request: Request, rank: int) -> float:
    """What a rank's mean loss counts, so that the mean of all ranks' gradients is that of the whole batch's mean loss.

    1 where all ranks have as many images as each other.
    """
    return request.share(rank) * request.gpus / request.batch_size


class LossHistory:
    """What the latest step came to, read only between windows: reading it waits for the device."""

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self.loss: torch.Tensor | None = None
        self.losses: list[float] = []
        self._scaler = scaler
        self._scales: list[float] = []

    def note(self) -> None:
        assert self.loss is not None, "no step has run"
        self.losses.append(self.loss.item())
        self._scales.append(self._scaler.get_scale())

    @property
    def skipped(self) -> int:
        """Updates that were left out during the windows because fp16 gradients overflowed, at least.

        The scaler halves its scale for each. It doubles it once in a long while, which may hide one.
        """
        pairs = zip(self._scales, self._scales[1:], strict=False)
        return sum(max(0, round(math.log2(before / after))) for before, after in pairs)


# Replay: a step whose computing is waited out, while its gradients are really exchanged.
#
# `ReplayedModel` is a module like any other: it has the parameters of the model that it stands for, and its forward and
# backward pass take the recorded time of each layer. So every strategy, and DistributedDataParallel itself, runs as it
# does with the model, on gradients of the same sizes that become ready at the same moments. Values are zeros.
#
# On CPUs a layer ends at a moment that is counted from the start of its pass, so that the work of the exchange itself
# delays nothing as long as it takes less than the layer, as it is on a device of its own. On GPUs the stream sleeps.
# FSDP on CPUs would wait for each collective, where on GPUs it goes on: it is given streams (`sharded`).

LEAST_PACE = 0.1  # of a step as recorded: one that varies is never shorter
_CYCLES = 2**24  # of the sleep that tells how fast a device counts them: 8 ms at 2 GHz


class Timeline(Protocol):
    """Lets time pass in one pass over layers."""

    pace: float  # how many times as long as recorded this step takes

    def begin(self) -> None:
        """A pass starts now."""

    def wait(self, seconds: float) -> None:
        """The next part of this pass takes so long."""


class HostTimeline:
    """Of a rank on CPUs: the host sleeps until the moment at which a part is over."""

    pace = 1.0

    def begin(self) -> None:
        self._now = time.perf_counter()

    def wait(self, seconds: float) -> None:
        self._now += self.pace * seconds
        time.sleep(max(0.0, self._now - time.perf_counter()))


class DeviceTimeline:
    """Of a rank on a GPU: its stream sleeps."""

    pace = 1.0

    def __init__(self) -> None:
        torch.cuda._sleep(_CYCLES)  # the first launch takes longer
        start = mark()
        torch.cuda._sleep(_CYCLES)
        end = mark()
        torch.cuda.synchronize()
        self._cycles_per_s = _CYCLES / seconds_between(start, end)

    def begin(self) -> None:
        """The stream is in order by itself."""

    def wait(self, seconds: float) -> None:
        if cycles := int(self.pace * seconds * self._cycles_per_s):
            torch.cuda._sleep(cycles)


class ReplayedModel(nn.Module):
    """The recorded layers of a step as a module; `drawn_by`: what tells the jitter of this rank from that of others."""

    def __init__(self, step: ReplayedStep, device: torch.device, drawn_by: str = "") -> None:
        super().__init__()
        self._update_s, self._jitter, self._drawn = step.update_s, step.jitter, random.Random(drawn_by)
        self.timeline: Timeline = HostTimeline() if device.type == "cpu" else DeviceTimeline()
        self.layers = nn.ModuleList()
        for block, layers in groupby(step.layers, key=lambda layer: block_of(layer.name)):
            own = [_Layer(layer, self, device) for layer in layers]
            self.layers.extend([_Block(*own)] if block else own)

    @property
    def blocks(self) -> nn.ModuleList:
        """What FSDP gathers together."""
        return nn.ModuleList(layer for layer in self.layers if isinstance(layer, _Block))

    def forward(self, images: torch.Tensor) -> Any:
        """A loss; `images` are not read."""
        self.timeline.pace = max(LEAST_PACE, self._drawn.gauss(1.0, self._jitter))
        self.timeline.begin()
        loss = torch.zeros((), device=images.device, requires_grad=True)
        for layer in self.layers:
            loss = layer(loss)
        return _Start.apply(loss, self.timeline)

    def update(self, share: float = 1.0) -> None:
        """Takes the time of a share of the optimizer's work; no gradients are left behind it."""
        self.timeline.begin()
        self.timeline.wait(self._update_s * share)
        self.zero_grad(set_to_none=True)


class _Block(nn.Sequential):
    """The layers of a block."""


class _Layer(nn.Module):
    """One layer, with its parameters: `layerwise` sends those of each module together."""

    def __init__(self, layer: ReplayedLayer, model: ReplayedModel, device: torch.device) -> None:
        super().__init__()
        self._model, self._forward_s, self._backward_s = (model,), layer.forward_s, layer.backward_s  # not as a part
        self.tensors = nn.ParameterList(
            nn.Parameter(torch.zeros(gradient, device=device)) for gradient in layer.gradients
        )

    def forward(self, loss: torch.Tensor) -> Any:
        return _Passes.apply(loss, self._model[0].timeline, self._forward_s, self._backward_s, *self.tensors)


class _Passes(torch.autograd.Function):
    """Forward and backward of a layer take their time, and the gradients of its own parameters are zeros."""

    @staticmethod
    def forward(
        ctx: Any, loss: torch.Tensor, timeline: Timeline, forward_s: float, backward_s: float, *own: torch.Tensor
    ) -> torch.Tensor:
        ctx.timeline, ctx.backward_s, ctx.shapes = timeline, backward_s, [tensor.shape for tensor in own]
        timeline.wait(forward_s)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        ctx.timeline.wait(ctx.backward_s)
        return gradient, None, None, None, *(torch.zeros(shape, device=gradient.device) for shape in ctx.shapes)


class _Start(torch.autograd.Function):
    """Where the backward pass begins."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, timeline: Timeline) -> torch.Tensor:
        ctx.timeline = timeline
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.timeline.begin()
        return gradients[0], None
