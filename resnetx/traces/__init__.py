"""Traces of runs, and whether a trace can be what it says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from resnetx.choices import NoExchange
from resnetx.errors import ConfigError, FileError, shortened
from resnetx.loading import is_folder
from resnetx.record.run import GradientBucket, RunRecord
from resnetx.record.sealing import MOST_BYTES, SCHEMA, LONGEST_s, RecordError, RunFolder, nulls, read
from resnetx.record.traces import LayerTimes, Trace, TracedBatch, TracedCommunication, TracedLayer, TracedMessage
from resnetx.request import Request

# ---- runs -----------------------------------------------------------------------------------------------------------
# From the runs below a folder to traces: runs with measure=layers are the batches of a trace, runs with measure=phases
# on several ranks its communication, if their requests differ in nothing but batch, GPUs, strategy and how long.

_NOT_SAID = "the run does not say"


def read_all(folder: Path) -> list[Trace]:
    """The traces of all workloads whose runs lie below `folder`, by their folders; [] where there are none."""
    groups: dict[str, list[_Run]] = {}
    for run in _runs(folder):
        groups.setdefault(subject(run.record.request).key, []).append(run)
    return [
        _trace(runs, folder if len(groups) == 1 else _above(runs))
        for runs in groups.values()
        if any(run.record.layers for run in runs)
    ]


def subject(request: Request) -> Request:
    """What a trace is of: the request without what may differ between the runs of one trace."""
    return msgspec.structs.replace(
        request, measure="layers", batch_size=1, gpus=1, devices=None, strategy=NoExchange(), scaling="strong",
        split="even", warmup=1, steps=1, windows=1, accumulate=1, checkpointing=False,
    )  # fmt: skip


# ---- runs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    folder: Path
    record: RunRecord


class _Head(msgspec.Struct):
    """The fields that say whether a record is of use here."""

    kind: str = ""
    outcome: str = ""
    request: Any = None


def _runs(folder: Path) -> Iterable[_Run]:
    """The runs that traces are made of, by folder."""
    if not is_folder(folder):
        raise RecordError(f"{folder}: no such folder")
    for path in sorted(folder.rglob(RunFolder(folder).record.name)):
        head = read(path, _Head, "a record of resnetx")
        asked = head.request if isinstance(head.request, dict) else {}
        if head.kind != "run" or head.outcome != "ok" or asked.get("measure") not in ("layers", "phases"):
            continue
        record = read(path, RunRecord)
        if record.layers or (record.phases and record.request.gpus > 1):
            yield _Run(path.parent, record)


def _above(runs: list[_Run]) -> Path:
    """The folder of a run, or the one that holds all of several."""
    parents = {run.folder.parent for run in runs}
    return runs[0].folder if len(runs) == 1 else min(parents, key=lambda path: len(path.parts))


# ---- a trace --------------------------------------------------------------------------------------------------------


def _trace(runs: list[_Run], folder: Path) -> Trace:
    layered = sorted((run for run in runs if run.record.layers), key=lambda run: run.record.request.batch_size)
    _check_one_device(layered)
    first = layered[0].record
    unknown: dict[str, str] = {}
    clocks = [
        clock
        for run in layered
        for gpu_sample in run.record.gpu_samples or []
        if gpu_sample
        for clock in gpu_sample.sm_clock_Hz or []
    ]
    if not clocks:
        unknown["sm_clock_Hz"] = first.unknown.get("gpu_samples", _NOT_SAID)
    if first.environment is None:
        unknown |= dict.fromkeys(("cpu", "cpus", "software"), first.unknown.get("environment", _NOT_SAID))
    if not first.devices:
        unknown["device"] = first.unknown.get("devices", _NOT_SAID)
    batches = [_batch(run.record, f"batches.{index}", unknown) for index, run in enumerate(layered)]
    together = sorted(
        (run.record for run in runs if run.record.phases),
        key=lambda record: (record.request.batch_size, record.request.gpus, record.request.strategy.kind),
    )
    return Trace(
        kind="trace",
        schema=SCHEMA,
        how="measured",
        source=str(folder),
        workload=first.request.model.label,
        request=first.request,
        device=first.devices[0].name if first.devices else None,
        cpu=first.environment.cpu if first.environment else None,
        cpus=first.environment.cpus_usable if first.environment else None,
        sm_clock_Hz=median(clocks) if clocks else None,
        software=_software(first),
        measured_at=min(run.record.started_at for run in layered),
        batches=batches,
        communication=[communication_of(each) for each in together],
        unknown=unknown,
        node=first.devices[0].node if first.devices else "",
    )


def _check_one_device(runs: list[_Run]) -> None:
    """Layer times of different devices, or two of one batch, are no trace of one device."""
    names = {run.record.devices[0].name if run.record.devices else "" for run in runs}
    if len(names) > 1:
        raise ConfigError(
            f"{runs[0].folder.parent}: its runs are of different devices ({', '.join(sorted(names))}); choose the "
            "folder of one"
        )
    for one, other in pairwise(runs):
        if one.record.request.batch_size == other.record.request.batch_size:
            raise ConfigError(
                f"{one.folder} and {other.folder} both trace batch {one.record.request.batch_size} of "
                f"{one.record.request.model.label}; keep one of them"
            )


def _batch(record: RunRecord, path: str, unknown: dict[str, str]) -> TracedBatch:
    """The batch of one run; its nulls are noted with the run's reasons."""
    times = record.layers
    assert times, "chosen because it has layers"
    gaps = msgspec.structs.replace(times, layers=[])  # no null is among the layers, which are many
    unknown |= {
        f"{path}.times.{null}": record.unknown.get(f"layers.{null}", _NOT_SAID)
        for null in nulls(msgspec.to_builtins(gaps))
    }
    if not record.peak_memory_bytes:
        unknown[f"{path}.peak_memory_bytes"] = record.unknown.get("peak_memory_bytes", _NOT_SAID)
    peak = max(record.peak_memory_bytes) if record.peak_memory_bytes else None
    return TracedBatch(batch_size=record.request.batch_size, times=times, peak_memory_bytes=peak)


def _software(record: RunRecord) -> str | None:
    if record.environment is None:
        return None
    cuda = record.environment.cuda
    return f"torch {record.environment.torch}" + (f", CUDA {cuda}" if cuda else "")


# ---- communication --------------------------------------------------------------------------------------------------


def communication_of(record: RunRecord) -> TracedCommunication:
    """What the ranks of a run with measure=phases sent, with waiting for each other separate from the transfer.

    Ranks' clocks are zero as they leave the barrier before a window, so that times of different ranks compare as well
    as a barrier lets them: on one host, to some microseconds.
    """
    request, phases = record.request, record.phases
    assert phases, f"{request.slug}: a run without phases"
    try:
        messages = [message for bucket in record.buckets or [] if (message := _message(bucket, phases.begin_s))]
    except ValueError as error:
        raise RecordError(f"{request.slug}: the times of its messages are not those of a run ({error})") from None
    return TracedCommunication(
        gpus=request.gpus, batch_size=request.batch_size, strategy=request.strategy.kind, messages=messages
    )


def _message(bucket: GradientBucket, begin_s: list[list[float]]) -> TracedMessage | None:
    """One message over all ranks; None where its times are not known."""
    if bucket.start_s is None or bucket.end_s is None:
        return None
    starts, ends = _by_step(bucket.start_s, begin_s), _by_step(bucket.end_s, begin_s)
    return TracedMessage(
        size_bytes=bucket.size_bytes,
        waiting_s=[max(ranks) - fmean(ranks) for ranks in starts],
        transfer_s=[max(ended) - max(started) for started, ended in zip(starts, ends, strict=True)],
    )


def _by_step(times_s: list[list[float]], begin_s: list[list[float]]) -> list[list[float]]:
    """[step][rank], on the one clock of the window, from [rank][step], since each rank's step began."""
    on_one_clock = [
        [begin + time for begin, time in zip(begins, times, strict=True)]
        for begins, times in zip(begin_s, times_s, strict=True)
    ]
    return [list(ranks) for ranks in zip(*on_one_clock, strict=True)]


# What a traced batch adds up to: its parts, the instrumented step that they are parts of, and the clean step.
#
# Each figure is a median over iterations; the residual is taken within each iteration first. So the parts of a noisy
# trace add up to its step only nearly.


@dataclass(frozen=True)
class TraceSums:
    """Seconds of one iteration; None where the trace does not have it, as imported ones may not."""

    input_s: float | None  # of the input pipeline alone; no part of the step, which waits for it only
    host_s: float | None  # of the host alone, to queue a step
    input_wait_s: float | None
    host_to_device_s: float | None
    forward_s: float
    backward_s: float
    update_s: float | None
    rest_s: float | None  # of the instrumented step that is in no part: instrumenting, between forward and backward
    step_s: float | None  # instrumented
    clean_step_s: float | None
    # Instrumented step over clean step: by so much, layer times may be too long. And all parts over the clean step: 1
    # where they account for it. Medians over the windows, each against the clean window before it: what slows the
    # machine for a while slows both.
    instrumented_over_clean: float | None
    parts_over_clean: float | None


def sums(times: LayerTimes) -> TraceSums:
    """What the batch adds up to."""
    forward = _per_iteration([layer.forward_s for layer in times.layers])
    backward = _per_iteration([layer.backward_s for layer in times.layers])
    parts = [part for part in (times.input_wait_s, times.host_to_device_s, forward, backward, times.update_s) if part]
    instrumented, clean = times.step_s or [], times.clean_step_s or []
    rest = [step - sum(of_step) for step, *of_step in zip(instrumented, *parts, strict=False)]
    accounted = [step - left for step, left in zip(instrumented, rest, strict=False)]
    return TraceSums(
        input_s=_median(times.input_s),
        host_s=_median(times.host_s or []),
        input_wait_s=_median(times.input_wait_s),
        host_to_device_s=_median(times.host_to_device_s),
        forward_s=_median(forward) or 0.0,
        backward_s=_median(backward) or 0.0,
        update_s=_median(times.update_s),
        rest_s=_median(rest),
        step_s=_median(instrumented),
        clean_step_s=_median(clean),
        instrumented_over_clean=_over_clean(instrumented, clean),
        parts_over_clean=_over_clean(accounted, clean),
    )


def _over_clean(instrumented: Sequence[float], clean: Sequence[float]) -> float | None:
    """Instrumented seconds over those of the clean window before them; None without as many windows of both."""
    if not clean or not instrumented or len(instrumented) % len(clean):
        return None
    length = len(instrumented) // len(clean)
    windows = [instrumented[begin : begin + length] for begin in range(0, len(instrumented), length)]
    return median(fmean(window) / clean_s for window, clean_s in zip(windows, clean, strict=True))


def slowest(layers: Sequence[TracedLayer], count: int) -> list[TracedLayer]:
    """The layers with the longest forward and backward times together, the longest first."""
    return sorted(layers, key=layer_s, reverse=True)[:count]


def layer_s(layer: TracedLayer) -> float:
    """Median seconds of a layer, forward and backward together."""
    return (_median(layer.forward_s) or 0.0) + (_median(layer.backward_s) or 0.0)


def _per_iteration(by_layer: Sequence[Sequence[float]]) -> list[float]:
    """Sums over the layers; a layer without times, as imported ones may be, counts nothing."""
    return [sum(iteration) for iteration in zip(*(times for times in by_layer if times), strict=False)]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


# ---- checks ---------------------------------------------------------------------------------------------------------
# Whether a trace can be what it says: files from elsewhere hold whatever somebody wrote into them.

UNSIZED = "no-gradient-sizes"  # code of the warning of a trace without them
FASTEST_Bps, FASTEST_Hz = 1e18, 1e12


def refuse_unsound(trace: Trace, sending: Iterable[str] = ()) -> Trace:
    """The trace, or one sentence on what is wrong with it. `sending`: layers that it has to have."""
    for wrong in _mistakes(trace, set(sending)):
        raise FileError(f"{shortened(trace.source, 1000)}: {wrong}, so this is no trace")
    return trace


def _mistakes(trace: Trace, sending: set[str]) -> Iterator[str]:
    """What is wrong with a trace, a phrase each; `sending`: the layers that have gradients."""
    sizes = [batch.batch_size for batch in trace.batches]
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        yield f"its batch sizes are {sizes}"
    if trace.cpus is not None and trace.cpus < 1:
        yield f"its host has cpus={trace.cpus}"
    if trace.sm_clock_Hz is not None and not 1 <= trace.sm_clock_Hz <= FASTEST_Hz:
        yield f"its clock is {trace.sm_clock_Hz} Hz"
    for sent in trace.communication:
        yield from _of_communication(sent)
    sizes_missing = any(layer.gradient_bytes is None for batch in trace.batches for layer in batch.times.layers)
    if sizes_missing and trace.request is not None:
        yield "layers of a run have gradients of unknown size"
    for batch in trace.batches:
        yield from (f"batch {batch.batch_size}: {wrong}" for wrong in _of_batch(batch, sending))


def _of_batch(batch: TracedBatch, sending: set[str]) -> Iterator[str]:
    """What is wrong with one batch, a phrase each."""
    times = batch.times
    for name, seconds in _times(times):
        if not all(0 <= value <= LONGEST_s for value in seconds):
            yield f"{shortened(name)} has times that are negative or without end"
    if batch.communication_gpus < 0:
        yield f"its messages are between {batch.communication_gpus} GPUs"
    names = [layer.name for layer in times.layers]
    if len(set(names)) < len(names):
        yield "several layers have one name"
    if absent := sorted(sending - set(names)):
        yield f"the layers {', '.join(absent[:3])} of its workload are missing"
    if not sum(sum(layer.forward_s) + sum(layer.backward_s) for layer in times.layers) > 0:
        yield "no layer takes any time"
    if not all(0 <= (layer.gradient_bytes or 0) <= MOST_BYTES for layer in times.layers):
        yield "a layer has fewer than no bytes of gradients, or more than any memory"
    if not all(len(layer.products) in (0, 2) for layer in times.layers):
        yield "a layer has other shares of products than one forward and one backward"
    for name in ("step_s", "clean_step_s"):
        if (steps := getattr(times, name)) and min(steps) == 0:
            yield f"{name} has steps that took no time"
    if times.gradient_copy_Bps is not None and not 1 <= times.gradient_copy_Bps <= FASTEST_Bps:
        yield f"gradients are copied at {times.gradient_copy_Bps} B/s"


def _of_communication(sent: TracedCommunication) -> Iterator[str]:
    if sent.gpus < 1 or sent.batch_size < 0:
        yield f"messages of batch {sent.batch_size} over {sent.gpus} GPUs"
    for message in sent.messages:
        seconds = [*message.waiting_s, *message.transfer_s]
        if not (message.waiting_s and message.transfer_s and all(abs(value) <= LONGEST_s for value in seconds)):
            yield "a message has no times, or times without end"


def _times(times: LayerTimes) -> Iterator[tuple[str, list[float]]]:
    parts = (
        "input_s",
        "input_wait_s",
        "host_to_device_s",
        "update_s",
        "step_s",
        "clean_step_s",
        "host_s",
        "launching_s",
    )
    for part in parts:
        yield part, getattr(times, part) or []
    for layer in times.layers:
        yield f"layer {layer.name}", [*layer.forward_s, *layer.backward_s, *layer.communication_s]
