"""ResNet/x: a residual network whose depth and width are dials.

Tallent et al. 2017, section 3.3: "a standard ResNet input and output layer but where the inner layers are defined by x
replications of the 'ResNet block'". The blocks, which the paper does not spell out, are those that give its counts for
every x: three convolutions each, all of one width, so that every block adds as much work and as many parameters.
Initialisation: He et al. 2015 ("msra" in Caffe).

Shapes: N images, C channels (the width), H rows, W columns, K classes.
"""

from torch import Tensor, nn


class ResNetX(nn.Module):
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


def initialise(module: nn.Module) -> None:
    """He et al. 2015, for layers behind which there is a ReLU; no bias."""
    # On the meta device there is nothing to fill, but 1 ms a layer to be lost.
    if isinstance(module, nn.Conv2d | nn.Linear) and not module.weight.is_meta:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
