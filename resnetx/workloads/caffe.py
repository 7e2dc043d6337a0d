"""AlexNet, CifarNet and GoogLeNet as Caffe defines them.

Layer names, dropout and initialisation are those of BVLC/caffe: models/bvlc_alexnet/train_val.prototxt,
examples/cifar10/cifar10_quick_train_test.prototxt and models/bvlc_googlenet/train_val.prototxt. Caffe rounds up when it
pools: kernels of 3 at every other pixel leave ceil((n - 3) / 2) + 1 of n pixels, which is n // 2.

Shapes: N images, C channels, H rows, W columns, K classes.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional

from resnetx.workloads.families import initialise


class AlexNet(nn.Sequential):
    """`bvlc_alexnet`, after Krizhevsky et al. 2012: five convolutions, three linear layers.

    Not the net of `torchvision.models`, which is Krizhevsky's later "one weird trick" without normalisation. 58 of its
    61 million parameters are in the linear layers, and fc6 reads what the convolutions leave of the image: another
    image size is another workload.
    """

    def __init__(self, classes: int, image_size: int, lrn: bool = True) -> None:
        super().__init__()
        side = ((image_size - 11) // 4 + 1) // 2 // 2 // 2  # 227 pixels -> 55 -> 27 -> 13 -> 6
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 96, kernel_size=11, stride=4),
                relu1=nn.ReLU(inplace=True),
                norm1=LocalResponseNorm(5),
                pool1=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv2=nn.Conv2d(96, 256, kernel_size=5, padding=2, groups=2),
                relu2=nn.ReLU(inplace=True),
                norm2=LocalResponseNorm(5),
                pool2=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv3=nn.Conv2d(256, 384, kernel_size=3, padding=1),
                relu3=nn.ReLU(inplace=True),
                conv4=nn.Conv2d(384, 384, kernel_size=3, padding=1, groups=2),
                relu4=nn.ReLU(inplace=True),
                conv5=nn.Conv2d(384, 256, kernel_size=3, padding=1, groups=2),
                relu5=nn.ReLU(inplace=True),
                pool5=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            )
        )
        if not lrn:
            del self.features.norm1, self.features.norm2
        self.classifier = nn.Sequential(
            OrderedDict(
                flatten=nn.Flatten(),
                fc6=nn.Linear(256 * side * side, 4096),
                relu6=nn.ReLU(inplace=True),
                drop6=nn.Dropout(0.5),
                fc7=nn.Linear(4096, 4096),
                relu7=nn.ReLU(inplace=True),
                drop7=nn.Dropout(0.5),
                fc8=nn.Linear(4096, classes),
            )
        )
        self._initialise()

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            _, layer, what = name.split(".")
            if what == "weight":
                nn.init.normal_(parameter, std=0.005 if layer in ("fc6", "fc7") else 0.01)
            else:
                nn.init.constant_(parameter, 0.0 if layer in ("conv1", "conv3", "fc8") else 0.1)


CIFARNET_SPREAD = {"conv1": 0.0001, "conv2": 0.01, "conv3": 0.01, "ip1": 0.1, "ip2": 0.1}  # of the weights at the start


class CifarNet(nn.Sequential):
    """`cifar10_quick`: three convolutions, two linear layers, images of 32 pixels.

    Fig. 1 of Tallent et al. 2017 has a CifarNet on CIFAR-10 and does not say which. Of the two nets that Caffe has for
    these images this one has more parameters, 145,578 (`cifar10_full`: 89,578, and normalises).
    """

    def __init__(self, classes: int, image_size: int) -> None:
        super().__init__()
        side = image_size // 2 // 2 // 2  # 32 pixels -> 16 -> 8 -> 4
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 32, kernel_size=5, padding=2),
                pool1=nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
                relu1=nn.ReLU(inplace=True),
                conv2=nn.Conv2d(32, 32, kernel_size=5, padding=2),
                relu2=nn.ReLU(inplace=True),
                pool2=nn.AvgPool2d(kernel_size=3, stride=2, ceil_mode=True),
                conv3=nn.Conv2d(32, 64, kernel_size=5, padding=2),
                relu3=nn.ReLU(inplace=True),
                pool3=nn.AvgPool2d(kernel_size=3, stride=2, ceil_mode=True),
            )
        )
        self.classifier = nn.Sequential(
            OrderedDict(flatten=nn.Flatten(), ip1=nn.Linear(64 * side * side, 64), ip2=nn.Linear(64, classes))
        )
        for name, parameter in self.named_parameters():
            _, layer, what = name.split(".")
            if what == "weight":
                nn.init.normal_(parameter, std=CIFARNET_SPREAD[layer])
            else:
                nn.init.zeros_(parameter)


class GoogLeNet(nn.Module):
    """`bvlc_googlenet`, after Szegedy et al. 2014, with its two auxiliary classifiers.

    In training the forward pass returns the logits of all three classifiers, main first; the auxiliary losses count
    0.3. The auxiliary classifiers read what is left of the image, so another image size changes their parameters.
    """

    def __init__(self, classes: int, image_size: int) -> None:
        super().__init__()
        side = (image_size + 1) // 2 // 2 // 2 // 2  # 224 pixels -> 112 -> 56 -> 28 -> 14
        self.stem = nn.Sequential(
            *_convolution(3, 64, kernel_size=7, stride=2),
            _halve(),
            LocalResponseNorm(5),
            *_convolution(64, 64, kernel_size=1),
            *_convolution(64, 192, kernel_size=3),
            LocalResponseNorm(5),
            _halve(),
        )
        # ones, reduce -> threes, reduce -> fives, pooled
        self.inception_3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception_3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.pool3 = _halve()
        self.inception_4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception_4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception_4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception_4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception_4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.pool4 = _halve()
        self.inception_5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception_5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.pool5 = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4))
        self.classifier = nn.Linear(1024, classes)
        self.auxiliary1 = _auxiliary(512, side, classes)
        self.auxiliary2 = _auxiliary(528, side, classes)
        self._initialise()

    def forward(self, images_N3HW: Tensor) -> Tensor | tuple[Tensor, Tensor, Tensor]:
        x_NCHW = self.stem(images_N3HW)
        x_NCHW = self.pool3(self.inception_3b(self.inception_3a(x_NCHW)))
        x4a_NCHW = self.inception_4a(x_NCHW)
        x4d_NCHW = self.inception_4d(self.inception_4c(self.inception_4b(x4a_NCHW)))
        x_NCHW = self.pool4(self.inception_4e(x4d_NCHW))
        x_NCHW = self.inception_5b(self.inception_5a(x_NCHW))
        logits_NK: Tensor = self.classifier(self.pool5(x_NCHW))
        if not self.training:
            return logits_NK
        return logits_NK, self.auxiliary1(x4a_NCHW), self.auxiliary2(x4d_NCHW)

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                # Caffe's "xavier" looks at the inputs alone: uniform, variance 1 / fan-in; PyTorch's kaiming, gain 1.
                nn.init.kaiming_uniform_(parameter, nonlinearity="linear")
            else:
                nn.init.constant_(parameter, 0.0 if name.endswith("classifier.bias") else 0.2)


class Inception(nn.Module):
    """1x1, 3x3 and 5x5 convolutions and a pooling side by side, their channels concatenated."""

    def __init__(
        self, channels: int, ones: int, threes_reduce: int, threes: int, fives_reduce: int, fives: int, pooled: int
    ) -> None:
        super().__init__()
        self.one = nn.Sequential(*_convolution(channels, ones, kernel_size=1))
        self.three = nn.Sequential(
            *_convolution(channels, threes_reduce, kernel_size=1), *_convolution(threes_reduce, threes, kernel_size=3)
        )
        self.five = nn.Sequential(
            *_convolution(channels, fives_reduce, kernel_size=1), *_convolution(fives_reduce, fives, kernel_size=5)
        )
        self.pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1), *_convolution(channels, pooled, kernel_size=1)
        )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return torch.cat([self.one(x_NCHW), self.three(x_NCHW), self.five(x_NCHW), self.pool(x_NCHW)], dim=1)


def _auxiliary(channels: int, side: int, classes: int) -> nn.Sequential:
    """A classifier of `side` x `side` features half-way, which keeps the gradients of the early layers alive."""
    pooled = side // 3  # rounded up again: ceil((n - 5) / 3) + 1
    return nn.Sequential(
        OrderedDict(
            pool=nn.AvgPool2d(kernel_size=5, stride=3, ceil_mode=True),
            conv=nn.Conv2d(channels, 128, kernel_size=1),
            relu_conv=nn.ReLU(inplace=True),
            flatten=nn.Flatten(),
            fc=nn.Linear(128 * pooled * pooled, 1024),
            relu_fc=nn.ReLU(inplace=True),
            drop=nn.Dropout(0.7),
            classifier=nn.Linear(1024, classes),
        )
    )


def _convolution(channels_in: int, channels_out: int, kernel_size: int, stride: int = 1) -> tuple[nn.Conv2d, nn.ReLU]:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size, stride, padding=kernel_size // 2)
    return convolution, nn.ReLU(inplace=True)


def _halve() -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


# ---- normalisation --------------------------------------------------------------------------------------------------
# Local response normalisation of images: torch's values, by a mean that GPUs take fast in both directions.


class LocalResponseNorm(nn.LocalResponseNorm):
    """That of torch (Krizhevsky et al. 2012, section 3.3), for windows of an odd number of channels.

    torch takes the mean of the squares by `avg_pool3d`, whose gradient adds to each square from all windows that hold
    it, one atomic addition each: probably why AlexNet took an H100 29 ms for 256 images in bf16 (results/h100/one-gpu),
    of which a roofline gives its arithmetic and traffic 5. Here it is `avg_pool2d`, whose gradient is gathered, along
    the channels as they lie in memory. Under autocast the mean is taken in what torch's is: on CPUs in fp32.
    """

    def forward(self, images_NCHW: Tensor) -> Tensor:
        squares_NCHW = images_NCHW * images_NCHW
        if images_NCHW.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            squares_NCHW = squares_NCHW.float()
        if images_NCHW.is_contiguous(memory_format=torch.channels_last):
            squares_N1PC = squares_NCHW.permute(0, 2, 3, 1).flatten(1, 2).unsqueeze(1)
            means_N1PC = functional.avg_pool2d(squares_N1PC, (1, self.size), stride=1, padding=(0, self.size // 2))
            means_NCHW = means_N1PC.view_as(squares_NCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        else:
            squares_N1CP = squares_NCHW.flatten(2).unsqueeze(1)
            means_N1CP = functional.avg_pool2d(squares_N1CP, (self.size, 1), stride=1, padding=(self.size // 2, 0))
            means_NCHW = means_N1CP.view_as(squares_NCHW)
        return images_NCHW / (means_NCHW * self.alpha + self.k) ** self.beta


# ---- cifar ----------------------------------------------------------------------------------------------------------
# Networks for the images of CIFAR-10, 32 pixels, which Anderson et al. 2018 trained: those of TensorFlow's benchmarks
# (tensorflow/benchmarks: scripts/tf_cnn_benchmarks/models, resnet_model.py, densenet_model.py and alexnet_model.py) and
# NASNet. ResNet-20 and -110: He et al. 2016, section 4.2, shortcuts without parameters; DenseNet-40 and -100 (k = 12):
# Huang et al. 2017 without bottlenecks and dropout; AlexNet: TensorFlow's tutorial, 1,068,298 parameters for 24 pixels.
# Shapes: N images, C channels, H rows, W columns, K classes; P what the cell before the last made.


class ResNet(nn.Sequential):
    """Three stages of so many blocks of two convolutions; depth 6 blocks + 2."""

    def __init__(self, blocks: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_normalised(3, 16, stride=1), nn.ReLU(inplace=True))
        widths = [16, *[width for width in (16, 32, 64) for _ in range(blocks)]]
        self.blocks = nn.Sequential(*map(PaddedBlock, widths, widths[1:]))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
        self.apply(initialise)


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


class DenseNet(nn.Sequential):
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


class AlexNet32(nn.Sequential):
    """Two convolutions, normalised across 9 channels, and three dense layers."""

    def __init__(self, classes: int, image_size: int) -> None:
        super().__init__()
        side = -(-image_size // 4)  # TensorFlow pads where it pools, and so rounds up twice
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            LocalResponseNorm(9, alpha=0.001, beta=0.75),
            nn.Conv2d(64, 64, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            LocalResponseNorm(9, alpha=0.001, beta=0.75),
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


# ---- NASNet-A (Zoph et al. 2018) -------------------------------------------------------------------------------------
# Cells that a search found, for images of 32 pixels and, as NASNet-mobile, of 224. A cell reads what the cell before it
# made, and what the one before that made, fitted to the same size. Cells, stems and widths are those of
# tensorflow/benchmarks (scripts/tf_cnn_benchmarks/models/tf1_only, nasnet_model.py and nasnet_utils.py) as it trains
# them: without the auxiliary classifier. Paths are not dropped, so that a step is arithmetic alone. NASNet-mobile has
# the 5,289,978 trainable parameters of Keras' (keras-applications, nasnet.py).


class NasNet(nn.Module):
    """Three stages of so many normal cells, and before the second and the third a reduction, which doubles the filters.

    `stem`: channels of the first convolution; `reductions`: those behind it, which large images have.
    """

    def __init__(self, cells: int, filters: int, stem: int, reductions: int, classes: int) -> None:
        super().__init__()
        stride, padding = (2, 0) if reductions else (1, 1)
        self.stem = nn.Sequential(nn.Conv2d(3, stem, 3, stride, padding, bias=False), nn.BatchNorm2d(stem))
        plan: list[tuple[type[Cell], int]] = [
            (ReductionCell, filters // 2**halvings) for halvings in range(reductions, 0, -1)
        ]
        for doublings in range(3):
            width = filters * 2**doublings
            plan += [(ReductionCell, width)] * (doublings > 0) + [(NormalCell, width)] * cells
        self.blocks = nn.ModuleList()
        before, last, halved = 0, stem, False
        for cell, width in plan:
            self.blocks.append(cell(last, before, width, halved))
            before, last, halved = last, cell.parts * width, cell is ReductionCell
        self.classifier = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, classes))
        self.apply(initialise)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        x_NCHW = p_NCHW = self.stem(images_N3HW)
        for cell in self.blocks:
            x_NCHW, p_NCHW = cell(x_NCHW, p_NCHW), x_NCHW
        logits_NK: Tensor = self.classifier(x_NCHW)
        return logits_NK


class Cell(nn.Module):
    """What both kinds do to their inputs. `before`: channels of P; 0: there is none, and the last one is read twice."""

    parts: int  # that its output has, of `width` channels each

    def __init__(self, last: int, before: int, width: int, halved: bool) -> None:
        super().__init__()
        self.begin = _fitted(last, width)
        self.fit: nn.Module = nn.Identity()
        if before:
            self.fit = Halved(before, width) if halved else _fitted_if_unlike(before, width)
        self.read = width if before else last  # channels of P as the cell reads it


class NormalCell(Cell):
    parts = 6

    def __init__(self, last: int, before: int, width: int, halved: bool) -> None:
        super().__init__(last, before, width, halved)
        self.left1, self.right1 = _separable(width, width, 5), _separable(self.read, width, 3)
        self.left2, self.right2 = _separable(self.read, width, 5), _separable(self.read, width, 3)
        self.left3, self.right3 = _mean(width, width), _fitted_if_unlike(self.read, width)
        self.left4, self.right4 = _mean(self.read, width), _mean(self.read, width)
        self.left5 = _separable(width, width, 3)
        self.kept = _mixed(self.read, width) if self.read != width else nn.Identity()

    def forward(self, x_NCHW: Tensor, p_NCHW: Tensor) -> Tensor:
        p, h = self.fit(p_NCHW), self.begin(x_NCHW)
        sums = [
            self.left1(h) + self.right1(p),
            self.left2(p) + self.right2(p),
            self.left3(h) + self.right3(p),
            self.left4(p) + self.right4(p),
            self.left5(h) + h,
        ]
        return torch.cat([self.kept(p), *sums], dim=1)


class ReductionCell(Cell):
    """Of half the rows and columns."""

    parts = 4

    def __init__(self, last: int, before: int, width: int, halved: bool) -> None:
        super().__init__(last, before, width, halved)
        self.left1, self.right1 = _separable(width, width, 5, stride=2), _separable(self.read, width, 7, stride=2)
        self.left2, self.right2 = nn.MaxPool2d(3, stride=2, padding=1), _separable(self.read, width, 7, stride=2)
        self.left3, self.right3 = _mean(width, width, stride=2), _separable(self.read, width, 5, stride=2)
        self.left4 = _mean(width, width)
        self.left5, self.right5 = _separable(width, width, 3), nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x_NCHW: Tensor, p_NCHW: Tensor) -> Tensor:
        p, h = self.fit(p_NCHW), self.begin(x_NCHW)
        sum1 = self.left1(h) + self.right1(p)
        sum2 = self.left2(h) + self.right2(p)
        sum3 = self.left3(h) + self.right3(p)
        sum4 = self.left4(sum1) + sum2
        sum5 = self.left5(sum1) + self.right5(h)
        return torch.cat([sum2, sum3, sum4, sum5], dim=1)


class Halved(nn.Module):
    """Two halves of the channels, each from every other pixel, the second from those between."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.even = nn.Conv2d(channels, width // 2, kernel_size=1, bias=False)
        self.odd = nn.Conv2d(channels, width // 2, kernel_size=1, bias=False)
        self.norm = nn.BatchNorm2d(width // 2 * 2)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.relu(x_NCHW)
        shifted_NCHW = functional.pad(x_NCHW, (0, 1, 0, 1))[:, :, 1::2, 1::2]
        halves = [self.even(x_NCHW[:, :, ::2, ::2]), self.odd(shifted_NCHW)]
        y_NCHW: Tensor = self.norm(torch.cat(halves, dim=1))
        return y_NCHW


def _mixed(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, width, kernel_size=1, bias=False), nn.BatchNorm2d(width))


def _fitted(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.ReLU(), *_mixed(channels, width).children())


def _fitted_if_unlike(channels: int, width: int) -> nn.Module:
    return _fitted(channels, width) if channels != width else nn.Identity()


def _mean(channels: int, width: int, stride: int = 1) -> nn.Module:
    """Average pooling, whose padding does not count."""
    pool = nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    return nn.Sequential(pool, _mixed(channels, width)) if channels != width else pool


def _separable(channels: int, width: int, kernel_size: int, stride: int = 1) -> nn.Module:
    """Twice: each channel is convolved by itself, then all are mixed."""
    modules: list[nn.Module] = []
    for made, step in ((channels, stride), (width, 1)):
        modules += [
            nn.ReLU(inplace=bool(modules)),  # the first one reads what others read, too
            nn.Conv2d(made, made, kernel_size, step, padding=kernel_size // 2, groups=made, bias=False),
            *_mixed(made, width).children(),
        ]
    return nn.Sequential(*modules)
