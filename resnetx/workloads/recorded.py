"""Any PyTorch module as a layer table, by watching it run: for models whose forward pass torch.fx cannot follow.

While a `Recorder` is entered, it is told of every module of `torch.nn` without children that is called, and of every
function of torch that is called outside of them. Each such call that makes a tensor, or writes one, is a layer, under
the name that `workloads.layers` has for it: where torch.fx can follow a module, both find the same table.

A table is made of two runs, with 2 samples and with 3: what grows between them counts samples. What no function of
torch makes (autograd functions in C++, compiled parts) is not seen; FLOP and gradients show that it is there, and it is
named.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from resnetx.workloads.counts import DATA, Layer
from resnetx.workloads.layers import kind_name, memory_of, tensors

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
    """A module of torch that is one operation: attention's output projection is a part of it."""
    own = type(module).__module__.startswith("torch.")
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
        read.update(memory_of(each) for each in operation.read)
        used = [] if operation.module is None else list(operation.module.parameters())
        used += [parameter_at[memory_of(each)] for each in operation.read if memory_of(each) in parameter_at]
        new = [each for each in dict.fromkeys(used) if each.requires_grad and each not in counted]
        counted.update(new)
        layers.append(
            Layer(
                name=operation.name,
                kind=operation.kind,
                inputs=tuple(layer_at[memory_of(each)] for each in operation.read if memory_of(each) in layer_at),
                output_shape=tuple(made[0].shape),
                in_place=operation.in_place,
                parameters=tuple(each.numel() for each in new),
                multiply_adds=operation.flops or _flops_of_rnn(operation),
            )
        )
        if not layers[-1].multiply_adds and _multiplies(operation):
            uncounted.append(f"{operation.name} ({operation.kind})")
        layer_at.update({memory_of(each): operation.name for each in made})

    flops = FlopCounterMode(display=False)
    with torch.no_grad(), flops, Recorder(module, told, flops):
        call()
    shapes = [tuple(each.shape) for each in tensors(inputs) if memory_of(each) in read]
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
    return Layer(
        name=layer.name,
        kind=layer.kind,
        inputs=layer.inputs,
        output_shape=shape,
        in_place=layer.in_place,
        parameters=layer.parameters,
        multiply_adds=flops // 2,
    )
