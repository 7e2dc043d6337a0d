"""Layer tables as data: those of the papers' workloads, and of the models that published rates are stated for.

They are what `workloads.traced` finds with torch.fx, so that counting, predicting and comparing these need no torch.
Those of families, whatever their settings, are made by arithmetic and take no torch either.

    python -m resnetx.workloads.tables      # regenerates the files beside this one
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from resnetx import choices
from resnetx.choices import BertSettings, GptXSettings, MlpXSettings, ResNetXSettings
from resnetx.errors import prepared, unknown_name
from resnetx.loading import File, read_json
from resnetx.workloads.counts import DATA, Layer

# ---- classifiers ----------------------------------------------------------------------------------------------------
# torchvision's classifiers by name, as data: to know one takes no torch, whose import takes seconds.
#
# python -m resnetx.workloads.tables      # regenerates the file beside this one

USUAL_SIZE = 224  # pixels of what is not set otherwise (`choices.Torchvision`)
CLASSIFIERS = Path(__file__).with_name("classifiers.json")


class Classifiers(msgspec.Struct, frozen=True):
    """The classifiers of one version of torchvision."""

    torchvision: str  # "0.29": without what changes with each build
    image_size: dict[str, int]  # name -> pixels, as the published weights of that name take them


@cache
def kept_classifiers() -> Classifiers:
    """Those that resnetx comes with."""
    return msgspec.json.decode(CLASSIFIERS.read_bytes(), type=prepared(Classifiers))


def check_classifier(name: str) -> None:
    """Refuses a name that no classifier has; of another torchvision than the kept one, that one is asked."""
    kept = kept_classifiers()
    if name not in kept.image_size and installed_version() in (kept.torchvision, ""):
        raise unknown_name("torchvision classifier", name, kept.image_size, "model.name")


def image_size(name: str) -> int | None:
    """The size of images that a classifier is made for, in pixels; None where that is not known."""
    return kept_classifiers().image_size.get(name)


def installed_version() -> str:
    """The first two numbers of the version of torchvision, or "" where there is none."""
    try:
        return ".".join(metadata.version("torchvision").split(".")[:2])
    except metadata.PackageNotFoundError:
        return ""


def write_classifiers(found: Classifiers) -> None:
    """Keeps the classifiers of a torchvision."""
    CLASSIFIERS.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


# ---- tables ---------------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parent

# What is kept: the model as its paper has it, and the size of its images, in pixels.
KEPT: dict[str, tuple[choices.Model, int]] = {
    "alexnet": (choices.AlexNetSettings(classes=1000), 227),
    "alexnet-without-lrn": (choices.AlexNetSettings(classes=1000, lrn=False), 227),
    "cifarnet": (choices.CifarNetSettings(classes=10), 32),
    "googlenet": (choices.GoogLeNetSettings(classes=1000), 224),
    "resnet20": (choices.ResNet20Settings(classes=10), 32),
    "resnet110": (choices.ResNet110Settings(classes=10), 32),
    "densenet40": (choices.DenseNet40Settings(classes=10), 32),
    "densenet100": (choices.DenseNet100Settings(classes=10), 32),
    "alexnet32": (choices.AlexNet32Settings(classes=10), 32),
    "nasnet": (choices.NasNetSettings(classes=10), 32),
    "nasnetmobile": (choices.NasNetMobileSettings(classes=1000), 224),
    "torchvision-alexnet": (choices.Torchvision(name="alexnet", classes=1000), 224),
    "torchvision-resnet50": (choices.Torchvision(name="resnet50", classes=1000), 224),
    "torchvision-resnet152": (choices.Torchvision(name="resnet152", classes=1000), 224),
    "torchvision-inception_v3": (choices.Torchvision(name="inception_v3", classes=1000), 299),
    "torchvision-efficientnet_b0": (choices.Torchvision(name="efficientnet_b0", classes=1000), 224),
    "torchvision-efficientnet_b4": (choices.Torchvision(name="efficientnet_b4", classes=1000), 380),
    "torchvision-convnext_large": (choices.Torchvision(name="convnext_large", classes=1000), 224),
    "torchvision-regnet_y_128gf": (choices.Torchvision(name="regnet_y_128gf", classes=1000), 224),
    "torchvision-vgg16": (choices.Torchvision(name="vgg16", classes=1000), 224),
    "torchvision-densenet121": (choices.Torchvision(name="densenet121", classes=1000), 224),
    "torchvision-vit_b_16": (choices.Torchvision(name="vit_b_16", classes=1000), 224),
    "torchvision-mobilenet_v2": (choices.Torchvision(name="mobilenet_v2", classes=1000), 224),
    "torchvision-mobilenet_v3_large": (choices.Torchvision(name="mobilenet_v3_large", classes=1000), 224),
    "torchvision-mnasnet1_0": (choices.Torchvision(name="mnasnet1_0", classes=1000), 224),
    "torchvision-resnext50_32x4d": (choices.Torchvision(name="resnext50_32x4d", classes=1000), 224),
    "torchvision-shufflenet_v2_x1_0": (choices.Torchvision(name="shufflenet_v2_x1_0", classes=1000), 224),
    "torchvision-squeezenet1_1": (choices.Torchvision(name="squeezenet1_1", classes=1000), 224),
    "torchvision-resnet18": (choices.Torchvision(name="resnet18", classes=1000), 224),
    "torchvision-resnet101": (choices.Torchvision(name="resnet101", classes=1000), 224),
    "torchvision-convnext_tiny": (choices.Torchvision(name="convnext_tiny", classes=1000), 224),
    "torchvision-swin_b": (choices.Torchvision(name="swin_b", classes=1000), 224),
}


def file(name: str) -> Path:
    """Where the table of that name in `KEPT` is: one line for each layer."""
    return FOLDER / f"{name}.json"


def write(name: str, layers: list[Layer]) -> None:
    """Keeps a table."""
    rows = b",\n".join(map(msgspec.json.encode, layers))
    file(name).write_bytes(b"[\n" + rows + b"\n]\n")


def kept_image_size(model: choices.ModelChoice) -> int | None:
    """The size of the images whose table of this model is kept."""
    return next((image_size for own, image_size in KEPT.values() if own == model), None)


def kept(model: choices.ModelChoice, image_size: int) -> list[Layer] | None:
    """The table of a model, if making it takes no torch; None if it does."""
    if family := FAMILIES.get(type(model)):
        return family(model, image_size)
    for name, choice in KEPT.items():
        if choice == (model, image_size):
            return read_json(File(file(name), "a table of layers", 2**20), list[Layer])
    return None


# ---- families by arithmetic ------------------------------------------------------------------------------------------
# A stem, x times the same block, and a head, of whatever settings: what `workloads.traced` finds by executing the
# module, but nothing is built. As every block is the same, what is summed over the layers is affine in x: sum(x) =
# sum(1) + (x - 1) (sum(2) - sum(1)), exactly (`kinds.Family`).

Shape = tuple[int, ...]
BEFORE, PREVIOUS = "", "<"  # among what an operation reads: what its part of the network reads; the one before it

Operations = Sequence[Layer]  # of one part of a network: their names, and those that they read, are inside their part


def assembled(stem: Operations, block: Operations, x: int, head: Operations) -> list[Layer]:
    """The layers of a family's member, in the order of execution."""
    layers = list(_named("stem.", stem, DATA))
    for index in range(x):
        layers += _named(f"blocks.{index}.", block, layers[-1].name)
    return [*layers, *_named("", head, layers[-1].name)]


def _named(part: str, operations: Operations, before: str) -> Iterator[Layer]:
    """The layers of one part of the network, which reads the layer `before` it."""
    last = before
    for operation in operations:
        known = {BEFORE: before, PREVIOUS: last}
        inputs = tuple(known.get(name, part + name) for name in operation.inputs)
        last = part + operation.name
        yield msgspec.structs.replace(operation, name=last, inputs=inputs)


def _operation(
    name: str,
    kind: str,
    output_shape: Shape,
    parameters: tuple[int, ...] = (),
    multiply_adds: int = 0,
    inputs: tuple[str, ...] = (PREVIOUS,),
    in_place: bool = False,
) -> Layer:
    return Layer(
        name=name,
        kind=kind,
        inputs=inputs,
        output_shape=output_shape,
        in_place=in_place,
        parameters=parameters,
        multiply_adds=multiply_adds,
    )


def _dense(name: str, read: int, shape: Shape) -> Layer:
    """A dense layer with a bias, from `read` numbers at each place to the last number of `shape`."""
    *places, made = shape
    times = places[0] if places else 1
    return _operation(name, "linear", shape, (read * made, made), times * read * made)


def gptx(model: GptXSettings, image_size: int) -> list[Layer]:
    """The layers of a GPT/x, as one sequence sees them: positions too, which the sequences of a batch share."""
    s, d, h, v = model.seq, model.width, model.attention_heads, model.vocabulary
    shape = (s, d)
    stem = [
        _operation("tokens", "embedding", shape, (v * d,)),
        _operation("positions", "embedding", shape, (s * d,), inputs=()),
        _operation("add", "add", shape, inputs=("tokens", "positions")),
    ]
    block = [
        _operation("norm1", "layernorm", shape, (d, d)),
        _dense("attention.qkv", d, (s, 3 * d)),
        # Two products of s^2 d. What a causal kernel leaves out is counted, as by PyTorch's and others' counters.
        _operation("attention.causalattention", "causalattention", (s, h, d // h), multiply_adds=2 * s**2 * d),
        _dense("attention.projection", d, shape),
        _operation("add", "add", shape, inputs=(BEFORE, "attention.projection")),
        _operation("norm2", "layernorm", shape, (d, d)),
        _dense("up", d, (s, 4 * d)),
        _operation("gelu", "gelu", (s, 4 * d)),
        _dense("down", 4 * d, shape),
        _operation("add@1", "add", shape, inputs=("add", "down")),
    ]
    # The head's weight is the embedding's: it stands where it is used first.
    head = [
        _operation("norm", "layernorm", shape, (d, d)),
        _operation("head", "linear", (s, v), multiply_adds=s * d * v),
    ]
    return assembled(stem, block, model.x, head)


def bert(model: BertSettings, image_size: int) -> list[Layer]:
    """The layers of BERT-base, as one sequence sees them."""
    s, d, h, v = model.seq, 768, 12, model.classes
    shape = (s, d)
    stem = [
        _operation("tokens", "embedding", shape, (v * d,)),
        _operation("positions", "embedding", shape, (model.places * d,), inputs=()),
        _operation("add", "add", shape, inputs=("tokens", "positions")),
        _operation("sentences", "embedding", shape, (2 * d,), inputs=()),
        _operation("add@1", "add", shape, inputs=("add", "sentences")),
        _operation("norm", "layernorm", shape, (d, d)),
    ]
    block = [
        _dense("attention.qkv", d, (s, 3 * d)),
        _operation("attention.selfattention", "selfattention", (s, h, d // h), multiply_adds=2 * s**2 * d),
        _dense("attention.projection", d, shape),
        _operation("add", "add", shape, inputs=(BEFORE, "attention.projection")),
        _operation("norm1", "layernorm", shape, (d, d)),
        _dense("up", d, (s, 4 * d)),
        _operation("gelu", "gelu", (s, 4 * d)),
        _dense("down", 4 * d, shape),
        _operation("add@1", "add", shape, inputs=("norm1", "down")),
        _operation("norm2", "layernorm", shape, (d, d)),
    ]
    head = [
        _dense("transform.0", d, shape),
        _operation("transform.1", "gelu", shape),
        _operation("transform.2", "layernorm", shape, (d, d)),
        _operation("head", "linear", (s, v), (v,), s * d * v),  # and the weight of the embedding
    ]
    return assembled(stem, block, 12, head)


def mlpx(model: MlpXSettings, image_size: int) -> list[Layer]:
    """The layers of an MLP/x, as one image sees them."""
    d = model.width
    stem = [_dense("1", 3 * image_size**2, (d,)), _relu("2", (d,))]
    return assembled(stem, [_dense("0", d, (d,)), _relu("1", (d,))], model.x, [_dense("head", d, (model.classes,))])


def resnetx(model: ResNetXSettings, image_size: int) -> list[Layer]:
    """The layers of the network, in the order of execution, as one square image of `image_size` pixels sees them."""
    stem = _stem(model.width, image_size)
    block = _block(stem[-1].output_shape)
    return assembled(stem, block, model.x, _classifier(model.width, model.classes))


def _stem(width: int, image_size: int) -> list[Layer]:
    """A padded convolution of 7x7 at every other pixel, and pooling that rounds up its half."""
    side = (image_size + 1) // 2
    shape = (width, side, side)
    return [
        _convolution("0", 3, shape, kernel=7, bias=True),
        _normalisation("1", shape),
        _relu("2", shape),
        _operation("3", "pool", (width, side // 2, side // 2)),
    ]


def _block(shape: Shape) -> list[Layer]:
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
        _operation("add", "add", shape, inputs=("residual.7", BEFORE), in_place=True),
        _relu("relu", shape),
    ]


def _classifier(width: int, classes: int) -> list[Layer]:
    weights = width * classes
    return [
        _operation("classifier.0", "adaptiveavgpool", (width, 1, 1)),
        _operation("classifier.2", "linear", (classes,), (weights, classes), weights),
    ]


def _convolution(name: str, channels: int, shape: Shape, *, kernel: int, bias: bool = False) -> Layer:
    """From `channels` to the first number of `shape`, with square kernels."""
    width, height, length = shape
    weights = channels * width * kernel**2
    return _operation(name, "conv", shape, (weights, width) if bias else (weights,), weights * height * length)


def _normalisation(name: str, shape: Shape) -> Layer:
    return _operation(name, "batchnorm", shape, (shape[0], shape[0]))


def _relu(name: str, shape: Shape) -> Layer:
    return _operation(name, "relu", shape, in_place=True)


FAMILIES: dict[type[choices.ModelChoice], Callable[[Any, int], list[Layer]]] = {
    ResNetXSettings: resnetx,
    GptXSettings: gptx,
    MlpXSettings: mlpx,
    BertSettings: bert,
}
