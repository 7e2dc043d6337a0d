import torch

from resnetx.workloads.families import ResidualBlock, ResNetX


def test_a_block_adds_its_input_to_three_convolutions() -> None:
    block = ResidualBlock(4).eval()
    x = torch.rand(2, 4, 6, 6)
    with torch.no_grad():
        assert torch.allclose(block(x.clone()), torch.relu(block.residual(x) + x))


def test_a_step_reaches_every_parameter() -> None:
    model = ResNetX(x=2, width=8, classes=10)
    model(torch.rand(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.blocks.parameters())


def test_initialisation_keeps_the_variance_of_what_flows_through_a_relu() -> None:
    torch.manual_seed(0)
    model = ResNetX(x=1, width=64, classes=1000)
    conv3x3 = model.blocks[0].residual[3]
    assert abs(conv3x3.weight.std() - (2 / (64 * 9)) ** 0.5) < 0.001
    assert model.stem[0].bias.abs().max() == 0
