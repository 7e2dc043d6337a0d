"""Timelines as Chrome traces, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    text = chrome.encode({"AlexNet on 4 GPUs of dgx1-p100": point.timeline})

A timeline is a process of the viewer, and a lane of it a thread. What overlaps within a lane, such as two messages that
are on their way at once, gets threads of its own: in a thread, viewers take what begins later for a part of the other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from resnetx.record.prediction import PredictedTask
from resnetx.record.trace import LayerTimes


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
