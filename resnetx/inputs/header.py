"""What an image file claims before any pixel is decoded: its kind and its size, from the few bytes of its header.

    header.check(header.of_file(path))      # raises `DamageError` if the file must not be decoded

A decoder allocates what a header claims, however few bytes follow: so the claim is checked first, both in training and
by `resnetx images --verify`. Two formats are accepted: JPEG, and PNG, of which ILSVRC2012 has one
(n02105855_2933.JPEG).

References: ITU-T T.81 (JPEG), annex B; W3C, Portable Network Graphics (third edition), section 11.2.1.
"""

import os
import re
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Largest image: 100 million pixels as of the largest cameras, 400 MB when decoded. ILSVRC2012's images have 140,000
# on average (`images`).
MOST_PIXELS = 2**27
# A JPEG file spends at least one bit on each block of 8x8 pixels, the shortest Huffman code. (Arithmetic coding
# could use less, but is hardly ever used.)
MOST_PIXELS_PER_BYTE = 8 * 8 * 8

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

    @property
    def pixels(self) -> int:
        return self.width * self.height


def of_file(path: Path) -> Header:
    """The header of a file, of which some hundred bytes are read: `DamageError` where it has none, or an `OSError`."""
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
    if min(header.width, header.height) < smallest:
        raise DamageError(f"{claim}, smaller than the crop of {smallest}x{smallest}")


_START = 32  # bytes that identify every format, and contain the size of a PNG


def _header(read: Read, size_bytes: int) -> Header:
    start = read(0, _START)
    if not start:
        raise DamageError("the file is empty")
    if start.startswith(b"\xff\xd8\xff"):
        return Header("JPEG", *_jpeg(read), size_bytes)
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return Header("PNG", *_png(start), size_bytes)
    raise DamageError(f"not a JPEG but {kind}" if (kind := _other_kind(start)) else "not an image")


# ---- JPEG -----------------------------------------------------------------------------------------------------------

_ALONE = {0x01, *range(0xD0, 0xD9)}  # TEM, RSTn and SOI have no parameters
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # SOFn: without DHT, JPG and DAC
_SCAN, _END = 0xDA, 0xD9
_MOST_SEGMENTS = 4096  # of at most 64 KiB: profiles and previews take some hundreds
_MOST_JUNK = 2**16  # bytes between segments, which libjpeg tolerates


def _jpeg(read: Read) -> tuple[int, int]:
    """Width and height in pixels, of the first frame header."""
    place = 2
    for _ in range(_MOST_SEGMENTS):
        segment = read(place, 10)  # marker, length, and the beginning of a frame header
        if len(segment) < 2:
            raise DamageError("truncated in its header")
        marker = segment[1] if segment[0] == 0xFF else 0
        if marker in _FRAMES:
            return _frame(segment[4:])
        if marker in (_SCAN, _END):
            raise DamageError("its header has no size")
        if marker in (0, 0xFF):
            place = _next_marker(read, place)
        else:
            place += 2 if marker in _ALONE else 2 + _whole(segment[2:], 2)
    raise DamageError("its header does not end")


def _next_marker(read: Read, place: int) -> int:
    """The position of the next marker, after bytes that belong to no segment."""
    if not (found := re.search(rb"\xff[\x01-\xfe]", read(place, _MOST_JUNK))):
        raise DamageError("truncated in its header")
    return place + found.start()


def _frame(parameters: bytes) -> tuple[int, int]:
    """Width and height: a frame header has bits per sample, height, width, components."""
    if len(parameters) < 6:
        raise DamageError("truncated in its header")
    bits, height, width, components = struct.unpack_from(">BHHB", parameters)
    if bits != 8 or components not in (1, 3, 4):
        raise DamageError(f"{components} colours of {bits} bits; expected 1, 3 or 4 of 8 bits")
    return width, height


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
