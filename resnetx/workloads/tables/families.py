"""Layer tables of families by arithmetic: a stem, x times the same block, and a head, of whatever settings.

Each is what `workloads.traced` finds by executing the module, but nothing is built. As every block is the same, what
is summed over the layers is affine in x: sum(x) = sum(1) + (x - 1) (sum(2) - sum(1)), exactly (`kinds.families`).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from resnetx.choices import BertSettings, GptXSettings, MlpXSettings, ResNetXSettings
from resnetx.workloads.counts import DATA, Layer

Shape = tuple[int, ...]
BEFORE = ""  # among what an operation reads: what its part of the network reads


class FamilyOperation(NamedTuple):
    """A layer of one part of a network."""

    name: str  # inside its part
    kind: str
    output_shape: Shape
    parameters: tuple[int, ...] = ()
    multiply_adds: int = 0
    reads: tuple[str, ...] | None = None  # names inside its part; None: the operation before it
    in_place: bool = False


def assembled(
    stem: Sequence[FamilyOperation], block: Sequence[FamilyOperation], x: int, head: Sequence[FamilyOperation]
) -> list[Layer]:
    """The layers of a family's member, in the order of execution."""
    layers = list(_named("stem.", stem, DATA))
    for index in range(x):
        layers += _named(f"blocks.{index}.", block, layers[-1].name)
    return [*layers, *_named("", head, layers[-1].name)]


def _named(part: str, operations: Sequence[FamilyOperation], before: str) -> Iterator[Layer]:
    """The layers of one part of the network, which reads the layer `before` it."""
    last = before
    for operation in operations:
        reads = (
            (last,) if operation.reads is None else tuple(part + name if name else before for name in operation.reads)
        )
        last = part + operation.name
        yield Layer(
            name=last,
            kind=operation.kind,
            inputs=reads,
            output_shape=operation.output_shape,
            in_place=operation.in_place,
            parameters=operation.parameters,
            multiply_adds=operation.multiply_adds,
        )


def _dense(name: str, read: int, shape: Shape) -> FamilyOperation:
    """A dense layer with a bias, from `read` numbers at each place to the last number of `shape`."""
    *places, made = shape
    times = places[0] if places else 1
    return FamilyOperation(name, "linear", shape, (read * made, made), times * read * made)


# ---- GPT/x, and BERT ------------------------------------------------------------------------------------------------


def gptx(model: GptXSettings, image_size: int) -> list[Layer]:
    """The layers of a GPT/x, as one sequence sees them: positions too, which the sequences of a batch share."""
    s, d, h, v = model.seq, model.width, model.attention_heads, model.vocabulary
    shape = (s, d)
    stem = [
        FamilyOperation("tokens", "embedding", shape, (v * d,)),
        FamilyOperation("positions", "embedding", shape, (s * d,), reads=()),
        FamilyOperation("add", "add", shape, reads=("tokens", "positions")),
    ]
    block = [
        FamilyOperation("norm1", "layernorm", shape, (d, d)),
        _dense("attention.qkv", d, (s, 3 * d)),
        # Two products of s^2 d. What a causal kernel leaves out is counted, as by PyTorch's and others' counters.
        FamilyOperation("attention.causalattention", "causalattention", (s, h, d // h), multiply_adds=2 * s**2 * d),
        _dense("attention.projection", d, shape),
        FamilyOperation("add", "add", shape, reads=(BEFORE, "attention.projection")),
        FamilyOperation("norm2", "layernorm", shape, (d, d)),
        _dense("up", d, (s, 4 * d)),
        FamilyOperation("gelu", "gelu", (s, 4 * d)),
        _dense("down", 4 * d, shape),
        FamilyOperation("add@1", "add", shape, reads=("add", "down")),
    ]
    # The head's weight is the embedding's: it stands where it is used first.
    head = [
        FamilyOperation("norm", "layernorm", shape, (d, d)),
        FamilyOperation("head", "linear", (s, v), multiply_adds=s * d * v),
    ]
    return assembled(stem, block, model.x, head)


def bert(model: BertSettings, image_size: int) -> list[Layer]:
    """The layers of BERT-base, as one sequence sees them."""
    s, d, h, v = model.seq, 768, 12, model.classes
    shape = (s, d)
    stem = [
        FamilyOperation("tokens", "embedding", shape, (v * d,)),
        FamilyOperation("positions", "embedding", shape, (model.places * d,), reads=()),
        FamilyOperation("add", "add", shape, reads=("tokens", "positions")),
        FamilyOperation("sentences", "embedding", shape, (2 * d,), reads=()),
        FamilyOperation("add@1", "add", shape, reads=("add", "sentences")),
        FamilyOperation("norm", "layernorm", shape, (d, d)),
    ]
    block = [
        _dense("attention.qkv", d, (s, 3 * d)),
        FamilyOperation("attention.selfattention", "selfattention", (s, h, d // h), multiply_adds=2 * s**2 * d),
        _dense("attention.projection", d, shape),
        FamilyOperation("add", "add", shape, reads=(BEFORE, "attention.projection")),
        FamilyOperation("norm1", "layernorm", shape, (d, d)),
        _dense("up", d, (s, 4 * d)),
        FamilyOperation("gelu", "gelu", (s, 4 * d)),
        _dense("down", 4 * d, shape),
        FamilyOperation("add@1", "add", shape, reads=("norm1", "down")),
        FamilyOperation("norm2", "layernorm", shape, (d, d)),
    ]
    head = [
        _dense("transform.0", d, shape),
        FamilyOperation("transform.1", "gelu", shape),
        FamilyOperation("transform.2", "layernorm", shape, (d, d)),
        FamilyOperation("head", "linear", (s, v), (v,), s * d * v),  # and the weight of the embedding
    ]
    return assembled(stem, block, 12, head)


# ---- MLP/x ----------------------------------------------------------------------------------------------------------


def mlpx(model: MlpXSettings, image_size: int) -> list[Layer]:
    """The layers of an MLP/x, as one image sees them."""
    d = model.width
    relu = FamilyOperation("1", "relu", (d,), in_place=True)
    stem = [_dense("1", 3 * image_size**2, (d,)), relu._replace(name="2")]
    return assembled(stem, [_dense("0", d, (d,)), relu], model.x, [_dense("head", d, (model.classes,))])


# ---- ResNet/x --------------------------------------------------------------------------------------------------------


def resnetx(model: ResNetXSettings, image_size: int) -> list[Layer]:
    """The layers of the network, in the order of execution, as one square image of `image_size` pixels sees them."""
    stem = _stem(model.width, image_size)
    block = _block(stem[-1].output_shape)
    return assembled(stem, block, model.x, _classifier(model.width, model.classes))


def _stem(width: int, image_size: int) -> list[FamilyOperation]:
    """A padded convolution of 7x7 at every other pixel, and pooling that rounds up its half."""
    side = (image_size + 1) // 2
    shape = (width, side, side)
    return [
        _convolution("0", 3, shape, kernel=7, bias=True),
        _normalisation("1", shape),
        _relu("2", shape),
        FamilyOperation("3", "pool", (width, side // 2, side // 2)),
    ]


def _block(shape: Shape) -> list[FamilyOperation]:
    """Three normalised convolutions beside an identity shortcut."""
    width = shape[0]
    return [
        _convolution("residual.0", width, shape, kernel=1),
        _normalisation("residual.1", shape),
        _relu("residual.2", shape),
        _convolution("residual.3", width, shape, kernel=3),
        _normalisation("residual.4", shape),
        _relu("residual.5", shape),
        _convolution("residual.6", width, shape, kernel=1),
        _normalisation("residual.7", shape),
        FamilyOperation("add", "add", shape, reads=("residual.7", BEFORE), in_place=True),
        _relu("relu", shape),
    ]


def _classifier(width: int, classes: int) -> list[FamilyOperation]:
    weights = width * classes
    return [
        FamilyOperation("classifier.0", "adaptiveavgpool", (width, 1, 1)),
        FamilyOperation("classifier.2", "linear", (classes,), (weights, classes), weights),
    ]


def _convolution(name: str, channels: int, shape: Shape, *, kernel: int, bias: bool = False) -> FamilyOperation:
    """From `channels` to the first number of `shape`, with square kernels."""
    width, height, length = shape
    weights = channels * width * kernel**2
    return FamilyOperation(name, "conv", shape, (weights, width) if bias else (weights,), weights * height * length)


def _normalisation(name: str, shape: Shape) -> FamilyOperation:
    return FamilyOperation(name, "batchnorm", shape, (shape[0], shape[0]))


def _relu(name: str, shape: Shape) -> FamilyOperation:
    return FamilyOperation(name, "relu", shape, in_place=True)
