"""`doctor`: what this machine can run, and with clock=... which clock its GPUs hold."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from resnetx import packages
from resnetx.cli import show
from resnetx.cli.compose import chosen, compose, group_of
from resnetx.cli.grammar import CLOCKED
from resnetx.config import run_settings_from
from resnetx.errors import ConfigError

if TYPE_CHECKING:
    from resnetx.measure.doctor.finding import Finding


def doctor_(options: Namespace, _: list[Path], overrides: list[str]) -> int:
    """Examines this machine; status 1 where something that every run needs is missing."""
    if obstacle := packages.not_unix():
        raise ConfigError(obstacle)
    tree = compose(chosen(overrides))
    if tree["clock"] is not None:
        from resnetx.cli.verbs.doctor_clock import clock

        return clock(options, overrides)
    for word in overrides:
        if group_of(word) in CLOCKED:
            raise ConfigError(f"{word}: goes with a clock; add clock=find, or a clock to try, as clock=1227MHz")
    from resnetx.measure.doctor.examination import examine

    findings = examine(Path(run_settings_from(tree).results), Path(tree["input"].get("root", "data/images")))
    if options.json:
        show.json_lines(findings)
    else:
        _show_findings(findings)
    return 1 if any(finding.state == "missing" and finding.needed for finding in findings) else 0


def _show_findings(found: "Sequence[Finding]") -> None:
    """What runs need and lack, then every finding, then the commands that change something."""
    lacking = [each.topic for each in found if each.state == "missing" and each.needed]
    show.say(
        f"No run can work here: {', '.join(lacking)} is missing."
        if lacking
        else "Runs work here: nothing that every run needs is missing."
    )
    show.say()
    show.table("", ["state", "topic", "~finding"], [[each.state, each.topic, each.what] for each in found])
    commands = list({each.mend: each for each in reversed(found) if each.mend}.values())[::-1]  # each once
    width = max((len(each.topic) for each in commands), default=0)
    if commands:
        show.say()
        show.say("What would change them", style="bold")
    for each in commands:
        show.line(f"{each.topic:{width}}  {each.mend}")
