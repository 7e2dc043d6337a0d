"""Work timed on the device, on a real one: without the host's time to launch it."""

import pytest
import torch
from torch import nn

from resnetx.inputs import nothing
from resnetx.measure.rank.device import timed, timed_on_device
from resnetx.measure.rank.layer_trace import copy_rate_Bps
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


def test_gradients_of_small_layers_are_copied_faster_than_they_are_launched(array):
    parameters = [nn.Parameter(torch.zeros(16, device=GPU)) for _ in range(100)]
    one_s = 64 / copy_rate_Bps(parameters, GPU)
    by_host_s = timed(lambda: torch.mul(array, 0.5, out=array), 100, GPU, nothing) / 100
    assert 0 < one_s < by_host_s
