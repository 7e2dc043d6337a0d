"""A folder of class folders of JPEG files, as ILSVRC2012 is usually unpacked: its listing, its checks, its state.

root/n01440764/n01440764_10026.JPEG      label 0: labels follow the sorted names of the class folders
root/n01443537/n01443537_10007.JPEG      label 1
"""

import ctypes
import hashlib
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from resnetx.errors import ConfigError
from resnetx.host import flock, node_name
from resnetx.inputs import Share
from resnetx.record import Unknown, whole
from resnetx.units import si

if TYPE_CHECKING:
    import torch

SUFFIXES = (".jpg", ".jpeg")

_STAT_LIMIT_S = 10.0  # for summing the sizes of all files; a million take 2 s with cached metadata


@dataclass(frozen=True)
class Tree:
    """All images below `root`. File names are relative to it: a million absolute ones would cost every rank twice."""

    root: Path
    classes: list[str]
    files: list[str]  # "class/name", sorted
    labels: list[int]

    def path(self, index: int) -> Path:
        return self.root / self.files[index]


@lru_cache(maxsize=1)  # a sweep calls it for every point, and ImageNet takes seconds to list
def read(root: Path) -> Tree:
    """The listing of `root`, or a `ConfigError` naming the folder that is missing, unreadable or empty.

    A process lists a root once; later changes are not seen.
    """
    classes = class_folders(root)
    files: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        entries = list(_images(root / name))
        if not entries:
            raise ConfigError(f"{root / name}: the class folder contains no JPEG file (.jpg, .jpeg); fill or delete it")
        if other := next((entry for entry in entries if not _is_file(entry)), None):
            raise ConfigError(f"{root / name / other.name}: not a file; delete it, or give it another name")
        images = sorted(entry.name for entry in entries)
        files += [f"{name}/{image}" for image in images]
        labels += [label] * len(images)
    return Tree(root, classes, files, labels)


def class_folders(root: Path) -> list[str]:
    """The names of the class folders of `root`, in the order of their labels."""
    hint = (
        "make images with `resnetx images`, point input.root to a folder of class folders of JPEG files, or set "
        "input=synthetic"
    )
    if not root.exists():
        raise ConfigError(f"input.root={root}: no such folder; {hint}")
    if not root.is_dir():
        raise ConfigError(f"input.root={root}: not a folder; {hint}")
    names = sorted(entry.name for entry in _entries(root) if not entry.name.startswith(".") and entry.is_dir())
    if not names:
        raise ConfigError(f"input.root={root}: contains no class folder; {hint}")
    return names


def image_names(folder: Path) -> list[str]:
    """The names of the JPEG files in a class folder, sorted, without hidden files."""
    return sorted(entry.name for entry in _images(folder))


def _images(folder: Path) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder):
        if entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith("."):
            yield entry


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a regular file, or a link to one: opening a pipe would block until someone writes to it."""
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be listed ({error.strerror}); make it readable or change input.root"
        ) from None


def state(tree: Tree, cached_share: float | Unknown, decoder: str | Unknown) -> dict[str, Any]:
    """The fields of `record.InputState` that are known from a folder of JPEG files."""
    return {
        "images": len(tree.files),
        "classes": len(tree.classes),
        "size_bytes": _size_bytes(tree),
        "encoded": True,
        "page_cache_share": cached_share,
        "decoder": decoder,
    }


def cached_share(tree: Tree) -> float | Unknown:
    """The share of the images' bytes that are in memory now, from a sample; call it before anything reads them."""
    return resident_share(sample(tree))


def sample(tree: Tree) -> list[Path]:
    """Some 256 of the images, spread over all classes."""
    step = max(1, len(tree.files) // 256)
    return [tree.path(index) for index in range(0, len(tree.files), step)]


def _size_bytes(tree: Tree) -> int | Unknown:
    total = files = 0
    end = time.monotonic() + _STAT_LIMIT_S
    for name in tree.classes:
        if time.monotonic() > end:
            return Unknown(f"after {_STAT_LIMIT_S:.0f} s, only {files} of {len(tree.files)} files had been sized")
        try:
            sizes = [entry.stat().st_size for entry in _images(tree.root / name)]
        except (OSError, ConfigError) as error:
            return Unknown(str(error))
        total, files = total + sum(sizes), files + len(sizes)
    return total if files == len(tree.files) else Unknown("files appeared or disappeared while the folder was read")


# Which images a rank reads, and in which order: the same for every pipeline that reads files.
#
# All images are shuffled anew for every pass over them, in the same order on all ranks, and each rank takes every n-th
# of them. A batch may begin in one pass and end in the next, so that no pass ends in a pause.


def batches(images: int, share: Share) -> Iterator[list[int]]:
    """The image numbers of each batch of a rank, without end; the seed decides."""
    import torch

    generator = torch.Generator().manual_seed(share.seed)
    waiting = np.empty(0, dtype=np.int64)  # cut by numpy, in a tenth of torch's time
    while True:
        shuffled = torch.randperm(images, generator=generator).numpy()
        waiting = np.concatenate([waiting, shuffled[share.rank :: share.world_size]])
        whole = len(waiting) // share.batch_size * share.batch_size
        for begin in range(0, whole, share.batch_size):
            yield waiting[begin : begin + share.batch_size].tolist()
        waiting = waiting[whole:]


# How much of some files is in memory already: with a warm page cache the disk is not measured at all.
#
# mincore(2) tells it page by page without reading anything. The kernel answers truthfully only to those who own or may
# write the file, and says "all in memory" to everybody else (Linux 5.2 and later), so for others it is not known.


def resident_share(paths: Sequence[Path]) -> float | Unknown:
    """The share of the files' pages that are in memory, 0 cold to 1 warm, or why it cannot be known."""
    if sys.platform != "linux":
        return Unknown("only Linux tells which pages of a file are in memory")
    pages = resident = 0
    for path in paths:
        try:
            if not (path.stat().st_uid == os.geteuid() or os.access(path, os.W_OK)):
                return Unknown("Linux tells what is in memory only of files that one may write")
            flags = _pages_in_memory(path)
        except OSError as error:
            return Unknown(f"{path}: {error.strerror}")
        pages += len(flags)
        resident += sum(flag & 1 for flag in flags)
    return resident / pages if pages else Unknown("the files are empty")


def _pages_in_memory(path: Path) -> bytes:
    """One byte per page of the file, its lowest bit set where the page is in memory."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return b""
        view = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
    data = np.frombuffer(view, dtype=np.uint8)  # tells the address of a read-only map, which ctypes does not
    flags = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(size), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return flags.raw


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

    def for_rows(self, share: Share) -> "tuple[torch.Tensor, torch.Tensor]":
        """What to multiply bytes by, and to add then, on a rank's device.

        One value for each byte of a row of pixels: broadcasting three is five times slower on a CPU.
        """
        import torch

        scale = 1 / torch.tensor(self.std, device=share.device).repeat(share.image_size)
        return scale, -torch.tensor(self.mean, device=share.device).repeat(share.image_size) * scale


RECIPES = {
    "imagenet": Recipe(mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375), resized=True),
    "paper": Recipe(mean=(123.0, 117.0, 104.0), std=(1.0, 1.0, 1.0), resized=False),
}


# ---- stage ----------------------------------------------------------------------------------------------------------
# Images copied to a folder of the node that reads them, so that a run does not measure storage that nodes share.
#
#     stage/resnetx-3f9a0c52d1e7/n01440764/n01440764_10026.JPEG
#     stage/resnetx-3f9a0c52d1e7.lock
#
# The name has a digest of what was copied, and by whom: the root, and each file's name, size and time of change. So
# what has changed goes into another folder, and no job touches a copy that another one reads. All images are copied, as
# the shuffled order gives every rank other ones in every pass. Whoever copies holds the lock, and the next one finds
# the copy complete. A file has its name only once all of it is there, so that a copy that was cut short is gone on
# with.

T = TypeVar("T")
R = TypeVar("R")

COPIERS = 8  # threads: files of 100 kB on shared storage take as long to open as to read


@dataclass(frozen=True)
class Staged:
    """What is in a stage, and what it took to have it there, by the names of `record.Staging`."""

    folder: Path  # in place of the root
    images: int
    size_bytes: int  # of all images
    copied_bytes: int  # of them now; 0: all were there
    list_s: float  # to look at all files of the root
    wait_s: float  # for another job that copied
    copy_s: float  # to look at those of the stage, and to copy what was not there


@dataclass(frozen=True)
class _File:
    name: str  # "class/name"
    size_bytes: int
    changed_ns: int


def copied(root: Path, stage: Path) -> Staged:
    """Copies the images of `root` that are not in the stage yet; a `ConfigError` where that cannot be done."""
    started = time.monotonic()
    files = _listed(root)
    listed = time.monotonic()
    folder = stage / f"resnetx-{_digest(root, files)}"
    with _only_one(stage, folder):
        locked = time.monotonic()
        missing = [file for file in files if not _is_there(folder / file.name, file)]
        copied_bytes = sum(file.size_bytes for file in missing)
        if missing:
            _copy(missing, root, folder, stage)
        _check_no_others(folder, files)
        copy_s = time.monotonic() - locked
    size_bytes = sum(file.size_bytes for file in files)
    return Staged(folder, len(files), size_bytes, copied_bytes, listed - started, locked - listed, copy_s)


def check(root: Path, stage: Path) -> None:
    """Refuses a stage among the images that are copied."""
    if stage.resolve().is_relative_to(root.resolve()):
        raise ConfigError(
            f"input.stage={stage}: in input.root={root}, where copies would be images, too; use a folder of the node"
        )


def _listed(root: Path) -> list[_File]:
    def looked_at(name: str) -> _File:
        try:
            found = (root / name).stat()
        except OSError as error:
            raise ConfigError(f"{root / name}: cannot be read ({error.strerror}); restore or delete it") from None
        return _File(name, found.st_size, found.st_mtime_ns)

    return _each(looked_at, read(root).files)


def _digest(root: Path, files: Sequence[_File]) -> str:
    digest = hashlib.sha256(os.fsencode(f"{os.getuid()}\0{root.resolve()}"))
    for file in files:
        digest.update(os.fsencode(f"\0{file.name}\0{file.size_bytes}\0{file.changed_ns}"))
    return digest.hexdigest()[:12]


@contextmanager
def _only_one(stage: Path, folder: Path) -> Iterator[None]:
    """Keeps all others from copying into the folder; the lock ends with the process that holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _refused(stage, f"cannot be written ({error.strerror})") from None
    try:
        _lock(lock, stage)
        yield
    finally:
        os.close(lock)


def _lock(file: int, stage: Path) -> None:
    try:
        flock(file)
    except OSError as error:
        raise _refused(stage, f"has no file locks ({error.strerror}), which keep jobs apart,") from None


def _is_there(path: Path, file: _File) -> bool:
    try:
        return path.stat().st_size == file.size_bytes
    except OSError:
        return False


def _copy(files: Sequence[_File], root: Path, folder: Path, stage: Path) -> None:
    needed, free = sum(file.size_bytes for file in files), shutil.disk_usage(stage).free
    if needed > free:
        raise _refused(stage, f"{si(needed, 'B')} of images do not fit into the {si(free, 'B')} that are free")

    def copy(file: _File) -> None:
        source, target = root / file.name, folder / file.name
        try:
            with whole(target, f".{target.name}.partial") as partial:
                shutil.copyfile(source, partial)
                if (size := partial.stat().st_size) != file.size_bytes:
                    raise ConfigError(f"{source}: changed while it was copied ({size} bytes of {file.size_bytes})")
        except OSError as error:
            raise _refused(stage, f"{source.name} cannot be copied there ({error.strerror})") from None

    try:
        for name in {file.name.partition("/")[0] for file in files}:
            (folder / name).mkdir(exist_ok=True)
    except OSError as error:
        raise _refused(stage, f"cannot be written ({error.strerror})") from None
    _each(copy, files)


def _check_no_others(folder: Path, files: Sequence[_File]) -> None:
    """A file that came from elsewhere would be read as an image."""
    classes = class_folders(folder)
    there = {f"{name}/{image}" for name in classes for image in image_names(folder / name)}
    if others := sorted(there - {file.name for file in files}):
        raise ConfigError(f"{folder}: has images that input.root does not have, e.g. {others[0]}; delete this folder")


def _each(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`do` of every item, several at once; what is left is given up at the first error."""
    with ThreadPoolExecutor(COPIERS) as pool:
        try:
            return list(pool.map(do, items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _refused(stage: Path, why: str) -> ConfigError:
    return ConfigError(f"input.stage={stage}: {why} on {node_name()}; make room there, or choose another folder")
