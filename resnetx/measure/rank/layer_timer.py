"""A training step seen layer by layer: when each layer's forward and backward pass ended.

A `LayerWatch` stands in for the model in the step that `train` measures, and is told of the step's phases. While it
watches, the forward pass is the module's graph (torch.fx) with a mark behind every operation that is a layer of the
table. For the backward pass, every autograd node says when it is about to run, and whose it is: it belongs to the layer
that made it. (Module hooks would miss functions, and full backward hooks raise on in-place operations.)

**Cuts, not intervals.** One mark ends a layer and begins the next, so that the layers of a pass add up to the pass,
whatever lies between them: a view counts to the layer behind it, the sum of the gradients of two branches to the layer
whose backward pass came second, and storing a parameter's gradient to the first layer that used it. The loss is the
last layer forward and the first one backward. Where a net has branches, a layer may run backward in several pieces.

**Clocks** are those of `phases`: the host's on CPUs, CUDA events on GPUs, read once the device has been waited for.

**A GPU is held back** while the host queues some layers for it (`device_time.Hold`), so that their times are its own,
without the gaps in which it would wait for the host, whose events between small layers make these gaps longer still.
What lies between two such stretches belongs to no layer.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.utils.hooks import RemovableHandle

from resnetx.choices import Sample
from resnetx.measure.rank.device_time import Hold
from resnetx.measure.rank.phases import Clock
from resnetx.workloads.layers import Operations, operations, tensors

LOSS = "loss"
OnMade = Callable[[int, Any], None]  # told of a layer's place and of what it has just made
DIGITS = 8  # of recorded seconds behind the decimal point: a small layer takes a microsecond on a CPU
LAYERS_HELD = 50  # whose launches are queued at most: up to ten for each, with its event (`device_time.MOST_LAUNCHES`)
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


class LayerWatch:
    """One rank's model, as `train.training_step` uses one, that notes the steps in which it is `watching`."""

    name = "bare"  # a trace is of one rank, which exchanges nothing
    updates = False

    def __init__(self, module: nn.Module, sample: Sample, clock: Clock, hold: Hold | None = None) -> None:
        """`hold`: of the device that runs the module; None: on the host."""
        self.module = module
        self.watching = False
        found = operations(module, sample)
        self.names = [*found.layer_of.values(), LOSS]  # in the order of the forward pass
        self.gradient_bytes = [0] * len(self.names)  # of each layer; known once a step was watched
        self._clock, self._hold = clock, hold
        self._queued = 0  # layers, since the device is held back
        self._host: dict[str, float] = {}  # phase of the latest step -> when the host came to it
        places = {name: place for place, name in enumerate(self.names)}
        self._watched = _telling(module, found, places, self._layer_made)
        self._made: list[tuple[int, list[Any]]] = []  # a layer, and the autograd nodes of what it made
        self._steps: list[_Step] = []
        self._nodes: dict[Any, int] = {}  # autograd nodes of this step -> the layer that made them
        self._hooks: list[RemovableHandle] = []

    # ---- what the step tells ----------------------------------------------------------------------------------------

    def __call__(self, images: torch.Tensor) -> Any:
        return self._watched(images) if self.watching else self.module(images)

    def finish(self) -> None:
        """One rank has nothing on its way."""

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

    def _layer_made(self, place: int, value: Any) -> None:
        self._ended(place)
        # Now: an operation in place, further on, gives the tensor another node.
        self._made.append((place, [tensor.grad_fn for tensor in tensors(value)]))

    def _ended(self, place: int) -> None:
        forward = self._steps[-1].forward
        forward.append((place, self._clock.now()))
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
        for place, made in self._made:
            for node in _new_nodes(made, self._nodes):
                self._nodes[node] = place
                self._hooks.append(node.register_prehook(partial(self._begins, place)))
                if first and (parameter := getattr(node, "variable", None)) is not None:
                    self.gradient_bytes[place] += parameter.nbytes
        self._made.clear()

    def _begins(self, place: int, _: Any) -> None:
        pieces = self._steps[-1].backward
        if pieces[-1][0] == place:
            return
        begin = self._clock.now()
        if self._full():
            pieces.append((HELD, begin))
            begin = self._held_anew()
        pieces.append((place, begin))

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
        ends = [(place, self._clock.seconds(zero, mark)) for place, mark in step.forward]
        begins = [(place, self._clock.seconds(zero, mark)) for place, mark in step.backward]
        forward_s = _by_layer([place for place, _ in ends], [at["forward"], *(end for _, end in ends)])
        backward_s = _by_layer([place for place, _ in begins], [*(begin for _, begin in begins), at["optimizer"]])
        held_s = at["forward"] - at["copied"] + forward_s[HELD] + backward_s[HELD] if self._hold else 0.0
        places = range(len(self.names))
        return WatchedStep(
            input_wait_s=round(arrived, DIGITS),
            host_to_device_s=round(at["copied"] - arrived, DIGITS),
            forward_s=[round(forward_s[place], DIGITS) for place in places],
            backward_s=[round(backward_s[place], DIGITS) for place in places],
            update_s=round(at["end"] - at["optimizer"], DIGITS),
            step_s=round(at["end"] - held_s, DIGITS),
        )


def _by_layer(places: list[int], cuts: list[float]) -> dict[int, float]:
    """What lies between neighbouring cuts, added up for each layer; 0 for any other."""
    summed: dict[int, float] = defaultdict(float)
    for place, begin, end in zip(places, cuts, cuts[1:], strict=False):
        summed[place] += end - begin
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
