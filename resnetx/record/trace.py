"""Traces: how long each layer of a workload took on one device, at one or several batch sizes.

A run with measure=layers records `LayerTimes`. A `Trace` is what `predict` reads: the batches of one workload on one
device, put together from such runs or imported from a file that somebody else measured (`traces.files`).
"""

from typing import Annotated, Literal

import msgspec

from resnetx.record.files import RecordPart
from resnetx.record.unknown import Warning
from resnetx.request import Request


class TracedLayer(RecordPart, frozen=True):
    """One layer, in seconds, an entry for every traced iteration (a list may be shorter than others, or empty)."""

    name: str  # as the layer table has it (`workloads.table`); "loss" behind the last one
    forward_s: list[float]
    backward_s: list[float]  # from the end of the layer behind it until the gradients of its own parameters are there
    communication_s: list[float]  # of its gradients alone, as a trace of Shi et al. has it; [] where none was measured
    gradient_bytes: int | None  # null: the file does not say; 0: it has no parameters that are trained


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


class Trace(RecordPart, frozen=True):
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
