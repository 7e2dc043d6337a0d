"""NASNet-A (Zoph et al. 2018): cells that a search found, for images of 32 pixels and, as NASNet-mobile, of 224.

A cell reads what the cell before it made, and what the one before that made, fitted to the same size. Cells, stems and
widths are those of tensorflow/benchmarks (scripts/tf_cnn_benchmarks/models/tf1_only, nasnet_model.py and
nasnet_utils.py) as it trains them: without the auxiliary classifier. Paths are not dropped, so that a step is
arithmetic alone. NASNet-mobile has the 5,289,978 trainable parameters of Keras' (keras-applications, nasnet.py).

Shapes: N images, C channels, H rows, W columns, K classes; P what the cell before the last made.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from resnetx.workloads.resnetx import initialise


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
        self.kept = _normalised(self.read, width) if self.read != width else nn.Identity()

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


def _normalised(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, width, kernel_size=1, bias=False), nn.BatchNorm2d(width))


def _fitted(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.ReLU(), *_normalised(channels, width).children())


def _fitted_if_unlike(channels: int, width: int) -> nn.Module:
    return _fitted(channels, width) if channels != width else nn.Identity()


def _mean(channels: int, width: int, stride: int = 1) -> nn.Module:
    """Average pooling, whose padding does not count."""
    pool = nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
    return nn.Sequential(pool, _normalised(channels, width)) if channels != width else pool


def _separable(channels: int, width: int, kernel_size: int, stride: int = 1) -> nn.Module:
    """Twice: each channel is convolved by itself, then all are mixed."""
    modules: list[nn.Module] = []
    for made, step in ((channels, stride), (width, 1)):
        modules += [
            nn.ReLU(inplace=bool(modules)),  # the first one reads what others read, too
            nn.Conv2d(made, made, kernel_size, step, padding=kernel_size // 2, groups=made, bias=False),
            *_normalised(made, width).children(),
        ]
    return nn.Sequential(*modules)
