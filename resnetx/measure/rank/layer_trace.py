"""Traces: one rank trains, and its steps are seen layer by layer, alternating with clean steps.

`measure` is the page to read. A window of clean steps, then as many instrumented ones (`layer_timer`), and so on: what
slows the machine for a while slows both, so that the two can be compared. Behind the
windows follows what a prediction needs besides: how fast the input pipeline is alone, how fast gradients are copied
into messages, whether a clean step keeps the device busy, and how long the host takes to queue one.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import fx, nn
from torch.utils.hooks import RemovableHandle

from resnetx import inputs, workloads
from resnetx.choices import Sample, SyntheticInput
from resnetx.inputs import nothing
from resnetx.measure.launch import hang
from resnetx.measure.rank import results
from resnetx.measure.rank.device import MOST_LAUNCHES, TOO_SLOW, Hold, kernels_s, timed, timed_on_device
from resnetx.measure.rank.distributed import Ranks
from resnetx.measure.rank.phases import Clock, clock_of
from resnetx.measure.rank.replicas import MessageBuffer, Trained, copy_scaled, trainable
from resnetx.measure.rank.results import RankResults, RankTraining
from resnetx.measure.rank.training import OwnBatches, build, open_batches, training_step
from resnetx.measure.rank.windows import StartUpTimer, Step, measure_windows
from resnetx.record import LayerTimes, TracedLayer, Unknown, known
from resnetx.request import Request
from resnetx.workloads.counts import DATA
from resnetx.workloads.layers import Operations, RecordedOperation, Recorder, operations, tensors

# A training step seen layer by layer: when each layer's forward and backward pass ended.
#
# A `LayerWatch` stands in for the model in the step that `training` measures, and is told of its phases. While it
# watches, the forward pass is the module's graph (torch.fx) with a mark behind every operation that is a layer of the
# table. For the backward pass, every autograd node says when it is about to run, and whose it is: it belongs to the
# layer that made it. (Module hooks would miss functions, and full backward hooks raise on in-place operations.)
#
# **Cuts, not intervals.** One mark ends a layer and begins the next, so that the layers of a pass add up to the pass,
# whatever lies between them: a view counts to the layer behind it, the sum of the gradients of two branches to the
# layer whose backward pass came second, and storing a parameter's gradient to the first layer that used it. The loss is
# the last layer forward and the first one backward. Where a net has branches, a layer may run backward in several
# pieces.
#
# **Clocks** are those of `phases`: the host's on CPUs, CUDA events on GPUs, read once the device has been waited for.
#
# **A GPU is held back** while the host queues some layers for it (`device.Hold`), so that their times are its own,
# without the gaps in which it would wait for the host, whose events between small layers make these gaps longer still.
# What lies between two such stretches belongs to no layer.

LOSS = "loss"
OnMade = Callable[[int, Any], None]  # told of a layer's place and of what it has just made
DIGITS = 8  # of recorded seconds behind the decimal point: a small layer takes a microsecond on a CPU
LAYERS_HELD = 50  # whose launches are queued at most: up to ten for each, with its event (`device.MOST_LAUNCHES`)
HELD = -1  # stands for a layer where the device was held back


@dataclass
class _Step:
    """The marks of one step, as the clock notes them. Layers are told by their places in `LayerWatch.names`."""

    marks: dict[str, Any] = field(default_factory=dict)  # phase -> its begin
    forward: list[tuple[int, Any]] = field(default_factory=list)  # a layer, and its end
    backward: list[tuple[int, Any]] = field(default_factory=list)  # a layer, and the begin of a piece of it
    in_time: bool = True  # the host queued every stretch while the device was held back


@dataclass(frozen=True)
class WatchedStep:
    """Seconds of the parts of one step; `forward_s` and `backward_s` have an entry for every layer."""

    input_wait_s: float
    host_to_device_s: float
    forward_s: list[float]
    backward_s: list[float]
    update_s: float
    step_s: float


class LayerWatch(Trained):
    """One rank's model, as `training_step` uses one, that notes the steps in which it is `watching`."""

    name = "bare"  # a trace is of one rank, which exchanges nothing

    def __init__(self, module: nn.Module, sample: Sample | list[str], clock: Clock, hold: Hold | None = None) -> None:
        """`hold`: of the device that runs the module; None: on the host.

        `sample`: what the module is fed with, as torch.fx follows it; or the layers of a user's own, which is watched.
        """
        self.module = module
        self.watching = False
        found = None if isinstance(sample, list) else operations(module, sample)
        layers = sample if isinstance(sample, list) else list(found.layer_of.values()) if found else []
        self.names = [*layers, LOSS]  # in the order of the forward pass
        self.gradient_bytes = [0] * len(self.names)  # of each layer; known once a step was watched
        self._clock, self._hold = clock, hold
        self._queued = 0  # layers, since the device is held back
        self._host: dict[str, float] = {}  # phase of the latest step -> when the host came to it
        places = {name: index for index, name in enumerate(self.names)}
        made = self._layer_made
        self._watched = _recording(module, places, made) if found is None else _telling(module, found, places, made)
        self._made: list[tuple[int, list[Any]]] = []  # a layer, and the autograd nodes of what it made
        self._steps: list[_Step] = []
        self._nodes: dict[Any, int] = {}  # autograd nodes of this step -> the layer that made them
        self._hooks: list[RemovableHandle] = []

    # ---- what the step tells ----------------------------------------------------------------------------------------

    def __call__(self, *images: Any, **named: Any) -> Any:
        return (self._watched if self.watching else self.module)(*images, **named)

    def mark(self, phase: str) -> None:
        """The phase begins now."""
        self._host[phase] = time.perf_counter()
        if not self.watching:
            return
        if phase == "input_wait":
            self._steps.append(_Step())
        step = self._steps[-1]
        if phase == "forward":
            step.marks["copied"] = self._clock.now()
            self._hold_back()
        if phase == "backward":
            self._ended(len(self.names) - 1)
            self._note_whether_held()
            self._hook()  # takes its time, which belongs to no phase
            if self._hold:
                self._hold_back()
                step.forward.append((HELD, self._clock.now()))
            step.backward.append((len(self.names) - 1, self._clock.now()))
        step.marks[phase] = self._clock.now()
        if phase == "end":
            self._note_whether_held()
            self._release()

    @property
    def host_s(self) -> float:
        """Seconds that the host spent on the latest step from its forward pass on: on a GPU, queueing its work."""
        return self._host["end"] - self._host["forward"]

    def arrived(self) -> None:
        """A batch is there, and is copied to the device from now on."""
        self.mark("host_to_device")

    def _layer_made(self, index: int, value: Any) -> None:
        self._ended(index)
        # Now: an operation in place, further on, gives the tensor another node.
        self._made.append((index, [tensor.grad_fn for tensor in tensors(value)]))

    def _ended(self, index: int) -> None:
        forward = self._steps[-1].forward
        forward.append((index, self._clock.now()))
        if self._full():
            forward.append((HELD, self._held_anew()))

    # ---- the queue of a device --------------------------------------------------------------------------------------

    def _full(self) -> bool:
        """Whether so many layers are queued that the device has to run them before more are."""
        self._queued += 1
        return self._hold is not None and self._queued >= LAYERS_HELD

    def _held_anew(self) -> Any:
        """Lets the device run what is queued, and holds it back again; the moment from which what is queued counts."""
        self._note_whether_held()
        self._hold_back()
        return self._clock.now()

    def _hold_back(self) -> None:
        self._queued = 0
        if self._hold:
            self._hold.begin()

    def _note_whether_held(self) -> None:
        if self._hold and not self._hold.lasts():
            self._steps[-1].in_time = False
            self._hold.lengthen()

    # ---- the backward pass ------------------------------------------------------------------------------------------

    def _hook(self) -> None:
        """Makes every autograd node say when it begins. Those of the loss run first, and need not."""
        first = not any(self.gradient_bytes)
        for index, made in self._made:
            for node in _new_nodes(made, self._nodes):
                self._nodes[node] = index
                self._hooks.append(node.register_prehook(partial(self._begins, index)))
                if first and (parameter := getattr(node, "variable", None)) is not None:
                    self.gradient_bytes[index] += parameter.nbytes
        self._made.clear()

    def _begins(self, index: int, _: Any) -> None:
        pieces = self._steps[-1].backward
        if pieces[-1][0] == index:
            return
        begin = self._clock.now()
        if self._full():
            pieces.append((HELD, begin))
            begin = self._held_anew()
        pieces.append((index, begin))

    def _release(self) -> None:
        """Lets go of the graph; its nodes for parameters may outlive it."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._nodes.clear()

    # ---- what was seen ----------------------------------------------------------------------------------------------

    def take(self) -> list[WatchedStep]:
        """The steps since the last call, once the device has been waited for; without those that had gaps."""
        steps, self._steps = self._steps, []
        return [self._worked_up(step) for step in steps if step.in_time]

    def _worked_up(self, step: _Step) -> WatchedStep:
        zero = step.marks["input_wait"]
        at = {phase: self._clock.seconds(zero, mark) for phase, mark in step.marks.items()}
        arrived = at.get("host_to_device", at["copied"])  # where the step itself copies nothing to the device
        ends = [(index, self._clock.seconds(zero, mark)) for index, mark in step.forward]
        begins = [(index, self._clock.seconds(zero, mark)) for index, mark in step.backward]
        forward_s = _by_layer([index for index, _ in ends], [at["forward"], *(end for _, end in ends)])
        backward_s = _by_layer([index for index, _ in begins], [*(begin for _, begin in begins), at["optimizer"]])
        held_s = at["forward"] - at["copied"] + forward_s[HELD] + backward_s[HELD] if self._hold else 0.0
        places = range(len(self.names))
        return WatchedStep(
            input_wait_s=round(arrived, DIGITS),
            host_to_device_s=round(at["copied"] - arrived, DIGITS),
            forward_s=[round(forward_s[index], DIGITS) for index in places],
            backward_s=[round(backward_s[index], DIGITS) for index in places],
            update_s=round(at["end"] - at["optimizer"], DIGITS),
            step_s=round(at["end"] - held_s, DIGITS),
        )


def _by_layer(places: list[int], cuts: list[float]) -> dict[int, float]:
    """What lies between neighbouring cuts, added up for each layer; 0 for any other."""
    summed: dict[int, float] = defaultdict(float)
    for index, begin, end in zip(places, cuts, cuts[1:], strict=False):
        summed[index] += end - begin
    return summed


def _telling(module: nn.Module, traced: Operations, places: dict[str, int], made: OnMade) -> fx.GraphModule:
    """The module with a call of `made` behind every operation that is a layer, in code that torch.fx writes.

    Its Interpreter needs no such code, but 20 us more for every operation.
    """
    for node in list(traced.graph.nodes):
        if node.name in traced.layer_of:
            with traced.graph.inserting_after(node):
                traced.graph.call_function(made, (places[traced.layer_of[node.name]], node))
    return fx.GraphModule(module, traced.graph)


def _recording(module: nn.Module, places: dict[str, int], made: OnMade) -> Callable[..., Any]:
    """The module, as it runs, with a call of `made` behind every operation that is a layer: 10 us more for each."""

    def told(operation: RecordedOperation) -> None:
        if operation.name in places:
            made(places[operation.name], operation.value)

    def call(*images: Any, **named: Any) -> Any:
        with Recorder(module, told):
            return module(*images, **named)

    return call


def _new_nodes(made: Iterable[Any], known: dict[Any, int]) -> list[Any]:
    """Autograd nodes that lead to `made`, and are not known from the layers before."""
    found: dict[Any, None] = {}
    waiting = [node for node in made if node is not None]
    while waiting:
        node = waiting.pop()
        if node not in known and node not in found:
            found[node] = None
            waiting += [below for below, _ in node.next_functions if below is not None]
    return list(found)


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
    watch = LayerWatch(build(request, ranks), _followed(request), clock_of(ranks.device), hold)
    clock.lap("model_s")
    pipeline = open_batches(request, ranks, watch.arrived)
    batches = ShortenableBatches(pipeline, _few(request, ranks))
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
        hang.begin_untimed("profiled steps", on_gpu=ranks.device.type == "cuda")
        timed(step, steps - len(seen), ranks.device, ranks.barrier)
        seen += watch.take()
        if len(seen) == steps:
            break
    watch.watching = False
    if not seen:
        raise RuntimeError(f"no step could be watched layer by layer: {TOO_SLOW}")
    return seen


def _followed(request: Request) -> Sample | list[str]:
    """What the watch follows: a sample through torch.fx, or the layers of a user's own model."""
    if request.model.code:
        table = workloads.table(request.model, request.image_size)
        return [layer.name for layer in table if layer.kind not in (DATA, "unseen")]
    return request.model.sample(request.image_size)


def _few(request: Request, ranks: Ranks) -> tuple[Any, Any] | None:
    """A small batch of a user's own model, which cannot be shortened by slicing its first tensor."""
    if not request.model.code:
        return None
    return next(OwnBatches(request.model, FEW, ranks.device, request.seed))


class ShortenableBatches(Iterator[tuple[Any, Any]]):
    """The batches of a pipeline; with `few`, only the first images of each, or a small batch that was made before."""

    def __init__(self, pipeline: inputs.Batches, small: tuple[Any, Any] | None = None) -> None:
        self._pipeline, self._small = pipeline, small
        self.few = False

    def __next__(self) -> tuple[Any, Any]:
        if self.few and self._small is not None:
            return self._small
        images, labels = next(self._pipeline)
        return (images[:FEW], labels[:FEW]) if self.few else (images, labels)


def queueing_s(
    step: Step, watch: LayerWatch, batches: ShortenableBatches, device: torch.device
) -> list[float] | Unknown:
    """Seconds that the host takes to queue a clean step for a device that is faster.

    Of few images, whose kernels take less time than their launches, whatever the batch: so the host never waits because
    a thousand launches are queued, as many as a step may have (`device.MOST_LAUNCHES`).
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
            forward_s=[step.forward_s[index] for step in steps],
            backward_s=[step.backward_s[index] for step in steps],
            communication_s=[],
            gradient_bytes=watch.gradient_bytes[index],
        )
        for index, name in enumerate(watch.names)
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
