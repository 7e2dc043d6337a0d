"""The user's mistakes: one sentence saying what was given, what was expected, and which setting to change.

    raise ConfigError("batch_size=0: expected at least 1")
    request = convert(tree, Request)            # a mistake in a tree is named by its path, as on the command line

Our own mistakes are `assert`s.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec


class ConfigError(Exception):
    """The user asked wrongly: one sentence saying what was given, what was expected and which setting to change."""


def unknown_name(what: str, given: str, known: Iterable[str], key: str) -> ConfigError:
    """The error for a name that nothing has: lists the known ones, the nearest first."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return ConfigError(f"{key}={given}: no {what} has that name{hint} Known: {', '.join(names)}")


def convert(tree: Any, kind: Any, root: str = "") -> Any:
    """The struct of type `kind` that plain values describe; `root`: the setting that they are the value of."""
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(sentence(str(error), tree, kind, root)) from None


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a word",
    "bool": "true or false",
    "array": "a list in brackets",
    "object": "a group of settings",
    "null": "nothing (null)",
}


def sentence(message: str, tree: Any, kind: Any, root: str = "") -> str:
    """msgspec's message ("Expected `int`, got `str` - at `$.batch_size`") in the words of the command line.

    `tree` is what was to become a `kind`.
    """
    what, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    steps = re.findall(r"[^.\[\]]+", path)
    value = tree
    for step in steps:
        try:
            value = value[int(step)] if isinstance(value, list) else value.get(step)
        except (AttributeError, IndexError, ValueError):
            break
    key = ".".join(part for part in (root, path) if part) or "the configuration"
    if found := re.fullmatch(r"Expected `([^`]+)`, got `[^`]+`", what):
        expected = " or ".join(_TYPES.get(word.strip(), word.strip()) for word in found[1].split("|"))
        return f"{key}={value}: expected {expected}"
    if re.fullmatch(r"Invalid (?:enum value|value) (.+)", what):
        known = ", ".join(dict.fromkeys(map(str, allowed(kind, steps))))
        return f"{key}={value}: not one of the known values" + f" ({known})" * bool(known)
    return f"{key}: {what[0].lower()}{what[1:]}"


def allowed(kind: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The values that a `Literal` at a path of a type may have; none where it is no `Literal`."""
    if not steps:
        for each in _members(kind):
            yield from get_args(each) if get_origin(each) is Literal else ()
        return
    first, *rest = steps
    for each in _members(kind):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            if first == each.__struct_config__.tag_field:
                yield each.__struct_config__.tag
            elif first in (hints := get_type_hints(each, include_extras=True)):
                yield from allowed(hints[first], rest)
        elif get_origin(each) in (list, dict, tuple):
            yield from allowed(get_args(each)[-1], rest)


def _members(kind: Any) -> Iterator[Any]:
    """The types that a union is of; any other type is one of itself."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for each in get_args(kind):
            yield from _members(each)
    else:
        yield kind
