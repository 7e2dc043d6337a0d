import pytest
import torch

from resnetx import choices, workloads

pytestmark = pytest.mark.slow  # builds and runs whole networks


def test_its_parameters_are_those_of_the_prototxt_and_are_counted_without_torch() -> None:
    table = workloads.table(choices.CifarNetSettings(classes=10), 32)
    by_layer = {layer.name.split(".")[1]: sum(layer.parameters) for layer in table if layer.parameters}
    assert by_layer == {"conv1": 2432, "conv2": 25632, "conv3": 51264, "ip1": 65600, "ip2": 650}
    pooled = [(layer.kind, layer.output_shape[-1]) for layer in table if layer.kind.endswith("pool")]
    assert pooled == [("pool", 16), ("avgpool", 8), ("avgpool", 4)]  # rounded up


@pytest.mark.parametrize("image_size", [8, 9, 32, 35])
def test_the_first_linear_layer_fits_what_the_convolutions_leave(image_size: int) -> None:
    model = workloads.build(choices.CifarNetSettings(classes=7), image_size)
    assert model(torch.rand(2, 3, image_size, image_size)).shape == (2, 7)
    assert model.features.conv1.weight.std().item() == pytest.approx(0.0001, rel=0.1)
