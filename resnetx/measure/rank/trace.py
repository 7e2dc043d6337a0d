"""Traces: one rank trains, and its steps are seen layer by layer, alternating with clean steps.

`measure` is the page to read. A window of clean steps, then as many instrumented ones (`layer_timer`), and so on: what
slows the machine for a while slows both, so that the two can be compared. Behind the
windows follows what a prediction needs besides: how fast the input pipeline is alone, how fast gradients are copied
into messages, whether a clean step keeps the device busy, and how long the host takes to queue one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import torch
from torch import nn

from resnetx import inputs
from resnetx.choices import SyntheticInput
from resnetx.inputs import nothing
from resnetx.measure.launch import hang
from resnetx.measure.rank import results
from resnetx.measure.rank.clock import timed
from resnetx.measure.rank.device_time import MOST_LAUNCHES, TOO_SLOW, Hold, timed_on_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.layer_timer import LayerWatch, WatchedStep
from resnetx.measure.rank.message_buffer import MessageBuffer, copy_scaled, trainable
from resnetx.measure.rank.phases import clock_of
from resnetx.measure.rank.process import StartUpTimer
from resnetx.measure.rank.profiler import kernels_s
from resnetx.measure.rank.results import RankResults, RankTraining
from resnetx.measure.rank.train import build, training_step
from resnetx.measure.rank.windows import Step, measure_windows
from resnetx.record import LayerTimes, TracedLayer, Unknown, known
from resnetx.request import Request

WATCHED_WARMUP = 3  # instrumented steps before the first that counts
ROUNDS = 5  # in which steps are instrumented until none has gaps: each makes the device be held back for longer
REPEATS = 10  # of what is measured behind the windows
FEW = 2  # images: batch normalisation of one pixel needs more than one
QUEUED_WARMUP = 3  # steps of few images, for which cuDNN chooses kernels anew
COPIES_AT_ONCE = MOST_LAUNCHES // 2  # that are timed in one queue, which holds them twice
# Between kernels that are queued one behind the other the device idles for a microsecond or two: a few hundredths of a
# step of small kernels. Where it idles for more than a tenth of the step, the host is late with the next kernel.
BUSY = 0.9


def measure(request: Request, ranks: Ranks, clock: StartUpTimer) -> RankResults:
    """Trains on one rank; returns what the record has of it."""
    hold = Hold(ranks.device) if ranks.device.type == "cuda" else None
    watch = LayerWatch(build(request, ranks), request.model.sample(request.image_size), clock_of(ranks.device), hold)
    clock.lap("model_s")
    pipeline = inputs.open_for(request, ranks.rank, ranks.device, watch.arrived)
    batches = ShortenableBatches(pipeline)
    clock.lap("input_s")
    step, progress = training_step(watch, batches, request, ranks, watch.mark)
    seen: list[WatchedStep] = []

    def note(windows: int) -> None:
        progress.note()
        taken = watched(step, watch, request.steps if windows else WATCHED_WARMUP, ranks)
        seen.extend(taken if windows else [])

    windows = measure_windows(step, note, request, ranks, clock)
    clean_s = [window / windows.window_steps for window in windows.windows_s]
    busy = device_busy(step, median(clean_s), ranks.device)
    layers = LayerTimes(
        clock=clock_of(ranks.device).name,
        layers=_layers(watch, seen),
        input_wait_s=[step.input_wait_s for step in seen],
        host_to_device_s=[step.host_to_device_s for step in seen],
        update_s=[step.update_s for step in seen],
        step_s=[step.step_s for step in seen],
        clean_step_s=clean_s,
        device_busy=known(busy),
        host_bound=known(host_bound(busy, ranks.device)),
        host_s=known(queueing_s(step, watch, batches, ranks.device)),
        gradient_copy_Bps=known(copy_rate_Bps(watch.module.parameters(), ranks.device)),
        input_s=pipeline_s(pipeline, request, ranks.device, seen),
    )
    mine = RankTraining(windows, progress.losses, progress.skipped, Unknown("one rank sends no gradients"))
    measured = replace(results.of_training(request, watch.name, [mine], pipeline), layers=layers)
    pipeline.close()
    return measured


def watched(step: Step, watch: LayerWatch, steps: int, ranks: Ranks) -> list[WatchedStep]:
    """So many instrumented steps; where the device had gaps in some of them, others in their place."""
    seen: list[WatchedStep] = []
    watch.watching = True
    for _ in range(ROUNDS):
        hang.begin_untimed("instrumented steps", on_gpu=ranks.device.type == "cuda")
        timed(step, steps - len(seen), ranks.device, ranks.barrier)
        seen += watch.take()
        if len(seen) == steps:
            break
    watch.watching = False
    if not seen:
        raise RuntimeError(f"no step could be watched layer by layer: {TOO_SLOW}")
    return seen


class ShortenableBatches:
    """The batches of a pipeline; with `few`, only the first images of each."""

    def __init__(self, pipeline: inputs.Batches) -> None:
        self._pipeline = pipeline
        self.few = False

    def __iter__(self) -> "ShortenableBatches":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = next(self._pipeline)
        return (images[:FEW], labels[:FEW]) if self.few else (images, labels)


def queueing_s(
    step: Step, watch: LayerWatch, batches: ShortenableBatches, device: torch.device
) -> list[float] | Unknown:
    """Seconds that the host takes to queue a clean step for a device that is faster.

    Of few images, whose kernels take less time than their launches, whatever the batch: so the host never waits because
    a thousand launches are queued, as many as a step may have (`device_time.MOST_LAUNCHES`).
    """
    if device.type != "cuda":
        return Unknown("a CPU rank has no device beside its host")
    batches.few = True
    found = []
    for _ in range(QUEUED_WARMUP + REPEATS):
        torch.cuda.synchronize(device)
        step()
        found.append(watch.host_s)
    batches.few = False
    return found[QUEUED_WARMUP:]


def _layers(watch: LayerWatch, steps: Sequence[WatchedStep]) -> list[TracedLayer]:
    """Each layer, with its times in each of the instrumented steps."""
    return [
        TracedLayer(
            name=name,
            forward_s=[step.forward_s[place] for step in steps],
            backward_s=[step.backward_s[place] for step in steps],
            communication_s=[],
            gradient_bytes=watch.gradient_bytes[place],
        )
        for place, name in enumerate(watch.names)
    ]


def pipeline_s(
    batches: inputs.Batches, request: Request, device: torch.device, steps: Sequence[WatchedStep]
) -> list[float]:
    """Seconds per batch of the input pipeline alone, of several windows; what lies ready is used up before.

    What a training step waits for its input says nothing of what the input takes: a pipeline works ahead. Synthetic
    input is not read ahead: what a step waits for it is what it takes.
    """
    if isinstance(request.input, SyntheticInput):
        return [step.input_wait_s for step in steps]

    def read() -> None:
        next(batches)

    def window_s(batches: int) -> float:
        hang.begin("reading its input alone")
        return timed(read, batches, device, nothing)

    window_s(getattr(request.input, "prefetch", 0) + request.warmup)
    return [window_s(request.steps) / request.steps for _ in range(REPEATS)]


def copy_rate_Bps(parameters: Iterable[nn.Parameter], device: torch.device) -> float | Unknown:
    """Bytes of gradients per second that the strategies `layerwise` and `after` copy into their messages.

    On a GPU by the device's time: in a step the copies are queued behind the backward pass, one launch a parameter.
    """
    message = MessageBuffer(trainable(parameters))
    # Ones, as zeros may lie in no memory at all.
    pairs = [(torch.ones_like(parameter), view) for parameter, view in message.views]
    parts = [pairs[start : start + COPIES_AT_ONCE] for start in range(0, len(pairs), COPIES_AT_ONCE)]
    times_s = []
    for _ in range(1 + REPEATS):
        all_s = 0.0
        for part in parts:
            part_s = timed_on_device(partial(_copy, part), 1, device)
            if isinstance(part_s, Unknown):
                return part_s
            all_s += part_s
        times_s.append(all_s)
    return message.buffer.nbytes / median(times_s[1:])


def _copy(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    for gradient, view in pairs:
        copy_scaled(gradient, 0.5, view)


def device_busy(step: Step, clean_step_s: float, device: torch.device) -> float | Unknown:
    """The share of a clean step in which the device computes."""
    # Kernels take as long under the profiler as without; the gaps between them do not. So the step is the clean one.
    kernels = kernels_s(step, device)
    return kernels if isinstance(kernels, Unknown) else min(1.0, kernels / clean_step_s)


def host_bound(busy: float | Unknown, device: torch.device) -> bool | Unknown:
    """Whether the device waits for the host; a CPU rank has no device that could."""
    if isinstance(busy, Unknown):
        return busy if device.type == "cuda" else False
    return busy < BUSY
