"""How much memory a training step needs on one GPU, from the layer table: what does not fit is not predicted.

    needed_bytes(table, 224, batch_size=64, precision="fp32", strategy=request.strategy, convention="torch")

`torch` is our own training. Weights and momenta stay; the forward pass keeps what the backward pass will read, which
goes again layer by layer while gradients of parameters come; with them, the gradients of one layer's output and
inputs. The peak over these times is what is needed. What an operation keeps, each tensor once however many keep it
(`torch.autograd.graph.saved_tensors_hooks` sees the same bytes, which a test holds):

    convolution, product   its inputs
    batch normalisation    its input, a mean and a deviation of each channel
    ReLU                   its output, which is its input where it works in place
    max pooling            its input, and the place of each maximum as int64 (also counted of average pooling)
    pooling to one pixel   nothing
    LRN                    its input, the squares padded by 4 channels, and two tensors like the output
    dropout                a mask of one byte
    sum, concatenation     nothing
    layer normalisation    its input, a mean and a deviation of each token
    GELU                   its input
    embedding              the numbers of the tokens, as int64
    attention of GPT/x     queries, keys and values, its output, and a sum of each head and token (by a fused kernel)
    loss                   the logarithms of the classes' shares in fp32, and the labels as int64
    any other              its inputs and its output

In bf16 and fp16 by autocast, convolutions and products read their inputs in half precision: an input in fp32 is copied,
and the copy is kept. LRN takes its power in fp32, so its output is fp32, and so is all that follows until the next
convolution or product. (PyTorch, "Automatic Mixed Precision", lists what runs in which precision on CUDA.)

`caffe` is Caffe as Tallent et al. 2017 ran it: a value and a gradient of every blob, all alive all the time, and of
every parameter a value, a gradient and a momentum. On GPU 0, which holds the net that tests as well, also a value of
every blob for each image of a test: as many as its files say for the nets of the framework, and the whole global
batch of any other, an assumption, made for ResNet/32 at 64 on two GPUs: that is missing in the paper, and has as many
images on each as 32 on one, which is not. Of the six points of a system that they report as not fitting it finds five,
and no other. No sum of shares and batches could find the sixth, GoogLeNet at 256 on two GPUs: 512 on four has as many
images on each, more in all, and is not reported.

Neither counts workspaces that convolutions ask for while memory is left; those they can do without.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

from resnetx.choices import Bucket, ModelChoice, NoExchange, Server, Strategy
from resnetx.errors import unknown_name
from resnetx.hashed import HashedTuple
from resnetx.prediction.roofline import PRECISION_BYTES
from resnetx.workloads import counts
from resnetx.workloads.counts import BYTES_PER_PARAMETER, DATA, Layer

Convention = Literal["torch", "caffe"]
CONVENTIONS: tuple[Convention, ...] = ("torch", "caffe")

FRAMEWORK_BYTES = 600_000_000  # assumed: CUDA's context with the kernels of cuDNN and NCCL
INDEX_BYTES = 8  # of an int64
LRN_PADDING = 4  # channels: a window of 5, less one


def needed_bytes(
    table: Sequence[Layer],
    image_size: int,
    batch_size: int,
    precision: str,
    strategy: Strategy,
    convention: str,
    tested: int = 0,
) -> int:
    """The most that a step of `batch_size` images on this GPU takes at once; `strategy` is `none` on a single GPU.

    `tested`: the images of a test, which Caffe's first GPU holds, too (`images_of_a_test`).
    """
    match convention:
        case "torch":
            return FRAMEWORK_BYTES + _torch_bytes(table, image_size, batch_size, precision, strategy)
        case "caffe":
            return FRAMEWORK_BYTES + _caffe_bytes(table, image_size, batch_size, tested)
    raise unknown_name("memory model", convention, CONVENTIONS, "memory_model")


def images_of_a_test(model: ModelChoice, batch_size: int) -> int:
    """How many images Caffe's first GPU holds for a test of a net that trains with this global batch."""
    return model.tested_by_caffe or batch_size


def received_bytes(table: Sequence[Layer], ranks: int) -> int:
    """Where a GPU that serves receives a variable of every rank: variables come one after the other."""
    return ranks * BYTES_PER_PARAMETER * max((elements for layer in table for elements in layer.parameters), default=0)


def saved_bytes(table: Sequence[Layer], image_size: int, batch_size: int, precision: str) -> int:
    """What the forward pass in PyTorch keeps for the backward pass, without parameters."""
    return sum(batch_size * kept.bytes_per_image for kept in _kept(table, image_size, _widths(table, precision)))


def _caffe_bytes(table: Sequence[Layer], image_size: int, batch_size: int, tested: int) -> int:
    activations, parameters = _caffe_counts(HashedTuple(table), image_size)
    return BYTES_PER_PARAMETER * ((2 * batch_size + tested) * activations + 3 * parameters)


@lru_cache(maxsize=64)  # they are the same for every batch and system
def _caffe_counts(table: HashedTuple[Layer], image_size: int) -> tuple[int, int]:
    return counts.activations(table, image_size, "caffe"), counts.parameters(table, "caffe")


# ---- PyTorch


@lru_cache(maxsize=64)
def _torch_parameters(table: HashedTuple[Layer]) -> int:
    return counts.parameters(table, "torch")


@dataclass(frozen=True)
class _Kept:
    """Memory that the forward pass keeps until the backward pass of the layer at place `first` is over."""

    first: int
    bytes_per_image: int


def _torch_bytes(table: Sequence[Layer], image_size: int, batch_size: int, precision: str, strategy: Strategy) -> int:
    """What stays, and the peak of what comes and goes in the backward pass."""
    width = PRECISION_BYTES[precision]
    parameters = _torch_parameters(HashedTuple(table))
    staying = BYTES_PER_PARAMETER * parameters  # weights
    if strategy != Server(device="cpu"):
        staying += BYTES_PER_PARAMETER * parameters  # momenta, which a server on the host keeps there
    if width < BYTES_PER_PARAMETER:
        staying += width * parameters  # autocast keeps its copies of the weights for the step
    staying += batch_size * BYTES_PER_PARAMETER * 3 * image_size**2  # the next batch
    gradients_stay = not isinstance(strategy, NoExchange)  # in buffers, which are there from the beginning
    copied = isinstance(strategy, Bucket) and not strategy.gradient_as_bucket_view
    if gradients_stay:
        staying += BYTES_PER_PARAMETER * parameters
    growing = copied or not gradients_stay
    moments = _backward_moments(HashedTuple(table), image_size, precision, growing)
    peak = max((batch_size * per_image + fixed for per_image, fixed in moments), default=0)
    at_update = BYTES_PER_PARAMETER * parameters if growing else 0
    return staying + max(peak, at_update)


@lru_cache(maxsize=256)  # they are the same for every batch and system
def _backward_moments(
    table: HashedTuple[Layer], image_size: int, precision: str, growing: bool
) -> tuple[tuple[int, int], ...]:
    """What may be the most that is alive in addition to what stays, in the backward pass: bytes per image, and fixed.

    `growing`: gradients of parameters add up; otherwise each moves into a buffer that was there before.
    """
    elements, widths = _elements(table, image_size), _widths(table, precision)
    moments: list[tuple[int, int]] = []
    kept = [0] * len(table)  # released when the layer at this place is done
    for each in _kept(table, image_size, widths):
        kept[each.first] += each.bytes_per_image
    saved, grown = sum(kept), 0
    for place in reversed(range(len(table))):
        layer = table[place]
        own = BYTES_PER_PARAMETER * sum(layer.parameters)
        passing = sum(widths[name] * elements[name] for name in (layer.name, *layer.inputs) if name != DATA)
        moments.append((saved + passing, grown + own))
        saved -= kept[place]
        grown += own if growing else 0
    return tuple(_that_may_be_the_peak(moments))


def _that_may_be_the_peak(moments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The moments than which no other has as much of both: of whatever batch, the peak is one of them."""
    most = -1
    for per_image, fixed in sorted(moments, reverse=True):
        if fixed > most:
            most = fixed
            yield per_image, fixed


def _widths(table: Sequence[Layer], precision: str) -> dict[str, int]:
    """Bytes of an element of what each layer makes, by its name; of the images, too."""
    least, widths = PRECISION_BYTES[precision], {DATA: BYTES_PER_PARAMETER}
    for layer in table:
        if layer.kind in _IN_HALF:
            widths[layer.name] = least
        elif layer.kind in _IN_FULL:
            widths[layer.name] = BYTES_PER_PARAMETER
        else:
            widths[layer.name] = max((widths[name] for name in layer.inputs), default=least)
    return widths


# By autocast; an embedding is never cast.
_IN_HALF, _IN_FULL = ("conv", "linear"), ("lrn", "layernorm", "groupnorm", "softmax", "embedding")


def _kept(table: Sequence[Layer], image_size: int, widths: Mapping[str, int]) -> Iterator[_Kept]:
    """Every piece of memory that is kept, once, with the earliest layer that keeps it."""
    elements = _elements(table, image_size)
    memory = _memory(table)
    tensors: dict[str, int] = {}
    for place, layer in enumerate(table):
        for name in _keeps(layer):
            if layer.kind in _IN_HALF and widths[name] > widths[layer.name]:
                yield _Kept(place, elements[name] * widths[layer.name])  # a copy
            else:
                tensors.setdefault(memory[name], place)
        if extra_bytes := _keeps_in_addition(layer, widths):
            yield _Kept(place, extra_bytes)
    for name, place in tensors.items():
        yield _Kept(place, elements[name] * widths[name])
    yield _Kept(len(table) - 1, _kept_by_loss(table))


def _keeps(layer: Layer) -> tuple[str, ...]:
    """The tensors of the network that it keeps, by the layers that made them."""
    match layer.kind:
        case "conv" | "linear" | "batchnorm" | "layernorm" | "lrn" | "gelu":
            return layer.inputs
        case "relu":
            return (layer.name,)
        case "pool":
            return () if _is_mean(layer) else layer.inputs
        case "dropout" | "add" | "concat" | "embedding":
            return ()
    return (*layer.inputs, layer.name)


def _keeps_in_addition(layer: Layer, widths: Mapping[str, int]) -> int:
    """Bytes per image that it keeps besides tensors of the network; statistics of a batch are too small to count."""
    match layer.kind:
        case "pool":
            return 0 if _is_mean(layer) else INDEX_BYTES * layer.elements
        case "lrn":
            channels, *_ = layer.output_shape
            squares = layer.elements * (channels + LRN_PADDING) // channels
            return widths[layer.inputs[0]] * squares + widths[layer.name] * 2 * layer.elements
        case "dropout":
            return layer.elements
        case "layernorm":
            return 2 * BYTES_PER_PARAMETER * prod(layer.output_shape[:-1])
        case "embedding":
            return INDEX_BYTES * prod(layer.output_shape[:-1]) if layer.inputs else 0
        case "causalattention":
            return BYTES_PER_PARAMETER * prod(layer.output_shape[:-1])
    return 0


def _kept_by_loss(table: Sequence[Layer]) -> int:
    """Bytes per image: every layer that no other reads is a classifier, whose outputs are the last of their shape."""
    read = {name for layer in table for name in layer.inputs}
    heads = [layer for layer in table if layer.name not in read]
    return sum(BYTES_PER_PARAMETER * head.elements + INDEX_BYTES * prod(head.output_shape[:-1]) for head in heads)


def _is_mean(layer: Layer) -> bool:
    return layer.output_shape[1:] == (1, 1)


def _memory(table: Sequence[Layer]) -> dict[str, str]:
    """Layer -> the one whose output's memory it writes: its own, or through layers in place, its first input's."""
    memory = {DATA: DATA}
    for layer in table:
        memory[layer.name] = memory[layer.inputs[0]] if layer.in_place else layer.name
    return memory


def _elements(table: Sequence[Layer], image_size: int) -> dict[str, int]:
    return {DATA: 3 * image_size**2} | {layer.name: layer.elements for layer in table}
