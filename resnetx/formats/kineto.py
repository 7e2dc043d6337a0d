"""Layer times from a PyTorch profile, as `torch.profiler.profile.export_chrome_trace` writes it (Kineto's format).

An *iteration* is what lies within a `ProfilerStep#n` annotation (`prof.step()`); without any, the profile is one. A
*layer* is the call of a module that calls no other module, where the profile has modules (`with_stack=True`); any other
operation of the forward pass is a layer of its own. A node of the backward pass names the operation that it undoes by a
sequence number, and the gradients of parameters are accumulated right behind the node that made them.

On a CPU a layer takes as long as its operations do. On a GPU it takes as long as the kernels that they launched,
whenever these ran. What the profile does not give to a layer is of the layer `unattributed`: as its backward time what
lies in the backward pass, as its forward time all else, and as its communication the collectives, as a profile does not
say whose gradients a message has.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from resnetx.errors import FileError
from resnetx.formats.chrome_events import ChromeTrace, Event, decode
from resnetx.formats.kineto_work import ONE_PROCESS, Call, Work, Works, works
from resnetx.formats.parallelism import parallelism
from resnetx.record.limits import refuse_large_trace
from resnetx.record.unknown import Unknown

UNATTRIBUTED = "unattributed"
DIGITS = 9  # profiles have nanoseconds
MAX_STEPS = 10_000
STEP = re.compile(r"ProfilerStep#\d+")


@dataclass(frozen=True)
class Profile:
    """What a profile says."""

    times: dict[str, Any]  # the fields of `LayerTimes`, some of them `Unknown`
    measured_at: str | None  # UTC, ISO 8601
    left_out: int  # iterations that did not execute the layers that most of them did
    has_gradient_sizes: bool
    on_device: bool  # the times are those of a GPU's kernels, not of the host's operations


def parse(data: bytes | bytearray, path: Path) -> Profile:
    """Layer times of a profile. The path is for error messages."""
    file = decode(data, path)
    events = [event for event in file.events if event.ph == "X"]
    _refuse_parallel(file, events, path)
    found = works(events)
    steps = sorted((e.ts, e.end) for e in events if STEP.fullmatch(e.name) and not e.kind.startswith("gpu"))
    if len(steps) > MAX_STEPS:
        raise FileError(f"{path}: has {len(steps):,} iterations; expected at most {MAX_STEPS:,}: profile fewer")
    shares = _shares(found, steps or [(float("-inf"), float("inf"))])
    iterations = [_iteration(share, found.on_device) for share in shares]
    steps_s = _steps_s(iterations, found.on_device)
    alike = _alike(iterations)
    if not iterations[alike[0]].layers:
        raise FileError(
            f"{path}: has no operation of a forward pass; expected a profile of training steps by torch.profiler, with "
            "ProfilerActivity.CPU among its activities"
        )
    kept = [iterations[index] for index in alike]
    refuse_large_trace(len(kept[0].layers), len(kept), path)
    unknown_step = Unknown("the profile has no ProfilerStep#n, so does not say where an iteration begins")
    return Profile(
        times=_times(kept, found.on_device) | {"step_s": [steps_s[i] for i in alike] if steps else unknown_step},
        measured_at=_measured_at(file, events),
        left_out=len(iterations) - len(kept),
        has_gradient_sizes=any(layer.gradient_bytes for layer in kept[0].layers),
        on_device=found.on_device,
    )


def _refuse_parallel(file: ChromeTrace, events: Iterable[Event], path: Path) -> None:
    if kind := parallelism((event.name for event in events), file.world_size):
        raise FileError(
            f"{path}: a profile of one rank of {kind}, whose layers do not take as long as those of one process; "
            "profile the same steps in one process that trains alone"
        )


# ---- iterations -----------------------------------------------------------------------------------------------------


@dataclass
class _Share:
    """What belongs to one iteration: what began, or was launched, between two times (microseconds)."""

    begin: float
    end: float
    works: list[Work] = field(default_factory=list)
    stray: list[Event] = field(default_factory=list)


def _shares(found: Works, windows: Sequence[tuple[float, float]]) -> list[_Share]:
    shares = [_Share(begin, end) for begin, end in windows]
    begins = [share.begin for share in shares]

    def share_at(time: float) -> _Share | None:
        index = bisect_right(begins, time) - 1
        return shares[index] if index >= 0 and time <= shares[index].end else None

    for work in found.works:
        if (share := share_at(work.event.ts)) is not None:
            share.works.append(work)
    for began, event in found.stray:
        if (share := share_at(began)) is not None:
            share.stray.append(event)
    return shares


@dataclass(slots=True)
class _Layer:
    name: str
    forward_s: float = 0.0
    backward_s: float = 0.0
    communication_s: float = 0.0
    gradient_bytes: int = 0


@dataclass
class _Iteration:
    """Seconds of one iteration."""

    layers: list[_Layer]  # in the order in which their forward passes began
    begin: float  # microseconds; on a GPU, of the first thing that ran there
    end: float
    rest: _Layer = field(default_factory=lambda: _Layer(UNATTRIBUTED))
    update_s: float = 0.0
    input_s: float = 0.0  # of the loader, where the step does its work
    input_wait_s: float = 0.0
    host_to_device_s: float = 0.0


def _iteration(share: _Share, on_device: bool) -> _Iteration:
    creators = _creators(share.works)
    undone = {work: creator for work in share.works if (creator := _undone_by(work, creators)) is not None}
    layers, layer_of = _layers([work for work in share.works if work.part == "operation"], set(undone.values()))
    found = _Iteration(layers, *_span(share, on_device))
    for work in share.works:
        owner = layer_of.get(undone.get(work, work), found.rest)
        _add(found, work, owner, _device_cost(work.device) if on_device else _host_cost(work))
    stray = _device_cost(share.stray)
    found.rest.forward_s += stray.compute_s
    found.rest.communication_s += stray.communication_s
    found.host_to_device_s += stray.to_device_s
    return found


def _span(share: _Share, on_device: bool) -> tuple[float, float]:
    """A GPU works behind its host: an iteration is there when its work is."""
    device = [event for work in share.works for event in work.device] + share.stray
    if not (on_device and device):
        return share.begin, share.end
    return min(event.ts for event in device), max(event.end for event in device)


def _add(found: _Iteration, work: Work, owner: _Layer, cost: "_Cost") -> None:
    """The cost of a work, where it belongs."""
    found.rest.communication_s += cost.communication_s
    if work.part == "update":
        found.update_s += cost.compute_s + cost.to_device_s
    elif work.part == "node":
        owner.backward_s += cost.compute_s + cost.to_device_s
        owner.gradient_bytes += work.gradient_bytes or 0
    elif owner is not found.rest:
        owner.forward_s += cost.compute_s + cost.to_device_s
    else:
        found.host_to_device_s += cost.to_device_s
        if work.part == "input":
            waited_s = work.event.dur / 1e6  # of the host, also where the device had nothing to do meanwhile
            found.input_wait_s += waited_s
            found.input_s += waited_s if work.event.name.startswith(ONE_PROCESS) else 0.0
        else:
            found.rest.forward_s += cost.compute_s


def _alike(iterations: Sequence[_Iteration]) -> list[int]:
    """The places of those that executed the same layers as most did."""
    names = [tuple(layer.name for layer in iteration.layers) for iteration in iterations]
    ((usual, _),) = Counter(names).most_common(1)
    return [index for index, own in enumerate(names) if own == usual]


# ---- whose work it is -----------------------------------------------------------------------------------------------


def _creators(found: Iterable[Work]) -> dict[int, Work]:
    """Sequence number -> the operation that has it.

    An operation notes the number that is to be given next. If it makes no node of the backward pass, nobody takes it,
    and the operation behind it notes the same: the last one has it.
    """
    noted = [(when, number, work) for work in found if work.part == "operation" for when, number in work.sequences]
    return {number: work for _, number, work in sorted(noted, key=lambda each: each[0])}


def _undone_by(work: Work, creators: dict[int, Work]) -> Work | None:
    """The operation that a node of the backward pass undoes, or accumulates gradients for."""
    node = work.cause if work.accumulates else work
    if node is None or node.part != "node" or not node.sequences:
        return None
    return creators.get(node.sequences[0][1])


def _layers(operations: Sequence[Work], undone: set[Work]) -> tuple[list[_Layer], dict[Work, _Layer]]:
    """The layers of a forward pass, and which of the operations belong to which.

    Part of the forward pass is what is within a module, or between the first and the last operation that the backward
    pass undoes: other operations prepare the batch, or look at the results.
    """
    begins = [work.event.ts for work in operations if work in undone]
    first, last = (begins[0], begins[-1]) if begins else (float("-inf"), float("inf"))
    layer_of: dict[Work, _Layer] = {}
    of_call: dict[Call, _Layer] = {}
    layers: list[_Layer] = []
    uses: Counter[str] = Counter()
    for work in operations:
        leaf = work.call if work.call is not None and work.call.leaf else None
        if leaf in of_call:
            layer_of[work] = of_call[leaf]
        elif work.call is not None or first <= work.event.ts <= last:
            layer_of[work] = _Layer(_name(work, uses))
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


def _host_cost(work: Work) -> _Cost:
    seconds = work.event.dur / 1e6
    return _Cost(communication_s=seconds) if work.part == "communication" else _Cost(seconds)


def _device_cost(events: Iterable[Event]) -> _Cost:
    seconds = {"compute_s": 0.0, "communication_s": 0.0, "to_device_s": 0.0}
    for event in events:
        name = event.name.lower()
        part = "communication_s" if name.startswith("nccl") else "to_device_s" if "htod" in name else "compute_s"
        seconds[part] += event.dur / 1e6
    return _Cost(**seconds)


# ---- the result -----------------------------------------------------------------------------------------------------


def _times(iterations: Sequence[_Iteration], on_device: bool) -> dict[str, Any]:
    """The fields of `LayerTimes`, except the steps."""
    rows = [iteration.layers for iteration in iterations]
    rests = [iteration.rest for iteration in iterations]
    if any(rest.forward_s or rest.backward_s or rest.communication_s or rest.gradient_bytes for rest in rests):
        rows = [[*layers, rest] for layers, rest in zip(rows, rests, strict=True)]
    slowed = "a profile has no steps that nobody watched"
    return {
        "clock": f"torch.profiler ({'kernels' if on_device else 'operations'})",
        "layers": [_traced(layers) for layers in zip(*rows, strict=True)],
        "input_s": _measured(iteration.input_s for iteration in iterations),
        "input_wait_s": _measured(iteration.input_wait_s for iteration in iterations),
        "host_to_device_s": _measured(iteration.host_to_device_s for iteration in iterations),
        "update_s": _measured(iteration.update_s for iteration in iterations),
        "clean_step_s": Unknown(slowed),
        "device_busy": Unknown(slowed),
        "host_s": Unknown(slowed),
        "host_bound": Unknown(f"{slowed}, and profiling slows the host") if on_device else False,
        "gradient_copy_Bps": Unknown("a profile does not say"),
    }


def _traced(layers: Sequence[_Layer]) -> dict[str, Any]:
    return {
        "name": layers[0].name,
        "forward_s": [round(layer.forward_s, DIGITS) for layer in layers],
        "backward_s": [round(layer.backward_s, DIGITS) for layer in layers],
        "communication_s": _measured(layer.communication_s for layer in layers),
        "gradient_bytes": layers[0].gradient_bytes,
    }


def _measured(seconds: Iterable[float]) -> list[float]:
    """What was never there was not measured."""
    found = [round(each, DIGITS) for each in seconds]
    return found if any(found) else []


def _steps_s(iterations: Sequence[_Iteration], on_device: bool) -> list[float]:
    """How long iterations took; on a GPU, from the first thing that ran there to the first one of the next."""
    ends = [each.end for each in iterations]
    if on_device:
        ends = [following.begin for following in iterations[1:]] + ends[-1:]
    return [round((end - each.begin) / 1e6, DIGITS) for each, end in zip(iterations, ends, strict=True)]


def _measured_at(file: ChromeTrace, events: Sequence[Event]) -> str | None:
    """When the first event began, where the profile says what its times count from."""
    if file.base_ns is None:
        return None
    began_s = file.base_ns / 1e9 + min(event.ts for event in events) / 1e6
    try:
        return datetime.fromtimestamp(began_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None
