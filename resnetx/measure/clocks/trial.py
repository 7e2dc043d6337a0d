"""GPUs under load at a clock: all of them at once, monitored until clock and temperature have settled.

`find` measures the highest clock that all of them hold, `hold` tries one. The load is that of `load`, in a
process for each GPU, so that they share power supplies and cooling as they do in a run; what its readings mean is in
`search`, and `lock` puts back what was there.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import msgspec

from resnetx.errors import ConfigError, shortened
from resnetx.host import dying_with, exit_status
from resnetx.measure.clocks.lock import Lock
from resnetx.measure.clocks.search import (
    COUNTED_S,
    LEAST_S,
    MOST_S,
    Trial,
    counted,
    has_settled,
    next_clock,
    rose,
    seemingly_locked,
)
from resnetx.measure.machine.locked_clock import Reading, shortfall
from resnetx.measure.machine.nvml import Nvml
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.record import Unknown
from resnetx.request import Request


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
    """How the GPUs run where no clock is locked. A clock that was locked before is noted in `lock`, which puts it back.

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
            [sys.executable, "-P", "-m", "resnetx.measure.clocks.load"],
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
