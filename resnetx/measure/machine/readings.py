"""What is read of a GPU during the windows, whichever library reads it: NVML (`sensors`) or AMD SMI (`amd`).

A reading that a GPU does not have is an `Unknown` with the reason.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from resnetx.packages import hip_version
from resnetx.record import GpuSamples, HostLoad, LinkCounters, LockedClock, Unknown, Warning, if_known, of_known

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class SensorSample:
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
    sampled: list[list[SensorSample]] = field(default_factory=list)  # of each window in which the GPU was sampled


def times(factor: float, value: float | Unknown) -> float | Unknown:
    """A reading in another unit."""
    return of_known(lambda number: number * factor, value)


def increase(now: Number | Unknown, before: Number | Unknown) -> Number | Unknown:
    """By how much a counter has risen."""
    again = Unknown("the counter started again in between")
    return of_known(lambda last, first: last - first if last >= first else again, now, before)


# Warnings from sensor readings: what makes the figures worse than the machine's best, or hard to reproduce (throttled
# clocks, retransmissions on links, other work on the host), each with its remedy.
# References: NVML API reference (clock event reasons).

FOREIGN_SHARE = 0.1  # of the host's CPUs
CLOCK_SPREAD = 0.02  # between the ranks' median clocks

# NVML's clock event reasons that mean that the GPU could not run as fast as it was set to. Idle (0x1), a clock that
# somebody chose (0x2) and the display's clock (0x100) are not among them.
_COOLING = "improve the cooling, or lock a lower clock: sudo nvidia-smi --lock-gpu-clocks=MHZ,MHZ"
_POWER = (
    "lock a clock that the power limit allows: sudo nvidia-smi --lock-gpu-clocks=MHZ,MHZ; "
    "or raise the limit: sudo nvidia-smi --power-limit=WATTS"
)
_THROTTLING = {
    0x4: ("power limit", _POWER),
    0x8: ("hardware slowdown", "check the power supply and the cooling: nvidia-smi --query --display=PERFORMANCE"),
    0x10: ("slower partner in a sync boost group", "remove the group: see nvidia-smi clocks --sync-boost-list"),
    0x20: ("temperature (by the driver)", _COOLING),
    0x40: ("temperature (by the hardware)", _COOLING),
    0x80: ("power brake of the server", "check the server's power supplies"),
}
_SLOWDOWN = 0x8
_REPLAYS = "nvidia-smi --query shows Replays Since Reset"
_REPLAYS_BY_AMD = "amd-smi metric --pcie shows REPLAY_COUNT"


def sensor_warnings(readings: Iterable[Readings]) -> list[Warning]:
    """What in the results of `Sensors.stop`, one per rank, makes the figures less trustworthy."""
    every = list(readings)
    samples = [each.gpu_samples for each in every if not isinstance(each.gpu_samples, Unknown)]
    counters = [each.link_counters for each in every if not isinstance(each.link_counters, Unknown)]
    loads = [each.host_load for each in every if not isinstance(each.host_load, Unknown)]
    return [*throttled(samples), *uneven_clocks(samples), *failing_links(counters), *foreign_load(loads)]


def throttled(samples: list[GpuSamples]) -> list[Warning]:
    """A warning for each reason that reduced a GPU's clock."""
    warnings = []
    every = {part.rank: holding_down(if_known(part.throttle_reasons) or []) for part in samples}
    for reason, remedy in _THROTTLING.values():
        shares = {rank: held[reason] for rank, held in every.items() if reason in held}
        if shares:
            message = (
                f"{_ranks(shares)}: {reason} reduced the GPU's clock, up to {max(shares.values()):.0%} of the time"
            )
            warnings.append(Warning(code="throttled", message=message, remedy=remedy))
    return warnings


def holding_down(masks: Sequence[int]) -> dict[str, float]:
    """Why a GPU's clock was reduced, by NVML's reasons of each sample: the words, and their share of the samples."""
    counts = {bit: sum(bool(mask & bit) for mask in masks) for bit in _THROTTLING}
    # A change of clock alone can show as a hardware slowdown for a moment.
    return {_THROTTLING[bit][0]: count / len(masks) for bit, count in counts.items() if count >= 1 + (bit == _SLOWDOWN)}


def uneven_clocks(samples: list[GpuSamples]) -> list[Warning]:
    """A warning where the GPUs ran at different clocks: all wait for the slowest."""
    medians = {part.rank: statistics.median(clocks_Hz) for part in samples if (clocks_Hz := if_known(part.sm_clock_Hz))}
    if not medians:
        return []
    slow, fast = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    if medians[slow] >= medians[fast] * (1 - CLOCK_SPREAD):
        return []
    message = (
        f"GPU clocks differ: rank {slow} ran at {medians[slow] / 1e6:.0f} MHz, rank {fast} at {medians[fast] / 1e6:.0f}"
    )
    remedy = f"lock them all: {lock_clocks(medians[slow] / 1e6)}"
    return [Warning(code="uneven-clocks", message=message, remedy=remedy)]


def lock_clocks(clock_MHz: float) -> str:
    """The command that keeps all GPUs at a clock; AMD's only keeps them from a higher one."""
    if hip_version():
        return f"sudo amd-smi set --gpu all --perf-determinism {clock_MHz:.0f}"
    return f"sudo nvidia-smi --lock-gpu-clocks={clock_MHz:.0f},{clock_MHz:.0f}"


def failing_links(counters: list[LinkCounters]) -> list[Warning]:
    """A warning if a link had to retransmit data."""
    warnings = []
    for counter, what, look in (
        ("pcie_replays", "PCIe replays", _REPLAYS_BY_AMD if hip_version() else _REPLAYS),
        ("nvlink_errors", "NVLink errors", "nvidia-smi nvlink --errorcounters"),
    ):
        counts = {part.rank: count for part in counters if (count := if_known(getattr(part, counter)))}
        if counts:
            message = f"{_ranks(counts)}: {sum(counts.values())} {what} during the windows"
            remedy = f"check whether the count keeps rising ({look}); if so, reseat or replace the card or cable"
            warnings.append(Warning(code="link-errors", message=message, remedy=remedy))
    return warnings


def foreign_load(loads: list[HostLoad]) -> list[Warning]:
    """A warning if other processes used much of a host."""
    most = max((load.foreign for load in loads), default=0.0)
    if most <= FOREIGN_SHARE:
        return []
    message = f"other processes used {most:.0%} of the host's CPUs during the windows"
    return [Warning(code="foreign-load", message=message, remedy="stop them (see top), or use an idle machine")]


def _ranks(of: Iterable[int]) -> str:
    numbers = sorted(of)
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


# Whether GPUs held the clock that they were locked at, by what was read of them: pure arithmetic.
#
# To hold a clock is to stay at it, with no reason by which NVML says that the clock is held down.
#
# References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).

HALF_STEP_MHZ = 7.5  # clocks are 15 MHz apart, from Volta to Hopper (`nvidia-smi --query-supported-clocks=graphics`)
NOT_LOCKED = Unknown("no clock was to be locked (clock=)")


@dataclass(frozen=True)
class Reading:
    """One GPU at one moment; None: it does not tell."""

    time_s: float
    gpu: int
    clock_MHz: float
    temperature_C: float | None
    power_W: float | None
    reasons: int  # NVML's clock event reasons


def by_gpu(readings: Sequence[Reading]) -> dict[int, list[Reading]]:
    by_number: dict[int, list[Reading]] = {}
    for reading in readings:
        by_number.setdefault(reading.gpu, []).append(reading)
    return by_number


def shortfall(readings: Sequence[Reading], locked_MHz: int) -> str:
    """Why GPUs do not hold a locked clock, in a few words on the first that does not; "" where all do."""
    for gpu, seen in by_gpu(readings).items():
        reasons = ", ".join(holding_down([reading.reasons for reading in seen]))
        low, high = min(reading.clock_MHz for reading in seen), max(reading.clock_MHz for reading in seen)
        if low < locked_MHz - HALF_STEP_MHZ or high > locked_MHz + HALF_STEP_MHZ:
            far = low if low < locked_MHz - HALF_STEP_MHZ else high
            return f"GPU {gpu} ran at {far:.0f} MHz" + f" ({reasons})" * bool(reasons)
        if reasons:
            return f"GPU {gpu}: {reasons}"
    return ""


def clock_readings(rank: int, samples: Sequence[SensorSample]) -> list[Reading]:
    """The samples of a rank's GPU that tell its clock."""
    readings = []
    for sample in samples:
        if not isinstance(sample.sm_clock_Hz, Unknown):
            reasons = 0 if isinstance(sample.throttle_reasons, Unknown) else sample.throttle_reasons
            readings.append(Reading(0.0, rank, sample.sm_clock_Hz / 1e6, None, None, reasons))
    return readings


def locked_clock(clock_MHz: int, seen: Sequence[Sequence[Sequence[Reading]]]) -> LockedClock | Unknown:
    """Whether GPUs held a clock, by what was read of each rank's in each window."""
    if not all(window for windows in seen for window in windows) or not all(seen):
        return Unknown(f"the GPUs were locked at {clock_MHz} MHz, and their clocks could not be read in every window")
    readings = [reading for windows in seen for window in windows for reading in window]
    return LockedClock(
        clock_Hz=clock_MHz * 1e6,
        lowest_Hz=[[1e6 * min(reading.clock_MHz for reading in window) for window in windows] for windows in seen],
        highest_Hz=[[1e6 * max(reading.clock_MHz for reading in window) for window in windows] for windows in seen],
        why_not=shortfall(readings, clock_MHz).replace("GPU", "the GPU of rank", 1),
    )


def clock_warnings(clock: LockedClock | Unknown) -> list[Warning]:
    """A warning where GPUs did not hold the clock that they were locked at."""
    if isinstance(clock, Unknown) or not clock.why_not:
        return []
    message = f"GPUs did not hold {clock.clock_Hz / 1e6:.0f} MHz: {clock.why_not}"
    return [Warning(code="clock", message=message, remedy="find one that they hold: resnetx doctor clock=find")]
