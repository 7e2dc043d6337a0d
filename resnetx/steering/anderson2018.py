"""Steering as Anderson et al. 2018 did it: TensorFlow's variables on a described node, one network after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from resnetx.choices import ModelChoice, NasNetSettings, Torchvision
from resnetx.interconnect.collectives import traffic
from resnetx.interconnect.systems import rearranged
from resnetx.interconnect.systems.system import System
from resnetx.steering.units import best, receivers_added, steering_problem, total_rtl
from resnetx.workloads import tables
from resnetx.workloads.counts import BYTES_PER_PARAMETER

OWNERS: dict[str, Callable[[Sequence[float], int], tuple[int, ...]]] = {
    "replicated": traffic.round_robin,
    "server": traffic.least_loaded,
}


@dataclass(frozen=True)
class OwnedVariables:
    """What variables that GPUs own send over links, and what steering for that saves."""

    peer_bytes: float
    rtl_saved: float  # share of the total
    receivers_added: int  # of the GPU that needs most
    rtl_evaluations: int


def steer_owned(machine: System, sizes_bytes: Sequence[float], pattern: str) -> OwnedVariables:
    """Steering for one step. `pattern`: who owns variables, an entry of `OWNERS`; flows without a link are left out."""
    units = rearranged.connectivity(machine)
    gpus = len(units)
    sent = traffic.through_owners(sizes_bytes, OWNERS[pattern](sizes_bytes, gpus), gpus)
    sent = traffic.over_links(sent, [[count > 0 for count in row] for row in units])
    problem = steering_problem(sent, units)
    found = best(problem)
    assert found.evaluations is not None, "no receivers are limited"
    return OwnedVariables(
        peer_bytes=sum(map(sum, sent)),
        rtl_saved=1 - total_rtl(sent, found.units) / total_rtl(sent, units),
        receivers_added=max(receivers_added(problem, found.units)),
        rtl_evaluations=found.evaluations,
    )


# The variables of the networks of TensorFlow's benchmarks, in the order in which they are created.
#
# Anderson et al. 2018 trained these; how variables are shared out among GPUs depends on their sizes and order alone.
# From tf_cnn_benchmarks (models/alexnet_model.py, resnet_model.py, densenet_model.py and vgg_model.py, 2018): a
# normalised convolution has no bias, and its normalisation an offset and a scale; classifiers have one output more than
# there are classes. NASNet is `model=nasnet` with such a classifier: its layers stand in the order of nasnet_utils.py.
# MobileNet is torchvision's MobileNetV2 with a smaller classifier: which version the paper trained, it does not say.

CIFAR_OUTPUTS, FLOWERS_OUTPUTS = 10 + 1, 5 + 1  # classes, and one for the background
PADDED_SIDE = 8  # of the images behind two poolings of 32 pixels


def variables_bytes(name: str) -> list[int]:
    """The gradient of each trainable variable, in fp32."""
    return [BYTES_PER_PARAMETER * elements for elements in _NETWORKS[name]()]


def _conv(channels_in: int, channels: int, side: int) -> Iterator[int]:
    yield side * side * channels_in * channels
    yield channels


def _normalised(channels_in: int, channels: int, side: int) -> Iterator[int]:
    yield side * side * channels_in * channels
    yield from (channels, channels)


def _affine(inputs: int, outputs: int) -> Iterator[int]:
    yield inputs * outputs
    yield outputs


def _alexnet() -> Iterator[int]:
    yield from _conv(3, 64, 5)
    yield from _conv(64, 64, 5)
    yield from _affine(64 * PADDED_SIDE**2, 384)
    yield from _affine(384, 192)
    yield from _affine(192, CIFAR_OUTPUTS)


def _resnet(blocks: int) -> Iterator[int]:
    """Three stages of so many blocks of two convolutions; shortcuts are padded, and have no variables."""
    yield from _normalised(3, 16, 3)
    channels_in = 16
    for channels in (16, 32, 64):
        for _ in range(blocks):
            yield from _normalised(channels_in, channels, 3)
            yield from _normalised(channels, channels, 3)
            channels_in = channels
    yield from _affine(64, CIFAR_OUTPUTS)


def _densenet(layers: int, growth: int = 12) -> Iterator[int]:
    """Three dense blocks of so many layers, with a transition between two of them."""
    yield from _conv(3, 16, 3)
    channels = 16
    for block in range(3):
        for _ in range(layers):
            yield from (channels, channels)  # the normalisation comes first
            yield from _conv(channels, growth, 3)
            channels += growth
        yield from (channels, channels)
        if block < 2:
            yield from _conv(channels, channels, 1)
    yield from _affine(channels, CIFAR_OUTPUTS)


def _large_alexnet() -> Iterator[int]:
    """For images of 224 pixels."""
    yield from _conv(3, 64, 11)
    yield from _conv(64, 192, 5)
    yield from _conv(192, 384, 3)
    yield from _conv(384, 384, 3)
    yield from _conv(384, 256, 3)
    yield from _affine(256 * 6 * 6, 4096)
    yield from _affine(4096, 4096)
    yield from _affine(4096, FLOWERS_OUTPUTS)


def _vgg16() -> Iterator[int]:
    channels_in = 3
    for channels, layers in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(layers):
            yield from _conv(channels_in, channels, 3)
            channels_in = channels
    yield from _affine(512 * 7 * 7, 4096)
    yield from _affine(4096, 4096)
    yield from _affine(4096, FLOWERS_OUTPUTS)


def _with_classifier(model: ModelChoice, inputs: int, outputs: int) -> Iterator[int]:
    """A network whose table is kept, with another classifier."""
    layers = tables.kept(model, model.image_size)
    assert layers is not None, f"the table of {model.label} is kept"
    *others, _, _ = [elements for layer in layers for elements in layer.parameters]
    yield from others
    yield from _affine(inputs, outputs)


_NETWORKS: dict[str, Callable[[], Iterator[int]]] = {
    "AlexNet on CIFAR-10": _alexnet,
    "ResNet-20 on CIFAR-10": partial(_resnet, 3),
    "ResNet-110 on CIFAR-10": partial(_resnet, 18),
    "DenseNet-40 on CIFAR-10": partial(_densenet, 12),
    "DenseNet-100 on CIFAR-10": partial(_densenet, 32),
    "NASNet on CIFAR-10": partial(_with_classifier, NasNetSettings(classes=10), 768, CIFAR_OUTPUTS),
    "AlexNet on Flowers": _large_alexnet,
    "VGG-16 on Flowers": _vgg16,
    "MobileNet on Flowers": partial(
        _with_classifier, Torchvision(name="mobilenet_v2", classes=1000), 1280, FLOWERS_OUTPUTS
    ),
}
NAMES = tuple(_NETWORKS)
