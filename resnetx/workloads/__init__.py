"""Workloads: models as PyTorch modules, as layer tables, and the work that they do.

    from resnetx import choices, workloads
    model = choices.ResNetXSettings(x=8, width=64, classes=1000)
    workloads.workload(model, 224, batch_size=64, convention="caffe").intensity

Importing this package loads no torch; building a model does, and so does a table that is not stored (`tables`).
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from resnetx import choices, record
from resnetx.request import Request
from resnetx.workloads import counts, tables
from resnetx.workloads.counts import Layer, messages
from resnetx.workloads.kinds import kind_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from resnetx.workloads.user_program import BatchPart


def packages(model: choices.Model) -> tuple[str, ...]:
    """The modules that must be installed to train the model."""
    return kind_of(model).packages


def check(model: choices.Model, image_size: int) -> None:
    """Rejects a model that cannot be built, or cannot be trained on images of `image_size` pixels.

    Needs no device. Where the table is not stored, the model is traced with torch.fx.
    """
    kind_of(model).check(model, image_size)
    if kind_of(model).checked_by_table:
        _table(model, image_size)


def build(model: choices.Model, image_size: int) -> "nn.Module":
    """The model as a PyTorch module, initialised as its paper says, in training mode.

    AlexNet, GoogLeNet and torchvision's vision transformers fit images of `image_size` pixels only.
    """
    return kind_of(model).build(model, image_size)


def call(model: choices.Model, module: Callable[..., Any], batch: Any) -> Any:
    """What the model's module, or what trains it, makes of images, tokens, or a user's own batch."""
    return kind_of(model).call(model, module, batch)


def own_batch(model: choices.Model, count: int) -> Any:
    """A batch of a model that makes its own, on the host, once it is built."""
    return kind_of(model).batch(model, count)


def own_parts(model: choices.Model) -> "list[BatchPart | None]":
    """Of each tensor of such a batch, how it is divided over ranks; None: all have the whole."""
    return kind_of(model).parts(model)


def loss(model: choices.Model, outputs: Any, labels_N: "Tensor") -> "Tensor":
    """The mean loss of a batch, from what the model's module returned in training."""
    return kind_of(model).loss(model, outputs, labels_N)


def table(model: choices.Model, image_size: int) -> list[Layer]:
    """The layers of the model in training, as one image of `image_size` x `image_size` pixels sees them."""
    return list(_table(model, image_size))


@functools.lru_cache(maxsize=64)
def _table(model: choices.Model, image_size: int) -> tuple[Layer, ...]:
    kept = tables.kept(model, image_size)
    return tuple(traced(model, image_size) if kept is None else kept)


def traced(model: choices.Model, image_size: int) -> list[Layer]:
    """The same table as torch.fx finds it, or a program that runs the user's own model."""
    return kind_of(model).traced(model, image_size)


def workload(
    model: choices.Model, image_size: int, batch_size: int, convention: str, gpus: Iterable[int] = (1, 2, 4, 8)
) -> record.Workload:
    """How much work the model is, by a convention of `counts`; the global `batch_size` is split over `gpus`."""
    count = functools.partial(_total, model, image_size)
    activations = count(lambda layers: counts.activations(layers, image_size, convention))
    parameters = count(lambda layers: counts.parameters(layers, convention))
    intensity = counts.intensity(activations, parameters, batch_size)
    return record.Workload(
        workload=model.label,
        model={name: value for name, value in msgspec.to_builtins(model).items() if value is not None},
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
        tokens=model.tokens,
    )


def described(request: Request, convention: str, gpus: Iterable[int]) -> record.DescribedWorkload:
    """The workload of a request, with its messages."""
    found = workload(request.model, request.image_size, request.batch_size, convention, gpus)
    sent = messages(_table(request.model, request.image_size), request.strategy, request.precision)
    counted = {name: getattr(found, name) for name in found.__struct_fields__}
    return record.DescribedWorkload(**counted, messages_bytes=[message.size_bytes for message in sent])


def intensity(model: choices.Model, image_size: int, convention: str) -> float:
    """Activations per parameter of one sample."""
    count = functools.partial(_total, model, image_size)
    activations = count(lambda layers: counts.activations(layers, image_size, convention))
    return counts.intensity(activations, count(lambda layers: counts.parameters(layers, convention)), 1)


def _total(model: choices.Model, image_size: int, count: Callable[[Sequence[Layer]], int]) -> int:
    """A sum over the model's table, or over those of smaller models from which its kind derives it."""
    return kind_of(model).total(model, lambda counted: count(_table(counted, image_size)))


def _stated(model: choices.Model, image_size: int, batch_size: int, convention: str) -> dict[str, float]:
    """What Tallent et al. 2017 state about this workload; empty if nothing."""
    if convention != "caffe" or image_size != model.image_size or model.classes != 1000:
        return {}
    return kind_of(model).stated(model, batch_size)


def _notes(model: choices.Model, image_size: int) -> list[str]:
    """Notes for comparing the figures with others."""
    notes = kind_of(model).notes(model, image_size)
    if _total(model, image_size, lambda layers: sum(layer.kind.endswith("attention") for layer in layers)):
        return [*notes, "attention counts as one layer: the tensors inside it are not among the activations"]
    return notes
