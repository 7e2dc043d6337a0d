import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.fx import _symbolic_trace
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from resnetx import choices, workloads
from resnetx.errors import ConfigError
from resnetx.workloads.layers import layers

# ---- the table against the running model ----------------------------------------------------------------------------

BATCH = 2


class Witness(TorchFunctionMode):
    """Watches a real forward pass: the output shape of every operation that makes or writes a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[tuple[int, ...], bool]] = []
        self.busy = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.watch(func, *args, **kwargs or {})

    def watch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.busy:
            return function(*args, **kwargs)
        read = [tensor for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, Tensor)]
        versions = [tensor._version for tensor in read]
        self.busy = True
        result = function(*args, **kwargs)
        self.busy = False
        made = [tensor for tensor in tree_leaves(result) if isinstance(tensor, Tensor)]
        if made:
            memory = made[0].untyped_storage()._cdata
            own = [i for i, tensor in enumerate(read) if tensor.untyped_storage()._cdata == memory]
            in_place = any(read[i]._version != versions[i] for i in own)
            if in_place or not own:
                self.seen.append((tuple(made[0].shape), in_place))
        return result


def run_watched(
    model: nn.Module, image_size: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[tuple[int, ...], bool]]:
    """Runs the model on images, module by module and operation by operation where torch.fx sees one."""
    witness = Witness()
    call = nn.Module.__call__

    def watched_call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if isinstance(module, nn.LocalResponseNorm) or fx.Tracer().is_leaf_module(module, ""):
            return witness.watch(call, module, *args, **kwargs)
        return call(module, *args, **kwargs)

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: witness.watch(function, *args, **kwargs)

    for (_, name), namespace in _symbolic_trace._wrapped_fns_to_patch.items():  # functions marked with fx.wrap
        monkeypatch.setitem(namespace, name, watched(namespace[name]))
    monkeypatch.setattr(nn.Module, "__call__", watched_call)
    with torch.no_grad(), witness:
        model(torch.rand(BATCH, 3, image_size, image_size, device=device))
    return witness.seen[1:]  # without torch.rand


def torchvision(name: str) -> choices.Torchvision:
    return choices.Torchvision(name=name, classes=10)


SMALL: list[tuple[choices.Model, int]] = [
    (choices.ResNetXSettings(x=1, width=64, classes=1000), 224),
    (choices.ResNetXSettings(x=3, width=16, classes=10), 64),
    (choices.AlexNetSettings(classes=10), 131),
    (choices.GoogLeNetSettings(classes=10), 96),
    (torchvision("regnet_y_400mf"), 64),  # it reads tensors to be built
    (torchvision("resnet50"), 64),
    (torchvision("vit_b_32"), 96),
]
LARGE: list[tuple[choices.Model, int]] = [
    (choices.AlexNetSettings(classes=1000), 227),
    (choices.GoogLeNetSettings(classes=1000), 224),
    (torchvision("convnext_tiny"), 224),
    (torchvision("densenet121"), 224),
    (torchvision("efficientnet_b0"), 224),
    (torchvision("googlenet"), 224),
    (torchvision("inception_v3"), 299),
    (torchvision("mnasnet0_5"), 224),
    (torchvision("mobilenet_v2"), 224),
    (torchvision("mobilenet_v3_small"), 224),
    (torchvision("resnet50"), 224),
    (torchvision("shufflenet_v2_x0_5"), 224),
    (torchvision("squeezenet1_1"), 224),
    (torchvision("swin_t"), 224),
    (torchvision("vgg16"), 224),
    (torchvision("vit_b_16"), 224),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "image_size", "device"),
    [(*small, "cpu") for small in SMALL] + [(*large, "meta") for large in LARGE],
    ids=lambda value: getattr(value, "label", value),
)
def test_the_table_is_what_the_real_model_executes(
    model: choices.Model, image_size: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ones without elements: the same shapes and writes, in a tenth of the time."""
    table = workloads.table(model, image_size)
    with torch.device(device):
        module = workloads.build(model, image_size)

    assert sum(sum(layer.parameters) for layer in table) == sum(p.numel() for p in module.parameters())
    assert len({layer.name for layer in table}) == len(table)

    executed = run_watched(module, image_size, device, monkeypatch)
    assert [layer.in_place for layer in table] == [in_place for _, in_place in executed]
    for layer, (shape, _) in zip(table, executed, strict=True):
        assert shape in ((BATCH, *layer.output_shape), layer.output_shape), layer.name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "vgg16", "densenet121", "swin_t", "vit_b_16", "regnet_x_400mf"])
def test_parameters_and_multiply_adds_are_those_that_torchvision_publishes(name: str) -> None:
    from torchvision import models

    table = workloads.table(choices.Torchvision(name=name, classes=1000), 224)
    published = models.get_model_weights(name).IMAGENET1K_V1.meta
    assert sum(sum(layer.parameters) for layer in table) == published["num_params"]
    assert sum(layer.multiply_adds for layer in table) / 1e9 == pytest.approx(published["_ops"], abs=0.001)


# Of each architecture that is not in LARGE; all others are of one of these, with other depths and widths.
OTHERS = ["alexnet", "efficientnet_v2_s", "maxvit_t", "mobilenet_v3_large", "regnet_x_400mf", "resnext50_32x4d"]
OTHERS += ["swin_v2_t", "vgg11_bn", "wide_resnet50_2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_architectures_that_are_not_run_have_a_table(name: str) -> None:
    has_a_table(name)


@pytest.mark.long
def test_every_torchvision_classifier_has_a_table() -> None:
    from torchvision import models

    for name in models.list_models(module=models):
        has_a_table(name)


def has_a_table(name: str) -> None:
    table = workloads.table(torchvision(name), 299 if name == "inception_v3" else 224)
    assert table[-1].elements == 10, name


# ---- what becomes a layer -------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A module around one forward function."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module | nn.Parameter) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x)


def rows(net: nn.Module, image_size: int = 8) -> list[tuple[Any, ...]]:
    return [
        (layer.name, layer.kind, layer.inputs, layer.output_shape)
        for layer in layers(net, choices.image_sample(image_size))
    ]


@pytest.mark.slow
def test_modules_functions_methods_and_operators_are_layers() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        y = nn.functional.relu(net.conv(x))
        y = torch.cat([y, y + 1, torch.add(y, y)], dim=1)
        y = nn.functional.max_pool2d(y, 2).relu()
        return nn.functional.adaptive_avg_pool2d(y, 1)

    assert rows(Net(forward, conv=nn.Conv2d(3, 4, 3, padding=1))) == [
        ("conv", "conv", ("data",), (4, 8, 8)),
        ("relu", "relu", ("conv",), (4, 8, 8)),
        ("add", "add", ("relu",), (4, 8, 8)),
        ("add@1", "add", ("relu", "relu"), (4, 8, 8)),
        ("concat", "concat", ("relu", "add", "add@1"), (12, 8, 8)),
        ("pool", "pool", ("concat",), (12, 4, 4)),
        ("relu@1", "relu", ("pool",), (12, 4, 4)),
        ("adaptiveavgpool", "adaptiveavgpool", ("relu@1",), (12, 1, 1)),
    ]


def test_views_are_no_layers() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        y = net.conv(x)
        y = y.permute(0, 2, 3, 1).contiguous()  # permuting is a view, but making it contiguous copies
        return net.linear(y.flatten(1).unsqueeze(1)[:, 0].contiguous().reshape(x.shape[0], -1, 4)[..., :2].squeeze(1))

    net = Net(forward, conv=nn.Conv2d(3, 4, 1), linear=nn.Linear(2, 10))
    assert rows(net) == [
        ("conv", "conv", ("data",), (4, 8, 8)),
        ("contiguous", "contiguous", ("conv",), (8, 8, 4)),
        ("linear", "linear", ("contiguous",), (64, 10)),
    ]


def test_what_is_written_into_an_input_is_in_place() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        y = net.conv(x)
        nn.functional.relu(y, inplace=True)
        y += net.conv(x)
        y = y + 1
        return net.relu(y)

    table = layers(Net(forward, conv=nn.Conv2d(3, 3, 1), relu=nn.ReLU(inplace=True)), choices.image_sample(8))
    assert [(layer.name, layer.inputs, layer.in_place) for layer in table] == [
        ("conv", ("data",), False),
        ("relu", ("conv",), True),
        ("conv@1", ("data",), False),
        ("add", ("relu", "conv@1"), True),
        ("add@1", ("add",), False),
        ("relu@1", ("add@1",), True),
    ]


def test_operations_carry_the_path_of_the_module_whose_forward_method_has_them() -> None:
    inner = Net(lambda net, x: x + net.conv(x), conv=nn.Conv2d(3, 3, 1))
    assert [row[0] for row in rows(Net(lambda net, x: net.inner(x).relu(), inner=inner))] == [
        "inner.conv",
        "inner.add",
        "relu",
    ]


def test_a_tensor_made_once_for_all_images_is_counted_once() -> None:
    table = layers(
        Net(lambda net, x: x * net.scale.exp(), scale=nn.Parameter(torch.ones(3, 1, 1))), choices.image_sample(8)
    )
    assert [(layer.kind, layer.output_shape, layer.inputs) for layer in table] == [
        ("exp", (3, 1, 1), ()),
        ("mul", (3, 8, 8), ("data", "exp")),
    ]


# ---- parameters and multiply-adds -----------------------------------------------------------------------------------


def parameters(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {layer.name: layer.parameters for layer in layers(net, choices.image_sample(8))}


def test_a_module_or_parameter_that_is_used_twice_counts_once() -> None:
    first, second = nn.Conv2d(3, 3, 1, bias=False), nn.Conv2d(3, 3, 1, bias=False)
    second.weight = first.weight
    net = Net(lambda net, x: net.second(net.first(net.first(x))), first=first, second=second)
    assert parameters(net) == {"first": (9,), "first@1": (), "second": ()}


def test_parameters_used_directly_belong_to_the_layer_that_reads_them() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        scaled = x * net.scale.expand(3, 8, 8)
        return nn.functional.conv2d(scaled, net.weight)

    net = Net(forward, scale=nn.Parameter(torch.ones(3, 1, 1)), weight=nn.Parameter(torch.ones(4, 3, 1, 1)))
    assert parameters(net) == {"mul": (3,), "conv": (12,)}


def test_parameters_inside_attention_are_counted() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(net: Any, x: Tensor) -> Tensor:
        y = x[:, 0]
        return net.attention(y, y, y, need_weights=False)[0]

    (layer,) = layers(Net(forward, attention=attention), choices.image_sample(8))
    assert sum(layer.parameters) == sum(p.numel() for p in attention.parameters())
    # Four projections of 8 tokens from 8 to 8 features, and two products of attention: 8 x 8 tokens, 8 features.
    assert layer.multiply_adds == 4 * 8 * 8 * 8 + 2 * 8 * 8 * 8


def test_frozen_parameters_are_not_trainable() -> None:
    conv = nn.Conv2d(3, 4, 1)
    conv.weight.requires_grad_(False)
    assert parameters(Net(lambda net, x: net.conv(x), conv=conv)) == {"conv": (4,)}


def test_multiply_adds_of_a_grouped_convolution() -> None:
    conv = nn.Conv2d(4, 8, 3, padding=1, groups=2)
    table = layers(Net(lambda net, x: net.conv(torch.cat([x, x[:, :1]], 1)), conv=conv), choices.image_sample(8))
    assert [layer.multiply_adds for layer in table] == [0, 8 * 8 * 8 * (4 // 2) * 9]


def test_the_module_is_left_as_it_is() -> None:
    net = Net(lambda net, x: net.norm(x), norm=nn.BatchNorm2d(3)).eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    layers(net, choices.image_sample(8))
    assert not net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_control_flow_on_the_images_is_refused_with_its_line() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x

    line = inspect.getsourcelines(forward)[1] + 1
    with pytest.raises(ConfigError, match=rf"cannot follow Net at .*test_layers\.py:{line} \(.*control flow"):
        layers(Net(forward), choices.image_sample(8))


def test_images_too_small_for_the_model_are_refused_with_the_place() -> None:
    net = Net(lambda net, x: net.conv(x), conv=nn.Conv2d(3, 3, 9))
    with pytest.raises(
        ConfigError, match=r"image_size=8: Net fails on images of this size, at conv \(.* size (can't|is)"
    ):
        layers(net, choices.image_sample(8))


def test_parameters_that_the_forward_pass_does_not_use_are_refused_by_name() -> None:
    net = Net(lambda net, x: net.conv(x), conv=nn.Conv2d(3, 3, 1), spare=nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=r"does not use its parameters spare\.weight, spare\.bias"):
        layers(net, choices.image_sample(8))
