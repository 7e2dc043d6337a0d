import pytest
import torch

from resnetx.workloads.caffe import GoogLeNet
from resnetx.workloads.layers import without_elements

pytestmark = pytest.mark.slow  # builds and runs whole networks


def test_training_returns_three_classifiers_and_evaluation_one() -> None:
    model = GoogLeNet(classes=10, image_size=47)
    images = torch.rand(2, 3, 47, 47)
    assert [logits.shape for logits in model(images)] == [(2, 10)] * 3
    assert model.eval()(images).shape == (2, 10)


@pytest.mark.parametrize(("image_size", "side"), [(224, 4), (96, 2), (79, 1), (47, 1)])
def test_auxiliary_classifiers_fit_what_is_left_of_the_image(image_size: int, side: int) -> None:
    with without_elements():
        model = GoogLeNet(classes=10, image_size=image_size)
    assert model.auxiliary1.fc.in_features == 128 * side * side
    assert len(model(torch.rand(2, 3, image_size, image_size, device="meta"))) == 3


def test_a_step_reaches_every_parameter() -> None:
    model = GoogLeNet(classes=10, image_size=47)
    main, auxiliary1, auxiliary2 = model(torch.rand(2, 3, 47, 47))
    (main.sum() + 0.3 * auxiliary1.sum() + 0.3 * auxiliary2.sum()).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_initialisation_is_that_of_the_prototxt() -> None:
    model = GoogLeNet(classes=1000, image_size=224)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == (0.0 if "classifier" in name else 0.2)).all(), name
        else:
            bound = (3 / parameter[0].numel()) ** 0.5  # of Caffe's "xavier"
            assert 0.98 * bound < parameter.abs().max() <= bound, name
