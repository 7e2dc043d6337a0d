"""Run records as reports need them: the parts that are compared, without the samples they come from.

A study has thousands of records of many kilobytes; most of each is environment, which hardly differs, and sensor
samples, of which reports want the median. Reading decodes only what is kept, and keeps each environment once.
"""

import statistics
from pathlib import Path
from typing import Any

import msgspec

from resnetx.config import Request
from resnetx.record.files import RunFolder, read
from resnetx.record.run import (
    Device,
    Environment,
    GradientBucket,
    HostLoad,
    InputState,
    Outcome,
    Phases,
    Transport,
    Warning,
    Workload,
)


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What reports read of one run. Fields that are not explained here are those of `RunRecord`."""

    folder: Path
    request: Request
    key: str
    repeat: int
    workload: Workload | None
    outcome: Outcome
    reason: str
    started_at: str
    duration_s: float
    rates: list[float]  # images/s of each window: the images of all ranks / the time of the slowest; [] where none
    phases: Phases | None
    buckets: list[GradientBucket] | None
    sm_clock_Hz: float | None  # median over samples and GPUs
    gpu_busy: float | None  # mean over samples and GPUs
    energy_J: float | None  # all GPUs, over the windows
    peak_memory_bytes: int | None  # of the rank that needed most
    host_load: HostLoad | None
    transport: Transport | None
    input_state: InputState | None
    devices: list[Device] | None
    warnings: list[Warning]
    environment: Environment | None

    @property
    def images_per_s(self) -> float | None:
        """The rate over all windows: windows have the same work, so it is their harmonic mean."""
        return len(self.rates) / sum(1 / rate for rate in self.rates) if self.rates else None


class _GpuSamples(msgspec.Struct):
    sm_clock_Hz: list[float] | None
    busy: list[float] | None
    energy_J: float | None


class _Projection(msgspec.Struct):
    """The fields of a record that are decoded at all."""

    schema: int
    request: Request
    request_key: str
    repeat: int
    workload: Workload | None
    outcome: Outcome
    reason: str
    started_at: str
    duration_s: float
    windows_s: list[list[float]] | None
    phases: Phases | None
    buckets: list[GradientBucket] | None
    gpu_samples: list[_GpuSamples | None] | None
    peak_memory_bytes: list[int] | None
    host_load: HostLoad | None
    transport: Transport | None
    input_state: InputState | None
    devices: list[Device] | None
    warnings: list[Warning]
    environment: msgspec.Raw


class BriefReader:
    """Reads records, and keeps what many of them share once."""

    def __init__(self) -> None:
        self._environments: dict[bytes, Environment | None] = {}
        self._shared: dict[Any, Any] = {}

    def __call__(self, folder: RunFolder) -> Brief:
        """The brief of one run, or a `RecordError` that says what is wrong with its file."""
        found: _Projection = read(folder.record, _Projection)
        samples = [each for each in found.gpu_samples or [] if each]
        clocks = [clock for each in samples for clock in each.sm_clock_Hz or []]
        busy = [share for each in samples for share in each.busy or []]
        energies = [each.energy_J for each in samples if each.energy_J is not None]
        return Brief(
            folder=folder.path,
            request=self._once(found.request_key, found.request),
            key=found.request_key,
            repeat=found.repeat,
            workload=self._once((found.request_key, found.workload.convention), found.workload)
            if found.workload
            else None,
            outcome=found.outcome,
            reason=found.reason,
            started_at=found.started_at,
            duration_s=found.duration_s,
            rates=_rates(found),
            phases=found.phases,
            buckets=found.buckets,
            sm_clock_Hz=statistics.median(clocks) if clocks else None,
            gpu_busy=statistics.fmean(busy) if busy else None,
            energy_J=sum(energies) if energies and len(energies) == len(found.gpu_samples or []) else None,
            peak_memory_bytes=max(found.peak_memory_bytes) if found.peak_memory_bytes else None,
            host_load=found.host_load,
            transport=found.transport,
            input_state=found.input_state,
            devices=found.devices,
            warnings=found.warnings,
            environment=self._environment(bytes(found.environment)),
        )

    def _once(self, key: Any, value: Any) -> Any:
        """The first of all values that are equal because their keys are."""
        return self._shared.setdefault(key, value)

    def _environment(self, text: bytes) -> Environment | None:
        if text not in self._environments:
            self._environments[text] = msgspec.json.decode(text, type=Environment | None)
        return self._environments[text]


def _rates(found: _Projection) -> list[float]:
    if found.outcome != "ok" or not found.windows_s:
        return []
    images = found.request.steps * found.request.batch_size
    return [images / max(ranks) for ranks in zip(*found.windows_s, strict=True)]
