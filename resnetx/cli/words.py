"""From the words of a command line to settings: the only module that knows Hydra, whose grammar they are in."""

import re
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException

from resnetx.config import PATHS, at_home
from resnetx.errors import ConfigError, shortened
from resnetx.settings.words import key_of
from resnetx.study import Point

MAX_BRACKETS = 10_000  # of a word: a list of as many lists of devices


def settings_of(overrides: list[str]) -> Point:
    """The settings given on the command line, as values; a list is several values of one setting."""
    for override in (parsed := [_parsed(word) for word in overrides]):
        if override.is_sweep_override():
            key, _, values = shortened(override.input_line).partition("=")
            raise ConfigError(f"{key}={values}: write several values as a list, {key}=[{values}]")
        if override.package is not None:
            raise ConfigError(
                f"{shortened(override.input_line)}: @{override.package}: resnetx has no packages; leave it out"
            )
        if override.type is not OverrideType.CHANGE:
            raise ConfigError(
                f"{shortened(override.input_line)}: settings can be changed (key=value), not added or removed"
            )
    return at_home({override.key_or_group: _unquoted(override.value()) for override in parsed})


def _parsed(word: str) -> Override:
    try:
        word.encode()
    except UnicodeEncodeError:  # Python passes bytes that are not UTF-8 as lone surrogates
        raise ConfigError(f"{shortened(ascii(word))}: not valid UTF-8") from None
    try:
        if sum(map(word.count, "[{(")) > MAX_BRACKETS:  # which take minutes, or the whole stack
            raise ValueError
        return OverridesParser.create().parse_override(_with_tilde_quoted(word))
    except (HydraException, RecursionError, ValueError):  # the last two: from very many brackets or digits
        quoted = "a value with characters other than letters, digits and ./_-+ needs quotes: key=\"'a b'\""
        raise ConfigError(f"{shortened(word)}: not of the form key=value; {quoted}") from None


def _with_tilde_quoted(word: str) -> str:
    """The word in Hydra's grammar, which accepts `~` in quotes only: out=~/x is out="~/x"."""
    if key_of(word) not in PATHS or re.search("['\"]", word):
        return word
    return re.sub(r"(?<=[=\[,])~[^,\[\]]*", lambda path: f'"{path[0]}"', word)


def _unquoted(value: Any) -> Any:
    if isinstance(value, list):
        return [_unquoted(item) for item in value]
    if isinstance(value, dict):
        return {str(_unquoted(key)): _unquoted(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int | float) else getattr(value, "text", str(value))
