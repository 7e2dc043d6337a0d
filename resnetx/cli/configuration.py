"""`--cfg job`: the configuration that a command would use, as YAML, one document for each point."""

from typing import Any

import yaml

from resnetx.cli.compose import compose, points_of
from resnetx.cli.grammar import Verb, reads
from resnetx.errors import ConfigError


def show_configuration(kind: str, verb: Verb, overrides: list[str]) -> int:
    """Prints the settings that the verb reads."""
    if kind != "job":
        raise ConfigError(f"--cfg {kind}: expected --cfg job, the configuration that the command would use")
    _, points = points_of(overrides)
    documents = [_own(compose(point), verb) for point in points]
    print(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True), end="")
    return 0


def _own(tree: dict[str, Any], verb: Verb, above: str = "") -> dict[str, Any]:
    """The part of a configuration that the verb reads."""
    found = {}
    for name, value in tree.items():
        key = f"{above}{name}"
        if reads(verb.settings, key):
            found[name] = value
        elif isinstance(value, dict) and (inside := _own(value, verb, f"{key}.")):
            found[name] = inside
    return found
