"""What this machine can run, and what is missing; or, with `clock`, which clock its GPUs hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from resnetx import packages, progress
from resnetx.api.obstacles import obstacle_to
from resnetx.compose import asked, compose, one_point, struct_of
from resnetx.compose import asked as settings_asked
from resnetx.config import FIND, check_ranks, clock_from, request_from, run_settings_from
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.measure.clocks import lock as journal
from resnetx.measure.clocks import trial
from resnetx.measure.clocks.held import finish_what_was_killed, nvml_for, refuse_others, supported
from resnetx.measure.clocks.lock import Before, Lock, NotPermittedError, locking
from resnetx.measure.clocks.trial import ClockSearchResult, Look, answer, rounded_down
from resnetx.measure.machine.readings import Reading
from resnetx.measure.machine.sensors import NvmlGpu
from resnetx.measure.machine.visible_gpus import gpus_here
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.table import tagged
from resnetx.settings.verbs import VERBS, group_of
from resnetx.settings.words import written
from resnetx.study import Point
from resnetx.table import ANSWERS, Answer, Column, Records, as_shown

if TYPE_CHECKING:
    from resnetx.measure.doctor.apart import Finding


def doctor(**settings: Unpack[keywords.DoctorKeywords]) -> "Records[Any]":
    """Examines this machine: a finding for each thing that runs need. With `clock`: one, the clock of its GPUs.

    With `launcher="slurm"`: the cluster, from here. With `out`: the findings are kept there, with a page.
    """
    if settings.get("clock") is None:
        return findings(settings)

    return Records([find_clock(settings).answer])


def findings(settings: Mapping[str, object]) -> "Records[Finding]":
    """A finding for each thing that runs need, and for what would make them faster or their figures better."""
    given = asked("doctor", settings)
    found = _findings({key: value for key, value in given.items() if key != "out"})
    if given.get("out") is not None:
        _store(found, Path(str(given["out"])))
    return found


def _store(found: "Records[Finding]", folder: Path) -> None:
    """The findings as JSON lines, as a table, and as a page."""
    from resnetx.api import drawings, pages
    from resnetx.reporting.pages.parts import PageTable, Part

    drawings.store_rows(folder, "doctor", found)
    tables = [PageTable("findings", "What was examined", as_shown(FINDINGS, found), found.table())]
    pages.store(Part(f"What runs on {node_name()}", [works(found)], tables=tables), folder)


def works(found: "Sequence[Finding]") -> str:
    """What works here."""
    lacking = [finding.topic for finding in found if finding.state == "missing" and finding.needed]
    if lacking:
        return f"Predicting, comparing and reporting work here. Measuring needs what is missing: {', '.join(lacking)}."
    gpu = next((finding for finding in found if finding.topic == "GPU"), None)
    on = "" if gpu is None or gpu.state == "ok" else ", on CPU cores"
    others = ", ".join(finding.topic for finding in found if finding.state == "missing")
    more = f" Missing for some: {others}." * bool(others)
    return f"Runs work here{on}: nothing that every run needs is missing.{more}"


FINDINGS: "list[Column[Finding]]" = [
    Column("state", lambda finding: finding.state),
    Column("topic", lambda finding: finding.topic),
    Column("~finding", lambda finding: finding.what),
]
ANSWERS["Records[Finding]"] = lambda found: Answer([works(found)], as_shown(FINDINGS, found))


def _findings(given: Point) -> "Records[Finding]":
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    tree = compose(given)
    for word in written(
        {key: value for key, value in given.items() if group_of(key) in tagged("load") and value is not None}
    ):
        raise ConfigError(f"{word}: only with a clock; add clock=find, or a clock to test, e.g. clock=1227MHz")
    run = run_settings_from(tree)
    if run.launch is not None:
        if run.launch.launcher != "slurm":
            raise ConfigError(f"launcher={run.launch.launcher}: has no checks; use launcher=slurm, or leave it out")
        from resnetx.measure.doctor.examination import examine_cluster

        return Records(examine_cluster(run.launch))
    from resnetx.measure.doctor.examination import examine

    return Records(examine(Path(run.results), Path(tree["input"].get("root", "data/images"))))


# `doctor clock=find` and `doctor clock=1227MHz`: which clock GPUs hold under a load, and the command that locks it.
#
#     sudo "$(command -v resnetx)" doctor clock=find precision=bf16
#
# How it is measured is in `measure.clock_trial` and `measure.clock_search`. Nothing stays locked.

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
    nvml = nvml_for("clock=find" if wanted_Hz is None else f"clock={wanted_Hz / 1e6:g}MHz")
    requests = _requests(given, asked.devices or list(range(gpus_here())))
    finish_what_was_killed(nvml)
    with progress.waiting("GPUs under load: some minutes"), trial.loading(requests) as loads:
        handles = trial.handles_of(nvml, loads.uuids)
        refuse_others(handles)
        clocks = trial.supported_clocks(nvml, handles)
        wanted = None if wanted_Hz is None else supported(wanted_Hz / 1e6, clocks)
        sensors = {gpu: NvmlGpu(nvml, handle) for gpu, handle in handles.items()}
        look = trial.watching(sensors, loads.check, trial.PACE)
        with locking(nvml, handles) as lock:
            result = _measured(lock, clocks, look, wanted)
    return FoundClock(result, requests[0], wanted, lock.before, some=len(handles) < gpus_here())


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
    least = rounded_down(min(reading.clock_MHz for reading in free), supported)
    return f"; unlocked, no GPU ran slower than {least} MHz under this load, so that clock can probably be sustained"


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
