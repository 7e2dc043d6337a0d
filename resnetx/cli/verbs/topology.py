"""`topology`: described machines, the paths through them, and what a collective costs."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from resnetx.api.found_system import YAML, Found, from_files
from resnetx.api.new_system import NEW, new_system
from resnetx.api.this_system import this_system
from resnetx.api.topology import answers
from resnetx.api.topology_answers import Answer, Costed, Described, Listed, Paired, Ranked, Routed
from resnetx.cli import show
from resnetx.cli.tables import show_found
from resnetx.cli.tables import show_topology as tables
from resnetx.cli.verbs.validate import validate_
from resnetx.errors import ConfigError
from resnetx.loading import is_file
from resnetx.study import Point


def topology_(options: Namespace, files: list[Path], asked: Point) -> int:
    """Explains systems; without any word, names those that come with resnetx."""
    if options.validate:
        return validate_(options, files, asked, "topology", tables.validation)
    made = _made(options, files, asked)
    for place, answer in enumerate(answers(files, asked) if made is None else [made]):
        if place and not options.json and not options.quiet:
            show.say()
        show.conclude(options, answer.answer(), answer.records, partial(_show, answer))
    return 0


def _made(options: Namespace, files: list[Path], asked: Point) -> Found | None:
    """A system that is read or planned; None where described ones are asked for."""
    if getattr(options, "import"):
        return from_files(files, asked)
    if options.this:
        if files:
            raise ConfigError(f"{files[0]}: --this reads the machine at hand, no files; --import reads files")
        return this_system(asked)
    if files == [Path(NEW)]:
        return new_system(asked)
    if other := next((file for file in files if file.suffix not in YAML and is_file(file)), None):
        raise ConfigError(f"{other}: not the YAML of a system; --import reads nvidia-smi topo, NCCL's XML and the like")
    return None


def _show(answer: Answer | Found) -> None:
    match answer:
        case Found():
            show_found.found(answer)
        case Listed(about):
            tables.systems(about)
        case Described(machine, transport):
            tables.copies(machine, transport)
            if show.everything():
                show.say()
                tables.parts(machine)
                tables.matrix(machine)
            else:
                show.say("more: who is linked to whom, parts and their sources: --all; which GPUs for a job: pick=4")
        case Paired(machine, transport, _):
            tables.pairs(machine.name, transport, list(answer.records()))
        case Routed(routes):
            for machine, found in routes:
                tables.routes(machine, found)
        case Costed([plan], sizes):
            tables.costs(plan, sizes)
        case Costed(plans, sizes):
            tables.side_by_side(plans, sizes)
        case Ranked(machine, library, name, size_bytes, choices):
            tables.choices(machine, choices, f"{name} with library={library}", size_bytes)
