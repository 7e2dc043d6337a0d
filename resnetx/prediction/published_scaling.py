"""Training rates by the number of GPUs that others measured: `results/published/scaling.yaml`, and `staged.yaml`.

Each series has the rate of one GPU, from which the others are predicted (`scaling_check`), with the batch of each GPU
fixed. Every figure has its source, and says whether it was known while the model was written.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

import msgspec

from resnetx.choices import Torchvision
from resnetx.interconnect.system import System, load
from resnetx.loading import own_yaml
from resnetx.prediction.published import FOLDER, Precision, TrainedNetwork
from resnetx.prediction.staged import StagedClass
from resnetx.workloads import tables
from resnetx.workloads.counts import Layer

Feed = Literal["synthetic", "dali", "loader", "unknown"]


class ScalingSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who measured."""

    whose: str  # sources by the same people are left out together; as in training.yaml, the first words of a source
    text: str
    program: str = ""  # what they ran, where they ran several


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What joins nodes, of which each has as many GPUs as its system."""

    network: str
    nics: int


class Series(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one system, by the number of GPUs; the first is that of one."""

    source: str  # its name among the sources
    system: str
    network: TrainedNetwork
    image_size: int
    batch_size_per_gpu: int
    precision: Precision
    gradients: Literal["fp32", "fp16"]
    library: str
    exchange: Literal["allreduce", "server"]  # server: each variable has its place on the CPU
    input: Feed  # loader: the framework's own decoding on CPUs; unknown: the source does not say
    strategy: Literal["bucket", "after"] = "bucket"  # of an all-reduce; buckets stand for what frameworks fuse
    launch_mode: Literal["process-per-gpu", "one-process"] = (
        "process-per-gpu"  # one process: it drives all GPUs of a node
    )
    compiled: bool = False  # by XLA, which launches few kernels
    cluster: Cluster | None = None
    seen: bool
    images_per_s: dict[int, float]

    @property
    def model(self) -> Torchvision:
        return Torchvision(name=self.network, classes=1000)

    @property
    def layers(self) -> list[Layer]:
        found = tables.kept(self.model, self.image_size)
        assert found is not None, f"{self.network} at {self.image_size} pixels is not among workloads.tables.KEPT"
        return found

    def on(self, gpus: int) -> System:
        """The system with as many nodes as so many GPUs take."""
        return _system(self.system, gpus, self.cluster)

    @property
    def scaled(self) -> Iterator[tuple[int, float]]:
        """(GPUs, images/s) of all counts but one GPU."""
        return ((gpus, rate) for gpus, rate in self.images_per_s.items() if gpus > 1)

    @property
    def what(self) -> str:
        return f"{self.network}, batch {self.batch_size_per_gpu} per GPU, {self.precision}, input {self.input}"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, ScalingSource]
    series: list[Series]


@cache
def _file() -> _File:
    return own_yaml(FOLDER / "scaling.yaml", _File)


class _StagedFile(_File, frozen=True, forbid_unknown_fields=True):
    classes: dict[str, StagedClass]  # of each source's box


@cache
def _staged_file() -> _StagedFile:
    return own_yaml(FOLDER / "staged.yaml", _StagedFile)


def series() -> list[Series]:
    return _file().series


def staged_series(box: StagedClass) -> list[Series]:
    """The rates of the boxes of a class whose GPUs are no peers."""
    return [each for each in _staged_file().series if _staged_file().classes[each.source] == box]


def sources() -> Mapping[str, ScalingSource]:
    return {**_file().sources, **_staged_file().sources}


@cache
def _system(name: str, gpus: int, cluster: Cluster | None) -> System:
    one = load(name, nodes=1)
    if gpus <= len(one.gpus):
        return one
    assert cluster is not None, f"{name} has {len(one.gpus)} GPUs, and nothing says what joins its nodes"
    return load(name, gpus // len(one.gpus), cluster.network, cluster.nics)
