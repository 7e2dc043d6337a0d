"""Which image files cannot be trained on, and why: one sentence for each, naming the file.

The header comes first (`header`), so that no file makes a decoder allocate more than an image may have; then the whole
image is decoded by Pillow. Like the decoders used in training it tolerates what libjpeg tolerates (a flipped bit in the
picture data), and rejects garbage, truncated and empty files.
"""

import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from PIL import Image

from resnetx.inputs import header


def sentence(fault: str, root: Path) -> str:
    """`fault` as the message that ends a run."""
    return f"{fault}; repair or delete it (`resnetx images --verify {root}` checks every file)"


def of(path: Path, smallest: int = 0) -> str | None:
    """What is wrong with an image file, or None; a side shorter than `smallest` pixels is wrong, too."""
    return of_header(path, smallest) or _of_pixels(path)


def find(paths: Iterable[Path], smallest: int, limit_s: float) -> str | None:
    """What is wrong with the first damaged one of the files, found within about `limit_s` seconds, or None.

    All headers are read first: that is quick and finds most damage (missing, empty, not an image, too small).
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
    """Like `of`, from the header only."""
    try:
        header.check(header.of_file(path), smallest)
    except (header.DamageError, OSError) as error:
        return f"{path}: {_reason(error)}"
    return None


def decoded(path: Path) -> Image.Image:
    """The image, decoded by Pillow; its header is not checked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unusual EXIF data and sizes are not damage
        image = Image.open(path, formats=("JPEG", "PNG"))
        image.load()
    return image


def _of_pixels(path: Path) -> str | None:
    """Why an image cannot be decoded; None where it can."""
    try:
        decoded(path)
    # A damaged file can make a decoder raise nearly anything: OSError, SyntaxError, struct.error, ValueError.
    except Exception as error:
        return f"{path}: {_reason(error)}"
    return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__
