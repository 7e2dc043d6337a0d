"""Any PyTorch module as a layer table.

torch.fx writes down which operations the forward pass executes. Interpreting that graph on the meta device shows what
each makes: one whose output lies in the memory of an input is an in-place layer if it wrote there, else a view, and no
layer. FLOPs are PyTorch's own count (torch.utils.flop_counter).

What torch.fx takes for one operation is one layer with one output: a module of `torch.nn` (multi-head attention too),
or a function that a library marks with `torch.fx.wrap` (the windowed attention of torchvision's Swin).
"""

import copy
import operator
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, fx, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

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
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.LocalResponseNorm) or super().is_leaf_module(m, module_qualified_name)

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


# ---- recorded -------------------------------------------------------------------------------------------------------
# Any PyTorch module as a layer table, by watching it run: for models whose forward pass torch.fx cannot follow. A
# `Recorder` is told of every module of `torch.nn` without children that is called, and of every function of torch
# outside of them; each that makes a tensor, or writes one, is a layer, named as torch.fx would have it. Runs with 2
# samples and with 3 show what counts samples. What no function of torch makes (autograd functions in C++, compiled
# parts) shows in FLOP and gradients, and is named.

FEW = (2, 3)  # samples of the two runs; batch normalisation needs more than one


class RecordedOperation(NamedTuple):
    """One call that made a tensor, or wrote one."""

    name: str  # as `Layer.name`
    kind: str
    module: nn.Module | None  # of torch.nn; None: a function
    read: list[Tensor]
    value: Any  # what it returned
    in_place: bool
    flops: int


class Recorder(TorchFunctionMode):
    """Tells of the operations of a module's forward pass, one after the other, while it is entered."""

    def __init__(
        self, module: nn.Module, told: Callable[[RecordedOperation], None], flops: FlopCounterMode | None = None
    ) -> None:
        super().__init__()
        self._told, self._flops = told, flops
        self._paths = {part: path for path, part in module.named_modules()}
        self._leaves = {part for part in self._paths if _is_leaf(part)}
        self._hooks: list[RemovableHandle] = []

    def __enter__(self) -> "Recorder":
        self._uses: Counter[str] = Counter()
        self._inside: list[nn.Module] = []  # modules whose forward pass goes on
        self._begun: tuple[list[Tensor], list[int], int] | None = None  # of the leaf that runs
        for part in self._paths:
            if isinstance(part, torch.jit.ScriptModule):
                continue  # takes no hooks
            self._hooks.append(part.register_forward_pre_hook(self._begins, with_kwargs=True))
            self._hooks.append(part.register_forward_hook(self._ends, with_kwargs=True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._begun is not None or getattr(func, "__name__", "") == "__get__":  # attributes are views, or no tensors
            return func(*args, **kwargs)
        begun = self._state((args, kwargs))
        value = func(*args, **kwargs)
        if tensors(value):
            path = self._paths[self._inside[-1]] if self._inside else ""
            kind = kind_name(func)
            self._tell(".".join(filter(None, (path, kind))), kind, None, begun, value)
        return value

    def _begins(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._begun is not None:
            return
        self._inside.append(module)
        if module in self._leaves:
            with torch._C.DisableTorchFunction():
                self._begun = self._state((args, kwargs))

    def _ends(self, module: nn.Module, args: Any, kwargs: Any, value: Any) -> None:
        if self._inside[-1:] != [module]:  # a part of a leaf
            return
        self._inside.pop()
        begun, self._begun = self._begun, None
        if begun is not None and tensors(value):
            with torch._C.DisableTorchFunction():
                kind = kind_name(type(module))
                self._tell(self._paths[module] or kind, kind, module, begun, value)

    def _state(self, given: Any) -> tuple[list[Tensor], list[int], int]:
        read = tensors(given)
        return read, [tensor._version for tensor in read], self._flops.get_total_flops() if self._flops else 0

    def _tell(self, name: str, kind: str, module: nn.Module | None, begun: Any, value: Any) -> None:
        read, versions, flops = begun
        index = memory_of(tensors(value)[0])
        written = [
            tensor._version != version
            for tensor, version in zip(read, versions, strict=True)
            if memory_of(tensor) == index
        ]
        if written and not any(written):  # a view
            return
        self._uses[name] += 1
        name = name if self._uses[name] == 1 else f"{name}@{self._uses[name] - 1}"
        flops = self._flops.get_total_flops() - flops if self._flops else 0
        self._told(RecordedOperation(name, kind, module, read, value, any(written), flops))


def _is_leaf(module: nn.Module) -> bool:
    """A module of torch, or in its place, that is one operation: attention's output projection is a part of it."""
    own = type(module).__module__.startswith("torch.") or isinstance(module, nn.LocalResponseNorm)
    return own and (isinstance(module, nn.MultiheadAttention) or not any(module.children()))


class Run(NamedTuple):
    """What one forward pass did."""

    layers: list[Layer]  # with the shapes of the whole batch, and its FLOP
    counted: set[nn.Parameter]
    flops: int  # of all, seen or not
    uncounted: list[str]  # layers that have matrices, and no FLOP by torch's count
    read: list[tuple[int, ...]]  # the shapes of what the module read of its batch


def run_of(module: nn.Module, call: Callable[[], Any], inputs: Any) -> Run:
    """The layers of one forward pass, which `call` makes of `inputs`."""
    layers: list[Layer] = []
    counted: set[nn.Parameter] = set()
    uncounted: list[str] = []
    read: set[int] = set()  # memory
    kept: list[Any] = []  # else freed memory would be met again under another name
    layer_at = {memory_of(tensor): DATA for tensor in tensors(inputs)}
    parameter_at = {memory_of(parameter): parameter for parameter in module.parameters()}

    def told(operation: RecordedOperation) -> None:
        made = tensors(operation.value)
        kept.append((operation.read, made))
        read.update(memory_of(tensor) for tensor in operation.read)
        used = [] if operation.module is None else list(operation.module.parameters())
        used += [parameter_at[memory_of(tensor)] for tensor in operation.read if memory_of(tensor) in parameter_at]
        new = [parameter for parameter in dict.fromkeys(used) if parameter.requires_grad and parameter not in counted]
        counted.update(new)
        layers.append(
            Layer(
                name=operation.name,
                kind=operation.kind,
                inputs=tuple(layer_at[memory_of(tensor)] for tensor in operation.read if memory_of(tensor) in layer_at),
                output_shape=tuple(made[0].shape),
                in_place=operation.in_place,
                parameters=tuple(parameter.numel() for parameter in new),
                multiply_adds=operation.flops or _flops_of_rnn(operation),
            )
        )
        if not layers[-1].multiply_adds and _multiplies(operation):
            uncounted.append(f"{operation.name} ({operation.kind})")
        layer_at.update({memory_of(tensor): operation.name for tensor in made})

    flops = FlopCounterMode(display=False)
    with torch.no_grad(), flops, Recorder(module, told, flops):
        call()
    shapes = [tuple(tensor.shape) for tensor in tensors(inputs) if memory_of(tensor) in read]
    return Run(layers, counted, flops.get_total_flops(), uncounted, shapes)


def _flops_of_rnn(operation: RecordedOperation) -> int:
    """Of an LSTM, GRU or RNN, of whose kernels torch counts none: each matrix is used once for each token."""
    if not isinstance(operation.module, nn.RNNBase):
        return 0
    matrices = sum(parameter.numel() for parameter in operation.module.parameters() if parameter.dim() == 2)
    return 2 * matrices * (operation.read[0].numel() // operation.module.input_size)


def _multiplies(operation: RecordedOperation) -> bool:
    """Whether it has a matrix to multiply by, as embeddings do not."""
    module = operation.module
    return (
        module is not None
        and operation.kind != "embedding"
        and any(parameter.dim() > 1 for parameter in module.parameters())
    )


class CountedModule(NamedTuple):
    """A layer table, and what was not seen of the module, each a sentence."""

    layers: list[Layer]
    unseen: list[str]


def table(module: nn.Module, runs: Sequence[Run], trained: Sequence[str]) -> CountedModule:
    """The layers as one sample sees them, from runs with as many as `FEW`; `trained`: parameters with gradients.

    A parameter that has a gradient, but that no operation was seen to read, is a layer of its own behind all others.
    """
    few, more = runs
    unseen = []
    if [layer.name for layer in few.layers] == [layer.name for layer in more.layers]:
        layers = [_of_one(*both) for both in zip(few.layers, more.layers, strict=True)]
    else:
        layers = [_of_many(layer) for layer in more.layers]
        unseen.append(f"its operations differ from batch to batch: those of a batch of {FEW[1]} were counted")
    if more.uncounted:
        unseen.append(f"torch counts no FLOP of {', '.join(more.uncounted)}")
    missed = more.flops - sum(layer.multiply_adds for layer in more.layers)
    if missed > 0:
        share = missed / more.flops
        unseen.append(f"{share:.0%} of its FLOP are in no operation that was seen, and in no layer of the table")
    names = dict(module.named_parameters())
    for name in trained:
        parameter = names[name]
        if parameter not in more.counted:
            layers.append(
                Layer(
                    name=name,
                    kind="unseen",
                    inputs=(layers[-1].name,) if layers else (DATA,),
                    output_shape=(0,),
                    in_place=False,
                    parameters=(parameter.numel(),),
                    multiply_adds=0,
                )
            )
            unseen.append(f"no operation was seen to read the parameter {name}, which has a gradient")
    scripted = [path for path, part in module.named_modules() if isinstance(part, torch.jit.ScriptModule)]
    if scripted:
        unseen.append(f"what is inside of {', '.join(scripted)} (TorchScript) was not seen")
    return CountedModule([_data(few, more), *layers], unseen)


def _data(few: Run, more: Run) -> Layer:
    """What one sample has of what the module reads: of one tensor its shape, of several their elements."""
    shapes = [_shape_of_one(*both) for both in zip(few.read, more.read, strict=False)]
    shape = shapes[0] if len(shapes) == 1 and shapes[0] else (sum(map(prod, shapes)),)
    # in place: nothing is made
    return Layer(name=DATA, kind=DATA, inputs=(), output_shape=shape, in_place=True, parameters=(), multiply_adds=0)


def _of_one(few: Layer, more: Layer) -> Layer:
    """One sample's part of a layer, from its shapes and FLOP with 2 samples and with 3."""
    shape = _shape_of_one(few.output_shape, more.output_shape)
    flops = more.multiply_adds - few.multiply_adds if more.multiply_adds != few.multiply_adds else few.multiply_adds
    return _sized(more, shape, flops)


def _shape_of_one(few: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the dimension that counts samples, if any does."""
    shape: list[int] = []
    found = False
    for a, b in zip(few, more, strict=False):
        if a != b and not found and a * FEW[1] == b * FEW[0]:
            found = True
            shape += [] if a == FEW[0] else [a // FEW[0]]
        else:
            shape.append(b)
    return tuple(shape)


def _of_many(layer: Layer) -> Layer:
    """The same by the run with 3 samples alone: the first dimension that is a multiple of it counts them."""
    shape = list(layer.output_shape)
    for index, length in enumerate(shape):
        if length and length % FEW[1] == 0:
            shape[index : index + 1] = [] if length == FEW[1] else [length // FEW[1]]
            return _sized(layer, tuple(shape), layer.multiply_adds // FEW[1])
    return _sized(layer, tuple(shape), layer.multiply_adds)


def _sized(layer: Layer, shape: tuple[int, ...], flops: int) -> Layer:
    return msgspec.structs.replace(layer, output_shape=shape, multiply_adds=flops // 2)
