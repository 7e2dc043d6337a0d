"""Caffe's network for CIFAR-10; the network itself is `workloads.cifarnet`."""

from typing import TYPE_CHECKING

from resnetx.choices import CifarNetSettings
from resnetx.workloads.kinds.kind import Kind

if TYPE_CHECKING:
    from torch import nn


class CifarNetKind(Kind[CifarNetSettings]):
    checked_by_table = False

    def build(self, model: CifarNetSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import cifarnet

        return cifarnet.CifarNet(model.classes, image_size)
