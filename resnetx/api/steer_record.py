"""The record of a steering: the best units for its traffic, and what they change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resnetx import __version__
from resnetx.api import steer_effect
from resnetx.api.steer_effect import Effect, steered_node
from resnetx.api.steer_settings import Node, SteerSettings, receivers_of
from resnetx.api.steer_traffic import PhaseTraffic
from resnetx.errors import ConfigError
from resnetx.interconnect import traffic
from resnetx.interconnect.steering.best import best, receivers_added
from resnetx.interconnect.steering.phases import phase_choice
from resnetx.interconnect.steering.problem import SteeringProblem, steering_problem
from resnetx.interconnect.steering.rtl import Units, normalised, received, slowest_pair, source_rtl, total_rtl
from resnetx.interconnect.traffic import Matrix
from resnetx.record import SCHEMA, Unknown, known, seal
from resnetx.record.steering import SteeredGpu, SteeredPhase, Steering
from resnetx.request import Request
from resnetx.settings.words import written
from resnetx.study import Point

_OPEN = "the point is open"
_NO_WORKLOAD = Unknown("no workload is given: model= says what is trained")
_UNLINKED = Unknown("some of the traffic has no link as the system is built")
_NO_BYTES = Unknown("its source says who sends more than whom, not how many bytes")
_NOT_COUNTED = Unknown("the solver does not count them")
_NO_SWITCH = Unknown("no switch is described; switch= puts one in, and reconfiguration= states its time")
_NO_DURATION = Unknown("durations= is not given")
_ONE_PHASE = "all traffic is one phase"


@dataclass(frozen=True)
class Job:
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
        return phase.matrix if phase.exact else traffic.over_links(phase.matrix, self.reachable)

    def problem(self, sent: Matrix) -> SteeringProblem:
        return steering_problem(sent, self.node.units, self.reachable)

    @property
    def words(self) -> str:
        """The traffic in a few words, for the steered system."""
        label = self.request.model.label if self.request else ", ".join(phase.name for phase in self.phases)
        return f"{label}, {self.settings.pattern}" if self.settings.pattern else label


def steering(job: Job) -> tuple[Steering, Node]:
    """The record, and the node with the best units for all phases together."""
    node, sent = job.node, [job.steerable(phase) for phase in job.phases]
    whole = traffic.added_up(sent)
    _refuse_nothing(job, whole)
    problem = job.problem(whole)
    found = best(problem, job.receivers)
    ratios = normalised(whole)
    before, after = (total_rtl(ratios, units) for units in (node.units, found.units))
    linked = math.isfinite(before)
    steered_to = steered_node(node, found.units, job.words)
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


def _effect(job: Job, after: Node) -> Effect | None:
    if job.request is None:
        return None
    return steer_effect.effect(job.settings, job.workload, job.request, job.node, after, job.devices)


def _refuse_nothing(job: Job, whole: Matrix) -> None:
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
    found = [known(each or none) for each in (effect.collective_before, effect.collective_after)]
    return dict(zip(names, [*times, what, *found], strict=True))


# ---- phases ---------------------------------------------------------------------------------------------------------


def _phases(job: Job, sent: Sequence[Matrix], shared: Units) -> list[SteeredPhase]:
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
        _phase(job, phase.name, matrix, shared, durations_s[place] if durations_s else None)
        for place, (phase, matrix) in enumerate(zip(job.phases, sent, strict=True))
    ]


def _phase(job: Job, name: str, sent: Matrix, shared: Units, duration_s: float | None) -> SteeredPhase:
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
