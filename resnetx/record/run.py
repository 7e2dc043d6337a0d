"""The record of one run, part by part, and the file from which a run can be repeated."""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypedDict

import msgspec

from resnetx.choices import Tracker
from resnetx.record.trace import LayerTimes
from resnetx.record.unknown import Unknown, if_known, known
from resnetx.request import Request

SCHEMA = 1


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Workload(_Part, frozen=True):
    """What is trained and how much work it is; `resnetx describe --json` prints the same object."""

    workload: str  # "ResNet/4"
    model: dict[str, Any]  # its parameters, as asked
    image_size: int
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


class Device(_Part, frozen=True):
    """Where one rank ran. On a CPU machine `index` is the rank's place on its node and the rest is null."""

    rank: int
    node: str
    index: int
    name: str
    uuid: str | None
    pci_bus_id: str | None
    cpus: str | None = None  # that the rank could run on: "0-31,64-95"; records from before it was asked lack it


class StartUp(_Part, frozen=True):
    """Seconds that one rank spent before its first window, part by part."""

    rank: int
    imports_s: float
    process_group_s: float
    model_s: float
    input_s: float
    first_step_s: float


class GpuSamples(_Part, frozen=True):
    """NVML readings of one GPU during the windows; every list has one entry per sample."""

    rank: int
    time_s: list[float]  # since the first window began
    sm_clock_Hz: list[float] | None
    power_W: list[float] | None
    temperature_C: list[float] | None
    busy: list[float] | None  # share of the last sampling period in which a kernel ran, 0 to 1
    throttle_reasons: list[int] | None  # NVML's clock event reasons, a bit mask
    energy_J: float | None  # over the windows


class DeviceMemory(_Part, frozen=True):
    """What the run of one rank took of its GPU's memory, in bytes."""

    rank: int
    allocated_bytes: int  # by PyTorch's tensors, at most
    reserved_bytes: int  # by PyTorch, for these and for later ones, at most
    # After the windows, by whatever is on this GPU: besides PyTorch the CUDA context, NCCL, DALI, and other processes.
    used_bytes: int
    total_bytes: int


class LinkCounters(_Part, frozen=True):
    """What the links of one GPU counted over the windows: differences between the end and the start."""

    rank: int
    pcie_replays: int | None
    nvlink_errors: int | None
    nvlink_sent_bytes: int | None
    nvlink_received_bytes: int | None


class HostLoad(_Part, frozen=True):
    """How busy the host's CPUs were during the windows; shares of all its CPUs, 0 to 1."""

    busy: float
    foreign: float  # by processes that are not of this run


class GradientBucket(_Part, frozen=True):
    """One message of gradients as the strategy really sent it: a bucket of DDP, a layer, or all of them.

    Times are of an instrumented run, [rank][step of its last window], in seconds since that rank's step began
    (`Phases.begin_s`), by the clock of `Phases`.
    """

    index: int  # in the order in which they are sent
    size_bytes: int
    ready_s: list[list[float]] | None  # the last of its gradients was there
    start_s: list[list[float]] | None  # the all-reduce was handed to gloo; on GPUs: NCCL's kernel began
    end_s: list[list[float]] | None  # the sums were there

    def __post_init__(self) -> None:
        every = map(if_known, (self.ready_s, self.start_s, self.end_s))
        shapes = [[len(rank) for rank in times] for times in every if times is not None]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(f"message {self.index}: its times are of different ranks or steps")


class Phases(_Part, frozen=True):
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
    exposed_communication_s: list[float]  # from then until all gradients are those of all ranks
    optimizer_s: list[float]
    # [rank][step of the last window]: when the step began, since this rank left the barrier before the window.
    begin_s: list[list[float]]

    def __post_init__(self) -> None:
        parts = {name: len(getattr(self, name)) for name in self.__struct_fields__ if name != "clock"}
        if len(set(parts.values())) != 1 or not parts["step_s"]:
            raise ValueError(f"phases of different numbers of ranks: {parts}")


class Copies(_Part, frozen=True):
    """Bytes and seconds of memory copies per step, by direction, summed over the ranks; of a few profiled steps."""

    host_to_device_bytes: int
    host_to_device_s: float
    device_to_host_bytes: int
    device_to_host_s: float
    device_to_device_bytes: int
    device_to_device_s: float


class Deviation(_Part, frozen=True):
    """How far several ranks are from one process: relative differences, the largest over all ranks and steps.

    Of a gradient: root mean square of the difference over that of the gradient.
    """

    loss: float | None
    layers: dict[str, float | None]  # by layer, in the order of the model


class Equality(_Part, frozen=True):
    """Whether several ranks compute the losses and gradients that one process computes on the same global batch."""

    equal: bool
    tolerance: float
    steps: int  # one after the other
    # frozen: those of the global batch, fixed; synchronised: computed over all ranks in each step.
    statistics: Literal["none", "frozen", "synchronised"]  # of batch normalisation
    double: Deviation  # in double precision, which is what `equal` judges
    as_trained: Deviation  # one step in the request's precision: rounding
    per_rank: Deviation | None  # one step with statistics of each rank's own images, as in training; double precision


class Transport(_Part, frozen=True):
    """How gradients travelled between ranks."""

    requested: str
    used: list[str] | None
    evidence: list[str]


class InputState(_Part, frozen=True):
    """What the images were when the run started."""

    images: int | None
    classes: int | None
    size_bytes: int | None  # of all image files
    encoded: bool  # JPEG is decoded during training; false: pixels were ready
    page_cache_share: float | None  # share of the files' pages that were in memory at the start: 1 warm, 0 cold
    reads_bytes: int | None  # read from storage by all ranks during the windows
    decoder: str | None  # "cpu", "gpu", "gpu hardware"


class Gpu(_Part, frozen=True):
    """One GPU of the host, whether the run used it or not."""

    index: int
    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: str  # of an AMD GPU its architecture: "gfx942"
    memory_bytes: int | None
    power_limit_W: float | None
    sm_clock_max_Hz: float | None
    ecc: bool | None
    mig: bool | None
    pcie_generation: int | None
    pcie_generation_max: int | None
    pcie_width: int | None
    pcie_width_max: int | None
    nvlinks_active: int | None


class GpuProcess(_Part, frozen=True):
    """A process of another run or user on a GPU of this host when the run started."""

    gpu: int
    pid: int
    memory_bytes: int | None
    name: str | None = None  # records from before it was asked lack it


class Storage(_Part, frozen=True):
    """The file system that the images lie on."""

    path: str
    filesystem: str
    device: str
    rotational: bool | None


class Environment(_Part, frozen=True, kw_only=True):
    """The machine and the software, as far as they can change a figure."""

    node: str
    system: str  # kernel and distribution
    container: str | None
    python: str
    resnetx: str
    git_revision: str | None  # "+changes-DIGEST" behind it where the code differs from the commit
    torch: str
    torchvision: str | None
    cuda: str | None
    hip: str | None = None  # of ROCm, for AMD GPUs; records from before it was asked lack it
    cudnn: str | None
    nccl: str | None  # RCCL's with ROCm
    driver: str | None
    dali: str | None
    cpu: str
    cpu_sockets: int | None
    cpu_cores: int | None
    cpus_usable: int
    cpu_governor: str | None
    numa_nodes: int | None
    host_memory_bytes: int
    storage: Storage | None
    network: list[str]  # interfaces that are up, with their speed where it is known: "eth0 100 Gb/s"
    gpus: list[Gpu] | None
    gpu_processes: list[GpuProcess] | None
    topology: str | None  # `nvidia-smi topo -m`; between AMD GPUs, kinds of links and their highest rates
    topology_fingerprint: str | None  # equal on machines whose GPUs are wired alike
    threads: dict[str, int]  # torch's thread pools, in rank 0
    variables: dict[str, str]  # environment variables that torch, NCCL, gloo, OpenMP or DALI read


class OtherNode(_Part, frozen=True):
    """A node of a run apart from rank 0's, which the record's own `environment` and `host_load` are of."""

    rank: int  # the first on it
    environment: Environment
    host_load: HostLoad | None


class Warning(_Part, frozen=True):
    """Something that makes the figures less trustworthy, and what to do about it."""

    code: str
    message: str
    remedy: str


class Failure(_Part, frozen=True):
    """How one rank failed."""

    rank: int
    # oom: no memory left; config: a mistake of the user's; peer: another rank was lost; error: anything else.
    kind: Literal["oom", "config", "peer", "error"]
    time_s: float  # since the epoch
    message: str
    traceback: str
    # Since the host was booted, by a clock that nobody sets: the first failure is the cause, others are consequences.
    monotonic_s: float = 0.0


Outcome = Literal["ok", "oom", "failed", "timeout", "skipped"]


class RunFile(_Part, frozen=True):
    """`run.json`: all that a worker needs; `torchrun ... -m resnetx.train run.json` repeats the run by hand."""

    schema: int
    request: Request
    study: str | None
    repeat: int
    timeout_s: float
    convention: str
    tracker: Tracker
    oversubscribe: bool = False  # more ranks than GPUs may run, or without GPUs than cores

    verb: ClassVar[str] = "train"
    door: ClassVar[str] = "resnetx.train"  # the module that torchrun starts in each rank

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


class RunRecord(_Part, frozen=True, kw_only=True):
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
    distributed: str | None  # what exchanges gradients: "bare" (one rank), "DDP", "layerwise", "after" or "none"
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
    host_load: HostLoad | None
    transport: Transport | None
    devices: list[Device] | None
    input_state: InputState | None
    warnings: list[Warning]
    environment: Environment | None
    other_nodes: list[OtherNode] | None = None  # records from before it was gathered lack it
    unknown: dict[str, str]  # path of a null field -> why it is not known

    @property
    def steps_per_window(self) -> int:
        """As many as were asked for, or more where a window would have been too short."""
        return self.window_steps or self.request.steps


def timestamp(epoch_s: float) -> str:
    """A moment as records have it: UTC, ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")
