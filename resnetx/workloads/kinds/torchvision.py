"""Any classifier of `torchvision.models`, by its name there. Which images each accepts, only building it shows."""

from typing import TYPE_CHECKING, Any

from resnetx import packages
from resnetx.choices import Torchvision
from resnetx.errors import ConfigError, unknown_name
from resnetx.workloads.counts import Layer
from resnetx.workloads.kinds.kind import Kind
from resnetx.workloads.tables import classifiers, kept_image_size

if TYPE_CHECKING:
    from torch import Tensor, nn


class TorchvisionKind(Kind[Torchvision]):
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

    def loss(self, outputs: Any, labels_N: "Tensor") -> "Tensor":
        """torchvision's GoogLeNet and Inception have auxiliary classifiers."""
        from resnetx.workloads.losses import with_auxiliary_classifiers

        return with_auxiliary_classifiers(outputs, labels_N)

    def traced(self, model: Torchvision, image_size: int) -> list[Layer]:
        classifiers.check(model.name)
        try:
            return super().traced(model, image_size)
        except ConfigError as error:
            own = classifiers.image_size(model.name)
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
