"""The settings of predictions, as what the model of prediction takes: systems, and how they train."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from resnetx import bounds
from resnetx.api.curves import Wanted
from resnetx.api.system_settings import SystemSettings
from resnetx.choices import After, Layerwise, Strategy
from resnetx.config import FIND, bytes_from, clock_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import measured
from resnetx.interconnect.collective import LIBRARIES
from resnetx.interconnect.measured import UNCALIBRATED, MeasuredCollective
from resnetx.interconnect.system import System
from resnetx.interconnect.what_if import link_kinds
from resnetx.prediction.job import Overlap
from resnetx.prediction.scenario import Fabric, TrainingSetup
from resnetx.settings.compose import struct_of
from resnetx.settings.verbs import group_of
from resnetx.study import Point
from resnetx.units import seconds

# Strategy and overlap of Shi et al. 2018, section IV-C.
FRAMEWORKS: dict[str, tuple[Strategy, Overlap]] = {
    "caffe-mpi": (Layerwise(), Overlap(input=True, host_to_device=True)),
    "cntk": (After(), Overlap(input=True, host_to_device=False)),
    "mxnet": (Layerwise(), Overlap(input=True, host_to_device=False)),
    "tensorflow": (Layerwise(), Overlap(input=True, host_to_device=False, parameters=True)),
}

# Those that were also used with a parameter server: with strategy=server they keep it, and only overlap is theirs.
# TensorFlow: `variable_update=parameter_server` of its benchmarks (docs_src/performance/benchmarks.md, 2017).
SERVERS = ("tensorflow",)

# Settings by which a point is predicted otherwise than its machine is described.
ASSUMED = ("clock", "framework", "gradients", "host_time", "memory", "overlap", "straggler", "what_if")


class _Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: bool
    host_to_device: bool
    parameters: bool


class _WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bandwidth: dict[str, float]
    latency: float


class PredictSettings(SystemSettings, frozen=True, kw_only=True):
    """The settings of a prediction that do not describe the workload."""

    framework: Literal["caffe-mpi", "cntk", "mxnet", "tensorflow"] | None
    overlap: _Overlap
    gradients: Literal["fp32", "bf16", "fp16"]
    straggler: float
    host_time: str | float
    image_bytes: str | int | None
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: str | float | None
    what_if: _WhatIf
    sensitivity: bool
    timeline: bool
    convention: str
    baseline: int


def split(given: Point) -> tuple[PredictSettings, Point]:
    """The settings of the prediction itself, and those that describe the workload."""
    own = {key: value for key, value in given.items() if group_of(key) in PredictSettings.__struct_fields__}
    settings = struct_of(own, PredictSettings, listed=("systems", "library"))
    _check(settings)
    return settings, {key: value for key, value in given.items() if key not in own}


def _check(settings: PredictSettings) -> None:
    for library in settings.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if settings.calibration not in (None, UNCALIBRATED) and len(settings.systems) * len(settings.library) > 1:
        raise ConfigError(f"calibration={settings.calibration}: valid for one system and one library; give one of each")


def wanted_of(settings: PredictSettings) -> Wanted:
    """What this verb's settings say of the points."""
    strategy = FRAMEWORKS[settings.framework][0] if settings.framework else None
    return Wanted(
        None if settings.devices is None else tuple(settings.devices),
        strategy,
        settings.convention,
        settings.baseline,
        settings.framework in SERVERS,
    )


def fabrics(settings: PredictSettings) -> list[Fabric]:
    """The systems that are asked for, each with every library."""
    settings.refuse_no_library()
    machines = settings.load(settings.systems)
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=[dgx1-p100,gx8]")
    _refuse_unknown_links(settings.what_if.bandwidth, machines)
    found = _measured(settings)
    return [_fabric(settings, machine, library, found) for machine in machines for library in settings.library]


def _fabric(
    settings: PredictSettings, machine: System, library: str | None, found: Mapping[int | None, MeasuredCollective]
) -> Fabric:
    there = link_kinds(machine)  # what another system alone has changes nothing here
    bandwidth = {kind: factor for kind, factor in settings.what_if.bandwidth.items() if kind in there}
    return Fabric(
        machine,
        library or machine.library,
        settings.transport,
        found,
        bandwidth,
        settings.what_if.latency,
        published=settings.calibration is None,
    )


def _refuse_unknown_links(bandwidth: Mapping[str, float], machines: Sequence[System]) -> None:
    """A kind of link that none of the systems has is a mistake."""
    known = dict.fromkeys(kind for machine in machines for kind in link_kinds(machine))
    for name in bandwidth:
        if name not in known:
            systems = " or ".join(machine.name for machine in machines)
            raise unknown_name(f"kind of link of {systems}", name, known, "what_if.bandwidth")


def setting_of(settings: PredictSettings) -> TrainingSetup:
    """How it is trained, as this verb's settings say."""
    overlap = Overlap(settings.overlap.input, settings.overlap.host_to_device, settings.overlap.parameters)
    return TrainingSetup(
        overlap=FRAMEWORKS[settings.framework][1] if settings.framework else overlap,
        gradients=settings.gradients,
        straggler=settings.straggler,
        host_s=_time(settings.host_time),
        image_bytes=_size("image_bytes", settings.image_bytes, "34kB"),
        memory_bytes=_size("memory", settings.memory, "16GB"),
        memory_model=settings.memory_model,
        clock_Hz=_clock_Hz(settings.clock),
        sensitivity=settings.sensitivity,
        timeline=settings.timeline,
    )


def _clock_Hz(given: str | float | None) -> float | None:
    if given == FIND:
        raise ConfigError(
            "clock=find: a prediction needs the value of a clock; `resnetx doctor clock=find` measures the "
            "highest that GPUs sustain; give it here, e.g. clock=1227MHz"
        )
    return None if given is None else clock_from(given)


def _measured(settings: PredictSettings) -> dict[int | None, MeasuredCollective]:
    """Measured all-reduces by the number of GPUs, to calibrate with."""
    return {} if settings.calibration in (None, UNCALIBRATED) else measured.by_gpus(settings.calibration, "allreduce")


def _time(given: str | float) -> float:
    try:
        host_s = seconds(given) if isinstance(given, str) else given
    except ValueError:
        raise ConfigError(f"host_time={given}: expected a duration, e.g. 0.03s") from None
    bounds.check({"host_time": host_s})
    return host_s


def _size(key: str, given: str | int | None, example: str) -> int | None:
    size_bytes: int | None = bytes_from(key, given, example)
    bounds.check({key: size_bytes})
    return size_bytes
