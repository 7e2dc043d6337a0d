"""Training rates that others measured: `results/published/training.yaml`, from which rooflines are fitted and by which
predictions are judged. Every figure has its source, and says whether it was known while the model was written."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import exp, inf
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from resnetx import choices
from resnetx.choices import Torchvision
from resnetx.interconnect.systems.graph import GpuSpec
from resnetx.interconnect.systems.system import System, gpu_named, load, parts_table
from resnetx.loading import own_yaml
from resnetx.prediction import roofline
from resnetx.prediction.host_step import MODULE, OPERATIONS, operations_s, rated
from resnetx.prediction.roofline import HALF
from resnetx.prediction.scenario import StagedClass
from resnetx.record.traces import Precision
from resnetx.settings.files import PUBLISHED
from resnetx.workloads import tables
from resnetx.workloads.counts import BYTES_PER_PARAMETER, DATA, Layer

# torchvision's names
TrainedNetwork = Literal[
    "alexnet",
    "convnext_large",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_b4",
    "inception_v3",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "regnet_y_128gf",
    "resnet18",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "swin_b",
    "vgg16",
    "vit_b_16",
]


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

    updated: bool = True  # a step ends with an update
    gpu: str  # its name among the parts
    clock_MHz: float | None = None  # null: the part's
    image_size: int
    precision: Precision
    framework: Literal["tensorflow", "mxnet"] | None = None  # whose loop waits for each step; null: PyTorch's does not
    variant: str | None = None  # how what was trained differs from torchvision's network
    flop_ratio: float = 1.0  # FLOP of that over those of torchvision's
    data: Literal["synthetic", "real"] = "synthetic"
    layout: Literal["nchw", "nhwc"] | None = None  # of images in memory; null: the source does not say
    images_per_s: dict[int, float]
    outside: str | None = None  # why it is left out of the fit to all GPUs
    own_fit: bool = False  # left out of that, but not of the fit to its own GPU

    @property
    def clock_Hz(self) -> float | None:
        return None if self.clock_MHz is None else self.clock_MHz * 1e6

    @property
    def part(self) -> GpuSpec:
        return gpu_named(self.gpu)

    @property
    def generation(self) -> str:
        """GPUs of one compute capability are one generation."""
        return f"{self.part.compute_capability.value:.1f}"


def id_of(*parts: object, source: str) -> str:
    """Readable, and told apart by the source: "allreduce/dgx1-p100/nccl2/8/64MiB/busbw/1c0ffe"."""
    words = [re.sub(r"[^\w.+-]+", "-", str(part)) for part in parts if part is not None]
    return "/".join([*words, hashlib.sha256(source.encode()).hexdigest()[:6]])


class LayerwiseTime(_Entry, frozen=True, kw_only=True):
    """Communication of all layers of a network, one all-reduce for each, summed."""

    system: str
    library: str
    backward_s: float
    communication_s: float

    @property
    def id(self) -> str:
        """That of the figure in the dataset."""
        return id_of("messages", self.system, self.network, self.library, source=self.source)


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


class FigureGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of the validation table, and the worst relative error that one of them may have; null: any."""

    about: str
    tolerance: float | None


class TrainingFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    groups: dict[str, FigureGroup]
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
    def id(self) -> str:
        """That of the figure in the dataset."""
        entry = self.entry
        where = (entry.gpu, entry.network, entry.image_size, entry.precision, self.batch_size, entry.data, entry.layout)
        return id_of("rate", *where, source=entry.source)

    @property
    def step_s(self) -> float:
        return self.batch_size / self.images_per_s

    @property
    def what(self) -> str:
        entry = self.entry
        return f"{entry.network}, batch {self.batch_size}, {entry.precision}, {entry.gpu}"


@cache
def training() -> TrainingFigures:
    return own_yaml(PUBLISHED / "training.yaml", TrainingFigures)


def rates() -> Iterator[Rate]:
    """All rates of one GPU, in the order of the file."""
    for entry in training().one_gpu:
        for batch_size, images_per_s in entry.images_per_s.items():
            yield Rate(entry, batch_size, images_per_s)


# Training rates by the number of GPUs that others measured: `results/published/scaling.yaml`, and `staged.yaml`.
#
# Each series has the rate of one GPU, from which the others are predicted (`scaling_check`), with the batch of each GPU
# fixed. Every figure has its source, and says whether it was known while the model was written.

Feed = Literal["synthetic", "dali", "loader", "sound", "unknown"]


class ScalingSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who measured."""

    whose: str  # sources by the same people are left out together; as in training.yaml, the first words of a source
    text: str
    program: str = ""  # what they ran, where they ran several
    cpu: str | None = None  # the part that their host has, where they say so and no described system has it
    layout: Literal["nchw", "nhwc"] | None = None  # as in training.yaml: of images in memory; null: not said
    horovod: bool = False  # whose ranks agree on each tensor when it is ready
    seen: bool = True  # of steps.yaml: the rates were known while the model was written
    states: int = 1  # numbers that its optimizer keeps of each parameter, where it is not SGD with momentum


class RatedCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What joins nodes, of which each has as many GPUs as its system."""

    network: str
    nics: int
    gpu_direct: bool | None = None  # null: as its system says


class Series(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one system, by the number of GPUs; the first is that of one."""

    source: str  # its name among the sources
    system: str
    network: str  # torchvision's, or one of those that are counted (`CountedNetwork`)
    image_size: int
    batch_size_per_gpu: int
    precision: Precision
    gradients: Literal["fp32", "fp16"]
    library: str
    exchange: Literal["allreduce", "server"]  # server: each variable has its place on the CPU
    input: Feed  # loader: the framework's own decoding on CPUs; sound: spectrograms; unknown: the source does not say
    strategy: Literal["bucket", "after"] = "bucket"  # of an all-reduce; buckets stand for what frameworks fuse
    launch_mode: Literal["process-per-gpu", "one-process"] = (
        "process-per-gpu"  # one process: it drives all GPUs of a node
    )
    framework: Literal["tensorflow", "mxnet"] | None = None  # whose loop launches steps; null: PyTorch's, or not said
    compiled: bool = False  # by XLA, which launches few kernels
    samples: Literal["alike", "uneven"] = "alike"  # uneven: sentences, graphs, images of several sizes
    layout: Literal["nchw", "nhwc"] | None = None  # where it is not its source's
    cluster: RatedCluster | None = None
    seen: bool
    images_per_s: dict[int, float]

    @property
    def model(self) -> Torchvision:
        return Torchvision(name=self.network, classes=1000)

    @property
    def counted(self) -> bool:
        """Whether no more than the number and the size of its layers is known."""
        return self.network not in get_args(TrainedNetwork)

    @property
    def channels_last(self) -> bool:
        return (self.layout or sources()[self.source].layout) != "nchw"

    @property
    def layers(self) -> list[Layer]:
        if self.counted:
            return list(_steps_file().networks[self.network].table)
        found = tables.kept(self.model, self.image_size)
        assert found is not None, f"{self.network} at {self.image_size} pixels is not among workloads.tables.KEPT"
        return found

    def on(self, gpus: int) -> System:
        """The system with as many nodes as so many GPUs take."""
        return system_of(self.system, gpus, self.cluster)

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
    return own_yaml(PUBLISHED / "scaling.yaml", _File)


class _StagedFile(_File, frozen=True, forbid_unknown_fields=True):
    classes: dict[str, StagedClass]  # of each source's box, where its rates show it


@cache
def _staged_file() -> _StagedFile:
    return own_yaml(PUBLISHED / "staged.yaml", _StagedFile)


def series() -> list[Series]:
    return _file().series


def staged_series(box: StagedClass | None) -> list[Series]:
    """The rates of the boxes of a class whose GPUs are no peers; None: of those whose class is not known."""
    return [each for each in _staged_file().series if _staged_file().classes.get(each.source) == box]


def sources() -> Mapping[str, ScalingSource]:
    return {**_file().sources, **_staged_file().sources}


def machines_of(system: str, whose: str) -> str:
    """The machines that somebody measured on, whatever memory their GPUs have."""
    return f"{any_memory(system)} of {whose}"


def any_memory(system: str) -> str:
    """The name of a system, whatever memory its GPUs have."""
    return re.sub(r"-\d+gb\Z", "", system)


@cache
def system_of(name: str, gpus: int, cluster: RatedCluster | None) -> System:
    """A system with as many nodes as so many GPUs take."""
    system = load(name, nodes=1)
    if gpus <= len(system.gpus):
        return system
    assert cluster is not None, f"{name} has {len(system.gpus)} GPUs, and nothing says what joins its nodes"
    return load(name, gpus // len(system.gpus), cluster.network, cluster.nics, cluster.gpu_direct)


# Rates of one GPU at several batches, and of one batch on several GPUs: `results/published/steps.yaml`.


class CountedNetwork(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, of which only the number and the size of its layers matter here."""

    layers: int
    counted: str  # on which implementation
    name: str | None = None  # torchvision's, where it has another
    operations: int | None = None  # that PyTorch launches in both passes; null: as of so many modules of a ResNet
    parameters: int | None = None  # null: not counted

    @property
    def launched(self) -> float:
        """Operations of a step, its update left out."""
        return self.layers * OPERATIONS[MODULE] if self.operations is None else self.operations

    @property
    def table(self) -> tuple[Layer, ...]:
        """As many layers as launch its operations, all alike."""
        assert self.parameters is not None, "a network that was trained on several GPUs"
        count = round(self.launched / OPERATIONS[MODULE])
        each = self.parameters // count
        return tuple(
            Layer(
                name=f"layer {index}",
                kind=MODULE,
                inputs=(f"layer {index - 1}" if index else DATA,),
                output_shape=(1,),
                in_place=False,
                parameters=(each,),
                multiply_adds=each,
            )
            for index in range(count)
        )


class StepSeries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of one workload on one GPU, by batch."""

    source: str  # its name among the sources: one GPU in one machine
    gpu: str
    network: str
    precision: Precision | None  # null: the source does not say
    loop: Literal["eager", "tuned", "mxnet"]  # PyTorch's, operation by operation; a graph of TensorFlow
    input: Literal["prepared", "loader"]  # loader: images are decoded, which may be the limit
    samples: Literal["alike", "by-host"] = "alike"  # by-host: its embeddings pass through the host
    samples_per_s: dict[int, float]
    image_size: int | None = None  # null: as its network is usually trained
    system: str | None = None  # whose several GPUs have rates, too
    cluster: RatedCluster | None = None
    several: dict[int, dict[int, float]] = {}  # samples/s of all, by the number of GPUs and the batch of each
    launch_mode: Literal["process-per-gpu", "one-process"] = "process-per-gpu"

    @property
    def counted(self) -> CountedNetwork:
        return _steps_file().networks[self.network]

    @property
    def table(self) -> list[Layer] | None:
        """The layers of torchvision's network of this name at the size of its images; None: none is kept."""
        return tables.kept(self._model, self.pixels)

    @property
    def pixels(self) -> int:
        """Height and width of its images."""
        return self.image_size or tables.kept_image_size(self._model) or tables.USUAL_SIZE

    @property
    def _model(self) -> choices.Torchvision:
        return choices.Torchvision(name=self.counted.name or self.network, classes=1000)

    @property
    def operations(self) -> float:
        return self.counted.launched

    @property
    def part(self) -> GpuSpec:
        return gpu_named(self.gpu)

    def fixed_s(self, times: float) -> float:
        """What a step takes its GPU whatever the batch, as `predict` has it; parameters not counted take none.

        `times`: as long as modelled it takes its operations.
        """
        moved_bytes = BYTES_PER_PARAMETER * (self.counted.parameters or 0)
        states, at_once = _steps_file().sources[self.source].states, self.framework is not None
        peak_FLOPps = (roofline.peak(self.part, self.precision or "fp32") or self.part.fp32_FLOPps).value
        return times * operations_s(self.operations, peak_FLOPps) + roofline.of_parameters_s(
            moved_bytes, self.part, states, at_once
        )

    def modelled_s(self, batch: int) -> float:
        """What a roofline without its publisher says that a step of a network whose table is kept takes its GPU."""
        assert self.table is not None
        precision = self.precision or "fp32"
        model = roofline.fitted_without(self.part, self.whose, self.table, precision)
        channels_last = _steps_file().sources[self.source].layout != "nchw"
        return roofline.modelled_step(
            model, self.table, self.pixels, batch, self.part, precision,
            channels_last=channels_last, framework=self.framework,
        ).compute_s  # fmt: skip

    def ends_s(self, batch: int) -> tuple[float, float]:
        """The shortest and the longest of that in nine cases of ten; of files, whose images may be of any size, any."""
        precision = self.precision
        if self.table is None or precision is None or not roofline.peak(self.part, precision) or self.input == "loader":
            return 0.0, inf
        error = roofline.fitted_without(self.part, self.whose, self.table, precision).error_on(self.part, precision)
        return self.modelled_s(batch) * exp(-error), self.modelled_s(batch) * exp(error)

    @property
    def framework(self) -> str | None:
        return {"eager": None, "tuned": "tensorflow", "mxnet": "mxnet"}[self.loop]

    @property
    def text(self) -> str:
        return _steps_file().sources[self.source].text

    @property
    def whose(self) -> str:
        return _steps_file().sources[self.source].whose

    @property
    def program(self) -> str:
        """What rates of several GPUs may share."""
        return _steps_file().sources[self.source].program or self.source

    @property
    def rating(self) -> float | None:
        """Of a thread of its host's CPU; None: nobody says which that is."""
        if (cpu := _steps_file().sources[self.source].cpu) is not None:
            return float(parts_table("cpus")[cpu].single_thread.value)
        return None if self.system is None else rated(load(self.system))

    def on(self, gpus: int) -> System:
        """Its system with so many GPUs, and with the CPU that its source says."""
        assert self.system is not None, "rates of several GPUs are those of a system"
        system, cpu = system_of(self.system, gpus, self.cluster), _steps_file().sources[self.source].cpu
        if cpu is None:
            return system
        part = parts_table("cpus")[cpu]
        hosts = [replace(each, part=part) if each.kind == "cpu" else each for each in system.components]
        return replace(system, components=hosts)

    @property
    def seen(self) -> bool:
        return _steps_file().sources[self.source].seen

    @property
    def what(self) -> str:
        return f"{self.network}, {self.precision or 'precision not stated'}, {self.gpu}, input {self.input}"


class _StepsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sources: dict[str, ScalingSource]
    networks: dict[str, CountedNetwork]
    series: list[StepSeries]


@cache
def _steps_file() -> _StepsFile:
    return own_yaml(PUBLISHED / "steps.yaml", _StepsFile)


def steps_series() -> list[StepSeries]:
    """All series, in the order of the file."""
    return _steps_file().series


# All of these that are of one GPU, for one GPU's rates from those of another.


@dataclass(frozen=True)
class OneGpuRates:
    """Rates of a network on one GPU by batch, by one program."""

    publisher: str
    program: str
    text: str
    gpu: str  # its name among the parts
    network: str
    table: tuple[Layer, ...]
    image_size: int
    precision: str
    framework: str | None
    decoded: bool
    rating: float | None  # of its host's CPU
    samples_per_s: tuple[tuple[int, float], ...]
    channels_last: bool = True

    @property
    def part(self) -> GpuSpec:
        return gpu_named(self.gpu)

    @property
    def alike(self) -> tuple[object, ...]:
        """What those of another GPU must share."""
        return self.publisher, self.program, self.network, self.image_size, self.precision in HALF, self.decoded


def networks_of_one_gpu() -> Iterator[OneGpuRates]:
    """All rates of networks for images on one GPU; some are in two files."""
    yield from (*_of_training(), *_of_scaling(), *_of_steps())


def _of_training() -> Iterator[OneGpuRates]:
    """But for those of which no more is known than a range of clocks."""
    for of in training().one_gpu:
        if of.outside is None:
            program = f"{of.framework or 'PyTorch'}, {of.layout or 'layout not said'}, {'no ' * (not of.updated)}update"
            yield OneGpuRates(
                of.publisher, program, of.source, of.gpu, of.network, tuple(of.table(of.image_size)),
                of.image_size, of.precision, of.framework, False, None, tuple(of.images_per_s.items()),
                of.layout != "nchw",
            )  # fmt: skip


def _of_scaling() -> Iterator[OneGpuRates]:
    for of in series():
        source, system = sources()[of.source], of.on(1)
        if not (of.compiled or of.counted):
            yield OneGpuRates(
                source.whose, source.program or of.source, source.text, system.gpus[0].part_name, of.network,
                tuple(of.layers), of.image_size, of.precision, None, of.input == "loader", rated(system),
                ((of.batch_size_per_gpu, of.images_per_s[1]),), of.channels_last,
            )  # fmt: skip


def _of_steps() -> Iterator[OneGpuRates]:
    """But for those that were predicted first, which would be most pairs of one publisher, and MXNet's, which are in
    training.yaml as far as their GPUs are described.
    """
    for of in steps_series():
        table = of.table
        if of.seen and table is not None and of.precision is not None and of.loop != "mxnet":
            yield OneGpuRates(
                of.whose, of.program, of.text, of.gpu, of.network, tuple(table), of.pixels, of.precision,
                of.framework, of.input == "loader", of.rating, tuple(of.samples_per_s.items()),
            )  # fmt: skip
