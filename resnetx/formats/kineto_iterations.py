"""The iterations of a profile: which layer each work belongs to, and how long it took.

To an iteration belongs what the host began in its window, with the kernels that this launched, whenever they ran. A
node of the backward pass names the operation that it undoes by a sequence number; the gradients of parameters are
accumulated right behind the node that made them.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Literal

from msgspec import Meta

from resnetx.formats.chrome import Details, Event, first_of
from resnetx.record.sealing import Unknown
from resnetx.record.traces import Precision

# ---- kineto work ----------------------------------------------------------------------------------------------------
# What the threads of a profile did, and what they launched on the device.
#
# The events of a thread lie within each other or behind each other. The outermost ones that mean something are its
# *works*: an operation with all that it calls, a node of the backward pass, the optimizer's step, a wait for input.
# What a rank does to exchange messages is a work of its own, also within another.

WorkKind = Literal["operation", "node", "update", "input", "communication", "exchange"]

OPERATIONS = {"cpu_op", "operator"}  # categories of events; "operator" and "runtime" are those of torch before 1.12
LAUNCHES = {
    "cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver",
    "mtia_runtime",
}  # fmt: skip
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}

NODE = "autograd::engine::evaluate_function: "
MODULE = "nn.Module: "
ACCUMULATE = "torch::autograd::AccumulateGrad"  # adds what it is given to the gradient of a parameter

# How annotations of torch begin, and what they enclose; None: what is within is looked at by itself.
ANNOTATIONS: dict[str, WorkKind | None] = {
    "ProfilerStep#": None,
    "DistributedDataParallel.": None,
    "Optimizer.": "update",
    "enumerate(DataLoader)": "input",
    "gloo:": "communication",
    "nccl:": "communication",
}

# What ranks of a data-parallel job do to send and to receive, by torch's hooks within forward and backward passes:
# launching collectives, waiting for them, copying into and out of their buffers. A process that trains alone has none.
EXCHANGE = (
    "c10d::", "record_param_comms", "torch::distributed::reducer::", "torch.distributed.ddp.reducer::",
    "FSDP::", "fsdp::", "FullyShardedDataParallel._",
)  # fmt: skip

ONE_PROCESS = "enumerate(DataLoader)#_SingleProcess"  # the loader works while the step waits for it, and only then

ELEMENT_BYTES = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2}
MOST_BYTES = 2**53  # of a gradient
_Shape = Annotated[list[Annotated[int, Meta(ge=0, le=MOST_BYTES)]], Meta(max_length=8)]


@dataclass(eq=False, slots=True)
class Call:
    """A call of a module, which has works within."""

    name: str  # its class and the number of the instance: "Conv2d_0"
    event: Event
    caller: "Call | None" = None
    leaf: bool = True  # it calls no other module

    @property
    def outermost(self) -> "Call":
        """The call of the whole network that it is part of."""
        call = self
        while call.caller is not None:
            call = call.caller
        return call


@dataclass(eq=False, slots=True)
class Work:
    """One outermost activity of a thread: an operation, a node of the backward pass, an update, a wait for input."""

    part: WorkKind
    event: Event
    call: Call | None  # the innermost one around it
    cause: "Work | None" = None  # of a node that accumulates: the node that made the gradient
    sequences: list[tuple[float, int]] = field(default_factory=list)  # time and sequence number of what is within
    gradient_bytes: int | None = None  # that it accumulates; None: the profile has no shapes
    device: list[Event] = field(default_factory=list)  # what it launched
    exchanged: float = 0.0  # microseconds of it that works of their own have, which exchange what ranks send
    waited: float = 0.0  # microseconds of it in which the host waited for the device

    @property
    def accumulates(self) -> bool:
        return self.event.name == NODE + ACCUMULATE

    @property
    def copies_from_host(self) -> bool:
        """Whether all that it does on the device is copying what the host has: a batch, or parameters at set-up."""
        return bool(self.device) and all(map(is_copy_from_host, self.device))


@dataclass(frozen=True)
class Works:
    """The works of all threads, and what ran on the device without any."""

    works: list[Work]  # by when they began
    stray: list[tuple[float, Event]]  # what runs on the device for no work: when it was launched, and what it is
    on_device: bool  # the profile is of a GPU


def works(events: Sequence[Event]) -> Works:
    """The works of all threads, with what they launched."""
    threads: dict[tuple[int | str, int | str], list[Event]] = defaultdict(list)
    for event in events:
        if _of_host(event):
            threads[event.pid, event.tid].append(event)
    launches = _Launches()
    nodes = sorted(event.ts for event in events if event.name.startswith(NODE))
    found = [work for thread in threads.values() for work in _walk(thread, launches, nodes)]
    stray = []
    on_device = [event for event in events if event.kind in DEVICE]
    for event in on_device:
        began, launcher = launches.of(event)
        if launcher is None:
            stray.append((began, event))
        else:
            launcher.device.append(event)
    return Works(sorted(found, key=lambda work: work.event.ts), stray, bool(on_device))


def is_copy_from_host(event: Event) -> bool:
    """Whether something on the device is a copy of host memory: "Memcpy HtoD (Pageable -> Device)"."""
    return "htod" in event.name.lower()


def _of_host(event: Event) -> bool:
    if event.kind == "python_function":
        return event.name.startswith(MODULE)
    return event.kind in OPERATIONS or event.kind in LAUNCHES or event.kind == "user_annotation"


class _Launches:
    """Which work launched what."""

    def __init__(self) -> None:
        self._by_correlation: dict[int, tuple[float, Work | None]] = {}
        self._by_operation: dict[int, Work] = {}

    def note(self, event: Event, work: Work | None) -> None:
        if event.args is None:
            return
        if event.kind in LAUNCHES:
            if event.args.correlation is not None:
                self._by_correlation[event.args.correlation] = (event.ts, work)
        elif work is not None and event.args.external_id is not None:
            self._by_operation[event.args.external_id] = work

    def of(self, event: Event) -> tuple[float, Work | None]:
        """When, and by what: as its launch says, or else the operation whose number it bears."""
        args = event.args or Details()
        began, work = event.ts, None
        if args.correlation is not None:
            began, work = self._by_correlation.get(args.correlation, (event.ts, None))
        if work is None and args.external_id is not None:
            work = self._by_operation.get(args.external_id)
        return began, work


@dataclass(frozen=True, slots=True)
class _Frame:
    """An event that has not ended yet, with the call and the work around it."""

    end: float
    call: Call | None
    work: Work | None


def _walk(thread: Sequence[Event], launches: _Launches, nodes: Sequence[float]) -> list[Work]:
    """The work of one thread, outermost events first; a stack holds the events that the current one lies within.

    `nodes`: when nodes of any thread began. An update in which some did runs the passes itself (a closure, as PyTorch
    Lightning has it), and what is within is looked at.
    """
    thread_works: list[Work] = []
    stack = [_Frame(float("inf"), None, None)]
    node: Work | None = None  # the last one that was no accumulation
    for event in sorted(thread, key=lambda event: (event.ts, -event.dur)):
        while stack[-1].end <= event.ts:
            stack.pop()
        call, work = stack[-1].call, stack[-1].work
        if work is not None and not (_exchanges(event) and work.part not in ("communication", "exchange")):
            _note(work, event)
        elif work is not None:
            work.exchanged += event.dur
            work = Work("exchange", event, call)
            thread_works.append(work)
        elif event.name.startswith(MODULE):
            if call is not None:
                call.leaf = False
            call = Call(event.name.removeprefix(MODULE), event, call)
        elif (part := _part(event)) is not None and not (part == "update" and _encloses(event, nodes)):
            work = Work(part, event, call)
            _note(work, event)
            thread_works.append(work)
            if work.accumulates:
                work.cause = node
            elif part == "node":
                node = work
        launches.note(event, work)
        if work is not None and event.kind in LAUNCHES and event.name.endswith("Synchronize"):
            work.waited += event.dur
        stack.append(_Frame(event.end, call, work))
    return thread_works


def _encloses(event: Event, times: Sequence[float]) -> bool:
    """Whether any of these times, which are sorted, lies within an event."""
    return bisect_left(times, event.ts) < bisect_left(times, event.end)


def _exchanges(event: Event) -> bool:
    return event.name.startswith(EXCHANGE)


def _part(event: Event) -> WorkKind | None:
    """The part of a step that an event begins; None: none of them."""
    if _exchanges(event):
        return "exchange"
    for beginning, part in ANNOTATIONS.items():
        if event.name.startswith(beginning):
            return part
    if event.kind not in OPERATIONS:
        return None
    return "node" if event.name.startswith(NODE) else "operation"


def _note(work: Work, event: Event) -> None:
    """What an event within a work says of it."""
    if event.args is None or event.kind not in OPERATIONS:
        return
    if event.args.sequence is not None:
        work.sequences.append((event.ts, event.args.sequence))
    if work.accumulates and event.name == ACCUMULATE:
        work.gradient_bytes = _first_tensor_bytes(event.args)


def _first_tensor_bytes(args: Details) -> int | None:
    """Bytes of the first input of an operation, where shapes were recorded."""
    lengths, kind = first_of(args.dims, _Shape), first_of(args.types, str)
    if lengths is None or kind not in ELEMENT_BYTES:
        return None
    size_bytes = int(prod(lengths)) * ELEMENT_BYTES[kind]
    return size_bytes if size_bytes <= MOST_BYTES else None


# ---- kineto iterations ----------------------------------------------------------------------------------------------

UNATTRIBUTED = "unattributed"
UPDATE = "Optimizer.step"
LEAST_ALIKE = 4  # operations by which a network is known
NO_SHAPES = Unknown("the profile has no shape of its gradients (record_shapes=True)")

Window = tuple[float, float]  # begin and end, microseconds


@dataclass(slots=True)
class ProfiledLayer:
    """Seconds of one layer in one iteration."""

    name: str
    forward_s: float = 0.0
    backward_s: float = 0.0
    communication_s: float = 0.0
    gradient_bytes: int | Unknown = 0
    forward_products_s: float = 0.0  # of these, in kernels of products and convolutions
    backward_products_s: float = 0.0


@dataclass
class ProfiledIteration:
    """Seconds of one iteration."""

    layers: list[ProfiledLayer]  # in the order in which their forward passes began
    begin: float  # microseconds; on a GPU, of the first thing that ran there
    end: float
    rest: ProfiledLayer = field(default_factory=lambda: ProfiledLayer(UNATTRIBUTED))
    update_s: float = 0.0
    input_s: float = 0.0  # of the loader, where the step does its work
    input_wait_s: float = 0.0
    host_to_device_s: float = 0.0
    launching_s: float = 0.0  # of the host, for all that it launches on a device; as the profiler slows it
    products_s: Counter[Precision | None] = field(default_factory=Counter)  # by precision, None: kernels do not say
    accumulated: int = 1  # passes whose gradients are added up before the update: of a micro-batch each
    evaluated: bool = False  # the network ran without a backward pass, too

    @property
    def compute_s(self) -> float:
        """Forward, backward and update."""
        layers_s = sum(layer.forward_s + layer.backward_s for layer in (*self.layers, self.rest))
        return layers_s + self.update_s


def iterations_in(works: Works, windows: Sequence[Window]) -> list[ProfiledIteration]:
    """One iteration for each window; windows are sorted."""
    return [_iteration(contents, works.on_device) for contents in _contents(works, windows)]


# ---- what belongs to an iteration -----------------------------------------------------------------------------------


@dataclass
class _Contents:
    """What began, or was launched, between two times (microseconds)."""

    begin: float
    end: float
    works: list[Work] = field(default_factory=list)
    stray: list[Event] = field(default_factory=list)  # that ran on the device for no work


def _contents(works: Works, windows: Sequence[Window]) -> list[_Contents]:
    """The work that began in each window, and the stray device events that were launched in it."""
    contents = [_Contents(begin, end) for begin, end in windows]
    begins = [content.begin for content in contents]

    def at(time: float) -> _Contents | None:
        index = bisect_right(begins, time) - 1
        return contents[index] if index >= 0 and time <= contents[index].end else None

    for work in works.works:
        if (own := at(work.event.ts)) is not None:
            own.works.append(work)
    for launched, event in works.stray:
        if (own := at(launched)) is not None:
            own.stray.append(event)
    return contents


def _iteration(contents: _Contents, on_device: bool) -> ProfiledIteration:
    """What one iteration spent in each layer, backward work with the layer whose forward pass it undoes."""
    undone = undone_by(contents.works)
    layers, layer_of = _layers([work for work in contents.works if work.part == "operation"], set(undone.values()))
    iteration = ProfiledIteration(layers, *_span(contents, on_device))
    passes = _accumulating(contents.works, set(undone.values()))
    again = {work for earlier in passes[:-1] for work in earlier}  # gradients that the last pass has, too
    iteration.accumulated = max(1, len(passes))
    iteration.evaluated = _evaluated(contents.works, set(undone.values()))
    for work in contents.works:
        owner = layer_of.get(undone.get(work, work), iteration.rest)
        cost = _device_cost(work.device) if on_device else _host_cost(work)
        _add(iteration, work, owner, cost, accumulates=work.accumulates and work not in again)
    stray = _device_cost(contents.stray)
    iteration.rest.forward_s += stray.compute_s
    iteration.rest.forward_products_s += sum(stray.products_s.values())
    iteration.rest.communication_s += stray.communication_s
    iteration.host_to_device_s += stray.to_device_s
    return iteration


def _span(contents: _Contents, on_device: bool) -> Window:
    """A GPU runs behind its host: there, an iteration lasts from its first to its last work on the device."""
    device = [event for work in contents.works for event in work.device] + contents.stray
    if not (on_device and device):
        return contents.begin, contents.end
    return min(event.ts for event in device), max(event.end for event in device)


def _accumulating(works: Sequence[Work], undone: set[Work]) -> list[list[Work]]:
    """What accumulates gradients in each of several passes through the same network; empty where they are not the same.

    A pass begins with an operation that is undone, behind nodes of the backward pass. An update between passes takes
    the gradients of those before it: they are of several optimizers, or steps.
    """
    passes: list[list[Work]] = []
    forward = updated = False
    for work in works:
        updated |= bool(passes) and work.part == "update" and work.event.name.startswith(UPDATE)
        if work in undone and work.part == "operation":
            forward = True
        elif work.part == "node":
            if forward and updated:
                return []
            if forward or not passes:
                passes.append([])
                forward = False
            passes[-1] += [work] * work.accumulates
    sizes = {tuple(work.gradient_bytes for work in each) for each in passes}
    return passes if len(passes) > 1 and len(sizes) == 1 and () not in sizes else []


def _evaluated(works: Sequence[Work], undone: set[Work]) -> bool:
    """Whether the network ran once more without a backward pass: a call of it, or half of its operations in turn."""
    operations = [work for work in works if work.part == "operation" and not work.copies_from_host]
    calls = {work.call.outermost for work in operations if work.call is not None}
    trained = {work.call.outermost for work in operations if work.call is not None and work in undone}
    if trained:
        return any(call.name in {own.name for own in trained} for call in calls - trained)
    places = [index for index, work in enumerate(operations) if work in undone]
    if not places:
        return False
    own = [operations[place].event.name for place in places if "dropout" not in operations[place].event.name]
    half = own[: max(LEAST_ALIKE, len(own) // 2)]
    outside = [operations[: places[0]], operations[places[-1] + 1 :]]
    return len(half) >= LEAST_ALIKE and any(_within(half, [work.event.name for work in part]) for part in outside)


def _within(some: Sequence[str], names: Sequence[str]) -> bool:
    """Whether these stand in the names one after the other, with or without others between them."""
    left = iter(names)
    return all(name in left for name in some)


def _add(iteration: ProfiledIteration, work: Work, owner: ProfiledLayer, cost: "_Cost", *, accumulates: bool) -> None:
    """Adds the cost of a work where it belongs; `owner`: its layer, or the rest of the iteration.

    What the forward pass copies from the host is input, whichever layer copies it.
    """
    computing_s = cost.compute_s + cost.to_device_s
    iteration.rest.communication_s += cost.communication_s
    if work.part == "exchange":
        return
    iteration.products_s.update(cost.products_s)
    if work.device and work.part != "input":
        iteration.launching_s += max(0.0, work.event.dur - work.exchanged - work.waited) / 1e6
    if work.part == "update":
        iteration.update_s += computing_s
    elif work.part == "node":
        owner.backward_s += computing_s
        owner.backward_products_s += sum(cost.products_s.values())
        if accumulates:
            owner.gradient_bytes = _sum_bytes(owner.gradient_bytes, work.gradient_bytes)
    else:
        iteration.host_to_device_s += cost.to_device_s
        if work.part == "input":
            _add_wait(iteration, work.event)
        else:
            owner.forward_s += cost.compute_s
            owner.forward_products_s += sum(cost.products_s.values())


def _sum_bytes(known: int | Unknown, more: int | None) -> int | Unknown:
    """What a layer accumulates, of which one size that is not known leaves nothing known."""
    return NO_SHAPES if more is None or isinstance(known, Unknown) else known + more


def _add_wait(iteration: ProfiledIteration, waiting: Event) -> None:
    """The host's wait for input, also where the device had nothing to do meanwhile."""
    waited_s = waiting.dur / 1e6
    iteration.input_wait_s += waited_s
    iteration.input_s += waited_s if waiting.name.startswith(ONE_PROCESS) else 0.0


# ---- which layer a work belongs to -----------------------------------------------------------------------------------


def undone_by(works: Sequence[Work]) -> dict[Work, Work]:
    """Node of the backward pass -> the operation that it undoes, or accumulates gradients for."""
    creators = _creators(works)
    return {work: creator for work in works if (creator := _undone_by(work, creators)) is not None}


def _creators(works: Iterable[Work]) -> dict[int, Work]:
    """Sequence number -> the operation that has it.

    An operation notes the number that is to be given next. If it makes no node of the backward pass, it stays unused,
    and the operation behind it notes the same: the last one has it.
    """
    noted = [(when, number, work) for work in works if work.part == "operation" for when, number in work.sequences]
    return {number: work for _, number, work in sorted(noted, key=lambda note: note[0])}


def _undone_by(work: Work, creators: dict[int, Work]) -> Work | None:
    """The operation that a node of the backward pass undoes, or accumulates gradients for."""
    node = work.cause if work.accumulates else work
    if node is None or node.part != "node" or not node.sequences:
        return None
    return creators.get(node.sequences[0][1])


def _layers(operations: Sequence[Work], undone: set[Work]) -> tuple[list[ProfiledLayer], dict[Work, ProfiledLayer]]:
    """The layers of a forward pass, and which of the operations belong to which.

    Part of the forward pass is what is within a module, or between the first and the last operation that the backward
    pass undoes: other operations prepare the batch, or look at the results. So does what copies from the host.
    """
    begins = [work.event.ts for work in operations if work in undone]
    first, last = (begins[0], begins[-1]) if begins else (float("-inf"), float("inf"))
    layer_of: dict[Work, ProfiledLayer] = {}
    of_call: dict[Call, ProfiledLayer] = {}
    layers: list[ProfiledLayer] = []
    uses: Counter[str] = Counter()
    for work in operations:
        leaf = work.call if work.call is not None and work.call.leaf else None
        if work.copies_from_host:
            continue
        if leaf in of_call:
            layer_of[work] = of_call[leaf]
        elif work.call is not None or first <= work.event.ts <= last:
            layer_of[work] = ProfiledLayer(_name(work, uses))
            layers.append(layer_of[work])
            if leaf is not None:
                of_call[leaf] = layer_of[work]
    return layers, layer_of


def _name(work: Work, uses: Counter[str]) -> str:
    """The module that it is; or that it is in, and the operation; repeats get @1, as in a layer table."""
    operation = work.event.name.rpartition("::")[2]
    name = operation
    if work.call is not None:
        name = work.call.name if work.call.leaf else f"{work.call.name}.{operation}"
    uses[name] += 1
    return name if uses[name] == 1 else f"{name}@{uses[name] - 1}"


# ---- what it costs --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cost:
    """Seconds."""

    compute_s: float = 0.0
    communication_s: float = 0.0
    to_device_s: float = 0.0  # copies from the host
    products_s: Mapping[Precision | None, float] = field(default_factory=dict)  # of `compute_s`, by precision


def _host_cost(work: Work) -> _Cost:
    if work.part == "communication":
        return _Cost(communication_s=work.event.dur / 1e6)
    return _Cost(max(0.0, work.event.dur - work.exchanged) / 1e6)


def _device_cost(events: Iterable[Event]) -> _Cost:
    seconds = {"compute_s": 0.0, "communication_s": 0.0, "to_device_s": 0.0}
    products_s: dict[Precision | None, float] = defaultdict(float)
    for event in events:
        part = "communication_s" if event.name.lower().startswith("nccl") else "compute_s"
        seconds["to_device_s" if is_copy_from_host(event) else part] += event.dur / 1e6
        name = event.name[:MOST_CHARACTERS]
        if part == "compute_s" and PRODUCT.search(name):
            products_s[precision_of(name)] += event.dur / 1e6
    return _Cost(**seconds, products_s=products_s)


# Kernels that multiply and convolve, by their names in cuBLAS, cuDNN, CUTLASS, flash attention, rocBLAS and MIOpen.
# Products with one vector (gemv) and convolutions of each channel by itself wait for memory, as all other kernels do.

MOST_CHARACTERS = 500  # of a kernel's name that are looked at: those of templates have thousands
PRODUCT = re.compile(
    r"gemm(?!v)|cutlass|nvjet|xmma|winograd|scudnn|\d+cudnn|convolve|conv\dd_(?!depthwise)|[dw]grad(?!_bias)|fprop"
    r"|fmha|flash_|\bCijk_|igemm|conv\w*sp3|sp3\w*conv",
    re.IGNORECASE,
)
_PRECISIONS: dict[Precision, str] = {
    "bf16": r"bf16|bfloat16|nvjet_(?:sm\d+_)?t|_B(?:BS|B)_",
    "tf32": r"tf32|tensorop_s1688gemm|tensorop_s1688(?:fprop|dgrad|wgrad)",
    "fp16": r"fp16|f16|half|h884|s884|hgemm|nvjet_(?:sm\d+_)?h|_H(?:HS|H)_",
    "fp32": r"sgemm|scudnn|ffma|simt|f32f32|float|_SB_",
}


def precision_of(kernel: str) -> Precision | None:
    """The precision that a kernel of products multiplies in, by its name; None: that does not say."""
    return next((name for name, sign in _PRECISIONS.items() if re.search(sign, kernel, re.IGNORECASE)), None)
