"""What a header claims is read from few bytes, and believed only as far as the file can hold it."""

import io
import struct
from pathlib import Path

import pytest
from PIL import Image

from resnetx.inputs import jpeg
from tests.inputs.forged import deep_png, encoded, jpeg_claiming, jpeg_of_scans, png_claiming


def claimed(data: bytes) -> jpeg.Header:
    found = jpeg.of_bytes(memoryview(data))
    jpeg.check(found)
    return found


def segment(marker: int, parameters: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, 2 + len(parameters)) + parameters


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"subsampling": 2, "optimize": True}, {"exif": b"Exif\0\0" + bytes(60_000)}],
    ids=["baseline", "progressive", "subsampled", "long EXIF"],
)
@pytest.mark.parametrize("size", [(1, 1), (640, 480)])
def test_a_jpegs_size_is_what_pillow_finds(options: dict[str, object], size: tuple[int, int]) -> None:
    data = encoded("JPEG", *size, **options)
    found = claimed(data)
    assert (found.kind, found.width, found.height, found.size_bytes) == ("JPEG", *size, len(data))


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_grey_colour_and_cmyk_are_sound(mode: str) -> None:
    buffer = io.BytesIO()
    Image.new(mode, (40, 30)).save(buffer, "JPEG")
    assert (claimed(buffer.getvalue()).width, claimed(buffer.getvalue()).height) == (40, 30)


@pytest.mark.slow
def test_a_flat_picture_takes_more_bytes_than_the_least_that_is_believed() -> None:
    """The smallest files that a coder makes: nothing but one colour, at the lowest quality."""
    for options in ({"optimize": True}, {"progressive": True}):
        buffer = io.BytesIO()
        Image.new("RGB", (8000, 8000), (3, 5, 7)).save(buffer, "JPEG", quality=1, subsampling=2, **options)
        assert claimed(buffer.getvalue()).pixels == 64_000_000


def test_a_pngs_size_is_what_pillow_finds() -> None:
    found = claimed(encoded("PNG", 70, 50))
    assert (found.kind, found.width, found.height) == ("PNG", 70, 50)


def test_what_libjpeg_forgives_before_the_size_is_forgiven() -> None:
    sound = encoded("JPEG", 70, 50)
    for before in (b"\xff\xff\xff", b"\0junk", segment(0xED, bytes(65_000)) * 20, b"\xff\x01"):
        assert claimed(sound[:2] + (b"\xff\xe0\0\2" if before[:1] == b"\0" else b"") + before + sound[2:]).width == 70


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (jpeg_claiming(60_000, 60_000), "the header claims 60000x60000 pixels, more than 2,"),
        (jpeg_claiming(13_000, 13_000), "the header claims 13000x13000 pixels, more than 2,"),
        (jpeg_claiming(3000, 3000, progressive=True), "the header claims 3000x3000 pixels, more than 2,"),
        (jpeg_claiming(0, 64), "the header claims 0x64 pixels"),
        (jpeg_claiming(65_000, 65_000) + bytes(10**7), "65000x65000 pixels; at most 134 million are accepted"),
        (png_claiming(60_000, 60_000), "60000x60000 pixels; at most 134 million are accepted"),
        (encoded("GIF"), "not a JPEG but a GIF"),
        (encoded("WEBP"), "not a JPEG but a WebP"),
        (encoded("BMP"), "not a JPEG but a BMP"),
        (encoded("TIFF"), "not a JPEG but a TIFF"),
        (encoded("JPEG2000"), "not a JPEG but a JPEG 2000"),
        (b"\n<!DOCTYPE html>\n<html>gone", "not a JPEG but a web page"),
        (b"not a picture\n" * 100, "not an image"),
        (encoded("JPEG")[:150], "truncated in its header"),
        (encoded("JPEG")[:3], "truncated in its header"),
        (encoded("PNG")[:20], "truncated in its header"),
        (deep_png(), "samples of 16 bits; expected 8"),
        (b"\xff\xd8" + segment(0xDA, bytes(10)), "its header has no size"),
        (b"\xff\xd8\xff\xd9" + bytes(50), "its header has no size"),
        (b"\xff\xd8" + segment(0xE1, b"") * 5000, "its header does not end"),
        (b"\xff\xd8" + b"\xff\xe0\0\0" * 5000, "its header does not end"),
        (b"\xff\xd8" + segment(0xC1, b"\x0c\0\x40\0\x40\3"), "3 colours of 12 bits; expected 1, 3 or 4 of 8 bits"),
        (b"\xff\xd8" + segment(0xC0, b"\x08\0\x40\0\x40\2"), "2 colours of 8 bits; expected 1, 3 or 4 of 8 bits"),
        (b"\xff\xd8" + segment(0xC0, b"\x08\0\x40"), "truncated in its header"),
    ],
)
def test_what_is_not_to_be_decoded_is_said_in_a_clause(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "it.jpg").write_bytes(data)
    for read in (lambda: jpeg.of_bytes(memoryview(data)), lambda: jpeg.of_file(tmp_path / "it.jpg")):
        with pytest.raises(jpeg.DamageError) as caught:
            jpeg.check(read())
        assert reason in str(caught.value)


FRAME = b"\xff\xd8" + segment(0xC0, b"\x08\0\x40\0\x40\3" + bytes(9))  # of three components, baseline
ALONE, TOGETHER = (segment(0xDA, bytes([count]) + bytes(2 * count + 3)) + b"data\xff\0\xff\xd0" for count in (1, 3))


@pytest.mark.parametrize(
    ("data", "scans"),
    [
        (encoded("JPEG"), 1),
        (encoded("JPEG", progressive=True), 10),
        (encoded("JPEG", 900, 600, progressive=True), 10),  # longer than what is read at once
        (jpeg_of_scans(100), 100),
        (jpeg_of_scans(101), 101),
        (jpeg_of_scans(5000), 101),
        (FRAME + ALONE * 3 + b"\xff\xd9", 3),
        (FRAME + ALONE * 5000, 101),
        (FRAME + TOGETHER + ALONE * 5000, 1),  # which no decoder looks at
        (FRAME, 0),
        (FRAME + ALONE[:12], 1),
        (encoded("JPEG", progressive=True)[:-900], 6),
    ],
)
def test_scans_are_counted_as_far_as_decoders_go(data: bytes, scans: int, tmp_path: Path) -> None:
    (tmp_path / "it.jpg").write_bytes(data)
    assert jpeg.of_bytes(memoryview(data)).scans == jpeg.of_file(tmp_path / "it.jpg").scans == scans


def test_a_marker_may_lie_where_two_pieces_of_a_scan_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded("JPEG", progressive=True)
    for piece in (2, 3, 7, 64):
        monkeypatch.setattr(jpeg, "_PIECE", piece)
        assert jpeg.of_bytes(memoryview(data)).scans == 10


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (jpeg_of_scans(5000), "more than 100 scans, each of which decodes the whole picture again; coders write 10"),
        (FRAME + ALONE * 101, "more than 100 scans"),
        (FRAME + segment(0xC4, b"") * 5000, "more than 4096 segments"),
        (FRAME + ALONE + segment(0xDD, b"\0\1") * 5000, "more than 4096 segments"),
    ],
)
def test_what_takes_long_to_decode_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(jpeg.DamageError, match=reason):
        claimed(data)


def test_a_hundred_scans_are_read() -> None:
    assert claimed(jpeg_of_scans(100)).scans == 100


def test_what_no_memory_should_hold_is_refused() -> None:
    with pytest.raises(jpeg.DamageError, match="500 MB; at most 403 MB are accepted"):
        jpeg.check(jpeg.Header("PNG", 100, 100, 500_000_000))


def test_few_bytes_of_a_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "it.jpg"
    file.write_bytes(encoded("JPEG", 500, 400, exif=b"Exif\0\0" + bytes(60_000)))
    counted: list[int] = []
    read = jpeg.os.pread

    def counting(handle: int, count: int, begin: int) -> bytes:
        counted.append(len(found := read(handle, count, begin)))
        return found

    monkeypatch.setattr(jpeg.os, "pread", counting)
    assert jpeg.of_file(file).width == 500
    assert sum(counted) < 200


def test_no_bytes_make_it_do_anything_but_refuse() -> None:
    """Each byte of a header, changed to each of some values."""
    sound = encoded("JPEG")[:700]
    for place in range(len(sound)):
        for value in (0x00, 0x01, 0xC0, 0xC4, 0xD8, 0xDA, 0xFF):
            data = sound[:place] + bytes([value]) + sound[place + 1 :]
            try:
                found = jpeg.of_bytes(memoryview(data))
            except jpeg.DamageError:
                continue
            assert 0 <= found.width < 2**16
