"""The keyword arguments of the library's functions: which settings each verb has, and the type of each.

A keyword is a setting of the command line; a group of settings is a dictionary: `model={"kind": "resnetx", "x": 4}` is
`model=resnetx model.x=4`. What is not given has its default of `configs/`. `verbs` reads the names below, so that a
setting stands here once for the library, the command line, its help and the documentation.

Annotations are text to Python (nothing is imported for them), and types to whoever checks or completes a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Union

if TYPE_CHECKING:
    from resnetx.choices import Input, Model, Strategy, Tracker

    Precision = Literal["fp32", "tf32", "bf16", "fp16"]
    Convention = Literal["caffe", "torch", "conv"]
    Transport = Literal["auto", "peer", "pcie", "host", "socket"]

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = Union[V, Sequence[V]]  # noqa: UP007  # one value, or several: points are the product of all axes


# ---- groups ---------------------------------------------------------------------------------------------------------


class ModelSettings(TypedDict, total=False):
    """What is trained."""

    kind: str
    x: Axis[int]
    width: Axis[int]
    classes: Axis[int]
    lrn: Axis[bool]
    name: Axis[str]


class InputSettings(TypedDict, total=False):
    """Where images come from."""

    kind: str
    root: Axis[Text]
    stage: Axis[Text | None]
    format: str
    recipe: Axis[Literal["imagenet", "paper"]]
    threads: Axis[int | None]
    prefetch: Axis[int]
    decoder: Axis[Literal["auto", "cpu"]]


class ImageRoot(TypedDict, total=False):
    """The folder of images: the one setting of a group that some verbs have."""

    root: Text


class StrategySettings(TypedDict, total=False):
    """How gradients are exchanged."""

    kind: str
    bucket_cap_mb: Axis[float | None]
    first_bucket_mb: Axis[float | None]
    gradient_as_bucket_view: Axis[bool]
    device: Axis[Literal["cpu", "gpu"]]


class TrackerSettings(TypedDict, total=False):
    """Who gets a copy of records."""

    kind: str
    project: str


class OptimizerSettings(TypedDict, total=False):
    """Stochastic gradient descent."""

    learning_rate: Axis[float]
    momentum: Axis[float]
    weight_decay: Axis[float]


class MadeImages(TypedDict, total=False):
    """Which images are made."""

    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    seed: int
    workers: int | None


class OverlapSettings(TypedDict, total=False):
    """What the next batch may do while this one is computed."""

    input: bool
    host_to_device: bool
    parameters: bool


class WhatIfSettings(TypedDict, total=False):
    """How much faster kinds of links are assumed to be, and how much longer fixed times."""

    bandwidth: Mapping[str, float]
    latency: float


class LabSettings(TypedDict, total=False):
    """The described system that the links between ranks are shaped to."""

    system: Axis[Text | None]
    scale: Axis[float | None]
    transport: Axis[Literal["auto", "pcie", "host"] | None]


# ---- what verbs have in common --------------------------------------------------------------------------------------


class WorkloadKeywords(TypedDict, total=False):
    """What is trained and how it is split, for what measures nothing."""

    study: Text
    model: Axis[str] | ModelSettings | Model
    image_size: Axis[int | None]
    precision: Axis[Precision]
    input: Axis[str] | InputSettings | Input
    batch_size: Axis[int]
    gpus: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    strategy: Axis[str] | StrategySettings | Strategy
    graph: Axis[bool]
    compile: Axis[Literal["none", "default"]]


class TrainingKeywords(TypedDict, total=False):
    """What all runs of training have."""

    model: Axis[str] | ModelSettings | Model
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Precision]
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    optimizer: OptimizerSettings
    gpus: Axis[int | None]
    devices: Axis[Sequence[int]] | Sequence[int] | None
    env: Mapping[str, Axis[str | float]]
    threads: Axis[int | None]
    seed: int
    steps: Axis[int]
    channels_last: Axis[bool]
    memory_limit: Axis[str | int | None]
    graph: Axis[bool]
    timeout: float | str
    results: Text
    convention: Convention
    oversubscribe: bool
    dirty: bool


class LaunchKeywords(TypedDict, total=False):
    """How ranks are started where one process on this node is not enough."""

    launcher: Literal["slurm", "torchrun", "mpi"] | None
    nodes: int | None
    node_rank: int | None
    rendezvous: str | None
    site: Text | None
    walltime: float | str | None
    jobs: int


class MachineKeywords(TypedDict, total=False):
    """Which systems, and how messages travel on them."""

    systems: Sequence[Text] | Text
    nodes: int | None
    network: str | None
    nics: int | None
    devices: Sequence[int] | None
    transport: Transport
    library: Axis[str | None]


# ---- one for each verb ----------------------------------------------------------------------------------------------


class DescribeKeywords(TypedDict, total=False):
    """Settings of `describe`."""

    study: Text
    model: Axis[str] | ModelSettings | Model
    image_size: Axis[int | None]
    batch_size: Axis[int]
    gpus: Axis[int]
    precision: Axis[Precision]
    strategy: Axis[str] | StrategySettings | Strategy
    convention: Axis[Convention]


class ImagesKeywords(TypedDict, total=False):
    """Settings of `images`."""

    images: MadeImages
    input: ImageRoot


class TrainKeywords(TrainingKeywords, LaunchKeywords, total=False):
    """Settings of `train`."""

    transport: Transport
    interface: str | None
    gpudirect: bool | None
    measure: Literal["step", "phases", "layers", "input"]
    lab: LabSettings
    replay: Text | None
    registered: bool
    compile: Literal["none", "default"]
    clock: str | float | None
    warmup: int
    windows: int
    tracker: str | TrackerSettings | Tracker


class SweepKeywords(TrainingKeywords, LaunchKeywords, total=False):
    """Settings of `sweep`."""

    transport: Axis[Transport]
    interface: Axis[str | None]
    gpudirect: Axis[bool | None]
    study: Text
    measure: Axis[Literal["step", "phases", "layers", "input"]]
    lab: LabSettings
    replay: Axis[Text | None]
    registered: Axis[bool]
    compile: Axis[Literal["none", "default"]]
    clock: Axis[str | float | None]
    warmup: Axis[int]
    windows: Axis[int]
    tracker: str | TrackerSettings | Tracker
    repeats: int
    twins: int
    budget: float | str | None
    baseline: int
    publish: Text | None


class VerifyKeywords(TrainingKeywords, total=False):
    """Settings of `verify`."""


class TraceKeywords(TrainingKeywords, LaunchKeywords, total=False):
    """Settings of `trace`; `device` and `workload` go with a file that is imported."""

    study: Text
    warmup: int
    tracker: str | TrackerSettings | Tracker
    iterations: int | None
    device: str | None
    workload: str | None


class BenchKeywords(LaunchKeywords, total=False):
    """Settings of `bench`."""

    collective: Axis[str | None]
    copy: Axis[str | None]
    size: Axis[int | str]
    direction: Axis[Literal["one-way", "both-ways"]]
    endpoint: Literal["device", "pinned", "pageable"] | None
    through: int | None
    numa: int | None
    transport: Transport
    interface: str | None
    gpudirect: bool | None
    clock: str | float | None
    gpus: Axis[int | None]
    devices: Sequence[int] | None
    env: Mapping[str, str | float]
    threads: int | None
    warmup: int
    iterations: int | None
    seed: int
    timeout: float | str
    results: Text
    oversubscribe: bool
    dirty: bool
    registered: bool
    lab: LabSettings
    systems: Sequence[Text] | Text
    network: str | None
    nics: int | None
    place: Literal["in", "out"] | None
    dtype: Literal["fp32", "bf16", "fp16"]
    timing: Literal["blocking", "back-to-back", "graph"] | None
    algorithm: str | None
    protocol: str | None
    study: Text
    model: Axis[str] | ModelSettings | Model
    image_size: Axis[int | None]
    precision: Axis[Precision]
    strategy: Axis[str] | StrategySettings | Strategy


class CheckKeywords(TypedDict, total=False):
    """Settings of `check`; `gpus` and `batch_size` are those of each node."""

    launcher: Literal["slurm"] | None
    nodes: int | str | None
    site: Text | None
    walltime: float | str | None
    budget: float | str | None
    gpus: int | None
    size: int | str
    iterations: int | None
    model: str | ModelSettings | Model
    image_size: int | None
    precision: Precision
    input: str | InputSettings | Input
    batch_size: int
    warmup: int
    steps: int
    windows: int
    env: Mapping[str, str | float]
    threads: int | None
    systems: Sequence[Text] | Text
    network: str | None
    nics: int | None
    timeout: float | str
    results: Text
    oversubscribe: bool
    dirty: bool
    prometheus: Text | None


class TopologyKeywords(MachineKeywords, total=False):
    """Settings of `topology`."""

    calibration: Text | None
    collective: str | None
    size: Axis[int | str]
    pick: int | None
    free: Sequence[int] | None
    out: Text | None
    results: Text
    gpu: str | None
    cpu: str | None
    nic: str | None
    pcie: int | None
    gpus: int | None
    like: Text | None
    switches: int | None
    sockets: int | None
    uplink: str | None


class PredictionKeywords(WorkloadKeywords, MachineKeywords, total=False):
    """Settings of whatever predicts."""

    calibration: Sequence[Text] | Text | None
    framework: Axis[Literal["caffe-mpi", "cntk", "mxnet", "tensorflow"] | None]
    overlap: OverlapSettings
    staged: Literal["shared", "per-gpu"] | None
    gradients: Literal["fp32", "bf16", "fp16"]
    straggler: float
    host_time: float | str
    host_step: float | str | None
    image_bytes: str | int | None
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: str | float | None
    what_if: WhatIfSettings
    sensitivity: bool
    timeline: bool
    convention: Convention
    baseline: int
    out: Text | None


class PredictKeywords(PredictionKeywords, total=False):
    """Settings of `predict`."""

    rate: float | Mapping[int, float] | Text | None
    rate_error: float | None
    communication: Literal["model", "trace"]
    parameters: float | None
    lab: LabSettings
    replay: Axis[Text | None]
    results: Text


class CompareKeywords(PredictionKeywords, total=False):
    """Settings of `compare`: those of studies are `out` and `baseline`, the others go with `systems`.

    Benches have `out` and `size`. `papers` and `score` go with `out` alone.
    """

    size: Axis[int | str]
    explain: bool
    papers: Sequence[str] | str
    score: Sequence[Text] | Text


class SteerKeywords(TypedDict, total=False):
    """Settings of `steer`."""

    systems: Sequence[Text] | Text
    library: str | None
    devices: Sequence[int] | None
    model: str | ModelSettings | Model
    image_size: int | None
    precision: Precision
    batch_size: int
    strategy: str | StrategySettings | Strategy
    pattern: Literal["allreduce", "replicated", "server"] | None
    phases: bool
    durations: Sequence[float | str]
    reconfiguration: float | str | None
    receivers: int | Sequence[int] | None
    reach: Literal["built", "any"]
    switch: str | None
    out: Text | None
    results: Text


class LabKeywords(TypedDict, total=False):
    """Settings of `lab`."""

    systems: Sequence[Text] | Text
    scale: float
    transport: Literal["auto", "pcie", "host"]
    gpus: Axis[int | None]
    devices: Sequence[int] | None


class ReportKeywords(TypedDict, total=False):
    """Settings of `report`."""

    out: Text | None
    baseline: int | None
    publish: Text | None


class DoctorKeywords(TypedDict, total=False):
    """Settings of `doctor`: where runs are kept, a cluster, or a clock and the load that it is tried under."""

    results: Text
    input: ImageRoot
    clock: str | float | None
    devices: Sequence[int] | None
    model: str | ModelSettings | Model
    image_size: int | None
    precision: Precision
    batch_size: int
    launcher: Literal["slurm"] | None
    nodes: int | None
    site: Text | None
