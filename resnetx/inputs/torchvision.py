"""Batches by torchvision: decode_image and v2 transforms in the worker processes of a DataLoader. DALI's peer.

Workers decode, crop, resize and flip, and send pixels as bytes (a quarter of floats); the rank converts and normalises
them on its device.

torchvision 0.29 deprecates its decoders in favour of TorchCodec, and still has them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

from resnetx.config import TorchvisionInput
from resnetx.errors import ConfigError
from resnetx.inputs import Share, damage, folders, recipes

Pixels = tuple[torch.Tensor, torch.Tensor]  # uint8 (N, S, S, 3) and int64 (N,)


class TorchvisionBatches:
    """One rank's endless batches; see `inputs.Batches`."""

    def __init__(self, input: TorchvisionInput, share: Share) -> None:
        recipe = recipes.RECIPES[input.recipe]
        self._tree = folders.read(Path(input.root))
        self._cached_share = folders.cached_share(self._tree)
        self._device, self._arrived = share.device, share.arrived
        # One value for every byte of a row of pixels: broadcasting three values is five times slower on a CPU.
        self._scale = 1 / torch.tensor(recipe.std, device=share.device).repeat(share.image_size)
        self._shift = -torch.tensor(recipe.mean, device=share.device).repeat(share.image_size) * self._scale
        self._loader: Iterator[Pixels | ConfigError] | None = iter(
            DataLoader(
                _Images(self._tree, recipe, share.image_size),
                batch_sampler=_Shard(len(self._tree.files), share),
                num_workers=input.threads,
                prefetch_factor=input.prefetch,
                collate_fn=_as_it_is,
                pin_memory=share.device.type == "cuda",
                # Every worker draws its own random numbers from this one.
                generator=torch.Generator().manual_seed(share.seed * share.world_size + share.rank),
            )
        )

    def __iter__(self) -> "TorchvisionBatches":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._loader is not None, "the input was closed"
        batch = next(self._loader)
        if isinstance(batch, ConfigError):
            raise batch
        self._arrived()
        pixels, labels = (part.to(self._device, non_blocking=True) for part in batch)
        images = pixels.flatten(2).float().mul_(self._scale).add_(self._shift)
        return images.view(pixels.shape).permute(0, 3, 1, 2), labels

    def state(self) -> dict[str, Any]:
        return folders.state(self._tree, self._cached_share, "cpu")

    def close(self) -> None:
        self._loader = None  # its processes end with the last reference


class _Shard(Sampler[list[int]]):
    """Endless batches of image numbers: all images shuffled anew for every pass, each rank takes every n-th."""

    def __init__(self, images: int, share: Share) -> None:
        self._images, self._share = images, share

    def __iter__(self) -> Iterator[list[int]]:
        waiting: list[int] = []
        generator = torch.Generator().manual_seed(self._share.seed)
        while True:
            order = torch.randperm(self._images, generator=generator)
            waiting += order[self._share.rank :: self._share.world_size].tolist()
            while len(waiting) >= self._share.batch_size:
                yield waiting[: self._share.batch_size]
                del waiting[: self._share.batch_size]


class _Images(Dataset[Pixels | ConfigError]):
    """Makes whole batches of uint8 pixels in a worker. A fault is a value here: raised, it would lose its form."""

    def __init__(self, tree: folders.Tree, recipe: recipes.Recipe, image_size: int) -> None:
        self._tree, self._image_size = tree, image_size
        self._smallest = recipe.smallest_side(image_size)
        size = (image_size, image_size)
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(size, recipes.AREA, recipes.ASPECT) if recipe.resized else v2.RandomCrop(size),
                v2.RandomHorizontalFlip(recipes.FLIP_SHARE),
            ]
        )

    def __getitems__(self, indices: list[int]) -> Pixels | ConfigError:
        pixels = torch.empty(len(indices), self._image_size, self._image_size, 3, dtype=torch.uint8)
        for place, index in enumerate(indices):
            path = self._tree.path(index)
            try:
                image = decode_image(str(path), ImageReadMode.RGB)
                pixels[place] = self._transform(image).permute(1, 2, 0)
            except (RuntimeError, ValueError) as error:
                fault = damage.of(path, self._smallest) or f"{path}: torchvision cannot decode it ({error})"
                return ConfigError(damage.sentence(fault, self._tree.root))
        return pixels, torch.tensor([self._tree.labels[index] for index in indices])


def _as_it_is(batch: Any) -> Any:
    return batch
