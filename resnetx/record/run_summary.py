"""Run records as reports need them: the parts that are compared, without the samples they come from.

A study has thousands of records of many kilobytes; most of each is environment, which hardly differs, and sensor
samples, of which reports want the median. Reading decodes only what is kept, and keeps each environment once.
"""

import statistics
from pathlib import Path
from typing import Any

import msgspec

from resnetx.record.files import RecordError, RunFolder, read
from resnetx.record.limits import LONGEST_s, SHORTEST_s
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
from resnetx.request import Request


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
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


class Brief(_Kept, frozen=True, kw_only=True):
    """What reports read of one run."""

    folder: Path
    key: str  # of the request
    rates: list[float]  # images/s of each window: the images of all ranks / the time of the slowest; [] where none
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


class _Projection(_Kept, frozen=True, kw_only=True):
    """The fields of a record that are decoded at all."""

    request_key: str
    windows_s: list[list[float]] | None
    gpu_samples: list[_GpuSamples | None] | None
    peak_memory_bytes: list[int] | None
    environment: msgspec.Raw


class BriefReader:
    """Reads records, and keeps what many of them share once."""

    def __init__(self) -> None:
        self._environments: dict[bytes, Environment | None] = {}
        self._shared: dict[Any, Any] = {}

    def __call__(self, folder: RunFolder) -> Brief:
        """The brief of one run, or a `RecordError` that says what is wrong with its file."""
        found: _Projection = read(folder.record, _Projection)
        try:
            rates, environment = _rates(found), self._environment(bytes(found.environment))
        except ValueError as error:  # msgspec's are of this kind, too
            raise RecordError(f"{folder.record}: not a record of a run ({error})") from None
        samples = [each for each in found.gpu_samples or [] if each]
        clocks = [clock for each in samples for clock in each.sm_clock_Hz or []]
        energies = [each.energy_J for each in samples if each.energy_J is not None]
        kept = {field: getattr(found, field) for field in _Kept.__struct_fields__}
        kept["request"] = self._once(found.request_key, found.request)
        if found.workload:
            kept["workload"] = self._once((found.request_key, found.workload.convention), found.workload)
        return Brief(
            **kept,
            folder=folder.path,
            key=found.request_key,
            rates=rates,
            sm_clock_Hz=statistics.median(clocks) if clocks else None,
            energy_J=sum(energies) if energies and len(energies) == len(found.gpu_samples or []) else None,
            peak_memory_bytes=max(found.peak_memory_bytes) if found.peak_memory_bytes else None,
            environment=environment,
        )

    def _once(self, key: Any, value: Any) -> Any:
        """The first of all values that are equal because their keys are."""
        return self._shared.setdefault(key, value)

    def _environment(self, text: bytes) -> Environment | None:
        if text not in self._environments:
            self._environments[text] = msgspec.json.decode(text, type=Environment | None)
        return self._environments[text]


def _rates(found: _Projection) -> list[float]:
    """See `Brief.rates`; a `ValueError` where the windows cannot be those of a run."""
    if found.outcome != "ok" or not found.windows_s:
        return []
    if len(counts := {len(windows) for windows in found.windows_s}) > 1:
        raise ValueError(f"windows_s: ranks have different numbers of windows, {min(counts)} to {max(counts)}")
    images = found.steps_per_window * found.request.batch_size
    slowest_s = [max(ranks) for ranks in zip(*found.windows_s, strict=True)]
    if images < 1 or not all(SHORTEST_s < time_s < LONGEST_s for time_s in slowest_s):
        raise ValueError(f"windows_s: {images} images in {min(slowest_s)} s give no rate")
    return [images / time_s for time_s in slowest_s]
