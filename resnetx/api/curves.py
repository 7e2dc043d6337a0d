"""What `predict` is asked about: workloads by name, by their traces, or by traces that others have measured."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

import msgspec

from resnetx import study, workloads
from resnetx.api.predict_settings import FRAMEWORKS, SERVERS, Known, PredictSettings, rates_of_both, training_setup
from resnetx.choices import NoExchange, Server
from resnetx.compose import compose, points_of
from resnetx.config import check, request_from
from resnetx.errors import ConfigError
from resnetx.loading import is_folder
from resnetx.prediction.messages import refuse_silent
from resnetx.prediction.predict import Curve, Placement
from resnetx.prediction.scenario import Deployment, Workload
from resnetx.record.prediction import UNCHECKED, PredictionInput
from resnetx.record.traces import LayerTimes, Trace, TracedLayer
from resnetx.request import Request
from resnetx.settings import setting_types
from resnetx.settings.verbs import VERBS, group_of
from resnetx.traces.run_traces import UNSIZED, refuse_unsound
from resnetx.workloads.counts import BYTES_PER_PARAMETER

MAX_PREDICTED = 200_000  # workloads, batches and numbers of GPUs; times each system, library, network ...
OF_STEPS = ("graph", "compile", "accumulate", "checkpointing")  # an imported trace is of steps as they were
LEFT_OPEN = ("batch_size", "gpus", "scaling", "split", "strategy", *OF_STEPS)  # settings that a trace does not have


def curves(
    paths: Sequence[Path], given: study.Point, settings: PredictSettings, known: Known, deployment: Deployment
) -> Iterator[Curve]:
    """The curves of the workloads that are given, on a deployment; with traces, those of each trace.

    `settings`: with one framework.
    """
    setting = training_setup(settings, given)
    for workload, placements, baseline, assumed in _workloads(paths, given, settings, known):
        yield Curve(workload, deployment, setting, placements, baseline, assumed)


# What is trained, where it runs and with which batches, which of these speed-ups are over, and what nobody asked for.
WorkloadPoints = tuple[Workload, list[Placement], Placement, tuple[PredictionInput, ...]]


def _workloads(
    paths: Sequence[Path], given: study.Point, settings: PredictSettings, known: Known
) -> Iterator[WorkloadPoints]:
    parameters, as_traced = settings.trained_parameters, settings.communication == "trace"
    if not paths and parameters is not None:
        raise ConfigError(f"parameters={parameters}: of a workload by name they are known; leave parameters out")
    if not paths and as_traced:
        raise ConfigError("communication=trace: there is no trace whose messages it could take; give one")
    if not paths:
        yield from _through(_named(given, settings), settings, known, None)
    elif known.rates is not None:
        raise ConfigError(f"{known.rates.where}: {paths[0]} has the times of a step already; give a trace or a rate")
    for path in paths:
        for trace in traces(path):
            _refuse_known(trace, given)
            if as_traced:
                refuse_silent(trace)
            if trace.request is None:
                yield from _imported(trace, given, settings)
            elif parameters is not None:
                raise ConfigError(f"parameters={parameters}: those of {trace.workload} are known; leave parameters out")
            else:
                yield from _through(_traced(trace, given, settings), settings, known, trace)


def traces(path: Path) -> list[Trace]:
    """The traces at a path: runs that `resnetx trace` has made, or what it has imported, or a file."""
    from resnetx.traces.run_traces import read_all
    from resnetx.traces.trace_files import read_trace  # with all that reads profiles

    found = (read_all(path) if is_folder(path) else []) or [read_trace(path)]
    return [refuse_unsound(trace) for trace in found]


def _through(
    requests: Iterable[Request], settings: PredictSettings, known: Known, trace: Trace | None
) -> Iterator[WorkloadPoints]:
    """The curves that requests lie on."""
    for together in _by_baseline(requests):
        first = together[0].on(1)
        table = workloads.table(first.model, first.image_size)
        if trace is not None:
            refuse_unsound(trace, (layer.name for layer in table if layer.parameters))
        placements = _placements(together, settings)
        workload = Workload.of(first, table, settings.convention, trace)
        largest = max(placement.images for placement in placements) // first.accumulate
        said: tuple[PredictionInput, ...] = ()
        if known.rates is not None and known.scaling is not None:
            rates, scaled, said = rates_of_both(known.rates, known.scaling, first, largest)
            workload = replace(workload, rates=rates, scaled=scaled)
        elif known.rates is not None:
            workload = replace(workload, rates=known.rates.of(first, largest))
        elif known.scaling is not None and trace is not None:
            workload = replace(workload, scaled=known.scaling.of(first, first.input.kind))
        yield workload, placements, _baseline(first, settings), said


def _by_baseline(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Requests that share a baseline, together."""
    found: dict[str, list[Request]] = {}
    for request in requests:
        found.setdefault(request.baseline_key, []).append(request)
    return found.values()


def _placements(requests: Iterable[Request], settings: PredictSettings) -> list[Placement]:
    """Where requests run, and with which batch; each once."""
    return list(dict.fromkeys(Placement(_devices(request.gpus, settings), request.batch_size) for request in requests))


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


def _baseline(request: Request, settings: PredictSettings) -> Placement:
    """The baseline of the curve that a request lies on."""
    return Placement(tuple(range(settings.baseline)), request.on(settings.baseline).batch_size)


def _checked(request: Request, point: study.Point, settings: PredictSettings) -> Request:
    """The request of a point with the strategy of its framework; refused where it could run nowhere."""
    (framework,) = settings.framework
    strategy = FRAMEWORKS[framework][0] if framework else None
    if strategy is not None and isinstance(request.strategy, Server) and framework not in SERVERS:
        raise ConfigError(
            "strategy=server: this framework is not known to have trained with a parameter server; leave framework "
            "out, or use framework=tensorflow"
        )
    if strategy is not None and not isinstance(request.strategy, Server):
        request = msgspec.structs.replace(request, strategy=strategy)
    if request.compile != "none":
        raise ConfigError(
            f"compile={request.compile}: what torch.compile gains is not modelled; measure one GPU with `resnetx "
            "train compile=default gpus=1`, and give its images/s by batch instead: rate=32:195"
        )
    check(msgspec.structs.replace(request, split=str(point.get("split", "even"))))
    return request


# ---- by name --------------------------------------------------------------------------------------------------------


def _named(given: study.Point, settings: PredictSettings) -> Iterator[Request]:
    """Requests by name. Feeding them is left out unless it is asked for."""
    own = dict(VERBS["predict"].own)
    own["gpus"] = _gpus(settings, own["gpus"])
    if "study" in given:
        del own["gpus"]
    _, points = points_of({**_without_groups(own, given), **given}, MAX_PREDICTED)
    return _composed(points, settings)


def composed_alike(given: study.Point) -> Iterator[tuple[study.Point, list[Request]]]:
    """The workloads that settings name: what is asked of each besides numbers of GPUs, and its requests on them."""
    _, points = points_of({**_without_groups(dict(VERBS["predict"].own), given), **given}, MAX_PREDICTED)
    found: dict[str, tuple[study.Point, list[Request]]] = {}
    for point in points:
        others = {key: value for key, value in point.items() if key != "gpus"}
        words = {key: value for key, value in others.items() if key in given}
        request = request_from(compose({**others, "gpus": 1})).on(point["gpus"])
        found.setdefault(repr(others), (words, []))[1].append(request)
    return iter(found.values())


def _without_groups(defaults: study.Point, given: study.Point) -> study.Point:
    """The defaults for what is not given, no setting of its group either."""
    groups = set(map(group_of, given))
    return {key: value for key, value in defaults.items() if key not in groups}


def _composed(points: Sequence[study.Point], settings: PredictSettings) -> Iterator[Request]:
    """The checked requests of points. Those that differ in GPUs and batch are composed once."""
    requests: dict[str, Request] = {}
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
        yield _checked(request, point, settings)


def _gpus(settings: PredictSettings, counts: Sequence[int]) -> list[int]:
    """The GPU counts where none are given: as many as devices, if these are."""
    return list(counts) if settings.devices is None else [len(settings.devices)]


# ---- by trace -------------------------------------------------------------------------------------------------------


def _refuse_known(trace: Trace, given: study.Point) -> None:
    for key in sorted(set(map(group_of, given)) - set(LEFT_OPEN)):
        left_open = ", ".join(setting for setting in LEFT_OPEN if trace.request is not None or setting not in OF_STEPS)
        raise ConfigError(f"{key}: fixed by the trace {trace.source}; a trace only leaves {left_open} open")


def _traced(trace: Trace, given: study.Point, settings: PredictSettings) -> Iterator[Request]:
    """The trace's workload at the batch sizes, GPU counts and strategies that are asked for, or that it allows."""
    assert trace.request is not None, "an imported trace has no request"
    largest = max(batch.batch_size for batch in trace.batches)
    shares = [largest // batch.batch_size for batch in trace.batches if largest % batch.batch_size == 0]
    defaults = {"batch_size": largest, "gpus": _gpus(settings, sorted(shares))}
    _, points = points_of({**_without_groups(defaults, given), **given})
    for point in points:
        other = request_from(compose(point))
        taken = {name: getattr(other, name) for name in LEFT_OPEN}  # the trace's one rank had no strategy
        request = msgspec.structs.replace(trace.request, **taken, devices=None, measure="step")
        yield _checked(request, point, settings)


def _imported(trace: Trace, given: study.Point, settings: PredictSettings) -> Iterator[WorkloadPoints]:
    """Curves of a trace from a file: no more is known of its workload than its layers."""
    if "graph" in given:
        raise ConfigError(
            f"graph: the trace {trace.source} was imported without the time of its host, which a graph "
            "saves; leave graph out"
        )
    if other := next((key for key in ("accumulate", "checkpointing") if key in given), None):
        raise ConfigError(f"{other}: the trace {trace.source} was imported, and is of steps as they were; leave it out")
    _refuse_inference(trace)
    parameters, as_traced = settings.trained_parameters, settings.communication == "trace"
    defaults = {
        "gpus": _gpus(settings, VERBS["predict"].own["gpus"]),
        "batch_size": max(batch.batch_size for batch in trace.batches),
        "scaling": "weak",  # a batch size of its own is each GPU's
        **({"strategy": "layerwise"} if as_traced else {}),  # a message for each layer is what it has
    }
    _, points = points_of({**_without_groups(defaults, given), **given})
    requests = [_checked(request_from(compose(point)), point, settings) for point in points]
    assumed = (*_said(trace, parameters), *(() if "scaling" in given else (_weak(trace),)))
    sends = any(request.gpus > 1 and not isinstance(request.strategy, NoExchange) for request in requests)
    trace = sized(trace, parameters, sends and not as_traced)
    for together in _by_baseline(requests):
        workload = Workload.of_import(trace, together[0].strategy, together[0].scaling)
        yield workload, _placements(together, settings), _baseline(together[0].on(1), settings), assumed


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
