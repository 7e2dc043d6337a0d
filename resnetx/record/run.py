"""The record of one run, and the file from which a run can be repeated."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from resnetx.choices import Tracker
from resnetx.launching import Launch
from resnetx.record.machine import (
    Device,
    DeviceMemory,
    Environment,
    GpuSamples,
    HostLoad,
    Job,
    LinkCounters,
    LockedClock,
    OtherNode,
    Transport,
)
from resnetx.record.sealing import SCHEMA, Failure, Outcome, RecordPart, Unknown, Warning, if_known, known, timestamp
from resnetx.record.traces import LayerTimes
from resnetx.request import Request
from resnetx.table import Record, Tabular, row
from resnetx.units import size_text

# Where the time of a step goes, as an instrumented run records it: phases, messages of gradients, copies.


class Phases(RecordPart, frozen=True):
    """Seconds of each phase of a step in an instrumented run: for each rank, the mean over all windows.

    The phases add up to the step. Ranks that wait for each other differ: the one that computes longest has the shortest
    exposed communication, and the others wait for it.
    """

    clock: str  # "host", or "CUDA events": the device's time line, where a phase begins when the device gets to it
    step_s: list[float]  # of the instrumented step; the clean one is in runs with measure=step
    input_wait_s: list[float]
    host_to_device_s: list[float]  # that the step itself spends on copying its batch; DALI copies ahead
    forward_s: list[float]
    backward_s: list[float]  # until the last gradient is there
    # From then until all gradients are those of all ranks; strategy=server: until all parameters are updated and here.
    exposed_communication_s: list[float]
    optimizer_s: list[float]
    # [rank][step of the last window]: when the step began, since this rank left the barrier before the window.
    begin_s: list[list[float]]
    # Parameters that are gathered: strategy=zero1 after the update, fsdp before and in the passes. []: not recorded yet
    gather_s: list[float] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        left_out = ("clock",) if self.gather_s else ("clock", "gather_s")
        parts = {name: len(getattr(self, name)) for name in self.__struct_fields__ if name not in left_out}
        if len(set(parts.values())) != 1 or not parts["step_s"]:
            raise ValueError(f"phases of different numbers of ranks: {parts}")


class GradientBucket(RecordPart, frozen=True):
    """One message of gradients as the strategy really sent it: a bucket of DDP, a layer, a variable, or all of them.

    Times are of an instrumented run, [rank][step of its last window], in seconds since that rank's step began
    (`Phases.begin_s`), by the clock of `Phases`.
    """

    index: int  # in the order in which they are sent
    size_bytes: int
    # The last of its gradients was there; fsdp on GPUs: the step came to wait for it.
    ready_s: list[list[float]] | None
    start_s: list[list[float]] | None  # it was handed to gloo; on GPUs: NCCL's kernel began
    end_s: list[list[float]] | None  # the sums were there; strategy=server: the updated parameters

    def __post_init__(self) -> None:
        every = map(if_known, (self.ready_s, self.start_s, self.end_s))
        shapes = [[len(rank) for rank in times] for times in every if times is not None]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"message {self.index}: its times are of different ranks or steps")


class Copies(RecordPart, frozen=True):
    """Memory copies of a step, by direction, summed over the ranks.

    profiler: means over a few steps, as CUDA's profiler sees the copies of every library. operators: where it sees
    nothing, what torch's operators asked for in one more step, without times, and what the input copies beside them;
    within a device, copies that leave types and order as they are; not what operators copy for themselves (tables of
    pointers, some kB with fsdp).
    """

    host_to_device_bytes: int | None
    host_to_device_s: float | None
    device_to_host_bytes: int
    device_to_host_s: float | None
    device_to_device_bytes: int
    device_to_device_s: float | None
    counted_by: Literal["profiler", "operators"] = "profiler"
    host_to_device_calls: int | None = None  # records from before calls were counted lack them
    device_to_host_calls: int | None = None
    device_to_device_calls: int | None = None


# Whether several ranks compute what one process computes, as `resnetx verify` records it.


class Deviation(RecordPart, frozen=True):
    """How far several ranks are from one process: relative differences, the largest over all ranks and steps.

    Of a gradient: root mean square of the difference over that of the gradient.
    """

    loss: float | None
    layers: dict[str, float | None]  # by layer, in the order of the model


class Equality(RecordPart, frozen=True):
    """Whether several ranks compute the losses and gradients that one process computes on the same global batch."""

    equal: bool
    tolerance: float
    steps: int  # one after the other
    # frozen: those of the global batch, fixed; synchronised: computed over all ranks in each step.
    statistics: Literal["none", "frozen", "synchronised"]  # of batch normalisation
    double: Deviation  # in double precision, which is what `equal` judges
    as_trained: Deviation  # one step in the request's precision: rounding
    per_rank: Deviation | None  # one step with statistics of each rank's own images, as in training; double precision


# Replayed steps: computing that is waited out while the communication of a step really happens.


class ReplayedLayer(RecordPart, frozen=True):
    """One layer of a replayed step."""

    name: str
    forward_s: float
    backward_s: float
    gradients: list[int]  # elements of each trainable tensor, in the order in which their gradients become ready


class ReplayedStep(RecordPart, frozen=True):
    """What one rank computes in a step; layers in the order of the forward pass."""

    source: str  # "p100-sxm2-16gb by its roofline", or the trace
    layers: list[ReplayedLayer]
    update_s: float
    slowed: float = 1.0  # by this factor, as the links of the lab are
    jitter: float = 0.0  # standard deviation over the mean by which it varies from step to step, on each rank by itself


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
        if self.tokens:
            return f"sequence of {self.tokens:,} tokens"
        return f"image of {self.image_size}x{self.image_size}" if self.image_size else "sample"


class DescribedWorkload(Workload, frozen=True, kw_only=True):
    """A workload, and the size of each message of gradients in the order in which they are sent."""

    messages_bytes: list[int]


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


class LargestBatch(RecordPart, frozen=True, kw_only=True):
    """How the number was found that stands for `batch_size=max`: by runs that fitted, or found no memory."""

    per_rank: int  # the largest that fits
    ranks: int  # of the trials
    fits: list[int]  # batches of a rank that were tried
    lacks: list[int]  # for which memory was missing
    limit: Literal["memory", "time", "most"]  # what ended the search: time: a step took more than a minute
    limit_bytes: int  # that each process could have on CPUs; 0: what its GPU has, or memory_limit

    @property
    def sentence(self) -> str:
        """For people."""
        where = "" if not self.limit_bytes else f", in {size_text(self.limit_bytes)} of memory for each process"
        why = {
            "memory": f"{min(self.lacks, default=0)} do not",
            "time": "a step takes more than a minute",
            "most": "more were not tried",
        }
        trials = len(self.fits) + len(self.lacks)
        on = f"each of {self.ranks} ranks" if self.ranks > 1 else "one rank"
        return f"{self.per_rank} samples fit on {on}{where}; {why[self.limit]} ({trials} trials)"


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
    largest_batch: LargestBatch | None = None  # how the batch size was found; None: it was given

    verb: ClassVar[str] = "train"
    entry_module: ClassVar[str] = "resnetx.train"  # the module that torchrun starts in each rank

    @property
    def record_type(self) -> "type[RunRecord]":
        return RunRecord

    def opening(self, started: float) -> dict[str, Any]:
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
            "largest_batch": known(self.largest_batch or Unknown("the batch size was given")),
        }


class RunRecord(Tabular, RecordPart, frozen=True, kw_only=True):
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
    largest_batch: LargestBatch | None = None  # how the batch size was found; null: it was given
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

    def rows(self) -> list[Record]:
        """The one row of it: its single values."""
        return [row(self)]

    @property
    def steps_per_window(self) -> int:
        """As many as were asked for, or more where a window would have been too short."""
        return self.window_steps or self.request.steps
