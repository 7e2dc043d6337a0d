"""Caffe's GoogLeNet, which trains with two auxiliary classifiers; the network itself is `workloads.googlenet`."""

from typing import TYPE_CHECKING, Any

from resnetx.choices import GoogLeNetSettings
from resnetx.workloads.kinds.kind import Kind
from resnetx.workloads.kinds.papers import differs_from_paper, with_intensity

if TYPE_CHECKING:
    from torch import Tensor, nn

PARAMETERS = (
    "the paper states 5.5 M parameters, which no version of GoogLeNet has: with 1000 classes it has "
    "13.4 M with its two auxiliary classifiers, which train, and 7.0 M without them"
)


class GoogLeNetKind(Kind[GoogLeNetSettings]):
    checked_by_table = False

    def build(self, model: GoogLeNetSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import googlenet

        return googlenet.GoogLeNet(model.classes, image_size)

    def loss(self, outputs: Any, labels_N: "Tensor") -> "Tensor":
        from resnetx.workloads.losses import with_auxiliary_classifiers

        return with_auxiliary_classifiers(outputs, labels_N)

    def stated(self, model: GoogLeNetSettings, batch_size: int) -> dict[str, float]:
        """Section 3."""
        figures = {"activations_per_image": 10.8e6, "parameters": 5.5e6, "payload_bytes": 22e6}
        return with_intensity(figures, {256: 500.0, 512: 1004.0}, batch_size)

    def notes(self, model: GoogLeNetSettings, image_size: int) -> list[str]:
        return [*differs_from_paper(model, image_size, "auxiliary classifiers"), PARAMETERS]
