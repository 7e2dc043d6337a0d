"""The kinds of models, by the struct of their settings. This is the only place that tells one from another."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from resnetx import packages
from resnetx.choices import (
    AlexNet32Settings,
    AlexNetSettings,
    BertSettings,
    CifarNetSettings,
    CifarNetwork,
    DenseNet40Settings,
    DenseNet100Settings,
    DenseNetSettings,
    GoogLeNetSettings,
    GptXSettings,
    MlpXSettings,
    ModelChoice,
    NasNetMobileSettings,
    NasNetSettings,
    PythonSettings,
    ResNet20Settings,
    ResNet110Settings,
    ResNetSettings,
    ResNetXSettings,
    Torchvision,
)
from resnetx.errors import ConfigError, unknown_name
from resnetx.workloads import tables, user_file
from resnetx.workloads.counts import Layer
from resnetx.workloads.tables import kept_image_size

if TYPE_CHECKING:
    from torch import Tensor, nn

    from resnetx.workloads.user_program import BatchPart

# What resnetx asks of a kind of model: how it is built (`build`, all that it must define), which loss it trains with,
# and how it is counted. A kind is a subclass of `Kind`, beside the struct of its settings in `choices`; its batches are
# those of `inputs.Batches`. Importing a kind loads no torch.

Settings = TypeVar("Settings", bound=ModelChoice)


class Kind(ABC, Generic[Settings]):
    """One kind of model; without state, as everything that differs between two models is in their settings."""

    packages: ClassVar[tuple[str, ...]] = ("torch",)  # modules that it is built with, of `packages.KNOWN`
    # Whether a request is checked by making its layer table: where `smallest_image_size` does not refuse enough.
    checked_by_table: ClassVar[bool] = True

    @abstractmethod
    def build(self, model: Settings, image_size: int) -> "nn.Module":
        """The model for images of `image_size` pixels, in training mode; a `ConfigError` where there is none."""

    def loss(self, model: Settings, outputs: Any, labels_N: "Tensor") -> "Tensor":
        """The mean loss of a batch, from what the module returned in training."""
        from torch.nn import functional

        return functional.cross_entropy(outputs, labels_N)

    def call(self, model: Settings, module: Callable[..., Any], batch: Any) -> Any:
        """What the module, or what trains it, makes of the first part of a batch."""
        return module(batch)

    def batch(self, model: Settings, count: int) -> Any:
        """A batch of its own, on the host, of a model that makes its batches (`ModelChoice.code`), once it is built."""
        raise AssertionError(f"{model.label} is fed with the batches of the input")

    def parts(self, model: Settings) -> "list[BatchPart | None]":
        """Of each tensor of such a batch, how it is divided over ranks."""
        raise AssertionError(f"{model.label} is fed with the batches of the input")

    def check(self, model: Settings, image_size: int) -> None:
        """Refuses a model that this machine is not to run, before anything is started."""

    # ---- counting ----------------------------------------------------------------------------------------------------

    def traced(self, model: Settings, image_size: int) -> list[Layer]:
        """The layers of the model in training, as torch.fx finds them; a `ConfigError` for images it cannot have."""
        from resnetx.workloads.layers import layers, without_elements

        with without_elements():
            module = self.build(model, image_size)
        return layers(module, model.sample(image_size))

    def total(self, model: Settings, count: Callable[[Settings], int]) -> int:
        """A sum over the layers of the model, `count`, for kinds that know a shorter way than counting all of them."""
        return count(model)

    # ---- notes -------------------------------------------------------------------------------------------------------

    def stated(self, model: Settings, batch_size: int) -> dict[str, float]:
        """What Tallent et al. 2017 state about the model with its own image size and 1000 classes, counted as in Caffe.

        The keys are fields of `record.Workload`; empty if nothing is stated.
        """
        return {}

    def notes(self, model: Settings, image_size: int) -> list[str]:
        """Notes for comparing its counts with others, each a sentence."""
        return []


# What the kinds have in common that Tallent et al. 2017 measured by their names, AlexNet and GoogLeNet.


def with_intensity(figures: dict[str, float], intensities: dict[int, float], batch_size: int) -> dict[str, float]:
    """The figures that the paper states, and the intensity of this batch size where it states one."""
    return figures | ({"intensity": intensities[batch_size]} if batch_size in intensities else {})


def differs_from_paper(model: ModelChoice, image_size: int, what: str) -> list[str]:
    """That another image size than the paper's changes the size of `what`, a part of the model; [] at the paper's."""
    if image_size == model.image_size:
        return []
    return [
        f"image_size={image_size}, not {model.image_size}: the size of {model.label}'s {what} depends on it, so "
        "its parameters and intensity differ from the paper's"
    ]


class AlexNetKind(Kind[AlexNetSettings]):
    """Caffe's AlexNet."""

    checked_by_table = False

    def build(self, model: AlexNetSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import caffe

        return caffe.AlexNet(model.classes, image_size, model.lrn)

    def stated(self, model: AlexNetSettings, batch_size: int) -> dict[str, float]:
        """Section 3, of the network with its normalisations."""
        if not model.lrn:
            return {}
        figures = {"activations_per_image": 1.4e6, "parameters": 60e6, "payload_bytes": 240e6}
        return with_intensity(figures, {256: 5.9, 512: 11.9}, batch_size)

    def notes(self, model: AlexNetSettings, image_size: int) -> list[str]:
        return differs_from_paper(model, image_size, "first classifier layer, fc6,")


class CifarKind(Kind[CifarNetSettings | CifarNetwork]):
    """Caffe's network for CIFAR-10, and those that Anderson et al. 2018 trained."""

    checked_by_table = False

    def build(self, model: CifarNetSettings | CifarNetwork, image_size: int) -> "nn.Module":
        from resnetx.workloads import caffe

        match model:
            case CifarNetSettings():
                return caffe.CifarNet(model.classes, image_size)
            case ResNetSettings():
                return caffe.ResNet(model.blocks, model.classes)
            case DenseNetSettings():
                return caffe.DenseNet(model.layers, model.k, model.classes)
            case NasNetSettings():
                return caffe.NasNet(*model.cells, model.classes)
        return caffe.AlexNet32(model.classes, image_size)


PARAMETERS = (
    "the paper states 5.5 M parameters, which no version of GoogLeNet has: with 1000 classes it has "
    "13.4 M with its two auxiliary classifiers, which train, and 7.0 M without them"
)


class GoogLeNetKind(Kind[GoogLeNetSettings]):
    """Caffe's GoogLeNet, which trains with two auxiliary classifiers."""

    checked_by_table = False

    def build(self, model: GoogLeNetSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import caffe

        return caffe.GoogLeNet(model.classes, image_size)

    def loss(self, model: GoogLeNetSettings, outputs: Any, labels_N: "Tensor") -> "Tensor":
        return with_auxiliary_classifiers(outputs, labels_N)

    def stated(self, model: GoogLeNetSettings, batch_size: int) -> dict[str, float]:
        """Section 3."""
        figures = {"activations_per_image": 10.8e6, "parameters": 5.5e6, "payload_bytes": 22e6}
        return with_intensity(figures, {256: 500.0, 512: 1004.0}, batch_size)

    def notes(self, model: GoogLeNetSettings, image_size: int) -> list[str]:
        return [*differs_from_paper(model, image_size, "auxiliary classifiers"), PARAMETERS]


# Families: models of a stem, x blocks that are alike, and a head, whose counts are arithmetic for any x.
#
# A family's settings have `x`; its table is `workloads.tables`. What each dial does to the work per parameter is in
# docs/families.md.

Member = TypeVar("Member", ResNetXSettings, GptXSettings, MlpXSettings)


class Family(Kind[Member]):
    """What families have in common."""

    checked_by_table = False

    def total(self, model: Member, count: Callable[[Member], int]) -> int:
        """From the sums of the members with one block and with two, as each block adds the same."""
        one, two = (count(msgspec.structs.replace(model, x=x)) for x in (1, 2))
        return one + (model.x - 1) * (two - one)


NOT_IN_CAFFE = "Caffe has neither attention nor GELU: compare with other networks by convention=conv"


class GptXKind(Family[GptXSettings]):
    def build(self, model: GptXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import families

        return families.GptX(model.x, model.width, model.attention_heads, model.seq, model.vocabulary)

    def loss(self, model: GptXSettings, outputs: Any, labels_N: "Tensor") -> "Tensor":
        return of_tokens(outputs, labels_N)

    def notes(self, model: GptXSettings, image_size: int) -> list[str]:
        return [
            f"a sample is a sequence of {model.seq:,} tokens. Training takes {1.5 * model.seq:,.0f} FLOP for each byte "
            "of gradients and sequence on a GPU (attention's own left out), whatever the width: docs/families.md",
            NOT_IN_CAFFE,
        ]


class MlpXKind(Family[MlpXSettings]):
    def build(self, model: MlpXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import families

        return families.MlpX(model.x, model.width, model.classes, image_size)


class BertKind(Kind[BertSettings]):
    checked_by_table = False

    def build(self, model: BertSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import families

        return families.Bert(model.seq)

    def loss(self, model: BertSettings, outputs: Any, labels_N: "Tensor") -> "Tensor":
        return of_tokens(outputs, labels_N)

    def notes(self, model: BertSettings, image_size: int) -> list[str]:
        return [
            f"a sample is a sequence of {model.seq:,} tokens, of which every one is scored: the encoder and the head "
            "for masked words, without the pooler",
            NOT_IN_CAFFE,
        ]


class ResNetXKind(Family[ResNetXSettings]):
    """The family of the paper (Tallent et al. 2017)."""

    def build(self, model: ResNetXSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import families

        return families.ResNetX(model.x, model.width, model.classes)

    def stated(self, model: ResNetXSettings, batch_size: int) -> dict[str, float]:
        """Section 4.2, for every x."""
        if model.width != 64:
            return {}
        return {
            "activations_per_image": 1_204_224 * model.x + 1_155_113,
            "parameters": 46_211 * model.x + 74_857,
        }


class TorchvisionKind(Kind[Torchvision]):
    """Any classifier of `torchvision.models`, by its name there. Which images each accepts, only building it shows."""

    packages = ("torch", "torchvision")

    def build(self, model: Torchvision, image_size: int) -> "nn.Module":
        from torchvision import models

        known = models.list_models(module=models)  # the classifiers
        if model.name not in known:  # another torchvision than the one whose names are kept
            raise unknown_name("torchvision classifier", model.name, known, "model.name")
        options = _options(model.name, image_size)
        try:
            module: nn.Module = models.get_model(model.name, weights=None, num_classes=model.classes, **options)
        except (ValueError, AssertionError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"image_size={image_size}: {model.name} cannot be built for it ({reason}); expected a size that it "
                "accepts"
            ) from error
        return module

    def loss(self, model: Torchvision, outputs: Any, labels_N: "Tensor") -> "Tensor":
        """torchvision's GoogLeNet and Inception have auxiliary classifiers."""
        return with_auxiliary_classifiers(outputs, labels_N)

    def traced(self, model: Torchvision, image_size: int) -> list[Layer]:
        tables.check_classifier(model.name)
        try:
            return super().traced(model, image_size)
        except ConfigError as error:
            own = tables.image_size(model.name)
            if own in (None, image_size) or not str(error).startswith("image_size="):
                raise
            raise ConfigError(f"{error}, e.g. image_size={own}, the default of {model.label}") from error
        except ModuleNotFoundError as error:
            stored, why = kept_image_size(model), packages.missing(error)
            if not why or stored in (None, image_size):
                raise
            raise ConfigError(
                f"image_size={image_size}: {why}; or use image_size={stored}, whose layers are stored"
            ) from error


def _options(name: str, image_size: int) -> dict[str, Any]:
    """What the constructors of some classifiers take besides the number of classes."""
    if name.startswith("vit_"):
        return {"image_size": image_size}
    if name.startswith("maxvit_"):
        return {"input_size": (image_size, image_size)}
    if name in ("googlenet", "inception_v3"):
        return {"init_weights": True}  # the default, which torchvision warns is going to change
    return {}


def installed_classifiers() -> dict[str, int]:
    """The classifiers of the installed torchvision, and the image size that their published weights are for."""
    from torchvision import models

    names = models.list_models(module=models)
    return {name: models.get_model_weights(name).DEFAULT.transforms().crop_size[0] for name in names}


class PythonKind(Kind[PythonSettings]):
    """A model of the user's own: `workloads.user_file`."""

    def build(self, model: PythonSettings, image_size: int) -> "nn.Module":
        from resnetx.workloads import user_program

        return user_program.made(model, image_size).module

    def call(self, model: PythonSettings, module: Callable[..., Any], batch: Any) -> Any:
        from resnetx.workloads import user_program

        return user_program.called(model, user_program.program(model), module, batch)

    def loss(self, model: PythonSettings, outputs: Any, labels_N: Any) -> "Tensor":
        """Its own, of the outputs and the whole batch."""
        from resnetx.workloads import user_program

        found: Tensor = user_program.loss_of(model, user_program.program(model), outputs, labels_N)
        return found

    def batch(self, model: PythonSettings, count: int) -> Any:
        from resnetx.workloads import user_program

        return user_program.batch_of(model, user_program.program(model), count)

    def parts(self, model: PythonSettings) -> "list[BatchPart | None]":
        from resnetx.workloads import user_program

        return user_program.parts_of(model, user_program.program(model))

    def check(self, model: PythonSettings, image_size: int) -> None:
        user_file.check_named(model)

    def traced(self, model: PythonSettings, image_size: int) -> list[Layer]:
        return user_file.counted(model, image_size).layers

    def notes(self, model: PythonSettings, image_size: int) -> list[str]:
        return [f"not seen of {model.label}: {each}" for each in user_file.counted(model, image_size).unseen]


# Losses of what models return in training.


def of_tokens(outputs: Any, labels_NS: "Tensor") -> "Tensor":
    """Cross-entropy of a token at every place of every sequence."""
    from torch.nn import functional

    return functional.cross_entropy(outputs.flatten(0, 1), labels_NS.flatten())


AUXILIARY_WEIGHT = 0.3  # Szegedy et al. 2015, section 5


def with_auxiliary_classifiers(outputs: Any, labels_N: "Tensor") -> "Tensor":
    """Cross-entropy; auxiliary classifiers (outputs behind the first) count with their weight, absent ones are None."""
    from torch import Tensor
    from torch.nn import functional

    if isinstance(outputs, Tensor):
        return functional.cross_entropy(outputs, labels_N)
    main, *auxiliary = (output for output in outputs if output is not None)
    loss = functional.cross_entropy(main, labels_N)
    for output in auxiliary:
        loss = loss + AUXILIARY_WEIGHT * functional.cross_entropy(output, labels_N)
    return loss


KINDS: dict[type[ModelChoice], Kind[Any]] = {
    ResNetXSettings: ResNetXKind(),
    GptXSettings: GptXKind(),
    MlpXSettings: MlpXKind(),
    AlexNetSettings: AlexNetKind(),
    GoogLeNetSettings: GoogLeNetKind(),
    CifarNetSettings: CifarKind(),
    ResNet20Settings: CifarKind(),
    ResNet110Settings: CifarKind(),
    DenseNet40Settings: CifarKind(),
    DenseNet100Settings: CifarKind(),
    AlexNet32Settings: CifarKind(),
    NasNetSettings: CifarKind(),
    NasNetMobileSettings: CifarKind(),
    BertSettings: BertKind(),
    Torchvision: TorchvisionKind(),
    PythonSettings: PythonKind(),
}


def kind_of(model: ModelChoice) -> Kind[Any]:
    """The kind of a model."""
    return KINDS[type(model)]
