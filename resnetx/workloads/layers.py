"""Any PyTorch module as a layer table.

torch.fx writes down which operations the forward pass of the training network executes. Interpreting that graph on the
meta device, where tensors have shapes but no elements, shows what each operation makes and which memory it touches: an
operation whose output lies in the memory of an input made nothing. If it wrote there it is an in-place layer, else it
is a view, and no layer. FLOPs are PyTorch's own count (torch.utils.flop_counter).

What torch.fx takes for one operation is one layer with one output: a module of `torch.nn` (multi-head attention too),
or a function that a library marks with `torch.fx.wrap` (the windowed attention of torchvision's Swin).
"""

import copy
import operator
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from resnetx.choices import Sample
from resnetx.errors import ConfigError
from resnetx.workloads.counts import DATA, Layer

# Images in the batch that is interpreted: a prime of which no other dimension is likely to be a multiple, so that a
# shape itself says which of its dimensions counts images, and whether any does.
_BATCH = 1009

# What the table calls an operation for which PyTorch has several names (shortened by `_kind`).
_KINDS = {
    "cat": "concat",
    "concatenate": "concat",
    "convtranspose": "conv",
    "iadd": "add",
    "localresponsenorm": "lrn",
    "addmm": "linear",
    "rmul": "mul",
    "radd": "add",
    "syncbatchnorm": "batchnorm",
}


@contextmanager
def without_elements() -> Iterator[None]:
    """Modules built in this context have their parameters and buffers on the meta device: shapes that cost nothing.

    `torch.device("meta")` would put all tensors there, also those that some constructors compute with (RegNet's).
    """
    hooks = (
        register_module_parameter_registration_hook(lambda module, name, parameter: _on_meta(parameter)),
        register_module_buffer_registration_hook(lambda module, name, buffer: _on_meta(buffer)),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def layers(module: nn.Module, sample: Sample) -> list[Layer]:
    """The layers of `module`, in the order of execution, as one such sample sees them.

    They are those of the mode that the module is in: training, unless somebody changed it. The module is left as it
    is, and none of its weights is read, so it may as well live on the meta device.
    """
    module = _copy_on_meta(module)
    return _tabulated(module, _graph(module), sample).layers


@dataclass(frozen=True)
class Operations:
    """A module's forward pass operation by operation."""

    graph: fx.Graph
    layer_of: dict[str, str]  # name of a node of the graph -> name of its layer; nodes that only view have none


def operations(module: nn.Module, sample: Sample) -> Operations:
    """What the forward pass of `module` executes, and which layer of its table (`layers`) each operation is."""
    graph = _graph(module)
    return Operations(graph, _tabulated(_copy_on_meta(module), graph, sample).layer_of)


def _tabulated(module: nn.Module, graph: fx.Graph, sample: Sample) -> "_Tabulator":
    """The tabulator of a module on the meta device, once it has executed the graph."""
    tabulator = _Tabulator(module, graph)
    try:
        with torch.no_grad(), tabulator.flops:
            dtype = torch.int64 if sample.vocabulary else torch.float32
            tabulator.run(torch.empty(_BATCH, *sample.shape, dtype=dtype, device="meta"))
    except (RuntimeError, ValueError, AssertionError) as error:
        node = tabulator.node
        where = node.target if node.op == "call_module" else node.name
        assert not sample.vocabulary, f"{type(module).__name__} fails at {where}: {_first_line(error)}"
        raise ConfigError(
            f"image_size={sample.shape[-1]}: {type(module).__name__} fails on images of this size, at {where} "
            f"({_first_line(error)}); expected a size that it accepts"
        ) from error
    unused = [name for name, p in module.named_parameters() if p.requires_grad and p not in tabulator.counted]
    if unused:
        raise ConfigError(
            f"the forward pass of {type(module).__name__} does not use its parameters {', '.join(unused)}, for whose "
            "gradients data-parallel training would wait; expected it to use every trainable one: choose another model"
        )
    return tabulator


def _copy_on_meta(module: nn.Module) -> nn.Module:
    """The module, if it is on the meta device, or a copy there, in which shared parameters are still shared."""
    tensors = [*module.parameters(), *module.buffers()]
    if all(tensor.is_meta for tensor in tensors):
        return module
    return copy.deepcopy(module, {id(tensor): _on_meta(tensor) for tensor in tensors})


def _on_meta(tensor: Tensor | None) -> Any:
    if tensor is None or tensor.is_meta:
        return tensor
    elements = tensor.detach().to("meta")
    return nn.Parameter(elements, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else elements


def _graph(module: nn.Module) -> fx.Graph:
    try:
        return _Tracer().trace(module)
    except Exception as error:  # whatever the module's code raises when it meets a stand-in for a tensor
        torch_folder = Path(torch.__file__).parent
        frames = traceback.extract_tb(error.__traceback__)
        where = [frame for frame in frames if not Path(frame.filename).is_relative_to(torch_folder)][-1]
        raise ConfigError(
            f"torch.fx cannot follow {type(module).__name__} at {where.filename}:{where.lineno} "
            f"({_first_line(error)}); expected a forward pass whose control flow does not depend on the images: change "
            "that line, or choose another model"
        ) from error


def _augmented(operation: Callable[[Any, Any], Any]) -> Callable[[fx.Proxy, Any], fx.Proxy]:
    return lambda proxy, other: proxy.tracer.create_proxy("call_function", operation, (proxy, other), {})


class _Proxy(fx.Proxy):
    """What torch.fx lacks: it takes `x += y` for `x = x + y`, where PyTorch works in place."""

    __iadd__ = _augmented(operator.iadd)
    __isub__ = _augmented(operator.isub)
    __imul__ = _augmented(operator.imul)
    __itruediv__ = _augmented(operator.itruediv)


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class _Tabulator(fx.Interpreter):
    """Executes a graph and notes a layer for every operation that makes or overwrites a tensor."""

    def __init__(self, module: nn.Module, graph: fx.Graph) -> None:
        super().__init__(module, graph=graph)
        self.layers: list[Layer] = []
        self.layer_of: dict[str, str] = {}
        self.counted: set[nn.Parameter] = set()
        self.flops = FlopCounterMode(display=False)
        self.node: fx.Node  # being executed
        # What lies in which memory: the output of a layer, or a parameter.
        self._layer_at: dict[int, str] = {}
        self._parameter_at: dict[int, nn.Parameter] = {}
        self._uses: Counter[str] = Counter()

    def run_node(self, n: fx.Node) -> Any:
        self.node = n
        read = tensors(self.fetch_args_kwargs_from_env(n))
        versions = [tensor._version for tensor in read]
        flops = self.flops.get_total_flops()
        value = super().run_node(n)
        made = tensors(value)
        if n.op == "placeholder":
            self._layer_at.update({memory_of(tensor): DATA for tensor in made})
        elif n.op == "get_attr" and isinstance(value, nn.Parameter):
            self._parameter_at[memory_of(value)] = value
        elif n.op.startswith("call_") and made:
            # Of every input in whose memory the output lies: was it written?
            written = [
                tensor._version != version
                for tensor, version in zip(read, versions, strict=True)
                if memory_of(tensor) == memory_of(made[0])
            ]
            if any(written) or not written:
                self._note(n, read, made, any(written), self.flops.get_total_flops() - flops)
        return value

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and isinstance(self.fetch_attr(target), nn.modules.batchnorm._BatchNorm):
            # Its output is shaped as its input. To hear that from the meta device takes 1 ms, most of a ResNet's table.
            return torch.empty_like(args[0])
        return super().call_module(target, args, kwargs)

    def _note(self, n: fx.Node, read: list[Tensor], made: list[Tensor], in_place: bool, flops: int) -> None:
        shape, images = _per_image(tuple(made[0].shape))
        layer = Layer(
            name=self._name(n),
            kind=self._kind(n),
            inputs=tuple(self._layer_at[memory_of(t)] for t in read if memory_of(t) in self._layer_at),
            output_shape=shape,
            in_place=in_place,
            parameters=self._parameters(n, read),
            multiply_adds=flops // 2 // images,
        )
        self.layers.append(layer)
        self.layer_of[n.name] = layer.name
        self._layer_at.update({memory_of(tensor): layer.name for tensor in made})

    def _parameters(self, n: fx.Node, read: list[Tensor]) -> tuple[int, ...]:
        """Elements of the trainable parameters that this operation is the first to use."""
        module = self._module(n)
        used = [] if module is None else list(module.parameters())
        used += [self._parameter_at[memory_of(t)] for t in read if memory_of(t) in self._parameter_at]
        new = [p for p in dict.fromkeys(used) if p.requires_grad and p not in self.counted]
        self.counted.update(new)
        return tuple(parameter.numel() for parameter in new)

    def _kind(self, n: fx.Node) -> str:
        module = self._module(n)
        return kind_name(n.target if module is None else type(module))

    def _module(self, n: fx.Node) -> nn.Module | None:
        return self.fetch_attr(str(n.target)) if n.op == "call_module" else None

    def _name(self, n: fx.Node) -> str:
        """The module's path; for an operation in a forward method, that module's path and the kind; repeats get @1."""
        if n.op == "call_module":
            name = str(n.target)
        else:
            modules = list(n.meta.get("nn_module_stack", {}).values())
            name = ".".join([path for path, _ in modules[-1:]] + [self._kind(n)])
        self._uses[name] += 1
        return name if self._uses[name] == 1 else f"{name}@{self._uses[name] - 1}"


def tensors(value: Any) -> list[Tensor]:
    """The tensors in a value, however it nests them."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def kind_name(operation: Any) -> str:
    """PyTorch's name of a function, a method (by its name) or a class of modules: nn.Conv2d and F.conv2d are "conv"."""
    name = re.sub(r"_|[123]d\Z", "", getattr(operation, "__name__", str(operation)).lower())
    return "pool" if name.endswith("maxpool") else _KINDS.get(name, name)


def memory_of(tensor: Tensor) -> int:
    """Identifies the memory that a tensor lies in: views of it have the same. (On the meta device data_ptr() is 0.)"""
    return int(tensor.untyped_storage()._cdata)


def _per_image(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The shape without the batch dimension, and how many images it counted: 1 if the tensor is for all of them."""
    for index, length in enumerate(shape):
        if length and length % _BATCH == 0:
            of_one = () if length == _BATCH else (length // _BATCH,)
            return shape[:index] + of_one + shape[index + 1 :], _BATCH
    return shape, 1
