"""One random batch, made once on the device and used for every step: training without any input work."""

from dataclasses import dataclass
from typing import Any

import torch

from resnetx.inputs import Share, memory_format
from resnetx.record import Unknown


class SyntheticBatches:
    """One rank's endless batches; see `inputs.Batches`."""

    def __init__(self, share: Share) -> None:
        generator = torch.Generator(device=share.device)
        generator.manual_seed(share.seed * share.world_size + share.rank)
        size = (share.batch_size, *share.sample.shape)
        if share.sample.vocabulary:
            images = torch.randint(share.sample.vocabulary, size, generator=generator, device=share.device)
        else:
            images = torch.randn(size, generator=generator, device=share.device)
            images = images.contiguous(memory_format=memory_format(share.channels_last))
        labels_of = (share.batch_size, *share.sample.labels)
        self._batch = images, torch.randint(share.classes, labels_of, generator=generator, device=share.device)

    def __iter__(self) -> "SyntheticBatches":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._batch

    def state(self) -> dict[str, Any]:
        none = Unknown("synthetic input reads no files")
        return {
            "images": none,
            "classes": none,
            "size_bytes": none,
            "encoded": False,
            "page_cache_share": none,
            "decoder": none,
        }

    def close(self) -> None:
        """Nothing to end."""


# From a stored image to a training image: the two recipes, as numbers that every pipeline follows.
#
# imagenet: a crop of random area and shape, resized to the wanted size, flipped half of the time; the mean of ImageNet
# is subtracted and its standard deviation divided out. The usual training recipe since Inception (Szegedy et al. 2014).
#
# paper: images are stored 256x256; a crop of the wanted size at a random place, flipped half of the time; the mean is
# subtracted and nothing is scaled (Tallent et al. 2017, section 2). That is Caffe's transform of the time, with the
# mean of Caffe's bvlc_googlenet (mean_value 104, 117, 123 for blue, green, red); bvlc_alexnet subtracts a mean image,
# which differs little from pixel to pixel and costs the same. Caffe feeds BGR, we feed RGB: the same work.

FLIP_SHARE = 0.5
AREA = (0.08, 1.0)  # of the crop, as a share of the image (imagenet)
ASPECT = (3 / 4, 4 / 3)  # of the crop, width / height (imagenet)


@dataclass(frozen=True)
class Recipe:
    """Pixels are 0 to 255, channels are red, green, blue."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resized: bool  # the crop is resized; otherwise it has the wanted size

    def smallest_side(self, image_size: int) -> int:
        """The side in pixels that a stored image needs."""
        return 1 if self.resized else image_size


RECIPES = {
    "imagenet": Recipe(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375), resized=True),
    "paper": Recipe(mean=(123.0, 117.0, 104.0), std=(1.0, 1.0, 1.0), resized=False),
}
