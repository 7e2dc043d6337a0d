"""Networks for the images of CIFAR-10, 32 pixels: ResNet-20 and -110, DenseNet-40 and -100 (k = 12), and an AlexNet.

Anderson et al. 2018 trained these of TensorFlow's benchmarks (tensorflow/benchmarks: scripts/tf_cnn_benchmarks/models,
resnet_model.py, densenet_model.py and alexnet_model.py) beside NASNet (`nasnet`). ResNet is that of He et al. 2016,
section 4.2, whose shortcuts have no parameters; DenseNet that of Huang et al. 2017 without bottlenecks and dropout;
AlexNet that of TensorFlow's tutorial on these images, which for 24 pixels states 1,068,298 parameters.

Shapes: N images, C channels, H rows, W columns, K classes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from resnetx.workloads.resnetx import initialise


class ResNet(nn.Module):
    """Three stages of so many blocks of two convolutions; depth 6 blocks + 2."""

    def __init__(self, blocks: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_normalised(3, 16, stride=1), nn.ReLU(inplace=True))
        widths = [16, *[width for width in (16, 32, 64) for _ in range(blocks)]]
        self.blocks = nn.Sequential(*map(PaddedBlock, widths, widths[1:]))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
        self.apply(initialise)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        logits_NK: Tensor = self.classifier(self.blocks(self.stem(images_N3HW)))
        return logits_NK


class PaddedBlock(nn.Module):
    """Two convolutions beside a shortcut, which where channels double has every other pixel, and zeros around them."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.added = width - channels
        self.residual = nn.Sequential(
            *_normalised(channels, width, stride=2 if self.added else 1),
            nn.ReLU(inplace=True),
            *_normalised(width, width, stride=1),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        sum_NCHW = self.residual(x_NCHW)
        if self.added:
            x_NCHW = functional.pad(x_NCHW[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added // 2))
        sum_NCHW += x_NCHW
        y_NCHW: Tensor = self.relu(sum_NCHW)
        return y_NCHW


def _normalised(channels: int, width: int, stride: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, width, kernel_size=3, stride=stride, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(width)


class DenseNet(nn.Module):
    """Three dense blocks of so many layers, each of which adds k channels; depth 3 layers + 4."""

    def __init__(self, layers: int, k: int, classes: int) -> None:
        super().__init__()
        modules: list[nn.Module] = [nn.Conv2d(3, 16, kernel_size=3, padding=1, bias=False)]
        channels = 16
        for stage in range(3):
            if stage:
                modules += [*_before(channels, channels, kernel_size=1), nn.AvgPool2d(2)]
            modules += [DenseLayer(channels + k * index, k) for index in range(layers)]
            channels += k * layers
        modules += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*modules)
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
        self.apply(initialise)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        logits_NK: Tensor = self.classifier(self.features(images_N3HW))
        return logits_NK


class DenseLayer(nn.Module):
    """What it reads, and k channels more."""

    def __init__(self, channels: int, k: int) -> None:
        super().__init__()
        self.added = nn.Sequential(*_before(channels, k, kernel_size=3))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return torch.cat([x_NCHW, self.added(x_NCHW)], dim=1)


def _before(channels: int, width: int, kernel_size: int) -> tuple[nn.Module, ...]:
    """A convolution of what is normalised first."""
    convolution = nn.Conv2d(channels, width, kernel_size, padding=kernel_size // 2, bias=False)
    return nn.BatchNorm2d(channels), nn.ReLU(inplace=True), convolution


class AlexNet(nn.Module):
    """Two convolutions, normalised across 9 channels, and three dense layers."""

    def __init__(self, classes: int, image_size: int) -> None:
        super().__init__()
        side = -(-image_size // 4)  # TensorFlow pads where it pools, and so rounds up twice
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            nn.LocalResponseNorm(9, alpha=0.001, beta=0.75),
            nn.Conv2d(64, 64, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(9, alpha=0.001, beta=0.75),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * side**2, 384),
            nn.ReLU(inplace=True),
            nn.Linear(384, 192),
            nn.ReLU(inplace=True),
            nn.Linear(192, classes),
        )
        spreads = (0.05, 0.05, 0.04, 0.04, 1 / 192)  # of the weights at the start, and of biases their value
        layers = [module for module in self.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
        for layer, spread, bias in zip(layers, spreads, (0.0, 0.1, 0.1, 0.1, 0.0), strict=True):
            nn.init.trunc_normal_(layer.weight, std=spread, a=-2 * spread, b=2 * spread)
            nn.init.constant_(layer.bias, bias)  # type: ignore[arg-type]  # each has one

    def forward(self, images_N3HW: Tensor) -> Tensor:
        logits_NK: Tensor = self.classifier(self.features(images_N3HW))
        return logits_NK
