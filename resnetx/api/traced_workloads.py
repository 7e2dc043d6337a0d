"""Workloads by their traces: ours, which know their request, and those that others have measured."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from resnetx.api.predict_settings import (
    PredictSettings,
    WorkloadPoints,
    baseline_of,
    by_baseline,
    checked,
    gpu_counts,
    placements_of,
    through,
    without_groups,
)
from resnetx.choices import NoExchange
from resnetx.compose import compose, points_of
from resnetx.config import request_from
from resnetx.errors import ConfigError
from resnetx.loading import is_folder
from resnetx.prediction.messages import refuse_silent
from resnetx.prediction.scenario import Workload
from resnetx.record.prediction import UNCHECKED, PredictionInput
from resnetx.record.traces import LayerTimes, Trace, TracedLayer
from resnetx.request import Request
from resnetx.settings.verbs import group_of
from resnetx.study import Point
from resnetx.traces import UNSIZED, read_all, refuse_unsound
from resnetx.workloads.counts import BYTES_PER_PARAMETER

if TYPE_CHECKING:
    from resnetx.api.calibrations import Known

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
