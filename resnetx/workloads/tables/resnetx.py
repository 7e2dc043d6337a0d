"""The layer table of ResNet/x by arithmetic, for any depth, width, number of classes and image size.

It is what `workloads.traced` finds by executing the module (`workloads.resnetx`), but nothing is built: the stem, x
times the same block, the classifier. Layers are named as in the module.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from resnetx.choices import ResNetXSettings
from resnetx.workloads.counts import DATA, Layer

Shape = tuple[int, ...]


class _Operation(NamedTuple):
    """A layer that reads the one before it; of a sum, the other input is that of the whole block."""

    name: str  # inside its part of the network
    kind: str
    output_shape: Shape
    parameters: tuple[int, ...] = ()
    multiply_adds: int = 0


def layers(model: ResNetXSettings, image_size: int) -> list[Layer]:
    """The layers of the network, in the order of execution, as one square image of `image_size` pixels sees them."""
    stem = _stem(model.width, image_size)
    block = _block(stem[-1].output_shape)
    found = list(_named("stem", stem, DATA))
    for index in range(model.x):
        found += _named(f"blocks.{index}", block, found[-1].name)
    return [*found, *_named("classifier", _classifier(model.width, model.classes), found[-1].name)]


def _named(part: str, operations: Iterable[_Operation], before: str) -> Iterator[Layer]:
    """The layers of one part of the network, which reads the layer `before` it."""
    last = before
    for name, kind, output_shape, parameters, multiply_adds in operations:
        full_name = f"{part}.{name}"
        yield Layer(
            name=full_name,
            kind=kind,
            inputs=(last, before) if kind == "add" else (last,),
            output_shape=output_shape,
            in_place=kind in ("relu", "add"),
            parameters=parameters,
            multiply_adds=multiply_adds,
        )
        last = full_name


def _stem(width: int, image_size: int) -> list[_Operation]:
    """A padded convolution of 7x7 at every other pixel, and pooling that rounds up its half."""
    side = (image_size + 1) // 2
    shape = (width, side, side)
    return [
        _convolution("0", 3, shape, kernel=7, bias=True),
        _normalisation("1", shape),
        _Operation("2", "relu", shape),
        _Operation("3", "pool", (width, side // 2, side // 2)),
    ]


def _block(shape: Shape) -> list[_Operation]:
    """Three normalised convolutions beside an identity shortcut."""
    width = shape[0]
    return [
        _convolution("residual.0", width, shape, kernel=1),
        _normalisation("residual.1", shape),
        _Operation("residual.2", "relu", shape),
        _convolution("residual.3", width, shape, kernel=3),
        _normalisation("residual.4", shape),
        _Operation("residual.5", "relu", shape),
        _convolution("residual.6", width, shape, kernel=1),
        _normalisation("residual.7", shape),
        _Operation("add", "add", shape),
        _Operation("relu", "relu", shape),
    ]


def _classifier(width: int, classes: int) -> list[_Operation]:
    weights = width * classes
    return [_Operation("0", "pool", (width, 1, 1)), _Operation("2", "linear", (classes,), (weights, classes), weights)]


def _convolution(name: str, channels: int, shape: Shape, *, kernel: int, bias: bool = False) -> _Operation:
    """From `channels` to the first number of `shape`, with square kernels."""
    width, height, length = shape
    weights = channels * width * kernel**2
    return _Operation(name, "conv", shape, (weights, width) if bias else (weights,), weights * height * length)


def _normalisation(name: str, shape: Shape) -> _Operation:
    return _Operation(name, "batchnorm", shape, (shape[0], shape[0]))
