"""The keyword arguments of the library's functions: which settings each verb has, and the type of each.

A keyword is a setting of the command line; a group of settings is a dictionary: `model={"kind": "resnetx", "x": 4}` is
`model=resnetx model.x=4`. What is not given has its default of `configs/`.

Written by `python -m resnetx.cli.reference` from `table`; edit that, not this file. Annotations are text to Python
(nothing is imported for them), and types to whoever checks or completes a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Union

if TYPE_CHECKING:
    from resnetx.choices import Input, Model, Strategy, Tracker

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = Union[V, Sequence[V]]  # noqa: UP007  # one value, or several


class ModelSettings(TypedDict, total=False):
    """Settings of the group `model`."""

    kind: str
    x: Axis[int]
    width: Axis[int]
    name: Axis[str]
    classes: Axis[int]
    lrn: Axis[bool]


class InputSettings(TypedDict, total=False):
    """Settings of the group `input`."""

    kind: str
    root: Axis[Text]
    stage: Axis[Text | None]
    format: Literal["folders"]
    recipe: Axis[Literal["imagenet", "paper"]]
    threads: Axis[int | None]
    prefetch: Axis[int]
    decoder: Axis[Literal["auto", "cpu"]]


class StrategySettings(TypedDict, total=False):
    """Settings of the group `strategy`."""

    kind: str
    bucket_cap_mb: Axis[float | None]
    first_bucket_mb: Axis[float | None]
    gradient_as_bucket_view: Axis[bool]
    device: Axis[Literal["cpu", "gpu"]]


class TrackerSettings(TypedDict, total=False):
    """Settings of the group `tracker`."""

    kind: str
    project: str


class OptimizerSettings(TypedDict, total=False):
    """Settings of the group `optimizer`."""

    learning_rate: Axis[float]
    momentum: Axis[float]
    weight_decay: Axis[float]


class ImagesSettings(TypedDict, total=False):
    """Settings of the group `images`."""

    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    seed: int
    workers: int | None


class LabSettings(TypedDict, total=False):
    """Settings of the group `lab`."""

    system: Axis[Text | None]
    scale: Axis[float | None]
    transport: Axis[Literal["auto", "pcie", "host"] | None]


class OverlapSettings(TypedDict, total=False):
    """Settings of the group `overlap`."""

    input: bool
    host_to_device: bool
    parameters: bool


class WhatIfSettings(TypedDict, total=False):
    """Settings of the group `what_if`."""

    bandwidth: Mapping[str, float]
    latency: float


class InputRoot(TypedDict, total=False):
    """`input.root` alone."""

    root: Axis[Text]


class DescribeKeywords(TypedDict, total=False):
    """Settings of `describe`."""

    model: Axis[str] | ModelSettings | Model
    strategy: Axis[str] | StrategySettings | Strategy
    batch_size: Axis[int]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    study: Text
    convention: Axis[Literal["caffe", "torch", "conv"]]


class ImagesKeywords(TypedDict, total=False):
    """Settings of `images`."""

    input: InputRoot
    images: ImagesSettings


class TrainKeywords(TypedDict, total=False):
    """Settings of `train`."""

    model: str | ModelSettings | Model
    input: str | InputSettings | Input
    strategy: str | StrategySettings | Strategy
    tracker: str | TrackerSettings | Tracker
    batch_size: int
    scaling: Literal["strong", "weak"]
    split: Literal["even", "uneven"]
    image_size: int | None
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    gpus: int | None
    devices: Sequence[int] | None
    env: Mapping[str, str | int | float]
    threads: int | None
    channels_last: bool
    memory_limit: int | str | None
    graph: bool
    seed: int
    optimizer: OptimizerSettings
    replay: Text | None
    measure: Literal["step", "phases", "layers", "input"]
    warmup: int
    steps: int
    windows: int
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: Text | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv"]
    oversubscribe: bool
    dirty: bool
    interface: str | None
    gpudirect: bool | None
    nodes: int | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    lab: LabSettings


class SweepKeywords(TypedDict, total=False):
    """Settings of `sweep`."""

    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    tracker: str | TrackerSettings | Tracker
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Axis[Sequence[int] | None]
    env: Mapping[str, Axis[str | int | float]]
    threads: Axis[int | None]
    channels_last: Axis[bool]
    memory_limit: Axis[int | str | None]
    graph: Axis[bool]
    seed: int
    optimizer: OptimizerSettings
    replay: Axis[Text | None]
    measure: Axis[Literal["step", "phases", "layers", "input"]]
    warmup: Axis[int]
    steps: Axis[int]
    windows: Axis[int]
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: Text | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    study: Text
    repeats: int
    twins: int
    budget: float | str | None
    baseline: int
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv"]
    oversubscribe: bool
    publish: Text | None
    dirty: bool
    interface: Axis[str | None]
    gpudirect: Axis[bool | None]
    nodes: int | None
    transport: Axis[Literal["auto", "peer", "pcie", "host", "socket"]]
    lab: LabSettings


class TraceKeywords(TypedDict, total=False):
    """Settings of `trace`."""

    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    tracker: str | TrackerSettings | Tracker
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Axis[Sequence[int] | None]
    env: Mapping[str, Axis[str | int | float]]
    threads: Axis[int | None]
    channels_last: Axis[bool]
    memory_limit: Axis[int | str | None]
    graph: Axis[bool]
    seed: int
    optimizer: OptimizerSettings
    warmup: int
    steps: Axis[int]
    iterations: int | None
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: Text | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    study: Text
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv"]
    oversubscribe: bool
    dirty: bool
    device: str | None
    workload: str | None
    nodes: int | None


class ReportKeywords(TypedDict, total=False):
    """Settings of `report`."""

    baseline: int | None
    publish: Text | None
    out: Text | None


class VerifyKeywords(TypedDict, total=False):
    """Settings of `verify`."""

    model: str | ModelSettings | Model
    input: str | InputSettings | Input
    strategy: str | StrategySettings | Strategy
    batch_size: int
    scaling: Literal["strong", "weak"]
    split: Literal["even", "uneven"]
    image_size: int | None
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    gpus: int | None
    devices: Sequence[int] | None
    env: Mapping[str, str | int | float]
    threads: int | None
    channels_last: bool
    memory_limit: int | str | None
    graph: bool
    seed: int
    optimizer: OptimizerSettings
    steps: int
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv"]
    oversubscribe: bool
    dirty: bool


class CompareKeywords(TypedDict, total=False):
    """Settings of `compare`."""

    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Sequence[int] | None
    graph: Axis[bool]
    study: Text
    baseline: int
    convention: Literal["caffe", "torch", "conv"]
    size: Axis[int | str]
    systems: Axis[Text]
    nodes: int | None
    network: str | None
    nics: int | None
    library: Axis[str | None]
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    calibration: Axis[Text | None]
    framework: Axis[Literal["caffe-mpi", "cntk", "mxnet", "tensorflow"] | None]
    overlap: OverlapSettings
    staged: Literal["shared", "per-gpu"] | None
    gradients: Literal["fp32", "bf16", "fp16"]
    straggler: float
    host_time: str | float
    host_step: str | float | None
    image_bytes: str | int | None
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: str | float | None
    what_if: WhatIfSettings
    sensitivity: bool
    timeline: bool
    out: Text | None
    explain: bool
    papers: Axis[str]
    score: Axis[str]


class BenchKeywords(TypedDict, total=False):
    """Settings of `bench`."""

    model: Axis[str] | ModelSettings | Model
    strategy: Axis[str] | StrategySettings | Strategy
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Sequence[int] | None
    env: Mapping[str, str | int | float]
    threads: int | None
    seed: int
    warmup: int
    iterations: int | None
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: Text | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    study: Text
    timeout: float | str
    results: Text
    oversubscribe: bool
    dirty: bool
    collective: Axis[str | None]
    copy: Axis[str | None]
    direction: Axis[Literal["one-way", "both-ways"]]
    endpoint: Literal["device", "pinned", "pageable"] | None
    through: int | None
    numa: int | None
    interface: str | None
    gpudirect: bool | None
    size: Axis[int | str]
    place: Literal["in", "out"] | None
    dtype: Literal["fp32", "bf16", "fp16"]
    timing: Literal["blocking", "back-to-back", "graph"] | None
    algorithm: str | None
    protocol: str | None
    registered: bool
    systems: Axis[Text]
    nodes: int | None
    network: str | None
    nics: int | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    lab: LabSettings


class CheckKeywords(TypedDict, total=False):
    """Settings of `check`."""

    model: str | ModelSettings | Model
    input: str | InputSettings | Input
    batch_size: int
    image_size: int | None
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    gpus: int | None
    env: Mapping[str, str | int | float]
    threads: int | None
    warmup: int
    steps: int
    windows: int
    iterations: int | None
    launcher: Literal["slurm"] | None
    site: Text | None
    walltime: float | str | None
    budget: float | str | None
    timeout: float | str
    results: Text
    oversubscribe: bool
    dirty: bool
    size: int | str
    prometheus: Text | None
    systems: Axis[Text]
    nodes: int | str | None
    network: str | None
    nics: int | None


class TopologyKeywords(TypedDict, total=False):
    """Settings of `topology`."""

    gpus: int | None
    devices: Sequence[int] | None
    results: Text
    collective: str | None
    size: Axis[int | str]
    systems: Axis[Text]
    nodes: int | None
    network: str | None
    nics: int | None
    library: Axis[str | None]
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    calibration: Text | None
    pick: int | None
    free: Sequence[int] | None
    gpu: str | None
    cpu: str | None
    nic: str | None
    pcie: int | None
    like: str | None
    switches: int | None
    sockets: int | None
    uplink: str | None
    out: Text | None


class PredictKeywords(TypedDict, total=False):
    """Settings of `predict`."""

    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Sequence[int] | None
    graph: Axis[bool]
    replay: Axis[Text | None]
    study: Text
    baseline: int
    results: Text
    convention: Literal["caffe", "torch", "conv"]
    systems: Axis[Text]
    nodes: int | None
    network: str | None
    nics: int | None
    library: Axis[str | None]
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    calibration: Axis[Text | None]
    lab: LabSettings
    rate: float | Mapping[int, float] | Text | None
    rate_error: float | None
    framework: Axis[Literal["caffe-mpi", "cntk", "mxnet", "tensorflow"] | None]
    communication: Literal["model", "trace"]
    parameters: float | None
    overlap: OverlapSettings
    staged: Literal["shared", "per-gpu"] | None
    gradients: Literal["fp32", "bf16", "fp16"]
    straggler: float
    host_time: str | float
    host_step: str | float | None
    image_bytes: str | int | None
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: str | float | None
    what_if: WhatIfSettings
    sensitivity: bool
    timeline: bool
    out: Text | None


class SteerKeywords(TypedDict, total=False):
    """Settings of `steer`."""

    model: str | ModelSettings | Model
    strategy: str | StrategySettings | Strategy
    batch_size: int
    image_size: int | None
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    devices: Sequence[int] | None
    results: Text
    systems: Axis[Text]
    library: str | None
    pattern: Literal["allreduce", "replicated", "server"] | None
    phases: bool
    durations: Axis[float | str]
    reconfiguration: float | str | None
    receivers: int | Sequence[int] | None
    reach: Literal["built", "any"]
    switch: str | None
    out: Text | None


class LabKeywords(TypedDict, total=False):
    """Settings of `lab`."""

    gpus: Axis[int | None]
    devices: Sequence[int] | None
    systems: Axis[Text]
    transport: Literal["auto", "pcie", "host"]
    scale: float


class DoctorKeywords(TypedDict, total=False):
    """Settings of `doctor`."""

    model: str | ModelSettings | Model
    input: InputRoot
    batch_size: int
    image_size: int | None
    precision: Literal["fp32", "tf32", "bf16", "fp16"]
    devices: Sequence[int] | None
    launcher: Literal["slurm"] | None
    site: Text | None
    results: Text
    nodes: int | None
    clock: str | float | None
