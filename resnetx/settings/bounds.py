"""Checks numbers against the range of their setting, which `settings.table` has with its reason.

    bounds.check({"gpus": 0})       # ConfigError: gpus=0: expected at least 1

A value is rejected where it has no meaning, or would crash a run hours later; whether a given machine can run it is
checked elsewhere. Numbers that are not finite are rejected for every setting.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from resnetx.errors import ConfigError
from resnetx.settings.table import TABLE, Range
from resnetx.units import seconds, size

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


def _no_quantity(key: str, value: Any) -> ConfigError:
    _, what = _READ[TABLE[key].unit]
    return ConfigError(f"{key}={value}: expected {what}, e.g. {TABLE[key].example}")


def check(settings: Mapping[str, Any], least: Mapping[str, tuple[float, str]] | None = None) -> None:
    """Rejects numbers outside of their setting's range; values of other types are checked elsewhere.

    `given`: setting -> value, list of values, or group of settings. `least`: larger minima than the table's, each with
    the text that explains it (" for AlexNet").
    """
    for name, number in _numbers("", settings):
        low, needed_for = (least or {}).get(name, (None, ""))
        _check(name, number, _range(name), low, needed_for)


def _range(name: str) -> Range:
    """The range of a setting, or of the group that it is in."""
    while name and name not in BOUNDS:
        name = name.rpartition(".")[0]
    return BOUNDS.get(name, Range(-math.inf))


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


def _check(name: str, number: float, bounds: Range, least: float | None, needed_for: str) -> None:
    low = bounds.least if least is None else least
    if isinstance(number, float) and not math.isfinite(number):
        raise ConfigError(f"{name}={number}: expected a finite number")
    if number < low or (bounds.above and number == low):
        what, null = "more than" if bounds.above else "at least", f", or null for {bounds.null}" * bool(bounds.null)
        raise ConfigError(f"{name}={_text(number)}: expected {what} {_text(low)}{needed_for}{null}")
    if number > bounds.most:
        why = f" ({bounds.why})" * bool(bounds.why)
        raise ConfigError(f"{name}={_text(number)}: expected at most {_text(bounds.most)}{why}")


def _text(number: float) -> str:
    """A number as it is written, unless it has more digits than fit on a line."""
    if isinstance(number, float):
        return f"{number:.0f}" if number.is_integer() and abs(number) < 1e15 else f"{number:g}"
    return str(number) if abs(number) < 10**40 else "a number of more than 40 digits"
