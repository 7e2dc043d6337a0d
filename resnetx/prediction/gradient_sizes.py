"""How many bytes of gradients the layers of an imported trace have, where its file does not say.

Then all that is sent is unknown, and the user states how many parameters are trained in the whole model
(`parameters=`). They are shared among the layers whose sizes are not known in proportion to their backward times: when
a part of them is ready, not which layer has it, decides how much of the messages is hidden.
"""

from itertools import accumulate, pairwise
from statistics import median

import msgspec

from resnetx.errors import ConfigError
from resnetx.record.trace import LayerTimes, Trace, TracedLayer
from resnetx.workloads.counts import BYTES_PER_PARAMETER

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
