"""Training rates that others measured: `results/published/training.yaml`, from which rooflines are fitted and by which
predictions are judged. Every figure has its source, and says whether it was known while the model was written."""

from collections.abc import Iterator
from functools import cache
from typing import Literal

import msgspec

from resnetx import choices
from resnetx.interconnect.parts import GpuSpec
from resnetx.interconnect.system import parts_table
from resnetx.loading import own_yaml
from resnetx.settings.files import CONFIGS
from resnetx.workloads import tables
from resnetx.workloads.counts import Layer

FOLDER = CONFIGS.parent / "results" / "published"  # a wheel has it next to `configs`

# torchvision's names
TrainedNetwork = Literal[
    "alexnet", "efficientnet_b0", "efficientnet_b4", "inception_v3", "resnet50", "resnet152", "vgg16"
]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: str
    network: TrainedNetwork
    seen: bool

    @property
    def publisher(self) -> str:
        """Who published it: the first words of the source. Figures of one publisher are left out together."""
        return self.source.split(",")[0].split(" ")[0]

    def table(self, image_size: int) -> list[Layer]:
        """The layers of torchvision's network, which ship as data."""
        layers = tables.kept(choices.Torchvision(name=self.network, classes=1000), image_size)
        assert layers is not None, f"{self.network} at {image_size} pixels is not among workloads.tables.KEPT"
        return layers


class OneGpu(_Entry, frozen=True, kw_only=True):
    """Rates of one network on one GPU, by batch size."""

    gpu: str  # its name among the parts
    clock_MHz: float | None = None  # null: the part's
    image_size: int
    precision: Precision
    framework: Literal["tensorflow", "mxnet"] | None = None  # whose loop waits for each step; null: PyTorch's does not
    variant: str | None = None  # how what was trained differs from torchvision's network
    flop_ratio: float = 1.0  # FLOP of that over those of torchvision's
    data: Literal["synthetic", "real"] = "synthetic"
    images_per_s: dict[int, float]
    outside: str | None = None  # why it is left out of the fit to all GPUs
    own_fit: bool = False  # left out of that, but not of the fit to its own GPU

    @property
    def clock_Hz(self) -> float | None:
        return None if self.clock_MHz is None else self.clock_MHz * 1e6

    @property
    def part(self) -> GpuSpec:
        gpu: GpuSpec = parts_table("gpus")[self.gpu]
        return gpu

    @property
    def generation(self) -> str:
        """GPUs of one compute capability are one generation."""
        return f"{self.part.compute_capability.value:.1f}"


class LayerwiseTime(_Entry, frozen=True, kw_only=True):
    """Communication of all layers of a network, one all-reduce for each, summed."""

    system: str
    library: str
    backward_s: float
    communication_s: float


class Iterations(_Entry, frozen=True, kw_only=True):
    """A rate of Caffe's net whose batch size and library are not stated; each that it may be of."""

    system: str
    gpus: int
    batch_sizes: list[int]
    libraries: list[str]
    clock_MHz: float
    iterations_per_s: float

    def layers(self) -> tuple[Layer, ...]:
        """The layers of Caffe's net, as its paper has it."""
        found = tables.kept(*tables.KEPT[self.network])
        assert found is not None, f"{self.network} is not among workloads.tables.KEPT"
        return tuple(found)

    @property
    def image_size(self) -> int:
        return tables.KEPT[self.network][1]


class SmallAllreduce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    size: str
    time_us: dict[int, float]


class ValidationGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of the validation table, and the worst relative error that one of them may have; null: any."""

    about: str
    tolerance: float | None


class TrainingFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: dict[str, ValidationGroup]
    one_gpu: list[OneGpu]
    small_allreduce: SmallAllreduce
    layerwise: list[LayerwiseTime]
    iterations: list[Iterations]


class Rate(msgspec.Struct, frozen=True):
    """One row: what one GPU did at one batch size."""

    entry: OneGpu
    batch_size: int
    images_per_s: float

    @property
    def step_s(self) -> float:
        return self.batch_size / self.images_per_s

    @property
    def what(self) -> str:
        entry = self.entry
        return f"{entry.network}, batch {self.batch_size}, {entry.precision}, {entry.gpu}"


@cache
def training() -> TrainingFigures:
    return own_yaml(FOLDER / "training.yaml", TrainingFigures)


def rates() -> Iterator[Rate]:
    """All rates of one GPU, in the order of the file."""
    for entry in training().one_gpu:
        for batch_size, images_per_s in entry.images_per_s.items():
            yield Rate(entry, batch_size, images_per_s)
