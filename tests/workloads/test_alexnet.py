import msgspec
import pytest
import torch

from resnetx import choices, workloads
from resnetx.workloads.caffe import AlexNet
from resnetx.workloads.layers import without_elements

pytestmark = pytest.mark.slow  # builds and runs whole networks


@pytest.mark.parametrize(("image_size", "side"), [(227, 6), (224, 6), (131, 3), (67, 1)])
def test_the_first_linear_layer_fits_what_the_convolutions_leave(image_size: int, side: int) -> None:
    with without_elements():
        model = AlexNet(classes=10, image_size=image_size)
    images = torch.rand(2, 3, image_size, image_size, device="meta")
    assert model.features(images).shape == (2, 256, side, side)
    assert model(images).shape == (2, 10)


def test_pooling_rounds_up_as_in_caffe() -> None:
    table = workloads.table(choices.AlexNetSettings(classes=10), 224)
    assert [layer.output_shape[-1] for layer in table if layer.kind == "pool"] == [27, 13, 6]  # rounded down: 26, 12, 5


def test_without_normalisation_only_the_two_lrn_layers_are_missing() -> None:
    model, bare = (choices.AlexNetSettings(classes=10, lrn=lrn) for lrn in (True, False))
    whole, less = (workloads.table(each, 227) for each in (model, bare))
    assert [layer.name for layer in whole if layer.kind != "lrn"] == [layer.name for layer in less]
    assert len(whole) == len(less) + 2
    assert sum(sum(layer.parameters) for layer in whole) == sum(sum(layer.parameters) for layer in less)
    assert workloads.build(bare, 67)(torch.rand(2, 3, 67, 67)).shape == (2, 10)
    assert (model.label, bare.label) == ("AlexNet", "AlexNet without LRN")


def test_what_has_normalisation_is_stored_as_before_there_was_a_choice() -> None:
    assert msgspec.to_builtins(choices.AlexNetSettings(classes=10)) == {"kind": "alexnet", "classes": 10}
    assert msgspec.convert({"kind": "alexnet", "classes": 10}, choices.AlexNetSettings).lrn
    assert "lrn" in msgspec.to_builtins(choices.AlexNetSettings(classes=10, lrn=False))


def test_a_step_reaches_every_parameter() -> None:
    model = AlexNet(classes=10, image_size=67)
    model(torch.rand(2, 3, 67, 67)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_initialisation_is_that_of_the_prototxt() -> None:
    model = AlexNet(classes=1000, image_size=67)
    spread = {name: module.weight.std().item() for name, module in model.classifier.named_children() if "fc" in name}
    assert spread == pytest.approx({"fc6": 0.005, "fc7": 0.005, "fc8": 0.01}, rel=0.01)
    biases = {
        name.split(".")[1]: parameter.unique().tolist()
        for name, parameter in model.named_parameters()
        if name.endswith("bias")
    }
    assert [name for name, values in biases.items() if values == [0.0]] == ["conv1", "conv3", "fc8"]
    assert [name for name, values in biases.items() if values == [pytest.approx(0.1)]] == [
        "conv2",
        "conv4",
        "conv5",
        "fc6",
        "fc7",
    ]
