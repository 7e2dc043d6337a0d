"""What the settings of `predict` name: systems, how they train, and workloads, as prediction takes them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from resnetx import workloads
from resnetx.api.systems import load_system, load_systems, refuse_no_library
from resnetx.choices import After, Bucket, Lab, Layerwise, NoExchange, Server, Strategy
from resnetx.compose import compose, points_of, struct_of
from resnetx.config import FIND, check, clock_from, lab_from, request_from
from resnetx.errors import ConfigError, unknown_name
from resnetx.interconnect.collectives.measured import UNCALIBRATED
from resnetx.interconnect.collectives.plan import LIBRARIES
from resnetx.interconnect.systems import system
from resnetx.interconnect.systems.changed_systems import link_kinds
from resnetx.interconnect.systems.system import System
from resnetx.loading import is_folder
from resnetx.prediction.messages import refuse_silent
from resnetx.prediction.open_points import train_command
from resnetx.prediction.predict import Placement, images_of
from resnetx.prediction.scenario import HOROVOD, STAGED, Deployment, TrainingSetup, Workload
from resnetx.prediction.step import Overlap
from resnetx.record.prediction import UNCHECKED, PredictionInput
from resnetx.record.traces import LayerTimes, Trace, TracedLayer
from resnetx.request import Request
from resnetx.settings import keywords, setting_types
from resnetx.settings.table import TABLE, tagged
from resnetx.settings.verbs import VERBS, group_of
from resnetx.study import Point
from resnetx.traces import UNSIZED, read_all, refuse_unsound
from resnetx.workloads.counts import BYTES_PER_PARAMETER

if TYPE_CHECKING:
    from resnetx.api.calibrations import Known


# Strategy and overlap of Shi et al. 2018, section IV-C; of Horovod as of PyTorch.
FRAMEWORKS: dict[str, tuple[Strategy, Overlap]] = {
    "caffe-mpi": (Layerwise(), Overlap(input=True, host_to_device=True)),
    "cntk": (After(), Overlap(input=True, host_to_device=False)),
    HOROVOD: (Bucket(bucket_cap_mb=None, first_bucket_mb=None, gradient_as_bucket_view=True), Overlap()),
    "mxnet": (Layerwise(), Overlap(input=True, host_to_device=False)),
    "tensorflow": (Layerwise(), Overlap(input=True, host_to_device=False, parameters=True)),
}

# Those that were also used with a parameter server: with strategy=server they keep it, and only overlap is theirs.
# TensorFlow: `variable_update=parameter_server` of its benchmarks (docs_src/performance/benchmarks.md, 2017).
SERVERS = ("tensorflow",)

# Those of which one process drives all GPUs of a node, as replicas in one graph or as devices of one store. With
# Horovod they have a process for each GPU.
ONE_PROCESS = ("mxnet", "tensorflow")


class PredictSettings(keywords.PredictFields, frozen=True, kw_only=True):
    """The settings of a prediction that do not describe the workload."""

    @property
    def labs(self) -> list[Lab]:
        """The systems that the lab builds; [] where predictions are of the systems themselves."""
        given = msgspec.structs.asdict(self.lab)
        names = self.lab.system if isinstance(self.lab.system, list) else [self.lab.system]
        made = [lab_from({**given, "system": name}) for name in names]
        return [lab for lab in made if lab is not None]

    @property
    def calibration_files(self) -> list[str]:
        return [path for path in self.calibration if path not in (None, UNCALIBRATED)]

    @property
    def trained_parameters(self) -> int | None:
        """How many parameters a trace trains whose file does not say."""
        given = self.parameters
        setting_types.check({"parameters": given})
        if given is not None and not float(given).is_integer():
            raise ConfigError(f"parameters={given}: expected a whole number of parameters, e.g. 25557032 or 25.6e6")
        return None if given is None else int(given)


def split(given: Point) -> tuple[PredictSettings, Point]:
    """The settings of the prediction itself, and those that describe the workload."""
    own = {key: value for key, value in given.items() if group_of(key) in PredictSettings.__struct_fields__}
    settings = struct_of(own, PredictSettings)
    _check(settings)
    for key in own:
        if settings.labs and (group_of(key) in tagged("no-lab") or key.startswith("what_if.bandwidth")):
            raise ConfigError(
                f"{key}: has no effect in the lab, which has the links of lab.system and gloo's messages; leave it out"
            )
        if settings.communication == "trace" and group_of(key) in tagged("message"):
            raise ConfigError(
                f"{key}: changes how messages are modelled, and communication=trace takes those of a trace"
            )
    return settings, {key: value for key, value in given.items() if key not in own}


def _check(settings: PredictSettings) -> None:
    for framework in settings.framework:
        if framework is not None and framework not in FRAMEWORKS:
            if framework.lower() in ("pytorch", "torch"):
                raise ConfigError(f"framework={framework}: PyTorch is predicted without it; leave it out")
            raise unknown_name("framework", framework, FRAMEWORKS, "framework")
        if framework == HOROVOD and settings.launch_mode == "one-process":
            raise ConfigError("launch_mode=one-process: Horovod has a process for each GPU; leave one of them out")
    for library in settings.library:
        if library is not None and library not in LIBRARIES:
            raise unknown_name("library generation", library, LIBRARIES, "library")
    if (files := settings.calibration_files) and len(settings.systems) * len(settings.library) > 1:
        raise ConfigError(f"calibration={','.join(files)}: valid for one system and one library; give one of each")
    if settings.rate is not None and settings.clock is not None:
        raise ConfigError("clock: a known rate has the clock of its GPU in it; leave clock or rate out")


def by_framework(settings: PredictSettings) -> list[PredictSettings]:
    """The same settings with each framework by itself."""
    if not settings.framework:
        raise ConfigError(f"framework=[]: expected one of {', '.join(FRAMEWORKS)}, or several")
    return [msgspec.structs.replace(settings, framework=[name]) for name in dict.fromkeys(settings.framework)]


def deployments(settings: PredictSettings, known: "Known | None") -> list[Deployment]:
    """The systems that are asked for, each with every library."""
    refuse_no_library(settings.library)
    if labs := settings.labs:
        return [_in_lab(settings, lab) for lab in labs]
    machines = load_systems(settings, settings.systems)
    if not machines:
        raise ConfigError("systems: none is given; expected names or files of systems, as systems=dgx1-p100,gx8")
    if bandwidth := settings.what_if.bandwidth:
        _refuse_unknown_links(bandwidth, machines)
    made = [_deployment(settings, machine, library, known) for machine in machines for library in settings.library]
    if settings.staged is not None and not any(deployment.no_peers for deployment in made):
        raise ConfigError(
            f"staged={settings.staged}: says how GPUs of one node that are no peers share the host, and those of "
            f"{' and '.join(machine.name for machine in machines)} do not go through it with NCCL; add transport=host, "
            "or leave staged out"
        )
    return made


def _deployment(settings: PredictSettings, machine: System, library: str | None, known: "Known | None") -> Deployment:
    bandwidth, collectives = settings.what_if.bandwidth, {} if known is None else known.collectives
    if bandwidth:  # what another system alone has changes nothing here
        there = link_kinds(machine)
        bandwidth = {kind: factor for kind, factor in bandwidth.items() if kind in there}
    return Deployment(
        machine,
        library or machine.library,
        settings.transport,
        collectives,
        bandwidth,
        settings.what_if.latency,
        decoding=() if known is None else known.decoding,
        published=not collectives and UNCALIBRATED not in settings.calibration,
        told=None if settings.staged is None else STAGED[settings.staged],
    )


def _in_lab(settings: PredictSettings, lab: Lab) -> Deployment:
    """A system as the lab builds it."""
    return Deployment(system.load(lab.system, key="lab.system"), "gloo", latency=settings.what_if.latency, lab=lab)


def _refuse_unknown_links(bandwidth: Mapping[str, float], machines: Sequence[System]) -> None:
    """A kind of link that none of the systems has is a mistake."""
    known = dict.fromkeys(kind for machine in machines for kind in link_kinds(machine))
    for name in bandwidth:
        if name not in known:
            systems = " or ".join(machine.name for machine in machines)
            raise unknown_name(f"kind of link of {systems}", name, known, "what_if.bandwidth")


def training_setup(settings: PredictSettings, workload: Point) -> TrainingSetup:
    """How it is trained, as settings with one framework say (`by_framework`), and those of the workload."""
    (framework,) = settings.framework
    overlap = Overlap(settings.overlap.input, settings.overlap.host_to_device, settings.overlap.parameters)
    return TrainingSetup(
        communication=settings.communication,
        framework=framework,
        overlap=FRAMEWORKS[framework][1] if framework else overlap,
        gradients=settings.gradients,
        one_process=settings.launch_mode == "one-process"
        or (settings.launch_mode is None and framework in ONE_PROCESS),
        samples=settings.samples,
        straggler=settings.straggler,
        host_s=setting_types.seconds_of("host_time", settings.host_time),
        host_step_s=None if settings.host_step is None else setting_types.seconds_of("host_step", settings.host_step),
        decoding_threads=_decoding_threads(workload),
        image_bytes=setting_types.bytes_of("image_bytes", settings.image_bytes),
        memory_bytes=setting_types.bytes_of("memory", settings.memory),
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


def _decoding_threads(workload: Point) -> int | None:
    """The threads of each rank's input, if they are asked for."""
    threads = workload.get("input.threads")
    if isinstance(threads, list):
        raise ConfigError(f"input.threads={threads}: a prediction has one number of them; predict for each in turn")
    return threads


# ---- workloads ------------------------------------------------------------------------------------------------------

MAX_PREDICTED = 200_000  # workloads, batches and numbers of GPUs; times each system, library, network ...

# What is trained, where it runs and with which batches, which of these speed-ups are over, and what nobody asked for.
WorkloadPoints = tuple[Workload, list[Placement], Placement, tuple[PredictionInput, ...]]


def through(
    requests: Iterable[Request], settings: PredictSettings, known: "Known | None", trace: Trace | None = None
) -> Iterator[WorkloadPoints]:
    """The curves that requests lie on."""
    for together in by_baseline(requests):
        first = together[0].on(1)
        table = workloads.table(first.model, first.image_size)
        if trace is not None:
            from resnetx.traces import refuse_unsound

            refuse_unsound(trace, (layer.name for layer in table if layer.parameters))
        placements = placements_of(together, settings)
        workload = Workload.of(first, table, settings.convention, trace)
        said: tuple[PredictionInput, ...] = ()
        if known is not None:
            of_file = known.rates is not None and known.rates.of_file
            images = first.batch_size if of_file else max(map(images_of, placements))
            workload, said = known.of(workload, first, images // first.accumulate)
        yield workload, placements, baseline_of(first, settings), said


def by_baseline(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Requests that share a baseline, together."""
    found: dict[str, list[Request]] = {}
    for request in requests:
        found.setdefault(request.baseline_key, []).append(request)
    return found.values()


def placements_of(requests: Iterable[Request], settings: PredictSettings) -> list[Placement]:
    """Where requests run, and with which batch; each once."""
    return list(dict.fromkeys((_devices(request.gpus, settings), request.batch_size) for request in requests))


def _devices(gpus: int, settings: PredictSettings) -> tuple[int, ...]:
    """The ids of so many GPUs."""
    devices = settings.devices
    if devices is None:
        return tuple(range(gpus))
    if min(devices, default=0) < 0 or len(set(devices)) < len(devices):
        raise ConfigError(f"devices={devices}: expected different GPU ids, 0 or more")
    if len(devices) != gpus:
        raise ConfigError(f"devices={devices}: expected {gpus} GPU ids, as many as gpus={gpus}")
    return tuple(devices)


def baseline_of(request: Request, settings: PredictSettings) -> Placement:
    """The baseline of the curve that a request lies on."""
    return tuple(range(settings.baseline)), request.on(settings.baseline).batch_size


def checked(request: Request, point: Point, settings: PredictSettings, counts: Iterable[int] = ()) -> Request:
    """The request of a point with the strategy of its framework; refused where it could run nowhere.

    `counts`: all numbers of GPUs that are asked for.
    """
    (framework,) = settings.framework
    strategy = FRAMEWORKS[framework][0] if framework else None
    if strategy is not None and isinstance(request.strategy, Server) and framework not in SERVERS:
        raise ConfigError(
            "strategy=server: this framework is not known to have trained with a parameter server; leave framework "
            "out, or use framework=tensorflow"
        )
    if strategy is not None and not isinstance(request.strategy, Server):
        request = msgspec.structs.replace(request, strategy=strategy)
    if request.compile != "none" and settings.rate is None:
        images, how = request.batch_size // request.gpus, {"precision": request.precision, "compile": request.compile}
        measuring = train_command(request, **how, gpus=1, batch_size=images)
        raise ConfigError(
            f"compile={request.compile}: what torch.compile gains is not modelled; measure one GPU with `{measuring}`, "
            f"and add its {request.model.samples}/s by batch: rate={images}:195"
        )
    check(msgspec.structs.replace(request, split=str(point.get("split", "even"))), counts)
    return request


# ---- by name --------------------------------------------------------------------------------------------------------


def named_workloads(given: Point, settings: PredictSettings, known: "Known | None") -> Iterator[WorkloadPoints]:
    """The workloads that are named, on their GPUs. Feeding them is left out unless it is asked for."""
    if (parameters := settings.trained_parameters) is not None:
        raise ConfigError(f"parameters={parameters}: of a workload by name they are known; leave parameters out")
    if settings.communication == "trace":
        raise ConfigError("communication=trace: there is no trace whose messages it could take; give one")
    own = without_groups({**VERBS["predict"].own, "gpus": gpu_counts(settings)}, given)
    if "study" in given:
        own.pop("gpus", None)
    _, points = points_of({**own, **given}, MAX_PREDICTED)
    further = [count for count in own.get("gpus", ()) if count not in VERBS["predict"].own["gpus"]]  # all of a system
    able = (point for point in points if point.get("gpus") not in further or _divides(point))
    return through(_composed(list(able), settings), settings, known)


def _divides(point: Point) -> bool:
    """Whether its batch can be split over as many GPUs, in as many parts on each."""
    batch, parts = point.get("batch_size", TABLE["batch_size"].default), point.get("accumulate", 1)
    known = isinstance(batch, int) and isinstance(parts, int) and parts > 0  # others are refused later
    if not known or point.get("scaling") == "weak":
        return True
    if point.get("split") == "uneven" and parts == 1:
        return bool(batch >= point["gpus"])
    return bool(batch % (point["gpus"] * parts) == 0)


def composed_alike(given: Point) -> Iterator[tuple[Point, list[Request]]]:
    """The workloads that settings name: what is asked of each besides numbers of GPUs, and its requests on them."""
    _, points = points_of({**without_groups(dict(VERBS["predict"].own), given), **given}, MAX_PREDICTED)
    found: dict[str, tuple[Point, list[Request]]] = {}
    for point in points:
        others = {key: value for key, value in point.items() if key != "gpus"}
        words = {key: value for key, value in others.items() if key in given}
        request = request_from(compose({**others, "gpus": 1})).on(point["gpus"])
        found.setdefault(repr(others), (words, []))[1].append(request)
    return iter(found.values())


def without_groups(defaults: Point, given: Point) -> Point:
    """The defaults for what is not given, no setting of its group either."""
    groups = set(map(group_of, given))
    return {key: value for key, value in defaults.items() if key not in groups}


def _composed(points: Sequence[Point], settings: PredictSettings) -> Iterator[Request]:
    """The checked requests of points. Those that differ in GPUs and batch are composed once."""
    requests: dict[str, Request] = {}
    counts = {count for point in points if isinstance(count := point.get("gpus", 1), int) and count > 0}
    for point in points:
        batch = point.get("batch_size")
        plain = isinstance(batch, int) and not isinstance(batch, bool)
        others = {key: value for key, value in point.items() if key != "gpus" and not (plain and key == "batch_size")}
        if (name := repr(others)) not in requests:
            requests[name] = request_from(compose({**others, "gpus": 1}))
        gpus = point.get("gpus", 1)
        if not isinstance(gpus, int) or isinstance(gpus, bool):
            raise ConfigError(f"gpus={gpus}: expected a number of GPUs")
        setting_types.check({"gpus": gpus})
        # Their nodes are the system's; a request's are those of a launcher.
        one = msgspec.structs.replace(requests[name], batch_size=batch) if plain else requests[name]
        request = msgspec.structs.replace(one.on(gpus), nodes=1)
        yield checked(request, point, settings, counts)


def gpu_counts(settings: PredictSettings, counts: Sequence[int] | None = None) -> list[int]:
    """The GPU counts where none are given: as many as devices, if these are; else `counts`, or the verb's own.

    Of the verb's those that a system has, and all of its GPUs; of several nodes that are asked for all of each number.
    """
    if settings.devices is not None:
        return [len(settings.devices)]
    if counts is not None:
        return list(counts)
    own, nodes = VERBS["predict"].own["gpus"], settings.nodes or 1
    if settings.labs or not settings.systems:
        return list(own)
    if nodes == 1:
        whole = {len(load_system(name, settings.nodes).gpus) for name in settings.systems}
        return sorted(whole.union(gpus for gpus in own if gpus <= max(whole)))
    found = {*own}
    for name in settings.systems:
        of_one = len(load_system(name, 1).gpus)
        found |= {of_one * some for some in (*(2**power for power in range(1, nodes.bit_length())), nodes)}
    return sorted(found)


# ---- workloads by their traces --------------------------------------------------------------------------------------
# Ours, which know their request, and those that others have measured.

OF_STEPS = ("graph", "compile", "accumulate", "checkpointing")  # an imported trace is of steps as they were
LEFT_OPEN = ("batch_size", "gpus", "scaling", "split", "strategy", *OF_STEPS)  # settings that a trace does not have


def traced_workloads(
    paths: Sequence[Path], given: Point, settings: PredictSettings, known: "Known | None"
) -> Iterator[WorkloadPoints]:
    """The workloads of the traces at these paths, on the GPUs that are asked for."""
    parameters = settings.trained_parameters
    if known is not None and known.rates is not None:
        raise ConfigError(f"{known.rates.where}: {paths[0]} has the times of a step already; give a trace or a rate")
    for path, trace in ((folder, trace) for folder in paths for trace in traces(folder)):
        _refuse_known(trace, given)
        if settings.communication == "trace":
            refuse_silent(trace)
        if trace.request is None:
            yield from _imported(trace, path, given, settings)
        elif parameters is not None:
            raise ConfigError(f"parameters={parameters}: those of {trace.workload} are known; leave parameters out")
        elif settings.samples == "uneven":
            raise ConfigError(f"samples=uneven: steps of the trace {trace.source} say how they vary; leave samples out")
        else:
            yield from through(_traced(trace, given, settings), settings, known, trace)


def traces(path: Path) -> list[Trace]:
    """The traces at a path: runs that `resnetx trace` has made, or what it has imported, or a file."""
    from resnetx.traces.trace_files import read_trace  # with all that reads profiles

    found = (read_all(path) if is_folder(path) else []) or [read_trace(path)]
    return [refuse_unsound(trace) for trace in found]


def _refuse_known(trace: Trace, given: Point) -> None:
    for key in sorted(set(map(group_of, given)) - set(LEFT_OPEN)):
        left_open = ", ".join(setting for setting in LEFT_OPEN if trace.request is not None or setting not in OF_STEPS)
        raise ConfigError(f"{key}: fixed by the trace {trace.source}; a trace only leaves {left_open} open")


def _traced(trace: Trace, given: Point, settings: PredictSettings) -> Iterator[Request]:
    """The trace's workload at the batch sizes, GPU counts and strategies that are asked for, or that it allows."""
    assert trace.request is not None, "an imported trace has no request"
    largest = max(batch.batch_size for batch in trace.batches)
    shares = [largest // batch.batch_size for batch in trace.batches if largest % batch.batch_size == 0]
    defaults = {"batch_size": largest, "gpus": gpu_counts(settings, sorted(shares))}
    _, points = points_of({**without_groups(defaults, given), **given})
    for point in points:
        other = request_from(compose(point))
        taken = {name: getattr(other, name) for name in LEFT_OPEN}  # the trace's one rank had no strategy
        request = msgspec.structs.replace(trace.request, **taken, devices=None, measure="step")
        yield checked(request, point, settings)


def _imported(trace: Trace, path: Path, given: Point, settings: PredictSettings) -> Iterator[WorkloadPoints]:
    """Curves of a trace from a file: no more is known of its workload than its layers."""
    if "graph" in given:
        raise ConfigError(
            f"graph: the trace {trace.source} was imported without the time of its host, which a graph "
            "saves; leave graph out"
        )
    if other := next((key for key in ("accumulate", "checkpointing") if key in given), None):
        raise ConfigError(f"{other}: the trace {trace.source} was imported, and is of steps as they were; leave it out")
    for key, value, usual in (("memory", settings.memory, None), ("memory_model", settings.memory_model, "torch")):
        if value != usual:
            raise ConfigError(
                f"{key}={value}: what the layers of the trace {trace.source} keep in memory is not known; leave it out"
            )
    _refuse_inference(trace)
    parameters, as_traced = settings.trained_parameters, settings.communication == "trace"
    defaults = {
        "gpus": gpu_counts(settings),
        "batch_size": max(batch.batch_size for batch in trace.batches),
        "scaling": "weak",  # a batch size of its own is each GPU's
        **({"strategy": "layerwise"} if as_traced else {}),  # a message for each layer is what it has
    }
    _, points = points_of({**without_groups(defaults, given), **given})
    requests = [checked(request_from(compose(point)), point, settings) for point in points]
    assumed = (*_said(trace, parameters), *(() if "scaling" in given else (_weak(trace),)))
    sends = any(request.gpus > 1 and not isinstance(request.strategy, NoExchange) for request in requests)
    trace = sized(trace, parameters, sends and not as_traced)
    for together in by_baseline(requests):
        workload = Workload.of_import(trace, together[0].strategy, together[0].scaling, str(path))
        yield workload, placements_of(together, settings), baseline_of(together[0].on(1), settings), assumed


def _refuse_inference(trace: Trace) -> None:
    """What a forward pass takes says nothing of a step of training."""
    if not any(seconds for batch in trace.batches for layer in batch.times.layers for seconds in layer.backward_s):
        raise ConfigError(
            f"{trace.source}: has no backward pass, and a step of training has one; profile training steps"
        )


def _said(trace: Trace, parameters: int | None) -> Iterator[PredictionInput]:
    """What was taken for granted as the trace was imported, and how parameters that are stated are shared."""
    for warning in trace.warnings:
        if warning.code != UNSIZED:
            yield PredictionInput(f"import of {trace.workload}", warning.message, "assumed", trace.source, UNCHECKED)
    if parameters is not None:
        value = f"{parameters:,} parameters of {BYTES_PER_PARAMETER} B, {HOW_SHARED}"
        yield PredictionInput(f"gradients of {trace.workload}", value, "assumed", "parameters=", UNCHECKED)


def _weak(trace: Trace) -> PredictionInput:
    """An imported trace has the batches of one device, mostly a single one, which strong scaling would split."""
    batches = ", ".join(str(batch.batch_size) for batch in trace.batches)
    value = f"weak: each GPU has a batch of the trace ({batches}); scaling=strong splits it over the GPUs"
    return PredictionInput(f"scaling of {trace.workload}", value, "assumed", trace.source, UNCHECKED)


# How many bytes of gradients the layers of an imported trace have, where its file does not say.
#
# Then all that is sent is unknown, and the user states how many parameters are trained in the whole model
# (`parameters=`). They are shared among the layers whose sizes are not known in proportion to their backward times:
# when a part of them is ready, not which layer has it, decides how much of the messages is hidden.

HOW_SHARED = "shared among the layers in proportion to their backward times"


def sized(trace: Trace, parameters: int | None, sends: bool) -> Trace:
    """The trace with the bytes of all gradients; `sends`: of several GPUs, whose messages are modelled.

    Refused where they are not known, or are none although gradients are sent, and `parameters` does not say.
    """
    layers = trace.batches[0].times.layers
    without = {layer.name for batch in trace.batches for layer in batch.times.layers if layer.gradient_bytes is None}
    known_bytes = sum(layer.gradient_bytes or 0 for layer in layers if layer.name not in without)
    known = known_bytes // BYTES_PER_PARAMETER
    if known_bytes and not without:
        if parameters is None:
            return trace
        raise ConfigError(
            f"parameters={parameters}: {trace.source} has the gradients of its layers, of {known:,} parameters; leave "
            "parameters out"
        )
    if parameters is None:
        if not without and not sends:
            return trace
        raise ConfigError(
            f"{trace.source}: the sizes of its gradients are not known ({_why(trace)}), so neither is what GPUs send "
            "each other; add parameters=, how many the whole model trains, or profile with record_shapes=True"
        )
    left = parameters - known
    if left < 1:
        raise ConfigError(
            f"parameters={parameters}: the layers of {trace.source} whose sizes are known already have "
            f"{known:,}; expected those of the whole model"
        )
    sizes = _shared(left, [layer for layer in layers if layer.name in without or not without])
    return msgspec.structs.replace(
        trace,
        batches=[msgspec.structs.replace(batch, times=_with(batch.times, sizes)) for batch in trace.batches],
    )


def _why(trace: Trace) -> str:
    return next((why for path, why in trace.unknown.items() if path.endswith(".gradient_bytes")), "all of them are 0")


def _shared(parameters: int, layers: list[TracedLayer]) -> dict[str, int]:
    """The bytes of each layer's gradients, by its share of the backward pass; alike where that takes no time."""
    times_s = [median(layer.backward_s) if layer.backward_s else 0.0 for layer in layers]
    if not sum(times_s):
        times_s = [1.0] * len(layers)
    whole_s = sum(times_s)
    ends = [round(parameters * end_s / whole_s) for end_s in accumulate(times_s, initial=0.0)]
    counts = (after - before for before, after in pairwise(ends))
    return {layer.name: BYTES_PER_PARAMETER * count for layer, count in zip(layers, counts, strict=True)}


def _with(times: LayerTimes, sizes: dict[str, int]) -> LayerTimes:
    layers = [
        msgspec.structs.replace(layer, gradient_bytes=sizes.get(layer.name, layer.gradient_bytes))
        for layer in times.layers
    ]
    return msgspec.structs.replace(times, layers=layers)
