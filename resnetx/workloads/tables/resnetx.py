"""The layer table of ResNet/x by arithmetic, for any depth, width, number of classes and image size.

It is what `workloads.traced` finds by executing the module (`workloads.resnetx`), but nothing is built: the stem, x
times the same block, the classifier. Layers are named as in the module.
"""

from resnetx.choices import ResNetXSettings
from resnetx.workloads.counts import Layer
from resnetx.workloads.tables.families import BEFORE, FamilyOperation, Shape, assembled


def layers(model: ResNetXSettings, image_size: int) -> list[Layer]:
    """The layers of the network, in the order of execution, as one square image of `image_size` pixels sees them."""
    stem = _stem(model.width, image_size)
    block = _block(stem[-1].output_shape)
    return assembled(stem, block, model.x, _classifier(model.width, model.classes))


def _stem(width: int, image_size: int) -> list[FamilyOperation]:
    """A padded convolution of 7x7 at every other pixel, and pooling that rounds up its half."""
    side = (image_size + 1) // 2
    shape = (width, side, side)
    return [
        _convolution("0", 3, shape, kernel=7, bias=True),
        _normalisation("1", shape),
        _relu("2", shape),
        FamilyOperation("3", "pool", (width, side // 2, side // 2)),
    ]


def _block(shape: Shape) -> list[FamilyOperation]:
    """Three normalised convolutions beside an identity shortcut."""
    width = shape[0]
    return [
        _convolution("residual.0", width, shape, kernel=1),
        _normalisation("residual.1", shape),
        _relu("residual.2", shape),
        _convolution("residual.3", width, shape, kernel=3),
        _normalisation("residual.4", shape),
        _relu("residual.5", shape),
        _convolution("residual.6", width, shape, kernel=1),
        _normalisation("residual.7", shape),
        FamilyOperation("add", "add", shape, reads=("residual.7", BEFORE), in_place=True),
        _relu("relu", shape),
    ]


def _classifier(width: int, classes: int) -> list[FamilyOperation]:
    weights = width * classes
    return [
        FamilyOperation("classifier.0", "adaptiveavgpool", (width, 1, 1)),
        FamilyOperation("classifier.2", "linear", (classes,), (weights, classes), weights),
    ]


def _convolution(name: str, channels: int, shape: Shape, *, kernel: int, bias: bool = False) -> FamilyOperation:
    """From `channels` to the first number of `shape`, with square kernels."""
    width, height, length = shape
    weights = channels * width * kernel**2
    return FamilyOperation(name, "conv", shape, (weights, width) if bias else (weights,), weights * height * length)


def _normalisation(name: str, shape: Shape) -> FamilyOperation:
    return FamilyOperation(name, "batchnorm", shape, (shape[0], shape[0]))


def _relu(name: str, shape: Shape) -> FamilyOperation:
    return FamilyOperation(name, "relu", shape, in_place=True)
