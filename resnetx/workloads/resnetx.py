"""ResNet/x and MLP/x: a residual network and a network of dense layers, whose depth and width are dials.

Initialisation: He et al. 2015 ("msra" in Caffe).

Shapes: N images, C channels (the width), H rows, W columns, D width, K classes.
"""

from torch import Tensor, nn


class ResNetX(nn.Module):
    """A residual network of x equal blocks (Tallent et al. 2017).

    Section 3.3: "a standard ResNet input and output layer but where the inner layers are defined by x replications of
    the 'ResNet block'". The blocks, which the paper does not spell out, are those that give its counts for every x:
    three convolutions each, all of one width, so that every block adds as much work and as many parameters.
    """

    def __init__(self, x: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),  # Caffe rounds up: 112 -> 56
        )
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(x)))
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))
        self.apply(initialise)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        x_NCHW = self.stem(images_N3HW)
        x_NCHW = self.blocks(x_NCHW)
        logits_NK: Tensor = self.classifier(x_NCHW)
        return logits_NK


class ResidualBlock(nn.Module):
    """Three convolutions beside an identity shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(width, width, kernel_size=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, kernel_size=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        sum_NCHW = self.residual(x_NCHW)
        sum_NCHW += x_NCHW
        y_NCHW: Tensor = self.relu(sum_NCHW)
        return y_NCHW


class MlpX(nn.Module):
    """A stem, x dense layers of one width, a head, and a ReLU behind each but the last.

    The end of the space where communication costs most: a weight is used once for each image, so that no batch of fewer
    images than its width has as many activations as parameters.
    """

    def __init__(self, x: int, width: int, classes: int, image_size: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(3 * image_size**2, width), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True)) for _ in range(x)))
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, images_N3HW: Tensor) -> Tensor:
        x_ND = self.stem(images_N3HW)
        x_ND = self.blocks(x_ND)
        logits_NK: Tensor = self.head(x_ND)
        return logits_NK


def initialise(module: nn.Module) -> None:
    """He et al. 2015, for layers behind which there is a ReLU; no bias."""
    # On the meta device there is nothing to fill, but 1 ms a layer to be lost.
    if isinstance(module, nn.Conv2d | nn.Linear) and not module.weight.is_meta:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
