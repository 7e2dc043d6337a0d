"""Batches by NVIDIA DALI: read, decode, crop, resize, flip and normalise in its own threads, ahead of the training.

On a GPU the decoder is DALI's "mixed" one: the hardware decoder where the GPU has one, CUDA kernels elsewhere; the
batch is born on the GPU. `decoder=cpu` decodes on the CPU and does the rest on the GPU. Without a GPU everything runs
on the CPU, and no driver is needed.

Images come out as float HWC: handed over without a copy, that is channels_last. (CPU time for one image of 108 KB to
224x224 on a Xeon with AVX-512, DALI 2.4: float HWC 1.95 ms; float CHW and a copy 2.29 ms; uint8, then torch 2.07 ms.)
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nvidia.dali import Pipeline, fn, types
from nvidia.dali.data_node import DataNode

from resnetx.config import DaliInput
from resnetx.errors import ConfigError
from resnetx.inputs import Share, damage, folders, recipes
from resnetx.record import Unknown

_PROBE_LIMIT_S = 30.0  # for finding the file that DALI does not name


class DaliBatches:
    """One rank's endless batches; see `inputs.Batches`."""

    def __init__(self, input: DaliInput, share: Share) -> None:
        self._tree = folders.read(Path(input.root))
        self._cached_share = folders.cached_share(self._tree)
        self._input, self._share = input, share
        self._decoder = _decoder(input, share, self._tree)
        self._pipeline: Pipeline | None = _pipeline(input, share, self._tree)

    def __iter__(self) -> "DaliBatches":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._pipeline is not None, "the input was closed"
        try:
            images, labels = (torch.from_dlpack(out.as_tensor()) for out in self._pipeline.run(self._stream()))
            return images.permute(0, 3, 1, 2), labels.squeeze(1).to(torch.int64)
        except RuntimeError as error:
            if (fault := self._fault(str(error))) is None:
                raise
        # Raised out here, it does not hold on to the frames of the failed pipeline, so that `close` ends its threads.
        raise ConfigError(damage.sentence(fault, self._tree.root))

    def state(self) -> dict[str, Any]:
        return folders.state(self._tree, self._cached_share, self._decoder)

    def close(self) -> None:
        self._pipeline = None  # its threads end with the last reference

    def _stream(self) -> torch.cuda.Stream | None:
        """Outputs are ordered on the stream that training uses: neither the host nor another stream waits for them."""
        device = self._share.device
        return torch.cuda.current_stream(device) if device.type == "cuda" else None

    def _fault(self, message: str) -> str | None:
        """What is wrong with which file, or None where no file is to blame.

        DALI names truncated and empty files, but not a file that is no image.
        """
        tree = self._tree
        smallest = recipes.RECIPES[self._input.recipe].smallest_side(self._share.image_size)
        if named := max((name for name in tree.files if name in message), key=len, default=None):
            return damage.of(tree.root / named, smallest) or f"{tree.root / named}: DALI cannot decode it"
        if "fn.decoders" not in message or "CUDA" in message or "memory" in message:
            return None
        unnamed = f"{tree.root}: DALI cannot decode one of the images, and {_PROBE_LIMIT_S:.0f} s did not tell which"
        return damage.find(map(tree.path, range(len(tree.files))), smallest, _PROBE_LIMIT_S) or unnamed


def _decoder(input: DaliInput, share: Share, tree: folders.Tree) -> str | Unknown:
    """Where images are decoded: "cpu", "gpu" (by CUDA kernels) or "gpu hardware"."""
    if share.device.type != "cuda" or input.decoder == "cpu":
        return "cpu"
    try:
        from nvidia import nvimgcodec  # the library that DALI decodes with

        kind = nvimgcodec.Backend(nvimgcodec.BackendKind.HW_GPU_ONLY)
        hardware = nvimgcodec.Decoder(device_id=_index(share.device), backends=[kind])
        decoded = hardware.read(str(tree.path(0)))
    except Exception as error:  # only to know is not worth a run
        return Unknown(f"nvImageCodec could not be asked for a hardware decoder ({error})")
    return "gpu" if decoded is None else "gpu hardware"


def _pipeline(input: DaliInput, share: Share, tree: folders.Tree) -> Pipeline:
    """The pipeline of one rank, built, with nothing read yet."""
    on_gpu = share.device.type == "cuda"
    pipeline = Pipeline(
        batch_size=share.batch_size,
        num_threads=input.threads,
        device_id=_index(share.device) if on_gpu else None,
        seed=int(np.random.SeedSequence([share.seed, share.rank]).generate_state(1)[0]),
        prefetch_queue_depth=input.prefetch,
    )
    # As a list in a file, a million names cost DALI 160 MB and a second; as arguments 960 MB and three.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing, pipeline:
        listing.writelines(f"{name} {label}\n" for name, label in zip(tree.files, tree.labels, strict=True))
        listing.flush()
        files, labels = fn.readers.file(
            file_root=str(tree.root),
            file_list=listing.name,
            shard_id=share.rank,
            num_shards=share.world_size,
            # All images are shuffled for every epoch, in the same order on all ranks, and then cut into shards.
            shuffle_after_epoch=True,
            shuffle_after_epoch_seed=share.seed,
        )
        images = _images(files, input, share, on_gpu)
        pipeline.set_outputs(images, labels.gpu() if on_gpu else labels)
        pipeline.build()
    return pipeline


def _images(files: DataNode, input: DaliInput, share: Share, on_gpu: bool) -> DataNode:
    recipe, size = recipes.RECIPES[input.recipe], share.image_size
    decoder = "mixed" if on_gpu and input.decoder == "auto" else "cpu"
    if recipe.resized:
        pixels = fn.decoders.image_random_crop(
            files, device=decoder, random_area=recipes.AREA, random_aspect_ratio=recipes.ASPECT
        )
    else:
        x, y = fn.random.uniform(range=(0.0, 1.0)), fn.random.uniform(range=(0.0, 1.0))
        pixels = fn.decoders.image_crop(files, device=decoder, crop=(size, size), crop_pos_x=x, crop_pos_y=y)
    if on_gpu:
        pixels = pixels.gpu()  # nothing to do where the decoder left them there
    if recipe.resized:
        pixels = fn.resize(pixels, size=(size, size))
    return fn.crop_mirror_normalize(
        pixels,
        mirror=fn.random.coin_flip(probability=recipes.FLIP_SHARE),
        mean=recipe.mean,
        std=recipe.std,
        dtype=types.FLOAT,
        output_layout="HWC",
    )


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index
