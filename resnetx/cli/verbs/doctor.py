"""`doctor`: what this machine can run, and with clock=... which clock its GPUs sustain."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx.api.doctor import findings
from resnetx.cli import show
from resnetx.study import Point

if TYPE_CHECKING:
    from resnetx.measure.doctor.finding import Finding


def doctor_(options: Namespace, _: list[Path], asked: Point) -> int:
    """Examines this machine; status 1 where something that every run needs is missing."""
    if asked.get("clock") is not None:
        return _clock(options, asked)
    examined = findings(asked)
    show.conclude(options, [_works(examined)], lambda: examined, partial(_show_findings, examined))
    return 1 if any(finding.state == "missing" and finding.needed for finding in examined) else 0


def _clock(options: Namespace, asked: Point) -> int:
    """Status 1 where GPUs hold no clock, or not the one that was tried."""
    from resnetx.api.doctor_clock import find_clock
    from resnetx.cli.tables.show_clock import show_clock

    search = find_clock(asked)
    if options.json:
        show.json_lines([search.answer])
    else:
        show_clock(search.answer, search.load, search.wanted_MHz, search.before_MHz, some=search.some)
    return 0 if search.answer.clock_MHz else 1


def _works(findings: "Sequence[Finding]") -> str:
    """What works here."""
    lacking = [finding.topic for finding in findings if finding.state == "missing" and finding.needed]
    if lacking:
        return f"Predicting, comparing and reporting work here. Measuring needs what is missing: {', '.join(lacking)}."
    return "Runs work here: nothing that every run needs is missing."


def _show_findings(findings: "Sequence[Finding]") -> None:
    """Every finding, then the commands that improve them."""
    show.table(
        "", ["state", "topic", "~finding"], [[finding.state, finding.topic, finding.what] for finding in findings]
    )
    commands = list({finding.fix: finding for finding in reversed(findings) if finding.fix}.values())[
        ::-1
    ]  # no command twice
    width = max((len(command.topic) for command in commands), default=0)
    if commands:
        show.say()
        show.say("Fixes", style="bold")
    for each in commands:
        show.line(f"{each.topic:{width}}  {each.fix}")
