"""What resnetx asks of a kind of model: how it is built, which loss it trains with, and how it is counted.

A kind is a subclass of `Kind` in a file of its own, beside the struct of its settings in `choices`. Every model is fed
with the batches of `inputs.Batches`: samples as its settings have them (`ModelChoice.sample`), and labels below
`classes`. `build` is all that a kind must define; what else it needs not say has a default here. Importing a kind loads
no torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from resnetx.choices import ModelChoice
from resnetx.workloads import tables
from resnetx.workloads.counts import Layer

if TYPE_CHECKING:
    from torch import Tensor, nn

Settings = TypeVar("Settings", bound=ModelChoice)


class Kind(ABC, Generic[Settings]):
    """One kind of model; without state, as everything that differs between two models is in their settings."""

    packages: ClassVar[tuple[str, ...]] = ("torch",)  # modules that it is built with, of `packages.KNOWN`
    # Whether a request is checked by making its layer table: where `smallest_image_size` does not refuse enough.
    checked_by_table: ClassVar[bool] = True

    @abstractmethod
    def build(self, model: Settings, image_size: int) -> "nn.Module":
        """The model for images of `image_size` pixels, in training mode; a `ConfigError` where there is none."""

    def loss(self, outputs: Any, labels_N: "Tensor") -> "Tensor":
        """The mean loss of a batch, from what the module returned in training."""
        from torch.nn import functional

        return functional.cross_entropy(outputs, labels_N)

    # ---- counting ----------------------------------------------------------------------------------------------------

    def table(self, model: Settings, image_size: int) -> list[Layer]:
        """The layers of the model in training: the stored or computed table, else what torch.fx finds."""
        return tables.kept(model, image_size) or self.traced(model, image_size)

    def traced(self, model: Settings, image_size: int) -> list[Layer]:
        """The same as torch.fx finds it; a `ConfigError` for images that the model cannot have."""
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
