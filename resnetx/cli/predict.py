"""`predict`: what a workload would do on systems that nobody here owns."""

import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx.cli import show, show_predict, subjects
from resnetx.cli.compose import chosen, group_of, settings
from resnetx.cli.subjects import Curve, Wanted
from resnetx.cli.topology import NO_USE, TRANSPORTS
from resnetx.cli.validate import validate_
from resnetx.config import After, Layerwise, Strategy
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect import measured, system
from resnetx.interconnect.collective import LIBRARIES
from resnetx.interconnect.measured import Measured
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import System
from resnetx.predict import records, validation
from resnetx.predict.curve import curve
from resnetx.predict.point import Fabric, Setting
from resnetx.predict.ssgd import Overlap
from resnetx.record.prediction import Prediction
from resnetx.units import seconds, size

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
    transport: str
    library: list[str | None]
    calibration: str | None
    framework: Literal["caffe-mpi", "cntk", "mxnet", "tensorflow"] | None
    overlap: _Overlap
    gradients: Literal["fp32", "bf16", "fp16"]
    straggler: float
    host_time: str | float
    memory: str | int | None
    memory_model: Literal["torch", "caffe"]
    clock: float | None
    what_if: _WhatIf
    sensitivity: bool
    timeline: bool
    convention: str
    baseline: int
    out: str | None


def predict_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Predicts, shows what is predicted, and stores it where `out` says."""
    if options.validate:
        return validate_(options, [*overrides, *map(str, paths)], validation, show_predict.validation)
    show.begin(options)
    made = predicted(paths, overrides)
    asked, _ = _split(overrides)
    if options.json:
        show.json_lines(made.points)
    else:
        show_predict.prediction(made)
    if asked.out:
        show_predict.store(made, Path(asked.out))
    elif not options.json:
        what = "Not stored, and no timeline is drawn" if asked.timeline else "Not stored"
        show.say(f"{what}: add out=FOLDER to keep the record, which is dated and lists every source.", show.err)
    return 0


def predicted(paths: Sequence[Path], overrides: list[str]) -> Prediction:
    """The predictions that the words of a command line ask for; the traces are at `paths`."""
    asked, words = _split(overrides)
    if not asked.library:
        raise ConfigError("library=[]: expected generations, as library=[nccl1,nccl2], or null for the system's own")
    machines = [system.load(name, asked.nodes, asked.network, asked.nics) for name in asked.systems]
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=[dgx1-p100,gx8]")
    asked_of, found, setting = list(subjects.curves(paths, words, _wanted(asked))), _measured(asked), _setting(asked)
    _refuse_unsaid(found, asked_of, asked.calibration)
    points: list[dict[str, Any]] = []
    for machine in machines:
        for library in asked.library:
            fabric = _fabric(asked, machine, library, found)
            for each in asked_of:
                points += curve(each.subject, fabric, each.points, each.baseline, setting)
    if not any(point["outcome"] == "ok" for point in points):
        raise ConfigError(points[0]["reason"])
    words_asked = {word.partition("=")[0]: word.partition("=")[2] for word in overrides if group_of(word) in ASSUMED}
    inputs = list(records.inputs_of(points, words_asked))
    return records.prediction(points, inputs, {"words": " ".join([*map(str, paths), *overrides])})


# ---- the settings ---------------------------------------------------------------------------------------------------


def _split(overrides: list[str]) -> tuple[Asked, list[str]]:
    """The settings of this verb, and the words that describe the workload."""
    own = [word for word in overrides if group_of(word) in (*Asked.__struct_fields__, *NO_USE)]
    asked = settings("predict", chosen(own), Asked, listed=("systems", "library"), also=NO_USE)
    _check(asked)
    return asked, [word for word in overrides if word not in own]


def _check(asked: Asked) -> None:
    if asked.transport not in TRANSPORTS:
        raise unknown_name("transport", asked.transport, TRANSPORTS, "transport")
    for library in asked.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if asked.calibration is not None and len(asked.systems) * len(asked.library) > 1:
        raise ConfigError(f"calibration={asked.calibration}: measured on one system and library; ask for one of each")
    above_0 = {f"what_if.bandwidth.{kind}": factor for kind, factor in asked.what_if.bandwidth.items()}
    above_0 |= {"what_if.latency": asked.what_if.latency, "clock": 1.0 if asked.clock is None else asked.clock}
    for key, given in above_0.items():
        if not 0 < given < math.inf:
            raise ConfigError(f"{key}={given:g}: expected more than 0")
    if asked.baseline < 1:
        raise ConfigError(f"baseline={asked.baseline}: expected a number of GPUs, 1 or more")
    if not 1 <= asked.straggler < math.inf:
        raise ConfigError(f"straggler={asked.straggler:g}: expected 1 or more")


def _wanted(asked: Asked) -> Wanted:
    strategy = FRAMEWORKS[asked.framework][0] if asked.framework else None
    return Wanted(None if asked.devices is None else tuple(asked.devices), strategy, asked.convention, asked.baseline)


def _fabric(asked: Asked, machine: System, library: str | None, found: Mapping[int | None, Measured]) -> Fabric:
    transport: Transport = TRANSPORTS[asked.transport]
    what_if = asked.what_if
    return Fabric(machine, library or machine.library, transport, found, what_if.bandwidth, what_if.latency)


def _setting(asked: Asked) -> Setting:
    overlap = Overlap(asked.overlap.input, asked.overlap.host_to_device)
    return Setting(
        overlap=FRAMEWORKS[asked.framework][1] if asked.framework else overlap,
        gradients=asked.gradients,
        straggler=asked.straggler,
        host_s=_time(asked.host_time),
        memory_bytes=_memory(asked.memory),
        memory_model=asked.memory_model,
        clock_Hz=None if asked.clock is None else asked.clock * 1e6,
        sensitivity=asked.sensitivity,
        timeline=asked.timeline,
    )


def _measured(asked: Asked) -> dict[int | None, Measured]:
    """Measured all-reduces by the number of GPUs, to calibrate with."""
    return {} if asked.calibration is None else measured.by_gpus(asked.calibration, "allreduce")


def _refuse_unsaid(found: Mapping[int | None, Measured], asked_of: Sequence[Curve], calibration: str | None) -> None:
    """All-reduces on an unknown number of GPUs can be those of one number, not of several."""
    counts = sorted({len(devices) for each in asked_of for devices, _ in each.points if len(devices) > 1})
    if None in found and len(counts) > 1:
        raise ConfigError(
            f"calibration={calibration}: does not say on how many GPUs it was measured, so it cannot be for all of "
            f"gpus={counts}; ask for one of them, or say it (`gpus: 8` in YAML, `resnetx bench --import ... gpus=8`)"
        )


def _time(given: str | float) -> float:
    try:
        return seconds(given) if isinstance(given, str) else given
    except ValueError:
        raise ConfigError(f"host_time={given}: expected a duration, as 0.03s") from None


def _memory(given: str | int | None) -> int | None:
    try:
        return None if given is None else size(str(given))
    except ValueError:
        raise ConfigError(f"memory={given}: expected a size, as 16GB") from None
