"""What a workload would do on systems that you do not have: from traces of one GPU, or from published rates."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

import msgspec

from resnetx import bounds, progress
from resnetx.api import drawings
from resnetx.api.curves import Curve, Wanted, curves
from resnetx.api.folders import new_folder
from resnetx.choices import After, Layerwise, Strategy, SyntheticInput
from resnetx.config import FIND, bytes_from, clock_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.formats import chrome
from resnetx.host import node_name
from resnetx.interconnect import measured, system
from resnetx.interconnect.collective import LIBRARIES
from resnetx.interconnect.measured import MeasuredCollective
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import System
from resnetx.interconnect.what_if import link_kinds
from resnetx.prediction import provenance
from resnetx.prediction.iteration import HOST_ERROR
from resnetx.prediction.job import Overlap
from resnetx.prediction.provenance import UNCHECKED, RecordInput, SourcedPoint
from resnetx.prediction.scenario import Fabric, TrainingSetup
from resnetx.prediction.speedup import curve
from resnetx.record import Unknown
from resnetx.record.prediction import PredictedPoint, Prediction, prediction_file
from resnetx.settings import keywords
from resnetx.settings.compose import asked as settings_asked
from resnetx.settings.compose import struct_of
from resnetx.settings.verbs import group_of
from resnetx.settings.words import written
from resnetx.study import Point
from resnetx.units import seconds

# Strategy and overlap of Shi et al. 2018, section IV-C.
FRAMEWORKS: dict[str, tuple[Strategy, Overlap]] = {
    "caffe-mpi": (Layerwise(), Overlap(input=True, host_to_device=True)),
    "cntk": (After(), Overlap(input=True, host_to_device=False)),
    "mxnet": (Layerwise(), Overlap(input=True, host_to_device=False)),
    "tensorflow": (Layerwise(), Overlap(input=True, host_to_device=False)),
}

# Settings by which a point is predicted otherwise than its machine is described.
ASSUMED = ("clock", "framework", "gradients", "host_time", "memory", "overlap", "straggler", "what_if")


class _Overlap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input: bool
    host_to_device: bool


class _WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bandwidth: dict[str, float]
    latency: float


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of this verb that say nothing of the workload."""

    systems: list[str]
    nodes: int | None
    network: str | None
    nics: int | None
    devices: list[int] | None
    transport: Transport
    library: list[str | None]
    calibration: str | None
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
    results: str  # where the record is kept, in a folder of its own, if it is given and `out` is not
    out: str | None


def predict(*traces: keywords.Text, **settings: Unpack[keywords.Predict]) -> Prediction:
    """Predicts each point of the workloads on each system; kept on disk where `out` or `results` says.

    `traces`: folders that `trace` has made, or files of layer times; without any, compute is estimated from published
    rates.

    >>> import resnetx
    >>> made = resnetx.predict(systems=["dgx1-p100"], model="alexnet", batch_size=256, gpus=[1, 8])
    >>> [point.outcome for point in made.points]
    ['ok', 'ok']
    """
    given = settings_asked("predict", settings)
    made = predicted(list(map(Path, traces)), given)
    if folder := kept_in(given):
        store(made, folder)
    return made


def kept_in(given: Point) -> Path | None:
    """The folder for the record, if it is to be kept."""
    if given.get("out"):
        return Path(str(given["out"]))
    return new_folder(Path(str(given["results"])) / node_name() / "predict") if "results" in given else None


def store(made: Prediction, folder: Path) -> None:
    """Writes the record; and its timelines, if it has any, as figures and for chrome://tracing and Perfetto."""
    drawings.store_record(folder, prediction_file(folder), made)
    drawn = [point for point in made.points if point.timeline]
    if not drawn:
        return
    from resnetx.reporting.charts import timelines

    named = {f"{place + 1}. {_name(point)}": point.timeline for place, point in enumerate(drawn)}
    (folder / "timeline.json").write_bytes(chrome.encode(named))
    progress.command(f"timeline: {folder / 'timeline.json'} (chrome://tracing, Perfetto)")
    drawings.store(timelines.timelines(drawn), folder)


def _name(point: PredictedPoint) -> str:
    gpus = f"{point.gpus} GPU{'s' * (point.gpus != 1)}"
    on = f"{gpus} of {point.system}, {point.library}"
    return f"{point.workload}, batch {point.batch_size}, {point.strategy}, {on}"


def predicted(paths: Sequence[Path], given: Point) -> Prediction:
    """The predictions that settings ask for; the traces are at `paths`."""
    asked, workload = split(given)
    on, setting = fabrics(asked), setting_of(asked)
    asked_of = list(curves(paths, workload, wanted_of(asked)))
    _refuse_unsaid(on[0].measured, asked_of, asked.calibration)
    _refuse_unread(setting.image_bytes, asked_of)
    points = points_on(on, asked_of, setting)
    if not any(sourced.point.outcome == "ok" for sourced in points):
        raise ConfigError(points[0].point.reason)
    inputs = list(provenance.inputs_of(points, [*_unasked(asked_of), *_asked_for(given)]))
    return provenance.prediction(points, inputs, {"words": " ".join([*map(str, paths), *written(given)])})


def points_on(on: Sequence[Fabric], asked_of: Sequence[Curve], setting: TrainingSetup) -> list[SourcedPoint]:
    """Every point: of each system and library in turn."""
    return [
        point
        for fabric in on
        for each in asked_of
        for point in curve(each.subject, fabric, each.points, each.baseline, setting)
    ]


def _unasked(asked_of: Sequence[Curve]) -> Iterator[RecordInput]:
    """What is assumed of imported traces, each thing once."""
    yield from dict.fromkeys(line for each in asked_of for line in each.assumed)


def _asked_for(given: Point) -> Iterator[RecordInput]:
    """The settings that were asked for instead of what is described."""
    for word in written(given):
        key, _, value = word.partition("=")
        if group_of(key) in ASSUMED:
            error = HOST_ERROR if key == "host_time" else Unknown(UNCHECKED)
            yield RecordInput(key, value, "assumed", "asked for", error)


# ---- the settings ---------------------------------------------------------------------------------------------------


def split(given: Point) -> tuple[Asked, Point]:
    """The settings of the prediction itself, and those that describe the workload."""
    own = {key: value for key, value in given.items() if group_of(key) in Asked.__struct_fields__}
    asked = struct_of(own, Asked, listed=("systems", "library"))
    _check(asked)
    return asked, {key: value for key, value in given.items() if key not in own}


def _check(asked: Asked) -> None:
    for library in asked.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if asked.calibration is not None and len(asked.systems) * len(asked.library) > 1:
        raise ConfigError(f"calibration={asked.calibration}: valid for one system and one library; give one of each")


def wanted_of(asked: Asked) -> Wanted:
    """What this verb's settings say of the points."""
    strategy = FRAMEWORKS[asked.framework][0] if asked.framework else None
    return Wanted(None if asked.devices is None else tuple(asked.devices), strategy, asked.convention, asked.baseline)


def fabrics(asked: Asked) -> list[Fabric]:
    """The systems that are asked for, each with every library."""
    if not asked.library:
        raise ConfigError("library=[]: expected generations, as library=[nccl1,nccl2], or null for the system's own")
    machines = [system.load(name, asked.nodes, asked.network, asked.nics) for name in asked.systems]
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=[dgx1-p100,gx8]")
    _refuse_unknown_links(asked.what_if.bandwidth, machines)
    found = _measured(asked)
    return [_fabric(asked, machine, library, found) for machine in machines for library in asked.library]


def _fabric(
    asked: Asked, machine: System, library: str | None, found: Mapping[int | None, MeasuredCollective]
) -> Fabric:
    there = link_kinds(machine)  # what another system alone has changes nothing here
    bandwidth = {kind: factor for kind, factor in asked.what_if.bandwidth.items() if kind in there}
    return Fabric(machine, library or machine.library, asked.transport, found, bandwidth, asked.what_if.latency)


def _refuse_unknown_links(bandwidth: Mapping[str, float], machines: Sequence[System]) -> None:
    """A kind of link that none of the systems has is a mistake."""
    known = dict.fromkeys(kind for machine in machines for kind in link_kinds(machine))
    for name in bandwidth:
        if name not in known:
            systems = " or ".join(machine.name for machine in machines)
            raise unknown_name(f"kind of link of {systems}", name, known, "what_if.bandwidth")


def setting_of(asked: Asked) -> TrainingSetup:
    """How it is trained, as this verb's settings say."""
    overlap = Overlap(asked.overlap.input, asked.overlap.host_to_device)
    return TrainingSetup(
        overlap=FRAMEWORKS[asked.framework][1] if asked.framework else overlap,
        gradients=asked.gradients,
        straggler=asked.straggler,
        host_s=_time(asked.host_time),
        image_bytes=_size("image_bytes", asked.image_bytes, "34kB"),
        memory_bytes=_size("memory", asked.memory, "16GB"),
        memory_model=asked.memory_model,
        clock_Hz=_clock_Hz(asked.clock),
        sensitivity=asked.sensitivity,
        timeline=asked.timeline,
    )


def _clock_Hz(given: str | float | None) -> float | None:
    if given == FIND:
        raise ConfigError(
            "clock=find: a prediction needs the value of a clock; `resnetx doctor clock=find` measures the "
            "highest that GPUs sustain; give it here, e.g. clock=1227MHz"
        )
    return None if given is None else clock_from(given)


def _measured(asked: Asked) -> dict[int | None, MeasuredCollective]:
    """Measured all-reduces by the number of GPUs, to calibrate with."""
    return {} if asked.calibration is None else measured.by_gpus(asked.calibration, "allreduce")


def _refuse_unsaid(
    found: Mapping[int | None, MeasuredCollective], asked_of: Sequence[Curve], calibration: str | None
) -> None:
    """All-reduces on an unknown number of GPUs can be those of one number, not of several."""
    counts = sorted({len(devices) for each in asked_of for devices, _ in each.points if len(devices) > 1})
    if None in found and len(counts) > 1:
        raise ConfigError(
            f"calibration={calibration}: does not state its number of GPUs, and several are requested: "
            f"gpus={counts}; request one of them, or add it (`gpus: 8` in YAML, `resnetx bench --import ... gpus=8`)"
        )


def _refuse_unread(image_bytes: int | None, asked_of: Sequence[Curve]) -> None:
    """The size of stored images says something only where images are read."""
    if image_bytes is None:
        return
    requests = [each.subject.request for each in asked_of]
    if not any(request and not isinstance(request.input, SyntheticInput) for request in requests):
        raise ConfigError(f"image_bytes={image_bytes}: no images are read with input=synthetic; add input=dali")


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
