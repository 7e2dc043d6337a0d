import pytest
import torch
from torch import nn

from resnetx.workloads.caffe import LocalResponseNorm


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("size", "alpha"), [(5, 1e-4), (9, 1e-3)])
def test_images_and_gradients_are_torchs_in_either_layout(size, alpha, layout):
    images = (100 * torch.rand(2, 12, 7, 5, dtype=torch.float64)).contiguous(memory_format=layout)
    theirs, ours = images.clone().requires_grad_(), images.clone().requires_grad_()
    weights = torch.rand_like(images)
    expected, normalised = nn.LocalResponseNorm(size, alpha)(theirs), LocalResponseNorm(size, alpha)(ours)
    (expected * weights).sum().backward()
    (normalised * weights).sum().backward()
    torch.testing.assert_close(normalised, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert normalised.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_under_autocast_on_cpus_it_is_torchs_to_the_bit(layout):
    images = (30 * torch.rand(2, 12, 7, 5)).bfloat16().contiguous(memory_format=layout)
    theirs, ours = images.clone().requires_grad_(), images.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        expected, normalised = nn.LocalResponseNorm(5, 1e-4)(theirs), LocalResponseNorm(5, 1e-4)(ours)
    assert (normalised.dtype, normalised.tolist()) == (torch.float32, expected.tolist())
    expected.sum().backward()
    normalised.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
