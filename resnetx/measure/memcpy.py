"""Memory copies of a step, by direction, as the CUDA profiler sees them: those of every library and stream."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from resnetx.measure.kernels import STEPS, device_events
from resnetx.record import Unknown

DIRECTIONS = {"HtoD": "host_to_device", "DtoH": "device_to_host", "DtoD": "device_to_device"}


def copies(step: Callable[[], None], device: torch.device) -> dict[str, float] | Unknown:
    """This rank's copies per step as `record.Copies` has them; runs a few steps, so all ranks have to call it."""
    if device.type != "cuda":
        return Unknown("a CPU rank copies nothing to a device")
    return per_step(device_events(step, device), STEPS)


def per_step(events: Iterable[Mapping[str, Any]], steps: int) -> dict[str, float] | Unknown:
    """Bytes and seconds of the copies among the events of a Chrome trace, whose durations are in microseconds.

    Those of ROCm's profiler are not always named like CUDA's, nor told with their bytes.
    """
    found = dict.fromkeys((f"{name}_{unit}" for name in DIRECTIONS.values() for unit in ("bytes", "s")), 0.0)
    for event in events:
        if event.get("cat") != "gpu_memcpy":
            continue
        words = event["name"].split()  # "Memcpy HtoD (Pinned -> Device)"
        if words[0] != "Memcpy" or "bytes" not in event["args"]:
            return Unknown(f"the profiler does not say what {event['name']!r} copies")
        if name := DIRECTIONS.get(words[1]):
            found[f"{name}_bytes"] += event["args"]["bytes"] / steps
            found[f"{name}_s"] += event["dur"] * 1e-6 / steps
    return found
