"""ResNet/x (Tallent et al. 2017): as all its blocks are alike, its table and its counts are arithmetic for any x."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from resnetx.choices import ResNetXSettings
from resnetx.workloads.kinds.kind import Kind

if TYPE_CHECKING:
    from torch import nn


class ResNetXKind(Kind[ResNetXSettings]):
    checked_by_table = False

    def build(self, model: ResNetXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import resnetx

        return resnetx.ResNetX(model.x, model.width, model.classes)

    def total(self, model: ResNetXSettings, count: Callable[[ResNetXSettings], int]) -> int:
        """From the sums of ResNet/1 and ResNet/2, as each block adds the same."""
        one, two = (count(msgspec.structs.replace(model, x=x)) for x in (1, 2))
        return one + (model.x - 1) * (two - one)

    def stated(self, model: ResNetXSettings, batch_size: int) -> dict[str, float]:
        """Section 4.2, for every x."""
        if model.width != 64:
            return {}
        return {
            "activations_per_image": 1_204_224 * model.x + 1_155_113,
            "parameters": 46_211 * model.x + 74_857,
        }
