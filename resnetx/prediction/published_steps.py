"""Rates of one GPU at several batches that others measured: `results/published/steps.yaml`."""

from functools import cache
from typing import Literal

import msgspec

from resnetx.loading import own_yaml
from resnetx.prediction.published import FOLDER, Precision
from resnetx.prediction.published_scaling import ScalingSource


class CountedNetwork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, of which only the number of its layers matters here."""

    layers: int
    counted: str  # on which implementation


class StepSeries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one GPU, by batch."""

    source: str  # its name among the sources: one GPU in one machine
    gpu: str
    network: str
    precision: Precision | None  # null: the source does not say
    loop: Literal["eager", "tuned"]  # PyTorch's, operation by operation; a graph of TensorFlow
    input: Literal["prepared", "loader"]  # loader: images are decoded, which may be the limit
    samples_per_s: dict[int, float]

    @property
    def layers(self) -> int:
        return _file().networks[self.network].layers

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
