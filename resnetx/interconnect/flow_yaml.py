"""Values as one line of YAML each, as the files of systems have them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def flow(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return quoted(value) if isinstance(value, str) else _number(value) if isinstance(value, float) else str(value)


def quoted(text: str) -> str:
    """A text as it is where YAML takes it so, else in quotes."""
    plain = text and all(letter.isalnum() or letter in "-._" for letter in text) and text.isascii()
    bare = plain and not text[0].isdigit() and text[0] not in "-."
    return text if bare else json.dumps(one_line(text), ensure_ascii=False)


def _number(value: float) -> str:
    """As short as can be, but never another number."""
    return short if float(short := f"{value:g}") == value else repr(value)


def one_line(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def part_lines(table: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"  {table}:"
    for name, entry in parts.items():
        yield f"    {name}:"
        yield from (f"      {key}: {flow(value)}" for key, value in entry.items())
