# The types that `keywords` makes of the table, for whoever checks or completes a program; written by
# `python -m resnetx.cli.reference`: edit resnetx/settings/table.py, not this file.

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict, TypeVar

import msgspec

from resnetx.choices import Input, Model, Optimizer, Strategy, Tracker

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = V | Sequence[V]  # one value, or several

class ModelSettings(TypedDict, total=False):
    kind: str
    x: Axis[int]
    width: Axis[int]
    heads: Axis[int | None]
    seq: Axis[int]
    vocabulary: Axis[int]
    name: Axis[str]
    classes: Axis[int]
    file: Axis[Text]
    function: Axis[str]
    lrn: Axis[bool]

class InputSettings(TypedDict, total=False):
    kind: str
    root: Axis[Text]
    file: Axis[Text]
    stage: Axis[Text | None]
    format: Literal["folders"]
    recipe: Axis[Literal["imagenet", "paper"]]
    threads: Axis[int | None]
    prefetch: Axis[int]
    decoder: Axis[Literal["auto", "cpu"]]

class StrategySettings(TypedDict, total=False):
    kind: str
    bucket_cap_mb: Axis[float | None]
    first_bucket_mb: Axis[float | None]
    gradient_as_bucket_view: Axis[bool]
    reshard: Axis[bool]
    device: Axis[Literal["cpu", "gpu"]]

class OptimizerSettings(TypedDict, total=False):
    kind: str
    learning_rate: Axis[float]
    momentum: Axis[float]
    weight_decay: Axis[float]

class TrackerSettings(TypedDict, total=False):
    kind: str
    project: str

class ImagesSettings(TypedDict, total=False):
    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    tokens: int | None
    vocabulary: int
    seed: int
    workers: int | None

class ImagesGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    classes: int
    per_class: int
    size: Literal["imagenet", "256"]
    tokens: int | None
    vocabulary: int
    seed: int
    workers: int | None

class LabSettings(TypedDict, total=False):
    system: Axis[Text | None]
    scale: Axis[float | None]
    transport: Axis[Literal["auto", "pcie", "host"] | None]

class LabGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    system: str | list[str | None] | None
    scale: float | list[float | None] | None
    transport: Literal["auto", "pcie", "host"] | list[Literal["auto", "pcie", "host"] | None] | None

class OverlapSettings(TypedDict, total=False):
    input: bool
    host_to_device: bool
    parameters: bool

class OverlapGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: bool
    host_to_device: bool
    parameters: bool

class WhatIfSettings(TypedDict, total=False):
    bandwidth: Mapping[str, float]
    latency: float

class WhatIfGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    bandwidth: dict[str, float]
    latency: float

class InputRoot(TypedDict, total=False):
    root: Axis[Text]

class InputFile(TypedDict, total=False):
    file: Axis[Text]

class DescribeKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    strategy: Axis[str] | StrategySettings | Strategy
    batch_size: Axis[int]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    study: Text | None
    convention: Axis[Literal["caffe", "torch", "conv", "saved"]]
    intensity: float | None
    memory: str | int | None
    out: Text | None

class ImagesKeywords(TypedDict, total=False):
    input: InputRoot
    images: ImagesSettings

class TrainKeywords(TypedDict, total=False):
    model: str | ModelSettings | Model
    input: str | InputSettings | Input
    strategy: str | StrategySettings | Strategy
    optimizer: str | OptimizerSettings | Optimizer
    tracker: str | TrackerSettings | Tracker
    batch_size: int | Literal["max"]
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
    compile: Literal["none", "default"]
    accumulate: int
    checkpointing: bool
    seed: int
    replay: Text | None
    replay_jitter: float
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
    convention: Literal["caffe", "torch", "conv", "saved"]
    oversubscribe: bool
    dirty: bool
    interface: str | None
    gpudirect: bool | None
    registered: bool
    nodes: int | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    lab: LabSettings
    clock: str | float | None
    out: Text | None

class SweepKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    optimizer: Axis[str] | OptimizerSettings | Optimizer
    tracker: str | TrackerSettings | Tracker
    batch_size: Axis[int | Literal["max"]]
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
    compile: Axis[Literal["none", "default"]]
    accumulate: Axis[int]
    checkpointing: Axis[bool]
    seed: int
    replay: Axis[Text | None]
    replay_jitter: Axis[float]
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
    study: Text | None
    repeats: int
    twins: int
    controls: Literal["usual", "all"]
    budget: float | str | None
    baseline: int
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv", "saved"]
    oversubscribe: bool
    publish: Text | None
    dirty: bool
    interface: Axis[str | None]
    gpudirect: Axis[bool | None]
    registered: Axis[bool]
    nodes: int | None
    transport: Axis[Literal["auto", "peer", "pcie", "host", "socket"]]
    lab: LabSettings
    clock: Axis[str | float | None]
    out: Text | None

class TraceKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    optimizer: Axis[str] | OptimizerSettings | Optimizer
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
    accumulate: Axis[int]
    checkpointing: Axis[bool]
    seed: int
    warmup: int
    steps: Axis[int]
    iterations: int | None
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: Text | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    study: Text | None
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv", "saved"]
    oversubscribe: bool
    dirty: bool
    device: str | None
    workload: str | None
    nodes: int | None
    out: Text | None

class TraceImportFields(msgspec.Struct, frozen=True, kw_only=True):
    batch_size: int
    gpus: int | None
    device: str | None
    workload: str | None
    results: str
    out: str | None

class ReportKeywords(TypedDict, total=False):
    baseline: int | None
    publish: Text | None
    out: Text | None

class VerifyKeywords(TypedDict, total=False):
    model: str | ModelSettings | Model
    input: str | InputSettings | Input
    strategy: str | StrategySettings | Strategy
    optimizer: str | OptimizerSettings | Optimizer
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
    accumulate: int
    checkpointing: bool
    seed: int
    steps: int
    timeout: float | str
    results: Text
    convention: Literal["caffe", "torch", "conv", "saved"]
    oversubscribe: bool
    dirty: bool
    out: Text | None

class CompareKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    optimizer: Axis[str] | OptimizerSettings | Optimizer
    batch_size: Axis[int]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Axis[Sequence[int] | None]
    channels_last: Axis[bool]
    graph: Axis[bool]
    compile: Axis[Literal["none", "default"]]
    accumulate: Axis[int]
    checkpointing: Axis[bool]
    study: Text | None
    baseline: int
    convention: Literal["caffe", "torch", "conv", "saved"]
    size: Axis[int | str]
    systems: Axis[Text]
    nodes: Axis[int | None]
    network: Axis[str | None]
    nics: Axis[int | None]
    library: Axis[str | None]
    launch_mode: Axis[Literal["process-per-gpu", "one-process"] | None]
    transport: Axis[Literal["auto", "peer", "pcie", "host", "socket"]]
    calibration: Axis[Text | None]
    rate: float | Mapping[int, float] | Mapping[str, float | Mapping[int, float]] | Text | None
    rate_error: float | None
    framework: Axis[Literal["caffe-mpi", "cntk", "horovod", "mxnet", "tensorflow"] | None]
    overlap: OverlapSettings
    staged: Axis[Literal["shared", "per-gpu"] | None]
    gradients: Axis[Literal["fp32", "bf16", "fp16"]]
    samples: Axis[Literal["alike", "uneven", "by-host"]]
    straggler: Axis[float]
    host_time: Axis[str | float]
    host_step: Axis[str | float | None]
    image_bytes: Axis[str | int | None]
    memory: Axis[str | int | None]
    memory_model: Axis[Literal["torch", "caffe"]]
    clock: Axis[str | float | None]
    what_if: WhatIfSettings
    sensitivity: bool
    timeline: bool
    out: Text | None
    explain: bool
    job: str | None
    papers: Axis[str]
    score: Axis[str]

class ReproduceKeywords(TypedDict, total=False):
    out: Text | None
    figure: int | None

class ExplainKeywords(TypedDict, total=False):
    out: Text | None

class BenchKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    strategy: Axis[str] | StrategySettings | Strategy
    scaling: Axis[Literal["strong", "weak"]]
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
    study: Text | None
    timeout: float | str
    results: Text
    oversubscribe: bool
    dirty: bool
    collective: Axis[str | None]
    copy: Axis[str | None]
    compute: float | str | None
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
    pattern: Axis[str | None]
    lab: LabSettings
    clock: str | float | None
    out: Text | None

class BenchFields(msgspec.Struct, frozen=True, kw_only=True):
    scaling: list[Literal["strong", "weak"]]
    gpus: list[int | None]
    devices: list[int] | None
    env: dict[str, str | int | float]
    threads: int | None
    seed: int
    warmup: int
    iterations: int | None
    launcher: Literal["slurm", "torchrun", "mpi"] | None
    site: str | None
    walltime: float | str | None
    jobs: int
    node_rank: int | None
    rendezvous: str | None
    timeout: float | str
    results: str
    oversubscribe: bool
    dirty: bool
    collective: list[str | None]
    copy: list[str | None]
    compute: float | str | None
    direction: list[Literal["one-way", "both-ways"]]
    endpoint: Literal["device", "pinned", "pageable"] | None
    through: int | None
    numa: int | None
    interface: str | None
    gpudirect: bool | None
    size: list[int | str]
    place: Literal["in", "out"] | None
    dtype: Literal["fp32", "bf16", "fp16"]
    timing: Literal["blocking", "back-to-back", "graph"] | None
    algorithm: str | None
    protocol: str | None
    registered: bool
    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    pattern: list[str | None]
    lab: LabGroup
    clock: str | float | None
    out: str | None

class CheckKeywords(TypedDict, total=False):
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
    out: Text | None

class CheckFields(msgspec.Struct, frozen=True, kw_only=True):
    gpus: int | None
    env: dict[str, str | int | float]
    threads: int | None
    warmup: int
    steps: int
    windows: int
    iterations: int | None
    launcher: Literal["slurm"] | None
    site: str | None
    walltime: float | str | None
    budget: float | str | None
    timeout: float | str
    results: str
    oversubscribe: bool
    dirty: bool
    size: int | str
    prometheus: str | None
    systems: list[str]
    nodes: int | str | None
    network: str | None
    nics: int | None
    out: str | None

class TopologyKeywords(TypedDict, total=False):
    gpus: Axis[int | None]
    devices: Axis[Sequence[int] | None]
    results: Text
    collective: Axis[str | None]
    size: Axis[int | str]
    systems: Axis[Text]
    nodes: Axis[int | None]
    network: Axis[str | None]
    nics: Axis[int | None]
    library: Axis[str | None]
    launch_mode: Axis[Literal["process-per-gpu", "one-process"] | None]
    transport: Axis[Literal["auto", "peer", "pcie", "host", "socket"]]
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
    staged: Axis[Literal["shared", "per-gpu"] | None]
    out: Text | None

class TopologyFields(msgspec.Struct, frozen=True, kw_only=True):
    gpus: int | None
    devices: list[int] | None
    results: str
    collective: str | None
    size: list[int | str]
    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    library: list[str | None]
    launch_mode: Literal["process-per-gpu", "one-process"] | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    calibration: str | None
    pick: int | None
    free: list[int] | None
    gpu: str | None
    cpu: str | None
    nic: str | None
    pcie: int | None
    like: str | None
    switches: int | None
    sockets: int | None
    uplink: str | None
    staged: Literal["shared", "per-gpu"] | None
    out: str | None

class TopologyImportFields(msgspec.Struct, frozen=True, kw_only=True):
    gpu: str | None
    cpu: str | None
    nic: str | None
    pcie: int | None
    gpus: int | None
    library: str | None
    results: str
    out: str | None

class TopologyNewFields(msgspec.Struct, frozen=True, kw_only=True):
    like: str | None
    gpu: str | None
    cpu: str | None
    nic: str | None
    pcie: int | None
    gpus: int | None
    switches: int | None
    sockets: int | None
    uplink: str | None
    library: str | None
    results: str
    out: str | None

class PredictKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    input: Axis[str] | InputSettings | Input
    strategy: Axis[str] | StrategySettings | Strategy
    optimizer: Axis[str] | OptimizerSettings | Optimizer
    batch_size: Axis[int | Literal["max"]]
    scaling: Axis[Literal["strong", "weak"]]
    split: Axis[Literal["even", "uneven"]]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    gpus: Axis[int | None]
    devices: Axis[Sequence[int] | None]
    channels_last: Axis[bool]
    graph: Axis[bool]
    compile: Axis[Literal["none", "default"]]
    accumulate: Axis[int]
    checkpointing: Axis[bool]
    replay: Axis[Text | None]
    replay_jitter: Axis[float]
    study: Text | None
    baseline: int
    results: Text
    convention: Literal["caffe", "torch", "conv", "saved"]
    systems: Axis[Text]
    nodes: Axis[int | None]
    network: Axis[str | None]
    nics: Axis[int | None]
    library: Axis[str | None]
    launch_mode: Axis[Literal["process-per-gpu", "one-process"] | None]
    transport: Axis[Literal["auto", "peer", "pcie", "host", "socket"]]
    calibration: Axis[Text | None]
    lab: LabSettings
    rate: Axis[float | Mapping[int, float] | Mapping[str, float | Mapping[int, float]] | Text | None]
    rate_error: Axis[float | None]
    framework: Axis[Literal["caffe-mpi", "cntk", "horovod", "mxnet", "tensorflow"] | None]
    communication: Axis[Literal["model", "trace"]]
    parameters: Axis[float | None]
    overlap: OverlapSettings
    staged: Axis[Literal["shared", "per-gpu"] | None]
    gradients: Axis[Literal["fp32", "bf16", "fp16"]]
    samples: Axis[Literal["alike", "uneven", "by-host"]]
    straggler: Axis[float]
    host_time: Axis[str | float]
    host_step: Axis[str | float | None]
    image_bytes: Axis[str | int | None]
    memory: Axis[str | int | None]
    memory_model: Axis[Literal["torch", "caffe"]]
    clock: Axis[str | float | None]
    what_if: WhatIfSettings
    price: float | Mapping[str, float] | None
    deadline: float | str | None
    job_images: float
    sensitivity: bool
    timeline: bool
    out: Text | None

class PredictFields(msgspec.Struct, frozen=True, kw_only=True):
    devices: list[int] | None
    baseline: int
    results: str
    convention: Literal["caffe", "torch", "conv", "saved"]
    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    library: list[str | None]
    launch_mode: Literal["process-per-gpu", "one-process"] | None
    transport: Literal["auto", "peer", "pcie", "host", "socket"]
    calibration: list[str | None]
    lab: LabGroup
    rate: float | dict[str, float | dict[str, float]] | str | None
    rate_error: float | None
    framework: list[str | None]
    communication: Literal["model", "trace"]
    parameters: float | None
    overlap: OverlapGroup
    staged: Literal["shared", "per-gpu"] | None
    gradients: Literal["fp32", "bf16", "fp16"]
    samples: Literal["alike", "uneven", "by-host"]
    straggler: float
    host_time: str | float
    host_step: str | float | None
    image_bytes: str | int | None
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: str | float | None
    what_if: WhatIfGroup
    price: float | dict[str, float] | None
    deadline: float | str | None
    job_images: float
    sensitivity: bool
    timeline: bool
    out: str | None

class SteerKeywords(TypedDict, total=False):
    model: Axis[str] | ModelSettings | Model
    strategy: Axis[str] | StrategySettings | Strategy
    batch_size: Axis[int]
    image_size: Axis[int | None]
    precision: Axis[Literal["fp32", "tf32", "bf16", "fp16"]]
    devices: Axis[Sequence[int] | None]
    results: Text
    systems: Axis[Text]
    library: Axis[str | None]
    pattern: Axis[Literal["allreduce", "replicated", "server"] | None]
    phases: bool
    durations: Axis[float | str]
    reconfiguration: Axis[float | str | None]
    receivers: Axis[int | Sequence[int] | None]
    reach: Axis[Literal["built", "any"]]
    switch: Axis[str | None]
    rate: float | Mapping[int, float] | Mapping[str, float | Mapping[int, float]] | Text | None
    out: Text | None

class SteerFields(msgspec.Struct, frozen=True, kw_only=True):
    devices: list[int] | None
    results: str
    systems: list[str]
    library: str | None
    pattern: Literal["allreduce", "replicated", "server"] | None
    phases: bool
    durations: list[float | str]
    reconfiguration: float | str | None
    receivers: int | list[int] | None
    reach: Literal["built", "any"]
    switch: str | None
    rate: float | dict[str, float | dict[str, float]] | str | None
    out: str | None

class LabKeywords(TypedDict, total=False):
    gpus: Axis[int | None]
    devices: Sequence[int] | None
    systems: Axis[Text]
    transport: Literal["auto", "pcie", "host"]
    scale: float
    out: Text | None

class LabFields(msgspec.Struct, frozen=True, kw_only=True):
    gpus: list[int | None]
    devices: list[int] | None
    systems: list[str]
    transport: Literal["auto", "pcie", "host"]
    scale: float
    out: str | None

class DoctorKeywords(TypedDict, total=False):
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
    out: Text | None

class DoctorClockFields(msgspec.Struct, frozen=True, kw_only=True):
    clock: str | float | None
    devices: list[int] | None
