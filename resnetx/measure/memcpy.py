"""Memory copies of a step, by direction, as the CUDA profiler sees them: those of every library and stream."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from resnetx.record import Unknown

STEPS = 3  # that are profiled, behind the windows: profiling slows a step down
DIRECTIONS = {"HtoD": "host_to_device", "DtoH": "device_to_host", "DtoD": "device_to_device"}


def copies(step: Callable[[], None], device: torch.device) -> dict[str, float] | Unknown:
    """This rank's copies per step as `record.Copies` has them; runs a few steps, so all ranks have to call it."""
    if device.type != "cuda":
        return Unknown("a CPU rank copies nothing to a device")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_bytes())["traceEvents"]
    return per_step(events, STEPS)


def per_step(events: Iterable[Mapping[str, Any]], steps: int) -> dict[str, float]:
    """Bytes and seconds of the copies among the events of a Chrome trace, whose durations are in microseconds."""
    found = dict.fromkeys((f"{name}_{unit}" for name in DIRECTIONS.values() for unit in ("bytes", "s")), 0.0)
    for event in events:
        if event.get("cat") != "gpu_memcpy":
            continue
        direction = event["name"].split()[1]  # "Memcpy HtoD (Pinned -> Device)"
        if name := DIRECTIONS.get(direction):
            found[f"{name}_bytes"] += event["args"]["bytes"] / steps
            found[f"{name}_s"] += event["dur"] * 1e-6 / steps
    return found
