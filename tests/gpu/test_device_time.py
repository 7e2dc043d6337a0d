"""Work timed on the device, on a real one: without the host's time to launch it."""

import pytest
import torch

from resnetx.inputs import nothing
from resnetx.measure.clock import timed
from resnetx.measure.device_time import timed_on_device
from resnetx.record import Unknown

pytestmark = pytest.mark.gpu


GPU = torch.device("cuda", 0)


@pytest.fixture
def array():
    torch.cuda.set_device(GPU)
    return torch.zeros(16, device=GPU)


def test_a_small_kernel_takes_less_than_its_launch(array):
    def add():
        array.add_(1)

    timed(add, 20, GPU, nothing)
    by_device = timed_on_device(add, 20, GPU)
    assert not isinstance(by_device, Unknown), by_device
    assert 0 < by_device < timed(add, 20, GPU, nothing)
    assert array.unique().item() >= 3 * 20


def test_what_waits_for_the_device_has_no_time_of_its_own(array):
    assert isinstance(timed_on_device(lambda: array.sum().item(), 2, GPU), Unknown)
