"""`check`: which nodes, and pairs of nodes, are slow, and why, most likely."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from resnetx.api.answers import check_answer
from resnetx.api.measuring import machine_name
from resnetx.cli import show
from resnetx.cli.verbs.show_train import Planned, left_to_others
from resnetx.fleet.check import execute
from resnetx.fleet.check_runs import AskedCheck, asked_check, rounds
from resnetx.fleet.outliers import LEAST, against, seconds_text
from resnetx.record.node_check import Check, CheckedRun, CheckFolder, Measure, Outlier
from resnetx.study import Point
from resnetx.table import Column
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


def check(made: Check, folder: CheckFolder) -> None:
    """Outliers with causes, what was measured, what was left out."""
    if made.outliers:
        _outliers(made.outliers)
        show.say()
    _measured(made)
    _rule(made)
    for remark in made.remarks:
        show.say(f"Note on {remark.node} (not an outlier): {remark.cause.kind}: {remark.cause.evidence}.")
    for sentence in made.left_out:
        show.say(f"Left out: {sentence}.")
    show.line(f"record: {folder.check}")


def _outliers(outliers: Sequence[Outlier]) -> None:
    """What stands out in a table, then the evidence, which no column has room for."""
    if len(outliers) > 1:
        show.listing(OUTLIERS, outliers, "Outliers")
        show.say()
    for outlier in outliers:
        show.say(f"{outlier.name}, {outlier.measure}: {outlier.found}.")
        for cause in outlier.causes:
            show.say(f"{cause.kind}: {cause.evidence}", indent=2)


OUTLIERS: list[Column[Outlier]] = [
    Column("node", lambda outlier: outlier.name),
    Column("measure", lambda outlier: outlier.measure),
    Column("against", lambda outlier: " and ".join(outlier.against)),
    Column("likely cause", lambda outlier: outlier.causes[0].kind),
]


def _measured(made: Check) -> None:
    """Every run, the slow ones first."""
    ranks = f"{made.gpus} rank{'s' * (made.gpus > 1)}"
    what: dict[Measure, str] = {
        "all-reduce": f"all-reduce of {size_text(made.size_bytes)}, {ranks} on a node",
        "training": f"{made.workload}, batch {made.batch_size}, a step on {ranks} of a node",
        "pair": f"all-reduce of {size_text(made.size_bytes)}, {ranks} on each of two nodes",
    }
    for measure, title in what.items():
        own = [run for run in made.runs if run.measure == measure]
        if own:
            ordered = sorted(own, key=lambda run: (not against(run), -(run.time_s or float("inf"))))
            show.listing(RUNS, ordered, title[0].upper() + title[1:], by="the slowest and the fastest")
            show.say()


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else seconds_text(time_s)


RUNS: list[Column[CheckedRun]] = [
    Column("node", lambda run: " - ".join(run.nodes)),
    Column(">time", lambda run: _time(run.time_s)),
    Column(">fleet", lambda run: _time(run.median_s)),
    Column(">limit", lambda run: _time(run.limit_s)),
    Column(">described", lambda run: _time(run.expected_s)),
    Column("outlier", lambda run: "yes" if against(run) else ""),
]


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
