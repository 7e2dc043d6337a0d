"""A folder of class folders of JPEG files, as ILSVRC2012 is usually unpacked: its listing, its checks, its state.

root/n01440764/n01440764_10026.JPEG      label 0: labels follow the sorted names of the class folders
root/n01443537/n01443537_10007.JPEG      label 1
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from resnetx.errors import ConfigError
from resnetx.inputs import page_cache
from resnetx.record import Unknown

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
    hint = "make images with `resnetx images`, or point input.root to a folder of class folders of JPEG files"
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
    return page_cache.resident_share(sample(tree))


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
