"""Memory copies of a step, by direction, as the CUDA profiler sees them: those of every library and stream."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from resnetx.record import Copies, Unknown


@dataclass
class Copied:
    """What one rank copies in one direction per step: a mean of several steps."""

    size_bytes: float = 0.0
    seconds: float = 0.0


@dataclass
class RankCopies:
    """What one rank copies per step."""

    host_to_device: Copied = field(default_factory=Copied)
    device_to_host: Copied = field(default_factory=Copied)
    device_to_device: Copied = field(default_factory=Copied)


def per_step(events: Iterable[Mapping[str, Any]], steps: int) -> RankCopies | Unknown:
    """The copies among the events of a Chrome trace of so many steps.

    Those of ROCm's profiler are not always named like CUDA's, nor told with their bytes.
    """
    copies = RankCopies()
    directions = {"HtoD": copies.host_to_device, "DtoH": copies.device_to_host, "DtoD": copies.device_to_device}
    for event in events:
        if event.get("cat") != "gpu_memcpy":
            continue
        words = event["name"].split()  # "Memcpy HtoD (Pinned -> Device)"
        if words[0] != "Memcpy" or "bytes" not in event["args"]:
            return Unknown(f"the profiler does not say what {event['name']!r} copies")
        if copied := directions.get(words[1]):
            copied.size_bytes += event["args"]["bytes"] / steps
            copied.seconds += event["dur"] * 1e-6 / steps  # the trace has microseconds
    return copies


def summed(every: Sequence[RankCopies]) -> Copies:
    """The copies of all ranks together."""
    return Copies(
        host_to_device_bytes=round(sum(rank.host_to_device.size_bytes for rank in every)),
        host_to_device_s=sum(rank.host_to_device.seconds for rank in every),
        device_to_host_bytes=round(sum(rank.device_to_host.size_bytes for rank in every)),
        device_to_host_s=sum(rank.device_to_host.seconds for rank in every),
        device_to_device_bytes=round(sum(rank.device_to_device.size_bytes for rank in every)),
        device_to_device_s=sum(rank.device_to_device.seconds for rank in every),
    )
