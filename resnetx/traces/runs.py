"""From the runs below a folder to traces: what `predict` reads of measurements.

Runs with measure=layers are the batches of a trace; runs with measure=phases on several ranks are its communication.
Runs belong to one trace if their requests differ in nothing but batch, GPUs and strategy, and how long they measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec

from resnetx.choices import NoExchange
from resnetx.errors import ConfigError
from resnetx.loading import is_folder
from resnetx.record.base import SCHEMA
from resnetx.record.files import RecordError, RunFolder, read
from resnetx.record.phases import GradientBucket
from resnetx.record.run import RunRecord
from resnetx.record.trace import Trace, TracedBatch, TracedCommunication, TracedMessage
from resnetx.record.unknown import nulls
from resnetx.request import Request

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
        split="even", warmup=1, steps=1, windows=1,
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
        head: _Head = read(path, _Head)
        asked = head.request if isinstance(head.request, dict) else {}
        if head.kind != "run" or head.outcome != "ok" or asked.get("measure") not in ("layers", "phases"):
            continue
        record: RunRecord = read(path, RunRecord)
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
        clock for run in layered for each in run.record.gpu_samples or [] if each for clock in each.sm_clock_Hz or []
    ]
    if not clocks:
        unknown["sm_clock_Hz"] = first.unknown.get("gpu_samples", _NOT_SAID)
    if first.environment is None:
        unknown |= dict.fromkeys(("cpu", "cpus", "software"), first.unknown.get("environment", _NOT_SAID))
    if not first.devices:
        unknown["device"] = first.unknown.get("devices", _NOT_SAID)
    batches = [_batch(run.record, f"batches.{place}", unknown) for place, run in enumerate(layered)]
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
