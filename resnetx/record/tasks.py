"""Tasks: what torchrun is started for, a run or a bench. Both are launched, end and are recorded in the same way.

The file of a task (`RunFile`, `BenchFile`) names the module that its ranks are started with and the record that it
leaves; nothing that launches, supervises or records a task asks of which kind it is.
"""

import statistics
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_origin

import msgspec

from resnetx.errors import prepared
from resnetx.launching import Launch
from resnetx.record.bench_record import BenchFile, BenchRecord, BenchRequest
from resnetx.record.machine import Device, Environment, HostLoad, LockedClock, Transport
from resnetx.record.run import Copies, GradientBucket, InputState, Phases, RunFile, RunRecord, Workload
from resnetx.record.sealing import LONGEST_s, Outcome, RecordError, RunFolder, SHORTEST_s, Unknown, Warning, read, seal
from resnetx.request import Request

TaskRecord = RunRecord | BenchRecord
Ended = TypeVar("Ended", bound=TaskRecord)
Ended_co = TypeVar("Ended_co", bound=TaskRecord, covariant=True)
File = TypeVar("File", RunFile, BenchFile)


class TaskFile(Protocol[Ended_co]):
    """The file of a task (`run.json`), which leaves a record of type `Ended_co`."""

    verb: ClassVar[str]
    entry_module: ClassVar[str]

    @property
    def request(self) -> Request | BenchRequest: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def launch(self) -> Launch | None: ...
    @property
    def record_type(self) -> type[Ended_co]: ...
    def opening(self, started: float) -> Mapping[str, Any]: ...


class RunOrBenchFile(msgspec.Struct):
    """The part of a `run.json` that says which of the two it is."""

    kind: str = "run"  # run files do not state it


def read_task(path: Path, wanted: type[File]) -> File:
    """The `run.json` of a run or of a bench; a `RecordError` where it is not what is wanted."""
    kind, other = read(path, RunOrBenchFile).kind, BenchFile if wanted is RunFile else RunFile
    if kind == ("run" if other is RunFile else "bench"):
        raise RecordError(
            f"{path}: a {kind}; start it with torchrun ... -m {other.entry_module}, or use `resnetx {other.verb}`"
        )
    return read(path, wanted)


def cut_short(task: TaskFile[Ended], started: float, outcome: Outcome, reason: str, **known: Any) -> Ended:
    """The record of a task that measured nothing; `known` are the fields that are known all the same.

    `started`: seconds since the epoch. How long it took is 0 unless `duration_s` is among the known.
    """
    kind = task.record_type
    missing = Unknown("the run ended before this was measured")
    nothing = {field.name: [] if get_origin(field.type) is list else missing for field in msgspec.structs.fields(kind)}
    ended = {"outcome": outcome, "reason": reason, "stderr_end": "", "duration_s": 0.0, "unknown": {}}
    return seal(kind(**{**nothing, **ended, **task.opening(started), **known}))


def json_schema(kind: Any = RunRecord) -> bytes:
    """The JSON Schema of a kind of record, generated from its structs."""
    schema = msgspec.json.schema(kind)
    return msgspec.json.format(msgspec.json.encode(schema, order="deterministic"), indent=2) + b"\n"


# The record of a study: which points it has, beside the folders of their runs.


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job during a run of the study, which was measured again."""

    run: str  # its folder
    started_at: str  # UTC, ISO 8601
    job: str
    ended: str  # "time limit"


class StudyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`study.json`: what a sweep was asked to measure, in the order in which people read it."""

    kind: Literal["study"]
    schema: int
    name: str
    about: str
    node: str
    points: list[Request]
    repeats: int  # runs of each point
    twins: int  # runs of each of its twins
    baseline: int  # GPUs of the denominator of speed-ups
    convention: str  # how activations and parameters are counted
    resnetx: str  # version
    stops: list[Stop] = []  # of earlier starts, the first one first
    benches: list[BenchRequest] = []  # that were to run between the points; each as often as a point


@dataclass(frozen=True)
class StudyFolder:
    """The names in a study's folder; nothing else in resnetx spells them."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.json"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    @property
    def report(self) -> Path:
        return self.path / "report"

    def run(self, slug: str, repeat: int) -> RunFolder:
        return RunFolder(self.path / f"{slug}_r{repeat}")

    def bench(self, request: BenchRequest, repeat: int) -> RunFolder:
        return RunFolder(self.path / "benches" / f"{request.slug}_{request.key}_r{repeat}")

    def benches(self) -> list[RunFolder]:
        """The folders of benches that have a record, by name."""
        return [RunFolder(path.parent) for path in sorted(self.path.glob("benches/*/record.json"))]

    def runs(self) -> list[RunFolder]:
        """The folders of runs that have a record, by name."""
        return [RunFolder(path.parent) for path in sorted(self.path.glob("*/record.json"))]


# Summaries of run records, as reports need them: decoded without samples, and with each environment once.

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
    copies: Copies | None = None
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
        decoded = read(folder.record, _Decoded, "a record of a run")
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
