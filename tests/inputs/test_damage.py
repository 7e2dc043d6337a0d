import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from resnetx.inputs import folders, jpeg
from tests.inputs.forged import corrupt_png, encoded, jpeg_claiming

SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "garbage": (lambda file: file.write_bytes(os.urandom(5000)), "not an image"),
    "text": (lambda file: file.write_text("not a picture\n" * 100), "not an image"),
    "empty": (lambda file: file.write_bytes(b""), "the file is empty"),
    "truncated": (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), "truncated"),
    "a header of 13000x13000 pixels": (
        lambda file: file.write_bytes(jpeg_claiming(13_000, 13_000)),
        "13000x13000 pixels",
    ),
    "a GIF": (lambda file: file.write_bytes(encoded("GIF")), "not a JPEG but a GIF"),
    "a corrupt PNG": (lambda file: file.write_bytes(corrupt_png()), "broken data stream"),
    "gone": (lambda file: file.unlink(), "no such file or directory"),
}


@pytest.mark.parametrize("spoil, reason", SPOILED.values(), ids=SPOILED)
def test_each_kind_of_damage_is_told_in_a_sentence(spoil, reason: str, tree: Path, victim: Path) -> None:
    assert jpeg.of(victim) is None
    spoil(victim)
    fault = jpeg.of(victim)
    assert fault is not None
    assert fault.startswith(f"{victim}: ")
    assert reason in fault


@pytest.mark.parametrize("spoil, reason", SPOILED.values(), ids=SPOILED)
def test_the_damaged_file_is_found_among_good_ones(spoil, reason: str, tree: Path, victim: Path) -> None:
    listing = folders.read(tree)
    paths = [listing.path(index) for index in range(len(listing.files))]
    assert jpeg.find(paths, smallest=256, limit_s=30) is None
    spoil(victim)
    assert jpeg.find(paths, smallest=256, limit_s=30) == jpeg.of(victim)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_an_unreadable_file_is_damage(victim: Path) -> None:
    victim.chmod(0)
    assert jpeg.of(victim) == f"{victim}: permission denied"


def test_an_image_smaller_than_the_crop_is_damage(victim: Path) -> None:
    Image.new("RGB", (300, 200)).save(victim, "JPEG")
    assert jpeg.of(victim, smallest=200) is None
    assert jpeg.of(victim, smallest=227) == f"{victim}: 300x200 pixels, smaller than the crop of 227x227"


def test_no_time_means_no_answer(tree: Path, victim: Path) -> None:
    victim.write_bytes(b"")
    assert jpeg.find([victim], smallest=1, limit_s=0) is None


def test_odd_but_sound_files_are_no_damage(tmp_path: Path) -> None:
    # ILSVRC2012 has grey images, CMYK images and a PNG named .JPEG
    for mode, kind in (("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "PNG")):
        file = tmp_path / f"{mode}.JPEG"
        Image.new(mode, (40, 40)).save(file, kind)
        assert jpeg.of(file) is None
