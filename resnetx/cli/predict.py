"""`predict`: what a workload would do on systems that nobody here owns."""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from resnetx import study, workloads
from resnetx.cli import show, show_predict
from resnetx.cli.compose import chosen, compose, points_of, settings
from resnetx.cli.topology import TRANSPORTS
from resnetx.config import After, ConfigError, Layerwise, Request, check, request_from, unknown_name
from resnetx.host import node_name
from resnetx.interconnect import measured, system
from resnetx.interconnect.collective import LIBRARIES
from resnetx.interconnect.measured import Measured
from resnetx.interconnect.paths import Transport
from resnetx.interconnect.system import System
from resnetx.predict import records, validation
from resnetx.predict.curve import Asked as AskedPoint
from resnetx.predict.curve import curve
from resnetx.predict.point import Fabric, Setting, Subject
from resnetx.predict.ssgd import Overlap
from resnetx.record.prediction import Prediction
from resnetx.record.trace import Trace
from resnetx.units import seconds, size

# Strategy and overlap of Shi et al. 2018, section IV-C.
FRAMEWORKS = {
    "caffe-mpi": (Layerwise(), Overlap(input=True, host_to_device=True)),
    "cntk": (After(), Overlap(input=True, host_to_device=False)),
    "mxnet": (Layerwise(), Overlap(input=True, host_to_device=False)),
    "tensorflow": (Layerwise(), Overlap(input=True, host_to_device=False)),
}
OF_THE_POINT = ("batch_size", "gpus", "scaling", "split", "strategy")  # settings that a trace leaves open


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
    results: str
    out: str | None


def predict_(options: Namespace, paths: list[Path], overrides: list[str]) -> int:
    """Predicts, stores the record, and shows it; status 1 where no point can be predicted."""
    if options.validate:
        return _validate(options, [*overrides, *map(str, paths)])
    made = predicted(paths, overrides)
    asked, _ = _split(overrides)
    folder = Path(asked.out) if asked.out else Path(asked.results) / node_name() / "predict" / _now()
    if options.json:
        show.json_lines(made.points)
    else:
        show_predict.prediction(made)
    show_predict.store(made, folder)
    return 0 if any(point.outcome == "ok" for point in made.points) else 1


def _validate(options: Namespace, words: list[str]) -> int:
    """Predictions beside published training rates; status 1 where a group of them is missed by more than it may."""
    if words:
        raise ConfigError(f"{words[0]}: --validate takes nothing else")
    rows = validation.validate()
    summaries = validation.summaries(rows)
    if options.json:
        show.json_lines(rows)
    else:
        show_predict.validation(rows, summaries)
    return 0 if all(summary.holds for summary in summaries) else 1


def _now() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]


def predicted(paths: Sequence[Path], overrides: list[str]) -> Prediction:
    """The predictions that the words of a command line ask for; the traces are at `paths`."""
    asked, words = _split(overrides)
    machines = [system.load(name, asked.nodes, asked.network, asked.nics) for name in asked.systems]
    if not machines:
        raise ConfigError("systems=[]: expected names or files of systems, as systems=[dgx1-p100,gx8]")
    curves, found, setting = list(_curves(paths, words, asked)), _measured(asked), _setting(asked)
    points: list[dict[str, Any]] = []
    for machine in machines:
        for library in asked.library:
            fabric = _fabric(asked, machine, library, found)
            for each in curves:
                points += curve(each.subject, fabric, each.wanted, each.baseline, setting)
    if not any(point["outcome"] == "ok" for point in points):
        raise ConfigError(points[0]["reason"])
    inputs = list(records.inputs_of(points))
    return records.prediction(points, inputs, {"words": " ".join([*map(str, paths), *overrides])})


# ---- the settings ---------------------------------------------------------------------------------------------------


def _split(overrides: list[str]) -> tuple[Asked, list[str]]:
    """The settings of this verb, and the words that describe the workload."""
    own = [
        word for word in overrides if word.lstrip("+~").partition("=")[0].partition(".")[0] in Asked.__struct_fields__
    ]
    asked = settings("predict", chosen(own), Asked, listed=("systems", "library"))
    _check(asked)
    return asked, [word for word in overrides if word not in own]


def _group(word: str) -> str:
    """The setting, or the group of settings, that a word of the command line changes."""
    return word.lstrip("+~").partition("=")[0].partition(".")[0]


def _check(asked: Asked) -> None:
    if asked.transport not in TRANSPORTS:
        raise unknown_name("transport", asked.transport, TRANSPORTS, "transport")
    for library in asked.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if asked.calibration is not None and len(asked.systems) * len(asked.library) > 1:
        raise ConfigError(f"calibration={asked.calibration}: measured on one system and library; ask for one of each")
    at_least = {"straggler": (asked.straggler, 1), "what_if.latency": (asked.what_if.latency, 0)}
    at_least |= {f"what_if.bandwidth.{kind}": (factor, 0) for kind, factor in asked.what_if.bandwidth.items()}
    for key, (given, least) in at_least.items():
        if given < least or (least == 0 and given == 0):
            raise ConfigError(f"{key}={given:g}: expected {'1 or more' if least else 'more than 0'}")


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


def _time(given: str | float) -> float:
    try:
        return seconds(str(given))
    except ValueError:
        raise ConfigError(f"host_time={given}: expected a duration, as 0.03s") from None


def _memory(given: str | int | None) -> int | None:
    try:
        return None if given is None else size(str(given))
    except ValueError:
        raise ConfigError(f"memory={given}: expected a size, as 16GB") from None


# ---- the workloads --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """Points of one workload that share a baseline."""

    subject: Subject
    wanted: list[AskedPoint]
    baseline: AskedPoint


def _curves(paths: Sequence[Path], words: list[str], asked: Asked) -> Iterator[_Curve]:
    if not paths:
        yield from _of_requests(_requests(words, asked), asked, None)
    for path in paths:
        for trace in traces(path):
            if trace.request is None:
                yield from _of_import(trace, words, asked)
            else:
                yield from _of_requests(_traced_requests(trace, words, asked), asked, trace)


def _of_requests(requests: Sequence[Request], asked: Asked, trace: Trace | None) -> Iterator[_Curve]:
    """The curves that requests lie on."""
    found: dict[str, list[Request]] = {}
    for request in requests:
        found.setdefault(request.baseline_key, []).append(request)
    for together in found.values():
        first = together[0].on(1)
        table = workloads.table(first.model, first.image_size)
        subject = Subject.of(first, table, asked.convention, trace)
        wanted = list(dict.fromkeys((_devices(asked, request.gpus), request.batch_size) for request in together))
        yield _Curve(subject, wanted, ((0,), first.batch_size))


def _requests(words: list[str], asked: Asked) -> list[Request]:
    """Requests by name. Feeding them is left out unless it is asked for: nothing has been measured of any host."""
    given = {word.partition("=")[0] for word in words}
    defaults = [*_gpus(given, asked), *([] if "input" in given else ["input=synthetic"])]
    _, points = points_of([*defaults, *words])
    return list(_composed(points, asked))


def _composed(points: Sequence[study.Point], asked: Asked) -> Iterator[Request]:
    """The checked requests of points. Those that differ in GPUs alone are composed once: composing takes its time."""
    known: dict[str, Request] = {}
    for point in points:
        others = {key: value for key, value in point.items() if key != "gpus"}
        if repr(others) not in known:
            known[repr(others)] = _framed(request_from(compose({**others, "gpus": 1})), asked)
        request, gpus = known[repr(others)], point.get("gpus", 1)
        if not isinstance(gpus, int) or gpus < 1:
            raise ConfigError(f"gpus={gpus}: expected a number of GPUs, 1 or more")
        found = request.on(gpus)
        check(msgspec.structs.replace(found, split=others.get("split", "even")))
        yield found


def _gpus(given: set[str], asked: Asked) -> list[str]:
    """The GPU counts where none are given: those of the devices, or the paper's; a study has its own."""
    if given & {"gpus", "study"}:
        return []
    return [f"gpus={len(asked.devices)}"] if asked.devices else ["gpus=[1,2,4,8]"]


def _devices(asked: Asked, gpus: int) -> tuple[int, ...]:
    return tuple(range(gpus)) if asked.devices is None else tuple(asked.devices)


def _checked(request: Request) -> Request:
    check(request)
    return request


def _framed(request: Request, asked: Asked) -> Request:
    """The request with the strategy of the framework that is asked for."""
    strategy = FRAMEWORKS[asked.framework][0] if asked.framework else request.strategy
    return msgspec.structs.replace(request, strategy=strategy)


def _traced_requests(trace: Trace, words: list[str], asked: Asked) -> list[Request]:
    """The trace's workload at the batch sizes, GPU counts and strategies that are asked for, or that it allows."""
    given = _left_open(trace, words)
    assert trace.request is not None, "an imported trace has no request"
    largest = max(each.batch_size for each in trace.batches)
    defaults = [] if "batch_size" in given else [f"batch_size={largest}"]
    if not given & {"gpus"} and not asked.devices:
        counts = [largest // each.batch_size for each in trace.batches if largest % each.batch_size == 0]
        defaults.append(f"gpus=[{','.join(map(str, sorted(counts)))}]")
    elif asked.devices:
        defaults.append(f"gpus={len(asked.devices)}")
    _, points = points_of([*defaults, *words])
    found = []
    for point in points:
        other = request_from(compose(point))
        fields = {name: getattr(other, name) for name in OF_THE_POINT if name != "strategy" or "strategy" in given}
        request = msgspec.structs.replace(trace.request, **fields, devices=None, measure="step")
        found.append(_checked(_framed(request, asked)))
    return found


def _left_open(trace: Trace, words: list[str]) -> set[str]:
    """The settings of the point that are given; those that the trace has already are refused."""
    given = {_group(word) for word in words}
    for key in sorted(given - set(OF_THE_POINT)):
        left_open = ", ".join(OF_THE_POINT)
        raise ConfigError(f"{key}: the trace {trace.source} has it already; of the workload it leaves open {left_open}")
    return given


def _of_import(trace: Trace, words: list[str], asked: Asked) -> Iterator[_Curve]:
    """Curves of a trace from a file: no more is known of its workload than its layers."""
    _left_open(trace, words)
    largest = max(each.batch_size for each in trace.batches)
    given = {word.partition("=")[0] for word in words}
    defaults = [*_gpus(given, asked), *([] if "batch_size" in given else [f"batch_size={largest}"])]
    if "scaling" not in given:  # its one batch size is each GPU's
        defaults.append("scaling=weak")
    _, points = points_of([*defaults, *words])
    requests = [_framed(request_from(compose(point)), asked) for point in points]
    for strategy in dict.fromkeys(request.strategy for request in requests):
        alike = [request for request in requests if request.strategy == strategy]
        wanted = [(_devices(asked, request.gpus), request.batch_size) for request in alike]
        yield _Curve(Subject.of_import(trace, strategy), wanted, ((0,), alike[0].on(1).batch_size))


def traces(path: Path) -> list[Trace]:
    """The traces at a path: runs that `resnetx trace` has made, or what it has imported, or a file."""
    from resnetx.record.trace_files import read_trace
    from resnetx.record.trace_runs import read_all

    return (read_all(path) if path.is_dir() else []) or [read_trace(path)]
