"""What shells complete, and `--cfg job`: the settings of a verb with their values.

    eval "$(resnetx -sc install=bash)"      # or zsh, fish

argcomplete queries the parser of `cli`, which calls `words`; nothing here loads Hydra or torch.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from resnetx.cli import show
from resnetx.compose import asked, compose, points_of
from resnetx.errors import ConfigError
from resnetx.settings import setting_types as types
from resnetx.settings.files import CONFIGS, choices, searching, settings
from resnetx.settings.setting_types import value_word
from resnetx.settings.table import TABLE
from resnetx.settings.verbs import VERBS, reads
from resnetx.study import Point

SHELLS = ("bash", "zsh", "fish")


def script(asked: str) -> str:
    """The script that a shell evaluates to complete commands of resnetx; `asked`: "install=bash"."""
    from argcomplete.shell_integration import shellcode

    action, _, shell = asked.partition("=")
    if action != "install" or shell not in SHELLS:
        raise ConfigError(f"--shell-completion {asked}: expected install=bash, install=zsh or install=fish")
    return str(shellcode(["resnetx"], shell=shell))


def words(prefix: str, parsed_args: argparse.Namespace) -> Iterable[str]:
    """The settings of the verb, or the values after "="; argcomplete drops those with another prefix."""
    own = VERBS[parsed_args.verb].settings
    with searching(getattr(parsed_args, "config_dir", None) or []):
        key, equals, value = prefix.partition("=")
        if equals:
            begun = re.match(r"(\[(.*,)?)?", value)  # a list, of which the last value is being written
            assert begun, "an empty beginning always matches"
            return [f"{key}={begun[0]}{value}" for value in _values(parsed_args.verb, key)] if reads(own, key) else []
        found = [setting.name for setting in settings() if reads(own, setting.name) and setting.default]
        return [f"{name}=" for name in dict.fromkeys(found)]


def _values(verb: str, key: str) -> Iterable[str]:
    """The values of a setting, if they can be listed."""
    row = TABLE.get(key)
    if row is None or row.choices:
        return sorted(choices(key)) if row else []
    return [value_word(value) for value in types.values(row.type_for(verb))] or _named(key)


def _named(key: str) -> Iterable[str]:
    """The names that a setting of systems and predictions may have."""
    match key:
        case "systems" | "study":
            return sorted(path.stem for path in (CONFIGS / key.removesuffix("s")).glob("*.yaml"))
        case "pattern":
            from resnetx import patterns

            return patterns.NAMES
        case "collective" | "library":
            from resnetx.interconnect.collectives.plan import LIBRARIES
            from resnetx.operations import OPERATIONS

            return OPERATIONS if key == "collective" else LIBRARIES
    return []


# `--cfg job`: the configuration that a command would use, as YAML, one document for each point.


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
