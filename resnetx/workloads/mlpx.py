"""MLP/x: a stem, x dense layers of one width, a head, and a ReLU behind each but the last.

The end of the space where communication costs most: a weight is used once for each image, so that no batch of fewer
images than its width has as many activations as parameters. Initialisation: He et al. 2015, as ResNet/x.

Shapes: N images, H rows, W columns, D width, K classes.
"""

from torch import Tensor, nn

from resnetx.workloads.resnetx import initialise


class MlpX(nn.Module):
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
