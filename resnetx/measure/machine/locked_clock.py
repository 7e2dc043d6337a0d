"""Whether GPUs held the clock that they were locked at, by what was read of them: pure arithmetic.

To hold a clock is to stay at it, with no reason by which NVML says that the clock is held down.

References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from resnetx.measure.machine.readings import Sample
from resnetx.measure.machine.sensor_warnings import holding_down
from resnetx.record import LockedClock, Unknown, Warning

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
        reasons = ", ".join(holding_down([each.reasons for each in seen]))
        low, high = min(each.clock_MHz for each in seen), max(each.clock_MHz for each in seen)
        if low < locked_MHz - HALF_STEP_MHZ or high > locked_MHz + HALF_STEP_MHZ:
            far = low if low < locked_MHz - HALF_STEP_MHZ else high
            return f"GPU {gpu} ran at {far:.0f} MHz" + f" ({reasons})" * bool(reasons)
        if reasons:
            return f"GPU {gpu}: {reasons}"
    return ""


def clock_readings(rank: int, samples: Sequence[Sample]) -> list[Reading]:
    """The samples of a rank's GPU that tell its clock."""
    found = []
    for sample in samples:
        if not isinstance(sample.sm_clock_Hz, Unknown):
            reasons = 0 if isinstance(sample.throttle_reasons, Unknown) else sample.throttle_reasons
            found.append(Reading(0.0, rank, sample.sm_clock_Hz / 1e6, None, None, reasons))
    return found


def locked_clock(clock_MHz: int, seen: Sequence[Sequence[Sequence[Reading]]]) -> LockedClock | Unknown:
    """Whether GPUs held a clock, by what was read of each rank's in each window."""
    if not all(window for windows in seen for window in windows) or not all(seen):
        return Unknown(f"the GPUs were locked at {clock_MHz} MHz, and their clocks could not be read in every window")
    every = [reading for windows in seen for window in windows for reading in window]
    return LockedClock(
        clock_Hz=clock_MHz * 1e6,
        lowest_Hz=[[1e6 * min(each.clock_MHz for each in window) for window in windows] for windows in seen],
        highest_Hz=[[1e6 * max(each.clock_MHz for each in window) for window in windows] for windows in seen],
        why_not=shortfall(every, clock_MHz).replace("GPU", "the GPU of rank", 1),
    )


def clock_warnings(clock: LockedClock | Unknown) -> list[Warning]:
    """A warning where GPUs did not hold the clock that they were locked at."""
    if isinstance(clock, Unknown) or not clock.why_not:
        return []
    message = f"GPUs did not hold {clock.clock_Hz / 1e6:.0f} MHz: {clock.why_not}"
    return [Warning(code="clock", message=message, remedy="find one that they hold: resnetx doctor clock=find")]
