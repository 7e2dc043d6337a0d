"""The kinds of models, by the struct of their settings. This is the only place that tells one from another."""

from typing import Any

from resnetx.choices import (
    AlexNetSettings,
    CifarNetSettings,
    GoogLeNetSettings,
    GptXSettings,
    MlpXSettings,
    ModelChoice,
    ResNetXSettings,
    Torchvision,
)
from resnetx.workloads.kinds.alexnet import AlexNetKind
from resnetx.workloads.kinds.cifarnet import CifarNetKind
from resnetx.workloads.kinds.families import GptXKind, MlpXKind
from resnetx.workloads.kinds.googlenet import GoogLeNetKind
from resnetx.workloads.kinds.kind import Kind
from resnetx.workloads.kinds.resnetx import ResNetXKind
from resnetx.workloads.kinds.torchvision import TorchvisionKind

__all__ = ["KINDS", "Kind", "kind_of"]

KINDS: dict[type[ModelChoice], Kind[Any]] = {
    ResNetXSettings: ResNetXKind(),
    GptXSettings: GptXKind(),
    MlpXSettings: MlpXKind(),
    AlexNetSettings: AlexNetKind(),
    GoogLeNetSettings: GoogLeNetKind(),
    CifarNetSettings: CifarNetKind(),
    Torchvision: TorchvisionKind(),
}


def kind_of(model: ModelChoice) -> Kind[Any]:
    """The kind of a model."""
    return KINDS[type(model)]
