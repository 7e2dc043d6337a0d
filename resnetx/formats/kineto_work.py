"""What the threads of a profile did, and what they launched on the device.

The events of a thread lie within each other or behind each other. The outermost ones that mean something are its
*works*: an operation with all that it calls, a node of the backward pass, the optimizer's step, a wait for input. What
a rank does to exchange messages is a work of its own, also within another.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Annotated, Literal

from msgspec import Meta

from resnetx.formats.chrome import Details, Event, first_of

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
