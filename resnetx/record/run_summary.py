"""Summaries of run records, as reports need them: what is compared, without the samples that it comes from.

A study has thousands of records of many kilobytes; most of each is environment, which hardly differs, and sensor
samples, of which reports want the median. Reading decodes only what is kept, and keeps each environment once.
"""

import statistics
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from resnetx.errors import prepared
from resnetx.record.files import RecordError, RunFolder, read
from resnetx.record.limits import LONGEST_s, SHORTEST_s
from resnetx.record.machine import Device, Environment
from resnetx.record.outcome import Outcome, Warning
from resnetx.record.phases import GradientBucket, Phases
from resnetx.record.readings import HostLoad, LockedClock
from resnetx.record.run import InputState, Workload
from resnetx.record.transport import Transport
from resnetx.request import Request

T = TypeVar("T")


class _Copied(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `RunRecord` that reports read as they are."""

    request: Request
    repeat: int
    workload: Workload | None
    outcome: Outcome
    reason: str
    started_at: str
    duration_s: float
    phases: Phases | None
    buckets: list[GradientBucket] | None
    host_load: HostLoad | None
    clock: LockedClock | None = None
    transport: Transport | None
    input_state: InputState | None
    devices: list[Device] | None
    kernels_s: list[float] | None = None
    warnings: list[Warning]
    window_steps: int | None = None

    @property
    def steps_per_window(self) -> int:
        """See `RunRecord.steps_per_window`."""
        return self.window_steps or self.request.steps


class RunSummary(_Copied, frozen=True, kw_only=True):
    """What reports read of one run."""

    folder: Path
    key: str  # of the request
    rates: list[float]  # images/s of each window: the images of all ranks / the time of the slowest; [] where none
    rank_step_s: float | None  # seconds of a step, the mean over ranks and windows
    sm_clock_Hz: float | None  # median over samples and GPUs
    energy_J: float | None  # all GPUs, over the windows
    peak_memory_bytes: int | None  # of the rank that needed most
    environment: Environment | None

    @property
    def images_per_s(self) -> float | None:
        """The rate over all windows: windows have the same work, so it is their harmonic mean."""
        return len(self.rates) / sum(1 / rate for rate in self.rates) if self.rates else None


class _GpuSamples(msgspec.Struct):
    sm_clock_Hz: list[float] | None
    energy_J: float | None


class _Decoded(_Copied, frozen=True, kw_only=True):
    """All fields of a record that are decoded."""

    request_key: str
    windows_s: list[list[float]] | None
    gpu_samples: list[_GpuSamples | None] | None
    peak_memory_bytes: list[int] | None
    environment: msgspec.Raw


class RunSummaryReader:
    """Reads records, and keeps what many of them share once."""

    def __init__(self) -> None:
        self._environments: dict[bytes, Environment | None] = {}
        self._shared: dict[Hashable, Any] = {}

    def __call__(self, folder: RunFolder) -> RunSummary:
        """The summary of one run, or a `RecordError` that says what is wrong with its file."""
        decoded: _Decoded = read(folder.record, _Decoded)
        try:
            rates, environment = _rates(decoded), self._environment(bytes(decoded.environment))
        except ValueError as error:  # msgspec's are of this kind, too
            raise RecordError(f"{folder.record}: not a record of a run ({error})") from None
        gpus = [samples for samples in decoded.gpu_samples or [] if samples]
        clocks = [clock for samples in gpus for clock in samples.sm_clock_Hz or []]
        energies = [samples.energy_J for samples in gpus if samples.energy_J is not None]
        copied = {field: getattr(decoded, field) for field in _Copied.__struct_fields__}
        copied["request"] = self._once(decoded.request_key, decoded.request)
        if decoded.workload:
            copied["workload"] = self._once((decoded.request_key, decoded.workload.convention), decoded.workload)
        return RunSummary(
            **copied,
            folder=folder.path,
            key=decoded.request_key,
            rates=rates,
            rank_step_s=_rank_step_s(decoded) if rates else None,
            sm_clock_Hz=statistics.median(clocks) if clocks else None,
            energy_J=sum(energies) if energies and len(energies) == len(decoded.gpu_samples or []) else None,
            peak_memory_bytes=max(decoded.peak_memory_bytes) if decoded.peak_memory_bytes else None,
            environment=environment,
        )

    def _once(self, key: Hashable, value: T) -> T:
        """The first of all values that are equal because their keys are."""
        first: T = self._shared.setdefault(key, value)
        return first

    def _environment(self, text: bytes) -> Environment | None:
        if text not in self._environments:
            self._environments[text] = msgspec.json.decode(text, type=prepared(Environment | None))
        return self._environments[text]


def _rank_step_s(decoded: _Decoded) -> float:
    windows_s = [time_s for windows in decoded.windows_s or [] for time_s in windows]
    return statistics.fmean(windows_s) / decoded.steps_per_window


def _rates(decoded: _Decoded) -> list[float]:
    """See `RunSummary.rates`; a `ValueError` where the windows cannot be those of a run."""
    if decoded.outcome != "ok" or not decoded.windows_s:
        return []
    if len(counts := {len(windows) for windows in decoded.windows_s}) > 1:
        raise ValueError(f"windows_s: ranks have different numbers of windows, {min(counts)} to {max(counts)}")
    images = decoded.steps_per_window * decoded.request.batch_size
    slowest_s = [max(ranks) for ranks in zip(*decoded.windows_s, strict=True)]
    if images < 1 or not all(SHORTEST_s < time_s < LONGEST_s for time_s in slowest_s):
        raise ValueError(f"windows_s: {images} images in {min(slowest_s)} s give no rate")
    return [images / time_s for time_s in slowest_s]
