"""Batches by torchvision: decode_jpeg and v2 transforms in the workers of a DataLoader; an alternative to DALI.

Workers decode, crop, resize and flip the files that a batch lists, and send pixels as bytes; the rank converts and
normalises them on its device, copied ahead to a GPU (`_CopiedAhead`). PNG files are decoded by Pillow: on a damaged
one, torchvision 0.29 ends its process with SIGSEGV.

torchvision 0.29 deprecates its decoders in favour of TorchCodec, and still has them.
"""

import multiprocessing
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import RawArray
from os import _exit, getpid
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torchvision.io import ImageReadMode, decode_jpeg, read_file
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import pil_to_tensor

from resnetx.choices import TorchvisionInput
from resnetx.errors import ConfigError
from resnetx.host import dying_with
from resnetx.inputs import Batches, Share, folders, jpeg, memory_format
from resnetx.inputs import folders as order

Pixels = tuple[torch.Tensor, torch.Tensor]  # uint8 (N, S, S, 3) and int64 (N,)
Told = tuple[int, str, int]  # an image's number, its file below the root, and its label


class TorchvisionBatches(Batches):
    """One rank's endless batches; see `inputs.Batches`."""

    def __init__(self, input: TorchvisionInput, share: Share) -> None:
        recipe = folders.RECIPES[input.recipe]
        self._tree = folders.read(Path(input.root))
        self._cached_share = folders.cached_share(self._tree)
        self._arrived = share.arrived
        self._format = memory_format(share.channels_last)
        self._scale, self._shift = recipe.for_rows(share)
        self._reading = _Reading(input.threads)
        method = _start_method(share.device)
        multiprocessing.set_forkserver_preload([__name__])
        with _deaths_found_when_waited_for():
            self._loader: Iterator[Pixels | ConfigError] | None = iter(
                DataLoader(
                    _Images(self._tree.root, recipe, share.image_size, self._reading),
                    batch_sampler=_told(self._tree, order.batches(len(self._tree.files), share)),
                    num_workers=input.threads,
                    prefetch_factor=input.prefetch,
                    collate_fn=_as_it_is,
                    worker_init_fn=partial(_begin_worker, getpid() if method == "fork" else None),
                    multiprocessing_context=method,
                    pin_memory=share.device.type == "cuda",
                    # Every worker draws its own random numbers from this one.
                    generator=torch.Generator().manual_seed(share.seed * share.world_size + share.rank),
                )
            )
        self._ahead = _CopiedAhead(self._read, share) if share.device.type == "cuda" else None

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._ahead is not None:
            pixels, labels = self._ahead.next()
        else:
            pixels, labels = self._read()
            self._arrived()
        images = pixels.flatten(2).float().mul_(self._scale).add_(self._shift)
        return images.view(pixels.shape).permute(0, 3, 1, 2).contiguous(memory_format=self._format), labels

    def _read(self) -> Pixels:
        """The next batch, in memory of the host."""
        assert self._loader is not None, "the input was closed"
        try:
            batch = next(self._loader)
        except RuntimeError as error:
            if not (crashed := self._reading.by_dead(str(error))):
                raise
            batch = self._crash(crashed, str(error))
        if isinstance(batch, ConfigError):
            raise batch
        return batch

    def state(self) -> dict[str, Any]:
        return folders.state(self._tree, self._cached_share, "cpu")

    def close(self) -> None:
        self._loader = self._ahead = None  # its processes end with the last reference

    def _crash(self, images: list[int], error: str) -> ConfigError:
        """The error for workers that died on these images; names the first."""
        names = " or ".join(str(self._tree.path(index)) for index in images)
        return ConfigError(jpeg.sentence(f"{names}: a process died decoding it ({error})", self._tree.root))


class _CopiedAhead:
    """Batches on a GPU: each is copied there, on a stream of its own, while the step before it runs.

    So the host waits for a batch one step before its own step is launched, as in timm's `PrefetchLoader`.
    """

    def __init__(self, read: Callable[[], Pixels], share: Share) -> None:
        """`read`: the next batch, in pinned memory of the host."""
        self._read, self._device, self._arrived = read, share.device, share.arrived
        self._stream = torch.cuda.Stream(share.device)
        self._copied: tuple[Pixels, torch.cuda.Event] | None = None

    def next(self) -> Pixels:
        """The next batch, for work that is queued on the current stream from now on."""
        batch, arrival = self._copied or self._copy()
        self._copied = self._copy()
        user = torch.cuda.current_stream(self._device)
        self._arrived()
        user.wait_event(arrival)
        for part in batch:
            part.record_stream(user)  # or its memory would go to a later copy as soon as the host drops it
        return batch

    def _copy(self) -> tuple[Pixels, torch.cuda.Event]:
        pixels, labels = self._read()
        arrival = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            batch = pixels.to(self._device, non_blocking=True), labels.to(self._device, non_blocking=True)
            arrival.record(self._stream)
        return batch, arrival


def _start_method(device: torch.device) -> Literal["fork", "forkserver"]:
    """How worker processes are started.

    A rank on a GPU runs threads of CUDA and NCCL: a fork of it may find a lock held by a thread that it does not have,
    and NCCL and CUDA do not work in it. There, workers are forked from a server without threads, which has loaded what
    they need. That takes as long as loading torch and torchvision once more, 6 s of CPU time per rank on a Xeon; a
    batch costs the same. On CPUs, where gloo's threads only wait, ranks fork.
    """
    return "forkserver" if device.type == "cuda" else "fork"


def _told(tree: folders.Tree, batches: Iterable[list[int]]) -> Iterator[list[Told]]:
    for batch in batches:
        yield [(index, tree.files[index], tree.labels[index]) for index in batch]


def _begin_worker(rank: int | None, _: int) -> None:
    """A worker ends with its rank, however that ends; and by SIGTERM, which ranks handle in a thread that it lacks.

    `rank`: the process that forked it; None: a server did, which ends after its last worker.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if rank is None:
        threading.Thread(target=_end_with_rank, name="resnetx-parent", daemon=True).start()
    else:
        dying_with(rank)()


def _end_with_rank() -> None:
    """Waits for the rank, whose end closes a pipe to this worker; the kernel only signals the end of the server."""
    rank = multiprocessing.parent_process()
    assert rank is not None, "a worker without a rank"
    rank.join()
    _exit(1)


class _Reading:
    """The image that each worker is decoding, in shared memory, to explain a crash."""

    def __init__(self, workers: int) -> None:
        self._images = RawArray("q", workers)
        self._pids = RawArray("q", workers)

    def begin(self, image: int) -> None:
        """Called in a worker."""
        info = get_worker_info()
        assert info is not None, "not in a worker"
        worker = info.id
        self._images[worker], self._pids[worker] = image, getpid()

    def by_dead(self, message: str) -> list[int]:
        """The images that dead workers were reading, by the process ids in a DataLoader's message, if any."""
        if not (match := re.search(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)", message)):
            return []
        dead = set(map(int, match[1].split(",")))
        return [image for image, pid in zip(self._images, self._pids, strict=True) if pid in dead]


@contextmanager
def _deaths_found_when_waited_for() -> Iterator[None]:
    """DataLoaders that start in this block raise for a dead worker where its batch is waited for, and nowhere else.

    By itself, a DataLoader handles SIGCHLD, and raises in the middle of whatever the main thread is doing.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGCHLD)
    yield
    if main:
        signal.signal(signal.SIGCHLD, before)


class _Images(Dataset[Pixels | ConfigError]):
    """Makes whole batches of uint8 pixels in a worker. A fault is returned: raised, it would lose its type."""

    def __init__(self, root: Path, recipe: folders.Recipe, image_size: int, reading: _Reading) -> None:
        self._root, self._image_size, self._reading = root, image_size, reading
        self._smallest = recipe.smallest_side(image_size)
        size = (image_size, image_size)
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(size, folders.AREA, folders.ASPECT) if recipe.resized else v2.RandomCrop(size),
                v2.RandomHorizontalFlip(folders.FLIP_SHARE),
            ]
        )

    def __getitems__(self, told: list[Told]) -> Pixels | ConfigError:
        pixels = torch.empty(len(told), self._image_size, self._image_size, 3, dtype=torch.uint8)
        for place, (index, name, _) in enumerate(told):
            path = self._root / name
            self._reading.begin(index)
            try:
                pixels[place] = self._transform(_decoded(path, self._smallest)).permute(1, 2, 0)
            except Exception as error:
                # A damaged file can make a decoder raise nearly anything; `jpeg` explains it.
                fault = jpeg.of(path, self._smallest) or f"{path}: torchvision cannot decode it ({error})"
                return ConfigError(jpeg.sentence(fault, self._root))
        return pixels, torch.tensor([label for _, _, label in told])


def _decoded(path: Path, smallest: int) -> torch.Tensor:
    """The pixels of a file, uint8 (3, H, W), if its header says that they may be decoded."""
    data = read_file(str(path))
    claimed = jpeg.of_bytes(memoryview(data.numpy()))
    jpeg.check(claimed, smallest)
    if claimed.kind == "PNG":
        pixels: torch.Tensor = pil_to_tensor(jpeg.decoded(path).convert("RGB"))
    else:
        pixels = decode_jpeg(data, ImageReadMode.RGB)
    return pixels


def _as_it_is(batch: Any) -> Any:
    return batch
