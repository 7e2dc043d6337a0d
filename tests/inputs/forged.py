"""Image files that claim what they do not hold, made of sound ones."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def encoded(kind: str, width: int = 64, height: int = 64, **options: Any) -> bytes:
    """A small noisy picture as a file of that kind."""
    buffer = io.BytesIO()
    Image.effect_noise((width, height), 40).convert("RGB").save(buffer, kind, **options)
    return buffer.getvalue()


def jpeg_claiming(width: int, height: int, **options: Any) -> bytes:
    """A JPEG file of some KB whose header claims that many pixels."""
    data = bytearray(encoded("JPEG", **options))
    place = 2
    while data[place + 1] not in (0xC0, 0xC2):
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    data[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def jpeg_of_scans(count: int) -> bytes:
    """A sound progressive JPEG file of 16x16 pixels with so many scans, at least ten: the last one comes again."""
    data = encoded("JPEG", 16, 16, progressive=True)
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * (count - data.count(b"\xff\xda")) + data[-2:]


def png_claiming(width: int, height: int) -> bytes:
    """A PNG file of some KB whose header, with a true checksum, claims that many pixels."""
    data = bytearray(encoded("PNG"))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)


def deep_png() -> bytes:
    """A sound PNG file of 256x256 pixels whose samples have 16 bits."""
    buffer = io.BytesIO()
    Image.effect_noise((256, 256), 40).convert("I").point(lambda value: value * 200).convert("I;16").save(buffer, "PNG")
    return buffer.getvalue()


def corrupt_png() -> bytes:
    """A PNG file that is damaged in its picture data: its header is sound."""
    data = bytearray(encoded("PNG", 256, 256))
    for place in range(200, len(data) - 20, 97):
        data[place] ^= 0x55
    return bytes(data)
