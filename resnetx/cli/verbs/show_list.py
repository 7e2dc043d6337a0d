"""`list`: what comes with resnetx, by name."""

from argparse import Namespace
from pathlib import Path

from resnetx import patterns, study
from resnetx.cli import show
from resnetx.errors import ConfigError
from resnetx.settings.files import CONFIGS, choices
from resnetx.settings.table import GROUPS

PLURALS = {
    "model": "models",
    "input": "inputs",
    "strategy": "strategies",
    "tracker": "trackers",
    "pattern": "patterns",
    "study": "studies",
}


def list_(_: Namespace, paths: list[Path], __: study.Point) -> int:
    """Names what comes with resnetx, and the choices in folders of the user's own; `paths`: of what alone."""
    known = {
        word: name for name in (*GROUPS, "pattern", "study", "systems") for word in (name, PLURALS.get(name, "system"))
    }
    for path in paths:
        if str(path) not in known:
            raise ConfigError(f"{path}: nothing that is listed; expected {', '.join(PLURALS.values())} or systems")
    wanted = {known[str(path)] for path in paths} or set(known.values())
    show.entries((f"{group}=", ", ".join(sorted(choices(group)))) for group in GROUPS if group in wanted)
    if "pattern" in wanted:
        show.entries([("pattern=", ", ".join(sorted(patterns.NAMES)))])
    if "model" in wanted:
        show.say("model=NAME, too, of any classifier of torchvision.models: model=resnet50", indent=2)
    if "study" in wanted and not paths:
        show.entries([("study=", ", ".join(sorted(study.names())))])
        show.say("what each is: resnetx list studies", indent=2)
    elif "study" in wanted:
        show.say("study=", style="bold")
        show.entries(study.names().items(), indent=2)
    if "systems" in wanted:
        if wanted - {"systems"}:
            show.say()
        show.say("systems=  (`resnetx topology` describes them)", style="bold")
        show.say("  " + ", ".join(sorted(path.stem for path in (CONFIGS / "system").glob("*.yaml"))))
    return 0
