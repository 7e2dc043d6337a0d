"""User errors: one sentence with what was given, what was expected, and which setting to change.

    raise ConfigError("batch_size=0: expected at least 1")
    request = convert(tree, Request)            # an error in a tree is reported by its path, as on the command line

A problem with a file is a `FileError`, which is a `ConfigError`: code that can do without the file catches it, other
code lets it end the command. Our own invariants are `assert`s.
"""

import difflib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

# ---- visible --------------------------------------------------------------------------------------------------------
# How text from anywhere is shown: control characters are written out, as a terminal would obey them.
#
# A name in a file may hold an escape that clears the screen, a character that reverses what follows, or a line break,
# behind which it goes on as a line of resnetx's own ("resnetx: every record was verified").
#
#     visible("a\x1b[2J")          # a\x1b[2J, and line breaks stay: text of several lines
#     on_one_line("a\nb")          # a\x0ab: text that enters a sentence, a cell or a line

# C0 and C1 controls except tab and newline, direction controls (a terminal would reorder what follows), line breaks
# that terminals treat differently, and code points that are not characters, as surrogates.
UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
_CONTROL = re.compile(rf"[\t\n]|{UNSHOWN.pattern}")


def visible(text: str) -> str:
    """The text with control characters written out, but for tabs and line breaks: an escape is `\\x1b`."""
    return UNSHOWN.sub(_escape, text)


def on_one_line(text: str) -> str:
    """The text with all control characters written out, tabs and line breaks among them: `\\x0a`."""
    return _CONTROL.sub(_escape, text)


def has_unshown(text: str) -> bool:
    """Whether `visible` would write out any of it."""
    return bool(UNSHOWN.search(text))


def has_control(text: str) -> bool:
    """Whether a text has a control character: a line break, a tab, an escape."""
    return bool(_CONTROL.search(text))


def texts(value: Any) -> Iterator[str]:
    """All texts in a plain value, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(key)
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# ---- errors ---------------------------------------------------------------------------------------------------------

Kind = TypeVar("Kind")


class ConfigError(Exception):
    """A user error: one sentence with what was given, what was expected and which setting to change.

    It is one line, whatever was given: control characters are written out.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(on_one_line(sentence))


class FileError(ConfigError):
    """A file that cannot be read or is malformed: one sentence that names the file and the line."""


def shortened(value: Any, characters: int = 200) -> str:
    """A given value, cut to fit into a message: a file may hold a megabyte where a word is expected."""
    text = str(value)
    return text if len(text) <= characters else f"{text[:characters]}..."


def meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known names that an unknown one may stand for, as "dgx1-p100 or dgx1-v100"; "" where none is near.

    Those of which it is the beginning or a part between dashes, of many the first; else the nearest.
    """
    name, names = name.lower(), sorted(set(known))
    longer = [other for other in names if other.startswith(name) or name in other.split("-")] if len(name) > 2 else []
    if len(longer) > 4:
        longer = [*sorted(longer, key=len)[:2], f"{len(longer) - 2} others that begin so (`resnetx list`)"]
    if not longer:
        longer = difflib.get_close_matches(name[:100], names, n=1, cutoff=cutoff)
    return " or ".join(filter(None, [", ".join(longer[:-1]), *longer[-1:]]))


def unknown_name(what: str, name: str, known: Iterable[str], key: str) -> ConfigError:
    """The error for an unknown name: suggests the nearest known name, and lists them, of many the first."""
    names = sorted(known)
    name = shortened(name)
    near = meant(name, names)
    hint = f"; did you mean {near}?" if near else "."
    if near and len(names) > MOST_LISTED:
        return ConfigError(f"{key}={name}: no {what} has that name{hint}")
    where = "resnetx list" if key in ("systems", "like", "study", "model") else ""
    return ConfigError(f"{key}={name}: no {what} has that name{hint} Known: {some(names, where)}")


MOST_LISTED = 8  # names in a sentence


def some(names: Sequence[str], where: str = "resnetx list") -> str:
    """Names in a sentence: of many the first, and which command lists them."""
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:5])} and {len(names) - 5} more{f' (`{where}`)' * bool(where)}"


def convert(tree: Any, kind: Any, root: str = "") -> Any:
    """Plain values as a struct of type `kind`; `root`: the setting whose value they are."""
    try:
        return msgspec.convert(tree, prepared(kind))
    except msgspec.ValidationError as error:
        raise ConfigError(sentence(str(error), tree, kind, root)) from None


_prepared: set[Any] = set()
_preparing = threading.Lock()


def prepared(kind: Kind) -> Kind:
    """The type itself, once msgspec has made what it keeps of one: all types that values are read as go through here.

    msgspec makes that when it first reads a value, and lets other threads see it half made: two that begin at once, as
    those of a check of several nodes, end the process with SIGSEGV (0.22.0).
    """
    if kind not in _prepared:
        with _preparing:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list in brackets",
    "object": "a group of settings",
    "null": "nothing (null)",
}


def sentence(message: str, tree: Any, kind: Any, root: str = "") -> str:
    """msgspec's message ("Expected `int`, got `str` - at `$.batch_size`") as an error about a setting.

    `tree` is the value that was converted to `kind`.
    """
    what, _, where = message.partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    if path.endswith("[...]"):  # a value of a map, whose key msgspec does not name
        path = path.removesuffix("[...]")
        path = f"{path}.{_key_of(_at(tree, path), what)}".strip(".")
    value = _at(tree, path)
    key = ".".join(part for part in (root, path) if part) or "the configuration"
    if match := re.fullmatch(r"Expected `([^`]+)`, got `[^`]+`", what):
        maps = any(get_origin(member) is dict for member in _types_at(kind, _steps(path)))
        names = _TYPES | {"object": "values by name (NAME:VALUE)"} if maps else _TYPES
        expected = " or ".join(names.get(word.strip(), word.strip()) for word in match[1].split("|"))
        given = str(value).lower() if isinstance(value, bool) else "null" if value is None else shortened(value)
        text = f", as {key}=NAME" * (match[1].split("|")[0].strip() == "str")
        return f"{key}={given}: expected {expected}{text}"  # each as it is typed
    if re.fullmatch(r"Invalid (?:enum value|value) (.+)", what):
        known = ", ".join(dict.fromkeys(map(str, allowed(kind, _steps(path)))))
        return f"{key}={shortened(value)}: not one of the known values" + f" ({known})" * bool(known)
    return f"{key}: {shortened(what[0].lower() + what[1:])}"


def _steps(path: str) -> list[str]:
    return re.findall(r"[^.\[\]]+", path)


def _at(tree: Any, path: str) -> Any:
    """The value at a path of msgspec's, as far as there is one."""
    value = tree
    for step in _steps(path):
        try:
            value = value[int(step)] if isinstance(value, list) else value.get(step)
        except (AttributeError, IndexError, ValueError):
            break
    return value


def _key_of(values: Any, what: str) -> str:
    """The key of the first value of the kind that msgspec says it got ("Expected `float`, got `str`"); "": of none."""
    got = what.rpartition("got `")[2].rstrip("`")
    names = {str: "str", bool: "bool", int: "int", float: "float", list: "array", dict: "object", type(None): "null"}
    items = values.items() if isinstance(values, Mapping) else ()
    return next((str(key) for key, value in items if names.get(type(value)) == got), "")


def allowed(kind: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The values of the `Literal` at a path of a type; none if it is not a `Literal`."""
    for member in _types_at(kind, steps):
        yield from get_args(member) if get_origin(member) is Literal else ()


def _types_at(kind: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The types that the value at a path of a type may have."""
    if not steps:
        yield from _members(kind)
        return
    first, *rest = steps
    for each in _members(kind):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            if first == each.__struct_config__.tag_field:
                yield Literal[each.__struct_config__.tag]
            elif first in (hints := get_type_hints(each, include_extras=True)):
                yield from _types_at(hints[first], rest)
        elif get_origin(each) in (list, dict, tuple):
            yield from _types_at(get_args(each)[-1], rest)


def _members(kind: Any) -> Iterator[Any]:
    """The member types of a union; any other type alone."""
    if get_origin(kind) is Annotated:
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for argument in get_args(kind):
            yield from _members(argument)
    else:
        yield kind
