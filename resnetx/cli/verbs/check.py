"""`check`: which nodes, and pairs of nodes, are slow, and why, most likely."""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from resnetx.api.answers import check_answer
from resnetx.api.runs import machine_name
from resnetx.cli import show
from resnetx.cli.tables.show_run import Planned, left_to_others
from resnetx.fleet.check import execute
from resnetx.fleet.measured import LEAST
from resnetx.fleet.outliers import against, seconds_text
from resnetx.fleet.runs import rounds
from resnetx.fleet.settings import AskedCheck, asked_check
from resnetx.record.check import Check, CheckedRun, CheckFolder, Measure, Outlier
from resnetx.study import Point
from resnetx.units import duration, size_text


def check_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Checks nodes, or leaves it to a job; status 1 where something stands out."""
    made = asked_check(asked)
    launch = made.fleet.launch
    planned = _planned(made)
    if left_to_others(options, "check", asked, launch, made.results, planned):
        return 0
    kept = execute(made)
    screen = partial(check, kept.record, kept.folder)
    show.conclude(options, check_answer(kept.record), lambda: [kept.record], screen)
    return 0 if kept.record.healthy else 1


def _planned(made: AskedCheck) -> list[Planned]:
    """Every run of a check that has time for all of them."""
    folder, names = CheckFolder(made.results / machine_name(made.fleet.launch) / "check"), made.fleet.names
    single: list[Measure] = ["all-reduce", "training"] if made.gpus > 1 else ["training"]
    runs: list[tuple[Measure, tuple[str, ...]]] = [(measure, (name,)) for measure in single for name in names]
    runs += [("pair", pair) for pairs in rounds(names) for pair in pairs]
    return [(made.task(measure, *nodes), folder.run(measure, nodes)) for measure, nodes in runs]


# The screen of a check: how many nodes stand out, which and why, then what was tried and how it is judged.

MOST_SHOWN = 20  # runs of one measure; --all shows all


def check(made: Check, folder: CheckFolder) -> None:
    """Outliers with causes, what was measured, what was left out."""
    if made.outliers:
        _outliers(made.outliers)
        show.say()
    _measured(made)
    _rule(made)
    for remark in made.remarks:
        show.say(f"Note on {remark.node} (not an outlier): {remark.cause.kind}: {remark.cause.evidence}.")
    for each in made.left_out:
        show.say(f"Left out: {each}.")
    show.line(f"record: {folder.check}")


def _outliers(found: Sequence[Outlier]) -> None:
    """What stands out in a table, then the evidence, which no column has room for."""
    rows = [[each.name, each.measure, " and ".join(each.against), each.causes[0].kind] for each in found]
    show.table("Outliers", ["node", "measure", "against", "likely cause"], rows)
    for each in found:
        show.say()
        show.say(f"{each.name}, {each.measure}: {each.found}.")
        for cause in each.causes:
            show.say(f"{cause.kind}: {cause.evidence}", indent=2)


def _measured(made: Check) -> None:
    """Every run, the slow ones first."""
    ranks = f"{made.gpus} rank{'s' * (made.gpus > 1)}"
    what: dict[Measure, str] = {
        "all-reduce": f"all-reduce of {size_text(made.size_bytes)}, {ranks} on a node",
        "training": f"{made.workload}, batch {made.batch_size}, a step on {ranks} of a node",
        "pair": f"all-reduce of {size_text(made.size_bytes)}, {ranks} on each of two nodes",
    }
    tables = {}
    for measure, title in what.items():
        own = [run for run in made.runs if run.measure == measure]
        if own:
            ordered = sorted(own, key=lambda run: (not against(run), -(run.time_s or float("inf"))))
            tables[title[0].upper() + title[1:]] = [_row(run) for run in show.first(ordered, MOST_SHOWN)]
    note = f"Of more runs the slowest {MOST_SHOWN} are shown; --all shows all." * any(
        count > MOST_SHOWN and not show.everything() for count in Counter(run.measure for run in made.runs).values()
    )
    show.tables(["node", ">time", ">fleet", ">limit", ">described", "outlier"], tables, note)


def _row(run: CheckedRun) -> list[str]:
    times = [run.time_s, run.median_s, run.limit_s, run.expected_s]
    cells = ["-" if time_s is None else seconds_text(time_s) for time_s in times]
    return [" - ".join(run.nodes), *cells, "yes" if against(run) else ""]


def _rule(made: Check) -> None:
    """By what runs are judged, and how much was tried."""
    pairs = f" {made.pairs_tried} of {made.pairs} pairs were tried." * bool(made.pairs)
    show.say(f"The check took {duration(made.duration_s)} of {duration(made.budget_s)}.{pairs}")
    if any(run.limit_s is not None for run in made.runs):
        show.say(
            f"limit: the fleet's median plus {made.spreads:g} robust standard deviations (1.4826 times the median "
            f"absolute deviation), or plus {made.floor:.0%} if that is more."
        )
    if any(run.limit_s is None for run in made.runs):
        show.say(
            f"Fewer than {LEAST} runs of a kind are too few to compare: only failures and the described limits count."
        )
    if made.system is None:
        show.say("described: no system is named; add systems=NAME.")
    else:
        show.say(f"described: what {made.system} allows.")
