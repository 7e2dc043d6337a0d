"""Batches by NVIDIA DALI: read, decode, crop, resize, flip and normalise in its own threads, ahead of training.

On a GPU the decoder is DALI's "mixed" one (hardware, else CUDA kernels), and the batch is made there; `decoder=cpu`
decodes on the CPU. Without a GPU everything runs on the CPU, and no driver is needed.

Images come out as float (fp16 with precision=fp16), HWC or CHW like the weights, without a copy (`_InUse`). DALI has no
bf16: bytes come out, and one kernel of the step makes bf16 of them. (CPU time for one image of 108 KB to 224x224 on a
Xeon with AVX-512, DALI 2.4: float HWC 1.95 ms; float CHW and a copy 2.29 ms; uint8, then torch 2.07 ms.)
"""

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali import Pipeline, fn, types
from nvidia.dali.data_node import DataNode
from torch.utils.dlpack import from_dlpack

from resnetx.choices import DaliInput
from resnetx.errors import ConfigError
from resnetx.inputs import BESIDE_TORCH, Batches, Share, folders, jpeg, memory_format
from resnetx.inputs import folders as order
from resnetx.record import Unknown

_PROBE_LIMIT_S = 30.0  # for finding the file that made DALI fail among those it was reading

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]  # DALI's input: a path in each row, and labels


class DaliBatches(Batches):
    """One rank's endless batches; see `inputs.Batches`.

    What is asked of DALI in Python (order, paths, feeding) is done by a thread of its own, while the step that has
    just got its batch is launched: `prefetch` batches are then being made. The two threads take turns.
    """

    def __init__(self, input: DaliInput, share: Share) -> None:
        self._tree = folders.read(Path(input.root))
        self._cached_share = folders.cached_share(self._tree)
        self._input, self._share = input, share
        self._decoder = _decoder(input, share, self._tree)
        self._given = _Given(self._tree, share)
        self._in_use = _InUse()
        self._normalised = _Normalised(input, share) if share.rounded == "bf16" else None
        hints = _hints(self._tree) if _mixed(input, share) else {}
        self._pipeline: Pipeline | None = _pipeline(input, share, self._given.next, hints)
        self._scheduler = ThreadPoolExecutor(1, "resnetx-dali")
        self._scheduled: Future[None] | None = None

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._pipeline is not None, "the input was closed"
        stream = self._stream()
        if stream is not None:
            self._in_use.step_queued(stream)
        try:
            if self._scheduled is None:
                self._scheduled = self._scheduler.submit(self._pipeline.schedule_run)
            self._scheduled.result()
            images, labels = (from_dlpack(out.as_tensor()) for out in self._pipeline.outputs(stream))
            self._given.returned()
            self._scheduled = self._scheduler.submit(self._pipeline.schedule_run)
            if stream is not None:
                self._in_use.returned(images, labels)
            if self._normalised is not None:
                return self._normalised(images), labels
            return images.permute(0, 3, 1, 2) if self._share.channels_last else images, labels
        except RuntimeError as error:
            if (fault := self._fault(str(error))) is None:
                raise
        # Raised here, it does not reference the frames of the failed pipeline, so that `close` can end its threads.
        raise ConfigError(jpeg.sentence(fault, self._tree.root))

    def state(self) -> dict[str, Any]:
        return folders.state(self._tree, self._cached_share, self._decoder)

    def beside_torch_bytes(self) -> int | Unknown:
        return _beside_torch_bytes(self._input, self._share)

    def close(self) -> None:
        if (stream := self._stream()) is not None:
            self._in_use.step_queued(stream)
            self._in_use.drain()
        self._scheduler.shutdown()
        self._pipeline = self._scheduled = None  # its threads end with the last reference

    def _stream(self) -> torch.cuda.Stream | None:
        """Outputs are ordered on the stream that training uses: neither the host nor another stream waits for them."""
        device = self._share.device
        return torch.cuda.current_stream(device) if device.type == "cuda" else None

    def _fault(self, message: str) -> str | None:
        """The file that made DALI fail and why, or None if no file did. DALI itself names none."""
        paths = self._given.paths()
        smallest = folders.RECIPES[self._input.recipe].smallest_side(self._share.image_size)
        for path in paths:
            if fault := jpeg.of_header(path, smallest):
                return fault
        if "nvidia.dali.fn" not in message or "CUDA" in message or "memory" in message:  # no operator failed on a file
            return None
        if fault := jpeg.find(paths, smallest, _PROBE_LIMIT_S):
            return fault
        if alone := _undecodable(paths, self._input, self._share):
            return f"{alone}: DALI cannot decode it"
        limit = f"{_PROBE_LIMIT_S:.0f} s"
        return f"{self._tree.root}: DALI fails on one of {len(paths)} images, which was not found within {limit}"


class _Normalised:
    """Makes bf16 of bytes: (pixel - mean) / std in fp32, rounded once, by one kernel that reads a byte and writes two.

    In place of autocast's, which reads four bytes and writes two, where DALI has written four. On a CPU both ways cost
    the same: 2.1 ms for an image of 108 KB to 224x224 (DALI 2.4, torch 2.15, a Xeon), 2.3 with fp16 out of DALI.
    """

    def __init__(self, input: DaliInput, share: Share) -> None:
        self._scale, self._shift = folders.RECIPES[input.recipe].for_rows(share)
        self._format = memory_format(share.channels_last)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """`pixels`: uint8 (N, rows, columns, 3)."""
        images = torch.empty(pixels.shape, dtype=torch.bfloat16, device=pixels.device)
        torch.addcmul(self._shift, pixels.flatten(2), self._scale, out=images.flatten(2))
        return images.permute(0, 3, 1, 2).contiguous(memory_format=self._format)


class _InUse:
    """Batches on the GPU that a queued step may still read.

    They lie in DALI's own memory, without a copy. torch drops a batch once the host has launched the last kernel that
    reads it, and DALI then gives the memory to a later batch in the order of its own stream, which does not wait for
    that kernel (DALI 2.4, `Buffer::set_order_impl`; like NVIDIA/DALI#5617). So a batch is kept until an event that was
    recorded behind its step has happened.
    """

    _MOST = 4  # batches; the host waits for the oldest step beyond, when the GPU has all the others to do

    def __init__(self) -> None:
        self._returned: tuple[torch.Tensor, ...] = ()  # to the step that is being queued
        self._queued: deque[tuple[torch.cuda.Event, tuple[torch.Tensor, ...]]] = deque()

    def returned(self, *batch: torch.Tensor) -> None:
        self._returned = batch

    def step_queued(self, stream: torch.cuda.Stream) -> None:
        """The step of the batch that was returned last is on `stream`; drops batches whose steps have ended."""
        if self._returned:
            event = torch.cuda.Event(blocking=True)
            event.record(stream)
            self._queued.append((event, self._returned))
            self._returned = ()
        while self._queued and self._queued[0][0].query():
            self._queued.popleft()
        if len(self._queued) >= self._MOST:
            self._drop_oldest()

    def drain(self) -> None:
        """Waits for all steps that were queued."""
        while self._queued:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._queued[0][0].synchronize()
        self._queued.popleft()


class _Given:
    """The batches that DALI is reading: about `prefetch` of them."""

    def __init__(self, tree: folders.Tree, share: Share) -> None:
        self._tree, self._root, self._labels = tree, os.fsencode(tree.root), np.array(tree.labels)
        self._order = order.batches(len(tree.files), share)
        self._batches: deque[list[int]] = deque()

    def next(self) -> Batch:
        indices = next(self._order)
        self._batches.append(indices)
        files = self._tree.files
        return _paths(self._root, [files[index] for index in indices]), self._labels[indices]

    def returned(self) -> None:
        """DALI has returned the oldest batch."""
        self._batches.popleft()

    def paths(self) -> list[Path]:
        """The files of all these batches, without duplicates."""
        return [self._tree.path(index) for index in dict.fromkeys(chain(*self._batches))]


def _paths(root: bytes, names: Sequence[str]) -> NDArray[np.uint8]:
    """The paths of files below `root`, one in each row; slashes before a name make all of them equally long.

    DALI takes one array in a sixth of the time that an array for each path costs, and Python runs nothing else
    meanwhile. A path may have any number of slashes where it has one (POSIX).
    """
    encoded = os.fsencode("\0".join(names)).split(b"\0")  # no name of a file contains a zero
    longest = max(map(len, encoded)) + 1
    rows = [root + name.rjust(longest, b"/") for name in encoded]
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1)


def _decoder(input: DaliInput, share: Share, tree: folders.Tree) -> str | Unknown:
    """Where images are decoded: "cpu", "gpu" (by CUDA kernels) or "gpu hardware".

    The hardware is tested with a crop of an image, as the pipeline needs it. If that works, DALI gives it about two
    thirds of the images, and the others to CUDA kernels (`hw_decoder_load`).
    """
    if not _mixed(input, share):
        return "cpu"
    try:
        from nvidia import nvimgcodec  # DALI's decoding library

        kind = nvimgcodec.Backend(nvimgcodec.BackendKind.HW_GPU_ONLY)
        image = nvimgcodec.CodeStream(str(tree.path(0)))
        crop = nvimgcodec.Region(0, 0, image.height // 2, image.width // 2)
        # Closed at once: its memory on the GPU would count as the run's.
        with nvimgcodec.Decoder(device_id=_index(share.device), backends=[kind]) as hardware:
            decoded = hardware.decode(image.get_sub_code_stream(region=crop)) is not None
    except Exception as error:  # not worth failing a run
        return Unknown(f"nvImageCodec could not be queried for a hardware decoder ({error})")
    return "gpu hardware" if decoded else "gpu"


def _mixed(input: DaliInput, share: Share) -> bool:
    """Whether the GPU decodes."""
    return share.device.type == "cuda" and input.decoder == "auto"


def _hints(tree: folders.Tree) -> dict[str, int]:
    """The largest image of a sample, for which the hardware decoder's memory is allocated before the first batch.

    Otherwise it is reallocated for every larger image, which stalls the GPU. The memory of the CUDA kernels'
    decoder (`device_memory_padding`, `host_memory_padding`) stays DALI's own, 16 MiB and twice 8 MiB for each thread:
    NVIDIA's example for ImageNet takes 211 MB and twice 141 MB, many GB of a rank with a thread for each CPU.
    """
    sizes = []
    for path in folders.sample(tree):
        with suppress(OSError, jpeg.DamageError):  # damaged files are reported when they are decoded
            image_header = jpeg.of_file(path)
            jpeg.check(image_header)
            sizes.append((image_header.width, image_header.height))
    if not sizes:
        return {}
    widths, heights = zip(*sizes, strict=True)
    return {"preallocate_width_hint": max(widths), "preallocate_height_hint": max(heights)}


def _pipeline(
    input: DaliInput, share: Share, next_batch: Callable[[], Batch], hints: Mapping[str, int] | None = None
) -> Pipeline:
    """The pipeline of one rank, built, with nothing read yet; `hints`: for the decoder."""
    on_gpu = share.device.type == "cuda"
    pipeline = Pipeline(
        batch_size=share.batch_size,
        num_threads=input.threads,
        device_id=_index(share.device) if on_gpu else None,
        seed=int(np.random.SeedSequence([share.seed, share.rank]).generate_state(1)[0]),
        prefetch_queue_depth=input.prefetch,
    )
    with pipeline:
        paths, labels = fn.external_source(source=next_batch, num_outputs=2, batch=True)
        # Reading a file of 108 KB takes 57 us of CPU time, mapping it 76, and DALI's own folder reader, which does
        # not report what it reads, 64.
        files = fn.io.file.read(paths, dont_use_mmap=True)
        images = _images(_checked(files), input, share, hints or {})
        pipeline.set_outputs(images, labels.gpu() if on_gpu else labels)
        pipeline.build()
    return pipeline


def _checked(files: DataNode) -> DataNode:
    """The same files, if their headers claim no more than `jpeg.check` allows; else the pipeline fails.

    It fails by a reshape to another number of bytes: DALI has no assertion, and a reshape copies nothing.
    """
    shape, size_bytes = fn.peek_image_shape(files), files.shape(dtype=types.INT64)
    pixels = shape[0] * shape[1]
    is_jpeg = (files[0] == 0xFF) & (files[1] == 0xD8)
    is_png = (files[0] == 0x89) & (files[24] == 8)  # bits per sample
    fits = is_jpeg & (pixels <= jpeg.MOST_PIXELS_PER_BYTE * size_bytes)
    may_be_decoded = (fits | is_png) & (pixels <= jpeg.MOST_PIXELS)
    return fn.reshape(files, shape=size_bytes * may_be_decoded)


def _images(files: DataNode, input: DaliInput, share: Share, hints: Mapping[str, Any]) -> DataNode:
    """Decoded images of a batch, cropped, flipped and normalised as the input's recipe has it."""
    recipe, size = folders.RECIPES[input.recipe], share.image_size
    decoder = "mixed" if _mixed(input, share) else "cpu"
    if recipe.resized:
        pixels = fn.decoders.image_random_crop(
            files, device=decoder, random_area=folders.AREA, random_aspect_ratio=folders.ASPECT, **hints
        )
    else:
        x, y = fn.random.uniform(range=(0.0, 1.0)), fn.random.uniform(range=(0.0, 1.0))
        pixels = fn.decoders.image_crop(files, device=decoder, crop=(size, size), crop_pos_x=x, crop_pos_y=y, **hints)
    if share.device.type == "cuda":
        pixels = pixels.gpu()  # a no-op if the decoder left them there
    if recipe.resized:
        pixels = fn.resize(pixels, size=(size, size))
    mirrored = fn.random.coin_flip(probability=folders.FLIP_SHARE)
    if share.rounded == "bf16":  # which DALI 2.4 does not have: bytes, for `_Normalised`
        return fn.flip(pixels, horizontal=mirrored)
    return fn.crop_mirror_normalize(
        pixels,
        mirror=mirrored,
        mean=recipe.mean,
        std=recipe.std,
        dtype=types.FLOAT16 if share.rounded == "fp16" else types.FLOAT,
        output_layout="HWC" if share.channels_last else "CHW",
    )


def _beside_torch_bytes(input: DaliInput, share: Share) -> int | Unknown:
    """What a batch is as DALI copies it to the GPU: the pixels that the CPU decoded, and labels."""
    if share.device.type != "cuda":
        return 0
    if _mixed(input, share):
        return Unknown(f"{BESIDE_TORCH}: what the decoder of the GPU reads")
    if folders.RECIPES[input.recipe].resized:
        return Unknown(f"{BESIDE_TORCH}: crops of input.recipe={input.recipe} differ in size")
    return share.batch_size * (3 * share.image_size**2 + np.dtype(np.int64).itemsize)


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _undecodable(paths: Sequence[Path], input: DaliInput, share: Share) -> Path | None:
    """The first file on which DALI fails when given one at a time, within about `_PROBE_LIMIT_S`."""
    waiting = iter(paths)

    def next_batch() -> Batch:
        path = next(waiting, paths[-1])
        return _paths(os.fsencode(path.parent), [path.name]), np.zeros(1, dtype=np.int64)

    pipeline = _pipeline(msgspec.structs.replace(input, prefetch=1), replace(share, batch_size=1), next_batch)
    end = time.monotonic() + _PROBE_LIMIT_S
    for path in paths:
        if time.monotonic() > end:
            break
        try:
            pipeline.run()
        except RuntimeError:
            return path
    return None
