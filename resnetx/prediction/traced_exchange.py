"""The messages of a trace as they were measured, where `communication=trace` asks for them; no link is modelled.

Shi et al. 2018 predict so (section V, Fig. 4): the times of a trace, each layer's communication among them, go through
the task graph, which only adds what overlaps. Such times have waiting for other GPUs in them, and hold for the GPUs and
the per-GPU batch that they were measured on.
"""

from statistics import median

from resnetx.choices import After, Fsdp, Layerwise, Strategy, Zero1
from resnetx.errors import ConfigError
from resnetx.prediction.messages import NOTHING_SENT, Exchange
from resnetx.prediction.step import TimedMessage
from resnetx.prediction.traced_step import spread_over
from resnetx.record.trace import Trace, TracedBatch, TracedLayer

NO_LINK = "the trace has the times of messages, not what limits them"


def traced_exchange(trace: Trace, images: int, gpus: int, strategy: Strategy) -> Exchange:
    """What one iteration of `gpus` GPUs with `images` each sends, by a trace."""
    if isinstance(strategy, Zero1 | Fsdp):
        raise ConfigError(
            f"strategy={strategy.kind} with communication=trace: a trace has all-reduces; use communication=model"
        )
    batch = _batch(trace, images)
    _refuse_other_gpus(trace, batch, gpus)
    layers = [layer for layer in reversed(batch.times.layers) if layer.communication_s]
    messages = _messages(trace, layers, strategy)
    if not messages:
        return NOTHING_SENT
    return Exchange(
        messages,
        tuple(layer.gradient_bytes or 0 for layer in layers),
        library="",
        error=spread_over([layer.communication_s for layer in layers]),
        calibrated=trace.source,
        limiting_link=None,
        link_share=None,
    )


def refuse_silent(trace: Trace) -> None:
    """Refuses a trace without communication."""
    if not any(layer.communication_s for batch in trace.batches for layer in batch.times.layers):
        raise ConfigError(
            f"communication=trace: {trace.source} has no times of communication (of the six columns, comm); leave it "
            "out, to model them"
        )


def _batch(trace: Trace, images: int) -> TracedBatch:
    for batch in trace.batches:
        if batch.batch_size == images:
            return batch
    known = ", ".join(str(batch.batch_size) for batch in trace.batches)
    raise ConfigError(f"communication=trace: {trace.source} has the per-GPU batches {known}, and not {images}")


def _refuse_other_gpus(trace: Trace, batch: TracedBatch, gpus: int) -> None:
    if batch.communication_gpus not in (0, gpus):
        raise ConfigError(
            f"communication=trace: {trace.source} was measured on {batch.communication_gpus} GPUs, which says nothing "
            f"of {gpus}; predict for as many, or leave it out, to model messages"
        )


def _messages(trace: Trace, layers: list[TracedLayer], strategy: Strategy) -> tuple[TimedMessage, ...]:
    """A message for each layer that sends, in the order in which they become ready; behind the backward pass, one."""
    times_s = [median(layer.communication_s) for layer in layers]
    if isinstance(strategy, Layerwise):
        return tuple(TimedMessage((layer.name,), time_s) for layer, time_s in zip(layers, times_s, strict=True))
    if isinstance(strategy, After) and layers:
        return (TimedMessage(tuple(layer.name for layer in layers), sum(times_s)),)
    if not layers or strategy.kind == "none":
        return ()
    raise ConfigError(
        f"communication=trace: {trace.source} has a message for each layer, and strategy={strategy.kind} has "
        "others; use strategy=layerwise or after"
    )
