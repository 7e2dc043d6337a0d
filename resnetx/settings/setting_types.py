"""The types of settings: in words, as a word of the command line is read, and the ranges of numbers."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import or_
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from resnetx.errors import ConfigError
from resnetx.settings.table import TABLE, Range, Setting
from resnetx.units import seconds, size

# ---- words ----------------------------------------------------------------------------------------------------------
# The types of settings in words, for help, and how a word of the command line is read as one.
#
# `words("predict", "batch_size")` is "integer or list", of which each value is a point; of "clock" "text or number".

_WORDS = {int: "integer", float: "number", str: "text"}
ONE_POINT = ("train", "verify", "doctor")  # verbs of one point, which refuse several with a sentence of their own


def members(kind: Any) -> tuple[Any, ...]:
    """The types that a union is of; any other type alone."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def field_type(row: Setting, verb: str = "", question: str = "") -> Any:
    """The type of a setting in a struct: of a question of a verb, or in a group, where an axis may have several values.

    Keys of maps are text, as on the command line.
    """
    kinds = [_plain(row, kind) for kind in members(row.type_for(verb))]
    kind = reduce(or_, kinds)
    several = GenericAlias(list, (kind,))
    if not verb and row.axis:
        return reduce(or_, [each for each in kinds if each is not NoneType]) | several | None
    return several if not question and verb in row.several.split() else kind


def _plain(row: Setting, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return str if row.near else kind
    return GenericAlias(dict, (str, get_args(kind)[1])) if get_origin(kind) is dict else kind


def title(name: str) -> str:
    """A name as a part of the name of a type: `WhatIf` of "what_if"."""
    return name.title().replace("_", "").replace(".", "")


def values(kind: Any) -> list[Any]:
    """The values that can be listed: of true and false, and of words."""
    found: list[Any] = []
    for member in members(kind):
        found += [True, False] if member is bool else get_args(member) if get_origin(member) is Literal else []
    return found


def words(verb: str, name: str) -> str:
    """The types of a verb's setting; without true and false, and names that its meaning lists."""
    row = TABLE[name]
    kinds = members(row.type_for(verb))
    if get_origin(kinds[0]) is dict:
        return "map of names to values"
    if list[int] in kinds:
        return "list of integers"
    said = [_WORDS[kind] for kind in kinds if kind in _WORDS]
    said += ["map"] * any(get_origin(kind) is dict for kind in kinds)
    return " or ".join(said + ["list"] * row.takes_list(verb))


def takes_map(name: str) -> bool:
    """Whether a setting is, or may be, a map: `price`, of which `gx8:8` is a pair."""
    return name in TABLE and any(get_origin(kind) is dict for kind in members(TABLE[name].type))


def takes_one_text(name: str, verb: str | None) -> bool:
    """Whether a setting may be a text, and is never a list: of a verb, or of all that have it."""
    row = TABLE.get(name)
    return row is not None and not _listed(row, verb) and str in members(row.type_for(verb or ""))


def is_text_alone(name: str) -> bool:
    """Whether a setting is text or one of several words, and never a number or a switch: `results`."""
    kinds = members(TABLE[name].type) if name in TABLE else ()
    return bool(kinds) and all(kind in (str, NoneType) or get_origin(kind) is Literal for kind in kinds)


def _listed(row: Setting, verb: str | None) -> bool:
    if verb is None or verb in ONE_POINT:
        return bool(row.axis or row.several)
    return row.takes_list(verb)


def is_whole(name: str) -> bool:
    """Whether every number of a setting is a whole one."""
    kinds = members(TABLE[name].type) if name in TABLE else ()
    return bool({int, list[int]}.intersection(kinds)) and float not in kinds


def takes_counts(name: str) -> bool:
    """Whether a setting is a whole number, or a list of them, and never text: `gpus`, of which `1..8` is a range."""
    kinds = members(TABLE[name].type) if name in TABLE else ()
    return bool({int, list[int]}.intersection(kinds)) and str not in kinds


def takes_sizes(name: str) -> bool:
    """Whether a setting takes several sizes in bytes: `size`, of which `1MiB..1GiB` is a range."""
    row = TABLE.get(name)
    return row is not None and row.unit == "B" and bool(row.several)


def takes_sets(name: str) -> bool:
    """Whether a value of a setting is a list of numbers, so that several values are lists: `devices`."""
    row = TABLE.get(name)
    return row is not None and list[int] in members(row.type) and bool(row.axis)


def takes_list_of_counts(name: str) -> bool:
    """Whether a setting is a list of whole numbers, and never one alone: `free`, of which `0` is a list of one."""
    kinds = members(TABLE[name].type) if name in TABLE else ()
    return list[int] in kinds and int not in kinds


# Settings as words of the command line: `model.x=[1,4]`.


def written(settings: Mapping[str, Any]) -> Iterator[str]:
    """Settings as words of the command line."""
    yield from (f"{key}={value_word(value)}" for key, value in settings.items())


def as_typed(settings: Mapping[str, Any]) -> Iterator[str]:
    """The same as people type it, without brackets: `gpus=1,8`, `devices=0+1`, `rate=dgx-a100:64:2400`."""
    for key, value in settings.items():
        between = "+" if takes_sets(key) else ","
        yield f"{key}={_typed_word(value, between)}"


def _typed_word(value: Any, between: str) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{_typed_word(inner, between)}" for key, inner in value.items())
    if isinstance(value, list):
        several = any(isinstance(inner, list) for inner in value)
        return ("," if several else between).join(_typed_word(inner, between) for inner in value)
    return value_word(value)


def key_of(word: str) -> str:
    """The setting that a word of the command line is about: "model.x" of "model.x=4"."""
    return word.lstrip("+~").partition("=")[0].partition("@")[0]


def value_word(value: Any) -> str:
    """A plain value as the command line has it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(value_word, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{value_word(inner)}' for key, inner in value.items())}}}"
    return str(value)


def squeezed(word: str) -> str:
    """A name by its letters and digits alone: ResNet-50 and resnet_50 are resnet50."""
    return word.lower().replace("_", "").replace("-", "")


def bare_word(value: Any) -> str:
    """The same as people type it, without brackets: `0+1` of GPU ids, `32:195,64:219` of a map."""
    if isinstance(value, list):
        return "+".join(map(value_word, value))
    return value_word(value).strip("{}")


def plain_value(word: str) -> str | int | float | bool | None:
    """A word of a text of settings as the value that it is on the command line: a number, true, false, null or text."""
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    return word


_CONSTANTS = {"true": True, "false": False, "null": None}


# ---- ranges ---------------------------------------------------------------------------------------------------------
# Checks numbers against the range of their setting (`settings.table`): outside, or not finite, they have no meaning, or
# would crash a run hours later; whether a machine can run them is checked elsewhere.
#     bounds.check({"gpus": 0})       # ConfigError: gpus=0: expected at least 1

BOUNDS = {row.name: row.range for row in TABLE.values() if row.range} | {
    "images.classes x images.per_class": Range(1, 10**7, "1.1 TB; ILSVRC2012 has 1.3 million"),
}


_READ: dict[str, tuple[Callable[[str], float], str]] = {"s": (seconds, "a duration"), "B": (size, "a size")}


def converted(key: str, value: Any) -> Any:
    """A text with a unit ("2h", "16GB") as a number in that of the setting; other values are returned unchanged."""
    read, _ = _READ[TABLE[key].unit]
    try:
        return read(value) if isinstance(value, str) else value
    except ValueError:
        raise _no_quantity(key, value) from None


def seconds_of(key: str, value: str | float) -> float:
    """A setting's duration, a number of seconds or with a unit, in its range."""
    try:
        found_s = float(converted(key, value))
    except (ValueError, TypeError):
        raise _no_quantity(key, value) from None
    check({key: found_s})
    return found_s


def bytes_of(key: str, value: str | int | None) -> int | None:
    """A setting's size in bytes, a number or with a unit, in its range; None stays None."""
    size_bytes: int | None = converted(key, value)
    check({key: size_bytes})
    return size_bytes


def refuse_no_sizes(settings: Mapping[str, Any]) -> None:
    """Refuses sizes that are no whole number of bytes."""
    for key, value in settings.items():
        sizes = value if isinstance(value, list) else [value]
        if key in TABLE and TABLE[key].unit == "B" and any(isinstance(size, float | bool) for size in sizes):
            raise _no_quantity(key, value_word(sizes[0] if len(sizes) == 1 else sizes))


def _no_quantity(key: str, value: Any) -> ConfigError:
    _, what = _READ[TABLE[key].unit]
    return ConfigError(f"{key}={value}: expected {what}, e.g. {TABLE[key].example}")


def check(settings: Mapping[str, Any], least: Mapping[str, tuple[float, str]] | None = None) -> None:
    """Rejects numbers outside of their setting's range; values of other types are checked elsewhere.

    `given`: setting -> value, list of values, or group of settings. `least`: larger minima than the table's, each with
    the text that explains it (" for AlexNet").
    """
    for name, number in _numbers("", settings):
        if isinstance(number, float) and not math.isfinite(number):
            raise ConfigError(f"{name}={number}: expected a finite number")
        bounded = name  # or the group that it is in
        while bounded and bounded not in BOUNDS:
            bounded = bounded.rpartition(".")[0]
        if (bounds := BOUNDS.get(bounded)) is None:
            continue
        low, needed_for = (least or {}).get(name, (bounds.least, ""))
        if number < low or (bounds.above and number == low):
            what, null = "more than" if bounds.above else "at least", f", or null for {bounds.null}" * bool(bounds.null)
            sized = name in TABLE and TABLE[name].unit == "B" and low > 1
            unit = f" B, e.g. {TABLE[name].example}" if sized else ""
            raise ConfigError(f"{name}={_text(number)}: expected {what} {_text(low)}{unit}{needed_for}{null}")
        if number > bounds.most:
            why = f" ({bounds.why})" * bool(bounds.why)
            raise ConfigError(f"{name}={_text(number)}: expected at most {_text(bounds.most)}{why}")


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """The numbers in a setting's value, each with its name."""
    if isinstance(value, Mapping):
        for below, inner in value.items():
            if inner is not None and not isinstance(
                inner, str | bool
            ):  # most are: this is asked for each of many points
                yield from _numbers(f"{name}.{below}" if name else str(below), inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _numbers(name, inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _text(number: float) -> str:
    """A number as it is written, unless it has more digits than fit on a line."""
    if isinstance(number, float):
        return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:g}"
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"
