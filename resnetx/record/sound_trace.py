"""Whether a trace can be what it says: files from elsewhere hold whatever somebody wrote into them."""

import math
from collections.abc import Iterable, Iterator

from resnetx.errors import ConfigError
from resnetx.record.trace import LayerTimes, Trace, TracedBatch


def refuse_unsound(trace: Trace, sending: Iterable[str] = ()) -> Trace:
    """The trace, or one sentence on what is wrong with it. `sending`: layers that it has to have."""
    for wrong in _mistakes(trace, set(sending)):
        raise ConfigError(f"{trace.source}: {wrong}, so this is no trace to predict from")
    return trace


def _mistakes(trace: Trace, sending: set[str]) -> Iterator[str]:
    sizes = [each.batch_size for each in trace.batches]
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        yield f"its batch sizes are {sizes}"
    if trace.cpus is not None and trace.cpus < 1:
        yield f"its host has cpus={trace.cpus}"
    if trace.sm_clock_Hz is not None and not 0 < trace.sm_clock_Hz < math.inf:
        yield f"its clock is {trace.sm_clock_Hz} Hz"
    for each in trace.batches:
        yield from (f"batch {each.batch_size}: {wrong}" for wrong in _of_batch(each, sending))


def _of_batch(batch: TracedBatch, sending: set[str]) -> Iterator[str]:
    times = batch.times
    for name, seconds in _times(times):
        if not all(0 <= value < math.inf for value in seconds):
            yield f"{name} has times that are negative or without end"
    names = [layer.name for layer in times.layers]
    if len(set(names)) < len(names):
        yield "several layers have one name"
    if absent := sorted(sending - set(names)):
        yield f"the layers {', '.join(absent[:3])} of its workload are missing"
    if not sum(sum(layer.forward_s) + sum(layer.backward_s) for layer in times.layers) > 0:
        yield "no layer takes any time"
    if min((layer.gradient_bytes for layer in times.layers), default=0) < 0:
        yield "a layer has fewer than no bytes of gradients"
    if times.gradient_copy_Bps is not None and not 0 < times.gradient_copy_Bps < math.inf:
        yield f"gradients are copied at {times.gradient_copy_Bps} B/s"


def _times(times: LayerTimes) -> Iterator[tuple[str, list[float]]]:
    for part in ("input_s", "input_wait_s", "host_to_device_s", "update_s", "step_s", "clean_step_s"):
        yield part, getattr(times, part) or []
    for layer in times.layers:
        yield f"layer {layer.name}", [*layer.forward_s, *layer.backward_s, *layer.communication_s]
