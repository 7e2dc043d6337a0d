"""Whether a trace can be what it says: files from elsewhere hold whatever somebody wrote into them."""

from collections.abc import Iterable, Iterator

from resnetx.errors import FileError, shortened
from resnetx.record.files import MOST_BYTES, LONGEST_s
from resnetx.record.trace import LayerTimes, Trace, TracedBatch, TracedCommunication

UNSIZED = "no-gradient-sizes"  # code of the warning of a trace without them
FASTEST_Bps, FASTEST_Hz = 1e18, 1e12


def refuse_unsound(trace: Trace, sending: Iterable[str] = ()) -> Trace:
    """The trace, or one sentence on what is wrong with it. `sending`: layers that it has to have."""
    for wrong in _mistakes(trace, set(sending)):
        raise FileError(f"{shortened(trace.source, 1000)}: {wrong}, so this is no trace")
    return trace


def _mistakes(trace: Trace, sending: set[str]) -> Iterator[str]:
    """What is wrong with a trace, a phrase each; `sending`: the layers that have gradients."""
    sizes = [batch.batch_size for batch in trace.batches]
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        yield f"its batch sizes are {sizes}"
    if trace.cpus is not None and trace.cpus < 1:
        yield f"its host has cpus={trace.cpus}"
    if trace.sm_clock_Hz is not None and not 1 <= trace.sm_clock_Hz <= FASTEST_Hz:
        yield f"its clock is {trace.sm_clock_Hz} Hz"
    for sent in trace.communication:
        yield from _of_communication(sent)
    sizes_missing = any(layer.gradient_bytes is None for each in trace.batches for layer in each.times.layers)
    if sizes_missing and trace.request is not None:
        yield "layers of a run have gradients of unknown size"
    for each in trace.batches:
        yield from (f"batch {each.batch_size}: {wrong}" for wrong in _of_batch(each, sending))


def _of_batch(batch: TracedBatch, sending: set[str]) -> Iterator[str]:
    """What is wrong with one batch, a phrase each."""
    times = batch.times
    for name, seconds in _times(times):
        if not all(0 <= value <= LONGEST_s for value in seconds):
            yield f"{shortened(name)} has times that are negative or without end"
    if batch.communication_gpus < 0:
        yield f"its messages are between {batch.communication_gpus} GPUs"
    names = [layer.name for layer in times.layers]
    if len(set(names)) < len(names):
        yield "several layers have one name"
    if absent := sorted(sending - set(names)):
        yield f"the layers {', '.join(absent[:3])} of its workload are missing"
    if not sum(sum(layer.forward_s) + sum(layer.backward_s) for layer in times.layers) > 0:
        yield "no layer takes any time"
    if not all(0 <= (layer.gradient_bytes or 0) <= MOST_BYTES for layer in times.layers):
        yield "a layer has fewer than no bytes of gradients, or more than any memory"
    for name in ("step_s", "clean_step_s"):
        if (steps := getattr(times, name)) and min(steps) == 0:
            yield f"{name} has steps that took no time"
    if times.gradient_copy_Bps is not None and not 1 <= times.gradient_copy_Bps <= FASTEST_Bps:
        yield f"gradients are copied at {times.gradient_copy_Bps} B/s"


def _of_communication(sent: TracedCommunication) -> Iterator[str]:
    if sent.gpus < 1 or sent.batch_size < 0:
        yield f"messages of batch {sent.batch_size} over {sent.gpus} GPUs"
    for message in sent.messages:
        seconds = [*message.waiting_s, *message.transfer_s]
        if not (message.waiting_s and message.transfer_s and all(abs(value) <= LONGEST_s for value in seconds)):
            yield "a message has no times, or times without end"


def _times(times: LayerTimes) -> Iterator[tuple[str, list[float]]]:
    for part in ("input_s", "input_wait_s", "host_to_device_s", "update_s", "step_s", "clean_step_s", "host_s"):
        yield part, getattr(times, part) or []
    for layer in times.layers:
        yield f"layer {layer.name}", [*layer.forward_s, *layer.backward_s, *layer.communication_s]
