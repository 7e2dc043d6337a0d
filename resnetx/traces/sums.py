"""What a traced batch adds up to: its parts, the instrumented step that they are parts of, and the clean step.

Each figure is a median over iterations; the residual is taken within each iteration first. So the parts of a noisy
trace add up to its step only nearly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from resnetx.record.trace import LayerTimes, TracedLayer


@dataclass(frozen=True)
class TraceSums:
    """Seconds of one iteration; None where the trace does not have it, as imported ones may not."""

    input_s: float | None  # of the input pipeline alone; no part of the step, which waits for it only
    host_s: float | None  # of the host alone, to queue a step
    input_wait_s: float | None
    host_to_device_s: float | None
    forward_s: float
    backward_s: float
    update_s: float | None
    rest_s: float | None  # of the instrumented step that is in no part: instrumenting, between forward and backward
    step_s: float | None  # instrumented
    clean_step_s: float | None
    # Instrumented step over clean step: by so much, layer times may be too long. And all parts over the clean step: 1
    # where they account for it. Medians over the windows, each against the clean window before it: what slows the
    # machine for a while slows both.
    instrumented_over_clean: float | None
    parts_over_clean: float | None


def sums(times: LayerTimes) -> TraceSums:
    """What the batch adds up to."""
    forward = _per_iteration([layer.forward_s for layer in times.layers])
    backward = _per_iteration([layer.backward_s for layer in times.layers])
    parts = [part for part in (times.input_wait_s, times.host_to_device_s, forward, backward, times.update_s) if part]
    instrumented, clean = times.step_s or [], times.clean_step_s or []
    rest = [step - sum(of_step) for step, *of_step in zip(instrumented, *parts, strict=False)]
    accounted = [step - left for step, left in zip(instrumented, rest, strict=False)]
    return TraceSums(
        input_s=_median(times.input_s),
        host_s=_median(times.host_s or []),
        input_wait_s=_median(times.input_wait_s),
        host_to_device_s=_median(times.host_to_device_s),
        forward_s=_median(forward) or 0.0,
        backward_s=_median(backward) or 0.0,
        update_s=_median(times.update_s),
        rest_s=_median(rest),
        step_s=_median(instrumented),
        clean_step_s=_median(clean),
        instrumented_over_clean=_over_clean(instrumented, clean),
        parts_over_clean=_over_clean(accounted, clean),
    )


def _over_clean(instrumented: Sequence[float], clean: Sequence[float]) -> float | None:
    """Instrumented seconds over those of the clean window before them; None without as many windows of both."""
    if not clean or not instrumented or len(instrumented) % len(clean):
        return None
    length = len(instrumented) // len(clean)
    windows = [instrumented[begin : begin + length] for begin in range(0, len(instrumented), length)]
    return median(fmean(window) / clean_s for window, clean_s in zip(windows, clean, strict=True))


def slowest(layers: Sequence[TracedLayer], count: int) -> list[TracedLayer]:
    """The layers with the longest forward and backward times together, the longest first."""
    return sorted(layers, key=layer_s, reverse=True)[:count]


def layer_s(layer: TracedLayer) -> float:
    """Median seconds of a layer, forward and backward together."""
    return (_median(layer.forward_s) or 0.0) + (_median(layer.backward_s) or 0.0)


def _per_iteration(by_layer: Sequence[Sequence[float]]) -> list[float]:
    """Sums over the layers; a layer without times, as imported ones may be, counts nothing."""
    return [sum(iteration) for iteration in zip(*(times for times in by_layer if times), strict=False)]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
