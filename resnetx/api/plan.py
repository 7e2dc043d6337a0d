"""What a sweep would run, without running it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

from resnetx import progress
from resnetx.api.sweep import AskedStudy, estimator_of, refuse_impossible, study_of
from resnetx.measure.study.plan import PlannedRun, definition, split_settled
from resnetx.record import BenchRequest
from resnetx.settings import keywords
from resnetx.table import Record, Tabular


@dataclass(frozen=True, repr=False)
class Plan(Tabular):
    """What a sweep would run."""

    points: int
    able: int  # points that can run here
    reused: int  # runs that are there already
    left: list[PlannedRun]  # the others
    obstacles: Mapping[str, int]  # why points cannot run here, and how many
    duration_s: float  # of those that can, estimated
    basis: str  # of the estimate
    budget_s: float | None

    def rows(self) -> list[Record]:
        """A row for each run that is left, in their order. `obstacle`: why it cannot run here."""
        return [_row(run) for run in self.left]


def plan(**settings: Unpack[keywords.SweepKeywords]) -> Plan:
    """What `sweep` would run with these settings, and for how long; nothing is run or written."""
    return planned(study_of(settings))


def planned(study: AskedStudy) -> Plan:
    """What running the study would run."""
    refuse_impossible(study)
    definition(study.folder, study.record, progress.skipped)
    kept, left = split_settled(study.plan(), progress.skipped)
    estimate = estimator_of(study)
    return Plan(
        points=len(study.tasks),
        able=sum(not obstacle for _, obstacle in study.tasks),
        reused=len(kept),
        left=left,
        obstacles=Counter(obstacle for _, obstacle in [*study.tasks, *study.benches] if obstacle),
        duration_s=sum(estimate.of_run(run) for run in left if not run.obstacle),
        basis=estimate.basis,
        budget_s=study.settings.budget,
    )


def _row(run: PlannedRun) -> Record:
    request = run.task.request
    there = {"folder": str(run.folder.path), "obstacle": run.obstacle or None}
    if isinstance(request, BenchRequest):
        return {"workload": None, "gpus": request.gpus, "measure": "bench", **there}
    return {
        "workload": request.model.label,
        "batch_size": request.batch_size,
        "gpus": request.gpus,
        "precision": request.precision,
        "strategy": request.strategy.kind,
        "input": request.input.kind,
        "measure": request.measure,
        "twin": run.twin,
        **there,
    }
