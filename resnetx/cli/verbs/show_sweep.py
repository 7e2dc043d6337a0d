"""`sweep`: measures a study, or shows how it would."""

import re
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean

from resnetx.api import largest
from resnetx.api.stored import MeasuredStudy
from resnetx.api.sweep import AskedStudy, Plan, execute, planned, study_of
from resnetx.cli import show
from resnetx.cli.verbs.show_train import PHASES, parts, show_commands, submitted
from resnetx.errors import ConfigError
from resnetx.record import Phases
from resnetx.reporting.study_points import (
    WORDS,
    StudyPoint,
    gains,
    last_of_lines,
    point_names,
    scaling_columns,
    study_answer,
    unit_of_points,
    where_rows,
    worth_of_lines,
)
from resnetx.reporting.study_scaling import PARTS, Limits, MeasuredPartName, StepPart
from resnetx.study import Point
from resnetx.table import ALWAYS, Column
from resnetx.units import cell_ms, duration, how_many


def sweep_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Runs a study, or shows how it would."""
    if options.dry_run and asked.get("batch_size") == largest.MAX:
        raise ConfigError("--dry-run with batch_size=max: it is found by trials; give a number, or leave --dry-run out")
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
    record = study.record

    def screen() -> None:
        show_study(record.name, record.about, measured.points)
        show.more(f"figures and a page: `resnetx report {measured.folder}`")

    answer = [study_answer(measured.points, record.node)]
    records = [point.result for point in measured.points]
    most = show.LINES if len(last_of_lines(measured.points)) == 1 else show.LINES_OF_SEVERAL
    show.conclude(options, answer, lambda: records, screen, most=most)
    failed = measured.failed
    if failed:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(run.outcome for run in failed).items())
        show.say(f"{counts}; the first: {failed[0].folder}: {failed[0].reason}", show.err)
    return 1 if failed else 0


# ---- the plan -------------------------------------------------------------------------------------------------------


def _show_plan(plan: Plan) -> None:
    """The commands of a sweep, the time that they may take, and what cannot run; refuses a sweep that cannot begin."""
    able = plan.able_runs
    if able or plan.reused:
        show.comment(plan.sentence)
    if plan.budget_s is not None:
        show.comment(f"budget={duration(plan.budget_s)}: runs are chosen as results arrive, until the budget is spent")
    for words in plan.obstacle_words if plan.able else ():
        show.comment(words)
    if not show.everything():
        show_commands([(run.task, run.folder) for run in able])
    else:
        for hidden, alike in groupby(plan.left, lambda run: bool(run.obstacle)):
            show_commands([(run.task, run.folder) for run in alike], "# " * hidden)
    if not plan.able:
        raise ConfigError(*plan.obstacle_words)


# The screen of a study: each point's rate, speed-up, efficiency and limit, and where the time goes.

WARNINGS = {
    "foreign-load": "other programs used the CPUs",
    "short-windows": "windows were shorter than they should be",
    "throttled": "clocks fell",
    "overdriven": "this machine's cores, not the links, may have set the time",
    "oversubscribed": "fewer cores than ranks and threads",
}  # codes of records, in words
MOST_NOTES = 1  # of a long screen
NAMED = 3  # points of which the same is to be noted, by name; --all names all


def show_study(name: str, about: str, points: Sequence[StudyPoint]) -> None:
    """Each point's rate and speed-up, where the time goes; --all: what each control run shows, too."""
    several = len({point.gpus for point in points}) > 1
    by = "those of the lowest and of the highest speed-up" if several else "the first and the last"
    show.listing(scaling_columns(points), points, rank=_gain, by=by)
    where(points)
    _worth(points)
    _notes(points)
    if show.everything() and any(point.result.limits and point.result.limits.shares for point in points):
        show.say()
        limits(points)
    if about:
        show.say(f"study {name}: {about}")


def _gain(point: StudyPoint) -> float:
    return point.result.speedup.median if point.result.speedup else 0.0


def where(points: Sequence[StudyPoint]) -> None:
    """Where the time of each line goes on its most GPUs, over what speed-ups are over; of one line in a line."""
    rows = where_rows(points)
    if len(rows) == 1:
        ((point, cells),) = rows
        told = sorted(cells, key=lambda name: (name != "useful", not cells[name].isdecimal()))
        shares = [
            f"{cells[name]} {WORDS[name]}" if cells[name].isdecimal() else f"{WORDS[name]} {cells[name]}"
            for name in told
        ]
        shares[0] = shares[0].replace(" ", "% ", 1)
        known = [share for name, share in zip(told, shares, strict=True) if cells[name].isdecimal()]
        rest = ["the rest not resolved"] * (len(known) < len(shares))
        on = f"time on {how_many(point.gpus, unit_of_points(points))}:"
        show.say(f"{on} {' | '.join(shares)}", brief=f"{on} {' | '.join([*known, *rest])}")
    parts = [name for name in WORDS if any(name in cells for _, cells in rows)]
    columns: list[Column[tuple[StudyPoint, dict[MeasuredPartName, str]]]] = [
        *(column.of(lambda row: row[0]) for column in point_names(points)),
        *(_part_column(name).of(lambda row: row[1]) for name in parts),
    ]
    if len(rows) > 1:
        note = "Percent of the step, over its baseline. below: the runs do not show that there is any."
        show.say()
        show.listing(columns, rows, "Where the time goes", note)
    times = [point.result.lost for point in last_of_lines(points) if point.result.lost and gains(point)]
    for why in dict.fromkeys(lost.why for lost in times if lost.why):
        show.say(f"Where the time goes: {why}.")


def _part_column(name: MeasuredPartName) -> Column[dict[MeasuredPartName, str]]:
    return Column(f">{WORDS[name]}", lambda cells: cells.get(name, ""))


def _worth(points: Sequence[StudyPoint]) -> None:
    """How many GPUs of each line are worth it, and what would change that."""
    told_of = worth_of_lines(points)
    several = len({point.line for point in points if point.result.images_per_s}) > 1
    for words, told in show.first(told_of, 1):
        what = f"worth{f', {words}' if several else ''}"
        show.say(f"{what}: {told}", brief=f"{what}: {told.partition('. On ')[0].rstrip('.')}.")


def _notes(points: Sequence[StudyPoint]) -> None:
    """What is to be noted of points (why one is missing, what stands out, warnings), each thing once."""
    noted: dict[str, list[str]] = defaultdict(list)
    for point in points:
        for note in [point.result.reason, *point.result.notes, *_unknown(point.result.limits)]:
            code, _, runs = note.partition(" (")  # "foreign-load (5 of 6 runs)"
            if code in WARNINGS:
                noted[WARNINGS[code]].append(f"{point.words} ({runs}")
            elif note:
                noted[note].append(point.words)
    told = list(noted.items())[: MOST_NOTES if show.in_brief() else None]
    if len(told) < len(noted):
        show.leave_out(f"{len(noted) - len(told)} more to look at")
    for note, names in told:
        shown = show.first(names, NAMED)
        more = f" and {len(names) - len(shown)} more" * (len(names) > len(shown))
        which = f"all {len(points)} cases" if len(names) == len(points) > 1 else "; ".join(shown) + more
        show.say(f"look: {note}: {which}", indent=2)


def _unknown(point_limits: Limits | None) -> list[str]:
    """A sentence for each reason for which parts are not known."""
    unknown = point_limits.unknown if point_limits else {}
    if not show.everything():  # what was not to run is no news
        unknown = {
            part: why for part, why in unknown.items() if not re.fullmatch("the control run .* has not run", why)
        }
    return [
        f"{' and '.join(part for part in unknown if unknown[part] == why)}: {why}"
        for why in dict.fromkeys(unknown.values())
    ]


# ---- what the control runs show -------------------------------------------------------------------------------------


def limits(points: Sequence[StudyPoint]) -> None:
    """Where the time of each point goes: the step's shares by its control runs, and a profiled step."""
    known = [(point, point.result.limits) for point in points if point.result.limits]
    present = [
        part
        for part in PARTS
        if any(part in point_limits.shares or part in point_limits.unknown for _, point_limits in known)
    ]
    names: list[Column[tuple[StudyPoint, Limits]]] = [column.of(lambda row: row[0]) for column in point_names(points)]
    columns: list[Column[tuple[StudyPoint, Limits]]] = [
        *names,
        Column(">step ms", lambda row: cell_ms(row[1].step_s.median, 1)),
        *(_share_column(part).of(lambda row: row[1]) for part in present),
        Column(">loader images/s", lambda row: f"{row[1].loader_rate.median:,.0f}" if row[1].loader_rate else "", 1),
    ]
    note = "Share of the step that is saved in the control run without that part. ?: not known from these runs."
    show.listing(columns, known, "Time of a step by part", note)
    profiled = [(point, point_limits) for point, point_limits in known if point_limits.phases]
    if profiled:
        show.say()
        phases = [_phase_column(index, name).of(_phases_of) for index, name in enumerate(["step", *PHASES])]
        note = "Of the profiled control run, over ranks and steps. exposed: communication not hidden by computation."
        if any(not point_limits.shares for _, point_limits in known):
            note += " Measured by itself: it holds where the parts above are not known."
        show.listing([*names, *phases], profiled, "Inside a profiled step: mean ms", note)


_LESS = ("copy", "wait", "update")  # phases that a narrow screen leaves out


def _phases_of(row: tuple[StudyPoint, Limits]) -> Phases:
    phases = row[1].phases
    assert phases, "only of points that have them"
    return phases


def _phase_column(index: int, name: str) -> Column[Phases]:
    def cell(phases: Phases) -> str:
        by_rank = parts(phases)[index]  # [] of a phase that older records do not have
        return cell_ms(fmean(by_rank), 1) if by_rank else ""

    return Column(f">{name}", cell, 1 if name in _LESS else ALWAYS)


def _share_column(part: StepPart) -> Column[Limits]:
    return Column(f">{part}", lambda found: _share(found, part))


def _share(point_limits: Limits, part: StepPart) -> str:
    if part in point_limits.shares:
        return f"{point_limits.shares[part].median:.1%}"
    return "?" if part in point_limits.unknown else ""
