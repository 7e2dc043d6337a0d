"""The messages of a step; and that DistributedDataParallel sends just those (see `sent_by_ddp.py`)."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from resnetx import choices, workloads
from resnetx.measure.machine import missing_feature
from resnetx.workloads.counts import (
    BYTES_PER_PARAMETER,
    MIB,
    Gradient,
    Layer,
    Message,
    ddp_buckets,
    gradient_bytes,
    messages,
    ready_order,
)
from resnetx.workloads.layers import layers
from tests.measure.starting import run_ranks


def bucket(cap: float | None = None, first: float | None = None) -> choices.Bucket:
    return choices.Bucket(bucket_cap_mb=cap, first_bucket_mb=first, gradient_as_bucket_view=True)


def elements(sent: Iterable[Message]) -> list[list[int]]:
    return [[gradient.elements for gradient in message.gradients] for message in sent]


# ---- DDP's rule -----------------------------------------------------------------------------------------------------


def filled(tensors: list[int], first_bucket_bytes: int, cap_bytes: int) -> list[list[int]]:
    ready = [Gradient(str(index), count) for index, count in enumerate(tensors)]
    return elements(ddp_buckets(ready, first_bucket_bytes=first_bucket_bytes, cap_bytes=cap_bytes))


@pytest.mark.parametrize(
    ("tensors", "buckets"),
    [
        ([2, 3, 6, 4], [[2, 3], [6, 4]]),  # what reaches the limit (5 elements, then 10) still belongs to the bucket
        ([2, 2, 90, 9, 9, 9], [[2, 2, 90], [9, 9], [9]]),  # however far it goes beyond; the rest is sent as it is
        ([1, 1], [[1, 1]]),
        ([], []),
    ],
)
def test_a_bucket_is_closed_by_the_tensor_that_reaches_its_limit(tensors: list[int], buckets: list[list[int]]) -> None:
    assert filled(tensors, 5 * BYTES_PER_PARAMETER, 10 * BYTES_PER_PARAMETER) == buckets


def test_the_rule_is_that_of_the_installed_torch() -> None:
    draw = random.Random(0)
    for _ in range(200):
        counts = [draw.choice((1, 2, 3, 5, 8, 50)) for _ in range(draw.randint(1, 30))]
        limits = [4 * draw.randint(0, 60), 4 * draw.randint(0, 60)]
        tensors = [torch.empty(count, device="meta") for count in counts]
        buckets, _ = dist._compute_bucket_assignment_by_size(tensors, limits, [], list(range(len(counts))))
        assert filled(counts, *limits) == [[counts[index] for index in indices] for indices in buckets]


# ---- strategies -----------------------------------------------------------------------------------------------------


def conv(name: str, *parameters_MiB: float) -> Layer:
    parameters = tuple(int(size * MIB) // BYTES_PER_PARAMETER for size in parameters_MiB)
    facts: dict[str, Any] = {"inputs": (), "output_shape": (1,), "in_place": False, "multiply_adds": 0}
    return Layer(name=name, kind="conv", parameters=parameters, **facts)


TABLE = [conv("first", 40), conv("second", 20), conv("pool"), conv("third", 10), conv("fourth", 0.75, 0.5)]


@pytest.mark.parametrize(
    ("strategy", "sizes_MiB"),
    [
        (bucket(), [1.25, 30, 40]),
        (bucket(cap=25), [31.25, 40]),  # to name DDP's own cap is to lose the small first bucket
        (bucket(cap=1), [1.25, 10, 20, 40]),
        (bucket(cap=100), [71.25]),
        (bucket(first=0.5), [0.75, 30.5, 40]),
        (bucket(cap=5, first=0.5), [0.75, 10.5, 20, 40]),
        (bucket(cap=5, first=50), [71.25]),
        (choices.Layerwise(), [1.25, 10, 20, 40]),
        (choices.After(), [71.25]),
        (choices.NoExchange(), []),
    ],
)
def test_what_each_strategy_sends(strategy: choices.Strategy, sizes_MiB: list[float]) -> None:
    assert [message.size_bytes / MIB for message in messages(TABLE, strategy, "fp32")] == sizes_MiB


def test_a_message_names_its_layers_in_the_order_of_the_backward_pass() -> None:
    named = [message.layers for message in messages(TABLE, bucket(first=0.5), "fp32")]
    assert named == [("fourth",), ("fourth", "third", "second"), ("first",)]
    assert [message.layers for message in messages(TABLE, choices.Layerwise(), "fp32")] == [
        ("fourth",),
        ("third",),
        ("second",),
        ("first",),
    ]


def resnetx(x: int) -> choices.ResNetXSettings:
    return choices.ResNetXSettings(x=x, width=64, classes=1000)


def test_resnet_4_is_sent_at_once_and_resnet_8_in_two_buckets() -> None:
    sizes = {
        x: [message.size_bytes for message in messages(workloads.table(resnetx(x), 224), bucket(), "fp32")]
        for x in (4, 8)
    }
    assert sizes == {4: [1_025_440], 8: [1_151_904, 600_576]}  # as DDP of torch 2.15 reported them on two ranks


# ---- the order in which gradients become ready ----------------------------------------------------------------------


class Net(nn.Module):
    """A module around one forward function."""

    def __init__(self, forward: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self, x)


def convs(*names: str) -> dict[str, nn.Module]:
    """Convolutions of 3 channels that differ in size."""
    return {name: nn.Conv2d(3, 3, 2 * index + 1, padding=index) for index, name in enumerate(names)}


def shared_weight() -> nn.Module:
    parts = convs("early", "late")
    parts["again"] = nn.Conv2d(3, 3, 1)
    parts["again"].weight = parts["early"].weight
    return Net(lambda net, x: net.again(net.late(net.early(x))), **parts)


NETS: dict[str, Callable[[], nn.Module]] = {
    "branches": lambda: Net(
        lambda net, x: net.end(torch.cat([net.left(x), net.right(x)], 2)) + net.aside(x).mean(),
        **convs("right", "end", "left", "aside"),
    ),
    "a shared module": lambda: Net(lambda net, x: net.a(net.b(net.a(x))), **convs("a", "b")),
    "a shared weight": shared_weight,
    "a residual block, in place": lambda: Net(
        lambda net, x: nn.functional.relu(net.a(x), inplace=True) + net.b(net.norm(x)),
        norm=nn.BatchNorm2d(3),
        **convs("a", "b"),
    ),
    "a linear layer behind a view": lambda: Net(
        lambda net, x: net.fc(net.a(x).flatten(1)), fc=nn.Linear(192, 7), **convs("a")
    ),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_gradients_become_ready_in_the_predicted_order(name: str, precision: str) -> None:
    net = NETS[name]()
    ready: list[int] = []
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda parameter: ready.append(parameter.numel()))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        loss = net(torch.randn(2, 3, 8, 8)).float().sum()
    loss.backward()
    predicted = ready_order(layers(net, choices.image_sample(8)), precision)
    assert [gradient.elements for gradient in predicted] == ready


# ---- the real thing -------------------------------------------------------------------------------------------------


def torchvision(name: str) -> choices.Torchvision:
    return choices.Torchvision(name=name, classes=1000)


LIMITS = [{"cap": cap} for cap in (None, 0.1, 1, 5, 25, 100)]
if not missing_feature(bucket(first=1)):
    LIMITS += [{"first": 0.25}, {"cap": 0.5, "first": 2}]


def options(cap: float | None = None, first: float | None = None) -> dict[str, Any]:
    """The limits as DDP takes them."""
    return {"bucket_cap_mb": cap} if first is None else {"bucket_cap_mb_list": [first, cap or 25]}


def sent_by_ddp(python: str, cases: list[tuple[choices.Model, int, str]], folder: Path) -> list[list[list[list[int]]]]:
    asked = [
        {"model": msgspec.to_builtins(model), "image_size": size, "precision": precision}
        | {"options": [options(**limits) for limits in LIMITS]}
        for model, size, precision in cases
    ]
    (folder / "cases.json").write_text(json.dumps(asked))
    program = Path(__file__).with_name("sent_by_ddp.py")
    run_ranks(python, 1, program, folder / "cases.json", folder / "answers.json", GLOO_SOCKET_IFNAME="lo")
    return json.loads((folder / "answers.json").read_text())


def check(python: str, cases: list[tuple[choices.Model, int, str]], folder: Path) -> None:
    several = set()
    for (model, size, precision), answers in zip(cases, sent_by_ddp(python, cases, folder), strict=True):
        table = workloads.table(model, size)
        for limits, answer in zip(LIMITS, answers, strict=True):
            predicted = messages(table, bucket(**limits), precision)
            assert elements(predicted) == answer, (model.label, precision, limits)
            assert sum(message.size_bytes for message in predicted) == gradient_bytes(table)
            several |= {model.label} if len(answer) > 1 else set()
    assert several == {model.label for model, _, _ in cases}  # or the limits would have shown nothing


@pytest.mark.dist
def test_ddp_sends_the_predicted_buckets_of_the_papers_workloads(preloaded_python: str, tmp_path: Path) -> None:
    """A short one, a long one and branches; the next test has the others, AlexNet among them.

    One rank fills the buckets of several, of which `test_strategies.py` sees what two send.
    """
    googlenet = choices.GoogLeNetSettings(classes=1000)
    gpt = choices.GptXSettings(x=3, width=256, heads=None, seq=8, vocabulary=999)
    cases = [(resnetx(1), 8, "fp32"), (resnetx(8), 8, "bf16"), (resnetx(32), 8, "fp32"), (googlenet, 64, "fp32")]
    cases += [(gpt, 0, "fp32"), (gpt, 0, "bf16"), (choices.MlpXSettings(x=2, width=700, classes=9), 8, "bf16")]
    check(preloaded_python, cases, tmp_path)


# One of each family of torchvision, and those whose layers differ within it.
FAMILIES = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "mnasnet0_5"),
    *("mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50"),
    *("resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg16", "vgg11_bn", "vit_b_32"),
)


@pytest.mark.dist
@pytest.mark.long
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_ddp_sends_the_predicted_buckets_of_many_networks(
    precision: str, preloaded_python: str, tmp_path: Path
) -> None:
    sized = [
        (choices.AlexNetSettings(classes=1000), 227),
        (choices.GoogLeNetSettings(classes=1000), 224),
        (resnetx(32), 224),
    ]
    sized += [(resnetx(x), 8) for x in (1, 2, 4, 8, 16)]  # images of any size have the same parameters in them
    sized += [(torchvision(name), 64) for name in FAMILIES]
    sized += [(torchvision("inception_v3"), 299), (torchvision("maxvit_t"), 224)]
    check(preloaded_python, [(model, size, precision) for model, size in sized], tmp_path)
