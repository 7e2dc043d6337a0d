"""One random batch, made once on the device and used for every step: training without any input work."""

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

    def beside_torch_bytes(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing to end."""
