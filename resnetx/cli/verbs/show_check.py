"""`check`: which nodes, and pairs of nodes, are slow, and why, most likely."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import check_answer
from resnetx.api.measuring import machine_name
from resnetx.cli import show
from resnetx.cli.verbs.show_train import Planned, left_to_others
from resnetx.fleet import execute
from resnetx.fleet.check_runs import AskedCheck, asked_check, rounds
from resnetx.fleet.outliers import LEAST, against, seconds_text
from resnetx.record.topologies import Check, CheckedRun, CheckFolder, Measure
from resnetx.study import Point
from resnetx.table import Column
from resnetx.units import duration


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


# The screen of a check: which nodes stand out and why, what was measured, by what it is judged.

NAMED = 3  # outliers, and what was left out, without --all


def check(made: Check, folder: CheckFolder) -> None:
    """Runs, outliers first; the causes of those that the answer does not name; by what runs are judged."""
    ordered = sorted(made.runs, key=lambda run: (not against(run), -(run.time_s or float("inf"))))
    if ordered:
        show.listing(RUNS, ordered, by="outliers and the slowest, and the fastest", constant=True)
    others = made.outliers if show.everything() else made.outliers[1:]
    for outlier in show.first(others, NAMED):
        causes = show.first(outlier.causes, 1)
        why = "; ".join(
            cause.evidence if cause.kind == "unknown" else f"{cause.kind}: {cause.evidence}" for cause in causes
        )
        show.say(f"{outlier.name}, {outlier.measure}: {outlier.found}. {why[0].upper()}{why[1:]}.")
    for remark in show.first(made.remarks, NAMED):
        show.say(f"Note on {remark.node} (not an outlier): {remark.cause.kind}: {remark.cause.evidence}.")
    for sentence in show.first(made.left_out, NAMED):
        show.say(f"Left out: {sentence}.")
    _rule(made)
    show.line(f"record: {folder.check}")


_WHAT: dict[Measure, str] = {"all-reduce": "all-reduce", "training": "training step", "pair": "all-reduce of a pair"}


def _time(time_s: float | None) -> str:
    return "" if time_s is None else seconds_text(time_s)


RUNS: list[Column[CheckedRun]] = [
    Column("node", lambda run: " - ".join(run.nodes)),
    Column("of", lambda run: _WHAT[run.measure]),
    Column(">time", lambda run: "no end" if run.time_s is None else seconds_text(run.time_s)),
    Column(">median", lambda run: _time(run.median_s), 6, "of the nodes."),
    Column(">limit", lambda run: _time(run.limit_s), 7),
    Column(">described", lambda run: _time(run.expected_s), 8),
    Column("outlier", lambda run: "yes" if against(run) else ""),
]


def _rule(made: Check) -> None:
    """By what runs are judged, and how much was tried."""
    compared = any(run.limit_s is not None for run in made.runs)
    limit = (
        f"an outlier takes over {made.spreads:g} robust standard deviations, and over {made.floor:.0%}, more than the "
        "nodes' median"
    )
    few = f"with fewer than {LEAST} runs of a kind, only failures and the described limits count"
    show.say(f"sure: {limit if compared else few}.")
    system = f"described: what {made.system} allows" if made.system else "no system is described (systems=NAME)"
    pairs = f"; {made.pairs_tried} of {made.pairs} pairs were tried" * bool(made.pairs)
    hidden = max(len(made.outliers) - 1, len(made.remarks), len(made.left_out)) > NAMED or len(made.runs) > show.ROWS
    more = "; --all" * (hidden and not show.everything())
    show.more(f"{duration(made.duration_s)} of {duration(made.budget_s)}{pairs}; {system}{more}")
