"""Which links a reconfigurable node should have for what its GPUs send each other, and what training gains by it."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import msgspec

from resnetx import __version__, progress
from resnetx.api import drawings
from resnetx.api.found_system import YAML
from resnetx.api.measuring import new_folder
from resnetx.api.predict import predicted
from resnetx.choices import NoExchange, Server
from resnetx.compose import asked, each_of, points_of
from resnetx.errors import ConfigError
from resnetx.host import node_name
from resnetx.interconnect.collectives import plan as collective
from resnetx.interconnect.collectives import traffic as sent_traffic
from resnetx.interconnect.collectives.measured import UNCALIBRATED
from resnetx.interconnect.collectives.traffic import Matrix
from resnetx.interconnect.survey.system_text import system_text
from resnetx.interconnect.systems import changed_systems
from resnetx.interconnect.systems.system import System
from resnetx.loading import name_fault
from resnetx.record import SCHEMA, Unknown, known, record_file, seal
from resnetx.record.prediction import PredictedPoint
from resnetx.record.topologies import SteeredGpu, SteeredPhase, Steering
from resnetx.request import Request
from resnetx.settings import keywords
from resnetx.settings.files import given_path
from resnetx.settings.setting_types import written
from resnetx.settings.table import tagged
from resnetx.settings.verbs import group_of
from resnetx.steering import steered_traffic
from resnetx.steering.link_units import (
    SteeringProblem,
    Units,
    best,
    normalised,
    phase_choice,
    received,
    receivers_added,
    slowest_pair,
    source_rtl,
    steering_problem,
    total_rtl,
)
from resnetx.steering.steered_traffic import Node, PhaseTraffic, SteerSettings, devices_of, node_of, receivers_of, split
from resnetx.study import Point
from resnetx.table import Records
from resnetx.units import in_GBps


def steer(*files: keywords.Text, **settings: Unpack[keywords.SteerKeywords]) -> Steering | Records[Steering]:
    """Divides the links of a node by its traffic; kept, with the steered system, where `out` or `results` says.

    `files`: traffic, each of one phase: CSV matrices, records of runs and benches, logs of NCCL; without any, it is
    that of training the workload. Of several systems, workloads or values of a setting each is steered by itself.

    >>> import resnetx
    >>> made = resnetx.steer(systems="dgx1-v100", model="alexnet", pattern="replicated")
    >>> made.rtl_evaluations, made.rtl_after < made.rtl_before
    (320, True)
    """
    made = steered(files, settings)
    return made[0] if len(made) == 1 else Records(made)


def steered(files: Sequence[keywords.Text], settings_given: Mapping[str, object]) -> list[Steering]:
    """The steerings that settings ask for, each of one system for one traffic."""
    given = asked("steer", settings_given)
    cases, out = list(_cases(given)), given.get("out")
    if len(cases) == 1 or out is None:
        return [_steered(files, case) for case in cases]
    if Path(str(out)).suffix in YAML:
        raise ConfigError(f"out={out}: the file of one system, and {len(cases)} are steered; give a folder")
    made = [_steered(files, {**case, "out": str(Path(str(out)) / str(number))}) for number, case in enumerate(cases, 1)]
    drawings.store_rows(Path(str(out)), "steerings", made)
    return made


def _cases(given: Point) -> Iterator[Point]:
    """The settings of each steering; several of a system, a workload or a setting are as many steerings."""
    for question, _ in each_of("steer", given):
        systems = question.get("systems", [])
        workload = {key: value for key, value in question.items() if group_of(key) in tagged("workload")}
        own = {key: value for key, value in question.items() if key not in workload}
        for name in systems if isinstance(systems, list) and len(systems) > 1 else [systems]:
            for point in points_of(workload)[1]:
                yield {**own, **({"systems": name} if name else {}), **point}


def _steered(files: Sequence[keywords.Text], given: Point) -> Steering:
    settings, workload = split(given)
    node = node_of(settings)
    devices = devices_of(settings, node)
    request = steered_traffic.request_of(workload) if workload or not files else None
    if settings.rate is not None and request is None:
        raise ConfigError(f"{next(written({'rate': settings.rate}))}: of which workload is not said; add model=")
    if files:
        # A file has its traffic already.
        for key, value in (("pattern", settings.pattern), ("phases", settings.phases or None)):
            if value is not None:
                raise ConfigError(f"{key}={value}: files have their traffic already; leave {key}= out, or the files")
        if settings.library and request is None and all(given_path(file).suffix == ".csv" for file in files):
            raise ConfigError(f"library={settings.library}: a matrix needs no library; leave it out, or add model=")
        phases = [steered_traffic.of_file(given_path(file), settings, node, devices) for file in files]
    else:
        assert request is not None, "without files there is a workload"
        phases = steered_traffic.of_workload(settings, request, node, devices)
    job = SteeringJob(settings, given, workload, request, node, devices, phases)
    made, after = steering(job)
    folder = _folder(settings, given)
    return made if folder is None else _stored(made, node, after, folder)


# ---- files ----------------------------------------------------------------------------------------------------------


def _folder(settings: SteerSettings, given: Point) -> Path | None:
    """The folder for the record, or the YAML for the steered system alone; None: nothing is kept."""
    if settings.out is not None:
        return Path(settings.out)
    return new_folder(Path(settings.results) / node_name() / "steer") if "results" in given else None


def _stored(made: Steering, before: Node, after: Node, out: Path) -> Steering:
    """The steering as it is stored: with the file of the steered system, and its figures."""
    file = out if out.suffix in YAML else out / f"{after.system.name}.yaml"
    if fault := name_fault(file.stem):
        raise ConfigError(f"out={out}: a system has the name of its file: {fault}")
    others = {path: why for path, why in made.unknown.items() if path != "steered_file"}
    made = msgspec.structs.replace(made, steered_file=str(file), unknown=others)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            system_text(after.system, [f"Made by resnetx steer {made.settings['words']}"]), encoding="utf-8"
        )
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be written ({error.strerror})") from None
    progress.command(f"system: {file}")
    if file != out:
        from resnetx.api import pages

        drawings.store_record(out, record_file("steering", out), made)
        pages.store(pages.part_of(made), out)
    return made


# What steering does to training: the steered system, written as a file, predicted beside the one it is made of.


@dataclass(frozen=True)
class Effect:
    """An iteration on the node as it is built, and steered."""

    before: PredictedPoint
    after: PredictedPoint
    collective_before: str  # what its all-reduces run by; "": nothing is all-reduced
    collective_after: str


def effect(
    settings: SteerSettings, workload: Point, request: Request, node: Node, after: Node, devices: Sequence[int]
) -> Effect:
    """Both iterations, without what was measured on the node as it is built: nothing was on the steered one."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for each in (node, after):
            paths.append(Path(folder) / f"{each.system.name}.yaml")
            paths[-1].write_text(system_text(each.system), encoding="utf-8")
        prediction = predicted(
            [],
            {
                "input": "synthetic",
                **workload,
                "systems": [str(given_path(path)) for path in paths],
                "gpus": [len(devices)],
                "devices": list(devices),
                "library": settings.library,
                "calibration": UNCALIBRATED,
                **({} if settings.rate is None else {"rate": settings.rate}),
            },
        )
    before, then = prediction.points
    words = [_all_reduced(settings, request, each.system, devices, before.gradient_bytes) for each in (node, after)]
    return Effect(before, then, *words)


def _all_reduced(
    settings: SteerSettings, request: Request, system: System, devices: Sequence[int], size_bytes: int
) -> str:
    """What all gradients at once would be all-reduced by, and how fast."""
    if isinstance(request.strategy, Server | NoExchange):
        return ""
    plan = collective.plan(system, "allreduce", devices, settings.library)
    cost = plan.cost(size_bytes)
    return f"{plan.library}: {plan.fastest(size_bytes).label}, {in_GBps(cost.busbw_Bps)} bus bandwidth"


# The record of a steering: the best units for its traffic, and what they change.

_OPEN = "only both ends of this case are known"
_NO_WORKLOAD = Unknown("no workload is given: model= says what is trained")
_UNLINKED = Unknown("some of the traffic has no link as the system is built")
_NO_BYTES = Unknown("its source says who sends more than whom, not how many bytes")
_NOT_COUNTED = Unknown("the solver does not count them")
_NO_SWITCH = Unknown("no switch is described; switch= puts one in, and reconfiguration= states its time")
_NO_DURATION = Unknown("durations= is not given")
_ONE_PHASE = "all traffic is one phase"


@dataclass(frozen=True)
class SteeringJob:
    """What is steered, and for which traffic."""

    settings: SteerSettings
    given: Point  # all that is asked
    workload: Point  # what of it describes the workload
    request: Request | None  # null: files without a workload
    node: Node
    devices: list[int]
    phases: list[PhaseTraffic]

    @property
    def reachable(self) -> list[list[bool]]:
        """[to][from]: where a unit can go."""
        if self.settings.reach == "any":
            return [[to != by for by in range(len(self.node.units))] for to in range(len(self.node.units))]
        return [[count > 0 for count in row] for row in self.node.units]

    @property
    def receivers(self) -> Sequence[int] | None:
        return receivers_of(self.settings, len(self.node.units))

    def steerable(self, phase: PhaseTraffic) -> Matrix:
        """What of a phase goes over links; what libraries send elsewhere, they stage in the host."""
        return phase.matrix if phase.exact else sent_traffic.over_links(phase.matrix, self.reachable)

    def problem(self, sent: Matrix) -> SteeringProblem:
        return steering_problem(sent, self.node.units, self.reachable)

    @property
    def words(self) -> str:
        """The traffic in a few words, for the steered system."""
        label = self.request.model.label if self.request else ", ".join(phase.name for phase in self.phases)
        return f"{label}, {self.settings.pattern}" if self.settings.pattern else label


def steering(job: SteeringJob) -> tuple[Steering, Node]:
    """The record, and the node with the best units for all phases together."""
    node, sent = job.node, [job.steerable(phase) for phase in job.phases]
    whole = sent_traffic.added_up(sent)
    _refuse_nothing(job, whole)
    problem = job.problem(whole)
    found = best(problem, job.receivers)
    ratios = normalised(whole)
    before, after = (total_rtl(ratios, units) for units in (node.units, found.units))
    linked = math.isfinite(before)
    steered_to = msgspec.structs.replace(
        node, system=changed_systems.steered(node.system, found.units, job.words), units=found.units
    )
    effect = _effect(job, steered_to)
    in_bytes = all(phase.in_bytes for phase in job.phases)
    made = seal(
        Steering(
            kind="steering",
            schema=SCHEMA,
            resnetx=__version__,
            settings={"words": " ".join(written(job.given))},
            system=node.system.name,
            described_by=job.settings.systems[0],
            switch=known(node.switch or Unknown("no photonic switch is described; switch= puts one in")),
            unit_Bps=node.unit_Bps,
            devices=job.devices,
            workload=known(job.request.model.label if job.request else _NO_WORKLOAD),
            traffic_of="; ".join(phase.source for phase in job.phases),
            traffic=_lists(ratios),
            largest_pair_bytes=known(max(map(max, whole)) if in_bytes else _NO_BYTES),
            left_out=1 - _amount(sent) / _amount([phase.matrix for phase in job.phases]),
            method=found.method,
            rtl_evaluations=known(_NOT_COUNTED if found.evaluations is None else found.evaluations),
            rtl_before=known(before if linked else _UNLINKED),
            rtl_after=after,
            rtl_saved=known(1 - after / before if linked else _UNLINKED),
            connectivity_before=_lists(node.units),
            connectivity_after=_lists(found.units),
            receivers_limit=known(list(job.receivers) if job.receivers else Unknown("none is set (receivers=)")),
            receivers_added=max(receivers_added(problem, found.units)),
            gpus=_gpus(ratios, node.units, found.units),
            exchange_s_before=known(_exchange_s(whole, node, node.units, in_bytes)),
            exchange_s_after=known(_exchange_s(whole, node, found.units, in_bytes)),
            **_of_effect(effect),
            phases=_phases(job, sent, found.units),
            reconfiguration_s=known(_NO_SWITCH if node.reconfiguration_s is None else node.reconfiguration_s),
            steered_file=known(Unknown("not written; out= says where")),
            unknown={},
        )
    )
    return made, steered_to


def _effect(job: SteeringJob, after: Node) -> Effect | None:
    if job.request is None:
        return None
    return effect(job.settings, job.workload, job.request, job.node, after, job.devices)


def _refuse_nothing(job: SteeringJob, whole: Matrix) -> None:
    if not any(map(any, whole)):
        raise ConfigError(
            f"{job.node.system.name}: none of the traffic goes over links between GPUs ({job.phases[0].source}); "
            "expected some that does, or reach=any"
        )


def _lists(matrix: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(row) for row in matrix]


def _amount(matrices: Sequence[Matrix]) -> float:
    return sum(sum(map(sum, matrix)) for matrix in matrices)


def _gpus(ratios: Matrix, before: Units, after: Units) -> list[SteeredGpu]:
    rtl = [source_rtl(ratios, units) for units in (before, after)]
    has = [received(units) for units in (before, after)]
    return [
        SteeredGpu(
            gpu=gpu,
            rtl_before=known(rtl[0][gpu] if math.isfinite(rtl[0][gpu]) else _UNLINKED),
            rtl_after=rtl[1][gpu],
            units_moved=sum(max(0, new[gpu] - old[gpu]) for old, new in zip(before, after, strict=True)),
            receivers_before=has[0][gpu],
            receivers_after=has[1][gpu],
        )
        for gpu in range(len(before))
    ]


def _exchange_s(whole: Matrix, node: Node, units: Units, in_bytes: bool) -> float | Unknown:
    """Until every pair has its bytes, all of them at once, at the rate of large copies."""
    if not in_bytes:
        return _NO_BYTES
    slowest = slowest_pair(whole, units)
    return slowest / node.unit_Bps if math.isfinite(slowest) else _UNLINKED


def _of_effect(effect: Effect | None) -> dict[str, Any]:
    """The fields of an iteration."""
    names = ("iteration_s_before", "iteration_s_after", "iteration_of", "collective_before", "collective_after")
    if effect is None:
        return {name: known(_NO_WORKLOAD) for name in names}
    none = Unknown("gradients are not all-reduced")
    point = effect.before
    times = [
        known(Unknown(each.reason or _OPEN) if each.iteration_s is None else each.iteration_s)
        for each in (effect.before, effect.after)
    ]
    what = f"{point.workload}, batch {point.batch_size} on {point.gpus} GPUs, {point.strategy}, {point.library}"
    found = [known(sentence or none) for sentence in (effect.collective_before, effect.collective_after)]
    return dict(zip(names, [*times, what, *found], strict=True))


# ---- phases ---------------------------------------------------------------------------------------------------------


def _phases(job: SteeringJob, sent: Sequence[Matrix], shared: Units) -> list[SteeredPhase]:
    """Each phase with the units for all of them, and with its own."""
    durations_s, count = job.settings.durations_s, len(sent)
    if count == 1:
        for key in ("durations", "reconfiguration"):
            if getattr(job.settings, key):
                raise ConfigError(
                    f"{key}={getattr(job.settings, key)}: {_ONE_PHASE}; add phases=true, or several files"
                )
        return []
    if durations_s and len(durations_s) != count:
        raise ConfigError(f"durations={job.settings.durations}: expected {count} of them, one for each phase")
    return [
        _phase(job, phase.name, matrix, shared, durations_s[index] if durations_s else None)
        for index, (phase, matrix) in enumerate(zip(job.phases, sent, strict=True))
    ]


def _phase(job: SteeringJob, name: str, sent: Matrix, shared: Units, duration_s: float | None) -> SteeredPhase:
    ratios, reconfiguration_s = normalised(sent), job.node.reconfiguration_s
    own = best(job.problem(sent), job.receivers).units
    choice = phase_choice(ratios, shared, own)
    worth: float | Unknown = _NO_SWITCH
    gain: float | Unknown = _NO_SWITCH if reconfiguration_s is None else _NO_DURATION
    if reconfiguration_s is not None:
        even = choice.break_even_s(reconfiguration_s)
        worth = even if math.isfinite(even) else Unknown("its own configuration saves nothing")
        gain = gain if duration_s is None else choice.gain_s(duration_s, reconfiguration_s)
    return SteeredPhase(
        name=name,
        traffic=_lists(ratios),
        connectivity=_lists(own),
        rtl_shared=choice.rtl_shared,
        rtl_own=choice.rtl_own,
        duration_s=known(_NO_DURATION if duration_s is None else duration_s),
        break_even_s=known(worth),
        gain_s=known(gain),
    )
