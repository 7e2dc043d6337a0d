"""What a device does during a step, as the CUDA profiler sees it: kernels of every library and stream."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from resnetx.measure.rank.copies import RankCopies, per_step
from resnetx.record import Unknown

STEPS = 3  # that are profiled, behind the windows: profiling slows a step down


def device_events(step: Callable[[], None], device: torch.device) -> list[dict[str, Any]]:
    """The events of `STEPS` steps on a CUDA device, as a Chrome trace has them: durations in microseconds."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        found: list[dict[str, Any]] = json.loads(trace.read_bytes())["traceEvents"]
    return found


@dataclass(frozen=True)
class Profiled:
    """What the device of one rank does in a step."""

    copies: RankCopies | Unknown
    kernels_s: float | Unknown  # in which at least one kernel runs


def profiled(step: Callable[[], None], device: torch.device) -> Profiled:
    """This rank's copies and kernels per step; runs a few steps, so all ranks call it."""
    if device.type != "cuda":
        return Profiled(Unknown("a CPU rank copies nothing to a device"), _NO_DEVICE)
    events = device_events(step, device)
    kernels = _kernels_s(events)
    return Profiled(kernels if isinstance(kernels, Unknown) else per_step(events, STEPS), kernels)


def kernels_s(step: Callable[[], None], device: torch.device) -> float | Unknown:
    """Seconds of a step in which at least one kernel runs on the device."""
    return _kernels_s(device_events(step, device)) if device.type == "cuda" else _NO_DEVICE


_NO_DEVICE = Unknown("a CPU rank has no device beside its host")


def _kernels_s(events: Iterable[Mapping[str, Any]]) -> float | Unknown:
    # Another profiler is attached, or nobody may profile here.
    return covered_s(events) / STEPS or Unknown("the profiler saw no kernel")


def covered_s(events: Iterable[Mapping[str, Any]]) -> float:
    """Seconds in which at least one kernel among the events of a Chrome trace runs."""
    kernels = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event.get("cat") == "kernel")
    covered, until = 0.0, float("-inf")
    for begin, end in kernels:
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered * 1e-6
