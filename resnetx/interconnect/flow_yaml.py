"""Values as one line of YAML each, as the files of systems have them."""

from collections.abc import Iterator, Mapping
from typing import Any

from resnetx.loading import is_bare_text


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{named(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quoted(value) if isinstance(value, str) else _number(value) if isinstance(value, float) else str(value)


def quoted(text: str) -> str:
    """A text as it is where YAML takes it so, else in quotes, in one line."""
    return text if is_bare_text(text) and not text[0].isdigit() else f'"{"".join(map(_letter, text))}"'


def named(key: str) -> str:
    """The same of a key."""
    return key if is_bare_text(key) else quoted(key)


def _letter(letter: str) -> str:
    """A character within double quotes (YAML 1.2.2, section 5.7), where some may not stand as they are."""
    if letter in '\\"':
        return f"\\{letter}"
    code = ord(letter)
    return letter if letter.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(value: float) -> str:
    """As short as can be, but never another number."""
    return short if float(short := f"{value:g}") == value else repr(value)


def one_line(text: str) -> str:
    """A text as the end of a comment."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def part_lines(table: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"  {table}:"
    for name, entry in parts.items():
        yield f"    {named(name)}:"
        yield from (f"      {key}: {flow(value)}" for key, value in entry.items())
