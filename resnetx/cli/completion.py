"""Completion in the shell: verbs, flags, and the settings of each verb with their known values.

    eval "$(resnetx -sc install=bash)"      # or zsh, fish

argcomplete queries the parser of `cli`, which calls `words`; nothing here loads Hydra or torch.
"""

import argparse
import re
from collections.abc import Iterable

from resnetx.config import CONFIGS, GROUPS, Images, RunSettings
from resnetx.errors import ConfigError, allowed
from resnetx.request import Request
from resnetx.settings.files import choices, searching, settings
from resnetx.settings.verbs import READS, reads

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
    own = READS[parsed_args.verb].settings
    with searching(getattr(parsed_args, "config_dir", None) or []):
        key, equals, value = prefix.partition("=")
        if equals:
            begun = re.match(r"(\[(.*,)?)?", value)  # a list, of which the last value is being written
            assert begun, "an empty beginning always matches"
            return [f"{key}={begun[0]}{value}" for value in _values(key)] if reads(own, key) else []
        found = [setting.name for setting in settings() if reads(own, setting.name) and setting.default]
        return [f"{name}=" for name in dict.fromkeys(found)]


def _values(key: str) -> Iterable[str]:
    """The values of a setting, if they can be listed."""
    if key in GROUPS:
        return sorted(choices(key))
    if any(setting.name == key and setting.default in ("true", "false") for setting in settings()):
        return ["true", "false"]
    steps = key.removeprefix("images.").split(".")
    kinds = [Images] if key.startswith("images.") else [Request, RunSettings]
    return [str(value) for kind in kinds for value in allowed(kind, steps)] or _named(key)


def _named(key: str) -> Iterable[str]:
    """The names that a setting of systems and predictions may have."""
    match key:
        case "systems" | "study":
            return sorted(path.stem for path in (CONFIGS / key.removesuffix("s")).glob("*.yaml"))
        case "collective" | "library":
            from resnetx.interconnect.collective import LIBRARIES
            from resnetx.operations import OPERATIONS

            return OPERATIONS if key == "collective" else LIBRARIES
        case "transport" | "framework" | "gradients" | "memory_model" | "staged":
            from resnetx.api.predict_settings import PredictSettings

            return map(str, allowed(PredictSettings, [key]))
    return []
