import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from resnetx.errors import ConfigError
from resnetx.inputs import image_tree
from tests.inputs.forged import encoded, jpeg_claiming, jpeg_of_scans
from tests.patience import until


def digests(root: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(root.rglob("*.JPEG"))}


def half_files(root: Path) -> list[Path]:
    return list(root.rglob("*.part"))


@pytest.mark.slow
def test_the_tree_is_laid_out_as_ilsvrc2012_is(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir() if path.is_dir()) == ["n00000000", "n00000001", "n00000002"]
    assert [path.name for path in sorted((made / "n00000001").iterdir())] == [
        f"n00000001_0000{index}.JPEG" for index in range(4)
    ]
    for path in made.rglob("*.JPEG"):
        with Image.open(path) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (256, 256))


@pytest.mark.slow
def test_the_files_do_not_depend_on_the_number_of_processes(made: Path, tmp_path: Path) -> None:
    image_tree.make(tmp_path / "two", classes=3, per_class=4, size="256", seed=0, workers=2)
    assert digests(tmp_path / "two") == digests(made)


@pytest.mark.slow
def test_another_seed_makes_other_files(made: Path, tmp_path: Path) -> None:
    image_tree.make(tmp_path / "other", classes=3, per_class=4, size="256", seed=1, workers=1)
    assert not set(digests(tmp_path / "other").values()) & set(digests(made).values())


def test_a_second_run_keeps_what_is_there_and_makes_what_is_missing(tree: Path, victim: Path) -> None:
    before = digests(tree)
    kept = {path: path.stat().st_mtime_ns for path in tree.rglob("*.JPEG") if path != victim}
    for spoil in (victim.unlink, lambda: victim.write_bytes(b"")):
        spoil()
        made = image_tree.make(tree, classes=3, per_class=4, size="256", seed=0, workers=1)
        assert (made.images, made.kept) == (12, 11)
    assert digests(tree) == before
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


@pytest.mark.slow
def test_a_tree_can_grow(tree: Path) -> None:
    before = digests(tree)
    made = image_tree.make(tree, classes=4, per_class=5, size="256", seed=0, workers=1)
    assert (made.images, made.kept) == (20, 12)
    assert before.items() < digests(tree).items()


@pytest.mark.slow
def test_progress_counts_every_image_once(tmp_path: Path) -> None:
    steps: list[int] = []
    image_tree.make(tmp_path / "new", classes=2, per_class=18, size="256", seed=0, workers=1, progress=steps.append)
    assert sum(steps) == 36
    assert len(steps) > 2
    steps.clear()
    image_tree.verify(tmp_path / "new", workers=1, progress=steps.append)
    assert sum(steps) == 36


def test_the_report_is_the_distribution_of_the_files(made: Path, tree: Path) -> None:
    report = image_tree.make(tree, classes=3, per_class=4, size="256", seed=0, workers=1)
    sizes = [path.stat().st_size for path in made.rglob("*.JPEG")]
    assert report.size_bytes.mean == pytest.approx(np.mean(sizes))
    assert report.size_bytes.p50 == pytest.approx(np.median(sizes))
    assert report.size_bytes.p5 < report.size_bytes.p50 < report.size_bytes.p95
    assert (report.width.mean, report.height.p95) == (256, 256)


@pytest.mark.slow
def test_wanted_sizes_follow_imagenet() -> None:
    shapes = [image_tree._imagenet(np.random.default_rng(index)) for index in range(20_000)]
    assert np.mean([shape.width for shape in shapes]) == pytest.approx(400, rel=0.02)
    assert np.mean([shape.height for shape in shapes]) == pytest.approx(350, rel=0.02)
    assert np.mean([shape.size_bytes for shape in shapes]) == pytest.approx(112e3, rel=0.03)
    assert np.mean([(shape.width, shape.height) == (500, 375) for shape in shapes]) == pytest.approx(0.26, abs=0.02)


@pytest.mark.slow
def test_files_reach_the_wanted_bytes_unless_the_best_quality_is_too_small() -> None:
    for index in range(8):
        shape = image_tree._imagenet(np.random.default_rng([9, index]))
        image = image_tree._picture(9, 0, index, shape)
        size, best = (
            len(image_tree._jpeg(image, shape.size_bytes)),
            len(image_tree._encode(image, image_tree._QUALITIES[-1])),
        )
        # the next lower quality would have been too small, and qualities lie at most a third apart in bytes
        assert min(shape.size_bytes, best) <= size <= 1.5 * shape.size_bytes


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"classes": 0}, r"images\.classes=0: expected at least 1"),
        ({"per_class": 0}, r"images\.per_class=0: expected at least 1"),
        ({"seed": -1}, r"images\.seed=-1: expected at least 0"),
        ({"workers": 0}, r"images\.workers=0: expected at least 1"),
        ({"size": "huge"}, r"images\.size=huge: no size of images has that name.*Known: 256, imagenet"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_written(change, sentence: str, tmp_path: Path) -> None:
    settings = {"classes": 1, "per_class": 1, "size": "256", "seed": 0, "workers": 1} | change
    with pytest.raises(ConfigError, match=sentence):
        image_tree.make(tmp_path / "new", **settings)
    assert list(tmp_path.iterdir()) == []


def test_other_peoples_folders_and_other_pictures_are_left_alone(tree: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "ilsvrc"
    (foreign / "n01440764").mkdir(parents=True)
    with pytest.raises(ConfigError, match="ilsvrc has files that `resnetx images` did not make"):
        image_tree.make(foreign, classes=1, per_class=1, size="256", seed=0, workers=1)
    with pytest.raises(ConfigError, match=r"holds images of images\.size=256 images\.seed=0, .* were requested"):
        image_tree.make(tree, classes=1, per_class=1, size="imagenet", seed=0, workers=1)


@pytest.mark.slow
def test_verify_names_every_damaged_file_and_empty_folder(tree: Path) -> None:
    assert image_tree.verify(tree, workers=1) == []
    first = tree / "n00000000" / "n00000000_00000.JPEG"
    first.write_bytes(b"")
    last = tree / "n00000002" / "n00000002_00003.JPEG"
    last.write_bytes(last.read_bytes()[:3000])
    (tree / "n00000009").mkdir()
    for workers in (1, 2):
        faults = image_tree.verify(tree, workers=workers)
        assert [fault.split(":")[0] for fault in faults] == [str(first), str(last), str(tree / "n00000009")]


@pytest.mark.slow
def test_verify_names_what_is_called_jpg_and_is_none_and_headers_that_claim_too_much(tree: Path, victim: Path) -> None:
    forged = tree / "n00000000" / "forged.jpg"
    forged.write_bytes(jpeg_claiming(13_000, 13_000))
    victim.write_bytes(encoded("GIF"))
    first, second = image_tree.verify(tree, workers=1)
    assert first.startswith(f"{forged}: the header claims 13000x13000 pixels, more than ")
    assert second == f"{victim}: not a JPEG but a GIF"


@pytest.mark.slow
def test_verify_names_a_progressive_file_that_would_take_minutes(tree: Path, victim: Path) -> None:
    victim.write_bytes(jpeg_of_scans(5000))
    assert image_tree.verify(tree, workers=1) == [
        f"{victim}: more than 100 scans, each of which decodes the whole picture again; coders write 10"
    ]


def _verify_or_die(paths: list[Path]) -> tuple[int, list[str]]:
    """A decoder that crashes on some files."""
    if any(path.read_bytes() == b"crash" for path in paths):
        os.kill(os.getpid(), signal.SIGSEGV)
    return image_tree._verify_some(paths)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_verify_names_the_files_that_crash_their_decoder(tree: Path, victim: Path, workers: int, monkeypatch) -> None:
    other, damaged = tree / "n00000000" / "n00000000_00001.JPEG", tree / "n00000002" / "n00000002_00003.JPEG"
    for file, content in ((victim, b"crash"), (other, b"crash"), (damaged, b"")):
        file.write_bytes(content)
    monkeypatch.setattr(image_tree, "_verify_some", _verify_or_die)
    steps: list[int] = []
    faults = image_tree.verify(tree, workers=workers, progress=steps.append)
    assert [fault.partition(": ")[0] for fault in faults] == list(map(str, (other, victim, damaged)))
    assert faults[1] == f"{victim}: decoding it ends the process (it crashes the decoder, or there is no memory left)"
    assert sum(steps) == 12


def test_verify_refuses_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        image_tree.verify(tmp_path / "missing")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_ends_in_a_sentence_and_leaves_no_half_file(small_disk: Path, workers: int) -> None:
    root = small_disk / "images"
    with pytest.raises(ConfigError, match=r"images: the disk is full .*what is complete is kept"):
        image_tree.make(root, classes=1, per_class=64, size="256", seed=0, workers=workers)
    assert list(root.rglob("*.JPEG"))
    assert image_tree.verify(root, workers=1) == []
    assert half_files(root) == []


_MAKE_MANY = """
import sys
from pathlib import Path
from resnetx.inputs import image_tree as images
if __name__ == "__main__":
    images.make(Path(sys.argv[1]), classes=2, per_class=2000, size="256", seed=0, workers=2)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the workers of a killed process")
def test_a_killed_run_leaves_whole_files_and_no_process_and_can_go_on(tmp_path: Path) -> None:
    script, root = tmp_path / "make_many.py", tmp_path / "images"
    script.write_text(_MAKE_MANY)
    process = subprocess.Popen([sys.executable, script, root])
    until(lambda: len(list(root.rglob("*.JPEG"))) >= 20, "the making of 20 images")
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not any(_runs(int(worker)) for worker in workers), "the end of the workers")
    assert image_tree.verify(root, workers=1) == []
    before = digests(root)
    made = image_tree.make(root, classes=2, per_class=12, size="256", seed=0, workers=1)
    assert made.kept == sum(int(name[10:15]) < 12 for name in before) > 0
    assert before.items() <= digests(root).items()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_what_a_kill_left_behind_is_overwritten(tree: Path, victim: Path) -> None:
    part = victim.with_name(f".{victim.name}.part")
    victim.rename(part)
    part.write_bytes(b"half")
    image_tree.make(tree, classes=3, per_class=4, size="256", seed=0, workers=1)
    assert half_files(tree) == []
    assert image_tree.verify(tree, workers=1) == []
