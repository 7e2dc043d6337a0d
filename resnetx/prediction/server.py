"""What a parameter server costs: gradients to one place, updates there, parameters back.

    exchange(point, computed).messages

As `strategy=server` trains (`measure.rank.server`): each variable's gradient goes to the server when it is ready, from
all ranks at once, is added up and updated there, one variable after the other, beside the backward pass; behind the
backward pass all parameters come back, and the next step waits for them. TensorFlow fetches them while the next forward
pass runs (`overlap.parameters`): each layer waits for its own, and they come in the order of the forward pass. What
copies get where they share links is `interconnect.star`'s.

**Adding up and updating** is bound by memory: adding one buffer to another moves three halves of what copying it moves
(two reads and a write), updating by SGD with momentum five halves (gradient, momentum and parameter are read, the
latter two written). Where the server is what ranks compute on, the rate of copying is theirs (`gradient_copy_Bps`),
and the update is that of their step. Memory of a host with GPUs is in no description: HOST_MEMORY_Bps is assumed.

A step on GPUs keeps its update: a GPU that serves computes it in between, and rates of one GPU, as they are published,
hold it wherever it ran. What is left out: that adding up slows the computing of the GPU that serves, the time that a
framework takes to start an operation, and that copies of one variable may run beside those of the next.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from resnetx.choices import Server
from resnetx.errors import ConfigError
from resnetx.interconnect.star import Star
from resnetx.prediction.compute import COPY_SHARE, Compute
from resnetx.prediction.messages import Exchange
from resnetx.prediction.scenario import Point
from resnetx.prediction.step import TimedMessage

ADDING, UPDATING = 1.5, 2.5  # bytes moved, over those of a copy
# Assumed of every host: one socket with four channels of DDR4-2400, 4 x 19.2 GB/s (Intel Xeon E5-2698 v4, datasheet).
HOST_MEMORY_Bps = 76.8e9
# Assumed, of the time of a message: no published figure is of the exchange alone. What scaling costs in the published
# rates of parameter servers does not follow the bytes (`predict --validate`), so that no error can be taken from them.
SERVER_ERROR = 1.0


def exchange(point: Point, computed: Compute, bytes_each: int) -> Exchange:
    """The variables of a step, each on its way to the server by itself, and the parameters on their way back.

    `bytes_each`: of an element of the gradients that are sent; parameters come back in single precision.
    """
    copies = _copies(point)
    sent = tuple(_sent(point, computed, copies, bytes_each))
    sizes = [gradient.elements * bytes_each for gradient in point.subject.gradients]
    whole = [gradient.size_bytes for gradient in point.subject.gradients]
    back = tuple(_back(point, copies))
    last = TimedMessage(  # behind the whole backward pass
        (computed.step.layers[0].name,), sum(message.time_s for message in back), name="parameters"
    )
    overlaps = point.setting.overlap.parameters
    moving_s = sum(sizes) / copies.inward.bandwidth_Bps + sum(whole) / copies.outward.bandwidth_Bps
    slower = min(copies.inward, copies.outward, key=lambda way: way.bandwidth_Bps)
    return Exchange(
        messages=sent if overlaps else (*sent, last),
        fetched=back if overlaps else (),
        sizes_bytes=(*sizes, sum(whole)),
        library="server",
        error=SERVER_ERROR,
        calibrated="",
        limiting_link=slower.limit,
        link_share=moving_s / sum(message.time_s for message in (*sent, last)),
    )


def _sent(point: Point, computed: Compute, copies: Star, bytes_each: int) -> Iterator[TimedMessage]:
    """Each variable on its way to the server, and its update there."""
    work_s = partial(_server_s, point, computed)
    for gradient in point.subject.gradients:
        time_s = copies.inward.time_s(gradient.elements * bytes_each) + work_s(gradient.size_bytes)
        yield TimedMessage((gradient.layer,), time_s, name="gradient")


def _back(point: Point, copies: Star) -> Iterator[TimedMessage]:
    """The parameters of each layer on their way back, in the order of the forward pass."""
    for layer, own in groupby(reversed(point.subject.gradients), key=lambda gradient: gradient.layer):
        yield TimedMessage(
            (layer,), sum(copies.outward.time_s(gradient.size_bytes) for gradient in own), name="parameters"
        )


def _server_s(point: Point, computed: Compute, size_bytes: int) -> float:
    """Adding up and updating a variable."""
    adds = (point.gpus - 1) * ADDING
    if _on_host(point):
        return (adds + UPDATING) * size_bytes / (HOST_MEMORY_Bps * COPY_SHARE)
    update_s = computed.step.update_s * size_bytes / point.subject.gradient_bytes
    return adds * size_bytes / computed.gradient_copy_Bps + update_s


def _on_host(point: Point) -> bool:
    """Whether GPUs are served by their host; ranks on CPUs are there already."""
    strategy = point.subject.strategy
    assert isinstance(strategy, Server), strategy
    return strategy.device == "cpu" and not point.fabric.on_cpus


def _copies(point: Point) -> Star:
    fabric, strategy = point.fabric, point.subject.strategy
    if strategy == Server(device="gpu") and fabric.on_cpus:
        raise ConfigError(f"strategy.device=gpu: ranks of {fabric.described.name} run on CPUs; use strategy.device=cpu")
    if fabric.measured and not fabric.on_cpus:
        raise ConfigError(
            "calibration with strategy=server: measured collectives say nothing of copies to a parameter server; leave "
            "it out"
        )
    return fabric.star(point.devices, _on_host(point))
