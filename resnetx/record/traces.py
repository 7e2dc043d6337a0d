"""Traces: how long each layer took; and observations: when each rank of a loop was where."""

import re
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import msgspec

from resnetx.errors import ConfigError, FileError
from resnetx.loading import is_folder
from resnetx.record.sealing import FILES, LONGEST_s, RecordError, RecordPart, RunFolder, Warning, read
from resnetx.request import Request
from resnetx.table import Record, Tabular

# ---- trace ----------------------------------------------------------------------------------------------------------
# Traces: how long each layer of a workload took on one device, at one or several batch sizes.
#
# A run with measure=layers records `LayerTimes`. A `Trace` is what `predict` reads: the batches of one workload on one
# device, put together from such runs or imported from a file that somebody else measured (`traces.trace_files`).


Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class TracedLayer(RecordPart, frozen=True):
    """One layer, in seconds, an entry for every traced iteration (a list may be shorter than others, or empty)."""

    name: str  # as the layer table has it (`workloads.table`); "loss" behind the last one
    forward_s: list[float]
    backward_s: list[float]  # from the end of the layer behind it until the gradients of its own parameters are there
    communication_s: list[float]  # of its gradients alone, as a trace of Shi et al. has it; [] where none was measured
    gradient_bytes: int | None  # null: the file does not say; 0: it has no parameters that are trained
    # The share of products and convolutions in its forward and in its backward time; []: nothing tells kernels apart.
    products: list[Annotated[float, msgspec.Meta(ge=0, le=1)]] = msgspec.field(default_factory=list)


class LayerTimes(RecordPart, frozen=True, kw_only=True):
    """One device's iterations seen layer by layer, and the clean steps that they are reconciled with.

    The parts of an iteration (waiting for input, copy to the device, layers, update) add up to less than `step_s`, the
    instrumented iteration as a whole; `clean_step_s` are clean steps of the same process, between the instrumented
    ones: an entry is the mean of a window.

    With `host_s`, layers and update are what the device itself takes, without waiting for its host: a clean step takes
    about as long as the slower of the two.
    """

    clock: str  # "host", "CUDA events", or what an imported file was measured with
    layers: list[TracedLayer]  # in the order of the forward pass
    # Of a batch, by the input pipeline alone: reading, decoding and what it copies to the device by itself. Not what a
    # step waits for it (`input_wait_s`), as pipelines work ahead; with synthetic input the two are one.
    input_s: list[float]
    # of the instrumented iterations; [] in an imported trace
    input_wait_s: list[float] = msgspec.field(default_factory=list)
    host_to_device_s: list[float]  # that the step itself spends on copying its batch; DALI copies ahead
    update_s: list[float]
    step_s: list[float] | None
    clean_step_s: list[float] | None
    device_busy: float | None  # share of a clean step in which kernels run on the device, 0 to 1; null on CPUs
    host_bound: bool | None  # the device waits for the host in a clean step
    # Of the host, to queue a clean step for a device that has nothing else to do, from the forward pass to the update;
    # null on CPUs, and where layers were timed with the gaps in which the device waited.
    host_s: list[float] | None = None
    gradient_copy_Bps: float | None  # rate at which gradients are scaled and copied into the buffers that are sent
    # Of the host, to launch a step that a profiler watched, which lengthens it; []: not known.
    launching_s: list[float] = msgspec.field(default_factory=list)
    # In which at least a tenth of the products are, by the names of their kernels, most first; []: not known.
    precisions: list[Precision] = msgspec.field(default_factory=list)


class TracedBatch(RecordPart, frozen=True):
    """The layer times of one per-GPU batch size."""

    batch_size: int  # images per step on the one device
    times: LayerTimes
    peak_memory_bytes: int | None
    # The GPUs that `communication_s` of its layers is between; 0: none was measured, or the file does not say.
    communication_gpus: int = 0


class TracedMessage(RecordPart, frozen=True):
    """One message of gradients over several ranks: how long ranks waited for each other, and how long it then took."""

    size_bytes: int
    waiting_s: list[float]  # from this rank's start to the start of the last rank; mean over the ranks, per iteration
    transfer_s: list[float]  # from the start of the last rank to the end of the last one, per iteration
    operation: str = ""  # "all-gather"; "": an all-reduce, as runs of resnetx send


class TracedCommunication(RecordPart, frozen=True, kw_only=True):
    """What the ranks of one run sent in each step."""

    gpus: int
    batch_size: int = 0  # global; it decides when messages are ready, and so what waits for what; 0: imported
    strategy: str
    messages: list[TracedMessage]


class Trace(Tabular, RecordPart, frozen=True):
    """The layer times of one workload on one device."""

    kind: Literal["trace"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    how: Literal["measured", "imported"]
    source: str  # the folder or file
    workload: str  # "AlexNet"
    request: Request | None  # of one of the runs; null: imported, from who knows what program
    device: str | None  # "NVIDIA H200" as its driver names it, or "CPU"; imported: the name of a GPU part
    cpu: str | None
    cpus: int | None  # usable ones
    sm_clock_Hz: float | None
    software: str | None  # "torch 2.15.0, CUDA 13.0"
    measured_at: str | None  # UTC, ISO 8601, of the first run
    batches: list[TracedBatch]  # smallest first
    communication: list[TracedCommunication]
    unknown: dict[str, str]  # path of a null field -> why it is not known
    node: str = ""  # the host of the runs; "": imported, or the records do not say
    # Of an import: what is not known, or was taken for granted, and changes every figure.
    warnings: list[Warning] = msgspec.field(default_factory=list)

    def rows(self) -> list[Record]:
        """A row for each layer of each batch: medians over the iterations."""
        return [
            {
                "workload": self.workload,
                "device": self.device,
                "batch_size": batch.batch_size,
                "layer": layer.name,
                "forward_s": median(layer.forward_s) if layer.forward_s else None,
                "backward_s": median(layer.backward_s) if layer.backward_s else None,
                "gradient_bytes": layer.gradient_bytes,
            }
            for batch in self.batches
            for layer in batch.times.layers
        ]


# ---- observation ----------------------------------------------------------------------------------------------------
# What `resnetx.observe` writes of a loop, and `trace --import` of a job's profiles: when each rank was where.
#
# A step begins where all ranks have the gradients of the step before, which their last all-reduce aligns, so that times
# of different ranks compare without a common clock.

_TIMES = ("update", "input", "waiting", "forward", "backward", "exposed", "step")


class ObservedBucket(RecordPart, frozen=True):
    """Gradients that are sent together."""

    size_bytes: int
    ready_s: list[float]  # since the step began, for each step: when the last of its gradients was there


class Observation(RecordPart, frozen=True, kw_only=True):
    """One rank's steps, in seconds, an entry for every step; the phases of a step add up to it."""

    kind: Literal["observation"]
    schema: Annotated[int, msgspec.Meta(ge=1)]
    workload: str  # the class of the model
    strategy: Literal["bare", "ddp", "fsdp"]
    rank: int
    ranks: int  # of the job
    node: str
    device: str  # "NVIDIA H200" as its driver names it, or "CPU"
    sm_clock_Hz: float | None  # of the GPU as the observation ended
    clock: str  # "host" or "CUDA events"
    software: str  # "torch 2.15.0"; "": a profile does not say
    started_at: str  # UTC, ISO 8601; "": a profile does not say
    batch_size: (
        int | None
    )  # samples of a step on this rank: the first dimension of the first tensor of the model's call
    micro_batches: int  # forward passes of a step
    parameters: int | None  # that are trained, on this rank
    gradient_bytes: int | None
    hooks: int  # calls of hooks in a step; 0: a profile
    update_s: list[float]  # the optimizer, and what is between the gradients and it
    input_s: list[float]  # between the optimizer and the model's call: waiting for input, copying it, user code
    waiting_s: list[float]  # in the call of DDP's module before the model's own: buffers of rank 0 are awaited
    forward_s: list[float]
    backward_s: list[float]  # the loss, and the backward pass until the last gradient is there
    exposed_s: list[float]  # from there until all ranks' gradients are there
    step_s: list[float]
    # Of `exposed_s`, waiting for the last rank to arrive; the rest is transfer. [] where it is not known (`observe`).
    for_last_s: list[float] = msgspec.field(default_factory=list)
    # Of a CPU rank, until its last gradient is there: ready to run, without a core, which other programs have. [] where
    # it is not known.
    core_wait_s: list[float] = msgspec.field(default_factory=list)
    buckets: list[ObservedBucket] | None  # in the order in which they are sent
    unknown: dict[str, str]  # path of a null field -> why it is not known


def rank_folder(folder: Path, rank: int) -> RunFolder:
    """Where a rank writes its observation."""
    return RunFolder(folder / f"rank{rank}")


def trace_folder(folder: Path) -> Path:
    """Where rank 0 writes the trace that `predict` takes."""
    return folder / "trace"


def old_files(folder: Path, rank: int, ranks: int) -> list[Path]:
    """What an earlier observation left, and this rank is to remove before its own: rank 0 what no rank writes, too."""
    paths = [record for record in _records(folder) if _rank(record) >= ranks] if rank == 0 else []
    return [rank_folder(folder, rank).record, *paths, *[trace_folder(folder) / FILES["trace"]] * (rank == 0)]


def observations(folder: Path) -> list[Observation]:
    """What each rank of a job has seen, by rank; [] where the folder is of something else."""
    files = _records(folder) if is_folder(folder) else []
    try:
        found = [_sound(file, read(file, Observation, "an observation of a rank")) for file in files]
    except RecordError:
        return []  # the folder of something else, which its own reader says
    if not found:
        return []
    ranks = max(observation.ranks for observation in found)
    there = {observation.rank for observation in found}
    missing = next(rank for rank in range(len(found) + 1) if rank not in there)
    if missing < ranks:
        raise ConfigError(
            f"{folder}: {len(found)} of the {ranks} ranks of the job are there, rank {missing} is not; "
            "expected the folder rank<n> of each (copy them together where nodes share no file system)"
        )
    if any(observation.ranks != ranks for observation in found):
        raise ConfigError(f"{folder}: its ranks are of jobs of different sizes; expected those of one job")
    if (
        len({(observation.strategy, observation.gradient_bytes) for observation in found}) > 1
        and found[0].strategy != "fsdp"
    ):
        raise ConfigError(
            f"{folder}: the ranks train different parameters ({found[0].gradient_bytes} B on rank 0), as pipeline and "
            "expert parallelism do; expected data-parallel training"
        )
    return sorted(found, key=lambda observation: observation.rank)


def _sound(path: Path, seen: Observation) -> Observation:
    """The observation, if its times can be those of steps."""
    columns = [getattr(seen, f"{name}_s") for name in _TIMES]
    some = [column for column in (seen.for_last_s, seen.core_wait_s) if column]
    times = [*columns, *some, *(bucket.ready_s for bucket in seen.buckets or [])]
    alike = {len(time) for time in times} == {len(seen.step_s)} and seen.step_s
    if (
        not alike
        or not all(0 <= value_s <= LONGEST_s for column in times for value_s in column)
        or min(seen.step_s) == 0
    ):
        raise FileError(f"{path}: its steps have no times, or times that cannot be, so this is no observation")
    if not 0 <= seen.rank < seen.ranks:
        raise FileError(f"{path}: of rank {seen.rank} among {seen.ranks}, so this is no observation")
    return seen


def _records(folder: Path) -> list[Path]:
    paths = [RunFolder(path).record for path in folder.glob("rank*") if re.fullmatch(r"rank\d{1,6}", path.name)]
    return sorted(path for path in paths if path.exists())


def _rank(record: Path) -> int:
    return int(record.parent.name.removeprefix("rank"))
