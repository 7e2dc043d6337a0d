"""What is written: the files of a run, their schema, and how they are read and written safely.

A record is complete on its own: with `record.json` alone another person knows what ran, where, how it ended, and has
the raw times. A field that cannot be known is null, and `unknown` says why, under the field's path. Raw samples are
stored; medians and speed-ups are derived when reading.

    python -m resnetx.record > resnetx/schemas/run.schema.json     # regenerates the JSON Schema
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from resnetx.config import Request, Tracker

SCHEMA = 1
MAX_BYTES = 64 * 2**20  # a larger "record" is not one of ours


class RecordError(Exception):
    """A file that is not a record this version can read: one sentence naming the file."""


# ---- the parts of a record ------------------------------------------------------------------------------------------


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
    """One gradient bucket as the strategy really sent it."""

    index: int
    size_bytes: int
    ready_s: list[float] | None  # per step of an instrumented run, since the start of the backward pass
    start_s: list[float] | None
    end_s: list[float] | None


class Phases(_Part, frozen=True):
    """Mean seconds per step in each phase of an instrumented run, on the slowest rank."""

    input_wait_s: float
    host_to_device_s: float
    forward_s: float
    backward_s: float
    exposed_communication_s: float
    optimizer_s: float


class Copies(_Part, frozen=True):
    """Bytes and seconds of memory copies per step, by direction, summed over the ranks."""

    host_to_device_bytes: int
    host_to_device_s: float
    device_to_host_bytes: int
    device_to_host_s: float
    device_to_device_bytes: int
    device_to_device_s: float


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
    compute_capability: str
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
    """A process of somebody else on a GPU of this host when the run started."""

    gpu: int
    pid: int
    memory_bytes: int | None


class Storage(_Part, frozen=True):
    """The file system that the images lie on."""

    path: str
    filesystem: str
    device: str
    rotational: bool | None


class Environment(_Part, frozen=True):
    """The machine and the software, as far as they can change a figure."""

    node: str
    system: str  # kernel and distribution
    container: str | None
    python: str
    resnetx: str
    git_revision: str | None  # "+changes" behind it where tracked files differ from the commit
    torch: str
    torchvision: str | None
    cuda: str | None
    cudnn: str | None
    nccl: str | None
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
    topology: str | None  # `nvidia-smi topo -m`
    topology_fingerprint: str | None  # equal on machines whose GPUs are wired alike
    threads: dict[str, int]  # torch's thread pools, in rank 0
    variables: dict[str, str]  # environment variables that torch, NCCL, gloo, OpenMP or DALI read


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
    time_s: float  # since the epoch: the first failure is the cause, the others are its consequences
    message: str
    traceback: str


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


class RunRecord(_Part, frozen=True):
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
    backend: str | None
    distributed: str | None  # what wraps the model: "bare" (one rank) or "DDP"
    images_per_s: float | None  # images of all ranks over all windows / time of the slowest rank
    iterations_per_s: float | None
    windows_s: list[list[float]] | None  # [rank][window]: seconds for `request.steps` steps
    warmup_s: list[list[float]] | None  # [rank][step]: the steps before the first window
    loss: list[float] | None  # mean over the ranks, after the warm-up and after every window
    start_up: list[StartUp] | None
    buckets: list[GradientBucket] | None
    phases: Phases | None
    copies: Copies | None
    peak_memory_bytes: list[int] | None  # [rank]: allocated on the GPU; on a CPU the process's resident set
    gpu_samples: list[GpuSamples] | None
    link_counters: list[LinkCounters] | None
    host_load: HostLoad | None
    transport: Transport | None
    devices: list[Device] | None
    input_state: InputState | None
    warnings: list[Warning]
    environment: Environment | None
    unknown: dict[str, str]  # path of a null field -> why it is not known


class Unknown(str):
    """Stands for a value that cannot be known while a record is put together; the string is the reason."""


def seal(tree: Any, kind: Any) -> Any:
    """A checked record of type `kind` from plain values: every `Unknown` in it becomes null with its reason.

    A null whose path, or the path of a part that holds it, has no reason is a mistake of ours.
    """
    unknown: dict[str, str] = dict(tree.get("unknown", {}))
    plain = _plain(tree, "", unknown)
    plain["unknown"] = unknown
    sealed = msgspec.convert(plain, kind)
    missing = [path for path in nulls(msgspec.to_builtins(sealed)) if path not in unknown]
    assert not missing, f"no reason is given for the null fields {missing}"
    return sealed


def opening(task: RunFile, started: float) -> dict[str, Any]:
    """The fields of a run record that are known before anything has run. `started`: seconds since the epoch."""
    return {
        "kind": "run",
        "schema": SCHEMA,
        "request": task.request,
        "request_key": task.request.key,
        "baseline_key": task.request.baseline_key,
        "study": task.study or Unknown("not part of a study"),
        "repeat": task.repeat,
        "timeout_s": task.timeout_s,
        "started_at": datetime.fromtimestamp(started, UTC).isoformat(timespec="milliseconds"),
        "world_size": task.request.gpus,
    }


def cut_short(task: RunFile, started: float, outcome: Outcome, reason: str, **known: Any) -> RunRecord:
    """The record of a run that measured nothing; `known` are the fields that can be told all the same."""
    gone = Unknown("the run ended before this was measured")
    told = {"failures": [], "stderr_end": "", "warnings": [], "duration_s": time.time() - started, **known}
    whole = dict.fromkeys(RunRecord.__struct_fields__, gone) | opening(task, started) | told
    record: RunRecord = seal(whole | {"outcome": outcome, "reason": reason, "unknown": {}}, RunRecord)
    return record


def nulls(tree: Any, path: str = "") -> Iterator[str]:
    """Paths of the null fields of a record, apart from its request, in which null is an answer."""
    if tree is None:
        yield path
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if path or key != "request":
                yield from nulls(value, f"{path}.{key}".lstrip("."))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from nulls(value, f"{path}.{index}")


def _plain(value: Any, path: str, unknown: dict[str, str]) -> Any:
    if isinstance(value, Unknown):
        unknown[path] = str(value)
        return None
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return {key: _plain(item, f"{path}.{key}".lstrip("."), unknown) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}.{index}", unknown) for index, item in enumerate(value)]
    return value


# ---- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFolder:
    """The names of a run's files; nothing else in resnetx spells them."""

    path: Path

    @property
    def run(self) -> Path:
        return self.path / "run.json"

    @property
    def record(self) -> Path:
        return self.path / "record.json"

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    def failure(self, rank: int) -> Path:
        """What a rank says of its own failure; the launcher folds it into the record."""
        return self.path / f"failure-rank{rank}.json"

    def failures(self) -> list[Path]:
        return sorted(self.path.glob("failure-rank*.json"))


def write(path: Path, content: Any) -> None:
    """Writes a struct as JSON: whole or not at all, also when the disk is full or the process is killed."""
    data = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise


def read(path: Path, kind: Any) -> Any:
    """The struct of type `kind` in a JSON file, or a `RecordError` that says what is wrong with the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecordError(f"{path}: larger than {MAX_BYTES >> 20} MiB, so not a record of resnetx")
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None
    try:
        schema = msgspec.json.decode(data, type=_Versioned).schema
        if schema > SCHEMA:
            raise RecordError(f"{path}: has schema {schema}, this resnetx reads up to {SCHEMA}: update resnetx")
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{path}: not a {kind.__name__} of resnetx ({error})") from None
    except msgspec.DecodeError as error:
        raise RecordError(f"{path}: truncated or not JSON ({error})") from None


class _Versioned(msgspec.Struct):
    schema: int


def records(folder: Path) -> tuple[list[tuple[RunFolder, RunRecord]], list[str]]:
    """All run records below a folder, by path, and a sentence for every file that had to be set aside."""
    found, aside = [], []
    for path in sorted(folder.rglob("record.json")):
        try:
            found.append((RunFolder(path.parent), read(path, RunRecord)))
        except RecordError as error:
            aside.append(str(error))
    return found, aside


def json_schema() -> bytes:
    """The JSON Schema of `record.json`, generated from the structs above."""
    schema = msgspec.json.schema(RunRecord)
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"


if __name__ == "__main__":
    print(json_schema().decode(), end="")
