"""Rates of one GPU at several batches, and of one batch on several GPUs: `results/published/steps.yaml`."""

from functools import cache
from typing import Literal

import msgspec

from resnetx.loading import own_yaml
from resnetx.prediction.published import FOLDER, Precision
from resnetx.prediction.published_scaling import ScalingSource
from resnetx.workloads.counts import DATA, Layer


class CountedNetwork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, of which only the number and the size of its layers matter here."""

    layers: int
    counted: str  # on which implementation
    parameters: int | None = None  # null: nobody trained it on several GPUs here

    @property
    def table(self) -> tuple[Layer, ...]:
        """As many layers, all alike."""
        assert self.parameters is not None, "a network that was trained on several GPUs"
        each = self.parameters // self.layers
        return tuple(
            Layer(
                name=f"layer {place}",
                kind="linear",
                inputs=(f"layer {place - 1}" if place else DATA,),
                output_shape=(1,),
                in_place=False,
                parameters=(each,),
                multiply_adds=each,
            )
            for place in range(self.layers)
        )


class StepSeries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one GPU, by batch."""

    source: str  # its name among the sources: one GPU in one machine
    gpu: str
    network: str
    precision: Precision | None  # null: the source does not say
    loop: Literal["eager", "tuned"]  # PyTorch's, operation by operation; a graph of TensorFlow
    input: Literal["prepared", "loader"]  # loader: images are decoded, which may be the limit
    samples_per_s: dict[int, float]
    system: str | None = None  # whose several GPUs have rates, too
    several: dict[int, dict[int, float]] = {}  # samples/s of all, by the number of GPUs and the batch of each

    @property
    def counted(self) -> CountedNetwork:
        return _file().networks[self.network]

    @property
    def layers(self) -> int:
        return self.counted.layers

    @property
    def framework(self) -> str | None:
        return "tensorflow" if self.loop == "tuned" else None

    @property
    def text(self) -> str:
        return _file().sources[self.source].text

    @property
    def what(self) -> str:
        return f"{self.network}, {self.precision or 'precision not stated'}, {self.gpu}, input {self.input}"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, ScalingSource]
    networks: dict[str, CountedNetwork]
    series: list[StepSeries]


@cache
def _file() -> _File:
    return own_yaml(FOLDER / "steps.yaml", _File)


def series() -> list[StepSeries]:
    """All series, in the order of the file."""
    return _file().series
