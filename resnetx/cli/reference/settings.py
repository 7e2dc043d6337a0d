"""`docs/settings.md`: every setting with its default, type, range and meaning, and the verbs that read it."""

import math
from collections.abc import Iterator
from operator import itemgetter
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from resnetx.settings.files import Line, choices, settings
from resnetx.settings.table import GROUPS, SECTIONS, TABLE, Range, Setting
from resnetx.settings.verbs import PUBLIC, VERBS, Verb, reads
from resnetx.settings.words import field_type, members, title, value_word, written
from resnetx.table import GENERATED, code, table

_WORDS = {int: "integer", float: "number", str: "text", type(None): "null"}

HEAD = f"""# Settings

{GENERATED}

Every setting is written `key=value` on the command line, or stands in a study's YAML file. A verb rejects settings
that it does not read; `resnetx VERB --help` lists those that it reads. How values and lists are written is in
[command-line.md](command-line.md).

- **type**: what the setting accepts. `text` includes quantities with a unit, such as `16GB` or `2h`; `list of ...` is
  written `1,2,4`, of integers also `1..8`. `resnetx sweep` and the verbs that take a study accept a list of values for
  any setting of a point.
- **range**: the smallest and the largest value that is accepted. Numbers that are not finite are always rejected.
- **read by**: the verbs; a verb's own default stands behind its name where it differs.
"""


def page() -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for section in SECTIONS:
        own = {row.name for row in section.settings}
        rows = [_row(alike) for alike in _alike([line for line in settings() if line.name in own])]
        lines += [f"## {section.title[0].upper()}{section.title[1:]}", ""]
        lines += [*table(("setting", "default", "type", "range", "meaning", "read by"), rows), ""]
    return "\n".join(lines)


def _alike(lines: list[Line]) -> list[list[Line]]:
    """Settings of one name, default and meaning together: a setting that several choices of a group have."""
    together: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        together.setdefault((line.name, line.default, line.about), []).append(line)
    return list(together.values())


def _row(alike: list[Line]) -> list[str]:
    setting = alike[0]
    having = [line.of for line in alike]
    return [
        code(setting.name),
        code(setting.default),
        " or ".join(_types(setting.name)) or "group",
        _range(TABLE[setting.name].range),
        f"{_only(setting, having)}{setting.about if setting.name not in GROUPS else ''}".strip(),
        ", ".join(_reader(name, verb, setting) for name, verb in VERBS.items() if _reads(verb, setting)),
    ]


def _only(setting: Line, having: list[str]) -> str:
    """The choices that have a setting, where not all choices of its group do."""
    group = setting.name.partition(".")[0]
    if not setting.of or set(having) == set(choices(group)):
        return ""
    return f"({', '.join(code(f'{group}={each}') for each in having)}) "


def _reads(verb: Verb, setting: Line) -> bool:
    inner = [each for each in verb.settings if each.startswith(f"{setting.name}.")]
    return reads(verb.settings, setting.name) or bool(inner)


def _reader(name: str, verb: Verb, setting: Line) -> str:
    own = dict(word.split("=", 1) for word in written(verb.own)).get(setting.name)
    return f"{name} (`{own}`)" if own else name


def _range(bounds: Range | None) -> str:
    if bounds is None:
        return ""
    least = f"{'more than' if bounds.above else 'at least'} {_number(bounds.least)}"
    most = (
        "" if math.isinf(bounds.most) else f", at most {_number(bounds.most)}" + f" ({bounds.why})" * bool(bounds.why)
    )
    return least + most


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


# ---- types ----------------------------------------------------------------------------------------------------------


def _types(name: str) -> list[str]:
    """What a setting accepts, as one value or, beside points, as several."""
    row = TABLE[name]
    if row.choices:
        return [code(choice) for choice in sorted(choices(name))]
    kinds = [row.type, *row.types.values()]
    words = list(dict.fromkeys(word for kind in kinds if kind is not None for word in _words(kind)))
    words += [f"list of {_joined(row.type)}"] * bool(row.several)
    return [*(word for word in words if word != "null"), *["null"] * ("null" in words)]


def _words(annotation: Any) -> Iterator[str]:
    for member in members(annotation):
        if member is bool:
            yield from ("`true`", "`false`")
        elif get_origin(member) is Literal:
            yield from (code(str(value)) for value in get_args(member))
        elif get_origin(member) is list:
            yield f"list of {_joined(get_args(member)[0])}"
        elif get_origin(member) is dict:
            yield f"map of names to {_joined(get_args(member)[1])}"
        elif member in _WORDS:
            yield _WORDS[member]


def _joined(annotation: Any) -> str:
    words = list(_words(annotation))
    return f"({' or '.join(words)})" if len(words) > 1 else "".join(words)


# What is written out of the table of settings: the files of `configs/` as Hydra has them, and the types of keywords.
#
# `tests/test_docs.py` compares each text with its file.

# ---- configs/ -------------------------------------------------------------------------------------------------------

_BY = "written by `python -m resnetx.cli.reference` from resnetx/settings/table.py"
_TOP = f"# The defaults of every setting, {_BY}.\n# Each can be changed on the command line: key=value.\n"
_HYDRA = """
hydra:
  run: {dir: .}
  output_subdir: null
  help:
    template: |-
      resnetx VERB [PATH ...] [--flag ...] [key=value ...]

      Groups (group=option):

      $APP_CONFIG_GROUPS

      Settings and their defaults (key=value):

      $CONFIG
  job_logging: {root: {handlers: []}, disable_existing_loggers: false, version: 1}
"""


def configs() -> dict[str, str]:
    """The text of each file, by its path in `configs/`."""
    files = {"config.yaml": "\n".join(_main())}
    for group in GROUPS:
        for choice in TABLE[group].choices:
            files[f"{group}/{choice}.yaml"] = "".join(f"{line}\n" for line in _choice(group, choice))
    return files


def _main() -> Iterator[str]:
    yield f"{_TOP}defaults:"
    yield from (f"  - {group}: {TABLE[group].default}" for group in GROUPS)
    yield "  - _self_"
    for section in SECTIONS[1:]:
        yield f"\n# ---- {section.title}"
        for row in section.settings:
            *above, key = row.name.split(".")
            value = "" if row.type is None else f" {value_word(row.default)}"
            setting = "  " * len(above) + f"{key}:{value}"
            yield f"{setting:<21} # {row.about}" if row.about else setting
    yield _HYDRA


def _choice(group: str, choice: str) -> Iterator[str]:
    yield f"kind: {choice}"
    own = [row for row in TABLE.values() if choice in row.of.split() and row.name.startswith(f"{group}.")]
    defaults = [value_word(row.default_of(choice)) or '""' for row in own]
    words = [f"{row.name.removeprefix(f'{group}.')}: {word}" for row, word in zip(own, defaults, strict=True)]
    for row, word in zip(own, words, strict=True):
        yield f"{word:<{max(map(len, words))}} # {row.about_of(choice)}"


# ---- resnetx.NAME ---------------------------------------------------------------------------------------------------


def public() -> str:
    """The text of `resnetx/__init__.pyi`."""
    imports = [
        f"from {module} import {name} as {name}" for name, module in sorted(PUBLIC.items(), key=itemgetter(1, 0))
    ]
    listed = [f'    "{name}",' for name in sorted(PUBLIC)]
    return "\n".join([*imports, "", "__version__: str", "__all__ = [", *listed, "]", ""])


# ---- keywords -------------------------------------------------------------------------------------------------------

_STUB = """# The types that `keywords` makes of the table, for whoever checks or completes a program; written by
# `python -m resnetx.cli.reference`: edit resnetx/settings/table.py, not this file.

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypedDict, TypeVar

import msgspec

from resnetx.choices import Input, Model, Optimizer, Strategy, Tracker

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = V | Sequence[V]  # one value, or several
"""


def keywords() -> str:
    """The text of `resnetx/settings/keywords.pyi`."""
    classes = [_STUB]
    for group in TABLE.values():
        inner = [row for row in TABLE.values() if row.name.startswith(f"{group.name}.")]
        kind = ["kind: str"] if group.choices else []
        if inner:
            classes.append(_typed(f"{title(group.name)}Settings", [*kind, *(_keyword(row, "") for row in inner)]))
        if inner and not kind:
            classes.append(_struct(f"{title(group.name)}Group", [f"{_key(row)}: {_field(row)}" for row in inner], True))
    classes += [_typed(title(row.name), [_keyword(row, "")]) for row in TABLE.values() if row.verbs and "." in row.name]
    for verb in VERBS.values():
        own = [_keyword(row, verb.name) for row in TABLE.values() if row.name in verb.settings]
        classes += [_typed(f"{title(verb.name)}Keywords", own)] * bool(own)
        for question in ("", *verb.questions):
            fields = [f"{key}: {_field(TABLE[key], verb.name, question)}" for key in verb.fields(question)]
            classes += [_struct(f"{title(verb.name)}{title(question)}Fields", fields)] * bool(fields)
    return "\n".join(classes)


def _typed(name: str, fields: list[str]) -> str:
    return "\n    ".join([f"class {name}(TypedDict, total=False):", *fields]) + "\n"


def _struct(name: str, fields: list[str], strict: bool = False) -> str:
    known = ", forbid_unknown_fields=True" * strict
    return "\n    ".join([f"class {name}(msgspec.Struct, frozen=True, kw_only=True{known}):", *fields]) + "\n"


def _key(row: Setting) -> str:
    return row.name.rpartition(".")[2]


def _field(row: Setting, verb: str = "", question: str = "") -> str:
    return f"{title(row.name)}Group" if row.type is None else _text(field_type(row, verb, question), path=False)


def _keyword(row: Setting, verb: str) -> str:
    """`verb`: "": in a group, which several verbs have."""
    group, _, key = row.name.partition(".")
    if key and verb:
        return f"{group}: {title(row.name)}"
    text = _text(row.type_for(verb), row.path, several="Sequence", mapped="Mapping")
    several = row.takes_list(verb) if verb else bool(row.axis)
    if row.choices:
        text = f"Axis[{text}]" if several else text
        text = f"{text} | {title(row.name)}Settings | {title(row.name)}"
    elif row.type is None:
        text = f"{title(row.name)}Settings"
    elif several and get_origin(row.type) is dict:
        text = f"Mapping[str, Axis[{_text(get_args(row.type)[1], row.path)}]]"
    elif several:
        text = f"Axis[{text}]"
    return f"{key or group}: {text}"


def _text(kind: Any, path: bool, several: str = "list", mapped: str = "dict") -> str:
    """A type as it is written; `path`: a text may be a `Path`."""
    if len(kinds := members(kind)) > 1:
        return " | ".join(_text(each, path, several, mapped) for each in kinds)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        words = ", ".join(f'"{value}"' for value in arguments)
        return f"Literal[{words}]"
    if origin is None:
        return "None" if kind in (None, NoneType) else "Text" if kind is str and path else str(kind.__name__)
    inner = ", ".join(_text(argument, path and origin is list, several, mapped) for argument in arguments)
    return f"{several if origin is list else mapped}[{inner}]"
