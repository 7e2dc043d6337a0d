"""What runs of a check measured, each beside the fleet's median and the description of the system.

A run stands out beside the fleet where it takes longer than the median of all runs of its kind by more than `SPREADS`
robust standard deviations, and by more than `FLOOR` of the median. The deviation is 1.4826 times the median absolute
deviation: of normal times it is the standard deviation, and a few slow nodes change it little (Rousseeuw & Croux,
1993). How often a fleet without a fault then has an outlier is in docs/check.md, and counted by tests/reporting.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from resnetx.interconnect.measured import telling_times
from resnetx.record import BenchRecord, Environment, RunRecord, Unknown, if_known, known
from resnetx.record.check import CheckedRun, Measure
from resnetx.record.copies import Verdict
from resnetx.record.prediction import PredictedPoint

LEAST = 3  # runs of one kind, below which nothing tells who is the slow one
SPREADS = 5.0
FLOOR = 0.10
_DEVIATION = 1.4826  # standard deviation over median absolute deviation, of a normal distribution
TOO_FEW = Unknown(f"fewer than {LEAST} runs of this kind: there is no fleet to compare with")
NO_TIME = Unknown("the run did not end well")


@dataclass(frozen=True)
class Tried:
    """One run of a check, with its record."""

    measure: Measure
    nodes: tuple[str, ...]
    record: BenchRecord | RunRecord
    folder: Path
    round: int = 0


@dataclass(frozen=True)
class FleetLimit:
    """What a fleet allows a run of one kind."""

    median_s: float
    limit_s: float


def fleet_limit(times_s: Sequence[float]) -> FleetLimit | None:
    """The limit that follows from the times of all runs of one kind; None: they are too few."""
    if len(times_s) < LEAST:
        return None
    middle_s = median(times_s)
    deviation_s = _DEVIATION * median(abs(time_s - middle_s) for time_s in times_s)
    return FleetLimit(middle_s, middle_s + max(SPREADS * deviation_s, FLOOR * middle_s))


def time_of(record: BenchRecord | RunRecord) -> float | None:
    """Seconds of one all-reduce, or of one training step; None where the run did not end well."""
    if fault_of(record):
        return None
    if isinstance(record, BenchRecord):
        (times_s, *_) = telling_times(record.points)
        return median(times_s)
    return 1 / record.iterations_per_s if record.iterations_per_s else None


def fault_of(record: BenchRecord | RunRecord) -> str:
    """Why a run gives no time; "" where it does. Wrong sums are a fault, however fast they were."""
    if record.outcome != "ok":
        return record.reason
    if isinstance(record, RunRecord):
        return "" if record.iterations_per_s else "it has no rate"
    if wrong := sum(point.wrong or 0 for point in record.points):
        return f"{wrong} elements of its sums were wrong"
    return "" if record.points else "no size of it found memory"


def environment_of(tried: Sequence[Tried]) -> dict[str, Environment]:
    """The machine of each node that a run of its own told of: the latest."""
    return {
        each.nodes[0]: each.record.environment for each in tried if len(each.nodes) == 1 and each.record.environment
    }


# ---- runs beside the description and the fleet ----------------------------------------------------------------------


def checked(tried: Sequence[Tried], predicted: PredictedPoint | None, no_prediction: str) -> list[CheckedRun]:
    """All runs with what is allowed; `predicted`: the training point on one node, or why there is none."""
    machines = environment_of(tried)
    described = [_described(each, _kind(each, machines), predicted, no_prediction) for each in tried]
    times_s: dict[tuple[Measure, str], list[float]] = defaultdict(list)
    for run in described:
        if (time_s := if_known(run.time_s)) is not None:
            times_s[run.measure, run.kind].append(time_s)
    limits = {key: fleet_limit(each) for key, each in times_s.items()}
    return [_beside_fleet(run, limits.get((run.measure, run.kind))) for run in described]


def _kind(each: Tried, machines: Mapping[str, Environment]) -> str:
    """Runs of one kind are compared: nodes with the same processors, and pairs as far apart."""
    found = [machines[node] for node in each.nodes if node in machines]
    names = sorted({_processors(machine) for machine in found})
    if each.measure != "pair" or len(found) < 2:
        return " and ".join(names)
    switches = {machine.switch for machine in found}
    apart = "" if None in switches else ", below one switch" if len(switches) == 1 else ", across switches"
    return " and ".join(names) + apart


def _processors(machine: Environment) -> str:
    return ", ".join(sorted({gpu.name for gpu in machine.gpus or []})) or machine.cpu


def _described(each: Tried, kind: str, predicted: PredictedPoint | None, no_prediction: str) -> CheckedRun:
    """A run beside its description, yet without the fleet."""
    time_s, fault, why = time_of(each.record), fault_of(each.record), Unknown(no_prediction)
    expected_s: float | Unknown = why
    most_s: float | Unknown = why
    verdict: Verdict = "not judged"
    if isinstance(each.record, BenchRecord):
        most_s = Unknown("the verdict allows for the error of the model of collectives")
        if each.record.points and each.record.points[0].expected_s is not None:
            expected_s, verdict = each.record.points[0].expected_s, each.record.points[0].verdict
    elif predicted is not None and predicted.iteration_s is not None and predicted.interval_s is not None:
        expected_s, (least_s, most_s) = predicted.iteration_s, predicted.interval_s
        if time_s is not None:
            verdict = "low" if time_s > most_s else "above the link" if time_s < least_s else "as expected"
    return CheckedRun(
        measure=each.measure,
        nodes=list(each.nodes),
        round=each.round,
        kind=kind,
        outcome="failed" if fault and each.record.outcome == "ok" else each.record.outcome,
        reason=fault,
        time_s=known(NO_TIME if time_s is None else time_s),
        expected_s=known(expected_s),
        most_s=known(most_s),
        verdict=verdict if time_s is not None else "not judged",
        median_s=known(TOO_FEW),
        limit_s=known(TOO_FEW),
        folder=each.folder.name,
    )


def _beside_fleet(run: CheckedRun, limit: FleetLimit | None) -> CheckedRun:
    if limit is None:
        return run
    return msgspec.structs.replace(run, median_s=limit.median_s, limit_s=limit.limit_s)
