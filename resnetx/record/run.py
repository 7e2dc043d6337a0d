"""The record of one run, and the file from which a run can be repeated."""

from typing import Annotated, Any, ClassVar, Literal, TypedDict

import msgspec

from resnetx.choices import Tracker
from resnetx.launching import Launch
from resnetx.record.base import SCHEMA, RecordPart, timestamp
from resnetx.record.equality import Equality
from resnetx.record.machine import Device, Environment, Job, OtherNode
from resnetx.record.outcome import Failure, Outcome, Warning
from resnetx.record.phases import Copies, GradientBucket, Phases
from resnetx.record.readings import DeviceMemory, GpuSamples, HostLoad, LinkCounters, LockedClock
from resnetx.record.replay import ReplayedStep
from resnetx.record.trace import LayerTimes
from resnetx.record.transport import Transport
from resnetx.record.unknown import Unknown, known
from resnetx.request import Request


class Workload(RecordPart, frozen=True):
    """What is trained and how much work it is; `resnetx describe --json` prints the same object."""

    workload: str  # "ResNet/4"
    model: dict[str, Any]  # its parameters, as asked; without those that follow from others
    image_size: int  # pixels; 0: samples are sequences of tokens
    convention: str  # how activations and parameters are counted
    activations_per_image: int
    parameters: int
    batch_size: int  # global
    activations_per_batch: int
    intensity: float  # activations per parameter, per batch
    intensity_per_gpu: dict[str, float]  # GPUs -> intensity / GPUs (strong scaling)
    payload_bytes: int  # 4 x parameters: the all-reduce payload as Tallent et al. 2017 state it
    gradient_bytes: int  # what data-parallel training really sends: fp32 gradients of the trainable parameters
    flops_per_image: int  # forward pass, a multiply-add is 2 FLOP; training takes about three times this
    stated: dict[str, float]  # the paper's own figures for this workload, where it states any
    notes: list[str]
    tokens: int = 0  # of each sample, which is then a sequence wherever a name says "image"; 0: samples are images

    @property
    def sample(self) -> str:
        """One sample, for people."""
        return f"sequence of {self.tokens:,} tokens" if self.tokens else f"image of {self.image_size}x{self.image_size}"


class StartUp(RecordPart, frozen=True):
    """Seconds that one rank spent before its first window, part by part."""

    rank: int
    imports_s: float
    process_group_s: float
    model_s: float
    input_s: float
    first_step_s: float


class InputState(RecordPart, frozen=True):
    """What the images were when the run started."""

    images: int | None
    classes: int | None
    size_bytes: int | None  # of all image files
    encoded: bool  # JPEG is decoded during training; false: pixels were ready
    page_cache_share: float | None  # share of the files' pages that were in memory at the start: 1 warm, 0 cold
    reads_bytes: int | None  # read from storage by all ranks during the windows
    decoder: str | None  # "cpu", "gpu", "gpu hardware"


class Staging(RecordPart, frozen=True):
    """What one node did before a run, so that its ranks read images from a folder of its own (`input.stage`)."""

    node: str
    rank: int  # the first one there
    folder: str  # that ranks read from
    images: int
    size_bytes: int  # of all images
    copied_bytes: int  # of those that were not there yet; 0: all were
    list_s: float  # to look at all files of input.root
    wait_s: float  # for another job of this node that copied the same images
    copy_s: float  # to look at what is there, and to copy the others


class RunFile(RecordPart, frozen=True):
    """`run.json`: all that a worker needs; `torchrun ... -m resnetx.train run.json` repeats the run by hand."""

    schema: int
    request: Request
    study: str | None
    repeat: int
    timeout_s: float
    convention: str
    tracker: Tracker
    oversubscribe: bool = False  # more ranks than GPUs may run, or without GPUs than cores
    replay: ReplayedStep | None = None  # what each rank waits out; None: it computes
    replay_fewer: ReplayedStep | None = None  # and what those wait out that have one image less; None: there are none
    launch: Launch | None = None  # how ranks are started; None: by one torchrun, on this node

    verb: ClassVar[str] = "train"
    entry_module: ClassVar[str] = "resnetx.train"  # the module that torchrun starts in each rank

    @property
    def record_type(self) -> "type[RunRecord]":
        return RunRecord

    def opening(self, started: float) -> "RunOpening":
        """What its record has before anything has run. `started`: seconds since the epoch."""
        return {
            "kind": "run",
            "schema": SCHEMA,
            "request": self.request,
            "request_key": self.request.key,
            "baseline_key": self.request.baseline_key,
            "study": known(self.study or Unknown("not part of a study")),
            "repeat": self.repeat,
            "timeout_s": self.timeout_s,
            "started_at": timestamp(started),
            "world_size": self.request.gpus,
        }


class RunOpening(TypedDict):
    """The fields of a run record that are known before anything has run."""

    kind: Literal["run"]
    schema: int
    request: Request
    request_key: str
    baseline_key: str
    study: str | None
    repeat: int
    timeout_s: float
    started_at: str
    world_size: int


class RunRecord(RecordPart, frozen=True, kw_only=True):
    """`record.json`: one execution of a point, however it ended."""

    kind: Literal["run"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    request: Request
    request_key: str
    baseline_key: str
    study: str | None  # null: run on its own
    repeat: int
    timeout_s: float
    workload: Workload | None
    outcome: Outcome
    reason: str  # "" where the outcome is ok
    failures: list[Failure]
    stderr_end: str
    started_at: str  # UTC, ISO 8601
    duration_s: float
    world_size: int
    backend: str | None  # "nccl", "rccl" (NCCL of AMD GPUs) or "gloo"
    distributed: (
        str | None
    )  # what exchanges gradients: "bare" (one rank), "DDP", "ZeRO-1", "FSDP", layerwise, after, server or none
    images_per_s: float | None  # images of all ranks over all windows / time of the slowest rank
    iterations_per_s: float | None
    windows_s: list[list[float]] | None  # [rank][window]: seconds for `steps_per_window` steps
    window_steps: int | None = None  # in each window; records from when it was always `request.steps` lack it
    warmup_s: list[list[float]] | None  # [rank][step]: the steps before the first window
    loss: list[float | None] | None  # mean over the ranks, after the warm-up and after every window; null: not finite
    start_up: list[StartUp] | None
    buckets: list[GradientBucket] | None
    phases: Phases | None
    layers: LayerTimes | None = None  # of a run with measure=layers; records from before there were any lack it
    copies: Copies | None
    # [rank]: of a step, in which at least one kernel runs on the device; of a few profiled steps of an instrumented run
    kernels_s: list[float] | None = None
    equality: Equality | None
    peak_memory_bytes: list[int] | None  # [rank]: allocated on the GPU; on a CPU the process's resident set
    device_memory: list[DeviceMemory] | None = None  # [rank]; records from before it was read lack it
    gpu_samples: list[GpuSamples | None] | None
    link_counters: list[LinkCounters | None] | None
    clock: LockedClock | None = None  # that GPUs were locked at meanwhile; records from before it could be lack it
    host_load: HostLoad | None
    transport: Transport | None
    devices: list[Device] | None
    input_state: InputState | None
    staging: list[Staging] | None = None  # of each node, before anything was timed; older records lack it
    warnings: list[Warning]
    environment: Environment | None
    other_nodes: list[OtherNode] | None = None  # records from before it was gathered lack it
    job: Job | None = None  # that it was part of; records from before it was asked lack it
    unknown: dict[str, str]  # path of a null field -> why it is not known

    @property
    def steps_per_window(self) -> int:
        """As many as were asked for, or more where a window would have been too short."""
        return self.window_steps or self.request.steps
