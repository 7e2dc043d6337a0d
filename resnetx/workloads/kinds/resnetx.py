"""ResNet/x (Tallent et al. 2017), the family of the paper; the network itself is `workloads.resnetx`."""

from typing import TYPE_CHECKING

from resnetx.choices import ResNetXSettings
from resnetx.workloads.kinds.families import Family

if TYPE_CHECKING:
    from torch import nn


class ResNetXKind(Family[ResNetXSettings]):
    def build(self, model: ResNetXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import resnetx

        return resnetx.ResNetX(model.x, model.width, model.classes)

    def stated(self, model: ResNetXSettings, batch_size: int) -> dict[str, float]:
        """Section 4.2, for every x."""
        if model.width != 64:
            return {}
        return {
            "activations_per_image": 1_204_224 * model.x + 1_155_113,
            "parameters": 46_211 * model.x + 74_857,
        }
