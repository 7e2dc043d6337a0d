import subprocess

import pytest

from resnetx import choices, workloads
from resnetx.errors import ConfigError


def resnetx(x: int, width: int = 64, classes: int = 1000) -> choices.ResNetXSettings:
    return choices.ResNetXSettings(x=x, width=width, classes=classes)


ALEXNET = choices.AlexNetSettings(classes=1000)
GOOGLENET = choices.GoogLeNetSettings(classes=1000)


# ---- the paper's figures (Tallent et al. 2017, section 3) -----------------------------------------------------------


@pytest.mark.parametrize("x", [1, 2, 3, 4, 8, 16, 32])
def test_resnetx_has_the_papers_activations_and_parameters_for_every_x(x: int) -> None:
    work = workloads.workload(resnetx(x), 224, batch_size=16, convention="caffe")
    assert work.activations_per_image == 1_204_224 * x + 1_155_113
    assert work.parameters == 46_211 * x + 74_857
    assert work.stated == {"activations_per_image": work.activations_per_image, "parameters": work.parameters}


def test_resnetx_spans_the_papers_intensities() -> None:
    lowest = workloads.workload(resnetx(1), 224, batch_size=16, convention="caffe")
    highest = workloads.workload(resnetx(32), 224, batch_size=64, convention="caffe")
    assert (round(lowest.intensity), round(highest.intensity)) == (312, 1635)
    assert lowest.intensity_per_gpu == {"1": lowest.intensity} | {str(n): lowest.intensity / n for n in (2, 4, 8)}


def test_resnetx_forward_pass_has_the_flop_of_its_convolutions() -> None:
    work = workloads.workload(resnetx(4), 224, batch_size=16, convention="caffe")
    stem, block, classifier = 7 * 7 * 3 * 64 * 112**2, (1 + 9 + 1) * 64 * 64 * 56**2, 64 * 1000
    assert work.flops_per_image == 2 * (stem + 4 * block + classifier)


@pytest.mark.parametrize(("batch_size", "intensity"), [(256, 5.93), (512, 11.87)])
def test_alexnet_is_exact(batch_size: int, intensity: float) -> None:
    work = workloads.workload(ALEXNET, 227, batch_size, "caffe")
    assert (work.activations_per_image, work.parameters) == (1_413_348, 60_965_224)
    assert round(work.intensity, 2) == intensity
    assert work.gradient_bytes == work.payload_bytes == 243_860_896  # the trace of Shi et al. 2018 sends as many
    assert work.stated["intensity"] == pytest.approx(work.intensity, abs=0.05)


def test_googlenet_lands_on_the_papers_activations_but_not_on_its_parameters() -> None:
    work = workloads.workload(GOOGLENET, 224, 256, "caffe")
    assert round(work.activations_per_image, -5) == work.stated["activations_per_image"] == 10.8e6
    assert (work.parameters, work.stated["parameters"]) == (13_378_280, 5.5e6)
    auxiliary = sum(sum(layer.parameters) for layer in workloads.table(GOOGLENET, 224) if "auxiliary" in layer.name)
    assert work.parameters - auxiliary == 6_998_552
    assert any("5.5 M" in note for note in work.notes)


# ---- what else the object says --------------------------------------------------------------------------------------


def test_payload_is_the_papers_and_gradient_bytes_are_what_is_sent() -> None:
    work = workloads.workload(resnetx(4), 224, 16, "caffe")
    assert (work.payload_bytes, work.gradient_bytes) == (1_038_804, 1_025_440)


@pytest.mark.parametrize(
    ("model", "image_size", "convention"),
    [
        (resnetx(4, width=32), 224, "caffe"),
        (resnetx(4, classes=10), 224, "caffe"),
        (resnetx(4), 96, "caffe"),
        (ALEXNET, 224, "caffe"),
        (ALEXNET, 227, "torch"),
    ],
)
def test_the_paper_states_nothing_of_other_workloads_or_conventions(
    model: choices.Model, image_size: int, convention: str
) -> None:
    assert workloads.workload(model, image_size, 256, convention).stated == {}


def test_alexnet_at_another_size_says_that_it_is_another_workload() -> None:
    work = workloads.workload(ALEXNET, 131, 256, "caffe")
    assert 60_965_224 - work.parameters == 256 * (6 * 6 - 3 * 3) * 4096
    assert ["fc6" in note and "image_size=131" in note for note in work.notes] == [True]
    assert workloads.workload(ALEXNET, 227, 256, "caffe").notes == []


# Millions of activations at 224 pixels, found by others with hooks on the modules of the running model.
@pytest.mark.parametrize(("name", "torch", "conv"), [("alexnet", 0.605, 0.494), ("resnet50", 22.4, 11.1)])
def test_torch_and_conv_counts_are_those_that_others_find(name: str, torch: float, conv: float) -> None:
    model = choices.Torchvision(name=name, classes=1000)
    for convention, expected in {"torch": torch, "conv": conv}.items():
        work = workloads.workload(model, 224, 32, convention)
        assert work.activations_per_image / 1e6 == pytest.approx(expected, rel=0.005)


@pytest.mark.slow
def test_attention_says_what_is_not_counted() -> None:
    work = workloads.workload(choices.Torchvision(name="vit_b_32", classes=10), 224, 32, "torch")
    assert any("attention" in note for note in work.notes)


# ---- building -------------------------------------------------------------------------------------------------------


def test_a_built_model_is_real_and_its_table_is_not() -> None:
    model = resnetx(2, width=8, classes=10)
    workloads.table(model, 64)
    module = workloads.build(model, 64)
    assert not any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize("model", [resnetx(1), ALEXNET, GOOGLENET], ids=lambda model: model.label)
def test_the_smallest_image_that_a_request_may_have_works(model: choices.Model) -> None:
    assert workloads.table(model, model.smallest_image_size)[-1].output_shape == (1000,)


@pytest.mark.slow
def test_vision_transformers_are_built_for_the_image_size() -> None:
    small, large = (workloads.table(choices.Torchvision(name="vit_b_16", classes=10), size) for size in (64, 224))
    assert small[-1].output_shape == large[-1].output_shape == (10,)


def test_an_image_size_that_a_torchvision_model_cannot_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="image_size=100: vit_b_16 cannot be built for it"):
        workloads.build(choices.Torchvision(name="vit_b_16", classes=10), 100)
    with pytest.raises(ConfigError, match=r"image_size=32: .*fails on images of this size"):
        workloads.table(choices.Torchvision(name="inception_v3", classes=10), 32)


@pytest.mark.slow
def test_without_torch_the_image_size_whose_layers_are_stored_is_named(light_python: str) -> None:
    program = (
        "import sys; sys.modules['torch'] = sys.modules['torchvision'] = None\n"
        "from resnetx.cli import main\n"
        "sys.exit(main(['describe', 'model=torchvision', 'model.name=inception_v3', 'image_size=224']))"
    )
    ended = subprocess.run([light_python, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "image_size=224: PyTorch is not installed" in ended.stderr
    assert "or use image_size=299, whose layers are stored" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["resnet5", "raft_large", "ResNet50"])
def test_an_unknown_or_unsuitable_torchvision_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"model\.name={name}: .*(did you mean|Known: alexnet, convnext_base)"):
        workloads.build(choices.Torchvision(name=name, classes=10), 224)
