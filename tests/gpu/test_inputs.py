"""Batches on a GPU: born there by DALI, or copied there by the others."""

from pathlib import Path

import pytest
import torch

from resnetx import inputs
from resnetx.choices import DaliInput, SyntheticInput, TorchvisionInput, image_sample
from resnetx.errors import ConfigError
from resnetx.inputs import image_tree
from tests.inputs.forged import deep_png

pytestmark = pytest.mark.gpu

GPU, CPU = "cuda:0", "cpu"
CLASSES = 12


@pytest.fixture(scope="module")
def one_each(tmp_path_factory) -> Path:
    """Classes of one image: the label tells which image it is."""
    root = tmp_path_factory.mktemp("one_each")
    image_tree.make(root, classes=CLASSES, per_class=1, size="256", seed=0, workers=1)
    return root


def dali(root: Path, decoder: str = "auto") -> DaliInput:
    return DaliInput(root=str(root), format="folders", recipe="paper", threads=2, prefetch=2, decoder=decoder)


def opened(input, device: str, image_size: int = 256):
    return inputs.open_input(
        input,
        inputs.Share(
            batch_size=CLASSES,
            sample=image_sample(image_size),
            classes=CLASSES,
            rank=0,
            world_size=1,
            device=torch.device(device),
            seed=0,
        ),
    )


@pytest.mark.dali
@pytest.mark.parametrize("decoder", ["auto", "cpu"])
def test_batches_of_dali_are_born_on_the_gpu_and_show_the_same_pixels(decoder: str, one_each: Path) -> None:
    pytest.importorskip("nvidia.dali")
    on_gpu, on_cpu = opened(dali(one_each, decoder), GPU), opened(dali(one_each, decoder), CPU)
    for _ in range(5):
        found, labels = next(on_gpu)
        expected, expected_labels = next(on_cpu)
        assert found.device == labels.device == torch.device(GPU)
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(labels.cpu(), expected_labels)
        for image, same in zip(found.cpu(), expected, strict=True):  # decoders differ by a few levels, flips may differ
            assert min((image - same).abs().mean(), (image - same.flip(2)).abs().mean()) < 3
    assert on_gpu.state()["decoder"] in (("gpu", "gpu hardware") if decoder == "auto" else ("cpu",))
    on_gpu.close()
    on_cpu.close()


@pytest.mark.dali
def test_a_batch_of_dali_stays_as_it_is_while_a_slow_step_reads_it(one_each: Path) -> None:
    pytest.importorskip("nvidia.dali")
    batches, sums = opened(dali(one_each), GPU), []
    for _ in range(20):
        found, _ = next(batches)
        before = found.double().sum()
        torch.cuda._sleep(200_000_000)  # cycles, 0.1 s at 2 GHz: DALI makes several batches meanwhile
        sums.append((before, found.double().sum()))
        del found  # as torch does, once the last kernel that reads it is launched
    assert all(before.item() == after.item() for before, after in sums)
    batches.close()


@pytest.mark.dali
def test_a_file_that_must_not_reach_a_decoder_is_refused_by_name_on_the_gpu_too(one_each: Path, tmp_path: Path) -> None:
    pytest.importorskip("nvidia.dali")
    image_tree.make(tmp_path, classes=CLASSES, per_class=1, size="256", seed=0, workers=1)
    spoiled = sorted(tmp_path.rglob("*.JPEG"))[5]
    spoiled.write_bytes(deep_png())
    batches = opened(dali(tmp_path), GPU)
    with pytest.raises(ConfigError, match="samples of 16 bits"):
        for _ in range(3):
            next(batches)
    batches.close()


@pytest.mark.parametrize("kind", ["torchvision", "synthetic"])
def test_other_inputs_arrive_on_the_gpu(kind: str, one_each: Path) -> None:
    given = TorchvisionInput(root=str(one_each), format="folders", recipe="imagenet", threads=1, prefetch=1)
    batches = opened(given if kind == "torchvision" else SyntheticInput(), GPU, image_size=64)
    found, labels = next(batches)
    assert found.device == labels.device == torch.device(GPU)
    assert found.is_contiguous(memory_format=torch.channels_last)
    batches.close()
