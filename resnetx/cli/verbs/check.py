"""`check`: which nodes, and pairs of nodes, are slow, and why, most likely."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.answers import check_answer
from resnetx.api.check import execute
from resnetx.api.check_settings import AskedCheck, asked_check
from resnetx.api.runs import machine_name
from resnetx.cli import show
from resnetx.cli.submitting import Planned, left_to_others
from resnetx.cli.tables import show_check
from resnetx.measure.study.rounds import rounds
from resnetx.record.check import CheckFolder, Measure
from resnetx.study import Point


def check_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Checks nodes, or leaves it to a job; status 1 where something stands out."""
    made = asked_check(asked)
    launch = made.fleet.launch
    planned = _planned(made)
    if left_to_others(options, "check", asked, launch, made.results, planned):
        return 0
    kept = execute(made)
    screen = partial(show_check.check, kept.record, kept.folder)
    show.conclude(options, check_answer(kept.record), lambda: [kept.record], screen)
    return 0 if kept.record.healthy else 1


def _planned(made: AskedCheck) -> list[Planned]:
    """Every run of a check that has time for all of them."""
    folder, names = CheckFolder(made.results / machine_name(made.fleet.launch) / "check"), made.fleet.names
    single: list[Measure] = ["all-reduce", "training"] if made.gpus > 1 else ["training"]
    runs: list[tuple[Measure, tuple[str, ...]]] = [(measure, (name,)) for measure in single for name in names]
    runs += [("pair", pair) for pairs in rounds(names) for pair in pairs]
    return [(made.task(measure, *nodes), folder.run(measure, nodes)) for measure, nodes in runs]
