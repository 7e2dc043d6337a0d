"""`list`: what comes with resnetx, by name."""

from argparse import Namespace
from pathlib import Path

from resnetx import patterns, study
from resnetx.cli import show
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.table import GROUPS


def list_(_: Namespace, __: list[Path], ___: study.Point) -> int:
    """Names what comes with resnetx, and the choices in folders of the user's own."""
    show.entries((f"{group}=", ", ".join(sorted(choices(group)))) for group in GROUPS)
    show.entries([("pattern=", ", ".join(sorted(patterns.NAMES)))])
    show.say("model=torchvision model.name=NAME: any classifier of torchvision.models", indent=2)
    show.say()
    show.say("study=", style="bold")
    show.entries(study.names().items(), indent=2)
    show.say()
    show.say("systems=  (`resnetx topology` describes them)", style="bold")
    show.say("  " + ", ".join(sorted(path.stem for path in (CONFIGS / "system").glob("*.yaml"))))
    return 0
