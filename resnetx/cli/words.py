"""From the words of a command line to settings: the only module that knows Hydra, whose grammar they are in.

Hydra's grammar has lists and maps in brackets, which shells take for patterns (zsh), or take apart (`{`). So they are
also written without: `gpus=1,2,4,8`, `gpus=1..8` or `1-8`, `size=1MiB..1GiB` (each twice the one before),
`rate=32:195,64:219`, `rate=32:195,32:210` for a list of maps, and `devices=0+1,2+3` for a list of lists.
In a text of which a verb takes one, in paths of images and in values of `env.NAME`, a comma is a comma
(`NCCL_ALGO=Ring,Tree`); several values of these need brackets. Hydra itself refuses a comma outside of quotes and
brackets.
"""

import re
from itertools import pairwise
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException

from resnetx.errors import ConfigError, shortened
from resnetx.settings import setting_types
from resnetx.settings.files import at_home
from resnetx.settings.setting_types import key_of
from resnetx.settings.table import PATHS, TABLE
from resnetx.study import Point
from resnetx.units import size, size_text

MAX_BRACKETS = 10_000  # of a word: a list of as many lists of devices
MAX_RANGE = 10_000  # numbers of a range
_RANGE = re.compile(r"(\d{1,9})(?:\.\.|-)(\d{1,9})")
# Of a map, by the type of its keys: numbers have numbers.
_PAIRS = {int: re.compile(r"\d+:[+-]?[\d.]+([eE][+-]?\d+)?"), str: re.compile(r"[\w.-]+:[^:/]+")}


def settings_of(overrides: list[str], verb: str | None = None) -> Point:
    """The settings given on the command line of a verb, as values; a list is several values of one setting."""
    for before, word in pairwise(overrides):  # the last one counts, as in `"$@"` behind defaults, but of a map
        key, first, second = key_of(word), before.partition("=")[2], word.partition("=")[2]
        if key_of(before) == key and first != second and _are_pairs(key, [first]) and _are_pairs(key, [second]):
            raise ConfigError(
                f"{shortened(before)} {shortened(word)}: {key} is given twice; several values are one word, "
                f"{key}={shortened(first)},{shortened(second)} (a shell takes {{ }} apart, unless it is quoted)"
            )
    for override in (parsed := [_parsed(word, verb) for word in overrides]):
        if override.is_sweep_override():
            key, _, values = shortened(override.input_line).partition("=")
            raise ConfigError(f"{key}={values}: write several values as {_several(key, verb)}, or a text in quotes")
        if override.package is not None:
            raise ConfigError(
                f"{shortened(override.input_line)}: @{override.package}: resnetx has no packages; leave it out"
            )
        if override.type is not OverrideType.CHANGE:
            raise ConfigError(
                f"{shortened(override.input_line)}: settings can be changed (key=value), not added or removed"
            )
    return at_home({override.key_or_group: _unquoted(override.value()) for override in parsed})


def _parsed(word: str, verb: str | None) -> Override:
    try:
        word.encode()
    except UnicodeEncodeError:  # Python passes bytes that are not UTF-8 as lone surrogates
        raise ConfigError(f"{shortened(ascii(word))}: not valid UTF-8") from None
    try:
        if sum(map(word.count, "[{(")) > MAX_BRACKETS:  # which take minutes, or the whole stack
            raise ValueError
        return OverridesParser.create().parse_override(_with_tilde_quoted(_bracketed(word, verb)))
    except (HydraException, RecursionError, ValueError):  # the last two: from very many brackets or digits
        quoted = "a value with characters other than letters, digits and ./_-+ needs quotes: key=\"'a b'\""
        if word.count("[") != word.count("]") or word.count("{") != word.count("}"):
            quoted = f"a bracket is not closed: write a list as one word, {_several(shortened(key_of(word)), verb)}"
        raise ConfigError(f"{shortened(word)}: not of the form key=value; {quoted}") from None


def _several(key: str, verb: str | None) -> str:
    """How several values of a setting are written."""
    return f"{key}=[A,B]" if _is_text(key, verb) else f"{key}=A,B"


def _is_text(key: str, verb: str | None) -> bool:
    return key.startswith("env.") or (key in TABLE and TABLE[key].comma) or setting_types.takes_one_text(key, verb)


def _are_pairs(key: str, items: list[str]) -> bool:
    """Whether words are pairs of a map, `32:195` of `rate`."""
    keys = setting_types.keys_of_map(key)
    return keys is not None and all(map(_PAIRS[keys].fullmatch, items))


def _bracketed(word: str, verb: str | None) -> str:
    """A list or a map that is written without brackets, in Hydra's grammar: gpus=1,2 is gpus=[1,2]."""
    key, _, value = word.partition("=")
    if not value or re.search(r"[\[\]{}()'\"\\]", value):
        return word
    items = value.split(",")
    if _are_pairs(key, items):
        maps = _maps(items)
        if len(maps) == 1 or not TABLE[key].takes_list(verb or ""):
            return f"{key}={{{value}}}"
        return f"{key}=[{','.join(f'{{{each}}}' for each in maps)}]"
    if _is_text(key, verb):
        return (
            f"{key}='{value}'" if re.search(r"[,=^]|[^\x00-\x7f]", value) else word
        )  # which Hydra takes in quotes only
    if setting_types.takes_sets(key) and "+" in value:
        sets = ",".join(f"[{','.join(item.split('+'))}]" for item in items)
        return f"{key}=[{sets}]"
    ranged = setting_types.takes_counts(key) and any(map(_RANGE.fullmatch, items))
    if setting_types.takes_sizes(key) and any(".." in item for item in items):
        return f"{key}=[{','.join(size for item in items for size in _doubled(word, item))}]"
    if not value.isascii():  # which Hydra takes in quotes only: names of files
        items = [item if item.isascii() else f"'{item}'" for item in items]
        word = f"{key}={','.join(items)}"
    if len(items) == 1 and not ranged:
        return word
    if "" in (item.strip() for item in items):
        raise ConfigError(f"{shortened(word)}: nothing beside a comma; write a list as one word, {key}=A,B")
    return f"{key}=[{','.join(_counted(word, item) if ranged else item for item in items)}]"


def _maps(pairs: list[str]) -> list[str]:
    """The pairs of each of several maps: where a key comes again, another one begins."""
    found: list[dict[str, str]] = [{}]
    for pair in pairs:
        key = pair.partition(":")[0]
        if key in found[-1]:
            found.append({})
        found[-1][key] = pair
    return [",".join(each.values()) for each in found]


def _counted(word: str, item: str) -> str:
    """The numbers of a range, with commas; an item that is none as it is."""
    match = _RANGE.fullmatch(item)
    if not match:
        return item
    first, last = int(match[1]), int(match[2])
    if not first <= last < first + MAX_RANGE:
        raise ConfigError(f"{shortened(word)}: expected a range upwards of at most {MAX_RANGE:,} numbers, as 1..8")
    return ",".join(map(str, range(first, last + 1)))


def _doubled(word: str, item: str) -> list[str]:
    """The sizes of a range, each twice the one before, up to the last; an item that is none as it is."""
    first, dots, last = item.partition("..")
    if not dots:
        return [item]
    try:
        low, high = size(first), size(last)
    except ValueError as error:
        raise ConfigError(f"{shortened(word)}: {error}; a range is 1MiB..1GiB") from None
    if not 0 < low <= high:
        raise ConfigError(f"{shortened(word)}: expected a range upwards, as 1MiB..1GiB")
    sizes = [low << double for double in range((high // low).bit_length())]
    texts = [size_text(size_bytes).replace(" ", "") for size_bytes in sizes]
    return [
        text if size(text) == size_bytes else str(size_bytes) for size_bytes, text in zip(sizes, texts, strict=True)
    ]


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
