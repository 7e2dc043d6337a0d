"""The highest clock that GPUs sustain under a load, computed from readings alone.

A GPU boosts until something holds it down: its power limit, as a rule, or its temperature. Which clock it then has
changes from second to second, and from one GPU to the next. A clock that is locked at what all of them hold does not.
The search starts at the lowest clock that was seen, which nearly always holds, and halves what lies between a clock
that held and one that did not (or the highest that was seen). To hold is to stay at the locked clock, with no reason
by which NVML says that the clock is held down.

References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from resnetx.measure.machine.locked_clock import HALF_STEP_MHZ, Reading, by_gpu
from resnetx.measure.machine.sensor_warnings import holding_down

# Of a load's end, in which it must have settled: a GPU's power follows its load within a second, the temperature of its
# heat sink within tens of seconds.
COUNTED_S = 20.0
LEAST_S = 30.0  # the first 10 s, of boosting and of cuDNN's trials, never count
MOST_S = 180.0
SETTLED_C = 1.0  # degrees that the second half of what counts may be warmer than the first
SETTLED_SHARE = 0.01  # by which the mean clocks of the two halves may differ
_CHOSEN = 0x2  # nvmlClocksEventReasonApplicationsClocksSetting


@dataclass(frozen=True)
class Trial:
    """A locked clock that was tried; `why_not`: "" where every GPU held it."""

    clock_MHz: int
    why_not: str

    @property
    def held(self) -> bool:
        return not self.why_not


@dataclass(frozen=True)
class ClockSearchResult:
    """Which clock GPUs hold, and what it was found by."""

    clock_MHz: int | None  # the highest that all of them held; None: none of those that were tried
    gpus: list[int]
    supported_MHz: int  # the highest that all of them can be set to
    free_MHz: tuple[float, float]  # the lowest and the highest that were seen where none was locked
    held_down: list[str]  # why not higher
    settled: bool  # clocks and temperatures no longer changed
    trials: list[Trial]


def answer(supported_MHz: Sequence[int], free: Sequence[Reading], trials: Sequence[Trial]) -> ClockSearchResult:
    """What comes of the trials; `free`: the readings that count of the GPUs before any clock was locked."""
    clocks_MHz = [each.clock_MHz for each in free]
    reasons = [reason for seen in by_gpu(free).values() for reason in holding_down([each.reasons for each in seen])]
    return ClockSearchResult(
        clock_MHz=max((trial.clock_MHz for trial in trials if trial.held), default=None),
        gpus=[*by_gpu(free)],
        supported_MHz=supported_MHz[-1],
        free_MHz=(min(clocks_MHz), max(clocks_MHz)),
        held_down=[*dict.fromkeys(reasons)],
        settled=has_settled(free, free[-1].time_s - free[0].time_s),
        trials=[*trials],
    )


def counted(readings: Sequence[Reading], span_s: float = COUNTED_S) -> list[Reading]:
    """The readings of the last seconds."""
    return [reading for reading in readings if reading.time_s > readings[-1].time_s - span_s]


def has_settled(readings: Sequence[Reading], span_s: float = COUNTED_S) -> bool:
    """Whether clock and temperature of every GPU have settled in the last seconds."""
    return all(_steady(each, span_s) for each in by_gpu(counted(readings, span_s)).values())


def _steady(readings: Sequence[Reading], span_s: float) -> bool:
    middle_s = readings[-1].time_s - span_s / 2
    before = [reading for reading in readings if reading.time_s <= middle_s]
    after = [reading for reading in readings if reading.time_s > middle_s]
    if not before:
        return False
    share = fmean(each.clock_MHz for each in after) / fmean(each.clock_MHz for each in before)
    return _hottest_C(after) - _hottest_C(before) <= SETTLED_C and abs(share - 1) <= SETTLED_SHARE


def _hottest_C(readings: Sequence[Reading]) -> float:
    return max((reading.temperature_C for reading in readings if reading.temperature_C is not None), default=0.0)


def seemingly_locked(readings: Sequence[Reading], supported_MHz: Sequence[int]) -> dict[int, int]:
    """GPUs that stayed at one clock below their highest though nothing held them down, each with that clock.

    NVML does not tell whether a clock is locked, or at what. `readings`: those that count.
    """
    return {
        gpu: rounded_down(seen[0].clock_MHz, supported_MHz)
        for gpu, seen in by_gpu(readings).items()
        if len({each.clock_MHz for each in seen}) == 1
        and seen[0].clock_MHz < supported_MHz[-1] - HALF_STEP_MHZ
        and not holding_down([each.reasons for each in seen])
        and not any(each.reasons & _CHOSEN for each in seen)
    }


def rose(readings: Sequence[Reading], locked_MHz: Mapping[int, int]) -> dict[int, int]:
    """Those GPUs that were locked indeed: they run faster since their lock was taken away."""
    seen = by_gpu(readings)
    return {
        gpu: clock_MHz
        for gpu, clock_MHz in locked_MHz.items()
        if max(each.clock_MHz for each in seen[gpu]) > clock_MHz + HALF_STEP_MHZ
    }


def next_clock(supported_MHz: Sequence[int], free: Sequence[Reading], trials: Sequence[Trial]) -> int | None:
    """The next clock to try; None when the search is over: the answer is then the highest that held, if any did.

    `supported_MHz`: ascending. `free`: the readings that count of the GPUs before any clock was locked.
    """
    clocks = [each.clock_MHz for each in free]
    least, most = (_place(clock, supported_MHz) for clock in (min(clocks), max(clocks)))
    held = [_place(trial.clock_MHz, supported_MHz) for trial in trials if trial.held]
    failed = [_place(trial.clock_MHz, supported_MHz) for trial in trials if not trial.held]
    below = min(failed, default=most + 1)  # the answer is less
    if not trials:
        return supported_MHz[least]
    if not held:  # down, ever faster
        return supported_MHz[max(0, below - 2 ** (len(failed) - 1))] if below else None
    between = range(max(held) + 1, below)
    return supported_MHz[between[len(between) // 2]] if between else None


def rounded_down(clock_MHz: float, supported_MHz: Sequence[int]) -> int:
    """The highest supported clock that is no more than a clock; one that was read may be a little less than it is."""
    return supported_MHz[_place(clock_MHz, supported_MHz)]


def _place(clock_MHz: float, supported_MHz: Sequence[int]) -> int:
    return max(0, bisect_right(supported_MHz, clock_MHz + 1) - 1)
