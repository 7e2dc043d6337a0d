"""Memory copies of a step, by direction, as the CUDA profiler sees them: those of every library and stream."""

from collections.abc import Iterable, Mapping
from typing import Any

from resnetx.record import Unknown

DIRECTIONS = {"HtoD": "host_to_device", "DtoH": "device_to_host", "DtoD": "device_to_device"}


def per_step(events: Iterable[Mapping[str, Any]], steps: int) -> dict[str, float] | Unknown:
    """Bytes and seconds of the copies among the events of a Chrome trace, as `record.Copies` has them.

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
            found[f"{name}_s"] += event["dur"] * 1e-6 / steps  # the trace has microseconds
    return found
