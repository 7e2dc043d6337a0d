"""`--cfg job`: the configuration that a command would use, as YAML, one document for each point."""

from collections.abc import Sequence
from typing import Any

import yaml

from resnetx.cli import show
from resnetx.compose import asked, compose, points_of
from resnetx.errors import ConfigError
from resnetx.settings.verbs import VERBS, reads
from resnetx.study import Point


def show_configuration(kind: str, verb: str, given: Point) -> int:
    """Prints the settings that the verb reads."""
    if kind != "job":
        raise ConfigError(f"--cfg {kind}: expected --cfg job, the configuration that the command would use")
    _, points = points_of(asked(verb, given))
    documents = [_own(compose(point), VERBS[verb].settings) for point in points]
    show.lines(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True).removesuffix("\n"))
    return 0


def _own(tree: dict[str, Any], own: Sequence[str], above: str = "") -> dict[str, Any]:
    """The part of a configuration that the verb reads."""
    found = {}
    for name, value in tree.items():
        key = f"{above}{name}"
        if reads(own, key):
            found[name] = value
        elif isinstance(value, dict) and (inside := _own(value, own, f"{key}.")):
            found[name] = inside
    return found
