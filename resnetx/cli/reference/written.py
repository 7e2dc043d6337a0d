"""What is written out of the table of settings: the files of `configs/` as Hydra has them, and the keywords of verbs.

`tests/test_docs.py` compares each text with its file.
"""

from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from resnetx.settings.table import GROUPS, SECTIONS, TABLE, Setting
from resnetx.settings.types import members
from resnetx.settings.verbs import VERBS
from resnetx.settings.words import value_word

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
    words = [f"{row.name.removeprefix(f'{group}.')}: {value_word(row.default)}" for row in own]
    for row, word in zip(own, words, strict=True):
        yield f"{word:<{max(map(len, words))}} # {row.about_of(choice)}"


# ---- keywords -------------------------------------------------------------------------------------------------------

_KEYWORDS = '''"""The keyword arguments of the library's functions: which settings each verb has, and the type of each.

A keyword is a setting of the command line; a group of settings is a dictionary: `model={"kind": "resnetx", "x": 4}` is
`model=resnetx model.x=4`. What is not given has its default of `configs/`.

Written by `python -m resnetx.cli.reference` from `table`; edit that, not this file. Annotations are text to Python
(nothing is imported for them), and types to whoever checks or completes a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar, Union

if TYPE_CHECKING:
    from resnetx.choices import Input, Model, Strategy, Tracker

Text = str | PathLike[str]  # a name, or a path
V = TypeVar("V")
Axis = Union[V, Sequence[V]]  # noqa: UP007  # one value, or several
'''


def keywords() -> str:
    """The text of `resnetx/settings/keywords.py`."""
    groups = [row for row in TABLE.values() if row.choices or row.type is None]
    classes = [
        _class(f"{_title(row)}Settings", f"Settings of the group `{row.name}`.", _of_group(row)) for row in groups
    ]
    single = [row for row in TABLE.values() if row.verbs and "." in row.name]
    classes += [_class(_single(row), f"`{row.name}` alone.", [_field(row, "")]) for row in single]
    for verb in VERBS.values():
        if verb.settings:
            own = [_field(row, verb.name) for row in TABLE.values() if row.name in verb.settings]
            classes.append(_class(f"{verb.name.title()}Keywords", f"Settings of `{verb.name}`.", own))
    return "\n\n".join([_KEYWORDS, *classes])


def _class(name: str, about: str, fields: list[str]) -> str:
    return "\n".join([f'class {name}(TypedDict, total=False):\n    """{about}"""\n', *fields, ""])


def _title(row: Setting) -> str:
    return row.name.title().replace("_", "")


def _single(row: Setting) -> str:
    return row.name.title().replace(".", "")


def _of_group(group: Setting) -> list[str]:
    kind = ["    kind: str"] if group.choices else []
    return kind + [_field(row, "") for row in TABLE.values() if row.name.startswith(f"{group.name}.")]


def _field(row: Setting, verb: str) -> str:
    """`verb`: "": in a group, which several verbs have."""
    group, _, key = row.name.partition(".")
    if key and verb:
        return f"    {group}: {_single(row)}"
    text, several = annotation(row, verb), row.takes_list(verb) if verb else bool(row.axis)
    if row.choices:
        text = f"Axis[{text}]" if several else text
        text = f"{text} | {_title(row)}Settings | {_title(row)}"
    elif row.type is None:
        text = f"{_title(row)}Settings"
    elif several and get_origin(row.type) is dict:
        key_text, value_text = (_text(kind, path=False) for kind in get_args(row.type))
        text = f"Mapping[{key_text}, Axis[{value_text}]]"
    elif several:
        text = f"Axis[{text}]"
    return f"    {key or group}: {text}"


def annotation(row: Setting, verb: str) -> str:
    """The type of one value, as an annotation."""
    return _text(row.type_for(verb), row.path)


def _text(kind: Any, path: bool) -> str:
    if len(kinds := members(kind)) > 1:
        return " | ".join(_text(each, path) for each in kinds)
    arguments = ", ".join(_text(each, path=False) for each in get_args(kind) if get_origin(kind) is not Literal)
    if get_origin(kind) is Literal:
        words = ", ".join(f'"{value}"' for value in get_args(kind))
        return f"Literal[{words}]"
    if get_origin(kind) is list:
        return f"Sequence[{arguments}]"
    if get_origin(kind) is dict:
        return f"Mapping[{arguments}]"
    return "None" if kind in (None, NoneType) else "Text" if kind is str and path else str(kind.__name__)
