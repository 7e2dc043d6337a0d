"""The tables that need no torch are those that torch.fx finds."""

import re
from pathlib import Path

import msgspec
import pytest

from resnetx import choices, workloads
from resnetx.errors import ConfigError
from resnetx.workloads import counts, tables
from resnetx.workloads.kinds import installed_classifiers

pytestmark = pytest.mark.slow

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def resnetx(x: int, width: int = 64, classes: int = 1000) -> choices.ResNetXSettings:
    return choices.ResNetXSettings(x=x, width=width, classes=classes)


@pytest.mark.slow
@pytest.mark.parametrize("name", tables.KEPT)
def test_a_kept_table_is_what_torch_fx_finds(name: str) -> None:
    model, image_size = tables.KEPT[name]
    assert tables.kept(model, image_size) == workloads.traced(model, image_size), (
        "if the model was changed on purpose: python -m resnetx.workloads.tables"
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", [resnetx(x) for x in (1, 2, 3, 8, 32)], ids=lambda model: model.label)
def test_the_table_of_any_depth_is_what_torch_fx_finds(model: choices.ResNetXSettings) -> None:
    assert workloads.table(model, 224) == workloads.traced(model, 224)


@pytest.mark.slow
@pytest.mark.parametrize("image_size", [8, 9, 10, 11, 96, 225, 226, 227, 299])
@pytest.mark.parametrize(("width", "classes"), [(1, 2), (7, 1000), (128, 10)])
def test_so_is_that_of_any_width_and_any_images(width: int, classes: int, image_size: int) -> None:
    model = resnetx(2, width, classes)
    assert workloads.table(model, image_size) == workloads.traced(model, image_size)


@pytest.mark.parametrize("convention", choices.CONVENTIONS)
@pytest.mark.parametrize("x", [1, 2, 3, 17])
def test_any_depth_is_counted_from_two_shallow_ones(x: int, convention: choices.Convention, monkeypatch) -> None:
    table = workloads.table(resnetx(x, width=8), 64)
    make = workloads._table
    monkeypatch.setattr(workloads, "_table", lambda model, size: _refuse_deep(model) or make(model, size))
    counted = workloads.workload(resnetx(x, width=8), 64, 32, convention)
    assert counted.activations_per_image == counts.activations(table, 64, convention)
    assert counted.parameters == counts.parameters(table, convention)
    assert counted.payload_bytes == counts.payload_bytes(table, convention)
    assert counted.gradient_bytes == counts.gradient_bytes(table)
    assert counted.flops_per_image == counts.flops_per_image(table)


def _refuse_deep(model: choices.Model) -> None:
    assert isinstance(model, choices.ResNetXSettings)
    assert model.x < 3


def test_the_kept_classifiers_are_those_of_the_torchvision_in_the_constraints() -> None:
    (pinned,) = re.findall(r"^torchvision==(\d+\.\d+)\.", CONSTRAINTS.read_text(), re.MULTILINE)
    assert tables.kept_classifiers().torchvision == pinned, "python -m resnetx.workloads.tables"


@pytest.mark.slow
def test_the_installed_torchvision_is_known_by_two_numbers() -> None:
    import torchvision

    assert torchvision.__version__.startswith(f"{tables.installed_version()}.")
    assert tables.installed_version().count(".") == 1


@pytest.mark.slow
def test_the_kept_classifiers_are_those_that_are_installed() -> None:
    if tables.installed_version() != tables.kept_classifiers().torchvision:
        pytest.skip("another torchvision is installed than the one whose classifiers are kept")
    assert tables.kept_classifiers().image_size == installed_classifiers(), "python -m resnetx.workloads.tables"


@pytest.mark.slow
def test_another_torchvision_is_asked_itself(monkeypatch) -> None:
    model = choices.Torchvision(name="resnet51", classes=1000)
    monkeypatch.setattr(tables.metadata, "version", lambda name: f"{tables.kept_classifiers().torchvision}.7")
    with pytest.raises(ConfigError, match=r"model\.name=resnet51: .*; did you mean resnet50\?"):
        tables.check_classifier(model.name)
    monkeypatch.setattr(tables.metadata, "version", lambda name: "0.99.1")
    tables.check_classifier(model.name)
    with pytest.raises(ConfigError, match=r"model\.name=resnet51: .*; did you mean resnet50\?"):
        workloads.table(model, 224)


@pytest.mark.parametrize(
    ("model", "image_size"),
    [
        (choices.AlexNetSettings(classes=1000), 224),
        (choices.Torchvision(name="resnet34", classes=1000), 224),
    ],
)
def test_other_models_and_sizes_are_traced(model: choices.Model, image_size: int) -> None:
    assert tables.kept(model, image_size) is None
    assert workloads.table(model, image_size)[0].output_shape[-1] < image_size


def test_the_files_are_those_that_regenerating_writes(tmp_path, monkeypatch) -> None:
    contents = {name: tables.file(name).read_bytes() for name in tables.KEPT}
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    for name, content in contents.items():
        tables.write(name, msgspec.json.decode(content, type=list[workloads.Layer]))
    assert {name: tables.file(name).read_bytes() for name in tables.KEPT} == contents


# ---- families -------------------------------------------------------------------------------------------------------


def gptx(
    x: int, width: int = 768, heads: int | None = None, seq: int = 1024, vocabulary: int = 50257
) -> choices.GptXSettings:
    return choices.GptXSettings(x=x, width=width, heads=heads, seq=seq, vocabulary=vocabulary)


MEMBERS = [
    gptx(1, 48, 4, 20, 101),
    gptx(3, 96, 8, 36, 77),
    gptx(12),
    choices.MlpXSettings(x=1, width=30, classes=10),
    choices.MlpXSettings(x=4, width=7, classes=3),
]


@pytest.mark.parametrize("model", MEMBERS, ids=lambda model: model.label)
def test_the_table_of_a_family_is_what_torch_fx_finds(model: choices.Model) -> None:
    assert workloads.table(model, model.image_size) == workloads.traced(model, model.image_size)


@pytest.mark.parametrize(
    ("x", "width", "parameters", "tensors"),
    [
        (12, 768, 124_439_808, 148),
        (24, 1024, 354_823_168, 292),
        (36, 1280, 774_030_080, 436),
        (48, 1600, 1_557_611_200, 580),
    ],
)
def test_gpt_2_has_its_parameters(x: int, width: int, parameters: int, tensors: int) -> None:
    table = workloads.table(gptx(x, width), 0)
    assert counts.parameters(table, "torch") == parameters
    assert sum(len(layer.parameters) for layer in table) == tensors


@pytest.mark.parametrize(("x", "s", "d", "h", "v"), [(3, 36, 96, 8, 77), (12, 1024, 768, 12, 50257)])
def test_the_counts_of_gpt_x_are_the_formulas_of_its_page(x: int, s: int, d: int, h: int, v: int) -> None:
    work = workloads.workload(gptx(x, d, h, s, v), 0, 4, "conv")
    assert work.parameters == x * (12 * d**2 + 13 * d) + v * d + s * d + 2 * d
    assert work.activations_per_image == 9 * x * s * d + s * v
    assert work.flops_per_image == 2 * s * (12 * x * d**2 + v * d) + 4 * x * s**2 * d
    torch_count = workloads.workload(gptx(x, d, h, s, v), 0, 4, "torch").activations_per_image
    assert torch_count == 18 * x * s * d + 4 * s * d + s * v


def test_the_counts_of_mlp_x_are_the_formulas_of_its_page() -> None:
    x, d, c, i = 5, 30, 10, 3 * 32**2
    work = workloads.workload(choices.MlpXSettings(x=x, width=d, classes=c), 32, 4, "conv")
    assert work.parameters == x * (d**2 + d) + i * d + d + c * d + c
    assert (work.activations_per_image, work.flops_per_image) == ((x + 1) * d + c, 2 * (x * d**2 + i * d + c * d))


@pytest.mark.parametrize("convention", choices.CONVENTIONS)
@pytest.mark.parametrize("deep", [gptx(7, 48, 4, 20, 101), choices.MlpXSettings(x=7, width=30, classes=10)])
def test_any_depth_of_a_family_is_counted_from_two_shallow_ones(deep: choices.Model, convention: str) -> None:
    table, counted = workloads.table(deep, 32), workloads.workload(deep, 32, 1, convention)
    assert counted.activations_per_image == counts.activations(table, 32, convention)
    assert (counted.gradient_bytes, counted.flops_per_image) == (
        counts.gradient_bytes(table),
        counts.flops_per_image(table),
    )
