"""`doctor`: what this machine can run, and with clock=... which clock its GPUs sustain."""

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
            raise ConfigError(f"{word}: only with a clock; add clock=find, or a clock to test, e.g. clock=1227MHz")
    from resnetx.measure.doctor.examination import examine

    findings = examine(Path(run_settings_from(tree).results), Path(tree["input"].get("root", "data/images")))
    if options.json:
        show.json_lines(findings)
    else:
        _show_findings(findings)
    return 1 if any(finding.state == "missing" and finding.needed for finding in findings) else 0


def _show_findings(findings: "Sequence[Finding]") -> None:
    """Whether runs work, then every finding, then the commands that improve them."""
    lacking = [each.topic for each in findings if each.state == "missing" and each.needed]
    show.say(
        f"Runs cannot work here; missing: {', '.join(lacking)}."
        if lacking
        else "Runs work here: nothing that every run needs is missing."
    )
    show.say()
    show.table("", ["state", "topic", "~finding"], [[each.state, each.topic, each.what] for each in findings])
    commands = list({each.fix: each for each in reversed(findings) if each.fix}.values())[::-1]  # no command twice
    width = max((len(each.topic) for each in commands), default=0)
    if commands:
        show.say()
        show.say("Fixes", style="bold")
    for each in commands:
        show.line(f"{each.topic:{width}}  {each.fix}")
