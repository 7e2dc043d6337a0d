"""Timelines as Chrome traces, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    text = chrome.encode({"AlexNet on 4 GPUs of dgx1-p100": point.timeline})

A timeline is a process of the viewer, and a lane of it a thread. What overlaps within a lane, such as two messages that
are on their way at once, gets threads of its own: in a thread, viewers take what begins later for a part of the other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from resnetx.errors import prepared
from resnetx.loading import Data, File, UnboundedError, fault, refuse_unbounded
from resnetx.record.prediction import PredictedTask
from resnetx.record.traces import LayerTimes
from resnetx.units import size_text


class TimelineTask(Protocol):
    """A bar: `PredictedTask`, and whatever has its fields."""

    @property
    def name(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...


def encode(timelines: Mapping[str, Iterable[TimelineTask]]) -> bytes:
    """The bytes of the file. Name of a timeline -> its tasks, in any order."""
    events = [
        event for pid, (name, tasks) in enumerate(timelines.items(), start=1) for event in _process(pid, name, tasks)
    ]
    return msgspec.json.encode(_File(events)) + b"\n"


def measured_tasks(times: LayerTimes, iterations: int) -> Iterator[PredictedTask]:
    """The first iterations of a trace, everything end to end: it has durations, but not when anything began."""
    now_s = 0.0
    for index in range(min(iterations, max((len(layer.forward_s) for layer in times.layers), default=0))):
        for name, lane, durations_s in _parts(times):
            if index < len(durations_s) and durations_s[index] > 0:
                yield PredictedTask(name=name, lane=lane, start_s=now_s, end_s=now_s + durations_s[index])
                now_s += durations_s[index]


def _parts(times: LayerTimes) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Name, lane and durations of what an iteration does, in its order; messages overlap with it and are not shown."""
    yield "input", "input", times.input_s
    yield "copy to device", "copies", times.host_to_device_s
    for layer in times.layers:
        yield f"forward {layer.name}", "compute", layer.forward_s
    for layer in reversed(times.layers):
        yield f"backward {layer.name}", "compute", layer.backward_s
    yield "update", "compute", times.update_s


# ---- events ---------------------------------------------------------------------------------------------------------


class _Label(msgspec.Struct, tag_field="ph", tag="M"):
    """Names or sorts a process or thread (metadata)."""

    name: str
    pid: int
    tid: int
    args: dict[str, str | int]


class _Bar(msgspec.Struct, tag_field="ph", tag="X"):
    """A task with its duration; times in microseconds."""

    name: str
    cat: str
    pid: int
    tid: int
    ts: float
    dur: float


class _File(msgspec.Struct, rename={"events": "traceEvents", "unit": "displayTimeUnit"}):
    events: list[_Label | _Bar]
    unit: str = "ms"


def _process(pid: int, name: str, tasks: Iterable[TimelineTask]) -> Iterator[_Label | _Bar]:
    yield _Label("process_name", pid, 0, {"name": name})
    for tid, (thread, bars) in enumerate(_threads(tasks), start=1):
        yield _Label("thread_name", pid, tid, {"name": thread})
        yield _Label("thread_sort_index", pid, tid, {"sort_index": tid})
        for bar in bars:
            start, duration = _microseconds(bar.start_s), _microseconds(bar.end_s - bar.start_s)
            yield _Bar(bar.name, bar.lane, pid, tid, start, duration)


def _threads(tasks: Iterable[TimelineTask]) -> Iterator[tuple[str, list[TimelineTask]]]:
    """Name of a thread and its tasks, none of which overlap: the lanes, in the order in which they have their first."""
    lanes: dict[str, list[list[TimelineTask]]] = {}
    for task in sorted(tasks, key=lambda task: (task.start_s, task.end_s)):
        threads = lanes.setdefault(task.lane, [])
        free = next((thread for thread in threads if thread[-1].end_s <= task.start_s), None)
        if free is None:
            threads.append(free := [])
        free.append(task)
    for lane, threads in lanes.items():
        yield from ((lane if index == 1 else f"{lane} ({index})", own) for index, own in enumerate(threads, start=1))


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)


# The events of a Chrome trace (Trace Event Format), as far as profiles of PyTorch use it, read from a file.

# Unpacked; with Python's stack and all shapes, an event has about 280 bytes, and a step of ResNet-50 some ten thousand.
MAX_BYTES = 2**29
# An operation takes up to 800 bytes in memory with what is made of it, without its texts, which take 4 bytes for each
# character where any is beyond ASCII. Within these limits no file takes 4 GiB.
MAX_GROUPS = 3 * 2**20  # an event is one, its `args` another
MAX_VALUES = 2**26

_Number = Annotated[float, Meta(ge=-1e18, le=1e18)]  # which leaves out NaN, too
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Details(msgspec.Struct, gc=False):
    """What is used of an event's `args`; some exporters write numbers as strings."""

    external_id: _Whole | None = msgspec.field(name="External id", default=None)
    sequence: _Whole | None = msgspec.field(name="Sequence number", default=None)
    correlation: _Whole | None = None
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    # Of a collective, by torch's `record_param_comms`: how it is called, and its message.
    collective: msgspec.Raw = msgspec.field(name="Collective name", default=msgspec.Raw())
    elements_in: msgspec.Raw = msgspec.field(name="In msg nelems", default=msgspec.Raw())
    elements_out: msgspec.Raw = msgspec.field(name="Out msg nelems", default=msgspec.Raw())
    element: msgspec.Raw = msgspec.field(name="dtype", default=msgspec.Raw())
    group_size: msgspec.Raw = msgspec.field(name="Group size", default=msgspec.Raw())
    number: msgspec.Raw = msgspec.field(name="Seq", default=msgspec.Raw())


class Event(msgspec.Struct, gc=False):
    """One event; `ts` and `dur` are microseconds, `ts` from an arbitrary origin."""

    ph: str  # "X" is an interval
    name: str = ""
    cat: str = ""
    ts: _Number = 0.0
    dur: _Number = 0.0
    pid: _Whole | str = 0
    tid: _Whole | str = 0
    args: Details | None = None

    @property
    def end(self) -> float:
        return self.ts + self.dur

    @property
    def kind(self) -> str:
        return self.cat.lower()


class GroupMembers(msgspec.Struct):
    """One of the process groups that the profiled program made."""

    pg_size: int | None = None


class ProcessGroup(msgspec.Struct):
    """The processes that the profiled program trained with, if it had any."""

    world_size: int | None = None
    rank: int | None = None
    pg_config: list[GroupMembers] | None = None


class DeviceProperties(msgspec.Struct):
    """A GPU of the profiled machine."""

    id: _Whole | None = None
    name: str = ""  # as its driver names it


class ChromeTrace(msgspec.Struct):
    """A file of events."""

    events: list[Event] = msgspec.field(name="traceEvents")
    # What `ts` counts from, since 1970.
    base_ns: _Whole | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    group: ProcessGroup | None = msgspec.field(name="distributedInfo", default=None)
    devices: list[DeviceProperties] = msgspec.field(name="deviceProperties", default_factory=list)
    host: str = msgspec.field(name="host_name", default="")

    @property
    def world_size(self) -> int | None:
        """Processes that trained together, where the profile says so."""
        return self.group.world_size if self.group else None


def is_json(data: Data) -> bool:
    """Whether content is such a trace rather than text; neither begins with many blanks."""
    return data[:4096].lstrip()[:1] in (b"{", b"[")


def decode(data: Data, path: Path) -> ChromeTrace:
    """The trace in a file's bytes, which is an object with the events or just a list of them."""
    file = File(path, "a Chrome trace as torch.profiler exports it", MAX_BYTES)
    kind: Any = list[Event] if data[:4096].lstrip()[:1] == b"[" else ChromeTrace
    try:
        _refuse_large(data)
        decoded = msgspec.json.decode(data, type=prepared(kind), strict=False)
    except UnboundedError as error:
        raise file.error(f"{error}; profile fewer iterations") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise file.error(fault(error, data, file.what)) from None
    return decoded if isinstance(decoded, ChromeTrace) else ChromeTrace(events=decoded)


def _refuse_large(data: Data) -> None:
    """Refuses what would take too much memory, by arithmetic."""
    if len(data) > MAX_BYTES // 4 and not data.isascii():
        raise UnboundedError(f"larger than {size_text(MAX_BYTES // 4)}, with other characters than ASCII")
    if (groups := data.count(b"{")) > MAX_GROUPS:
        raise UnboundedError(f"about {groups // 2:,} events, of at most {MAX_GROUPS // 2:,}")
    refuse_unbounded(data, MAX_VALUES)


def first_of(raw: msgspec.Raw, kind: Any) -> Any:
    """The first of a list in an event as `kind`; None where it is no such list."""
    try:
        each = msgspec.json.decode(raw, type=prepared(list[msgspec.Raw])) if raw else []
        return msgspec.json.decode(each[0], type=prepared(kind)) if each else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def value_of(raw: msgspec.Raw, kind: Any) -> Any:
    """A value in an event as `kind`; None where it is none of these."""
    try:
        return msgspec.json.decode(raw, type=prepared(kind), strict=False) if raw else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
