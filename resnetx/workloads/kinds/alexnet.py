"""Caffe's AlexNet; the network itself is `workloads.alexnet`."""

from typing import TYPE_CHECKING

from resnetx.choices import AlexNetSettings
from resnetx.workloads.kinds.kind import Kind
from resnetx.workloads.kinds.papers import differs_from_paper, with_intensity

if TYPE_CHECKING:
    from torch import nn


class AlexNetKind(Kind[AlexNetSettings]):
    checked_by_table = False

    def build(self, model: AlexNetSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import alexnet

        return alexnet.AlexNet(model.classes, image_size, model.lrn)

    def stated(self, model: AlexNetSettings, batch_size: int) -> dict[str, float]:
        """Section 3, of the network with its normalisations."""
        if not model.lrn:
            return {}
        figures = {"activations_per_image": 1.4e6, "parameters": 60e6, "payload_bytes": 240e6}
        return with_intensity(figures, {256: 5.9, 512: 11.9}, batch_size)

    def notes(self, model: AlexNetSettings, image_size: int) -> list[str]:
        return differs_from_paper(model, image_size, "first classifier layer, fc6,")
