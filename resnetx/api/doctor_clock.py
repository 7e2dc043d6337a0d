"""`doctor clock=find` and `doctor clock=1227MHz`: which clock GPUs hold under a load, and the command that locks it.

    sudo "$(command -v resnetx)" doctor clock=find precision=bf16

How it is measured is in `measure.clock_trial` and `measure.clock_search`. Nothing stays locked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from resnetx import packages, progress
from resnetx.api.obstacles import obstacle_to
from resnetx.compose import asked as settings_asked
from resnetx.compose import compose, one_point, struct_of
from resnetx.config import FIND, check_ranks, clock_from, request_from
from resnetx.errors import ConfigError
from resnetx.host import kernel_file
from resnetx.measure.clocks import journal, trial
from resnetx.measure.clocks.journal import Before
from resnetx.measure.clocks.lock import Lock, NotPermittedError, lockable, locking, put_back
from resnetx.measure.clocks.search import ClockSearchResult, Reading, answer, rounded_down
from resnetx.measure.clocks.trial import Look
from resnetx.measure.machine.nvidia import graphics_here
from resnetx.measure.machine.nvml import Nvml, open_nvml
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.measure.machine.visible_gpus import gpus_here
from resnetx.record import Unknown
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of
from resnetx.settings.words import written
from resnetx.study import Point

OWN = VERBS["doctor"].fields("clock")  # the settings that say nothing of the load


@dataclass(frozen=True)
class FoundClock:
    """Which clock GPUs hold, under which load, and what was set before."""

    answer: ClockSearchResult
    load: Request
    wanted_MHz: int | None  # that was to be tried
    before_MHz: Mapping[int, int | None]
    some: bool  # the machine has other GPUs besides


def find_clock(settings: Mapping[str, object]) -> FoundClock:
    """Finds a clock, or tries one."""
    given = settings_asked("doctor", settings)
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    for word in written({key: value for key, value in given.items() if group_of(key) not in tagged("load")}):
        raise ConfigError(f"{word}: does not apply with clock=; leave it out")
    asked = struct_of({key: value for key, value in given.items() if key in OWN}, keywords.DoctorClockFields)
    assert asked.clock is not None, "`doctor` comes here with a clock"
    wanted_Hz = None if asked.clock == FIND else clock_from(asked.clock)
    nvml = _nvml("clock=find" if wanted_Hz is None else f"clock={wanted_Hz / 1e6:g}MHz")
    requests = _requests(given, asked.devices or list(range(gpus_here())))
    _finish_what_was_killed(nvml)
    with progress.waiting("GPUs under load: some minutes"), trial.loading(requests) as loads:
        handles = trial.handles_of(nvml, loads.uuids)
        _refuse_others(handles)
        supported = trial.supported_clocks(nvml, handles)
        wanted = None if wanted_Hz is None else _supported(wanted_Hz / 1e6, supported)
        sensors = {gpu: NvmlGpu(nvml, handle) for gpu, handle in handles.items()}
        look = trial.watching(sensors, loads.check, trial.PACE)
        with locking(nvml, handles) as lock:
            found = _measured(lock, supported, look, wanted)
    return FoundClock(found, requests[0], wanted, lock.before, some=len(handles) < gpus_here())


def _measured(lock: Lock, supported: Sequence[int], look: Look, wanted: int | None) -> ClockSearchResult:
    """Tries the clock that is wanted, or else finds one."""
    left = journal.command([Before(gpu, None) for gpu in lock.before])
    progress.note(f"Clocks are restored at the end; after kill -9, restore them with `{left}`.")
    free = trial.unlocked(lock, supported, look)
    try:
        if wanted is None:
            return answer(supported, free, trial.find(lock, supported, free, look))
        return answer(supported, free, [trial.hold(lock, wanted, look)])
    except NotPermittedError as error:
        raise ConfigError(f"{error}{_estimate(supported, free)}") from None


def _estimate(supported: Sequence[int], free: Sequence[Reading]) -> str:
    """What can be said without the right to lock a clock."""
    least = rounded_down(min(each.clock_MHz for each in free), supported)
    return f"; unlocked, no GPU ran slower than {least} MHz under this load, so that clock can probably be sustained"


def _supported(wanted_MHz: float, supported: Sequence[int]) -> int:
    """The clock that is wanted, if GPUs have it: the driver would quietly take the next one."""
    if wanted_MHz in supported:
        return round(wanted_MHz)
    near = sorted(supported, key=lambda clock_MHz: abs(clock_MHz - wanted_MHz))[:2]
    raise ConfigError(
        f"clock={wanted_MHz:g}MHz: these GPUs can be set to {supported[0]} to {supported[-1]} MHz in steps; use "
        + " or ".join(f"clock={clock_MHz}MHz" for clock_MHz in sorted(near))
    )


# ---- what is there --------------------------------------------------------------------------------------------------


def _nvml(asked: str) -> Nvml:
    """NVML, where this machine has GPUs whose clock is this user's to change."""
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


def _refuse_others(gpus: Collection[int]) -> None:
    """Refuses GPUs on which processes of others run: they would run at another clock."""
    processes = graphics_here().gpu_processes
    if isinstance(processes, Unknown):
        return
    if busy := sorted({each.gpu for each in processes if each.gpu in gpus}):
        raise ConfigError(
            f"clock: other processes use GPU {', '.join(map(str, busy))}, which a locked clock affects; choose other "
            "GPUs with devices=0,1,..., or see `resnetx doctor`"
        )


def _requests(given: Point, devices: list[int]) -> list[Request]:
    """The load of each GPU: one rank that trains what is asked for, with a run's share of the CPUs."""
    check_ranks(len(devices), devices, {})
    point = one_point({key: value for key, value in given.items() if key not in OWN}, "the load is one")
    tree = compose({**VERBS["doctor"].own, **point, "input": "synthetic", "gpus": 1})
    load = request_from(tree, max_gpus=len(devices))
    requests = [msgspec.structs.replace(load, devices=[device]) for device in devices]
    for request in requests:
        if obstacle := obstacle_to(request):
            raise ConfigError(obstacle)
    return requests


def _finish_what_was_killed(nvml: Nvml) -> None:
    """Puts back the clocks that a killed `resnetx doctor` has left locked."""
    journal.refuse_company()
    if left := journal.left_behind():
        put_back(nvml, left)
        gpus = ", ".join(str(each.gpu) for each in left)
        progress.note(f"Clocks of GPUs {gpus} are restored: a `resnetx doctor` that was killed had left them locked.")
