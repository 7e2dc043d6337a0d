"""YAML as plain values with their lines.

A file becomes dictionaries with string keys, lists, strings, numbers, true, false and null: the types of JSON, with the
syntax of the command line. Other YAML types of a bare word (dates, yes and no, octal and sexagesimal numbers) are
strings, and tags are rejected. The tree is built from the parser's events, which do not
recurse, so that a small file can neither overflow the stack nor, by aliases, fill the memory.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from resnetx.errors import FileError, prepared, sentence, shortened
from resnetx.loading.content import File

T = TypeVar("T")

YAML_BYTES = 2**20  # limit for files written by hand: studies, systems, settings
MAX_DEPTH = 32  # of nested lists and groups; our own files have 5
MAX_VALUES = 100_000  # with aliases expanded: a few lines of them can exceed any memory
MAX_DIGITS = 40  # of a number; a float has 17 significant ones

MERGE = "<<"  # the key whose value is merged

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9](?:_?[0-9])*)")
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")


def is_bare_text(word: str) -> bool:
    """Whether a word of letters, digits, `-`, `.` and `_` is that text in YAML, without quotes around it."""
    plain = word.isascii() and all(letter.isalnum() or letter in "-._" for letter in word)
    other = word in _WORDS or any(kind.fullmatch(word) for kind in (_WHOLE, _NUMBER, _NOT_FINITE))
    return plain and not other and word[0] not in "-."


Path_ = Sequence[str | int]  # to a value: the keys, and the places in lists


class YamlFile:
    """The tree of a file, and the line of each of its values. `whole_keys`: keys may be whole numbers."""

    def __init__(self, file: File, whole_keys: bool = False) -> None:
        import yaml

        self.file, text = file, file.text()
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times as fast, if available
        keys = (str, int) if whole_keys else (str,)
        try:
            self.tree, self._lines = _built(file, keys, yaml.parse(text, Loader=loader))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            message = f"not YAML: {shortened(error.problem or error.context or 'broken')}"
            raise file.error(message, mark.line + 1 if mark else None) from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: from escapes
            raise file.error(f"not YAML: {shortened(' '.join(str(error).split()))}") from None

    def error(self, where: Path_, what: str) -> FileError:
        """The error `what` about the value at `where`, with its line."""
        return self.file.error(what, self.line(where))

    def line(self, where: Path_) -> int:
        """The line of a value, or of its nearest parent if it is missing."""
        value, line = self.tree, 1
        for step in where:
            try:
                line, value = self._lines[id(value)][step], value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def convert(self, kind: Any, where: Path_ = (), given: Any = None) -> Any:
        """The value at `where` as `kind`, or an error with its line. `given`: use this value instead."""
        value = self._at(where) if given is None else given
        try:
            return msgspec.convert(value, prepared(kind))
        except msgspec.ValidationError as error:
            raise self.mistake(error, kind, where, value) from None

    def mistake(self, error: msgspec.ValidationError, kind: Any, where: Path_, value: Any) -> FileError:
        """The error for a value that msgspec cannot convert to `kind`."""
        said = sentence(str(error), value, kind, ".".join(map(str, where)))
        return self.error([*where, *steps(error)], said)

    def _at(self, where: Path_) -> Any:
        value = self.tree
        for step in where:
            value = value[step]
        return value


def own_yaml(path: Path, kind: type[T]) -> T:
    """A YAML file that comes with resnetx as `kind`; keys of it may be whole numbers."""
    read: T = YamlFile(File(path, "a file of resnetx", YAML_BYTES), whole_keys=True).convert(kind)
    return read


def steps(error: msgspec.ValidationError) -> list[str | int]:
    """The path at the end of msgspec's message: "... - at `$.points[3].size`"."""
    found = re.findall(r"[^.\[\]$`]+", str(error).rpartition(" - at `$")[2])
    return [int(step) if step.isdigit() else step for step in found]


# ---- building -------------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """A list or group that is not complete yet."""

    value: Any
    lines: Any  # of the same shape: the line of each item, or of each key
    anchor: str | None
    before: int  # number of values in the file when it began
    key: Any = None  # the key whose value comes next
    key_line: int = 0


def _built(file: File, keys: tuple[type, ...], events: Iterator[Any]) -> tuple[Any, dict[int, Any]]:
    """The tree of a file, and by the id of each list and group in it the lines of its items."""
    import yaml

    root: Any = None
    opened: list[_Open] = []
    values, documents = 0, 0
    anchors: dict[str, tuple[Any, int]] = {}  # the value of an alias, and the number of values in it
    lines: dict[int, Any] = {}
    for event in events:
        form, line = type(event), event.start_mark.line + 1 if event.start_mark else 1
        if form is yaml.DocumentStartEvent:
            documents += 1
            if documents > 1:
                raise file.error("a second document begins here; expected a single one", line)
            continue
        if form is yaml.SequenceEndEvent or form is yaml.MappingEndEvent:
            ended = opened.pop()
            if form is yaml.MappingEndEvent and MERGE in ended.value:
                _merge(file, ended.value, ended.lines, line)
            if ended.anchor is not None:
                anchors[ended.anchor] = (ended.value, values - ended.before)
            continue
        if form is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise file.error(f"*{shortened(event.anchor)}: no earlier value has this anchor", line)
            value, count = anchors[event.anchor]
        elif form in (yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent):
            if event.tag is not None:
                raise file.error(f"{shortened(event.tag)}: YAML tags are not supported; expected plain values", line)
            count = 1
            if form is not yaml.ScalarEvent:
                value = [] if form is yaml.SequenceStartEvent else {}
            elif event.implicit[0] and (event.value in _WORDS or event.value[0] in "+-.0123456789"):
                try:
                    value = _resolved(event.value)
                except ValueError as error:
                    raise file.error(f"{shortened(event.value)}: {error}", line) from None
            else:
                value = event.value
            if form is yaml.ScalarEvent and event.anchor is not None:
                anchors[event.anchor] = (value, 1)
        else:
            continue  # the ends of the stream and of the document
        before, values = values, values + count
        if values > MAX_VALUES:
            raise file.error(f"more than {MAX_VALUES} values; expected {file.what}", line)
        if not opened:
            root = value
        elif isinstance((inside := opened[-1]).value, list):
            inside.value.append(value)
            inside.lines.append(line)
        elif inside.key is None:
            if type(value) not in keys:
                raise file.error("expected a word as the key, in quotes if need be", line)
            if value in inside.value:
                raise file.error(f"{shortened(value)} appears twice", line)
            inside.key, inside.key_line = value, line
        else:
            inside.value[inside.key] = value
            inside.lines[inside.key] = inside.key_line
            inside.key = None
        if form in (yaml.SequenceStartEvent, yaml.MappingStartEvent):
            if len(opened) == MAX_DEPTH:
                raise file.error(f"nested more than {MAX_DEPTH} deep; expected {file.what}", line)
            lines[id(value)] = type(value)()
            opened.append(_Open(value, lines[id(value)], event.anchor, before))
    return root, lines


@lru_cache(maxsize=4096)  # the same figures stand again and again in a file
def _resolved(text: str) -> Any:
    """The value of a bare word; a `ValueError` says what is wrong with a number."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        if len(text) > MAX_DIGITS or not -(2**63) <= int(text) < 2**63:
            raise ValueError("a whole number of more than 64 bits")
        return int(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError("expected a finite number")
    if _NUMBER.fullmatch(text):
        if len(text) > MAX_DIGITS or not math.isfinite(float(text)):
            raise ValueError(f"expected a finite number of at most {MAX_DIGITS} digits")
        return float(text)
    return text


def _merge(file: File, value: dict[Any, Any], lines: dict[Any, int], line: int) -> None:
    """Merges the value of `<<` into its group, whose own keys win."""
    merged, line = value.pop(MERGE), lines.pop(MERGE, line)
    if not isinstance(merged, dict):
        raise file.error(f"{MERGE}: expected one group of settings, to be merged into the one around it", line)
    own, own_lines = dict(value), dict(lines)
    value.clear()
    value.update({**merged, **own})
    lines.update({**dict.fromkeys(merged, line), **own_lines})
