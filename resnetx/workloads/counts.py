"""Activations, parameters and intensity of a workload: pure arithmetic on its layer table.

"Activations" and "parameters" mean different things to different people, so every count names its convention:

- `caffe`: what Tallent et al. 2017 counted: the distinct blobs, and the learnable blobs, of the net as Caffe trains it.
- `torch`: the tensors that PyTorch's forward pass makes, and the trainable parameters.
- `conv`: the outputs of convolution and linear layers (as fvcore and timm count), and the trainable parameters.
- `saved`: the **bytes** that PyTorch keeps for the backward pass in fp32, and the trainable parameters.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import prod
from typing import Any, NamedTuple

import msgspec

from resnetx import choices
from resnetx.errors import unknown_name

# The name under which layers read the image. The table of a user's own model has a layer of this name and kind before
# all others, whose output is what the model reads of its batch: `image_size` then says nothing.
DATA = "data"
BYTES_PER_PARAMETER = 4  # parameters and their gradients are kept in fp32, whatever the precision of the arithmetic


class Layer(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # in no cycle, and there may be 100,000 of them
    """One operation of a network, as one image sees it. Views of a tensor (flatten, reshape ...) are not layers."""

    name: str  # unique: the module's path; for an operation in a forward method, that module's path and the kind
    # "conv", "linear", "batchnorm", "relu", "pool" (of maxima), "lrn", "dropout", "add", "concat", or PyTorch's name
    kind: str
    inputs: tuple[str, ...]  # names of the layers it reads, one for each time; "data" is the image
    output_shape: tuple[int, ...]  # without the batch dimension
    in_place: bool  # as PyTorch executes it: the output overwrites an input
    parameters: tuple[int, ...]  # elements of each trainable tensor; a shared one stands where it is used first
    multiply_adds: int  # of the forward pass, in convolutions and matrix products; 2 FLOP each

    @property
    def elements(self) -> int:
        """Elements of the output, per image."""
        return prod(self.output_shape)


# ---- blocks that are alike ------------------------------------------------------------------------------------------


def folded(layers: Sequence[Layer]) -> list[tuple[Layer, ...]]:
    """Layers one by one, each in a tuple of its own, but blocks that are like the one before them in one tuple."""
    found: list[tuple[Layer, ...]] = []
    blocks = [tuple(block) for _, block in groupby(layers, key=lambda layer: block_of(layer.name))]
    for _, alike in groupby(blocks, key=_facts):
        first, *others = alike
        found += [(layer,) for layer in first]
        found += [tuple(chain.from_iterable(others))] if others else []
    return found


def block_of(layer: str) -> str:
    """The block that a layer is in by its name, "blocks.0" of "blocks.0.residual.1"; "" where it is in none."""
    outer, blocks, inside = layer.rpartition("blocks.")
    number = inside.partition(".")[0] if blocks else ""
    return f"{outer}{blocks}{number}" if number.isdigit() else ""


def _facts(block: Sequence[Layer]) -> list[tuple[Any, ...]]:
    """What two blocks have in common that are alike."""
    skipped = len(block_of(block[0].name))
    return [
        (layer.name[skipped:], layer.kind, layer.output_shape, layer.parameters, layer.multiply_adds) for layer in block
    ]


# ---- activations ----------------------------------------------------------------------------------------------------


def activations(layers: Sequence[Layer], image_size: int, convention: str) -> int:
    """Activations per image of the training network, by a convention of this module's docstring."""
    return sum(activations_by_layer(layers, image_size, convention).values())


def activations_by_layer(layers: Sequence[Layer], image_size: int, convention: str) -> dict[str, int]:
    """Name of a layer -> the activations that it adds; the image and its label are those of "data"."""
    match convention:
        case "caffe":
            return _caffe_blobs(layers, image_size)
        case "torch":
            return {layer.name: 0 if layer.in_place else layer.elements for layer in layers}
        case "conv":
            return {layer.name: layer.elements if layer.kind in ("conv", "linear") else 0 for layer in layers}
        case "saved":
            return _saved_by_layer(layers, image_size)
    raise unknown_name("counting convention", convention, choices.CONVENTIONS, "convention")


def _caffe_blobs(layers: Sequence[Layer], image_size: int) -> dict[str, int]:
    """Elements of Caffe's blobs: the image, its label and what every layer makes, except the loss.

    ReLU, Dropout and BatchNorm (with its Scale) work in place; any other layer makes a blob. Where k > 1 layers read a
    blob, Caffe inserts a Split layer, which makes k more of it. Every classifier head reads the label.
    """
    readers = Counter(name for layer in layers for name in layer.inputs)
    heads = sum(readers[layer.name] == 0 for layer in layers)
    image, label = 3 * image_size**2, 1
    blobs = {DATA: image * (1 + _copies(readers[DATA])) + label * (1 + _copies(heads))}
    for layer in layers:
        makes_blob = layer.kind not in ("relu", "dropout", "batchnorm")
        blobs[layer.name] = layer.elements * (makes_blob + _copies(readers[layer.name]))
    return blobs


def _copies(readers: int) -> int:
    return readers if readers > 1 else 0


# ---- parameters -----------------------------------------------------------------------------------------------------


def parameters(layers: Iterable[Layer], convention: str) -> int:
    """Parameters by a convention of this module's docstring."""
    return sum(parameters_of(layer, convention) for layer in layers)


def parameters_of(layer: Layer, convention: str) -> int:
    """One layer's parameters; all but Caffe agree on them."""
    match convention:
        case "caffe":
            return _caffe_parameters(layer)
        case "torch" | "conv" | "saved":
            return _trainable(layer)
    raise unknown_name("counting convention", convention, choices.CONVENTIONS, "convention")


def _caffe_parameters(layer: Layer) -> int:
    """Elements of a layer's learnable Caffe blobs.

    Normalising C channels takes 6 C + 1: BatchNorm (in NVIDIA's Caffe) has scale, shift, mean and variance of C and one
    counter, and the Scale layer behind it has a scale and a shift of its own.
    """
    if layer.kind == "batchnorm" and layer.parameters:
        return 6 * layer.parameters[0] + 1
    return _trainable(layer)


def _trainable(layer: Layer) -> int:
    return sum(layer.parameters)


# ---- what follows from them -----------------------------------------------------------------------------------------


def payload_bytes(layers: Iterable[Layer], convention: str) -> int:
    """The all-reduce payload as Tallent et al. 2017 state it: 4 bytes for every parameter of the convention."""
    return BYTES_PER_PARAMETER * parameters(layers, convention)


def gradient_bytes(layers: Iterable[Layer]) -> int:
    """What data-parallel training really sends: the gradients of the trainable parameters, in fp32."""
    return BYTES_PER_PARAMETER * sum(map(_trainable, layers))


def variables_bytes(layers: Iterable[Layer]) -> list[int]:
    """The gradient of each trainable tensor, in fp32, in the order in which they are created."""
    return [BYTES_PER_PARAMETER * elements for layer in layers for elements in layer.parameters]


def flops_per_image(layers: Iterable[Layer]) -> int:
    """FLOP of the forward pass; a multiply-add is 2.

    Convolutions and matrix products only, as is usual: normalisation, pooling, ReLU and sums, which are left out, are a
    few percent of a convolutional network's operations. A training step takes about three times this.
    """
    return 2 * sum(layer.multiply_adds for layer in layers)


def intensity(activations_per_image: int, parameters: int, batch_size: int) -> float:
    """Activations per parameter of a batch: the work that a step does over what it must communicate."""
    return activations_per_image * batch_size / parameters


def intensity_per_gpu(per_batch: float, gpus: Iterable[int]) -> dict[str, float]:
    """GPU count -> activations per parameter on each GPU, which has its share of the batch and all parameters."""
    return {str(count): per_batch / count for count in gpus}


# ---- what is kept for the backward pass -----------------------------------------------------------------------------

# Each tensor once, however many operations keep it; parameters are not counted. A test holds that
# `torch.autograd.graph.saved_tensors_hooks` sees the same bytes.
#
#     convolution, product   its inputs
#     batch normalisation    its input, a mean and a deviation of each channel
#     ReLU                   its output, which is its input where it works in place
#     sigmoid, tanh, softmax its output
#     GELU, SiLU, ReLU6 ...  its input; a copy of that where it works in place
#     max pooling            its input, and the place of each maximum as int64
#     average pooling        its input; adaptive to one pixel, which is a mean, nothing
#     LRN                    its input, their squares, and two tensors like the output
#     dropout                a mask of one byte
#     sum, concatenation,    nothing
#     padding, stochastic depth
#     product of two         both
#     layer normalisation    its input, a mean and a deviation of each token
#     embedding              the numbers of the tokens, as int64
#     attention of GPT/x     queries, keys, values, its output, and a sum of each head and token (by a fused kernel)
#     and BERT
#     nn.MultiheadAttention  its input, and the same but the sums
#     loss                   the logarithms of the classes' shares in fp32, and the labels as int64
#     any other              its inputs and its output
#
# In bf16 and fp16 by autocast, convolutions and products read their inputs in half precision: an input in fp32 is
# copied, and the copy is kept. LRN takes its power in fp32, so its output is fp32, and so is all that follows until the
# next convolution or product. (PyTorch, "Automatic Mixed Precision", lists what runs in which precision on CUDA.)

INDEX_BYTES = 8  # of an int64


class KeptBytes(NamedTuple):
    """Memory that the forward pass keeps until the backward pass of the layer at place `first` is over."""

    first: int
    bytes_per_image: int
    memory: str = ""  # the layer whose output it is; "": a copy, or what a layer makes besides


def widths(table: Sequence[Layer], least: int) -> dict[str, int]:
    """Bytes of an element of what each layer makes, by its name, and of the images; `least`: in the run's precision."""
    found = {DATA: BYTES_PER_PARAMETER}
    for layer in table:
        if layer.kind in _IN_HALF:
            found[layer.name] = least
        elif layer.kind in _IN_FULL:
            found[layer.name] = BYTES_PER_PARAMETER
        else:
            found[layer.name] = max((found[name] for name in layer.inputs), default=least)
    return found


# By autocast; an embedding is never cast.
_IN_HALF = ("conv", "linear", "multiheadattention")
_IN_FULL = ("lrn", "layernorm", "groupnorm", "softmax", "embedding", DATA)


def kept(table: Sequence[Layer], image_size: int, widths: Mapping[str, int]) -> Iterator[KeptBytes]:
    """Every piece of memory that is kept, once, with the earliest layer that keeps it."""
    return _kept_at(range(len(table)), table, elements(table, image_size), _memory(table), widths)


def _kept_at(
    places: Sequence[int],
    table: Sequence[Layer],
    sizes: Mapping[str, int],
    memory: Mapping[str, str],
    widths: Mapping[str, int],
) -> Iterator[KeptBytes]:
    """The same of the layers at some places, by the elements and the memory of what layers make."""
    tensors: dict[str, int] = {}
    for index in places:
        layer = table[index]
        for name in _keeps(layer):
            if layer.kind in _IN_HALF and widths[name] > widths[layer.name]:
                yield KeptBytes(index, sizes[name] * widths[layer.name])  # a copy
            else:
                tensors.setdefault(memory[name], index)
        if extra_bytes := _keeps_in_addition(layer, widths):
            yield KeptBytes(index, extra_bytes)
    for name, index in tensors.items():
        yield KeptBytes(index, sizes[name] * widths[name], name)
    if table and len(table) - 1 in places:
        yield KeptBytes(len(table) - 1, _kept_by_loss(table))


class RecomputedBlock(NamedTuple):
    """A block of a family of which only the input is kept: before it is undone, its forward pass is computed again.

    PyTorch ends that once all is there that the backward pass reads (`torch.utils.checkpoint`, "early stop"): a product
    that comes last in a block is not computed again.
    """

    places: range  # of its layers
    computed: range  # of those that are computed again
    kept: tuple[KeptBytes, ...]  # while it is undone, besides its input


def recomputed(table: Sequence[Layer], image_size: int, widths: Mapping[str, int]) -> list[RecomputedBlock]:
    """The blocks of a family, in the order of the forward pass."""
    place_of = {layer.name: index for index, layer in enumerate(table)}
    sizes, memory = elements(table, image_size), _memory(table)
    blocks = []
    for places in _blocks(table):
        every = _kept_at(places, table, sizes, memory, widths)
        own = (
            kept_bytes for kept_bytes in every if not kept_bytes.memory or place_of.get(kept_bytes.memory, -1) in places
        )
        read = [place_of.get(name, -1) for place in places for name in _keeps(table[place])]
        made = [place for place in places if _keeps_in_addition(table[place], widths)]
        end = max([place for place in (*read, *made) if place in places], default=places[0] - 1) + 1
        blocks.append(RecomputedBlock(places, range(places[0], end), tuple(own)))
    return blocks


def kept_outside(table: Sequence[Layer], image_size: int, widths: Mapping[str, int]) -> Iterator[KeptBytes]:
    """What is kept from the forward pass on where blocks are computed again: their inputs, and all outside of them."""
    sizes, memory, blocks = elements(table, image_size), _memory(table), _blocks(table)
    inside = {index for places in blocks for index in places}
    places_outside = [index for index in range(len(table)) if index not in inside]
    outside = list(_kept_at(places_outside, table, sizes, memory, widths))
    known = {kept_bytes.memory for kept_bytes in outside}
    yield from outside
    for places in blocks:
        own = {table[index].name for index in places}
        read = (name for index in places for name in table[index].inputs if name not in own)
        for name in {memory[name] for name in read} - known:
            yield KeptBytes(places[0], sizes[name] * widths[name], name)


def _blocks(table: Sequence[Layer]) -> list[range]:
    """The places of the layers of each block."""
    found: dict[str, list[int]] = {}
    for index, layer in enumerate(table):
        if block := block_of(layer.name):
            found.setdefault(block, []).append(index)
    return [range(places[0], places[-1] + 1) for places in found.values()]


def _keeps(layer: Layer) -> tuple[str, ...]:
    """The tensors of the network that it keeps, by the layers that made them."""
    match layer.kind:
        case "conv" | "linear" | "multiheadattention" | "batchnorm" | "layernorm" | "groupnorm" | "lrn":
            return tuple(dict.fromkeys(layer.inputs))
        case "pool" | "avgpool" | "mul" | "matmul" | "bmm" | "leakyrelu" | "elu" | "softplus" | "mish" | "prelu":
            return layer.inputs
        case "relu" | "sigmoid" | "tanh" | "softmax" | "logsoftmax":
            return (layer.name,)
        case "gelu" | "silu" | "relu6" | "hardtanh" | "hardswish" | "hardsigmoid":
            return () if layer.in_place else layer.inputs
        case "adaptiveavgpool":
            return () if layer.output_shape[1:] == (1, 1) else layer.inputs
        case "dropout" | "stochasticdepth" | "add" | "concat" | "pad" | "embedding" | "data":
            return ()
    return (*layer.inputs, layer.name)


def _keeps_in_addition(layer: Layer, widths: Mapping[str, int]) -> int:
    """Bytes per image that it keeps besides tensors of the network; statistics of a batch are too small to count."""
    match layer.kind:
        case "pool":
            return INDEX_BYTES * layer.elements
        case "lrn":
            return layer.elements * (widths[layer.inputs[0] if layer.inputs else layer.name] + 2 * widths[layer.name])
        case "dropout":
            return layer.elements
        case "silu" | "relu6" | "hardtanh" | "hardswish" | "hardsigmoid":
            return widths[layer.name] * layer.elements if layer.in_place else 0
        case "multiheadattention":
            return 4 * widths[layer.name] * layer.elements
        case "layernorm":
            return 2 * BYTES_PER_PARAMETER * prod(layer.output_shape[:-1])
        case "embedding":
            return INDEX_BYTES * prod(layer.output_shape[:-1]) if layer.inputs else 0
        case "causalattention" | "selfattention" | "scaleddotproductattention":
            return BYTES_PER_PARAMETER * prod(layer.output_shape[:-1])
    return 0


def _kept_by_loss(table: Sequence[Layer]) -> int:
    """Bytes per image: every layer that no other reads is a classifier, whose outputs are the last of their shape."""
    read = {name for layer in table for name in layer.inputs}
    heads = [layer for layer in table if layer.name not in read]
    return sum(BYTES_PER_PARAMETER * head.elements + INDEX_BYTES * prod(head.output_shape[:-1]) for head in heads)


def _memory(table: Sequence[Layer]) -> dict[str, str]:
    """Layer -> the one whose output's memory it writes: its own, or through layers in place, its first input's."""
    memory = {DATA: DATA}
    for layer in table:
        memory[layer.name] = memory[layer.inputs[0]] if layer.in_place and layer.inputs else layer.name
    return memory


def elements(table: Sequence[Layer], image_size: int) -> dict[str, int]:
    return {DATA: 3 * image_size**2} | {layer.name: layer.elements for layer in table}


def _saved_by_layer(layers: Sequence[Layer], image_size: int) -> dict[str, int]:
    """Bytes per image that each layer is the first to keep, in fp32; the loss is counted to the last layer."""
    found = {layer.name: 0 for layer in layers}
    for kept_bytes in kept(layers, image_size, widths(layers, BYTES_PER_PARAMETER)):
        found[layers[kept_bytes.first].name] += kept_bytes.bytes_per_image
    return found


# ---- buckets --------------------------------------------------------------------------------------------------------
# Which gradients data-parallel training sends together, and in which order: pure arithmetic on a layer table.
#
#     messages(table, strategy=request.strategy, precision=request.precision)[0].size_bytes
#
# **When a gradient is ready.** Autograd undoes, of all operations that it can, the one that the forward pass executed
# last (torch/csrc/autograd/engine.cpp, the order of the ready queue), so that layers finish in the reverse of the order
# of execution, whatever branches the network has. A parameter of several layers is ready after the first of them: where
# the table has it. The order inside a layer is that of its operations, see `_FULL` and `_AUTOCAST`.
#
# **DDP's buckets.** The first step sends all gradients in one bucket. Before the second, DDP fills buckets in the order
# in which gradients became ready: a tensor is never divided, and a bucket is closed by the tensor with which it reaches
# its limit, so that it is usually larger. One limit holds for the first bucket, another for all others, and the rest is
# the last bucket (torch/csrc/distributed/c10d/reducer.cpp, `Reducer::rebuild_buckets` and
# `compute_bucket_assignment_by_size`; torch/nn/parallel/distributed.py, `DistributedDataParallel.__init__`). That is so
# for a network whose every parameter is used: with `find_unused_parameters=True` DDP keeps other buckets. The
# environment variable DDP_SET_LAST_BUCKET_CAP=1 makes the last bucket the special one, which is not modelled here.

MIB = 2**20  # what DDP's settings call MB
# DDP's own limits: torch.distributed._DEFAULT_FIRST_BUCKET_BYTES and torch.nn.parallel.distributed's default in MiB.
FIRST_BUCKET_BYTES, CAP_BYTES = 1 * MIB, 25 * MIB


class Gradient(msgspec.Struct, frozen=True, gc=False):
    """The gradient of one trainable tensor."""

    layer: str  # its name in the layer table
    elements: int

    @property
    def size_bytes(self) -> int:
        return BYTES_PER_PARAMETER * self.elements


class Message(msgspec.Struct, frozen=True, gc=False):
    """Gradients that are sent together, in the order in which they become ready. It starts when the last of them is."""

    gradients: tuple[Gradient, ...]

    @property
    def size_bytes(self) -> int:
        return sum(gradient.size_bytes for gradient in self.gradients)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that it has gradients of; a bucket may end, and the next begin, within a layer."""
        return tuple(dict.fromkeys(gradient.layer for gradient in self.gradients))


def messages(layers: Sequence[Layer], strategy: choices.Strategy, precision: str) -> tuple[Message, ...]:
    """What each rank sends in a step, in the order in which it does, once DDP has rebuilt its buckets."""
    return grouped(ready_order(layers, precision), strategy)


def grouped(ready: Sequence[Gradient], strategy: choices.Strategy) -> tuple[Message, ...]:
    """The messages of gradients that become ready in this order."""
    match strategy:
        case choices.Bucket():
            first_bucket_bytes, cap_bytes = _limits_bytes(strategy)
            return ddp_buckets(ready, first_bucket_bytes=first_bucket_bytes, cap_bytes=cap_bytes)
        case choices.Zero1():
            return ddp_buckets(ready, first_bucket_bytes=FIRST_BUCKET_BYTES, cap_bytes=CAP_BYTES)
        case choices.Fsdp():
            return _by_block(ready)
        case choices.Layerwise():
            return tuple(
                Message(tuple(gradients)) for _, gradients in groupby(ready, key=lambda gradient: gradient.layer)
            )
        case choices.After():
            return (Message(tuple(ready)),)
        case choices.Server():
            return tuple(Message((gradient,)) for gradient in ready)
        case choices.NoExchange():
            return ()


def ready_order(layers: Sequence[Layer], precision: str) -> tuple[Gradient, ...]:
    """All gradients in the order in which the backward pass finishes them; bf16 and fp16 are run under autocast."""
    orders = _AUTOCAST if precision in ("bf16", "fp16") else _FULL
    return tuple(
        Gradient(layer.name, layer.parameters[position])
        for layer in reversed(layers)
        for position in orders.get((layer.kind, len(layer.parameters)), range(len(layer.parameters)))
    )


def ddp_buckets(ready: Iterable[Gradient], *, first_bucket_bytes: int, cap_bytes: int) -> tuple[Message, ...]:
    """DDP's rule: gradients join a bucket until it holds its limit or more."""
    buckets: list[Message] = []
    filling: list[Gradient] = []
    filled_bytes = 0
    for gradient in ready:
        filling.append(gradient)
        filled_bytes += gradient.size_bytes
        if filled_bytes >= (cap_bytes if buckets else first_bucket_bytes):
            buckets.append(Message(tuple(filling)))
            filling, filled_bytes = [], 0
    if filling:
        buckets.append(Message(tuple(filling)))
    return tuple(buckets)


def _by_block(ready: Sequence[Gradient]) -> tuple[Message, ...]:
    """What FSDP reduces together: the gradients of each block of a family, and last those of all else."""
    blocks: dict[str, list[Gradient]] = {}
    for gradient in ready:
        blocks.setdefault(_block_of(gradient.layer), []).append(gradient)
    gradients = blocks.pop("", [])
    return tuple(Message(tuple(own)) for own in (*blocks.values(), gradients) if own)


def _block_of(layer: str) -> str:
    """The outermost block that a layer is in; "": it is in none of the model's own."""
    blocks, _, inside = layer.partition(".")
    number = inside.partition(".")[0]
    return f"{blocks}.{number}" if blocks == "blocks" and number.isdigit() else ""


def parts_of(gradients: Sequence[Gradient], ranks: int) -> list[int]:
    """Bytes of the parameters that each rank updates under ZeRO-1."""
    parts = [0] * ranks
    for gradient in sorted(gradients, key=lambda each: -each.elements):
        parts[parts.index(min(parts))] += gradient.size_bytes
    return parts


def _limits_bytes(strategy: choices.Bucket) -> tuple[int, int]:
    """The limits of the first bucket and of all others. To set the cap alone is to set it for the first bucket too."""
    cap_bytes = CAP_BYTES if strategy.bucket_cap_mb is None else int(strategy.bucket_cap_mb * MIB)
    if strategy.first_bucket_mb is not None:
        return int(strategy.first_bucket_mb * MIB), cap_bytes
    return FIRST_BUCKET_BYTES if strategy.bucket_cap_mb is None else cap_bytes, cap_bytes


# ---- the order inside a layer ---------------------------------------------------------------------------------------

# A convolution or normalisation hands out the gradients of its weight and bias in this order, that of the table. Where
# the order is another: (kind of the layer, number of its parameters) -> their positions in `Layer.parameters`.
_FULL = {
    ("linear", 2): (1, 0),  # the weight is transposed before it is used: its gradient has one operation more to go
    ("multiheadattention", 4): (3, 2, 1, 0),  # the table has its input projection, then its output projection
    ("shiftedwindowattention", 4): (3, 1, 2, 0),  # torchvision's Swin: both weights (input, output), then both biases
    ("shiftedwindowattention", 5): (3, 1, 4, 0, 2),  # Swin v2: and a scale; its input's bias is copied at the start
}
# Autocast casts the parameters of every product, and each gradient becomes ready with its own cast: the weight first,
# as torch casts from the last argument to the first (how C++ as GCC compiles it, for Linux, evaluates arguments).
_AUTOCAST = {
    ("multiheadattention", 4): (2, 3, 0, 1),
    ("shiftedwindowattention", 4): (1, 3, 0, 2),
    ("shiftedwindowattention", 5): (1, 3, 4, 0, 2),
}
