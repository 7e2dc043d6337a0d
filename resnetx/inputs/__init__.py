"""Input pipelines: an endless sequence of batches, from JPEG files, from a file of tokens, or synthetic.

`check` reports problems before any process is started; in each rank, `open_for` starts the pipeline. All pipelines
implement one protocol (`Batches`), so training code does not depend on which one it has. A new pipeline is one file
and one case of `open_input`.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from resnetx import packages
from resnetx.choices import DaliInput, Input, Sample, SyntheticInput, TokensInput, TorchvisionInput
from resnetx.errors import ConfigError
from resnetx.record import Unknown
from resnetx.request import Request

if TYPE_CHECKING:
    import torch


class Batches(ABC, Iterator["tuple[torch.Tensor, torch.Tensor]"]):
    """An endless iterator of (images, labels).

    images: float32 (N, channels, rows, columns) in the memory format of `Share`, or int64 (N, tokens) of sequences;
    labels: int64 (N, *`choices.Sample.labels`); both on the device.
    DALI makes images as `Share.rounded` has them: autocast would round them so, in one more kernel.
    A rank never sees the images of another rank in the same pass over the data, and no pass ends in a pause. An image
    file that cannot be decoded raises a `ConfigError` that names it.
    """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The fields of `record.InputState`, apart from `reads_bytes`."""

    def beside_torch_bytes(self) -> int | Unknown:
        """Of a batch, what is copied to the device without an operator of torch."""
        return 0

    def close(self) -> None:
        """Ends threads and processes; no more batches afterwards."""


BESIDE_TORCH = "DALI copies to the GPU without torch, which only the CUDA profiler sees"


def no_images(why: str, **others: Any) -> dict[str, Any]:
    """The state of an input that reads none, but for some fields."""
    none = dict.fromkeys(("images", "classes", "size_bytes", "page_cache_share", "decoder"), Unknown(why))
    return {**none, "encoded": False, **others}


def nothing() -> None:
    """A callback that does nothing."""


@dataclass(frozen=True)
class Share:
    """What the input of one rank has to deliver."""

    batch_size: int  # of this rank
    sample: Sample
    classes: int
    rank: int  # global
    world_size: int
    device: "torch.device"
    seed: int  # the same on all ranks
    # Called when a step begins to copy its batch to the device, or to wait for the copy. DALI does not call it.
    arrived: Callable[[], None] = nothing
    channels_last: bool = True  # the memory format of images
    rounded: Literal["fp16", "bf16"] | None = None  # what the step rounds its images to

    @property
    def image_size(self) -> int:
        """Pixels of a side, where samples are images."""
        return self.sample.shape[-1]


def memory_format(channels_last: bool) -> "torch.memory_format":
    """The memory format of images and weights: NHWC or NCHW."""
    import torch

    return torch.channels_last if channels_last else torch.contiguous_format


class SyntheticBatches(Batches):
    """One random batch, made once on the device and used for every step: training without any input work."""

    def __init__(self, share: Share) -> None:
        import torch

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

    def __next__(self) -> "tuple[torch.Tensor, torch.Tensor]":
        return self._batch

    def state(self) -> dict[str, Any]:
        return no_images("synthetic input reads no files")


def open_for(request: Request, rank: int, device: "torch.device", arrived: Callable[[], None] = nothing) -> Batches:
    """The batches of one rank of the request's run; `arrived`: see `Share`."""
    share = Share(
        batch_size=request.share(rank),
        sample=request.model.sample(request.image_size),
        classes=request.model.classes,
        rank=rank,
        world_size=request.gpus,
        device=device,
        seed=request.seed,
        arrived=arrived,
        channels_last=request.channels_last,
        # verify computes in other precisions, too
        rounded=None if request.measure == "equality" else _ROUNDED.get(request.precision),
    )
    return open_input(request.input, share)


_ROUNDED: dict[str, Literal["fp16", "bf16"]] = {"fp16": "fp16", "bf16": "bf16"}  # by precision


def open_input(input: Input, share: Share) -> Batches:
    """The batches of one rank."""
    try:
        match input:
            case SyntheticInput():
                return SyntheticBatches(share)
            case TokensInput():
                from resnetx.inputs.tokens import TokenBatches

                return TokenBatches(input, share)
            case DaliInput():
                from resnetx.inputs.dali import DaliBatches

                return DaliBatches(input, share)
            case TorchvisionInput():
                from resnetx.inputs.torchvision import TorchvisionBatches

                return TorchvisionBatches(input, share)
    except ImportError as error:  # a package that is here, and not whole
        raise ConfigError(
            f"input={input.kind}: {_NEEDED.get(input.kind, 'its package')} cannot be imported ({error}); expected a "
            f"whole installation: {packages.install(packages.TRAIN)}, or input=synthetic"
        ) from error


def empty_batch(request: Request, device: "torch.device") -> "tuple[torch.Tensor, torch.Tensor]":
    """Memory for the images and labels of one global batch of the request's input, to receive one from another rank."""
    import torch

    sample = request.model.sample(request.image_size)
    size = (request.batch_size, *sample.shape)
    labels = torch.empty((request.batch_size, *sample.labels), dtype=torch.int64, device=device)
    if sample.vocabulary:
        return torch.empty(size, dtype=torch.int64, device=device), labels
    return torch.empty(size, device=device, memory_format=memory_format(request.channels_last)), labels


def check(input: Input, *, batch_size: int, gpus: int, sample: Sample, classes: int) -> None:
    """Raises a `ConfigError` for any problem with the images, or the tokens; `batch_size` is the global one.

    Uses no device. Lists all files, but reads only the header of the first image of every class: other damaged files
    are found when they are decoded.
    """
    if isinstance(input, SyntheticInput):
        return
    if isinstance(input, TokensInput):
        from resnetx.inputs import tokens

        tokens.check(Path(input.file), sample, batch_size, gpus)
        return
    if input.kind == "dali" and (hip := packages.hip_version()):
        raise ConfigError(
            f"input=dali: torch is built for AMD GPUs (HIP {hip}), and DALI supports NVIDIA GPUs only; use "
            "input=torchvision, or input=synthetic, which needs no decoder"
        )
    if missing := packages.obstacle(_NEEDED[input.kind]):
        other = "input=torchvision, or " * (input.kind == "dali")
        raise ConfigError(f"{missing}; without it, use {other}input=synthetic, which needs no decoder")
    from resnetx.inputs import folders, jpeg

    if input.stage is not None:
        folders.check(Path(input.root), Path(input.stage))
    tree = folders.read(Path(input.root))
    if len(tree.classes) > classes:
        raise ConfigError(
            f"input.root={input.root}: {len(tree.classes)} class folders, but model.classes={classes}; "
            f"use model.classes={len(tree.classes)} or fewer folders"
        )
    shard, needed = len(tree.files) // gpus, -(-batch_size // gpus)  # of the rank with the largest share
    if shard < needed:
        raise ConfigError(
            f"input.root={input.root}: {len(tree.files)} images over gpus={gpus} give each rank {shard}, fewer than "
            f"its {needed} images of every batch; use more images, or batch_size={shard * gpus} or less"
        )
    smallest = folders.RECIPES[input.recipe].smallest_side(sample.shape[-1])
    for label in range(len(tree.classes)):
        if fault := jpeg.of_header(tree.path(bisect_left(tree.labels, label)), smallest):
            raise ConfigError(jpeg.sentence(fault, tree.root))


_NEEDED = {"dali": "nvidia.dali", "torchvision": "torchvision"}  # the module that decodes the images of an input
