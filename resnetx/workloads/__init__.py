"""Workloads: models as PyTorch modules, as layer tables, and the work that they do.

    from resnetx import choices, workloads
    workloads.workload(choices.ResNetX(x=8, width=64, classes=1000), 224, batch_size=64, convention="caffe").intensity

Importing this package loads no torch; building a model does, and so does a table that is not stored (`tables`).
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx import choices, record
from resnetx.errors import ConfigError, unknown_name
from resnetx.workloads import counts, tables
from resnetx.workloads.counts import Layer
from resnetx.workloads.tables import classifiers

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Layer", "build", "table", "traced", "workload"]


def build(model: choices.Model, image_size: int) -> "nn.Module":
    """The model as a PyTorch module, initialised as its paper says, in training mode.

    AlexNet, GoogLeNet and torchvision's vision transformers fit images of `image_size` pixels only.
    """
    return _BUILDERS[model.kind](model, image_size)


def check(model: choices.Model, image_size: int) -> None:
    """Rejects a model that cannot be built, or cannot be trained on images of `image_size` pixels.

    `config.check` does so for our own models; torchvision's are traced with torch.fx, unless their table is stored.
    """
    if isinstance(model, choices.Torchvision):
        _table(model, image_size)


def table(model: choices.Model, image_size: int) -> list[Layer]:
    """The layers of the model in training, as one image of `image_size` x `image_size` pixels sees them."""
    return list(_table(model, image_size))


@functools.lru_cache(maxsize=64)
def _table(model: choices.Model, image_size: int) -> tuple[Layer, ...]:
    return tuple(tables.kept(model, image_size) or traced(model, image_size))


def traced(model: choices.Model, image_size: int) -> list[Layer]:
    """The same table as torch.fx finds it."""
    if isinstance(model, choices.Torchvision):
        classifiers.check(model.name)
    from resnetx.workloads.layers import layers, without_elements

    try:
        with without_elements():
            module = build(model, image_size)
        return layers(module, image_size)
    except ConfigError as error:
        own = classifiers.image_size(model.name) if isinstance(model, choices.Torchvision) else None
        if own in (None, image_size) or not str(error).startswith("image_size="):
            raise
        raise ConfigError(f"{error}, e.g. image_size={own}, the default of {model.label}") from error


def installed_classifiers() -> dict[str, int]:
    """The classifiers of the installed torchvision, and the image size that their published weights are for."""
    from torchvision import models

    names = models.list_models(module=models)
    return {name: models.get_model_weights(name).DEFAULT.transforms().crop_size[0] for name in names}


def workload(
    model: choices.Model, image_size: int, batch_size: int, convention: str, gpus: Iterable[int] = (1, 2, 4, 8)
) -> record.Workload:
    """How much work the model is, by a convention of `counts`; the global `batch_size` is split over `gpus`."""
    count = functools.partial(_counted, model, image_size)
    activations = count(lambda layers: counts.activations(layers, image_size, convention))
    parameters = count(lambda layers: counts.parameters(layers, convention))
    intensity = counts.intensity(activations, parameters, batch_size)
    return record.Workload(
        workload=model.label,
        model=msgspec.to_builtins(model),
        image_size=image_size,
        convention=convention,
        activations_per_image=activations,
        parameters=parameters,
        batch_size=batch_size,
        activations_per_batch=activations * batch_size,
        intensity=intensity,
        intensity_per_gpu=counts.intensity_per_gpu(intensity, gpus),
        payload_bytes=count(lambda layers: counts.payload_bytes(layers, convention)),
        gradient_bytes=count(counts.gradient_bytes),
        flops_per_image=count(counts.flops_per_image),
        stated=_stated(model, image_size, batch_size, convention),
        notes=_notes(model, image_size),
    )


def _counted(model: choices.Model, image_size: int, count: Callable[[Sequence[Layer]], int]) -> int:
    """A sum over the model's table; of a ResNet/x from those of ResNet/1 and ResNet/2, as each block adds the same."""
    if not isinstance(model, choices.ResNetX):
        return count(_table(model, image_size))
    one, two = (count(_table(msgspec.structs.replace(model, x=x), image_size)) for x in (1, 2))
    return one + (model.x - 1) * (two - one)


# ---- the builders ---------------------------------------------------------------------------------------------------


def _resnetx(model: choices.ResNetX, image_size: int) -> "nn.Module":
    from resnetx.workloads.resnetx import ResNetX

    return ResNetX(model.x, model.width, model.classes)


def _alexnet(model: choices.AlexNet, image_size: int) -> "nn.Module":
    from resnetx.workloads.alexnet import AlexNet

    return AlexNet(model.classes, image_size)


def _googlenet(model: choices.GoogLeNet, image_size: int) -> "nn.Module":
    from resnetx.workloads.googlenet import GoogLeNet

    return GoogLeNet(model.classes, image_size)


def _torchvision(model: choices.Torchvision, image_size: int) -> "nn.Module":
    from torchvision import models

    known = models.list_models(module=models)  # the classifiers
    if model.name not in known:  # another torchvision than the one whose names are kept
        raise unknown_name("torchvision classifier", model.name, known, "model.name")
    options: dict[str, Any] = {}
    if model.name.startswith("vit_"):
        options["image_size"] = image_size
    elif model.name.startswith("maxvit_"):
        options["input_size"] = (image_size, image_size)
    elif model.name in ("googlenet", "inception_v3"):
        options["init_weights"] = True  # the default, which torchvision warns is going to change
    try:
        module: nn.Module = models.get_model(model.name, weights=None, num_classes=model.classes, **options)
    except (ValueError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"image_size={image_size}: {model.name} cannot be built for it ({reason}); expected a size that it accepts"
        ) from error
    return module


_BUILDERS: dict[str, Callable[[Any, int], "nn.Module"]] = {
    "resnetx": _resnetx,
    "alexnet": _alexnet,
    "googlenet": _googlenet,
    "torchvision": _torchvision,
}


# ---- the paper's figures --------------------------------------------------------------------------------------------


def _stated(model: choices.Model, image_size: int, batch_size: int, convention: str) -> dict[str, float]:
    """What Tallent et al. 2017 state about this workload (sections 3 and 4.2); empty if nothing."""
    if convention != "caffe" or image_size != model.image_size or model.classes != 1000:
        return {}
    match model:
        case choices.ResNetX(width=64, x=x):
            return {"activations_per_image": 1_204_224 * x + 1_155_113, "parameters": 46_211 * x + 74_857}
        case choices.AlexNet():
            intensities = {256: 5.9, 512: 11.9}
            figures = {"activations_per_image": 1.4e6, "parameters": 60e6, "payload_bytes": 240e6}
        case choices.GoogLeNet():
            intensities = {256: 500.0, 512: 1004.0}
            figures = {"activations_per_image": 10.8e6, "parameters": 5.5e6, "payload_bytes": 22e6}
        case _:
            return {}
    return figures | ({"intensity": intensities[batch_size]} if batch_size in intensities else {})


def _notes(model: choices.Model, image_size: int) -> list[str]:
    """Notes for comparing the figures with others."""
    notes = []
    if isinstance(model, choices.AlexNet | choices.GoogLeNet) and image_size != model.image_size:
        what = "first classifier layer, fc6," if isinstance(model, choices.AlexNet) else "auxiliary classifiers"
        notes.append(
            f"image_size={image_size}, not {model.image_size}: the size of {model.label}'s {what} depends on it, so "
            "its parameters and intensity differ from the paper's"
        )
    if isinstance(model, choices.GoogLeNet):
        notes.append(
            "the paper states 5.5 M parameters, which no version of GoogLeNet has: with 1000 classes it has "
            "13.4 M with its two auxiliary classifiers, which train, and 7.0 M without them"
        )
    is_family = isinstance(model, choices.ResNetX)
    if not is_family and any(layer.kind.endswith("attention") for layer in _table(model, image_size)):
        notes.append("attention counts as one layer: the tensors inside it are not among the activations")
    return notes
