"""The contract that all pipelines keep, on real files, and the checks before a run."""

import importlib.util
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.dlpack import from_dlpack

from resnetx import inputs, record
from resnetx.choices import DaliInput, Input, SyntheticInput, TorchvisionInput, image_sample
from resnetx.errors import ConfigError
from resnetx.inputs import jpeg
from tests.inputs.forged import corrupt_png, deep_png, encoded, jpeg_claiming, png_claiming
from tests.patience import until

pytestmark = pytest.mark.slow  # real pipelines

CPU = torch.device("cpu")


def input_of(kind: str, root: Path, recipe: str = "imagenet", prefetch: int = 1) -> Input:
    settings = {"root": str(root), "format": "folders", "recipe": recipe, "threads": 1, "prefetch": prefetch}
    if kind == "dali":
        return DaliInput(decoder="auto", **settings)
    return TorchvisionInput(**settings) if kind == "torchvision" else SyntheticInput()


def open_cpu(
    input: Input,
    batch_size: int = 4,
    image_size: int = 64,
    rank: int = 0,
    ranks: int = 1,
    seed: int = 0,
    channels_last: bool = True,
    classes: int = 12,
):
    return inputs.open_input(
        input,
        inputs.Share(
            batch_size=batch_size,
            sample=image_sample(image_size),
            classes=classes,
            rank=rank,
            world_size=ranks,
            device=CPU,
            seed=seed,
            channels_last=channels_last,
        ),
    )


REAL = [pytest.param("dali", marks=pytest.mark.dali), "torchvision"]
ALL = [*REAL, "synthetic"]


@pytest.fixture
def one_each(made: Path, tmp_path: Path) -> Path:
    """12 classes of one image: the label tells which image it is."""
    for number, path in enumerate(sorted(made.rglob("*.JPEG"))):
        (tmp_path / "one_each" / f"class {number:02d}").mkdir(parents=True)
        shutil.copy(path, tmp_path / "one_each" / f"class {number:02d}" / "the image.jpg")
    return tmp_path / "one_each"


def labels_of(kind: str, root: Path, batches: int, **share) -> list[int]:
    opened = open_cpu(input_of(kind, root), **share)
    labels = [label for _ in range(batches) for label in next(opened)[1].tolist()]
    opened.close()
    return labels


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_batches_are_float_channels_last_images_and_int64_labels(kind: str, made: Path) -> None:
    opened = open_cpu(input_of(kind, made))
    images, labels = next(opened)
    assert (images.shape, images.dtype, images.device.type) == ((4, 3, 64, 64), torch.float32, "cpu")
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert (labels.shape, labels.dtype, labels.device.type) == ((4,), torch.int64, "cpu")
    assert all(0 <= label < 12 for label in labels.tolist())
    opened.close()


@pytest.mark.dali
def test_dali_makes_images_of_fp16_for_a_step_that_rounds_them_so(made: Path, request_of) -> None:
    settings = {"input": "dali", "input.root": str(made), "input.threads": 1, "batch_size": 4, "image_size": 64}
    whole, half, both = (
        next(inputs.open_for(request_of(settings, **more), 0, CPU))[0]
        for more in ({}, {"precision": "fp16"}, {"precision": "fp16", "measure": "equality"})
    )
    assert half.dtype == torch.float16 and half.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(half, whole.half())
    assert both.dtype == torch.float32  # verify computes in other precisions, too


@pytest.mark.dali
@pytest.mark.parametrize("recipe", ["paper", "imagenet"])
@pytest.mark.parametrize("channels_last", [True, False])
def test_bf16_images_of_dali_are_its_fp32_images_rounded_once(
    recipe: str, channels_last: bool, made: Path, request_of, monkeypatch
) -> None:
    settings = {"input": "dali", "input.root": str(made), "input.threads": 1, "input.recipe": recipe}
    settings |= {"batch_size": 4, "image_size": 64, "channels_last": channels_last}
    dali, handed_out = pytest.importorskip("resnetx.inputs.dali"), []
    monkeypatch.setattr(dali, "from_dlpack", lambda given: handed_out.append(from_dlpack(given)) or handed_out[-1])
    opened = [inputs.open_for(request_of(settings, **more), 0, CPU) for more in ({}, {"precision": "bf16"})]
    for _ in range(2):
        (whole, labels), (half, same_labels) = map(next, opened)
        assert half.dtype == torch.bfloat16
        assert half.is_contiguous(memory_format=inputs.memory_format(channels_last))
        assert torch.equal(labels, same_labels)
        # The last bit of fp32 decides a tie in a few of a million.
        differ = half != whole.bfloat16()
        assert differ.float().mean() < 1e-4
        assert torch.allclose(half.float(), whole, rtol=2**-8)
    assert [each.dtype for each in handed_out[2::4]] == [torch.uint8] * 2  # a byte leaves DALI


@pytest.mark.parametrize("kind", ALL)
def test_images_may_lie_in_memory_as_nchw_and_show_the_same(kind: str, made: Path) -> None:
    last, first = open_cpu(input_of(kind, made)), open_cpu(input_of(kind, made), channels_last=False)
    for _ in range(2):
        (images, labels), (same, same_labels) = next(last), next(first)
        assert same.is_contiguous()
        assert torch.equal(labels, same_labels)
        if kind != "torchvision":  # whose workers draw crops anew
            assert torch.equal(images, same)
    last.close()
    first.close()


@pytest.mark.parametrize("kind", ALL)
def test_a_batch_stays_as_it_was_while_others_are_made(kind: str, made: Path) -> None:
    opened = open_cpu(input_of(kind, made))
    images, labels = next(opened)
    before = images.clone(), labels.clone()
    for _ in range(8):
        next(opened)
    assert torch.equal(images, before[0])
    assert torch.equal(labels, before[1])
    opened.close()


@pytest.mark.parametrize("kind", REAL)
def test_every_pass_shows_every_image_once_in_another_order(kind: str, one_each: Path) -> None:
    labels = labels_of(kind, one_each, batches=9)
    passes = [labels[first : first + 12] for first in (0, 12, 24)]
    assert [sorted(some) for some in passes] == [list(range(12))] * 3
    assert len({tuple(some) for some in [*passes, range(12)]}) == 4


@pytest.mark.parametrize("kind", REAL)
def test_batches_go_on_over_the_end_of_a_pass_that_they_do_not_divide(kind: str, one_each: Path) -> None:
    labels = labels_of(kind, one_each, batches=12, batch_size=5)
    assert [sorted(labels[first : first + 12]) for first in range(0, 60, 12)] == [list(range(12))] * 5


@pytest.mark.parametrize("kind", REAL)
def test_ranks_share_the_images_of_a_pass(kind: str, one_each: Path) -> None:
    first, second, third = (labels_of(kind, one_each, batches=2, batch_size=2, rank=rank, ranks=3) for rank in range(3))
    assert sorted(first + second + third) == list(range(12))


@pytest.mark.dali
@pytest.mark.slow
def test_eight_ranks_of_dali_show_each_image_once_in_a_pass_and_share_it_out_anew_in_the_next(made, tmp_path):
    """37 images, of which five ranks have one more than the others, in batches of 3, which no pass divides into."""
    images, ranks = 37, range(8)
    for number in range(images):
        (tmp_path / f"class {number:02d}").mkdir()
        shutil.copy(next(made.rglob("*.JPEG")), tmp_path / f"class {number:02d}" / "image.jpg")
    seen = [labels_of("dali", tmp_path, batches=4, batch_size=3, rank=rank, ranks=8) for rank in ranks]
    shares = [len(range(rank, images, len(ranks))) for rank in ranks]
    passes = [[seen[rank][n * shares[rank] : (n + 1) * shares[rank]] for rank in ranks] for n in (0, 1)]
    assert [sorted(chain(*every)) for every in passes] == [list(range(images))] * 2
    assert all({*first} != {*second} for first, second in zip(*passes, strict=True))


@pytest.mark.parametrize("kind", ALL)
def test_the_seed_decides_and_ranks_differ(kind: str, made: Path) -> None:
    def images(**share) -> torch.Tensor:
        opened = open_cpu(input_of(kind, made), **share)
        two = torch.cat([next(opened)[0], next(opened)[0]])
        opened.close()
        return two

    first = images(seed=1)
    assert torch.equal(images(seed=1), first)
    assert not torch.equal(images(seed=2), first)
    assert not torch.equal(images(seed=1, rank=1, ranks=2), images(seed=1, rank=0, ranks=2))


@pytest.mark.parametrize("kind", ALL)
def test_the_state_fills_the_record(kind: str, made: Path) -> None:
    opened = open_cpu(input_of(kind, made))
    state = {**opened.state(), "reads_bytes": 0}
    opened.close()
    known = {key: value for key, value in state.items() if not isinstance(value, record.Unknown)}
    assert set(state) == set(record.InputState.__struct_fields__)
    if kind == "synthetic":
        assert known == {"encoded": False, "reads_bytes": 0}
    else:
        assert (known["images"], known["classes"], known["encoded"], known["decoder"]) == (12, 3, True, "cpu")
        assert 0 <= known.get("page_cache_share", 0) <= 1


def threads_and_children() -> int:
    threads = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Threads:"))
    return int(threads.split()[1]) + len(multiprocessing.active_children())


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("damaged", [False, True])
def test_closing_ends_threads_and_processes(kind: str, damaged: bool, tree: Path, victim: Path) -> None:
    once = open_cpu(input_of(kind, tree))  # what the libraries start once and keep
    next(once)
    once.close()
    before = threads_and_children()
    opened = open_cpu(input_of(kind, tree, recipe="paper"))
    if damaged:
        victim.write_bytes(b"")
        with pytest.raises(ConfigError):
            for _ in range(4):
                next(opened)
    else:
        next(opened)
        assert threads_and_children() > before
    opened.close()
    # The thread that feeds a worker ends a moment after it.
    until(lambda: threads_and_children() <= before, "the end of all threads and workers")


@pytest.mark.dali
def test_dali_is_fed_by_another_thread_than_the_one_that_launches_steps(made: Path, monkeypatch) -> None:
    from resnetx.inputs import dali

    threads: set[int] = set()
    paths = dali._paths

    def noted(root: bytes, names):
        threads.add(threading.get_ident())
        return paths(root, names)

    monkeypatch.setattr(dali, "_paths", noted)
    labels_of("dali", made, batches=3)
    assert len(threads - {threading.get_ident()}) == len(threads) == 1


@pytest.mark.dali
def test_dali_reads_files_whose_names_are_of_any_length_and_of_any_bytes(one_each: Path) -> None:
    for number, path in enumerate(sorted(one_each.rglob("*.jpg"))):
        path.rename(path.with_name(f"{os.fsdecode(bytes([0xC3, 0xA4, 0xFF]))}  {'x' * number}.jpg"))
    assert sorted(labels_of("dali", one_each, batches=3)) == list(range(12))


# ---- the recipes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REAL)
def test_the_paper_recipe_crops_flips_and_subtracts_the_mean(kind: str, one_each: Path) -> None:
    """A crop as large as the image leaves nothing to chance but the flip: compare with Pillow's pixels."""
    opened = open_cpu(input_of(kind, one_each, recipe="paper"), batch_size=12, image_size=256)
    flipped = []
    for image, label in zip(*next(opened), strict=True):
        with Image.open(one_each / f"class {label:02d}" / "the image.jpg") as stored:
            pixels = torch.tensor(list(stored.tobytes()), dtype=torch.float32).view(256, 256, 3).permute(2, 0, 1)
        expected = pixels - torch.tensor([123.0, 117.0, 104.0]).view(3, 1, 1)
        distances = [(image - candidate).abs().mean().item() for candidate in (expected, expected.flip(2))]
        assert min(distances) < 1 < max(distances)
        flipped.append(distances[1] < distances[0])
    assert set(flipped) == {False, True}
    opened.close()


@pytest.mark.parametrize("kind", REAL)
def test_the_paper_recipe_takes_crops_from_anywhere(kind: str, tmp_path: Path) -> None:
    """A picture whose red grows to the right and whose green grows downwards tells where a crop was."""
    (tmp_path / "a").mkdir()
    ramp = Image.linear_gradient("L")
    picture = Image.merge("RGB", (ramp.transpose(Image.Transpose.ROTATE_90), ramp, Image.new("L", (256, 256))))
    for number in range(16):
        picture.save(tmp_path / "a" / f"{number}.jpg", quality=98, subsampling=0)
    opened = open_cpu(input_of(kind, tmp_path, recipe="paper"), batch_size=16, image_size=128)
    images, _ = next(opened)
    left, top = images[:, 0].mean((1, 2)) + 123, images[:, 1].mean((1, 2)) + 117
    for place in (left, top):
        assert place.min() < 100 < 155 < place.max()
        assert place.min() > 60
        assert place.max() < 195
    opened.close()


@pytest.mark.parametrize("kind", REAL)
def test_the_imagenet_recipe_normalises_and_resizes_crops_of_any_shape(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number, size in enumerate([(500, 375), (40, 60), (64, 64), (333, 500)]):
        Image.new("RGB", size, (200, 100, 50)).save(tmp_path / "a" / f"{number}.jpg", quality=98, subsampling=0)
    opened = open_cpu(input_of(kind, tmp_path))
    images, _ = next(opened)
    expected = (torch.tensor([200.0, 100.0, 50.0]) - torch.tensor([123.675, 116.28, 103.53])) / torch.tensor(
        [58.395, 57.12, 57.375]
    )
    assert torch.allclose(images, expected.view(1, 3, 1, 1).expand_as(images), atol=0.05)
    opened.close()


@pytest.mark.parametrize("kind", REAL)
def test_grey_cmyk_progressive_and_png_files_are_images_too(kind: str, made: Path, tmp_path: Path) -> None:
    """ILSVRC2012 has grey and CMYK files and a PNG named .JPEG."""
    (tmp_path / "a").mkdir()
    with Image.open(next(made.rglob("*.JPEG"))) as image:
        image.convert("L").save(tmp_path / "a" / "grey.JPEG", "JPEG")
        image.convert("CMYK").save(tmp_path / "a" / "cmyk.JPEG", "JPEG")
        image.save(tmp_path / "a" / "progressive.JPEG", "JPEG", progressive=True)
        image.save(tmp_path / "a" / "png.JPEG", "PNG")
    opened = open_cpu(input_of(kind, tmp_path, recipe="paper"), image_size=224)
    assert torch.isfinite(next(opened)[0]).all()
    opened.close()


# ---- damaged files --------------------------------------------------------------------------------------------------

SPOILED = {
    "garbage": (lambda file: file.write_bytes(bytes(range(256)) * 40), "not an image"),
    "text": (lambda file: file.write_text("not a picture\n" * 100), "not an image"),
    "empty": (lambda file: file.write_bytes(b""), "the file is empty"),
    "truncated": (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 4]), "truncated"),
    "cut in its header": (lambda file: file.write_bytes(file.read_bytes()[:200]), ""),
    "gone": (lambda file: file.unlink(), "no such file or directory"),
    "a header of 13000x13000 pixels": (
        lambda file: file.write_bytes(jpeg_claiming(13_000, 13_000)),
        "the header claims 13000x13000 pixels, more than 2,",
    ),
    "a progressive one": (
        lambda file: file.write_bytes(jpeg_claiming(60_000, 60_000, progressive=True)),
        "the header claims 60000x60000 pixels, more than 2,",
    ),
    "a PNG of 60000x60000 pixels": (
        lambda file: file.write_bytes(png_claiming(60_000, 60_000)),
        "60000x60000 pixels; at most 134 million are accepted",
    ),
    "a GIF": (lambda file: file.write_bytes(encoded("GIF", 256, 256)), "not a JPEG but a GIF"),
    "a WebP": (lambda file: file.write_bytes(encoded("WEBP", 256, 256)), "not a JPEG but a WebP"),
    "a BMP": (lambda file: file.write_bytes(encoded("BMP", 256, 256)), "not a JPEG but a BMP"),
    "a JPEG 2000": (lambda file: file.write_bytes(encoded("JPEG2000", 256, 256)), "not a JPEG but a JPEG 2000"),
    "its codestream": (
        lambda file: file.write_bytes(encoded("JPEG2000", 256, 256, no_jp2=True)),
        "not a JPEG but a JPEG 2000",
    ),
    "a PNG of 16 bits": (lambda file: file.write_bytes(deep_png()), "samples of 16 bits; expected 8"),
    "a corrupt PNG": (lambda file: file.write_bytes(corrupt_png()), "broken data stream"),
    "a truncated PNG": (lambda file: file.write_bytes(encoded("PNG", 256, 256)[:9000]), "truncated"),
    "too small": (lambda file: Image.new("RGB", (100, 90)).save(file, "JPEG"), "100x90 pixels, smaller than the crop"),
}


@pytest.mark.parametrize("spoil, reason", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("kind", REAL)
def test_a_damaged_file_stops_the_batches_with_its_name(
    kind: str, spoil, reason: str, tree: Path, victim: Path
) -> None:
    opened = open_cpu(input_of(kind, tree, recipe="paper"), image_size=224)
    spoil(victim)
    with pytest.raises(ConfigError) as caught:
        for _ in range(4):
            next(opened)
    opened.close()
    sentence = str(caught.value)
    assert sentence.startswith(f"{victim}: ")
    assert reason in sentence
    assert f"`resnetx images --verify {tree}` checks every file" in sentence
    assert "\n" not in sentence


@pytest.mark.dali
def test_a_file_that_only_dali_refuses_is_found_by_giving_it_one_after_the_other(tree: Path, victim: Path) -> None:
    sound = victim.read_bytes()
    victim.write_bytes(sound[:20] + b"junk" + sound[20:])  # behind its first segment, where libjpeg forgives it
    assert jpeg.of(victim) is None
    opened = open_cpu(input_of("dali", tree))
    with pytest.raises(ConfigError, match=r"n00000001_00002\.JPEG: DALI cannot decode it; repair or delete it"):
        for _ in range(4):
            next(opened)
    opened.close()


def test_a_worker_that_dies_names_the_image_that_it_decoded(tree: Path, victim: Path, monkeypatch) -> None:
    """As torchvision 0.29's own decoder of PNG files ends its process on a damaged one, and that of 0.22 does not."""
    from resnetx.inputs import torchvision as torchvision_batches  # which loads torchvision: seconds

    decoded = torchvision_batches._decoded

    def fatal(path: Path, smallest: int) -> torch.Tensor:
        if path == victim:
            os.kill(os.getpid(), signal.SIGSEGV)
        return decoded(path, smallest)

    monkeypatch.setattr(torchvision_batches, "_decoded", fatal)
    opened = open_cpu(input_of("torchvision", tree))
    with pytest.raises(ConfigError) as caught:
        for _ in range(4):
            next(opened)
    opened.close()
    assert str(caught.value).startswith(f"{victim}: a process died decoding it (DataLoader worker")
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL  # nor can it interrupt a step of training


@pytest.mark.dali
def test_a_damaged_file_that_is_not_found_in_time_still_ends_in_a_sentence(
    tree: Path, victim: Path, monkeypatch
) -> None:
    monkeypatch.setattr("resnetx.inputs.dali._PROBE_LIMIT_S", 0.0)
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 4])  # its header is sound
    opened = open_cpu(input_of("dali", tree))
    with pytest.raises(ConfigError, match=r"tree: DALI fails on one of \d+ images, .*resnetx images --verify"):
        for _ in range(4):
            next(opened)
    opened.close()


@pytest.mark.dali
def test_a_failure_of_dali_that_no_file_explains_stays_what_it_is(tree: Path, monkeypatch) -> None:
    opened = open_cpu(input_of("dali", tree))

    def outputs(stream: object) -> None:
        raise RuntimeError("CUDA allocation failed")

    monkeypatch.setattr(opened._pipeline, "outputs", outputs)
    with pytest.raises(RuntimeError, match="CUDA allocation failed"):
        next(opened)
    opened.close()


# ---- checks before a run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
def test_a_sound_tree_passes_the_check(kind: str, made: Path) -> None:
    inputs.check(input_of(kind, made), batch_size=12, gpus=3, sample=image_sample(224), classes=3)


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"classes": 2}, r"3 class folders, but model\.classes=2; use model\.classes=3"),
        ({"batch_size": 15, "gpus": 3}, r"12 images over gpus=3 give each rank 4, fewer than its 5 .* batch_size=12"),
        ({"batch_size": 13, "gpus": 3}, r"give each rank 4, fewer than its 5 images of every batch.* batch_size=12 or"),
        ({"sample": image_sample(257)}, r"n00000000_00000\.JPEG: 256x256 pixels, smaller than the crop"),
    ],
)
def test_what_is_wrong_is_said_before_a_run(given: dict[str, int], sentence: str, made: Path) -> None:
    facts = {"batch_size": 12, "gpus": 1, "sample": image_sample(224), "classes": 3} | given
    with pytest.raises(ConfigError, match=sentence):
        inputs.check(input_of("torchvision", made, recipe="paper"), **facts)


def test_a_damaged_first_file_of_a_class_is_found_before_a_run(tree: Path) -> None:
    (tree / "n00000002" / "n00000002_00000.JPEG").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"n00000002_00000\.JPEG: the file is empty; repair or delete it"):
        inputs.check(input_of("torchvision", tree), batch_size=4, gpus=1, sample=image_sample(224), classes=3)


def test_a_missing_dali_names_the_command_and_the_other_inputs(made: Path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install .*\[train\].*input=torchvision, or input=synthetic"):
        inputs.check(input_of("dali", made), batch_size=4, gpus=1, sample=image_sample(224), classes=3)


_CHECK = """
import sys
from resnetx import inputs
from resnetx.choices import TorchvisionInput, image_sample
given = TorchvisionInput(root=sys.argv[1], format="folders", recipe="paper", threads=1, prefetch=1)
inputs.check(given, batch_size=4, gpus=1, sample=image_sample(224), classes=3)
heavy = {name.split(".")[0] for name in sys.modules} & {"torch", "torchvision", "nvidia"}
sys.exit(f"loaded {heavy}" if heavy else 0)
"""


def test_checking_loads_no_torch_and_no_dali(made: Path) -> None:
    subprocess.run([sys.executable, "-c", _CHECK, made], check=True)


def test_the_sentence_for_a_damaged_file_fits_one_line(tmp_path: Path) -> None:
    assert jpeg.sentence("a.jpg: not an image", tmp_path) == (
        f"a.jpg: not an image; repair or delete it (`resnetx images --verify {tmp_path}` checks every file)"
    )


def test_a_package_that_is_not_whole_is_named_in_one_sentence(made, tmp_path, preloaded):
    (tmp_path / "torchvision.py").write_text("raise ModuleNotFoundError(\"No module named 'a_part'\")\n")
    command = [sys.executable, "-m", "resnetx", "train", "input=torchvision", f"input.root={made}", "model.x=1"]
    command += ["batch_size=4", "gpus=1", f"results={tmp_path / 'results'}", "model.classes=12"]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert ended.returncode
    told = "cannot be imported (No module named 'a_part'); expected a whole installation"
    assert told in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


def test_so_is_dali_on_a_machine_to_which_its_own_dependencies_were_not_copied(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "resnetx.inputs.dali", None)
    told = "input=dali: .* cannot be imported .*; expected a whole installation"
    with pytest.raises(ConfigError, match=told):
        open_cpu(input_of("dali", made))
