"""Layer tables as data: those of the papers' workloads, and of the models that published rates are stated for.

They are what `workloads.traced` finds with torch.fx, so that counting, predicting and comparing these need no torch.
Those of families, whatever their settings, are made by arithmetic (`families`) and take no torch either.

    python -m resnetx.workloads.tables      # regenerates the files beside this one
"""

from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from resnetx import choices
from resnetx.errors import prepared, unknown_name
from resnetx.loading import File, read_json
from resnetx.workloads.counts import Layer
from resnetx.workloads.tables import families

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
    known = kept_classifiers().image_size
    if name not in known and _is_kept_version():
        raise unknown_name("torchvision classifier", name, known, "model.name")


def image_size(name: str) -> int | None:
    """The size of images that a classifier is made for, in pixels; None where that is not known."""
    return kept_classifiers().image_size.get(name)


def _is_kept_version() -> bool:
    return installed_version() in (kept_classifiers().torchvision, "")


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
    "torchvision-vgg16": (choices.Torchvision(name="vgg16", classes=1000), 224),
    "torchvision-densenet121": (choices.Torchvision(name="densenet121", classes=1000), 224),
    "torchvision-vit_b_16": (choices.Torchvision(name="vit_b_16", classes=1000), 224),
    "torchvision-mobilenet_v2": (choices.Torchvision(name="mobilenet_v2", classes=1000), 224),
}

FAMILIES: dict[type[choices.ModelChoice], Callable[[Any, int], list[Layer]]] = {
    choices.ResNetXSettings: families.resnetx,
    choices.GptXSettings: families.gptx,
    choices.MlpXSettings: families.mlpx,
    choices.BertSettings: families.bert,
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
            layers: list[Layer] = read_json(File(file(name), "a table of layers", 2**20), list[Layer])
            return layers
    return None
