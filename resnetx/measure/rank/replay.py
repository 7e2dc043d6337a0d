"""Replay: a step whose computing is waited out, while its gradients are really exchanged.

`ReplayedModel` is a module like any other: it has the parameters of the model that it stands for, and its forward and
backward pass take the recorded time of each layer. So every strategy, and DistributedDataParallel itself, runs as it
does with the model, on gradients of the same sizes that become ready at the same moments. Values are zeros.

On CPUs a layer ends at a moment that is counted from the start of its pass, so that the work of the exchange itself
delays nothing as long as it takes less than the layer, as it is on a device of its own. On GPUs the stream sleeps.
"""

import random
import time
from typing import Any, Protocol

import torch
from torch import nn

from resnetx.measure.rank.device_time import mark, seconds_between
from resnetx.record import ReplayedLayer, ReplayedStep

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
        self.layers = nn.ModuleList(_Layer(layer, self.timeline, device) for layer in step.layers)

    def forward(self, images: torch.Tensor) -> Any:
        """A loss; `images` are not read."""
        self.timeline.pace = max(LEAST_PACE, self._drawn.gauss(1.0, self._jitter))
        self.timeline.begin()
        loss = torch.zeros((), device=images.device, requires_grad=True)
        for layer in self.layers:
            loss = layer(loss)
        return _Start.apply(loss, self.timeline)

    def update(self) -> None:
        """Takes the time of the optimizer; no gradients are left behind it."""
        self.timeline.begin()
        self.timeline.wait(self._update_s)
        self.zero_grad(set_to_none=True)


class _Layer(nn.Module):
    """One layer, with its parameters: `layerwise` sends those of each module together."""

    def __init__(self, layer: ReplayedLayer, timeline: Timeline, device: torch.device) -> None:
        super().__init__()
        self._timeline, self._forward_s, self._backward_s = timeline, layer.forward_s, layer.backward_s
        self.tensors = nn.ParameterList(nn.Parameter(torch.zeros(each, device=device)) for each in layer.gradients)

    def forward(self, loss: torch.Tensor) -> Any:
        return _Passes.apply(loss, self._timeline, self._forward_s, self._backward_s, *self.tensors)


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
