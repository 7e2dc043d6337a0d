"""What is read of a GPU during the windows, whichever library reads it: NVML (`sensors`) or AMD SMI (`amd_sensors`).

A reading that a GPU does not have is an `Unknown` with the reason.
"""

from dataclasses import dataclass, field

from resnetx.record import GpuSamples, HostLoad, LinkCounters, Unknown


@dataclass(frozen=True)
class Sample:
    """The readings that change from moment to moment, as `record.GpuSamples` names them."""

    sm_clock_Hz: float | Unknown
    power_W: float | Unknown
    temperature_C: float | Unknown
    busy: float | Unknown
    throttle_reasons: int | Unknown


@dataclass(frozen=True)
class Counters:
    """The readings of links that only count up, as `record.LinkCounters` names them."""

    pcie_replays: int | Unknown
    nvlink_errors: int | Unknown
    nvlink_sent_bytes: int | Unknown
    nvlink_received_bytes: int | Unknown


@dataclass(frozen=True)
class Readings:
    """What one rank has read around its windows."""

    gpu_samples: GpuSamples | Unknown
    link_counters: LinkCounters | Unknown
    host_load: HostLoad | Unknown
    sampled: list[list[Sample]] = field(default_factory=list)  # of each window in which the GPU was sampled


def times(factor: float, value: float | Unknown) -> float | Unknown:
    """A reading in another unit."""
    return value if isinstance(value, Unknown) else value * factor
