"""The clock that a run or a bench holds its GPUs at (`clock=1227MHz`): locked before it starts, put back behind it.

The process that starts the ranks locks it, so that it is put back whatever becomes of them; if that process is killed,
the note that it leaves (`lock`) is what the next one that touches clocks puts them back by. The driver does not tell
whether a clock was locked before: afterwards none is. Whether GPUs held the clock is read during every window of a run
by its ranks, and once a second of a bench by the process that started it, but for GPUs that idle.

References: NVML API reference (nvmlDeviceSetGpuLockedClocks; clock event reasons).
"""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from resnetx import progress
from resnetx.errors import ConfigError
from resnetx.host import kernel_file
from resnetx.measure.clocks import lock
from resnetx.measure.clocks.lock import lockable, locking, put_back
from resnetx.measure.clocks.trial import handles_of, supported_clocks
from resnetx.measure.machine.nvidia import Nvml, graphics_here, open_nvml
from resnetx.measure.machine.readings import Reading, clock_readings, clock_warnings, locked_clock
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.measure.machine.visible_gpus import uuids_here
from resnetx.record import BenchRecord, BenchRequest, Unknown
from resnetx.request import Request

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
