"""`sweep`: measures a study, or shows how it would."""

from argparse import Namespace
from collections import Counter
from itertools import groupby
from pathlib import Path

from resnetx.api.plan import Plan, planned
from resnetx.api.studies import MeasuredStudy
from resnetx.api.sweep import AskedStudy, execute, study_of
from resnetx.cli import show
from resnetx.cli.submitting import show_commands, submitted
from resnetx.cli.tables import show_study
from resnetx.reporting.study.answer import study_answer
from resnetx.study import Point
from resnetx.units import duration


def sweep_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Runs a study, or shows how it would."""
    study = study_of(asked)
    planned_runs = [(run.task, run.folder) for run in study.plan()]
    if submitted(options, "sweep", asked, study.settings.launch, study.settings.results, planned_runs):
        return 0
    if options.dry_run:
        _show_plan(planned(study))
        return 0
    return _conclude(options, study, execute(study))


def _conclude(options: Namespace, study: AskedStudy, measured: MeasuredStudy) -> int:
    """Shows what the study says now that its runs have ended; status 1 where a run went wrong."""
    asked = study.record

    def screen() -> None:
        show_study.study(asked.name, asked.about, measured.points)
        show.line(f"figures and a page: resnetx report {measured.folder}")

    answer = [study_answer(measured.points, asked.node)]
    show.conclude(options, answer, lambda: [point.result for point in measured.points], screen)
    failed = measured.failed
    if failed:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(run.outcome for run in failed).items())
        show.say(f"{counts}; the first: {failed[0].folder}: {failed[0].reason}", show.err)
    return 1 if failed else 0


# ---- the plan -------------------------------------------------------------------------------------------------------


def _show_plan(plan: Plan) -> None:
    """The commands of a sweep, the time that they may take, and what cannot run."""
    able = [run for run in plan.left if not run.obstacle]
    cases = f"{plan.points} case{'s' * (plan.points != 1)}"
    controls = sum(run.twin is not None for run in able)
    if able or plan.reused:
        reused = f", {plan.reused} more are there already" * bool(plan.reused)
        takes = f", about {duration(plan.duration_s)} ({plan.basis})" * bool(able)
        runs = f"{len(able)} run{'s' * (len(able) != 1)} of {cases}"
        show.line(f"# {runs}, {controls} of them control runs{reused}{takes}")
    if plan.budget_s is not None:
        show.line(f"# budget={duration(plan.budget_s)}: runs are chosen as results arrive, until the budget is spent")
    for obstacle, count in plan.obstacles.items():
        which = f"{count} of {cases}" if count < plan.points else f"None of {cases}"
        show.line(f"# {which} {'cannot' if count < plan.points else 'can'} run here: {obstacle}")
    if not able and not show.everything():
        return
    if plan.left:
        show.line("# The commands of `resnetx sweep`, each after writing its run.json:")
    for hidden, alike in groupby(plan.left, lambda run: bool(run.obstacle)):
        show_commands([(run.task, run.folder) for run in alike], "# " * hidden)
