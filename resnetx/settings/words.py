"""Settings as words of the command line: `model.x=[1,4]`."""

from collections.abc import Iterator, Mapping
from typing import Any


def written(settings: Mapping[str, Any]) -> Iterator[str]:
    """Settings as words of the command line."""
    yield from (f"{key}={value_word(value)}" for key, value in settings.items())


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
