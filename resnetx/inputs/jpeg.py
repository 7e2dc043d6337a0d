"""What an image file claims before any pixel is decoded: its kind, its size, and how often it has to be gone through.

    header.check(header.of_file(path))      # raises `DamageError` if the file must not be decoded

A decoder allocates what a header claims, however few bytes follow, and goes through a progressive JPEG once a scan:
both are checked first, in training and by `resnetx images --verify`. Two formats are accepted: JPEG, and PNG, of which
ILSVRC2012 has one (n02105855_2933.JPEG).

References: ITU-T T.81 (JPEG), annex B; W3C, Portable Network Graphics (third edition), section 11.2.1.
"""

import os
import re
import stat
import struct
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from PIL import Image

# Largest image: 100 million pixels as of the largest cameras, 400 MB when decoded. ILSVRC2012's images have 140,000
# on average (`images`).
MOST_PIXELS = 2**27
# A JPEG file spends at least one bit on each block of 8x8 pixels, the shortest Huffman code. (Arithmetic coding
# could use less, but is hardly ever used.)
MOST_PIXELS_PER_BYTE = 8 * 8 * 8
# Largest file: a decoder has all of it in memory. As many pixels in colour that no coder compresses.
MOST_BYTES = 3 * MOST_PIXELS
# Scans of a progressive JPEG file. libjpeg writes ten of a colour picture, and reads a list of at most 100 from its
# user (`MAX_SCANS` in rdswitch.c).
MOST_SCANS = 100

Read = Callable[[int, int], bytes]  # (begin, count) -> the bytes of the file there, fewer at its end


class DamageError(Exception):
    """Why a file must not be decoded, without the file's name."""


@dataclass(frozen=True)
class Header:
    """What the header claims; `size_bytes` is the file's own."""

    kind: Literal["JPEG", "PNG"]
    width: int  # pixels
    height: int
    size_bytes: int
    scans: int = 1  # that a decoder goes through the picture for, of the first `MOST_SCANS` and one more

    @property
    def pixels(self) -> int:
        return self.width * self.height


def of_file(path: Path) -> Header:
    """The header of a file: `DamageError` where it has none, or an `OSError`."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would block until someone writes to it
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise DamageError("not a file")
        return _header(lambda begin, count: os.pread(file, count, begin), state.st_size)
    finally:
        os.close(file)


def of_bytes(data: memoryview) -> Header:
    """The header of a file that is in memory: `DamageError` where it has none."""
    return _header(lambda begin, count: bytes(data[begin : begin + count]), len(data))


def check(header: Header, smallest: int = 0) -> None:
    """Raises `DamageError` if such a file must not be decoded; `smallest`: pixels that each side needs."""
    claim = f"{header.width}x{header.height} pixels"
    if header.pixels == 0:
        raise DamageError(f"the header claims {claim}")
    if header.kind == "JPEG" and header.pixels > MOST_PIXELS_PER_BYTE * header.size_bytes:
        raise DamageError(f"the header claims {claim}, more than {header.size_bytes:,} bytes can hold")
    if header.pixels > MOST_PIXELS:
        raise DamageError(f"the header claims {claim}; at most {MOST_PIXELS / 1e6:.0f} million are accepted")
    if header.size_bytes > MOST_BYTES:
        raise DamageError(f"{header.size_bytes / 1e6:.0f} MB; at most {MOST_BYTES / 1e6:.0f} MB are accepted")
    if header.scans > MOST_SCANS:
        raise DamageError(
            f"more than {MOST_SCANS} scans, each of which decodes the whole picture again; coders write 10"
        )
    if min(header.width, header.height) < smallest:
        raise DamageError(f"{claim}, smaller than the crop of {smallest}x{smallest}")


_START = 32  # bytes that identify every format, and contain the size of a PNG


def _header(read: Read, size_bytes: int) -> Header:
    start = read(0, _START)
    if not start:
        raise DamageError("the file is empty")
    if start.startswith(b"\xff\xd8\xff"):
        return _jpeg(read, size_bytes)
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return Header("PNG", *_png(start), size_bytes)
    raise DamageError(f"not a JPEG but {kind}" if (kind := _other_kind(start)) else "not an image")


# ---- JPEG -----------------------------------------------------------------------------------------------------------

_ALONE = {0x01, *range(0xD0, 0xD9)}  # TEM, RSTn and SOI have no parameters
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # SOFn: without DHT, JPG and DAC
_PROGRESSIVE = {0xC2, 0xCA}  # by Huffman and by arithmetic coding
_SCAN, _END = 0xDA, 0xD9
_MOST_SEGMENTS = 4096  # of at most 64 KiB: profiles and previews take some hundreds
_MOST_JUNK = 2**16  # bytes between segments, which libjpeg tolerates
_PIECE = 2**16  # bytes of a scan that are read at once
# What ends the coded data of a scan: a marker, but for RSTn; 0xff in the data has a 0 behind it.
_AFTER_SCAN = re.compile(rb"\xff+(?=[\x01-\xcf\xd8-\xfe])")


def _jpeg(read: Read, size_bytes: int) -> Header:
    """What the first frame header says, and the scans behind it."""
    index = 2
    for segments in range(_MOST_SEGMENTS):
        segment = read(index, 10)  # marker, length, and the beginning of a frame header
        if len(segment) < 2:
            raise DamageError("truncated in its header")
        marker = segment[1] if segment[0] == 0xFF else 0
        if marker in _FRAMES:
            width, height, components = _frame(segment[4:])
            once = None if marker in _PROGRESSIVE else components
            scans = _scans(read, index + 2 + _whole(segment[2:], 2), once, _MOST_SEGMENTS - segments)
            return Header("JPEG", width, height, size_bytes, scans)
        if marker in (_SCAN, _END):
            raise DamageError("its header has no size")
        index = _next_segment(read, index, segment, marker)
    raise DamageError("its header does not end")


def _scans(read: Read, index: int, once: int | None, most_segments: int) -> int:
    """The scans behind a frame header, as far as they are there: what is missing, or damaged, a decoder says.

    `once`: a scan of so many components has the whole picture, and decoders look no further than the first such one.
    """
    scans = 0
    for _ in range(most_segments):
        segment = read(index, 5)
        if len(segment) < 5:
            return scans
        marker = segment[1] if segment[0] == 0xFF else 0
        if marker == _SCAN:
            scans += 1
            if scans > MOST_SCANS or (scans == 1 and segment[4] == once):
                return scans
            index = _end_of_scan(read, index + 2 + _whole(segment[2:], 2))
        elif marker == _END:
            return scans
        else:
            index = _next_segment(read, index, segment, marker)
    raise DamageError(f"more than {_MOST_SEGMENTS} segments")


def _next_segment(read: Read, index: int, segment: bytes, marker: int) -> int:
    """The position behind a segment; `marker`: its own, or 0 where none begins there."""
    if marker in (0, 0xFF):
        # The position of the next marker, after bytes that belong to no segment.
        if not (match := re.search(rb"\xff[\x01-\xfe]", read(index, _MOST_JUNK))):
            raise DamageError("truncated in its header")
        return index + match.start()
    return index + (2 if marker in _ALONE else 2 + _whole(segment[2:], 2))


def _end_of_scan(read: Read, index: int) -> int:
    """The position of the marker behind the coded data of a scan, or of the end of the file."""
    while len(data := read(index, _PIECE)) > 1:
        if end := _AFTER_SCAN.search(data):
            return index + end.end() - 1
        index += len(data) - data.endswith(b"\xff")  # whose second byte is in the next piece
    return index + len(data)


def _frame(parameters: bytes) -> tuple[int, int, int]:
    """Width, height, and the number of components: a frame header has bits per sample, height, width, components."""
    if len(parameters) < 6:
        raise DamageError("truncated in its header")
    bits, height, width, components = struct.unpack_from(">BHHB", parameters)
    if bits != 8 or components not in (1, 3, 4):
        raise DamageError(f"{components} colours of {bits} bits; expected 1, 3 or 4 of 8 bits")
    return width, height, components


# ---- PNG ------------------------------------------------------------------------------------------------------------


def _png(start: bytes) -> tuple[int, int]:
    """Width and height in pixels, of the chunk IHDR, which comes first."""
    if len(start) >= 24 and start[12:16] != b"IHDR":
        raise DamageError("its header has no size")
    if (bits := _whole(start[24:], 1)) != 8:
        raise DamageError(f"samples of {bits} bits; expected 8")
    return _whole(start[16:], 4), _whole(start[20:], 4)


def _whole(data: bytes, count: int) -> int:
    """The whole number in the first bytes."""
    if len(data) < count:
        raise DamageError("truncated in its header")
    return int.from_bytes(data[:count], "big")


# ---- other formats named .jpg ---------------------------------------------------------------------------------------

_OTHER_KINDS = {
    "a GIF": rb"GIF8",
    "a BMP": rb"BM",
    "a TIFF": rb"II\*\0|MM\0\*",
    "a WebP": rb"RIFF....WEBP",
    "a JPEG 2000": rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51",
    "a JPEG XL": rb"\0\0\0\x0cJXL |\xff\x0a",
    "a HEIF or AVIF": rb"....ftyp",
    "a web page": rb"\s*<(!doctype |)html",  # what some servers send for a missing picture
}


def _other_kind(start: bytes) -> str:
    """The format of a file that is neither JPEG nor PNG; "" if unknown."""
    kinds = _OTHER_KINDS.items()
    return next((kind for kind, pattern in kinds if re.match(pattern, start, re.DOTALL | re.IGNORECASE)), "")


# Which image files cannot be trained on, and why: one sentence for each. After its header (`header`) the whole image is
# decoded by Pillow, which tolerates what libjpeg does, and rejects garbage, truncated and empty files.


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
        check(of_file(path), smallest)
    except (DamageError, OSError) as error:
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
