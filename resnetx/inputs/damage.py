"""Which image files cannot be decoded, and why: one sentence for each, naming the file.

The whole image is decoded by Pillow. Like the decoders of training it forgives what libjpeg forgives (a flipped bit in
the picture data), and refuses garbage, truncated and empty files.
"""

import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from PIL import Image, UnidentifiedImageError


def sentence(fault: str, root: Path) -> str:
    """`fault` as the user reads it when it stops a run."""
    return f"{fault}; repair or delete it (`resnetx images --verify {root}` checks every file)"


def of(path: Path, smallest: int = 0) -> str | None:
    """What is wrong with an image file, or None; a side shorter than `smallest` pixels is wrong, too."""
    return of_header(path, smallest) or _of_pixels(path)


def find(paths: Iterable[Path], smallest: int, limit_s: float) -> str | None:
    """What is wrong with one of the files, found within about `limit_s` seconds, or None.

    The headers of all files come first: they are quick to read and tell most damage (gone, empty, no image, too small).
    """
    paths, end = list(paths), time.monotonic() + limit_s
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for check in (lambda path: of_header(path, smallest), _of_pixels):
            waiting = iter(paths)
            while time.monotonic() < end and (some := list(islice(waiting, 64))):
                if fault := next(filter(None, pool.map(check, some)), None):
                    return fault
    return None


def of_header(path: Path, smallest: int) -> str | None:
    """Like `of`, from the first bytes only."""
    try:
        if path.stat().st_size == 0:
            return f"{path}: the file is empty"
        with _open(path) as image:
            width, height = image.size
    except UnidentifiedImageError:
        return f"{path}: not an image"
    except Exception as error:
        return f"{path}: {_reason(error)}"
    if min(width, height) < smallest:
        return f"{path}: {width}x{height} pixels, smaller than the crop of {smallest}x{smallest}"
    return None


def _of_pixels(path: Path) -> str | None:
    try:
        with _open(path) as image:
            image.load()
    # A damaged file can make a decoder raise nearly anything: OSError, SyntaxError, struct.error, ValueError.
    except Exception as error:
        return f"{path}: {_reason(error)}"
    return None


def _open(path: Path) -> Image.Image:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd EXIF data and sizes are no damage
        return Image.open(path)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__
