"""`topology`: described machines, the paths through them, and what a collective costs."""

from argparse import Namespace
from pathlib import Path

from resnetx.api.topology import Answer, Costed, Described, Listed, Ranked, Routed, answers
from resnetx.cli import show
from resnetx.cli.tables import show_topology as tables
from resnetx.cli.verbs.validate import validate_
from resnetx.study import Point


def topology_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Explains systems; without any word, names those that come with resnetx."""
    if options.validate:
        from resnetx.interconnect import validation

        return validate_(options, files, asked, validation, tables.validation)
    for answer in answers(files, asked):
        if options.json:
            show.json_lines(answer.records())
        else:
            _show(answer)
    return 0


def _show(answer: Answer) -> None:
    match answer:
        case Listed(about):
            tables.systems(about)
        case Described(systems, transport):
            for place, each in enumerate(systems):
                if place:
                    show.say()
                tables.parts(each)
                tables.matrix(each)
                tables.copies(each, transport)
        case Routed(routes):
            for machine, found in routes:
                tables.routes(machine, found)
        case Costed([plan], _, sizes):
            tables.costs(plan, sizes)
        case Costed(plans, _, sizes):
            tables.side_by_side(plans, sizes)
            for plan in plans:
                tables.explanation(plan, sizes[-1])
        case Ranked(machine, library, name, size_bytes, choices):
            tables.choices(machine, choices, f"{name} with library={library}", size_bytes)
