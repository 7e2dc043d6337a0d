"""Clocks of GPUs: tried under load, and held for a run or a bench."""

import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import IO, Any

import msgspec

from resnetx import progress
from resnetx.errors import ConfigError, shortened
from resnetx.host import dying_with, exit_status, kernel_file
from resnetx.measure import locked_clock as lock
from resnetx.measure.locked_clock import Lock, lockable, locking, put_back
from resnetx.measure.machine.nvidia import Nvml, graphics_here, open_nvml, uuids_here
from resnetx.measure.machine.readings import (
    HALF_STEP_MHZ,
    Reading,
    by_gpu,
    clock_readings,
    clock_warnings,
    holding_down,
    locked_clock,
    shortfall,
)
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.record import BenchRecord, BenchRequest, Unknown
from resnetx.request import Request

# ---- trial ----------------------------------------------------------------------------------------------------------
# GPUs under load at a clock: all of them at once, monitored until clock and temperature have settled.
#
# `find` measures the highest clock that all of them hold, `hold` tries one. The load is that of `load`, in a
# process for each GPU, so that they share power supplies and cooling as they do in a run; what its readings mean is in
# `search`, and `locked_clock` puts back what was there.

# The highest clock that GPUs sustain under a load, computed from readings alone.
#
# A GPU boosts until something holds it down: its power limit, as a rule, or its temperature. Which clock it then has
# changes from second to second, and from one GPU to the next. A clock that is locked at what all of them hold does not.
# The search starts at the lowest clock that was seen, which nearly always holds, and halves what lies between a clock
# that held and one that did not (or the highest that was seen). To hold is to stay at the locked clock, with no reason
# by which NVML says that the clock is held down.
#
# References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).

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
    clocks_MHz = [reading.clock_MHz for reading in free]
    reasons = [
        reason for seen in by_gpu(free).values() for reason in holding_down([reading.reasons for reading in seen])
    ]
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
    return all(_steady(of_gpu, span_s) for of_gpu in by_gpu(counted(readings, span_s)).values())


def _steady(readings: Sequence[Reading], span_s: float) -> bool:
    middle_s = readings[-1].time_s - span_s / 2
    before = [reading for reading in readings if reading.time_s <= middle_s]
    after = [reading for reading in readings if reading.time_s > middle_s]
    if not before:
        return False
    share = fmean(reading.clock_MHz for reading in after) / fmean(reading.clock_MHz for reading in before)
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
        if len({reading.clock_MHz for reading in seen}) == 1
        and seen[0].clock_MHz < supported_MHz[-1] - HALF_STEP_MHZ
        and not holding_down([reading.reasons for reading in seen])
        and not any(reading.reasons & _CHOSEN for reading in seen)
    }


def rose(readings: Sequence[Reading], locked_MHz: Mapping[int, int]) -> dict[int, int]:
    """Those GPUs that were locked indeed: they run faster since their lock was taken away."""
    seen = by_gpu(readings)
    return {
        gpu: clock_MHz
        for gpu, clock_MHz in locked_MHz.items()
        if max(reading.clock_MHz for reading in seen[gpu]) > clock_MHz + HALF_STEP_MHZ
    }


def next_clock(supported_MHz: Sequence[int], free: Sequence[Reading], trials: Sequence[Trial]) -> int | None:
    """The next clock to try; None when the search is over: the answer is then the highest that held, if any did.

    `supported_MHz`: ascending. `free`: the readings that count of the GPUs before any clock was locked.
    """
    clocks = [reading.clock_MHz for reading in free]
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


@dataclass(frozen=True)
class Pace:
    """How long GPUs are monitored at one clock, in seconds."""

    counted_s: float = COUNTED_S
    least_s: float = LEAST_S
    most_s: float = MOST_S
    period_s: float = 0.2


PACE = Pace()
Look = Callable[[], list[Reading]]  # watches the GPUs until they have settled; returns the readings that count


def find(lock: Lock, supported_MHz: Sequence[int], free: Sequence[Reading], look: Look) -> list[Trial]:
    """Tries clocks until the highest that all GPUs hold is known; `free`: what `unlocked` returned."""
    trials: list[Trial] = []
    while (clock_MHz := next_clock(supported_MHz, free, trials)) is not None:
        trials.append(hold(lock, clock_MHz, look))
    return trials


def hold(lock: Lock, clock_MHz: int, look: Look) -> Trial:
    """Whether all GPUs hold this clock."""
    lock.lock(clock_MHz)
    return Trial(clock_MHz, shortfall(look(), clock_MHz))


def unlocked(lock: Lock, supported_MHz: Sequence[int], look: Look) -> list[Reading]:
    """How the GPUs run where no clock is locked. A clock that was locked before is noted, and put back.

    No driver tells of one: it shows where a GPU stays below its highest clock for no reason, and rises without it.
    """
    seen = look()
    locked_MHz = seemingly_locked(seen, supported_MHz)
    if not locked_MHz:
        return seen
    lock.before |= locked_MHz
    lock.unlock()
    free = look()
    for gpu in locked_MHz.keys() - rose(free, locked_MHz):
        lock.before[gpu] = None
    return free


# ---- GPUs -----------------------------------------------------------------------------------------------------------


def handles_of(nvml: Nvml, uuids: Sequence[str]) -> dict[int, Any]:
    """NVML's handles of GPUs, by its numbers for them, which are those of nvidia-smi."""
    handles = {}
    for uuid in uuids:
        handle = nvml.ask("nvmlDeviceGetHandleByUUID", uuid)
        index = handle if isinstance(handle, Unknown) else nvml.ask("nvmlDeviceGetIndex", handle)
        if isinstance(index, Unknown):
            raise ConfigError(f"clock: the load runs on GPU {uuid}, which NVML does not know ({index})")
        handles[index] = handle
    return dict(sorted(handles.items()))


def supported_clocks(nvml: Nvml, handles: Mapping[int, Any]) -> list[int]:
    """The clocks, in MHz and ascending, that all of these GPUs can be set to."""
    every = [set(_supported(nvml, gpu, handle)) for gpu, handle in handles.items()]
    if not (shared := sorted(set.intersection(*every))):
        raise ConfigError(
            f"clock: GPUs {[*handles]} have no clock in common; choose GPUs of one model: devices=0,1,..."
        )
    return shared


def _supported(nvml: Nvml, gpu: int, handle: Any) -> list[int]:
    memory = nvml.ask("nvmlDeviceGetSupportedMemoryClocks", handle)
    clocks = memory if not memory or isinstance(memory, Unknown) else nvml.ask(
        "nvmlDeviceGetSupportedGraphicsClocks", handle, max(memory)
    )  # fmt: skip
    if not clocks or isinstance(clocks, Unknown):
        raise ConfigError(f"clock: GPU {gpu} does not report its supported clocks ({clocks or 'none'})")
    return list(clocks)


def watching(gpus: Mapping[int, NvmlGpu], check: Callable[[], None], pace: Pace) -> Look:
    """What watches these GPUs; `check` raises where their load has ended."""

    def look() -> list[Reading]:
        readings: list[Reading] = []
        start = time.monotonic()
        while (now := time.monotonic() - start) < pace.most_s:
            check()
            readings += [_reading(now, gpu, sensor) for gpu, sensor in gpus.items()]
            if now >= pace.least_s and has_settled(readings, pace.counted_s):
                break
            time.sleep(pace.period_s)
        return counted(readings, pace.counted_s)

    return look


def _reading(time_s: float, gpu: int, sensor: NvmlGpu) -> Reading:
    seen = sensor.sample()
    if isinstance(seen.sm_clock_Hz, Unknown):
        raise ConfigError(f"clock: GPU {gpu} cannot be monitored ({seen.sm_clock_Hz})")
    if isinstance(seen.throttle_reasons, Unknown):
        raise ConfigError(f"clock: GPU {gpu} cannot be monitored ({seen.throttle_reasons})")
    temperature_C = None if isinstance(seen.temperature_C, Unknown) else seen.temperature_C
    power_W = None if isinstance(seen.power_W, Unknown) else seen.power_W
    return Reading(time_s, gpu, seen.sm_clock_Hz / 1e6, temperature_C, power_W, seen.throttle_reasons)


# ---- the load -------------------------------------------------------------------------------------------------------


class Loads:
    """Processes that keep GPUs busy."""

    def __init__(self) -> None:
        self.uuids: list[str] = []  # of the GPUs, in the order of the requests
        self._children: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def start(self, request: Request) -> None:
        stdin, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  (they go with this object)
        stdin.write(msgspec.json.encode(request))
        stdin.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "resnetx.measure.rank.main"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "OMP_NUM_THREADS": str(request.threads)},
            start_new_session=True,  # Ctrl-C reaches this process alone
            preexec_fn=dying_with(os.getpid()),
        )
        self._children.append((child, stderr))

    def wait_until_busy(self) -> None:
        for child, _ in self._children:
            assert child.stdout is not None, "it has a pipe"
            if not (line := child.stdout.readline()):
                child.wait()
                self.check()
            self.uuids.append(line.decode().strip())

    def check(self) -> None:
        """Raises where a process has ended, with what it said last."""
        for child, stderr in self._children:
            if child.poll() is not None:
                stderr.seek(0)
                lines = stderr.read().decode(errors="replace").strip().splitlines()
                said = lines[-1] if lines else f"it ended with status {child.returncode}"
                raise ConfigError(f"clock: the load failed: {shortened(said)}")

    def end(self) -> None:
        for child, _ in self._children:
            child.kill()
        for child, _ in self._children:
            exit_status(child)


@contextmanager
def loading(requests: Sequence[Request]) -> Iterator[Loads]:
    """Processes that train without end, one for each request, as long as the block lasts."""
    loads = Loads()
    try:
        for request in requests:
            loads.start(request)
        loads.wait_until_busy()
        yield loads
    finally:
        loads.end()


# ---- held -----------------------------------------------------------------------------------------------------------
# The clock that a run or a bench holds its GPUs at (`clock=1227MHz`): locked before it starts, put back behind it.
#
# The process that starts the ranks locks it, so that it is put back whatever becomes of them; if that process is
# killed, its note (`locked_clock`) is what the next one that touches clocks puts them back by. The driver does
# not tell whether a clock was locked before: afterwards none is. Whether GPUs held the clock is read during every
# window of a run by its ranks, and once a second of a bench by the process that started it, but for GPUs that idle.
#
# References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).

PERIOD_S = 1.0  # of looks at a bench
_IDLE = 0x1  # nvmlClocksEventReasonGpuIdle


class Held:
    """GPUs that are locked at a clock, and what was seen of them."""

    def __init__(self, clock_MHz: int, gpus: Sequence[NvmlGpu]) -> None:
        self._clock_MHz, self._gpus = clock_MHz, gpus
        self._next_s = time.monotonic()
        self._seen: list[list[Reading]] = [[] for _ in gpus]

    def look(self) -> None:
        """Reads the clocks of GPUs that work, if the last look was a second ago."""
        if time.monotonic() < self._next_s:
            return
        for rank, gpu in enumerate(self._gpus):
            working = (
                clock_reading
                for clock_reading in clock_readings(rank, [gpu.sample()])
                if not clock_reading.reasons & _IDLE
            )
            self._seen[rank] += working
        self._next_s = time.monotonic() + PERIOD_S

    def noted(self, bench: BenchRecord) -> BenchRecord:
        """The record of a bench with what was seen meanwhile, and a warning where the clock was not held."""
        seen = locked_clock(self._clock_MHz, [[seen] for seen in self._seen])
        if isinstance(seen, Unknown):
            return msgspec.structs.replace(bench, unknown={**bench.unknown, "clock": str(seen)})
        unknown = {path: why for path, why in bench.unknown.items() if path != "clock"}
        warnings = [*bench.warnings, *clock_warnings(seen)]
        return msgspec.structs.replace(bench, clock=seen, unknown=unknown, warnings=warnings)


@contextmanager
def held(request: Request | BenchRequest) -> Iterator[Held | None]:
    """The GPUs of a run on this node are locked at its clock as long as the block lasts; None: it asks for none."""
    clock_MHz, devices = request.clock, request.devices or range(request.gpus)
    if clock_MHz is None:
        yield None
        return
    nvml = nvml_for(f"clock={clock_MHz}MHz")
    finish_what_was_killed(nvml)
    uuids = _uuids(devices)
    handles = handles_of(nvml, uuids)
    refuse_others(handles)
    supported(clock_MHz, supported_clocks(nvml, handles))
    with locking(nvml, handles) as lock:
        lock.lock(clock_MHz)
        yield Held(clock_MHz, [NvmlGpu(nvml, nvml.ask("nvmlDeviceGetHandleByUUID", uuid)) for uuid in uuids])


def obstacle(clock_MHz: int, devices: Sequence[int]) -> str:
    """Why `held` cannot lock this clock here, in one sentence; "" where only the right to do it may be missing."""
    try:
        nvml = nvml_for(f"clock={clock_MHz}MHz")
        supported(clock_MHz, supported_clocks(nvml, handles_of(nvml, _uuids(devices))))
    except ConfigError as error:
        return str(error)
    return ""


def _uuids(devices: Sequence[int]) -> list[str]:
    """The GPUs that CUDA gives these numbers; those that are not there are refused elsewhere."""
    visible = uuids_here()
    return [visible[device] for device in devices if device < len(visible)]


# ---- what is there --------------------------------------------------------------------------------------------------


def nvml_for(asked: str) -> Nvml:
    """NVML, where this machine has GPUs whose clock can be locked."""
    nvml, gpus = open_nvml(), graphics_here().gpus
    if isinstance(nvml, Unknown) or isinstance(gpus, Unknown):
        if kernel_file("dev/kfd").exists():  # of the driver for AMD's GPUs
            raise ConfigError(
                f"{asked}: clocks of AMD GPUs are not supported; amd-smi set --perf-determinism locks them"
            )
        raise ConfigError(f"{asked}: this machine shows no NVIDIA GPU ({gpus})")
    if any(gpu.mig is True for gpu in gpus):
        raise ConfigError(f"{asked}: MIG is on, and its instances have no clock of their own; see `resnetx doctor`")
    if not all(map(lockable, gpus)):
        raise ConfigError(f"{asked}: clocks of GPUs before Volta cannot be locked; see `resnetx doctor`")
    return nvml


def refuse_others(gpus: Collection[int]) -> None:
    """Refuses GPUs on which processes of others run: they would run at another clock."""
    processes = graphics_here().gpu_processes
    if isinstance(processes, Unknown):
        return
    if busy := sorted({process.gpu for process in processes if process.gpu in gpus}):
        raise ConfigError(
            f"clock: other processes use GPU {', '.join(map(str, busy))}, which a locked clock affects; choose other "
            "GPUs with devices=0,1,..., or see `resnetx doctor`"
        )


def supported(wanted_MHz: float, clocks_MHz: Sequence[int]) -> int:
    """The clock that is wanted, if GPUs have it: the driver would quietly take the next one."""
    if wanted_MHz in clocks_MHz:
        return round(wanted_MHz)
    near = sorted(clocks_MHz, key=lambda clock_MHz: abs(clock_MHz - wanted_MHz))[:2]
    raise ConfigError(
        f"clock={wanted_MHz:g}MHz: these GPUs can be set to {clocks_MHz[0]} to {clocks_MHz[-1]} MHz in steps; use "
        + " or ".join(f"clock={clock_MHz}MHz" for clock_MHz in sorted(near))
    )


def finish_what_was_killed(nvml: Nvml) -> None:
    """Puts back the clocks that a process of resnetx which was killed has left locked."""
    lock.refuse_company()
    if left := lock.left_behind():
        put_back(nvml, left)
        gpus = ", ".join(str(each.gpu) for each in left)
        progress.note(f"Clocks of GPUs {gpus} are restored: a process of resnetx that was killed had left them locked.")
