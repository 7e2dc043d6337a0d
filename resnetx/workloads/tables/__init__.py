"""Layer tables as data: those of the paper's workloads, and of the models that published rates are stated for.

They are what `workloads.traced` finds with torch.fx, so that counting, predicting and comparing these need no torch.
One table serves every ResNet/x: its blocks are all alike.

    python -m resnetx.workloads.tables      # regenerates the files beside this one
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from resnetx import config
from resnetx.loading import File, read_json
from resnetx.workloads.counts import Layer

FOLDER = Path(__file__).parent

# What is kept: the model as its paper has it, and the size of its images, in pixels.
KEPT: dict[str, tuple[config.Model, int]] = {
    "resnetx": (config.ResNetX(x=1, width=64, classes=1000), 224),
    "alexnet": (config.AlexNet(classes=1000), 227),
    "googlenet": (config.GoogLeNet(classes=1000), 224),
    "torchvision-alexnet": (config.Torchvision(name="alexnet", classes=1000), 224),
    "torchvision-resnet50": (config.Torchvision(name="resnet50", classes=1000), 224),
    "torchvision-resnet152": (config.Torchvision(name="resnet152", classes=1000), 224),
    "torchvision-inception_v3": (config.Torchvision(name="inception_v3", classes=1000), 299),
    "torchvision-vgg16": (config.Torchvision(name="vgg16", classes=1000), 224),
}


def file(name: str) -> Path:
    """Where the table of that name in `KEPT` is: one line for each layer."""
    return FOLDER / f"{name}.json"


def write(name: str, layers: list[Layer]) -> None:
    """Keeps a table."""
    rows = b",\n".join(map(msgspec.json.encode, layers))
    file(name).write_bytes(b"[\n" + rows + b"\n]\n")


def kept(model: config.Model, image_size: int) -> list[Layer] | None:
    """The table of a model as it is kept; None where it is not."""
    blocks, model = (model.x, msgspec.structs.replace(model, x=1)) if isinstance(model, config.ResNetX) else (1, model)
    for name, choice in KEPT.items():
        if choice == (model, image_size):
            layers: list[Layer] = read_json(File(file(name), "a table of layers", 2**20), list[Layer])
            return layers if blocks == 1 else list(_with_blocks(layers, blocks))
    return None


def _with_blocks(layers: list[Layer], blocks: int) -> Iterator[Layer]:
    """ResNet/x from ResNet/1: its block again and again, each one reading the one before it."""
    block = [layer for layer in layers if layer.name.startswith("blocks.0.")]
    begin = layers.index(block[0])
    (stem,) = block[0].inputs
    yield from layers[:begin]
    for index in range(blocks):
        names = {layer.name: layer.name.replace("blocks.0.", f"blocks.{index}.") for layer in block}
        names[stem] = stem if index == 0 else f"blocks.{index - 1}.relu"
        yield from (_renamed(layer, names) for layer in block)
    last = {"blocks.0.relu": f"blocks.{blocks - 1}.relu"}
    yield from (_renamed(layer, last) for layer in layers[begin + len(block) :])


def _renamed(layer: Layer, names: dict[str, str]) -> Layer:
    inputs = tuple(names.get(name, name) for name in layer.inputs)
    return msgspec.structs.replace(layer, name=names.get(layer.name, layer.name), inputs=inputs)
