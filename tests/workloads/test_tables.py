"""The kept layer tables are those that torch.fx finds, and one of them serves every ResNet/x."""

import msgspec
import pytest

from resnetx import config, workloads
from resnetx.workloads import tables


def resnetx(x: int, width: int = 64, classes: int = 1000) -> config.ResNetX:
    return config.ResNetX(x=x, width=width, classes=classes)


@pytest.mark.parametrize("name", tables.KEPT)
def test_a_kept_table_is_what_torch_fx_finds(name: str) -> None:
    model, image_size = tables.KEPT[name]
    assert tables.kept(model, image_size) == workloads.traced(model, image_size), (
        "if the model was changed on purpose: python -m resnetx.workloads.tables"
    )


@pytest.mark.parametrize("x", [2, 3, 8, 11, 32])
def test_the_table_of_resnet_1_makes_that_of_every_x(x: int) -> None:
    assert tables.kept(resnetx(x), 224) == workloads.traced(resnetx(x), 224)


@pytest.mark.parametrize(
    ("model", "image_size"),
    [
        (resnetx(4), 96),
        (resnetx(4, width=32), 224),
        (resnetx(4, classes=10), 224),
        (config.AlexNet(classes=1000), 224),
        (config.Torchvision(name="resnet18", classes=1000), 224),
    ],
)
def test_other_models_and_sizes_are_traced(model: config.Model, image_size: int) -> None:
    assert tables.kept(model, image_size) is None
    assert workloads.table(model, image_size)[0].output_shape[-1] < image_size


def test_the_files_are_those_that_regenerating_writes(tmp_path, monkeypatch) -> None:
    contents = {name: tables.file(name).read_bytes() for name in tables.KEPT}
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    for name, content in contents.items():
        tables.write(name, msgspec.json.decode(content, type=list[workloads.Layer]))
    assert {name: tables.file(name).read_bytes() for name in tables.KEPT} == contents
